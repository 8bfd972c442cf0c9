//! What requests of a category are like: sizes, flags, how they are aligned, and how far on they follow.

use super::super::bins::align_bin;
use super::super::file::{Bins, CategoryModel};
use super::super::space::SECTOR;
use super::draw::{Bag, Dice, Repeating, Table};

/// How ill a place suits that is at another place in a page.
pub(super) const OUT_OF_PHASE: usize = 24;

#[derive(Clone, Debug, Default)]
pub(super) struct CategoryDrawer {
    pub(super) sizes: Vec<u32>,
    pub(super) repeats: Vec<f64>,
    pub(super) size: Bag,
    pub(super) last_size: usize,
    pub(super) distances: Repeating,
    pub(super) same_size: f64,
    pub(super) same_class: f64,
    pub(super) same_stream: f64,
    pub(super) same_op: f64,
    pub(super) alignments: Table,
    /// Which places in a page are common: a bit each.
    phases: u8,
    pub(super) flags: Vec<u8>,
    pub(super) flag: Table,
}

impl CategoryDrawer {
    pub(super) fn new(saved: &CategoryModel) -> CategoryDrawer {
        let sizes: Vec<u32> = saved.sizes.iter().map(|size| size.0).collect();
        let repeats: Vec<f64> = saved
            .sizes
            .iter()
            .map(|size| (f64::from(size.2) / f64::from(size.1.max(1))).min(1.0))
            .collect();
        let counts = saved.sizes.iter().map(|size| u64::from(size.1)).collect();
        CategoryDrawer {
            size: Bag::new(counts),
            sizes,
            repeats,
            last_size: usize::MAX,
            distances: Repeating::new(&saved.distances, &saved.distance_repeats),
            same_size: saved.same_size_share,
            same_class: saved.same_class_share,
            same_stream: saved.same_stream_share,
            same_op: saved.same_op_share,
            alignments: table(&saved.alignments),
            phases: phases(&saved.alignments),
            flags: saved.flags.iter().map(|flag| flag.0).collect(),
            flag: Table::new(0, saved.flags.iter().map(|flag| flag.1)),
        }
    }

    /// How ill a place suits at which a request of another size class began, or as another place in a page
    /// is.
    #[inline]
    pub(super) fn misfit(&self, address: u64, same_class: bool) -> usize {
        let by_class = if same_class { 0 } else { 4 + (24.0 * self.same_size) as usize };
        by_class + if self.is_common(address) { 0 } else { OUT_OF_PHASE }
    }

    /// Whether places in a page like this are common.
    #[inline]
    pub(super) fn is_common(&self, address: u64) -> bool {
        self.phases >> phase(align_bin(address)) & 1 == 1
    }

    /// Whether one of this size is left.
    #[inline]
    pub(super) fn take_size(&mut self, len: u32) -> bool {
        self.sizes.binary_search(&len).is_ok_and(|at| self.size.take(at))
    }

    #[inline]
    pub(super) fn size(&mut self, run_len: Option<u32>, dice: &mut Dice) -> u32 {
        if let Some(len) = run_len {
            self.last_size = self.sizes.binary_search(&len).unwrap_or(usize::MAX);
        }
        let repeats = self.repeats.get(self.last_size).is_some_and(|&share| dice.unit() < share);
        if !repeats || !self.size.take(self.last_size) {
            self.last_size = self.size.draw(dice);
        }
        self.sizes.get(self.last_size).copied().unwrap_or(SECTOR as u32)
    }
}

/// The place in a page that an alignment tells.
fn phase(alignment: usize) -> usize {
    alignment.min(7)
}

fn phases(alignments: &Bins) -> u8 {
    let all: u64 = alignments.1.iter().map(|&count| u64::from(count)).sum();
    let mut counts = [0u64; 8];
    for (bin, &count) in (alignments.0 as usize..).zip(&alignments.1) {
        counts[phase(bin)] += u64::from(count);
    }
    (0..8).filter(|&phase| counts[phase] * 100 >= all).map(|phase| 1 << phase).sum()
}

pub(super) fn table(bins: &Bins) -> Table {
    Table::new(bins.0 as usize, bins.1.iter().copied())
}
