//! The verb `device`: creates device files from measurements or DiskSim files, and compares models
//! with measured times.

mod sweep;
pub mod verb;

use std::path::{Path, PathBuf};

use forebay_trace::write::ProtectedFiles;
use forebay_words::plural::counted;
use serde::Serialize;

use crate::Error;
use crate::devices::fit::sweep::Sweep;
use crate::devices::fit::{self, DriveFacts, Figure, FitError, Fitted, Measurements};
use crate::devices::validate::{self, Arrivals, Validation};
use crate::devices::{self, disksim, write};

pub use sweep::{DriveKind, RowFigures, SweepFigures, SweepValidation};

/// A figure with its standard error: `[value, error]`.
type Pair = [f64; 2];

/// The figures of a drive that was fitted to latency logs.
#[derive(Clone, Debug, Serialize)]
pub struct FitFigures {
    output: String,
    revolution_ms: Pair,
    overhead_ms: Pair,
    switch_ms: Pair,
    track_to_track_ms: Pair,
    third_stroke_ms: Pair,
    full_stroke_ms: Pair,
    seek_misfit_ms: f64,
    zones: usize,
    outer_mb_per_s: Pair,
    inner_mb_per_s: Pair,
    cached_reads: u64,
    lines_skipped: u64,
}

impl FitFigures {
    /// Collects the figures of `fitted`, whose device file is `output`.
    pub fn of(fitted: &Fitted, output: &Path) -> FitFigures {
        let pair = |figure: Figure| [figure.value, figure.error];
        let [outer, inner] = rates(fitted);
        FitFigures {
            output: output.display().to_string(),
            revolution_ms: pair(fitted.revolution_ms),
            overhead_ms: pair(fitted.overhead_ms),
            switch_ms: pair(fitted.switch_ms),
            track_to_track_ms: pair(fitted.seek.track_to_track_ms),
            third_stroke_ms: pair(fitted.seek.third_stroke_ms),
            full_stroke_ms: pair(fitted.seek.full_stroke_ms),
            seek_misfit_ms: fitted.seek.misfit_ms,
            zones: fitted.zones.len(),
            outer_mb_per_s: pair(outer),
            inner_mb_per_s: pair(inner),
            cached_reads: fitted.cached,
            lines_skipped: fitted.lines_skipped,
        }
    }
}

/// Returns the transfer rates at the outer and the inner edge, in MB/s.
pub fn rates(fitted: &Fitted) -> [Figure; 2] {
    [fitted.zones.first(), fitted.zones.last()]
        .map(|zone| zone.map_or(Figure::default(), |zone| zone.sustained_mb_per_s))
}

/// The fio job that measures a sweep of queue depths (examples/measure/depth.fio).
pub const SWEEP_JOB: &str = include_str!("../measure/depth.fio");

/// The options of `device fit`.
#[derive(Clone, Debug, Default)]
pub struct FitOptions {
    /// The drive's capacity in bytes; required for a fit to latency logs.
    pub capacity_bytes: Option<u64>,
    /// The disk's number of data surfaces.
    pub heads: Option<u32>,
    /// The disk's rotational speed in revolutions per minute. Latency logs reveal it; a sweep does
    /// not.
    pub rpm: Option<f64>,
    /// The drive's name; defaults to the name of the device file.
    pub name: Option<String>,
    /// The kind of drive; by default inferred from the rates in a sweep.
    pub kind: Option<DriveKind>,
}

/// The result of a fit, by the kind of measurements.
#[derive(Clone, Debug)]
pub enum Fit {
    /// The result of a fit to latency logs.
    Logs(Box<Fitted>),
    /// The result of a fit to a sweep of queue depths.
    Sweep(SweepFigures),
}

/// The smallest number of data surfaces to assume if the user does not give it.
const HEADS: u32 = 2;

/// Fits a drive to fio's measurements and writes its device file to `output`. The measurements are
/// either latency logs in one folder (docs/measure-a-drive.md), or fio's results in files or
/// folders.
///
/// # Errors
/// Fails if the files are not measurements of a drive, or if the output cannot be written.
pub fn fit(measurements: &[PathBuf], options: &FitOptions, output: &Path) -> Result<Fit, Error> {
    let stem = output.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = options.name.clone().or(stem).unwrap_or_default();
    if let [folder] = measurements
        && folder.is_dir()
        && !Sweep::is_in(folder)
    {
        return fit_logs(folder, options, name, output).map(|fitted| Fit::Logs(Box::new(fitted)));
    }
    sweep::fit(measurements, options, name, output).map(Fit::Sweep)
}

fn fit_logs(
    folder: &Path,
    options: &FitOptions,
    name: String,
    output: &Path,
) -> Result<Fitted, Error> {
    let measurements = Measurements::read(folder)?;
    let kept: ProtectedFiles = measurements.paths.iter().cloned().collect();
    kept.refuse(output)?;
    let capacity_bytes = options.capacity_bytes.ok_or(FitError::TooLittle {
        what: "the drive's capacity",
        got: "none".to_string(),
        expected: "the capacity with a folder of logs (blockdev --getsize64 DEVICE)",
    })?;
    let heads = options.heads.unwrap_or_else(|| fit::surfaces(capacity_bytes, HEADS));
    let fitted = fit::fit(&measurements, DriveFacts { name, capacity_bytes, heads })?;
    let text = fitted.toml();
    // Parse the text again, to make sure that the fit describes a possible disk.
    devices::read(output, &text)?;
    write::file(output, &text, &kept).map_err(Error::output)?;
    Ok(fitted)
}

/// Returns notes about a fit, one sentence each.
pub fn told_of(fitted: &Fitted) -> Vec<String> {
    let of = |count: u64, what: &str| (count > 0).then(|| format!("{count} {what}"));
    let skipped = of(fitted.lines_skipped, "log lines are not reads and were skipped");
    let cached = of(fitted.cached, "random reads came from the drive's cache and were left out");
    skipped.into_iter().chain(cached).collect()
}

/// A device file made from a DiskSim drive.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The drive's name.
    pub device: String,
    /// A summary of the drive's main figures.
    pub summary: String,
    /// Parameters that were left out or repaired, one sentence each.
    pub notes: Vec<String>,
    /// The text of the device file.
    pub text: String,
}

/// Creates a device file from the `.diskspecs` at `file` and the files in the same folder, and
/// writes it to `output`, if given.
///
/// # Errors
/// Fails if the files cannot be imported, or if the output cannot be written.
pub fn import(file: &Path, output: Option<&Path>) -> Result<Imported, Error> {
    let imported = disksim::import(file)?;
    if let Some(output) = output {
        imported.files_read.refuse(output)?;
    }
    let named = file.file_name().unwrap_or_default().to_string_lossy();
    let source = format!("{}, from DiskSim's {named}", imported.name);
    let text = write::text(&imported.name, &source, &imported.drive);
    let text = write::with_notes(&text, imported.notes.iter().map(|note| within(file, note)));
    let device = devices::read(output.unwrap_or(file), &text)?;
    if let Some(output) = output {
        write::file(output, &text, &imported.files_read).map_err(Error::output)?;
    }
    let notes = imported.notes.into_iter().chain(device.notes).collect();
    Ok(Imported { device: device.name, summary: device.summary, notes, text })
}

/// Removes the path of the files' folder from a note, because device files are shared with others.
fn within<'a>(file: &Path, note: &'a str) -> &'a str {
    let folder = file.parent().unwrap_or(Path::new("")).display().to_string();
    note.strip_prefix(&folder).map_or(note, |rest| rest.trim_start_matches('/'))
}

/// The result of comparing a model with measurements, by the kind of measurements.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Compared {
    /// The comparison with a DiskSim trace of service times.
    Trace(Box<Validation>),
    /// The comparison with a sweep of queue depths.
    Sweep(SweepValidation),
}

/// Compares the device called `device` with measurements of the drive: a DiskSim validation trace,
/// or fio's results in files or folders.
///
/// # Errors
/// Fails if the measurements are neither, or if the device does not exist.
pub fn compare(
    device: &str,
    measured: &[PathBuf],
    arrivals: Arrivals,
) -> Result<(Compared, Vec<String>), Error> {
    match measured {
        [trace] if !trace.is_dir() && !Sweep::is_file(trace) => {
            let (validation, told) = validate(device, trace, arrivals)?;
            Ok((Compared::Trace(Box::new(validation)), told))
        }
        _ => {
            let (validation, told) = sweep::validate(device, measured)?;
            Ok((Compared::Sweep(validation), told))
        }
    }
}

/// Replays the DiskSim validation trace at `trace` on the disk called `device`. Returns how close
/// the model's times are to the recorded ones, and notes, one sentence each.
///
/// # Errors
/// Fails if the device is not a disk, or if the file is not such a trace.
pub fn validate(
    device: &str,
    trace: &Path,
    arrivals: Arrivals,
) -> Result<(Validation, Vec<String>), Error> {
    let (name, spec) = devices::open_spec(device)?;
    let measured = validate::read_trace(trace)?;
    let validation = validate::validate(&name, &spec, &measured, arrivals)?;
    let mut told: Vec<String> =
        devices::open(device)?.notes.iter().map(|note| format!("{device}: {note}")).collect();
    if validation.requests_beyond_end > 0 {
        told.push(format!(
            "{}, of {}, lie beyond the end of {name} and were simulated at its end",
            counted(validation.requests_beyond_end, "request"),
            validation.requests
        ));
    }
    Ok((validation, told))
}
