//! The drives that limit an array's capacity.

use super::{Array, KINDS, Level, units_on};

/// Drives that are too small for the array to promise another unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveLimit {
    /// The numbers of the drives.
    pub drives: Vec<u8>,
    /// The number of cells that each of these drives would need.
    pub cells: u32,
}

impl Array {
    /// Returns the drives that limit the capacity, or `None` if the size of the records limits it,
    /// or if larger drives would not help.
    pub fn drive_limit(&self) -> Option<DriveLimit> {
        let (chunks, most) = (self.chunks(), self.geometry.units_max());
        let (level, wanted) = (self.promised_level(), self.geometry.units + 1);
        let limits = KINDS.into_iter().filter_map(|kind| {
            let others = KINDS.into_iter().filter(|other| *other != kind);
            let others = others.map(|other| self.drives.units_of(other, level, chunks, most));
            let others: u64 = others.sum();
            let lanes: Vec<usize> = self.drives.of(kind).collect();
            let cells: Vec<u32> = lanes.iter().map(|lane| self.drives.cells(*lane)).collect();
            let is_enough = |least: u32| {
                let cells = cells.iter().map(|cells| least.max(*cells));
                units_on(self.drives.without_spares(cells), level, chunks, most) + others >= wanted
            };
            let (mut short, mut enough) = (0, u32::MAX);
            if wanted > most || !is_enough(enough) {
                return None;
            }
            while enough - short > 1 {
                let least = short + (enough - short) / 2;
                *if is_enough(least) { &mut enough } else { &mut short } = least;
            }
            let small = lanes.iter().zip(&cells).filter(|(_, cells)| **cells < enough);
            let lacking: u64 = small.clone().map(|(_, cells)| u64::from(enough - cells)).sum();
            let drives = small.map(|(lane, _)| self.drives.number(*lane)).collect();
            Some((lacking, DriveLimit { drives, cells: enough }))
        });
        limits.min_by_key(|(lacking, _)| *lacking).map(|(_, limit)| limit)
    }

    /// Returns the level for which the promised capacity is computed: the leanest level if the
    /// first one tolerates two failures, otherwise the first level.
    pub(super) fn promised_level(&self) -> Level {
        if self.first.tolerates() == 2 { self.leanest } else { self.first }
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench::created;
    use super::*;

    fn limit(cells: &[u32]) -> Option<DriveLimit> {
        created(Level::RAID6, 60, false).with_cells(cells).drive_limit()
    }

    #[test]
    fn the_smallest_drives_limit_an_array_that_is_as_wide_as_its_level() {
        let now = created(Level::RAID6, 60, false);
        let cells: Vec<u32> = (0..6).map(|lane| now.drives.cells(lane)).collect();
        let of_all = now.drive_limit().unwrap();
        assert_eq!(of_all.drives.len(), 6);
        // All drives become four times as large, except one or two that keep their size.
        let larger: Vec<u32> = cells.iter().map(|cells| 4 * cells).collect();
        let with = |small: &[usize]| {
            let cells = (0..6).map(|at| if small.contains(&at) { cells[at] } else { larger[at] });
            limit(&cells.collect::<Vec<_>>()).unwrap()
        };
        for small in [&[2][..], &[0, 5]] {
            let numbers: Vec<u8> = small.iter().map(|at| now.drives.number(*at)).collect();
            assert_eq!(with(small), DriveLimit { drives: numbers, cells: of_all.cells });
        }
        // With this many cells, one more unit fits; with one cell less, it does not.
        let fits = |least: u32| {
            let cells: Vec<u32> = cells.iter().map(|cells| least.max(*cells)).collect();
            let grown = created(Level::RAID6, 60, false).with_cells(&cells);
            let most = grown.geometry.units_max();
            grown.drives.units(Level::RAID6, grown.chunks(), most) > grown.geometry.units
        };
        assert!(fits(of_all.cells) && !fits(of_all.cells - 1));
    }
}
