//! The drives of an array: which are there, and where there is room.

use super::census::DriveState;
use super::geometry::{Geometry, LANES_MAX};
use super::level::{Level, each};
use super::space::Space;
use super::unit::{Place, Unit};

/// Faults of a drive after which it is used no more.
const FAULTS_MAX: u32 = 32;

#[derive(Clone, Debug)]
pub(super) struct Drive {
    /// Its own; 0 if there is none on this lane.
    pub(super) number: u8,
    pub(super) present: bool,
    pub(super) space: Space,
    pub(super) faults: u32,
    /// Which of all flushes that failed was its last.
    lapse: u32,
}

/// All of them, by lane.
#[derive(Clone, Debug)]
pub(super) struct Drives {
    all: Vec<Drive>,
    /// By number: the lane, if it is there.
    lanes: Vec<Option<u8>>,
    /// Flushes that failed.
    lapses: u32,
    members: [u8; LANES_MAX as usize],
}

impl Drives {
    /// One on each lane that has a number other than 0.
    pub(super) fn new(numbers: &[u8], cells: u32) -> Drives {
        let all: Vec<Drive> = numbers
            .iter()
            .map(|&number| Drive {
                number,
                present: number > 0,
                space: Space::new(cells),
                faults: 0,
                lapse: 0,
            })
            .collect();
        let mut lanes = vec![None; 256];
        for (lane, drive) in all.iter().enumerate().filter(|(_, drive)| drive.present) {
            lanes[usize::from(drive.number)] = Some(lane as u8);
        }
        let mut members = [0; LANES_MAX as usize];
        members.iter_mut().zip(numbers).for_each(|(to, number)| *to = *number);
        Drives { all, lanes, lapses: 0, members }
    }

    pub(super) fn present(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.all.len()).filter(|lane| self.all[*lane].present)
    }

    /// The lane of a place, if its drive is there.
    #[inline]
    pub(super) fn lane(&self, place: Place) -> Option<usize> {
        let (drive, _) = place.cell()?;
        self.lanes[usize::from(drive)].map(usize::from)
    }

    pub(super) fn states(&self) -> Vec<DriveState> {
        let state = |drive: &Drive| DriveState {
            number: drive.number,
            is_present: drive.present,
            free_cells: drive.space.free(),
            faults: drive.faults,
        };
        self.all.iter().map(state).collect()
    }

    pub(super) fn number(&self, lane: usize) -> u8 {
        self.all[lane].number
    }

    /// The numbers of all drives of the volume, present or not.
    pub(super) fn members(&self) -> [u8; LANES_MAX as usize] {
        self.members
    }

    pub(super) fn have(&mut self, members: [u8; LANES_MAX as usize]) {
        self.members = members;
    }

    pub(super) fn lapses(&self) -> u32 {
        self.lapses
    }

    /// Whether a place may have lost what it got when that many flushes had failed.
    pub(super) fn has_lapsed(&self, place: Place, since: u32) -> bool {
        self.lane(place).is_some_and(|lane| self.all[lane].lapse > since)
    }

    /// A drive is used no more.
    pub(super) fn fail(&mut self, lane: usize) {
        let drive = &mut self.all[lane];
        drive.present = false;
        self.lanes[usize::from(drive.number)] = None;
    }

    /// An I/O of a drive failed; answers whether it is used no more.
    pub(super) fn fault(&mut self, lane: usize, is_gone: bool) -> bool {
        self.all[lane].faults += 1;
        let fails = self.all[lane].present && (is_gone || self.all[lane].faults > FAULTS_MAX);
        if fails {
            self.fail(lane);
        }
        fails
    }

    /// A flush of a drive failed: what it took since the last one may be lost.
    pub(super) fn lapse(&mut self, lane: usize) {
        self.lapses += 1;
        self.all[lane].lapse = self.lapses;
    }

    pub(super) fn free(&self, lane: usize) -> u32 {
        self.all[lane].space.free()
    }

    /// A free cell of a drive.
    pub(super) fn take(&mut self, lane: usize) -> Option<Place> {
        let drive = &mut self.all[lane];
        drive.space.take().map(|cell| Place::at(drive.number, cell))
    }

    /// A cell is free again. Those of drives that are not there do not matter.
    pub(super) fn give(&mut self, place: Place) {
        if let (Some(lane), Some((_, cell))) = (self.lane(place), place.cell()) {
            self.all[lane].space.give(cell);
        }
    }

    /// A cell is taken, as the table says; answers whether it was free.
    pub(super) fn mark(&mut self, place: Place) -> bool {
        match (self.lane(place), place.cell()) {
            (Some(lane), Some((_, cell))) => self.all[lane].space.mark(cell),
            _ => true,
        }
    }

    /// Where a role of a unit is to be: its drive if that has room, else one that has nothing of the
    /// unit that the role must not share a drive with; of these one with least of the unit, least of
    /// the neighbouring chunk, most room, and by chance.
    pub(super) fn choose(
        &self,
        geometry: &Geometry,
        number: u64,
        unit: &Unit,
        level: Level,
        role: usize,
    ) -> Option<usize> {
        if let Some(lane) = self.lane(unit.places[role]).filter(|lane| self.free(*lane) > 0) {
            return Some(lane);
        }
        let chunks = usize::from(geometry.chunks);
        let roles = 0..level.roles(chunks);
        let lane_of = |role: usize| self.lane(unit.places[role]);
        let of_chunk = |chunk: usize, lane: usize| {
            level.holders(chunk, chunks).any(|holder| lane_of(holder) == Some(lane))
        };
        let is_barred = |lane: usize| match (level, level.chunk(role, chunks)) {
            (Level::Mirrored { .. }, Some(chunk)) => of_chunk(chunk, lane),
            _ => roles.clone().any(|other| other != role && lane_of(other) == Some(lane)),
        };
        let rank = |lane: usize| {
            let uses = roles.clone().filter(|other| lane_of(*other) == Some(lane)).count();
            let sibling = level.chunk(role, chunks).is_some_and(|chunk| {
                level.parities() == 0 && (chunk ^ 1) < chunks && of_chunk(chunk ^ 1, lane)
            });
            // Room counts in steps, so that chance spreads units over drives.
            let room = self.free(lane) / 16;
            let chance = crate::index::spread(number << 16 ^ (role as u64) << 8 ^ lane as u64);
            (uses, sibling, std::cmp::Reverse(room), chance)
        };
        self.present()
            .filter(|lane| self.free(*lane) > 0 && !is_barred(*lane))
            .min_by_key(|lane| rank(*lane))
    }

    /// Whether all of a unit can be read from drives that are there.
    pub(super) fn has_all(&self, unit: &Unit, chunks: usize) -> bool {
        let Some(level) = unit.level else { return true };
        let is_there = |role: usize| {
            let place = unit.places[role];
            place == Place::ZERO || self.lane(place).is_some()
        };
        let lost = (0..level.roles(chunks)).filter(|role| !is_there(*role)).count();
        match level {
            Level::Striped { parities } => lost <= usize::from(parities),
            Level::Mirrored { .. } => {
                (0..chunks).all(|chunk| level.holders(chunk, chunks).any(is_there))
            }
        }
    }

    /// Roles that no drive of the array has, though one might.
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
        let sizes = Geometry {
            volume: 1,
            lanes,
            chunk_bytes: 4096,
            chunks: 4,
            copies_max: 3,
            units: 100,
            cells: 0,
            update: Update::InPlace,
        };
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
    fn roles_have_drives_of_their_own_and_drives_are_in_balance() {
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
                            // Two neighbouring chunks are a segment, on drives of its own.
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
    fn what_is_lost_is_known() {
        let geometry = geometry(6);
        let mut drives = Drives::new(&[1, 2, 3, 4, 5, 6], 100);
        let striped = laid(&mut drives, &geometry, 1, Level::RAID6);
        let mirrored = laid(&mut drives, &geometry, 2, Level::TRIPLE);
        drives.fail(0);
        assert!(drives.fault(3, true) && !drives.fault(3, true));
        for unit in [striped, mirrored] {
            assert!(drives.has_all(&unit, 4) && drives.lacks(&unit, 4));
        }
        assert!((0..32).all(|_| !drives.fault(5, false)) && drives.fault(5, false));
        assert!(!drives.has_all(&striped, 4));
        // A role whose drive is gone goes elsewhere, if there is an elsewhere.
        assert_eq!(drives.choose(&geometry, 1, &striped, Level::RAID6, 0).is_none(), {
            drives.lane(striped.places[0]).is_none()
        });
    }
}
