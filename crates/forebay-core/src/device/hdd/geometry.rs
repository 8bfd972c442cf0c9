//! The positions of all sectors, and when a continuously streaming head would reach them.
//!
//! Sectors are numbered over all heads of a cylinder, then the next cylinder inward; cylinders are
//! grouped in zones with equal sectors per track. Each sector has a *stream time*: how long after
//! the disk's very first sector a head that reads continuously would begin it, including switches.
//! This includes skew, so the angle of a sector is its stream time modulo one revolution, and the
//! transfer time of any run of sectors is a difference of two stream times.

use crate::contract::{Nanos, SpecError};
use crate::device::hdd::parts::Parts;

/// The size of a sector in bytes.
pub const SECTOR: u32 = 512;

/// Adjacent cylinders with the same number of sectors per track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// The first cylinder.
    pub first_cylinder: u32,
    /// The last cylinder, inclusive.
    pub last_cylinder: u32,
    /// The number of sectors on each track.
    pub sectors_per_track: u32,
}

/// The number of fractional bits of a sector's time.
const PLACES: u32 = 20;

const MAX_CYLINDERS: u32 = 1 << 22;
const MAX_HEADS: u32 = 64;
const MAX_TRACK: u32 = (1 << PLACES) - 1;
const MAX_ZONES: usize = 1 << 12;

/// The position of a sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::device) struct Place {
    pub(in crate::device) cylinder: u32,
    pub(in crate::device) head: u32,
    /// The stream time at which it begins, in ns.
    pub(in crate::device) begins: u64,
    /// The stream time at which it ends, in ns.
    pub(in crate::device) ends: u64,
}

/// Divides by a number that is known in advance, by multiplication.
#[derive(Clone, Copy, Debug)]
pub(in crate::device) struct Divisor {
    by: u64,
    /// 2^64 / `by`, rounded down, so that a quotient is never too large, and too small by at most
    /// 2.
    inverse: u64,
}

impl Divisor {
    pub(in crate::device) fn new(by: u64) -> Divisor {
        Divisor { by, inverse: u64::MAX / by }
    }

    /// Returns the quotient and the remainder.
    #[inline]
    pub(in crate::device) fn divide(self, number: u64) -> (u64, u64) {
        let mut quotient = ((u128::from(number) * u128::from(self.inverse)) >> 64) as u64;
        let mut rest = number - quotient * self.by;
        while rest >= self.by {
            quotient += 1;
            rest -= self.by;
        }
        (quotient, rest)
    }
}

#[derive(Clone, Debug)]
struct ZoneRow {
    first_sector: u64,
    end_sector: u64,
    first_cylinder: u32,
    sectors_per_track: Divisor,
    /// The time of a sector in ns, times 2^PLACES, rounded up so that a whole track takes a whole
    /// revolution.
    sector_time: u64,
    /// The stream time at which the zone's first sector begins.
    begins: u64,
}

impl ZoneRow {
    /// Returns the time from a track's start to its sector `index`. For the index after the last
    /// sector, this is a whole revolution, because fewer than 2^PLACES roundings up stay below a
    /// nanosecond.
    #[inline]
    fn time(&self, index: u64) -> u64 {
        (index * self.sector_time) >> PLACES
    }
}

/// The geometry of a disk, whose parameters have been checked.
#[derive(Clone, Debug)]
pub(super) struct Geometry {
    rows: Vec<ZoneRow>,
    parts: Parts,
    heads: Divisor,
    revolution: u64,
    /// The time from the first sector of a track to the first sector of the next track on the same
    /// cylinder.
    track_step: u64,
    /// The time from the first sector of a cylinder to the first sector of the next cylinder.
    cylinder_step: u64,
    pub(super) sectors: u64,
    pub(super) cylinders: u32,
}

/// Returns the time from the end of a track to the start of the next, in ns: the skew, plus a
/// revolution for each one that the switch exceeds the skew by.
pub(in crate::device) fn step(switch: u64, skew: u64, revolution: u64) -> u64 {
    skew + switch.saturating_sub(skew).div_ceil(revolution) * revolution
}

impl Geometry {
    /// Creates a geometry. `head_step` and `cylinder_step` are the times lost at the end of a track
    /// or a cylinder, from [`step`].
    pub(super) fn new(
        zones: &[Zone],
        heads: u32,
        revolution: u64,
        head_step: u64,
        cylinder_step: u64,
    ) -> Result<Geometry, SpecError> {
        check(zones, heads, false)?;
        let track_step = revolution + head_step;
        let cylinder_step = u64::from(heads - 1) * track_step + revolution + cylinder_step;
        let mut rows: Vec<ZoneRow> = Vec::with_capacity(zones.len());
        let (mut sector, mut begins) = (0, 0);
        for zone in zones {
            let cylinders = u64::from(zone.last_cylinder - zone.first_cylinder) + 1;
            let track = u64::from(zone.sectors_per_track);
            let end_sector = sector + cylinders * u64::from(heads) * track;
            rows.push(ZoneRow {
                first_sector: sector,
                end_sector,
                first_cylinder: zone.first_cylinder,
                sectors_per_track: Divisor::new(track),
                sector_time: (revolution << PLACES).div_ceil(track),
                begins,
            });
            sector = end_sector;
            begins += cylinders * cylinder_step;
        }
        let ends: Vec<u64> = rows.iter().map(|row| row.end_sector).collect();
        Ok(Geometry {
            rows,
            parts: Parts::new(&ends),
            heads: Divisor::new(u64::from(heads)),
            revolution,
            track_step,
            cylinder_step,
            sectors: sector,
            cylinders: zones[zones.len() - 1].last_cylinder + 1,
        })
    }

    /// Returns the position of `sector`, which must be on the disk.
    #[inline]
    pub(super) fn place(&self, sector: u64) -> Place {
        self.run(sector, 1).0
    }

    /// Returns the positions of the first and the last of `count` > 0 sectors starting at `first`.
    #[inline]
    pub(super) fn run(&self, first: u64, count: u64) -> (Place, Place) {
        let row = self.row(first);
        let (track, index) = row.sectors_per_track.divide(first - row.first_sector);
        let place = self.on_track(row, track, index);
        let last = index + count - 1;
        if last < row.sectors_per_track.by {
            let ends = place.begins - row.time(index) + row.time(last + 1);
            return (place, Place { ends, ..place });
        }
        let row = self.row(first + count - 1);
        let (track, index) = row.sectors_per_track.divide(first + count - 1 - row.first_sector);
        (place, self.on_track(row, track, index))
    }

    #[inline]
    fn on_track(&self, row: &ZoneRow, track: u64, index: u64) -> Place {
        let (cylinder, head) = self.heads.divide(track);
        let begins = row.begins + cylinder * self.cylinder_step + head * self.track_step;
        Place {
            // The limits on cylinders and heads allow fewer than 2^28 tracks.
            cylinder: row.first_cylinder + cylinder as u32,
            head: head as u32,
            begins: begins + row.time(index),
            ends: begins + row.time(index + 1),
        }
    }

    /// Returns the time that `count` sectors starting at `first` take to pass the heads, without
    /// switches.
    pub(super) fn media_time(&self, first: u64, count: u64) -> u64 {
        let (mut sector, end) = (first, (first + count).min(self.sectors));
        let mut time = 0;
        while sector < end {
            let row = self.row(sector);
            let here = end.min(row.end_sector) - sector;
            let (tracks, rest) = row.sectors_per_track.divide(here);
            time += tracks * self.revolution + row.time(rest);
            sector += here;
        }
        time
    }

    #[inline]
    fn row(&self, sector: u64) -> &ZoneRow {
        let end = |index: usize| self.rows[index].end_sector;
        &self.rows[self.parts.zone(sector, self.rows.len(), end)]
    }
}

/// Checks that zones follow each other. `gaps` between them are only allowed on a formatted disk.
pub(in crate::device) fn check(zones: &[Zone], heads: u32, gaps: bool) -> Result<(), SpecError> {
    if heads == 0 || heads > MAX_HEADS {
        return Err(SpecError(format!("heads: got {heads}, expected 1 to {MAX_HEADS}")));
    }
    if zones.is_empty() || zones.len() > MAX_ZONES {
        return Err(SpecError(format!("zones: got {}, expected 1 to {MAX_ZONES}", zones.len())));
    }
    let mut next = 0;
    for (index, zone) in zones.iter().enumerate() {
        let wrong = |got: String, expected: String| {
            Err(SpecError(format!("zone {index}: got {got}, expected {expected}")))
        };
        let (first, last) = (zone.first_cylinder, zone.last_cylinder);
        if first < next {
            return wrong(
                format!("first cylinder {first}, which overlaps the zone before it"),
                next.to_string(),
            );
        }
        if first > next && !(gaps && index > 0) {
            return wrong(format!("first cylinder {first}, which leaves a gap"), next.to_string());
        }
        if last < first || last >= MAX_CYLINDERS {
            return wrong(
                format!("last cylinder {last}"),
                format!("{first} to {}", MAX_CYLINDERS - 1),
            );
        }
        let track = zone.sectors_per_track;
        if track == 0 || track > MAX_TRACK {
            return wrong(format!("{track} sectors per track"), format!("1 to {MAX_TRACK}"));
        }
        next = last + 1;
    }
    Ok(())
}

/// The layout of a disk according to its data sheet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layout {
    /// The capacity in bytes. The zones have this capacity or a little more.
    pub capacity_bytes: u64,
    /// The number of data surfaces.
    pub heads: u32,
    /// The duration of a revolution.
    pub revolution: Nanos,
    /// The time lost at the end of each track except the last of a cylinder.
    pub head_switch: Nanos,
    /// The time lost at the end of each cylinder.
    pub cylinder_switch: Nanos,
    /// The sustained rate at the outer edge in bytes per second, including switches.
    pub outer_bytes_per_s: f64,
    /// The sustained rate at the inner edge in bytes per second, including switches.
    pub inner_bytes_per_s: f64,
    /// The number of zones.
    pub zones: u32,
}

/// Returns zones of equal width whose sustained rates change linearly from the outer to the inner
/// edge, with as many cylinders as the capacity requires.
pub fn zones(layout: &Layout) -> Result<Vec<Zone>, SpecError> {
    let count = layout.zones;
    if count == 0 || count > MAX_ZONES as u32 {
        return Err(SpecError(format!("zones: got {count}, expected 1 to {MAX_ZONES}")));
    }
    if layout.heads == 0 || layout.heads > MAX_HEADS {
        let heads = layout.heads;
        return Err(SpecError(format!("heads: got {heads}, expected 1 to {MAX_HEADS}")));
    }
    let heads = f64::from(layout.heads);
    let cylinder_s = heads * layout.revolution.as_secs_f64()
        + (heads - 1.0) * layout.head_switch.as_secs_f64()
        + layout.cylinder_switch.as_secs_f64();
    let mut tracks = Vec::new();
    for zone in 0..count {
        // The outermost and innermost zones have exactly the given rates.
        let share = if count == 1 { 0.0 } else { f64::from(zone) / f64::from(count - 1) };
        let rate = layout.outer_bytes_per_s
            + share * (layout.inner_bytes_per_s - layout.outer_bytes_per_s);
        let track = (rate * cylinder_s / heads / f64::from(SECTOR)).round();
        if !(1.0..=f64::from(MAX_TRACK)).contains(&track) {
            return Err(SpecError(format!(
                "zone {zone}: {rate} bytes per second correspond to {track} sectors per track, \
                 expected 1 to {MAX_TRACK}"
            )));
        }
        tracks.push(track as u32);
    }
    let row: u64 = tracks.iter().map(|&track| u64::from(track) * u64::from(layout.heads)).sum();
    let width = layout.capacity_bytes.div_ceil(u64::from(SECTOR)).div_ceil(row);
    if width == 0 || width.saturating_mul(u64::from(count)) > u64::from(MAX_CYLINDERS) {
        return Err(SpecError(format!(
            "capacity: got {} bytes, which need {} cylinders, expected 1 to {MAX_CYLINDERS}",
            layout.capacity_bytes,
            width.saturating_mul(u64::from(count))
        )));
    }
    let width = width as u32;
    let zone = |(index, sectors_per_track)| {
        let first_cylinder = index * width;
        Zone { first_cylinder, last_cylinder: first_cylinder + width - 1, sectors_per_track }
    };
    Ok((0..count).zip(tracks).map(zone).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONES: [Zone; 2] = [
        Zone { first_cylinder: 0, last_cylinder: 2, sectors_per_track: 10 },
        Zone { first_cylinder: 3, last_cylinder: 4, sectors_per_track: 6 },
    ];

    #[test]
    fn sectors_run_over_heads_then_cylinders_then_zones() {
        let disk = Geometry::new(&ZONES, 2, 60_000, 7_000, 11_000).unwrap();
        assert_eq!((disk.sectors, disk.cylinders), (84, 5));
        let at = |sector| {
            let place = disk.place(sector);
            (place.cylinder, place.head, place.begins, place.ends)
        };
        assert_eq!(at(0), (0, 0, 0, 6_000));
        assert_eq!(at(9), (0, 0, 54_000, 60_000));
        assert_eq!(at(10), (0, 1, 67_000, 73_000));
        assert_eq!(at(20), (1, 0, 138_000, 144_000));
        assert_eq!(at(59), (2, 1, 2 * 138_000 + 67_000 + 54_000, 2 * 138_000 + 67_000 + 60_000));
        assert_eq!(at(60), (3, 0, 3 * 138_000, 3 * 138_000 + 10_000));
        assert_eq!(at(83), (4, 1, 4 * 138_000 + 67_000 + 50_000, 4 * 138_000 + 67_000 + 60_000));
    }

    #[test]
    fn division_by_multiplication_is_exact() {
        let numbers = [0, 1, 9, 10, 8_333_332, 8_333_333, u64::MAX / 3, u64::MAX - 1, u64::MAX];
        for by in [1, 2, 3, 10, 2_047, 8_333_333, 1 << 30, u64::MAX] {
            for number in numbers {
                let divided = Divisor::new(by).divide(number);
                assert_eq!(divided, (number / by, number % by), "{number} / {by}");
            }
        }
    }

    #[test]
    fn media_time_leaves_switches_out() {
        let disk = Geometry::new(&ZONES, 2, 60_000, 7_000, 11_000).unwrap();
        assert_eq!(disk.media_time(5, 10), 60_000);
        assert_eq!(disk.media_time(58, 4), 12_000 + 20_000);
        assert_eq!(disk.media_time(83, 9), 10_000);
    }

    #[test]
    fn a_switch_slower_than_the_skew_costs_revolutions() {
        assert_eq!(step(1_000, 1_000, 60_000), 1_000);
        assert_eq!(step(900, 1_000, 60_000), 1_000);
        assert_eq!(step(1_001, 1_000, 60_000), 61_000);
        assert_eq!(step(61_001, 1_000, 60_000), 121_000);
    }

    #[test]
    fn faulty_zones_are_named() {
        let said = |zones: &[Zone]| Geometry::new(zones, 1, 60_000, 0, 0).unwrap_err().0;
        let zone = |first_cylinder, last_cylinder, sectors_per_track| Zone {
            first_cylinder,
            last_cylinder,
            sectors_per_track,
        };
        assert!(said(&[]).contains("got 0"));
        assert!(said(&[zone(0, 9, 5), zone(9, 12, 5)]).contains("zone 1: got first cylinder 9"));
        assert!(said(&[zone(0, 9, 5), zone(11, 12, 5)]).contains("leaves a gap, expected 10"));
        assert!(said(&[zone(0, 9, 0)]).contains("0 sectors per track"));
        assert!(said(&[zone(0, u32::MAX, 1)]).contains("last cylinder"));
        // The maximum of each parameter, and one more.
        assert!(said(&[zone(0, 0, 1 << 20)]).contains("1 to 1048575"));
        assert!(Geometry::new(&[zone(0, 0, (1 << 20) - 1)], 64, 60_000, 0, 0).is_ok());
        assert!(said(&[zone(0, 1 << 22, 1)]).contains("0 to 4194303"));
        assert!(Geometry::new(&[zone(0, (1 << 22) - 1, 1)], 64, 60_000, 0, 0).is_ok());
        assert!(Geometry::new(&ZONES, 65, 60_000, 0, 0).is_err());
        let rings = |count| (0..count).map(|ring| zone(ring, ring, 1)).collect::<Vec<_>>();
        assert!(Geometry::new(&rings(1 << 12), 1, 60_000, 0, 0).is_ok());
        assert!(said(&rings((1 << 12) + 1)).contains("got 4097"));
        assert!(Geometry::new(&ZONES, 0, 60_000, 0, 0).is_err());
    }

    #[test]
    fn zones_from_rates_hold_the_capacity() {
        let layout = Layout {
            capacity_bytes: 250_000_000_000,
            heads: 4,
            revolution: Nanos(8_333_333),
            head_switch: Nanos(1_000_000),
            cylinder_switch: Nanos(1_200_000),
            outer_bytes_per_s: 67.8e6,
            inner_bytes_per_s: 32.9e6,
            zones: 30,
        };
        let made = zones(&layout).unwrap();
        let sectors: u64 = made
            .iter()
            .map(|zone| {
                u64::from(zone.last_cylinder - zone.first_cylinder + 1)
                    * 4
                    * u64::from(zone.sectors_per_track)
            })
            .sum();
        let bytes = (sectors * 512) as f64;
        assert!((250e9..250e9 * 1.001).contains(&bytes), "{bytes}");
        let sustained = f64::from(made[0].sectors_per_track) * 512.0 * 4.0
            / (4.0 * 8.333333e-3 + 3.0 * 1e-3 + 1.2e-3);
        assert!((sustained / 67.8e6 - 1.0).abs() < 1e-3, "{sustained}");
        assert!(zones(&Layout { zones: 0, ..layout }).is_err());
        assert!(zones(&Layout { inner_bytes_per_s: f64::NAN, ..layout }).is_err());
        assert!(zones(&Layout { capacity_bytes: u64::MAX, ..layout }).is_err());
    }
}
