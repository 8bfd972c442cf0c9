//! A queue of CFQ: the synchronous requests of one stream, or the asynchronous requests of all
//! streams.

use super::service_tree::ServiceKind;
use crate::contract::Nanos;
use crate::elevator::history::SeekHistory;
use crate::elevator::queue::{Queue, QueuedId};
use crate::elevator::seek_order::{BackSeek, SeekOrder};

/// The state of a queue's current or last slice.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slice {
    /// Whether none of the queue's requests has completed since the queue was chosen. Its slice
    /// does not run until then.
    pub(super) is_new: bool,
    pub(super) start: Nanos,
    pub(super) end: Nanos,
    /// The time left unused (positive) or overrun (negative) by the last slice, in nanoseconds.
    pub(super) residual: i64,
    /// The number of requests dispatched in this slice.
    pub(super) given: u32,
    /// Whether the age of the oldest request has been checked in this slice.
    pub(super) fifo_checked: bool,
}

impl Slice {
    #[inline]
    pub(super) fn is_used(&self, now: Nanos) -> bool {
        !self.is_new && now >= self.end
    }
}

/// A CFQ queue.
#[derive(Clone, Debug)]
pub(super) struct StreamQueue {
    pub(super) order: SeekOrder,
    /// The queue's position in the scheduler's list, if it is listed.
    pub(super) listed_at: Option<u64>,
    pub(super) is_sync: bool,
    /// The tree and the key of the queue while it has requests or is active.
    pub(super) waits: Option<(ServiceKind, u64)>,
    /// The number of requests at the device.
    pub(super) in_flight: u32,
    pub(super) slice: Slice,
    pub(super) seeks: SeekHistory,
    /// Whether waiting for the stream's next request is likely to pay.
    pub(super) idle_window: bool,
    /// Whether the queue once had several requests at a time, which excuses its seeks.
    pub(super) deep: bool,
    /// The number of streams that use the queue.
    pub(super) streams: u32,
    /// The queue to which the streams are going to move.
    pub(super) merges_into: Option<u32>,
    /// Whether the queue serves cooperating streams.
    pub(super) shared: bool,
    /// Whether the streams no longer cooperate, so the queue should be split.
    pub(super) splitting: bool,
}

impl StreamQueue {
    pub(super) fn new(is_sync: bool) -> Self {
        StreamQueue {
            order: SeekOrder::default(),
            listed_at: None,
            is_sync,
            waits: None,
            in_flight: 0,
            slice: Slice::default(),
            seeks: SeekHistory::default(),
            idle_window: is_sync,
            deep: false,
            streams: 0,
            merges_into: None,
            shared: false,
            splitting: false,
        }
    }

    /// Resets the statistics about streams, but keeps requests and position.
    pub(super) fn renew(&mut self) {
        self.seeks = SeekHistory::default();
        self.idle_window = self.is_sync;
        (self.deep, self.shared, self.splitting, self.merges_into) = (false, false, false, None);
    }

    /// Returns the kind of service that the queue would get now.
    #[inline]
    pub(super) fn kind(&self) -> ServiceKind {
        match (self.is_sync, self.idle_window) {
            (false, _) => ServiceKind::Async,
            (true, false) => ServiceKind::SyncNoidle,
            (true, true) => ServiceKind::SyncIdle,
        }
    }

    /// Removes `id` from the queue to dispatch it.
    #[inline]
    pub(super) fn give(&mut self, id: QueuedId, back: BackSeek, queue: &mut Queue) {
        self.order.take(id, back, queue);
        self.in_flight += 1;
        self.slice.given += 1;
    }

    /// Returns the oldest request if it is older than `expire`, checking only once per slice.
    #[inline]
    pub(super) fn expired(&mut self, now: Nanos, expire: Nanos, queue: &Queue) -> Option<QueuedId> {
        if std::mem::replace(&mut self.slice.fifo_checked, true) {
            return None;
        }
        self.order.expired(now, expire, queue)
    }
}
