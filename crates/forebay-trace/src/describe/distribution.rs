//! A distribution of values in bounded memory. Its count, mean and maximum are exact; its quantiles
//! have an error of at most 0.1 %.
//!
//! Values are counted in buckets of equal width within each power of two, with `2^DIGITS` buckets
//! per power. A quantile is the lower end of its bucket, or the maximum if that is in the bucket.
//! With 10 digits, it is at most 1/1024 away from the true value, and exact for values below 2048
//! and for all that have at most 11 binary digits, which includes the usual request sizes.

use super::{PIECE, direction};
use crate::Record;

/// The number of values in each bucket.
#[derive(Clone, Debug, Default)]
pub(super) struct Distribution<const DIGITS: u32 = 10> {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    max: u64,
}

impl<const DIGITS: u32> Distribution<DIGITS> {
    #[cfg(test)]
    pub(super) fn add(&mut self, value: u64) {
        self.add_all(std::iter::once(value));
    }

    #[inline]
    pub(super) fn add_all(&mut self, values: impl Iterator<Item = u64>) {
        let (mut count, mut sum, mut max) = (0, 0u128, self.max);
        for value in values {
            count += 1;
            sum += u128::from(value);
            max = max.max(value);
            let bucket = bucket(value, DIGITS);
            match self.counts.get_mut(bucket) {
                Some(count) => *count += 1,
                None => self.grow(bucket),
            }
        }
        self.count += count;
        self.sum += sum;
        self.max = max;
    }

    #[cold]
    fn grow(&mut self, bucket: usize) {
        self.counts.resize(bucket + 1, 0);
        self.counts[bucket] = 1;
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of all values, or the greatest integer if it overflows.
    pub(super) fn sum(&self) -> u64 {
        u64::try_from(self.sum).unwrap_or(u64::MAX)
    }

    pub(super) fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    pub(super) fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// Returns the smallest value that at least a share `q` of all values do not exceed.
    pub(super) fn quantile(&self, q: f64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let rank = ((q * self.count as f64).ceil() as u64).clamp(1, self.count);
        let mut below = 0;
        for (bucket, &count) in self.counts.iter().enumerate() {
            below += count;
            if below == self.count {
                // The last bucket contains the maximum, so the quantile of equal values is exact.
                return Some(self.max);
            }
            if below >= rank {
                return Some(lower_end(bucket, DIGITS));
            }
        }
        Some(self.max)
    }
}

/// The distributions of reads and of writes.
#[derive(Clone, Debug, Default)]
pub(super) struct ByDirection {
    distributions: [Distribution; 2],
    /// Buffers for the values of each direction.
    picked: [Vec<u64>; 2],
}

impl ByDirection {
    /// Adds a value for each record. There are no branches, because the direction is hard to
    /// predict.
    #[inline]
    pub(super) fn add_all<'a>(&mut self, values: impl Iterator<Item = (&'a Record, u64)>) {
        let [reads, writes] = &mut self.picked;
        reads.resize(PIECE, 0);
        writes.resize(PIECE, 0);
        let mut counts = [0; 2];
        for (record, value) in values {
            if counts[0].max(counts[1]) == PIECE {
                ByDirection::empty(&mut self.distributions, [reads, writes], &mut counts);
            }
            (reads[counts[0]], writes[counts[1]]) = (value, value);
            let direction = direction(record);
            counts[0] += 1 - direction;
            counts[1] += direction;
        }
        ByDirection::empty(&mut self.distributions, [reads, writes], &mut counts);
    }

    fn empty(to: &mut [Distribution; 2], picked: [&[u64]; 2], counts: &mut [usize; 2]) {
        for direction in 0..2 {
            to[direction].add_all(picked[direction][..counts[direction]].iter().copied());
        }
        *counts = [0; 2];
    }

    pub(super) fn reads(&self) -> &Distribution {
        &self.distributions[0]
    }

    pub(super) fn writes(&self) -> &Distribution {
        &self.distributions[1]
    }
}

#[inline]
fn bucket(value: u64, digits: u32) -> usize {
    let shift = (63 - (value | 1).leading_zeros()).saturating_sub(digits);
    ((shift as usize) << digits) + (value >> shift) as usize
}

fn lower_end(bucket: usize, digits: u32) -> u64 {
    let shift = (bucket >> digits).saturating_sub(1);
    ((bucket - (shift << digits)) as u64) << shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_adjacent_and_within_a_thousandth() {
        let mut last = 0;
        for power in 0..64 {
            for value in [1u64 << power, (1 << power) | 1, ((1u128 << (power + 1)) - 1) as u64] {
                let low = lower_end(bucket(value, 10), 10);
                assert!(low <= value && value - low <= value / 1024, "{value}: {low}");
                assert!(bucket(value, 10) >= last);
                last = bucket(value, 10);
            }
        }
        assert_eq!(bucket(2048, 10), bucket(2047, 10) + 1);
        assert_eq!(lower_end(bucket(832 * 1024, 10), 10), 832 * 1024);
    }

    #[test]
    fn quantiles_are_nearest_ranks() {
        let mut d = Distribution::<10>::default();
        assert_eq!((d.quantile(0.5), d.mean(), d.max()), (None, None, None));
        for value in [10, 20, 30, 40] {
            d.add(value);
        }
        assert_eq!(d.quantile(0.5), Some(20));
        assert_eq!(d.quantile(0.51), Some(30));
        assert_eq!((d.quantile(0.0), d.quantile(1.0)), (Some(10), Some(40)));
        assert_eq!((d.mean(), d.max(), d.count()), (Some(25.0), Some(40), 4));
    }

    #[test]
    fn the_largest_values_count() {
        let mut d = Distribution::<10>::default();
        d.add(u64::MAX);
        d.add(u64::MAX);
        assert_eq!(d.mean(), Some(u64::MAX as f64));
        assert!(d.quantile(0.5) >= Some(u64::MAX - (u64::MAX >> 10)));
    }
}
