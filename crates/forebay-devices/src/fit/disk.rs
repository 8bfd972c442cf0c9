//! Fits a disk with a command queue to an ordinary fio sweep: random reads and writes by queue depth.
//!
//! A sweep has few figures, so few are fitted, one after another: the seeks from the row at the least
//! depth (its mean and its 99th percentile); how far ahead of the arm the drive chooses, from where
//! depth begins to help; the catch margin, from how much it helps; the drive's patience, from the
//! longest latencies; the places of the write cache, from the rate of random writes; and which write is
//! admitted first, from their spread. All else is assumed or given. Whoever wants to judge the fit
//! gives it some of the rows and compares the others ([`DiskFit::check`]).
//!
//! The margin trades against the shortest seek: a sweep shows only both together, so the shortest seek
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

/// What a sweep does not show of a disk; what is not known is assumed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskKnown {
    /// The drive's name.
    pub name: String,
    /// Its size.
    pub capacity_bytes: u64,
    /// Turns a minute.
    pub rpm: Option<f64>,
    /// Data surfaces.
    pub heads: Option<u32>,
    /// The seek over one cylinder, ms.
    pub track_to_track_ms: Option<f64>,
    /// By how much longer a write seeks, ms.
    pub write_settle_ms: Option<f64>,
    /// Sustained rates at the outer and the inner edge, MB/s.
    pub sustained_mb_per_s: Option<[f64; 2]>,
}

/// The figures of a fitted disk. Times are in ms.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskFigures {
    /// Turns a minute.
    pub rpm: f64,
    /// Data surfaces.
    pub heads: u32,
    /// Sustained rates at the outer and the inner edge, MB/s.
    pub sustained_mb_per_s: [f64; 2],
    /// The seek over one cylinder.
    pub track_to_track_ms: f64,
    /// The average seek.
    pub average_ms: f64,
    /// The longest seek.
    pub full_stroke_ms: f64,
    /// By how much longer a write seeks.
    pub write_settle_ms: f64,
    /// Commands the drive takes.
    pub queue_depth: u32,
    /// What the drive leaves itself when it ranks commands.
    pub catch_margin_ms: f64,
    /// Commands committed before the next is chosen; -1: the drive waits for the host's answer.
    pub ahead: i32,
    /// How long a command is passed over.
    pub starvation_ms: f64,
    /// Runs of sectors that the write cache keeps apart; 0: no write cache.
    pub places: u32,
    /// Whether the last write that waits for a place gets it.
    pub admits_newest: bool,
}

/// A rate that is farther off than this is told.
const FAR_OFF: f64 = 0.1;

/// A row of a sweep as it was measured and as the model has it.
#[derive(Clone, Debug, PartialEq)]
pub struct RowCheck {
    /// The measured row.
    pub measured: SweepRow,
    /// The same row on the model.
    pub model: SweepRow,
}

impl RowCheck {
    /// By what share the model does more I/Os.
    pub fn iops_error(&self) -> f64 {
        self.model.iops / self.measured.iops - 1.0
    }

    /// By what share the model's 99th percentile is longer; none where it was not measured.
    pub fn p99_error(&self) -> Option<f64> {
        let (model, measured) = (self.model.p99_us?, self.measured.p99_us?);
        Some(model / measured - 1.0)
    }
}

/// A disk fitted to a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskFit {
    /// What was given.
    pub known: DiskKnown,
    /// What the disk is taken to be.
    pub figures: DiskFigures,
    /// Where each figure comes from, by its name in [`DiskFigures`]: "fitted: ..." or "assumed: ...".
    pub(super) sources: Vec<(&'static str, String)>,
    /// Each row that was fitted to, as the fitted disk has it.
    pub checks: Vec<RowCheck>,
    /// What to keep in mind of the fit: rows left out, figures that no row shows, rows that do not
    /// go together.
    pub notes: Vec<String>,
}

impl DiskFit {
    /// All figures of the fitted disk.
    pub fn spec(&self) -> DriveSpec {
        self.figures.spec(self.known.capacity_bytes)
    }

    /// Each of `rows`, which need not be those it was fitted to, as the fitted disk has it.
    ///
    /// # Errors
    /// Figures that were changed to what makes no disk.
    pub fn check(&self, rows: &[SweepRow]) -> Result<Vec<RowCheck>, SpecError> {
        let drive = Drive::new(&self.spec())?;
        Ok(check(&drive, rows))
    }
}

/// Each of `rows`, which are random reads or writes, as `drive` has it.
pub fn check<D: forebay_core::Device + Clone>(drive: &D, rows: &[SweepRow]) -> Vec<RowCheck> {
    let row = |measured: &SweepRow| RowCheck {
        model: play_disk(&mut drive.clone(), measured.op, measured.block_bytes, measured.depth),
        measured: measured.clone(),
    };
    rows.iter().map(row).collect()
}

/// Fits a disk to `rows`, random reads and writes of one size; the same rows always give the same disk.
///
/// # Errors
/// Rows that no disk measures, or too few of them.
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

/// What to say of a row that the model misses.
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

/// What a fit has of one operation, in words.
fn noun(op: Op) -> &'static str {
    if op == Op::Write { "random writes" } else { "random reads" }
}

#[cfg(test)]
mod tests;
