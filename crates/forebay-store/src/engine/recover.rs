//! Determines which logs exist and which are lost when a store is opened.
//!
//! Logs that are not in segments are read back from their slots in order, and transformed. A log on
//! a missing disk that another disk has recorded is lost: it may affect any key.
//!
//! A log that lacks acknowledged batches has holes ([`super::hole`]) and is not transformed. That
//! the missing batches existed is known from a later batch of the log, even a damaged one, from the
//! next log, or from the segment that the next log became. Batches after a hole are found at any
//! position by their log and index. A damaged batch after which nothing was written cannot be
//! distinguished from a torn one, which ends the log.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use forebay_core::Fault;

use crate::batch::{Content, FoundBatch, FoundLog, ReadBatch, Stretch};
use crate::filter::Filter;
use crate::frame::{BLOCK, Fields, Frame, FrameKind};
use crate::record::Record;
use crate::root::StartedLog;
use crate::segment::{Described, Keys, Shape};
use crate::summary::BatchSummary;
use crate::{OperationError, Transformation};

use super::{BatchSummaries, Disk, Engine, Hole, Log, PUT_MAX, Segment};

/// The content of a slot.
enum Slot {
    /// No relevant log was found by the first read.
    Empty,
    Log(FoundLog),
    /// The slot cannot be read.
    Unreadable,
}

/// The contents of all slots.
#[derive(Default)]
struct Slots {
    /// The logs, each with its disk and slot.
    logs: Vec<(usize, u64, FoundLog)>,
    empty: Vec<(usize, u64)>,
    /// Disks with an unreadable slot.
    hiding: BTreeSet<usize>,
}

impl Slots {
    fn has(&self, id: u64) -> bool {
        self.logs.iter().any(|(.., log)| log.id == id)
    }
}

impl Engine {
    /// Opens the logs that are not in segments, in order.
    pub(super) async fn open_logs(&self) -> Result<(), OperationError> {
        let mut slots = self.find_logs().await?;
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
        let mut summaries = self.lost_batch_summaries();
        for (disk, _, log) in &mut slots.logs {
            let rest = log.settle(expected.get(&log.id).copied().unwrap_or(0));
            // The extents of discarded batches become free.
            for Stretch { offset, len, .. } in rest.iter().filter_map(|read| read.stretch) {
                self.disks[*disk].space.borrow_mut().give(offset, len);
            }
            let of_log = std::mem::take(&mut log.summaries).into_iter();
            summaries.extend(of_log.map(|summary| ((summary.log, summary.index), summary)));
            let mut state = self.state.borrow_mut();
            state.next_log = state.next_log.max(log.id.saturating_add(1));
        }
        slots.logs.retain(|(.., log)| log.batches > 0);
        for (at, (disk, _, log)) in slots.logs.iter().enumerate() {
            if !log.gaps.is_empty() {
                let later: Vec<_> = slots.logs[at + 1..].iter().map(|(.., log)| log).collect();
                let holes = self.holes(*disk, log, &summaries, &later);
                self.lose_log((log.id, log.before), *disk, holes);
            }
        }
        self.lose_unfound(&slots, &expected, &summaries);
        self.lose_hidden(&slots);
        self.note_lost(summaries);
        self.take_logs(slots.logs);
        Ok(())
    }

    /// Reads all slots. A slot that seems empty is read completely if a log that its disk should
    /// have was not found, because the log's beginning may be damaged.
    async fn find_logs(&self) -> Result<Slots, OperationError> {
        let mut slots = Slots::default();
        for disk in self.present() {
            for slot in 0..self.disks[disk].layout.log_slots {
                let found = self.find_log(disk, slot, false).await?;
                self.sort_slot(&mut slots, (disk, slot), found);
            }
        }
        let begun = self.begun().into_iter().filter(|begun| !slots.has(begun.log));
        let begun: BTreeSet<usize> = begun.map(|begun| begun.disk.into()).collect();
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
                // The slot must not be overwritten.
                self.disks[disk].slots.borrow_mut()[slot as usize] = true;
                slots.hiding.insert(disk);
            }
        }
    }

    /// Returns the preceding log of each log in segments, with its number of batches.
    fn said_before(&self) -> Vec<(u64, u64)> {
        let version = Rc::clone(&self.state.borrow().version);
        version.segments().map(|segment| segment.described.before).collect()
    }

    fn take_logs(&self, logs: Vec<(usize, u64, FoundLog)>) {
        let mut state = self.state.borrow_mut();
        for (disk, slot, found) in logs {
            let Disk { slots, space, .. } = &self.disks[disk];
            let log = Log::new(found.id, disk, slot as usize, slots, space);
            let stretches = found.read.iter().filter_map(|read| read.stretch);
            stretches.for_each(|stretch| log.stretch(stretch.offset, stretch.len));
            log.len.set(found.len);
            log.batches.set(found.batches);
            log.before.set(found.before);
            state.before = (found.id, found.batches);
            for ReadBatch { batch, records, .. } in found.read {
                let name = (batch.log, batch.index);
                let summary = BatchSummary::of(name, batch.put_at, &records);
                summary.into_iter().for_each(|summary| state.summaries.push(&summary));
                for record in records {
                    state.sequence = state.sequence.max(record.sequence.saturating_add(1));
                    log.insert(record);
                }
            }
            state.logs.push(Rc::new(log));
        }
    }

    /// Marks as lost the logs that are known to have existed but were not found.
    fn lose_unfound(
        &self,
        slots: &Slots,
        expected: &BTreeMap<u64, u64>,
        summaries: &BatchSummaries,
    ) {
        if self.config.transformation == Transformation::None {
            return;
        }
        let begun = self.begun();
        for (&log, &expected) in expected.iter().filter(|(_, expected)| **expected > 0) {
            if !slots.has(log) && !self.state.borrow().version.covers(log) {
                // The disk of the log may no longer be known.
                let disk = begun.iter().find(|begun| begun.log == log);
                let disk = disk.map_or(0, |begun| usize::from(begun.disk));
                let gone = FoundLog::lost(log, expected);
                let later = slots.logs.iter().map(|(.., log)| log).filter(|other| other.id > log);
                let holes = self.holes(disk, &gone, summaries, &later.collect::<Vec<_>>());
                self.lose_log((log, (0, 0)), disk, holes);
            }
        }
    }

    /// Registers the logs of a missing disk that are not in segments as lost. They are known
    /// because other disks recorded their beginning.
    pub(super) fn lose_logs(&self) {
        for StartedLog { log, disk, at } in self.begun() {
            let mut state = self.state.borrow_mut();
            state.next_log = state.next_log.max(log.saturating_add(1));
            drop(state);
            let disk = usize::from(disk);
            if self.disks.get(disk).is_some_and(|disk| disk.lane.is_none()) {
                self.lose_whole_log(log, disk, at, OperationError::Missing { disk });
            }
        }
    }

    /// Marks as lost the logs that may be in a slot with an unreadable beginning: they began and
    /// were not found.
    fn lose_hidden(&self, slots: &Slots) {
        for StartedLog { log, disk, at } in self.begun() {
            let disk = usize::from(disk);
            if slots.hiding.contains(&disk) && !slots.has(log) {
                let failure = OperationError::Disk { disk, fault: Fault::Media };
                self.lose_whole_log(log, disk, at, failure);
            }
        }
    }

    /// Returns the logs that roots list as begun and that are not in segments.
    fn begun(&self) -> Vec<StartedLog> {
        let state = self.state.borrow();
        let logs = state.roots.iter().flat_map(|root| &root.logs);
        logs.filter(|begun| !state.version.covers(begun.log)).copied().collect()
    }

    /// Marks the store's content as unknown if two roots are missing, because each segment is
    /// listed in two roots.
    pub(super) fn lose_roots(&self) {
        let missing = self.disks.iter().filter(|disk| disk.lane.is_none()).count();
        let mut state = self.state.borrow_mut();
        let gone = state.broken_roots.len();
        let is_too_many = gone > 0 && gone + missing >= self.disks.len().min(2);
        state.rootless = is_too_many.then_some(OperationError::Rootless { disks: gone });
    }

    /// Registers a log of which nothing is known, except possibly its start time, as lost.
    fn lose_whole_log(&self, log: u64, disk: usize, begun_at: u64, failure: OperationError) {
        let put_from = Some(begun_at).filter(|at| *at > 0);
        let hole = Hole::of_whole_log(failure, self.log_records_max(disk), put_from);
        self.lose_log((log, (0, 0)), disk, vec![hole]);
    }

    /// Registers the holes of a log; `before` is the preceding log and its number of batches.
    fn lose_log(&self, (log, before): (u64, (u64, u64)), disk: usize, holes: Vec<Hole>) {
        let Some(failure) = holes.first().map(|hole| hole.failure.clone()) else { return };
        let mut state = self.state.borrow_mut();
        if !state.lost_logs.insert(log) {
            return;
        }
        let id = state.next_segment;
        state.next_segment += 1;
        let (keys, shape) = (Keys::default(), Shape::default());
        let described = Described { id, ages: (log, log), before, keys, offset: 0, len: 0, shape };
        let segment = Segment::new(described, disk, (Filter::all(), None), &self.disks[disk].space);
        let (version, _) = state.version.with(Rc::new(segment.with_holes(failure, holes)));
        state.version = Rc::new(version);
    }

    /// Returns the content of a slot, which is read completely if it contains a log or `is_search`
    /// is set. A log that is in a segment does not count.
    async fn find_log(
        &self,
        disk: usize,
        slot: u64,
        is_search: bool,
    ) -> Result<Slot, OperationError> {
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
        let is_past = |id: u64| self.state.borrow().version.covers(id);
        loop {
            let bytes = &found.bytes;
            let next = log.next(bytes, self.store);
            let next = next.or_else(|| log.find_behind(bytes, self.store, |id| !is_past(id)));
            let Some(FoundBatch { batch, summaries, content }) = next else { break };
            if is_past(batch.log) {
                return Ok(Slot::Empty);
            }
            let (records, stretch) = match content {
                Content::Records(records) => (Some(records), None),
                Content::Stretch(stretch) => {
                    (self.find_stretch(disk, &stretch).await?, Some(stretch))
                }
            };
            match records {
                Some(records) => log.take(ReadBatch { batch, records, stretch }, summaries),
                None => log.lacks(&batch, summaries),
            }
        }
        log.heed_damaged(&found.bytes, self.store);
        let next = log.reach(&found.bytes, self.store);
        if found.lacks(&next) {
            log.may_lack_next();
        }
        Ok(match log.is_known() {
            true => Slot::Log(log),
            false if is_readable && !found.lacks(&next) => Slot::Empty,
            false => Slot::Unreadable,
        })
    }

    /// Returns whether a slot begins with a log that is already in a segment. The log's number is
    /// not reused even if the slot is damaged.
    fn is_of_the_past(&self, head: &[u8]) -> bool {
        let kinds =
            [FrameKind::Batch, FrameKind::Stretch, FrameKind::BatchOf4, FrameKind::StretchOf4];
        if !kinds.into_iter().any(|kind| Frame::len(head, kind, self.store).is_some()) {
            return false;
        }
        let id = Fields(&head[24..]).u64().unwrap_or_default();
        let mut state = self.state.borrow_mut();
        state.next_log = state.next_log.max(id.saturating_add(1));
        state.version.covers(id)
    }

    /// Reads the records of a batch outside the slot and reserves its extent; returns None if it is
    /// damaged.
    async fn find_stretch(
        &self,
        disk: usize,
        stretch: &Stretch,
    ) -> Result<Option<Vec<Record>>, OperationError> {
        let &Stretch { batch, offset, len } = stretch;
        let is_free = len <= (PUT_MAX + 2 * BLOCK) as u64
            && self.disks[disk].space.borrow_mut().claim(offset, len);
        if !is_free {
            return Ok(None);
        }
        let found = self.read_around(disk, offset, len).await?;
        let found = FoundBatch::records(&found.bytes, self.store)
            .filter(|(found, _)| (found.log, found.index) == (batch.log, batch.index));
        if found.is_none() {
            self.disks[disk].space.borrow_mut().give(offset, len);
        }
        Ok(found.map(|(_, records)| records))
    }
}
