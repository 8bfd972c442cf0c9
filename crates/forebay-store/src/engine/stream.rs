//! Reads the records of a run in order, in steps: the next step is in flight while one is consumed.
//!
//! A step may end within a leaf, whose beginning is kept until the next step arrives. An error is
//! reported only when the stream reaches it.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::executor::{Io, Pending, Work, together};
use crate::frame::{BLOCK, Frame, FrameKind, HEAD};
use crate::record::{Key, Record};
use crate::{OperationError, segment};

use super::{Engine, Part, Run, Segment};

/// Records in key order.
pub(super) trait Records {
    /// Reads more if nothing is buffered and the end has not been reached.
    async fn fill(&mut self) -> Result<(), OperationError>;

    /// Returns the next record, or None at the end. Requires a preceding `fill`.
    fn peek(&self) -> Option<&Record>;

    fn pop(&mut self) -> Option<Record>;
}

/// Returns the newest version of the smallest key in any stream. Removes streams that have ended.
pub(super) async fn newest<R: Records>(
    streams: &mut Vec<R>,
) -> Result<Option<Record>, OperationError> {
    if streams.iter().any(|stream| stream.peek().is_none()) {
        together(streams.iter_mut().map(Records::fill)).await?;
        streams.retain(|stream| stream.peek().is_some());
    }
    let firsts = streams.iter().filter_map(Records::peek);
    let newest = firsts.min_by(|a, b| a.key.cmp(&b.key).then(b.sequence.cmp(&a.sequence)));
    Ok(newest.cloned())
}

/// Advances all streams beyond the smallest key.
pub(super) fn pass<R: Records>(streams: &mut [R], key: &Key) {
    for stream in streams {
        if stream.peek().is_some_and(|record| record.key == *key) {
            stream.pop();
        }
    }
}

/// The length of reads and the extent of read-ahead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// The length of the next step; each step is twice as long as the one before.
    pub(super) step: u64,
    /// The maximum length of a step.
    pub(super) step_max: u64,
    /// The estimated number of bytes that will be needed, which limits read-ahead.
    pub(super) wanted: u64,
    /// Whether to read only while a disk is idle, without read-ahead.
    pub(super) waits: bool,
}

impl Pace {
    /// Reads steps of `step` bytes while disks are idle.
    pub(super) fn idly(step: u64) -> Pace {
        Pace { step, step_max: step, wanted: 0, waits: true }
    }

    /// Returns the length of the next step, which is at least `least` bytes.
    fn step(&mut self, least: u64) -> u64 {
        let step = self.step.max(least);
        self.step = (self.step * 2).min(self.step_max);
        self.wanted = self.wanted.saturating_sub(step);
        step
    }
}

/// A step: bytes of a segment's leaves.
struct Step {
    part: Part,
    at: u64,
    len: u64,
    /// The read in progress; None if the stream is read only while the disk is idle.
    reading: Option<Reading>,
}

/// The records of a run from a given key on.
pub(super) struct Stream {
    engine: Rc<Engine>,
    /// The parts that have not been read completely.
    parts: VecDeque<Part>,
    /// The position of the next step in the first of these parts.
    at: Option<u64>,
    from: Key,
    pace: Pace,
    /// The step in flight.
    asked: Option<Step>,
    /// The beginning of a leaf that the next step continues.
    rest: Vec<u8>,
    work: Work,
    ready: VecDeque<Record>,
    /// The error that follows all buffered records.
    failure: Option<OperationError>,
}

impl Stream {
    /// Starts at the first key that is at least `from`.
    pub(super) fn new(engine: &Rc<Engine>, run: &Run, from: &Key, pace: Pace) -> Stream {
        let is_left = |part: &&Part| part.keys.upto.as_ref().is_none_or(|upto| upto >= from);
        // Segments that represent logs with holes are skipped; the scan checks for these itself.
        let is_read = |part: &&Part| is_left(part) && part.segment.holes.is_empty();
        let parts = run.parts.iter().filter(is_read).cloned().collect();
        let (engine, from) = (Rc::clone(engine), from.clone());
        let (rest, ready, work) = (Vec::new(), VecDeque::new(), engine.work());
        Stream {
            engine,
            parts,
            at: None,
            from,
            pace,
            asked: None,
            rest,
            work,
            ready,
            failure: None,
        }
    }

    /// Enables unlimited read-ahead, because the consumer will read everything.
    pub(super) fn go_on(&mut self) {
        self.pace.wanted = u64::MAX;
        self.ask_ahead();
    }

    /// Returns the number of bytes held, including those in flight.
    pub(super) fn bytes(&self) -> u64 {
        let ready: u64 = self.ready.iter().map(|record| record.size() as u64).sum();
        ready + self.rest.len() as u64 + self.asked.as_ref().map_or(0, |step| step.len)
    }

    /// Returns the position of the first relevant leaf.
    async fn begin(&self, part: &Part) -> Result<u64, OperationError> {
        if let Some(failure) = &part.segment.lost {
            return Err(failure.clone());
        }
        let first = part.keys.after.as_ref().map_or(&self.from, |after| after.max(&self.from));
        let place = self.engine.leaf_place(&part.segment, first).await?;
        Ok(place.map_or(0, |place| place.at))
    }

    /// Returns the position of the next step in the first remaining part; None at the end.
    async fn place(&mut self) -> Result<Option<u64>, OperationError> {
        while let Some(part) = self.parts.front().cloned() {
            let at = match self.at {
                Some(at) => at,
                None => self.begin(&part).await?,
            };
            if at < part.segment.described.shape.leaves_len {
                return Ok(Some(at));
            }
            self.parts.pop_front();
        }
        Ok(None)
    }

    /// Returns the position of the next step if no node must be read to determine it.
    fn known_place(&self) -> Option<u64> {
        let Part { segment, keys } = self.parts.front()?;
        let is_whole = keys.after == segment.described.keys.after
            && keys.after.as_ref().is_some_and(|after| *after >= self.from)
            && segment.lost.is_none()
            && segment.described.shape.leaves_len > 0;
        self.at.or(is_whole.then_some(0))
    }

    /// Begins the step of the first part at this position.
    fn ask(&mut self, at: u64) -> Result<Step, OperationError> {
        let part = self.parts[0].clone();
        let leaf_len = Frame::len(&self.rest, FrameKind::Leaf, self.engine.store).unwrap_or(0);
        let len = self.pace.step(leaf_len.saturating_sub(self.rest.len() as u64));
        let (begin, leaves_len) =
            (part.segment.described.offset + at, part.segment.described.shape.leaves_len);
        // The step ends at a block boundary, so that no block is read twice.
        let len =
            (begin.saturating_add(len).next_multiple_of(BLOCK as u64) - begin).min(leaves_len - at);
        let reading = match self.pace.waits {
            true => None,
            false => Some(self.engine.begin_read(part.segment.disk, begin, len)?),
        };
        if reading.is_some() {
            self.pass(&part, at + len);
        }
        Ok(Step { part, at, len, reading })
    }

    /// Sets the position of the next step.
    fn pass(&mut self, part: &Part, end: u64) {
        self.at = Some(end);
        if end == part.segment.described.shape.leaves_len {
            self.parts.pop_front();
            self.at = None;
        }
    }

    /// Begins to read ahead if nothing is in flight.
    fn ask_ahead(&mut self) {
        if self.asked.is_none()
            && self.pace.wanted > 0
            && let Some(at) = self.known_place()
        {
            // An error is reported when the stream reaches it and the read is repeated.
            self.asked = self.ask(at).ok();
        }
    }

    /// Ends the stream with an error after the buffered records.
    fn stop(&mut self, failure: OperationError) {
        self.parts.clear();
        (self.at, self.asked, self.rest) = (None, None, Vec::new());
        self.failure = Some(failure);
    }

    /// Parses the complete leaves in the buffer, which ends at position `end` of the leaves.
    async fn take(&mut self, part: &Part, end: u64) {
        let (store, described) = (self.engine.store, &part.segment.described);
        let mut done = 0;
        while let Some((records, leaf_len)) = segment::leaf(&self.rest[done..], store, described.id)
        {
            let counts = |record: &Record| record.key >= self.from && part.keys.hold(&record.key);
            let count = records.len();
            self.ready.extend(records.into_iter().filter(counts));
            done += leaf_len as usize;
            self.work.did(leaf_len as usize, count).await;
        }
        self.rest = self.rest.split_off(done);
        let (at, rest) = (end - self.rest.len() as u64, &self.rest);
        let is_begun = match Frame::len(rest, FrameKind::Leaf, store) {
            Some(len) => len > rest.len() as u64 && len <= described.shape.leaves_len - at,
            None => rest.len() < HEAD && end < described.shape.leaves_len,
        };
        if !rest.is_empty() && !is_begun {
            self.stop(self.engine.damaged(&part.segment, at));
        }
    }
}

impl Records for Stream {
    async fn fill(&mut self) -> Result<(), OperationError> {
        while self.ready.is_empty() {
            if let Some(failure) = &self.failure {
                return Err(failure.clone());
            }
            let step = match self.asked.take() {
                Some(step) => step,
                None => match self.place().await? {
                    Some(at) => self.ask(at)?,
                    None => return Ok(()),
                },
            };
            let Step { part, at, len, reading } = step;
            let bytes = match reading {
                Some(reading) => reading.end(&self.engine).await?,
                None => {
                    let bytes = self.engine.read_idly(&part.segment, at, len).await?;
                    self.pass(&part, at + bytes.len() as u64);
                    bytes
                }
            };
            let end = at + bytes.len() as u64;
            self.ask_ahead();
            match self.rest.is_empty() {
                true => self.rest = bytes,
                false => self.rest.extend_from_slice(&bytes),
            }
            self.take(&part, end).await;
        }
        Ok(())
    }

    fn peek(&self) -> Option<&Record> {
        self.ready.front()
    }

    fn pop(&mut self) -> Option<Record> {
        self.ready.pop_front()
    }
}

/// A read in flight, of bytes that need not be whole blocks.
pub(super) struct Reading {
    pending: Pending,
    disk: usize,
    skipped: usize,
    len: usize,
}

impl Reading {
    /// Waits for the read to end and returns its bytes.
    pub(super) async fn end(self, engine: &Engine) -> Result<Vec<u8>, OperationError> {
        let Reading { pending, disk, skipped, len } = self;
        let mut bytes = pending.await.map_err(|fault| engine.failed_to_read(disk, fault))?;
        bytes.truncate(skipped + len);
        bytes.drain(..skipped);
        Ok(bytes)
    }
}

impl Engine {
    /// Reads bytes of a segment starting at `at`.
    pub(super) async fn read_part(
        &self,
        segment: &Segment,
        at: u64,
        len: u64,
    ) -> Result<Vec<u8>, OperationError> {
        self.read_bytes(segment.disk, segment.described.offset + at, len).await
    }

    /// Reads bytes of a segment while its disk is idle, with one read per disk at a time, in steps
    /// short enough that a put waits for one step at most. Returns fewer bytes if the disk is no
    /// longer idle.
    async fn read_idly(
        &self,
        segment: &Segment,
        at: u64,
        len: u64,
    ) -> Result<Vec<u8>, OperationError> {
        let disk = segment.disk;
        let take = || {
            let mut state = self.state.borrow_mut();
            let is_free = state.is_idle(disk) && !state.is_read_idly[disk];
            state.is_read_idly[disk] |= is_free;
            is_free.then_some(())
        };
        self.changed.until(take).await;
        let read = self.read_while_idle(segment, at, len).await;
        self.state.borrow_mut().is_read_idly[disk] = false;
        self.changed.notify();
        read
    }

    async fn read_while_idle(
        &self,
        segment: &Segment,
        at: u64,
        len: u64,
    ) -> Result<Vec<u8>, OperationError> {
        let mut bytes = Vec::with_capacity(len as usize);
        loop {
            let left = len - bytes.len() as u64;
            let step = left.min(self.config.step_bytes as u64);
            bytes.extend(self.read_part(segment, at + bytes.len() as u64, step).await?);
            if step == left || !self.state.borrow().is_idle(segment.disk) {
                return Ok(bytes);
            }
        }
    }

    /// Reads bytes of a disk.
    pub(super) async fn read_bytes(
        &self,
        disk: usize,
        begin: u64,
        len: u64,
    ) -> Result<Vec<u8>, OperationError> {
        self.begin_read(disk, begin, len)?.end(self).await
    }

    /// Begins to read bytes of a disk; the read proceeds even if nothing waits for it.
    fn begin_read(&self, disk: usize, begin: u64, len: u64) -> Result<Reading, OperationError> {
        let block = BLOCK as u64;
        let (offset, upto) = (begin / block * block, (begin + len).next_multiple_of(block));
        let io = Io::Read { offset, len: (upto - offset) as usize };
        let pending = self.executor.io(self.lane(disk)?, io);
        Ok(Reading { pending, disk, skipped: (begin - offset) as usize, len: len as usize })
    }

    pub(super) fn damaged(&self, segment: &Segment, at: u64) -> OperationError {
        OperationError::Damaged { disk: segment.disk, offset: segment.described.offset + at }
    }
}
