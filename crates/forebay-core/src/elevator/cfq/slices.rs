//! Slices: how long a queue has the disk, when CFQ waits for a queue, and what a queue is charged
//! at the end.

use super::service_tree::ServiceKind;
use super::stream_queue::Slice;
use super::{ASYNC, Cfq};
use crate::contract::Nanos;

/// Computes `value * part / whole` without overflow.
#[inline]
pub(super) fn share(value: Nanos, part: u64, whole: u64) -> Nanos {
    let product = u128::from(value.0) * u128::from(part);
    Nanos(u64::try_from(product / u128::from(whole.max(1))).unwrap_or(u64::MAX))
}

#[inline]
fn signed(span: Nanos) -> i64 {
    i64::try_from(span.0).unwrap_or(i64::MAX)
}

impl Cfq {
    fn slice_base(&self, place: u32) -> Nanos {
        if place == ASYNC { self.config.slice_async } else { self.config.slice_sync }
    }

    /// Returns the slice of a queue. With `low_latency`, it shrinks if there are too many queues
    /// for the target latency.
    fn slice_len(&mut self, place: u32) -> Nanos {
        let slice = self.slice_base(place);
        if !self.config.low_latency {
            return slice;
        }
        let (sync, target) = (self.config.slice_sync, self.config.target_latency);
        let busy = self.busy() as u64;
        // The mean changes slowly, but rises faster than it falls.
        self.busy_mean = (3 * self.busy_mean.max(busy) + self.busy_mean.min(busy) + 2) / 4;
        let expected = Nanos(sync.0.saturating_mul(self.busy_mean));
        if expected <= target {
            return slice;
        }
        let idles = Nanos(self.config.slice_idle.0.saturating_mul(2));
        let least = slice.min(share(idles, slice.0, sync.0));
        share(slice, target.0, expected.0).max(least)
    }

    /// Adds a queue that received requests to a service tree.
    pub(super) fn enter(&mut self, now: Nanos, place: u32) {
        self.busy_sync += u32::from(place != ASYNC);
        self.place(now, place);
    }

    /// Adds a queue to the tree of its kind. Its turn is later if there are more queues and if its
    /// slices are shorter than the longest.
    pub(super) fn place(&mut self, now: Nanos, place: u32) {
        // A queue that enters the tree is not included in the count, so it precedes a queue whose
        // slice has just ended.
        let others = self.busy() as i64 - 1;
        self.displace(place);
        // The best priority has the longest slice. It is four steps away, and each step adds a
        // fifth.
        let longest = Nanos(self.config.slice_sync.0 / 5 * 9);
        let offset = others.saturating_mul(signed(longest - self.slice_base(place)));
        let queue = &mut self.queues[place as usize];
        let residual = std::mem::take(&mut queue.slice.residual);
        let kind = queue.kind();
        let key = self.trees[kind as usize].add(now, offset.saturating_sub(residual), place);
        queue.waits = Some((kind, key));
    }

    pub(super) fn displace(&mut self, place: u32) {
        if let Some((kind, key)) = self.queues[place as usize].waits.take() {
            self.trees[kind as usize].remove(key, place);
        }
    }

    /// Ends the active queue's slice. If `charged`, unused or exceeded time is carried over to its
    /// next slice.
    pub(super) fn expire(&mut self, now: Nanos, charged: bool) {
        let Some(place) = self.active.take() else { return };
        self.idle_timer = None;
        if charged {
            let residual = match self.queues[place as usize].slice {
                Slice { is_new: true, .. } => signed(self.slice_len(place)),
                Slice { end, .. } => signed(end - now) - signed(now - end),
            };
            self.queue(place).slice.residual = residual;
        }
        let queue = self.queue(place);
        queue.splitting |= queue.shared && queue.seeks.is_seeky();
        if queue.order.is_empty() {
            self.displace(place);
            self.busy_sync -= u32::from(place != ASYNC);
        } else {
            self.place(now, place);
            self.list(place);
        }
    }

    /// Updates counts and statistics after a completion.
    #[inline]
    pub(super) fn count_completed(&mut self, now: Nanos, place: u32, stream: u32, added: Nanos) {
        let queue = &mut self.queues[place as usize];
        queue.in_flight -= 1;
        self.in_flight[usize::from(place != ASYNC)] -= 1;
        if place == ASYNC {
            return;
        }
        let kind = queue.waits.map_or_else(|| queue.kind(), |(kind, _)| kind);
        self.streams[stream as usize].think.last_end = now;
        self.trees[kind as usize].think.last_end = now;
        if added + self.config.fifo_expire_sync <= now {
            self.last_delayed_sync = Some(now);
        }
    }

    /// Handles a completion of the active queue: starts or ends its slice, or starts to wait for
    /// its next request.
    #[inline]
    pub(super) fn continue_slice(&mut self, now: Nanos, place: u32, stream: u32) {
        if self.queues[place as usize].slice.is_new {
            let len = self.slice_len(place);
            let slice = &mut self.queue(place).slice;
            (slice.is_new, slice.start, slice.end) = (false, now, now + len);
        }
        let queue = &self.queues[place as usize];
        if queue.slice.is_used(now) {
            self.expire(now, true);
        } else if place != ASYNC && queue.order.is_empty() && self.close_queue(place).is_none() {
            self.start_idling(now, place, stream);
        }
    }

    /// Returns whether to wait for a queue: whether it is sequential, or is the last seeking queue.
    #[inline]
    pub(super) fn should_idle(&self, place: u32) -> bool {
        let idle = self.config.slice_idle;
        if idle == Nanos::ZERO {
            return false;
        }
        let queue = &self.queues[place as usize];
        if queue.idle_window {
            return true;
        }
        let kind = queue.waits.map_or_else(|| queue.kind(), |(kind, _)| kind);
        let tree = &self.trees[kind as usize];
        kind != ServiceKind::Async && tree.len() == 1 && !tree.think.exceeds(idle)
    }

    /// Waits for the active queue's next request, unless the think time of `stream` exceeds the
    /// rest of the slice.
    fn start_idling(&mut self, now: Nanos, place: u32, stream: u32) {
        let queue = &self.queues[place as usize];
        if queue.in_flight > 0 || !self.should_idle(place) {
            return;
        }
        if !self.streams[stream as usize].think.exceeds(queue.slice.end - now) {
            self.idle_timer = Some(now + self.config.slice_idle);
        }
    }

    /// Ends the active queue's slice if the wait for its next request has expired.
    #[inline]
    pub(super) fn stop_idling(&mut self, now: Nanos) {
        let (Some(at), Some(place)) = (self.idle_timer, self.active) else { return };
        if at <= now {
            self.idle_timer = None;
            let queue = self.queue(place);
            queue.deep &= queue.slice.is_used(now);
            self.expire(now, false);
        }
    }
}
