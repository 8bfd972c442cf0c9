//! Samples of blocks that represent all blocks (SHARDS: Waldspurger, Park, Garthwaite and Ahmad,
//! FAST 2015).
//!
//! A block is in the sample if its hash is below a threshold; then all of its uses count, and
//! otherwise none. The cache that a sample simulates is smaller in the same proportion. The
//! threshold is halved repeatedly, so that one in 1, 2, 4, ... blocks is in the sample, and each
//! sample contains all smaller ones. (The paper lowers the threshold to the highest hash in the
//! sample.)

/// A sample of one in 2^n blocks; by default all blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    power: u32,
}

impl Sample {
    /// Returns the largest sample in which at most `kept` of `whole` blocks are expected.
    pub fn keeping(kept: u64, whole: u64) -> Sample {
        let mut sample = Sample::default();
        while sample.power < 63 && whole.div_ceil(sample.one_in()) > kept.max(1) {
            sample = sample.halved();
        }
        sample
    }

    /// Returns a sample of half the size.
    #[must_use]
    pub fn halved(self) -> Sample {
        Sample { power: (self.power + 1).min(63) }
    }

    /// Returns the number of blocks that each sampled block represents.
    #[inline]
    pub fn one_in(self) -> u64 {
        1 << self.power
    }

    /// Returns whether the sample contains a block.
    #[inline]
    pub fn holds(self, key: u64) -> bool {
        self.power == 0 || mixed(key) >> (64 - self.power) == 0
    }
}

/// Hashes a key with the finalizer of MurmurHash3 (Appleby), which is independent of the index's
/// hash. The constant keeps block 0, which is often busy, from being in every sample.
#[inline]
fn mixed(key: u64) -> u64 {
    let mut hash = key ^ 0x9E37_79B9_7F4A_7C15;
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_contains_its_share_and_all_smaller_samples() {
        for power in 0..8 {
            let sample = Sample { power };
            let held = (0..1 << 16).filter(|&key| sample.holds(key)).count() as f64;
            let expected = f64::from(1 << (16 - power));
            assert!((held - expected).abs() < 4.0 * expected.sqrt(), "{held} of {expected}");
            assert!((0..1 << 16).all(|key| sample.holds(key) || !sample.halved().holds(key)));
        }
        assert!(!Sample { power: 20 }.holds(0));
    }

    #[test]
    fn the_sample_is_as_large_as_memory_permits() {
        let one_in = |kept, whole| Sample::keeping(kept, whole).one_in();
        assert_eq!([one_in(10, 10), one_in(10, 11), one_in(10, 41)], [1, 2, 8]);
        assert_eq!((one_in(0, 4), one_in(1, u64::MAX)), (4, 1 << 63));
    }
}
