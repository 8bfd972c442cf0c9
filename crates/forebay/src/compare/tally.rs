//! Counts events separately for each block of time, so that a resample of blocks is a weighted sum.
//!
//! Every figure of the card is a function of counts that add up over time. They are stored for each
//! of [`BLOCKS`] blocks of equal time (or of equally many records, if the trace has no times). For
//! the trace itself, each block has weight one; for a resample of the block bootstrap, its weight
//! is the number of times that it was drawn. Values are counted in buckets of equal width within
//! each power of two, as in `describe`.

use forebay_core::Nanos;

use crate::plan::confidence::{self, Random};

/// The number of blocks that a trace is divided into.
pub(super) const BLOCKS: usize = confidence::BLOCKS as usize;

/// The number of resamples that are drawn.
pub(super) const RESAMPLES: usize = 400;

/// How a trace is divided into blocks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Clock {
    /// Into blocks of equal time; holds the time from the first record to the last.
    Times(Nanos),
    /// Into blocks of equally many records, because the trace has no times; holds the number of
    /// records.
    Records(u64),
}

impl Clock {
    /// Returns the block of a record, given its time and its number in the trace.
    #[inline]
    pub(super) fn block(self, at: Nanos, number: u64) -> usize {
        let (place, whole) = match self {
            Clock::Times(duration) => (at.0, duration.0),
            Clock::Records(records) => (number, records),
        };
        let block = u128::from(place) * BLOCKS as u128 / u128::from(whole.max(1));
        (block as usize).min(BLOCKS - 1)
    }
}

/// Counts in a table with a row for each block of time and a column for each thing counted.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    rows: Vec<Vec<u64>>,
    /// The key of each column; `None` while a column's key is its index, until [`Tally::compact`]
    /// is called.
    keys: Option<Vec<usize>>,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally { rows: vec![Vec::new(); BLOCKS], keys: None }
    }
}

impl Tally {
    #[inline]
    pub(super) fn add(&mut self, block: usize, column: usize, amount: u64) {
        let row = &mut self.rows[block];
        match row.get_mut(column) {
            Some(count) => *count = count.saturating_add(amount),
            None => Tally::grow(row, column, amount),
        }
    }

    #[cold]
    fn grow(row: &mut Vec<u64>, column: usize, amount: u64) {
        row.resize(column + 1, 0);
        row[column] = amount;
    }

    /// Removes the columns that are zero in all blocks.
    pub(super) fn compact(&mut self) {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let counted = |column: &usize| self.rows.iter().any(|row| row.get(*column) > Some(&0));
        let keys: Vec<usize> = (0..columns).filter(counted).collect();
        for row in &mut self.rows {
            *row = keys.iter().map(|&key| row.get(key).copied().unwrap_or(0)).collect();
        }
        self.keys = Some(keys);
    }

    /// Sums the rows of all blocks, each multiplied by its weight.
    pub(super) fn weigh(&self, weights: &[u64]) -> Counts {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut sums = vec![0u64; columns];
        for (row, &weight) in self.rows.iter().zip(weights).filter(|(_, weight)| **weight > 0) {
            for (sum, count) in sums.iter_mut().zip(row) {
                *sum = sum.saturating_add(count.saturating_mul(weight));
            }
        }
        let keys = self.keys.clone().unwrap_or_else(|| (0..columns).collect());
        Counts(keys.into_iter().zip(sums).collect())
    }
}

/// Counts as (column, count), in ascending order of columns.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts(pub(super) Vec<(usize, u64)>);

impl Counts {
    /// Returns the count of a column.
    pub(super) fn of(&self, column: usize) -> u64 {
        let found = self.0.binary_search_by_key(&column, |entry| entry.0);
        found.map_or(0, |index| self.0[index].1)
    }

    /// Returns the sum of the counts in a range of columns.
    pub(super) fn within(&self, columns: std::ops::Range<usize>) -> u64 {
        self.0.iter().filter(|entry| columns.contains(&entry.0)).map(|entry| entry.1).sum()
    }

    pub(super) fn total(&self) -> u64 {
        self.0.iter().map(|entry| entry.1).sum()
    }

    /// Returns values with their counts, for columns that are buckets of `digits` binary digits.
    pub(super) fn values(&self, digits: u32) -> Vec<(f64, u64)> {
        let counted = self.0.iter().filter(|entry| entry.1 > 0);
        counted.map(|&(column, count)| (lower_end(column, digits) as f64, count)).collect()
    }

    /// Returns the smallest value that at least a share `q` of all values do not exceed.
    pub(super) fn quantile(&self, q: f64, digits: u32) -> Option<f64> {
        let total = self.total();
        let rank = ((q * total as f64).ceil() as u64).clamp(1, total.max(1));
        let mut below = 0;
        let found = self.0.iter().find(|entry| {
            below += entry.1;
            below >= rank
        });
        found.filter(|_| total > 0).map(|entry| lower_end(entry.0, digits) as f64)
    }

    /// Returns the same quantile as [`Counts::quantile`], but as the middle of its bucket.
    pub(super) fn middle_quantile(&self, q: f64, digits: u32) -> Option<f64> {
        let low = self.quantile(q, digits)?;
        let next = lower_end(bucket(low as u64, digits) + 1, digits) as f64;
        Some((low + next - 1.0) / 2.0)
    }
}

/// Returns the bucket of a value, with `2^digits` buckets per power of two.
#[inline]
pub(super) fn bucket(value: u64, digits: u32) -> usize {
    let shift = (63 - (value | 1).leading_zeros()).saturating_sub(digits);
    ((shift as usize) << digits) + (value >> shift) as usize
}

/// Returns the smallest value in a bucket.
fn lower_end(bucket: usize, digits: u32) -> u64 {
    let shift = (bucket >> digits).saturating_sub(1);
    ((bucket - (shift << digits)) as u64) << shift
}

/// Returns the block weights of the trace itself, which are all one.
pub(super) fn whole() -> Vec<u64> {
    vec![1; BLOCKS]
}

/// Returns the block weights of each resample.
pub(super) fn resamples(seed: u64) -> Vec<Vec<u64>> {
    let mut random = Random(seed);
    let mut draw = || {
        let mut weights = vec![0u64; BLOCKS];
        (0..BLOCKS).for_each(|_| weights[random.below(BLOCKS)] += 1);
        weights
    };
    (0..RESAMPLES).map(|_| draw()).collect()
}

/// Returns the central interval that covers a share `level` of `drawn`; `None` if `drawn` is empty.
pub(super) fn interval(mut drawn: Vec<f64>, level: f64) -> Option<(f64, f64)> {
    drawn.retain(|value| value.is_finite());
    drawn.sort_by(f64::total_cmp);
    let last = drawn.len().checked_sub(1)?;
    let at = |share: f64| drawn[((share * last as f64).round() as usize).min(last)];
    Some((at((1.0 - level) / 2.0), at((1.0 + level) / 2.0)))
}

/// Moves the ends of an interval of a quantity that is not negative to `times` their distances from
/// `middle`. Distances are ratios where both numbers are positive: an interval from a third to
/// three times does not reach 0 by becoming wider.
pub(super) fn spread((low, high): (f64, f64), middle: f64, times: f64) -> (f64, f64) {
    let moved = |end: f64| match end > 0.0 && middle > 0.0 {
        true => middle * (end / middle).powf(times),
        false => (middle + (end - middle) * times).max(0.0),
    };
    (moved(low), moved(high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resample_is_a_weighted_sum_and_compacting_changes_nothing() {
        let mut tally = Tally::default();
        tally.add(0, 7, 2);
        tally.add(0, 7, 1);
        tally.add(1, 900, 5);
        let mut weights = vec![0; BLOCKS];
        (weights[0], weights[1]) = (2, 1);
        let told = |tally: &Tally| {
            let counts = tally.weigh(&weights);
            (counts.of(7), counts.of(900), counts.of(8), counts.within(8..901), counts.total())
        };
        assert_eq!(told(&tally), (6, 5, 0, 5, 11));
        tally.compact();
        assert_eq!(told(&tally), (6, 5, 0, 5, 11));
        assert_eq!(tally.weigh(&weights).0, [(7, 6), (900, 5)]);
    }

    #[test]
    fn buckets_hold_what_is_at_most_a_share_above_their_ends() {
        for power in 0..64 {
            for value in [1u64 << power, (1 << power) | 1, ((1u128 << (power + 1)) - 1) as u64] {
                let low = lower_end(bucket(value, 8), 8);
                assert!(low <= value && value - low <= value / 256, "{value}: {low}");
            }
        }
        assert_eq!(lower_end(bucket(832 * 1024, 10), 10), 832 * 1024);
    }

    #[test]
    fn quantiles_are_nearest_ranks() {
        let counts = Counts(vec![(10, 1), (20, 2), (40, 1)]);
        let at = |q| counts.quantile(q, 10);
        assert_eq!(
            [at(0.25), at(0.26), at(0.75), at(1.0)].map(Option::unwrap),
            [10., 20., 20., 40.]
        );
        assert_eq!(Counts::default().quantile(0.5, 10), None);
    }

    #[test]
    fn every_record_has_its_block() {
        let clock = Clock::Times(Nanos(1000));
        assert_eq!([0, 19, 20, 1000].map(|at| clock.block(Nanos(at), 0)), [0, 0, 1, BLOCKS - 1]);
        assert_eq!(Clock::Times(Nanos::MAX).block(Nanos::MAX, 0), BLOCKS - 1);
        assert_eq!(Clock::Records(100).block(Nanos::ZERO, 99), BLOCKS - 1);
        assert_eq!(Clock::Times(Nanos::ZERO).block(Nanos::ZERO, 5), 0);
    }

    #[test]
    fn the_same_seed_draws_the_same_and_as_many_blocks_as_there_are() {
        let drawn = resamples(4);
        assert_eq!(drawn, resamples(4));
        assert_ne!(drawn, resamples(5));
        assert!(drawn.iter().all(|weights| weights.iter().sum::<u64>() == BLOCKS as u64));
    }

    #[test]
    fn an_interval_leaves_out_both_tails() {
        let drawn = (0..=100).map(f64::from).chain([f64::NAN]).collect();
        assert_eq!(interval(drawn, 0.9), Some((5.0, 95.0)));
        assert_eq!(interval(Vec::new(), 0.9), None);
    }
}
