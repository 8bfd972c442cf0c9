//! The verb `device`: device files made of measurements or of DiskSim's files, and models held against measured times.

mod sweep;
pub mod verb;

use std::path::{Path, PathBuf};

use forebay_show::plural::counted;
use forebay_trace::write::Kept;
use serde::Serialize;

use crate::Error;
use crate::devices::fit::sweep::Sweep;
use crate::devices::fit::{self, Figure, FitError, Fitted, Known, Measurements};
use crate::devices::validate::{self, Arrivals, Validation};
use crate::devices::{self, disksim, write};

pub use sweep::{DriveKind, RowFigures, SweepFigures, SweepValidation};

/// A figure and its standard error: `[value, error]`.
type Pair = [f64; 2];

/// What a fit found.
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
    /// Those of `fitted`, which was written to `output`.
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

/// MB a second at the outer and at the inner edge.
pub fn rates(fitted: &Fitted) -> [Figure; 2] {
    [fitted.zones.first(), fitted.zones.last()]
        .map(|zone| zone.map_or(Figure::default(), |zone| zone.sustained_mb_per_s))
}

/// The fio job that measures a sweep (examples/measure/depth.fio).
pub const SWEEP_JOB: &str = include_str!("../measure/depth.fio");

/// What a fit is told beside the measurements.
#[derive(Clone, Debug, Default)]
pub struct FitOptions {
    /// The drive's size; a fit to logs needs it.
    pub capacity_bytes: Option<u64>,
    /// Data surfaces of a disk.
    pub heads: Option<u32>,
    /// What to call the drive; by default as the file.
    pub name: Option<String>,
    /// Disk or solid-state drive; by default what a sweep's rates say.
    pub kind: Option<DriveKind>,
}

/// What a fit came to.
#[derive(Clone, Debug)]
pub enum Fit {
    /// Of logs of latencies.
    Logs(Box<Fitted>),
    /// Of a sweep of queue depths.
    Sweep(SweepFigures),
}

/// Data surfaces of a disk that nobody knows.
const HEADS: u32 = 2;

/// Fits a drive to what fio measured and writes its device file to `output`: logs of latencies in one folder
/// (docs/measure-a-drive.md), or fio's results in files or folders.
///
/// # Errors
/// What are no measurements of a drive, or a file that cannot be written.
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
    let kept: Kept = measurements.paths.iter().cloned().collect();
    kept.refuse(output)?;
    let capacity_bytes = options.capacity_bytes.ok_or(FitError::TooLittle {
        what: "the drive's capacity",
        got: "none".to_string(),
        expected: "the capacity with a folder of logs (blockdev --getsize64 DEVICE)",
    })?;
    let heads = options.heads.unwrap_or(HEADS);
    let fitted = fit::fit(&measurements, Known { name, capacity_bytes, heads })?;
    let text = fitted.toml();
    // What is written can be read, or the measurements do not describe a disk.
    devices::read(output, &text)?;
    write::file(output, &text, &kept).map_err(Error::output)?;
    Ok(fitted)
}

/// What to know of a fit, a sentence each.
pub fn told_of(fitted: &Fitted) -> Vec<String> {
    let of = |count: u64, what: &str| (count > 0).then(|| format!("{count} {what}"));
    let skipped = of(fitted.lines_skipped, "log lines are no reads and were skipped");
    let cached = of(fitted.cached, "random reads were answered by the drive's cache and left out");
    skipped.into_iter().chain(cached).collect()
}

/// A drive of DiskSim's as a device file.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Its name.
    pub device: String,
    /// What it is.
    pub summary: String,
    /// What was not taken over, or repaired, a sentence each.
    pub notes: Vec<String>,
    /// The device file.
    pub text: String,
}

/// Makes a device file of the `.diskspecs` at `file` and those beside it, and writes it to `output`, if any.
///
/// # Errors
/// Files that cannot be taken over, or an output that cannot be written.
pub fn import(file: &Path, output: Option<&Path>) -> Result<Imported, Error> {
    let imported = disksim::import(file)?;
    if let Some(output) = output {
        imported.kept.refuse(output)?;
    }
    let named = file.file_name().unwrap_or_default().to_string_lossy();
    let source = format!("{}, from DiskSim's {named}", imported.name);
    let text = write::text(&imported.name, &source, &imported.drive);
    let text = write::noted(&text, imported.notes.iter().map(|note| within(file, note)));
    let device = devices::read(output.unwrap_or(file), &text)?;
    if let Some(output) = output {
        write::file(output, &text, &imported.kept).map_err(Error::output)?;
    }
    Ok(Imported { device: device.name, summary: device.summary, notes: imported.notes, text })
}

/// A note without the folder of the files: a device file is passed on.
fn within<'a>(file: &Path, note: &'a str) -> &'a str {
    let folder = file.parent().unwrap_or(Path::new("")).display().to_string();
    note.strip_prefix(&folder).map_or(note, |rest| rest.trim_start_matches('/'))
}

/// What a device was compared with.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Compared {
    /// A trace of service times.
    Trace(Box<Validation>),
    /// A sweep of queue depths.
    Sweep(SweepValidation),
}

/// Compares the device called `device` with what was measured on the drive: a DiskSim validation trace, or fio's
/// results in files or folders.
///
/// # Errors
/// What is neither, or no such device.
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

/// Plays the DiskSim validation trace at `trace` on the disk called `device`; answers how near its times are, and
/// what to know, a sentence each.
///
/// # Errors
/// What is no disk or no such trace.
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
            "{}, of {}, beyond the end of {name}: served at its end",
            counted(validation.requests_beyond_end, "request"),
            validation.requests
        ));
    }
    Ok((validation, told))
}
