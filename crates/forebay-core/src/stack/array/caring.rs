//! Background maintenance at a limited rate: restores lost roles when a drive has room for them,
//! and reads a whole volume on request.
//!
//! An array that *grows* has new drives, or larger ones. Roles move from full drives to empty ones,
//! pass after pass, until all are about equally full; only then does the array provide more units,
//! with a record that contains their number.

use super::Array;
use super::full::CARE_PAUSE;
use super::kind::DriveKind;
use super::locks::Task;
use super::lost::Lost;
use super::unit::Place;
use crate::contract::time::Nanos;
use crate::stack::placed::Plan;

/// Units that are looked at in one go.
const LOOK: u64 = 4096;
/// Moves between two looks at how full drives are.
const MOVES_MAX: usize = 16;

/// The progress of maintenance.
#[derive(Clone, Debug, Default)]
pub(super) struct Care {
    due: Option<Nanos>,
    next: u64,
    /// Reads all there is, once.
    pub(super) scrubs: bool,
    /// Bytes of clients' data a second; 0 is as fast as it goes.
    rate: u64,
    /// Has roles move until drives are alike, then promises more, and of which kind new drives are; whether
    /// any moved in this pass; and the units whose old cells are not free yet.
    pub(super) grows: Option<DriveKind>,
    has_moved: bool,
    moved: Vec<u64>,
    /// A unit is being looked after.
    pub(super) busy: bool,
    /// Whether opening completes only after all maintenance is done: the waiters, with their
    /// streams.
    pub(super) waits: bool,
    /// Set if drives had no space: maintenance is retried with the first request from this time on.
    retries_from: Option<Nanos>,
    pub(super) waiters: Vec<(u32, u32)>,
}

impl Care {
    pub(super) fn due(&self) -> Option<Nanos> {
        self.due.filter(|_| !self.busy)
    }

    /// A role of a unit has another cell.
    pub(super) fn moved(&mut self, unit: u64) {
        self.has_moved = true;
        self.moved.push(unit);
    }

    /// From the first unit on.
    pub(super) fn begin(&mut self, now: Nanos) {
        (self.due, self.next, self.retries_from) = (Some(now), 0, None);
    }

    /// Drives had no room for something: it is tried again later, unless somebody waits for the end. No clock says
    /// when, or a run would never end while there is no room.
    pub(super) fn postpone(&mut self, now: Nanos) {
        if !self.waits {
            self.retries_from.get_or_insert(now + CARE_PAUSE);
        }
    }

    /// Called if there is no space for records, without which maintenance cannot end. Returns those
    /// who wait for its end. No more maintenance happens then.
    pub(super) fn refused(&mut self) -> Vec<u32> {
        if !self.waiters.is_empty() {
            self.due = None;
        }
        std::mem::take(&mut self.waiters).into_iter().map(|(client, _)| client).collect()
    }

    /// Retries jobs that had no space when a new request arrives.
    pub(super) fn retry(&mut self, now: Nanos) {
        if self.due.is_none() && self.retries_from.is_some_and(|from| from <= now) {
            self.begin(now);
        }
    }
}

impl Array {
    /// Limits maintenance to this many bytes of data a second; 0 means no limit.
    pub fn caring_at(mut self, bytes_a_second: u64) -> Array {
        self.care.rate = bytes_a_second;
        self
    }

    /// Makes the array read everything once and repair damaged data.
    pub fn scrubbing(mut self) -> Array {
        self.care.scrubs = true;
        self
    }

    /// Makes opening complete only after all maintenance is done and durable.
    pub fn mending(mut self) -> Array {
        self.care.waits = true;
        self
    }

    /// Balances the drives and then increases the capacity to what fits on all of them. New drives
    /// are of this kind.
    pub fn growing(mut self, new: DriveKind) -> Array {
        self.care.grows = Some(new);
        self
    }

    /// Units that were not looked after yet; 0 where all were, and nothing has changed since.
    pub(super) fn care_left(&self) -> u64 {
        match self.care.due.is_some() || self.care.busy {
            true => self.table.units() - self.care.next.min(self.table.units()),
            false => 0,
        }
    }

    /// Looks after the next unit that needs it.
    pub(super) fn take_care(&mut self, plan: &mut Plan<'_>) {
        let units = self.table.units();
        let is_over = self.care.next == units;
        if self.care.moved.len() >= MOVES_MAX || is_over && !self.care.moved.is_empty() {
            return self.await_room(plan);
        }
        if is_over {
            return self.end_care(plan);
        }
        let end = (self.care.next + LOOK).min(units);
        let needy = (self.care.next..end).find_map(|at| Some((at, self.care_for(at)?)));
        let Some((at, task)) = needy else {
            self.care.next = end;
            self.care.due = Some(plan.now + Nanos(1));
            return;
        };
        (self.care.next, self.care.busy) = (at + 1, true);
        self.locks.ask(at, task);
        self.ready.push(at);
        let pause = match self.care.rate {
            0 => 1,
            rate => (self.geometry.unit_bytes() as f64 / rate as f64 * 1e9) as u64,
        };
        self.care.due = Some(plan.now + Nanos(pause.max(1)));
    }

    /// How full drives are is known only when cells that roles have left are free.
    fn await_room(&mut self, plan: &mut Plan<'_>) {
        let is_durable = |at: &u64| !self.changed.contains_key(at) && !self.round.contains_key(at);
        match self.care.moved.iter().all(is_durable) {
            true => self.care.moved.clear(),
            false => self.commit(plan),
        }
        self.care.due = Some(plan.now + Nanos::from_millis(1));
    }

    /// All units were looked at: once more, or it is done.
    fn end_care(&mut self, plan: &mut Plan<'_>) {
        self.care.scrubs = false;
        if std::mem::take(&mut self.care.has_moved) {
            return self.care.begin(plan.now + Nanos(1));
        }
        self.care.due = None;
        if self.care.grows.take().is_some() {
            self.promise_more();
        }
        for (client, stream) in std::mem::take(&mut self.care.waiters) {
            self.log.wait(client, Some(stream));
        }
        self.commit(plan);
    }

    /// Increases the capacity to the units that fit, once a record says so.
    fn promise_more(&mut self) {
        let (chunks, most) = (self.chunks(), self.geometry.units_max());
        let units = self.drives.units(self.promised_level(), chunks, most);
        if let Some(grown) = self.geometry.grown(units) {
            (self.geometry, self.log.owes) = (grown, true);
            self.table.grow(units);
        }
    }

    /// Returns the maintenance that a unit needs.
    fn care_for(&self, at: u64) -> Option<Task> {
        let unit = self.unit(at);
        let level = unit.level?;
        let is_lost = |role: usize| {
            let place = unit.places[role];
            let is_lost = place != Place::ZERO && self.drives.lane(place).is_none();
            let may = is_lost && !self.forgoes(&unit, level, role);
            may && self.drives.choose(&self.geometry, at, &unit, level, role).is_some()
        };
        // Lost data may be available again, for example if a drive has returned.
        let reads_all = self.care.scrubs || unit.lost != Lost::NONE;
        if reads_all || (0..level.roles(self.chunks())).any(is_lost) {
            return Some(Task::Repair { reads_all });
        }
        if let Some(task) = self.heed(at) {
            return Some(task);
        }
        let (role, lane) =
            self.drives.roomier(&unit, self.chunks()).filter(|_| self.care.grows.is_some())?;
        Some(Task::Move { role, lane })
    }
}
