//! The location table: which sectors of the disks are on the flash.
//!
//! A disk block of [`BLOCK`] bytes has a place on the flash from when any of its sectors is going
//! to be written there. Each sector is on the flash from the completion of its write. The place
//! becomes free when none of its sectors is on the flash and no I/O to it is outstanding, so that a
//! late I/O cannot reach the next block in the place. If the table has a log (`placement_log`), no
//! record may name the place either.
//!
//! Most of a disk has nothing on the flash. Counters per region, which several regions may share,
//! usually make a search unnecessary.

use super::slots::Slots;
use super::surviving::TableLog;
use crate::contract::Lane;
use crate::index::{Index, spread};

/// The size of a block in bytes.
pub(super) const BLOCK: u64 = 4096;
/// The size of a sector in bytes, which is the unit of placement.
pub(super) const SECTOR: u64 = 512;
/// The size of a region of a disk in bytes.
const REGION: u64 = 8 << 20;
/// The number of counters for regions.
const REGIONS: usize = 1 << 16;
/// The number of bits of a block number in a key. The disk is above them.
const KEY_BITS: u32 = 48;

/// Contiguous bytes on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The first byte on the disk.
    pub(super) offset: u64,
    pub(super) len: u32,
    /// The first byte on the flash, if the piece is there.
    pub(super) flash: Option<u64>,
}

impl Piece {
    /// Returns the part of the piece within a range of the disk; `None` if they do not overlap.
    pub(super) fn within(&self, offset: u64, len: u64) -> Option<Piece> {
        let first = self.offset.max(offset);
        let end = (self.offset + u64::from(self.len)).min(offset + len);
        let skipped = first - self.offset;
        let len = end.checked_sub(first).filter(|&len| len > 0)? as u32;
        Some(Piece { offset: first, len, flash: self.flash.map(|place| place + skipped) })
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u64,
    slot: u32,
    /// The number of outstanding I/Os to the place.
    pending: u32,
    /// One bit per sector, set if the sector is on the flash.
    sectors: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Region {
    /// The number of blocks with a place on the flash.
    placed: u32,
    /// The number of outstanding writes to the disk.
    writes: u32,
}

/// The table of disk blocks with a place on the flash.
#[derive(Clone, Debug)]
pub(super) struct Table {
    index: Index,
    entries: Vec<Entry>,
    vacant: Vec<u32>,
    slots: Slots,
    regions: Vec<Region>,
    /// Whether the table is closed, so that no new places are allocated.
    closed: bool,
    /// The offset of the first place on the flash.
    places_at: u64,
    /// The log of the table, if it must survive a restart.
    pub(super) kept: Option<Box<TableLog>>,
    /// For each slot, the index of its entry plus one, or 0 if it has none. Used only with a log.
    holders: Vec<u32>,
}

#[inline]
fn key(lane: Lane, block: u64) -> u64 {
    u64::from(lane) << KEY_BITS ^ block
}

/// Returns the index of a region's counters. Neighboring regions have different counters.
#[inline]
fn region(lane: Lane, index: u64) -> usize {
    let disk = spread(u64::from(lane)) >> 48;
    (index ^ disk) as usize % REGIONS
}

/// Returns the bits of the sectors that bytes `from` to `to` of a block touch.
#[inline]
fn sectors(from: u64, to: u64) -> u8 {
    let (first, end) = (from / SECTOR, to.div_ceil(SECTOR));
    ((1u16 << end) - (1u16 << first)) as u8
}

/// Returns the blocks that a range touches; none if it is empty.
#[inline]
fn blocks(offset: u64, len: u32) -> std::ops::Range<u64> {
    if len == 0 {
        return 0..0;
    }
    offset / BLOCK..(offset.saturating_add(u64::from(len))).div_ceil(BLOCK)
}

/// Returns the part of a range within a block, relative to the block's first byte.
#[inline]
fn within(block: u64, offset: u64, end: u64) -> (u64, u64) {
    let start = block * BLOCK;
    (offset.max(start) - start, end.min(start + BLOCK) - start)
}

impl Table {
    /// Creates a table for `flash_bytes` of flash.
    pub(super) fn new(flash_bytes: u64) -> Table {
        Table {
            index: Index::new(),
            entries: Vec::new(),
            vacant: Vec::new(),
            slots: Slots::new((flash_bytes / BLOCK).min(u32::MAX.into())),
            regions: vec![Region::default(); REGIONS],
            closed: false,
            places_at: 0,
            kept: None,
            holders: Vec::new(),
        }
    }

    /// Enables the log `kept`, so that the table survives a restart.
    pub(super) fn keep(&mut self, kept: TableLog) {
        self.places_at = kept.log.log_bytes();
        self.kept = Some(Box::new(kept));
        self.holders = vec![0; self.places() as usize];
    }

    /// Returns the number of places.
    pub(super) fn places(&self) -> u32 {
        self.slots.count() as u32
    }

    /// Returns the block in a slot, and which of its sectors are on the flash.
    pub(super) fn at_slot(&self, slot: u32) -> Option<(u64, u8)> {
        let id = self.holders.get(slot as usize)?.checked_sub(1)?;
        let Entry { key, sectors, .. } = self.entries[id as usize];
        Some((key, sectors))
    }

    /// Returns the slot of a block with its key, and which of its sectors are on the flash.
    pub(super) fn slot_of(&self, lane: Lane, block: u64) -> Option<(u32, u64, u8)> {
        let Entry { slot, key, sectors, .. } = self.entries[self.find(key(lane, block))? as usize];
        Some((slot, key, sectors))
    }

    /// Restores a slot that contains the given sectors of a block.
    pub(super) fn found(&mut self, slot: u32, lane: Lane, block: u64, sectors: u8) {
        self.slots.take_at(slot);
        let id = self.enter(lane, block, slot);
        self.entries[id as usize].sectors = sectors;
    }

    /// Frees a slot that no record names any longer, unless it is in use again.
    pub(super) fn unnamed(&mut self, slot: u32) {
        if let Some(kept) = &mut self.kept
            && self.holders[slot as usize] == 0
        {
            kept.retired -= 1;
            self.slots.give(slot);
        }
    }

    /// Frees a slot now, or when no record names it.
    fn give(&mut self, slot: u32) {
        if let Some(kept) = &mut self.kept {
            self.holders[slot as usize] = 0;
            if kept.log.is_named(slot) {
                kept.retired += 1;
                return kept.log.note(slot);
            }
        }
        self.slots.give(slot);
    }

    /// Reports to the log that the sectors in a slot have changed.
    fn note(&mut self, slot: u32) {
        if let Some(kept) = &mut self.kept {
            kept.log.note(slot);
        }
    }

    /// Closes the table after the flash has disappeared; from now on it has no free slots.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.slots.free() * BLOCK
    }

    pub(super) fn used_bytes(&self) -> u64 {
        (self.slots.count() - self.slots.free()) * BLOCK
    }

    #[inline]
    fn find(&self, key: u64) -> Option<u32> {
        self.index.find(spread(key), |id| self.entries[id as usize].key == key)
    }

    #[inline]
    fn region(&mut self, lane: Lane, offset: u64) -> &mut Region {
        &mut self.regions[region(lane, offset / REGION)]
    }

    /// Returns whether any block in or near a range may have a place on the flash.
    #[inline]
    fn may_be_placed(&self, lane: Lane, offset: u64, len: u32) -> bool {
        let last = offset.saturating_add(u64::from(len.max(1)) - 1) / REGION;
        (offset / REGION..=last).any(|index| self.regions[region(lane, index)].placed > 0)
    }

    /// Splits a range into pieces according to where they can be read, in order.
    #[inline]
    pub(super) fn split(&self, lane: Lane, offset: u64, len: u32, pieces: &mut Vec<Piece>) {
        pieces.clear();
        if !self.may_be_placed(lane, offset, len) {
            pieces.push(Piece { offset, len, flash: None });
            return;
        }
        let end = offset.saturating_add(u64::from(len));
        for block in blocks(offset, len) {
            let (mut from, to) = within(block, offset, end);
            let found = self.find(key(lane, block)).map(|id| self.entries[id as usize]);
            let on_flash = |sector: u64| found.is_some_and(|it| it.sectors >> sector & 1 == 1);
            while from < to {
                let here = on_flash(from / SECTOR);
                let mut until = (from / SECTOR + 1) * SECTOR;
                while until < to && on_flash(until / SECTOR) == here {
                    until += SECTOR;
                }
                let until = until.min(to);
                let at = |it: Entry| self.places_at + u64::from(it.slot) * BLOCK + from;
                let place = found.filter(|_| here).map(at);
                let (offset, len) = (block * BLOCK + from, (until - from) as u32);
                join(pieces, Piece { offset, len, flash: place });
                from = until;
            }
        }
    }

    /// Allocates a place on the flash for every block of a range. Returns whether there was space,
    /// and stores the location of each piece in `pieces`.
    pub(super) fn reserve(
        &mut self,
        lane: Lane,
        offset: u64,
        len: u32,
        pieces: &mut Vec<Piece>,
    ) -> bool {
        pieces.clear();
        let new = blocks(offset, len).filter(|&block| self.find(key(lane, block)).is_none());
        if self.closed || new.count() as u64 > self.slots.free() {
            return false;
        }
        let end = offset.saturating_add(u64::from(len));
        for block in blocks(offset, len) {
            let known = self.find(key(lane, block));
            let Some(id) = known.or_else(|| self.place(lane, block)) else { return false };
            let (from, to) = within(block, offset, end);
            let slot = self.entries[id as usize].slot;
            let place = self.places_at + u64::from(slot) * BLOCK + from;
            let (offset, len) = (block * BLOCK + from, (to - from) as u32);
            join(pieces, Piece { offset, len, flash: Some(place) });
        }
        true
    }

    fn place(&mut self, lane: Lane, block: u64) -> Option<u32> {
        let slot = self.slots.take()?;
        Some(self.enter(lane, block, slot))
    }

    fn enter(&mut self, lane: Lane, block: u64, slot: u32) -> u32 {
        let key = key(lane, block);
        let entry = Entry { key, slot, pending: 0, sectors: 0 };
        let id = self.vacant.pop().unwrap_or(self.entries.len() as u32);
        match self.entries.get_mut(id as usize) {
            Some(vacant) => *vacant = entry,
            None => self.entries.push(entry),
        }
        self.index.insert(spread(key), id);
        self.region(lane, block * BLOCK).placed += 1;
        if self.kept.is_some() {
            self.holders[slot as usize] = id + 1;
        }
        id
    }

    /// Records that an I/O to the places of a range begins. All blocks of the range must have
    /// places.
    #[inline]
    pub(super) fn begin(&mut self, lane: Lane, offset: u64, len: u32) {
        for block in blocks(offset, len) {
            if let Some(id) = self.find(key(lane, block)) {
                self.entries[id as usize].pending += 1;
            }
        }
    }

    /// Records that an I/O has completed. If `written`, the sectors are now on the flash.
    #[inline]
    pub(super) fn end(&mut self, lane: Lane, offset: u64, len: u32, written: bool) {
        let end = offset.saturating_add(u64::from(len));
        for block in blocks(offset, len) {
            let Some(id) = self.find(key(lane, block)) else { continue };
            let (from, to) = within(block, offset, end);
            let entry = &mut self.entries[id as usize];
            entry.pending -= 1;
            let (slot, before) = (entry.slot, entry.sectors);
            if written {
                entry.sectors |= sectors(from, to);
            }
            if entry.sectors != before {
                self.note(slot);
            }
            self.release(lane, block, id);
        }
    }

    /// Invalidates a range on the flash.
    #[inline]
    pub(super) fn clear(&mut self, lane: Lane, offset: u64, len: u32) {
        if !self.may_be_placed(lane, offset, len) {
            return;
        }
        let end = offset.saturating_add(u64::from(len));
        for block in blocks(offset, len) {
            let Some(id) = self.find(key(lane, block)) else { continue };
            let (from, to) = within(block, offset, end);
            let entry = &mut self.entries[id as usize];
            let (slot, before) = (entry.slot, entry.sectors);
            entry.sectors &= !sectors(from, to);
            if entry.sectors != before {
                self.note(slot);
            }
            self.release(lane, block, id);
        }
    }

    #[inline]
    fn release(&mut self, lane: Lane, block: u64, id: u32) {
        let Entry { key, slot, pending, sectors } = self.entries[id as usize];
        if sectors == 0 && pending == 0 {
            self.index.remove(spread(key), id);
            self.vacant.push(id);
            self.give(slot);
            self.region(lane, block * BLOCK).placed -= 1;
        }
    }

    /// Records that a write to the disk begins, or that it has completed.
    #[inline]
    pub(super) fn count_write(&mut self, lane: Lane, offset: u64, len: u32, begins: bool) {
        let end = offset.saturating_add(u64::from(len));
        for index in offset / REGION..end.div_ceil(REGION) {
            let writes = &mut self.region(lane, index * REGION).writes;
            *writes = if begins { *writes + 1 } else { *writes - 1 };
        }
    }

    /// Returns whether no write to the disk near a range is outstanding.
    pub(super) fn is_quiet(&mut self, lane: Lane, offset: u64, len: u32) -> bool {
        let end = offset.saturating_add(u64::from(len));
        (offset / REGION..end.div_ceil(REGION))
            .all(|index| self.region(lane, index * REGION).writes == 0)
    }

    /// Returns how many bytes of a range are on the flash; `None` if an I/O to one of its places is
    /// outstanding.
    pub(super) fn settled_bytes(&self, lane: Lane, offset: u64, len: u32) -> Option<u64> {
        let mut bytes = 0;
        for block in blocks(offset, len) {
            let Some(id) = self.find(key(lane, block)) else { continue };
            let entry = self.entries[id as usize];
            if entry.pending > 0 {
                return None;
            }
            bytes += u64::from(entry.sectors.count_ones()) * SECTOR;
        }
        Some(bytes)
    }
}

/// Adds a piece, or extends the previous piece if it is contiguous.
#[inline]
fn join(pieces: &mut Vec<Piece>, next: Piece) {
    if let Some(last) = pieces.last_mut() {
        let goes_on = match (last.flash, next.flash) {
            (None, None) => true,
            (Some(at), Some(next)) => at + u64::from(last.len) == next,
            _ => false,
        };
        if goes_on {
            last.len += next.len;
            return;
        }
    }
    pieces.push(next);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(table: &Table, offset: u64, len: u32) -> Vec<(u64, u32, Option<u64>)> {
        let mut pieces = Vec::new();
        table.split(0, offset, len, &mut pieces);
        pieces.iter().map(|piece| (piece.offset, piece.len, piece.flash)).collect()
    }

    fn write(table: &mut Table, offset: u64, len: u32) -> bool {
        let room = table.reserve(0, offset, len, &mut Vec::new());
        if room {
            table.begin(0, offset, len);
            table.end(0, offset, len, true);
        }
        room
    }

    #[test]
    fn ranges_are_split_between_disk_and_flash() {
        let mut table = Table::new(4 * BLOCK);
        assert_eq!(split(&table, 0, 100), [(0, 100, None)]);
        // The request covers the second half of block 10 and the first sector of block 11.
        assert!(write(&mut table, 10 * BLOCK + 2048, 2048 + 512));
        let cut = split(&table, 10 * BLOCK, 2 * BLOCK as u32);
        assert_eq!(
            cut,
            [
                (10 * BLOCK, 2048, None),
                (10 * BLOCK + 2048, 2048 + 512, Some(2048)),
                (11 * BLOCK + 512, 4096 - 512, None),
            ]
        );
        // The boundaries are within sectors.
        assert_eq!(
            split(&table, 10 * BLOCK + 2047, 3),
            [(10 * BLOCK + 2047, 1, None), (10 * BLOCK + 2048, 2, Some(2048)),]
        );
        table.clear(0, 10 * BLOCK + 2048, 512);
        assert_eq!(
            split(&table, 10 * BLOCK + 2048, 1024),
            [(10 * BLOCK + 2048, 512, None), (10 * BLOCK + 2560, 512, Some(2560)),]
        );
    }

    #[test]
    fn ranges_across_two_regions_count_in_both() {
        let mut table = Table::new(4 * BLOCK);
        let (offset, len) = (REGION - 512, 1024);
        assert!(write(&mut table, REGION, 512));
        assert_eq!(split(&table, offset, len), [(offset, 512, None), (REGION, 512, Some(0))]);
        assert!(table.is_quiet(0, offset, len));
        table.count_write(0, REGION, 512, true);
        assert!(!table.is_quiet(0, offset, len) && table.is_quiet(0, offset, 512));
        table.count_write(0, offset, len, true);
        assert!(!table.is_quiet(0, offset, 512));
        table.count_write(0, REGION, 512, false);
        assert!(!table.is_quiet(0, REGION, 512));
        table.count_write(0, offset, len, false);
        assert!(table.is_quiet(0, offset, len));
    }

    #[test]
    fn a_flush_touches_no_block() {
        let mut table = Table::new(BLOCK);
        assert!(table.reserve(0, 0, BLOCK as u32, &mut Vec::new()));
        table.begin(0, 0, BLOCK as u32);
        table.begin(0, 512, 0);
        table.end(0, 0, BLOCK as u32, false);
        assert_eq!(table.free_bytes(), BLOCK, "nothing is there, nor under way");
    }

    #[test]
    fn places_without_data_and_outstanding_ios_are_freed() {
        let mut table = Table::new(2 * BLOCK);
        assert!(write(&mut table, 0, 2 * BLOCK as u32));
        assert!(!write(&mut table, 9 * BLOCK, BLOCK as u32), "full");
        assert!(write(&mut table, 0, BLOCK as u32), "what has a place keeps it");
        table.begin(0, 0, 512); // a read is outstanding
        table.clear(0, 0, 2 * BLOCK as u32);
        assert_eq!((table.free_bytes(), table.used_bytes()), (BLOCK, BLOCK));
        assert_eq!(split(&table, 0, 512), [(0, 512, None)]);
        table.end(0, 0, 512, false);
        assert_eq!(table.free_bytes(), 2 * BLOCK);
        assert!(write(&mut table, 9 * BLOCK, BLOCK as u32));
    }
}
