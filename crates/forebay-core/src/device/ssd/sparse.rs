//! A long array of numbers, most of which are zero. Its memory is proportional to the part that was
//! ever written.

/// The number of entries in a piece, which is the unit of memory.
const PIECE: usize = 1024;

/// An array that is initially zero.
#[derive(Clone, Debug)]
pub(super) struct Sparse {
    /// For each stretch of [`PIECE`] numbers, the index of its piece plus one; 0 if the stretch has
    /// no piece.
    pieces: Vec<u32>,
    numbers: Vec<u32>,
    len: usize,
}

impl Sparse {
    pub(super) fn new(len: usize) -> Sparse {
        Sparse { pieces: vec![0; len.div_ceil(PIECE)], numbers: Vec::new(), len }
    }

    /// Returns the number at `at`; `None` beyond the end.
    #[inline]
    pub(super) fn get(&self, at: u32) -> Option<u32> {
        let at = at as usize;
        match *self.pieces.get(at / PIECE)? {
            0 => (at < self.len).then_some(0),
            piece => Some(self.numbers[(piece as usize - 1) * PIECE + at % PIECE]),
        }
    }

    #[inline]
    pub(super) fn set(&mut self, at: u32, number: u32) {
        let at = at as usize;
        if self.pieces[at / PIECE] == 0 {
            self.grow(at / PIECE);
        }
        let piece = self.pieces[at / PIECE] as usize - 1;
        self.numbers[piece * PIECE + at % PIECE] = number;
    }

    #[cold]
    fn grow(&mut self, stretch: usize) {
        self.numbers.resize(self.numbers.len() + PIECE, 0);
        self.pieces[stretch] = (self.numbers.len() / PIECE) as u32;
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_entries_are_returned_and_others_are_zero() {
        let mut sparse = Sparse::new(3 * PIECE + 7);
        let last = (3 * PIECE + 6) as u32;
        sparse.set(last, 5);
        sparse.set(1, 9);
        sparse.set(1024, 4);
        assert_eq!(
            (sparse.get(last), sparse.get(1), sparse.get(1024)),
            (Some(5), Some(9), Some(4))
        );
        assert_eq!(
            (sparse.get(0), sparse.get(2048), sparse.get(last - 1)),
            (Some(0), Some(0), Some(0))
        );
        assert_eq!((sparse.get(last + 1).is_some(), sparse.get(1 << 30)), (true, None));
        assert_eq!(sparse.numbers.len(), 3 * PIECE);
    }
}
