//! Sweeps of queue depths: fits a drive to a sweep, and compares a model with one.

use std::path::{Path, PathBuf};

use forebay_ask::named;
use forebay_core::Op;
use forebay_trace::write::ProtectedFiles;
use serde::Serialize;

use super::FitOptions;
use crate::Error;
use crate::devices::fit::check::{RowChecked, check, evidence_text, worst};
use crate::devices::fit::disk::{self, DiskKnown};
use crate::devices::fit::ssd::{self, SsdKnown};
use crate::devices::fit::sweep::{Sweep, SweepRow};
use crate::devices::{self, OpenDevice, write};

/// The kind of drive that a sweep was measured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DriveKind {
    /// A disk.
    Hdd,
    /// A solid-state drive.
    Ssd,
}

impl std::str::FromStr for DriveKind {
    type Err = String;
    fn from_str(text: &str) -> Result<DriveKind, String> {
        match text {
            "hdd" => Ok(DriveKind::Hdd),
            "ssd" => Ok(DriveKind::Ssd),
            _ => Err(format!("got '{text}', expected hdd or ssd")),
        }
    }
}

/// A higher rate of random I/Os, divided by the queue depth, rules out a disk: it would have to
/// spin faster than any real one.
const DISK_IOPS_MAX: f64 = 600.0;
/// The size of a disk if not given; seek distances are relative to it, so it hardly matters.
const DISK_BYTES: u64 = 1_000_204_886_016;

/// The measured figures of a row beside the model's.
#[derive(Clone, Debug, Serialize)]
pub struct RowFigures {
    /// A description of the row.
    pub row: String,
    /// Whether fits use rows of this kind.
    pub fitted: bool,
    /// I/Os per second, measured.
    pub measured_iops: f64,
    /// I/Os per second on the model.
    pub model_iops: f64,
    /// The relative error of the model's rate.
    pub iops_error_share: f64,
    /// The 99th percentile of latency, measured.
    pub measured_p99_us: Option<f64>,
    /// The 99th percentile of latency on the model.
    pub model_p99_us: Option<f64>,
    /// The relative error of the model's percentile.
    pub p99_error_share: Option<f64>,
}

impl RowFigures {
    fn of(row: &RowChecked) -> RowFigures {
        let check = &row.check;
        RowFigures {
            row: row.what.clone(),
            fitted: row.is_fitted,
            measured_iops: check.measured.iops,
            model_iops: check.model.iops,
            iops_error_share: check.iops_error(),
            measured_p99_us: check.measured.p99_us,
            model_p99_us: check.model.p99_us,
            p99_error_share: check.p99_error(),
        }
    }
}

/// The result of a fit to a sweep.
#[derive(Clone, Debug, Serialize)]
pub struct SweepFigures {
    /// The path of the device file.
    pub output: String,
    /// The kind of drive.
    pub kind: DriveKind,
    /// The measured rows.
    pub rows: Vec<RowFigures>,
    /// The greatest relative error of a rate among the fitted rows.
    pub iops_error_share: Option<f64>,
    /// The greatest relative error of a 99th percentile among the fitted rows.
    pub p99_error_share: Option<f64>,
    /// Rows that were left out and assumptions that were made, a sentence each.
    pub notes: Vec<String>,
}

/// The comparison of a model with a sweep.
#[derive(Clone, Debug, Serialize)]
pub struct SweepValidation {
    /// The device.
    pub device: String,
    /// The measured rows.
    pub rows: Vec<RowFigures>,
    /// The greatest relative error of the rate of random I/O of the usual size.
    pub iops_error_share: Option<f64>,
    /// The greatest relative error of a 99th percentile of these rows.
    pub p99_error_share: Option<f64>,
}

/// Fits a drive to fio's results and writes its device file.
pub(super) fn fit(
    measurements: &[PathBuf],
    options: &FitOptions,
    name: String,
    output: &Path,
) -> Result<SweepFigures, Error> {
    let sweep = Sweep::read(measurements)?;
    let kept: ProtectedFiles = sweep.paths.iter().cloned().collect();
    kept.refuse(output)?;
    let kind = options.kind.unwrap_or_else(|| kind_of(&sweep));
    let (rows, notes, text) = match kind {
        DriveKind::Hdd => fit_disk(&sweep, options, name, output)?,
        DriveKind::Ssd => fit_flash(&sweep, options, name, output)?,
    };
    write::file(output, &text, &kept).map_err(Error::output)?;
    let (iops_error_share, p99_error_share) = worst(&rows);
    let rows = rows.iter().map(RowFigures::of).collect();
    let output = output.display().to_string();
    Ok(SweepFigures { output, kind, rows, iops_error_share, p99_error_share, notes })
}

/// The result of a fit: the rows on the fitted model, notes, and the device file.
type FitResult = (Vec<RowChecked>, Vec<String>, String);

fn fit_disk(
    sweep: &Sweep,
    options: &FitOptions,
    name: String,
    output: &Path,
) -> Result<FitResult, Error> {
    let rows: Vec<SweepRow> =
        [Op::Read, Op::Write].iter().flat_map(|op| sweep.random(*op)).cloned().collect();
    let known = DiskKnown {
        name,
        capacity_bytes: options.capacity_bytes.unwrap_or(DISK_BYTES),
        heads: options.heads,
        ..DiskKnown::default()
    };
    let fitted = disk::fit(&rows, known)?;
    let mut notes = sweep.notes.clone();
    notes.extend(fitted.notes.iter().cloned());
    if options.capacity_bytes.is_none() {
        notes.push(size_assumed("1 TB"));
    }
    let text = fitted.toml();
    let device = devices::read(output, &text)?;
    let checked = check(&device, sweep);
    let text = text + &evidence_text(&checked);
    Ok((checked, notes, text))
}

fn size_assumed(size: &str) -> String {
    format!("the drive's size is assumed to be {size}; {} gives it", named("capacity"))
}

fn fit_flash(
    sweep: &Sweep,
    options: &FitOptions,
    name: String,
    output: &Path,
) -> Result<FitResult, Error> {
    let fitted = ssd::fit(sweep, SsdKnown { name, capacity_bytes: options.capacity_bytes })?;
    let mut notes = sweep.notes.clone();
    if options.capacity_bytes.is_none() {
        notes.push(size_assumed("480 GB"));
    }
    if fitted.writes.is_none() {
        notes.push("there are no random writes, so their figures are assumed".to_string());
    }
    let device = devices::read(output, &fitted.toml(&[], &[]))?;
    let checked = check(&device, sweep);
    let text = fitted.toml(&checked, &notes);
    Ok((checked, notes, text))
}

/// Derives the kind of drive from the rates: disks cannot do hundreds of random I/Os per second for
/// each one outstanding.
fn kind_of(sweep: &Sweep) -> DriveKind {
    let reads = sweep.random(Op::Read);
    let rows = if reads.is_empty() { sweep.random(Op::Write) } else { reads };
    let each = rows.first().map(|row| row.iops / f64::from(row.depth));
    if each.is_some_and(|each| each > DISK_IOPS_MAX) { DriveKind::Ssd } else { DriveKind::Hdd }
}

/// Compares a device with fio's results.
pub(super) fn validate(
    device: &str,
    measured: &[PathBuf],
) -> Result<(SweepValidation, Vec<String>), Error> {
    let device: OpenDevice = devices::open(device)?;
    let sweep = Sweep::read(measured)?;
    let rows = check(&device, &sweep);
    let (iops_error_share, p99_error_share) = worst(&rows);
    let rows = rows.iter().map(RowFigures::of).collect();
    let named = |note: &String| format!("{}: {note}", device.name);
    let told = device.notes.iter().map(named).chain(sweep.notes).collect();
    Ok((SweepValidation { device: device.name, rows, iops_error_share, p99_error_share }, told))
}
