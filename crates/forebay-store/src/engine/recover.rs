//! Opening: which logs were left, and which are lost.
//!
//! Logs that no segment has are read back from their slots in order, up to what was not whole, and
//! transformed. One that is known to another disk and was on a missing one is lost: it may decide any key. So may
//! one that lacks batches that were acknowledged, which stays as it is: a later batch of it, or the log after it,
//! says that they were there. Only where nothing came after it does a damaged batch look like a torn one.

use std::collections::BTreeSet;
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
    Empty,
    Log(FoundLog),
    /// Nobody can say.
    Unreadable,
}

impl Engine {
    /// Logs that no segment has, in order.
    pub(super) async fn open_logs(&self) -> Result<(), Trouble> {
        let (mut found, mut hiding) = (Vec::new(), BTreeSet::new());
        for disk in self.present() {
            for slot in 0..self.disks[disk].layout.log_slots {
                match self.find_log(disk, slot).await? {
                    Slot::Empty => {}
                    Slot::Log(log) => found.push((disk, slot, log)),
                    Slot::Unreadable => drop(hiding.insert(disk)),
                }
            }
        }
        found.sort_by_key(|(_, _, log)| log.id);
        for (disk, _, log) in &found {
            let later = found.iter().map(|(.., later)| later.before).filter(|of| of.0 == log.id);
            let expected = later.map(|of| of.1).chain(log.expected).max().unwrap_or(0);
            if log.batches < expected {
                let trouble = Trouble::Lost { log: log.id, got: log.batches, expected };
                self.lose_log(log.id, *disk, trouble);
            }
        }
        self.lose_unfound(&found);
        self.lose_hidden(&found, &hiding);
        let mut state = self.state.borrow_mut();
        for (disk, slot, found) in found {
            let Disk { slots, space, .. } = &self.disks[disk];
            let log = Log::new(found.id, disk, slot as usize, slots, space);
            found.stretches.iter().for_each(|stretch| log.stretch(stretch.offset, stretch.len));
            log.len.set(found.len);
            log.batches.set(found.batches);
            if found.batches > 0 {
                state.before = (found.id, found.batches);
            }
            for record in found.records {
                state.sequence = state.sequence.max(record.sequence.saturating_add(1));
                log.insert(record);
            }
            state.logs.push(Rc::new(log));
        }
        Ok(())
    }

    /// Logs that others say were there, of which nothing is.
    fn lose_unfound(&self, found: &[(usize, u64, FoundLog)]) {
        if self.config.transformation == Transformation::None {
            return;
        }
        for (disk, _, log) in found {
            let (before, expected) = log.before;
            let is_found = found.iter().any(|(.., other)| other.id == before);
            let is_there = is_found || self.state.borrow().version.covers(before);
            if expected > 0 && !is_there {
                // Where it was nobody knows any more.
                self.lose_log(before, *disk, Trouble::Lost { log: before, got: 0, expected });
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
                self.lose_log(log, disk, Trouble::Missing { disk });
            }
        }
    }

    /// Logs that may be in a slot whose beginning cannot be read: begun, and found nowhere.
    fn lose_hidden(&self, found: &[(usize, u64, FoundLog)], hiding: &BTreeSet<usize>) {
        for (log, disk) in self.begun() {
            if hiding.contains(&disk) && !found.iter().any(|(.., other)| other.id == log) {
                self.lose_log(log, disk, Trouble::Disk { disk, fault: Fault::Media });
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

    /// A log may decide any key, and what it says is not known.
    fn lose_log(&self, log: u64, disk: usize, trouble: Trouble) {
        let mut state = self.state.borrow_mut();
        if !state.lost_logs.insert(log) {
            return;
        }
        let id = state.next_segment;
        state.next_segment += 1;
        let (keys, shape) = (Keys::default(), Shape::default());
        let described = Described { id, ages: (log, log), keys, offset: 0, len: 0, shape };
        let segment = Segment::new(described, disk, (Filter::all(), None), &self.disks[disk].space);
        let (version, _) = state.version.with(Rc::new(segment.lost(trouble)));
        state.version = Rc::new(version);
    }

    /// What is in a slot. A log that is in a segment is none.
    async fn find_log(&self, disk: usize, slot: u64) -> Result<Slot, Trouble> {
        let layout = self.disks[disk].layout;
        let begin = layout.slot_at(slot);
        let head = self.read_around(disk, begin, BLOCK as u64).await?;
        let is_readable = !head.lacks(&(0..BLOCK as u64));
        let head = head.bytes;
        if is_readable && head.iter().all(|byte| *byte == 0) {
            return Ok(Slot::Empty);
        }
        let is_head = |kind| Frame::len(&head, kind, self.store).is_some();
        if is_head(Kind::Batch) || is_head(Kind::Stretch) {
            // Whole or not, its number is not used again.
            let id = Fields(&head[24..]).u64().unwrap_or_default();
            let mut state = self.state.borrow_mut();
            state.next_log = state.next_log.max(id.saturating_add(1));
            if state.version.covers(id) {
                return Ok(Slot::Empty);
            }
        }
        let found = self.read_around(disk, begin, layout.slot_bytes).await?;
        let mut log = FoundLog::default();
        while let Some(found) = log.next(&found.bytes, self.store) {
            match found {
                Found::Batch(batch, records) => log.take(batch, records),
                Found::Stretch(stretch) => {
                    let Some(records) = self.find_stretch(disk, &stretch).await? else { break };
                    log.take(stretch.batch, records);
                    log.stretches.push(stretch);
                }
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
