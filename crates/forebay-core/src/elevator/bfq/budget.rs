//! Budgets: how many bytes a queue may be given in a turn, and what it is charged at the end.

use super::service::Ended;
use crate::contract::time::Nanos;

/// The largest budget until the device's rate is known (16384 sectors).
const FIRST_BUDGET_MAX: u64 = 16_384 * 512;

/// The rate of shorter turns says nothing, nor do they count as slow.
const RATE_SPAN_MIN: Nanos = Nanos::from_millis(20);

/// The largest budget: what the device can do in a turn's time at its peak rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct BudgetMax {
    bytes: u64,
    is_fixed: bool,
    is_measured: bool,
    timeout: Nanos,
}

impl BudgetMax {
    /// `fixed_bytes` if that is not 0, else found out.
    pub(super) fn new(fixed_bytes: u64, timeout: Nanos) -> Self {
        let bytes = if fixed_bytes > 0 { fixed_bytes } else { FIRST_BUDGET_MAX };
        BudgetMax { bytes, is_fixed: fixed_bytes > 0, is_measured: false, timeout }
    }

    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The smallest budget.
    #[inline]
    pub(super) fn least(&self) -> u64 {
        (self.bytes / 32).max(1)
    }

    /// A sequential queue was given `bytes` in `span`.
    pub(super) fn observe(&mut self, bytes: u64, span: Nanos) {
        if self.is_fixed || span < RATE_SPAN_MIN {
            return;
        }
        let in_timeout = share(bytes, self.timeout, span);
        let known = if self.is_measured { self.bytes } else { in_timeout };
        self.is_measured = true;
        self.bytes = ((u128::from(known) * 7 + u128::from(in_timeout)) / 8).max(512) as u64;
    }

    /// What the time used is worth in bytes.
    pub(super) fn worth(&self, span: Nanos) -> u64 {
        share(self.bytes, span.min(self.timeout), self.timeout)
    }

    /// Whether `bytes` in `span` is less than half of what the device can do.
    pub(super) fn is_slow(&self, bytes: u64, span: Nanos) -> bool {
        span > RATE_SPAN_MIN && bytes < self.bytes / 2
    }

    /// The budget after one of `budget` bytes, of which `served` were used, ended as `how`.
    pub(super) fn next(&self, budget: u64, served: u64, how: Ended) -> u64 {
        let least = self.least();
        let next = match how {
            // It leaves the disk waiting: a small budget makes it harmless, and soon served.
            Ended::TooIdle if budget > 5 * least => budget - 4 * least,
            Ended::TooIdle => least,
            Ended::TimedOut => budget.saturating_mul(2),
            // It could use more.
            Ended::Exhausted => budget.saturating_mul(4),
            Ended::NoRequests => served,
            Ended::Preempted => budget,
        };
        next.clamp(least, self.bytes.max(least))
    }
}

/// `value * part / whole`, without overflow.
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
        let next = |budget, served, how| most.next(budget, served, how);
        assert_eq!(next(400, 400, Ended::Exhausted), 1600);
        assert_eq!(next(1600, 1600, Ended::Exhausted), 3200, "at most the largest");
        assert_eq!(next(400, 100, Ended::TimedOut), 800);
        assert_eq!(next(3200, 700, Ended::NoRequests), 700);
        assert_eq!(next(3200, 7, Ended::NoRequests), 100, "at least a 32nd of the largest");
        assert_eq!(next(1000, 7, Ended::TooIdle), 600);
        assert_eq!(next(500, 7, Ended::TooIdle), 100);
    }

    #[test]
    fn the_largest_budget_is_what_the_device_does_in_a_turns_time() {
        let mut most = BudgetMax::new(0, Nanos::from_millis(125));
        assert_eq!(most.bytes(), 8 << 20);
        most.observe(1000, Nanos::from_millis(19));
        assert_eq!(most.bytes(), 8 << 20, "too short to tell");
        most.observe(4_000_000, Nanos::from_millis(50));
        assert_eq!(most.bytes(), 10_000_000);
        assert_eq!(most.worth(Nanos::from_millis(25)), 2_000_000);
        assert_eq!(most.worth(Nanos::from_secs(9)), 10_000_000, "a turn's time at most");
        assert!(most.is_slow(4_000_000, Nanos::from_millis(100)));
        assert!(!most.is_slow(6_000_000, Nanos::from_millis(100)));
    }
}
