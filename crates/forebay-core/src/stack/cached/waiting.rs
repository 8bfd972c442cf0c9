//! Writes that wait for a block, because outstanding I/Os would undo them.
//!
//! No other write to a place may begin before its first write has completed, because otherwise the
//! rest of the block would have the previous contents of the place. The same applies to a place
//! with a failed write until the data is on the disk. A block that is not cached is not written to
//! the disk while older content of it is being written there. Of *through* writes that overlap, one
//! must have completed on flash and disk before the next begins, because the devices may execute
//! two writes in different orders.

use super::{Cached, Writing, stamp_of};
use crate::cache::Cache;
use crate::stack::placed::{Owner, Plan, Planned};

impl<C: Cache> Cached<C> {
    /// Returns whether a write to a block has to wait.
    pub(super) fn must_wait(&mut self, key: u64) -> bool {
        let cached = self.cache.peek(key).map(|frame| self.held[frame as usize].at);
        if self.writing == Writing::Through {
            let on_disk = self.stamp(key).pending > 0;
            return cached.is_some_and(|at| on_disk || self.pending[at as usize].writes > 0);
        }
        let leaving = || self.leaving.iter().find(|leaving| leaving.key == key);
        match cached.or_else(|| leaving().map(|leaving| leaving.held.at)) {
            Some(at) => self.pending[at as usize].closed,
            None => self.flying.contains(&key),
        }
    }

    /// Makes a part of a client's write wait for its block.
    pub(super) fn wait(&mut self, key: u64, io: Planned, plan: &mut Plan<'_>) {
        if let Owner::Client(client) = io.owner {
            plan.hold(client);
        }
        self.waiting.entry((stamp_of(key), key)).or_default().push_back(io);
    }

    /// Resumes writes that no longer need to wait after a write to a block has completed. Blocks
    /// that share a counter wait for each other.
    pub(super) fn resume(&mut self, key: u64, plan: &mut Plan<'_>) {
        let stamp = stamp_of(key);
        let mut from = 0;
        loop {
            let next = self.waiting.range((stamp, from)..=(stamp, u64::MAX)).next();
            let Some((&(_, key), _)) = next else { return };
            self.resume_block(key, plan);
            from = key.saturating_add(1);
        }
    }

    /// Executes the writes that wait for a block in order of arrival, until one has to wait longer.
    fn resume_block(&mut self, key: u64, plan: &mut Plan<'_>) {
        while !self.must_wait(key) {
            let Some(queue) = self.waiting.get_mut(&(stamp_of(key), key)) else { return };
            let Some(io) = queue.pop_front() else {
                self.waiting.remove(&(stamp_of(key), key));
                return;
            };
            let Some(part) = self.parts_of(&io).next() else { continue };
            self.write_part(io, part, plan);
            if let Owner::Client(client) = io.owner {
                plan.release(client, Ok(()));
            }
        }
    }
}
