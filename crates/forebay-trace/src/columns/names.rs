//! Assigns numbers to the volumes and streams of a trace, by the names in their columns.
//!
//! A name consists of up to three fields. If all of them have at most seven bytes, the name is
//! found in a small direct-mapped cache without touching its text; otherwise, in a map of complete
//! names. A name may be spelled in several ways (`7`, ` 7`, `"7"`), but the map contains it only
//! once.

use rustc_hash::FxHashMap;

/// The maximum number of fields in a name.
pub(crate) const PARTS: usize = 3;

/// The number of cache entries, a power of two.
const SLOTS: usize = 4096;

/// The fields of a name, as converted by [`crate::columns::cursor::short_key`]; 0 for fields that
/// the format lacks.
pub(crate) type Keys = [u64; PARTS];

/// A key that differs from those of all fields, because its length would be 255.
const NO_KEYS: Keys = [u64::MAX; PARTS];

/// All names seen so far, with their numbers.
#[derive(Default)]
pub(crate) struct Names {
    /// The cache, which is allocated when it is first needed.
    cache: Vec<(Keys, u32)>,
    known: FxHashMap<Vec<u8>, u32>,
}

impl Names {
    #[inline]
    fn slot(keys: &Keys) -> usize {
        let mixed = keys[0].wrapping_mul(0x9E37_79B9_7F4A_7C15)
            ^ keys[1].wrapping_mul(0xC2B2_AE3D_27D4_EB4F)
            ^ keys[2].wrapping_mul(0x1656_67B1_9E37_79F9);
        (mixed >> 32) as usize % SLOTS
    }

    /// Returns the number of a recently used name, or `None` if it is not in the cache.
    #[inline]
    pub(crate) fn cached(&self, keys: &Keys) -> Option<u32> {
        let (known, number) = self.cache.get(Self::slot(keys))?;
        // Compare the fields one by one; comparing the arrays would first store them in memory.
        let differ = (known[0] ^ keys[0]) | (known[1] ^ keys[1]) | (known[2] ^ keys[2]);
        (differ == 0).then_some(*number)
    }

    /// Caches the number of a name if all its fields are short.
    pub(crate) fn remember(&mut self, keys: Option<Keys>, number: u32) {
        let Some(keys) = keys else { return };
        self.cache.resize(SLOTS, (NO_KEYS, 0));
        if let Some(slot) = self.cache.get_mut(Self::slot(&keys)) {
            *slot = (keys, number);
        }
    }

    /// Returns the number of a name, or `None` if the name is new.
    pub(crate) fn number_of(&self, name: &[u8]) -> Option<u32> {
        self.known.get(name).copied()
    }

    /// Assigns a number to a name.
    pub(crate) fn add(&mut self, name: &[u8], number: u32) {
        self.known.insert(name.to_vec(), number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::cursor::short_key;

    #[test]
    fn names_that_share_a_slot_are_distinguished() {
        let mut names = Names::default();
        let keys = |n: u32| [short_key(n.to_string().as_bytes()).unwrap(), 0, 0];
        for n in 0..100_000u32 {
            names.remember(Some(keys(n)), n);
            assert_eq!(names.cached(&keys(n)), Some(n));
        }
        for n in 0..100_000u32 {
            assert!(names.cached(&keys(n)).is_none_or(|number| number == n));
        }
        assert_eq!(names.cached(&[0, 0, 0]), None);
    }
}
