//! BID-HDD: per-process staging queues with need-based anticipation, flushed one at a time.
//!
//! Source: the **bid** paper, section "BID-HDD", Algorithms 1 and 2. Each process has its own
//! staging queue. A staging queue is marked for flushing when its wait timer (the weighted mean of
//! its last k arrival gaps) or its deadline timer expires. Marked queues are flushed completely, in
//! address order, in the order in which they were marked.
//!
//! Requests are merged before staging, regardless of process ("merged with any existing requests").
//! If one thread's request continues a request of another thread, the two merge and count as an
//! arrival in the other's queue.
//!
//! Decisions that the paper leaves open: requests are staged when they enter the queue; arrivals at
//! one instant form a set with a single gap; weights decrease linearly, and the newest gap weighs
//! k; until k gaps are known, the default wait is used; the history is deleted with its queue. A
//! queue is sealed when its flush begins, and later arrivals open a new one; otherwise a busy
//! process would hold the disk forever. Bios still merge with sealed requests that wait for the
//! device.
//!
//! The default wait, which the paper does not specify, is 5 ms. Below saturation, a reader that
//! waits for its answer incurs the wait on every read, so the default is the longest wait that does
//! not double the mean read latency of any trace. The paper's savings require about 50 ms
//! (`bid:wait-ms=50`); papers/bid/table.md shows gain and cost.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::{Elevator, ElevatorVisitor, Limits, NIL, Packing, Queue, QueuedId, Scheduler, Sorted};
use crate::contract::{Given, Listed, Nanos, Op, Origin, Parameter, Request, SpecError};

/// The parameters that the scheduler accepts.
pub(crate) const PARAMETERS: &[Parameter] = &[
    Parameter::whole("history", 8, 1)
        .about("a stream's wait is the mean of this many gaps between its requests; up to 32"),
    Parameter::millis("wait-ms", 5.0).about(
        "the wait used until this many gaps are known; the paper's savings require about 50",
    ),
    Parameter::millis("read-deadline-ms", 500.0).about(
        "the time after which a stream's staged requests join the queue for the disk if \
            they include a read",
    ),
    Parameter::millis("write-deadline-ms", 5000.0)
        .about("the time after which a stream's staged requests join the queue if all are writes"),
    Parameter::choice("staging-limit", &["yes", "no"])
        .about("whether staged requests count towards the limits below; `no` disables the limits"),
];

impl Scheduler for Bid {
    const LISTED: Listed = Listed {
        name: "bid",
        origin: Origin::KernelOnly,
        summary: "BID-HDD: stages the requests of each process separately and flushes them \
            together; waits if a gain is expected",
        parameters: &[PARAMETERS],
    };

    fn visit<V: ElevatorVisitor>(given: &Given<'_>, visitor: V) -> Result<V::Out, SpecError> {
        Ok(visitor.visit(Bid::new(BidConfig::given(given)?)))
    }

    /// The paper does not say whether staged requests occupy slots of the request queue;
    /// `staging-limit` decides.
    fn limits(given: &Given<'_>, limits: Limits) -> Result<Limits, SpecError> {
        Ok(match given.is_first("staging-limit")? {
            true => limits.legacy(),
            false => Limits { reads_max: u32::MAX, writes_max: u32::MAX, ..limits },
        })
    }
}

/// The maximum number of remembered gaps; `history` may be lower.
const HISTORY_MAX: usize = 32;

/// The maximum gap (three days). Longer gaps are shortened to it, so that the weighted sum does not
/// overflow.
const GAP_MAX: u64 = 1 << 48;

/// The [`super::queue::Queued::mark`] of a request whose staging queue is being flushed.
const SEALED: u32 = NIL;

/// Marks a request that is sent to the flash.
const OFFLOADED: u32 = NIL - 1;

/// The scheduler's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BidConfig {
    /// The number of arrival gaps in the weighted mean (k), from 1 to 32.
    pub history: u32,
    /// The wait timer used until the required number of gaps is known.
    pub wait_default: Nanos,
    /// The deadline timer of a staging queue from when it contains a read.
    pub read_deadline: Nanos,
    /// The deadline timer of a staging queue of writes.
    pub write_deadline: Nanos,
}

impl BidConfig {
    pub(crate) fn given(given: &Given<'_>) -> Result<BidConfig, SpecError> {
        let history = given.whole("history")?;
        if history as usize > HISTORY_MAX {
            let text = given.spec.text();
            let expected = format!("expected 1 to {HISTORY_MAX}");
            return Err(SpecError(format!("'{text}': history: got {history}, {expected}")));
        }
        Ok(BidConfig {
            history,
            wait_default: given.millis("wait-ms")?,
            read_deadline: given.millis("read-deadline-ms")?,
            write_deadline: given.millis("write-deadline-ms")?,
        })
    }
}

impl Default for BidConfig {
    fn default() -> Self {
        Given::defaults(PARAMETERS, BidConfig::given)
    }
}

/// A process's staging queue.
#[derive(Clone, Debug)]
struct Staging {
    stream: u32,
    /// A number that distinguishes the queue from earlier ones at the same index.
    serial: u64,
    requests: Sorted,
    newest: Nanos,
    deadline: Nanos,
    gaps: [u64; HISTORY_MAX],
    gaps_known: u32,
    /// The time of the queue's valid entry in the timer heap; its other entries are stale.
    timer: Nanos,
    marked: bool,
}

impl Staging {
    fn wait(&self, config: &BidConfig) -> Nanos {
        let k = config.history;
        if self.gaps_known < k {
            return config.wait_default;
        }
        let mut sum = 0;
        for age in 0..k {
            let at = (self.gaps_known - 1 - age) as usize % HISTORY_MAX;
            sum += u64::from(k - age) * self.gaps[at];
        }
        Nanos(sum / u64::from(k * (k + 1) / 2))
    }

    fn expiry(&self, config: &BidConfig) -> Nanos {
        (self.newest + self.wait(config)).min(self.deadline)
    }

    /// Records the arrival of a request; arrivals at one instant leave a single gap.
    fn arrive(&mut self, now: Nanos, op: Op, config: &BidConfig) {
        if now > self.newest {
            self.gaps[self.gaps_known as usize % HISTORY_MAX] = (now - self.newest).0.min(GAP_MAX);
            // Keeps the count small: from two rounds on, only the position in the ring matters.
            self.gaps_known += 1;
            if self.gaps_known as usize == 2 * HISTORY_MAX {
                self.gaps_known = HISTORY_MAX as u32;
            }
            self.newest = now;
        }
        if op == Op::Read {
            self.deadline = self.deadline.min(now + config.read_deadline);
        }
    }
}

/// BID-HDD.
#[derive(Clone, Debug)]
pub struct Bid {
    config: BidConfig,
    queues: Vec<Staging>,
    free: Vec<u32>,
    /// The index of each stream's staging queue, or [`NIL`].
    by_stream: Vec<u32>,
    serial: u64,
    /// The wait and deadline timers, as (time, serial, index).
    timers: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    marked: VecDeque<u32>,
    /// The requests of the queue that is being flushed, last first.
    sealed: Vec<QueuedId>,
    /// Determines which writes go to the flash; `None` in BID-HDD.
    packing: Option<Packing>,
    /// The offloaded requests, in the order in which they were found.
    offloaded: VecDeque<QueuedId>,
}

impl Bid {
    /// Creates an empty scheduler.
    pub fn new(config: BidConfig) -> Self {
        Bid {
            packing: None,
            offloaded: VecDeque::new(),
            config,
            queues: Vec::new(),
            free: Vec::new(),
            by_stream: Vec::new(),
            serial: 0,
            timers: BinaryHeap::new(),
            marked: VecDeque::new(),
            sealed: Vec::new(),
        }
    }

    /// Creates a scheduler that diverts the writes of light processes, as defined by `packing`.
    pub(crate) fn hybrid(config: BidConfig, packing: Packing) -> Self {
        Bid { packing: Some(packing), ..Bid::new(config) }
    }

    /// Marks every staging queue with an expired timer, in the order of expiry.
    #[inline]
    fn expire(&mut self, now: Nanos, requests: &mut Queue) {
        while let Some(&Reverse((at, serial, place))) = self.timers.peek() {
            if at > now {
                break;
            }
            self.timers.pop();
            let queue = &mut self.queues[place as usize];
            if queue.serial != serial || queue.marked || queue.timer != at {
                continue;
            }
            let expiry = queue.expiry(&self.config);
            if expiry <= at {
                queue.marked = true;
                self.offload(place, requests);
                if self.queues[place as usize].requests.as_slice().is_empty() {
                    self.retire(place);
                } else {
                    self.marked.push_back(place);
                }
            } else {
                queue.timer = expiry;
                self.timers.push(Reverse((expiry, serial, place)));
            }
        }
    }

    /// Returns the staging queue of `stream`, which is created if necessary.
    fn staging(&mut self, now: Nanos, stream: u32, op: Op) -> u32 {
        let index = stream as usize;
        if index >= self.by_stream.len() {
            self.by_stream.resize(index + 1, NIL);
        }
        if self.by_stream[index] != NIL {
            return self.by_stream[index];
        }
        self.serial += 1;
        let place = self.free.pop().unwrap_or(self.queues.len() as u32);
        if place as usize == self.queues.len() {
            self.queues.push(Staging {
                stream,
                serial: 0,
                requests: Sorted::default(),
                newest: now,
                deadline: now,
                gaps: [0; HISTORY_MAX],
                gaps_known: 0,
                timer: Nanos::MAX,
                marked: false,
            });
        }
        let queue = &mut self.queues[place as usize];
        queue.stream = stream;
        queue.serial = self.serial;
        queue.newest = now;
        queue.deadline = now
            + if op == Op::Read { self.config.read_deadline } else { self.config.write_deadline };
        queue.gaps_known = 0;
        queue.timer = Nanos::MAX;
        queue.marked = false;
        self.by_stream[index] = place;
        place
    }

    /// Records an arrival in the staging queue at `place` and sets its timer.
    fn arrive(&mut self, now: Nanos, place: u32, op: Op) {
        let queue = &mut self.queues[place as usize];
        queue.arrive(now, op, &self.config);
        let expiry = queue.expiry(&self.config);
        if expiry < queue.timer && !queue.marked {
            queue.timer = expiry;
            self.timers.push(Reverse((expiry, queue.serial, place)));
        }
    }

    /// Offloads the writes of a staging queue that is about to be flushed to the flash, if they are
    /// light.
    fn offload(&mut self, place: u32, queue: &mut Queue) {
        let Some(packing) = self.packing else { return };
        let staged = &mut self.queues[place as usize].requests;
        let is_write = |id: QueuedId| queue[id].op == Op::Write;
        let lens = staged.as_slice().iter().filter(|&&(_, id)| is_write(id));
        if !packing.is_light(lens.map(|&(_, id)| queue[id].len)) {
            return;
        }
        for &(_, id) in staged.as_slice() {
            if queue[id].op == Op::Write {
                queue[id].mark = OFFLOADED;
                self.offloaded.push_back(id);
            }
        }
        staged.retain(|id| queue[id].mark != OFFLOADED);
    }

    /// Frees a staging queue that has become empty.
    fn retire(&mut self, place: u32) {
        let staging = &mut self.queues[place as usize];
        staging.serial = 0;
        self.by_stream[staging.stream as usize] = NIL;
        self.free.push(place);
    }

    /// Seals the queue that was marked first.
    fn seal(&mut self, queue: &mut Queue) {
        let Some(place) = self.marked.pop_front() else { return };
        // Also offload writes that arrived after the queue was marked.
        self.offload(place, queue);
        let staging = &mut self.queues[place as usize];
        for &(_, id) in staging.requests.as_slice().iter().rev() {
            queue[id].mark = SEALED;
            self.sealed.push(id);
        }
        staging.requests.clear();
        self.retire(place);
    }
}

impl Bid {
    /// Merges `gone`, which was about to be offloaded, into `kept`.
    fn join_offloaded(&mut self, kept: QueuedId, gone: QueuedId, queue: &mut Queue) {
        match queue[kept].mark {
            OFFLOADED | SEALED => self.offloaded.retain(|&id| id != gone),
            place => {
                self.queues[place as usize].requests.remove(queue[kept].offset, kept);
                queue[kept].mark = OFFLOADED;
                let of_gone = self.offloaded.iter().position(|&id| id == gone);
                of_gone.into_iter().for_each(|at| self.offloaded[at] = kept);
            }
        }
    }
}

impl Elevator for Bid {
    #[inline]
    fn scope(&self, _bio: &Request) -> u32 {
        0
    }

    fn add(&mut self, now: Nanos, id: QueuedId, queue: &mut Queue) {
        self.expire(now, queue);
        let request = &mut queue[id];
        let place = self.staging(now, request.stream, request.op);
        request.mark = place;
        self.queues[place as usize].requests.insert(request.offset, id);
        self.arrive(now, place, request.op);
    }

    fn grown(&mut self, now: Nanos, id: QueuedId, offset_before: u64, queue: &mut Queue) {
        self.expire(now, queue);
        let request = &queue[id];
        if request.mark >= OFFLOADED {
            return;
        }
        if request.offset != offset_before {
            let requests = &mut self.queues[request.mark as usize].requests;
            requests.remove(offset_before, id);
            requests.insert(request.offset, id);
        }
        self.arrive(now, request.mark, request.op);
    }

    fn join(&mut self, _now: Nanos, kept: QueuedId, gone: QueuedId, queue: &mut Queue) {
        let request = &queue[gone];
        if request.mark < OFFLOADED {
            self.queues[request.mark as usize].requests.remove(request.offset, gone);
            return;
        }
        if request.mark == OFFLOADED {
            self.join_offloaded(kept, gone, queue);
            return;
        }
        if queue[kept].mark == OFFLOADED {
            self.offloaded.retain(|&id| id != kept);
            queue[kept].mark = SEALED;
            let place = self.sealed.iter().position(|&id| id == gone);
            place.into_iter().for_each(|place| self.sealed[place] = kept);
            return;
        }
        // A merged request takes the earlier of the two positions in the flush.
        let place = self.sealed.iter().position(|&id| id == gone);
        if let Some(place) = place {
            self.sealed.remove(place);
        }
        if queue[kept].mark != SEALED {
            let request = queue[kept];
            self.queues[request.mark as usize].requests.remove(request.offset, kept);
            queue[kept].mark = SEALED;
            self.sealed.insert(place.unwrap_or(self.sealed.len()), kept);
        }
    }

    fn divert(&mut self, now: Nanos, queue: &mut Queue) -> Option<QueuedId> {
        self.packing?;
        self.expire(now, queue);
        self.offloaded.pop_front()
    }

    fn keep(&mut self, id: QueuedId, queue: &mut Queue) {
        queue[id].mark = SEALED;
        // Put the merged request at the end of the current flush.
        self.sealed.insert(0, id);
    }

    fn take(&mut self, now: Nanos, queue: &mut Queue) -> Option<QueuedId> {
        self.expire(now, queue);
        while self.sealed.is_empty() && !self.marked.is_empty() {
            self.seal(queue);
        }
        self.sealed.pop()
    }

    fn wakeup(&self) -> Option<Nanos> {
        self.timers.peek().map(|&Reverse((at, _, _))| at)
    }
}
