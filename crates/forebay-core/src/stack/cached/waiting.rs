//! Writes that wait for a block, for what is under way would undo them.
//!
//! A block's first write to the flash is alone there until it is done: before that a part of the block
//! would be read with bytes of whatever was there before. So is one that the flash failed, until the
//! disk has it. What is not cached does not go to the disk while an older content does. And of writes
//! *through* that overlap one has to be done on flash and disk before the next begins, for they may do
//! two in different orders.

use super::{Cached, Writing, stamp_of};
use crate::cache::Cache;
use crate::stack::placed::{Owner, Plan, Planned};

impl<C: Cache> Cached<C> {
    /// Returns whether a write of a block has to wait.
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

    /// Lets a part of a client's write wait for its block.
    pub(super) fn wait(&mut self, key: u64, io: Planned, plan: &mut Plan<'_>) {
        if let Owner::Client(client) = io.owner {
            plan.hold(client);
        }
        self.waiting.entry((stamp_of(key), key)).or_default().push_back(io);
    }

    /// A write of a block has ended: does what need not wait for it any more. Blocks that share a
    /// count of writes wait for each other.
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

    /// Does what waits for a block, in the order it came, until something has to wait on.
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
