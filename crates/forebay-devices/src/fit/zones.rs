//! Fits the rates by position, from sequential reads at many positions, and groups positions of
//! equal rate into zones.
//!
//! Reading a block within one track takes as long as its bytes need to pass under the head, so the
//! median block of a run shows the media rate. The whole run shows the sustained rate, which
//! includes track switches.

use super::{DriveFacts, Figure, FitError, Sample, robust};

/// The number of blocks ignored at the start of a run because of the initial seek.
const BLOCKS_LEFT_OUT: usize = 2;
/// The minimum number of blocks in a usable run.
const BLOCKS_MIN: usize = 16;
/// The minimum relative difference between the rates of neighboring zones.
const STEP_SHARE: f64 = 0.006;

/// The measured rates at the position of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    offset: u64,
    /// The sustained rate in bytes per ns.
    sustained: f64,
    media: f64,
}

/// A zone: neighboring tracks with equal rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ZoneFit {
    /// The offset of the first byte, which is uncertain by half the distance between two runs.
    pub first_byte: u64,
    /// The first cylinder.
    pub first_cylinder: u32,
    /// The number of cylinders.
    pub cylinders: u32,
    /// The number of sectors per track.
    pub sectors_per_track: u32,
    /// The sustained rate in MB/s.
    pub sustained_mb_per_s: Figure,
}

/// Returns the spots of all runs of consecutive reads, in order of their offsets.
pub(super) fn spots(logs: &[Vec<Sample>]) -> Result<Vec<Spot>, FitError> {
    let mut spots: Vec<Spot> = Vec::new();
    for log in logs {
        let follows = |a: &Sample, b: &Sample| a.offset + u64::from(a.len) == b.offset;
        for run in log.chunk_by(follows).filter(|run| run.len() >= BLOCKS_MIN) {
            let blocks = &run[BLOCKS_LEFT_OUT..];
            let bytes: f64 = blocks.iter().map(|block| f64::from(block.len)).sum();
            let ns: f64 = blocks.iter().map(|block| block.latency_ns).sum();
            let each: Vec<f64> =
                blocks.iter().map(|block| block.latency_ns / f64::from(block.len)).collect();
            let median = robust::median(&each).map_or(0.0, |median| median.value);
            if ns > 0.0 && median > 0.0 {
                let offset = blocks[0].offset;
                spots.push(Spot { offset, sustained: bytes / ns, media: 1.0 / median });
            }
        }
    }
    spots.sort_by_key(|spot| spot.offset);
    if spots.len() < 2 {
        return Err(FitError::TooLittle {
            what: "zones*_lat.*.log",
            got: format!("{} sequential runs of 16 or more reads", spots.len()),
            expected: "two or more, preferably a hundred",
        });
    }
    Ok(spots)
}

/// Returns the media rate in bytes per ns at `offset`, which is taken from the nearest spot.
pub(super) fn media_rate(spots: &[Spot], offset: u64) -> f64 {
    let after = spots.partition_point(|spot| spot.offset < offset);
    let near =
        |index: usize| spots.get(index).map(|spot| (spot.offset.abs_diff(offset), spot.media));
    let before = after.checked_sub(1).and_then(near);
    let nearest = before.into_iter().chain(near(after)).min_by_key(|(distance, _)| *distance);
    nearest.map_or(1.0, |(_, media)| media)
}

/// Returns the time lost at the end of each track in ns, which explains the difference between the
/// sustained and the media rate.
pub(super) fn switch(spots: &[Spot], revolution_ns: f64) -> Figure {
    let lost: Vec<f64> = spots
        .iter()
        .map(|spot| (revolution_ns * (spot.media / spot.sustained - 1.0)).max(0.0))
        .collect();
    robust::median(&lost).unwrap_or_default()
}

/// Returns the zones of the whole disk. A track takes `track_ns`, including the switch to the next.
pub(super) fn layout(spots: &[Spot], known: &DriveFacts, track_ns: f64) -> Vec<ZoneFit> {
    let mut groups: Vec<Vec<Spot>> = Vec::new();
    for spot in spots {
        let mean = |group: &Vec<Spot>| {
            group.iter().map(|one| one.sustained).sum::<f64>() / group.len() as f64
        };
        match groups.last_mut() {
            Some(group) if (spot.sustained / mean(group) - 1.0).abs() < STEP_SHARE => {
                group.push(*spot);
            }
            _ => groups.push(vec![*spot]),
        }
    }
    // A zone begins halfway between the last run of the previous zone and its own first run.
    let mut starts: Vec<u64> = vec![0];
    starts.extend(
        groups
            .windows(2)
            .map(|pair| pair[0].last().map_or(0, |last| last.offset / 2 + pair[1][0].offset / 2)),
    );
    let mut first_cylinder = 0;
    let mut zones = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        let first_byte = starts[index].min(known.capacity_bytes);
        let end = starts.get(index + 1).copied().unwrap_or(known.capacity_bytes);
        let rates: Vec<f64> = group.iter().map(|spot| spot.sustained).collect();
        let rate = robust::median(&rates).unwrap_or_default();
        let sectors_per_track = ((rate.value * track_ns / 512.0).round() as u32).max(1);
        let cylinder_bytes = u64::from(sectors_per_track) * 512 * u64::from(known.heads);
        let bytes = end.max(first_byte) - first_byte;
        let cylinders = (bytes.div_ceil(cylinder_bytes) as u32).max(1);
        let sustained_mb_per_s = rate.scaled(1e3);
        zones.push(ZoneFit {
            first_byte,
            first_cylinder,
            cylinders,
            sectors_per_track,
            sustained_mb_per_s,
        });
        first_cylinder = cylinders.saturating_add(first_cylinder);
    }
    zones
}

/// Returns the cylinder of byte `offset`, as a fraction within the cylinder.
pub(super) fn cylinder(zones: &[ZoneFit], heads: u32, offset: u64) -> f64 {
    let index = zones.partition_point(|zone| zone.first_byte <= offset).saturating_sub(1);
    let zone = &zones[index];
    let bytes = f64::from(zone.sectors_per_track) * 512.0 * f64::from(heads);
    let within =
        (offset.saturating_sub(zone.first_byte) as f64 / bytes).min(f64::from(zone.cylinders));
    f64::from(zone.first_cylinder) + within
}
