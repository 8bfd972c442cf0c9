//! Turns: who has the disk, for how long, when it is waited for, and what it is charged at the end.

use super::raise::RAISE;
use super::{ASYNC, Bfq};
use crate::contract::time::Nanos;
use crate::elevator::queue::Queue;

/// A seeking queue is waited for no longer than this.
const SEEKY_IDLE_MAX: Nanos = Nanos::from_millis(2);

/// A device that was ever given more requests than this at a time queues commands itself.
const QUEUEING_DEPTH: u32 = 3;

/// Why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It was waited for in vain.
    TooIdle,
    /// Its time was up.
    TimedOut,
    /// The next request costs more than is left of the budget.
    Exhausted,
    /// It had no more requests and waiting did not pay.
    NoRequests,
    /// A raised queue came.
    Preempted,
}

/// The turn of the active queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    started: Nanos,
    /// When it has to end.
    ends: Nanos,
    /// When waiting for it began, if it is waited for.
    idle_since: Option<Nanos>,
    /// Its budget, and how much of it is used.
    budget: u64,
    used: u64,
    /// The oldest request's age was looked at.
    pub(super) fifo_checked: bool,
}

impl Turn {
    /// A request that costs `charge` is given.
    #[inline]
    pub(super) fn give(&mut self, charge: u64) {
        self.used += charge;
    }
}

impl Bfq {
    /// The queue to serve now, which becomes the active one; none to wait for the active one.
    #[inline]
    pub(super) fn select(&mut self, now: Nanos, queue: &Queue) -> Option<u32> {
        if let Some(place) = self.active {
            let active = &self.queues[place as usize];
            let ended = if now >= self.turn.ends {
                Ended::TimedOut
            } else if let Some((_, id)) = active.order.next() {
                if self.turn.used + active.charge(queue[id].len) <= self.turn.budget {
                    return Some(place);
                }
                Ended::Exhausted
            } else if self.idle_timer.is_some() || active.in_flight > 0 && self.should_idle(place) {
                return None;
            } else {
                Ended::NoRequests
            };
            self.end_turn(now, ended, queue);
        }
        let place = self.fair.serve_next()?;
        self.begin_turn(now, place, queue);
        Some(place)
    }

    fn begin_turn(&mut self, now: Nanos, place: u32, queue: &Queue) {
        let budget = self.budget_for_next(place, queue);
        let raised = self.queues[place as usize].raised.is_raised();
        let timeout = self.config.timeout.0.saturating_mul(if raised { RAISE.into() } else { 1 });
        let ends = now + Nanos(timeout.max(1));
        self.turn = Turn { started: now, ends, budget, ..Turn::default() };
        self.active = Some(place);
        self.list(place);
    }

    /// The budget of a queue, which has requests: enough for the next one at least.
    #[inline]
    pub(super) fn budget_for_next(&self, place: u32, queue: &Queue) -> u64 {
        let waiting = &self.queues[place as usize];
        let next = waiting.order.next().map_or(0, |(_, id)| waiting.charge(queue[id].len));
        waiting.budget.max(next)
    }

    /// Ends the active queue's turn.
    pub(super) fn end_turn(&mut self, now: Nanos, how: Ended, queue: &Queue) {
        let Some(place) = self.active.take() else { return };
        self.idle_timer = None;
        let Turn { started, idle_since, budget, used, .. } = self.turn;
        let span = idle_since.unwrap_or(now) - started;
        let active = &mut self.queues[place as usize];
        let is_slow = self.budget_max.is_slow(used, span);
        // Who seeks gets a share of time, for its share of bytes would cost everyone dear.
        let timed_out_early = how == Ended::TimedOut && used <= budget / 3 * 2;
        if !active.raised.is_raised() && (is_slow || timed_out_early) {
            self.fair.serve(self.budget_max.worth(span).saturating_sub(used));
        }
        let alone = how == Ended::Exhausted || how == Ended::TimedOut;
        if active.is_sync && alone && !active.is_seeky() {
            self.budget_max.observe(used, span);
        }
        active.budget = match place {
            ASYNC => self.budget_max.bytes(),
            _ => self.budget_max.next(budget, used, how),
        };
        active.raised.expire(now);
        let waits = !active.order.is_empty();
        if !waits {
            active.raised.leave(now);
        }
        self.part(place);
        let next_turn = (self.queues[place as usize].weight(), self.budget_for_next(place, queue));
        self.fair.end_service(waits.then_some(next_turn));
        self.list(place);
    }

    /// Whether waiting for the next request of `place`, which is active, pays: by throughput, since
    /// it reads on nearby, or for the sake of weights, since another queue would get its share.
    fn should_idle(&self, place: u32) -> bool {
        let queue = &self.queues[place as usize];
        let idle = self.config.slice_idle;
        if place == ASYNC || idle == Nanos::ZERO || queue.streams == 0 || queue.think.exceeds(idle)
        {
            return false;
        }
        !queue.is_seeky() || self.deepest <= QUEUEING_DEPTH || !self.fair.is_symmetric(place)
    }

    /// Waits for the active queue's next request or ends its turn; its last one has completed.
    pub(super) fn idle_or_end(&mut self, now: Nanos, place: u32, queue: &Queue) {
        if now >= self.turn.ends {
            self.end_turn(now, Ended::TimedOut, queue);
        } else if !self.should_idle(place) {
            self.end_turn(now, Ended::NoRequests, queue);
        } else {
            let active = &self.queues[place as usize];
            let short =
                active.is_seeky() && !active.raised.is_raised() && self.fair.is_symmetric(place);
            let idle = self.config.slice_idle;
            self.turn.idle_since = Some(now);
            self.idle_timer = Some(now + if short { idle.min(SEEKY_IDLE_MAX) } else { idle });
        }
    }

    /// The active queue, which was waited for, has a request.
    #[inline]
    pub(super) fn stop_idling(&mut self) {
        self.idle_timer = None;
        self.turn.idle_since = None;
    }

    /// Ends the active queue's turn if it was waited for in vain.
    #[inline]
    pub(super) fn end_idle_turn(&mut self, now: Nanos, queue: &Queue) {
        if self.idle_timer.is_some_and(|at| at <= now) {
            self.end_turn(now, Ended::TooIdle, queue);
        }
    }
}
