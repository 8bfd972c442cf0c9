//! Fits a drive model to fio measurements (docs/measure-a-drive.md): a disk to latencies, in this
//! module; a disk or a solid-state drive to results at several queue depths ([`sweep`], [`disk`],
//! [`ssd`]).
//!
//! Four kinds of reads at queue depth 1 are distinguished by the names of their logs: `zones` reads
//! sequentially at many positions, `back` reads block by block backwards, `near` reads forward with
//! gaps, and `seek` reads at random. From these follow, in this order: rates by position and the
//! time of a track switch; the time of a revolution (a backward step takes one revolution minus one
//! block); the command overhead (the smallest gap that does not cost a revolution); and the seek
//! curve, as the lower envelope of random latencies, above which rotation spreads them evenly over
//! one revolution.
//!
//! Every fitted figure has a standard error; those of the seek curve come from a seeded bootstrap.
//! Figures that reads at depth 1 cannot show (heads, writes, cache, queue, power) are marked in the
//! file.

pub mod check;
pub mod disk;
mod log;
mod robust;
mod rotation;
mod seek;
pub mod ssd;
pub mod sweep;
mod write;
mod zones;

use std::fmt;
use std::path::{Path, PathBuf};

pub use log::{Sample, parse};
pub use seek::SeekFit;
pub use zones::ZoneFit;

use forebay_trace::whole;

/// Why a drive could not be fitted.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// A log contains an invalid line.
    #[error("{}, line {line}: got '{got}', expected {expected}; log with write_lat_log and log_offset=1", path.display())]
    Malformed {
        /// The log.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The invalid text.
        got: String,
        /// The expected text.
        expected: &'static str,
    },
    /// A file or folder cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The operating-system error.
        source: std::io::Error,
    },
    /// A file does not contain fio results.
    #[error("{}: got {got}, expected {expected}; run fio with --output-format=json", path.display())]
    Results {
        /// The file.
        path: PathBuf,
        /// The invalid text.
        got: String,
        /// The expected text.
        expected: &'static str,
    },
    /// There are too few measurements.
    #[error("{what}: got {got}, expected {expected}; docs/measure-a-drive.md has the fio jobs")]
    TooLittle {
        /// The kind of measurement.
        what: &'static str,
        /// What was available.
        got: String,
        /// What is required.
        expected: &'static str,
    },
}

/// A fitted figure and its standard error, in the same unit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figure {
    /// The estimate.
    pub value: f64,
    /// The standard error.
    pub error: f64,
}

impl Figure {
    fn scaled(self, by: f64) -> Figure {
        Figure { value: self.value * by, error: self.error * by }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.4} ± {:.4}", self.value, self.error)
    }
}

/// Latencies by kind of read; each log is separate and in the order of its lines.
#[derive(Clone, Debug, Default)]
pub struct Measurements {
    /// Sequential reads at many positions.
    pub zones: Vec<Vec<Sample>>,
    /// Backward reads, block by block.
    pub back: Vec<Vec<Sample>>,
    /// Forward reads with gaps.
    pub near: Vec<Vec<Sample>>,
    /// Random reads.
    pub seek: Vec<Vec<Sample>>,
    /// The number of lines that are not reads.
    pub lines_skipped: u64,
    /// The logs that were read.
    pub paths: Vec<PathBuf>,
}

/// The maximum total size of the logs: two million reads, which take a drive hours.
const LOGS_BYTES_MAX: u64 = 64 << 20;
/// The description of the logs in messages.
const WHAT: &str = "fio's latency logs of a drive";

/// The share of the capacity that the logs must reach, because the jobs read the whole drive.
const REACH_LEAST: f64 = 0.8;

impl Measurements {
    /// Returns the end of the last read.
    fn end(&self) -> u64 {
        let logs = [&self.zones, &self.back, &self.near, &self.seek];
        let samples = logs.into_iter().flatten().flatten();
        samples.map(|sample| sample.offset + u64::from(sample.len)).max().unwrap_or(0)
    }

    /// Rejects a capacity that contradicts the offsets in the logs.
    fn check_capacity(&self, capacity_bytes: u64) -> Result<(), FitError> {
        let end = self.end();
        if end > capacity_bytes {
            return Err(FitError::TooLittle {
                what: "the drive's capacity",
                got: format!("{capacity_bytes} bytes, but the logs read up to byte {end}"),
                expected: "no less (blockdev --getsize64 DEVICE)",
            });
        }
        // Without random reads, a different error is reported.
        if !self.seek.is_empty() && (end as f64) < REACH_LEAST * capacity_bytes as f64 {
            return Err(FitError::TooLittle {
                what: "the drive's capacity",
                got: format!("{capacity_bytes} bytes, but the logs end at byte {end}"),
                expected: "logs over 80 % of it or more (blockdev --getsize64 DEVICE)",
            });
        }
        Ok(())
    }

    /// Reads the latency logs (`NAME_lat.N.log`) in `folder` whose names begin with the kind.
    pub fn read(folder: &Path) -> Result<Measurements, FitError> {
        let io = |source| FitError::Io { path: folder.to_path_buf(), source };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(io)? {
            paths.push(entry.map_err(io)?.path());
        }
        paths.sort();
        let mut all = Measurements::default();
        let mut left = LOGS_BYTES_MAX;
        for path in paths {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            let name = name.unwrap_or_default();
            // fio also writes separate submission and completion latencies.
            if !name.ends_with(".log") || !name.contains("_lat.") {
                continue;
            }
            let kinds = [
                ("zones", &mut all.zones),
                ("back", &mut all.back),
                ("near", &mut all.near),
                ("seek", &mut all.seek),
            ];
            if let Some((_, logs)) = kinds.into_iter().find(|(kind, _)| name.starts_with(kind)) {
                let text = whole::read(&path, left, WHAT)
                    .map_err(|source| FitError::Io { path: path.clone(), source })?;
                left -= text.len() as u64;
                let (samples, skipped) = parse(&path, &text)?;
                logs.push(samples);
                all.lines_skipped += skipped;
                all.paths.push(path);
            }
        }
        Ok(all)
    }
}

/// Properties that reads cannot show.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// The name of the drive.
    pub name: String,
    /// The capacity.
    pub capacity_bytes: u64,
    /// The number of data surfaces. Seek distances are shares of the disk, so the fit hardly
    /// depends on it.
    pub heads: u32,
}

/// A fitted disk.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The given properties.
    pub known: Known,
    /// The time of a revolution, in ms.
    pub revolution_ms: Figure,
    /// The time lost at the end of each track, in ms.
    pub switch_ms: Figure,
    /// The command overhead, including that of the host, in ms.
    pub overhead_ms: Figure,
    /// Rates from the outer edge inward.
    pub zones: Vec<ZoneFit>,
    /// The seek curve.
    pub seek: SeekFit,
    /// The number of random reads that were too fast for a disk, and were omitted because the
    /// drive's cache answered them.
    pub cached: u64,
    /// The number of log lines that are not reads.
    pub lines_skipped: u64,
}

/// Fits a disk to `measurements`. The result is deterministic.
pub fn fit(measurements: &Measurements, known: Known) -> Result<Fitted, FitError> {
    if known.capacity_bytes == 0 || known.heads == 0 || known.heads > 64 {
        return Err(FitError::TooLittle {
            what: "the drive",
            got: format!("{} bytes, {} heads", known.capacity_bytes, known.heads),
            expected: "its capacity in bytes and 1 to 64 heads",
        });
    }
    measurements.check_capacity(known.capacity_bytes)?;
    let spots = zones::spots(&measurements.zones)?;
    let media = |offset| zones::media_rate(&spots, offset);
    let revolution = rotation::revolution(&measurements.back, media)?;
    let overhead = rotation::overhead(&measurements.near, revolution.value, media)?;
    let switch = zones::switch(&spots, revolution.value);
    let layout = zones::layout(&spots, &known, revolution.value + switch.value);
    let (seek, cached) = seek::fit(
        &measurements.seek,
        &seek::Frame {
            zones: &layout,
            heads: known.heads,
            revolution_ns: revolution.value,
            overhead_ns: overhead.value,
            media: &media,
        },
    )?;
    Ok(Fitted {
        known,
        revolution_ms: revolution.scaled(1e-6),
        switch_ms: switch.scaled(1e-6),
        overhead_ms: overhead.scaled(1e-6),
        zones: layout,
        seek,
        cached,
        lines_skipped: measurements.lines_skipped,
    })
}

#[cfg(test)]
mod tests;
