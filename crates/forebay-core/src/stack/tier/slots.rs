//! The free blocks of the flash: a bitmap that is searched from the last allocation on, so that
//! blocks allocated together are contiguous.

/// The free and the allocated blocks.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    /// One bit per block, set if the block is allocated.
    taken: Vec<u64>,
    /// One bit per word of `taken`, set if the word is full.
    full: Vec<u64>,
    free: u64,
    cursor: u64,
    count: u64,
}

impl Slots {
    /// Creates `count` free blocks.
    pub(super) fn new(count: u64) -> Slots {
        let mut slots = Slots {
            taken: vec![0; count.div_ceil(64) as usize],
            full: Vec::new(),
            free: count,
            cursor: 0,
            count,
        };
        if !count.is_multiple_of(64)
            && let Some(last) = slots.taken.last_mut()
        {
            *last = u64::MAX << (count % 64);
        }
        slots.full = vec![0; slots.taken.len().div_ceil(64)];
        if !slots.taken.len().is_multiple_of(64)
            && let Some(last) = slots.full.last_mut()
        {
            *last = u64::MAX << (slots.taken.len() % 64);
        }
        slots
    }

    pub(super) fn free(&self) -> u64 {
        self.free
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Allocates the next free block.
    #[inline]
    pub(super) fn take(&mut self) -> Option<u32> {
        if self.free == 0 {
            return None;
        }
        let slot = self.next_from(self.cursor).or_else(|| self.next_from(0))?;
        self.take_at(slot as u32);
        self.cursor = if slot + 1 == self.count { 0 } else { slot + 1 };
        Some(slot as u32)
    }

    /// Allocates block `slot`, which must be free.
    pub(super) fn take_at(&mut self, slot: u32) {
        let word = slot as usize / 64;
        self.taken[word] |= 1 << (slot % 64);
        if self.taken[word] == u64::MAX {
            self.full[word / 64] |= 1 << (word % 64);
        }
        self.free -= 1;
    }

    /// Frees an allocated block.
    #[inline]
    pub(super) fn give(&mut self, slot: u32) {
        let word = slot as usize / 64;
        debug_assert!(self.taken[word] >> (slot % 64) & 1 == 1, "given back twice");
        self.taken[word] &= !(1 << (slot % 64));
        self.full[word / 64] &= !(1 << (word % 64));
        self.free += 1;
    }

    /// Returns the first free block at or after `from`.
    #[inline]
    fn next_from(&self, from: u64) -> Option<u64> {
        let word = (from / 64) as usize;
        let here = !self.taken.get(word)? & (u64::MAX << (from % 64));
        if here != 0 {
            return Some(word as u64 * 64 + u64::from(here.trailing_zeros()));
        }
        // Search the following words of the bitmap.
        let mask = (u64::MAX << (word % 64)) << 1;
        for (index, &full) in self.full.iter().enumerate().skip(word / 64) {
            let open = !full & if index == word / 64 { mask } else { u64::MAX };
            if open != 0 {
                let word = index * 64 + open.trailing_zeros() as usize;
                return Some(word as u64 * 64 + u64::from((!self.taken[word]).trailing_zeros()));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_taken_once_and_given_back() {
        for count in [1, 63, 64, 65, 4096, 4097, 10_000] {
            let mut slots = Slots::new(count);
            let all: Vec<u32> = std::iter::from_fn(|| slots.take()).collect();
            assert_eq!(all, (0..count as u32).collect::<Vec<_>>());
            let back: Vec<u32> = all.iter().copied().filter(|slot| slot % 7 == 3).collect();
            back.iter().for_each(|&slot| slots.give(slot));
            assert_eq!(slots.free(), back.len() as u64);
            let again: Vec<u32> = std::iter::from_fn(|| slots.take()).collect();
            assert_eq!((again, slots.free(), slots.count()), (back, 0, count));
        }
    }
}
