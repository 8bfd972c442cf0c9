//! Records and labels as bytes: the format of an array's drives.
//!
//! All numbers are little-endian words of eight bytes. A *label* stands twice at the begin of each
//! drive and names the volume, its sizes, and the drive. A *record* makes true what it names: units
//! that changed, and one page of the table in turn, so that the last records are the whole table, also
//! of an array that has grown since. A record names the sum of the one before, so that only a chain
//! without gaps is believed.

use super::geometry::{BLOCK, Geometry, LANES_MAX, PAGE, RECORD, Update};
use super::level::Level;
use super::table::{put_words, words};
use super::unit::Unit;

/// How a label and a record begin, after their sums.
const LABEL: u64 = u64::from_le_bytes(*b"forebayL");
const COMMIT: u64 = u64::from_le_bytes(*b"forebayR");
/// The format's version.
const VERSION: u64 = 3;

/// Words of a record before what changed: sum, mark, volume, epoch, sequence, base, round, previous
/// sum, count, units, page, solid-state drives, drives.
const HEAD: usize = NUMBERS + DRIVES;
const NUMBERS: usize = 12;
const DRIVES: usize = LANES_MAX as usize / 8;

/// What a drive says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The volume's sizes.
    pub geometry: Geometry,
    /// Its number, from 1. One that takes another's place has a number of its own.
    pub drive: u8,
    /// The level of units that are written for the first time.
    pub first: Level,
}

impl Label {
    /// As bytes of a block, the sum not yet in the first word.
    pub fn encode(&self) -> Vec<u8> {
        let Geometry {
            volume, lanes, chunk_bytes, chunks, copies_max, units, cells, update, ..
        } = self.geometry;
        let mut bytes = vec![0; BLOCK as usize];
        let fresh = u64::from(update == Update::Fresh);
        let numbers = [
            0,
            LABEL,
            VERSION,
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
        ];
        put_words(&numbers, &mut bytes);
        bytes
    }

    /// From bytes whose sum, without their first word, is `sum`.
    pub fn decode(bytes: &[u8], sum: u64) -> Option<Label> {
        let words = words(bytes);
        let (head, sizes) = words.split_at_checked(4)?;
        let &[own, mark, version, volume] = head.first_chunk()?;
        let &[lanes, chunk, chunks, copies, units, cells, fresh, drive, first] =
            sizes.first_chunk()?;
        if (own, mark, version) != (sum, LABEL, VERSION) {
            return None;
        }
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
        // Sizes as they are made, and no others.
        let first = Level::of_code(first.try_into().ok()?)?;
        let sizes = Geometry::new(geometry, first, 0)
            .or_else(|| Geometry::new(geometry, Level::RAID6, 0))?;
        let is_fit = (1..=super::unit::DRIVE_MAX).contains(&drive) && sizes.units > 0;
        let geometry = Geometry { ring: sizes.ring, ..geometry };
        is_fit.then_some(Label { geometry, drive, first })
    }
}

/// A record, without its page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Which opening of the volume wrote it.
    pub(super) epoch: u64,
    pub(super) sequence: u64,
    /// From which record on pages count: before it the table was empty.
    pub(super) base: u64,
    /// The first record of its round: only all of them together count.
    pub(super) round: u64,
    /// The sum of the record before.
    pub(super) before: u64,
    /// How many records its round has.
    pub(super) count: u64,
    /// How many units the volume has.
    pub(super) volume_units: u64,
    /// Which page of the table it carries: each the next one, and the first after the last.
    pub(super) page: u64,
    /// The numbers of the volume's drives, present or not.
    pub(super) drives: [u8; LANES_MAX as usize],
    /// A bit for each of them: it is a solid-state drive.
    pub(super) ssds: u32,
    /// Units that changed.
    pub(super) units: Vec<(u64, Unit)>,
}

/// How many units a record takes.
pub(super) fn units_a_record(geometry: &Geometry) -> usize {
    ((RECORD - PAGE) as usize / 8 - HEAD) / (1 + geometry.stride())
}

impl Record {
    /// As bytes, the sum not yet in the first word, the page not yet in the second half.
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

    /// From bytes whose sum, without their first word, is `sum`.
    pub(super) fn decode(bytes: &[u8], sum: u64, geometry: &Geometry) -> Option<Record> {
        let head = words(bytes.get(..8 * NUMBERS)?);
        #[rustfmt::skip]
        let &[own, mark, volume, epoch, sequence, base, round, before, sizes, volume_units, page, ssds] =
            head.first_chunk()?;
        if (own, mark, volume) != (sum, COMMIT, geometry.volume) {
            return None;
        }
        let (count, changed) = (sizes >> 32, sizes as u32 as usize);
        // Numbers that no volume comes to would not add up.
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

/// Begins a cell's trailer.
const TRAILER: u64 = u64::from_le_bytes(*b"forebayT");
/// Words of a trailer before the sums.
const TRAILER_HEAD: usize = 4;

/// A trailer: whose content a cell holds (of data the chunk, of parities the role), and the sum of each
/// block.
pub(super) fn trailer(volume: u64, unit: u64, what: usize, sums: &[u64]) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK as usize];
    put_words(&[TRAILER, volume, unit, what as u64], &mut bytes);
    put_words(sums, &mut bytes[8 * TRAILER_HEAD..]);
    bytes
}

/// The sums in a trailer of that content.
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

    #[test]
    fn labels_come_back_and_others_are_refused() {
        let label = Label { geometry: geometry(), drive: 5, first: Level::RAID6 };
        let mut bytes = label.encode();
        assert_eq!(Label::decode(&bytes, 0), Some(label));
        assert_eq!(Label::decode(&bytes, 1), None);
        assert_eq!(Label::decode(&bytes[..64], 0), None);
        // One drive number, and sizes, out of bounds.
        for (at, value) in [(88, 0u8), (88, 255), (96, 99), (32, 99), (40, 7), (8, 0), (16, 9)] {
            let before = std::mem::replace(&mut bytes[at], value);
            assert_eq!(Label::decode(&bytes, 0), None, "{at}");
            bytes[at] = before;
        }
        assert_eq!(Label::decode(&bytes, 0), Some(label));
        // A table takes less than the ring that its drives have to have room for.
        let large = Geometry { units: 1 << 40, ..label.geometry };
        let large = Geometry::new(large, Level::RAID6, 0);
        assert_eq!(large, None);
    }

    #[test]
    fn records_come_back() {
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
    fn records_of_numbers_that_no_volume_comes_to_are_refused() {
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
    fn a_trailer_is_of_one_content() {
        let bytes = trailer(77, 5, 2, &[1, 2, 3]);
        assert_eq!(&sums(&bytes, 77, 5, 2).unwrap()[..4], [1, 2, 3, 0]);
        for (volume, unit, role) in [(78, 5, 2), (77, 6, 2), (77, 5, 3)] {
            assert_eq!(sums(&bytes, volume, unit, role), None);
        }
    }
}
