//! How disks are arranged: what the paper compares.

use std::ops::ControlFlow;

use forebay_core::{Device, Nanos};
use serde::Serialize;

use crate::config::{Config, Transformation};
use crate::engine::StageChange;
use crate::load::Load;
use crate::operation::Trouble;
use crate::simulated::{Simulated, Time, simulate_while};

/// How disks are arranged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrangement {
    /// Workload Shifting's enhanced model: no disk reads and writes in one stage.
    Enhanced,
    /// Its basic model: a log is transformed on its own disk.
    Basic,
    /// A log on all disks as one, in chunks of so many bytes; what it is transformed into lies there too.
    Raid0 {
        /// Bytes of a chunk.
        chunk_bytes: u64,
    },
}

impl Arrangement {
    /// Its name: `enhanced`, `basic`, `raid0`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Arrangement::Enhanced => "enhanced",
            Arrangement::Basic => "basic",
            Arrangement::Raid0 { .. } => "raid0",
        }
    }
}

/// A load on one arrangement, without transformation and with it.
#[derive(Clone, Debug)]
pub(crate) struct Compared {
    /// How the disks are arranged.
    pub arrangement: Arrangement,
    /// Puts are logged and nothing else.
    pub logged: Simulated,
    /// Logs are transformed meanwhile.
    pub transformed: Simulated,
}

impl Compared {
    /// How much longer the execution takes with transformation, in percent (the paper's rate of increase in
    /// execution time).
    pub(crate) fn slowed_percent(&self) -> f64 {
        let (logged, transformed) = (self.logged.execution, self.transformed.execution);
        (transformed.as_secs_f64() / logged.as_secs_f64() - 1.0) * 100.0
    }

    /// Both runs' figures.
    pub(crate) fn rows(&self) -> [Row; 2] {
        [self.row(&self.logged, None), self.row(&self.transformed, Some(self.slowed_percent()))]
    }

    fn row(&self, run: &Simulated, slowed_percent: Option<f64>) -> Row {
        let figures = run.figures;
        let a_log = |time: Nanos| time.as_millis_f64() / figures.logs.max(1) as f64;
        let written = figures.logged_bytes + figures.transformed_bytes + figures.merged_bytes;
        let seconds = run.execution.as_secs_f64();
        Row {
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
            held_back_s: figures.held_back.as_secs_f64(),
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

/// A run's figures, units last.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// How the disks are arranged.
    pub arrangement: &'static str,
    /// Whether logs were transformed.
    pub transformation: bool,
    /// From when the store was open until the last put was answered.
    pub execution_s: f64,
    /// Keys and values put a second.
    pub throughput_mb_per_s: f64,
    /// How much longer it took than without transformation.
    pub slowed_percent: Option<f64>,
    /// The median put.
    pub put_p50_ms: f64,
    /// 99 of 100 puts took no longer.
    pub put_p99_ms: f64,
    /// The longest put.
    pub put_max_ms: f64,
    /// Until the last log was a segment.
    pub settled_s: f64,
    /// How long a log was on duty, in the mean.
    pub logging_ms: f64,
    /// From a log's end to its segment's being published, in the mean.
    pub transforming_ms: f64,
    /// Times that duty passed to a disk that was not idle.
    pub overlaps: u64,
    /// Times that puts waited for a slot.
    pub stalls: u64,
    /// Merges that were finished.
    pub merges: u64,
    /// How long puts were held back for merges.
    pub held_back_s: f64,
    /// How long logs were in the end.
    pub log_bytes: u64,
    /// What was left out behind a batch in the end.
    pub gap_bytes: u64,
    /// Work of all disks until all was settled.
    pub busy_s: f64,
    /// What they used until then.
    pub energy_j: f64,
    /// Bytes written for each byte put.
    pub written_share: f64,
    /// Leaves of trees in place that were read.
    pub leaves_read: u64,
    /// Pages of trees in place that were written.
    pub pages_written: u64,
    /// When which disk began which stage, where that is noted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Changed>,
}

/// A disk began a stage.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Changed {
    /// When.
    pub at_s: f64,
    /// Which, from 0.
    pub disk: usize,
    /// `idle`, `log`, `read-log` or `write-tree`.
    pub stage: &'static str,
}

impl Changed {
    fn of(change: &StageChange) -> Changed {
        Changed { at_s: change.at.as_secs_f64(), disk: change.disk, stage: change.stage.name() }
    }
}

/// Puts a load on an arrangement for as long as `go_on` says so, which is asked often.
///
/// # Errors
/// [`Trouble`] where the disks could not take it; [`Trouble::Closed`] where `go_on` said no.
pub(crate) fn compare<D: Device + Clone>(
    devices: &[D],
    config: &Config,
    load: Load,
    arrangement: Arrangement,
    time: Time,
    go_on: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<Compared, Trouble> {
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
