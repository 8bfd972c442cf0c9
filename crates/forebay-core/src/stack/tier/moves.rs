//! Moves data between the tiers: reads from one device, then writes to the other, as background
//! I/Os.
//!
//! A move begins only if no outstanding I/O can change its data, and takes effect only if no client
//! wrote to the extent meanwhile.

use super::migrate::Move;
use super::table::Piece;
use super::{Choose, For, Io, Tiers};
use crate::contract::{BACKGROUND, Bytes, Flags, Lane, Op, Request};
use crate::stack::placed::{Owner, Plan, Planned};

impl<C: Choose> Tiers<C> {
    /// Begins the planned moves as far as possible, and then counts `request`.
    pub(super) fn migrate(&mut self, plan: &mut Plan<'_>, request: Option<&Request>) {
        let all = self.table.used_bytes() + self.table.free_bytes();
        while let Some(migration) = &mut self.migration
            && let Some(next) = migration.next(plan.now, self.table.free_bytes(), all)
        {
            self.begin_move(next, plan);
        }
        // Count the request last, because it cancels moves that have just begun.
        if let Some(migration) = &mut self.migration
            && let Some(request) = request.filter(|request| request.len > 0)
        {
            let changes = matches!(request.op, Op::Write | Op::Trim);
            migration.note(request.lane, request.offset, request.len, changes);
        }
    }

    /// Begins a move, unless I/Os in its range are outstanding or there is nothing to move.
    fn begin_move(&mut self, next: Move, plan: &mut Plan<'_>) {
        let Move { disk, offset, len, up, .. } = next;
        let on_flash = self.table.settled_bytes(disk, offset, len);
        let room = self.table.free_bytes() >= u64::from(len);
        let is_due = if up { on_flash == Some(0) && room } else { on_flash > Some(0) };
        let Some(migration) = &mut self.migration else { return };
        if !is_due || !self.table.is_quiet(disk, offset, len) {
            // The extent is still on the flash, at least partly.
            if on_flash != Some(0) {
                migration.placed(disk, offset, len);
            }
            return;
        }
        let mut pieces = std::mem::take(&mut self.pieces);
        self.table.split(disk, offset, len, &mut pieces);
        pieces.retain(|piece| up || piece.flash.is_some());
        let next = Move { left: pieces.len() as u32, buf: plan.slots.take(len), ..next };
        migration.moves.push(next);
        for piece in &pieces {
            self.step(&next, Op::Read, piece, plan);
        }
        self.pieces = pieces;
    }

    /// Plans an I/O of a move, on the flash if the piece has a place there.
    fn step(&mut self, moving: &Move, op: Op, piece: &Piece, plan: &mut Plan<'_>) {
        let Move { disk: lane, offset, len, buf, .. } = *moving;
        // FUA prevents merging, after which the I/O could not be distinguished from others.
        let flags = if op == Op::Write { Flags::FUA } else { Flags::NONE };
        let (owner, stream, bytes) = (Owner::Background, BACKGROUND, Bytes::of(buf));
        let whole = Planned { owner, lane, op, offset, len, bytes, stream, flags, token: 0 };
        if piece.flash.is_some() {
            self.on_flash(For::Move, &whole, piece, plan);
        } else {
            self.on_disk(For::Move, &super::cut(&whole, piece.offset, piece.len), plan);
        }
    }

    /// Cancels a move because one of its I/Os failed.
    pub(super) fn void_move(&mut self, io: &Io) {
        let Some(migration) = &mut self.migration else { return };
        if let Some(at) = migration.moving(io.disk, io.offset) {
            migration.moves[at].void = true;
        }
    }

    /// Returns whether an I/O belongs to a void move.
    pub(super) fn is_void(&mut self, io: &Io) -> bool {
        let Some(migration) = &mut self.migration else { return false };
        let at = migration.moving(io.disk, io.offset);
        matches!(io.purpose, For::Move) && at.is_some_and(|at| migration.moves[at].void)
    }

    /// Handles the completion of an I/O of a move.
    pub(super) fn step_done(&mut self, io: &Io, plan: &mut Plan<'_>) {
        let Some(migration) = &mut self.migration else { return };
        let Some(at) = migration.moving(io.disk, io.offset) else { return };
        let moving = &mut migration.moves[at];
        moving.left -= 1;
        let Move { disk, offset, len, up, writing, void, left, buf } = *moving;
        if writing && !void {
            migration.moved_bytes += u64::from(io.len);
            if !up {
                self.table.clear(disk, io.offset, io.len);
            }
        }
        if left > 0 {
            return;
        }
        let mut pieces = std::mem::take(&mut self.pieces);
        let goes_on = !writing && !void && self.destinations(disk, offset, len, up, &mut pieces);
        if goes_on && let Some(migration) = &mut self.migration {
            let moving = &mut migration.moves[at];
            (moving.writing, moving.left) = (true, pieces.len() as u32);
            let moving = *moving;
            for piece in &pieces {
                self.step(&moving, Op::Write, piece, plan);
            }
        } else if let Some(migration) = &mut self.migration {
            // If there is no space, the move is cancelled.
            migration.moves[at].void |= !writing;
            migration.finish(at);
            plan.slots.free(buf);
            self.free_retired(plan);
        }
        self.pieces = pieces;
        self.resume(plan);
        self.migrate(plan, None);
    }

    /// Returns whether a range of a disk is being moved.
    pub(super) fn is_moving(&self, disk: Lane, offset: u64, len: u32) -> bool {
        self.migration.as_ref().is_some_and(|moves| moves.is_moving(disk, offset, len))
    }

    /// Redirects a write that failed on the flash to the disk. If a move is in progress there, the
    /// write waits for its end.
    pub(super) fn instead(&mut self, io: Planned, plan: &mut Plan<'_>) {
        if !self.is_moving(io.lane, io.offset, io.len) {
            return self.on_disk(For::Client, &io, plan);
        }
        if let Owner::Client(client) = io.owner {
            plan.hold(client);
        }
        self.stalled.push(io);
    }

    /// Resumes the writes that waited for the end of a move.
    fn resume(&mut self, plan: &mut Plan<'_>) {
        for io in std::mem::take(&mut self.stalled) {
            self.instead(io, plan);
            if let Owner::Client(client) = io.owner {
                plan.release(client, Ok(()));
            }
        }
    }

    /// Determines where the data of a move must be written. Returns whether there is space.
    fn destinations(
        &mut self,
        disk: Lane,
        offset: u64,
        len: u32,
        up: bool,
        pieces: &mut Vec<Piece>,
    ) -> bool {
        if up {
            let room = self.table.reserve(disk, offset, len, pieces);
            self.counts.used_bytes_max = self.counts.used_bytes_max.max(self.table.used_bytes());
            return room;
        }
        self.table.split(disk, offset, len, pieces);
        pieces.retain(|piece| piece.flash.is_some());
        pieces.iter_mut().for_each(|piece| piece.flash = None);
        !pieces.is_empty()
    }
}
