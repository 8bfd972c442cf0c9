//! Evicted dirty blocks: read from the flash and written to the disk, or kept if they are written
//! again.

use super::{Cached, DESTAGE, DESTAGED, Held, KEY_BITS, Leaving, STEP_BITS};
use crate::cache::{Cache, Frame};
use crate::contract::bytes::Bytes;
use crate::contract::outcome::Outcome;
use crate::contract::request::{BACKGROUND, Flags, Lane, Op};
use crate::stack::placed::{Owner, Plan, Planned};

impl<C: Cache> Cached<C> {
    /// A block that was leaving stays.
    pub(super) fn take_back(&mut self, key: u64, plan: &mut Plan<'_>) -> Option<Frame> {
        let place = self.leaving.iter().position(|leaving| leaving.key == key)?;
        let Leaving { held, .. } = self.leaving.swap_remove(place);
        Some(self.hold(key, held, plan))
    }

    /// Frees an evicted block's place, or sends its content to the disk first.
    pub(super) fn let_go(&mut self, key: u64, held: Held, plan: &mut Plan<'_>) {
        if !held.dirty {
            self.release(held.at);
            return;
        }
        self.serial += 1;
        self.leaving.push(Leaving { key, held, serial: self.serial, begun: false, copied: false });
        self.destage(key, plan);
    }

    /// Begins to send a leaving block to the disk, unless it is being written, there or here.
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
        // From here on the read I/O holds the buffer, then the write-back.
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

    /// Byte `within` of a block on its disk.
    pub(super) fn on_disk_at(&self, key: u64, within: u64) -> (Lane, u64) {
        let block = key & ((1 << KEY_BITS) - 1);
        ((key >> KEY_BITS) as Lane, block * self.block_bytes + within)
    }

    /// The disk has an evicted block, or refused it.
    pub(super) fn destaged(&mut self, io: &Planned, outcome: Outcome, plan: &mut Plan<'_>) {
        let serial = io.token >> STEP_BITS;
        let Some(part) = self.parts_of(io).next() else { return };
        self.flying.retain(|&key| key != part.key);
        match outcome {
            Ok(()) => self.left(serial, plan),
            Err(_) => self.stays(serial),
        }
        // It may have come back and left again.
        let again = |it: &&Leaving| it.key == part.key && it.serial != serial;
        if self.leaving.iter().any(|leaving| again(&leaving)) {
            self.destage(part.key, plan);
        }
        self.resume(part.key, plan);
    }

    /// The disk has a block: its place is free, or will be when the log does not name it any more.
    fn left(&mut self, serial: u64, plan: &mut Plan<'_>) {
        if let Some(left) = self.leaving.iter().position(|leaving| leaving.serial == serial) {
            if self.is_copied(left, plan) {
                return;
            }
            let at = self.leaving.swap_remove(left).held.at;
            self.release(at);
        }
    }

    /// A block could not be read or not be written: it stays where it is, and is tried again when its
    /// place is wanted, after all others.
    pub(super) fn stays(&mut self, serial: u64) {
        if let Some(place) = self.leaving.iter().position(|leaving| leaving.serial == serial) {
            let leaving = self.leaving.remove(place);
            self.leaving.push(Leaving { begun: false, ..leaving });
        }
    }

    /// A place is wanted: tries the block again that stayed for the longest time.
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
