//! The log as bytes: its label and its records (docs/placement-log.md).
//!
//! All numbers are little-endian words of eight bytes. The *label* says whose places these are and how
//! many; all of it lies in one sector, which no power cut tears. A *record* says which places changed, and
//! carries one page of the table in turn: so the last records, one a page, are the whole table.

use crate::contract::bytes::{Bytes, Slots};
use crate::contract::request::Lane;

/// Bytes of a label.
const BLOCK: u32 = 4096;
/// Both labels.
pub(super) const LABELS: u32 = 2 * BLOCK;
/// Bytes of a record: what changed, then a page.
pub(super) const RECORD: u32 = 8192;
const PAGE: usize = RECORD as usize / 2;
/// Places of a page, a word each.
pub(super) const PLACES_A_PAGE: usize = PAGE / 8;
/// Records that the ring has beyond two of each page.
const SPARE: u64 = 16;

/// How a label and a record begin, after their sums.
const LABEL: u64 = u64::from_le_bytes(*b"forebayP");
const CHANGES: u64 = u64::from_le_bytes(*b"forebayC");
/// The format's version.
const VERSION: u64 = 1;

/// Words of a record before what changed: sum, mark, identity, sequence, count.
const HEAD: usize = 5;
/// Changes of a record: the place and its name, a word each.
pub(super) const CHANGES_MAX: usize = (PAGE / 8 - HEAD) / 2;

/// Bits of a name that say which block of its disk.
const DISK_BIT: u32 = 48;

/// Whose places they are: all of it has to be the same when they are found again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    /// What the owner gives out the places for.
    pub(crate) purpose: u64,
    /// Tells this flash from others of the same sizes; given by whoever configures it.
    pub(crate) id: u64,
    /// Disks before it.
    pub(crate) disks: u16,
    /// Bytes of each disk; 0 where that is not known, which fits any.
    pub(crate) disk_bytes: u64,
    /// Bytes of a place.
    pub(crate) place_bytes: u64,
    /// Places there are.
    pub(crate) places: u32,
    /// Bits of a name beneath the block's number, which say what of the block is there. It follows from
    /// the purpose.
    pub(crate) part_bits: u32,
}

impl Binding {
    pub(super) fn pages(&self) -> u64 {
        pages(self.places)
    }

    /// Records that the ring holds.
    pub(super) fn ring(&self) -> u64 {
        ring(self.places)
    }

    /// Where the record of a number is.
    pub(super) fn record_at(&self, sequence: u64) -> u64 {
        u64::from(LABELS) + sequence % self.ring() * u64::from(RECORD)
    }

    /// Where places begin.
    pub(crate) fn log_bytes(&self) -> u64 {
        Binding::log_bytes_of(self.places)
    }

    /// Bytes of a log of so many places.
    pub(crate) fn log_bytes_of(places: u32) -> u64 {
        u64::from(LABELS) + ring(places) * u64::from(RECORD)
    }

    /// Whether the places of `other` are these.
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

/// The name of a block of a disk, or of nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name(u64);

impl Name {
    /// Nothing that counts.
    pub(crate) const NONE: Name = Name(0);

    /// Of a block, its disk above 48 bits.
    pub(crate) fn of(key: u64) -> Name {
        Name(key.wrapping_add(1))
    }

    /// The block.
    pub(crate) fn key(self) -> Option<u64> {
        self.0.checked_sub(1)
    }

    /// Its disk; the first where it is nothing.
    pub(super) fn disk(self) -> Lane {
        (self.key().unwrap_or(0) >> DISK_BIT) as Lane
    }

    /// The number of the block on its disk, above `part_bits`.
    pub(super) fn block(self, part_bits: u32) -> u64 {
        (self.key().unwrap_or(0) & ((1 << DISK_BIT) - 1)) >> part_bits
    }
}

/// What a place holds from a record on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) place: u32,
    pub(crate) name: Name,
}

/// Puts a label twice at `to`, as it lies at the begin of the flash.
pub(super) fn put_labels(binding: &Binding, to: Bytes, slots: &mut dyn Slots) {
    let Binding { purpose, id, disks, disk_bytes, place_bytes, places, .. } = *binding;
    let words =
        [0, LABEL, VERSION, purpose, id, disks.into(), disk_bytes, place_bytes, places.into()];
    let mut bytes = vec![0; BLOCK as usize];
    put_words(&words, &mut bytes);
    for at in [to, to.on(BLOCK)] {
        seal(&bytes, at, slots);
    }
}

/// What is where labels are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Labelled {
    /// Zeros.
    Blank,
    /// A label.
    As(Binding),
    /// Anything else.
    Otherwise,
}

/// What the labels at `from` say; the first that is whole counts.
pub(super) fn labelled(from: Bytes, slots: &dyn Slots) -> Labelled {
    let mut is_blank = true;
    for at in [from, from.on(BLOCK)] {
        let mut bytes = vec![0; BLOCK as usize];
        if !slots.get(at.len(BLOCK), &mut bytes) {
            return Labelled::Otherwise;
        }
        is_blank &= bytes.iter().all(|byte| *byte == 0);
        let sum = slots.checksum(at.on(8).len(BLOCK - 8));
        if let Some(binding) = sum.and_then(|sum| label(&bytes, sum)) {
            return Labelled::As(binding);
        }
    }
    if is_blank { Labelled::Blank } else { Labelled::Otherwise }
}

/// Bytes of a label, of which two are at the begin of a flash.
pub const LABEL_BYTES: usize = BLOCK as usize;

/// The identity in a label of [`LABEL_BYTES`], if it is one; `sum` is the checksum of all but its first eight bytes.
pub fn labelled_id(bytes: &[u8], sum: u64) -> Option<u64> {
    label(bytes, sum).map(|binding| binding.id)
}

/// The label in bytes whose sum, without their first word, is `sum`.
fn label(bytes: &[u8], sum: u64) -> Option<Binding> {
    let words = words(bytes);
    let &[own, mark, version, purpose, id, disks, disk_bytes, place_bytes, places] =
        words.first_chunk()?;
    if (own, mark, version) != (sum, LABEL, VERSION) {
        return None;
    }
    let (disks, places) = (disks.try_into().ok()?, places.try_into().ok()?);
    Some(Binding { purpose, id, disks, disk_bytes, place_bytes, places, part_bits: 0 })
}

/// Puts a record at `to`: `changes`, of which there are at most [`CHANGES_MAX`], and the page of the table
/// whose turn it is, in which they are made already.
pub(super) fn put_record(
    binding: &Binding,
    sequence: u64,
    changes: &[Change],
    table: &[Name],
    to: Bytes,
    slots: &mut dyn Slots,
) {
    let mut bytes = vec![0; RECORD as usize];
    let count = changes.len() as u64;
    put_words(&[0, CHANGES, binding.id, sequence, count], &mut bytes);
    for (change, to) in changes.iter().zip(bytes[8 * HEAD..PAGE].chunks_exact_mut(16)) {
        put_words(&[change.place.into(), change.name.0], to);
    }
    let page = (sequence % binding.pages()) as usize;
    let names = table.iter().skip(page * PLACES_A_PAGE);
    for (name, to) in names.zip(bytes[PAGE..].chunks_exact_mut(8)) {
        to.copy_from_slice(&name.0.to_le_bytes());
    }
    seal(&bytes, to, slots);
}

/// The number of the record at `from`, if there is one; of whatever flash.
pub(super) fn sequence_of(from: Bytes, slots: &dyn Slots) -> Option<Numbered> {
    let mut head = [0; 8 * HEAD];
    if !slots.get(from.len(head.len() as u32), &mut head) {
        return None;
    }
    let words = words(&head);
    let &[own, mark, id, sequence, count] = words.first_chunk()?;
    let is_sane = mark == CHANGES && sequence < 1 << 62 && count <= CHANGES_MAX as u64;
    let is_whole = is_sane && slots.checksum(from.on(8).len(RECORD - 8)) == Some(own);
    is_whole.then_some(Numbered { id, sequence })
}

/// A record's place among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbered {
    pub(super) id: u64,
    pub(super) sequence: u64,
}

/// Takes over what a record says, which is whole: its changes, then its page. None if it names what there
/// is not.
pub(super) fn take_record(
    binding: &Binding,
    sequence: u64,
    from: Bytes,
    table: &mut [Name],
    slots: &dyn Slots,
) -> Option<()> {
    let mut bytes = vec![0; RECORD as usize];
    slots.get(from.len(RECORD), &mut bytes).then_some(())?;
    let all = words(&bytes);
    let count = usize::try_from(*all.get(HEAD - 1)?).ok()?;
    for change in all.get(HEAD..HEAD + 2 * count)?.chunks_exact(2) {
        *table.get_mut(usize::try_from(change[0]).ok()?)? = Name(change[1]);
    }
    let page = (sequence % binding.pages()) as usize;
    let names = table.iter_mut().skip(page * PLACES_A_PAGE);
    names.zip(&all[PAGE / 8..]).for_each(|(name, word)| *name = Name(*word));
    Some(())
}

/// Puts bytes, their sum in the first word.
fn seal(bytes: &[u8], to: Bytes, slots: &mut dyn Slots) {
    let len = bytes.len() as u32;
    slots.put(to.len(len), bytes);
    let sum = slots.checksum(to.on(8).len(len - 8)).unwrap_or(0);
    slots.put(to.len(8), &sum.to_le_bytes());
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
