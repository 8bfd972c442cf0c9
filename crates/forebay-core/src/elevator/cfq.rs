//! CFQ: streams take turns; each has exclusive use of the disk for a slice of time.
//!
//! Source: Linux `cfq-iosched` of the single-queue block layer (3.x and 4.x) as described in its
//! documentation and tuning guides, and its observable behavior. Reads and synchronous writes are
//! queued by stream, other writes in one queue for all streams. Three kinds of queue (synchronous
//! and sequential; synchronous and seeking; asynchronous) are served in turns. A queue's slice
//! begins when its first request completes; an overrun is charged to its next turn. CFQ waits for a
//! sequential stream with short think times (`slice_idle`) even if others have requests; it waits
//! for all seeking streams together, at the end of their turn. Streams that read close to each
//! other share a queue, and separate again when it begins to seek.
//!
//! Files: a queue ([`stream_queue`]), the history of streams ([`super::history`]), the order of
//! queues ([`service_tree`]), slices and idling ([`slices`]), the choice of the active queue
//! ([`select`]), shared queues ([`cooperate`]).
//!
//! Invariants: the service trees contain the active queue and every queue with requests, and no
//! others. The idle timer runs only for an active queue without requests in the queue or at the
//! device.
//!
//! Departures: there is one priority (best effort, 4) and no groups, so features that depend on
//! them are absent (`group_idle`, classes, boosts); the disk has moving parts, so the rules for
//! flash are absent; there is no hint against idling after single sync writes (`REQ_NOIDLE`), and
//! no priority for metadata (`REQ_PRIO`); the end of a stream is not known; a small request is not
//! delayed so that it can grow; time is in nanoseconds, not ticks; a request that grows at its end
//! counts as a single request in the seek history, as plugging would make it; a shared queue
//! separates as soon as it seeks (later kernels), not after a second (2.6.33); the close queue is
//! the next one above the head, or else the next below.

mod cooperate;
mod select;
mod service_tree;
mod slices;
mod stream_queue;
#[cfg(test)]
mod tests;

use super::{
    BackSeek, Elevator, ElevatorVisitor, Limits, PaperCfq, Queue, QueuedId, Scheduler, Sorted,
    ThinkTime,
};
use crate::contract::{Given, Listed, Nanos, Origin, Parameter, Request, SpecError};
use service_tree::{ServiceKind, ServiceTree};
use stream_queue::StreamQueue;

/// The parameters that the scheduler accepts.
const PARAMETERS: &[Parameter] = &[
    Parameter::choice("form", &["linux", "paper"])
        .about("as in Linux, or as in the BID paper's example, which uses only quantum"),
    Parameter::whole("quantum", 8, 1).about(
        "maximum number of a stream's requests at the device while others wait; with the \
         paper's rules, per round",
    ),
    Parameter::millis("slice-sync-ms", 100.0)
        .about("how long a stream may use the disk for its reads and synchronous writes"),
    Parameter::millis("slice-async-ms", 40.0)
        .about("how long a stream may use the disk for other writes"),
    Parameter::millis("slice-idle-ms", 8.0)
        .about("how long to wait for a stream's next request; 0: never"),
    Parameter::millis("fifo-expire-sync-ms", 125.0)
        .about("a read or synchronous write older than this is served first in its stream's slice"),
    Parameter::millis("fifo-expire-async-ms", 250.0)
        .about("the corresponding age for other writes"),
    Parameter::whole("back-seek-max-kib", 16_384, 0).about(
        "the maximum distance behind the head at which a request competes with requests ahead",
    ),
    Parameter::whole("back-seek-penalty", 2, 1)
        .about("the factor by which backward distances are multiplied"),
    Parameter::choice("low-latency", &["yes", "no"])
        .about("whether slices shrink with more streams, and late reads delay other writes"),
];

impl Scheduler for Cfq {
    const LISTED: Listed = Listed {
        name: "cfq",
        origin: Origin::LinuxBefore5,
        summary: "streams take turns; each has exclusive use of the disk for a slice of time",
        parameters: &[PARAMETERS],
    };

    fn visit<V: ElevatorVisitor>(given: &Given<'_>, visitor: V) -> Result<V::Out, SpecError> {
        let is_linux = given.is_first("form")?;
        let config = CfqConfig::given(given)?;
        Ok(match is_linux {
            true => visitor.visit(Cfq::new(config)),
            false => visitor.visit(PaperCfq::new(config.quantum)),
        })
    }

    fn limits(_given: &Given<'_>, limits: Limits) -> Result<Limits, SpecError> {
        Ok(limits.legacy())
    }
}

/// The index of the asynchronous queue in [`Cfq::queues`], and of asynchronous counts in pairs.
const ASYNC: u32 = 0;

/// The scheduler's tunables, under Linux's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CfqConfig {
    /// The maximum number of requests of one queue at the device while others wait.
    pub quantum: u32,
    /// The slice of a stream's queue.
    pub slice_sync: Nanos,
    /// The slice of the asynchronous queue.
    pub slice_async: Nanos,
    /// The maximum number of requests in a slice of the asynchronous queue, divided by 8 (at this
    /// priority).
    pub slice_async_rq: u32,
    /// How long to wait for a stream; 0 disables waiting.
    pub slice_idle: Nanos,
    /// The age from which a synchronous request is served first in its queue's slice.
    pub fifo_expire_sync: Nanos,
    /// The age from which an asynchronous request is served first in its queue's slice.
    pub fifo_expire_async: Nanos,
    /// The longest backward distance, in bytes, that is compared with the forward distance.
    pub back_seek_max: u64,
    /// The factor by which backward distances are multiplied.
    pub back_seek_penalty: u32,
    /// Whether slices shrink with many streams, and asynchronous depth grows slowly.
    pub low_latency: bool,
    /// The time within which every stream should get a turn.
    pub target_latency: Nanos,
}

impl CfqConfig {
    fn given(given: &Given<'_>) -> Result<CfqConfig, SpecError> {
        Ok(CfqConfig {
            quantum: given.whole("quantum")?,
            slice_sync: given.millis("slice-sync-ms")?,
            slice_async: given.millis("slice-async-ms")?,
            slice_async_rq: 2,
            slice_idle: given.millis("slice-idle-ms")?,
            fifo_expire_sync: given.millis("fifo-expire-sync-ms")?,
            fifo_expire_async: given.millis("fifo-expire-async-ms")?,
            back_seek_max: 1024 * u64::from(given.whole("back-seek-max-kib")?),
            back_seek_penalty: given.whole("back-seek-penalty")?,
            low_latency: given.is_first("low-latency")?,
            target_latency: Nanos::from_millis(300),
        })
    }
}

impl Default for CfqConfig {
    fn default() -> Self {
        Given::defaults(PARAMETERS, CfqConfig::given)
    }
}

/// The state of a stream.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// The queue of the stream, after its first synchronous request.
    queue: Option<u32>,
    think: ThinkTime,
}

/// Linux's CFQ elevator.
#[derive(Clone, Debug)]
pub struct Cfq {
    config: CfqConfig,
    back: BackSeek,
    /// The asynchronous queue, followed by at least one queue per stream.
    queues: Vec<StreamQueue>,
    streams: Vec<Stream>,
    /// The order of queues, by [`ServiceKind`].
    trees: [ServiceTree; 3],
    /// The synchronous queues with requests, by the position of their next request, except the
    /// active queue.
    positions: Sorted,
    active: Option<u32>,
    serving: ServiceKind,
    /// The time until which queues of the current kind precede others.
    kind_end: Option<Nanos>,
    /// When the wait for the active queue's next request ends.
    idle_timer: Option<Nanos>,
    /// The end of the last dispatched request.
    head: u64,
    /// The number of requests in queues.
    queued: u32,
    /// The number of requests at the device: asynchronous, then synchronous.
    in_flight: [u32; 2],
    /// The number of synchronous queues in service trees.
    busy_sync: u32,
    /// A slow mean of the number of queues in service trees.
    busy_mean: u64,
    /// When a synchronous request last completed late.
    last_delayed_sync: Option<Nanos>,
}

impl Cfq {
    /// Creates an empty elevator.
    pub fn new(config: CfqConfig) -> Self {
        Cfq {
            config,
            back: BackSeek {
                max: config.back_seek_max,
                penalty: u64::from(config.back_seek_penalty),
            },
            queues: vec![StreamQueue::new(false)],
            streams: Vec::new(),
            trees: Default::default(),
            positions: Sorted::default(),
            active: None,
            serving: ServiceKind::SyncIdle,
            kind_end: None,
            idle_timer: None,
            head: 0,
            queued: 0,
            in_flight: [0; 2],
            busy_sync: 0,
            busy_mean: 0,
            last_delayed_sync: None,
        }
    }

    #[inline]
    fn queue(&mut self, place: u32) -> &mut StreamQueue {
        &mut self.queues[place as usize]
    }

    /// Returns the number of queues in service trees, including the active one.
    #[inline]
    fn busy(&self) -> usize {
        self.trees.iter().map(ServiceTree::len).sum()
    }

    /// Updates statistics after the arrival of a request, which is already in its queue.
    #[inline]
    fn learn(&mut self, now: Nanos, place: u32, stream: u32, offset: u64, end: u64) {
        let idle = self.config.slice_idle;
        let queue = &mut self.queues[place as usize];
        queue.seeks.arrive(offset, end);
        if place == ASYNC {
            return;
        }
        let think = &mut self.streams[stream as usize].think;
        think.arrive(now, idle);
        queue.deep |= queue.order.len() >= 4;
        if idle == Nanos::ZERO || (!queue.deep && queue.seeks.is_seeky()) {
            queue.idle_window = false;
        } else if think.is_known() {
            queue.idle_window = !think.exceeds(idle);
        }
        if let Some((kind, _)) = queue.waits {
            self.trees[kind as usize].think.arrive(now, idle);
        }
    }

    /// Updates the position of a queue in [`Cfq::positions`].
    #[inline]
    fn list(&mut self, place: u32) {
        if place == ASYNC {
            return;
        }
        let queue = &mut self.queues[place as usize];
        let next = if self.active == Some(place) { None } else { queue.order.next() };
        self.positions.list(place, &mut queue.listed_at, next.map(|next| next.0));
    }

    #[inline]
    fn give(&mut self, place: u32, id: QueuedId, queue: &mut Queue) {
        let back = self.back;
        self.queue(place).give(id, back, queue);
        self.head = queue[id].end();
        self.queued -= 1;
        self.in_flight[usize::from(place != ASYNC)] += 1;
    }
}

impl Elevator for Cfq {
    #[inline]
    fn scope(&self, bio: &Request) -> u32 {
        if bio.is_sync() { self.queue_of(bio.stream) } else { ASYNC }
    }

    fn add(&mut self, now: Nanos, id: QueuedId, queue: &mut Queue) {
        let request = queue[id];
        let place = request.scope;
        if place != ASYNC {
            self.attach(now, request.stream, place);
        }
        let (head, back) = (self.head, self.back);
        self.queue(place).order.add(id, head, back, queue);
        self.queued += 1;
        if self.queue(place).waits.is_none() {
            self.enter(now, place);
        }
        self.learn(now, place, request.stream, request.offset, request.end());
        if self.active == Some(place) {
            self.idle_timer = None;
        } else if self.should_preempt(now, place, request.offset) {
            self.preempt(now, place);
        }
        self.list(place);
    }

    fn grown(&mut self, _now: Nanos, id: QueuedId, offset_before: u64, queue: &mut Queue) {
        let request = &queue[id];
        let (head, back) = (self.head, self.back);
        let place = request.scope;
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
        self.stop_idling(now);
        if self.queued == 0 {
            return None;
        }
        let place = self.select(now)?;
        if !self.may_give(now, place) {
            return None;
        }
        let expire = match place {
            ASYNC => self.config.fifo_expire_async,
            _ => self.config.fifo_expire_sync,
        };
        let from = self.queue(place);
        let id = from.expired(now, expire, queue).or(from.order.next().map(|next| next.1))?;
        self.give(place, id, queue);
        self.end_async_batch(now, place);
        Some(id)
    }

    fn completed(&mut self, now: Nanos, id: QueuedId, queue: &Queue) {
        let request = &queue[id];
        self.count_completed(now, request.scope, request.stream, request.added);
        if self.active == Some(request.scope) {
            self.continue_slice(now, request.scope, request.stream);
        }
    }

    fn begin_stream(&mut self, stream: u32, _queue: &Queue) {
        self.detach(stream);
    }

    #[inline]
    fn wakeup(&self) -> Option<Nanos> {
        self.idle_timer
    }
}
