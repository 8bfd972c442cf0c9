//! Requests of one kind, sorted by address and by age, and the choice of the next one for the head.
//!
//! Source: Linux's CFQ, which anticipatory and BFQ follow: a backward move of limited length is
//! compared with a forward move, at a higher cost.
//!
//! Invariants: `requests` and `fifo` contain the same requests; `next` is one of these requests,
//! and None exactly if there are none.

use super::{List, Queue, QueuedId, Sorted};
use crate::contract::Nanos;

/// The offset and id of a request.
pub(crate) type Placed = (u64, QueuedId);

/// The maximum backward distance of the head, and the factor by which it is multiplied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackSeek {
    pub(crate) max: u64,
    pub(crate) penalty: u64,
}

impl BackSeek {
    /// Returns the request that is nearer to `head`; a backward distance is multiplied by
    /// `penalty`. Requests too far behind come last, lowest first, as after a sweep.
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

/// Requests in seek order, with a cursor at the next request.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeekOrder {
    requests: Sorted,
    fifo: List,
    next: Option<Placed>,
}

impl SeekOrder {
    /// Returns the next request.
    #[inline]
    pub(crate) fn next(&self) -> Option<Placed> {
        self.next
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.next.is_none()
    }

    /// Returns the request that has waited longest.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<QueuedId> {
        self.fifo.front()
    }

    /// Returns the request that has waited longest if it is older than `expire`.
    #[inline]
    pub(crate) fn expired(&self, now: Nanos, expire: Nanos, queue: &Queue) -> Option<QueuedId> {
        self.oldest().filter(|&id| queue[id].added + expire <= now)
    }

    #[inline]
    pub(crate) fn add(&mut self, id: QueuedId, head: u64, back: BackSeek, queue: &mut Queue) {
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

    /// Moves `id`, whose offset was `offset_before`, to its new offset.
    pub(crate) fn moved(
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

    /// Removes a request. If it was the next one, the better of its neighbors becomes the next.
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

    /// Removes `id`; the next request is chosen as seen from its position.
    #[inline]
    pub(crate) fn take(&mut self, id: QueuedId, back: BackSeek, queue: &mut Queue) {
        let offset = queue[id].offset;
        queue.unlink(&mut self.fifo, id);
        self.requests.remove(offset, id);
        self.next = self.after(offset, back);
    }

    /// Makes `id`, which must be one of the requests, the next request.
    pub(crate) fn go_first(&mut self, id: QueuedId, queue: &Queue) {
        self.next = Some((queue[id].offset, id));
    }

    /// Merges `gone` into `kept`, which takes the earlier of the two positions in the FIFO.
    pub(crate) fn join(
        &mut self,
        kept: QueuedId,
        gone: QueuedId,
        back: BackSeek,
        queue: &mut Queue,
    ) {
        queue.join_on(&mut self.fifo, kept, gone);
        let placed = (queue[gone].offset, gone);
        if self.next == Some(placed) {
            self.next = Some((queue[kept].offset, kept));
        }
        self.displace(placed, back);
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
        let mut order = SeekOrder::default();
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
