//! Fits a disk with a command queue to an ordinary fio sweep: random reads and writes by queue
//! depth.
//!
//! A sweep has few figures, so few parameters are fitted, one after another: the seeks, from the
//! mean and 99th percentile at the least depth; how far ahead of the arm the drive chooses
//! commands, from the depth at which the rate begins to rise; the catch margin, from how much it
//! rises; the starvation limit, from the longest latencies; the number of places in the write
//! cache, from the rate of random writes; and the order of admission to it, from the spread of
//! their latencies. Everything else is assumed or given. To evaluate a fit, fit some of the rows
//! and compare the others ([`DiskFit::check`]).
//!
//! The catch margin and the shortest seek cannot be distinguished by a sweep, so the shortest seek
//! is assumed unless it is given.

mod figures;
mod rows;
mod search;
mod toml;

use forebay_core::device::drive::{Drive, DriveSpec};
use forebay_core::{Op, SpecError};

use super::FitError;
use super::sweep::SweepRow;
use crate::closed::play_disk;

/// Properties of a disk that a sweep does not show. Unknown ones are assumed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskKnown {
    /// The name of the drive.
    pub name: String,
    /// The capacity.
    pub capacity_bytes: u64,
    /// Revolutions per minute.
    pub rpm: Option<f64>,
    /// The number of data surfaces.
    pub heads: Option<u32>,
    /// The seek time over one cylinder, in ms.
    pub track_to_track_ms: Option<f64>,
    /// The additional seek time of writes, in ms.
    pub write_settle_ms: Option<f64>,
    /// The sustained rates at the outer and the inner edge, in MB/s.
    pub sustained_mb_per_s: Option<[f64; 2]>,
}

/// The figures of a fitted disk, with times in ms.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskFigures {
    /// Revolutions per minute.
    pub rpm: f64,
    /// The number of data surfaces.
    pub heads: u32,
    /// The sustained rates at the outer and the inner edge, in MB/s.
    pub sustained_mb_per_s: [f64; 2],
    /// The seek time over one cylinder.
    pub track_to_track_ms: f64,
    /// The average seek time.
    pub average_ms: f64,
    /// The longest seek time.
    pub full_stroke_ms: f64,
    /// The additional seek time of writes.
    pub write_settle_ms: f64,
    /// The number of commands that the drive accepts.
    pub queue_depth: u32,
    /// The time that the drive reserves before a sector when it orders commands.
    pub catch_margin_ms: f64,
    /// The number of commands committed before the next is chosen; -1 if the drive waits for the
    /// host's answer.
    pub ahead: i32,
    /// The time after which a command is no longer passed over.
    pub starvation_ms: f64,
    /// The number of separate runs of sectors in the write cache; 0 means no write cache.
    pub places: u32,
    /// Whether the most recent of the writes waiting for a place is admitted first.
    pub admits_newest: bool,
}

/// Errors of a rate beyond this share are reported.
const FAR_OFF: f64 = 0.1;

/// A measured row of a sweep, and the model's.
#[derive(Clone, Debug, PartialEq)]
pub struct RowCheck {
    /// The measured row.
    pub measured: SweepRow,
    /// The row on the model.
    pub model: SweepRow,
}

impl RowCheck {
    /// Returns the relative error of the model's rate.
    pub fn iops_error(&self) -> f64 {
        self.model.iops / self.measured.iops - 1.0
    }

    /// Returns the relative error of the model's 99th percentile; None if it was not measured.
    pub fn p99_error(&self) -> Option<f64> {
        let (model, measured) = (self.model.p99_us?, self.measured.p99_us?);
        Some(model / measured - 1.0)
    }
}

/// A disk fitted to a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskFit {
    /// The given properties.
    pub known: DiskKnown,
    /// The fitted and assumed figures.
    pub figures: DiskFigures,
    /// The source of each figure, by its name in [`DiskFigures`]: "fitted: ..." or "assumed: ...".
    pub(super) sources: Vec<(&'static str, String)>,
    /// Each fitted row compared with the model.
    pub checks: Vec<RowCheck>,
    /// Caveats of the fit: omitted rows, figures that no row determines, contradictory rows.
    pub notes: Vec<String>,
}

impl DiskFit {
    /// Returns all figures of the fitted disk.
    pub fn spec(&self) -> DriveSpec {
        self.figures.spec(self.known.capacity_bytes)
    }

    /// Compares `rows` with the fitted disk; they need not be those that were fitted.
    ///
    /// # Errors
    /// The figures were changed to invalid ones.
    pub fn check(&self, rows: &[SweepRow]) -> Result<Vec<RowCheck>, SpecError> {
        let drive = Drive::new(&self.spec())?;
        Ok(check(&drive, rows))
    }
}

/// Compares `rows`, which are random reads or writes, with `drive`.
pub fn check<D: forebay_core::Device + Clone>(drive: &D, rows: &[SweepRow]) -> Vec<RowCheck> {
    let row = |measured: &SweepRow| RowCheck {
        model: play_disk(&mut drive.clone(), measured.op, measured.block_bytes, measured.depth),
        measured: measured.clone(),
    };
    rows.iter().map(row).collect()
}

/// Fits a disk to `rows`, random reads and writes of one size. The result is deterministic.
///
/// # Errors
/// The rows are implausible for a disk, or too few.
pub fn fit(rows: &[SweepRow], known: DiskKnown) -> Result<DiskFit, FitError> {
    if known.capacity_bytes < 1 << 30 {
        return Err(FitError::TooLittle {
            what: "the drive's capacity",
            got: format!("{} bytes", known.capacity_bytes),
            expected: "1 GiB or more (blockdev --getsize64 DEVICE)",
        });
    }
    let mut notes = Vec::new();
    let rows = rows::sorted(rows, &mut notes)?;
    let mut search = search::Search::new(&rows, &known, notes)?;
    search.fit_seeks()?;
    search.fit_queue()?;
    search.fit_patience()?;
    search.fit_writes()?;
    let search::Search { figures, sources, notes, .. } = search;
    let mut fit = DiskFit { known, figures, sources, checks: Vec::new(), notes };
    let rows: Vec<SweepRow> = rows.reads.iter().chain(&rows.writes).cloned().collect();
    fit.checks = fit.check(&rows).map_err(search::no_disk)?;
    fit.notes.extend(fit.checks.iter().filter_map(far_off));
    Ok(fit)
}

/// Describes a row that the model misses.
fn far_off(check: &RowCheck) -> Option<String> {
    let error = check.iops_error();
    (error.abs() > FAR_OFF).then(|| {
        format!(
            "{} at depth {}: {:.1} IOPS were measured and the model does {:.1}, {:+.0} %",
            noun(check.measured.op),
            check.measured.depth,
            check.measured.iops,
            check.model.iops,
            100.0 * error
        )
    })
}

/// Returns the plural of an operation in words.
fn noun(op: Op) -> &'static str {
    if op == Op::Write { "random writes" } else { "random reads" }
}

#[cfg(test)]
mod tests;
