//! The free cells of a drive, allocated sequentially so that writes are contiguous.

/// The cells of a drive.
#[derive(Clone, Debug, Default)]
pub(super) struct Space {
    /// One bit per cell, set if the cell is in use.
    taken: Vec<u64>,
    cells: u32,
    free: u32,
    /// The cell at which the search begins.
    next: u32,
}

impl Space {
    pub(super) fn new(cells: u32) -> Space {
        let mut taken = vec![0; cells.div_ceil(64) as usize];
        if let Some(last) = taken.last_mut()
            && !cells.is_multiple_of(64)
        {
            *last = !0 << (cells % 64);
        }
        Space { taken, cells, free: cells, next: 0 }
    }

    pub(super) fn cells(&self) -> u32 {
        self.cells
    }

    pub(super) fn free(&self) -> u32 {
        self.free
    }

    /// Allocates the next free cell.
    pub(super) fn take(&mut self) -> Option<u32> {
        if self.free == 0 {
            return None;
        }
        let words = self.taken.len();
        let first = (self.next / 64) as usize;
        // The first word is examined twice: its cells before `next` come last.
        for step in 0..=words {
            let word = (first + step) % words;
            let before = if step == 0 { (1u64 << (self.next % 64)) - 1 } else { 0 };
            let free = !(self.taken[word] | before);
            if free != 0 {
                let cell = (word * 64) as u32 + free.trailing_zeros();
                self.taken[word] |= 1 << (cell % 64);
                self.free -= 1;
                self.next = if cell + 1 < self.cells { cell + 1 } else { 0 };
                return Some(cell);
            }
        }
        None
    }

    /// Marks a cell as in use. Returns whether it was free.
    pub(super) fn mark(&mut self, cell: u32) -> bool {
        let Some(word) = self.taken.get_mut((cell / 64) as usize) else { return false };
        let was_free = *word >> (cell % 64) & 1 == 0;
        *word |= 1 << (cell % 64);
        self.free -= u32::from(was_free);
        was_free
    }

    pub(super) fn give(&mut self, cell: u32) {
        if let Some(word) = self.taken.get_mut((cell / 64) as usize) {
            debug_assert!(*word >> (cell % 64) & 1 == 1, "cell {cell} is given twice");
            *word &= !(1 << (cell % 64));
            self.free += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_allocated_in_order_and_only_once() {
        let mut space = Space::new(130);
        assert_eq!(
            (0..130).map(|_| space.take()).collect::<Vec<_>>(),
            (0..130).map(Some).collect::<Vec<_>>()
        );
        assert_eq!((space.take(), space.free()), (None, 0));
        for cell in [7, 64, 129, 5] {
            space.give(cell);
        }
        let again: Vec<_> = (0..4).map(|_| space.take()).collect();
        assert_eq!(again, [5, 7, 64, 129].map(Some));
        space.give(100);
        space.give(3);
        assert_eq!((space.take(), space.take(), space.take()), (Some(3), Some(100), None));
    }

    #[test]
    fn marked_cells_are_not_taken() {
        let mut space = Space::new(3);
        assert!(space.mark(1) && !space.mark(1) && !space.mark(64) && !space.mark(3));
        assert_eq!((space.take(), space.take(), space.take()), (Some(0), Some(2), None));
    }
}
