//! Deadline and CFQ in the simplified forms of the **bid** paper's worked example (figures 5, 6).
//!
//! The paper explains the schedulers without the details of Linux; these forms reproduce the orders
//! that it states. Comparisons use the Linux forms ([`super::Deadline`], [`super::Cfq`]).

use std::collections::VecDeque;

use super::block::Elevator;
use super::queue::{List, Queue, QueuedId};
use super::sorted::Sorted;
use crate::contract::{Nanos, Op, Request};

/// The paper's deadline: a batch consists of all expired requests of the side whose oldest request
/// expired first. If no request has expired, the lowest read is next, or else the lowest write.
#[derive(Clone, Debug)]
pub struct PaperDeadline {
    expire: [Nanos; 2],
    fifo: [List; 2],
    sorted: [Sorted; 2],
    /// The remaining requests of the expired batch.
    batch: Sorted,
}

/// [`super::queue::Queued::mark`] of a request in the expired batch.
const IN_BATCH: u32 = 1;

impl PaperDeadline {
    /// Creates an empty elevator with the ages at which reads and writes expire.
    pub fn new(read_expire: Nanos, write_expire: Nanos) -> Self {
        PaperDeadline {
            expire: [read_expire, write_expire],
            fifo: Default::default(),
            sorted: Default::default(),
            batch: Sorted::default(),
        }
    }

    fn expired_at(&self, side: usize, now: Nanos, queue: &Queue) -> Option<Nanos> {
        let oldest = self.fifo[side].front()?;
        Some(queue[oldest].added + self.expire[side]).filter(|&at| at <= now)
    }

    /// Moves all expired requests of the side whose oldest request expired first to the batch.
    fn gather(&mut self, now: Nanos, queue: &mut Queue) {
        let reads = self.expired_at(0, now, queue);
        let writes = self.expired_at(1, now, queue);
        let side = match (reads, writes) {
            (None, None) => return,
            (Some(read), Some(write)) => usize::from(write < read),
            (read, _) => usize::from(read.is_none()),
        };
        while self.expired_at(side, now, queue).is_some() {
            let Some(id) = self.fifo[side].front() else { break };
            queue.unlink(&mut self.fifo[side], id);
            self.sorted[side].remove(queue[id].offset, id);
            queue[id].mark = IN_BATCH;
            self.batch.insert(queue[id].offset, id);
        }
    }
}

impl Elevator for PaperDeadline {
    fn scope(&self, _bio: &Request) -> u32 {
        0
    }

    fn add(&mut self, _now: Nanos, id: QueuedId, queue: &mut Queue) {
        let side = usize::from(queue[id].op == Op::Write);
        queue.push(&mut self.fifo[side], id);
        self.sorted[side].insert(queue[id].offset, id);
    }

    fn grown(&mut self, _now: Nanos, id: QueuedId, offset_before: u64, queue: &mut Queue) {
        let side = usize::from(queue[id].op == Op::Write);
        let batched = queue[id].mark == IN_BATCH;
        let sorted = if batched { &mut self.batch } else { &mut self.sorted[side] };
        sorted.remove(offset_before, id);
        sorted.insert(queue[id].offset, id);
    }

    fn join(&mut self, _now: Nanos, kept: QueuedId, gone: QueuedId, queue: &mut Queue) {
        let side = usize::from(queue[gone].op == Op::Write);
        if queue[gone].mark != IN_BATCH {
            self.sorted[side].remove(queue[gone].offset, gone);
            if queue[kept].mark != IN_BATCH && queue[gone].added < queue[kept].added {
                queue.unlink(&mut self.fifo[side], kept);
                queue.insert_before(&mut self.fifo[side], kept, gone);
            }
            queue.unlink(&mut self.fifo[side], gone);
            return;
        }
        self.batch.remove(queue[gone].offset, gone);
        if queue[kept].mark != IN_BATCH {
            queue.unlink(&mut self.fifo[side], kept);
            self.sorted[side].remove(queue[kept].offset, kept);
            queue[kept].mark = IN_BATCH;
            self.batch.insert(queue[kept].offset, kept);
        }
    }

    fn take(&mut self, now: Nanos, queue: &mut Queue) -> Option<QueuedId> {
        if self.batch.is_empty() {
            self.gather(now, queue);
        }
        if let Some((offset, id)) = self.batch.first() {
            self.batch.remove(offset, id);
            return Some(id);
        }
        let side = usize::from(self.sorted[0].is_empty());
        let (offset, id) = self.sorted[side].first()?;
        self.sorted[side].remove(offset, id);
        queue.unlink(&mut self.fifo[side], id);
        Some(id)
    }
}

/// The paper's CFQ: in each round, every process contributes up to `quantum` requests, in the order
/// in which the processes arrived. The round is sorted by address and completed before the next
/// one.
#[derive(Clone, Debug)]
pub struct PaperCfq {
    quantum: u32,
    /// The queue of each stream, oldest first; a stream keeps its place in the rounds.
    queues: Vec<List>,
    /// The streams in the order in which they first arrived.
    streams: VecDeque<u32>,
    queued: u32,
    round: Sorted,
}

impl PaperCfq {
    /// Creates an empty elevator.
    pub fn new(quantum: u32) -> Self {
        PaperCfq {
            quantum,
            queues: Vec::new(),
            streams: VecDeque::new(),
            queued: 0,
            round: Sorted::default(),
        }
    }

    fn gather(&mut self, queue: &mut Queue) {
        for &stream in &self.streams {
            let list = &mut self.queues[stream as usize];
            for _ in 0..self.quantum {
                let Some(id) = list.front() else { break };
                queue.unlink(list, id);
                self.queued -= 1;
                queue[id].mark = IN_BATCH;
                self.round.insert(queue[id].offset, id);
            }
        }
    }

    fn forget(&mut self, id: QueuedId, queue: &mut Queue) {
        if queue[id].mark == IN_BATCH {
            self.round.remove(queue[id].offset, id);
        } else {
            queue.unlink(&mut self.queues[queue[id].stream as usize], id);
            self.queued -= 1;
        }
    }
}

impl Elevator for PaperCfq {
    fn scope(&self, _bio: &Request) -> u32 {
        0
    }

    fn add(&mut self, _now: Nanos, id: QueuedId, queue: &mut Queue) {
        let stream = queue[id].stream;
        if stream as usize >= self.queues.len() {
            self.queues.resize(stream as usize + 1, List::default());
        }
        if !self.streams.contains(&stream) {
            self.streams.push_back(stream);
        }
        queue.push(&mut self.queues[stream as usize], id);
        self.queued += 1;
    }

    fn grown(&mut self, _now: Nanos, id: QueuedId, offset_before: u64, queue: &mut Queue) {
        if queue[id].mark == IN_BATCH {
            self.round.remove(offset_before, id);
            self.round.insert(queue[id].offset, id);
        }
    }

    fn join(&mut self, _now: Nanos, kept: QueuedId, gone: QueuedId, queue: &mut Queue) {
        if queue[gone].mark == IN_BATCH && queue[kept].mark != IN_BATCH {
            self.forget(kept, queue);
            queue[kept].mark = IN_BATCH;
            self.round.insert(queue[kept].offset, kept);
        }
        self.forget(gone, queue);
    }

    fn begin_stream(&mut self, stream: u32, _queue: &Queue) {
        let queues = &self.queues;
        let has_requests = |one: u32| queues[one as usize].front().is_some();
        self.streams.retain(|&one| one != stream || has_requests(one));
    }

    fn take(&mut self, _now: Nanos, queue: &mut Queue) -> Option<QueuedId> {
        if self.round.is_empty() && self.queued > 0 {
            self.gather(queue);
        }
        let (offset, id) = self.round.first()?;
        self.round.remove(offset, id);
        Some(id)
    }
}
