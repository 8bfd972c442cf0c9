//! Handles completions of I/Os on the flash and the disk.

use super::{
    Cached, DESTAGE, DESTAGED, FILL, LOG, Leaving, MENDED, ON_DISK, READ, STEP_BITS, WRITTEN,
    Writing,
};
use crate::cache::Cache;
use crate::contract::{Fault, Flags, Op, Outcome};
use crate::stack::placed::{Plan, Planned};

impl<C: Cache> Cached<C> {
    /// Handles the completion of an I/O that covers one or more flash blocks.
    pub(super) fn flash_done(&mut self, io: &Planned, outcome: Outcome, plan: &mut Plan<'_>) {
        for at in self.blocks_of(io) {
            self.place_done(at, io.op == Op::Write, outcome, plan);
        }
    }

    /// Handles the completion of an I/O to one flash block.
    pub(super) fn place_done(
        &mut self,
        at: u32,
        writes: bool,
        outcome: Outcome,
        plan: &mut Plan<'_>,
    ) {
        let pending = &mut self.pending[at as usize];
        pending.all -= 1;
        pending.writes -= u32::from(writes);
        pending.closed &= pending.writes > 0;
        let key = pending.key;
        if pending.gone && pending.all == 0 {
            pending.gone = false;
            self.free.push(at);
        } else if writes {
            if outcome.is_ok() {
                self.written(key, at);
            }
            self.destage(key, plan);
        }
        if writes {
            // Reads from the disk that were issued earlier may return old data, so they must not be
            // copied.
            self.serial += 1;
            self.stamp(key).last = self.serial;
            self.resume(key, plan);
        }
    }

    /// Returns the flash blocks that an I/O on the flash touches.
    pub(super) fn blocks_of(&self, io: &Planned) -> std::ops::Range<u32> {
        let offset = io.offset - self.places_at;
        let end = (offset + u64::from(io.len)).div_ceil(self.block_bytes);
        (offset / self.block_bytes) as u32..end as u32
    }

    /// Records that a block's place contains its data.
    pub(super) fn written(&mut self, key: u64, at: u32) {
        if let Some(frame) = self.cache.peek(key)
            && self.held[frame as usize].at == at
        {
            self.held[frame as usize].ready = true;
        }
        let of_block = |leaving: &&mut Leaving| leaving.held.at == at;
        if let Some(leaving) = self.leaving.iter_mut().find(of_block) {
            leaving.held.ready = true;
        }
    }

    /// Records the completion of a client's write to the disk.
    pub(super) fn on_disk(&mut self, io: &Planned, outcome: Outcome) {
        self.serial += 1;
        for part in self.parts_of(io) {
            if self.writing == Writing::Through && outcome.is_err() {
                // The flash may have data that is not on the disk.
                self.forget(part.key);
            }
            let serial = self.serial;
            let stamp = self.stamp(part.key);
            stamp.pending -= 1;
            stamp.last = serial;
        }
    }

    /// Handles the completion of an I/O. Returns the outcome to report to the client.
    pub(super) fn completed(
        &mut self,
        io: &Planned,
        outcome: Outcome,
        plan: &mut Plan<'_>,
    ) -> Outcome {
        if self.survival.is_none() {
            return self.ended(io, outcome, plan);
        }
        if io.token & ((1 << STEP_BITS) - 1) == LOG {
            self.log_done(io, outcome, plan);
            return outcome;
        }
        let disk = self.disk_of(io);
        let outcome = self.ended(io, outcome, plan);
        if outcome.is_ok() && io.op == Op::Write && io.flags.has(Flags::FUA) {
            self.make_durable(io, disk, plan);
        }
        outcome
    }

    /// Handles the completion of an I/O that is not the log's. Returns the outcome to report to the
    /// client.
    pub(super) fn ended(&mut self, io: &Planned, outcome: Outcome, plan: &mut Plan<'_>) -> Outcome {
        self.flash_gone |= io.lane == self.flash && outcome == Err(Fault::Gone);
        match io.token & ((1 << STEP_BITS) - 1) {
            FILL if outcome.is_ok() => self.fill(io, plan),
            READ if outcome.is_err() => return self.read_failed(io, outcome, plan),
            WRITTEN if outcome.is_err() => return self.write_failed(io, outcome, plan),
            WRITTEN | READ => self.flash_done(io, outcome, plan),
            DESTAGE => {
                self.flash_done(io, outcome, plan);
                match outcome {
                    Ok(()) => self.write_back(io, plan),
                    Err(_) => self.stays(io.token >> STEP_BITS),
                }
            }
            DESTAGED => self.destaged(io, outcome, plan),
            ON_DISK => {
                self.on_disk(io, outcome);
                for part in self.parts_of(io) {
                    self.resume(part.key, plan);
                }
            }
            MENDED => self.mended(io, outcome, plan),
            // All data on the flash is also on the disk, so the failure does not matter.
            _ if matches!(io.op, Op::Flush | Op::Open)
                && io.lane == self.flash
                && self.writing != Writing::Back =>
            {
                return Ok(());
            }
            _ => {}
        }
        outcome
    }
}
