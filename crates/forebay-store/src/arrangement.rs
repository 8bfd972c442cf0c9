//! The arrangements of disks that the paper compares.

use std::ops::ControlFlow;

use forebay_core::{Device, Nanos};
use serde::Serialize;

use crate::simulated::{Simulated, Time, simulate_while};
use crate::{Config, Load, OperationError, StageChange, Transformation};

/// An arrangement of the disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrangement {
    /// Workload Shifting's enhanced model: no disk is read and written in the same stage.
    Enhanced,
    /// Workload Shifting's basic model: a log is transformed on its own disk.
    Basic,
    /// RAID 0: all disks form a single one, which contains the log and its segments.
    Raid0 {
        /// The chunk size in bytes.
        chunk_bytes: u64,
    },
}

impl Arrangement {
    /// Returns the name: `enhanced`, `basic`, `raid0`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Arrangement::Enhanced => "enhanced",
            Arrangement::Basic => "basic",
            Arrangement::Raid0 { .. } => "raid0",
        }
    }
}

/// The results of one load on one arrangement, with and without transformation.
#[derive(Clone, Debug)]
pub(crate) struct Compared {
    /// The arrangement of the disks.
    pub arrangement: Arrangement,
    /// The run in which puts are only logged.
    pub logged: Simulated,
    /// The run in which logs are also transformed.
    pub transformed: Simulated,
}

impl Compared {
    /// Returns how much longer the execution takes with transformation, in percent (the paper's
    /// rate of increase in execution time).
    pub(crate) fn slowed_percent(&self) -> f64 {
        let (logged, transformed) = (self.logged.execution, self.transformed.execution);
        (transformed.as_secs_f64() / logged.as_secs_f64() - 1.0) * 100.0
    }

    /// Returns the figures of both runs.
    pub(crate) fn rows(&self) -> [ArrangementRow; 2] {
        [self.row(&self.logged, None), self.row(&self.transformed, Some(self.slowed_percent()))]
    }

    fn row(&self, run: &Simulated, slowed_percent: Option<f64>) -> ArrangementRow {
        let figures = run.figures;
        let a_log = |time: Nanos| time.as_millis_f64() / figures.logs.max(1) as f64;
        let written = figures.logged_bytes + figures.transformed_bytes + figures.merged_bytes;
        let seconds = run.execution.as_secs_f64();
        ArrangementRow {
            arrangement: self.arrangement.name(),
            transformation: slowed_percent.is_some(),
            execution_s: seconds,
            throughput_mb_per_s: figures.put_bytes as f64 / seconds / 1e6,
            slowed_percent,
            put_p50_ms: run.latency(0.5).as_millis_f64(),
            put_p99_ms: run.latency(0.99).as_millis_f64(),
            put_max_ms: run.latency(1.0).as_millis_f64(),
            settled_s: run.settled.as_secs_f64(),
            logging_ms: a_log(figures.logging),
            transforming_ms: a_log(figures.transforming),
            overlaps: figures.overlaps,
            stalls: figures.stalls,
            merges: figures.merges,
            held_back_s: figures.merge_delay.as_secs_f64(),
            log_bytes: figures.log_bytes,
            gap_bytes: figures.gap_bytes,
            busy_s: run.busy.iter().map(|busy| busy.as_secs_f64()).sum(),
            energy_j: run.energy_j.iter().sum(),
            written_share: written as f64 / figures.put_bytes.max(1) as f64,
            leaves_read: figures.leaves_read,
            pages_written: figures.pages_written,
            stages: run.stages.iter().map(Changed::of).collect(),
        }
    }
}

/// The figures of a run. The last word of each name is the unit.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ArrangementRow {
    /// The arrangement of the disks.
    pub arrangement: &'static str,
    /// Whether logs were transformed.
    pub transformation: bool,
    /// The time from the opening of the store until the last put was answered.
    pub execution_s: f64,
    /// The throughput of keys and values.
    pub throughput_mb_per_s: f64,
    /// How much longer the run took than the run without transformation, in percent.
    pub slowed_percent: Option<f64>,
    /// The median latency of puts.
    pub put_p50_ms: f64,
    /// The 99th percentile of the latency of puts.
    pub put_p99_ms: f64,
    /// The maximum latency of puts.
    pub put_max_ms: f64,
    /// The time until the last log had become a segment.
    pub settled_s: f64,
    /// The mean time that a log was on duty.
    pub logging_ms: f64,
    /// The mean time from the end of a log to the publication of its segment.
    pub transforming_ms: f64,
    /// How often duty passed to a disk that was not idle.
    pub overlaps: u64,
    /// How often puts waited for a free slot.
    pub stalls: u64,
    /// The number of completed merges.
    pub merges: u64,
    /// The total time for which puts were delayed for merges.
    pub held_back_s: f64,
    /// The final length of a log.
    pub log_bytes: u64,
    /// The final gap after a batch.
    pub gap_bytes: u64,
    /// The total busy time of all disks until everything was settled.
    pub busy_s: f64,
    /// The energy used until everything was settled.
    pub energy_j: f64,
    /// Bytes written per byte put.
    pub written_share: f64,
    /// The number of leaves read from trees in place.
    pub leaves_read: u64,
    /// The number of pages written to trees in place.
    pub pages_written: u64,
    /// The times at which disks began each stage, if recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Changed>,
}

/// The start of a stage on a disk.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Changed {
    /// The time of the change.
    pub at_s: f64,
    /// The number of the disk, from 0.
    pub disk: usize,
    /// The stage that began: `idle`, `log`, `read-log` or `write-tree`.
    pub stage: &'static str,
}

impl Changed {
    fn of(change: &StageChange) -> Changed {
        Changed { at_s: change.at.as_secs_f64(), disk: change.disk, stage: change.stage.name() }
    }
}

/// Runs a load on an arrangement for as long as `go_on`, which is called often, returns true.
///
/// # Errors
/// Returns [`OperationError`] if the disks could not take the load, and [`OperationError::Closed`]
/// if `go_on` returned false.
pub(crate) fn compare<D: Device + Clone>(
    devices: &[D],
    config: &Config,
    load: Load,
    arrangement: Arrangement,
    time: Time,
    go_on: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<Compared, OperationError> {
    let (transformation, chunk) = match arrangement {
        Arrangement::Enhanced => (Transformation::Enhanced, None),
        Arrangement::Basic => (Transformation::Basic, None),
        Arrangement::Raid0 { chunk_bytes } => (Transformation::Basic, Some(chunk_bytes)),
    };
    let mut run = |transformation| {
        let config = Config { transformation, ..config.clone() };
        simulate_while(time, devices.to_vec(), chunk, config, load, go_on)
    };
    let (logged, transformed) = (run(Transformation::None)?, run(transformation)?);
    Ok(Compared { arrangement, logged, transformed })
}
