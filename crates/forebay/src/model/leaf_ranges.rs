//! Leaves of the hierarchy: the ranges that are states. Each range splits in four; where levels are
//! many, only those that are used most go on splitting, so that a hot corner of a large disk is told
//! apart from the rest (the paper splits every state at once: its four levels are 256 ranges wherever
//! requests fall).

use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use super::space::{CELLS, LEVEL_MAX, Space};
use super::state::Range;

/// Used leaves, about: all ranges of three levels.
pub const LEAVES_MAX: usize = 64;

/// Requests by place while the extent of the volumes is not known yet: in blocks that grow.
#[derive(Clone, Debug, Default)]
pub struct Places {
    counts: FxHashMap<(u32, u64), u64>,
    shift: u32,
}

/// Blocks that are told apart.
const BLOCKS_MAX: usize = 1 << 16;
/// The smallest block: 1 MiB.
const SHIFT_MIN: u32 = 20;

impl Places {
    /// A request begins there.
    #[inline]
    pub fn add(&mut self, volume: u32, offset: u64) {
        self.shift = self.shift.max(SHIFT_MIN);
        *self.counts.entry((volume, offset >> self.shift)).or_default() += 1;
        while self.counts.len() > BLOCKS_MAX && self.shift < 63 {
            self.shift += 1;
            for ((volume, block), count) in std::mem::take(&mut self.counts) {
                *self.counts.entry((volume, block >> 1)).or_default() += count;
            }
        }
    }

    /// Requests by cell of the space.
    pub fn cells(&self, space: &Space) -> Vec<u64> {
        let mut cells = vec![0; CELLS as usize];
        for (&(volume, block), &count) in &self.counts {
            let address = space.address(volume, block << self.shift);
            cells[space.cell(address) as usize] += count;
        }
        cells
    }
}

/// The leaves of at most `level` levels that hold `cells`, in the order of the space; where all ranges
/// of that level are few, all of them.
pub fn leaves(cells: &[u64], level: u8, leaves_max: usize) -> Vec<Range> {
    let sums: Vec<u64> = std::iter::once(0)
        .chain(cells.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        }))
        .collect();
    let weight = |range: Range| {
        let width = CELLS as usize >> (2 * range.level());
        let first = range.index() as usize * width;
        sums[first + width] - sums[first]
    };
    let all = 4usize.saturating_pow(u32::from(level));
    let mut done = Vec::new();
    let mut open: BinaryHeap<(u64, u8, Range)> =
        (0..4).map(|n| Range::new(1, n)).map(|r| (weight(r), u8::MAX - r.level(), r)).collect();
    while let Some((requests, _, range)) = open.pop() {
        let used = done.len() + open.iter().filter(|leaf| leaf.0 > 0).count();
        let is_full = all > leaves_max && used + 1 >= leaves_max;
        if requests == 0 || range.level() >= level.min(LEVEL_MAX) || is_full {
            done.push(range);
            continue;
        }
        for child in range.children() {
            open.push((weight(child), u8::MAX - child.level(), child));
        }
    }
    done.sort_unstable_by_key(|range| range.first_cell());
    done
}

/// Which leaf each cell lies in.
#[derive(Clone, Debug)]
pub struct LeafOf(Vec<u16>);

/// No leaf.
const NONE: u16 = u16::MAX;

impl LeafOf {
    /// Of leaves that do not overlap.
    pub fn new(leaves: &[Range]) -> LeafOf {
        let mut of = vec![NONE; CELLS as usize];
        for (leaf, number) in leaves.iter().zip(0..NONE) {
            let width = CELLS as usize >> (2 * leaf.level());
            let first = leaf.first_cell() as usize;
            of[first..first + width].fill(number);
        }
        LeafOf(of)
    }

    /// The number of a cell's leaf.
    #[inline]
    pub fn of(&self, cell: u32) -> Option<usize> {
        match self.0.get(cell as usize) {
            Some(&number) if number != NONE => Some(usize::from(number)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(used: &[(usize, u64)]) -> Vec<u64> {
        let mut cells = vec![0; CELLS as usize];
        used.iter().for_each(|&(cell, count)| cells[cell] = count);
        cells
    }

    #[test]
    fn few_levels_are_split_everywhere_that_is_used() {
        let used = cells(&[(0, 1), (20_000, 5), (40_000, 1), (65_535, 900)]);
        let paths: Vec<String> = leaves(&used, 2, 64).iter().map(|leaf| leaf.path()).collect();
        assert_eq!(paths.len(), 16);
        assert!(paths.is_sorted());
        assert_eq!(leaves(&used, 1, 64).len(), 4);
    }

    #[test]
    fn many_levels_are_split_where_requests_are() {
        let mut used: Vec<(usize, u64)> = (0..4000).map(|n| (n * 16, 1)).collect();
        used.push((65_535, 100_000));
        let found = leaves(&cells(&used), 8, 64);
        let finest: Vec<&Range> = found.iter().filter(|leaf| leaf.level() == 8).collect();
        assert!(finest.iter().any(|leaf| leaf.path() == "33333333"), "{found:?}");
        assert!((60..=90).contains(&found.len()), "{}", found.len());
        let of = LeafOf::new(&found);
        assert!((0..CELLS as u32).all(|cell| of.of(cell).is_some()));
        for (number, leaf) in found.iter().enumerate() {
            assert_eq!(of.of(leaf.first_cell()), Some(number));
        }
    }

    #[test]
    fn blocks_grow_and_lose_nothing() {
        let mut places = Places::default();
        (0..200_000u64).for_each(|n| places.add((n % 2) as u32, n << 21));
        let space = Space::new(&[200_000 << 21, 200_000 << 21]);
        let cells = places.cells(&space);
        assert_eq!(cells.iter().sum::<u64>(), 200_000);
        assert!(places.counts.len() <= BLOCKS_MAX);
        assert!(cells[..CELLS as usize / 2].iter().sum::<u64>() == 100_000);
    }
}
