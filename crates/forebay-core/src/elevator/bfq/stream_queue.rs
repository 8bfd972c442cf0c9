//! One of BFQ's queues: a stream's waited-for requests, those of several that cooperate, or
//! everybody's asynchronous ones.

use super::raise::{RAISE, Raised};
use crate::elevator::history::{SeekHistory, ThinkTime};
use crate::elevator::seek_order::SeekOrder;

/// Weight of a queue (Linux `io.bfq.weight`).
const WEIGHT: u32 = 100;

/// More far requests than this of the last 32 make a queue seeky.
const FAR_MAX: u32 = 19;

/// Asynchronous bytes are charged this many times: they tend to come in floods.
const ASYNC_CHARGE: u64 = 3;

/// A BFQ queue.
#[derive(Clone, Debug)]
pub(super) struct StreamQueue {
    pub(super) order: SeekOrder,
    pub(super) is_sync: bool,
    pub(super) weight: u32,
    pub(super) raised: Raised,
    /// Bytes of its next turn; 0 before its first.
    pub(super) budget: u64,
    /// Requests at the device.
    pub(super) in_flight: u32,
    pub(super) seeks: SeekHistory,
    pub(super) think: ThinkTime,
    /// Where the scheduler lists this queue by position, if it does.
    pub(super) listed_at: Option<u64>,
    /// Streams that use it.
    pub(super) streams: u32,
    /// Its streams no longer cooperate and shall use queues of their own.
    pub(super) splitting: bool,
}

impl StreamQueue {
    pub(super) fn new(is_sync: bool) -> Self {
        StreamQueue {
            order: SeekOrder::default(),
            is_sync,
            weight: WEIGHT,
            raised: Raised::default(),
            budget: 0,
            in_flight: 0,
            seeks: SeekHistory::default(),
            think: ThinkTime::default(),
            listed_at: None,
            streams: 0,
            splitting: false,
        }
    }

    /// Its weight, raising included.
    #[inline]
    pub(super) fn weight(&self) -> u32 {
        if self.raised.is_raised() { self.weight.saturating_mul(RAISE) } else { self.weight }
    }

    #[inline]
    pub(super) fn is_seeky(&self) -> bool {
        self.seeks.far() > FAR_MAX
    }

    /// What a request of `len` bytes costs of the budget.
    #[inline]
    pub(super) fn charge(&self, len: u32) -> u64 {
        u64::from(len) * if self.is_sync { 1 } else { ASYNC_CHARGE }
    }
}
