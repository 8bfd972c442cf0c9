//! Encodes records and labels: the format of an array's drives.
//!
//! All numbers are little-endian words of eight bytes. A *label* is stored twice at the beginning
//! of each drive, and once at its end if there is space. It names the volume, its sizes, and the
//! drive. Labels are written and read by whoever opens the drives; the array itself does not use
//! them. A *record* contains units that changed, and in turn one page of the table, so that the
//! last records contain the whole table, even if the array has grown since. A record contains the
//! checksum of the previous one, so that only a chain without gaps is accepted.

use super::geometry::{BLOCK, Geometry, LANES_MAX, PAGE, RECORD, Update};
use super::{Level, Unit, put_words, words};
use crate::adapt::DriveCosts;

/// The first word of labels and records after their checksums.
const LABEL: u64 = u64::from_le_bytes(*b"forebayL");
const COMMIT: u64 = u64::from_le_bytes(*b"forebayR");
/// The version of the format, and the oldest supported one. Labels of version 3 are like those of
/// 4, except for the drive's state and the label at the end, whose block they do not reserve.
const VERSION: u64 = 4;
const VERSION_LEAST: u64 = 3;

/// The number of words of a record before the changed units: checksum, mark, volume, epoch,
/// sequence, base, round, previous checksum, count, units, page, solid-state drives, drives.
const HEAD: usize = NUMBERS + DRIVES;
const NUMBERS: usize = 12;
const DRIVES: usize = LANES_MAX as usize / 8;

/// The state of a drive within the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveStage {
    /// The drive is named in a record, unless another drive has replaced it since.
    Member,
    /// The drive will replace a missing one or enlarge the volume, but no record names it yet.
    Joining,
    /// The volume is being created, and may have no record yet.
    Making,
}

const STAGES: [DriveStage; 3] = [DriveStage::Member, DriveStage::Joining, DriveStage::Making];

/// The contents of a drive's label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The sizes of the volume.
    pub geometry: Geometry,
    /// The number of the drive, from 1. A replacement drive has a new number.
    pub drive: u8,
    /// The level of units that are written for the first time.
    pub first: Level,
    /// The state of the drive.
    pub stage: DriveStage,
    /// The highest number assigned to any drive of the volume, as far as this drive knows. Numbers
    /// are not assigned again, even if no record ever named the drive.
    pub given: u8,
    /// The version of the label's format.
    pub version: u64,
    /// The costs of writes on the drives of each kind, if they were known when the volume was
    /// created. Earlier programs ignore them, and drop them when they rewrite a label.
    pub costs: [Option<DriveCosts>; 2],
}

/// The reason why a block is not a usable label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelError {
    /// The block does not begin like a label.
    Absent,
    /// The block begins like a label, but its checksum or content is invalid.
    Damaged,
    /// The label is intact, but this program does not support its version.
    Version(u64),
}

impl Label {
    /// The size of a label in bytes.
    pub const BYTES: u64 = BLOCK as u64;
    /// The version that this program writes.
    pub const VERSION: u64 = VERSION;

    /// Returns the label as a block. The first word, which is reserved for the checksum, is 0.
    pub fn encode(&self) -> Vec<u8> {
        let Geometry {
            volume, lanes, chunk_bytes, chunks, copies_max, units, cells, update, ..
        } = self.geometry;
        let mut bytes = vec![0; BLOCK as usize];
        let fresh = u64::from(update == Update::Fresh);
        let stage = STAGES.iter().position(|stage| *stage == self.stage).unwrap_or(0);
        let numbers = [
            0,
            LABEL,
            self.version,
            volume,
            lanes.into(),
            chunk_bytes.into(),
            chunks.into(),
            copies_max.into(),
            units,
            cells.into(),
            fresh,
            self.drive.into(),
            self.first.code().into(),
            stage as u64,
            self.given.into(),
        ];
        let costs = self.costs.into_iter().flat_map(|costs| costs.unwrap_or_default().words());
        put_words(&numbers.into_iter().chain(costs).collect::<Vec<_>>(), &mut bytes);
        bytes
    }

    /// Decodes a block. `sum` is the checksum of the block without its first word.
    ///
    /// # Errors
    /// The reason why the block is not a usable label.
    pub fn decode(bytes: &[u8], sum: u64) -> Result<Label, LabelError> {
        let words = words(bytes);
        let Some(&[own, mark, version, ..]) = words.first_chunk::<4>() else {
            return Err(LabelError::Absent);
        };
        match () {
            () if mark != LABEL => Err(LabelError::Absent),
            () if own != sum => Err(LabelError::Damaged),
            () if !(VERSION_LEAST..=VERSION).contains(&version) => {
                Err(LabelError::Version(version))
            }
            () => Label::of_words(&words[2..]).ok_or(LabelError::Damaged),
        }
    }

    /// Decodes the words after the mark, if they are valid.
    fn of_words(words: &[u64]) -> Option<Label> {
        let &[version, volume, lanes, chunk, chunks, copies, units, cells, ..] =
            words.first_chunk::<8>()?;
        let (&[fresh, drive, first, stage, given], rest) = words[8..].split_first_chunk()?;
        let geometry = Geometry {
            volume,
            lanes: lanes.try_into().ok()?,
            chunk_bytes: chunk.try_into().ok()?,
            chunks: chunks.try_into().ok()?,
            copies_max: copies.try_into().ok()?,
            units,
            cells: cells.try_into().ok()?,
            ring: 0,
            update: if fresh == 1 { Update::Fresh } else { Update::InPlace },
        };
        let drive = drive.try_into().ok()?;
        let (stage, given) = (*STAGES.get(usize::try_from(stage).ok()?)?, given.try_into().ok()?);
        // Only sizes that an array can be created with are valid.
        let first = Level::of_code(first.try_into().ok()?)?;
        let sizes = Geometry::new(geometry, first, 0)
            .or_else(|| Geometry::new(geometry, Level::RAID6, 0))?;
        let is_fit = (1..=super::unit::DRIVE_MAX).contains(&drive) && sizes.units > 0;
        let geometry = Geometry { ring: sizes.ring, ..geometry };
        let costs = [0, 1].map(|kind| DriveCosts::of_words(rest.get(kind * DriveCosts::WORDS..)?));
        is_fit.then_some(Label { geometry, drive, first, stage, given, version, costs })
    }

    /// Returns where the label at the end of a drive of this size is, or `None` if the drive has
    /// none: drives of version 3 do not reserve its block, and a drive that just fits has no space
    /// for it.
    pub fn end_at(&self, drive_bytes: u64) -> Option<u64> {
        let at = end_block(drive_bytes)?;
        (self.version > VERSION_LEAST && at >= self.geometry.lane_bytes()).then_some(at)
    }

    /// Returns the number of cells on a drive of this size.
    pub fn cells_in(&self, drive_bytes: u64) -> u32 {
        self.geometry.cells_in(self.end_at(drive_bytes).unwrap_or(drive_bytes))
    }

    /// Returns the label in the current version, provided that the drive keeps all of its cells.
    pub fn converted(self, drive_bytes: u64) -> Label {
        let new = Label { version: VERSION, ..self };
        if new.cells_in(drive_bytes) == self.cells_in(drive_bytes) { new } else { self }
    }
}

/// Returns where the last whole block of a drive begins.
pub(super) fn end_block(drive_bytes: u64) -> Option<u64> {
    let block = u64::from(BLOCK);
    Some((drive_bytes / block).checked_sub(1)? * block)
}

/// A record without its page of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The number of the opening of the volume that wrote the record.
    pub(super) epoch: u64,
    pub(super) sequence: u64,
    /// The first record whose page is valid: before this record, the table was empty.
    pub(super) base: u64,
    /// The first record of the round. Only complete rounds count.
    pub(super) round: u64,
    /// The checksum of the previous record.
    pub(super) before: u64,
    /// The number of records in the round.
    pub(super) count: u64,
    /// The number of units of the volume.
    pub(super) volume_units: u64,
    /// The page of the table that the record contains: each record contains the next page, and the
    /// first page follows the last.
    pub(super) page: u64,
    /// The numbers of the volume's drives, present or not.
    pub(super) drives: [u8; LANES_MAX as usize],
    /// One bit for each of these drives, set for solid-state drives.
    pub(super) ssds: u32,
    /// The changed units.
    pub(super) units: Vec<(u64, Unit)>,
}

/// Returns the number of units that fit into a record.
pub(super) fn units_a_record(geometry: &Geometry) -> usize {
    ((RECORD - PAGE) as usize / 8 - HEAD) / (1 + geometry.stride())
}

impl Record {
    /// Encodes the record. Its first word, for the checksum, and its second half, for the page, are
    /// 0.
    pub(super) fn encode(&self, geometry: &Geometry) -> Vec<u8> {
        let mut bytes = vec![0; RECORD as usize];
        let Record {
            epoch, sequence, base, round, before, count, volume_units, page, ssds, ..
        } = *self;
        let sizes = count << 32 | self.units.len() as u64;
        let volume = geometry.volume;
        let ssds = ssds.into();
        #[rustfmt::skip]
        let head: [u64; NUMBERS] =
            [0, COMMIT, volume, epoch, sequence, base, round, before, sizes, volume_units, page, ssds];
        put_words(&head, &mut bytes);
        bytes[8 * NUMBERS..8 * HEAD].copy_from_slice(&self.drives);
        let each = 8 * (1 + geometry.stride());
        let places = bytes[8 * HEAD..].chunks_exact_mut(each);
        for ((number, unit), to) in self.units.iter().zip(places) {
            let mut words = vec![*number; 1 + geometry.stride()];
            unit.put(&mut words[1..]);
            put_words(&words, to);
        }
        bytes
    }

    /// Decodes bytes whose checksum, without their first word, is `sum`.
    pub(super) fn decode(bytes: &[u8], sum: u64, geometry: &Geometry) -> Option<Record> {
        let head = words(bytes.get(..8 * NUMBERS)?);
        #[rustfmt::skip]
        let &[own, mark, volume, epoch, sequence, base, round, before, sizes, volume_units, page, ssds] =
            head.first_chunk()?;
        if (own, mark, volume) != (sum, COMMIT, geometry.volume) {
            return None;
        }
        let (count, changed) = (sizes >> 32, sizes as u32 as usize);
        // Impossibly large numbers would overflow.
        let is_sane = epoch.max(sequence) < 1 << 62
            && base <= sequence
            && (1..=count).contains(&(sequence.checked_sub(round)? + 1))
            && geometry.grown(volume_units).is_some_and(|grown| page < grown.pages());
        if !is_sane {
            return None;
        }
        let ssds = ssds.try_into().ok()?;
        let drives = bytes.get(8 * NUMBERS..8 * HEAD)?.try_into().ok()?;
        let each = 8 * (1 + geometry.stride());
        let places = bytes.get(8 * HEAD..(RECORD - PAGE) as usize)?.chunks_exact(each);
        let units = places.take(changed).map(|from| {
            let words = words(from);
            (words[0], Unit::get(&words[1..]))
        });
        let units = units.collect();
        #[rustfmt::skip]
        let record =
            Record { epoch, sequence, base, round, before, count, volume_units, page, drives, ssds, units };
        Some(record)
    }
}

/// The first word of a cell's trailer.
const TRAILER: u64 = u64::from_le_bytes(*b"forebayT");
/// The number of words of a trailer before the checksums.
const TRAILER_HEAD: usize = 4;

/// Returns a trailer: the identity of the cell's content (`what` is the number of a chunk of data,
/// or the role of a parity), and the checksum of each block.
pub(super) fn trailer(volume: u64, unit: u64, what: usize, sums: &[u64]) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK as usize];
    put_words(&[TRAILER, volume, unit, what as u64], &mut bytes);
    put_words(sums, &mut bytes[8 * TRAILER_HEAD..]);
    bytes
}

/// Returns the checksums in a trailer, provided that the trailer belongs to this content.
pub(super) fn sums(bytes: &[u8], volume: u64, unit: u64, what: usize) -> Option<Vec<u64>> {
    let all = words(bytes);
    let (head, sums) = all.split_at_checked(TRAILER_HEAD)?;
    (head == [TRAILER, volume, unit, what as u64]).then(|| sums.to_vec())
}

#[cfg(test)]
mod tests {
    use super::super::unit::Place;
    use super::*;

    fn geometry() -> Geometry {
        let sizes = Geometry { chunk_bytes: 65_536, ..Geometry::sample(6) };
        Geometry::new(sizes, Level::RAID6, 20).unwrap()
    }

    fn label() -> Label {
        let (stage, version) = (DriveStage::Member, VERSION);
        let (geometry, costs) = (geometry(), [None; 2]);
        Label { geometry, drive: 5, first: Level::RAID6, stage, given: 9, version, costs }
    }

    #[test]
    fn valid_labels_are_decoded_and_others_are_refused() {
        for (stage, version) in STAGES.into_iter().flat_map(|stage| [(stage, 3), (stage, 4)]) {
            let label = Label { stage, version, ..label() };
            assert_eq!(Label::decode(&label.encode(), 0), Ok(label));
        }
        let mut bytes = label().encode();
        assert_eq!(Label::decode(&bytes, 1), Err(LabelError::Damaged));
        assert_eq!(Label::decode(&bytes[..64], 0), Err(LabelError::Damaged));
        assert_eq!(Label::decode(&bytes[..16], 0), Err(LabelError::Absent));
        let (absent, damaged) = (LabelError::Absent, LabelError::Damaged);
        // Records with numbers out of range, and of older and newer versions.
        for (at, value, expected) in [
            (88, 0u8, damaged),
            (88, 255, damaged),
            (96, 99, damaged),
            (104, 3, damaged),
            (113, 1, damaged),
            (32, 99, damaged),
            (40, 7, damaged),
            (8, 0, absent),
            (16, 2, LabelError::Version(2)),
            (16, 9, LabelError::Version(9)),
        ] {
            let before = std::mem::replace(&mut bytes[at], value);
            assert_eq!(Label::decode(&bytes, 0), Err(expected), "{at}");
            bytes[at] = before;
        }
        assert_eq!(Label::decode(&bytes, 0), Ok(label()));
        // The record claims more cells than a drive can have.
        let large = Geometry { units: 1 << 40, ..geometry() };
        let large = Geometry::new(large, Level::RAID6, 0);
        assert_eq!(large, None);
    }

    #[test]
    fn labels_with_and_without_costs_have_the_same_format() {
        let costs = DriveCosts { writes: [[9; 5], [1, 2, 3, 4, 0]], switches: [5, 6] };
        for costs in [[None, Some(costs)], [Some(costs), None], [Some(costs); 2]] {
            let label = Label { costs, ..label() };
            let mut bytes = label.encode();
            assert_eq!(Label::decode(&bytes, 0), Ok(label));
            // Earlier programs wrote zeros after the last number.
            bytes[120..].fill(0);
            assert_eq!(Label::decode(&bytes, 0), Ok(super::tests::label()));
        }
    }

    #[test]
    fn the_label_at_the_end_takes_no_cell_of_an_older_drive() {
        let new = label();
        let old = Label { version: VERSION_LEAST, ..new };
        let least = new.geometry.lane_bytes();
        // A drive that just fits has no space for the label at its end, in either version.
        for bytes in [least, least + 4095] {
            assert_eq!((new.end_at(bytes), new.cells_in(bytes)), (None, new.geometry.cells));
            assert_eq!(old.converted(bytes), new);
        }
        assert_eq!(new.end_at(least + 4096), Some(least));
        assert_eq!(new.end_at(least + 8191), Some(least));
        // The last cell of an older drive may extend to the end. Its label then keeps its version.
        let full = least + new.geometry.cell_bytes();
        assert_eq!((old.cells_in(full), new.cells_in(full)), (121, 120));
        assert_eq!(old.converted(full), old);
        assert_eq!(old.converted(full + 4095), old);
        assert_eq!(old.converted(full + 4096), new);
        assert_eq!(new.end_at(full + 4096), Some(full));
        assert_eq!([0, 4095].map(|bytes| new.end_at(bytes)), [None, None]);
    }

    #[test]
    fn records_are_decoded_as_they_were_encoded() {
        let geometry = geometry();
        let mut unit = Unit { level: Some(Level::TRIPLE), ..Unit::EMPTY };
        unit.places[11] = Place::at(2, 9).checked(4);
        let most = units_a_record(&geometry);
        let mut drives = [0; LANES_MAX as usize];
        drives[..6].copy_from_slice(&[1, 2, 3, 4, 5, 9]);
        let record = Record {
            epoch: 3,
            sequence: 12,
            base: 1,
            round: 11,
            before: 99,
            count: 4,
            volume_units: 101,
            page: 2,
            drives,
            ssds: 0b10_0000,
            units: (0..most as u64).map(|number| (number, unit)).collect(),
        };
        let bytes = record.encode(&geometry);
        assert!(bytes[PAGE as usize..].iter().all(|byte| *byte == 0), "the page has its room");
        assert_eq!(Record::decode(&bytes, 0, &geometry), Some(record));
        assert_eq!(Record::decode(&bytes, 0, &Geometry { volume: 78, ..geometry }), None);
        assert!(most > 30, "{most}");
    }

    #[test]
    fn records_with_impossible_numbers_are_refused() {
        let geometry = geometry();
        let record = Record {
            epoch: 3,
            sequence: 12,
            base: 1,
            round: 11,
            before: 99,
            count: 2,
            volume_units: 100,
            page: 0,
            drives: [0; LANES_MAX as usize],
            ssds: 0,
            units: Vec::new(),
        };
        let decoded =
            |record: &Record| Record::decode(&record.encode(&geometry), 0, &geometry).is_some();
        assert!(decoded(&record));
        for wrong in [
            Record { epoch: u64::MAX, ..record.clone() },
            Record { sequence: u64::MAX, round: u64::MAX, ..record.clone() },
            Record { base: 13, ..record.clone() },
            Record { round: 13, ..record.clone() },
            Record { count: 1, ..record.clone() },
            Record { volume_units: 99, ..record.clone() },
            Record { volume_units: u64::MAX, ..record.clone() },
            Record { page: geometry.pages(), ..record.clone() },
        ] {
            assert!(!decoded(&wrong), "{wrong:?}");
        }
    }

    #[test]
    fn a_trailer_belongs_to_one_content() {
        let bytes = trailer(77, 5, 2, &[1, 2, 3]);
        assert_eq!(&sums(&bytes, 77, 5, 2).unwrap()[..4], [1, 2, 3, 0]);
        for (volume, unit, role) in [(78, 5, 2), (77, 6, 2), (77, 5, 3)] {
            assert_eq!(sums(&bytes, volume, unit, role), None);
        }
    }
}
