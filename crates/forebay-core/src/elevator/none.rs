//! none: no scheduler, only the software queues of the multi-queue block layer, served in turns.
//!
//! Source: Linux `blk-mq` with the scheduler `none` and a busy device: the requests of each
//! submitter wait in a software queue, first in, first out, and each queue dispatches one request
//! in turn. A bio merges only with one of the newest eight requests of its own software queue; two
//! requests are never joined. At most as many requests are admitted as the device has tags (32 on
//! SATA).
//!
//! In contrast, noop has one queue and merges neighbors regardless of their submitters and age.
//!
//! Departures: each stream has its own software queue, while Linux has one per processor. There is
//! no plug, which in Linux holds back a submitter's requests for some microseconds and merges them.
//! The requests that it would merge meet in the software queue instead, unless the device was idle.

use super::{Elevator, ElevatorVisitor, Limits, List, Queue, QueuedId, SATA_TAGS, Scheduler};
use crate::contract::{Given, Listed, Nanos, Origin, Parameter, Request, SpecError};

/// The parameters that the scheduler accepts.
const PARAMETERS: &[Parameter] = &[Parameter::whole("requests-max", SATA_TAGS, 1)
    .about("maximum number of queued requests, reads and writes together")];

impl Scheduler for NoScheduler {
    const LISTED: Listed = Listed {
        name: "none",
        origin: Origin::Linux,
        summary: "no scheduler (multi-queue): streams take turns, and only requests of the same \
            stream are merged",
        parameters: &[PARAMETERS],
    };

    fn visit<V: ElevatorVisitor>(_given: &Given<'_>, visitor: V) -> Result<V::Out, SpecError> {
        Ok(visitor.visit(NoScheduler::default()))
    }

    fn limits(_given: &Given<'_>, limits: Limits) -> Result<Limits, SpecError> {
        Ok(limits.shared())
    }
}

/// Only this many of the newest requests of a software queue are considered for merging.
const MERGE_DEPTH: u32 = 8;

/// The requests of one submitter.
#[derive(Clone, Copy, Debug, Default)]
struct SoftwareQueue {
    fifo: List,
    /// The number of requests that ever entered the queue.
    entered: u32,
    /// The next queue in the ring, if this queue has requests.
    next: usize,
}

/// Linux's blk-mq without a scheduler.
#[derive(Clone, Debug, Default)]
pub struct NoScheduler {
    queues: Vec<SoftwareQueue>,
    /// The queue that dispatched last, from which the queues with requests form a ring.
    last: Option<usize>,
}

impl NoScheduler {
    /// Adds a queue that received its first request at the end of the ring.
    fn enter_round(&mut self, place: usize) {
        match self.last {
            Some(last) => {
                self.queues[place].next = self.queues[last].next;
                self.queues[last].next = place;
            }
            None => self.queues[place].next = place,
        }
        self.last = Some(place);
    }
}

impl Elevator for NoScheduler {
    const JOINS: bool = false;

    #[inline]
    fn scope(&self, bio: &Request) -> u32 {
        bio.stream
    }

    /// A request's mark is its number in its software queue, so that its age can be compared with
    /// [`MERGE_DEPTH`].
    fn may_merge(&self, _bio: &Request, id: QueuedId, queue: &Queue) -> bool {
        let request = &queue[id];
        let entered = self.queues[request.scope as usize].entered;
        entered.wrapping_sub(request.mark) <= MERGE_DEPTH
    }

    fn add(&mut self, _now: Nanos, id: QueuedId, queue: &mut Queue) {
        let place = queue[id].scope as usize;
        if place >= self.queues.len() {
            self.queues.resize(place + 1, SoftwareQueue::default());
        }
        let software = &mut self.queues[place];
        queue[id].mark = software.entered;
        software.entered = software.entered.wrapping_add(1);
        let was_empty = software.fifo.front().is_none();
        queue.push(&mut software.fifo, id);
        if was_empty {
            self.enter_round(place);
        }
    }

    #[inline]
    fn grown(&mut self, _now: Nanos, _id: QueuedId, _offset_before: u64, _queue: &mut Queue) {}

    fn join(&mut self, _now: Nanos, _kept: QueuedId, gone: QueuedId, queue: &mut Queue) {
        let place = queue[gone].scope as usize;
        queue.unlink(&mut self.queues[place].fifo, gone);
    }

    fn take(&mut self, _now: Nanos, queue: &mut Queue) -> Option<QueuedId> {
        let last = self.last?;
        let place = self.queues[last].next;
        let software = &mut self.queues[place];
        let id = software.fifo.front()?;
        queue.unlink(&mut software.fifo, id);
        if software.fifo.front().is_some() {
            self.last = Some(place);
        } else if place == last {
            self.last = None;
        } else {
            self.queues[last].next = self.queues[place].next;
        }
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Bare, Flags, Op, Policy};
    use crate::elevator::{BlockLayer, Limits};

    /// Returns the dispatched requests, as (stream, offset, length), for bios of 10 bytes, as
    /// (stream, offset).
    fn given(bios: &[(u32, u64)]) -> Vec<(u32, u64, u32)> {
        let mut layer = BlockLayer::new(NoScheduler::default(), Limits::default());
        for (id, &(stream, offset)) in bios.iter().enumerate() {
            layer.submit_bare(
                Nanos::ZERO,
                Request {
                    at: Nanos::ZERO,
                    offset,
                    id: id as u64,
                    len: 10,
                    stream,
                    lane: 0,
                    op: Op::Read,
                    flags: Flags::NONE,
                },
            );
        }
        std::iter::from_fn(|| layer.dispatch(Nanos::ZERO, 0))
            .map(|io| (io.stream, io.offset, io.len))
            .collect()
    }

    #[test]
    fn software_queues_take_turns() {
        let bios = [(0, 100), (0, 300), (0, 500), (2, 700), (2, 900), (1, 50)];
        let order: Vec<_> = given(&bios).iter().map(|io| (io.0, io.1)).collect();
        assert_eq!(order, [(0, 100), (2, 700), (1, 50), (0, 300), (2, 900), (0, 500)]);
    }

    #[test]
    fn only_one_streams_newest_requests_merge_and_none_are_joined() {
        assert_eq!(given(&[(0, 0), (1, 10)]).len(), 2, "two streams");
        assert_eq!(given(&[(0, 0), (0, 10)]), [(0, 0, 20)]);
        assert_eq!(given(&[(0, 10), (0, 0)]), [(0, 0, 20)]);
        assert_eq!(given(&[(0, 0), (0, 20), (0, 10)]).len(), 2, "the gap is filled, no more");
        let far = |count: u64| (1..=count).map(|i| (0, i * 1000));
        let bios = |count| std::iter::once((0, 0)).chain(far(count)).chain([(0, 10)]);
        assert_eq!(given(&bios(7).collect::<Vec<_>>()).len(), 8, "the eighth newest");
        assert_eq!(given(&bios(8).collect::<Vec<_>>()).len(), 10, "the ninth newest");
    }
}
