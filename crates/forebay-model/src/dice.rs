//! Random choices that are the same for the same seed on every machine.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A source of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct RandomSource(Xoshiro256PlusPlus);

impl RandomSource {
    pub(crate) fn new(seed: u64) -> RandomSource {
        RandomSource(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Returns a random number in `0.0..1.0`.
    #[inline]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a random number in `0..count`, or 0 if `count` is 0.
    #[inline]
    pub(crate) fn below(&mut self, count: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(count)) >> 64) as u64
    }

    /// Returns a random number in `low..=high`.
    #[inline]
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below((high - low).saturating_add(1))
    }

    /// Draws an index by weight, from at most [`WEIGHTS_MAX`] weights. Returns None if no weight is
    /// above 0. It compares sums of blocks first, so that only one block is searched.
    #[inline]
    pub(crate) fn weighted(&mut self, weights: &[f32]) -> Option<usize> {
        let mut sums = [0.0; WEIGHTS_MAX / BLOCK];
        let mut all = 0.0;
        for (block, kept) in weights.chunks(BLOCK).zip(&mut sums) {
            *kept = sum(block);
            all += *kept;
        }
        if all <= 0.0 {
            return None;
        }
        let mut drawn = self.unit() as f32 * all;
        let mut found = None;
        for (block, &sum) in sums[..weights.len().div_ceil(BLOCK)].iter().enumerate() {
            // If rounding errors leave a remainder, the last block with a positive sum is taken.
            if sum > 0.0 {
                found = Some(block);
                if drawn < sum {
                    break;
                }
                drawn -= sum;
            }
        }
        let first = found? * BLOCK;
        let mut last = None;
        for (index, &weight) in (first..).zip(&weights[first..weights.len().min(first + BLOCK)]) {
            if weight > 0.0 {
                last = Some(index);
                drawn -= weight;
                if drawn < 0.0 {
                    break;
                }
            }
        }
        last
    }
}

/// The maximum number of weights.
pub(crate) const WEIGHTS_MAX: usize = 1024;
const BLOCK: usize = 32;

/// Returns the sum, added up in eight lanes so that it can be vectorized.
#[inline]
fn sum(weights: &[f32]) -> f32 {
    let mut lanes = [0.0f32; 8];
    let parts = weights.chunks_exact(8);
    let rest: f32 = parts.remainder().iter().sum();
    for part in parts {
        lanes.iter_mut().zip(part).for_each(|(lane, weight)| *lane += weight);
    }
    lanes.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_drawn_as_often_as_they_weigh() {
        for count in [1, 31, 32, 33, 200] {
            // Every third weight is zero, and the last is as large as all others together.
            let mut weights: Vec<f32> =
                (0..count).map(|n| if n % 3 == 1 { 0.0 } else { 1.0 }).collect();
            weights[count - 1] = 0.0;
            weights[count - 1] = weights.iter().sum::<f32>().max(1.0);
            let (mut dice, mut drawn) = (RandomSource::new(3), vec![0u32; count]);
            for _ in 0..20_000 {
                drawn[dice.weighted(&weights).unwrap_or(usize::MAX)] += 1;
            }
            let all: f32 = weights.iter().sum();
            for (times, weight) in drawn.iter().zip(&weights) {
                let expected = weight / all * 20_000.0;
                assert!(
                    (*times as f32 - expected).abs() <= 5.0 * expected.sqrt(),
                    "{times}, {expected}"
                );
            }
        }
        assert_eq!(RandomSource::new(1).weighted(&[0.0; 40]), None);
        assert_eq!(RandomSource::new(1).weighted(&[]), None);
    }
}
