//! Fits a solid-state drive to an ordinary fio sweep: random reads and writes by queue depth.
//!
//! A sweep shows what the host sees: the maximum rate, two latencies and how frequent they are, how
//! many I/Os the drive processes at a time ([`search`]), and the host's own overhead. It shows
//! neither program and erase times nor the spare flash or the behavior of a worn drive. These are
//! assumed, or chosen so that they never limit the measured rates, and the device file says so.

mod aims;
mod quick;
mod search;
mod side;
mod simplex;
mod toml;

use forebay_core::Op;
use forebay_words::plural::counted;
use forebay_words::quantities::seconds;

use super::{FitError, RowChecked, Sweep, SweepRow, far_off, noun};

use search::Search;
pub use side::Side;
use side::{NVME_DEPTH, SATA_DEPTH};

/// Properties of a solid-state drive that a sweep does not show. The capacity is assumed if it is
/// None.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SsdFacts {
    /// The name of the drive.
    pub name: String,
    /// The capacity in bytes.
    pub capacity_bytes: Option<u64>,
}

/// A solid-state drive fitted to a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct SsdFit {
    /// The properties that were given rather than fitted.
    pub known: SsdFacts,
    /// The fitted parameters of reads.
    pub reads: Side,
    /// The fitted parameters of writes; None if no writes were measured.
    pub writes: Option<Side>,
    /// The rate of the link in MB/s, and whether a row determined it.
    pub link_mb_per_s: (f64, bool),
    /// The number of commands that the drive accepts.
    pub queue_depth: u16,
    /// The maximum measured rate of writes, in MB/s.
    pub written_mb_per_s: f64,
}

/// The maximum size of I/Os whose rate depends on more than the link.
const BLOCK_MAX: u32 = 128 << 10;
/// The maximum number of reads per second of a SATA drive, whose link carries at most 600 MB/s.
const SATA_IOPS_MAX: f64 = 130e3;
/// The net rate of SATA at 6 Gb/s.
const SATA_MB_PER_S: f64 = 550.0;
/// The assumed maximum rate of writes if none were measured, in MB/s.
const WRITTEN_MB_PER_S: f64 = 200.0;

/// Fits a drive to the random reads and writes in `sweep`. The result is deterministic.
///
/// # Errors
/// Fails if there are too few random reads.
pub fn fit(sweep: &Sweep, known: SsdFacts) -> Result<SsdFit, FitError> {
    let (reads, writes) = (sweep.random(Op::Read), sweep.random(Op::Write));
    if reads.len() < 2 {
        return Err(FitError::TooLittle {
            what: "the sweep of a solid-state drive",
            got: format!("random reads at {}", counted(reads.len() as u64, "queue depth")),
            expected: "random reads at two depths or more; 1 to 64 are best",
        });
    }
    if let Some(row) = reads.iter().chain(&writes).find(|row| row.block_bytes > BLOCK_MAX) {
        return Err(FitError::TooLittle {
            what: "the sweep of a solid-state drive",
            got: format!("random I/O of {} bytes", row.block_bytes),
            expected: "random I/O of 4 KiB to 128 KiB: larger I/Os measure only the link",
        });
    }
    let greatest = |rows: &[&SweepRow]| rows.iter().map(|row| row.iops).fold(0.0, f64::max);
    let is_nvme = sweep.targets.iter().any(|target| target.contains("nvme"));
    let is_sata = !is_nvme && greatest(&reads).max(greatest(&writes)) < SATA_IOPS_MAX;
    let queue_depth = if is_sata { SATA_DEPTH } else { NVME_DEPTH };
    let link_mb_per_s = link(sweep, is_sata);
    let link = (link_mb_per_s.0 * 1e6) as u64;
    let side = |op, rows: &[&SweepRow]| Search::fit(op, rows, queue_depth, link);
    // The fits of reads and writes are independent.
    let (reads, writes) = std::thread::scope(|scope| {
        let writes = scope.spawn(|| side(Op::Write, &writes));
        (side(Op::Read, &reads), writes.join().ok().flatten())
    });
    let Some(reads) = reads else {
        return Err(FitError::TooLittle {
            what: "the sweep of a solid-state drive",
            got: "no random reads".to_string(),
            expected: "random reads at queue depths 1 to 64",
        });
    };
    let written = sweep.rows.iter().chain(&sweep.sequential).filter(|row| row.op == Op::Write);
    let written = written.map(megabytes).fold(0.0, f64::max);
    let written_mb_per_s = if written > 0.0 { written } else { WRITTEN_MB_PER_S };
    Ok(SsdFit { known, reads, writes, link_mb_per_s, queue_depth, written_mb_per_s })
}

/// Errors of a 99th percentile above this share are reported.
pub const P99_FAR_OFF: f64 = 0.5;

/// Returns notes on a fit to `sweep`: rows that the model misses by far, and a missing row that
/// would show whether the host sleeps. `checked` is the comparison of the fit with the sweep.
pub fn notes(sweep: &Sweep, checked: &[RowChecked]) -> Vec<String> {
    let fitted = checked.iter().filter(|row| row.is_fitted);
    let missed = fitted.flat_map(|row| far_off(&row.check).into_iter().chain(p99_far_off(row)));
    let ops = [Op::Read, Op::Write];
    let implausible = ops.into_iter().flat_map(|op| implausible(sweep, op));
    missed
        .chain(implausible)
        .chain(ops.into_iter().filter_map(|op| without_depth_2(sweep, op)))
        .collect()
}

/// Describes the 99th percentiles that a fit leaves out.
fn implausible(sweep: &Sweep, op: Op) -> Vec<String> {
    let rows = sweep.random(op);
    let kept = aims::plausible(&rows);
    let left_out = rows.iter().zip(kept).filter(|(row, kept)| row.p99_us != kept.p99_us);
    let described = left_out.map(|(row, _)| {
        format!(
            "the 99th percentile of {} at depth {} was not fitted, because it is farther above the \
             median than at a greater depth",
            noun(op),
            row.depth
        )
    });
    described.collect()
}

/// Describes the 99th percentile of a row if the model misses it by far.
fn p99_far_off(row: &RowChecked) -> Option<String> {
    let check = &row.check;
    let error = check.p99_error().filter(|error| error.abs() > P99_FAR_OFF)?;
    let of = |row: &SweepRow| row.p99_us.map(|us| seconds(us / 1e6));
    let (measured, model) = (of(&check.measured)?, of(&check.model)?);
    Some(format!(
        "{} at depth {}: a 99th percentile of {measured} was measured and the model predicts {model}, \
         {:+.0} %",
        noun(check.measured.op),
        check.measured.depth,
        100.0 * error
    ))
}

/// Returns a note if only a row at depth 2 would show whether the host sleeps at depth 1.
fn without_depth_2(sweep: &Sweep, op: Op) -> Option<String> {
    let rows = sweep.random(op);
    let depths: Vec<u32> = rows.iter().map(|row| row.depth).collect();
    (depths.len() > 1 && depths[0] == 1 && depths[1] > 2).then(|| {
        format!(
            "no row of {} at depth 2, so it is uncertain how late the host is at depth 1: rates at \
             depth 2 may be a tenth off",
            noun(op)
        )
    })
}

fn megabytes(row: &SweepRow) -> f64 {
    row.iops * f64::from(row.block_bytes) / 1e6
}

/// Returns the rate of the link: that of large I/Os, but no less than that of any row.
fn link(sweep: &Sweep, is_sata: bool) -> (f64, bool) {
    let rows = || sweep.rows.iter().chain(&sweep.sequential);
    let most = rows().map(megabytes).fold(0.0, f64::max);
    let large = rows().filter(|row| row.block_bytes >= 1 << 16).map(megabytes).fold(0.0, f64::max);
    if large > 0.0 && large >= 0.9 * most {
        return (large * 1.02, true);
    }
    let usual = if is_sata { SATA_MB_PER_S } else { 3_000.0 };
    (usual.max(1.3 * most), false)
}

#[cfg(test)]
mod tests;
