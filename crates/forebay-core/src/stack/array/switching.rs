//! Other places for a unit that stays what it is: another level, what is lost made anew, or a drive with
//! more room.

use super::Array;
use super::job::Doing;
use super::level::{Level, ROLES_MAX, Roles, all, each};
use super::unit::{Place, Unit};
use crate::contract::bytes::{Buf, Bytes, Slots};
use crate::stack::placed::Plan;

/// The data chunks of a unit as a request left them, so that a switch that follows need not read them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    chunks: Roles,
    bufs: [Buf; ROLES_MAX],
}

impl Array {
    /// Keeps what a job knows of whole chunks, for the switch that comes next.
    pub(super) fn carry(&mut self, key: u32, slots: &mut dyn Slots) {
        let (job, len) = (&self.jobs[key as usize], self.geometry.chunk_bytes);
        if (job.lo, job.hi) != (0, len) {
            return;
        }
        let mut carried = Carried { chunks: 0, bufs: [0; ROLES_MAX] };
        for chunk in 0..self.chunks() {
            let is_written = job.doing == Doing::Write && job.touched >> chunk & 1 == 1;
            let content = match self.holder(key, chunk) {
                _ if is_written => job.contents[chunk],
                Some(role) => Bytes::of(job.bufs[role]),
                None => continue,
            };
            carried.bufs[chunk] = slots.take(len);
            slots.copy(content.len(len), Bytes::of(carried.bufs[chunk]));
            carried.chunks |= 1 << chunk;
        }
        let before = self.carried.insert(job.number, carried);
        before
            .into_iter()
            .flat_map(|it| it.bufs)
            .filter(|it| *it != 0)
            .for_each(|it| slots.free(it));
    }

    /// What was kept for this switch counts as read.
    fn take_carried(&mut self, key: u32, slots: &mut dyn Slots) {
        let chunks = self.chunks();
        let job = &mut self.jobs[key as usize];
        let Some(carried) = self.carried.remove(&job.number) else { return };
        for chunk in each(carried.chunks) {
            let buf = carried.bufs[chunk];
            for role in job.level.holders(chunk, chunks) {
                slots.keep(buf);
                job.bufs[role] = buf;
                job.read |= 1 << role;
            }
            slots.free(buf);
        }
    }

    /// Begins a switch, a repair or a move.
    pub(super) fn begin_remake(&mut self, key: u32, plan: &mut Plan<'_>) {
        let chunks = self.chunks();
        self.take_carried(key, plan.slots);
        let job = &self.jobs[key as usize];
        let (doing, old, level) = (job.doing, job.old, job.level);
        let idle = match doing {
            Doing::Switch(to, kind) => {
                let is_spared = kind == old.kind || self.is_roomy(to, kind);
                let refused = !(is_spared && self.has_spare(to, kind));
                self.counts.mirrors_refused += u64::from(refused);
                old.level.is_none() || (level, old.kind) == (to, kind) || refused
            }
            Doing::Repair { reads_all } => !reads_all && !self.is_needy(&old),
            Doing::Move { role, lane } => self.drives.roomier(&old, chunks) != Some((role, lane)),
            _ => true,
        };
        if idle || old.level.is_none() {
            return self.finish(key, Ok(()), plan);
        }
        let (zero, _) = self.usable(&old, level, 0);
        let job = &mut self.jobs[key as usize];
        (job.lo, job.hi) = (0, self.geometry.chunk_bytes);
        job.touched = match doing {
            Doing::Repair { .. } => all(chunks),
            Doing::Move { role, .. } => {
                level.chunk(role, chunks).map_or(all(chunks), |chunk| 1 << chunk)
            }
            _ => all(chunks) & !zero,
        };
        self.gather(key, plan);
    }

    /// All that is to be known was read: writes what is new.
    pub(super) fn remake(&mut self, key: u32, plan: &mut Plan<'_>) {
        let chunks = self.chunks();
        let job = &self.jobs[key as usize];
        let (doing, number, old, level, bad) = (job.doing, job.number, job.old, job.level, job.bad);
        let kind_changes;
        let (to, mut new) = match doing {
            Doing::Switch(to, kind) => (to, Unit { kind, ..self.moved(&old, level, to) }),
            _ => (level, old),
        };
        (new.level, kind_changes) = (Some(to), new.kind != old.kind);
        // Parities of nothing but zeros are zeros.
        let empty = (0..chunks).all(|chunk| new.places[chunk] == Place::ZERO);
        let (data, roles) = (all(chunks), all(to.roles(chunks)));
        let mut writes: Roles = 0;
        for role in each(roles) {
            let place = new.places[role];
            let is_rotten = to == level && bad >> role & 1 == 1;
            let is_zero = match to.chunk(role, chunks) {
                Some(chunk) => old.places[chunk] == Place::ZERO && self.is_zero(&old, level, chunk),
                None => empty,
            };
            let is_wanted = match (doing, place) {
                (Doing::Move { role: moved, .. }, _) => role == moved,
                (_, Place::ZERO) => !is_zero,
                (_, place) if self.is_left(key, role, place) => false,
                (_, place) => {
                    let is_lost = !self.is_sure(place);
                    is_lost || is_rotten || self.drives.is_on_other(place, new.kind)
                }
            };
            if is_wanted {
                writes |= 1 << role;
                // A drive that is there stays the role's own, lest another goes there beside it.
                let keeps_drive = self.is_fresh() && self.drives.lane(place).is_some();
                if !keeps_drive {
                    new.places[role] = Place::LOST;
                }
            }
        }
        let moved = new;
        if writes == 0 {
            let lost = self.lost_after(key, 0);
            self.jobs[key as usize].new = Unit { lost, ..moved };
            return self.finish(key, Ok(()), plan);
        }
        if let Doing::Move { role, lane } = doing {
            let Some(place) = self.drives.take(lane) else {
                return self.finish(key, Ok(()), plan);
            };
            new.places[role] = place;
            self.care.moved(number);
        } else if self.allot(number, &mut new, to, writes).is_none() {
            if matches!(doing, Doing::Repair { .. }) {
                self.stalled.push_back(key);
                return self.commit(plan);
            }
            // It stays as it is.
            return self.finish(key, Ok(()), plan);
        }
        if kind_changes && each(writes).any(|role| new.places[role].is_lost()) {
            self.revert(&old, &new);
            return self.finish(key, Ok(()), plan);
        }
        if to == level {
            // What no drive takes stays where it was: that drive may come back.
            for role in each(writes) {
                if new.places[role].is_lost() {
                    new.places[role] = old.places[role];
                    writes &= !(1 << role);
                }
            }
        }
        let parities = writes & roles & !data != 0 && to.parities() > 0;
        for chunk in 0..chunks {
            if let Some(role) = self.holder(key, chunk) {
                let content = Bytes::of(self.jobs[key as usize].bufs[role]);
                let holders = to.holders(chunk, chunks);
                holders.for_each(|role| self.jobs[key as usize].contents[role] = content);
            }
        }
        if parities {
            self.remake_parities(key, to, plan);
        }
        match doing {
            Doing::Switch(..) => self.counts.switches += 1,
            Doing::Move { .. } => self.counts.moved_roles += 1,
            _ => self.counts.repaired_roles += u64::from(writes.count_ones()),
        }
        new.lost = self.lost_after(key, writes);
        let job = &mut self.jobs[key as usize];
        (job.new, job.writes) = (new, writes);
        self.write_out(key, plan);
    }

    /// Whether a chunk was never written.
    fn is_zero(&self, unit: &Unit, level: Level, chunk: usize) -> bool {
        level.holders(chunk, self.chunks()).all(|role| unit.places[role] == Place::ZERO)
    }

    fn remake_parities(&mut self, key: u32, to: Level, plan: &mut Plan<'_>) {
        let (chunks, len) = (self.chunks(), self.geometry.chunk_bytes);
        let mut zeros = Vec::new();
        let data: Vec<Bytes> = (0..chunks)
            .map(|chunk| match self.holder(key, chunk) {
                Some(role) => Bytes::of(self.jobs[key as usize].bufs[role]),
                None => {
                    let buf = plan.slots.take(len);
                    plan.slots.zero(Bytes::of(buf).len(len));
                    zeros.push(buf);
                    Bytes::of(buf)
                }
            })
            .collect();
        let job = &mut self.jobs[key as usize];
        let parities: Vec<Bytes> = (0..to.parities())
            .map(|parity| {
                // Under the parity's number a copy may have been read.
                let buf = match job.level == to {
                    true => &mut job.bufs[chunks + parity],
                    false => &mut job.parities[parity],
                };
                if *buf == 0 {
                    *buf = plan.slots.take(len);
                }
                Bytes::of(*buf)
            })
            .collect();
        plan.slots.parity(&data, len, &parities);
        for (parity, bytes) in parities.into_iter().enumerate() {
            self.jobs[key as usize].contents[chunks + parity] = bytes;
        }
        zeros.into_iter().for_each(|buf| plan.slots.free(buf));
    }

    /// The places that stay when a unit changes its level; all others are zeros.
    fn moved(&self, old: &Unit, from: Level, to: Level) -> Unit {
        let chunks = self.chunks();
        let mut new = Unit { level: Some(to), ..Unit::EMPTY };
        match (from, to) {
            (Level::Mirrored { .. }, Level::Striped { .. }) => {
                let mut chosen = vec![0; chunks];
                let found = self.represent(old, from, 0, &mut Vec::new(), &mut chosen);
                for (chunk, role) in chosen.into_iter().enumerate() {
                    new.places[chunk] = match found {
                        true => old.places[role],
                        false if self.is_zero(old, from, chunk) => Place::ZERO,
                        false => Place::LOST,
                    };
                }
            }
            _ => {
                let kept = from.roles(chunks).min(to.roles(chunks));
                let kept = if from.parities() != to.parities() && to.parities() == 0 {
                    // Copies come where parities were.
                    kept.min(chunks)
                } else {
                    kept
                };
                new.places[..kept].copy_from_slice(&old.places[..kept]);
            }
        }
        new
    }

    /// One copy of each chunk from `chunk` on, all on different drives; answers whether there are.
    fn represent(
        &self,
        old: &Unit,
        level: Level,
        chunk: usize,
        lanes: &mut Vec<usize>,
        chosen: &mut [usize],
    ) -> bool {
        if chunk == self.chunks() {
            return true;
        }
        let is_zero = self.is_zero(old, level, chunk);
        for role in level.holders(chunk, self.chunks()) {
            let lane = self.drives.lane(old.places[role]);
            if lane.is_some_and(|lane| lanes.contains(&lane)) || lane.is_none() && !is_zero {
                continue;
            }
            chosen[chunk] = role;
            lanes.extend(lane);
            if self.represent(old, level, chunk + 1, lanes, chosen) {
                return true;
            }
            if lane.is_some() {
                lanes.pop();
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::bench::{Bench, created};
    use super::*;
    use crate::contract::outcome::Fault;
    use crate::contract::request::{Flags, Op};

    /// Of two roles to be made anew one has no drive any more, and there is none to spare: it does not take the
    /// other's.
    #[test]
    fn a_role_that_is_lost_does_not_go_to_the_drive_of_one_that_cannot_be_read() {
        let mut bench = Bench::written(created(Level::RAID6, 60, false), true);
        let lanes = [0, 1].map(|role| bench.lane_of(role));
        bench.lose(&lanes[..1]);
        let before = bench.array().unit(0).places[1];
        bench.ask(Op::Read, Flags::NONE, 0, 1, 1);
        bench.end_all(|io| match io.op {
            Op::Read if io.lane == lanes[1] => Err(Fault::Media),
            _ => Ok(()),
        });
        bench.check();
        let after = bench.array().unit(0).places[1];
        assert!(!after.is_same_cell(before) && bench.lane_of(1) == lanes[1], "made anew in place");
    }
}
