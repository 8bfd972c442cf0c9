//! Makes space: fat units shrink, roles move from full drives to emptier ones, and writes wait
//! meanwhile.
//!
//! A write that finds no free cells is *stalled*. Stalled writes are retried in order when a round
//! has ended; once the first one has waited long, no later write is tried before it. If no running
//! job will free any cell, other fat units shrink, then roles move, and only then do writes use the
//! reserved cells ([`super::room`]).
//!
//! Volumes that older versions filled may have no free cell at all. A fat unit then first gives up
//! some copies, with a record, so that it can shrink into their cells. Until it has shrunk, it
//! tolerates fewer failures. No other operation reduces a unit's redundancy below its level.

use super::{Array, Doing, DriveKind, KINDS, Place, Task, Unit, each};
use crate::contract::Fault;
use crate::stack::placed::Plan;

/// Maximum number of units that shrink at a time: if no write waits, and if writes wait.
const SHRINKS: [usize; 2] = [4, 16];
/// The maximum number of fat units that are examined to find a unit that may shrink.
const LOOK: usize = 64;
/// How often a write is tried before other writes must wait behind it.
const PATIENCE: u32 = 4;

impl Array {
    /// Makes space for future writes and for waiting ones.
    pub(super) fn make_room(&mut self, plan: &mut Plan<'_>) {
        self.shrink_ahead();
        if self.stalled.is_empty() || !self.log.is_idle() || !self.ready.is_empty() {
            return;
        }
        if !self.changed.is_empty() && self.is_fresh() {
            return self.commit(plan);
        }
        let waiting = self.vacant.len() + self.stalled.len() + self.room.reads;
        if self.jobs.len() > waiting {
            return; // A change is active.
        }
        if !self.is_retried(plan) {
            self.unblock(plan);
        }
    }

    /// Makes fat units shrink if drives have little free space.
    fn shrink_ahead(&mut self) {
        if !matches!(self.phase, super::Phase::Ready) || self.reads_only {
            return;
        }
        let most = SHRINKS[usize::from(!self.stalled.is_empty())];
        for kind in KINDS {
            while self.room.shrinking.len() < most && self.is_tight(kind) {
                let Some(number) = self.next_fat(kind, LOOK) else { break };
                self.shrink(number, kind);
            }
        }
    }

    /// Returns the next fat unit without running or waiting tasks, preferably one without a hint.
    fn next_fat(&mut self, kind: DriveKind, look: usize) -> Option<u64> {
        let (fat, next) = (&self.room.fat[kind as usize], self.room.next[kind as usize]);
        let (mut hinted, mut last) = (None, next);
        let mut found = None;
        for &number in fat.range(next..).chain(fat.range(..next)).take(look) {
            last = number + 1;
            let is_refused = look == LOOK && self.room.refused.contains(&number);
            let may =
                !is_refused && self.locks.is_quiet(number) && !self.room.failed.contains(&number);
            if !may {
                continue;
            }
            if self.hints.of(number).level.is_none() {
                found = Some(number);
                break;
            }
            hinted = hinted.or(Some(number));
        }
        self.room.next[kind as usize] = last;
        found.or(hinted)
    }

    fn shrink(&mut self, number: u64, kind: DriveKind) {
        self.room.shrinking.insert(number);
        self.locks.ask(number, Task::Switch(self.leanest, kind));
        self.ready.push(number);
    }

    /// Records that a switch of a unit has ended, and whether it failed to shrink the unit.
    pub(super) fn switched(&mut self, number: u64) {
        let was_to_shrink = self.room.shrinking.remove(&number);
        let was_forced = self.room.forced.remove(&number);
        if was_to_shrink && self.unit(number).level.is_some_and(|level| self.is_fat(level)) {
            match was_forced {
                true => self.room.failed.insert(number),
                false => self.room.refused.insert(number),
            };
        }
    }

    /// Called when a round has ended: cells were freed, so failed attempts may succeed now.
    pub(super) fn freed(&mut self) {
        self.room.failed.clear();
        self.room.refused.clear();
        self.room.looked = 0;
    }

    /// Begins a write, or queues it behind writes that have waited for long.
    pub(super) fn ask_to_write(&mut self, key: u32, plan: &mut Plan<'_>) {
        let waits = |key: &u32| self.jobs[*key as usize].waits;
        if self.stalled.front().is_none_or(|first| waits(first) <= PATIENCE) {
            return self.begin_write(key, plan);
        }
        self.counts.stalls += 1;
        self.stall(key, plan);
    }

    /// Makes a job wait for space. A job that will free cells goes first.
    pub(super) fn stall(&mut self, key: u32, plan: &mut Plan<'_>) {
        let job = &mut self.jobs[key as usize];
        job.waits += 1;
        match job.doing {
            Doing::Switch(..) => self.stalled.push_front(key),
            _ => self.stalled.push_back(key),
        }
        self.commit(plan);
    }

    /// Retries the jobs that wait for space.
    pub(super) fn retry_stalled(&mut self, plan: &mut Plan<'_>) {
        let mut waiting = std::mem::take(&mut self.stalled);
        while let Some(key) = waiting.pop_front() {
            let before = self.stalled.len();
            match self.jobs[key as usize].doing {
                Doing::Write => self.begin_write(key, plan),
                _ => self.remake(key, plan),
            }
            if self.stalled.len() > before && self.jobs[key as usize].waits > PATIENCE {
                break;
            }
        }
        self.stalled.append(&mut waiting);
        if let super::Phase::Failed(fault) = self.phase {
            self.give_up(fault, plan);
        }
    }

    /// Tries all waiting jobs once more. Returns whether any of them continued.
    fn is_retried(&mut self, plan: &mut Plan<'_>) -> bool {
        let before = self.stalled.len();
        // Here, the write that has waited longest does not block the others.
        for key in 0..before {
            self.jobs[self.stalled[key] as usize].waits = 0;
        }
        self.retry_stalled(plan);
        self.stalled.len() < before
    }

    /// Makes space by other means if no current job will free cells.
    fn unblock(&mut self, plan: &mut Plan<'_>) {
        #[cfg(test)]
        (self.room.blocked += 1);
        let doing = |array: &Array, key: u32| array.jobs[key as usize].doing;
        let keys: Vec<u32> = self.stalled.iter().copied().collect();
        let switch = keys.iter().find(|key| matches!(doing(self, **key), Doing::Switch(..)));
        if let Some(key) = switch {
            return self.shed(*key, plan);
        }
        // Jobs that only restore data must not cause units to shrink or move.
        let has_writes = keys.iter().any(|key| doing(self, *key) == Doing::Write);
        if has_writes && (self.shrink_any() || self.relieve()) {
            return;
        }
        if self.is_forced(plan) {
            return;
        }
        let fault = if self.drives.is_whole() { Fault::Full } else { Fault::Gone };
        for key in std::mem::take(&mut self.stalled) {
            self.finish(key, Err(fault), plan);
        }
    }

    /// Makes a fat unit shrink. Returns whether there is a unit that can shrink.
    fn shrink_any(&mut self) -> bool {
        let fat = KINDS.into_iter().find_map(|kind| Some((self.next_fat(kind, usize::MAX)?, kind)));
        let Some((number, kind)) = fat else { return false };
        self.room.forced.insert(number);
        self.shrink(number, kind);
        true
    }

    /// Moves a role from a full drive to one with space. Returns whether there is such a role.
    fn relieve(&mut self) -> bool {
        let units = self.table.units();
        while self.room.looked < units {
            self.room.looked += 1;
            let at = self.room.moving % units;
            self.room.moving = at + 1;
            if !self.locks.is_quiet(at) {
                continue;
            }
            let unit = self.unit(at);
            if let Some((role, lane)) = self.drives.roomier_by(&unit, self.chunks(), 1) {
                self.locks.ask(at, Task::Move { role, lane });
                self.ready.push(at);
                return true;
            }
        }
        false
    }

    /// Retries all waiting jobs with the reserved cells, then also on drives that lost a related
    /// role, which is better than an error, and then also without the roles of missing drives.
    /// Returns whether any of the jobs continued.
    fn is_forced(&mut self, plan: &mut Plan<'_>) -> bool {
        let reserves = self.drives.reserves;
        for step in 0..3 {
            self.drives.reserves = [0; KINDS.len()];
            (self.drives.reckless, self.room.forgoes) = (step > 0, step > 1);
            let went_on = self.is_retried(plan);
            (self.drives.reckless, self.room.forgoes) = (false, false);
            self.drives.reserves = reserves;
            if went_on {
                return true;
            }
        }
        false
    }

    /// Removes copies from a fat unit that must shrink when no cell is free.
    fn shed(&mut self, key: u32, plan: &mut Plan<'_>) {
        let (number, old) = (self.jobs[key as usize].number, self.jobs[key as usize].old);
        let Some(shed) = self.without_copies(key).filter(|shed| *shed != old) else {
            self.stalled.retain(|stalled| *stalled != key);
            self.room.failed.insert(number);
            return self.finish(key, Ok(()), plan);
        };
        #[cfg(test)]
        (self.room.sheds += 1);
        self.install(number, &old, &shed, plan);
        let job = &mut self.jobs[key as usize];
        (job.old, job.new) = (shed, shed);
        match self.is_fresh() {
            true => self.commit(plan),
            false => self.retry_stalled(plan),
        }
    }

    /// Returns a unit without the copies on drives where it needs cells to shrink, or `None` if
    /// that does not help.
    fn without_copies(&self, key: u32) -> Option<Unit> {
        let job = &self.jobs[key as usize];
        let Doing::Switch(to, kind) = job.doing else { return None };
        let (chunks, old, level) = (self.chunks(), job.old, job.level);
        let (mut new, writes) = self.remade(key, true);
        let (mut shed, mut given) = (old, [0u8; super::level::ROLES_MAX]);
        for role in each(writes) {
            new.places[role] = Place::LOST;
        }
        for role in each(writes) {
            let lanes = || {
                let is_barred = |lane| self.drives.is_barred(lane, &new, to, role, chunks);
                self.drives.of(kind).filter(move |lane| !is_barred(*lane))
            };
            if lanes().next().is_none() {
                continue; // The role's drive is missing.
            }
            if let Some(lane) = lanes().find(|lane| self.drives.free(*lane) > 0) {
                new.places[role] = Place::at(self.drives.number(lane), u32::MAX);
                continue;
            }
            let spared = |other: &usize| {
                let place = shed.places[*other];
                self.drives.lane(place).is_some_and(|lane| lanes().any(|it| it == lane))
                    && !new.names(place)
            };
            let copies = (0..level.roles(chunks)).filter(spared);
            let other = copies.min_by_key(|other| given[other % chunks])?;
            given[other % chunks] += 1;
            new.places[role] = shed.places[other];
            shed.places[other] = shed.places[other].lost();
        }
        Some(shed)
    }
}
