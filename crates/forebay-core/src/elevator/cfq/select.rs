//! Selection: chooses the active queue, which of its requests to dispatch, and which queues may
//! preempt it.

use super::service_tree::ServiceKind;
use super::slices::share;
use super::stream_queue::Slice;
use super::{ASYNC, Cfq};
use crate::contract::Nanos;

/// The minimum time for which one kind of queue has the disk.
const KIND_SLICE_MIN: Nanos = Nanos::from_millis(2);

impl Cfq {
    /// Returns the queue to serve now, which becomes the active one; `None` to wait for the active
    /// one. At least one queue must have requests.
    #[inline]
    pub(super) fn select(&mut self, now: Nanos) -> Option<u32> {
        let mut close = None;
        if let Some(place) = self.active {
            let queue = &self.queues[place as usize];
            let used = queue.slice.is_used(now);
            if !used && !queue.order.is_empty() {
                return Some(place);
            }
            if !used {
                close = self.close_queue(place);
                if let Some(close) = close {
                    self.plan_merge(place, close);
                } else if self.idle_timer.is_some() || self.waits_for_device(now, place) {
                    return None;
                }
            }
            self.expire(now, false);
        }
        let place = close.or_else(|| self.first_queue(now))?;
        self.activate(place);
        Some(place)
    }

    /// Returns whether to wait until requests of the active queue, which is empty, complete at the
    /// device.
    fn waits_for_device(&mut self, now: Nanos, place: u32) -> bool {
        let queue = self.queue(place);
        let Slice { is_new, start, end, .. } = queue.slice;
        // The device completes seeks faster than the stream issues them.
        if queue.seeks.is_seeky() && queue.idle_window && (is_new || end - now > now - start) {
            (queue.deep, queue.idle_window) = (false, false);
        }
        queue.in_flight > 0 && self.should_idle(place)
    }

    /// Makes `place` the active queue and starts a new slice.
    fn activate(&mut self, place: u32) {
        self.active = Some(place);
        self.idle_timer = None;
        let residual = self.queue(place).slice.residual;
        self.queue(place).slice = Slice { is_new: true, residual, ..Slice::default() };
        self.list(place);
    }

    /// Returns the first queue of the current kind, after choosing a new kind if its time is over.
    fn first_queue(&mut self, now: Nanos) -> Option<u32> {
        let tree = &self.trees[self.serving as usize];
        if tree.len() == 0 || self.kind_end.is_none_or(|end| now > end) {
            self.choose_kind(now);
        }
        self.trees[self.serving as usize].first().map(|(_, place)| place)
    }

    /// Switches to the kind of queues whose first queue is due first. This kind gets a share of the
    /// target latency in proportion to its number of queues.
    fn choose_kind(&mut self, now: Nanos) {
        let due = |kind: &ServiceKind| self.trees[*kind as usize].first().map(|(key, _)| key);
        let first = ServiceKind::ALL.into_iter().filter(|kind| due(kind).is_some()).min_by_key(due);
        let Some(kind) = first else { return };
        self.serving = kind;
        let target = self.config.target_latency;
        let (count, busy) = (self.trees[kind as usize].len() as u64, self.busy() as u64);
        let mut slice = share(target, count, busy.max(self.busy_mean));
        if kind == ServiceKind::Async {
            slice = slice.min(share(target, count, busy));
            slice = share(slice, self.config.slice_async.0, self.config.slice_sync.0);
        } else {
            slice = slice.max(Nanos(self.config.slice_idle.0.saturating_mul(2)));
        }
        self.kind_end = Some(now + slice.max(KIND_SLICE_MIN));
    }

    /// Returns whether the active queue, which has requests, may send another one to the device.
    #[inline]
    pub(super) fn may_give(&self, now: Nanos, place: u32) -> bool {
        let queue = &self.queues[place as usize];
        let [async_in_flight, sync_in_flight] = self.in_flight;
        // Before a synchronous stream has the disk to itself, asynchronous requests must complete.
        if async_in_flight > 0 && self.should_idle(place) {
            return false;
        }
        // Asynchronous requests start only while no synchronous request is at the device.
        if sync_in_flight > 0 && place == ASYNC {
            return false;
        }
        let mut most = (self.config.quantum / 2).max(1);
        if queue.in_flight >= most {
            let only_sync = place != ASYNC && self.busy_sync == 1;
            let alone = self.busy() == 1;
            if !alone && !only_sync && self.is_used_soon(now, place) {
                return false;
            }
            most = if alone || only_sync { u32::MAX } else { self.config.quantum };
        }
        if place == ASYNC && self.config.low_latency {
            most = most.min(self.async_depth(now, queue.in_flight));
        }
        queue.in_flight < most
    }

    /// Returns whether the requests at the device will use up the slice.
    #[inline]
    fn is_used_soon(&self, now: Nanos, place: u32) -> bool {
        let queue = &self.queues[place as usize];
        let needed = self.config.slice_idle.0.saturating_mul(u64::from(queue.in_flight));
        queue.slice.is_new || now + Nanos(needed) > queue.slice.end
    }

    /// Returns the maximum number of asynchronous requests at the device. It grows with the time
    /// since a synchronous request was last late.
    fn async_depth(&self, now: Nanos, in_flight: u32) -> u32 {
        let calm = self.last_delayed_sync.map_or(Nanos::from_secs(1) + now, |at| now - at);
        let depth = calm.0 / self.config.slice_sync.0.max(1);
        match u32::try_from(depth).unwrap_or(u32::MAX) {
            0 if in_flight == 0 => 1,
            depth => depth,
        }
    }

    /// Ends the slice of the asynchronous queue when it has dispatched its number of requests, if
    /// other queues wait.
    #[inline]
    pub(super) fn end_async_batch(&mut self, now: Nanos, place: u32) {
        let most = self.config.slice_async_rq.saturating_mul(8);
        if place == ASYNC && self.queues[0].slice.given >= most && self.busy() > 1 {
            self.expire(now, false);
        }
    }

    /// Returns whether a request at `offset`, which has just arrived in queue `place`, ends the
    /// active queue's slice.
    #[inline]
    pub(super) fn should_preempt(&self, now: Nanos, place: u32, offset: u64) -> bool {
        let Some(active) = self.active else { return false };
        let running = &self.queues[active as usize];
        if place != ASYNC && active == ASYNC || running.slice.is_used(now) {
            return true;
        }
        if !running.order.is_empty() {
            return false;
        }
        // Seeking streams do not wait for each other.
        let seeks = self.queues[place as usize].kind() == ServiceKind::SyncNoidle;
        if seeks && self.serving == ServiceKind::SyncNoidle || !self.should_idle(active) {
            return true;
        }
        // The request is about as close as the expected one.
        place != ASYNC && self.idle_timer.is_some() && self.is_close(offset)
    }

    /// Ends the active queue's slice in favor of `place`, which becomes the first in its tree.
    pub(super) fn preempt(&mut self, now: Nanos, place: u32) {
        let old = self.active.map(|active| self.queues[active as usize].kind());
        self.expire(now, true);
        let kind = self.queues[place as usize].kind();
        if old != Some(kind) {
            self.kind_end = None;
        }
        self.displace(place);
        let key = self.trees[kind as usize].add_front(now, place);
        self.queue(place).waits = Some((kind, key));
    }
}
