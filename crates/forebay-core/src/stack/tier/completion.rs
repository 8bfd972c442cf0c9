//! Handles completions of I/Os: updates the location of data, answers requests, retries after
//! failures, and diverts requests queued for a disk to the flash.

use super::surviving::LOG;
use super::table::SECTOR;
use super::{Choose, For, Io, Offloaded, Tiers};
use crate::contract::{BACKGROUND, Fault, Op, Outcome, Request, worst};
use crate::stack::placed::{Diverted, Owner, Plan, Planned};

impl<C: Choose> Tiers<C> {
    /// Returns whether a completed disk I/O invalidates the data that the flash holds for its
    /// range.
    pub(super) fn clears(&self, io: &Request) -> bool {
        match io.op {
            _ if io.len == 0 => false,
            // Moves invalidate the data themselves.
            Op::Write => io.stream != BACKGROUND,
            // A trim must not invalidate the data while a move writes to the disk, because a trim
            // need not take effect.
            Op::Trim => !self.is_moving(io.lane, io.offset, io.len),
            _ => false,
        }
    }

    /// Handles the completion of a planned I/O.
    pub(super) fn ended_io(
        &mut self,
        planned: &Planned,
        outcome: Outcome,
        plan: &mut Plan<'_>,
    ) -> Outcome {
        if planned.token & LOG != 0 {
            self.log_done(planned, outcome, plan);
            return outcome;
        }
        let io = self.ios.remove(planned.token as u32);
        if io.on_flash && outcome == Err(Fault::Gone) {
            self.table.close();
        }
        if matches!(io.purpose, For::Move) && outcome.is_err() {
            self.void_move(&io);
        }
        if io.len > 0 && io.on_flash {
            let written = io.op == Op::Write && outcome.is_ok() && !self.is_void(&io);
            self.table.end(io.disk, io.offset, io.len, written);
        } else if io.len > 0 && matches!(io.op, Op::Write | Op::Trim) {
            self.table.count_write(io.disk, io.offset, io.len, false);
        }
        let aligned = (io.offset | u64::from(io.len)).is_multiple_of(SECTOR);
        match io.purpose {
            // Only aligned writes can be redirected. If a write covers part of a sector, the rest
            // of the sector is only on the flash, so the fault is reported to the client.
            For::Client if outcome.is_err() && io.on_flash && io.op == Op::Write && aligned => {
                let Io { disk: lane, offset, .. } = io;
                self.instead(Planned { lane, offset, ..*planned }, plan);
                Ok(())
            }
            For::Client => {
                if outcome.is_ok() {
                    self.make_durable(planned, &io, plan);
                }
                outcome
            }
            For::Move => {
                self.step_done(&io, plan);
                Ok(())
            }
            For::Diverted(key) => {
                let offloaded = &mut self.offloaded[key];
                offloaded.left -= 1;
                offloaded.outcome = worst(offloaded.outcome, outcome);
                if offloaded.left == 0 {
                    let Offloaded { request, outcome, .. } = self.offloaded.remove(key);
                    plan.diverted(request, outcome);
                }
                Ok(())
            }
        }
    }

    /// Serves `io`, which consists of `parts` and is diverted by a disk's scheduler, on the flash.
    /// Returns false if there is no space.
    pub(super) fn offload(
        &mut self,
        io: &Request,
        parts: &[Diverted],
        plan: &mut Plan<'_>,
    ) -> bool {
        let mut pieces = std::mem::take(&mut self.reserved);
        let taken =
            io.stream != BACKGROUND && self.reserve(io.lane, io.offset, io.len, &mut pieces, plan);
        if taken {
            let (request, outcome) = (*io, Ok(()));
            let key = self.offloaded.insert(Offloaded { request, left: 0, outcome });
            // Parts and pieces are sorted by address. Each I/O is within one part, because the
            // parts have separate memory.
            for part in parts {
                let Request { lane, stream, op, flags, .. } = *io;
                let (owner, offset, len) = (Owner::Background, part.offset, part.piece.len);
                let (bytes, token) = (part.piece.bytes(), 0);
                let whole = Planned { owner, lane, op, offset, len, bytes, stream, flags, token };
                for piece in &pieces {
                    let Some(piece) = piece.within(part.offset, u64::from(len)) else { continue };
                    self.offloaded[key].left += 1;
                    self.on_flash(For::Diverted(key), &whole, &piece, plan);
                }
            }
        }
        self.reserved = pieces;
        taken
    }
}
