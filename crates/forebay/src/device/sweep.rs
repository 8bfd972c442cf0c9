//! Sweeps of queue depths: a drive fitted to one, and a model compared with one.

use std::path::{Path, PathBuf};

use forebay_ask::named;
use forebay_core::Op;
use forebay_trace::write::Kept;
use serde::Serialize;

use super::FitOptions;
use crate::Error;
use crate::devices::fit::check::{RowChecked, check, evidence_text, worst};
use crate::devices::fit::disk::{self, DiskKnown};
use crate::devices::fit::ssd::{self, SsdKnown};
use crate::devices::fit::sweep::{Sweep, SweepRow};
use crate::devices::{self, OpenDevice, write};

/// What kind of drive a sweep was measured on.
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

/// No disk does so many random I/Os a second for each one outstanding: it would turn faster than any.
const DISK_IOPS_MAX: f64 = 600.0;
/// The size of a disk that nobody gave; seeks are shares of it, so it hardly matters.
const DISK_BYTES: u64 = 1_000_204_886_016;

/// A measured row, and the same on the model.
#[derive(Clone, Debug, Serialize)]
pub struct RowFigures {
    /// Which row, in words.
    pub row: String,
    /// Whether a fit goes by such a row.
    pub fitted: bool,
    /// I/Os a second, measured.
    pub measured_iops: f64,
    /// The same on the model.
    pub model_iops: f64,
    /// By what share the model does more.
    pub iops_error_share: f64,
    /// 99th percentile of latency, measured.
    pub measured_p99_us: Option<f64>,
    /// The same on the model.
    pub model_p99_us: Option<f64>,
    /// By what share the model's is longer.
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

/// What a fit to a sweep came to.
#[derive(Clone, Debug, Serialize)]
pub struct SweepFigures {
    /// The device file.
    pub output: String,
    /// What kind of drive it is.
    pub kind: DriveKind,
    /// Each measured row.
    pub rows: Vec<RowFigures>,
    /// The greatest error of a rate among the rows that were fitted, as a share.
    pub iops_error_share: Option<f64>,
    /// The greatest error of a 99th percentile among them.
    pub p99_error_share: Option<f64>,
    /// What was left out or assumed, a sentence each.
    pub notes: Vec<String>,
}

/// A model beside a sweep.
#[derive(Clone, Debug, Serialize)]
pub struct SweepValidation {
    /// The device.
    pub device: String,
    /// Each measured row.
    pub rows: Vec<RowFigures>,
    /// The greatest error of a rate of random I/O of the usual size, as a share.
    pub iops_error_share: Option<f64>,
    /// The greatest error of a 99th percentile of those.
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
    let kept: Kept = sweep.paths.iter().cloned().collect();
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

/// What a fit found: the rows on its model, notes and the device file.
type Found = (Vec<RowChecked>, Vec<String>, String);

fn fit_disk(
    sweep: &Sweep,
    options: &FitOptions,
    name: String,
    output: &Path,
) -> Result<Found, Error> {
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
) -> Result<Found, Error> {
    let fitted = ssd::fit(sweep, SsdKnown { name, capacity_bytes: options.capacity_bytes })?;
    let mut notes = sweep.notes.clone();
    if options.capacity_bytes.is_none() {
        notes.push(size_assumed("480 GB"));
    }
    if fitted.writes.is_none() {
        notes.push("there are no random writes: their figures are assumed".to_string());
    }
    let device = devices::read(output, &fitted.toml(&[], &[]))?;
    let checked = check(&device, sweep);
    let text = fitted.toml(&checked, &notes);
    Ok((checked, notes, text))
}

/// What the rates say: no disk does hundreds of random I/Os a second with one outstanding.
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
