//! The state of an array: its drives, its units by level, its losses.

use super::{Array, Blocks, DriveKind, LEVELS, Level, Phase, Place, Unit, all, blocks_of, each};
use crate::contract::{Gauge, GaugeOf, Lane};

/// The state of an array in figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Census {
    /// Whether the array is open, with its newest state.
    pub is_open: bool,
    /// The number of times that the array was opened.
    pub openings: u64,
    /// The sequence number of the last durable record.
    pub record: u64,
    /// The numbers of all drives of the volume, present or not.
    pub members: Vec<u8>,
    /// Drives by lane.
    pub drives: Vec<DriveState>,
    /// The level of units that are written for the first time.
    pub first_level: Level,
    /// The number of written units, by level.
    pub units: Vec<(Level, u64)>,
    /// The number of units on solid-state drives.
    pub ssd_units: u64,
    /// The number of units with roles that no drive has.
    pub degraded_units: u64,
    /// The number of units with bytes that can no longer be read.
    pub lost_units: u64,
    /// The number of bytes of the volume in ranges that can no longer be read.
    pub lost_bytes: u64,
    /// The first [`LOST_LISTED`] units with such ranges.
    pub lost: Vec<LostUnit>,
}

/// The maximum number of units that a census lists.
pub const LOST_LISTED: usize = 1000;

/// A unit with bytes that can no longer be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostUnit {
    /// The number of the unit.
    pub unit: u64,
    /// The ranges of lost bytes, in order. If chunks have lost blocks at different places, a range
    /// may include blocks that can be read.
    pub ranges: Vec<LostRange>,
    /// Numbers of the drives that are missing, or that lost their part of these bytes or of the
    /// data needed to reconstruct them.
    pub drives: Vec<u8>,
}

/// A range of bytes of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostRange {
    /// The first byte on the volume.
    pub offset: u64,
    /// The length in bytes.
    pub bytes: u64,
}

/// A drive of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveState {
    /// The number of the drive in the volume.
    pub number: u8,
    /// The kind of the drive.
    pub kind: DriveKind,
    /// Whether the drive is present and in use.
    pub is_present: bool,
    /// The number of cells that hold nothing.
    pub free_cells: u32,
    /// The number of the drive's I/Os that failed.
    pub faults: u32,
}

impl Array {
    /// Returns the figures that are available without examining all units.
    pub(super) fn gauged(&self) -> Vec<Gauge> {
        let gauge = |name, of, value: u64| Gauge { name, of, value: value as f64 };
        let levels = LEVELS.iter().zip(self.levels).filter(|(_, units)| *units > 0);
        let mut gauges: Vec<Gauge> = levels
            .map(|(level, units)| gauge("units", GaugeOf::Part(level.name()), units))
            .collect();
        let members = self.drives.members().into_iter().filter(|number| *number > 0).count();
        gauges.push(gauge("drives_present", GaugeOf::All, self.drives.present().count() as u64));
        gauges.push(gauge("drives_members", GaugeOf::All, members as u64));
        gauges.push(gauge("care_units_left", GaugeOf::All, self.care_left()));
        gauges.push(gauge("all_units", GaugeOf::All, self.table.units()));
        gauges.push(gauge("losses", GaugeOf::All, self.log.losses.count()));
        gauges.push(gauge("lost_units", GaugeOf::All, self.lost_units));
        gauges.push(gauge("lacks_room", GaugeOf::All, u64::from(self.full.is_full())));
        for (lane, drive) in self.drives.states().into_iter().enumerate() {
            let of = GaugeOf::Lane(lane as Lane);
            let free_bytes = u64::from(drive.free_cells) * u64::from(self.geometry.chunk_bytes);
            let is_member = drive.number > 0 && self.drives.members().contains(&drive.number);
            gauges.push(gauge("present", of, u64::from(drive.is_present)));
            gauges.push(gauge("member", of, u64::from(is_member)));
            gauges.push(gauge("free_bytes", of, free_bytes));
            gauges.push(gauge("faults", of, u64::from(drive.faults)));
        }
        gauges
    }

    /// Returns the losses of a unit, or `None` if all of it can be read.
    fn lost_of(&self, number: u64, unit: &Unit) -> Option<LostUnit> {
        let (level, chunks) = (unit.level?, self.chunks());
        let told = unit.told(chunks, |place| self.drives.lane(place).is_some());
        if told == all(chunks) && !unit.lost.has_data(level, chunks) {
            return None;
        }
        let block = u64::from(super::geometry::BLOCK);
        let count = blocks_of(&self.geometry);
        let mut ranges: Vec<LostRange> = Vec::new();
        for chunk in 0..chunks {
            let blocks = match told >> chunk & 1 == 1 {
                true => unit.lost.of_chunk(level, chunk, &self.geometry),
                false => Blocks::first(count),
            };
            for at in blocks.each() {
                let offset =
                    number * self.geometry.unit_bytes() + (chunk * count + at) as u64 * block;
                match ranges.last_mut().filter(|last| last.offset + last.bytes == offset) {
                    Some(last) => last.bytes += block,
                    None => ranges.push(LostRange { offset, bytes: block }),
                }
            }
        }
        let is_away = |role: &usize| {
            let place = unit.places[*role];
            place != Place::ZERO && self.drives.lane(place).is_none()
        };
        let away = (0..level.roles(chunks)).filter(is_away);
        let drive = |role: usize| {
            let place = unit.places[role];
            place.cell().map(|(drive, _)| drive).or(place.loser())
        };
        let mut drives: Vec<u8> = each(unit.lost.roles).chain(away).filter_map(drive).collect();
        drives.sort_unstable();
        drives.dedup();
        Some(LostUnit { unit: number, ranges, drives })
    }

    /// Examines all units and returns the state of the array.
    pub fn census(&self) -> Census {
        let chunks = self.chunks();
        let mut units: Vec<(Level, u64)> = LEVELS.iter().map(|level| (*level, 0)).collect();
        let (mut degraded_units, mut lost_units, mut lost_bytes) = (0, 0, 0);
        let mut lost = Vec::new();
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
            if let Some(unit) = self.lost_of(number, &unit) {
                lost_units += 1;
                lost_bytes += unit.ranges.iter().map(|range| range.bytes).sum::<u64>();
                if lost.len() < LOST_LISTED {
                    lost.push(unit);
                }
            }
        }
        units.retain(|(_, count)| *count > 0);
        Census {
            is_open: matches!(self.phase, Phase::Ready),
            openings: self.log.epoch,
            record: self.log.sequence,
            members: self.drives.members().into_iter().filter(|number| *number > 0).collect(),
            drives: self.drives.states(),
            first_level: self.first_level(),
            units,
            ssd_units: self.held[DriveKind::Ssd as usize],
            degraded_units,
            lost_units,
            lost_bytes,
            lost,
        }
    }
}
