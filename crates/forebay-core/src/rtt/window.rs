//! The least rate at which every request is answered in time.
//!
//! All requests are admitted exactly if, for every window of `k` consecutive requests, `k` services
//! fit between the first arrival and the last deadline: `rate >= k / (last - first + bound)`. The
//! answer is the maximum of these ratios, rounded up. It is found by raising the rate: if it is too
//! low, some request of a busy period is late, and the window from the start of the period to that
//! request requires a higher rate. A pass without an increase proves the rate sufficient. Every
//! rate on the way is required by some window, so the last one is the least.

use super::rates::Gaps;
use super::{RATE_MAX_IOPS, SERVICE};
use crate::contract::time::Nanos;

/// Returns the minimum whole rate at which RTT admits all of `gaps` under `within`, from 1 on;
/// `None` if it lies above [`RATE_MAX_IOPS`].
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

/// One pass: a rate that some window needs, at least `rate`.
///
/// Work is below 2^64 units for as many requests as memory holds, so a product that is not counts
/// as the largest number and compares as it should.
fn raise(gaps: &Gaps, within_ns: u64, mut rate: u64) -> Option<u64> {
    // A busy period: the work of its requests so far, and the time since its first.
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
