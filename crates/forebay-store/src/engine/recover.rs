//! Opening: which logs were left.
//!
//! Logs that no segment has are read back from their slots in order, up to what was not whole, and
//! transformed. One that is known to another disk and was on a missing one is lost: it may decide any key. So may
//! one that lacks batches that were acknowledged, which stays as it is: a later batch of it, or the log after it,
//! says that they were there. Only where nothing came after it does a damaged batch look like a torn one.

use std::rc::Rc;

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

impl Engine {
    /// Logs that no segment has, in order.
    pub(super) async fn open_logs(&self) -> Result<(), Trouble> {
        let mut found = Vec::new();
        for disk in self.present() {
            for slot in 0..self.disks[disk].layout.log_slots {
                if let Some(log) = self.find_log(disk, slot).await? {
                    found.push((disk, slot, log));
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
        let begun: Vec<_> = {
            let state = self.state.borrow();
            state.roots.iter().flat_map(|root| root.logs.clone()).collect()
        };
        for (log, disk) in begun {
            let mut state = self.state.borrow_mut();
            state.next_log = state.next_log.max(log.saturating_add(1));
            let is_missing =
                self.disks.get(usize::from(disk)).is_some_and(|disk| disk.lane.is_none());
            let is_lost = is_missing && !state.version.covers(log);
            drop(state);
            if is_lost {
                self.lose_log(log, disk.into(), Trouble::Missing { disk: disk.into() });
            }
        }
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

    /// The log in a slot, unless it is in a segment.
    async fn find_log(&self, disk: usize, slot: u64) -> Result<Option<FoundLog>, Trouble> {
        let layout = self.disks[disk].layout;
        let head = self.read(disk, layout.slot_at(slot), BLOCK).await?;
        if head.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let is_head = |kind| Frame::len(&head, kind, self.store).is_some();
        if is_head(Kind::Batch) || is_head(Kind::Stretch) {
            // Whole or not, its number is not used again.
            let id = Fields(&head[24..]).u64().unwrap_or_default();
            let mut state = self.state.borrow_mut();
            state.next_log = state.next_log.max(id.saturating_add(1));
            if state.version.covers(id) {
                return Ok(None);
            }
        }
        let bytes = self.read_all(disk, layout.slot_at(slot), layout.slot_bytes).await?;
        let mut log = FoundLog::default();
        while let Some(found) = log.next(&bytes, self.store) {
            match found {
                Found::Batch(batch, records) => log.take(batch, records),
                Found::Stretch(stretch) => {
                    let Some(records) = self.find_stretch(disk, &stretch).await? else { break };
                    log.take(stretch.batch, records);
                    log.stretches.push(stretch);
                }
            }
        }
        log.look_behind(&bytes, self.store, |id| !self.state.borrow().version.covers(id));
        Ok((log.batches > 0 || log.expected.is_some()).then_some(log))
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
        let bytes = self.read_all(disk, offset, len).await?;
        let found = Batch::parse(&bytes, self.store)
            .filter(|(found, _)| (found.log, found.index) == (batch.log, batch.index));
        if found.is_none() {
            self.disks[disk].space.borrow_mut().give(offset, len);
        }
        Ok(found.map(|(_, records)| records))
    }
}
