//! Background maintenance at a limited rate: restores lost roles when a drive has space for them,
//! and reads a whole volume on request.
//!
//! Several units are processed at a time if there are more drives than a unit spans, so that all
//! drives take part and the time of a rebuild falls with their number. The load of a drive during a
//! rebuild is then about the same as in an array that is as wide as its units.
//!
//! An array that *grows* has new drives, or larger ones. Roles move from full drives to empty ones,
//! pass after pass, until all are about equally full; only then does the array provide more units,
//! with a record that contains their number.

use std::collections::BTreeSet;

use super::{Array, CARE_PAUSE, DriveKind, Geometry, Lost, Place, ROUND_MAX, Task};
use crate::contract::{Nanos, VolumeEvent, VolumeWork};
use crate::stack::placed::Plan;

/// Maximum number of units examined in one step.
const LOOK: u64 = 4096;
/// How long maintenance that had no space waits after some became available: a busy volume frees
/// cells with each round.
const ROOM_PAUSE: Nanos = Nanos::from_millis(1000);
/// Maximum number of moves before maintenance waits for the vacated cells to become free.
const MOVES_MAX: usize = 16;

/// The progress of maintenance.
#[derive(Clone, Debug, Default)]
pub(super) struct Care {
    /// When the next step is due.
    due: Option<Nanos>,
    /// The next unit to examine.
    next: u64,
    /// Whether maintenance is a check, which reads everything once.
    pub(super) scrubs: bool,
    /// Whether a check resumes after the rebuild that interrupted it.
    scrubs_next: bool,
    /// The maximum number of bytes of clients' data per second; 0 means no limit.
    pub(super) rate: u64,
    /// The limit for checks, if it differs from that for other maintenance.
    pub(super) scrub_rate: Option<u64>,
    /// Whether the capacity is increased after roles have moved until drives are balanced. The
    /// value is the kind of new drives.
    pub(super) grows: Option<DriveKind>,
    /// The number of a drive to remove once the array is open.
    pub(super) retires: Option<u8>,
    /// Whether roles move from full drives to empty ones because a drive is new.
    pub(super) balances: bool,
    /// Whether maintenance has moved a role in this pass.
    has_moved: bool,
    /// Units with moved roles whose old cells may not be free yet.
    moved: Vec<u64>,
    /// Units being worked on, at most `window` at a time.
    under_way: BTreeSet<u64>,
    window: usize,
    /// Whether the units in `under_way` are the last ones of the pass.
    is_last: bool,
    /// The announced work, its completed tenths, and the number of chunks rewritten before it.
    told: Option<(VolumeWork, u8, u64)>,
    /// The number of completed checks.
    pub(super) checks: u64,
    /// The state at the end of the last pass; `None` before the first one.
    before: Option<Pass>,
    /// Whether all passes have ended, so that only records remain to be written.
    records_only: bool,
    /// The highest number of free cells when maintenance ended although roles were still missing,
    /// since maintenance was last begun for a reason other than additional space. `None` if
    /// maintenance has not ended in this way.
    gave_up: Option<u64>,
    /// Whether opening completes only after all maintenance is done.
    pub(super) waits: bool,
    /// Set if drives had no space: a request at or after this time begins maintenance again.
    retries_from: Option<Nanos>,
    /// The clients that wait for the end of maintenance, with their streams.
    pub(super) waiters: Vec<(u32, u32)>,
}

/// The state at the end of a pass, which the next pass is compared with.
#[derive(Clone, Copy, Debug)]
struct Pass {
    /// The number of roles that no drive holds, or that must leave their drive.
    lacking: u64,
    /// The number of roles that were restored or, if drives are being emptied, moved.
    repaired: u64,
    /// The number of cells available for missing roles.
    room: u64,
}

impl Care {
    pub(super) fn due(&self) -> Option<Nanos> {
        let waits = self.under_way.len() >= self.window.max(1)
            || self.is_last && !self.under_way.is_empty();
        self.due.filter(|_| !waits)
    }

    /// Records that work on a unit has ended.
    pub(super) fn ended(&mut self, unit: u64) {
        self.under_way.remove(&unit);
    }

    /// Begins maintenance after a drive has failed: units are restored before a check continues.
    pub(super) fn rebuild(&mut self, now: Nanos) {
        if self.scrubs && !self.waits {
            (self.scrubs, self.scrubs_next) = (false, true);
        }
        self.begin(now);
    }

    /// Begins a check, which reads everything once, starting with the first unit. With
    /// `rebuilds_first`, units are restored first.
    pub(super) fn scrub(&mut self, now: Nanos, rate: u64, rebuilds_first: bool) {
        (self.scrubs, self.scrubs_next) = (!rebuilds_first, rebuilds_first);
        self.scrub_rate = Some(rate);
        self.begin(now);
    }

    /// Returns whether a check is in progress or interrupted.
    pub(super) fn is_scrubbing(&self) -> bool {
        self.scrubs || self.scrubs_next
    }

    /// Ends a check; other maintenance continues.
    pub(super) fn end_scrub(&mut self) {
        (self.scrubs, self.scrubs_next) = (false, false);
        self.told = self.told.filter(|(work, ..)| *work != VolumeWork::Check);
    }

    /// Returns the announced work, and the first unit that it has not reached yet.
    pub(super) fn progress(&self) -> Option<(VolumeWork, u64)> {
        self.told.map(|(work, ..)| (work, self.next))
    }

    /// Records that a role of a unit has moved to another cell. Only moves by maintenance itself
    /// are counted.
    pub(super) fn moved(&mut self, unit: u64) {
        if !self.under_way.contains(&unit) {
            return;
        }
        self.has_moved = true;
        self.moved.push(unit);
    }

    /// Begins maintenance at the first unit, for a new reason.
    pub(super) fn begin(&mut self, now: Nanos) {
        self.gave_up = None;
        self.begin_again(now);
    }

    /// Begins a pass at the first unit.
    fn begin_again(&mut self, now: Nanos) {
        (self.due, self.next, self.retries_from) = (Some(now), 0, None);
        (self.is_last, self.records_only) = (false, false);
    }

    /// Allows a later request to restart maintenance that stopped because drives had no space,
    /// unless a client waits for its end. There is no timer, because with a timer a run would never
    /// end while there is no space.
    pub(super) fn postpone(&mut self, now: Nanos) {
        if !self.waits {
            self.retries_from.get_or_insert(now + CARE_PAUSE);
        }
    }

    /// Returns the clients that wait for the end of maintenance, which cannot end because there is
    /// no space for records. If there are any, maintenance stops.
    pub(super) fn refused(&mut self) -> Vec<u32> {
        if !self.waiters.is_empty() {
            self.due = None;
        }
        std::mem::take(&mut self.waiters).into_iter().map(|(client, _)| client).collect()
    }

    /// Restarts maintenance if it previously lacked space and has waited long enough.
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

    /// Balances the drives, and then increases the capacity to the number of units that fit on all
    /// of them. New drives are of this kind.
    pub fn growing(mut self, new: DriveKind) -> Array {
        self.care.grows = Some(new);
        self
    }

    /// Begins to remove a drive, if the others have space for its data.
    pub fn removing(mut self, member: u8) -> Array {
        self.care.retires = Some(member);
        self
    }

    /// Returns the number of units that maintenance has not reached, or 0 if none is in progress.
    pub(super) fn care_left(&self) -> u64 {
        match self.care.due.is_some() || !self.care.under_way.is_empty() {
            true => self.table.units() - self.care.next.min(self.table.units()),
            false => 0,
        }
    }

    /// Returns the number of units to work on at a time.
    fn care_window(&self) -> usize {
        let width = self.leanest.width(self.chunks()).max(1);
        (self.drives.present().count() / width).max(1)
    }

    /// Begins work on the next unit that needs it.
    pub(super) fn take_care(&mut self, plan: &mut Plan<'_>) {
        if self.log.owes {
            self.commit(plan);
        }
        let units = self.table.units();
        let is_over = self.care.next == units;
        if self.care.moved.len() >= MOVES_MAX || is_over && !self.care.moved.is_empty() {
            return self.await_room(plan);
        }
        if is_over {
            return self.end_care(plan);
        }
        self.care.window = self.care_window();
        let end = (self.care.next + LOOK).min(units);
        let needy = (self.care.next..end).find_map(|at| Some((at, self.care_for(at)?)));
        let Some((at, task)) = needy else {
            self.care.next = end;
            self.care.is_last = end == units;
            self.care.due = Some(plan.now + Nanos(1));
            return self.tell_progress();
        };
        self.announce(task);
        self.care.next = at + 1;
        self.care.is_last = self.care.next == units;
        self.care.under_way.insert(at);
        self.locks.ask(at, task);
        self.ready.push(at);
        let rate = self.care.scrub_rate.filter(|_| self.care.scrubs).unwrap_or(self.care.rate);
        let pause = match rate {
            0 => 1,
            rate => (self.geometry.unit_bytes() as f64 / rate as f64 * 1e9) as u64,
        };
        self.care.due = Some(plan.now + Nanos(pause.max(1)));
        self.tell_progress();
    }

    /// Reports the beginning of work, unless it was reported.
    fn announce(&mut self, task: Task) {
        let work = match task {
            _ if self.care.scrubs => VolumeWork::Check,
            Task::Repair { .. } if self.room.lacking > 0 => VolumeWork::Rebuild,
            Task::Move { .. } => VolumeWork::Move,
            // Work on single units has its own events.
            _ => return,
        };
        if self.care.told.is_none_or(|(told, ..)| told != work && told != VolumeWork::Rebuild) {
            self.care.told = Some((work, 0, self.rewritten()));
            self.events.push(VolumeEvent::Began(work));
        }
    }

    /// Returns the number of chunks that maintenance has written.
    fn rewritten(&self) -> u64 {
        self.counts.repaired_roles + self.counts.moved_roles
    }

    /// Reports each tenth of the work.
    fn tell_progress(&mut self) {
        let tenths = (self.care.next * 10 / self.table.units().max(1)).min(9) as u8;
        if let Some((work, told, _)) = &mut self.care.told
            && *told < tenths
        {
            *told = tenths;
            self.events.push(VolumeEvent::Progress(*work, 10 * tenths));
        }
    }

    /// Reports the end of work.
    fn tell_end(&mut self) {
        let chunks = self.rewritten();
        if let Some((work, _, before)) = self.care.told.take() {
            let (chunks, lacking) = (chunks - before, self.room.lacking);
            self.events.push(VolumeEvent::Ended { work, chunks, lacking });
        }
    }

    /// Waits until the cells that roles have left are free: only then it is known how full drives
    /// are.
    fn await_room(&mut self, plan: &mut Plan<'_>) {
        let is_durable = |at: &u64| !self.changed.contains_key(at) && !self.round.contains_key(at);
        match self.care.moved.iter().all(is_durable) {
            true => self.care.moved.clear(),
            false => self.commit(plan),
        }
        self.care.due = Some(plan.now + Nanos::from_millis(1));
    }

    /// Ends a pass over all units: begins another one, or ends maintenance.
    fn end_care(&mut self, plan: &mut Plan<'_>) {
        if std::mem::take(&mut self.care.scrubs) {
            self.care.checks += 1;
            self.tell_end();
            // Records may be damaged, too. A drive that lost records would otherwise be noticed
            // only when the array is opened without the other drives.
            if !self.reads_only && self.is_fresh() {
                self.renew_records();
            }
        }
        let now = self.care_pass();
        if !self.care.records_only && self.takes_another_pass(now, plan.now) {
            return;
        }
        self.care.records_only = self.renews_records(plan);
        if self.care.records_only {
            return;
        }
        if self.log.renews == 0 {
            self.dismiss();
        }
        self.tell_end();
        if std::mem::take(&mut self.care.scrubs_next) {
            self.care.scrubs = true;
            return self.care.begin_again(plan.now + Nanos(1));
        }
        (self.care.due, self.care.balances) = (None, false);
        let most = self.care.gave_up.unwrap_or(0).max(now.room);
        self.care.gave_up = (now.lacking > 0).then_some(most);
        // The capacity grows only when all pages of the table are on the new drives, too.
        if self.log.renews == 0 && self.care.grows.take().is_some() {
            self.promise_more();
        }
        for (client, stream) in std::mem::take(&mut self.care.waiters) {
            self.log.wait(client, Some(stream));
        }
        self.commit(plan);
    }

    /// Begins another pass, or postpones it, if another pass may achieve more than the last one,
    /// which ended with `now`. Returns whether another pass has begun.
    fn takes_another_pass(&mut self, now: Pass, time: Nanos) -> bool {
        // Roles that had no space, or whose unit was being changed, may be restored now.
        let is_better = |before: Pass| {
            now.lacking < before.lacking || now.repaired > before.repaired || now.room > before.room
        };
        let goes_on =
            now.lacking > 0 && self.care.before.is_none_or(is_better) && !self.full.is_full();
        self.care.before = goes_on.then_some(now);
        let has_moved = std::mem::take(&mut self.care.has_moved);
        if goes_on || has_moved && !self.full.is_full() {
            self.care.begin_again(time + Nanos(1));
            return true;
        }
        // Without space, moves would fail one after another.
        if has_moved || self.room.lacking > 0 && self.drives.is_whole() {
            self.care.postpone(time);
        }
        false
    }

    fn care_pass(&self) -> Pass {
        let room = |lane| {
            let kept = self.drives.reserves[self.drives.kind(lane) as usize];
            u64::from(self.drives.free(lane).saturating_sub(kept))
        };
        let (leaving, staying): (Vec<usize>, Vec<usize>) =
            self.drives.present().partition(|lane| self.drives.is_leaving(*lane));
        let moving: u64 = leaving.into_iter().map(|lane| u64::from(self.named(lane))).sum();
        // Count only repairs as progress, not moves that merely balance the drives.
        let repaired = if moving > 0 { self.rewritten() } else { self.counts.repaired_roles };
        let lacking = self.room.lacking + moving;
        Pass { lacking, repaired, room: staying.into_iter().map(room).sum() }
    }

    /// Restarts maintenance at the end of a round if roles that lacked space may have space now.
    pub(super) fn resume_care(&mut self, now: Nanos) {
        let is_empty = |lane: usize| {
            self.drives.is_leaving(lane) && self.drives.free(lane) == self.drives.cells(lane)
        };
        let has_left = self.drives.has_leaving() && self.drives.present().any(is_empty);
        if has_left && self.care.due.is_none() && !self.full.is_full() {
            // Clients have overwritten or discarded the last data on a drive that is leaving.
            return self.care.begin_again(now);
        }
        let Some(room) = self.care.gave_up else { return };
        let now_has = self.care_pass();
        let is_roomier = now_has.lacking > 0 && now_has.room > room;
        if is_roomier && !self.full.is_full() && self.care.due.is_none() {
            self.care.begin_again(now + ROOM_PAUSE);
            // The free space of a busy volume rises and falls with each round. Try again only if
            // there is more free space than ever before; otherwise, a drive that is gone for good
            // would cause endless attempts.
            self.care.gave_up = Some(room.max(now_has.room));
        }
    }

    /// Writes records until all pages of the table are on the present drives again. Returns whether
    /// that is still in progress.
    fn renews_records(&mut self, plan: &mut Plan<'_>) -> bool {
        if self.log.renews == 0 {
            return false;
        }
        if self.full.is_full() {
            self.care.postpone(plan.now);
            return false;
        }
        self.log.owes = true;
        self.commit(plan);
        self.care.due = Some(plan.now + Nanos::from_millis(1));
        true
    }

    /// Schedules new records of all pages of the table, because records are on fewer drives than
    /// they should be.
    pub(super) fn restore_records(&mut self) {
        self.log.lacks = true;
        self.renew_records();
    }

    /// Schedules new records of all pages of the table, because drives lack some of the records.
    pub(super) fn renew_records(&mut self) {
        // The records of the current round may be on a drive that is about to leave.
        let current = if self.log.is_idle() { 0 } else { ROUND_MAX };
        let grown = self.grown_pages().unwrap_or_default();
        self.log.renews = self.log.renews.max(self.geometry.pages().max(grown) + current);
    }

    /// Schedules new records of all pages if the table grows. A larger table needs a longer chain
    /// of records, and each of them must be on as many drives as it should be before the capacity
    /// grows, including those from before a drive was replaced.
    pub(super) fn prepare_growth(&mut self) {
        if self.grown_pages().is_some_and(|pages| pages > self.geometry.pages()) {
            self.renew_records();
        }
    }

    /// Returns the number of pages of the table after growth, if the volume grows.
    fn grown_pages(&self) -> Option<u64> {
        self.care.grows.and_then(|_| self.outgrown()).map(|grown| grown.pages())
    }

    /// Returns the geometry with as many units as fit, or `None` if fewer units fit than the array
    /// has now.
    fn outgrown(&self) -> Option<Geometry> {
        let (chunks, most) = (self.chunks(), self.geometry.units_max());
        self.geometry.grown(self.drives.units(self.promised_level(), chunks, most))
    }

    /// Increases the capacity to the number of units that fit. The next record contains the new
    /// capacity.
    fn promise_more(&mut self) {
        if let Some(grown) = self.outgrown() {
            (self.geometry, self.log.owes) = (grown, true);
            self.table.grow(grown.units);
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
        if let Some((role, lane)) = self.leaves(at, &unit, level) {
            return Some(Task::Move { role, lane });
        }
        if let Some(task) = self.heed(at) {
            return Some(task);
        }
        if self.care.grows.is_none() && !self.care.balances {
            return None;
        }
        let (role, lane) = self.drives.roomier(&unit, self.chunks())?;
        Some(Task::Move { role, lane })
    }
}

#[cfg(test)]
mod tests;
