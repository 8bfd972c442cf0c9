//! Events on a volume, until the driver takes them.

use super::Array;
use super::Phase;
use super::level::{Roles, each};
use super::unit::{Place, Unit};
use crate::contract::VolumeEvent;

/// Maximum number of waiting events about units; further ones are only counted.
const EVENTS_MAX: usize = 1000;

/// Events that wait for the driver.
#[derive(Clone, Debug, Default)]
pub(super) struct Events {
    waiting: Vec<VolumeEvent>,
    omitted: u64,
}

impl Events {
    pub(super) fn push(&mut self, event: VolumeEvent) {
        let is_of_unit = matches!(
            event,
            VolumeEvent::Mended { .. } | VolumeEvent::Lost { .. } | VolumeEvent::Recovered { .. }
        );
        match is_of_unit && self.waiting.len() >= EVENTS_MAX {
            true => self.omitted += 1,
            false => self.waiting.push(event),
        }
    }

    pub(super) fn take(&mut self) -> Vec<VolumeEvent> {
        let mut events = std::mem::take(&mut self.waiting);
        if self.omitted > 0 {
            events.push(VolumeEvent::Omitted { count: std::mem::take(&mut self.omitted) });
        }
        events
    }
}

impl Array {
    /// Reports roles of a unit that could be read only in part, or not at all, and were rewritten.
    pub(super) fn tell_mended(&mut self, unit: u64, old: &Unit, new: &Unit, bad: Roles) {
        let is_mended = |role: &usize| {
            let (before, after): (Place, Place) = (old.places[*role], new.places[*role]);
            !before.is_same_cell(after) && after.cell().is_some()
        };
        for role in each(bad).filter(is_mended) {
            if let Some((drive, _)) = old.places[role].cell()
                && self.drives.lane_of(drive).is_some()
            {
                self.events.push(VolumeEvent::Mended { unit, drive });
            }
        }
    }

    /// Reports that a unit lost data, or that all of it can be read again.
    pub(super) fn tell_lost(&mut self, number: u64, old: &Unit, new: &Unit) {
        let chunks = self.chunks();
        let is_lost =
            |unit: &Unit| unit.level.is_some_and(|level| unit.lost.has_data(level, chunks));
        if !matches!(self.phase, Phase::Ready) {
            return;
        }
        match (is_lost(old), is_lost(new)) {
            (false, true) => self.events.push(VolumeEvent::Lost { unit: number }),
            (true, false) => self.events.push(VolumeEvent::Recovered { unit: number }),
            _ => {}
        }
    }
}
