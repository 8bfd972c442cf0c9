//! Fits a disk with a command queue to an ordinary fio sweep: random reads and writes by queue
//! depth.
//!
//! A sweep yields few figures, so few parameters are fitted, one after another:
//! - the seek times, from the mean and the 99th percentile at the lowest depth;
//! - how many commands ahead of the arm the drive decides, from the depth at which the rate begins
//!   to rise;
//! - the catch margin, from how much the rate rises;
//! - the starvation limit, from the longest latencies;
//! - the number of places in the write cache, from the rate of random writes;
//! - the order of admission to the cache, from the spread of write latencies.
//!
//! All other parameters are assumed or given. To evaluate a fit, use only some of the rows and
//! compare the others with the result ([`DiskFit::check`]).
//!
//! A sweep cannot distinguish the catch margin from the shortest seek, so the shortest seek is
//! assumed unless it is given.

mod figures;
mod rows;
mod search;
mod toml;

use forebay_core::device::drive::{Drive, DriveSpec};
use forebay_core::{Op, SpecError};

use super::{FitError, SweepRow};
use crate::closed::play_disk;

/// Properties of a disk that a sweep does not show. Properties that are None are assumed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskFacts {
    /// The name of the drive.
    pub name: String,
    /// The capacity.
    pub capacity_bytes: u64,
    /// The rotational speed in revolutions per minute.
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

/// The parameters of a fitted disk. Times are in ms.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskFigures {
    /// The rotational speed in revolutions per minute.
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
    /// How long before a sector the head must arrive for the drive to choose its command.
    pub catch_margin_ms: f64,
    /// The number of commands that are already committed when the drive chooses the next one; -1 if
    /// the drive first waits for the host's next command.
    pub ahead: i32,
    /// The waiting time after which other commands can no longer overtake a command.
    pub starvation_ms: f64,
    /// The number of separate runs of sectors that the write cache can hold; 0 means no write
    /// cache.
    pub places: u32,
    /// Whether the newest of the writes that wait for a place in the cache is admitted first.
    pub admits_newest: bool,
}

/// Rate errors above this share are reported.
pub const FAR_OFF: f64 = 0.1;
/// A rate error above this share shows that the model does not describe the drive.
pub const POOR_FIT: f64 = 0.25;

/// A measured row of a sweep and the model's result.
#[derive(Clone, Debug, PartialEq)]
pub struct RowCheck {
    /// The measured row.
    pub measured: SweepRow,
    /// The row as simulated.
    pub model: SweepRow,
}

impl RowCheck {
    /// Returns the relative error of the model's rate.
    pub fn iops_error(&self) -> f64 {
        self.model.iops / self.measured.iops - 1.0
    }

    /// Returns the relative error of the model's 99th percentile, or None if the percentile was not
    /// measured.
    pub fn p99_error(&self) -> Option<f64> {
        let (model, measured) = (self.model.p99_us?, self.measured.p99_us?);
        Some(model / measured - 1.0)
    }
}

/// A disk fitted to a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskFit {
    /// The properties that were given rather than fitted.
    pub known: DiskFacts,
    /// The fitted and assumed figures.
    pub figures: DiskFigures,
    /// Where each figure comes from, by its field name in [`DiskFigures`]: "fitted: ..." or
    /// "assumed: ...".
    pub(super) sources: Vec<(&'static str, String)>,
    /// A comparison of each fitted row with the model.
    pub checks: Vec<RowCheck>,
    /// Caveats of the fit: ignored rows, figures that no row determines, and contradictory rows.
    pub notes: Vec<String>,
}

impl DiskFit {
    /// Returns the complete specification of the fitted disk.
    ///
    /// # Errors
    /// Fails if the figures were changed to invalid ones.
    pub fn spec(&self) -> Result<DriveSpec, SpecError> {
        self.figures.spec(self.known.capacity_bytes)
    }

    /// Compares `rows` with the fitted disk. They may be other rows than the fitted ones.
    ///
    /// # Errors
    /// Fails if the figures were changed to invalid ones.
    pub fn check(&self, rows: &[SweepRow]) -> Result<Vec<RowCheck>, SpecError> {
        let drive = Drive::new(&self.spec()?)?;
        Ok(check(&drive, rows))
    }
}

/// Compares `rows` of random reads or writes with `drive`.
pub fn check<D: forebay_core::Device + Clone>(drive: &D, rows: &[SweepRow]) -> Vec<RowCheck> {
    let row = |measured: &SweepRow| RowCheck {
        model: play_disk(&mut drive.clone(), measured.op, measured.block_bytes, measured.depth),
        measured: measured.clone(),
    };
    rows.iter().map(row).collect()
}

/// Fits a disk to `rows` of random reads and writes, all of one size. The result is deterministic.
///
/// # Errors
/// Fails if the rows are too few, or implausible for a disk.
pub fn fit(rows: &[SweepRow], known: DiskFacts) -> Result<DiskFit, FitError> {
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
    fit.checks = fit.check(&rows).map_err(FitError::NoDisk)?;
    fit.notes.extend(fit.checks.iter().filter_map(far_off));
    fit.notes.extend(unlike_a_disk(&fit.checks));
    Ok(fit)
}

/// Explains why the model misses a row by far more than it misses rows of any known disk.
fn unlike_a_disk(checks: &[RowCheck]) -> Option<String> {
    checks.iter().any(|check| check.iops_error().abs() > POOR_FIT).then(|| {
        "this is not one disk, or not a disk of this kind: there may be several drives, a \
         controller with a cache, or shingled recording"
            .to_string()
    })
}

/// Describes the rate of a row if the model misses it by far.
pub(super) fn far_off(check: &RowCheck) -> Option<String> {
    let error = check.iops_error();
    (error.abs() > FAR_OFF).then(|| {
        format!(
            "{} at depth {}: {:.1} IOPS were measured and the model predicts {:.1}, {:+.0} %",
            noun(check.measured.op),
            check.measured.depth,
            check.measured.iops,
            check.model.iops,
            100.0 * error
        )
    })
}

/// Returns the plural noun for an operation.
pub(super) fn noun(op: Op) -> &'static str {
    if op == Op::Write { "random writes" } else { "random reads" }
}

#[cfg(test)]
mod tests;
