//! A hash table that maps hashes to dense ids, whose meaning only the owner knows.
//!
//! It uses open addressing with linear probing and back-shift deletion, and is at most half full.
//! Several entries may have the same hash. Its order depends only on the sequence of calls.

const EMPTY: u32 = u32::MAX;

/// Hashes a number so that the high bits of the hash, which select the slot, depend on all of its
/// bits.
#[inline]
pub(crate) fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// A hash index of ids.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    slots: Vec<(u64, u32)>,
    shift: u32,
    len: usize,
}

impl Index {
    pub(crate) fn new() -> Self {
        Index { slots: vec![(0, EMPTY); 512], shift: 64 - 9, len: 0 }
    }

    #[inline]
    fn mask(&self) -> usize {
        self.slots.len() - 1
    }

    #[inline]
    pub(crate) fn insert(&mut self, hash: u64, id: u32) {
        if (self.len + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let mut at = (hash >> self.shift) as usize;
        while self.slots[at].1 != EMPTY {
            at = (at + 1) & self.mask();
        }
        self.slots[at] = (hash, id);
        self.len += 1;
    }

    /// Returns the first id with `hash` that `is_it` accepts.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let mut at = (hash >> self.shift) as usize;
        loop {
            let (known, id) = self.slots[at];
            if id == EMPTY {
                return None;
            }
            if known == hash && is_it(id) {
                return Some(id);
            }
            at = (at + 1) & self.mask();
        }
    }

    /// Removes `id` with `hash`, which must be present.
    #[inline]
    pub(crate) fn remove(&mut self, hash: u64, id: u32) {
        let mut hole = (hash >> self.shift) as usize;
        while self.slots[hole] != (hash, id) {
            debug_assert_ne!(self.slots[hole].1, EMPTY, "the entry to remove does not exist");
            hole = (hole + 1) & self.mask();
        }
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask();
            let (known, other) = self.slots[at];
            if other == EMPTY {
                break;
            }
            // An entry moves back unless its home slot is after the hole.
            let home = (known >> self.shift) as usize;
            if (at.wrapping_sub(home) & self.mask()) >= (at.wrapping_sub(hole) & self.mask()) {
                self.slots[hole] = self.slots[at];
                hole = at;
            }
        }
        self.slots[hole].1 = EMPTY;
        self.len -= 1;
    }

    #[cold]
    fn grow(&mut self) {
        let size = self.slots.len() * 2;
        let old = std::mem::replace(&mut self.slots, vec![(0, EMPTY); size]);
        self.shift -= 1;
        self.len = 0;
        for (hash, id) in old.into_iter().filter(|&(_, id)| id != EMPTY) {
            self.insert(hash, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The table finds the same ids as a plain list does. There are few distinct hashes, so
        /// probes collide.
        #[test]
        fn agrees_with_a_list(calls in prop::collection::vec((0u64..40, 0u32..2000, any::<bool>()), 0..2500)) {
            let mut table = Index::new();
            let mut list: Vec<(u64, u32)> = Vec::new();
            for (position, id, remove) in calls {
                let key = spread(position);
                if remove && let Some(at) = list.iter().position(|&(known, _)| known == key) {
                    let (_, gone) = list.remove(at);
                    table.remove(key, gone);
                } else {
                    table.insert(key, id);
                    list.push((key, id));
                }
                for probe in 0..40 {
                    let key = spread(probe);
                    let expected = list.iter().any(|&(known, _)| known == key);
                    let found = table.find(key, |id| list.contains(&(key, id)));
                    prop_assert_eq!(found.is_some(), expected);
                }
            }
        }
    }
}
