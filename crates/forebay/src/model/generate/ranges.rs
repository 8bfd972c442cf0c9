//! Places within a range: the past again, near a recent request, or anew.

mod ground;
mod past;
mod runs;

use super::super::bins::align;
use super::super::file::Part;
use super::super::history::{RangePast, Starts};
use super::super::space::{CELLS, Space};
use super::super::state::Range;
use super::draw::Bag;

/// Times a new place is drawn again because it was used before.
const RETRIES: usize = 8;

pub(super) struct RangeDrawer {
    first: u64,
    end: u64,
    pub(super) past: RangePast,
    /// Where requests began that continued no run.
    pub(super) starts: Starts,
    /// Cells of heat in it: first, count.
    cells: Vec<(u32, u32)>,
    cell: Bag,
}

impl AsMut<RangePast> for RangeDrawer {
    fn as_mut(&mut self) -> &mut RangePast {
        &mut self.past
    }
}

impl RangeDrawer {
    /// The place closest to an address that is aligned like that, if the range has one.
    fn aligned(&self, address: u64, alignment: usize) -> u64 {
        let below = align(address, alignment);
        if below >= self.first {
            return below;
        }
        let above = (1..8).map(|power| align(self.first + (2048 << power), alignment));
        above.into_iter().find(|above| (self.first..self.end).contains(above)).unwrap_or(self.first)
    }
}

/// The place nearest to an address that is aligned like that, as far as a distance lets it be.
fn align_near(address: u64, distance: u64, alignment: usize) -> u64 {
    // A power of two of pages above the distance would lead elsewhere.
    let power_max = (distance / 4096).max(1).ilog2() as usize;
    let bin = alignment.min(7 + power_max);
    let grain = 4096u64 << bin.saturating_sub(7);
    align(address.saturating_add(grain / 2), bin)
}

/// The ranges that are leaves.
pub(super) fn ranges(
    leaves: &[Range],
    part: &Part,
    space: &Space,
    grain_bytes: u32,
) -> Vec<RangeDrawer> {
    let mut list = Vec::new();
    for leaf in leaves {
        let width = (CELLS >> (2 * leaf.level())) as u32;
        let first = leaf.first_cell();
        let cells: Vec<(u32, u32, u32)> = part
            .heat
            .iter()
            .filter(|(begin, count, _)| *begin < first + width && begin + count > first)
            .copied()
            .collect();
        let bytes = |cell: u32| u64::from(cell) * space.cell_bytes();
        let begin = bytes(first).min(space.span() - 1);
        list.push(RangeDrawer {
            first: begin,
            end: bytes(first + width).min(space.span()).max(begin + 1),
            past: RangePast::default(),
            starts: Starts::new(grain_bytes),
            cell: Bag::new(cells.iter().map(|cell| u64::from(cell.2)).collect()),
            cells: cells.iter().map(|cell| (cell.0, cell.1)).collect(),
        });
    }
    list
}
