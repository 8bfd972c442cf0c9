//! Injection: while BFQ waits for an active queue without requests, other queues may dispatch
//! requests, as long as they do not delay the active queue's next request by much.
//!
//! The limit of requests at the device is found by trial. BFQ measures how long the first request
//! after a gap takes with and without injected requests; if it takes 1.5 times as long or more, the
//! limit was too high.
//!
//! If a queue's requests regularly arrive soon after another queue's requests complete, it probably
//! waits for that queue, its *waker*. Requests of the waker are injected without a limit.

use super::{ASYNC, Bfq};
use crate::contract::Nanos;
use crate::elevator::queue::{Queue, QueuedId};

/// The limit is reset after this time.
const RENEWED_AFTER: Nanos = Nanos::from_secs(1);
/// A new trial begins no sooner than this after the limit was lowered or reset.
const TRIED_AFTER: Nanos = Nanos::from_millis(10);
/// A change to short think times resets the limit only if this time has passed since the last
/// change of the limit.
const SETTLED_AFTER: Nanos = Nanos::from_millis(100);
/// A request that arrives within this time of the completion of another one may have waited for it.
const WOKEN_WITHIN: Nanos = Nanos::from_millis(4);
/// A queue becomes a waker if it seems so this many times in a row, within [`WOKEN_IDLES`] times
/// `slice_idle`.
const WOKEN_TIMES: u32 = 3;
const WOKEN_IDLES: u64 = 128;

/// The injection state of a queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Injection {
    /// Requests of other queues are injected while fewer than this are at the device.
    limit: u32,
    /// How long a first request takes without injection; `None` before it was measured.
    alone: Option<Nanos>,
    /// When the limit was lowered or reset.
    pub(super) changed: Nanos,
    /// The queue whose completions this queue waits for.
    waker: Option<u32>,
    /// A queue that may be the waker, how often in a row it seemed so, and since when.
    suspect: Option<u32>,
    times: u32,
    since: Nanos,
    /// The queues that wait for this one, the latest last.
    woken: Vec<u32>,
}

/// The current trial.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trial {
    /// When the request to be measured arrived, whether it must still be dispatched, and its id
    /// after that.
    came: Nanos,
    awaited: bool,
    timed: Option<QueuedId>,
    /// Whether any request was injected.
    injected: bool,
}

impl Injection {
    /// Forgets queue `place`, which another stream is going to use.
    pub(super) fn forget(&mut self, place: u32) {
        self.waker = self.waker.filter(|&waker| waker != place);
        self.suspect = self.suspect.filter(|&suspect| suspect != place);
        self.woken.retain(|&woken| woken != place);
    }
}

impl Bfq {
    /// Resets the limit of a queue.
    fn renew_limit(&mut self, now: Nanos, place: u32) {
        self.trial.timed = None;
        let queue = self.queue(place);
        let limit = u32::from(!queue.thinks_briefly);
        queue.injection =
            Injection { limit, alone: None, changed: now, ..std::mem::take(&mut queue.injection) };
    }

    /// Updates whether the think times of queue `place`, which receives a request, are short.
    pub(super) fn update_think(&mut self, now: Nanos, place: u32) {
        let idle = self.config.slice_idle;
        let queue = self.queue(place);
        let is_new = queue.split.is_some_and(|at| now <= at + super::raise::PAUSE_MIN);
        if place == ASYNC || idle == Nanos::ZERO || is_new {
            return;
        }
        let briefly = !queue.think.exceeds(Nanos(idle.0 / 2));
        let before = std::mem::replace(&mut queue.thinks_briefly, briefly);
        let is_settled = now >= queue.injection.changed + SETTLED_AFTER;
        if before != briefly && queue.injection.alone.is_none() && (is_settled || !briefly) {
            self.renew_limit(now, place);
        }
    }

    /// Records the arrival of a synchronous request in `place` whose stream has no other requests.
    pub(super) fn first_comes(&mut self, now: Nanos, place: u32) {
        self.look_for_waker(now, place);
        if now >= self.queues[place as usize].injection.changed + RENEWED_AFTER {
            self.renew_limit(now, place);
        }
        let known = &self.queues[place as usize].injection;
        let tells = self.in_flight == 0 || known.alone.is_some() && self.trial.injected;
        if self.active == Some(place) && tells && now >= known.changed + TRIED_AFTER {
            (self.trial.came, self.trial.awaited) = (now, true);
            self.trial.injected &= self.in_flight > 0;
        }
    }

    /// Checks whether the requests of `place` follow completions of another queue.
    fn look_for_waker(&mut self, now: Nanos, place: u32) {
        let Some((last, at)) = self.last_ended else { return };
        let idle = self.config.slice_idle.0;
        let queue = &mut self.queues[place as usize];
        if last == place || queue.thinks_briefly || now - at >= WOKEN_WITHIN {
            return;
        }
        let known = &mut queue.injection;
        if known.suspect == Some(last)
            && now <= known.since + Nanos(idle.saturating_mul(WOKEN_IDLES))
        {
            known.times += 1;
        } else {
            (known.suspect, known.times, known.since) = (Some(last), 1, now);
        }
        if known.times == WOKEN_TIMES {
            known.suspect = None;
            if let Some(before) = known.waker.replace(last) {
                self.queue(before).injection.woken.retain(|&woken| woken != place);
            }
            self.queue(last).injection.woken.push(place);
        }
    }

    /// Records that a request of the active queue was dispatched, which may be the request to
    /// measure.
    #[inline]
    pub(super) fn time(&mut self, id: QueuedId) {
        if std::mem::take(&mut self.trial.awaited) {
            self.trial.timed = Some(id);
        }
    }

    /// Ends the trial if a request of `place` that completed is the measured one. Must be called
    /// before the number of requests at the device is decremented.
    pub(super) fn timed(&mut self, now: Nanos, place: u32, id: QueuedId) {
        if self.trial.timed != Some(id) {
            return;
        }
        let (took, is_last) = (now - self.trial.came, self.in_flight == 1);
        let (injected, deepest) = (self.trial.injected, self.device.deepest);
        let known = &mut self.queue(place).injection;
        if let Some(alone) = known.alone.filter(|_| injected) {
            let is_long = took.0 >= alone.0 * 3 / 2;
            if is_long && known.limit > 0 {
                known.limit -= 1;
                known.changed = now;
            } else if !is_long && known.limit <= deepest {
                known.limit += 1;
            }
        }
        match known.alone {
            None if is_last => {
                known.limit = known.limit.max(1);
                known.alone = Some(took);
            }
            Some(alone) if took < alone || !injected && is_last => known.alone = Some(took),
            _ => {}
        }
        (self.trial.timed, self.trial.injected) = (None, false);
    }

    /// Ends the trial together with the active queue's turn.
    pub(super) fn end_trial(&mut self) {
        self.trial = Trial::default();
    }

    /// Returns the queue to inject a request from while the active queue `place` has none.
    pub(super) fn injected(&mut self, now: Nanos, place: u32, queue: &Queue) -> Option<u32> {
        let active = &self.queues[place as usize];
        if !active.is_shared()
            && let Some((_, id)) = self.queues[ASYNC as usize].order.next()
            && self.streams.get(queue[id].stream as usize).is_some_and(|known| known.own == place)
            && self.can_afford(ASYNC, queue)
        {
            return Some(ASYNC);
        }
        let known = &active.injection;
        let [waker, woken] = [known.waker, known.woken.last().copied()]
            .map(|other| other.filter(|&other| self.can_afford(other, queue)));
        if let Some(other) = waker.or(woken) {
            return Some(other);
        }
        let raised = active.raised.is_raised() && self.raised_busy() <= 1;
        if self.idling_boosts(place) || raised && active.thinks_briefly {
            return None;
        }
        let other = self.choose(now, place, queue)?;
        self.trial.injected = true;
        Some(other)
    }

    /// Returns whether the next request of queue `other` fits into its remaining budget.
    fn can_afford(&self, other: u32, queue: &Queue) -> bool {
        let next = self.queues[other as usize].order.next();
        next.is_some_and(|(_, id)| {
            !self.fair.is_idle(other) && self.charge(other, queue[id].len) <= self.fair.left(other)
        })
    }

    /// Returns the queue to inject from if the limit allows it.
    fn choose(&self, now: Nanos, place: u32, queue: &Queue) -> Option<u32> {
        let active = &self.queues[place as usize];
        let Injection { limit, alone, .. } = active.injection;
        // The wait has lasted so long that the device is underused.
        let waits_long = self.turn.idle_since.is_some_and(|since| {
            self.idle_timer.is_some() && now >= since + self.config.slice_idle
        });
        let limit = if limit == 0 && alone.is_none() && waits_long { 1 } else { limit };
        if self.in_flight >= limit {
            return None;
        }
        let anybody = !active.raised.is_raised() || !active.thinks_briefly;
        let may = |other: &u32| anybody || self.queues[*other as usize].raised.is_raised();
        let mut others = self.fair.each_busy().filter(|&other| other != place);
        others.find(|other| may(other) && self.can_afford(*other, queue))
    }
}
