//! The free space of a disk.

use std::collections::BTreeMap;

/// Free extents by position; no two of them are adjacent.
#[derive(Debug, Default)]
pub(crate) struct Space {
    free: BTreeMap<u64, u64>,
    /// The total number of free bytes.
    free_bytes: u64,
}

impl Space {
    /// Creates a space that is completely free.
    pub(crate) fn new(from: u64, len: u64) -> Space {
        Space { free: BTreeMap::from_iter((len > 0).then_some((from, len))), free_bytes: len }
    }

    /// Takes the first free extent of this length; returns None if no free extent is long enough.
    pub(crate) fn take(&mut self, len: u64) -> Option<u64> {
        let (&at, &room) = self.free.iter().find(|(_, room)| **room >= len)?;
        self.free.remove(&at);
        self.free_bytes -= len;
        if room > len {
            self.free.insert(at + len, room - len);
        }
        Some(at)
    }

    /// Allocates exactly this extent; returns false and allocates nothing if it is not completely
    /// free.
    pub(crate) fn claim(&mut self, at: u64, len: u64) -> bool {
        let Some((&from, &room)) = self.free.range(..=at).next_back() else { return false };
        let end = from + room;
        if at.checked_add(len).is_none_or(|upto| upto > end) {
            return false;
        }
        self.free.remove(&from);
        self.free_bytes -= len;
        if at > from {
            self.free.insert(from, at - from);
        }
        if at + len < end {
            self.free.insert(at + len, end - at - len);
        }
        true
    }

    /// Returns an extent to the free space.
    pub(crate) fn give(&mut self, mut at: u64, mut len: u64) {
        if len == 0 {
            return;
        }
        self.free_bytes += len;
        if let Some((&before, &room)) = self.free.range(..at).next_back() {
            assert!(before + room <= at, "{len} bytes at {at} are already free");
            if before + room == at {
                self.free.remove(&before);
                (at, len) = (before, len + room);
            }
        }
        if let Some(room) = self.free.remove(&(at + len)) {
            len += room;
        }
        let other = self.free.insert(at, len);
        assert!(other.is_none(), "{len} bytes at {at} are already free");
    }

    /// Returns the length of the longest free extent.
    pub(crate) fn longest(&self) -> u64 {
        self.free.values().copied().max().unwrap_or(0)
    }

    /// Returns the number of free bytes that are usable in pieces of this size.
    pub(crate) fn whole(&self, piece: u64) -> u64 {
        self.free.values().map(|room| room / piece * piece).sum()
    }

    /// Returns the number of free bytes.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.free_bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares the free space with a model that has one flag per block.
        #[test]
        fn no_block_is_given_twice_or_lost(acts in proptest::collection::vec((0..3_u8, 0..40_u64, 1..9_u64), 1..200)) {
            let mut space = Space::new(0, 40);
            let mut taken = [false; 40];
            let mut extents: Vec<(u64, u64)> = Vec::new();
            for (act, at, len) in acts {
                let is_free = |taken: &[bool], at: u64, len: u64| {
                    (at..at + len).all(|block| taken.get(block as usize) == Some(&false))
                };
                let got = match act {
                    0 => space.take(len),
                    1 => space.claim(at, len).then_some(at),
                    _ => {
                        if !extents.is_empty() {
                            let (at, len) = extents.swap_remove(at as usize % extents.len());
                            space.give(at, len);
                            taken[at as usize..(at + len) as usize].fill(false);
                        }
                        continue;
                    }
                };
                let first = (0..40).find(|at| is_free(&taken, *at, len));
                let expected = if act == 0 { first } else { Some(at).filter(|at| is_free(&taken, *at, len)) };
                prop_assert_eq!(got, expected);
                if let Some(at) = got {
                    taken[at as usize..(at + len) as usize].fill(true);
                    extents.push((at, len));
                }
                let free = taken.iter().filter(|taken| !**taken).count() as u64;
                prop_assert_eq!(space.free_bytes(), free);
            }
        }
    }
}
