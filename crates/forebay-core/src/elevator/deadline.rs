//! deadline and mq-deadline: batches in address order that begin at expired requests.
//!
//! Source: Linux `deadline-iosched` as described in its documentation (`read_expire` 500 ms,
//! `write_expire` 5 s, `writes_starved` 2, `fifo_batch` 16). Reads precede writes, but at most
//! `writes_starved` batches in a row while writes wait. A batch continues upwards from the last
//! request of its direction; a new batch starts at the oldest request if that has expired or no
//! request lies above. The next request is determined when the last one is dispatched, so a request
//! with an address in between that arrives later waits for the next sweep.
//!
//! mq-deadline is Linux's port to the multi-queue block layer, in its form since 6.5. It has the
//! same rules and tunables, with two exceptions. First, each direction remembers the position of
//! its last request, so that a read batch after a write batch continues where reads were
//! ([`DeadlineConfig::resumes`]), while deadline starts it at the oldest read; and the next request
//! above that position is determined only when it is due, so that it includes late arrivals.
//! Second, reads and writes share one pool of tags ([`super::Limits::requests_max`]); `writes-max`
//! is what Linux calls `async_depth`.
//!
//! Departures: requests have no priority here, so all are of one class (best effort), and
//! `prio_aging_expire`, which lets a lower class through, has no effect; there are no zoned
//! devices, and no requests inserted at the front (`at_head`).

use super::{
    Elevator, ElevatorVisitor, Limits, List, PaperDeadline, Queue, QueuedId, Scheduler, Sorted,
};
use crate::contract::{Given, Listed, Nanos, Op, Origin, Parameter, Request, SpecError};

/// The parameters that the scheduler accepts.
const PARAMETERS: &[Parameter] = &[
    Parameter::choice("form", &["linux", "paper"])
        .about("as in Linux, or as in the BID paper's example, which uses only the two ages"),
    Parameter::millis("read-expire-ms", 500.0)
        .about("a read older than this starts the next batch of reads"),
    Parameter::millis("write-expire-ms", 5000.0)
        .about("a write older than this starts the next batch of writes"),
    Parameter::whole("writes-starved", 2, 1)
        .about("number of batches of reads that may overtake waiting writes"),
    Parameter::whole("fifo-batch", 16, 1).about("maximum number of requests in a batch"),
];

impl Scheduler for Deadline {
    const LISTED: Listed = Listed {
        name: "deadline",
        origin: Origin::LinuxBefore5,
        summary: "batches in address order, reads first; a request that waited too long starts \
            the next batch",
        parameters: &[PARAMETERS],
    };

    fn visit<V: ElevatorVisitor>(given: &Given<'_>, visitor: V) -> Result<V::Out, SpecError> {
        let is_linux = given.is_first("form")?;
        let config = DeadlineConfig::given(given)?;
        Ok(match is_linux {
            true => visitor.visit(Deadline::new(config)),
            false => visitor.visit(PaperDeadline::new(config.read_expire, config.write_expire)),
        })
    }

    fn limits(_given: &Given<'_>, limits: Limits) -> Result<Limits, SpecError> {
        Ok(limits.legacy())
    }
}

const READ: usize = 0;
const WRITE: usize = 1;

/// The scheduler's tunables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadlineConfig {
    /// The age from which a read begins the next batch of reads.
    pub read_expire: Nanos,
    /// The age from which a write begins the next batch of writes.
    pub write_expire: Nanos,
    /// The number of read batches that may precede waiting writes. With 0, writes always go first
    /// and starve reads.
    pub writes_starved: u32,
    /// The maximum number of requests in a batch.
    pub fifo_batch: u32,
    /// Whether a bio may merge with a request that starts where the bio ends.
    pub front_merges: bool,
    /// Whether a batch continues above the last request of its direction even if the other
    /// direction was served in between (mq-deadline). Otherwise it starts at the oldest request in
    /// that case (deadline).
    pub resumes: bool,
}

impl DeadlineConfig {
    pub(super) fn given(given: &Given<'_>) -> Result<DeadlineConfig, SpecError> {
        Ok(DeadlineConfig {
            read_expire: given.millis("read-expire-ms")?,
            write_expire: given.millis("write-expire-ms")?,
            writes_starved: given.whole("writes-starved")?,
            fifo_batch: given.whole("fifo-batch")?,
            front_merges: true,
            resumes: false,
        })
    }
}

impl Default for DeadlineConfig {
    fn default() -> Self {
        Given::defaults(PARAMETERS, DeadlineConfig::given)
    }
}

/// The requests of one direction, by age and by address.
#[derive(Clone, Debug, Default)]
struct Side {
    fifo: List,
    sorted: Sorted,
    /// The first byte of the last dispatched request (mq-deadline).
    position: Option<u64>,
    /// The request that continues a batch (deadline).
    next: Option<QueuedId>,
}

/// Linux's deadline and mq-deadline elevators.
#[derive(Clone, Debug)]
pub struct Deadline {
    config: DeadlineConfig,
    sides: [Side; 2],
    /// The direction of the last dispatched request.
    last: usize,
    /// The number of requests dispatched in this batch.
    batched: u32,
    /// The number of read batches since writes began to wait.
    starved: u32,
}

impl Deadline {
    /// Creates an empty elevator.
    pub fn new(config: DeadlineConfig) -> Self {
        Deadline { config, sides: Default::default(), last: READ, batched: 0, starved: 0 }
    }

    /// Returns the next request in address order, which continues a batch.
    fn next_in_order(&self, side: usize) -> Option<QueuedId> {
        let Side { sorted, position, next, .. } = &self.sides[side];
        if !self.config.resumes {
            return *next;
        }
        sorted.at_or_above((*position)?).map(|(_, id)| id)
    }

    fn has_expired(&self, now: Nanos, side: usize, queue: &Queue) -> bool {
        let expire = [self.config.read_expire, self.config.write_expire][side];
        self.sides[side].fifo.front().is_some_and(|id| queue[id].added + expire <= now)
    }

    /// Chooses the direction of a new batch.
    fn choose_side(&mut self) -> Option<usize> {
        let (reads, writes) =
            (!self.sides[READ].sorted.is_empty(), !self.sides[WRITE].sorted.is_empty());
        if reads && !(writes && self.starved >= self.config.writes_starved) {
            self.starved += u32::from(writes);
            return Some(READ);
        }
        if writes {
            self.starved = 0;
            return Some(WRITE);
        }
        None
    }

    fn give(&mut self, side: usize, id: QueuedId, queue: &mut Queue) -> QueuedId {
        self.sides[1 - side].next = None;
        let Side { fifo, sorted, position, next } = &mut self.sides[side];
        let offset = queue[id].offset;
        queue.unlink(fifo, id);
        *next = sorted.after(offset, id).map(|(_, id)| id);
        sorted.remove(offset, id);
        // Store the start rather than the end, because requests may overlap and "above" refers to
        // first bytes.
        *position = Some(offset);
        self.batched += 1;
        self.last = side;
        id
    }
}

impl Elevator for Deadline {
    #[inline]
    fn scope(&self, _bio: &Request) -> u32 {
        0
    }

    #[inline]
    fn add(&mut self, _now: Nanos, id: QueuedId, queue: &mut Queue) {
        let Side { fifo, sorted, .. } = &mut self.sides[side(queue[id].op)];
        sorted.insert(queue[id].offset, id);
        queue.push(fifo, id);
    }

    fn grown(&mut self, _now: Nanos, id: QueuedId, offset_before: u64, queue: &mut Queue) {
        let offset = queue[id].offset;
        if offset != offset_before {
            let sorted = &mut self.sides[side(queue[id].op)].sorted;
            sorted.remove(offset_before, id);
            sorted.insert(offset, id);
        }
    }

    /// The merged request takes the earlier of the two positions in the FIFO.
    fn join(&mut self, _now: Nanos, kept: QueuedId, gone: QueuedId, queue: &mut Queue) {
        let Side { fifo, sorted, next, .. } = &mut self.sides[side(queue[gone].op)];
        let offset = queue[gone].offset;
        if *next == Some(gone) {
            *next = sorted.after(offset, gone).map(|(_, id)| id);
        }
        sorted.remove(offset, gone);
        queue.join_on(fifo, kept, gone);
    }

    #[inline]
    fn may_merge(&self, bio: &Request, id: QueuedId, queue: &Queue) -> bool {
        self.config.front_merges || bio.offset >= queue[id].offset
    }

    fn take(&mut self, now: Nanos, queue: &mut Queue) -> Option<QueuedId> {
        if self.batched < self.config.fifo_batch
            && let Some(id) = self.next_in_order(self.last)
        {
            return Some(self.give(self.last, id, queue));
        }
        let side = self.choose_side()?;
        let oldest = self.sides[side].fifo.front()?;
        let id = match self.next_in_order(side) {
            Some(id) if !self.has_expired(now, side, queue) => id,
            _ => oldest,
        };
        self.batched = 0;
        Some(self.give(side, id, queue))
    }
}

#[inline]
fn side(op: Op) -> usize {
    if op == Op::Write { WRITE } else { READ }
}
