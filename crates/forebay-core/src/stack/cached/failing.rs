//! How a cache behaves if the flash fails: clean blocks are read from the disk, and writes of whole
//! blocks go to the disk.
//!
//! If a dirty block cannot be read, or cannot be written to the disk, it stays in its place. A read
//! then returns the fault rather than the old content of the disk.

use super::{Cached, Held, MENDED, NOTHING, STEP_BITS, Writing};
use crate::cache::Cache;
use crate::contract::{Fault, Outcome};
use crate::stack::placed::{Owner, Plan, Planned};

impl<C: Cache> Cached<C> {
    /// Handles a failed read from the flash: blocks that are also on the disk are read from there.
    pub(super) fn read_failed(
        &mut self,
        io: &Planned,
        outcome: Outcome,
        plan: &mut Plan<'_>,
    ) -> Outcome {
        let mut told = Ok(());
        for at in self.blocks_of(io) {
            let key = self.pending[at as usize].key;
            let place = self.place_at(at);
            let begin = place.max(io.offset);
            let end = (place + self.block_bytes).min(io.offset + u64::from(io.len));
            let part = io.part((begin - io.offset) as u32, (end - begin) as u32);
            if self.is_only_here(key, at) {
                told = outcome;
                continue;
            }
            if self.held_at(key, at).is_some() {
                self.forget(key);
            }
            let (lane, offset) = self.on_disk_at(key, begin - place);
            plan.io(Planned { lane, offset, token: NOTHING, ..part });
        }
        self.flash_done(io, outcome, plan);
        told
    }

    /// Handles a failed write to a flash block. If it was a copy, nothing is lost. If a client
    /// wrote the whole block, the write is redirected to the disk. If it was part of a block, the
    /// rest is only on the flash, so the fault is reported to the client; likewise if older content
    /// of the block is being written to the disk.
    pub(super) fn write_failed(
        &mut self,
        io: &Planned,
        outcome: Outcome,
        plan: &mut Plan<'_>,
    ) -> Outcome {
        let at = self.blocks_of(io).start;
        let key = self.pending[at as usize].key;
        let is_whole = u64::from(io.len) == self.block_bytes;
        let is_client = matches!(io.owner, Owner::Client(_));
        if !is_client || self.writing == Writing::Through {
            self.give_up(key, at);
            self.flash_done(io, outcome, plan);
            return Ok(());
        }
        if !is_whole || self.flying.contains(&key) {
            self.flash_done(io, outcome, plan);
            return outcome;
        }
        // The place remains valid until the data is on the disk, and the write remains outstanding.
        self.pending[at as usize].closed = true;
        self.stamp(key).pending += 1;
        let ((lane, offset), token) =
            (self.on_disk_at(key, 0), MENDED | u64::from(at) << STEP_BITS);
        plan.io(Planned { lane, offset, token, ..*io });
        Ok(())
    }

    /// Handles the completion of a redirected write on the disk.
    pub(super) fn mended(&mut self, io: &Planned, outcome: Outcome, plan: &mut Plan<'_>) {
        let at = (io.token >> STEP_BITS) as u32;
        let key = self.pending[at as usize].key;
        self.on_disk(io, outcome);
        if outcome.is_ok() || !self.is_ready(key, at) {
            self.give_up(key, at);
        }
        self.place_done(at, true, Err(Fault::Media), plan);
    }

    /// Removes the block in a flash block from the cache and from the leaving blocks.
    fn give_up(&mut self, key: u64, at: u32) {
        if self.held_at(key, at).is_some() {
            self.forget(key);
        }
        self.leave_no_more(at);
    }

    /// Removes a block from the cache if it is completely on the disk.
    pub(super) fn forget_clean(&mut self, key: u64) {
        if let Some(frame) = self.cache.peek(key)
            && !self.held[frame as usize].dirty
        {
            self.forget(key);
        }
    }

    /// Returns whether a flash block contains data of its block.
    fn is_ready(&self, key: u64, at: u32) -> bool {
        let leaving = || self.leaving.iter().find(|leaving| leaving.held.at == at);
        let held = self.held_at(key, at).or_else(|| leaving().map(|leaving| leaving.held));
        held.is_some_and(|held| held.ready)
    }

    /// Returns the place of a cached block, if that is `at`.
    fn held_at(&self, key: u64, at: u32) -> Option<Held> {
        let held = self.held[self.cache.peek(key)? as usize];
        (held.at == at).then_some(held)
    }

    /// Returns whether the data of a block in `at` is only on the flash.
    fn is_only_here(&self, key: u64, at: u32) -> bool {
        self.held_at(key, at).is_some_and(|held| held.dirty)
            || self.leaving.iter().any(|leaving| leaving.held.at == at && !leaving.copied)
    }

    /// Cancels the write-back of the block in `at`, which has been superseded.
    fn leave_no_more(&mut self, at: u32) {
        if let Some(place) = self.leaving.iter().position(|leaving| leaving.held.at == at) {
            self.leaving.swap_remove(place);
            self.release(at);
        }
    }
}
