//! What an array is like: its drives, its units by level, what is lost.

use super::kind::Kind;
use super::level::{LEVELS, Level};
use super::unit::Place;
use super::{Array, Phase};

/// What an array is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Census {
    /// Whether it is open: its newest state was found.
    pub is_open: bool,
    /// How often it was opened.
    pub openings: u64,
    /// The last durable record.
    pub record: u64,
    /// Numbers of all its drives, present or not.
    pub members: Vec<u8>,
    /// Drives by lane.
    pub drives: Vec<DriveState>,
    /// Units written, by level.
    pub units: Vec<(Level, u64)>,
    /// Units that are on solid-state drives.
    pub ssd_units: u64,
    /// Units with roles that no drive has.
    pub degraded_units: u64,
    /// Units that cannot be read any more.
    pub lost_units: u64,
}

/// A drive of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveState {
    /// Its number in the volume.
    pub number: u8,
    /// What it is.
    pub kind: Kind,
    /// Whether it is there and used.
    pub is_present: bool,
    /// Cells that hold nothing.
    pub free_cells: u32,
    /// I/Os of it that failed.
    pub faults: u32,
}

impl Array {
    /// Looks at all units.
    pub fn census(&self) -> Census {
        let chunks = self.chunks();
        let mut units: Vec<(Level, u64)> = LEVELS.iter().map(|level| (*level, 0)).collect();
        let (mut degraded_units, mut lost_units) = (0, 0);
        for number in 0..self.table.units() {
            let unit = self.unit(number);
            let Some(level) = unit.level else { continue };
            units
                .iter_mut()
                .filter(|(known, _)| *known == level)
                .for_each(|(_, count)| *count += 1);
            let lacks = (0..level.roles(chunks)).any(|role| {
                let place = unit.places[role];
                place != Place::ZERO && self.drives.lane(place).is_none()
            });
            degraded_units += u64::from(lacks);
            lost_units += u64::from(!self.drives.has_all(&unit, chunks));
        }
        units.retain(|(_, count)| *count > 0);
        Census {
            is_open: matches!(self.phase, Phase::Ready),
            openings: self.log.epoch,
            record: self.log.sequence,
            members: self.drives.members().into_iter().filter(|number| *number > 0).collect(),
            drives: self.drives.states(),
            units,
            ssd_units: self.held[Kind::Ssd as usize],
            degraded_units,
            lost_units,
        }
    }
}
