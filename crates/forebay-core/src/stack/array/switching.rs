//! Rewrites a unit without changing its content: at another level, to restore lost roles, or with a
//! role on a drive with more space.

use super::{Array, Doing, LANES_OPEN, Level, Place, ROLES_MAX, Roles, Unit, all, each};
use crate::contract::{Buf, Bytes, Slots};
use crate::stack::placed::Plan;

/// The data chunks of a unit after a request, so that the switch that follows need not read them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Carried {
    chunks: Roles,
    bufs: [Buf; ROLES_MAX],
}

impl Array {
    /// Keeps the complete chunks that a job has read or written, for the switch that follows.
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

    /// Makes the chunks that were kept for a switch count as read.
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
            Doing::Move { role, lane } => {
                let leaves = self.leaves(self.jobs[key as usize].number, &old, level);
                leaves != Some((role, lane))
                    && self.drives.roomier_by(&old, chunks, 0) != Some((role, lane))
            }
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

    /// Writes the new roles once everything needed has been read.
    pub(super) fn remake(&mut self, key: u32, plan: &mut Plan<'_>) {
        let job = &self.jobs[key as usize];
        let (doing, number, old, level) = (job.doing, job.number, job.old, job.level);
        if self.reads_only {
            // Only new losses are recorded.
            self.jobs[key as usize].new = Unit { lost: self.lost_after(key, 0), ..old };
            return self.finish(key, Ok(()), plan);
        }
        let (mut new, mut writes) = self.remade(key, job.waits > 0);
        let to = new.level.unwrap_or(level);
        if writes == 0 {
            new.lost = self.lost_after(key, 0);
            self.jobs[key as usize].new = new;
            return self.finish(key, Ok(()), plan);
        }
        let has_room = match doing {
            Doing::Move { role, lane } => self.move_to(number, &mut new, role, lane),
            Doing::Switch(..) if self.is_leaner(to, level) => {
                let has_room = self.allot_kept(number, &mut new, to, writes).is_some();
                has_room || {
                    (new, writes) = self.remade(key, true);
                    self.allot_kept(number, &mut new, to, writes).is_some()
                }
            }
            Doing::Repair { .. } => self.allot(number, &mut new, to, writes).is_some(),
            // Drives that had spare space when the job began may have none now.
            _ => self.has_spare(to, new.kind) && self.allot(number, &mut new, to, writes).is_some(),
        };
        let waits = matches!(doing, Doing::Repair { .. }) || self.is_leaner(to, level);
        match has_room {
            true => {}
            false if waits => return self.stall(key, plan),
            // The unit keeps its state.
            false => return self.finish(key, Ok(()), plan),
        }
        let loses = each(writes).any(|role| new.places[role].is_lost());
        let is_ahead = self.room.shrinking.contains(&number) && !self.room.forced.contains(&number);
        if loses && (new.kind != old.kind || is_ahead) {
            self.revert(&old, &new);
            return self.finish(key, Ok(()), plan);
        }
        if to == level {
            // Roles that no drive accepts keep their places, because a missing drive may return.
            for role in each(writes) {
                if new.places[role].is_lost() {
                    new.places[role] = old.places[role];
                    writes &= !(1 << role);
                }
            }
        }
        match doing {
            Doing::Switch(..) => self.counts.switches += 1,
            Doing::Move { .. } => self.counts.moved_roles += 1,
            _ => self.counts.repaired_roles += u64::from(writes.count_ones()),
        }
        self.refill(key, to, writes, plan);
        new.lost = self.lost_after(key, writes);
        let job = &mut self.jobs[key as usize];
        (job.new, job.writes) = (new, writes);
        self.write_out(key, plan);
    }

    /// Allocates a cell on a drive for a role. Returns whether the drive had one.
    fn move_to(&mut self, number: u64, new: &mut Unit, role: usize, lane: usize) -> bool {
        let Some(place) = self.drives.take(lane) else { return false };
        new.places[role] = place;
        if self.care.grows.is_some() || self.care.balances || self.drives.has_leaving() {
            self.care.moved(number);
        }
        true
    }

    /// Returns whether a level takes fewer cells than another one.
    fn is_leaner(&self, level: Level, than: Level) -> bool {
        level.roles(self.chunks()) < than.roles(self.chunks())
    }

    /// Returns the state of a unit after a switch, a repair or a move, and the roles that must be
    /// written, to which no new cells have been assigned yet. A unit that shrinks keeps its copies
    /// on the drives with the most space, or with `on_fullest`, on the fullest ones.
    pub(super) fn remade(&self, key: u32, on_fullest: bool) -> (Unit, Roles) {
        let chunks = self.chunks();
        let job = &self.jobs[key as usize];
        let (doing, old, level, bad) = (job.doing, job.old, job.level, job.bad);
        let (to, mut new) = match doing {
            Doing::Switch(to, kind) => {
                (to, Unit { kind, ..self.moved(&old, level, to, on_fullest) })
            }
            _ => (level, old),
        };
        new.level = Some(to);
        // If all data are zeros, so are the parities.
        let empty = (0..chunks).all(|chunk| new.places[chunk] == Place::ZERO);
        let mut writes: Roles = 0;
        for role in each(all(to.roles(chunks))) {
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
                // Keep the role's drive if it is present, so that no other role is placed there.
                let keeps_drive = self.is_fresh() && self.drives.lane(place).is_some();
                if !keeps_drive {
                    new.places[role] = Place::LOST;
                }
            }
        }
        (new, writes)
    }

    /// Computes the content of the roles that a job writes from what it has read.
    fn refill(&mut self, key: u32, to: Level, writes: Roles, plan: &mut Plan<'_>) {
        let chunks = self.chunks();
        for chunk in 0..chunks {
            if let Some(role) = self.holder(key, chunk) {
                let content = Bytes::of(self.jobs[key as usize].bufs[role]);
                let holders = to.holders(chunk, chunks);
                holders.for_each(|role| self.jobs[key as usize].contents[role] = content);
            }
        }
        let parities = all(to.roles(chunks)) & !all(chunks);
        if writes & parities != 0 && to.parities() > 0 {
            self.remake_parities(key, to, plan);
        }
    }

    /// Returns whether a chunk was never written.
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
                // The role with the parity's number may have been read as a copy.
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

    /// Returns the unit at its new level. Roles that keep their places keep their data; all others
    /// are zeros.
    fn moved(&self, old: &Unit, from: Level, to: Level, on_fullest: bool) -> Unit {
        let chunks = self.chunks();
        let mut new = Unit { level: Some(to), ..Unit::EMPTY };
        match (from, to) {
            (Level::Mirrored { .. }, Level::Striped { .. }) => {
                let chosen = self.represent(old, from, on_fullest);
                for (chunk, role) in chosen.into_iter().take(chunks).enumerate() {
                    new.places[chunk] = match role {
                        Some(role) => old.places[role],
                        None if self.is_zero(old, from, chunk) => Place::ZERO,
                        None => Place::LOST,
                    };
                }
            }
            _ => {
                let kept = from.roles(chunks).min(to.roles(chunks));
                let kept = if from.parities() != to.parities() && to.parities() == 0 {
                    // Copies are placed where parities were.
                    kept.min(chunks)
                } else {
                    kept
                };
                new.places[..kept].copy_from_slice(&old.places[..kept]);
            }
        }
        new
    }

    /// Returns one copy each of as many chunks as possible, all on different drives.
    fn represent(&self, old: &Unit, level: Level, on_fullest: bool) -> [Option<usize>; ROLES_MAX] {
        let chunks = self.chunks();
        let copies = |chunk| {
            let on = |role| {
                let lane = self.drives.lane(old.places[role])?;
                let free = self.drives.free(lane);
                Some(ChunkCopy {
                    rank: if on_fullest { free } else { u32::MAX - free },
                    role,
                    lane,
                })
            };
            let mut copies: Vec<ChunkCopy> = level.holders(chunk, chunks).filter_map(on).collect();
            copies.sort_unstable();
            copies
        };
        let copies: Vec<Vec<ChunkCopy>> = (0..chunks).map(copies).collect();
        let mut by_lane = [None; LANES_OPEN];
        for chunk in 0..chunks {
            augment(&copies, chunk, &mut 0, &mut by_lane);
        }
        let mut roles = [None; ROLES_MAX];
        for (lane, chunk) in by_lane.into_iter().enumerate() {
            let Some(chunk) = chunk else { continue };
            let copy = copies[chunk].iter().find(|copy| copy.lane == lane);
            roles[chunk] = copy.map(|copy| copy.role);
        }
        roles
    }
}

/// A copy of a chunk, ordered by how much it is worth keeping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ChunkCopy {
    rank: u32,
    role: usize,
    lane: usize,
}

/// Assigns a chunk the drive of one of its copies, reassigning other chunks if necessary. Returns
/// whether that was possible. (This finds an augmenting path of a bipartite matching.)
fn augment(
    copies: &[Vec<ChunkCopy>],
    chunk: usize,
    seen: &mut u64,
    by_lane: &mut [Option<usize>; LANES_OPEN],
) -> bool {
    for &ChunkCopy { lane, .. } in &copies[chunk] {
        if *seen >> lane & 1 == 1 {
            continue;
        }
        *seen |= 1 << lane;
        let is_free = match by_lane[lane] {
            None => true,
            Some(other) => augment(copies, other, seen, by_lane),
        };
        if is_free {
            by_lane[lane] = Some(chunk);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::bench::{Bench, created};
    use super::*;
    use crate::contract::{Fault, Flags, Op};

    /// Two roles must be rewritten. The drive of one of them has disappeared, and no other drive is
    /// available: it must not take the other role's drive.
    #[test]
    fn a_lost_role_does_not_take_the_drive_of_an_unreadable_role() {
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
