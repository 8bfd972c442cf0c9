//! The minimum rate at which every request is answered in time.
//!
//! All requests are admitted exactly if, for every window of `k` consecutive requests, `k` services
//! fit between the first arrival and the last deadline: `rate >= k / (last - first + bound)`. The
//! answer is the maximum of these ratios, rounded up. It is found by raising the rate step by step:
//! if the rate is too low, some request of a busy period is late, and the window from the start of
//! the period to that request requires a higher rate. If a pass does not raise the rate, the rate
//! is sufficient. It is also the minimum, because some window requires it.

use super::rates::Gaps;
use super::{RATE_MAX_IOPS, SERVICE};
use crate::contract::Nanos;

/// Returns the minimum whole rate, at least 1, at which RTT admits all of `gaps` with the bound
/// `within`; `None` if it is above [`RATE_MAX_IOPS`].
pub fn least_rate_for_all(gaps: &Gaps, within: Nanos) -> Option<u64> {
    let mut rate = 1;
    loop {
        let raised = raise(gaps, within.0, rate)?;
        if raised == rate {
            return Some(rate);
        }
        rate = raised;
    }
}

/// Makes one pass and returns a rate that some window requires, at least `rate`.
///
/// Work is below 2^64 units for any number of requests that fits into memory. A product that
/// exceeds 2^64 therefore saturates without changing the result of a comparison.
fn raise(gaps: &Gaps, within_ns: u64, mut rate: u64) -> Option<u64> {
    // A busy period: the work of its requests so far, and the time since its first request.
    let (mut work, mut since) = (0u64, 0u64);
    let mut take = |gap_ns: u64| -> Option<()> {
        since = since.saturating_add(gap_ns);
        if work <= since.saturating_mul(rate) {
            (work, since) = (0, 0);
        }
        work += SERVICE;
        let until = since.saturating_add(within_ns);
        if work > until.saturating_mul(rate) {
            rate = work.div_ceil(until.max(1));
            return (rate <= RATE_MAX_IOPS).then_some(());
        }
        Some(())
    };
    for segment in gaps.segments() {
        take(segment.gap_ns)?;
        for gap in segment.gaps_ns {
            take(u64::from(*gap))?;
        }
    }
    Some(rate)
}
