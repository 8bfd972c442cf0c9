//! sptf: shortest positioning time first, with a bound on how long a request can be passed over.
//!
//! This is a yardstick rather than a scheduler, because it knows the disk's rotational position.
//! Source: Jacobson and Wilkes, "Disk scheduling algorithms based on rotational position"
//! (HPL-CSP-91-7, 1991), and Seltzer, Chen and Ousterhout, "Disk scheduling revisited" (USENIX
//! Winter 1990). Among all waiting reads and writes, the one whose data will be under the head
//! first is next; in case of a tie, the oldest. Requests that have waited for the bound go first,
//! oldest first. The disk is never left idle.
//!
//! sptf uses a model of the disk ([`Positioning`]), which it updates as it dispatches requests. For
//! its predictions to hold, the device must accept only one request at a time.
//!
//! Invariant: `fifo` and `waiting` contain the same requests.

use super::{Elevator, List, Queue, QueuedId};
use crate::contract::{Given, Listed, Nanos, Origin, Parameter, Positioning, Request, SpecError};

/// The parameters that the scheduler accepts.
const PARAMETERS: &[Parameter] = &[Parameter::millis("bound-ms", 10_000.0)
    .about("a request that has waited this long is served first")];

/// The elevator: shortest positioning time first.
#[derive(Clone, Debug)]
pub struct Sptf<P> {
    bound: Nanos,
    disk: P,
    fifo: List,
    /// The requests in order of arrival, so that the oldest wins a tie.
    waiting: Vec<QueuedId>,
}

impl Sptf<()> {
    /// The catalog entry.
    pub const LISTED: Listed = Listed {
        name: "sptf",
        origin: Origin::KernelOnly,
        summary: "a yardstick, for simulation only: shortest positioning time first; it knows the \
            disk's rotation, unlike real schedulers; a request that has waited as long as the \
            bound is served first",
        parameters: &[PARAMETERS],
    };

    /// Returns the bound given in the parameters.
    pub(crate) fn bound(given: &Given<'_>) -> Result<Nanos, SpecError> {
        given.millis("bound-ms")
    }
}

impl<P: Positioning> Sptf<P> {
    /// Creates an empty elevator for a disk like `disk`. A request that has waited for `bound` goes
    /// first.
    pub fn new(disk: P, bound: Nanos) -> Self {
        Sptf { bound, disk, fifo: List::default(), waiting: Vec::new() }
    }

    fn choose(&self, now: Nanos, queue: &Queue) -> Option<QueuedId> {
        let oldest = self.fifo.front()?;
        if queue[oldest].added + self.bound <= now {
            return Some(oldest);
        }
        let takes =
            |&id: &QueuedId| (self.disk.positioning(now, &queue.io(now, id, 0)), queue[id].added);
        self.waiting.iter().copied().min_by_key(takes)
    }
}

impl<P: Positioning> Elevator for Sptf<P> {
    #[inline]
    fn scope(&self, _bio: &Request) -> u32 {
        0
    }

    #[inline]
    fn add(&mut self, _now: Nanos, id: QueuedId, queue: &mut Queue) {
        self.waiting.push(id);
        queue.push(&mut self.fifo, id);
    }

    #[inline]
    fn grown(&mut self, _now: Nanos, _id: QueuedId, _offset_before: u64, _queue: &mut Queue) {}

    /// The merged request takes the earlier of the two positions in the FIFO.
    fn join(&mut self, _now: Nanos, kept: QueuedId, gone: QueuedId, queue: &mut Queue) {
        self.waiting.retain(|&id| id != gone);
        queue.join_on(&mut self.fifo, kept, gone);
    }

    fn take(&mut self, now: Nanos, queue: &mut Queue) -> Option<QueuedId> {
        let id = self.choose(now, queue)?;
        queue.unlink(&mut self.fifo, id);
        self.waiting.retain(|&waits| waits != id);
        self.disk.moved(now, &queue.io(now, id, 0));
        Some(id)
    }
}
