//! clook: C-LOOK, which sweeps only upwards, with a bound on how long a request can be passed over.
//!
//! Source: the circular scan of Seaman, Lind and Wilson (IBM Systems Journal, 1966) in the variant
//! that turns at the last request rather than at the edge (LOOK). Reads and writes are in one
//! order. The next request is the lowest one that does not start below the last dispatched request,
//! or else the lowest of all. It is the baseline for more complex schedulers.
//!
//! Departure: plain C-LOOK starves distant requests if new ones keep arriving just above the head.
//! Here a request that has waited for [`CLook::bound`] goes first, and the sweep continues from it.
//!
//! Invariant: `fifo` and `sorted` contain the same requests.

use super::{Elevator, ElevatorVisitor, Limits, List, Queue, QueuedId, SERVED, Scheduler, Sorted};
use crate::contract::{Given, Listed, Nanos, Origin, Parameter, Request, SpecError};

/// The parameters that the scheduler accepts.
const PARAMETERS: &[Parameter] = &[
    Parameter::millis("bound-ms", 10_000.0).about(
        "a request that has waited this long is served \
        first",
    ),
    SERVED,
];

impl Scheduler for CLook {
    const LISTED: Listed = Listed {
        name: "clook",
        origin: Origin::Forebay,
        summary: "sweeps upwards only (C-LOOK), reads and writes together; a request that has \
            waited as long as the bound is served first",
        parameters: &[PARAMETERS],
    };

    fn visit<V: ElevatorVisitor>(given: &Given<'_>, visitor: V) -> Result<V::Out, SpecError> {
        Ok(visitor.visit(CLook::new(given.millis("bound-ms")?)))
    }

    fn limits(_given: &Given<'_>, limits: Limits) -> Result<Limits, SpecError> {
        Ok(limits.shared())
    }
}

/// The C-LOOK elevator.
#[derive(Clone, Debug)]
pub struct CLook {
    bound: Nanos,
    fifo: List,
    sorted: Sorted,
    /// The first byte of the last dispatched request.
    position: u64,
}

impl CLook {
    /// Creates an empty elevator in which a request that has waited for `bound` goes first.
    pub fn new(bound: Nanos) -> Self {
        CLook { bound, fifo: List::default(), sorted: Sorted::default(), position: 0 }
    }

    fn choose(&self, now: Nanos, queue: &Queue) -> Option<QueuedId> {
        let oldest = self.fifo.front()?;
        if queue[oldest].added + self.bound <= now {
            return Some(oldest);
        }
        let next = self.sorted.at_or_above(self.position).or(self.sorted.first());
        next.map(|(_, id)| id)
    }
}

impl Elevator for CLook {
    #[inline]
    fn scope(&self, _bio: &Request) -> u32 {
        0
    }

    #[inline]
    fn add(&mut self, _now: Nanos, id: QueuedId, queue: &mut Queue) {
        self.sorted.insert(queue[id].offset, id);
        queue.push(&mut self.fifo, id);
    }

    fn grown(&mut self, _now: Nanos, id: QueuedId, offset_before: u64, queue: &mut Queue) {
        let offset = queue[id].offset;
        if offset != offset_before {
            self.sorted.remove(offset_before, id);
            self.sorted.insert(offset, id);
        }
    }

    /// The merged request takes the earlier of the two positions in the FIFO.
    fn join(&mut self, _now: Nanos, kept: QueuedId, gone: QueuedId, queue: &mut Queue) {
        self.sorted.remove(queue[gone].offset, gone);
        queue.join_on(&mut self.fifo, kept, gone);
    }

    fn take(&mut self, now: Nanos, queue: &mut Queue) -> Option<QueuedId> {
        let id = self.choose(now, queue)?;
        let offset = queue[id].offset;
        queue.unlink(&mut self.fifo, id);
        self.sorted.remove(offset, id);
        self.position = offset;
        Some(id)
    }
}
