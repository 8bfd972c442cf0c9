//! The format of the log: its label and its records (docs/placement-log.md).
//!
//! All numbers are little-endian words of eight bytes. The *label* contains the owner and the
//! number of the places. It is within one sector, so a power cut cannot leave it incomplete. A
//! *record* contains the places that have changed, and one page of the table. Records contain the
//! pages in turn, so the last records, one per page, are the complete table.
//!
//! Each sector of a record has its own checksum and record number. If a power cut leaves a mixture
//! of new and old sectors, it can therefore be distinguished from damage.

use crate::contract::{Bytes, Lane, Slots};

/// The size of a label in bytes.
const BLOCK: u32 = 4096;
/// The size of both labels in bytes.
pub(super) const LABELS: u32 = 2 * BLOCK;
/// The size of a record in bytes: the changes, then a page.
pub(super) const RECORD: u32 = 8192;
/// The number of records in the ring in addition to two per page.
const SPARE: u64 = 16;

/// The size of a sector in bytes, which is written completely or not at all, and the number of
/// sectors in a record.
const SECTOR: u32 = 512;
const SECTORS: u32 = RECORD / SECTOR;
/// The number of words in a sector before its share of the record: checksum, identity, record
/// number.
const SECTOR_HEAD: usize = 3;
/// The number of words of a record in each sector.
const SHARE: usize = SECTOR as usize / 8 - SECTOR_HEAD;
/// The number of words of a record before its page, which is half of the record.
const CHANGED: usize = SHARE * SECTORS as usize / 2;
/// The number of places in a page, which uses one word per place.
pub(super) const PLACES_A_PAGE: usize = SHARE * SECTORS as usize / 2;

/// The first words of a label and of a record, after the checksum.
const LABEL: u64 = u64::from_le_bytes(*b"forebayP");
const CHANGES: u64 = u64::from_le_bytes(*b"forebayC");
/// The version of the format. Version 1 had a single checksum for a whole record, and no pair.
pub const VERSION: u64 = 2;

/// The number of words of a record before the changes: mark, checksum of the other sectors'
/// checksums, number of changes.
const HEAD: usize = 3;
/// The maximum number of changes in a record. Each takes two words, the place and its name.
pub(super) const CHANGES_MAX: usize = (CHANGED - HEAD) / 2;

/// The number of bits in a name for the block number on the disk.
const DISK_BIT: u32 = 48;

/// The owner of the places; all fields must match when the log is opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    /// The purpose of the places.
    pub(crate) purpose: u64,
    /// A number that distinguishes this flash from others of the same size; set by the user.
    pub(crate) id: u64,
    /// A random number, drawn when the flash was initialized, that distinguishes this flash and its
    /// disk from all others.
    pub(crate) pair: u128,
    /// The number of disks.
    pub(crate) disks: u16,
    /// The capacity of each disk in bytes; 0 if unknown, which matches any capacity.
    pub(crate) disk_bytes: u64,
    /// The size of a place in bytes.
    pub(crate) place_bytes: u64,
    /// The number of places.
    pub(crate) places: u32,
    /// The number of low bits in a name, below the block number, that tell which parts of the block
    /// are present. Depends on the purpose.
    pub(crate) part_bits: u32,
}

impl Binding {
    /// Returns the number that distinguishes records of this flash from those of other flashes.
    fn identity(&self) -> u64 {
        self.id ^ self.pair as u64 ^ (self.pair >> 64) as u64
    }

    pub(super) fn pages(&self) -> u64 {
        pages(self.places)
    }

    /// Returns the number of records in the ring.
    pub(super) fn ring(&self) -> u64 {
        ring(self.places)
    }

    /// Returns the offset of the record with this number.
    pub(super) fn record_at(&self, sequence: u64) -> u64 {
        u64::from(LABELS) + sequence % self.ring() * u64::from(RECORD)
    }

    /// Returns the offset of the first place.
    pub(crate) fn log_bytes(&self) -> u64 {
        Binding::log_bytes_of(self.places)
    }

    /// Returns the size of a log for this many places.
    pub(crate) fn log_bytes_of(places: u32) -> u64 {
        u64::from(LABELS) + ring(places) * u64::from(RECORD)
    }

    /// Returns whether `other` has the same places and owner.
    pub(super) fn fits(&self, other: &Binding) -> bool {
        let is_known = self.disk_bytes > 0 && other.disk_bytes > 0;
        let disk_bytes = if is_known { other.disk_bytes } else { self.disk_bytes };
        Binding { disk_bytes, part_bits: self.part_bits, ..*other } == *self
    }
}

fn pages(places: u32) -> u64 {
    u64::from(places).div_ceil(PLACES_A_PAGE as u64).max(1)
}

fn ring(places: u32) -> u64 {
    2 * pages(places) + SPARE
}

/// The name of a place: a block of a disk, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name(u64);

impl Name {
    /// The place contains no data that is needed.
    pub(crate) const NONE: Name = Name(0);

    /// Returns the name of a block with this key, which contains the disk's lane in the bits from
    /// 48 on.
    pub(crate) fn of(key: u64) -> Name {
        Name(key.wrapping_add(1))
    }

    /// Returns the block, or `None` for no name.
    pub(crate) fn key(self) -> Option<u64> {
        self.0.checked_sub(1)
    }

    /// Returns the block's disk; the first disk if there is no block.
    pub(super) fn disk(self) -> Lane {
        (self.key().unwrap_or(0) >> DISK_BIT) as Lane
    }

    /// Returns the number of the block on its disk, above `part_bits`.
    pub(super) fn block(self, part_bits: u32) -> u64 {
        (self.key().unwrap_or(0) & ((1 << DISK_BIT) - 1)) >> part_bits
    }
}

/// A change of a place's name, in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) place: u32,
    pub(crate) name: Name,
}

/// Writes two copies of a label to `to`, as at the beginning of the flash.
pub(super) fn put_labels(binding: &Binding, to: Bytes, slots: &mut dyn Slots) {
    let Binding { purpose, id, pair, disks, disk_bytes, place_bytes, places, .. } = *binding;
    let (low, high) = (pair as u64, (pair >> 64) as u64);
    let sizes = [disks.into(), disk_bytes, place_bytes, places.into()];
    let words = [&[0, LABEL, VERSION, purpose, id], &sizes[..], &[low, high, 0, 0]].concat();
    let mut bytes = vec![0; BLOCK as usize];
    put_words(&words, &mut bytes);
    for at in [to, to.on(BLOCK)] {
        seal(&bytes, at, slots);
    }
}

/// The contents found at the position of the labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Labelled {
    /// Zeros.
    Blank,
    /// A label. `is_begun` is true if the flash was used with its disk before.
    As { binding: Binding, is_begun: bool },
    /// Other contents.
    Otherwise,
}

/// Examines the labels at `from`. The first intact label is used.
pub(super) fn labelled(from: Bytes, slots: &dyn Slots) -> Labelled {
    let mut is_blank = true;
    for at in [from, from.on(BLOCK)] {
        let mut bytes = vec![0; BLOCK as usize];
        if !slots.get(at.len(BLOCK), &mut bytes) {
            return Labelled::Otherwise;
        }
        is_blank &= bytes.iter().all(|byte| *byte == 0);
        let sum = slots.checksum(at.on(8).len(BLOCK - 8));
        if let Some((binding, label)) = sum.and_then(|sum| label(&bytes, sum)) {
            return Labelled::As { binding, is_begun: label.generation > 0 };
        }
    }
    if is_blank { Labelled::Blank } else { Labelled::Otherwise }
}

/// The size of a label in bytes. There are two at the beginning of a flash.
pub const LABEL_BYTES: usize = BLOCK as usize;

/// The information in a label, for examining a flash before use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashLabel {
    /// The number set by the user.
    pub id: u64,
    /// A random number, drawn when the flash was initialized, which its disk has too.
    pub pair: u128,
    /// How often the flash was used with its disk; 0 before the first time.
    pub generation: u64,
    /// Whether the generation is also durable on the disk.
    pub is_confirmed: bool,
}

/// The contents found at the position of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelFound {
    /// No label of Forebay.
    None,
    /// A label of another version of the format.
    Version(u64),
    /// A damaged label.
    Damaged,
    /// An intact label.
    Of(FlashLabel),
}

/// Examines the first [`LABEL_BYTES`] bytes of a flash. `sum` is the checksum of all bytes but the
/// first eight.
pub fn found_label(bytes: &[u8], sum: u64) -> LabelFound {
    let words = words(bytes);
    let Some(&[own, mark, version]) = words.first_chunk() else { return LabelFound::None };
    match (mark == LABEL, own == sum, version) {
        (false, ..) => LabelFound::None,
        (true, false, _) => LabelFound::Damaged,
        (true, true, VERSION) => {
            label(bytes, sum).map_or(LabelFound::Damaged, |(_, label)| LabelFound::Of(label))
        }
        (true, true, other) => LabelFound::Version(other),
    }
}

/// Sets the generation in the label `bytes`. The caller must recompute the checksum.
pub fn put_generation(bytes: &mut [u8], generation: u64, is_confirmed: bool) {
    if let Some(to) = bytes.get_mut(8 * GENERATION..) {
        put_words(&[generation, u64::from(is_confirmed)], to);
    }
}

/// The index of the word of a label that contains the generation. The next word tells whether the
/// disk has that generation too.
const GENERATION: usize = 11;

/// Returns the label in `bytes`, whose checksum without the first word is `sum`.
fn label(bytes: &[u8], sum: u64) -> Option<(Binding, FlashLabel)> {
    let words = words(bytes);
    let &[own, mark, version, purpose, id, disks, disk_bytes, place_bytes, places] =
        words.first_chunk()?;
    if (own, mark, version) != (sum, LABEL, VERSION) {
        return None;
    }
    let &[low, high, generation, confirmed] = words.get(9..)?.first_chunk()?;
    let pair = u128::from(high) << 64 | u128::from(low);
    let (disks, places) = (disks.try_into().ok()?, places.try_into().ok()?);
    let part_bits = 0;
    let binding = Binding { purpose, id, pair, disks, disk_bytes, place_bytes, places, part_bits };
    Some((binding, FlashLabel { id, pair, generation, is_confirmed: confirmed == 1 }))
}

/// Writes a record to `to`. It contains `changes`, at most [`CHANGES_MAX`], and the page of the
/// table whose turn it is, to which the changes must already have been applied.
pub(super) fn put_record(
    binding: &Binding,
    sequence: u64,
    changes: &[Change],
    table: &[Name],
    to: Bytes,
    slots: &mut dyn Slots,
) {
    let mut words = vec![0; SHARE * SECTORS as usize];
    let changed = changes.iter().flat_map(|change| [change.place.into(), change.name.0]);
    let head = [CHANGES, 0, changes.len() as u64].into_iter().chain(changed);
    words.iter_mut().zip(head).for_each(|(to, word)| *to = word);
    let page = (sequence % binding.pages()) as usize;
    let names = table.iter().skip(page * PLACES_A_PAGE);
    words[CHANGED..].iter_mut().zip(names).for_each(|(to, name)| *to = name.0);
    let mut sums = 0;
    // The first sector contains the checksum of the others, so it is written last.
    for sector in (0..SECTORS).rev() {
        if sector == 0 {
            words[1] = sums;
        }
        let share = &words[SHARE * sector as usize..][..SHARE];
        let mut bytes = [0; SECTOR as usize];
        put_words(&[0, binding.identity(), sequence], &mut bytes);
        put_words(share, &mut bytes[8 * SECTOR_HEAD..]);
        sums = mixed(sums, seal(&bytes, to.on(sector * SECTOR), slots));
    }
}

/// Combines a checksum with another one.
fn mixed(sums: u64, sum: u64) -> u64 {
    (sums ^ sum).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
}

/// The contents found in a position of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RingContent {
    /// Zeros.
    Blank,
    /// The record cannot be read.
    Unreadable,
    /// Contents that are not an intact record.
    Damaged,
    /// A record, or sectors, of another flash, another version, or another position in the ring.
    Foreign,
    /// Intact sectors of different records, with numbers in this range, and blank sectors if
    /// `has_blank`.
    Torn { oldest: u64, newest: u64, has_blank: bool },
    /// An intact record with this number.
    Record(u64),
}

/// The contents of a sector of a possible record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sector {
    Blank,
    Damaged,
    Foreign,
    /// A sector of the record with this number.
    Of(u64),
}

/// Examines position `slot` of the ring, whose bytes are at `from`.
pub(super) fn found(binding: &Binding, slot: u64, from: Bytes, slots: &dyn Slots) -> RingContent {
    let mut bytes = vec![0; RECORD as usize];
    if !slots.get(from.len(RECORD), &mut bytes) {
        return RingContent::Unreadable;
    }
    let words = words(&bytes);
    if words.iter().all(|word| *word == 0) {
        return RingContent::Blank;
    }
    let (mut sums, mut own_sums) = (0, 0);
    let (mut oldest, mut newest, mut has_blank) = (u64::MAX, 0, false);
    let mut worst = None;
    for nth in (0..SECTORS).rev() {
        let words = &words[nth as usize * (SECTOR as usize / 8)..][..SECTOR as usize / 8];
        let at = from.on(nth * SECTOR);
        match sector(binding, slot, words, at, slots) {
            Sector::Blank => has_blank = true,
            Sector::Of(number) => {
                (oldest, newest) = (oldest.min(number), newest.max(number));
                own_sums = if nth == 0 { words[SECTOR_HEAD + 1] } else { 0 };
            }
            Sector::Foreign => worst = Some(RingContent::Foreign),
            Sector::Damaged => worst = worst.or(Some(RingContent::Damaged)),
        }
        sums = if nth == 0 { sums } else { mixed(sums, words[0]) };
    }
    let is_one = oldest == newest && !has_blank && own_sums == sums;
    match worst {
        Some(worst) => worst,
        None if is_one => RingContent::Record(newest),
        None => RingContent::Torn { oldest, newest, has_blank },
    }
}

fn sector(binding: &Binding, slot: u64, words: &[u64], at: Bytes, slots: &dyn Slots) -> Sector {
    if words.iter().all(|word| *word == 0) {
        return Sector::Blank;
    }
    let (own, identity, number) = (words[0], words[1], words[2]);
    // Records of version 1 began like this.
    if identity == CHANGES {
        return Sector::Foreign;
    }
    if slots.checksum(at.on(8).len(SECTOR - 8)) != Some(own) {
        return Sector::Damaged;
    }
    let is_in_place = number > 0 && number < 1 << 62 && number % binding.ring() == slot;
    match identity == binding.identity() && is_in_place {
        true => Sector::Of(number),
        false => Sector::Foreign,
    }
}

/// Applies the intact record `sequence` to the table: its changes, then its page. Returns `None` if
/// it names places that do not exist.
pub(super) fn take_record(
    binding: &Binding,
    sequence: u64,
    from: Bytes,
    table: &mut [Name],
    slots: &dyn Slots,
) -> Option<()> {
    let mut bytes = vec![0; RECORD as usize];
    slots.get(from.len(RECORD), &mut bytes).then_some(())?;
    let sectors = bytes.chunks_exact(SECTOR as usize);
    let all: Vec<u64> = sectors.flat_map(|sector| words(&sector[8 * SECTOR_HEAD..])).collect();
    let count = usize::try_from(*all.get(HEAD - 1)?).ok().filter(|count| *count <= CHANGES_MAX)?;
    (all[0] == CHANGES).then_some(())?;
    for change in all.get(HEAD..HEAD + 2 * count)?.chunks_exact(2) {
        *table.get_mut(usize::try_from(change[0]).ok()?)? = Name(change[1]);
    }
    let page = (sequence % binding.pages()) as usize;
    let names = table.iter_mut().skip(page * PLACES_A_PAGE);
    names.zip(&all[CHANGED..]).for_each(|(name, word)| *name = Name(*word));
    Some(())
}

/// Writes `bytes` to `to` with their checksum in the first word, and returns the checksum.
fn seal(bytes: &[u8], to: Bytes, slots: &mut dyn Slots) -> u64 {
    let len = bytes.len() as u32;
    slots.put(to.len(len), bytes);
    let sum = slots.checksum(to.on(8).len(len - 8)).unwrap_or(0);
    slots.put(to.len(8), &sum.to_le_bytes());
    sum
}

fn put_words(words: &[u64], to: &mut [u8]) {
    for (word, to) in words.iter().zip(to.chunks_exact_mut(8)) {
        to.copy_from_slice(&word.to_le_bytes());
    }
}

fn words(from: &[u8]) -> Vec<u64> {
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    from.chunks_exact(8).map(word).collect()
}
