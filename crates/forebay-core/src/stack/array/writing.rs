//! Writes the new content of each role to its place, with a trailer.

use std::sync::Arc;

use super::{
    Array, Blocks, LOST_SUM, Level, Method, Place, Roles, Sums, all, each, geometry, touched,
    trailer, within,
};
use crate::contract::{Buf, Bytes, Fault, Flags, Op, Piece, Slots};
use crate::stack::placed::{Plan, Planned};

/// Maximum number of attempts to write failed roles to other cells.
const TRIES_MAX: u8 = 4;

/// The trailer of a role, in a buffer. Copies of a chunk share it.
struct Sealed {
    what: usize,
    content: Bytes,
    buf: Buf,
    sums: Sums,
    check: u32,
}

impl Array {
    /// Begins a write if there is space for it; otherwise, the write waits.
    pub(super) fn begin_write(&mut self, key: u32, plan: &mut Plan<'_>) {
        if self.log.is_full(self.changed.len() + self.round.len()) || !self.has_place(key) {
            self.counts.stalls += u64::from(self.jobs[key as usize].waits == 0);
            return self.stall(key, plan);
        }
        self.gather(key, plan);
    }

    /// Allocates cells for the roles of a write. Returns whether there was space.
    fn has_place(&mut self, key: u32) -> bool {
        let (chunk, chunks) = (self.geometry.chunk_bytes, self.chunks());
        let number = self.jobs[key as usize].number;
        self.free_doubted(number);
        let old = self.unit(number);
        // The job may have waited, and the unit may have changed in the meantime.
        let job = &mut self.jobs[key as usize];
        job.span(chunk, geometry::BLOCK.min(chunk), false);
        let touched = job.touched;
        let kind = if old.level.is_some() { old.kind } else { self.hinted_kind(number) };
        let count = touched.count_ones() as usize;
        let first = self.adapting.as_ref().and_then(|it| it.first(count, kind));
        let hinted = self.hints.of(number).level;
        let first = hinted.or(first).unwrap_or(self.first);
        let kind = match old.level {
            Some(_) => kind,
            None => self.first_kind(kind, first),
        };
        let level = match old.level {
            Some(level) => level,
            None if self.has_spare(first, kind) => first,
            None => {
                self.counts.mirrors_refused += 1;
                self.leanest
            }
        };
        let job = &mut self.jobs[key as usize];
        (job.level, job.old, job.new) = (level, old, old);
        (job.new.level, job.new.kind) = (Some(level), kind);
        let writes = written(level, chunks, touched);
        let mut new = job.new;
        let room = self.allot(number, &mut new, level, writes).is_some();
        // A role that gets a new cell is written there completely. A role that no drive can hold is
        // not written at all, so a degraded unit writes no more than it would with all its drives.
        let has_new_cell = |role: usize| {
            let [is, was] = [&new, &old].map(|unit| self.drives.lane(unit.places[role]));
            is.is_some() && was.is_none()
        };
        let whole = self.is_fresh() || each(writes).any(has_new_cell);
        let job = &mut self.jobs[key as usize];
        job.span(chunk, 1, whole);
        (job.new, job.writes) = (if room { new } else { old }, writes);
        room
    }

    /// Computes the new content of all roles to write, and writes them.
    pub(super) fn compose(&mut self, key: u32, plan: &mut Plan<'_>) {
        let chunks = self.chunks();
        let (level, method) = (self.jobs[key as usize].level, self.jobs[key as usize].method);
        let job = &self.jobs[key as usize];
        let (len, covered) = (job.hi - job.lo, job.covered == all(chunks));
        let counted = match (method, level.parities()) {
            (_, 0) => None,
            (Method::Modify, _) => Some(&mut self.counts.modify_writes),
            _ if covered => Some(&mut self.counts.full_writes),
            _ => Some(&mut self.counts.reconstruct_writes),
        };
        if let Some(count) = counted {
            *count += 1;
        }
        let parities: Vec<Bytes> = (0..level.parities())
            .map(|parity| {
                let buf = &mut self.jobs[key as usize].bufs[chunks + parity];
                if *buf == 0 {
                    *buf = plan.slots.take(len);
                }
                Bytes::of(*buf)
            })
            .collect();
        if method == Method::Modify {
            self.sum(key, &parities, plan.slots);
        }
        for chunk in each(self.jobs[key as usize].touched) {
            self.compose_chunk(key, chunk, plan.slots);
        }
        match method {
            Method::Modify => self.sum(key, &parities, plan.slots),
            Method::Reconstruct if !parities.is_empty() => {
                let job = &self.jobs[key as usize];
                let data = (0..chunks).map(|chunk| match job.touched >> chunk & 1 {
                    1 => job.contents[chunk],
                    _ => Bytes::of(job.bufs[chunk]),
                });
                plan.slots.parity(&data.collect::<Vec<_>>(), len, &parities);
            }
            Method::Reconstruct => {}
        }
        for (parity, bytes) in parities.into_iter().enumerate() {
            self.jobs[key as usize].contents[chunks + parity] = bytes;
        }
        let lost = self.lost_after(key, self.jobs[key as usize].writes);
        self.jobs[key as usize].new.lost = lost;
        self.write_out(key, plan);
    }

    /// Adds the content of touched chunks to the parities: first the old content, which removes it,
    /// then the new content.
    fn sum(&self, key: u32, parities: &[Bytes], slots: &mut dyn Slots) {
        let job = &self.jobs[key as usize];
        let len = job.hi - job.lo;
        for chunk in each(job.touched) {
            let content = match job.contents[chunk] {
                Bytes::NONE => Bytes::of(job.bufs[chunk]),
                content => content,
            };
            for (parity, to) in parities.iter().enumerate() {
                let factor = if parity == 0 { 1 } else { power_of_two(chunk) };
                slots.add(content.len(len), *to, factor);
            }
        }
    }

    /// Computes the content of a chunk after the write, for all roles that hold it.
    fn compose_chunk(&mut self, key: u32, number: usize, slots: &mut dyn Slots) {
        let (chunk, chunks) = (self.geometry.chunk_bytes, self.chunks());
        let read = self.holder(key, number);
        let job = &mut self.jobs[key as usize];
        let content = job.sole(number as u32, chunk).unwrap_or_else(|| {
            let role = read.unwrap_or(number);
            if job.bufs[role] == 0 {
                job.bufs[role] = slots.take(job.hi - job.lo);
            }
            let to = Bytes::of(job.bufs[role]);
            for part in job.parts.iter().filter(|it| touched(it, number as u32, chunk).is_some()) {
                let (from, end) = within(part, number as u32, chunk);
                let bytes = part.bytes.on(number as u32 * chunk + from - part.from);
                slots.copy(bytes.len(end - from), to.on(from - job.lo));
            }
            to
        });
        for role in job.level.holders(number, chunks) {
            job.contents[role] = content;
        }
    }

    /// Writes the roles of a job that have a place.
    pub(super) fn write_out(&mut self, key: u32, plan: &mut Plan<'_>) {
        let lapses = self.drives.lapses();
        let job = &mut self.jobs[key as usize];
        (job.writing, job.failed, job.given) = (true, 0, job.given | job.writes);
        each(job.writes).for_each(|role| job.lapses[role] = lapses);
        let mut sealed = Vec::new();
        for role in each(job.writes) {
            self.write_role(key, role, &mut sealed, plan);
        }
        sealed.iter().for_each(|it| plan.slots.free(it.buf));
        if self.jobs[key as usize].left == 0 {
            self.written(key, plan);
        }
    }

    /// Writes a role and its trailer. `sealed` are the trailers of the roles before.
    fn write_role(&mut self, key: u32, role: usize, sealed: &mut Vec<Sealed>, plan: &mut Plan<'_>) {
        let job = &self.jobs[key as usize];
        let (new, content, len) = (job.new, job.contents[role], job.hi - job.lo);
        let Some(io) = self.job_io(key, role, &new, Op::Write) else {
            let is_lost = new.places[role].is_lost();
            self.jobs[key as usize].failed |= Roles::from(!is_lost) << role;
            return;
        };
        let durable = job.parts.iter().any(|part| part.durable) && !self.is_fresh();
        let flags = if durable { io.flags.with(Flags::FUA) } else { io.flags };
        plan.io(Planned { bytes: content, flags, ..io });
        self.jobs[key as usize].left += 1;
        if !self.is_fresh() {
            return;
        }
        let level = new.level.unwrap_or(self.first);
        let what = level.chunk(role, self.chunks()).unwrap_or(role);
        let at = match sealed.iter().position(|it| (it.what, it.content) == (what, content)) {
            Some(at) => at,
            None => {
                let number = self.jobs[key as usize].number;
                let lost = self.lost_blocks(key, level, role);
                sealed.push(self.seal_role(number, what, content.len(len), lost, plan.slots));
                sealed.len() - 1
            }
        };
        let Sealed { buf, check, ref sums, .. } = sealed[at];
        let place = &mut self.jobs[key as usize].new.places[role];
        *place = place.checked(check);
        self.known.put(*place, Arc::clone(sums));
        let (offset, len) = (io.offset + u64::from(len), geometry::BLOCK);
        plan.io(Planned { offset, len, bytes: Bytes::of(buf), ..io });
        self.jobs[key as usize].left += 1;
    }

    /// Returns the trailer for `content`, in a buffer.
    fn seal_role(
        &self,
        number: u64,
        what: usize,
        content: Piece,
        lost: Blocks,
        slots: &mut dyn Slots,
    ) -> Sealed {
        let from = content.bytes();
        // Without contents there are no checksums, and none are verified later.
        let sums = (0..content.len / geometry::BLOCK).map(|block| {
            let sum = slots.checksum(from.on(block * geometry::BLOCK).len(geometry::BLOCK))?;
            Some(if lost.has(block as usize) { LOST_SUM } else { sum })
        });
        let sums: Sums = sums.collect::<Option<_>>().unwrap_or_default();
        let buf = slots.take(geometry::BLOCK);
        let piece = Bytes::of(buf).len(geometry::BLOCK);
        slots.put(piece, &trailer(self.geometry.volume, number, what, &sums));
        let check = slots.checksum(piece).unwrap_or(0) as u32;
        Sealed { what, content: from, buf, sums, check }
    }

    /// Handles the end of all writes of a job. Roles whose writes failed are written to other
    /// cells, or are lost.
    pub(super) fn written(&mut self, key: u32, plan: &mut Plan<'_>) {
        let chunks = self.chunks();
        let job = &self.jobs[key as usize];
        // A drive that disappeared, or whose flush failed, may have lost the data written to it.
        let is_gone = |role: &usize| {
            let place = job.new.places[*role];
            let there = self.drives.lane(place).is_some();
            place.cell().is_some() && !there || self.drives.has_lapsed(place, job.lapses[*role])
        };
        // Include roles that an earlier attempt wrote.
        let gone = each(job.given).filter(is_gone).fold(0, |roles: Roles, role| roles | 1 << role);
        let failed = job.failed | gone;
        let job = &mut self.jobs[key as usize];
        if failed != 0 {
            job.tries += 1;
            let (number, old, level) = (job.number, job.old, job.new.level.unwrap_or(job.level));
            let (again, mut new) = (job.tries < TRIES_MAX, job.new);
            let mut refused = Vec::new();
            for role in each(failed) {
                // A role that is updated in place has no other cell.
                if self.is_fresh() || self.drives.lane(new.places[role]).is_none() {
                    let place = &mut new.places[role];
                    refused.push(std::mem::replace(place, place.lost()));
                }
            }
            let room = again && self.allot(number, &mut new, level, failed).is_some();
            // Free the cells whose writes failed, because later writes to them may succeed.
            refused.into_iter().filter(|it| !old.names(*it)).for_each(|it| self.drives.give(it));
            let job = &mut self.jobs[key as usize];
            (job.new, job.writes) = (new, failed);
            if room {
                return self.write_out(key, plan);
            }
            if job.lacks_room {
                return self.await_room_for(key, plan);
            }
            let given: Vec<Place> = each(failed).map(|role| job.new.places[role]).collect();
            each(failed).for_each(|role| job.new.places[role] = job.new.places[role].lost());
            given
                .into_iter()
                .filter(|place| !old.names(*place))
                .for_each(|it| self.drives.give(it));
        }
        if !self.jobs[key as usize].lacks_room {
            self.full.took_data();
        }
        self.join_losses(key);
        let whole = self.drives.has_all(&self.jobs[key as usize].new, chunks);
        self.finish(key, if whole { Ok(()) } else { Err(Fault::Gone) }, plan);
    }
}

impl Array {
    /// Adopts the losses that writes to other rows of the unit have recorded since this write
    /// began.
    fn join_losses(&mut self, key: u32) {
        if self.is_fresh() {
            return;
        }
        let now = self.unit(self.jobs[key as usize].number);
        let job = &mut self.jobs[key as usize];
        for (role, place) in now.places.into_iter().enumerate() {
            if place.is_lost() && !job.old.places[role].is_lost() {
                (job.old.places[role], job.new.places[role]) = (place, place);
            }
        }
    }
}

/// Returns the roles that a write of data chunks must write.
fn written(level: Level, chunks: usize, touched: Roles) -> Roles {
    let holders = each(touched).flat_map(|chunk| level.holders(chunk, chunks));
    let holders = holders.fold(0, |roles: Roles, role| roles | 1 << role);
    holders | all(level.roles(chunks)) & !all(level.roles(chunks) - level.parities())
}

/// Returns `2^exponent` in GF(2^8) with the polynomial 0x11d: the factor of a data chunk in Q.
fn power_of_two(exponent: usize) -> u8 {
    (0..exponent).fold(1u8, |power, _| (power << 1) ^ ((power >> 7) * 0x1d))
}
