//! BFQ: streams take turns, each with a budget of bytes, in an order that gives each stream a share
//! according to its weight.
//!
//! Source: Checconi and Valente, "High throughput disk scheduling with fair bandwidth distribution"
//! (IEEE Transactions on Computers, 2010); Valente and Andreolini, "Improving application
//! responsiveness with the BFQ disk I/O scheduler" (SYSTOR 2012); Linux's `block/bfq-iosched`
//! documentation for tunables and defaults. Synchronous requests are queued by stream, asynchronous
//! ones in one queue for all streams. A queue keeps the disk until its budget is used up, its time
//! (`timeout`) has elapsed, or it has no requests and is not worth waiting for (`slice_idle`).
//! B-WF2Q+ chooses the next queue. The budget of a queue adapts to how it used the previous one; a
//! slow queue is charged for its time.
//!
//! While BFQ waits for the active queue, requests of other queues are *injected* as long as that
//! does not delay it. A queue that becomes busy preempts the active one if that has a lower weight
//! or is not worth waiting for. Each queue may hold a share of the tags according to its weight.
//!
//! Files: the fair order of queues ([`wf2q`]), a queue ([`stream_queue`]), turns and idling
//! ([`service`]), injection ([`inject`]), budgets and the device's rate ([`budget`]), streams that
//! share a queue ([`cooperate`]), weight raising ([`raise`]). Rules and constants are those of
//! Linux 6.12.
//!
//! Invariants: a queue is busy in the fair order if it has requests or is active, and otherwise
//! only if it was preempted while it was worth waiting for; the idle timer runs only for an active
//! queue without requests in the queue or at the device.
//!
//! Departures: there is one priority and no groups, so all weights are equal except for raising;
//! every device is treated as a rotating disk with one actuator; metadata has no priority; the
//! clock has no ticks of 4 ms; the end of a stream is known only when its number is reassigned.

mod budget;
mod cooperate;
mod inject;
mod raise;
mod service;
mod stream_queue;
#[cfg(test)]
mod tests;
mod wf2q;

use super::{
    BackSeek, Elevator, ElevatorVisitor, Limits, Queue, QueuedId, SATA_TAGS, Scheduler, Sorted,
    Waiting,
};
use crate::contract::{Flags, Given, Listed, Nanos, Op, Origin, Parameter, Request, SpecError};
use budget::BudgetMax;
use inject::Trial;
use raise::{Burst, Entering, PAUSE_MIN};
use service::{Depth, Ended, Turn};
use stream_queue::StreamQueue;
use wf2q::Wf2q;

/// The parameters that the scheduler accepts.
const PARAMETERS: &[Parameter] = &[
    Parameter::millis("slice-idle-ms", 8.0)
        .about("how long to wait for a stream's next request; 0: never"),
    Parameter::millis("timeout-sync-ms", 125.0)
        .about("the longest turn of a stream; 30 times as long while low-latency favors it"),
    Parameter::whole("max-budget-kib", 0, 0).about(
        "the maximum that a stream transfers per turn; 0: as much as fits into timeout-sync-ms",
    ),
    Parameter::millis("fifo-expire-sync-ms", 125.0)
        .about("a read or synchronous write older than this is served first in its stream's turn"),
    Parameter::millis("fifo-expire-async-ms", 250.0)
        .about("the corresponding age for other writes"),
    Parameter::whole("back-seek-max-kib", 16_384, 0).about(
        "the maximum distance behind the head at which a request competes with requests ahead",
    ),
    Parameter::whole("back-seek-penalty", 2, 1)
        .about("the factor by which backward distances are multiplied"),
    Parameter::choice("low-latency", &["yes", "no"])
        .about("whether new streams, and streams that were idle, temporarily get a larger share"),
    Parameter::whole("requests-max", 2 * SATA_TAGS, 1)
        .about("maximum number of queued requests, reads and writes together"),
];

impl Scheduler for Bfq {
    const LISTED: Listed = Listed {
        name: "bfq",
        origin: Origin::Linux,
        summary: "fair queueing: streams take turns, each with a budget of bytes; new streams \
                  have a higher weight",
        parameters: &[PARAMETERS],
    };

    fn visit<V: ElevatorVisitor>(given: &Given<'_>, visitor: V) -> Result<V::Out, SpecError> {
        Ok(visitor.visit(Bfq::new(BfqConfig::given(given)?)))
    }

    /// By default, asynchronous writes may use half of the tags and all writes together three
    /// quarters. The last quarter is reserved for reads.
    fn limits(given: &Given<'_>, limits: Limits) -> Result<Limits, SpecError> {
        if limits.waiting == Waiting::Line {
            return Ok(limits);
        }
        let of = |share: u64| (u64::from(limits.requests_max) * share / 4).max(1) as u32;
        let writes_max = given.spec.at_least("writes-max", of(2), 1)?;
        let limits = Limits { writes_max, sync_writes_max: Some(of(3)), ..limits };
        Ok(Limits { read_target: Nanos::ZERO, ..limits }.waking(1))
    }
}

/// The index of the asynchronous queue in [`Bfq::queues`].
const ASYNC: u32 = 0;

/// The scheduler's tunables, under Linux's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BfqConfig {
    /// How long to wait for a stream; 0 disables waiting.
    pub slice_idle: Nanos,
    /// The longest turn (Linux `timeout_sync`).
    pub timeout: Nanos,
    /// The largest budget in bytes; 0 to measure what the device can do in `timeout`.
    pub max_budget: u64,
    /// The age from which a synchronous request is served first in its queue's turn.
    pub fifo_expire_sync: Nanos,
    /// The age from which an asynchronous request is served first in its queue's turn.
    pub fifo_expire_async: Nanos,
    /// The longest backward distance, in bytes, that is compared with the forward distance.
    pub back_seek_max: u64,
    /// The factor by which backward distances are multiplied.
    pub back_seek_penalty: u32,
    /// Whether streams that start, or resume after a pause, have their weight raised.
    pub low_latency: bool,
    /// The number of tags, which the streams share (Linux `nr_requests`).
    pub requests_max: u32,
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
            requests_max: given.whole("requests-max")?,
        })
    }
}

impl Default for BfqConfig {
    fn default() -> Self {
        Given::defaults(PARAMETERS, BfqConfig::given)
    }
}

/// The factor by which asynchronous bytes are charged, because they tend to come in floods.
const ASYNC_CHARGE: u64 = 3;

/// Requests farther apart than this (800 sectors) are not sequential.
const NEAR_BYTES: u64 = 8 * 100 * 512;

/// The state of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stream {
    /// The queue that belongs to the stream.
    own: u32,
    /// The queue that the stream uses, after its first synchronous request.
    queue: Option<u32>,
    /// The number of its requests in that queue and at the device.
    requests: u32,
}

/// Linux's BFQ elevator.
#[derive(Clone, Debug)]
pub struct Bfq {
    config: BfqConfig,
    back: BackSeek,
    /// The time of the last call.
    now: Nanos,
    /// The asynchronous queue, followed by one queue per stream.
    queues: Vec<StreamQueue>,
    streams: Vec<Stream>,
    fair: Wf2q,
    /// The synchronous queues with requests, by the position of their next request, except the
    /// active queue.
    positions: Sorted,
    active: Option<u32>,
    turn: Turn,
    /// The end of the last request dispatched in this turn.
    active_end: Option<u64>,
    /// When the wait for the active queue's next request ends.
    idle_timer: Option<Nanos>,
    trial: Trial,
    budget_max: BudgetMax,
    burst: Burst,
    /// The queue that later ones are compared with to find siblings, and when it was created.
    eldest: Option<(u32, Nanos)>,
    /// The queue whose request completed last, unless several streams share it, and when the
    /// request completed.
    last_ended: Option<(u32, Nanos)>,
    /// The end of the last dispatched request.
    head: u64,
    /// The numbers of requests in queues and at the device.
    queued: u32,
    in_flight: u32,
    device: Depth,
}

impl Bfq {
    /// Creates an empty elevator.
    pub fn new(config: BfqConfig) -> Self {
        let mut fair = Wf2q::default();
        fair.resize(1);
        Bfq {
            config,
            back: BackSeek {
                max: config.back_seek_max,
                penalty: u64::from(config.back_seek_penalty),
            },
            now: Nanos::ZERO,
            queues: vec![StreamQueue::new(false)],
            streams: Vec::new(),
            fair,
            positions: Sorted::default(),
            active: None,
            turn: Turn::default(),
            active_end: None,
            idle_timer: None,
            trial: Trial::default(),
            budget_max: BudgetMax::new(config.max_budget, config.timeout),
            burst: Burst::default(),
            eldest: None,
            last_ended: None,
            head: 0,
            queued: 0,
            in_flight: 0,
            device: Depth::default(),
        }
    }

    /// Allocates the state of `stream`.
    #[inline]
    fn know(&mut self, stream: u32) {
        let (index, known) = (stream as usize, self.streams.len());
        if index >= known {
            let stream = |index: usize| Stream { own: index as u32 + 1, queue: None, requests: 0 };
            self.streams.extend((known..=index).map(stream));
            self.queues.resize(index + 2, StreamQueue::new(true));
            self.fair.resize(index + 2);
        }
    }

    #[inline]
    fn queue(&mut self, place: u32) -> &mut StreamQueue {
        &mut self.queues[place as usize]
    }

    /// Returns how much a request of `len` bytes costs from the budget of queue `place`.
    fn charge(&self, place: u32, len: u32) -> u64 {
        let queue = &self.queues[place as usize];
        let once = queue.is_sync || queue.raised.is_raised();
        u64::from(len) * if once { 1 } else { ASYNC_CHARGE }
    }

    /// Returns the number of busy queues whose weight is raised.
    fn raised_busy(&self) -> usize {
        let raised = |place: &u32| self.queues[*place as usize].raised.is_raised();
        self.fair.each_busy().filter(raised).count()
    }

    /// Adds a queue that received its first request to the fair order.
    fn enter(&mut self, now: Nanos, place: u32, queue: &Queue) {
        let (idle, low_latency) = (self.config.slice_idle, self.config.low_latency);
        let entering = &mut self.queues[place as usize];
        let comes_soon = now <= entering.think.last_end + Nanos(3 * idle.0);
        let lasts = self.budget_max.raised_for();
        let may_raise = place != ASYNC && (!entering.is_shared() || entering.is_family);
        let raising = Entering {
            now,
            may_raise,
            always_seeks: entering.always_seeks(),
            in_flight: entering.in_flight,
            lasts,
        };
        let has_settled = entering.split.is_none_or(|at| now > at + PAUSE_MIN);
        let begins = low_latency && has_settled && entering.raised.enter(raising, &self.burst);
        entering.raised.backlogged(now);
        let (weight, factor) = (entering.weight(), entering.raised.factor());
        let left = self.fair.left(place);
        let is_back = std::mem::take(&mut entering.may_be_back) && comes_soon && left > 0;
        let mut budget = match is_back {
            true => left.min(entering.budget),
            false => self.budget_for_next(place, queue),
        };
        if begins {
            budget = budget.min(2 * self.budget_max.least());
        }
        self.fair.enter(place, weight, budget, is_back.then_some(factor));
        if let Some(active) = self.active
            && self.preempts(place, active, is_back)
        {
            self.end_turn(now, Ended::Preempted, queue);
        }
    }

    /// Returns whether queue `place`, which has just become busy, preempts the active one.
    fn preempts(&self, place: u32, active: u32, is_back: bool) -> bool {
        let [new, old] = [place, active].map(|place| &self.queues[place as usize]);
        is_back && new.raised.factor() >= old.raised.factor()
            || new.weight() > old.weight()
            || !self.is_better_idle(active)
    }

    /// Updates the budget of a busy, inactive queue whose next request has changed.
    fn next_changed(&mut self, place: u32, queue: &Queue) {
        if self.active == Some(place) || self.fair.is_idle(place) {
            return;
        }
        let budget = self.budget_for_next(place, queue).max(self.fair.served(place));
        if budget != self.fair.budget(place) {
            self.fair.change(place, self.queues[place as usize].weight(), budget);
        }
    }

    /// Updates the position of a queue in [`Bfq::positions`].
    #[inline]
    fn list(&mut self, place: u32) {
        if place == ASYNC {
            return;
        }
        let queue = &mut self.queues[place as usize];
        let next = if self.active == Some(place) { None } else { queue.order.next() };
        self.positions.list(place, &mut queue.listed_at, next.map(|next| next.0));
    }

    /// Dispatches a request of queue `place` and updates the queue and the measurements.
    fn give(&mut self, now: Nanos, place: u32, id: QueuedId, queue: &Queue) {
        let (offset, end, len) = (queue[id].offset, queue[id].end(), queue[id].len);
        let charge = self.charge(place, len);
        self.fair.serve(place, charge);
        let is_near = self.head == 0 || offset.abs_diff(self.head) <= NEAR_BYTES;
        self.budget_max.give(now, len.into(), self.in_flight, is_near);
        let from = &mut self.queues[place as usize];
        from.give(now, charge);
        from.in_flight += 1;
        self.head = end;
        self.queued -= 1;
        self.in_flight += 1;
        if self.active == Some(place) {
            from.raised.expire(now, &self.burst);
            self.fair.weigh(place, from.weight());
            self.active_end = Some(end);
            self.time(id);
        } else if from.order.is_empty() {
            self.fair.leave(place);
        } else {
            self.next_changed(place, queue);
        }
        self.list(place);
    }
}

impl Elevator for Bfq {
    #[inline]
    fn scope(&self, bio: &Request) -> u32 {
        if bio.is_sync() { self.queue_of(bio) } else { ASYNC }
    }

    /// Reads may use all tags, synchronous writes three quarters, and asynchronous requests half.
    /// Writes may use less while any weight is raised. No queue may use more than its share by
    /// weight.
    fn first_tags(&self, bio: &Request, word: u32) -> u32 {
        let is_raised = self.raised_busy() > 0;
        let first = match (bio.op == Op::Read, bio.is_sync(), is_raised) {
            (true, ..) => word,
            (_, true, false) => word * 3 / 4,
            (_, true, true) => word * 6 / 16,
            (_, false, false) => word / 2,
            (_, false, true) => word * 3 / 16,
        };
        let first = first.max(1);
        let place = match bio.is_sync() {
            true => self.streams.get(bio.stream as usize).and_then(|known| known.queue),
            false => Some(ASYNC),
        };
        let Some((place, (weight, sum))) = place.and_then(|at| Some((at, self.fair.share(at)?)))
        else {
            return first;
        };
        let limit = u64::from(self.config.requests_max) * u64::from(first) / u64::from(word);
        let share = (limit * u64::from(weight) + sum / 2) / sum.max(1);
        // The write-back task plugs its requests, so its last request is counted only when the next
        // one has to wait.
        let plugged = u32::from(bio.flags.has(Flags::WRITE_BACK));
        let allocated = self.queues[place as usize].allocated.saturating_sub(plugged);
        match u64::from(allocated) >= share {
            true => 1,
            false => first,
        }
    }

    fn add(&mut self, now: Nanos, id: QueuedId, queue: &mut Queue) {
        self.now = now;
        let request = queue[id];
        let place = request.scope;
        if place == ASYNC {
            let first = self.budget_max.first();
            let own = self.queue(ASYNC);
            own.budget = if own.budget == 0 { first } else { own.budget };
        } else {
            self.attach(now, request.stream, place);
        }
        let (head, back, slice_idle) = (self.head, self.back, self.config.slice_idle);
        let is_idle = self.fair.is_idle(place);
        let own = self.queue(place);
        let is_first = own.created == Some(now) && own.allocated == 0;
        if own.in_flight == 0 && is_idle {
            own.think.arrive(now, slice_idle);
        }
        own.allocated += 1;
        self.update_think(now, place);
        self.queue(place).seeks.arrive(request.offset, request.end());
        if place != ASYNC {
            let stream = &mut self.streams[request.stream as usize];
            stream.requests += 1;
            if stream.requests == 1 {
                self.first_comes(now, place);
            }
            self.queue(place).observe(now, is_first);
        }
        let own = self.queue(place);
        let next = own.order.next();
        own.order.add(id, head, back, queue);
        let has_changed = own.order.next() != next;
        self.queued += 1;
        if is_idle {
            self.enter(now, place, queue);
        } else {
            if place == ASYNC && self.config.low_latency {
                let lasts = self.budget_max.raised_for();
                self.queue(ASYNC).raised.arrive_async(now, lasts);
            }
            if has_changed {
                self.next_changed(place, queue);
            }
        }
        if self.active == Some(place) {
            self.waited_enough(now, queue);
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
        let (place, back, stream) = (queue[gone].scope, self.back, queue[gone].stream);
        if place != ASYNC {
            self.streams[stream as usize].requests -= 1;
        }
        let own = self.queue(place);
        own.allocated -= 1;
        own.order.join(kept, gone, back, queue);
        self.queued -= 1;
        self.list(place);
    }

    fn take(&mut self, now: Nanos, queue: &mut Queue) -> Option<QueuedId> {
        self.now = now;
        self.end_idle_turn(now, queue);
        if self.queued == 0 {
            return None;
        }
        let place = self.select(now, queue)?;
        let expire = match place {
            ASYNC => self.config.fifo_expire_async,
            _ => self.config.fifo_expire_sync,
        };
        let looks =
            self.active == Some(place) && !std::mem::replace(&mut self.turn.fifo_checked, true);
        let back = self.back;
        let from = self.queue(place);
        let (_, id) = from.order.next()?;
        let expired = if looks { from.order.expired(now, expire, queue) } else { None };
        from.order.take(id, back, queue);
        if let Some(expired) = expired.filter(|&expired| expired != id) {
            from.order.go_first(expired, queue);
        }
        self.give(now, place, id, queue);
        Some(id)
    }

    fn completed(&mut self, now: Nanos, id: QueuedId, queue: &Queue) {
        self.now = now;
        let (place, stream) = (queue[id].scope, queue[id].stream);
        self.timed(now, place, id);
        self.look_at_depth();
        self.in_flight -= 1;
        if place != ASYNC {
            self.streams[stream as usize].requests -= 1;
        }
        self.budget_max.end(now);
        let (slice_idle, is_idle) = (self.config.slice_idle, self.fair.is_idle(place));
        let from = self.queue(place);
        from.in_flight -= 1;
        from.allocated -= 1;
        from.think.last_end = now;
        if from.in_flight == 0 && is_idle {
            from.raised.idle_since = Some(now);
        }
        if from.is_quiet() {
            from.raised.ended(now, slice_idle);
        }
        self.last_ended = (place != ASYNC && !from.is_shared()).then_some((place, now));
        if self.active == Some(place) {
            self.go_on(now, place, queue);
        }
    }

    fn begin_stream(&mut self, stream: u32, queue: &Queue) {
        self.forget(stream, queue);
    }

    #[inline]
    fn wakeup(&self) -> Option<Nanos> {
        self.idle_timer
    }
}
