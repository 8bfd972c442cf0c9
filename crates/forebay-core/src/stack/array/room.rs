//! Keeps space for everything that is promised.
//!
//! A volume promises the capacity that fits with all units at the leanest level. A *fat* unit has a
//! level that takes more space, and uses cells that the promised units do not need yet. Three
//! limits on the free cells of a drive keep the promise:
//!
//! - A unit gets fatter only while every drive of its kind has more than [`Array::spare`] free
//!   cells.
//! - Fat units shrink in the background once a drive has fewer than three quarters of that.
//! - Half of it is reserved: while there are fat units, only shrinking units and writes to existing
//!   chunks may use it. Both free at least as many cells as they use, once a record is written.
//!
//! So a write may have to wait for space, but does not fail. The second limit counts the cells that
//! the newest states name: cells that only wait for a record are as good as free.
//!
//! While a drive is missing, roles that the level can do without are restored, or written at all,
//! only if the rest of the promised capacity still fits without that drive.

use std::collections::BTreeSet;

use super::{Array, DriveKind, KINDS, Level, Place, Unit};

/// The minimum number of spare cells of a drive.
const SPARE_MIN: u32 = 16;
/// The maximum number of reserved cells of a drive.
const RESERVE_MAX: u32 = 64;

/// The fat units, and the cells in use.
#[derive(Clone, Debug, Default)]
pub(super) struct Room {
    /// The fat units of each kind of drive.
    pub(super) fat: [BTreeSet<u64>; KINDS.len()],
    /// The fat unit of each kind to examine next.
    pub(super) next: [u64; KINDS.len()],
    /// Units that are being shrunk.
    pub(super) shrinking: BTreeSet<u64>,
    /// Units that cannot shrink before the next round ends.
    pub(super) failed: BTreeSet<u64>,
    /// Units that did not shrink in the background. Until the next round ends, they shrink only if
    /// no other operation frees space.
    pub(super) refused: BTreeSet<u64>,
    /// Units that must shrink even without the roles of missing drives, because space cannot be
    /// freed otherwise.
    pub(super) forced: BTreeSet<u64>,
    /// By lane: the number of cells that the newest states name.
    named: Vec<u32>,
    /// The number of roles that no present drive has.
    pub(super) lacking: u64,
    /// By kind: the number of cells that written units need at the leanest level.
    lean: [u64; KINDS.len()],
    /// By kind: the number of cells that written units use in addition.
    beyond: [u64; KINDS.len()],
    /// The unit at which the search for a role to move continues.
    pub(super) moving: u64,
    /// The number of units examined for that since the last round.
    pub(super) looked: u64,
    /// The number of running reads, which free no cells.
    pub(super) reads: usize,
    /// Whether writes omit roles that the level can do without.
    pub(super) forgoes: bool,
    /// The number of units that gave up copies to shrink.
    #[cfg(test)]
    pub(super) sheds: u64,
    /// How often no running job would have freed space.
    #[cfg(test)]
    pub(super) blocked: u64,
}

impl Array {
    /// Returns the number of cells of each drive that units fatter than the leanest level leave
    /// free.
    pub(super) fn spare(&self) -> u32 {
        (self.geometry.cells / 64).max(SPARE_MIN)
    }

    /// Returns the number of reserved cells of each drive.
    fn reserve(&self) -> u32 {
        (self.spare() / 2).min(RESERVE_MAX)
    }

    /// Returns whether a level takes more space than the leanest one.
    pub(super) fn is_fat(&self, level: Level) -> bool {
        level.roles(self.chunks()) > self.leanest.roles(self.chunks())
    }

    /// Returns whether fat units on drives of a kind must shrink.
    pub(super) fn is_tight(&self, kind: DriveKind) -> bool {
        let low = self.spare() / 4 * 3;
        let named = |lane: usize| self.room.named.get(lane).copied().unwrap_or(0);
        let is_low = |lane: usize| self.drives.cells(lane) < named(lane) + low;
        // If too few drives are present, fat units keep their copies: those on a missing drive
        // count again when it returns, whereas a parity that was never written does not.
        let has_fat = !self.room.fat[kind as usize].is_empty();
        has_fat && self.is_wide(kind) && self.drives.of(kind).any(is_low)
    }

    /// Returns whether enough drives of a kind are present for the leanest level.
    pub(super) fn is_wide(&self, kind: DriveKind) -> bool {
        self.drives.of(kind).count() >= self.leanest.width(self.chunks())
    }

    /// Counts a unit whose newest state has changed.
    pub(super) fn hold(&mut self, number: u64, old: &Unit, new: &Unit) {
        self.tell_lost(number, old, new);
        self.room.named.resize(self.drives.lanes(), 0);
        self.count(number, old, false);
        self.count(number, new, true);
        let reserve = self.reserve();
        for kind in KINDS {
            let has_fat = !self.room.fat[kind as usize].is_empty();
            self.drives.reserves[kind as usize] = if has_fat { reserve } else { 0 };
        }
    }

    /// Adds a state of a unit to the counts, or removes it from them.
    fn count(&mut self, number: u64, unit: &Unit, counts: bool) {
        let Some(level) = unit.level else { return };
        let kind = unit.kind as usize;
        let change = |value: &mut u64, by: u64| match counts {
            true => *value += by,
            false => *value = value.saturating_sub(by),
        };
        let (lean, beyond) = self.cells_of(unit, level);
        let lost = u64::from(unit.lost.has_data(level, self.chunks()));
        change(&mut self.held[kind], 1);
        change(&mut self.levels[level.place()], 1);
        change(&mut self.lost_units, lost);
        change(&mut self.room.lean[kind], lean);
        change(&mut self.room.beyond[kind], beyond);
        match counts && self.is_fat(level) {
            true => self.room.fat[kind].insert(number),
            false => self.room.fat[kind].remove(&number),
        };
        let roles = level.roles(self.chunks());
        let is_lacking =
            |place: &&Place| **place != Place::ZERO && self.drives.lane(**place).is_none();
        let lacking = unit.places[..roles].iter().filter(is_lacking).count() as u64;
        change(&mut self.room.lacking, lacking);
        for lane in unit.places.into_iter().filter_map(|place| self.drives.lane(place)) {
            let named = &mut self.room.named[lane];
            *named = if counts { *named + 1 } else { named.saturating_sub(1) };
        }
    }

    /// Returns the number of cells that a unit needs at the leanest level, and the number of cells
    /// that it uses in addition.
    fn cells_of(&self, unit: &Unit, level: Level) -> (u64, u64) {
        let chunks = self.chunks();
        let is_held = |role: &usize| unit.places[*role] != Place::ZERO;
        let taken = (0..level.roles(chunks)).filter(is_held).count() as u64;
        if !self.is_fat(level) {
            return (taken, 0);
        }
        let is_written = |chunk: &usize| level.holders(*chunk, chunks).any(|role| is_held(&role));
        let written = (0..chunks).filter(is_written).count();
        let lean = match (self.leanest, written) {
            (_, 0) => 0,
            (Level::Striped { parities }, _) => written + usize::from(parities),
            (Level::Mirrored { copies }, _) => written * usize::from(copies),
        } as u64;
        (lean, taken.saturating_sub(lean))
    }

    /// Returns whether a role without a place should stay lost for now, because the drive that it
    /// belongs on is missing, the level can do without the role, and the promised capacity needs
    /// the remaining cells.
    pub(super) fn forgoes(&self, unit: &Unit, level: Level, role: usize) -> bool {
        let (chunks, missing) = (self.chunks(), self.drives.missing_of(unit.kind));
        if missing == 0 {
            return false;
        }
        let is_lost = unit.places[role] != Place::ZERO;
        // As in md, each chunk of an array that writes in place belongs on one drive, and waits for
        // that drive's replacement.
        if is_lost && !self.is_fresh() {
            return true;
        }
        if missing > level.tolerates() {
            return false;
        }
        let is_last = match level {
            Level::Striped { .. } => role + missing >= level.roles(chunks),
            Level::Mirrored { copies } => role / chunks + missing >= usize::from(copies),
        };
        let may = (is_lost || is_last) && self.lost(unit, level, role).loser().is_some();
        may && (self.room.forgoes || !self.has_room_beside(unit.kind, missing))
    }

    /// Returns whether a unit may have all its roles on the present drives of a kind, and the rest
    /// of the promised capacity still fits.
    fn has_room_beside(&self, kind: DriveKind, missing: usize) -> bool {
        let (chunks, at) = (self.chunks(), kind as usize);
        let roles = self.leanest.roles(chunks) as u64;
        let promised = match self.drives.ssds() {
            0 => self.geometry.units,
            _ => self.promised(kind),
        };
        let owed = (promised * roles).saturating_sub(self.room.lean[at]);
        let width = self.leanest.width(chunks) as u64;
        // Each unit lacks one role for each missing drive.
        let least = owed * width.saturating_sub(missing as u64) / width.max(1);
        let free: u64 = self.drives.of(kind).map(|lane| u64::from(self.drives.free(lane))).sum();
        let kept = u64::from(self.reserve()) * self.drives.of(kind).count() as u64;
        free + self.room.beyond[at] >= least + kept + roles
    }

    /// Returns the number of units that fit on the drives of a kind at the leanest level, including
    /// missing drives.
    pub(super) fn promised(&self, kind: DriveKind) -> u64 {
        self.drives.units_with_missing(kind, self.leanest, self.chunks(), self.geometry.cells)
    }
}

impl Array {
    /// Returns the number of cells on a lane that the newest states name.
    pub(super) fn named(&self, lane: usize) -> u32 {
        self.room.named.get(lane).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
