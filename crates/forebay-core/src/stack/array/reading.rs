//! Reads roles of a unit, and reconstructs lost ones from others.

use super::{
    Array, Doing, LOST_SUM, Method, Needs, Place, View, all, blocks_of, each, geometry, sums,
    within,
};
use crate::contract::{Bytes, Op, Slots};
use crate::stack::placed::{Plan, Planned};

impl Array {
    /// Returns whether the checksums of all roles that a read needs are known. If so, the read uses
    /// them.
    pub(super) fn knows_sums(&mut self, key: u32) -> bool {
        let job = &self.jobs[key as usize];
        let view = self.view(key);
        let Some(Needs { reads, .. }) = view.to_read(job.touched) else { return false };
        let sums = each(reads & !view.zero)
            .map(|role| Some((role, self.known.get(job.old.places[role])?)))
            .collect::<Option<Vec<_>>>();
        // A read succeeds completely or fails completely; a failed one is repeated with the
        // trailer.
        let Some(sums) = sums.filter(|sums| !sums.is_empty()) else { return false };
        self.jobs[key as usize].sums = sums;
        true
    }

    fn view(&self, key: u32) -> View {
        let job = &self.jobs[key as usize];
        let (zero, usable) = self.usable(&job.old, job.level, job.bad);
        let copy = (job.number as usize).wrapping_add(key as usize);
        // Data that has been read remains available even if its drive has failed since.
        View { level: job.level, chunks: self.chunks(), usable: usable | job.read, zero, copy }
    }

    /// Reads the roles that a job still needs, and continues the job if it has all of them.
    pub(super) fn gather(&mut self, key: u32, plan: &mut Plan<'_>) {
        if self.jobs[key as usize].bad != 0 && !self.jobs[key as usize].sums.is_empty() {
            self.forget_sums(key, plan.slots);
        }
        let (chunks, view) = (self.chunks(), self.view(key));
        let job = &self.jobs[key as usize];
        let needs = match job.doing {
            Doing::Write => view.to_write(job.touched, job.covered),
            Doing::Repair { reads_all: true } => {
                let told = view.to_read(all(chunks));
                told.map(|needs| Needs { reads: needs.reads | view.usable, ..needs })
            }
            _ => view.to_read(job.touched),
        };
        let Some(Needs { reads, method }) = needs else {
            return self.begin_salvage(key, plan);
        };
        let job = &mut self.jobs[key as usize];
        job.method = method;
        for role in each(reads & !job.read) {
            self.read_role(key, role, plan);
        }
        let job = &self.jobs[key as usize];
        if job.left > 0 {
            return;
        }
        if reads & job.bad != 0 {
            return self.gather(key, plan);
        }
        self.recover(key, plan);
        self.gathered(key, plan);
    }

    /// Discards data that did not match their known checksums: everything is read again, with
    /// trailers.
    fn forget_sums(&mut self, key: u32, slots: &mut dyn Slots) {
        let chunk = self.geometry.chunk_bytes;
        let job = &mut self.jobs[key as usize];
        job.sums.clear();
        for buf in job.bufs.iter_mut().map(std::mem::take).filter(|buf| *buf != 0) {
            slots.free(buf);
        }
        (job.read, job.hi) = (0, chunk);
    }

    pub(super) fn read_role(&mut self, key: u32, role: usize, plan: &mut Plan<'_>) {
        let job = &self.jobs[key as usize];
        let (len, old) = (self.buf_bytes(job), job.old);
        let is_zero = old.places[role] == Place::ZERO;
        let buf = plan.slots.take(len);
        if is_zero {
            plan.slots.zero(Bytes::of(buf).len(len));
        }
        let io = self.job_io(key, role, &old, Op::Read).filter(|_| !is_zero);
        let job = &mut self.jobs[key as usize];
        job.bufs[role] = buf;
        match io {
            Some(io) => {
                job.left += 1;
                plan.io(Planned { len, bytes: Bytes::of(buf), ..io });
            }
            None if is_zero => job.read |= 1 << role,
            None => job.bad |= 1 << role,
        }
    }

    /// Returns whether the data read for a role are intact: their trailer, and the checksum of each
    /// block. Frees damaged data.
    pub(super) fn is_whole(&mut self, key: u32, role: usize, slots: &mut dyn Slots) -> bool {
        if !self.is_fresh() {
            return true;
        }
        let job = &self.jobs[key as usize];
        let (buf, len) = (Bytes::of(job.bufs[role]), job.hi - job.lo);
        if let Some((_, sums)) = job.sums.iter().find(|(known, _)| *known == role) {
            let (rotten, lost) = wrong_blocks(slots, buf, job.lo, job.hi, sums);
            self.counts.rotten_blocks += rotten;
            return self.keep_whole(key, role, rotten + lost, slots);
        }
        let place = job.old.places[role];
        let trailer = buf.on(len).len(geometry::BLOCK);
        let mut bytes = [0; geometry::BLOCK as usize];
        if !slots.get(trailer, &mut bytes) {
            self.known.put(place, Vec::new().into());
            return true; // There are no contents in this run.
        }
        let check = slots.checksum(trailer).unwrap_or(0) as u32 & 0xFF_FFFF;
        let what = job.level.chunk(role, self.chunks()).unwrap_or(role);
        let known = sums(&bytes, self.geometry.volume, job.number, what)
            .filter(|_| check == job.old.places[role].check());
        let (rotten, lost) = match known {
            None => (u64::from(len / geometry::BLOCK), 0),
            Some(sums) => {
                let wrong = wrong_blocks(slots, buf, job.lo, job.hi, &sums);
                if wrong == (0, 0) {
                    self.known.put(place, sums[..blocks_of(&self.geometry)].into());
                }
                wrong
            }
        };
        self.counts.rotten_blocks += rotten;
        self.keep_whole(key, role, rotten + lost, slots)
    }

    /// Frees data with wrong blocks. Returns whether all blocks were correct.
    fn keep_whole(&mut self, key: u32, role: usize, wrong: u64, slots: &mut dyn Slots) -> bool {
        if wrong > 0 {
            slots.free(self.jobs[key as usize].bufs[role]);
            self.jobs[key as usize].bufs[role] = 0;
        }
        wrong == 0
    }

    /// Reconstructs the roles of a stripe that were not read, if the job needs them.
    fn recover(&mut self, key: u32, plan: &mut Plan<'_>) {
        let chunks = self.chunks();
        let job = &self.jobs[key as usize];
        let level = job.level;
        let roles = all(level.roles(chunks));
        let lost: Vec<usize> = each(roles & !job.read).collect();
        let wanted = match job.doing {
            Doing::Write if job.method == Method::Modify => 0,
            Doing::Write if level.parities() > 0 => all(chunks) & !job.covered,
            Doing::Write => 0,
            _ => job.touched,
        };
        if level.parities() == 0 || wanted & !job.read == 0 || lost.len() > level.parities() {
            return;
        }
        self.counts.degraded += 1;
        let len = job.hi - job.lo;
        let job = &mut self.jobs[key as usize];
        for role in &lost {
            // A role that could not be read may already have a buffer.
            if job.bufs[*role] == 0 {
                job.bufs[*role] = plan.slots.take(len);
            }
            job.read |= 1 << role;
        }
        let bytes: Vec<Bytes> = job.bufs.iter().map(|buf| Bytes::of(*buf)).collect();
        let (data, rest) = bytes.split_at(chunks);
        plan.slots.recover(data, len, &rest[..level.parities()], &lost);
    }

    /// Continues a job that has read everything it needs.
    pub(super) fn gathered(&mut self, key: u32, plan: &mut Plan<'_>) {
        match self.jobs[key as usize].doing {
            Doing::Read => {
                self.hand_out(key, plan.slots);
                self.finish(key, Ok(()), plan);
            }
            Doing::Write => self.compose(key, plan),
            _ => self.remake(key, plan),
        }
    }

    /// Returns the role from which a data chunk was read.
    pub(super) fn holder(&self, key: u32, chunk: usize) -> Option<usize> {
        let job = &self.jobs[key as usize];
        job.level.holders(chunk, self.chunks()).find(|role| job.read >> role & 1 == 1)
    }

    fn hand_out(&self, key: u32, slots: &mut dyn Slots) {
        let (job, chunk) = (&self.jobs[key as usize], self.geometry.chunk_bytes);
        // Parts without a buffer are only read, not returned.
        for part in job.parts.iter().filter(|part| part.bytes.buf != 0) {
            for number in each(job.touched) {
                let (from, to) = within(part, number as u32, chunk);
                let Some(role) = self.holder(key, number).filter(|_| from < to) else { continue };
                let read = Bytes::of(job.bufs[role]).on(from - job.lo).len(to - from);
                slots.copy(read, part.bytes.on(number as u32 * chunk + from - part.from));
            }
        }
    }
}

/// Returns how many blocks of a chunk, read from `lo` to `hi`, have wrong checksums, and how many
/// are known to be lost. If nothing has content, both are 0.
fn wrong_blocks(slots: &dyn Slots, read: Bytes, lo: u32, hi: u32, sums: &[u64]) -> (u64, u64) {
    let (mut rotten, mut lost) = (0, 0);
    for block in lo / geometry::BLOCK..hi / geometry::BLOCK {
        let piece = read.on((block - lo / geometry::BLOCK) * geometry::BLOCK).len(geometry::BLOCK);
        match sums.get(block as usize) {
            Some(&LOST_SUM) => lost += 1,
            Some(sum) if slots.checksum(piece) != Some(*sum) => rotten += 1,
            _ => {}
        }
    }
    (rotten, lost)
}
