//! Writes segments and the roots that list them.
//!
//! A segment's bytes are written and flushed. The segment takes effect with one frame in its disk's
//! root and then one in another disk's root, both durable. Segments that it replaces are removed
//! from both roots, from their own disk's root last, before their space is reused. Everything that
//! another disk's root lists has therefore already been listed in the segment's own root.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use crate::OperationError;
use crate::executor::{Io, Pending};
use crate::filter::Filter;
use crate::frame::BLOCK;
use crate::record::Record;
use crate::root::{Change, Root};
use crate::segment::{Described, Keys, Origin, Writer};

use super::Engine;
use super::version::Segment;

/// The maximum number of writes in flight for one segment.
const WRITES: usize = 2;
/// The number of keys added to a filter before the task may yield.
const HASHES: usize = 1024;

/// A segment that is being written.
pub(super) struct Writing {
    engine: Rc<Engine>,
    disk: usize,
    id: u64,
    offset: u64,
    room: u64,
    sent: u64,
    writer: Writer,
    under_way: VecDeque<Pending>,
    is_done: bool,
}

impl Writing {
    /// Reserves space on a disk; fails if there is not enough.
    pub(super) fn begin(
        engine: &Rc<Engine>,
        disk: usize,
        room: u64,
    ) -> Result<Writing, OperationError> {
        let offset =
            engine.disks[disk].space.borrow_mut().take(room).ok_or(OperationError::Full)?;
        let mut state = engine.state.borrow_mut();
        let id = state.next_segment;
        state.next_segment += 1;
        let writer = Writer::new(engine.store, id);
        let (engine, under_way) = (Rc::clone(engine), VecDeque::new());
        Ok(Writing { engine, disk, id, offset, room, sent: 0, writer, under_way, is_done: false })
    }

    pub(super) fn disk(&self) -> usize {
        self.disk
    }

    /// Returns the number of bytes added so far.
    pub(super) fn len(&self) -> u64 {
        self.writer.len()
    }

    /// Returns whether adding the next record makes a write due.
    pub(super) fn is_due(&self, record: &Record) -> bool {
        self.len() - self.sent + record.size() as u64 >= self.engine.config.step_bytes as u64
    }

    /// Returns whether the next record fits into the reserved space.
    pub(super) fn has_room(&self, record: &Record) -> bool {
        self.writer.len_with(record) <= self.room
    }

    pub(super) async fn push(&mut self, record: &Record) -> Result<(), OperationError> {
        self.writer.push(record);
        while let Some(bytes) = self.writer.take(self.engine.config.step_bytes) {
            self.send(bytes).await?;
        }
        Ok(())
    }

    async fn send(&mut self, data: Vec<u8>) -> Result<(), OperationError> {
        let (offset, len) = (self.offset + self.sent, data.len() as u64);
        let lane = self.engine.lane(self.disk)?;
        self.under_way
            .push_back(self.engine.executor.io(lane, Io::Write { offset, data, durable: false }));
        self.sent += len;
        self.settle(WRITES).await
    }

    /// Waits until at most `most` writes are in flight.
    async fn settle(&mut self, most: usize) -> Result<(), OperationError> {
        while self.under_way.len() > most
            && let Some(write) = self.under_way.pop_front()
        {
            write.await.map_err(|fault| self.engine.failed(self.disk, fault))?;
            self.engine.wrote(self.disk, self.offset);
        }
        Ok(())
    }

    /// Writes the remaining bytes and makes the segment durable. No root lists it yet.
    pub(super) async fn finish(
        mut self,
        origin: Origin,
        keys: Keys,
    ) -> Result<Segment, OperationError> {
        let writer = std::mem::replace(&mut self.writer, Writer::new(0, 0));
        let filter = self.engine.filter(writer.hashes()).await;
        let (mut rest, shape, top) = writer.finish(&filter);
        let step = self.engine.config.step_bytes;
        while rest.len() > step {
            let later = rest.split_off(step);
            self.send(std::mem::replace(&mut rest, later)).await?;
        }
        self.send(rest).await?;
        self.settle(0).await?;
        self.engine.flush(self.disk).await?;
        assert!(self.sent <= self.room, "{} bytes in space for {}", self.sent, self.room);
        let space = &self.engine.disks[self.disk].space;
        space.borrow_mut().give(self.offset + self.sent, self.room - self.sent);
        self.is_done = true;
        let (id, offset, len) = (self.id, self.offset, self.sent);
        let Origin { ages, before } = origin;
        let described = Described { id, ages, before, keys, offset, len, shape };
        Ok(Segment::new(described, self.disk, (filter, top), space))
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // The segment was abandoned. Its space may be freed only if no writes are in flight,
        // because these could overwrite other data.
        if !self.is_done && self.under_way.is_empty() {
            self.engine.disks[self.disk].space.borrow_mut().give(self.offset, self.room);
        }
    }
}

impl Engine {
    /// Builds the filter from hashes, a few at a time so that the task can yield.
    async fn filter(&self, hashes: &[u64]) -> Filter {
        let mut filter = Filter::for_keys(hashes.len());
        let mut work = self.work();
        for some in hashes.chunks(HASHES) {
            filter.insert(some);
            work.did(0, some.len() / 8).await;
        }
        filter
    }

    /// Publishes a segment by listing it in roots, and removes the segments that it replaces.
    pub(super) async fn publish(&self, segment: Segment) -> Result<(), OperationError> {
        let change = Change { added: vec![segment.entry()], ..Change::default() };
        if let Err(failure) = self.change_root(segment.disk, change).await {
            if failure != OperationError::Full {
                // The write may have taken effect, in which case the segment is in effect after the
                // next opening.
                segment.keep();
            }
            return Err(failure);
        }
        self.copy(&segment).await?;
        let gone = {
            let mut state = self.state.borrow_mut();
            let (version, gone) = state.version.with(Rc::new(segment));
            let held = version.segments().map(|segment| segment.described.len).sum();
            let runs = version.runs.len() as u64;
            let longest =
                version.segments().map(|segment| segment.described.shape.mean_record()).max();
            state.longest_record = longest.max(Some(state.longest_record)).unwrap_or(0);
            state.version = Rc::new(version);
            state.drop_stale_scans();
            let figures = &mut state.figures;
            figures.runs_max = figures.runs_max.max(runs);
            figures.segment_bytes_max = figures.segment_bytes_max.max(held);
            gone
        };
        self.changed.notify();
        self.forget(gone).await;
        Ok(())
    }

    /// Removes segments that no longer affect any read from the roots, then frees their space.
    pub(super) async fn forget(&self, gone: Vec<Rc<Segment>>) {
        let copied = |segment: &Segment| segment.copy().map(|copy| copy.disk);
        self.forget_on(&gone, copied).await;
        self.forget_on(&gone, |segment| Some(segment.disk)).await;
    }

    /// Removes each segment from the root of one disk; if that fails, its space is kept.
    async fn forget_on(&self, gone: &[Rc<Segment>], on: impl Fn(&Segment) -> Option<usize>) {
        let mut by_disk: BTreeMap<usize, Vec<&Rc<Segment>>> = BTreeMap::new();
        for segment in gone {
            if let Some(disk) = on(segment) {
                by_disk.entry(disk).or_default().push(segment);
            }
        }
        for (disk, segments) in by_disk {
            let removed = segments.iter().map(|segment| segment.described.id).collect();
            let change = Change { removed, ..Change::default() };
            if self.change_root(disk, change).await.is_err() {
                segments.iter().for_each(|segment| segment.keep());
            }
        }
    }

    /// Returns the logs of other disks that a disk's root lists but that are in segments by now.
    fn ended(&self, root: &Root) -> Vec<u64> {
        let state = self.state.borrow();
        let logs = state.logs.iter().chain(&state.next);
        let is_left =
            |id: &u64| state.lost_logs.contains(id) || logs.clone().any(|log| log.id == *id);
        let logs = root.logs.iter().map(|begun| begun.log);
        let lost = root.lost.iter().map(|summary| summary.log);
        // Until all logs have been found, it is unknown which ones remain.
        logs.chain(lost).filter(|id| self.is_open.get() && !is_left(id)).collect()
    }

    /// Writes a change of a disk's root; it is durable when this returns.
    pub(super) async fn change_root(
        &self,
        disk: usize,
        change: Change,
    ) -> Result<(), OperationError> {
        self.changed
            .until(|| {
                let mut state = self.state.borrow_mut();
                let was_busy = std::mem::replace(&mut state.is_root_busy[disk], true);
                (!was_busy).then_some(())
            })
            .await;
        let layout = self.disks[disk].layout;
        let root = self.state.borrow().roots[disk].clone();
        let change = Change { ended: self.ended(&root), ..change };
        let next = next_root(root, change, &layout);
        let outcome = match next {
            Some((root, at, frame)) => self
                .write(disk, at, frame, true)
                .await
                .map_err(|failure| (failure, root.chain))
                .map(|()| root),
            None => Err((OperationError::Full, 0)),
        };
        let mut state = self.state.borrow_mut();
        state.is_root_busy[disk] = false;
        let outcome = match outcome {
            Ok(root) => {
                state.roots[disk] = root;
                Ok(())
            }
            Err((failure, chain)) => {
                // A new chain may have taken effect despite the error. Further frames of the
                // previous chain would then be ignored.
                if chain > state.roots[disk].chain {
                    state.roots[disk].end_behind(chain, layout.root_bytes);
                }
                Err(failure)
            }
        };
        drop(state);
        self.changed.notify();
        outcome
    }
}

/// Returns the root after a change, and the new frame with its position; None if there is no space.
fn next_root(
    mut root: Root,
    change: Change,
    layout: &crate::layout::Layout,
) -> Option<(Root, u64, Vec<u8>)> {
    let frame = change.frame(layout.store, root.chain, root.frames);
    debug_assert!(frame.len().is_multiple_of(BLOCK));
    root.apply(change);
    if root.chain > 0 && root.len + frame.len() as u64 <= layout.root_bytes {
        let at = layout.root_at(root.area()) + root.len;
        (root.frames, root.len) = (root.frames + 1, root.len + frame.len() as u64);
        return Some((root, at, frame));
    }
    let (added, begun, lost) = (root.segments.clone(), root.logs.clone(), root.lost.clone());
    let all = Change { added, begun, lost, ..Change::default() };
    (root.chain, root.frames) = (root.chain + 1, 1);
    let frame = all.frame(layout.store, root.chain, 0);
    root.len = frame.len() as u64;
    (root.len <= layout.root_bytes).then(|| (root.clone(), layout.root_at(root.area()), frame))
}
