//! Fits a drive model to fio measurements (docs/measure-a-drive.md): this module fits a disk to
//! latency logs; [`sweep`], [`disk`] and [`ssd`] fit disks and solid-state drives to results at
//! several queue depths.
//!
//! The logs contain four kinds of reads at queue depth 1, distinguished by file name: `zones` reads
//! sequentially at many positions, `back` reads block by block backwards, `near` reads forward with
//! gaps, and `seek` reads at random. They determine, in this order: the rates by position and the
//! time of a track switch; the time of a revolution (a backward step takes one revolution minus one
//! block); the command overhead (the smallest gap that does not cost a revolution); and the seek
//! curve, which is the lower envelope of random latencies, because rotation spreads latencies
//! evenly over one revolution above it.
//!
//! Every fitted figure has a standard error; the standard errors of the seek curve come from a
//! seeded bootstrap. The device file marks figures that reads at depth 1 cannot show (heads,
//! writes, cache, queue, power).

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

use check::{RowChecked, named};
use disk::{RowCheck, far_off, noun};
use forebay_core::SpecError;
use forebay_trace::whole;
use sweep::{MixedJob, Sweep, SweepRow};
use zones::cylinder;

/// The reason why a drive could not be fitted.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// A log contains a malformed line.
    #[error("{}, line {line}: got '{got}', expected {expected}; log with write_lat_log and log_offset=1", path.display())]
    Malformed {
        /// The log.
        path: PathBuf,
        /// The line number, counted from 1.
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
    /// A file does not contain usable fio results.
    #[error("{}: got {got}, expected {expected}; {hint}", path.display())]
    Results {
        /// The file with the results.
        path: PathBuf,
        /// The invalid text.
        got: String,
        /// The expected text.
        expected: &'static str,
        /// What the user can do about it.
        hint: &'static str,
    },
    /// There are too few measurements for a fit.
    #[error("{what}: got {got}, expected {expected}; docs/measure-a-drive.md has the fio jobs")]
    TooLittle {
        /// The kind of measurement.
        what: &'static str,
        /// The available measurements.
        got: String,
        /// The measurements that are required.
        expected: &'static str,
    },
    /// Reads are too fast for a disk.
    #[error("random reads: {what}; docs/measure-a-drive.md has the fio jobs")]
    TooFast {
        /// The time of a read, and what was expected.
        what: String,
    },
    /// The given figures do not describe a disk.
    #[error("the disk cannot be modeled: {0}; correct its capacity, data surfaces or speed")]
    NoDisk(SpecError),
}

/// The maximum amount of data per surface of a disk to assume.
const SURFACE_BYTES: u64 = 2_000_000_000_000;

/// Returns the number of data surfaces to assume for a disk: so many that none holds more than a
/// real surface does, but not fewer than `least`.
pub fn surfaces(capacity_bytes: u64, least: u32) -> u32 {
    let needed = capacity_bytes.div_ceil(SURFACE_BYTES).clamp(1, 64);
    least.max(needed as u32)
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

/// The measured latencies by kind of read. Each log is kept separate and in the order of its lines.
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
    /// The number of log lines that are not reads.
    pub lines_skipped: u64,
    /// The logs that were read.
    pub paths: Vec<PathBuf>,
}

/// The maximum total size of the logs. This suffices for two million reads, which take a drive
/// hours.
const LOGS_BYTES_MAX: u64 = 64 << 20;
/// The name of these files in messages.
const WHAT: &str = "fio's latency logs of a drive";

/// The share of the capacity that the logs must cover, because the jobs read the whole drive.
const REACH_LEAST: f64 = 0.8;

impl Measurements {
    /// Returns the byte offset at which the last read ends.
    fn end(&self) -> u64 {
        let logs = [&self.zones, &self.back, &self.near, &self.seek];
        let samples = logs.into_iter().flatten().flatten();
        samples.map(|sample| sample.offset + u64::from(sample.len)).max().unwrap_or(0)
    }

    /// Returns an error if the capacity contradicts the offsets in the logs.
    fn check_capacity(&self, capacity_bytes: u64) -> Result<(), FitError> {
        let end = self.end();
        if end > capacity_bytes {
            return Err(FitError::TooLittle {
                what: "the drive's capacity",
                got: format!("{capacity_bytes} bytes, but the logs read up to byte {end}"),
                expected: "no less (blockdev --getsize64 DEVICE)",
            });
        }
        // Missing random reads are reported elsewhere.
        if !self.seek.is_empty() && (end as f64) < REACH_LEAST * capacity_bytes as f64 {
            return Err(FitError::TooLittle {
                what: "the drive's capacity",
                got: format!("{capacity_bytes} bytes, but the logs end at byte {end}"),
                expected: "logs over 80 % of it or more (blockdev --getsize64 DEVICE)",
            });
        }
        Ok(())
    }

    /// Reads the latency logs (`NAME_lat.N.log`) in `folder`. The beginning of a log's name
    /// determines its kind.
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
            // Skip fio's separate logs of submission and completion latencies.
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
        if all.paths.is_empty() {
            return Err(FitError::TooLittle {
                what: "the folder",
                got: "neither fio's results nor its latency logs".into(),
                expected: "NAME.json (--output-format=json), or zones*_lat.*.log and seek*_lat.*.log",
            });
        }
        Ok(all)
    }
}

/// Properties of the drive that reads cannot show.
#[derive(Clone, Debug, PartialEq)]
pub struct DriveFacts {
    /// The name of the drive.
    pub name: String,
    /// The capacity.
    pub capacity_bytes: u64,
    /// The number of data surfaces. It hardly affects the fit, because seek distances are shares of
    /// the disk.
    pub heads: u32,
}

/// A disk fitted to latency logs.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The properties that were given rather than measured.
    pub known: DriveFacts,
    /// The time of a revolution, in ms.
    pub revolution_ms: Figure,
    /// The time lost at the end of each track, in ms.
    pub switch_ms: Figure,
    /// The command overhead, including that of the host, in ms.
    pub overhead_ms: Figure,
    /// The fitted zones, from the outer edge inward.
    pub zones: Vec<ZoneFit>,
    /// The seek curve.
    pub seek: SeekFit,
    /// The number of random reads that were ignored because they were too fast for a disk, so the
    /// drive's cache must have answered them.
    pub cached: u64,
    /// The number of log lines that were ignored because they are not reads.
    pub lines_skipped: u64,
}

/// Fits a disk to `measurements`. The result is deterministic.
pub fn fit(measurements: &Measurements, known: DriveFacts) -> Result<Fitted, FitError> {
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
