//! The least rate at which every request is answered in time.
//!
//! All are admitted exactly if for every window of `k` consecutive requests the `k` services fit
//! between the first arrival and the last one's deadline: `rate >= k / (last - first + bound)`.
//! The answer is the largest such ratio, rounded up. It is found by raising: at a rate that is too
//! low, some request of a busy period comes too late, and the window from the period's start to it
//! shows a higher rate that is needed. A pass that raises nothing proves the rate. Every rate on
//! the way is needed by some window, so the last one is the least.

use super::lanes::Gaps;
use super::{RATE_MAX_IOPS, SERVICE};
use crate::time::Nanos;

/// The least whole rate at which RTT admits all of `gaps` under `within`, from 1 on; `None` if it
/// lies above [`RATE_MAX_IOPS`].
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
fn raise(gaps: &Gaps, within_ns: u64, mut rate: u64) -> Option<u64> {
    let bound = u128::from(within_ns);
    // A busy period: its requests so far, and the time since its first.
    let (mut requests, mut since) = (0u128, 0u128);
    let mut take = |gap_ns: u64| -> Option<()> {
        since += u128::from(gap_ns);
        if requests * u128::from(SERVICE) <= since * u128::from(rate) {
            (requests, since) = (0, 0);
        }
        requests += 1;
        let work = requests * u128::from(SERVICE);
        if work > (since + bound) * u128::from(rate) {
            rate = u64::try_from(work.div_ceil((since + bound).max(1))).ok()?;
        }
        (rate <= RATE_MAX_IOPS).then_some(())
    };
    for segment in gaps.segments() {
        take(segment.gap_ns)?;
        for gap in segment.gaps_ns {
            take(u64::from(*gap))?;
        }
    }
    Some(rate)
}
