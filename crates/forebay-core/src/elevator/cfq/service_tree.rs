//! The order in which queues are served: one tree per kind of queue, sorted by key.
//!
//! A key is a time, slightly later for queues with short slices; the queue with the lowest key is
//! served first. Invariant: a queue is in the tree that its
//! [`super::stream_queue::StreamQueue::waits`] names from its first request until its slice ends
//! without any requests. This includes the active queue.

use crate::contract::Nanos;
use crate::elevator::history::ThinkTime;
use crate::elevator::sorted::Sorted;

/// The kinds of queues, which are served in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServiceKind {
    /// Sequential streams, for each of which the scheduler waits individually.
    SyncIdle,
    /// Synchronous streams that seek or think for a long time; the scheduler waits for all of them
    /// together.
    SyncNoidle,
    /// Asynchronous requests.
    Async,
}

impl ServiceKind {
    pub(super) const ALL: [ServiceKind; 3] =
        [ServiceKind::SyncIdle, ServiceKind::SyncNoidle, ServiceKind::Async];
}

/// The zero of keys, chosen so that negative offsets are possible.
const KEY_ZERO: u64 = 1 << 62;

/// How far before the first key a queue that is moved to the front is placed.
const FRONT: u64 = 1_000_000_000;

/// The queues of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct ServiceTree {
    queues: Sorted,
    /// The think time between any completion and any arrival of this kind.
    pub(super) think: ThinkTime,
}

impl ServiceTree {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.queues.len()
    }

    #[inline]
    pub(super) fn first(&self) -> Option<(u64, u32)> {
        self.queues.first()
    }

    #[inline]
    pub(super) fn remove(&mut self, key: u64, place: u32) {
        self.queues.remove(key, place);
    }

    /// Adds a queue whose turn is `offset` nanoseconds after `now`.
    #[inline]
    pub(super) fn add(&mut self, now: Nanos, offset: i64, place: u32) -> u64 {
        let key = KEY_ZERO.saturating_add(now.0).saturating_add_signed(offset);
        self.queues.insert(key, place);
        key
    }

    /// Adds a queue before all others.
    pub(super) fn add_front(&mut self, now: Nanos, place: u32) -> u64 {
        let first = self.first().map_or(KEY_ZERO.saturating_add(now.0), |(key, _)| key);
        let key = first.saturating_sub(FRONT);
        self.queues.insert(key, place);
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_due_in_order_and_the_front_goes_first() {
        let mut tree = ServiceTree::default();
        tree.add(Nanos(1000), 200, 1);
        tree.add(Nanos(1100), 0, 2);
        tree.add(Nanos(1300), -250, 3);
        tree.add_front(Nanos(1400), 4);
        let order: Vec<u32> = tree.queues.as_slice().iter().map(|&(_, place)| place).collect();
        assert_eq!(order, [4, 3, 2, 1]);
    }
}
