//! Tracks what drives may have lost, and what depends on it.
//!
//! A drive that fails a flush may have lost everything written to it since the last flush; a drive
//! that disappears loses all of its data. If other cells can reconstruct such a cell, the next
//! state no longer names the cell, and its data is restored. Otherwise acknowledged writes are
//! lost, which is reported ([`super::losses`]). In that case the state still names the cell,
//! because the drive may have it after all, and reads are verified with checksums. But the cell is
//! *unsure*: nothing that happens later may depend on it, or it would hide a second loss.

use std::collections::{BTreeMap, BTreeSet};

use super::{Array, Doing, Job, Level, Place, Roles, Task, Unit, all};
use crate::contract::Fault;

/// Cells that units refer to although a drive may have lost their data.
#[derive(Clone, Debug, Default)]
pub(super) struct Unsure {
    cells: BTreeSet<(u8, u32)>,
}

impl Unsure {
    pub(super) fn has(&self, place: Place) -> bool {
        place.cell().is_some_and(|cell| self.cells.contains(&cell))
    }

    /// Removes a cell that no unit refers to any longer.
    pub(super) fn forget(&mut self, place: Place) {
        if let Some(cell) = place.cell() {
            self.cells.remove(&cell);
        }
    }
}

/// A drive that may have lost data.
struct Suspect {
    number: u8,
    /// Whether the drive has disappeared, with all its data.
    is_gone: bool,
}

impl Suspect {
    fn has(&self, place: Place) -> bool {
        place.cell().is_some_and(|(drive, _)| drive == self.number)
    }
}

impl Array {
    /// Returns whether the data of a place is certainly on a present drive.
    pub(super) fn is_sure(&self, place: Place) -> bool {
        self.drives.lane(place).is_some() && !self.unsure.has(place)
    }

    /// Returns whether roles of a unit are lost, or may be.
    pub(super) fn is_needy(&self, unit: &Unit) -> bool {
        self.drives.lacks(unit, self.chunks())
            || unit.places.iter().any(|place| self.unsure.has(*place))
    }

    /// Returns whether a change may take effect: all data that was certainly readable before still
    /// is, and so is the data that the change wrote. (Lost roles and unsure roles together may be
    /// more than the level tolerates.)
    pub(super) fn is_kept(&self, job: &Job, new: &Unit) -> bool {
        let (now, chunks) = (self.unit(job.number), self.chunks());
        let sure = |unit: &Unit| unit.told(chunks, |place| self.is_sure(place));
        let written = if job.doing == Doing::Write { job.touched } else { 0 };
        // Blocks that a job found to be lost were lost before.
        let lost = now.lost.roles | new.lost.roles;
        let beside =
            |unit: &Unit, lost| unit.told_beside(lost, chunks, |place| self.is_sure(place));
        let is_kept_beside = |unit: &Unit| beside(&now, lost) & !beside(unit, unit.lost.roles) == 0;
        (sure(&now) | written) & !sure(new) == 0 && (lost == 0 || is_kept_beside(new))
    }

    /// Handles the possible loss of data on a drive: everything written to it since the last round,
    /// or all of its data if it is gone. Upcoming states no longer depend on this data. If it
    /// cannot be reconstructed from the other drives, the loss is reported to clients that wait for
    /// the data to become durable.
    pub(super) fn suspect(&mut self, lane: usize, fault: Fault) {
        let is_gone = self.drives.present().all(|it| it != lane);
        let suspect = Suspect { number: self.drives.number(lane), is_gone };
        let chunks = self.chunks();
        let mut is_lost = false;
        // Maps (unit, place) to whether any state of the unit needs this place.
        let mut doubtful = BTreeMap::new();
        for (at, unit) in self.round.iter().chain(&self.changed) {
            let Some(level) = unit.level else { continue };
            let durable = self.table.get(*at);
            let may_be_lost = |place| suspect.has(place) && !durable.names(place);
            let is_gone = |place| suspect.is_gone && suspect.has(place);
            let was_there = |place| self.drives.lane(place).is_some() || suspect.has(place);
            let was_sure = |place| was_there(place) && !self.unsure.has(place);
            let is_sure = |place| was_sure(place) && !may_be_lost(place) && !is_gone(place);
            let lost = unit.lost.roles;
            let beside = unit.told_beside(lost, chunks, is_sure);
            let mut told = unit.told(chunks, is_sure);
            is_lost |= unit.told(chunks, was_sure) & !told != 0;
            is_lost |= unit.told_beside(lost, chunks, was_sure) & !beside != 0;
            told &= beside;
            for (role, place) in unit.places.into_iter().enumerate() {
                if may_be_lost(place) {
                    let needed = doubtful.entry((*at, place)).or_insert(false);
                    *needed |= is_needed(level, role, chunks, told);
                }
            }
        }
        if is_lost {
            self.log.losses.add(fault);
        }
        for ((at, place), is_needed) in &doubtful {
            self.doubt(*at, *place, *is_needed);
        }
        let units: BTreeSet<u64> = doubtful.into_keys().map(|(at, _)| at).collect();
        for at in units {
            self.locks.ask(at, Task::Repair { reads_all: false });
            self.ready.push(at);
            self.settle_doubts(at);
        }
    }

    /// Marks a place that may be lost as lost in the upcoming states of a unit, unless one of them
    /// needs it.
    fn doubt(&mut self, at: u64, place: Place, is_needed: bool) {
        if is_needed {
            self.unsure.cells.extend(place.cell());
            return;
        }
        let before = self.unit(at);
        for unit in [&mut self.round, &mut self.changed].into_iter().flat_map(|it| it.get_mut(&at))
        {
            let named = unit.places.iter_mut().filter(|own| **own == place);
            named.for_each(|own| *own = place.lost());
        }
        let after = self.unit(at);
        self.hold(at, &before, &after);
        self.doubted.add(at, place);
    }
}

/// Returns whether a role that may be lost could help to reconstruct a chunk. `told` are the chunks
/// that can be reconstructed without it.
fn is_needed(level: Level, role: usize, chunks: usize, told: Roles) -> bool {
    match level {
        Level::Striped { .. } => told != all(chunks),
        Level::Mirrored { .. } => told >> (role % chunks) & 1 == 0,
    }
}

#[cfg(test)]
mod tests;
