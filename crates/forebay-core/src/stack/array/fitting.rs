//! The number of units that fit on drives.

use super::{DriveKind, Drives, KINDS, Level, spare_cells};

impl Drives {
    /// Returns how many units of a level, at most `units_max`, fit on all drives when spare cells
    /// are reserved.
    pub(super) fn units(&self, level: Level, chunks: usize, units_max: u64) -> u64 {
        let units = KINDS.map(|kind| self.units_of(kind, level, chunks, units_max));
        units.iter().sum::<u64>().min(units_max)
    }

    /// Returns how many units of a level fit on the drives of a kind, leaving spare cells.
    pub(super) fn units_of(
        &self,
        kind: DriveKind,
        level: Level,
        chunks: usize,
        units_max: u64,
    ) -> u64 {
        let staying = self.of(kind).filter(|lane| !self.is_leaving(*lane));
        let cells = staying.map(|lane| self.cells(lane));
        units_on(self.without_spares(cells), level, chunks, units_max)
    }

    /// Returns how many units of a level fit on the drives of a kind without the one on lane
    /// `gone`. The cells of spare drives count, too.
    pub(super) fn units_without(
        &self,
        gone: Option<usize>,
        kind: DriveKind,
        level: Level,
        chunks: usize,
        units_max: u64,
    ) -> u64 {
        let is_staying = |lane: &usize| Some(*lane) != gone && !self.is_leaving(*lane);
        let staying = self.of(kind).filter(is_staying);
        units_on(staying.map(|lane| self.cells(lane)), level, chunks, units_max)
    }

    /// Returns the cells of all drives except the spare ones, which are the largest drives.
    pub(super) fn without_spares(
        &self,
        cells: impl Iterator<Item = u32>,
    ) -> impl Iterator<Item = u32> {
        let mut cells: Vec<u32> = cells.collect();
        cells.sort_unstable_by(|one, other| other.cmp(one));
        cells.into_iter().skip(self.spares)
    }

    /// Returns how many units of a level fit on the drives of a kind if missing drives are added
    /// with this many cells each.
    pub(super) fn units_with_missing(
        &self,
        kind: DriveKind,
        level: Level,
        chunks: usize,
        missing_cells: u32,
    ) -> u64 {
        let cells = self.of(kind).map(|lane| self.cells(lane));
        let missing = (0..self.missing_of(kind)).map(|_| missing_cells);
        units_on(cells.chain(missing), level, chunks, u32::MAX.into())
    }
}

/// Returns the number of units of a level that fit on drives with these cells when spare cells are
/// reserved.
pub(super) fn units_on(
    cells: impl Iterator<Item = u32>,
    level: Level,
    chunks: usize,
    units_max: u64,
) -> u64 {
    let (width, roles) = (level.width(chunks), level.roles(chunks) as u64);
    let usable = |cells: u32| u64::from(cells.saturating_sub(spare_cells(cells)));
    let mut usable: Vec<u64> = cells.map(usable).collect();
    usable.sort_unstable_by(|one, other| other.cmp(one));
    let Some(&narrowest) = usable.get(width - 1) else { return 0 };
    let cells_up_to = |most: u64| usable.iter().map(|cells| (*cells).min(most)).sum::<u64>();
    if let Level::Mirrored { .. } = level {
        // Roles are spread evenly until fewer drives have space than a chunk has copies.
        return (cells_up_to(narrowest) / roles).min(units_max);
    }
    // A drive holds at most one role of a unit.
    let (mut fits, mut too_many) = (0, units_max + 1);
    while too_many - fits > 1 {
        let units = fits + (too_many - fits) / 2;
        let fit = cells_up_to(units) >= units * roles;
        *if fit { &mut fits } else { &mut too_many } = units;
    }
    fits
}
