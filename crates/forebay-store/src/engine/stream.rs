//! Records of a run in order, read a step at a time.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::frame::{BLOCK, Frame, Kind};
use crate::operation::Trouble;
use crate::record::{Key, Record};
use crate::segment;

use super::Engine;
use super::version::{Part, Run};

/// The first step; each further one is twice as long, up to what the store is told.
const STEP_BYTES_MIN: u64 = 64 << 10;

/// Records in order of their keys.
pub(super) trait Records {
    /// Reads on, if nothing is ready and something is left.
    async fn fill(&mut self) -> Result<(), Trouble>;

    /// The next record; none at the end. To be filled before.
    fn peek(&self) -> Option<&Record>;

    fn pop(&mut self) -> Option<Record>;
}

/// Records of a run from some key on.
pub(super) struct Stream {
    engine: Rc<Engine>,
    /// Parts that are left, the first of which is being read.
    parts: VecDeque<Part>,
    /// Where the next leaf of the first part is.
    at: Option<u64>,
    from: Key,
    step: u64,
    ready: VecDeque<Record>,
    /// Reads only while a disk is idle.
    waits: bool,
}

impl Stream {
    /// From the first key on that is `from` or greater.
    pub(super) fn new(engine: &Rc<Engine>, run: &Run, from: &Key, waits: bool) -> Stream {
        let is_left = |part: &&Part| part.keys.upto.as_ref().is_none_or(|upto| upto >= from);
        let parts = run.parts.iter().filter(is_left).cloned().collect();
        let step = if waits { engine.config.step_bytes as u64 } else { STEP_BYTES_MIN };
        let (engine, from) = (Rc::clone(engine), from.clone());
        Stream { engine, parts, at: None, from, step, ready: VecDeque::new(), waits }
    }

    /// Where the first leaf is that counts.
    async fn begin(&self, part: &Part) -> Result<u64, Trouble> {
        if let Some(trouble) = &part.segment.lost {
            return Err(trouble.clone());
        }
        let first = part.keys.after.as_ref().map_or(&self.from, |after| after.max(&self.from));
        self.engine
            .leaf_place(&part.segment, first)
            .await
            .map(|place| place.map_or(0, |place| place.at))
    }

    /// Reads a step from `at` on; answers where the next one begins.
    async fn read(&mut self, part: &Part, at: u64, leaves_len: u64) -> Result<u64, Trouble> {
        let segment = &part.segment;
        let mut len = self.step.min(leaves_len - at);
        self.step = (self.step * 2).min(self.engine.config.step_bytes as u64);
        loop {
            let bytes = match self.waits {
                true => self.engine.read_idly(segment, at, len).await?,
                false => self.engine.read_part(segment, at, len).await?,
            };
            let (store, id) = (self.engine.store, segment.described.id);
            let mut done = 0;
            while let Some((records, leaf_len)) = segment::leaf(&bytes[done as usize..], store, id)
            {
                let counts =
                    |record: &Record| record.key >= self.from && part.keys.hold(&record.key);
                self.ready.extend(records.into_iter().filter(counts));
                done += leaf_len;
            }
            if done > 0 {
                return Ok(at + done);
            }
            // One leaf is longer than the step, or damaged.
            let whole = Frame::len(&bytes, Kind::Leaf, store)
                .filter(|whole| *whole > len && at + *whole <= leaves_len);
            len = whole.ok_or(self.engine.damaged(segment, at))?;
        }
    }
}

impl Records for Stream {
    async fn fill(&mut self) -> Result<(), Trouble> {
        while self.ready.is_empty()
            && let Some(part) = self.parts.front().cloned()
        {
            let at = match self.at {
                Some(at) => at,
                None => self.begin(&part).await?,
            };
            let leaves_len = part.segment.described.shape.leaves_len;
            if at >= leaves_len {
                self.parts.pop_front();
                self.at = None;
                continue;
            }
            self.at = Some(self.read(&part, at, leaves_len).await?);
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

impl Engine {
    /// So many bytes of a segment from `at` on.
    pub(super) async fn read_part(
        &self,
        segment: &super::version::Segment,
        at: u64,
        len: u64,
    ) -> Result<Vec<u8>, Trouble> {
        self.read_bytes(segment.disk, segment.described.offset + at, len).await
    }

    /// The same once the disk is idle, one at a time on a disk: whoever is given duty there waits for one at most.
    async fn read_idly(
        &self,
        segment: &super::version::Segment,
        at: u64,
        len: u64,
    ) -> Result<Vec<u8>, Trouble> {
        let disk = segment.disk;
        let take = || {
            let mut state = self.state.borrow_mut();
            let is_free = state.is_idle(disk) && !state.is_read_idly[disk];
            state.is_read_idly[disk] |= is_free;
            is_free.then_some(())
        };
        self.changed.until(take).await;
        let read = self.read_part(segment, at, len).await;
        self.state.borrow_mut().is_read_idly[disk] = false;
        self.changed.notify();
        read
    }

    /// So many bytes of a disk.
    pub(super) async fn read_bytes(
        &self,
        disk: usize,
        begin: u64,
        len: u64,
    ) -> Result<Vec<u8>, Trouble> {
        let block = BLOCK as u64;
        let (from, upto) = (begin / block * block, (begin + len).next_multiple_of(block));
        let mut bytes = self.read(disk, from, (upto - from) as usize).await?;
        bytes.truncate((begin + len - from) as usize);
        bytes.drain(..(begin - from) as usize);
        Ok(bytes)
    }

    pub(super) fn damaged(&self, segment: &super::version::Segment, at: u64) -> Trouble {
        Trouble::Damaged { disk: segment.disk, offset: segment.described.offset + at }
    }
}
