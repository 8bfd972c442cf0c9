//! Arrivals at every time scale: how a stretch of requests divides its time between its halves.
//!
//! A block of `2^j` requests that lasts `d` is cut into halves of equal counts; the ratio of their
//! durations is drawn from what was seen at that `j` in blocks of about that duration. From epochs of
//! known duration down to single gaps this keeps the burstiness of every scale, which a renewal
//! process with the same gaps loses, and conserves the time of each epoch exactly. The ratios of the
//! coarser scales are kept one by one, as many as fit in a bounded list; each is chosen so that the
//! shorter half comes out right whatever the ratios above made of the whole, lest errors add up.

mod collect;
mod draw;
mod ratio;

use serde::{Deserialize, Serialize};

pub use collect::Collector;
pub use draw::Cascade;
pub use ratio::BINS;

/// Time classes: powers of four of the mean gap in nanoseconds.
pub const CLASSES: usize = 32;
/// Scales told apart; longer blocks are like the longest.
pub const SCALES: usize = 24;

/// The class of blocks of `2^scale` requests that last `ns`.
#[inline]
fn class(ns: u64, scale: usize) -> usize {
    let mean = ns >> scale.min(63);
    ((64 - mean.leading_zeros()) / 2).min(CLASSES as u32 - 1) as usize
}

/// How blocks of one scale and time class divide: counts by bin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// `log2` of the block's requests.
    pub scale: u8,
    /// Class of its mean gap.
    pub class: u8,
    /// The first bin that is counted.
    pub first: u8,
    /// Counts of the bins from there on.
    pub counts: Vec<u32>,
}

/// How all blocks of one scale divide, in their order: a bin each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Division {
    /// `log2` of a block's requests.
    pub scale: u8,
    /// The bin of each whole block, a letter each.
    pub bins: String,
}

/// When requests come: what a [`Collector`] found.
#[derive(Clone, Debug)]
pub struct Found {
    /// `log2` of the gaps in an epoch.
    pub epoch_scale: u8,
    /// Durations of epochs; the last may hold fewer gaps.
    pub epochs_ns: Vec<u64>,
    /// Coarse scales, each block for itself.
    pub divisions: Vec<Division>,
    /// Fine scales, by what blocks of some duration do.
    pub splits: Vec<Split>,
}

/// What is over of an epoch that is not whole is divided by its count.
#[inline]
fn by_count(ns: u64, first: u64, requests: u64) -> u64 {
    (ns as f64 * first as f64 / requests as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn an_epoch_keeps_its_time_and_count() {
        for known_max in [0, 40, 10_000] {
            keeps_time_and_count(known_max);
        }
    }

    fn keeps_time_and_count(known_max: usize) {
        let mut collector = Collector::new(8, known_max);
        (0..1000u64).for_each(|n| collector.add(n % 7 * 1000));
        let Found { epoch_scale, epochs_ns, divisions, splits } = collector.finish();
        assert_eq!((epoch_scale, epochs_ns.len()), (7, 8));
        assert_eq!(epochs_ns.iter().sum::<u64>(), (0..1000u64).map(|n| n % 7 * 1000).sum::<u64>());
        let kept: usize = divisions.iter().map(|division| division.bins.len()).sum();
        let expected = BTreeMap::from([(0, 0), (40, 15 + 7), (10_000, 990)]);
        assert_eq!(kept, expected[&known_max]);
        assert_eq!(splits.is_empty(), known_max == 10_000);
        let mut cascade = Cascade::new(&splits, &divisions);
        let mut state = 1u64;
        for requests in [128, 104, 1, 3] {
            cascade.begin(requests, 1_000_000);
            let mut gaps = Vec::new();
            while let Some(gap) = cascade.next(|| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 11) as f64 / (1u64 << 53) as f64
            }) {
                gaps.push(gap);
            }
            assert_eq!((gaps.len() as u64, gaps.iter().sum::<u64>()), (requests, 1_000_000));
        }
    }

    #[test]
    fn the_slow_half_stays_where_it_was_and_comes_again() {
        let mut collector = Collector::new(2, 10_000);
        (0..128u64).for_each(|n| collector.add(if n % 8 < 4 { 1_000 } else { 1_000_000 }));
        let Found { epochs_ns, divisions, splits, .. } = collector.finish();
        let mut cascade = Cascade::new(&splits, &divisions);
        for _ in 0..2 {
            cascade.restart();
            cascade.begin(128, epochs_ns.iter().sum());
            let gaps: Vec<u64> = std::iter::from_fn(|| cascade.next(|| 0.5)).collect();
            let fast = gaps.chunks(8).map(|block| block[..4].iter().sum::<u64>()).sum::<u64>();
            assert!(gaps.len() == 128 && fast * 100 < gaps.iter().sum(), "{fast} of {gaps:?}");
        }
    }
}
