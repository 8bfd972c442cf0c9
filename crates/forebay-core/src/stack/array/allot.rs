//! Allocates cells for writes.

use super::{Array, DriveKind, Level, Place, Roles, Unit, each};

impl Array {
    /// Assigns cells to the roles of a unit: new cells, or cells for roles without one. A role that
    /// no drive accepts is lost. Returns `None` without any change if drives would accept the roles
    /// but are full.
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
            let forgoes = !there && self.forgoes(unit, level, role);
            let lane = self.drives.choose(&self.geometry, number, unit, level, role);
            let place = lane.filter(|_| !forgoes).and_then(|lane| self.drives.take(lane));
            if place.is_none() && !forgoes && self.may_be_on_any(unit, level, role) {
                for role in each(roles).filter(|role| unit.places[*role] != before.places[*role]) {
                    self.drives.give(unit.places[role]);
                }
                *unit = before;
                return None;
            }
            unit.places[role] = place.unwrap_or_else(|| self.lost(unit, level, role));
        }
        Some(())
    }

    /// Returns the place of a role that no drive can hold, which records the drive that lost the
    /// role: the drive that held it, or a missing drive.
    pub(super) fn lost(&self, unit: &Unit, level: Level, role: usize) -> Place {
        let place = unit.places[role].lost();
        let missing = || self.drives.missing(unit, level, role, self.chunks());
        place.loser().or_else(missing).map_or(place, Place::lost_by)
    }

    /// Returns whether a unit lacks a role that some drive could hold.
    pub(super) fn may_be_whole(&self, unit: &Unit) -> bool {
        let Some(level) = unit.level else { return false };
        let is_lost = |role: &usize| unit.places[*role].is_lost();
        let mut lost = (0..level.roles(self.chunks())).filter(is_lost);
        let may_be = |role| self.may_be_on_any(unit, level, role);
        lost.any(|role| may_be(role) && !self.forgoes(unit, level, role))
    }

    /// Assigns cells as `allot` does, and may also use the cells reserved for shrinking units.
    pub(super) fn allot_kept(
        &mut self,
        number: u64,
        unit: &mut Unit,
        level: Level,
        roles: Roles,
    ) -> Option<()> {
        let reserves = std::mem::take(&mut self.drives.reserves);
        let allotted = self.allot(number, unit, level, roles);
        self.drives.reserves = reserves;
        allotted
    }

    /// Returns whether any drive, full or not, may hold a role.
    fn may_be_on_any(&self, unit: &Unit, level: Level, role: usize) -> bool {
        let is_barred = |lane| self.drives.is_barred(lane, unit, level, role, self.chunks());
        self.drives.of(unit.kind).any(|lane| !is_barred(lane))
    }

    /// Returns whether there is space for a level on drives of a kind. Levels that take more space
    /// than the leanest level also need spare space.
    pub(super) fn has_spare(&self, level: Level, kind: DriveKind) -> bool {
        !self.is_fat(level) || self.is_roomy(level, kind)
    }

    /// Returns whether a unit of this level fits on drives of a kind that all have space to spare.
    pub(super) fn is_roomy(&self, level: Level, kind: DriveKind) -> bool {
        let spare = self.spare();
        self.drives.of(kind).count() >= level.width(self.chunks())
            && self.drives.of(kind).all(|lane| self.drives.free(lane) > spare)
    }

    /// Returns the kind of drives for a new unit: the preferred kind, or the other kind if the
    /// preferred one has no space to spare. If neither kind has, returns the preferred kind, unless
    /// only the other kind holds fewer units than promised.
    pub(super) fn first_kind(&self, wanted: DriveKind, level: Level) -> DriveKind {
        let of_two = self.drives.ssds() != 0;
        if !of_two || self.is_roomy(level, wanted) {
            return wanted;
        }
        if self.is_roomy(level, wanted.other()) {
            return wanted.other();
        }
        let room = |kind: DriveKind| self.promised(kind) as i64 - self.held[kind as usize] as i64;
        if room(wanted) > 0 || room(wanted.other()) <= 0 { wanted } else { wanted.other() }
    }
}

#[cfg(test)]
mod tests;
