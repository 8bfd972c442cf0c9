//! Recovers what can still be read of a unit with too many bad chunks, block by block.
//!
//! A job that cannot read enough whole chunks reads the cells of all roles, block by block if a
//! drive fails to read a cell. Each block is reconstructed from the blocks at the same position of
//! the other roles, so that a few bad blocks do not make whole chunks unreadable. Blocks that
//! cannot be reconstructed are *lost*: reads of them fail, and the table records them
//! ([`super::lost`]).
//!
//! Nothing that may be useful later is discarded. A cell without bad blocks other than lost ones
//! stays in place, and so does a cell whose drive is missing or fails to read a lost block, because
//! it may succeed another time. A cell that is rewritten elsewhere has [`LOST_SUM`] in its trailer
//! for each lost block.

use super::{
    Array, Blocks, Doing, Job, LOST_SUM, Level, Lost, Method, Part, Place, ROLES_MAX, Roles, Task,
    Unit, all, blocks_of, each, sums, touched,
};
use super::{KIND, geometry};
use crate::contract::{Bytes, Fault, Outcome, Slots};
use crate::stack::placed::{Plan, Planned};

/// The position, in a token, of the number of a block (from 1) if a cell is read block by block.
const BLOCK_AT: u32 = 40;

/// What is known about the blocks of a unit.
#[derive(Clone, Debug, Default)]
pub(super) struct Salvage {
    /// By role: blocks that cannot be read now, because their drive is missing or reports errors.
    unread: [Blocks; ROLES_MAX],
    /// By role: blocks that differ from what was written.
    rotten: [Blocks; ROLES_MAX],
    /// By role: blocks that were already lost when the cell was written.
    known: [Blocks; ROLES_MAX],
    /// By data chunk: blocks that cannot be reconstructed.
    lost: [Blocks; ROLES_MAX],
    /// The roles whose bad blocks caused the losses.
    roles: Roles,
}

impl Salvage {
    fn bad(&self, role: usize) -> Blocks {
        self.unread[role].or(self.rotten[role]).or(self.known[role])
    }

    /// Returns the positions in chunks at which a block of any data chunk is lost.
    fn lost_anywhere(&self) -> Blocks {
        self.lost.iter().fold(Blocks::default(), |all, lost| all.or(*lost))
    }

    /// Returns the blocks of a role that cannot be written with their original content. Those of a
    /// parity depend on all data blocks at their position.
    pub(super) fn lost_of(&self, level: Level, role: usize, chunks: usize) -> Blocks {
        level.chunk(role, chunks).map_or(self.lost_anywhere(), |chunk| self.lost[chunk])
    }

    /// Returns whether a missing or unreadable cell may still provide a lost block later.
    fn may_come_back(&self) -> bool {
        let lost = self.lost_anywhere();
        self.unread.iter().any(|unread| !unread.and(lost).is_empty())
    }

    /// Returns whether a cell must be rewritten: it has bad blocks that can be reconstructed, and
    /// it neither contains nor may later provide blocks needed to reconstruct lost ones.
    fn is_mended(&self, level: Level, role: usize, chunks: usize) -> bool {
        let (bad, lost) = (self.bad(role), self.lost_of(level, role, chunks));
        let is_good_there = !lost.without(bad).is_empty() && self.may_come_back();
        let is_mendable = !bad.without(lost).is_empty();
        is_mendable && self.unread[role].and(lost).is_empty() && !is_good_there
    }
}

impl Array {
    /// Reads each block individually, because whole chunks do not provide enough for a job. Fails
    /// the job if no present drive has further blocks.
    pub(super) fn begin_salvage(&mut self, key: u32, plan: &mut Plan<'_>) {
        let (job, chunk) = (&self.jobs[key as usize], self.geometry.chunk_bytes);
        let is_there = |role: usize| self.drives.lane(job.old.places[role]).is_some();
        if !self.is_fresh() || job.salvage.is_some() || !each(job.bad).any(is_there) {
            return self.finish(key, Err(Fault::Media), plan);
        }
        let job = &mut self.jobs[key as usize];
        for buf in job.bufs.iter_mut().map(std::mem::take).filter(|buf| *buf != 0) {
            plan.slots.free(buf);
        }
        job.sums.clear();
        (job.read, job.bad, job.lo, job.hi) = (0, 0, 0, chunk);
        job.salvage = Some(Box::default());
        for role in 0..job.level.roles(self.chunks()) {
            self.read_role(key, role, plan);
        }
        if self.jobs[key as usize].left == 0 {
            self.assemble(key, plan);
        }
    }

    /// Returns whether an I/O reads a single block of a cell that could not be read as a whole. The
    /// failure to read the cell has already been counted.
    pub(super) fn is_of_block(token: u64) -> bool {
        token >> KIND == super::JOB && token >> BLOCK_AT & 0xFFFF != 0
    }

    /// Handles the end of a read of a cell, or of a block of a cell.
    pub(super) fn salvaged(
        &mut self,
        io: &Planned,
        key: u32,
        role: usize,
        outcome: Outcome,
        plan: &mut Plan<'_>,
    ) {
        let count = blocks_of(&self.geometry);
        let block = (io.token >> BLOCK_AT) as usize & 0xFFFF;
        match (outcome, block.checked_sub(1)) {
            (Ok(()), _) => {}
            (Err(Fault::Media), None) => self.read_blocks(io, key, plan),
            (Err(_), Some(block)) if block < count => {
                let salvage = self.jobs[key as usize].salvage.as_mut();
                salvage.into_iter().for_each(|it| it.unread[role].set(block));
            }
            // Without its trailer, no block of the cell can be verified.
            (Err(_), _) => {
                let salvage = self.jobs[key as usize].salvage.as_mut();
                salvage.into_iter().for_each(|it| it.unread[role] = Blocks::first(count));
            }
        }
        if self.jobs[key as usize].left == 0 {
            self.assemble(key, plan);
        }
    }

    /// Reads a cell again, block by block.
    fn read_blocks(&mut self, io: &Planned, key: u32, plan: &mut Plan<'_>) {
        for block in 0..io.len / geometry::BLOCK {
            let skip = block * geometry::BLOCK;
            let token = io.token | u64::from(block + 1) << BLOCK_AT;
            plan.io(Planned { token, ..io.part(skip, geometry::BLOCK) });
            self.jobs[key as usize].left += 1;
        }
    }

    /// Reconstructs the data once everything readable has been read.
    fn assemble(&mut self, key: u32, plan: &mut Plan<'_>) {
        let (chunks, count) = (self.chunks(), blocks_of(&self.geometry));
        let job = &mut self.jobs[key as usize];
        let (level, absent) = (job.level, job.bad);
        let Some(mut salvage) = job.salvage.take() else { return };
        for role in 0..level.roles(chunks) {
            match absent >> role & 1 == 1 {
                true => salvage.unread[role] = Blocks::first(count),
                false => self.examine(key, role, &mut salvage, plan.slots),
            }
        }
        let job = &self.jobs[key as usize];
        for block in 0..count {
            tell_block(job, chunks, block, &mut salvage, plan.slots);
        }
        // Cells to rewrite.
        let is_mended = |role: &usize| {
            let is_there = self.drives.lane(job.old.places[*role]).is_some();
            is_there && salvage.is_mended(level, *role, chunks)
        };
        let bad = (0..level.roles(chunks)).filter(is_mended).fold(0, |bad, role| bad | 1 << role);
        let job = &mut self.jobs[key as usize];
        (job.read, job.bad, job.method) = (all(chunks), bad, Method::Reconstruct);
        job.salvage = Some(salvage);
        self.salvage_done(key, plan);
    }

    /// Determines which blocks of a role that was read have the content that was written.
    fn examine(&self, key: u32, role: usize, salvage: &mut Salvage, slots: &mut dyn Slots) {
        let (job, chunk) = (&self.jobs[key as usize], self.geometry.chunk_bytes);
        let (place, buf) = (job.old.places[role], Bytes::of(job.bufs[role]));
        let count = blocks_of(&self.geometry);
        let trailer = buf.on(chunk).len(geometry::BLOCK);
        let mut bytes = [0; geometry::BLOCK as usize];
        let unread = salvage.unread[role];
        if place == Place::ZERO || unread == Blocks::first(count) || !slots.get(trailer, &mut bytes)
        {
            return;
        }
        let check = slots.checksum(trailer).unwrap_or(0) as u32 & 0xFF_FFFF;
        let what = job.level.chunk(role, self.chunks()).unwrap_or(role);
        let sums =
            sums(&bytes, self.geometry.volume, job.number, what).filter(|_| check == place.check());
        let Some(sums) = sums else {
            salvage.rotten[role] = Blocks::first(count).without(unread);
            return;
        };
        for block in Blocks::first(count).without(unread).each() {
            let piece = buf.on(block as u32 * geometry::BLOCK).len(geometry::BLOCK);
            match sums[block] {
                LOST_SUM => salvage.known[role].set(block),
                sum if slots.checksum(piece) != Some(sum) => salvage.rotten[role].set(block),
                _ => {}
            }
        }
    }

    /// Continues the job once the blocks have been examined.
    fn salvage_done(&mut self, key: u32, plan: &mut Plan<'_>) {
        let chunk = self.geometry.chunk_bytes;
        let job = &self.jobs[key as usize];
        let Some(salvage) = &job.salvage else { return };
        let is_any_lost = !salvage.lost_anywhere().is_empty();
        match job.doing {
            Doing::Read if job.parts.iter().any(|part| salvage.is_lost(part, chunk)) => {
                self.finish(key, Err(Fault::Media), plan);
            }
            Doing::Write if is_any_lost => self.write_beside(key, plan),
            // The unit keeps its state.
            Doing::Switch(..) | Doing::Move { .. } if is_any_lost => {
                self.finish(key, Ok(()), plan);
            }
            _ => self.gathered(key, plan),
        }
    }

    /// Writes to a unit with lost blocks. Blocks that the write fills are no longer lost. Parts
    /// that fill such a block only partially fail; the others continue without them.
    fn write_beside(&mut self, key: u32, plan: &mut Plan<'_>) {
        let (chunk, chunks) = (self.geometry.chunk_bytes, self.chunks());
        let job = &mut self.jobs[key as usize];
        let Some(mut salvage) = job.salvage.take() else { return };
        for number in each(job.touched) {
            for block in salvage.lost[number].each() {
                let from = block as u32 * geometry::BLOCK;
                if job.fills(number as u32, chunk, from, from + geometry::BLOCK) {
                    salvage.lost[number].clear(block);
                }
            }
        }
        let fails = |part: &Part| {
            salvage.is_lost(part, chunk) || salvage.would_drop(part, chunk, job.level, chunks)
        };
        let (failing, rest): (Vec<Part>, Vec<Part>) =
            std::mem::take(&mut job.parts).into_iter().partition(fails);
        if failing.is_empty() {
            (job.parts, job.salvage) = (rest, Some(salvage));
            return self.compose(key, plan);
        }
        (job.parts, job.salvage) = (failing, Some(salvage));
        let number = job.number;
        for part in rest.into_iter().rev() {
            self.locks.ask_first(number, Task::Write(part));
        }
        self.finish(key, Err(Fault::Media), plan);
    }

    /// Returns the blocks of a role that are written as lost.
    pub(super) fn lost_blocks(&self, key: u32, level: Level, role: usize) -> Blocks {
        let salvage = self.jobs[key as usize].salvage.as_ref();
        salvage.map_or(Blocks::default(), |it| it.lost_of(level, role, self.chunks()))
    }

    /// Returns the losses of a unit after a job that writes these roles.
    pub(super) fn lost_after(&self, key: u32, writes: Roles) -> Lost {
        let (job, chunks) = (&self.jobs[key as usize], self.chunks());
        let level = job.level;
        if let Some(salvage) = &job.salvage {
            return salvage.summary(level, writes, chunks, &self.geometry);
        }
        match job.doing {
            // The write needed no data except its own.
            Doing::Write if level.parities() == 0 => job.old.lost.without(writes),
            Doing::Write if job.method == Method::Modify => job.old.lost,
            Doing::Move { .. } => job.old.lost,
            // All data has been read.
            _ => Lost::NONE,
        }
    }

    /// Returns the losses found by a job that failed.
    pub(super) fn found_lost(&self, key: u32) -> Option<Lost> {
        let job = &self.jobs[key as usize];
        let salvage = job.salvage.as_ref()?;
        Some(salvage.summary(job.level, 0, self.chunks(), &self.geometry))
    }

    /// Returns whether a repair leaves a damaged role in its cell: if the cell may still help to
    /// reconstruct lost blocks later, or if there is nothing to write.
    pub(super) fn is_left(&self, key: u32, role: usize, place: Place) -> bool {
        let job = &self.jobs[key as usize];
        let Some(salvage) = &job.salvage else { return false };
        let lost = salvage.lost_of(job.level, role, self.chunks());
        let may_tell = !salvage.unread[role].and(lost).is_empty();
        if self.drives.lane(place).is_some() || lost.is_empty() {
            return may_tell;
        }
        let is_member = |(drive, _)| self.drives.members().contains(&drive);
        place.cell().is_some_and(is_member) || lost == Blocks::first(blocks_of(&self.geometry))
    }

    /// Records the losses in the table after a repair has failed.
    pub(super) fn note_lost(&mut self, key: u32, number: u64, old: &Unit, plan: &Plan<'_>) {
        let lost = self.found_lost(key).filter(|lost| *lost != old.lost);
        if let Some(lost) = lost.filter(|_| self.unit(number) == *old) {
            self.install(number, old, &Unit { lost, ..*old }, plan);
        }
    }
}

impl Salvage {
    /// Returns whether a part of a request touches a lost block.
    fn is_lost(&self, part: &Part, chunk: u32) -> bool {
        (0..ROLES_MAX).any(|number| {
            touched(part, number as u32, chunk).is_some_and(|(from, to)| {
                let (first, end) = (from / geometry::BLOCK, to.div_ceil(geometry::BLOCK));
                (first..end).any(|block| self.lost[number].has(block as usize))
            })
        })
    }

    /// Returns whether a part rewrites a chunk although an unreadable cell of that chunk may still
    /// provide a lost block.
    fn would_drop(&self, part: &Part, chunk: u32, level: Level, chunks: usize) -> bool {
        (0..chunks).filter(|number| touched(part, *number as u32, chunk).is_some()).any(|number| {
            let mut holders = level.holders(number, chunks);
            holders.any(|role| !self.unread[role].and(self.lost[number]).is_empty())
        })
    }

    fn summary(&self, level: Level, writes: Roles, chunks: usize, of: &geometry::Geometry) -> Lost {
        let is_whole = |role: &usize| {
            level.chunk(*role, chunks).is_some_and(|chunk| self.lost[chunk].is_empty())
        };
        let whole =
            each(self.roles).filter(is_whole).fold(0, |roles: Roles, role| roles | 1 << role);
        // Parities that are written at the positions of lost blocks cannot be read there, either.
        let parities = writes & !all(chunks);
        let parities = if level.parities() > 0 { parities } else { 0 };
        Lost::of(self.roles & !whole | parities, self.lost_anywhere(), of)
    }
}

/// Reconstructs the blocks of all data chunks at a position, or marks them as lost.
fn tell_block(
    job: &Job,
    chunks: usize,
    block: usize,
    salvage: &mut Salvage,
    slots: &mut dyn Slots,
) {
    let (level, len) = (job.level, geometry::BLOCK);
    let at = |role: usize| Bytes::of(job.bufs[role]).on(block as u32 * len);
    let is_bad = |role: &usize| salvage.bad(*role).has(block);
    let bad: Vec<usize> = (0..level.roles(chunks)).filter(is_bad).collect();
    let is_data = |role: &usize| level.parities() == 0 || *role < chunks;
    if !bad.iter().any(is_data) {
        return;
    }
    if level.parities() > 0 && bad.len() <= level.parities() {
        let data: Vec<Bytes> = (0..chunks).map(at).collect();
        let parities: Vec<Bytes> = (chunks..level.roles(chunks)).map(at).collect();
        return slots.recover(&data, len, &parities, &bad);
    }
    for chunk in 0..chunks {
        let mut holders = level.holders(chunk, chunks);
        match holders.find(|role| !bad.contains(role)) {
            Some(role) if role == chunk => continue,
            Some(role) => slots.copy(at(role).len(len), at(chunk)),
            None => {
                salvage.lost[chunk].set(block);
                slots.zero(at(chunk).len(len));
            }
        }
    }
    let is_to_blame = |role: &&usize| match level.chunk(**role, chunks) {
        Some(chunk) => salvage.lost[chunk].has(block),
        None => true,
    };
    let blamed = bad.iter().filter(is_to_blame).fold(0, |roles: Roles, role| roles | 1 << role);
    salvage.roles |= blamed;
}
