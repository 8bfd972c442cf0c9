//! How a cache behaves when the flash fails: clean blocks are read from the disk, and complete
//! writes go to the disk.
//!
//! A dirty block that cannot be read, or cannot be written to the disk, stays where it is: reading
//! it returns the fault rather than the old content of the disk.

use super::{Cached, Held, MENDED, NOTHING, STEP_BITS, Writing};
use crate::cache::Cache;
use crate::contract::outcome::{Fault, Outcome};
use crate::stack::placed::{Owner, Plan, Planned};

impl<C: Cache> Cached<C> {
    /// A client's read from the flash failed: blocks that the disk has are read there.
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

    /// A write to a flash block failed. A copy is not missed; a client's whole block goes to the disk;
    /// of a part, the rest is on the flash, and the client is told. So it is where older content of the
    /// block is on its way to the disk.
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
        // The place stays valid until the disk has the data, and the write counts as outstanding.
        self.pending[at as usize].closed = true;
        self.stamp(key).pending += 1;
        let ((lane, offset), token) =
            (self.on_disk_at(key, 0), MENDED | u64::from(at) << STEP_BITS);
        plan.io(Planned { lane, offset, token, ..*io });
        Ok(())
    }

    /// The disk has what the flash failed to write, or has not.
    pub(super) fn mended(&mut self, io: &Planned, outcome: Outcome, plan: &mut Plan<'_>) {
        let at = (io.token >> STEP_BITS) as u32;
        let key = self.pending[at as usize].key;
        self.on_disk(io, outcome);
        if outcome.is_ok() || !self.is_ready(key, at) {
            self.give_up(key, at);
        }
        self.place_done(at, true, Err(Fault::Media), plan);
    }

    /// Gives up the block in a frame of the flash.
    fn give_up(&mut self, key: u64, at: u32) {
        if self.held_at(key, at).is_some() {
            self.forget(key);
        }
        self.leave_no_more(at);
    }

    /// Removes a block that is completely on the disk.
    pub(super) fn forget_clean(&mut self, key: u64) {
        if let Some(frame) = self.cache.peek(key)
            && !self.held[frame as usize].dirty
        {
            self.forget(key);
        }
    }

    /// Returns whether a flash block has content of its block.
    fn is_ready(&self, key: u64, at: u32) -> bool {
        let leaving = || self.leaving.iter().find(|leaving| leaving.held.at == at);
        let held = self.held_at(key, at).or_else(|| leaving().map(|leaving| leaving.held));
        held.is_some_and(|held| held.ready)
    }

    /// Returns a cached block's place, if it is `at`.
    fn held_at(&self, key: u64, at: u32) -> Option<Held> {
        let held = self.held[self.cache.peek(key)? as usize];
        (held.at == at).then_some(held)
    }

    /// Returns whether the disk does not have what the flash holds of a block there.
    fn is_only_here(&self, key: u64, at: u32) -> bool {
        self.held_at(key, at).is_some_and(|held| held.dirty)
            || self.leaving.iter().any(|leaving| leaving.held.at == at && !leaving.copied)
    }

    /// Cancels a write-back that has been superseded.
    fn leave_no_more(&mut self, at: u32) {
        if let Some(place) = self.leaving.iter().position(|leaving| leaving.held.at == at) {
            self.leaving.swap_remove(place);
            self.release(at);
        }
    }
}
