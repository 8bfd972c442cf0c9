//! Reads and writes that wait in separate queues for the same buckets, as in QEMU.
//!
//! The release time of a request is fixed when it becomes the first of its queue (QEMU arms a
//! timer), even if the other queue takes tokens before then. Once it is released, the next request
//! of its queue waits for the tokens that both queues took, so the queues alternate.

use std::collections::VecDeque;

use super::releases::{Cost, Releases};

/// Two queues of requests with their costs.
#[derive(Clone, Debug)]
pub(super) struct Waiting<T> {
    queues: [VecDeque<(f64, Cost, T)>; 2],
    /// The release time of the first request of each queue; infinite if the queue is empty.
    armed_ns: [f64; 2],
}

impl<T> Waiting<T> {
    pub(super) fn new() -> Waiting<T> {
        Waiting { queues: [VecDeque::new(), VecDeque::new()], armed_ns: [f64::INFINITY; 2] }
    }

    /// Adds a request that arrives at `at_ns`. All earlier releases must have been taken with
    /// `pop`.
    pub(super) fn push(
        &mut self,
        releases: &Releases,
        side: usize,
        at_ns: f64,
        (cost, item): (Cost, T),
    ) {
        if self.queues[side].is_empty() {
            self.armed_ns[side] = releases.earliest(side, at_ns, cost);
        }
        self.queues[side].push_back((at_ns, cost, item));
    }

    /// Returns the release time of the first request of a queue; infinite if the queue is empty.
    pub(super) fn armed_ns(&self, side: usize) -> f64 {
        self.armed_ns[side]
    }

    /// Removes and charges the next request whose release time is at most `until_ns`. Of a read and
    /// a write with the same release time, the read goes first.
    pub(super) fn pop(
        &mut self,
        releases: &mut Releases,
        until_ns: f64,
    ) -> Option<(usize, f64, T)> {
        let side = usize::from(self.armed_ns[1] < self.armed_ns[0]);
        let release_ns = self.armed_ns[side];
        if release_ns > until_ns {
            return None;
        }
        let (_, cost, item) = self.queues[side].pop_front()?;
        releases.charge(side, release_ns, cost);
        self.armed_ns[side] = match self.queues[side].front() {
            Some((at_ns, cost, _)) => releases.earliest(side, at_ns.max(release_ns), *cost),
            None => f64::INFINITY,
        };
        Some((side, release_ns, item))
    }
}
