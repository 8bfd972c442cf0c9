//! The positions of all sectors of a formatted disk, and when a continuously streaming head would
//! reach them.
//!
//! As in the plain geometry, the stream time of a sector is how long after the first sector a head
//! that reads continuously would begin it; the angle of a sector is its stream time modulo one
//! revolution. In addition, each zone has its own skews, initial angle, reserved sectors, spares
//! and defects, and there may be empty cylinders between zones.

use crate::contract::SpecError;
use crate::device::hdd::geometry::{Divisor, Place, check, step};
use crate::device::hdd::parts::Parts;
use crate::device::hdd::{HddSpec, Zone};

use super::search::search;
use super::sparing::{Defects, Extent, Spared, Sparing};

/// The number of fractional bits of a sector's time.
const PLACES: u32 = 20;

/// The order in which the heads of a cylinder are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeadOrder {
    /// From the first to the last head on every cylinder.
    #[default]
    Forward,
    /// Forward and backward in turn, restarting forward in each zone.
    SerpentineByZone,
    /// Forward and backward in turn over the whole disk: backward on odd cylinders.
    Serpentine,
}

/// The format of a zone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ZoneFormat {
    /// The angle at which the first physical sector begins, in sectors of the zone.
    pub first_angle_sectors: f64,
    /// The number of sectors at the start that hold no data.
    pub reserved_sectors: u64,
    /// The rotational offset of a track relative to the previous one, in sectors of the zone.
    pub track_skew_sectors: f64,
    /// The rotational offset of the first track of a cylinder relative to the last track of the
    /// previous one, in sectors of the zone.
    pub cylinder_skew_sectors: f64,
    /// The spares and defects.
    pub defects: Defects,
}

/// The format of a disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Format {
    /// The order in which the heads are used.
    pub head_order: HeadOrder,
    /// How defects are handled.
    pub sparing: Sparing,
    /// The format of each zone.
    pub zones: Vec<ZoneFormat>,
}

#[derive(Clone, Debug)]
struct ZoneRow {
    first_sector: u64,
    end_sector: u64,
    first_cylinder: u32,
    reserved: u64,
    track: Divisor,
    track_sectors: u64,
    sector_time: u64,
    begins: u64,
    track_step: u64,
    cylinder_step: u64,
    spared: Option<Spared>,
}

/// A formatted surface, whose parameters have been checked.
#[derive(Clone, Debug)]
pub(super) struct Surface {
    rows: Vec<ZoneRow>,
    parts: Parts,
    heads: Divisor,
    head_count: u32,
    order: HeadOrder,
    pub(super) revolution: u64,
    pub(super) sectors: u64,
    pub(super) cylinders: u32,
}

impl Surface {
    pub(super) fn new(disk: &HddSpec, format: Option<&Format>) -> Result<Surface, SpecError> {
        check(&disk.zones, disk.heads, format.is_some())?;
        if let Some(format) = format
            && format.zones.len() != disk.zones.len()
        {
            let (got, expected) = (format.zones.len(), disk.zones.len());
            return Err(SpecError(format!("zones: got formats of {got}, expected {expected}")));
        }
        let heads = u64::from(disk.heads);
        let mut surface = Surface {
            rows: Vec::with_capacity(disk.zones.len()),
            parts: Parts::default(),
            heads: Divisor::new(heads),
            head_count: disk.heads,
            order: format.map_or(HeadOrder::Forward, |format| format.head_order),
            revolution: disk.revolution.0,
            sectors: 0,
            cylinders: disk.zones.last().map_or(0, |zone| zone.last_cylinder + 1),
        };
        let mut begins = 0;
        for (index, zone) in disk.zones.iter().enumerate() {
            let row = match format {
                None => surface.plain(disk, zone, begins),
                Some(format) => surface
                    .formatted(disk, zone, format, index, begins)
                    .map_err(|error| SpecError(format!("zone {index}: {error}")))?,
            };
            surface.sectors = row.end_sector;
            let cylinders = u64::from(zone.last_cylinder - zone.first_cylinder) + 1;
            begins = row.begins + cylinders * row.cylinder_step;
            if format.is_some() {
                // The head need not pass over the spares at the zone's end.
                let last = surface.place_in(&row, surface.sectors - 1).ends;
                begins = begins.min(last + disk.cylinder_switch.0);
            }
            surface.rows.push(row);
        }
        let ends: Vec<u64> = surface.rows.iter().map(|row| row.end_sector).collect();
        surface.parts = Parts::new(&ends);
        Ok(surface)
    }

    /// Returns a zone without spares. Its skews are either given as times, or just large enough to
    /// hide the switches.
    fn plain(&self, disk: &HddSpec, zone: &Zone, begins: u64) -> ZoneRow {
        let (head, cylinder) = (disk.head_switch.0, disk.cylinder_switch.0);
        let track_skew = disk.track_skew.map_or(head, |skew| skew.0);
        let cylinder_skew = disk.cylinder_skew.map_or(cylinder, |skew| skew.0);
        let track_step = self.revolution + step(head, track_skew, self.revolution);
        let heads = u64::from(disk.heads);
        let cylinders = u64::from(zone.last_cylinder - zone.first_cylinder) + 1;
        let track_sectors = u64::from(zone.sectors_per_track);
        ZoneRow {
            first_sector: self.sectors,
            end_sector: self.sectors + cylinders * heads * track_sectors,
            first_cylinder: zone.first_cylinder,
            reserved: 0,
            track: Divisor::new(track_sectors),
            track_sectors,
            sector_time: (self.revolution << PLACES).div_ceil(track_sectors),
            begins,
            track_step,
            cylinder_step: (heads - 1) * track_step
                + self.revolution
                + step(cylinder, cylinder_skew, self.revolution),
            spared: None,
        }
    }

    fn formatted(
        &self,
        disk: &HddSpec,
        zone: &Zone,
        format: &Format,
        index: usize,
        begins: u64,
    ) -> Result<ZoneRow, SpecError> {
        let mut row = self.plain(disk, zone, begins);
        let zone_format = &format.zones[index];
        let angle = |name: &str, sectors: f64| {
            let turns = sectors / row.track_sectors as f64;
            if (0.0..=64.0).contains(&turns) {
                Ok((turns * self.revolution as f64).round() as u64)
            } else {
                Err(SpecError(format!("{name}: got {sectors} sectors, expected 0 to 64 turns")))
            }
        };
        let track = angle("track skew", zone_format.track_skew_sectors)?;
        let cylinder = angle("cylinder skew", zone_format.cylinder_skew_sectors)?;
        let first = angle("first angle", zone_format.first_angle_sectors)?;
        let (turn, heads) = (self.revolution, u64::from(disk.heads));
        row.track_step = turn + step(disk.head_switch.0, track, turn);
        row.cylinder_step =
            (heads - 1) * row.track_step + turn + step(disk.cylinder_switch.0, cylinder, turn);
        let first = first % turn;
        row.begins = begins.saturating_sub(first).next_multiple_of(turn) + first;
        let cylinder = heads * row.track_sectors;
        let extent =
            Extent { track: row.track_sectors, cylinder, zone: row.end_sector - row.first_sector };
        let (spared, held) = Spared::new(format.sparing, &zone_format.defects, extent)?;
        if zone_format.reserved_sectors >= held {
            let got = zone_format.reserved_sectors;
            return Err(SpecError(format!(
                "reserved sectors: got {got}, expected fewer than the {held} sectors of the zone"
            )));
        }
        row.reserved = zone_format.reserved_sectors;
        row.end_sector = row.first_sector + held - row.reserved;
        row.spared = Some(spared);
        Ok(row)
    }

    #[inline]
    fn row(&self, sector: u64) -> &ZoneRow {
        let end = |index: usize| self.rows[index].end_sector;
        &self.rows[self.parts.zone(sector, self.rows.len(), end)]
    }

    /// Returns the position of `sector`, which must be on the disk.
    #[inline]
    pub(super) fn place(&self, sector: u64) -> Place {
        self.place_in(self.row(sector), sector)
    }

    #[inline]
    fn place_in(&self, row: &ZoneRow, sector: u64) -> Place {
        let mut physical = row.physical(sector);
        let (mut turned, mut empty) = (0, 0);
        if let Some(spared) = &row.spared {
            empty = spared.empty_tracks(row.index(sector), physical, row.track_sectors);
            physical = spared.remapped(physical);
            turned = spared.turned(physical);
        }
        let (track, index) = row.track.divide(physical);
        let (cylinder, order) = self.heads.divide(track);
        let begins = row.begins
            + cylinder * row.cylinder_step
            + order * row.track_step
            + ((turned * row.sector_time) >> PLACES);
        // A switch across tracks without data takes the rotation of their skews, but no whole
        // revolutions.
        let begins = begins.saturating_sub(empty * self.revolution);
        // The limits on cylinders and heads allow fewer than 2^28 tracks.
        let (cylinder, order) = (cylinder as u32, order as u32);
        let backward = match self.order {
            HeadOrder::Forward => false,
            HeadOrder::SerpentineByZone => cylinder % 2 == 1,
            HeadOrder::Serpentine => (row.first_cylinder + cylinder) % 2 == 1,
        };
        Place {
            cylinder: row.first_cylinder + cylinder,
            head: if backward { self.head_count - 1 - order } else { order },
            begins: begins + row.time(index),
            ends: begins + row.time(index + 1),
        }
    }

    /// Returns the first sector of `from..to` that a continuously reading head has not passed at
    /// the stream time `time`; `to` if it has passed all.
    pub(super) fn passed(&self, from: u64, to: u64, time: u64) -> u64 {
        let row = self.row(from);
        if from >= to || to > row.end_sector || row.spared.is_some() {
            return search(from, to, |sector| self.place(sector).ends <= time);
        }
        let track_of = |sector: u64| row.track.divide(row.physical(sector)).0;
        let begins = |track: u64| {
            let (cylinder, order) = self.heads.divide(track);
            row.begins + cylinder * row.cylinder_step + order * row.track_step
        };
        let whole = row.time(row.track_sectors);
        let track = search(track_of(from), track_of(to - 1), |track| begins(track) + whole <= time);
        // Sector `index` of the track has been passed at `here` if `row.time(index + 1)` is not
        // later.
        let here = time.saturating_add(1).saturating_sub(begins(track)).min(whole + 1);
        let passed = (here << PLACES).saturating_sub(1) / row.sector_time;
        let sector = row.first_sector + track * row.track_sectors + passed.min(row.track_sectors);
        sector.clamp(from, to)
    }

    /// Returns the first and the last sector with data on the track that contains `sector`.
    pub(super) fn track(&self, sector: u64) -> (u64, u64) {
        let row = self.row(sector);
        let physical = row.physical(sector);
        let index = row.track.divide(physical).1;
        let start = physical - index;
        let end = start + row.track_sectors;
        let first = sector.saturating_sub(index).max(row.first_sector);
        let last = (sector + (row.track_sectors - 1 - index)).min(row.end_sector - 1);
        if row.spared.is_none() {
            return (first, last);
        }
        let before = search(first, sector, |sector| row.physical(sector) < start);
        let after = search(sector, last + 1, |sector| row.physical(sector) < end);
        (before, after - 1)
    }

    /// Returns the sector after the last one of the zone that contains `sector`.
    pub(super) fn row_end(&self, sector: u64) -> u64 {
        self.row(sector).end_sector
    }

    /// Returns the time that `count` sectors starting at `first` take to pass the heads, without
    /// switches.
    pub(super) fn media_time(&self, first: u64, count: u64) -> u64 {
        let (mut sector, end) = (first, (first + count).min(self.sectors));
        let mut time = 0;
        while sector < end {
            let row = self.row(sector);
            let here = end.min(row.end_sector) - sector;
            time += ((u128::from(here) * u128::from(row.sector_time)) >> PLACES) as u64;
            sector += here;
        }
        time
    }
}

impl ZoneRow {
    #[inline]
    fn time(&self, index: u64) -> u64 {
        (index * self.sector_time) >> PLACES
    }

    /// Returns the index of `sector` in the zone's order of data.
    #[inline]
    fn index(&self, sector: u64) -> u64 {
        sector - self.first_sector + self.reserved
    }

    #[inline]
    fn physical(&self, sector: u64) -> u64 {
        let index = self.index(sector);
        self.spared.as_ref().map_or(index, |spared| spared.physical(index))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::spec;
    use super::*;
    use crate::contract::Nanos;

    #[test]
    fn the_head_position_agrees_with_a_search() {
        let zone = |first_cylinder, last_cylinder, sectors_per_track| Zone {
            first_cylinder,
            last_cylinder,
            sectors_per_track,
        };
        let disk = HddSpec {
            heads: 3,
            zones: vec![zone(0, 9, 7), zone(10, 29, 5)],
            revolution: Nanos(1_000),
            head_switch: Nanos(200),
            cylinder_switch: Nanos(300),
            ..spec().disk
        };
        let surface = Surface::new(&disk, None).unwrap();
        let end = surface.place(surface.sectors - 1).ends;
        for from in (0..surface.sectors).step_by(11) {
            for count in [0, 1, 6, 40, surface.sectors] {
                let to = (from + count).min(surface.sectors);
                for time in (0..end + 2_000).step_by(97).chain([u64::MAX]) {
                    let sought = search(from, to, |sector| surface.place(sector).ends <= time);
                    assert_eq!(surface.passed(from, to, time), sought, "{from}..{to} at {time}");
                }
            }
        }
    }
}
