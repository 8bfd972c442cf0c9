//! Opening: which logs were left, and which are lost.
//!
//! Logs that no segment has are read back from their slots in order, up to what was not whole, and
//! transformed. One that is known to another disk and was on a missing one is lost: it may decide any key. So may
//! one that lacks batches that were acknowledged, which stays as it is: a later batch of it, or the log after it,
//! says that they were there; so does the segment that the log after it became. Only where nothing came after it
//! does a damaged batch look like a torn one.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use forebay_core::Fault;

use crate::batch::{Batch, Found, FoundLog, Stretch};
use crate::config::Transformation;
use crate::filter::Filter;
use crate::frame::{BLOCK, Fields, Frame, Kind};
use crate::operation::Trouble;
use crate::record::Record;
use crate::segment::{Described, Keys, Shape};

use super::log::Log;
use super::version::Segment;
use super::{Disk, Engine, PUT_MAX};

/// What a slot has.
enum Slot {
    /// No log that counts, at first sight.
    Empty,
    Log(FoundLog),
    /// Nobody can say.
    Unreadable,
}

/// What all slots have.
#[derive(Default)]
struct Slots {
    /// Logs, each with its disk and slot.
    logs: Vec<(usize, u64, FoundLog)>,
    empty: Vec<(usize, u64)>,
    /// Disks with a slot of which nobody can say.
    hiding: BTreeSet<usize>,
}

impl Slots {
    fn has(&self, id: u64) -> bool {
        self.logs.iter().any(|(.., log)| log.id == id)
    }
}

impl Engine {
    /// Logs that no segment has, in order.
    pub(super) async fn open_logs(&self) -> Result<(), Trouble> {
        let slots = self.find_logs().await?;
        let mut expected: BTreeMap<u64, u64> = BTreeMap::new();
        let mut expect = |(id, batches): (u64, u64)| {
            let most = expected.entry(id).or_default();
            *most = batches.max(*most);
        };
        for (.., log) in &slots.logs {
            expect(log.before);
            expect((log.id, log.expected.unwrap_or(0)));
        }
        self.said_before().into_iter().for_each(expect);
        for (disk, _, log) in &slots.logs {
            let expected = expected.get(&log.id).copied().unwrap_or(0);
            if log.batches < expected {
                let trouble = Trouble::Lost { log: log.id, got: log.batches, expected };
                self.lose_log((log.id, log.before), *disk, trouble);
            }
        }
        self.lose_unfound(&slots, &expected);
        self.lose_hidden(&slots);
        self.take_logs(slots.logs);
        Ok(())
    }

    /// What every slot has. One that seems empty is read as a whole where its disk is said to have a log that is
    /// nowhere: its beginning may be damaged.
    async fn find_logs(&self) -> Result<Slots, Trouble> {
        let mut slots = Slots::default();
        for disk in self.present() {
            for slot in 0..self.disks[disk].layout.log_slots {
                let found = self.find_log(disk, slot, false).await?;
                self.sort_slot(&mut slots, (disk, slot), found);
            }
        }
        let begun = self.begun().into_iter().filter(|(id, _)| !slots.has(*id));
        let begun: BTreeSet<usize> = begun.map(|(_, disk)| disk).collect();
        for (disk, slot) in std::mem::take(&mut slots.empty) {
            if begun.contains(&disk) {
                let found = self.find_log(disk, slot, true).await?;
                self.sort_slot(&mut slots, (disk, slot), found);
            }
        }
        slots.logs.sort_by_key(|(_, _, log)| log.id);
        Ok(slots)
    }

    fn sort_slot(&self, slots: &mut Slots, (disk, slot): (usize, u64), found: Slot) {
        match found {
            Slot::Empty => slots.empty.push((disk, slot)),
            Slot::Log(log) => slots.logs.push((disk, slot, log)),
            Slot::Unreadable => {
                // What it may have is not written over.
                self.disks[disk].slots.borrow_mut()[slot as usize] = true;
                slots.hiding.insert(disk);
            }
        }
    }

    /// The logs before those that segments have, and their batches.
    fn said_before(&self) -> Vec<(u64, u64)> {
        let version = Rc::clone(&self.state.borrow().version);
        version.segments().map(|segment| segment.described.before).collect()
    }

    fn take_logs(&self, logs: Vec<(usize, u64, FoundLog)>) {
        let mut state = self.state.borrow_mut();
        for (disk, slot, found) in logs {
            let Disk { slots, space, .. } = &self.disks[disk];
            let log = Log::new(found.id, disk, slot as usize, slots, space);
            found.stretches.iter().for_each(|stretch| log.stretch(stretch.offset, stretch.len));
            log.len.set(found.len);
            log.batches.set(found.batches);
            log.before.set(found.before);
            if found.batches > 0 {
                state.before = (found.id, found.batches);
            }
            for record in found.records {
                state.sequence = state.sequence.max(record.sequence.saturating_add(1));
                log.insert(record);
            }
            state.logs.push(Rc::new(log));
        }
    }

    /// Logs that others say were there, of which nothing is.
    fn lose_unfound(&self, slots: &Slots, expected: &BTreeMap<u64, u64>) {
        if self.config.transformation == Transformation::None {
            return;
        }
        let begun = self.begun();
        for (&log, &expected) in expected.iter().filter(|(_, expected)| **expected > 0) {
            if !slots.has(log) && !self.state.borrow().version.covers(log) {
                // Where it was nobody may know any more.
                let disk = begun.iter().find(|(id, _)| *id == log).map_or(0, |(_, disk)| *disk);
                self.lose_log((log, (0, 0)), disk, Trouble::Lost { log, got: 0, expected });
            }
        }
    }

    /// Logs of a missing disk that are in no segment: other disks know that they were begun.
    pub(super) fn lose_logs(&self) {
        for (log, disk) in self.begun() {
            let mut state = self.state.borrow_mut();
            state.next_log = state.next_log.max(log.saturating_add(1));
            drop(state);
            if self.disks.get(disk).is_some_and(|disk| disk.lane.is_none()) {
                self.lose_log((log, (0, 0)), disk, Trouble::Missing { disk });
            }
        }
    }

    /// Logs that may be in a slot whose beginning cannot be read: begun, and found nowhere.
    fn lose_hidden(&self, slots: &Slots) {
        for (log, disk) in self.begun() {
            if slots.hiding.contains(&disk) && !slots.has(log) {
                self.lose_log((log, (0, 0)), disk, Trouble::Disk { disk, fault: Fault::Media });
            }
        }
    }

    /// Logs that roots say were begun and that are in no segment, and the disks that they are on.
    fn begun(&self) -> Vec<(u64, usize)> {
        let state = self.state.borrow();
        let logs = state.roots.iter().flat_map(|root| &root.logs);
        let logs = logs.filter(|(log, _)| !state.version.covers(*log));
        logs.map(|(log, disk)| (*log, usize::from(*disk))).collect()
    }

    /// Each segment stands in two roots: where two are gone nobody knows what there was, nor what it would decide.
    pub(super) fn lose_roots(&self) {
        let missing = self.disks.iter().filter(|disk| disk.lane.is_none()).count();
        let mut state = self.state.borrow_mut();
        let gone = state.broken_roots.len();
        let is_too_many = gone > 0 && gone + missing >= self.disks.len().min(2);
        state.rootless = is_too_many.then_some(Trouble::Rootless { disks: gone });
    }

    /// A log, behind another one, may decide any key, and what it says is not known.
    fn lose_log(&self, (log, before): (u64, (u64, u64)), disk: usize, trouble: Trouble) {
        let mut state = self.state.borrow_mut();
        if !state.lost_logs.insert(log) {
            return;
        }
        let id = state.next_segment;
        state.next_segment += 1;
        let (keys, shape) = (Keys::default(), Shape::default());
        let described = Described { id, ages: (log, log), before, keys, offset: 0, len: 0, shape };
        let segment = Segment::new(described, disk, (Filter::all(), None), &self.disks[disk].space);
        let (version, _) = state.version.with(Rc::new(segment.lost(trouble)));
        state.version = Rc::new(version);
    }

    /// What is in a slot, read as a whole where it has a log or is to be searched for one. A log that is in a
    /// segment is none.
    async fn find_log(&self, disk: usize, slot: u64, is_search: bool) -> Result<Slot, Trouble> {
        let layout = self.disks[disk].layout;
        let begin = layout.slot_at(slot);
        let head = self.read_around(disk, begin, BLOCK as u64).await?;
        let is_readable = !head.lacks(&(0..BLOCK as u64));
        let is_blank = head.bytes.iter().all(|byte| *byte == 0);
        if is_readable && !is_search && (is_blank || self.is_of_the_past(&head.bytes)) {
            return Ok(Slot::Empty);
        }
        let found = self.read_around(disk, begin, layout.slot_bytes).await?;
        let mut log = FoundLog::default();
        while let Some(next) = log.next(&found.bytes, self.store) {
            if log.batches == 0 && self.state.borrow().version.covers(next.batch().log) {
                return Ok(Slot::Empty);
            }
            match next {
                Found::Batch(batch, records) => log.take(batch, records),
                Found::Stretch(stretch) => match self.find_stretch(disk, &stretch).await? {
                    Some(records) => {
                        log.take(stretch.batch, records);
                        log.stretches.push(stretch);
                    }
                    None => {
                        log.lacks(&stretch.batch);
                        break;
                    }
                },
            }
        }
        log.look_behind(&found.bytes, self.store, |id| !self.state.borrow().version.covers(id));
        let next = log.reach(&found.bytes, self.store);
        // It may have been whole, and acknowledged.
        if log.batches > 0 && found.lacks(&next) {
            log.expected = log.expected.max(Some(log.batches + 1));
        }
        Ok(match log.batches > 0 || log.expected.is_some() {
            true => Slot::Log(log),
            false if is_readable && !found.lacks(&next) => Slot::Empty,
            false => Slot::Unreadable,
        })
    }

    /// Whether a slot begins with a log that is in a segment. Whole or not, its number is not used again.
    fn is_of_the_past(&self, head: &[u8]) -> bool {
        let is_head = |kind| Frame::len(head, kind, self.store).is_some();
        if !is_head(Kind::Batch) && !is_head(Kind::Stretch) {
            return false;
        }
        let id = Fields(&head[24..]).u64().unwrap_or_default();
        let mut state = self.state.borrow_mut();
        state.next_log = state.next_log.max(id.saturating_add(1));
        state.version.covers(id)
    }

    /// The records of a batch beyond its slot, whose extent is taken; none where it is not whole.
    async fn find_stretch(
        &self,
        disk: usize,
        stretch: &Stretch,
    ) -> Result<Option<Vec<Record>>, Trouble> {
        let &Stretch { batch, offset, len } = stretch;
        let is_free = len <= (PUT_MAX + 2 * BLOCK) as u64
            && self.disks[disk].space.borrow_mut().claim(offset, len);
        if !is_free {
            return Ok(None);
        }
        let found = self.read_around(disk, offset, len).await?;
        let found = Batch::parse(&found.bytes, self.store)
            .filter(|(found, _)| (found.log, found.index) == (batch.log, batch.index));
        if found.is_none() {
            self.disks[disk].space.borrow_mut().give(offset, len);
        }
        Ok(found.map(|(_, records)| records))
    }
}
