//! One of CFQ's queues: a stream's waited-for requests, or everybody's asynchronous ones.
//!
//! Invariants: the same requests are in `requests` and on `fifo`; `next` is one of them, and none
//! exactly if there are none.

use super::history::SeekHistory;
use super::service_tree::Kind;
use crate::policy::queue::{List, Queue, QueuedId};
use crate::policy::sorted::Sorted;
use crate::time::Nanos;

/// A request with its first byte.
pub(super) type Placed = (u64, QueuedId);

/// How far back the head may go, and at what price.
#[derive(Clone, Copy, Debug)]
pub(super) struct BackSeek {
    pub(super) max: u64,
    pub(super) penalty: u64,
}

impl BackSeek {
    /// The better of two requests with the head at `head`: the nearer one, way back counted
    /// `penalty` times. Requests too far behind come last, lowest first, as after a sweep.
    #[inline]
    fn choose(self, a: Placed, b: Placed, head: u64) -> Placed {
        match (self.cost(a.0, head), self.cost(b.0, head)) {
            (None, None) => a.min(b),
            (Some(_), None) => a,
            (None, Some(_)) => b,
            (Some(x), Some(y)) if x != y => {
                if x < y {
                    a
                } else {
                    b
                }
            }
            _ => a.max(b),
        }
    }

    #[inline]
    fn cost(self, offset: u64, head: u64) -> Option<u64> {
        match offset.checked_sub(head) {
            Some(forward) => Some(forward),
            None => {
                let back = head - offset;
                (back <= self.max).then(|| back.saturating_mul(self.penalty))
            }
        }
    }
}

/// The part of a slice that is running or left over.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slice {
    /// The queue was chosen but none of its requests has completed: its time does not run yet.
    pub(super) is_new: bool,
    pub(super) start: Nanos,
    pub(super) end: Nanos,
    /// Nanoseconds left unused (positive) or overrun (negative) by the last slice.
    pub(super) residual: i64,
    /// Requests given in this slice.
    pub(super) given: u32,
    /// The oldest request's age was looked at in this slice.
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
    requests: Sorted,
    fifo: List,
    /// The request to give next.
    pub(super) next: Option<Placed>,
    /// Where the scheduler lists this queue by position, if it does.
    pub(super) listed_at: Option<u64>,
    pub(super) is_sync: bool,
    /// The kind and key under which it waits for service, while it has requests or is active.
    pub(super) waits: Option<(Kind, u64)>,
    /// Requests at the device.
    pub(super) in_flight: u32,
    pub(super) slice: Slice,
    pub(super) seeks: SeekHistory,
    /// Waiting for its next request pays, from what is known of it.
    pub(super) idle_window: bool,
    /// It once held several requests at a time, which excuses its seeks.
    pub(super) deep: bool,
    /// Streams that use it.
    pub(super) streams: u32,
    /// The queue that its streams shall move to.
    pub(super) merges_into: Option<u32>,
    /// It serves cooperating streams,
    pub(super) shared: bool,
    /// which no longer cooperate.
    pub(super) splitting: bool,
}

impl StreamQueue {
    pub(super) fn new(is_sync: bool) -> Self {
        StreamQueue {
            requests: Sorted::default(),
            fifo: List::default(),
            next: None,
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

    /// Forgets what was learnt of the streams before, keeping requests and place.
    pub(super) fn renew(&mut self) {
        self.seeks = SeekHistory::default();
        self.idle_window = self.is_sync;
        (self.deep, self.shared, self.splitting, self.merges_into) = (false, false, false, None);
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.next.is_none()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// The kind of service it gets when it is placed anew.
    #[inline]
    pub(super) fn kind(&self) -> Kind {
        match (self.is_sync, self.idle_window) {
            (false, _) => Kind::Async,
            (true, false) => Kind::SyncNoidle,
            (true, true) => Kind::SyncIdle,
        }
    }

    #[inline]
    pub(super) fn add(&mut self, id: QueuedId, head: u64, back: BackSeek, queue: &mut Queue) {
        queue.push(&mut self.fifo, id);
        self.place((queue[id].offset, id), head, back);
    }

    #[inline]
    fn place(&mut self, placed: Placed, head: u64, back: BackSeek) {
        self.requests.insert(placed.0, placed.1);
        self.next = Some(match self.next {
            Some(next) => back.choose(next, placed, head),
            None => placed,
        });
    }

    /// The start of `id` has moved from `offset_before`.
    pub(super) fn moved(
        &mut self,
        id: QueuedId,
        offset_before: u64,
        head: u64,
        back: BackSeek,
        queue: &Queue,
    ) {
        self.displace((offset_before, id), back);
        self.place((queue[id].offset, id), head, back);
    }

    /// Removes a request; if it was next, its better neighbour is.
    #[inline]
    fn displace(&mut self, placed: Placed, back: BackSeek) {
        self.requests.remove(placed.0, placed.1);
        if self.next == Some(placed) {
            self.next = self.after(placed.0, back);
        }
    }

    #[inline]
    fn after(&self, offset: u64, back: BackSeek) -> Option<Placed> {
        let above = self.requests.at_or_above(offset).or_else(|| self.requests.first())?;
        let below = self.requests.below(offset);
        Some(below.map_or(above, |below| back.choose(above, below, offset)))
    }

    /// Takes `id` off the queue to give it; the search goes on from there.
    #[inline]
    pub(super) fn give(&mut self, id: QueuedId, back: BackSeek, queue: &mut Queue) {
        let offset = queue[id].offset;
        queue.unlink(&mut self.fifo, id);
        self.requests.remove(offset, id);
        self.next = self.after(offset, back);
        self.in_flight += 1;
        self.slice.given += 1;
    }

    /// `gone` becomes part of `kept`, which takes the older one's place in the fifo.
    pub(super) fn join(
        &mut self,
        kept: QueuedId,
        gone: QueuedId,
        back: BackSeek,
        queue: &mut Queue,
    ) {
        if queue[gone].added < queue[kept].added {
            queue.unlink(&mut self.fifo, kept);
            queue.insert_before(&mut self.fifo, kept, gone);
        }
        queue.unlink(&mut self.fifo, gone);
        let placed = (queue[gone].offset, gone);
        if self.next == Some(placed) {
            self.next = Some((queue[kept].offset, kept));
        }
        self.displace(placed, back);
    }

    /// The oldest request if it is older than `expire`; asked for once a slice.
    #[inline]
    pub(super) fn expired(&mut self, now: Nanos, expire: Nanos, queue: &Queue) -> Option<QueuedId> {
        if std::mem::replace(&mut self.slice.fifo_checked, true) {
            return None;
        }
        self.fifo.front().filter(|&id| queue[id].added + expire <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACK: BackSeek = BackSeek { max: 100, penalty: 2 };

    #[test]
    fn the_way_back_counts_double_and_has_a_limit() {
        let choose = |a: u64, b: u64| BACK.choose((a, 0), (b, 1), 1000).0;
        assert_eq!((choose(1019, 990), choose(990, 1019)), (1019, 1019));
        assert_eq!((choose(1021, 990), choose(990, 1021)), (990, 990));
        assert_eq!(choose(1020, 990), 1020, "forward on a tie");
        assert_eq!(choose(899, 5000), 5000, "one too far behind comes last");
        assert_eq!(choose(900, 5000), 900);
        assert_eq!(choose(300, 200), 200, "of two too far behind the lower");
    }

    #[test]
    fn the_search_goes_on_from_the_last_request_and_wraps() {
        let mut order = StreamQueue::new(true);
        for (offset, id) in [(5000, 0), (6000, 1), (200, 2), (4950, 3)] {
            order.place((offset, id), 5000, BACK);
        }
        let mut given = Vec::new();
        while let Some(next) = order.next {
            order.displace(next, BACK);
            given.push(next.0);
        }
        assert_eq!(given, [5000, 4950, 6000, 200]);
    }
}
