//! kyber: separate reads and writes, each limited in number so that latencies stay near targets.
//!
//! Source: Linux `block/kyber-iosched.c`. The two domains, reads and writes, have at most 256 and
//! 128 tokens, respectively. A domain dispatches first in, first out, up to 16 reads or 8 writes in
//! a row while the other domain has something to dispatch. The number of tokens follows latencies
//! ([`latency`]). If the 90th percentile of any domain at the device exceeds its target, every
//! domain with enough latencies is reduced in proportion to its own 99th percentile since
//! admission; a domain that misses its own target gets more.
//!
//! Requests wait in software queues, one per submitter, and merge there as with none. When a domain
//! has no requests left, it takes over all requests of its software queues at once.
//!
//! kyber does not sort, so on a disk that serves one I/O at a time it is a fair FIFO; it was
//! designed for highly parallel devices.
//!
//! Departures: trims and flushes bypass every scheduler here, so their domains (64 and 16 tokens)
//! do not exist. Each stream has its own software queue for merging, and requests are taken over in
//! order of arrival as if from a single queue, while Linux has one queue per processor and takes
//! over one after another. Tokens are adjusted at the first event after each tenth of a second
//! rather than by a timer, which makes no difference because nothing is dispatched in between.
//!
//! Invariant: a request is either in `arrived` or in `fifo` of its domain; in `fifo`, it is marked
//! as too old to merge.

mod latency;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use super::{Elevator, ElevatorVisitor, Limits, Queue, QueuedId, SATA_TAGS, Scheduler, Waiting};
use crate::contract::{Given, Listed, Nanos, Op, Origin, Parameter, Request, SpecError};
use latency::Latencies;

/// The parameters that the scheduler accepts.
const PARAMETERS: &[Parameter] = &[
    Parameter::millis("read-target-ms", 2.0).about(
        "if a tenth of the reads take longer at the device, fewer writes may be outstanding",
    ),
    Parameter::millis("write-target-ms", 10.0).about(
        "if a tenth of the writes take longer at the \
        device, fewer reads may be outstanding",
    ),
    Parameter::whole("requests-max", 2 * SATA_TAGS, 1)
        .about("maximum number of queued requests, reads and writes together"),
];

impl Scheduler for Kyber {
    const LISTED: Listed = Listed {
        name: "kyber",
        origin: Origin::Linux,
        summary: "reads and writes first in, first out, each limited in number to keep latencies \
                  near targets; writes-max is three quarters of requests-max",
        parameters: &[PARAMETERS],
    };

    fn visit<V: ElevatorVisitor>(given: &Given<'_>, visitor: V) -> Result<V::Out, SpecError> {
        let targets = [given.millis("read-target-ms")?, given.millis("write-target-ms")?];
        Ok(visitor.visit(Kyber::new(targets)))
    }

    /// By default, asynchronous requests may use three quarters of the tags.
    fn limits(given: &Given<'_>, limits: Limits) -> Result<Limits, SpecError> {
        let share = (u64::from(limits.requests_max) * 3 / 4).max(1) as u32;
        let writes_max = given.spec.at_least("writes-max", share, 1)?;
        let sync_writes_max = match limits.waiting {
            Waiting::Line => None,
            _ => Some(limits.requests_max),
        };
        let limits = Limits { writes_max, sync_writes_max, ..limits };
        Ok(limits.shared())
    }
}

const WRITES: usize = 1;

/// The maximum number of tokens for reads and for writes.
const TOKENS_MAX: [u32; 2] = [256, 128];
/// The maximum number of reads or writes in a row while the other domain has requests.
const BATCH: [u32; 2] = [16, 8];
/// Only this many of the newest requests of a software queue are considered for merging.
const MERGE_DEPTH: u32 = 8;

/// The state of one domain: reads or writes.
#[derive(Clone, Debug)]
struct Domain {
    /// The requests in software queues as (stream, id), in order of arrival.
    arrived: Vec<(u32, QueuedId)>,
    /// The requests taken over from the software queues, in dispatch order.
    fifo: VecDeque<QueuedId>,
    /// The number of requests at the device, and its limit.
    in_flight: u32,
    tokens: u32,
    latencies: Latencies,
}

/// Linux's kyber elevator.
#[derive(Clone, Debug)]
pub struct Kyber {
    domains: [Domain; 2],
    /// The number of requests that ever entered each stream's software queues, for reads and
    /// writes.
    entered: [Vec<u32>; 2],
    /// The domain that is dispatching, and the number of its consecutive dispatches.
    current: usize,
    batched: u32,
    /// When each request at the device was dispatched, by its id in the queue.
    given: Vec<Nanos>,
    /// When to adjust the tokens next.
    due: Option<Nanos>,
}

impl Kyber {
    /// Creates an empty elevator with latency targets for reads and writes.
    pub fn new(targets: [Nanos; 2]) -> Self {
        let domain = |of: usize| Domain {
            arrived: Vec::new(),
            fifo: VecDeque::new(),
            in_flight: 0,
            tokens: TOKENS_MAX[of],
            latencies: Latencies::new(targets[of]),
        };
        Kyber {
            domains: [domain(0), domain(1)],
            entered: Default::default(),
            current: 0,
            batched: 0,
            given: Vec::new(),
            due: None,
        }
    }

    /// Adjusts the tokens to the observed latencies if that is due.
    fn adjust(&mut self, now: Nanos) {
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        self.due = None;
        let mut congested = false;
        for domain in &mut self.domains {
            congested |= domain.latencies.is_congested(now);
        }
        for (domain, most) in self.domains.iter_mut().zip(TOKENS_MAX) {
            if let Some((parts, of)) = domain.latencies.scale(now, congested) {
                domain.tokens = (domain.tokens * parts / of).clamp(1, most);
            }
        }
    }

    /// Returns the next request of a domain if a token is free.
    fn give(&mut self, of: usize, queue: &mut Queue) -> Option<QueuedId> {
        let Domain { arrived, fifo, in_flight, tokens, .. } = &mut self.domains[of];
        if *in_flight >= *tokens {
            return None;
        }
        if fifo.is_empty() {
            for (stream, id) in arrived.drain(..) {
                queue[id].mark = self.entered[of][stream as usize].wrapping_sub(MERGE_DEPTH + 1);
                fifo.push_back(id);
            }
        }
        let id = fifo.pop_front()?;
        *in_flight += 1;
        Some(id)
    }
}

impl Elevator for Kyber {
    const JOINS: bool = false;

    #[inline]
    fn scope(&self, bio: &Request) -> u32 {
        bio.stream
    }

    /// A request's mark is its number in its software queue, so that its age can be compared with
    /// [`MERGE_DEPTH`].
    fn may_merge(&self, _bio: &Request, id: QueuedId, queue: &Queue) -> bool {
        let request = &queue[id];
        let entered = self.entered[domain(request.op)][request.scope as usize];
        entered.wrapping_sub(request.mark) <= MERGE_DEPTH
    }

    fn add(&mut self, _now: Nanos, id: QueuedId, queue: &mut Queue) {
        let (of, stream) = (domain(queue[id].op), queue[id].scope);
        let entered = &mut self.entered[of];
        if stream as usize >= entered.len() {
            entered.resize(stream as usize + 1, 0);
        }
        let entered = &mut entered[stream as usize];
        queue[id].mark = *entered;
        *entered = entered.wrapping_add(1);
        self.domains[of].arrived.push((stream, id));
    }

    #[inline]
    fn grown(&mut self, _now: Nanos, _id: QueuedId, _offset_before: u64, _queue: &mut Queue) {}

    /// Never called, because requests are not joined ([`Elevator::JOINS`]).
    fn join(&mut self, _now: Nanos, _kept: QueuedId, gone: QueuedId, queue: &mut Queue) {
        let domain = &mut self.domains[domain(queue[gone].op)];
        domain.arrived.retain(|&(_, id)| id != gone);
        domain.fifo.retain(|&id| id != gone);
    }

    fn take(&mut self, now: Nanos, queue: &mut Queue) -> Option<QueuedId> {
        self.adjust(now);
        let of = self.current;
        let goes_on = if self.batched < BATCH[of] { self.give(of, queue) } else { None };
        let id = match goes_on {
            Some(id) => id,
            None => {
                self.batched = 0;
                let other = self.give(1 - of, queue).map(|id| (1 - of, id));
                let (of, id) = other.or_else(|| Some((of, self.give(of, queue)?)))?;
                self.current = of;
                id
            }
        };
        self.batched += 1;
        let place = id as usize;
        if place >= self.given.len() {
            self.given.resize(place + 1, now);
        }
        self.given[place] = now;
        Some(id)
    }

    fn completed(&mut self, now: Nanos, id: QueuedId, queue: &Queue) {
        self.adjust(now);
        let domain = &mut self.domains[domain(queue[id].op)];
        domain.in_flight -= 1;
        domain.latencies.add(now - self.given[id as usize], now - queue[id].added);
        self.due.get_or_insert(now + latency::WINDOW);
    }
}

#[inline]
fn domain(op: Op) -> usize {
    if op == Op::Write { WRITES } else { 0 }
}
