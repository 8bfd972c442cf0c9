//! A queue of BFQ: the synchronous requests of one stream or of several cooperating streams, or the
//! asynchronous requests of all streams.

use super::inject::Injection;
use super::raise::Raised;
use crate::contract::Nanos;
use crate::elevator::history::{SeekHistory, ThinkTime};
use crate::elevator::seek_order::SeekOrder;

/// The weight of a queue (Linux `io.bfq.weight`).
const WEIGHT: u32 = 100;

/// A queue is seeky if more than this many of its last 32 requests were far from the previous one.
const FAR_MAX: u32 = 19;

/// The period over which the scheduler tracks whether a queue is almost always busy.
const WINDOW: Nanos = Nanos::from_millis(200);

/// A BFQ queue.
#[derive(Clone, Debug)]
pub(super) struct StreamQueue {
    pub(super) order: SeekOrder,
    pub(super) is_sync: bool,
    pub(super) raised: Raised,
    /// The raising of the stream before it joined a shared queue.
    pub(super) raised_alone: Option<Raised>,
    /// The budget per turn in bytes; 0 before the first turn.
    pub(super) budget: u64,
    /// The number of requests in the queue and at the device; `in_flight` counts those at the
    /// device.
    pub(super) allocated: u32,
    pub(super) in_flight: u32,
    pub(super) seeks: SeekHistory,
    pub(super) think: ThinkTime,
    /// Whether the mean think time is less than half of the idle time; true until it is known.
    pub(super) thinks_briefly: bool,
    /// Whether the queue ran out of requests in its last turn before its budget was used up.
    pub(super) may_be_back: bool,
    pub(super) injection: Injection,
    /// Whether the queue is almost always busy.
    pub(super) is_io_bound: bool,
    observed_since: Nanos,
    idle_for: Nanos,
    /// When the first request was dispatched since the queue was last empty.
    pub(super) first_given: Nanos,
    /// When the first request arrived; `None` before that.
    pub(super) created: Option<Nanos>,
    /// When the queue's stream returned to it from a shared queue.
    pub(super) split: Option<Nanos>,
    /// The queue's position in the scheduler's list, if it is listed.
    pub(super) listed_at: Option<u64>,
    /// The number of streams that use the queue.
    pub(super) streams: u32,
    /// Whether the streams no longer cooperate and should use separate queues.
    pub(super) splitting: bool,
    /// A queue that began shortly before, which this queue may join once it has been observed long
    /// enough.
    pub(super) sibling: Option<u32>,
    /// Whether the streams started together and are one task, so they are never separated.
    pub(super) is_family: bool,
}

impl StreamQueue {
    pub(super) fn new(is_sync: bool) -> Self {
        StreamQueue {
            order: SeekOrder::default(),
            is_sync,
            raised: Raised::default(),
            raised_alone: None,
            budget: 0,
            allocated: 0,
            in_flight: 0,
            seeks: SeekHistory::default(),
            think: ThinkTime::default(),
            thinks_briefly: is_sync,
            may_be_back: false,
            injection: Injection::default(),
            is_io_bound: true,
            observed_since: Nanos::ZERO,
            idle_for: Nanos::ZERO,
            first_given: Nanos::ZERO,
            created: None,
            split: None,
            listed_at: None,
            streams: 0,
            splitting: false,
            sibling: None,
            is_family: false,
        }
    }

    /// Initializes the queue when its first request arrives.
    pub(super) fn begin(&mut self, now: Nanos, raised: Raised, budget: u64) {
        self.created = Some(now);
        (self.raised, self.budget) = (raised, budget);
        self.think.last_end = now;
        self.observed_since = now;
        self.injection.changed = now;
    }

    /// Forgets all except requests, because another stream is going to use the queue.
    pub(super) fn renew(&mut self) {
        let fresh = StreamQueue::new(self.is_sync);
        let old = std::mem::replace(self, fresh);
        (self.order, self.listed_at) = (old.order, old.listed_at);
        (self.allocated, self.in_flight) = (old.allocated, old.in_flight);
    }

    /// Forgets how the queue depends on queue `place`, which another stream is going to use.
    pub(super) fn forget(&mut self, place: u32) {
        self.sibling = self.sibling.filter(|&sibling| sibling != place);
        self.injection.forget(place);
    }

    /// Returns the weight, including raising.
    #[inline]
    pub(super) fn weight(&self) -> u32 {
        WEIGHT.saturating_mul(self.raised.factor())
    }

    #[inline]
    pub(super) fn is_seeky(&self) -> bool {
        self.seeks.far() > FAR_MAX
    }

    /// Returns whether each of the last 32 requests needed a seek.
    #[inline]
    pub(super) fn always_seeks(&self) -> bool {
        self.seeks.far() == u32::BITS
    }

    /// Returns whether several streams use the queue.
    #[inline]
    pub(super) fn is_shared(&self) -> bool {
        self.streams > 1
    }

    /// Returns whether the queue has no requests, neither waiting nor at the device.
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        self.order.is_empty() && self.in_flight == 0
    }

    /// Updates whether the queue is busy for at least four fifths of the time, when a request
    /// arrives.
    pub(super) fn observe(&mut self, now: Nanos, is_first: bool) {
        let observed = now - self.observed_since;
        if self.is_quiet() {
            self.idle_for += now - self.think.last_end;
        }
        if is_first {
            return;
        }
        self.is_io_bound = self.idle_for.0.saturating_mul(5) <= observed.0;
        if observed > WINDOW {
            self.observed_since = now - Nanos(observed.0 / 2);
            self.idle_for = Nanos(self.idle_for.0 / 2);
        }
    }

    /// Records that `bytes` were dispatched.
    pub(super) fn give(&mut self, now: Nanos, bytes: u64) {
        if self.raised.busy_bytes == 0 {
            self.first_given = now;
        }
        self.raised.give(bytes);
    }
}
