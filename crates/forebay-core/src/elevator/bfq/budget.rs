//! Budgets: how many bytes a queue may use per turn, and what it is charged at the end.

use super::service::Ended;
use crate::contract::Nanos;

/// The maximum budget in bytes until the device's rate is known (16384 sectors).
const FIRST_BUDGET_MAX: u64 = 16_384 * 512;
/// The shortest turn from which a rate can be estimated. After a shorter one, the queue counts as
/// slow only if it seeks.
const SPAN_MIN: Nanos = Nanos::from_millis(1);
/// Only in a longer turn does the rate show whether a queue is slow.
const SLOW_SPAN_MIN: Nanos = Nanos::from_millis(20);
/// The rate of the reference disk in bytes per second, for which [`RAISED_FOR`] is the duration of
/// raising. Two thirds of it are the initial rate.
const RATE_REFERENCE: u64 = 14_000 * 1_000_000 / 65_536 * 512;
/// How long the weight of a queue is raised on the reference disk.
const RAISED_FOR: Nanos = Nanos::from_secs(7);
/// The minimum and maximum of that duration on other disks.
const RAISED_FOR_RANGE: [Nanos; 2] = [Nanos::from_secs(3), Nanos::from_secs(25)];
/// The minimum number of requests and the minimum time for measuring the rate, and the time after
/// which a measurement is complete.
const SAMPLES_MIN: u32 = 32;
const MEASURED_FOR_MIN: Nanos = Nanos::from_millis(300);
const MEASURED_FOR: Nanos = Nanos::from_secs(1);
/// A longer pause of the device ends a measurement.
const PAUSE: Nanos = Nanos::from_millis(100);
/// Requests that follow each other within this time are continuous.
const IMMEDIATE: Nanos = Nanos::from_millis(2);
/// The highest plausible rate (20 sectors per microsecond); a higher measured rate is discarded. A
/// request that took longer than at the lowest rate (1/1024 sector per microsecond) ends a
/// measurement.
const RATE_MAX: u64 = 20 * 1_000_000 * 512;
const RATE_MIN: u64 = 1_000_000 * 512 / 1024;

/// The device's peak rate, measured from when requests are dispatched, and the maximum budget that
/// follows from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct BudgetMax {
    bytes: u64,
    is_fixed: bool,
    timeout: Nanos,
    /// The peak rate in bytes per second.
    rate: u64,
    /// A count of turns that approaches 256, by one eighth of the rest per turn.
    turns: u32,
    first_given: Nanos,
    last_given: Nanos,
    last_ended: Nanos,
    samples: u32,
    sequential: u32,
    given: u64,
    longest: u64,
    measured_for: Nanos,
}

impl BudgetMax {
    /// Creates a maximum budget of `fixed_bytes`; 0 means to measure it.
    pub(super) fn new(fixed_bytes: u64, timeout: Nanos) -> Self {
        BudgetMax {
            bytes: if fixed_bytes > 0 { fixed_bytes } else { FIRST_BUDGET_MAX },
            is_fixed: fixed_bytes > 0,
            timeout,
            rate: RATE_REFERENCE * 2 / 3,
            turns: 0,
            first_given: Nanos::ZERO,
            last_given: Nanos::ZERO,
            last_ended: Nanos::ZERO,
            samples: 0,
            sequential: 0,
            given: 0,
            longest: 0,
            measured_for: Nanos::ZERO,
        }
    }

    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the initial budget of a queue, which is smaller than the maximum. The measured
    /// maximum is used only after eleven turns.
    #[inline]
    pub(super) fn first(&self) -> u64 {
        self.believed() / 3 * 2
    }

    fn believed(&self) -> u64 {
        if self.is_fixed || self.turns >= 194 { self.bytes } else { FIRST_BUDGET_MAX }
    }

    /// Returns the smallest budget.
    #[inline]
    pub(super) fn least(&self) -> u64 {
        (self.believed() / 32).max(1)
    }

    /// Records that a turn began.
    pub(super) fn turn(&mut self) {
        self.turns = (self.turns * 7 + 256) / 8;
    }

    /// Returns how long the weight of a queue stays raised.
    pub(super) fn raised_for(&self) -> Nanos {
        let [least, most] = RAISED_FOR_RANGE;
        Nanos(share(RAISED_FOR.0, Nanos(RATE_REFERENCE), Nanos(self.rate))).clamp(least, most)
    }

    /// Records that a request of `bytes` was dispatched to the device, which has `under_way` other
    /// requests. `is_near` is true if it is close to the previous one.
    pub(super) fn give(&mut self, now: Nanos, bytes: u64, under_way: u32, is_near: bool) {
        if self.samples > 0 && now - self.last_given > PAUSE && under_way == 0 {
            self.measured();
        }
        if self.samples == 0 {
            (self.samples, self.sequential) = (1, 0);
            (self.first_given, self.last_given) = (now, now);
            (self.given, self.longest) = (bytes, bytes);
            return;
        }
        self.samples += 1;
        let is_immediate = under_way > 0 || now - self.last_ended < IMMEDIATE;
        self.sequential += u32::from(is_immediate && is_near);
        self.given += bytes;
        self.longest =
            if self.samples.is_multiple_of(32) { bytes } else { self.longest.max(bytes) };
        self.measured_for = now - self.first_given;
        self.last_given = now;
        if self.measured_for >= MEASURED_FOR {
            self.measured();
            (self.samples, self.sequential) = (1, 0);
            self.first_given = now;
            (self.given, self.longest) = (bytes, bytes);
        }
    }

    /// Records that a request has completed.
    pub(super) fn end(&mut self, now: Nanos) {
        let span = now - self.last_ended;
        if span > IMMEDIATE && self.longest < share(RATE_MIN, span, Nanos::from_secs(1)) {
            self.measured();
        }
        self.last_ended = now;
    }

    /// Ends a measurement and uses the result if it is meaningful.
    fn measured(&mut self) {
        let BudgetMax { samples, sequential, first_given, last_ended, .. } = *self;
        self.samples = 0;
        if samples < SAMPLES_MIN || self.measured_for < MEASURED_FOR_MIN {
            return;
        }
        let span = self.measured_for.max(last_ended - first_given);
        let rate = share(self.given, Nanos::from_secs(1), span);
        if sequential < samples * 3 / 4 && rate <= self.rate || rate > RATE_MAX {
            return;
        }
        let weight = share((9 * sequential / samples).into(), span, MEASURED_FOR).min(8);
        let parts = 10 - weight;
        self.rate = (self.rate / parts * (parts - 1) + rate / parts).max(1);
        if !self.is_fixed {
            self.bytes = share(self.rate, self.timeout, Nanos::from_secs(1)).max(512);
        }
    }

    /// Returns the number of bytes that the device can transfer in `span`.
    pub(super) fn worth(&self, span: Nanos) -> u64 {
        share(self.bytes, span.min(self.timeout), self.timeout)
    }

    /// Returns whether a queue that dispatched `bytes` in `span` is charged for time, and for how
    /// much time.
    pub(super) fn slow(
        &self,
        bytes: u64,
        span: Nanos,
        is_seeky: bool,
        seek: Nanos,
    ) -> (bool, Nanos) {
        match span {
            _ if span < SPAN_MIN => (is_seeky, seek),
            _ if span > SLOW_SPAN_MIN => (bytes < self.bytes / 2, span),
            _ => (is_seeky, span),
        }
    }

    /// Returns the next budget of a queue after a turn with `budget`, of which it used `served`
    /// bytes, and which ended because of `how`. `has_more` is true if the queue has requests at the
    /// device.
    pub(super) fn next(&self, budget: u64, served: u64, how: Ended, has_more: bool) -> u64 {
        let least = self.least();
        let next = match how {
            // The queue may be unable to send more until its outstanding requests complete.
            Ended::TooIdle if has_more => budget.saturating_mul(2).min(self.bytes),
            // The queue leaves the disk idle. A small budget limits the harm and lets the queue be
            // served again soon.
            Ended::TooIdle if budget > 5 * least => budget - 4 * least,
            Ended::TooIdle => least,
            Ended::TimedOut => budget.saturating_mul(2).min(self.bytes),
            // The queue used up its budget, so it could have used more.
            Ended::Exhausted => budget.saturating_mul(4).min(self.bytes),
            Ended::NoRequests => served.max(least),
            Ended::Preempted => budget,
        };
        if self.turns >= 194 && !self.is_fixed { next.min(self.bytes) } else { next }
    }
}

/// Computes `value * part / whole` without overflow.
fn share(value: u64, part: Nanos, whole: Nanos) -> u64 {
    let product = u128::from(value) * u128::from(part.0);
    u64::try_from(product / u128::from(whole.0.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_follow_what_queues_do_with_them() {
        let most = BudgetMax::new(3200, Nanos::from_millis(125));
        let next = |budget, served, how| most.next(budget, served, how, false);
        assert_eq!(next(400, 400, Ended::Exhausted), 1600);
        assert_eq!(next(1600, 1600, Ended::Exhausted), 3200, "at most the largest");
        assert_eq!(next(400, 100, Ended::TimedOut), 800);
        assert_eq!(next(3200, 700, Ended::NoRequests), 700);
        assert_eq!(next(3200, 7, Ended::NoRequests), 100, "at least a 32nd of the largest");
        assert_eq!(next(1000, 7, Ended::TooIdle), 600);
        assert_eq!(next(500, 7, Ended::TooIdle), 100);
        assert_eq!(most.next(500, 7, Ended::TooIdle, true), 1000);
    }

    #[test]
    fn the_largest_budget_is_what_the_device_transfers_in_a_turn() {
        let mut most = BudgetMax::new(0, Nanos::from_millis(125));
        assert_eq!(most.bytes(), 8 << 20);
        assert!((10.4..10.6).contains(&most.raised_for().as_secs_f64()));
        // First a sequential reader at 200 MB/s, then a random one, which must not change the peak
        // rate.
        let mut at = |rate: u64, is_near: bool, seconds: u64| {
            let start = most.last_given;
            for n in 0..rate * seconds / 100_000 {
                let now = start + Nanos(n * 100_000 * 1_000_000_000 / rate);
                most.give(now, 100_000, 1, is_near);
                most.end(now);
            }
            most.bytes()
        };
        assert!((24_000_000..25_100_000).contains(&at(200_000_000, true, 20)));
        assert!((24_000_000..25_100_000).contains(&at(4_000_000, false, 20)));
        assert_eq!(most.worth(Nanos::from_secs(9)), most.bytes(), "a turn's time at most");
        assert_eq!(most.raised_for().as_secs_f64().round(), 4.0);
    }

    #[test]
    fn seeky_queues_are_charged_for_their_time() {
        let most = BudgetMax::new(8_000, Nanos::from_millis(125));
        let ms = Nanos::from_millis;
        let slow = |bytes, span, is_seeky| most.slow(bytes, span, is_seeky, ms(8));
        assert_eq!(slow(10, Nanos(5), true), (true, ms(8)), "one seek at least");
        assert_eq!(slow(10, ms(5), false), (false, ms(5)));
        assert_eq!(slow(3_999, ms(100), false), (true, ms(100)));
        assert_eq!(slow(4_000, ms(100), true), (false, ms(100)));
    }
}
