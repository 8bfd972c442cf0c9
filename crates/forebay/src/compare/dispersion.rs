//! Counts arrivals in bins of several lengths, for the index of dispersion.
//!
//! A bin belongs to the block of time in which it begins, and counts only if it lies completely
//! within the trace. Empty bins take no computing time.

use forebay_core::Nanos;

use super::tally::{Clock, Counts, Tally};

/// The lengths of the bins in milliseconds: 1 ms to 100 s.
pub(super) const BINS_MS: [u64; 6] = [1, 10, 100, 1000, 10_000, 100_000];

/// The minimum number of bins from which an index of dispersion says something.
pub(super) const BINS_LEAST: u64 = 10;

/// The number of columns per bin length: the sum of the counts, the sum of their squares, and the
/// number of bins.
const COLUMNS: usize = 3;

/// Counts arrivals in the bins of each length.
#[derive(Debug)]
pub(super) struct Bins {
    clock: Clock,
    duration: Nanos,
    tally: Tally,
    /// For each bin length, the index of the current bin and its count so far.
    current: [(u64, u64); BINS_MS.len()],
}

impl Bins {
    pub(super) fn new(duration: Nanos) -> Bins {
        let clock = Clock::Times(duration);
        let mut tally = Tally::default();
        for (scale, ms) in BINS_MS.iter().enumerate() {
            let (length, blocks) = (ms * 1_000_000, super::tally::BLOCKS as u64);
            let whole = duration.0 / length;
            // The number of bins of this length that begin before the block.
            let before = |block: u64| {
                let begins = u128::from(duration.0) * u128::from(block);
                let bins = begins.div_ceil(u128::from(blocks) * u128::from(length));
                (bins as u64).min(whole)
            };
            for block in 0..blocks {
                let bins = before(block + 1) - before(block);
                tally.add(block as usize, scale * COLUMNS + 2, bins);
            }
        }
        Bins { clock, duration, tally, current: [(0, 0); BINS_MS.len()] }
    }

    #[inline]
    pub(super) fn add(&mut self, at: Nanos) {
        for (scale, ms) in BINS_MS.iter().enumerate() {
            let bin = at.0 / (ms * 1_000_000);
            if bin != self.current[scale].0 {
                self.end(scale);
                self.current[scale] = (bin, 0);
            }
            self.current[scale].1 += 1;
        }
    }

    fn end(&mut self, scale: usize) {
        let (length, (bin, count)) = (BINS_MS[scale] * 1_000_000, self.current[scale]);
        if bin < self.duration.0 / length {
            let block = self.clock.block(Nanos(bin * length), 0);
            self.tally.add(block, scale * COLUMNS, count);
            self.tally.add(block, scale * COLUMNS + 1, count.saturating_mul(count));
        }
    }

    pub(super) fn finish(mut self) -> Tally {
        (0..BINS_MS.len()).for_each(|scale| self.end(scale));
        self.tally
    }
}

/// Returns the number of bins of one length.
pub(super) fn bin_count(counts: &Counts, scale: usize) -> u64 {
    counts.of(scale * COLUMNS + 2)
}

/// Returns the index of dispersion for bins of one length: the variance of the counts divided by
/// their mean, which is 1 for a Poisson process. Returns `None` if there are fewer than two bins.
pub(super) fn dispersion(counts: &Counts, scale: usize) -> Option<f64> {
    let [sum, squares, bins] = [0, 1, 2].map(|column| counts.of(scale * COLUMNS + column) as f64);
    let mean = sum / bins;
    (bins > 1.0 && mean > 0.0).then(|| (squares / bins - mean * mean).max(0.0) / mean)
}

#[cfg(test)]
mod tests {
    use super::super::tally::whole;
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn worked_by_hand() {
        // The bins of 1 ms contain 3, 0 and 1 arrivals; the last bin is incomplete.
        let mut bins = Bins::new(Nanos(3_500_000));
        [0, 100, 999_999, 2 * MS, 3 * MS].iter().for_each(|&at| bins.add(Nanos(at)));
        let counts = bins.finish().weigh(&whole());
        let variance = 10.0 / 3.0 - 16.0 / 9.0;
        assert!((dispersion(&counts, 0).unwrap() - variance * 3.0 / 4.0).abs() < 1e-12);
        assert_eq!(dispersion(&counts, 1), None);
    }

    #[test]
    fn every_whole_bin_is_in_one_block() {
        let duration = 12_345 * MS + 1;
        let mut bins = Bins::new(Nanos(duration));
        (0..12_345).for_each(|ms| bins.add(Nanos(ms * MS)));
        let tally = bins.finish();
        let counts = tally.weigh(&whole());
        assert_eq!([counts.of(2), counts.of(5), counts.of(8)], [12_345, 1234, 123]);
        assert_eq!([counts.of(0), counts.of(3)], [12_345, 12_340]);
        // A constant rate has no dispersion in any block.
        for block in 0..super::super::tally::BLOCKS {
            let mut weights = vec![0; super::super::tally::BLOCKS];
            weights[block] = 1;
            assert_eq!(dispersion(&tally.weigh(&weights), 0), Some(0.0));
        }
    }

    #[test]
    fn years_take_no_time() {
        let mut bins = Bins::new(Nanos::MAX);
        [0, u64::MAX / 2, u64::MAX].iter().for_each(|&at| bins.add(Nanos(at)));
        assert!(dispersion(&bins.finish().weigh(&whole()), 5).is_some());
    }
}
