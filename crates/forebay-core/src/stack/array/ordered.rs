//! Orders to an array in use: checks, limits, and drives that are replaced.
//!
//! A drive that replaces a missing one takes its place in the next record. What the missing drive
//! had is then restored as after any failure, and roles that were restored elsewhere meanwhile
//! move to the new drive. Records that the missing drive had are on fewer drives than they should
//! be, so all pages of the table are recorded once more.
//!
//! A drive that works is not given up before its successor has its data: the successor joins as an
//! additional member, the old drive *leaves*. It gets no more roles and no more records, its roles
//! move away, and with the last of them it is struck from the members. If this is interrupted, both
//! drives are members, and no data depend on the order being given again.

use super::drives::units_on;
use super::geometry::LANES_MAX;
use super::kind::DriveKind;
use super::level::Level;
use super::unit::Unit;
use super::{Array, Phase};
use crate::contract::request::Lane;
use crate::contract::time::Nanos;
use crate::contract::volume::{VolumeDrive, VolumeEvent, VolumeOrder, VolumeProgress, VolumeState};

impl Array {
    /// Carries out an order in the next call.
    pub(super) fn ordered(&mut self, now: Nanos, order: &VolumeOrder) -> Result<(), &'static str> {
        if !matches!(self.phase, Phase::Ready) || self.reads_only || !self.is_fresh() {
            return Err("the volume is not in use");
        }
        match *order {
            VolumeOrder::Check { bytes_per_s } => {
                self.care.scrub(now, bytes_per_s, self.room.lacking > 0);
            }
            VolumeOrder::EndCheck if !self.care.is_scrubbing() => {
                return Err("no check is in progress");
            }
            VolumeOrder::EndCheck => {
                self.care.end_scrub();
                self.events.push(VolumeEvent::Cancelled);
            }
            VolumeOrder::Limit { bytes_per_s } => self.care.rate = bytes_per_s,
            VolumeOrder::Replace { lane, number, cells, member } => {
                self.replace(lane.into(), number, cells, member)?;
                self.reshape(now);
            }
            VolumeOrder::Retire { member } => {
                self.retire(member)?;
                self.reshape(now);
            }
            VolumeOrder::Drain => return Err(order.unfit()),
        }
        Ok(())
    }

    /// Members have changed: the next record says so, and units move.
    fn reshape(&mut self, now: Nanos) {
        self.log.owes = true;
        self.log.renews = self.geometry.pages();
        self.care.balances = true;
        self.care.rebuild(now);
    }

    /// Has a drive leave if the others have room for everything that is promised.
    fn retire(&mut self, member: u8) -> Result<(), &'static str> {
        let Some(lane) = self.drives.lane_of(member).filter(|_| member > 0) else {
            return Err("the drive does not work");
        };
        let kind = self.drives.kind(lane);
        let (level, chunks) = (self.promised_level(), self.chunks());
        let staying = |of: DriveKind| {
            let lanes = self.drives.of(of).filter(|it| *it != lane && !self.drives.is_leaving(*it));
            let cells = lanes.map(|lane| self.drives.cells(lane));
            units_on(cells, level, chunks, self.geometry.units_max())
        };
        let has_room = staying(kind) + staying(kind.other()) >= self.geometry.units;
        if !has_room || !self.drives.is_whole() {
            return Err("the other drives have no room for its data");
        }
        self.drives.let_leave(lane);
        Ok(())
    }

    /// A new drive takes the place of a member.
    fn replace(
        &mut self,
        lane: usize,
        number: u8,
        cells: u32,
        member: u8,
    ) -> Result<(), &'static str> {
        let members = self.drives.members();
        let position = |wanted: u8| members.iter().position(|it| *it == wanted);
        let Some(place) = position(member).filter(|_| member > 0) else {
            return Err("the drive to replace is not a drive of the volume");
        };
        if lane >= self.drives.lanes() || self.drives.number(lane) != 0 {
            return Err("the volume has no place for another drive until it is opened again");
        }
        let newest = members.iter().copied().max().unwrap_or(0);
        if number <= newest || number > super::unit::DRIVE_MAX {
            return Err("the number of the new drive is not new");
        }
        if cells < self.geometry.cells {
            return Err("the new drive is too small");
        }
        let working = self.drives.lane_of(member);
        let is_ssd = self.drives.ssds() >> place & 1 == 1;
        let kind = if is_ssd { DriveKind::Ssd } else { DriveKind::Hdd };
        let place = match working {
            None => place,
            Some(old) => {
                let vacant = position(0);
                let vacant = vacant.ok_or("the volume has the maximum number of drives")?;
                self.drives.let_leave(old);
                vacant
            }
        };
        self.drives.attach(lane, number, kind, cells);
        self.drives.enlist(place, number, kind);
        Ok(())
    }

    /// Returns a role of a unit on a drive that leaves, and the lane that it goes to.
    pub(super) fn leaves(&self, at: u64, unit: &Unit, level: Level) -> Option<(usize, usize)> {
        if !self.drives.has_leaving() {
            return None;
        }
        let is_leaving = |lane: &usize| self.drives.is_leaving(*lane);
        (0..level.roles(self.chunks())).find_map(|role| {
            self.drives.lane(unit.places[role]).filter(is_leaving)?;
            let to = self.drives.choose(&self.geometry, at, unit, level, role)?;
            (!self.drives.is_leaving(to)).then_some((role, to))
        })
    }

    /// Strikes drives that leave from the members once they hold nothing that counts. One that has
    /// failed meanwhile has been replaced too: its data are restored, as far as there is room.
    pub(super) fn dismiss(&mut self) {
        for lane in 0..self.drives.lanes() {
            let is_present = self.drives.present().any(|it| it == lane);
            let is_empty = self.drives.free(lane) == self.drives.cells(lane);
            if !self.drives.is_leaving(lane) || is_present && !is_empty {
                continue;
            }
            let (number, kind) = (self.drives.number(lane), self.drives.kind(lane));
            let place = self.drives.members().iter().position(|it| *it == number);
            let Some(place) = place else { continue };
            self.drives.enlist(place, 0, kind);
            self.drives.dismiss(lane);
            self.log.owes = true;
        }
    }

    /// A record is durable that names these members.
    pub(super) fn recorded_members(&mut self, members: [u8; LANES_MAX as usize]) {
        let before = std::mem::replace(&mut self.log.members, members);
        if before == members || before.iter().all(|number| *number == 0) {
            return;
        }
        let new = |all: &[u8], number: &u8| *number > 0 && !all.contains(number);
        for drive in members.into_iter().filter(|number| new(&before, number)) {
            self.events.push(VolumeEvent::Joined { drive });
        }
        for drive in before.into_iter().filter(|number| new(&members, number)) {
            self.events.push(VolumeEvent::Left { drive });
        }
    }

    /// Returns the state of the volume, without looking at its units.
    pub(super) fn state(&self) -> VolumeState {
        let chunk_bytes = u64::from(self.geometry.chunk_bytes);
        let drives = self.drives.states().into_iter().enumerate();
        let drives =
            drives.filter(|(_, drive)| drive.number > 0).map(|(lane, drive)| VolumeDrive {
                number: drive.number,
                lane: lane as Lane,
                is_present: drive.is_present,
                is_leaving: self.drives.is_leaving(lane),
                is_member: self.log.members.contains(&drive.number),
                free_bytes: u64::from(drive.free_cells) * chunk_bytes,
                faults: drive.faults.into(),
            });
        let all_units = self.table.units();
        let progress = |(work, done_units)| VolumeProgress { work, done_units, all_units };
        VolumeState {
            members: self.drives.members().into_iter().filter(|number| *number > 0).collect(),
            drives: drives.collect(),
            tolerates: self.promised_level().tolerates() as u8,
            lacking_chunks: self.room.lacking,
            lost_units: self.lost_units,
            drives_failed: self.counts.drives_failed,
            rotten_blocks: self.counts.rotten_blocks,
            repaired_chunks: self.counts.repaired_roles,
            moved_chunks: self.counts.moved_roles,
            checks: self.care.checks,
            is_checking: self.care.is_scrubbing(),
            limit_bytes_per_s: self.care.rate,
            work: self.care.progress().map(progress),
            records_left: self.log.renews,
        }
    }
}
