//! Turns: which queue has the disk and for how long, when BFQ waits for a queue, and what a queue
//! is charged at the end of its turn.

use super::{ASYNC, Bfq};
use crate::contract::Nanos;
use crate::elevator::queue::Queue;

/// The longest wait for a seeking queue, and the shortest for a raised one.
const SEEKY_IDLE_MAX: Nanos = Nanos::from_millis(2);
const RAISED_IDLE_MIN: Nanos = Nanos::from_millis(20);

/// A device that has had more than this many requests at a time has a command queue.
const QUEUEING_DEPTH: u32 = 3;
/// After this many completions under sufficient load, it is decided whether the device has a
/// command queue.
const QUEUEING_SAMPLES: u32 = 32;

/// If other queues have this many requests at the device, they delay the next one of a raised
/// queue.
const CROWD: u32 = 4;

/// Why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The scheduler waited in vain for the queue's next request.
    TooIdle,
    /// The time of the turn was used up.
    TimedOut,
    /// The next request costs more than the remaining budget.
    Exhausted,
    /// The queue had no more requests and was not worth waiting for.
    NoRequests,
    /// A queue that has precedence became busy.
    Preempted,
}

/// The turn of the active queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    started: Nanos,
    /// When the turn must end.
    ends: Nanos,
    /// When the wait for the queue's next request began; `None` if the scheduler is not waiting.
    pub(super) idle_since: Option<Nanos>,
    /// Whether the age of the oldest request has been checked in this turn.
    pub(super) fifo_checked: bool,
}

/// Whether the device has a command queue, judged by how many requests it had at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Depth {
    pub(super) deepest: u32,
    samples: u32,
    /// The verdict; `None` until there are enough samples.
    queues: Option<bool>,
}

impl Bfq {
    /// Returns the queue to dispatch from; `None` to wait for the active queue.
    pub(super) fn select(&mut self, now: Nanos, queue: &Queue) -> Option<u32> {
        if let Some(place) = self.active
            && self.is_timed_out(now, place)
            && !self.must_idle(place)
        {
            self.end_turn(now, Ended::TimedOut, queue);
        }
        loop {
            let place = match self.active {
                Some(place) => place,
                None => self.begin_turn(now)?,
            };
            let active = &self.queues[place as usize];
            let how = if let Some((_, id)) = active.order.next() {
                if self.charge(place, queue[id].len) <= self.fair.left(place) {
                    self.stop_idling();
                    return Some(place);
                }
                Ended::Exhausted
            } else if self.idle_timer.is_some()
                || active.in_flight > 0 && self.is_better_idle(place)
            {
                return self.injected(now, place, queue);
            } else {
                Ended::NoRequests
            };
            self.end_turn(now, how, queue);
        }
    }

    fn begin_turn(&mut self, now: Nanos) -> Option<u32> {
        let place = self.fair.serve_next()?;
        self.budget_max.turn();
        let raised = &self.queues[place as usize].raised;
        let times = if raised.is_steady() { 1 } else { raised.factor() };
        let timeout = self.config.timeout.0.saturating_mul(times.into());
        self.turn = Turn { started: now, ends: now + Nanos(timeout.max(1)), ..Turn::default() };
        self.active = Some(place);
        self.active_end = None;
        self.list(place);
        Some(place)
    }

    /// Returns the budget of a queue, but at least enough for its next request.
    #[inline]
    pub(super) fn budget_for_next(&self, place: u32, queue: &Queue) -> u64 {
        let waiting = &self.queues[place as usize];
        let next = waiting.order.next().map_or(0, |(_, id)| self.charge(place, queue[id].len));
        waiting.budget.max(next)
    }

    /// Returns whether the active queue's time is up. While the scheduler waits for the queue, this
    /// also requires that it has used little of its budget.
    fn is_timed_out(&self, now: Nanos, place: u32) -> bool {
        now >= self.turn.ends && (self.idle_timer.is_none() || self.has_much_left(place))
    }

    fn has_much_left(&self, place: u32) -> bool {
        self.fair.left(place) >= self.fair.budget(place) / 3
    }

    /// Ends the active queue's turn.
    pub(super) fn end_turn(&mut self, now: Nanos, how: Ended, queue: &Queue) {
        let Some(place) = self.active else { return };
        let waited = self.turn.idle_since.filter(|_| self.idle_timer.is_some_and(|at| at <= now));
        self.idle_timer = None;
        let span = waited.unwrap_or(now) - self.turn.started;
        self.charge_time(place, span, how);
        let (idle, low_latency) = (self.config.slice_idle, self.config.low_latency);
        self.end_trial();
        self.adapt_budget(place, how);
        // A preempted queue that is worth waiting for stays in the fair order even without
        // requests.
        let stays = how == Ended::Preempted && self.needs_idling(place);
        self.active = None;
        let ending = self.queue(place);
        let is_dry = ending.order.is_empty();
        if low_latency && is_dry {
            let in_flight = ending.in_flight;
            ending.raised.dry(now, in_flight, idle);
        }
        let waits = !is_dry || stays;
        if !waits && ending.in_flight == 0 {
            ending.raised.idle_since = Some(now);
        }
        ending.may_be_back = !waits && how != Ended::TimedOut && how != Ended::Exhausted;
        self.part(place);
        let next_turn = (self.queues[place as usize].weight(), self.budget_for_next(place, queue));
        self.fair.end_service(waits.then_some(next_turn));
        self.list(place);
    }

    /// Charges a seeking queue for time, because it would otherwise get its share of bytes at too
    /// high a cost to all others.
    fn charge_time(&mut self, place: u32, span: Nanos, how: Ended) {
        let ending = &self.queues[place as usize];
        let served = self.fair.served(place);
        let seek = self.config.slice_idle;
        let (is_slow, span) = match ending.is_sync {
            true => self.budget_max.slow(served, span, ending.is_seeky(), seek),
            false => (false, span),
        };
        let timed_out_early = how == Ended::TimedOut && self.has_much_left(place);
        if !ending.raised.is_raised() && (is_slow || timed_out_early) {
            self.fair.charge(place, self.budget_max.worth(span).max(served));
        }
    }

    fn adapt_budget(&mut self, place: u32, how: Ended) {
        let ending = &self.queues[place as usize];
        let budget = match ending.raised.is_raised() {
            _ if !ending.is_sync => self.budget_max.bytes(),
            true if how == Ended::Preempted => ending.budget,
            true => 2 * self.budget_max.least(),
            false => {
                let (served, has_more) = (self.fair.served(place), ending.in_flight > 0);
                self.budget_max.next(ending.budget, served, how, has_more)
            }
        };
        self.queue(place).budget = budget;
    }

    /// Returns whether waiting for the next request of `place` increases the throughput of the
    /// disk, because the queue reads sequentially or the disk has no command queue. Returns false
    /// while other queues are raised, because waiting would delay them.
    pub(super) fn idling_boosts(&self, place: u32) -> bool {
        let queue = &self.queues[place as usize];
        let reads_on = !queue.is_seeky() && queue.is_io_bound && queue.thinks_briefly;
        (self.device.queues == Some(false) || reads_on) && self.raised_busy() == 0
    }

    /// Returns whether the scheduler must wait for the queue to give it its share, which other
    /// queues would use or already occupy at the device. If no other queue is busy, it also waits,
    /// because one may become busy.
    fn needs_idling(&self, place: u32) -> bool {
        let queue = &self.queues[place as usize];
        if queue.streams == 0 && queue.is_sync {
            return false;
        }
        let busy = self.fair.busy();
        let is_rushed = queue.raised.is_raised()
            && (self.raised_busy() < busy || self.in_flight >= queue.in_flight + CROWD);
        is_rushed || busy == 1
    }

    /// Returns whether the scheduler should wait for `place`, which has no requests.
    pub(super) fn is_better_idle(&self, place: u32) -> bool {
        let queue = &self.queues[place as usize];
        let may = place != ASYNC && self.config.slice_idle > Nanos::ZERO && queue.streams > 0;
        may && (self.idling_boosts(place) || self.needs_idling(place))
    }

    fn must_idle(&self, place: u32) -> bool {
        self.queues[place as usize].order.is_empty() && self.is_better_idle(place)
    }

    /// Handles a completion of the active queue: waits for its next request, or ends its turn.
    pub(super) fn go_on(&mut self, now: Nanos, place: u32, queue: &Queue) {
        let active = &self.queues[place as usize];
        let (is_dry, in_flight) = (active.order.is_empty(), active.in_flight);
        if self.must_idle(place) {
            if in_flight == 0 {
                self.wait_for(now, place);
            }
        } else if self.is_timed_out(now, place) {
            self.end_turn(now, Ended::TimedOut, queue);
        } else if is_dry && (in_flight == 0 || !self.is_better_idle(place)) {
            self.end_turn(now, Ended::NoRequests, queue);
        }
    }

    fn wait_for(&mut self, now: Nanos, place: u32) {
        let active = &self.queues[place as usize];
        let idle = match active.raised.is_raised() {
            true => self.config.slice_idle.max(RAISED_IDLE_MIN),
            false if active.is_seeky() => self.config.slice_idle.min(SEEKY_IDLE_MAX),
            false => self.config.slice_idle,
        };
        self.turn.idle_since = Some(now);
        self.idle_timer = Some(now + idle);
    }

    /// Stops waiting for the active queue.
    #[inline]
    pub(super) fn stop_idling(&mut self) {
        self.idle_timer = None;
        self.turn.idle_since = None;
    }

    /// Handles the arrival of a request that the scheduler was waiting for: continues the turn
    /// unless its time is up.
    pub(super) fn waited_enough(&mut self, now: Nanos, queue: &Queue) {
        if self.idle_timer.is_some() {
            self.stop_idling();
            if now >= self.turn.ends {
                self.end_turn(now, Ended::TimedOut, queue);
            }
        }
    }

    /// Ends the active queue's turn if the wait for its next request has expired.
    #[inline]
    pub(super) fn end_idle_turn(&mut self, now: Nanos, queue: &Queue) {
        if self.idle_timer.is_some_and(|at| at <= now) {
            let how = if now >= self.turn.ends { Ended::TimedOut } else { Ended::TooIdle };
            self.end_turn(now, how, queue);
        }
    }

    /// Samples the number of outstanding requests when one of them completes.
    pub(super) fn look_at_depth(&mut self) {
        let Bfq { in_flight, queued, .. } = *self;
        self.device.deepest = self.device.deepest.max(in_flight);
        if self.device.queues == Some(true) || in_flight + queued <= QUEUEING_DEPTH {
            return;
        }
        let holds_back = self.active.is_some_and(|place| {
            let active = &self.queues[place as usize];
            let few = active.in_flight + (active.order.len() as u32) < QUEUEING_DEPTH;
            active.thinks_briefly && few && in_flight < QUEUEING_DEPTH
        });
        if holds_back {
            return;
        }
        self.device.samples += 1;
        if self.device.samples > QUEUEING_SAMPLES {
            let queues = self.device.deepest > QUEUEING_DEPTH;
            self.device = Depth { queues: Some(queues), ..Depth::default() };
        }
    }
}
