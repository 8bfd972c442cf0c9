//! Random choice: the same seed gives the same on every machine.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A source of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Dice(Xoshiro256PlusPlus);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// In `0.0..1.0`.
    #[inline]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// In `0..count`; 0 of none.
    #[inline]
    pub(crate) fn below(&mut self, count: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(count)) >> 64) as u64
    }

    /// In `low..=high`.
    #[inline]
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below((high - low).saturating_add(1))
    }

    /// An index by its weight, the sum of which is `sum`; the last that has any, where roundings leave
    /// something over.
    #[inline]
    pub(crate) fn weighted(&mut self, weights: &[f32], sum: f32) -> usize {
        let mut drawn = self.unit() as f32 * sum;
        let mut last = 0;
        for (index, &weight) in weights.iter().enumerate() {
            if weight > 0.0 {
                last = index;
                drawn -= weight;
                if drawn < 0.0 {
                    break;
                }
            }
        }
        last
    }
}
