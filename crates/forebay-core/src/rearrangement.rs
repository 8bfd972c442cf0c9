//! Rearrangements: new positions for blocks of a disk, as after defragmentation.
//!
//! A rearrangement maps old addresses to new ones and is stored as sorted extents; everything
//! outside the extents stays in place. It is a bijection of all addresses and its own inverse: each
//! moved extent swaps with the content of its new position. That content may be worthless, because
//! a defragmenter uses free space, but it needs a position too so that every request can be mapped.

/// Bytes that are contiguous before and after the move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first byte of the old position.
    pub from: u64,
    /// The first byte of the new position.
    pub to: u64,
    /// The length in bytes.
    pub len: u64,
}

/// A map from old to new addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rearrangement {
    /// Sorted by `from`, disjoint, and as long as possible.
    extents: Vec<Extent>,
    /// The extents that were moved deliberately, sorted by `to`. All other extents were moved only
    /// to make room for these.
    moved: Vec<Extent>,
}

impl Rearrangement {
    /// Places the ranges `moved` (first byte, length) one after another starting at `to`, in the
    /// given order. Returns `None` if a range is empty, extends past the last address, or overlaps
    /// another range or the new position.
    pub fn laid(moved: &[(u64, u64)], to: u64) -> Option<Rearrangement> {
        let (mut forth, mut next) = (Vec::with_capacity(moved.len()), to);
        for &(from, len) in moved {
            from.checked_add(len).filter(|_| len > 0)?;
            forth.push(Extent { from, to: next, len });
            next = next.checked_add(len)?;
        }
        let back = forth.iter().map(|e| Extent { from: e.to, to: e.from, len: e.len });
        let mut extents: Vec<Extent> = forth.iter().copied().chain(back).collect();
        extents.sort_unstable_by_key(|extent| extent.from);
        let apart = |pair: &[Extent]| pair[0].from + pair[0].len <= pair[1].from;
        let disjoint = extents.windows(2).all(apart);
        disjoint.then(|| Rearrangement { extents: joined(extents), moved: joined(forth) })
    }

    /// Returns the intended moves in the order of their new positions.
    pub fn moves(&self) -> &[Extent] {
        &self.moved
    }

    /// Returns the number of bytes that were moved deliberately, not only to make room.
    pub fn moved_bytes(&self) -> u64 {
        self.moved.iter().map(|extent| extent.len).sum()
    }

    /// Returns whether a range overlaps the extents that were moved to free places.
    pub fn displaces(&self, offset: u64, len: u64) -> bool {
        let Some((first, last)) = self.moved.first().zip(self.moved.last()) else { return false };
        offset < last.to + last.len && offset.saturating_add(len) > first.to
    }

    /// Returns the pieces in which the `len` bytes from `offset` are now stored, in the order of
    /// the range; none for an empty range.
    #[inline]
    pub fn pieces(&self, offset: u64, len: u64) -> Pieces<'_> {
        let first = self.extents.partition_point(|extent| extent.from + extent.len <= offset);
        Pieces { left: &self.extents[first..], offset, end: offset.saturating_add(len) }
    }
}

/// Merges extents that are adjacent in both the old and the new positions.
fn joined(extents: Vec<Extent>) -> Vec<Extent> {
    let mut joined: Vec<Extent> = Vec::with_capacity(extents.len());
    for extent in extents {
        match joined.last_mut() {
            Some(last)
                if last.from + last.len == extent.from && last.to + last.len == extent.to =>
            {
                last.len += extent.len;
            }
            _ => joined.push(extent),
        }
    }
    joined
}

/// The pieces of a range, each as its first byte and length.
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    left: &'a [Extent],
    offset: u64,
    end: u64,
}

impl Iterator for Pieces<'_> {
    type Item = (u64, u64);

    #[inline]
    fn next(&mut self) -> Option<(u64, u64)> {
        if self.offset >= self.end {
            return None;
        }
        let (place, until) = match self.left.first() {
            Some(extent) if extent.from <= self.offset => {
                self.left = &self.left[1..];
                (extent.to + (self.offset - extent.from), extent.from + extent.len)
            }
            Some(extent) => (self.offset, extent.from),
            None => (self.offset, self.end),
        };
        let len = until.min(self.end) - self.offset;
        self.offset += len;
        Some((place, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pieces(map: &Rearrangement, offset: u64, len: u64) -> Vec<(u64, u64)> {
        map.pieces(offset, len).collect()
    }

    #[test]
    fn ranges_are_split_where_their_targets_diverge() {
        let map = Rearrangement::laid(&[(100, 10), (40, 20)], 200).unwrap();
        assert_eq!(
            pieces(&map, 0, 300),
            [(0, 40), (210, 20), (60, 40), (200, 10), (110, 90), (100, 10), (40, 20), (230, 70)]
        );
        assert_eq!(pieces(&map, 45, 5), [(215, 5)]);
        assert_eq!(pieces(&map, 60, 40), [(60, 40)]);
        assert_eq!(pieces(&map, 45, 0), []);
        assert_eq!(map.moved_bytes(), 30);
        assert!(map.displaces(229, 1) && !map.displaces(230, 9) && !map.displaces(190, 10));
    }

    #[test]
    fn impossible_arrangements_are_rejected() {
        for (moved, to) in [
            (&[(0, 10), (5, 10)][..], 100),
            (&[(0, 10)], 5),
            (&[(0, 0)], 5),
            (&[(u64::MAX, 2)], 5),
            (&[(0, 10)], u64::MAX - 5),
        ] {
            assert_eq!(Rearrangement::laid(moved, to), None, "{moved:?} to {to}");
        }
    }

    #[test]
    fn neighbors_moved_together_are_one_move() {
        let map = Rearrangement::laid(&[(10, 5), (15, 5), (0, 3)], 50).unwrap();
        let moves: Vec<_> = map.moves().iter().map(|m| (m.from, m.to, m.len)).collect();
        assert_eq!(moves, [(10, 50, 10), (0, 60, 3)]);
    }

    proptest! {
        /// Compared with a table of every byte: each byte has one position, no position has two
        /// bytes, and the pieces of a range are where its bytes are.
        #[test]
        fn every_byte_has_exactly_one_place(
            gaps in prop::collection::vec((0u64..6, 1u64..7, any::<u32>()), 1..12),
            to in 0u64..200,
            (offset, len) in (0u64..260, 0u64..80),
        ) {
            let mut at = 0;
            let mut ranges: Vec<(u64, u64, u32)> = gaps.iter().map(|&(gap, len, key)| {
                at += gap + len;
                (at - len, len, key)
            }).collect();
            ranges.sort_by_key(|range| range.2);
            let moved: Vec<(u64, u64)> = ranges.iter().map(|&(from, len, _)| (from, len)).collect();
            let total: u64 = moved.iter().map(|range| range.1).sum();
            let meets = moved.iter().any(|&(from, len)| from < to + total && to < from + len);
            let map = Rearrangement::laid(&moved, to);
            prop_assert_eq!(map.is_none(), meets);
            let Some(map) = map else { return Ok(()) };
            let mut place: Vec<u64> = (0..400).collect();
            let old = moved.iter().flat_map(|&(from, len)| from..from + len);
            for (new, old) in (to..).zip(old) {
                place.swap(new as usize, old as usize);
            }
            let bytes = |offset, len| -> Vec<u64> {
                map.pieces(offset, len).flat_map(|(place, len)| place..place + len).collect()
            };
            prop_assert_eq!(bytes(0, 400), place.clone());
            prop_assert_eq!(bytes(offset, len), &place[offset as usize..(offset + len) as usize]);
            prop_assert!(map.pieces(0, 400).all(|(_, len)| len > 0));
            let moved_on_purpose: u64 = map.moves().iter().map(|extent| extent.len).sum();
            prop_assert_eq!(moved_on_purpose, total);
        }
    }
}
