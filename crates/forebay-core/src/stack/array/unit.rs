//! The positions of a unit's chunks: a level, and a place for each role.

use super::{DriveKind, Level, Lost, ROLES_MAX, Roles, all, each};

/// The place of a role's data: a cell of a drive, or nowhere, because the role consists of zeros or
/// is lost.
///
/// Encoded as in the table: the drive in the bits from 56 on, the cell in those from 24 on, and the
/// check below. A lost place has 255 instead of the drive, and the lowest byte is the drive that
/// lost it, or 0 if that is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(pub(super) u64);

/// The highest possible number of a drive.
pub(super) const DRIVE_MAX: u8 = 254;

impl Place {
    /// A role that was never written: zeros, without a cell.
    pub(super) const ZERO: Place = Place(0);
    /// A role that is not on any drive.
    pub(super) const LOST: Place = Place(255 << 56);

    /// Returns the place as lost, with the drive that lost it.
    pub(super) fn lost(self) -> Place {
        match self.cell() {
            Some((drive, _)) => Place::lost_by(drive),
            None if self.is_lost() => self,
            None => Place::LOST,
        }
    }

    pub(super) fn lost_by(drive: u8) -> Place {
        Place(Place::LOST.0 | u64::from(drive))
    }

    /// Returns the drive that lost the role, if that is known.
    pub(super) fn loser(self) -> Option<u8> {
        Some(self.0 as u8).filter(|drive| self.is_lost() && *drive > 0)
    }

    /// Returns the place of a cell of a drive (from 1), without a check.
    pub(super) fn at(drive: u8, cell: u32) -> Place {
        Place(u64::from(drive) << 56 | u64::from(cell) << 24)
    }

    /// Returns the place with the low 24 bits of its trailer's checksum.
    pub(super) fn checked(self, check: u32) -> Place {
        Place(self.0 >> 24 << 24 | u64::from(check & 0xFF_FFFF))
    }

    /// Returns the drive and the cell, if the place has a cell.
    pub(super) fn cell(self) -> Option<(u8, u32)> {
        let drive = (self.0 >> 56) as u8;
        (1..=DRIVE_MAX).contains(&drive).then_some((drive, (self.0 >> 24) as u32))
    }

    pub(super) fn check(self) -> u32 {
        self.0 as u32 & 0xFF_FFFF
    }

    pub(super) fn is_lost(self) -> bool {
        self.0 >> 56 == 255
    }

    /// Returns whether both places are the same cell.
    pub(super) fn is_same_cell(self, other: Place) -> bool {
        self.cell().is_some() && self.cell() == other.cell()
    }
}

/// A state of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// `None` if the unit was never written.
    pub(super) level: Option<Level>,
    /// The kind of the drives that the unit is on.
    pub(super) kind: DriveKind,
    pub(super) places: [Place; ROLES_MAX],
    /// The blocks that can no longer be reconstructed.
    pub(super) lost: Lost,
}

impl Unit {
    pub(super) const EMPTY: Unit = Unit {
        level: None,
        kind: DriveKind::Hdd,
        places: [Place::ZERO; ROLES_MAX],
        lost: Lost::NONE,
    };

    /// Returns whether the unit names this cell.
    pub(super) fn names(&self, place: Place) -> bool {
        self.places.iter().any(|own| own.is_same_cell(place))
    }

    /// Returns the data chunks that can be reconstructed from zeros and the places for which
    /// `holds` is true.
    pub(super) fn told(&self, chunks: usize, holds: impl Fn(Place) -> bool) -> Roles {
        let Some(level) = self.level else { return all(chunks) };
        let has = |role: &usize| self.places[*role] == Place::ZERO || holds(self.places[*role]);
        let there = (0..level.roles(chunks)).filter(has).fold(0, |roles, role| roles | 1 << role);
        level.told(there, chunks)
    }

    /// Returns the same for the positions of lost blocks, where the roles in `lost` cannot be used.
    pub(super) fn told_beside(
        &self,
        lost: Roles,
        chunks: usize,
        holds: impl Fn(Place) -> bool,
    ) -> Roles {
        let mut beside = *self;
        for role in each(lost) {
            beside.places[role] = Place::LOST;
        }
        beside.told(chunks, |place| !place.is_lost() && holds(place))
    }

    /// Returns the number of words that the unit needs in the table; all further words are 0.
    pub(super) fn words(&self) -> usize {
        let last = self.places.iter().rposition(|place| *place != Place::ZERO);
        last.map_or(1, |role| role + 2)
    }

    /// Writes the unit as it is stored in the table.
    pub(super) fn put(&self, words: &mut [u64]) {
        if let Some((first, places)) = words.split_first_mut() {
            let kind = u64::from(self.kind == DriveKind::Ssd) << 8;
            let lost = self.lost.word();
            *first = self.level.map_or(0, |level| u64::from(level.code()) | kind | lost);
            places.iter_mut().zip(self.places).for_each(|(word, place)| *word = place.0);
        }
    }

    pub(super) fn get(words: &[u64]) -> Unit {
        let mut unit = Unit::EMPTY;
        if let Some((&first, places)) = words.split_first() {
            unit.level = Level::of_code(first as u8);
            unit.kind = if first >> 8 & 1 == 1 { DriveKind::Ssd } else { DriveKind::Hdd };
            unit.lost = Lost::of_word(first);
            unit.places.iter_mut().zip(places).for_each(|(place, word)| *place = Place(*word));
        }
        unit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_units_are_decoded_as_they_were_encoded() {
        let place = Place::at(254, u32::MAX).checked(0x1234_5678);
        assert_eq!((place.cell(), place.check()), (Some((254, u32::MAX)), 0x34_5678));
        assert!(place.is_same_cell(place.checked(7)) && place != place.checked(7));
        assert_eq!((Place::ZERO.cell(), Place::LOST.cell()), (None, None));
        assert!(Place::LOST.is_lost() && !Place::ZERO.is_lost() && !place.is_lost());
        assert!(!Place::ZERO.is_same_cell(Place::ZERO));
        let lost = [place.lost(), place.lost().lost(), Place::LOST.lost(), Place::ZERO.lost()];
        assert!(lost.iter().all(|it| it.is_lost() && it.cell().is_none()));
        assert_eq!(lost.map(Place::loser), [Some(254), Some(254), None, None]);
        assert_eq!(Place::at(1, 7).checked(5).loser(), None);
        let mut unit = Unit { level: Some(Level::RAID6), kind: DriveKind::Ssd, ..Unit::EMPTY };
        unit.places[5] = place;
        unit.lost = Lost::of_word(0x8000_0001_0007_0000);
        let mut words = [9; 13];
        unit.put(&mut words);
        assert_eq!(Unit::get(&words), unit);
        assert!(unit.names(place) && !unit.names(Place::at(254, 3)));
        Unit::EMPTY.put(&mut words);
        assert_eq!((words, Unit::get(&words)), ([0; 13], Unit::EMPTY));
    }
}
