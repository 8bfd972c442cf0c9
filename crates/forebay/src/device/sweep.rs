//! Sweeps of queue depths: fits a drive to a sweep, and compares a model with a sweep.

use std::path::{Path, PathBuf};

use forebay_ask::named;
use forebay_core::Op;
use forebay_trace::write::ProtectedFiles;
use forebay_words::quantities::bytes;
use serde::Serialize;

use super::FitOptions;
use crate::devices::fit::FitError;
use crate::devices::fit::check::{RowChecked, check, evidence_text, worst};
use crate::devices::fit::disk::{self, DiskFacts};
use crate::devices::fit::ssd::{self, SsdFacts};
use crate::devices::fit::sweep::{Sweep, SweepRow};
use crate::devices::{self, OpenDevice, write};
use crate::{Error, shingled};

/// The kind of drive that a sweep was measured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DriveKind {
    /// A hard disk.
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

/// The number of random I/Os per second and outstanding I/O above which a drive cannot be a disk,
/// because it would have to spin faster than any real one.
const DISK_IOPS_MAX: f64 = 600.0;
/// The capacity of a disk if the user does not give it. It hardly matters, because seek distances
/// are relative to it.
const DISK_BYTES: u64 = 1_000_204_886_016;

/// A row of a sweep: the measured figures, and the model's for comparison.
#[derive(Clone, Debug, Serialize)]
pub struct RowFigures {
    /// What the row measures, such as the operation, size and queue depth.
    pub row: String,
    /// The row's name in tables: operation, size and queue depth.
    #[serde(skip)]
    pub(super) short: String,
    /// Whether a fit uses rows of this kind.
    pub fitted: bool,
    /// The measured rate, in I/Os per second.
    pub measured_iops: f64,
    /// The model's rate, in I/Os per second.
    pub model_iops: f64,
    /// The relative error of the model's rate against the measured one.
    pub iops_error_share: f64,
    /// The measured 99th percentile of latencies, in microseconds.
    pub measured_p99_us: Option<f64>,
    /// The model's 99th percentile of latencies, in microseconds.
    pub model_p99_us: Option<f64>,
    /// The relative error of the model's 99th percentile.
    pub p99_error_share: Option<f64>,
}

impl RowFigures {
    fn of(row: &RowChecked) -> RowFigures {
        let check = &row.check;
        RowFigures {
            row: row.what.clone(),
            short: short(&row.what),
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

/// Shortens the description of a row for tables, as in "reads, 4 KiB, 32".
fn short(what: &str) -> String {
    let what = what.replace("beside others: ", "with others: ").replace("random ", "");
    what.replace("sequential ", "seq. ").replace(" of ", ", ").replace(" at depth ", ", ")
}

/// The result of fitting a drive to a sweep.
#[derive(Clone, Debug, Serialize)]
pub struct SweepFigures {
    /// The path of the device file that was written.
    pub output: String,
    /// The kind of drive.
    pub kind: DriveKind,
    /// The rows of the sweep, with the fitted model's figures.
    pub rows: Vec<RowFigures>,
    /// The largest relative error of a rate, among the rows that the fit used.
    pub iops_error_share: Option<f64>,
    /// The largest relative error of a 99th percentile, among the rows that the fit used.
    pub p99_error_share: Option<f64>,
    /// Rows that were left out and assumptions that were made, one sentence each.
    pub notes: Vec<String>,
}

/// The result of comparing a model with a sweep.
#[derive(Clone, Debug, Serialize)]
pub struct SweepValidation {
    /// The name of the device.
    pub device: String,
    /// The rows of the sweep, with the model's figures.
    pub rows: Vec<RowFigures>,
    /// The largest relative error of a rate, among the rows of random I/O of the usual size.
    pub iops_error_share: Option<f64>,
    /// The largest relative error of a 99th percentile, among the same rows as for the rate.
    pub p99_error_share: Option<f64>,
}

/// Fits a drive to a sweep measured by fio, and writes its device file.
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

/// A fitted model: its figures for each row, notes, and the text of the device file.
type FitResult = (Vec<RowChecked>, Vec<String>, String);

fn fit_disk(
    sweep: &Sweep,
    options: &FitOptions,
    name: String,
    output: &Path,
) -> Result<FitResult, Error> {
    let rows: Vec<SweepRow> =
        [Op::Read, Op::Write].iter().flat_map(|op| sweep.random(*op)).cloned().collect();
    let known = DiskFacts {
        name,
        capacity_bytes: options.capacity_bytes.unwrap_or(DISK_BYTES),
        heads: options.heads,
        rpm: options.rpm,
        ..DiskFacts::default()
    };
    let fitted = disk::fit(&rows, known).map_err(|error| or_flash(error, options.kind))?;
    let mut notes = sweep.notes.clone();
    notes.extend(fitted.notes.iter().map(|note| with_option(note)));
    notes.extend(covers_a_part(sweep.covered_bytes, options.capacity_bytes));
    if options.capacity_bytes.is_none() {
        notes.push(size_assumed("1 TB"));
    }
    let text = fitted.toml();
    let device = devices::read(output, &text)?;
    let checked = check(&device, sweep);
    let text = text + &evidence_text(&checked);
    Ok((checked, notes, text))
}

/// Adds to an error of rows that no disk measures how to fit a solid-state drive, unless the user
/// said that the drive is a disk.
fn or_flash(error: FitError, kind: Option<DriveKind>) -> Error {
    match error {
        FitError::TooFast { what } if kind.is_none() => {
            let kind = named("kind");
            let what = format!("{what}; if the drive is flash, set {kind} to ssd");
            FitError::TooFast { what }.into()
        }
        other => other.into(),
    }
}

/// Adds to a note about an assumed rotational speed how to set it.
fn with_option(note: &str) -> String {
    if note.ends_with("rpm is assumed") {
        return format!("{note}; specify the true one with {}", named("rpm"));
    }
    note.to_string()
}

/// The share of a drive's capacity that random I/O must cover for the seeks to be the drive's.
const COVERED_LEAST: f64 = 0.9;

/// Returns a note if the jobs were limited to a part of the drive, as far as is known.
fn covers_a_part(covered: Option<u64>, capacity: Option<u64>) -> Option<String> {
    let covered = covered?;
    let least = capacity.map_or(f64::INFINITY, |capacity| COVERED_LEAST * capacity as f64);
    if covered as f64 >= least {
        return None;
    }
    let part = match capacity {
        Some(capacity) => format!("{} of {}", bytes(covered as f64), bytes(capacity as f64)),
        None => format!("{}, which may be a part of the drive", bytes(covered as f64)),
    };
    Some(format!(
        "random I/O covered {part}: seeks over a part are shorter than over the whole drive, so \
         measure the drive without the option size"
    ))
}

fn size_assumed(size: &str) -> String {
    format!("the drive's size is assumed to be {size}; specify it with {}", named("capacity"))
}

fn fit_flash(
    sweep: &Sweep,
    options: &FitOptions,
    name: String,
    output: &Path,
) -> Result<FitResult, Error> {
    let fitted = ssd::fit(sweep, SsdFacts { name, capacity_bytes: options.capacity_bytes })?;
    let mut notes = sweep.notes.clone();
    if options.capacity_bytes.is_none() {
        notes.push(size_assumed("480 GB"));
    }
    if options.rpm.is_some() {
        notes.push(format!("{} is ignored: a solid-state drive does not rotate", named("rpm")));
    }
    if fitted.writes.is_none() {
        notes.push("there are no random writes, so their figures are assumed".to_string());
    }
    let device = devices::read(output, &fitted.toml(&[], &[]))?;
    let checked = check(&device, sweep);
    notes.extend(ssd::notes(sweep, &checked));
    let text = fitted.toml(&checked, &notes);
    Ok((checked, notes, text))
}

/// Names of devices that are never disks: NVMe drives and memory cards.
const FLASH_NAMES: [&str; 2] = ["/dev/nvme", "/dev/mmcblk"];
/// The rate at which each I/O takes half a revolution at 15,000 rpm plus the shortest average seek.
/// A disk that is faster answers from its cache, or reorders requests at depth.
const WITHOUT_GAIN_IOPS_MAX: f64 = 1e3 / 2.3;
/// The smallest gain of a disk with a command queue, at any depth from 8 on.
const GAIN_LEAST: f64 = 1.05;

/// Infers the kind of drive from the rates: a disk cannot serve hundreds of random I/Os per second
/// for each outstanding one, and fewer only if it gains from depth.
fn kind_of(sweep: &Sweep) -> DriveKind {
    let is_flash = |target: &String| FLASH_NAMES.iter().any(|name| target.starts_with(name));
    if sweep.targets.iter().any(is_flash) {
        return DriveKind::Ssd;
    }
    let reads = sweep.random(Op::Read);
    let rows = if reads.is_empty() { sweep.random(Op::Write) } else { reads };
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return DriveKind::Hdd };
    let each = first.iops / f64::from(first.depth);
    let gains = last.depth < 8 || last.iops >= GAIN_LEAST * first.iops;
    let most = if gains { DISK_IOPS_MAX } else { WITHOUT_GAIN_IOPS_MAX };
    if each > most { DriveKind::Ssd } else { DriveKind::Hdd }
}

/// Compares a device with a sweep measured by fio.
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
    let writes = !sweep.random(Op::Write).is_empty();
    let shingled = shingled::note(&device).filter(|_| writes);
    let told = device.notes.iter().map(named).chain(shingled).chain(sweep.notes).collect();
    Ok((SweepValidation { device: device.name, rows, iops_error_share, p99_error_share }, told))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns random reads at depths 1, 4 and 32 with these rates.
    fn reads_of(rates: [f64; 3], target: &str) -> Sweep {
        let row = |(depth, iops): (u32, f64)| SweepRow {
            op: Op::Read,
            block_bytes: 4096,
            depth,
            iops,
            mean_us: None,
            p50_us: None,
            p99_us: None,
            p999_us: None,
            max_us: None,
        };
        let rows = [1, 4, 32].into_iter().zip(rates).map(row).collect();
        Sweep { rows, targets: vec![target.to_string()], ..Sweep::default() }
    }

    #[test]
    fn flash_that_is_as_slow_as_a_disk_is_recognized() {
        let kind = |rates, target| kind_of(&reads_of(rates, target));
        let (sdb, card) = ("/dev/sdb", "/dev/mmcblk0");
        assert_eq!(kind([440.0, 450.0, 445.0], sdb), DriveKind::Ssd);
        assert_eq!(kind([440.0, 600.0, 900.0], sdb), DriveKind::Hdd);
        assert_eq!(kind([300.0, 300.0, 300.0], card), DriveKind::Ssd);
        assert_eq!(kind([300.0, 300.0, 300.0], sdb), DriveKind::Hdd);
        assert_eq!(kind([7_000.0, 20_000.0, 60_000.0], sdb), DriveKind::Ssd);
    }

    #[test]
    fn reads_too_fast_for_a_disk_may_be_those_of_flash() {
        let refused = |kind| {
            let options = FitOptions { kind, rpm: Some(5_400.0), ..FitOptions::default() };
            let sweep = reads_of([300.0, 300.0, 300.0], "/dev/sdb");
            let found = fit_disk(&sweep, &options, "x".into(), Path::new("x.toml"));
            found.err().unwrap().to_string()
        };
        let said = refused(None);
        assert!(said.contains("3.33 ms each at 5400 rpm") && said.contains("flash"), "{said}");
        assert!(!refused(Some(DriveKind::Hdd)).contains("flash"));
    }

    #[test]
    fn writes_compared_with_a_shingled_drive_have_a_note() {
        let folder = tempfile::tempdir().unwrap();
        let notes_on = |drive: &str, mode: &str, side: &str| {
            let path = folder.path().join(format!("{mode}.json"));
            let job = format!(
                r#"{{"jobs": [{{"jobname": "a", "error": 0, "job options": {{"rw": "{mode}", "bs": "4k",
                "iodepth": "1", "direct": "1"}}, "{side}": {{"iops": 50, "clat_ns": {{"mean": 2e7}}}}}}]}}"#
            );
            std::fs::write(&path, job).unwrap();
            validate(drive, &[path]).unwrap().1.join(" ")
        };
        let is_noted = |drive, mode, side| notes_on(drive, mode, side).contains("is shingled");
        assert!(is_noted("st2000dm008", "randwrite", "write"));
        assert!(!is_noted("st2000dm008", "randread", "read"));
        assert!(!is_noted("st1000nm0011", "randwrite", "write"));
    }

    #[test]
    fn rows_have_short_names_in_tables() {
        assert_eq!(short("random reads of 4 KiB at depth 32"), "reads, 4 KiB, 32");
        assert_eq!(short("sequential writes of 1 MiB at depth 1"), "seq. writes, 1 MiB, 1");
        let beside = "beside others: random reads of 4 KiB at depth 1";
        assert_eq!(short(beside), "with others: reads, 4 KiB, 1");
    }

    #[test]
    fn a_sweep_over_a_part_of_the_drive_has_a_note() {
        const GIB: u64 = 1 << 30;
        assert_eq!(covers_a_part(None, Some(500 * GIB)), None);
        assert_eq!(covers_a_part(Some(480 * GIB), Some(500 * GIB)), None);
        let note = covers_a_part(Some(GIB), Some(500 * GIB)).unwrap();
        assert!(note.contains("covered 1 GiB of 500 GiB"), "{note}");
        assert!(covers_a_part(Some(GIB), None).unwrap().contains("may be a part of the drive"));
    }

    #[test]
    fn a_note_on_an_assumed_speed_names_the_option() {
        let note = with_option("the sweep does not show the rotational speed: 5400 rpm is assumed");
        assert!(note.contains("specify the true one with"), "{note}");
        assert_eq!(with_option("other"), "other");
    }
}
