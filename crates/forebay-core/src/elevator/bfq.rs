//! BFQ: streams take turns of so many bytes each, in an order that gives every one its weight's share.
//!
//! Source: Checconi and Valente, "High throughput disk scheduling with fair bandwidth distribution"
//! (IEEE Transactions on Computers, 2010); Valente and Andreolini, "Improving application
//! responsiveness with the BFQ disk I/O scheduler" (SYSTOR 2012); Linux's `block/bfq-iosched`
//! documentation for tunables and defaults. Waited-for requests queue by stream, others in one queue
//! for all. A queue has the disk until its budget of bytes is used, its time (`timeout`) is up, or it
//! has no request and is not worth waiting for (`slice_idle`). B-WF2Q+ chooses the next one. Budgets
//! follow what a queue did with the last one; a queue that is slow is charged for its time.
//!
//! In files: the fair order of queues ([`wf2q`]), one queue ([`stream_queue`]), turns and idling
//! ([`service`]), budgets and the device's rate ([`budget`]), streams that share a queue
//! ([`cooperate`]), weight raising ([`raise`]).
//!
//! Invariants: a queue is busy in the fair order exactly if it has requests or is the active one; the
//! idle timer runs only for an active queue without requests in the queue or at the device.
//!
//! Departures: one priority and no groups, so all weights are equal but for raising
//! ([`Bfq::set_weight`] is there for callers of the library); no raising of soft real-time streams;
//! no injection of other queues' requests while
//! one is waited for; streams may come to share a queue at any time, not only at their beginning; the peak rate is a
//! mean over turns of sequential queues; nobody tells when a stream ends.

mod budget;
mod cooperate;
mod raise;
mod service;
mod stream_queue;
#[cfg(test)]
mod tests;
mod wf2q;

use super::block::Elevator;
use super::limits::{Limits, SATA_TAGS, Waiting};
use super::queue::{Queue, QueuedId};
use super::scheduler::{ElevatorVisitor, Scheduler};
use super::seek_order::BackSeek;
use super::sorted::Sorted;
use crate::contract::parameter::{Given, Listed, Parameter};
use crate::contract::request::Request;
use crate::contract::spec::SpecError;
use crate::contract::time::Nanos;
use budget::BudgetMax;
use raise::Burst;
use service::{Ended, Turn};
use stream_queue::StreamQueue;
use wf2q::Wf2q;

/// What it takes.
const PARAMETERS: &[Parameter] = &[
    Parameter::millis("slice-idle-ms", 8.0)
        .about("how long a stream's next request is waited for; 0: never"),
    Parameter::millis("timeout-sync-ms", 125.0)
        .about("the longest turn of a stream; 30 times as long while low-latency favours it"),
    Parameter::whole("max-budget-kib", 0, 0)
        .about("the most that a stream moves in a turn; 0: what timeout-sync-ms has time for"),
    Parameter::millis("fifo-expire-sync-ms", 125.0)
        .about("a read or synchronous write older than this goes first in its stream's turn"),
    Parameter::millis("fifo-expire-async-ms", 250.0).about("the same for other writes"),
    Parameter::whole("back-seek-max-kib", 16_384, 0)
        .about("how far back a request may lie to be taken before those ahead"),
    Parameter::whole("back-seek-penalty", 2, 1)
        .about("how many times as long as the way ahead the way back counts"),
    Parameter::choice("low-latency", &["yes", "no"])
        .about("whether streams that begin or were silent get more for a while"),
    Parameter::whole("requests-max", 2 * SATA_TAGS, 1)
        .about("requests admitted at a time, reads and writes together"),
];

impl Scheduler for Bfq {
    const LISTED: Listed = Listed {
        name: "bfq",
        summary: "streams take turns of so many bytes each, by fair queueing, new ones weighing more",
        parameters: &[PARAMETERS],
    };

    fn visit<V: ElevatorVisitor>(given: &Given<'_>, visitor: V) -> Result<V::Out, SpecError> {
        Ok(visitor.visit(Bfq::new(BfqConfig::given(given)?)))
    }

    /// Half of the tags are for reads and writes that somebody waits for, a quarter for reads alone.
    fn limits(given: &Given<'_>, limits: Limits) -> Result<Limits, SpecError> {
        if limits.waiting == Waiting::Line {
            return Ok(limits);
        }
        let of = |share: u64| (u64::from(limits.requests_max) * share / 4).max(1) as u32;
        let writes_max = given.spec.at_least("writes-max", of(2), 1)?;
        Ok(Limits { writes_max, sync_writes_max: Some(of(3)), ..limits }.waking(1))
    }
}

/// Place of the asynchronous queue in [`Bfq::queues`].
const ASYNC: u32 = 0;

/// The scheduler's tunables, under Linux's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BfqConfig {
    /// How long a stream is waited for; 0 turns waiting off.
    pub slice_idle: Nanos,
    /// The longest turn (Linux `timeout_sync`).
    pub timeout: Nanos,
    /// The largest budget in bytes; 0 for what the device does in `timeout`, which is found out.
    pub max_budget: u64,
    /// A waited-for request older than this goes first in its queue's turn.
    pub fifo_expire_sync: Nanos,
    /// The same for the asynchronous queue.
    pub fifo_expire_async: Nanos,
    /// The longest way back that competes with the way forward, in bytes.
    pub back_seek_max: u64,
    /// How many times longer the way back counts.
    pub back_seek_penalty: u32,
    /// Whether streams that begin, or ask after a pause, are raised in weight.
    pub low_latency: bool,
}

impl BfqConfig {
    fn given(given: &Given<'_>) -> Result<BfqConfig, SpecError> {
        let bytes = |key| given.whole(key).map(|kib| 1024 * u64::from(kib));
        Ok(BfqConfig {
            slice_idle: given.millis("slice-idle-ms")?,
            timeout: given.millis("timeout-sync-ms")?,
            max_budget: bytes("max-budget-kib")?,
            fifo_expire_sync: given.millis("fifo-expire-sync-ms")?,
            fifo_expire_async: given.millis("fifo-expire-async-ms")?,
            back_seek_max: bytes("back-seek-max-kib")?,
            back_seek_penalty: given.whole("back-seek-penalty")?,
            low_latency: given.is_first("low-latency")?,
        })
    }
}

impl Default for BfqConfig {
    fn default() -> Self {
        Given::defaults(PARAMETERS, BfqConfig::given)
    }
}

/// Linux's BFQ elevator.
#[derive(Clone, Debug)]
pub struct Bfq {
    config: BfqConfig,
    back: BackSeek,
    /// The asynchronous queue, then one for each stream.
    queues: Vec<StreamQueue>,
    /// The queue that each stream uses, once it has asked for anything waited for.
    streams: Vec<Option<u32>>,
    fair: Wf2q,
    /// Waited-for queues with requests by the position of their next one, but for the active one.
    positions: Sorted,
    active: Option<u32>,
    turn: Turn,
    /// When waiting for the active queue's next request ends.
    idle_timer: Option<Nanos>,
    budget_max: BudgetMax,
    burst: Burst,
    /// Where the last request given ends.
    head: u64,
    /// Requests in queues, and at the device now and at most so far.
    queued: u32,
    in_flight: u32,
    deepest: u32,
}

impl Bfq {
    /// An empty elevator.
    pub fn new(config: BfqConfig) -> Self {
        let mut fair = Wf2q::default();
        fair.resize(1);
        Bfq {
            config,
            back: BackSeek {
                max: config.back_seek_max,
                penalty: u64::from(config.back_seek_penalty),
            },
            queues: vec![StreamQueue::new(false)],
            streams: Vec::new(),
            fair,
            positions: Sorted::default(),
            active: None,
            turn: Turn::default(),
            idle_timer: None,
            budget_max: BudgetMax::new(config.max_budget, config.timeout),
            burst: Burst::default(),
            head: 0,
            queued: 0,
            in_flight: 0,
            deepest: 0,
        }
    }

    /// Gives the queue of `stream` a weight from 1 to 1000 (Linux `io.bfq.weight`, 100 at first),
    /// from its next turn on.
    pub fn set_weight(&mut self, stream: u32, weight: u32) {
        self.know(stream);
        self.queue(stream + 1).weight = weight.clamp(1, 1000);
    }

    /// Makes room for what is known of `stream`.
    #[inline]
    fn know(&mut self, stream: u32) {
        let index = stream as usize;
        if index >= self.streams.len() {
            self.streams.resize(index + 1, None);
            self.queues.resize(index + 2, StreamQueue::new(true));
            self.fair.resize(index + 2);
        }
    }

    #[inline]
    fn queue(&mut self, place: u32) -> &mut StreamQueue {
        &mut self.queues[place as usize]
    }

    /// Enters a queue that got its first request into the fair order.
    fn enter(&mut self, now: Nanos, place: u32, queue: &Queue) {
        let entering = &mut self.queues[place as usize];
        if self.config.low_latency && place != ASYNC {
            entering.raised.enter(now, &mut self.burst);
        }
        if entering.budget == 0 {
            entering.budget = self.budget_max.bytes() / 3 * 2;
        }
        let weight = entering.weight();
        let budget = self.budget_for_next(place, queue);
        self.fair.enter(place, weight, budget);
    }

    /// Lists a queue by position if it should be and where it should be.
    #[inline]
    fn list(&mut self, place: u32) {
        if place == ASYNC {
            return;
        }
        let queue = &mut self.queues[place as usize];
        let next = if self.active == Some(place) { None } else { queue.order.next() };
        let at = next.map(|next| next.0);
        if queue.listed_at == at {
            return;
        }
        let before = std::mem::replace(&mut queue.listed_at, at);
        if let Some(before) = before {
            self.positions.remove(before, place);
        }
        if let Some(at) = at {
            self.positions.insert(at, place);
        }
    }

    /// Whether a queue that has just entered is served before the active one has finished.
    fn preempts(&self, place: u32) -> bool {
        let raised = |place: u32| self.queues[place as usize].raised.is_raised();
        raised(place) && self.active.is_some_and(|active| !raised(active))
    }
}

impl Elevator for Bfq {
    #[inline]
    fn scope(&self, bio: &Request) -> u32 {
        if bio.is_sync() { self.queue_of(bio.stream, bio.offset) } else { ASYNC }
    }

    fn add(&mut self, now: Nanos, id: QueuedId, queue: &mut Queue) {
        let request = queue[id];
        let place = request.scope;
        if place != ASYNC {
            self.attach(request.stream, place);
        }
        let (head, back, slice_idle) = (self.head, self.back, self.config.slice_idle);
        let own = self.queue(place);
        if own.order.is_empty() && own.in_flight == 0 {
            own.think.arrive(now, slice_idle);
        }
        own.seeks.arrive(request.offset, request.end());
        own.order.add(id, head, back, queue);
        self.queued += 1;
        if self.active == Some(place) {
            self.stop_idling();
        } else if self.fair.is_idle(place) {
            self.enter(now, place, queue);
            if self.preempts(place) {
                self.end_turn(now, Ended::Preempted, queue);
            }
        }
        self.list(place);
    }

    fn grown(&mut self, _now: Nanos, id: QueuedId, offset_before: u64, queue: &mut Queue) {
        let request = &queue[id];
        let (head, back, place) = (self.head, self.back, request.scope);
        if request.offset == offset_before {
            let end = request.end();
            self.queue(place).seeks.grow(end);
            return;
        }
        self.queue(place).order.moved(id, offset_before, head, back, queue);
        self.list(place);
    }

    fn join(&mut self, _now: Nanos, kept: QueuedId, gone: QueuedId, queue: &mut Queue) {
        let (place, back) = (queue[gone].scope, self.back);
        self.queue(place).order.join(kept, gone, back, queue);
        self.queued -= 1;
        self.list(place);
    }

    fn take(&mut self, now: Nanos, queue: &mut Queue) -> Option<QueuedId> {
        self.end_idle_turn(now, queue);
        if self.queued == 0 {
            return None;
        }
        let place = self.select(now, queue)?;
        let expire = match place {
            ASYNC => self.config.fifo_expire_async,
            _ => self.config.fifo_expire_sync,
        };
        let looked = std::mem::replace(&mut self.turn.fifo_checked, true);
        let back = self.back;
        let from = self.queue(place);
        let expired = if looked { None } else { from.order.expired(now, expire, queue) };
        let id = expired.or(from.order.next().map(|(_, id)| id))?;
        from.order.take(id, back, queue);
        from.in_flight += 1;
        let charge = from.charge(queue[id].len);
        self.turn.give(charge);
        self.fair.serve(charge);
        self.head = queue[id].end();
        self.queued -= 1;
        self.in_flight += 1;
        self.deepest = self.deepest.max(self.in_flight);
        Some(id)
    }

    fn completed(&mut self, now: Nanos, id: QueuedId, queue: &Queue) {
        let place = queue[id].scope;
        self.in_flight -= 1;
        let from = self.queue(place);
        from.in_flight -= 1;
        from.think.last_end = now;
        let is_dry = from.in_flight == 0 && from.order.is_empty();
        if is_dry && self.active == Some(place) {
            self.idle_or_end(now, place, queue);
        }
    }

    #[inline]
    fn wakeup(&self) -> Option<Nanos> {
        self.idle_timer
    }
}
