//! Orders to an array in use: checks, limits, and drives that are replaced, added or removed.
//!
//! A drive that replaces a missing one takes its place in the next record. Data of the missing
//! drive are then restored as after any failure, and roles that were restored elsewhere meanwhile
//! move to the new drive. Records that the missing drive had are on fewer drives than they should
//! be, so all pages of the table are recorded again.
//!
//! A working drive is removed only when its successor has its data: the successor joins as an
//! additional member, and the old drive *leaves*. It gets no more roles, and no records unless too
//! few other drives are left. Its roles move away, and with the last of them it is removed from the
//! members. If this is interrupted, both drives are members, and no data are at risk if the order
//! is not repeated.
//!
//! A drive that is *added* is a member from the next record on. The capacity increases only after
//! roles have moved to it. A drive that is *removed* leaves without a successor.

use super::{Array, DriveKind, KINDS, LANES_MAX, Level, Phase, Unit};
use crate::contract::{
    Lane, Nanos, VolumeDrive, VolumeEvent, VolumeOrder, VolumeProgress, VolumeState,
};

/// The error if no more drives can be added.
const NO_PLACE: &str = "the volume has the maximum number of drives";

impl Array {
    /// Carries out an order at the next call.
    pub(super) fn ordered(&mut self, now: Nanos, order: &VolumeOrder) -> Result<(), String> {
        if !matches!(self.phase, Phase::Ready) || self.reads_only || !self.is_fresh() {
            return Err("the volume is not in use".into());
        }
        match *order {
            VolumeOrder::Check { bytes_per_s } => {
                self.care.scrub(now, bytes_per_s, self.room.lacking > 0);
            }
            VolumeOrder::EndCheck if !self.care.is_scrubbing() => {
                return Err("no check is in progress".into());
            }
            VolumeOrder::EndCheck => {
                self.care.end_scrub();
                self.events.push(VolumeEvent::Cancelled);
            }
            VolumeOrder::Limit { bytes_per_s } => self.care.rate = bytes_per_s,
            VolumeOrder::Replace { lane, number, cells, member } => {
                let was_missing = self.drives.lane_of(member).is_none();
                self.replace(lane.into(), number, cells, member)?;
                self.log.lacks |= was_missing;
                self.renew_records();
                self.reshape(now);
            }
            VolumeOrder::Add { lane, number, cells, is_ssd } => {
                let kind = if is_ssd { DriveKind::Ssd } else { DriveKind::Hdd };
                self.add(lane.into(), number, cells, kind)?;
                self.grow();
                self.reshape(now);
            }
            VolumeOrder::Grow => {
                self.grow();
                self.care.rebuild(now);
            }
            VolumeOrder::Retire { member } => {
                self.retire(member)?;
                self.renew_records();
                self.reshape(now);
            }
            VolumeOrder::Drain => return Err(order.unfit().into()),
        }
        Ok(())
    }

    /// Schedules a record of the changed members, and starts to move roles accordingly.
    fn reshape(&mut self, now: Nanos) {
        self.log.owes = true;
        self.care.balances = true;
        self.care.rebuild(now);
    }

    /// Moves roles until all drives are about equally full, and then increases the capacity.
    fn grow(&mut self) {
        // Any kind will do, because it matters only for new drives found when the array is opened.
        self.care.grows = Some(DriveKind::default());
        self.prepare_growth();
    }

    /// Begins to remove the drive that [`Array::removing`] named, now that the array is open.
    pub(super) fn retire_asked(&mut self, now: Nanos) {
        if let Some(member) = self.care.retires.take()
            && self.retire(member).is_ok()
        {
            self.renew_records();
            self.reshape(now);
        }
    }

    /// Starts to remove a drive if the other drives have space for all of the promised capacity. A
    /// missing drive is removed at once.
    fn retire(&mut self, member: u8) -> Result<(), String> {
        let refusal = |why| format!("drive {member} cannot be removed: {why}");
        self.removal(member).map_err(refusal)?;
        let place = self.drives.members().iter().position(|it| *it == member);
        match (self.drives.lane_of(member), place) {
            (Some(lane), _) => self.drives.let_leave(lane),
            (None, Some(place)) => self.drives.enlist(place, 0, DriveKind::default()),
            (None, None) => {}
        }
        Ok(())
    }

    /// Checks whether a drive can be removed.
    ///
    /// # Errors
    /// The reason why it cannot be removed.
    pub fn removal(&self, member: u8) -> Result<(), String> {
        let members = self.drives.members();
        if member == 0 || !members.contains(&member) {
            return Err("it is not a drive of the volume".into());
        }
        let is_missing = |it: &&u8| **it > 0 && self.drives.lane_of(**it).is_none();
        let other = members.iter().filter(is_missing).find(|it| **it != member);
        if let Some(other) = other.filter(|_| self.room.lacking > 0) {
            return Err(format!("drive {other} is missing; replace or remove that drive first"));
        }
        let lane = self.drives.lane_of(member);
        let kind = self.drives.kind_of(member);
        let (level, chunks, most) =
            (self.promised_level(), self.chunks(), self.geometry.units_max());
        let fits = KINDS.map(|kind| self.drives.units_without(lane, kind, level, chunks, most));
        // Units stay on drives of the same kind.
        let all = (self.geometry.units, fits.iter().sum(), "drives");
        let own = (self.held[kind as usize], fits[kind as usize], kind.plural());
        if let Some((holds, fits, drives)) = [all, own].into_iter().find(|it| it.1 < it.0) {
            let size = |units: u64| match units * self.geometry.unit_bytes() {
                bytes if bytes < 10 << 20 => format!("{} KiB", bytes >> 10),
                bytes => format!("{} MiB", bytes >> 20),
            };
            return Err(format!(
                "its {drives} hold {}, and the others have space for {} (units of level {} span {} drives)",
                size(holds),
                size(fits),
                level.name(),
                level.width(chunks)
            ));
        }
        match lane {
            None if self.room.lacking > 0 => Err(format!(
                "it is missing, and {} chunks have not been restored on the other drives yet",
                self.room.lacking
            )),
            _ => Ok(()),
        }
    }

    /// Replaces a member by a new drive.
    fn replace(&mut self, lane: usize, number: u8, cells: u32, member: u8) -> Result<(), String> {
        let members = self.drives.members();
        let position = |wanted: u8| members.iter().position(|it| *it == wanted);
        let Some(place) = position(member).filter(|_| member > 0) else {
            return Err("the drive to replace is not a drive of the volume".into());
        };
        self.takes_drive(lane, number, cells)?;
        let working = self.drives.lane_of(member);
        let kind = self.drives.kind_of(member);
        let place = match working {
            None => place,
            Some(old) => {
                let vacant = position(0).ok_or(NO_PLACE)?;
                self.drives.let_leave(old);
                vacant
            }
        };
        self.drives.attach(lane, number, kind, cells);
        self.drives.enlist(place, number, kind);
        Ok(())
    }

    /// Makes a new drive an additional member.
    fn add(&mut self, lane: usize, number: u8, cells: u32, kind: DriveKind) -> Result<(), String> {
        if !self.drives.is_whole() {
            return Err(
                "a drive is missing, and only a complete volume can grow; replace the drive first"
                    .into(),
            );
        }
        self.takes_drive(lane, number, cells)?;
        let vacant = self.drives.members().iter().position(|it| *it == 0).ok_or(NO_PLACE)?;
        self.drives.attach(lane, number, kind, cells);
        self.drives.enlist(vacant, number, kind);
        Ok(())
    }

    /// Returns an error if a lane cannot take a new drive.
    fn takes_drive(&self, lane: usize, number: u8, cells: u32) -> Result<(), String> {
        if lane >= self.drives.lanes() || self.drives.number(lane) != 0 {
            return Err("the volume has no place for another drive until it is opened again".into());
        }
        let newest = self.drives.members().into_iter().max().unwrap_or(0);
        if number <= newest || number > super::unit::DRIVE_MAX {
            return Err("the number of the new drive is not new".into());
        }
        if cells < self.geometry.cells {
            return Err("the new drive is too small".into());
        }
        Ok(())
    }

    /// Returns a role of a unit on a drive that is leaving, and the lane to which the role moves.
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

    /// Removes drives that leave from the members once they hold no data. A missing drive remains a
    /// member until its data are restored on other drives, because it may return with them.
    pub(super) fn dismiss(&mut self) {
        for lane in 0..self.drives.lanes() {
            let is_present = self.drives.present().any(|it| it == lane);
            let is_empty = self.drives.free(lane) == self.drives.cells(lane);
            let may_go = if is_present { is_empty } else { self.room.lacking == 0 };
            if !self.drives.is_leaving(lane) || !may_go {
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

    /// Reports drives that joined or left, once a record with these members is durable.
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

    /// Returns whether the capacity is greater than the last durable record says.
    fn promises_more(&self) -> bool {
        (1..self.geometry.units).contains(&self.log.units)
    }

    /// Returns the state of the volume without examining its units.
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
            capacity_bytes: self.geometry.capacity_bytes(),
            is_growing: self.care.grows.is_some() || self.promises_more(),
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
            lacks_records: self.log.lacks,
            lacks_room: self.full.is_full(),
        }
    }
}
