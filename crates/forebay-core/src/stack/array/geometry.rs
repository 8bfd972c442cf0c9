//! Sizes of an array, and the layout of each drive.
//!
//! A drive contains, in order: two copies of its label, the ring of records (on an array that
//! writes to fresh cells), and its cells. A cell contains a chunk and, with fresh cells, its
//! trailer. The ring's length is fixed when the array is created, so that cells stay in place when
//! it grows.

use super::level::{Level, ROLES_MAX};

/// The size of a block in bytes: each has its own checksum, and I/Os consist of whole blocks.
pub(super) const BLOCK: u32 = 4096;
/// The size of a record in bytes.
pub(super) const RECORD: u32 = 8192;
/// The size of a page of the table in bytes. Each record contains one page.
pub(super) const PAGE: u32 = 4096;
/// Maximum number of records in a round.
pub(super) const ROUND_MAX: u64 = 256;
/// The factor by which the ring is larger than its pages need, so that an array can grow.
const GROWTH: u64 = 2;
/// Maximum number of drives in an array.
pub(super) const LANES_MAX: u16 = 32;
/// Maximum number of lanes in an open array: those of its drives, and of drives that have been
/// replaced or will be added.
pub(super) const LANES_OPEN: usize = 64;

/// Where a chunk is rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// In another cell: the durable state stays intact until a record names the new cell.
    Fresh,
    /// In place, as in the paper: after a power cut during a write, the parities of its stripe may
    /// be wrong.
    InPlace,
}

/// The sizes of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The identity of the volume.
    pub volume: u64,
    /// The number of drives.
    pub lanes: u16,
    /// The size of a chunk in bytes: a multiple of [`BLOCK`], at most 1 MiB.
    pub chunk_bytes: u32,
    /// The number of data chunks of a unit.
    pub chunks: u8,
    /// The maximum number of copies of a chunk.
    pub copies_max: u8,
    /// The number of units that the array promises to hold.
    pub units: u64,
    /// The number of cells of each drive.
    pub cells: u32,
    /// The number of records that each drive has space for, as computed by [`Geometry::new`].
    pub ring: u64,
    /// Where chunks are rewritten.
    pub update: Update,
}

impl Geometry {
    /// Maximum number of drives that can be present when an array is opened, including replaced
    /// ones.
    pub const PRESENT_MAX: usize = LANES_OPEN;

    /// The size of a record in bytes.
    pub const RECORD_BYTES: u64 = RECORD as u64;

    /// Returns the sizes with space for `units` at the leanest level and `spare` more cells on each
    /// drive, or `None` if they are not possible.
    pub fn new(sizes: Geometry, leanest: Level, spare: u32) -> Option<Geometry> {
        let Geometry { lanes, chunk_bytes, chunks, copies_max, units, .. } = sizes;
        let roles = leanest.roles(chunks.into()) as u64;
        let taken = units.checked_mul(roles)?.div_ceil(u64::from(lanes.max(1)));
        let cells = u32::try_from(taken).ok()?.checked_add(spare)?;
        let most = usize::from(chunks) * usize::from(copies_max);
        let is_fit = (1..=LANES_MAX).contains(&lanes)
            && chunk_bytes.is_multiple_of(BLOCK)
            && (BLOCK..=1 << 20).contains(&chunk_bytes)
            && chunks > 0
            && usize::from(chunks) + 2 <= ROLES_MAX
            && most <= ROLES_MAX
            && leanest.width(chunks.into()) <= usize::from(lanes);
        let ring = match sizes.update {
            Update::Fresh => GROWTH * sizes.pages() + 2 * ROUND_MAX,
            Update::InPlace => 0,
        };
        is_fit.then_some(Geometry { cells, ring, ..sizes })
    }

    /// Returns the sizes of the largest array on sets of drives with these sizes, leaving spare
    /// cells. Each unit is on drives of one set, and all drives of a set count as being as small as
    /// the smallest one.
    pub fn fitting(sizes: Geometry, leanest: Level, sets: &[&[u64]]) -> Option<Geometry> {
        let of = |set: &[u64], less: u64| {
            let bytes = set.iter().min()?.checked_sub(less)?;
            Geometry::fitting_set(Geometry { lanes: set.len() as u16, ..sizes }, leanest, bytes)
        };
        let alone: Vec<Geometry> = sets.iter().map(|set| of(set, 0)).collect::<Option<_>>()?;
        // Each drive has the ring of the whole array, not only of its set.
        let units = alone.iter().map(|set| set.units).sum();
        let lanes = sets.iter().map(|set| set.len() as u16).sum();
        let whole = Geometry::new(Geometry { units, lanes, ..sizes }, leanest, 0)?;
        let longer = |set: &Geometry| (whole.ring - set.ring) * u64::from(RECORD);
        let fits = sets.iter().zip(&alone).map(|(set, alone)| of(set, longer(alone)));
        let fits: Vec<Geometry> = fits.collect::<Option<_>>()?;
        let units = fits.iter().map(|set| set.units).sum();
        let whole = Geometry::new(Geometry { units, ..whole }, leanest, 0)?;
        let [alone] = fits[..] else {
            let least = sets.iter().flat_map(|set| set.iter()).min()?;
            return Some(Geometry { cells: whole.cells_in(*least), ..whole });
        };
        Some(alone)
    }

    /// Returns the sizes of the largest array on drives of `lane_bytes`, leaving spare cells.
    fn fitting_set(sizes: Geometry, leanest: Level, lane_bytes: u64) -> Option<Geometry> {
        let with = |units: u64| {
            let bare = Geometry::new(Geometry { units, ..sizes }, leanest, 0)?;
            let spare = spare_cells(bare.cells);
            let all = Geometry::new(Geometry { units, ..sizes }, leanest, spare)?;
            (all.lane_bytes() <= lane_bytes).then_some(all)
        };
        let unit_bytes = u64::from(sizes.chunk_bytes.max(1)) * u64::from(sizes.chunks.max(1));
        let most = (lane_bytes / unit_bytes).saturating_mul(sizes.lanes.into());
        let (mut fits, mut too_many) = (0, most + 1);
        while too_many - fits > 1 {
            let units = fits + (too_many - fits) / 2;
            *if with(units).is_some() { &mut fits } else { &mut too_many } = units;
        }
        with(fits).filter(|_| fits > 0)
    }

    /// Returns the sizes of the largest array on these drives whose data still fits after `spares`
    /// drives have failed, or `None` if there is no such array. The spare space is spread over all
    /// drives.
    pub fn sparing(
        sizes: Geometry,
        leanest: Level,
        drives: &[u64],
        spares: u16,
    ) -> Option<Geometry> {
        let left = drives.len().checked_sub(spares.into())?;
        let bytes = drives.iter().min()?;
        let fits = Geometry::fitting(sizes, leanest, &[&vec![*bytes; left]])?;
        Some(Geometry { lanes: drives.len() as u16, ..fits })
    }

    /// Returns the number of drives whose data fits on the others, as passed to
    /// [`Geometry::sparing`]. Because this number is not stored, it is derived from the cells of
    /// the promised units and those of each drive.
    pub fn spares(&self, leanest: Level) -> u16 {
        let bare = bare_cells(self.cells);
        let roles = self.units * leanest.roles(self.chunks.into()) as u64;
        let needed = roles.div_ceil(u64::from(bare.max(1)));
        let needed = u16::try_from(needed).unwrap_or(u16::MAX);
        self.lanes.saturating_sub(needed.max(leanest.width(self.chunks.into()) as u16))
    }

    /// Returns whether units can have this level.
    pub fn takes(&self, level: Level) -> bool {
        let chunks = self.chunks.into();
        level.roles(chunks) <= self.roles_max() && level.width(chunks) <= self.lanes.into()
    }

    /// Returns the number of roles that a unit has space for in the table.
    pub(super) fn roles_max(&self) -> usize {
        let (chunks, copies) = (usize::from(self.chunks), usize::from(self.copies_max));
        (chunks + 2).max(chunks * copies)
    }

    /// Returns the number of words of a unit in the table.
    pub(super) fn stride(&self) -> usize {
        1 + self.roles_max()
    }

    pub(super) fn units_a_page(&self) -> u64 {
        u64::from(PAGE) / 8 / self.stride() as u64
    }

    /// Returns the number of pages of the table.
    pub fn pages(&self) -> u64 {
        self.units.div_ceil(self.units_a_page()).max(1)
    }

    /// Returns these sizes with `units` units. Returns `None` if that is fewer units than now, or
    /// if the ring has no space for the records of their pages and two rounds more.
    pub(super) fn grown(&self, units: u64) -> Option<Geometry> {
        let grown = Geometry { units, ..*self };
        let has_room = grown.pages() + 2 * ROUND_MAX <= self.ring;
        (has_room && units >= self.units && units < 1 << 48).then_some(grown)
    }

    /// Returns the maximum number of units that [`Geometry::grown`] accepts.
    pub(super) fn units_max(&self) -> u64 {
        self.ring.saturating_sub(2 * ROUND_MAX) * self.units_a_page()
    }

    /// Returns the first byte of a record on the drives that have it.
    pub(super) fn record_at(&self, sequence: u64) -> u64 {
        ring_at() + sequence % self.ring.max(1) * u64::from(RECORD)
    }

    /// Returns how many records fit from this one to the end of the ring.
    pub(super) fn records_from(&self, sequence: u64) -> u64 {
        let ring = self.ring.max(1);
        ring - sequence % ring
    }

    fn cells_at(&self) -> u64 {
        (ring_at() + self.ring * u64::from(RECORD)).next_multiple_of(1 << 20)
    }

    pub(super) fn trailer_bytes(&self) -> u32 {
        if self.update == Update::Fresh { BLOCK } else { 0 }
    }

    /// Returns the size of a cell in bytes: a chunk and its trailer.
    pub fn cell_bytes(&self) -> u64 {
        u64::from(self.chunk_bytes + self.trailer_bytes())
    }

    /// Returns the first byte of a cell.
    pub(super) fn cell_at(&self, cell: u32) -> u64 {
        self.cells_at() + u64::from(cell) * self.cell_bytes()
    }

    /// Returns the number of cells on a drive of this size.
    pub fn cells_in(&self, lane_bytes: u64) -> u32 {
        let cells = lane_bytes.saturating_sub(self.cells_at()) / self.cell_bytes();
        u32::try_from(cells).unwrap_or(u32::MAX)
    }

    /// Returns the number of bytes needed on each drive.
    pub fn lane_bytes(&self) -> u64 {
        self.cell_at(self.cells)
    }

    /// Returns the size of a unit's data in bytes.
    pub fn unit_bytes(&self) -> u64 {
        u64::from(self.chunk_bytes) * u64::from(self.chunks)
    }

    /// Returns the number of bytes available to clients.
    pub fn capacity_bytes(&self) -> u64 {
        self.units * self.unit_bytes()
    }

    /// Returns the largest capacity whose records fit in the ring.
    pub fn capacity_max_bytes(&self) -> u64 {
        self.units_max() * self.unit_bytes()
    }

    /// Returns the size of the table in memory, in bytes.
    pub fn table_bytes(&self) -> u64 {
        self.units * 8 * self.stride() as u64
    }
}

#[cfg(test)]
impl Geometry {
    /// Returns sizes for tests: units of four chunks of 4 KiB.
    pub(super) fn sample(lanes: u16) -> Geometry {
        Geometry {
            volume: 77,
            lanes,
            chunk_bytes: 4096,
            chunks: 4,
            copies_max: 3,
            units: 100,
            cells: 0,
            ring: 0,
            update: Update::Fresh,
        }
    }
}

/// Returns the number of spare cells of a drive, which the capacity does not include.
pub(super) fn spare_cells(cells: u32) -> u32 {
    (cells / 64).max(64)
}

/// Returns the number of cells of a drive with `cells` that are not spare.
fn bare_cells(cells: u32) -> u32 {
    let (mut fits, mut too_many) = (0, cells.saturating_add(1));
    while too_many - fits > 1 {
        let bare = fits + (too_many - fits) / 2;
        let is_fit = bare.saturating_add(spare_cells(bare)) <= cells;
        *if is_fit { &mut fits } else { &mut too_many } = bare;
    }
    fits
}

/// Returns the first byte of the ring, which begins after both labels.
pub(super) fn ring_at() -> u64 {
    2 * u64::from(BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes() -> Geometry {
        Geometry { chunk_bytes: 65_536, ..Geometry::sample(6) }
    }

    #[test]
    fn an_array_fits_its_drives_and_no_larger_one_does() {
        for bytes in [1 << 30, 10_000_000_001, 1 << 40] {
            let all = Geometry::fitting(sizes(), Level::RAID6, &[&[bytes; 6]]).unwrap();
            assert!(all.lane_bytes() <= bytes && all.capacity_bytes() < 4 * bytes);
            let more = Geometry { units: all.units + 100, ..all };
            let more = Geometry::new(more, Level::RAID6, spare_cells(all.cells)).unwrap();
            assert!(more.lane_bytes() > bytes, "{bytes}");
            // More than 85 % of a drive hold data.
            let share = all.capacity_bytes() as f64 / (4 * bytes) as f64;
            assert!(share > 0.85, "{share}");
        }
        assert_eq!(Geometry::fitting(sizes(), Level::RAID6, &[&[1 << 20; 6]]), None);
    }

    #[test]
    fn sets_of_drives_hold_nearly_the_sum_of_each_alone() {
        let (disk, flash) = (1 << 40, 100 << 30);
        for disk in [256 << 20, 999_999_999, 1 << 33] {
            let sets: [&[u64]; 2] = [&[disk; 6], &[disk / 2; 6]];
            let both = Geometry::fitting(sizes(), Level::RAID6, &sets).unwrap();
            assert!(both.lane_bytes() <= disk / 2 && both.units > 0, "{both:?}");
        }
        let alone = |bytes| Geometry::fitting(sizes(), Level::RAID6, &[&[bytes; 6]]).unwrap();
        let sets: [&[u64]; 2] = [&[disk; 6], &[flash; 6]];
        let both = Geometry::fitting(sizes(), Level::RAID6, &sets).unwrap();
        assert_eq!((both.lanes, both.lane_bytes() <= flash), (12, true));
        let share = both.units as f64 / (alone(disk).units + alone(flash).units) as f64;
        assert!((0.99..1.0).contains(&share), "{share}");
        assert!(both.cells_in(disk) > 9 * both.cells);
        assert_eq!(Geometry::fitting(sizes(), Level::RAID6, &[&[disk; 6], &[flash; 5]]), None);
    }

    #[test]
    fn the_number_of_spare_drives_follows_from_the_sizes() {
        for bytes in [64 << 20, 1 << 30, 10_000_000_001, 1 << 40] {
            for lanes in [6_u16, 7, 8, 12, 24, 32] {
                let drives = vec![bytes; lanes.into()];
                let mut before = u64::MAX;
                for spares in 0..=lanes - 6 {
                    let all = Geometry::sparing(sizes(), Level::RAID6, &drives, spares).unwrap();
                    assert_eq!((all.lanes, all.spares(Level::RAID6)), (lanes, spares), "{all:?}");
                    assert!(all.units < before && all.lane_bytes() <= bytes);
                    // Even if this many drives fail, all units still fit, and the spare cells stay
                    // free.
                    let left = u64::from(lanes - spares);
                    let bare = u64::from(bare_cells(all.cells));
                    assert!(all.units * 6 <= left * bare && all.units * 6 > (left - 1) * bare);
                    before = all.units;
                }
                let most = Geometry::sparing(sizes(), Level::RAID6, &drives, lanes - 5);
                assert_eq!(most, None, "five drives are too few");
            }
        }
    }

    #[test]
    fn labels_records_and_cells_do_not_overlap() {
        let all = Geometry::new(sizes(), Level::RAID6, 10).unwrap();
        assert_eq!(all.cells, 110);
        let last = all.record_at(all.ring - 1);
        assert!(last + u64::from(RECORD) <= all.cell_at(0));
        assert_eq!(all.cell_at(1) - all.cell_at(0), 65_536 + 4096);
        assert_eq!(all.lane_bytes(), all.cell_at(110));
        let cells = [0, 1].map(|less| all.cells_in(all.lane_bytes() - less));
        assert_eq!((cells, all.cells_in(0)), ([110, 109], 0));
        let in_place = Geometry { update: Update::InPlace, ..all };
        assert_eq!(in_place.cell_at(1) - in_place.cell_at(0), 65_536);
    }

    #[test]
    fn growth_moves_nothing_and_is_bounded_by_the_ring() {
        let all = Geometry::new(sizes(), Level::RAID6, 10).unwrap();
        let most = all.units_max();
        let grown = all.grown(most).unwrap();
        assert_eq!((grown.cell_at(0), grown.ring), (all.cell_at(0), all.ring));
        assert!(grown.pages() >= 2 * all.pages() && all.grown(most + 1).is_none());
        assert_eq!(all.grown(99), None);
    }

    #[test]
    fn impossible_sizes_are_refused() {
        let new = |sizes| Geometry::new(sizes, Level::RAID6, 10);
        assert_eq!(new(Geometry { lanes: 5, ..sizes() }), None);
        assert_eq!(new(Geometry { lanes: 33, ..sizes() }), None);
        assert_eq!(new(Geometry { chunk_bytes: 1000, ..sizes() }), None);
        assert_eq!(new(Geometry { copies_max: 5, ..sizes() }), None);
        assert_eq!(new(Geometry { chunks: 15, copies_max: 1, ..sizes() }), None);
        assert_eq!(new(Geometry { units: u64::MAX, ..sizes() }), None);
    }
}
