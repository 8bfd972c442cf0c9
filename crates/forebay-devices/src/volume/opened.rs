//! Opens a volume as a device that is ready to be simulated.

use std::path::Path;

use forebay_core::device::throttled::{Bucket, Count, Direction, Measure, Throttle, Throttled};
use forebay_core::{DeviceModel, Nanos, Spec, SpecError};

use super::{ChosenVolume, VolumeType, spec};
use crate::closed::Host;
use crate::{DevicesError, OpenDevice};

/// Opens the volume in `text`, the content of the file at `path`, with the choices in `changes`.
pub(crate) fn open(
    path: &Path,
    text: &str,
    changes: Option<&Spec>,
) -> Result<OpenDevice, DevicesError> {
    let volume = VolumeType::read(path, text)?;
    let knobs = spec::knobs(&volume, changes)?;
    let whole = changes.map_or(volume.name.as_str(), Spec::text);
    let in_spec = |error: SpecError| SpecError(format!("'{whole}': {error}").replace('\n', " "));
    let throttle = volume.at(&knobs).map_err(in_spec)?;
    let summary = summary(&throttle);
    let mut notes = Vec::new();
    if volume.has_unknown_depth() && knobs.depth_ms.is_none() && !throttle.buckets.is_empty() {
        notes.push(
            "how much may pass at once is not documented; 100 ms at each rate is assumed, and \
             `:depth-ms=` changes it"
                .to_string(),
        );
    }
    Ok(OpenDevice {
        name: whole.to_string(),
        description: volume.description.clone(),
        summary,
        notes,
        sources: volume.sources.clone(),
        evidence: volume.evidence.clone(),
        host: Host::default(),
        price: None,
        shingled: false,
        endurance_tb: None,
        model: DeviceModel::Throttled(Box::new(Throttled::new(throttle)?)),
        mechanics: None,
        drive: None,
        catch_margin_range: None,
        volume: Some(Box::new(ChosenVolume { volume, knobs })),
    })
}

/// Summarizes the limits of a throttle on one line.
pub fn summary(throttle: &Throttle) -> String {
    let mut parts: Vec<String> = Vec::new();
    if throttle.capacity_bytes < u64::MAX {
        parts.push(size(throttle.capacity_bytes as f64));
    }
    parts.extend(throttle.buckets.iter().map(bucket_text));
    if throttle.buckets.is_empty() {
        parts.push("no limit".to_string());
    }
    let unit = match throttle.count {
        Count::Requests => None,
        Count::Units { unit_bytes } | Count::Fractions { unit_bytes } => Some(unit_bytes),
    };
    parts.extend(unit.map(|unit| format!("an operation per {}", size(f64::from(unit)))));
    let us = |latency: Nanos| latency.0 as f64 / 1e3;
    let (read, write) = (us(throttle.read_latency), us(throttle.write_latency));
    parts.push(format!("then {read} µs to read and {write} µs to write"));
    parts.join(", ")
}

/// Describes a bucket, as in `3000 IOPS (300 at once)`.
pub fn bucket_text(bucket: &Bucket) -> String {
    let of = match bucket.direction {
        Direction::Both => "",
        Direction::Read => " of reads",
        Direction::Write => " of writes",
    };
    let Bucket { measure, rate_per_s, depth, start_share, .. } = *bucket;
    let (rate, depth) = match measure {
        Measure::Ops => (format!("{} IOPS", rounded(rate_per_s)), rounded(depth).to_string()),
        Measure::Bytes => (format!("{}/s", size(rate_per_s)), size(depth)),
    };
    let start = if start_share == 1.0 {
        String::new()
    } else {
        format!(", {} % of it at the start", rounded(100.0 * start_share))
    };
    format!("{rate}{of} ({depth} at once{start})")
}

fn rounded(value: f64) -> f64 {
    if value >= 100.0 { value.round() } else { (value * 100.0).round() / 100.0 }
}

/// Formats a number of bytes in the largest unit that gives at least 1.
fn size(bytes: f64) -> String {
    let units = [(2_f64.powi(40), "TiB"), (2_f64.powi(30), "GiB"), (2_f64.powi(20), "MiB")];
    let unit = units.into_iter().find(|(unit, _)| bytes >= *unit).unwrap_or((1024.0, "KiB"));
    format!("{} {}", rounded(bytes / unit.0), unit.1)
}
