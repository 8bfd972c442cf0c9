//! The drives of an array: which are present, and which have free cells.

use super::{
    DriveKind, DriveState, Geometry, KINDS, LANES_MAX, LANES_OPEN, Level, Place, Space, Unit, each,
};
use crate::contract::Nanos;

/// A drive with more than this many recent faults is no longer used.
const FAULTS_MAX: u32 = 32;
/// The time after which recent faults count half. A dying drive fails far more often than that, and
/// a few bad sectors a year do not add up. (md decays the read errors of a drive at the same rate.)
const FAULTS_HALVE: Nanos = Nanos(3_600 * 1_000_000_000);
/// A role moves to another drive if that drive has this many more free cells.
const SLOPE: u32 = 32;

#[derive(Clone, Debug)]
pub(super) struct Drive {
    /// The drive's number; 0 if there is none on this lane.
    pub(super) number: u8,
    pub(super) kind: DriveKind,
    pub(super) present: bool,
    pub(super) space: Space,
    /// The number of faults since it was opened.
    pub(super) faults: u32,
    /// The number of recent faults as of the time `decayed`.
    recent: u32,
    decayed: Nanos,
    /// The value of `Drives::lapses` at the last failed flush of this drive.
    lapse: u32,
    /// Whether the drive's data is moved to other drives, because the drive is being replaced or
    /// removed.
    leaves: bool,
}

/// All drives, by lane.
#[derive(Clone, Debug)]
pub(super) struct Drives {
    all: Vec<Drive>,
    /// By the number of a drive: its lane, if the drive is present.
    lanes: Vec<Option<u8>>,
    /// The number of flushes that failed.
    lapses: u32,
    members: [u8; LANES_MAX as usize],
    /// A bit per member, set for solid-state drives.
    ssds: u32,
    /// The number of members of each kind that are not present.
    missing: [usize; KINDS.len()],
    /// Whether a role may go to a drive that lost a related role.
    pub(super) reckless: bool,
    /// The number of drives whose cells are excluded from the promised capacity, so that the data
    /// of this many failed drives can be restored on the others.
    pub(super) spares: usize,
    /// The cells of each drive, by kind, that are reserved and not given to new roles.
    pub(super) reserves: [u32; KINDS.len()],
}

impl Drives {
    /// Creates a drive with `cells` cells on each lane whose number is not 0.
    pub(super) fn new(numbers: &[u8], cells: u32) -> Drives {
        let all: Vec<Drive> = numbers
            .iter()
            .map(|&number| Drive {
                number,
                kind: DriveKind::Hdd,
                present: number > 0,
                space: Space::new(cells),
                faults: 0,
                recent: 0,
                decayed: Nanos::ZERO,
                lapse: 0,
                leaves: false,
            })
            .collect();
        let mut lanes = vec![None; 256];
        for (lane, drive) in all.iter().enumerate().filter(|(_, drive)| drive.present) {
            lanes[usize::from(drive.number)] = Some(lane as u8);
        }
        let mut members = [0; LANES_MAX as usize];
        members.iter_mut().zip(numbers).for_each(|(to, number)| *to = *number);
        Drives {
            all,
            lanes,
            lapses: 0,
            members,
            ssds: 0,
            missing: [0; KINDS.len()],
            reckless: false,
            spares: 0,
            reserves: [0; KINDS.len()],
        }
    }

    pub(super) fn lanes(&self) -> usize {
        self.all.len()
    }

    pub(super) fn present(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.all.len()).filter(|lane| self.all[*lane].present)
    }

    /// Returns the lanes of the present drives, one bit each.
    pub(super) fn present_bits(&self) -> u64 {
        self.present().fold(0, |all, lane| all | 1 << lane)
    }

    /// Returns the lanes of the present drives of a kind.
    pub(super) fn of(&self, kind: DriveKind) -> impl Iterator<Item = usize> + '_ {
        self.present().filter(move |lane| self.all[*lane].kind == kind)
    }

    /// Returns the lane of a place, if the drive there is present.
    #[inline]
    pub(super) fn lane(&self, place: Place) -> Option<usize> {
        let (drive, _) = place.cell()?;
        self.lanes[usize::from(drive)].map(usize::from)
    }

    pub(super) fn states(&self) -> Vec<DriveState> {
        let state = |drive: &Drive| DriveState {
            number: drive.number,
            kind: drive.kind,
            is_present: drive.present,
            free_cells: drive.space.free(),
            faults: drive.faults,
        };
        self.all.iter().map(state).collect()
    }

    pub(super) fn number(&self, lane: usize) -> u8 {
        self.all[lane].number
    }

    /// Returns whether all drives of the volume are present.
    pub(super) fn is_whole(&self) -> bool {
        KINDS.iter().all(|kind| self.missing_of(*kind) == 0)
    }

    /// Returns the number of missing drives of a kind.
    #[inline]
    pub(super) fn missing_of(&self, kind: DriveKind) -> usize {
        self.missing[kind as usize]
    }

    /// Counts the missing drives again, after members or lanes have changed.
    fn count_missing(&mut self) {
        self.missing = [0; KINDS.len()];
        for (member, &number) in self.members.iter().enumerate().filter(|(_, it)| **it > 0) {
            let is_ssd = self.ssds >> member & 1 == 1;
            let kind = if is_ssd { DriveKind::Ssd } else { DriveKind::Hdd };
            self.missing[kind as usize] += usize::from(self.lanes[usize::from(number)].is_none());
        }
    }

    /// Returns the numbers of all drives of the volume, present or not.
    pub(super) fn members(&self) -> [u8; LANES_MAX as usize] {
        self.members
    }

    /// Returns one bit for each member, set for solid-state drives.
    pub(super) fn ssds(&self) -> u32 {
        self.ssds
    }

    /// Sets the numbers of all drives of the volume, and which of them are solid-state drives.
    pub(super) fn have(&mut self, members: [u8; LANES_MAX as usize], ssds: u32) {
        (self.members, self.ssds) = (members, ssds);
        for drive in &mut self.all {
            let member = members.iter().position(|number| *number == drive.number);
            let is_ssd = member.is_some_and(|member| ssds >> member & 1 == 1);
            drive.kind = if is_ssd { DriveKind::Ssd } else { DriveKind::Hdd };
        }
        self.count_missing();
    }

    /// Sets the kinds of all drives, by lane, in an array whose lanes are its members.
    pub(super) fn with_kinds(&mut self, kinds: &[DriveKind]) {
        let is_ssd = |(_, kind): &(usize, &DriveKind)| **kind == DriveKind::Ssd;
        let ssds = kinds.iter().enumerate().filter(is_ssd);
        self.have(self.members, ssds.fold(0, |ssds, (lane, _)| ssds | 1 << lane));
    }

    pub(super) fn lapses(&self) -> u32 {
        self.lapses
    }

    /// Returns whether a place may have lost data written when `since` flushes had failed. This is
    /// the case if a flush of its drive has failed since then.
    pub(super) fn has_lapsed(&self, place: Place, since: u32) -> bool {
        self.lane(place).is_some_and(|lane| self.all[lane].lapse > since)
    }

    /// Returns the lanes of `copies` drives for the next records, different ones each time. Drives
    /// that are leaving get records only if too few other drives are left, because their copies are
    /// temporary.
    pub(super) fn recording(&self, turn: u64, copies: usize) -> Vec<usize> {
        let (leaving, staying): (Vec<usize>, Vec<usize>) =
            self.present().partition(|lane| self.all[*lane].leaves);
        let some = |of: &[usize], count: usize| -> Vec<usize> {
            let next = |step: usize| of[(turn as usize + step) % of.len()];
            (0..count.min(of.len())).map(next).collect()
        };
        let mut lanes = some(&staying, copies);
        lanes.extend(some(&leaving, copies - lanes.len()));
        lanes
    }

    /// Puts a new drive on a lane that has none.
    pub(super) fn attach(&mut self, lane: usize, number: u8, kind: DriveKind, cells: u32) {
        let drive = &mut self.all[lane];
        (drive.number, drive.kind, drive.present) = (number, kind, true);
        drive.space = Space::new(cells);
        self.lanes[usize::from(number)] = Some(lane as u8);
        self.count_missing();
    }

    /// Makes the drive `number` the member at this index; 0 removes the member.
    pub(super) fn enlist(&mut self, place: usize, number: u8, kind: DriveKind) {
        self.members[place] = number;
        let is_ssd = number > 0 && kind == DriveKind::Ssd;
        self.ssds = self.ssds & !(1 << place) | u32::from(is_ssd) << place;
        self.count_missing();
    }

    /// Starts moving the data of a drive to other drives.
    pub(super) fn let_leave(&mut self, lane: usize) {
        self.all[lane].leaves = true;
    }

    /// Stops using a drive whose data has been moved to other drives.
    pub(super) fn dismiss(&mut self, lane: usize) {
        self.fail(lane);
        self.all[lane].leaves = false;
    }

    /// Returns whether a drive's data is being moved to other drives.
    pub(super) fn is_leaving(&self, lane: usize) -> bool {
        self.all[lane].leaves
    }

    /// Returns whether the data of any drive is being moved to other drives.
    pub(super) fn has_leaving(&self) -> bool {
        self.all.iter().any(|drive| drive.leaves)
    }

    /// Returns the kind of the drive on a lane.
    pub(super) fn kind(&self, lane: usize) -> DriveKind {
        self.all[lane].kind
    }

    /// Returns the kind of a member, which may be missing.
    pub(super) fn kind_of(&self, member: u8) -> DriveKind {
        let place = self.members.iter().position(|it| *it == member);
        match place.is_some_and(|place| self.ssds >> place & 1 == 1) {
            true => DriveKind::Ssd,
            false => DriveKind::Hdd,
        }
    }

    /// Returns the lane of a present drive.
    pub(super) fn lane_of(&self, number: u8) -> Option<usize> {
        self.lanes[usize::from(number)].map(usize::from)
    }

    /// Stops using a drive. Returns whether it was in use until now.
    pub(super) fn fail(&mut self, lane: usize) -> bool {
        let drive = &mut self.all[lane];
        self.lanes[usize::from(drive.number)] = None;
        let was_present = std::mem::take(&mut drive.present);
        self.count_missing();
        was_present
    }

    /// Records that an I/O of a drive failed. Returns whether the drive has failed too often.
    pub(super) fn fault(&mut self, lane: usize, now: Nanos) -> bool {
        let drive = &mut self.all[lane];
        let halvings = (now - drive.decayed).0 / FAULTS_HALVE.0;
        drive.recent = drive.recent.checked_shr(halvings.min(31) as u32).unwrap_or(0);
        drive.decayed += Nanos(halvings * FAULTS_HALVE.0);
        drive.recent += 1;
        drive.faults = drive.faults.saturating_add(1);
        drive.recent > FAULTS_MAX
    }

    /// Records that a flush of a drive failed: the data written to it since the last flush may be
    /// lost.
    pub(super) fn lapse(&mut self, lane: usize) {
        self.lapses += 1;
        self.all[lane].lapse = self.lapses;
    }

    /// Sets the number of cells of each drive, by lane, in an array without allocated cells.
    pub(super) fn with_cells(&mut self, cells: &[u32]) {
        self.all.iter_mut().zip(cells).for_each(|(drive, cells)| drive.space = Space::new(*cells));
    }

    /// Returns the number of a drive's cells, free or not.
    pub(super) fn cells(&self, lane: usize) -> u32 {
        self.all[lane].space.cells()
    }

    pub(super) fn free(&self, lane: usize) -> u32 {
        self.all[lane].space.free()
    }

    /// Returns a missing drive that may have held a role, inferred from the places of the other
    /// roles.
    pub(super) fn missing(
        &self,
        unit: &Unit,
        level: Level,
        role: usize,
        chunks: usize,
    ) -> Option<u8> {
        let has = |number, other: usize| unit.places[other].lost().loser() == Some(number);
        let is_missing = |number: &u8| {
            let is_there = self.lanes[usize::from(*number)].is_some();
            !is_there && !level.apart(role, chunks).any(|other| has(*number, other))
        };
        self.members.into_iter().filter(|number| *number > 0).find(is_missing)
    }

    /// Takes a free cell of a drive.
    pub(super) fn take(&mut self, lane: usize) -> Option<Place> {
        let drive = &mut self.all[lane];
        drive.space.take().map(|cell| Place::at(drive.number, cell))
    }

    /// Frees a cell. Cells of missing drives do not matter.
    pub(super) fn give(&mut self, place: Place) {
        if let (Some(lane), Some((_, cell))) = (self.lane(place), place.cell()) {
            self.all[lane].space.give(cell);
        }
    }

    /// Marks a cell as taken. Returns whether it was free.
    pub(super) fn mark(&mut self, place: Place) -> bool {
        match (self.lane(place), place.cell()) {
            (Some(lane), Some((_, cell))) => self.all[lane].space.mark(cell),
            _ => true,
        }
    }

    /// Returns the lane for a role of a unit. If its present drive is of the unit's kind and has
    /// space, the role stays there. Otherwise, it goes to a drive of that kind without any role
    /// that it must not share a drive with, preferably one that has not lost such a role either. Of
    /// these drives, it chooses one with the fewest roles of the unit, then the fewest of the
    /// neighboring chunk, then the most space, and then at random.
    pub(super) fn choose(
        &self,
        geometry: &Geometry,
        number: u64,
        unit: &Unit,
        level: Level,
        role: usize,
    ) -> Option<usize> {
        let chunks = usize::from(geometry.chunks);
        let own = self.lane(unit.places[role]).filter(|lane| self.all[*lane].kind == unit.kind);
        let own = own.filter(|lane| !self.all[*lane].leaves);
        if let Some(lane) = own.filter(|lane| self.free(*lane) > 0) {
            return Some(lane);
        }
        let sibling = level.chunk(role, chunks).filter(|_| level.parities() == 0).map(|it| it ^ 1);
        let (mut uses, mut barred, mut beside) = ([0u8; LANES_OPEN], 0u64, 0u64);
        for other in 0..level.roles(chunks) {
            let Some(lane) = self.lane(unit.places[other]) else { continue };
            uses[lane] += 1;
            let is_barred = other != role && level.parts(other, role, chunks);
            barred |= u64::from(is_barred) << lane;
            let is_beside = sibling.is_some() && level.chunk(other, chunks) == sibling;
            beside |= u64::from(is_beside) << lane;
        }
        let rank = |lane: &usize| {
            // Count free cells in coarse steps, so that units are spread randomly over drives with
            // about equal space.
            let room = self.free(*lane) / 16;
            let chance = crate::index::spread(number << 16 ^ (role as u64) << 8 ^ *lane as u64);
            (uses[*lane], beside >> lane & 1, std::cmp::Reverse(room), chance)
        };
        let losers = barred | self.losers(unit, level, role, chunks);
        let spares = self.of(unit.kind).any(|lane| losers >> lane & 1 == 0);
        let barred = if spares && !self.reckless { losers } else { barred };
        let kept = self.reserves[unit.kind as usize];
        self.of(unit.kind)
            .filter(|lane| self.free(*lane) > kept && barred >> lane & 1 == 0)
            // A drive that is being replaced or removed takes data only if no other can.
            .min_by_key(|lane| (self.all[*lane].leaves, rank(lane)))
    }

    /// Returns the lanes, one bit each, of drives that lost a role that must not be on the same
    /// drive as this role. If such a drive held this role and failed, the unit would lack two roles
    /// because of one drive.
    fn losers(&self, unit: &Unit, level: Level, role: usize, chunks: usize) -> u64 {
        let losers = level.apart(role, chunks).filter_map(|other| unit.places[other].loser());
        let lanes = losers.filter_map(|number| self.lanes[usize::from(number)]);
        lanes.fold(0, |lanes, lane| lanes | 1 << lane)
    }

    /// Returns whether a drive holds a role that must not be on the same drive as this one.
    pub(super) fn is_barred(
        &self,
        lane: usize,
        unit: &Unit,
        level: Level,
        role: usize,
        chunks: usize,
    ) -> bool {
        level.apart(role, chunks).any(|other| self.lane(unit.places[other]) == Some(lane))
    }

    /// Returns a role of a unit on a drive that is far fuller than another drive that could hold
    /// the role, and the lane of that other drive.
    pub(super) fn roomier(&self, unit: &Unit, chunks: usize) -> Option<(usize, usize)> {
        self.roomier_by(unit, chunks, SLOPE)
    }

    /// Like [`Drives::roomier`], for a lane with over `slope` more free cells.
    pub(super) fn roomier_by(
        &self,
        unit: &Unit,
        chunks: usize,
        slope: u32,
    ) -> Option<(usize, usize)> {
        let level = unit.level?;
        let role = (0..level.roles(chunks))
            .filter_map(|role| Some((self.free(self.lane(unit.places[role])?), role)));
        let (free, role) = role.min()?;
        let losers = self.losers(unit, level, role, chunks);
        let lane = self
            .of(unit.kind)
            .filter(|lane| !self.all[*lane].leaves && self.free(*lane) > free + slope)
            .filter(|lane| !self.is_barred(*lane, unit, level, role, chunks))
            .filter(|lane| losers >> lane & 1 == 0)
            .max_by_key(|lane| self.free(*lane))?;
        Some((role, lane))
    }

    /// Returns whether a place is on a drive of another kind.
    pub(super) fn is_on_other(&self, place: Place, kind: DriveKind) -> bool {
        self.lane(place).is_some_and(|lane| self.all[lane].kind != kind)
    }

    /// Returns whether all data of a unit can be read from the present drives.
    pub(super) fn has_all(&self, unit: &Unit, chunks: usize) -> bool {
        unit.told(chunks, |place| self.lane(place).is_some()) == super::level::all(chunks)
    }

    /// Returns whether a unit has roles that no present drive holds.
    pub(super) fn lacks(&self, unit: &Unit, chunks: usize) -> bool {
        let Some(level) = unit.level else { return false };
        let roles = super::level::all(level.roles(chunks));
        each(roles).any(|role| {
            let place = unit.places[role];
            place != Place::ZERO && self.lane(place).is_none()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::geometry::Update;
    use super::*;

    fn geometry(lanes: u16) -> Geometry {
        let sizes = Geometry { update: Update::InPlace, ..Geometry::sample(lanes) };
        Geometry::new(sizes, Level::RAID6, 20).unwrap()
    }

    fn laid(drives: &mut Drives, geometry: &Geometry, number: u64, level: Level) -> Unit {
        let mut unit = Unit { level: Some(level), ..Unit::EMPTY };
        for role in 0..level.roles(4) {
            let lane = drives.choose(geometry, number, &unit, level, role).unwrap();
            unit.places[role] = drives.take(lane).unwrap();
        }
        unit
    }

    #[test]
    fn old_faults_no_longer_count() {
        let mut drives = Drives::new(&[1, 2], 100);
        let hours = |hours: u64| Nanos(FAULTS_HALVE.0 * hours);
        assert!((0..FAULTS_MAX).all(|_| !drives.fault(0, hours(5))));
        assert!(drives.fault(0, hours(5)) && !drives.fault(1, hours(5)));
        // One hour later, half of the 33 faults count; the next day, none. One fault a day never
        // adds up.
        assert!((0..16).all(|_| !drives.fault(0, hours(6))) && drives.fault(0, hours(6)));
        assert!((0..FAULTS_MAX).all(|_| !drives.fault(0, hours(30))));
        assert!((1..9001).all(|day| !drives.fault(1, hours(24 * day))));
        assert_eq!((drives.all[0].faults, drives.all[1].faults), (82, 9001));
    }

    #[test]
    fn roles_are_on_different_drives_and_drives_are_balanced() {
        for lanes in [6, 9] {
            let geometry = geometry(lanes);
            let numbers: Vec<u8> = (1..=lanes as u8).collect();
            for level in [Level::RAID6, Level::TRIPLE] {
                let mut drives = Drives::new(&numbers, 1000);
                for number in 0..300 {
                    let unit = laid(&mut drives, &geometry, number, level);
                    let lane = |role: usize| drives.lane(unit.places[role]).unwrap();
                    for role in 0..level.roles(4) {
                        for other in 0..role {
                            // Two neighboring chunks form a segment, which has its own drives.
                            let apart = level == Level::RAID6 || role % 4 / 2 == other % 4 / 2;
                            assert!(!apart || lane(role) != lane(other), "{unit:?}");
                        }
                    }
                    assert!(drives.has_all(&unit, 4) && !drives.lacks(&unit, 4));
                }
                let free: Vec<u32> = (0..lanes.into()).map(|lane| drives.free(lane)).collect();
                let (least, most) = (free.iter().min().unwrap(), free.iter().max().unwrap());
                assert!(most - least < 40, "{free:?}");
            }
        }
    }

    #[test]
    fn the_number_of_units_that_fit_is_the_number_that_can_be_laid_out() {
        let geometry = geometry(9);
        let mixed = [1000, 4000, 1000, 9000, 2000, 1000, 3000, 2500, 1200];
        for (level, cells) in [
            (Level::RAID6, &[5000; 9]),
            (Level::RAID6, &mixed),
            (Level::TRIPLE, &mixed),
            (Level::Mirrored { copies: 2 }, &mixed),
        ] {
            let mut drives = Drives::new(&[1, 2, 3, 4, 5, 6, 7, 8, 9], 0);
            drives.with_cells(cells);
            let units = drives.units(level, 4, 100_000);
            let mut laid = 0;
            let mut one = || {
                let mut unit = Unit { level: Some(level), ..Unit::EMPTY };
                for role in 0..level.roles(4) {
                    let lane = drives.choose(&geometry, laid, &unit, level, role)?;
                    unit.places[role] = drives.take(lane)?;
                }
                laid += 1;
                Some(())
            };
            while one().is_some() {}
            assert!((units..units + units / 8).contains(&laid), "{level:?} {units} {laid}");
        }
        let few = Drives::new(&[1, 2, 3, 4, 5], 1000);
        assert_eq!(few.units(Level::RAID6, 4, 10_000), 0);
    }

    #[test]
    fn roles_move_to_emptier_drives_until_all_are_balanced() {
        let geometry = geometry(6);
        for level in [Level::RAID6, Level::TRIPLE] {
            let mut drives = Drives::new(&[1, 2, 3, 4, 5, 6, 7, 8], 2000);
            assert!(drives.fail(6) && drives.fail(7));
            let mut units: Vec<Unit> =
                (0..300).map(|number| laid(&mut drives, &geometry, number, level)).collect();
            let full = drives.clone();
            drives = Drives::new(&[1, 2, 3, 4, 5, 6, 7, 8], 2000);
            units.iter().flat_map(|unit| unit.places).for_each(|place| {
                drives.mark(place);
            });
            assert!(full.free(0) == drives.free(0) && drives.free(7) == 2000);
            let mut moves = 0;
            while let Some((at, (role, lane))) =
                units.iter().enumerate().find_map(|(at, unit)| Some((at, drives.roomier(unit, 4)?)))
            {
                drives.give(units[at].places[role]);
                units[at].places[role] = drives.take(lane).unwrap();
                moves += 1;
            }
            let free: Vec<u32> = (0..8).map(|lane| drives.free(lane)).collect();
            let (least, most) = (free.iter().min().unwrap(), free.iter().max().unwrap());
            assert!(most - least <= SLOPE && moves < 300 * level.roles(4), "{free:?} {moves}");
            for unit in &units {
                let lane = |role: usize| drives.lane(unit.places[role]);
                for role in 0..level.roles(4) {
                    let apart = |other| !level.parts(role, other, 4) || lane(role) != lane(other);
                    assert!((0..role).all(apart), "{unit:?}");
                }
            }
        }
    }

    #[test]
    fn roles_and_data_on_failed_drives_are_missing() {
        let geometry = geometry(6);
        let mut drives = Drives::new(&[1, 2, 3, 4, 5, 6], 100);
        let striped = laid(&mut drives, &geometry, 1, Level::RAID6);
        let mirrored = laid(&mut drives, &geometry, 2, Level::TRIPLE);
        assert!(drives.fail(0) && drives.fail(3) && !drives.fail(3));
        for unit in [striped, mirrored] {
            assert!(drives.has_all(&unit, 4) && drives.lacks(&unit, 4));
        }
        let mut fault = || drives.fault(5, Nanos::ZERO);
        assert!((0..32).all(|_| !fault()) && fault() && drives.fail(5));
        assert!(!drives.has_all(&striped, 4));
        // A role whose drive has disappeared moves to another drive, if there is one.
        assert_eq!(drives.choose(&geometry, 1, &striped, Level::RAID6, 0).is_none(), {
            drives.lane(striped.places[0]).is_none()
        });
    }
}
