//! Fits a solid-state drive to an ordinary fio sweep: random reads and writes by queue depth.
//!
//! A sweep shows what the host sees: the ceiling, two latencies and their shares, how many I/Os the
//! drive does at a time ([`side`]), and what the host itself adds. It does not show programs and erases,
//! spare flash, or what a worn drive does: those are assumed, or chosen so that they never hold back
//! what was measured, and the device file says so.

mod side;
mod simplex;
mod toml;

use forebay_core::Op;

use super::FitError;
use super::sweep::{Sweep, SweepRow};

pub use side::Side;
use side::{NVME_DEPTH, SATA_DEPTH, Search};

/// What a sweep does not show of a solid-state drive; what is not known is assumed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SsdKnown {
    /// The drive's name.
    pub name: String,
    /// Its size.
    pub capacity_bytes: Option<u64>,
}

/// A solid-state drive fitted to a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct SsdFit {
    /// What was given.
    pub known: SsdKnown,
    /// Of its reads.
    pub reads: Side,
    /// Of its writes, where any were measured.
    pub writes: Option<Side>,
    /// The rate of its link, and whether a row showed it.
    pub link_mb_per_s: (f64, bool),
    /// Commands it takes.
    pub queue_depth: u16,
    /// The greatest rate of writes that was measured, MB/s.
    pub written_mb_per_s: f64,
}

/// The largest I/O that shows more than the link.
const BLOCK_MAX: u32 = 128 << 10;
/// No SATA drive does more reads a second: the link carries 600 MB/s at most.
const SATA_IOPS_MAX: f64 = 130e3;
/// SATA's 6 Gb/s, less what its frames cost.
const SATA_MB_PER_S: f64 = 550.0;
/// Writes that a drive takes where none were measured.
const WRITTEN_MB_PER_S: f64 = 200.0;

/// Fits a drive to the random reads and writes of `sweep`; the same rows always give the same drive.
///
/// # Errors
/// Too few random reads.
pub fn fit(sweep: &Sweep, known: SsdKnown) -> Result<SsdFit, FitError> {
    let (reads, writes) = (sweep.random(Op::Read), sweep.random(Op::Write));
    if reads.len() < 2 {
        return Err(FitError::TooLittle {
            what: "the sweep of a solid-state drive",
            got: format!("random reads at {} queue depths", reads.len()),
            expected: "random reads at two depths or more; 1 to 64 are best",
        });
    }
    if let Some(row) = reads.iter().chain(&writes).find(|row| row.block_bytes > BLOCK_MAX) {
        return Err(FitError::TooLittle {
            what: "the sweep of a solid-state drive",
            got: format!("random I/O of {} bytes", row.block_bytes),
            expected: "random I/O of 4 KiB to 128 KiB: larger ones show the link alone",
        });
    }
    let greatest = |rows: &[&SweepRow]| rows.iter().map(|row| row.iops).fold(0.0, f64::max);
    let is_nvme = sweep.targets.iter().any(|target| target.contains("nvme"));
    let is_sata = !is_nvme && greatest(&reads).max(greatest(&writes)) < SATA_IOPS_MAX;
    let queue_depth = if is_sata { SATA_DEPTH } else { NVME_DEPTH };
    let link_mb_per_s = link(sweep, is_sata);
    let link = (link_mb_per_s.0 * 1e6) as u64;
    let side = |op, rows: &[&SweepRow]| Search::fit(op, rows, queue_depth, link);
    // One knows nothing of the other.
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

fn megabytes(row: &SweepRow) -> f64 {
    row.iops * f64::from(row.block_bytes) / 1e6
}

/// The link's rate: what large I/Os show, and never less than any row.
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
