//! Executes a job: reads roles of a unit, reconstructs lost ones, and writes roles to fresh cells
//! or in place.

use super::{Array, BLOCK, Doing, JOB, Job, KIND, Level, Place, Roles, Task, Unit};
use crate::contract::{Bytes, Fault, Nanos, Op, Outcome};
use crate::stack::placed::{Owner, Plan, Planned};

impl Array {
    pub(super) fn open_job(&mut self, number: u64, tasks: &[Task]) -> u32 {
        let old = self.unit(number);
        let level = old.level.unwrap_or(self.first);
        let key = self.vacant.pop().unwrap_or_else(|| {
            self.jobs.push(Job::new(number, old, level));
            self.jobs.len() as u32 - 1
        });
        let job = &mut self.jobs[key as usize];
        let mut parts = std::mem::take(&mut job.parts);
        parts.clear();
        *job = Job { parts, ..Job::new(number, old, level) };
        job.ask(tasks);
        self.room.reads += usize::from(job.doing == Doing::Read);
        key
    }

    pub(super) fn begin(&mut self, key: u32, plan: &mut Plan<'_>) {
        let (chunk, fresh) = (self.geometry.chunk_bytes, self.is_fresh());
        let job = &mut self.jobs[key as usize];
        match job.doing {
            Doing::Read => {
                job.span(chunk, BLOCK.min(chunk), false);
                // A disk that is being read sequentially passes over the trailer anyway: skipping
                // it would cost a revolution.
                let ends_within = job.hi < chunk;
                if fresh && !(ends_within && self.knows_sums(key)) {
                    self.jobs[key as usize].hi = chunk; // Reads on to the trailer.
                }
                self.gather(key, plan);
            }
            Doing::Write => self.ask_to_write(key, plan),
            Doing::Trim => {
                self.jobs[key as usize].new = Unit::EMPTY;
                self.finish(key, Ok(()), plan);
            }
            Doing::Switch(..) | Doing::Repair { .. } | Doing::Move { .. } => {
                self.begin_remake(key, plan)
            }
        }
    }

    /// Returns the size of a job's buffer for a role in bytes: the data to read and, if needed, the
    /// trailer.
    pub(super) fn buf_bytes(&self, job: &Job) -> u32 {
        let trailer = if job.sums.is_empty() { self.geometry.trailer_bytes() } else { 0 };
        job.hi - job.lo + trailer
    }

    /// Returns the roles of a unit that consist of zeros, and all roles that can be read, including
    /// these.
    pub(super) fn usable(&self, unit: &Unit, level: Level, bad: Roles) -> (Roles, Roles) {
        let (mut zero, mut usable) = (0, 0);
        for role in 0..level.roles(self.chunks()) {
            let place = unit.places[role];
            if place == Place::ZERO {
                zero |= 1 << role;
            } else if self.drives.lane(place).is_some() && bad >> role & 1 == 0 {
                usable |= 1 << role;
            }
        }
        (zero, usable | zero)
    }

    /// Returns an I/O of a job for one of its roles.
    pub(super) fn job_io(&self, key: u32, role: usize, unit: &Unit, op: Op) -> Option<Planned> {
        let place = unit.places[role];
        let (lane, (_, cell)) = (self.drives.lane(place)?, place.cell()?);
        let job = &self.jobs[key as usize];
        Some(Planned {
            owner: Owner::Background,
            lane: lane as u16,
            op,
            offset: self.geometry.cell_at(cell) + u64::from(job.lo),
            len: job.hi - job.lo,
            bytes: Bytes::NONE,
            stream: job.stream(),
            flags: job.flags(),
            token: JOB << KIND | u64::from(key) << 8 | role as u64,
        })
    }

    /// Ends a job: answers clients, records the new state of the unit, and lets the next job begin.
    pub(super) fn finish(&mut self, key: u32, outcome: Outcome, plan: &mut Plan<'_>) {
        let outcome = outcome.and_then(|()| self.without_doubted(key));
        let job = &mut self.jobs[key as usize];
        let (number, doing, old, new) = (job.number, job.doing, job.old, job.new);
        let parts = std::mem::take(&mut job.parts);
        let (bad, is_new) = (job.bad, new != old);
        if let (Doing::Read | Doing::Write, Some(level), Ok(())) = (doing, new.level, outcome)
            && self.adapt(key, &parts, level, new.kind)
            // A switch of a unit with lost blocks reads everything again.
            && self.jobs[key as usize].salvage.is_none()
        {
            self.carry(key, plan.slots);
        }
        let job = &mut self.jobs[key as usize];
        let bufs = job.bufs.iter_mut().chain(&mut job.parities);
        for buf in bufs.map(std::mem::take).filter(|buf| *buf != 0) {
            plan.slots.free(buf);
        }
        match outcome {
            Ok(()) if is_new => self.install(number, &old, &new, plan),
            Ok(()) => {}
            Err(_) => self.revert(&old, &new),
        }
        let is_repair = matches!(doing, Doing::Repair { .. });
        if is_repair && outcome.is_err() {
            self.note_lost(key, number, &old, plan);
        }
        // If nothing is installed, a repair records the loss.
        let is_noted = outcome.is_ok() && is_new;
        let finds_loss = !is_noted && self.found_lost(key).is_some_and(|lost| lost != old.lost);
        for part in &parts {
            if part.durable && outcome.is_ok() && self.is_fresh() {
                self.log.wait(part.client, None);
            } else {
                plan.release_after(part.client, plan.now - part.at, outcome);
            }
        }
        self.charge(plan.now);
        let is_care = is_repair || matches!(doing, Doing::Move { .. } | Doing::Switch(..));
        if is_care {
            self.care.ended(number);
        }
        if is_repair && outcome.is_ok() {
            self.tell_mended(number, &old, &new, bad);
        }
        if !is_repair && !self.reads_only {
            if bad != 0 || finds_loss {
                self.locks.ask(number, Task::Repair { reads_all: true });
            } else if outcome.is_ok() && is_new && self.may_be_whole(&new) {
                // A drive had no space for a role, or its write failed.
                self.locks.ask(number, Task::Repair { reads_all: false });
            }
        }
        let durable = parts.iter().any(|part| part.durable);
        self.jobs[key as usize].parts = parts;
        self.vacant.push(key);
        self.room.reads -= usize::from(doing == Doing::Read);
        if matches!(doing, Doing::Switch(..)) {
            self.switched(number);
        }
        if durable {
            self.commit(plan);
        }
        self.locks.end(number, doing == Doing::Read);
        self.settle_doubts(number);
        self.ready.push(number);
    }

    /// Records the new state of a unit.
    pub(super) fn install(&mut self, number: u64, old: &Unit, new: &Unit, plan: &Plan<'_>) {
        let newest = self.unit(number);
        self.hold(number, &newest, new);
        if self.is_fresh() && !self.reads_only {
            self.changed.insert(number, *new);
            self.log.changed(plan.now);
        } else {
            self.table.set(number, new);
        }
        self.release(number, old);
    }

    /// Frees the new cells of a change that is abandoned.
    pub(super) fn revert(&mut self, old: &Unit, new: &Unit) {
        for place in new.places.into_iter().filter(|place| !old.names(*place)) {
            self.drives.give(place);
        }
    }

    /// Records that an I/O of a drive failed. Failures for lack of space, of blocks of a cell that
    /// was already counted, and of damaged records do not count.
    pub(super) fn fault(&mut self, io: &Planned, fault: Fault, now: Nanos) {
        let is_counted =
            fault == Fault::Media && (Array::is_of_block(io.token) || self.is_excused(io));
        if fault == Fault::Full || is_counted {
            return;
        }
        let lane = usize::from(io.lane);
        let is_over = self.drives.fault(lane, now) || fault == Fault::Gone;
        if is_over && self.lose(lane) && !self.reads_only {
            self.care.rebuild(now);
        }
    }

    /// Handles the end of an I/O of a job.
    pub(super) fn job_done(&mut self, io: &Planned, outcome: Outcome, plan: &mut Plan<'_>) {
        let (key, role) = ((io.token >> 8) as u32, io.token as u8 as usize);
        let job = &mut self.jobs[key as usize];
        job.left -= 1;
        if job.writing {
            job.failed |= Roles::from(outcome.is_err()) << role;
            job.lacks_room |= outcome == Err(Fault::Full);
            if job.left == 0 {
                self.written(key, plan);
            }
            return;
        }
        if job.salvage.is_some() {
            return self.salvaged(io, key, role, outcome, plan);
        }
        let is_good = outcome.is_ok() && self.is_whole(key, role, plan.slots);
        let job = &mut self.jobs[key as usize];
        *if is_good { &mut job.read } else { &mut job.bad } |= 1 << role;
        if job.left == 0 {
            self.gather(key, plan);
        }
    }
}
