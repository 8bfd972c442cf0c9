//! Cells for what is to be written.

use super::Array;
use super::level::{Level, Roles, each};
use super::unit::{Place, Unit};

impl Array {
    /// Gives the roles of a unit places to be written to: fresh ones, or where they have none. A role
    /// that no drive takes is lost. None, and nothing changes, where drives would take it but are full.
    pub(super) fn allot(
        &mut self,
        number: u64,
        unit: &mut Unit,
        level: Level,
        roles: Roles,
    ) -> Option<()> {
        let before = *unit;
        for role in each(roles) {
            let there = self.drives.lane(unit.places[role]).is_some();
            if there && !self.is_fresh() {
                continue;
            }
            let lane = self.drives.choose(&self.geometry, number, unit, level, role);
            let place = lane.and_then(|lane| self.drives.take(lane));
            if place.is_none() && self.is_full_for(unit, level, role) {
                for role in each(roles).filter(|role| unit.places[*role] != before.places[*role]) {
                    self.drives.give(unit.places[role]);
                }
                *unit = before;
                return None;
            }
            unit.places[role] = place.unwrap_or(Place::LOST);
        }
        Some(())
    }

    /// Whether there is a drive for a role, which then is full.
    fn is_full_for(&self, unit: &Unit, level: Level, role: usize) -> bool {
        let chunks = self.chunks();
        let others = || {
            (0..level.roles(chunks))
                .filter(|other| *other != role && level.parts(*other, role, chunks))
                .filter_map(|other| self.drives.lane(unit.places[other]))
        };
        self.drives.present().any(|lane| others().all(|other| other != lane))
    }

    /// Whether drives have room to spare for a level that takes more than the leanest.
    pub(super) fn has_spare(&self, level: Level) -> bool {
        let chunks = self.chunks();
        let spare = (self.geometry.cells / 64).max(16);
        level.roles(chunks) <= self.leanest.roles(chunks)
            || self.drives.present().all(|lane| self.drives.free(lane) > spare)
    }
}
