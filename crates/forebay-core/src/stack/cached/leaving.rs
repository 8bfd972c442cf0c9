//! Evicted dirty blocks: they are read from the flash and written to the disk, or return to the
//! cache if they are written again.

use super::{Cached, DESTAGE, DESTAGED, Held, KEY_BITS, Leaving, STEP_BITS};
use crate::cache::{Cache, Frame};
use crate::contract::{BACKGROUND, Bytes, Flags, Lane, Op, Outcome};
use crate::stack::placed::{Owner, Plan, Planned};

impl<C: Cache> Cached<C> {
    /// Returns a leaving block to the cache.
    pub(super) fn take_back(&mut self, key: u64, plan: &mut Plan<'_>) -> Option<Frame> {
        let place = self.leaving.iter().position(|leaving| leaving.key == key)?;
        let Leaving { held, .. } = self.leaving.swap_remove(place);
        Some(self.hold(key, held, plan))
    }

    /// Frees the place of an evicted block. If the block is dirty, it is first written to the disk.
    pub(super) fn let_go(&mut self, key: u64, held: Held, plan: &mut Plan<'_>) {
        if !held.dirty {
            self.release(held.at);
            return;
        }
        self.serial += 1;
        self.leaving.push(Leaving { key, held, serial: self.serial, begun: false, copied: false });
        self.destage(key, plan);
    }

    /// Begins to write a leaving block to the disk, unless a write to its place, or a write-back of
    /// the block, is in progress.
    pub(super) fn destage(&mut self, key: u64, plan: &mut Plan<'_>) {
        if self.flying.contains(&key) {
            return;
        }
        let Some(leaving) = self.leaving.iter_mut().find(|leaving| leaving.key == key) else {
            return;
        };
        let pending = &mut self.pending[leaving.held.at as usize];
        if leaving.begun || pending.writes > 0 {
            return;
        }
        leaving.begun = true;
        pending.all += 1;
        let buf = plan.slots.take(self.block_bytes as u32);
        plan.io(Planned {
            owner: Owner::Background,
            lane: self.flash,
            op: Op::Read,
            offset: self.places_at + u64::from(leaving.held.at) * self.block_bytes,
            len: self.block_bytes as u32,
            bytes: Bytes::of(buf),
            stream: BACKGROUND,
            flags: Flags::NONE,
            token: DESTAGE | leaving.serial << STEP_BITS,
        });
        // The I/Os hold the buffer from now on: first the read, then the write-back.
        plan.slots.free(buf);
    }

    /// Writes an evicted block to the disk after it has been read, unless it was cached again in
    /// the meantime.
    pub(super) fn write_back(&mut self, io: &Planned, plan: &mut Plan<'_>) {
        let serial = io.token >> STEP_BITS;
        let Some(leaving) = self.leaving.iter().find(|leaving| leaving.serial == serial) else {
            return;
        };
        let key = leaving.key;
        self.figures.blocks_destaged += 1;
        self.flying.push(key);
        let (lane, offset) = self.on_disk_at(key, 0);
        let token = DESTAGED | serial << STEP_BITS;
        plan.io(Planned { lane, op: Op::Write, offset, token, ..*io });
    }

    /// Returns the location on the disk of byte `within` of a block.
    pub(super) fn on_disk_at(&self, key: u64, within: u64) -> (Lane, u64) {
        let block = key & ((1 << KEY_BITS) - 1);
        ((key >> KEY_BITS) as Lane, block * self.block_bytes + within)
    }

    /// Handles the completion of a write-back.
    pub(super) fn destaged(&mut self, io: &Planned, outcome: Outcome, plan: &mut Plan<'_>) {
        let serial = io.token >> STEP_BITS;
        let Some(part) = self.parts_of(io).next() else { return };
        self.flying.retain(|&key| key != part.key);
        match outcome {
            Ok(()) => self.left(serial, plan),
            Err(_) => self.stays(serial),
        }
        // The block may have been cached and evicted again in the meantime.
        let again = |it: &&Leaving| it.key == part.key && it.serial != serial;
        if self.leaving.iter().any(|leaving| again(&leaving)) {
            self.destage(part.key, plan);
        }
        self.resume(part.key, plan);
    }

    /// Frees the place of a block that is now on the disk, unless the log still names the place.
    fn left(&mut self, serial: u64, plan: &mut Plan<'_>) {
        if let Some(left) = self.leaving.iter().position(|leaving| leaving.serial == serial) {
            if self.is_copied(left, plan) {
                return;
            }
            let at = self.leaving.swap_remove(left).held.at;
            self.release(at);
        }
    }

    /// Keeps a leaving block that could not be read or written. It is tried again, after all
    /// others, when a place is needed.
    pub(super) fn stays(&mut self, serial: u64) {
        if let Some(place) = self.leaving.iter().position(|leaving| leaving.serial == serial) {
            let leaving = self.leaving.remove(place);
            self.leaving.push(Leaving { begun: false, ..leaving });
        }
    }

    /// Retries writing back a block because its place is needed, choosing the block that has stayed
    /// longest.
    pub(super) fn destage_again(&mut self, plan: &mut Plan<'_>) {
        let idle = |leaving: &&Leaving| {
            let writes = self.pending[leaving.held.at as usize].writes;
            !leaving.begun && writes == 0 && !self.flying.contains(&leaving.key)
        };
        if let Some(&Leaving { key, .. }) = self.leaving.iter().find(idle) {
            self.destage(key, plan);
        }
    }
}
