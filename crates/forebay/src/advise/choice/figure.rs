//! The figures in which schedulers are compared, and the preference for one of them.

use serde::Serialize;

use crate::RunResult;
use crate::quantities::{millis, seconds};
use crate::slices::Compared;

/// Which figure decides among schedulers that no other scheduler beats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Prefer {
    /// Prefers the shortest total time: busy time of the device, or the time until the last
    /// completion.
    Total,
    /// Prefers the lowest 99th percentile of read latencies.
    Reads,
    /// Prefers the lowest 99th percentile of write latencies.
    Writes,
    /// Prefers the lowest product of all figures that count.
    #[default]
    Balance,
}

impl Prefer {
    /// All preferences, in the order in which help lists them.
    pub const ALL: [Prefer; 4] = [Prefer::Total, Prefer::Reads, Prefer::Writes, Prefer::Balance];

    /// Returns the preference's name, as `--prefer` accepts it.
    pub fn name(self) -> &'static str {
        match self {
            Prefer::Total => "total",
            Prefer::Reads => "reads",
            Prefer::Writes => "writes",
            Prefer::Balance => "balance",
        }
    }

    /// Returns the preference called `name`.
    pub fn named(name: &str) -> Option<Prefer> {
        Prefer::ALL.into_iter().find(|prefer| prefer.name() == name)
    }

    pub(super) fn figure(self) -> Option<Figure> {
        match self {
            Prefer::Total => Some(Figure::Total),
            Prefer::Reads => Some(Figure::Reads),
            Prefer::Writes => Some(Figure::Writes),
            Prefer::Balance => None,
        }
    }
}

/// A figure in which schedulers are compared; lower is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    Total,
    Reads,
    Writes,
    ReadMean,
    ReadMedian,
    WriteMean,
    WriteMedian,
}

impl Figure {
    pub(super) fn of(self, run: &RunResult) -> Option<f64> {
        match self {
            Figure::Total => Some(run.total_s()),
            Figure::Reads => run.figures.read_p99_ms,
            Figure::Writes => run.figures.write_p99_ms,
            Figure::ReadMean => run.figures.read_mean_ms,
            Figure::ReadMedian => run.figures.read_p50_ms,
            Figure::WriteMean => run.figures.write_mean_ms,
            Figure::WriteMedian => run.figures.write_p50_ms,
        }
    }

    pub(super) fn resampled(self, run: &Compared) -> Option<f64> {
        match self {
            Figure::Total => Some(run.busy_s),
            Figure::Reads => run.read_p99_ms,
            Figure::Writes => run.write_p99_ms,
            Figure::ReadMean => run.read_mean_ms,
            Figure::ReadMedian => run.read_p50_ms,
            Figure::WriteMean => run.write_mean_ms,
            Figure::WriteMedian => run.write_p50_ms,
        }
    }

    pub(super) fn told(self, value: f64) -> String {
        match self {
            Figure::Total => seconds(value),
            _ => millis(value),
        }
    }

    /// Returns the figure's name. The name of total time depends on the replay of `run`.
    pub(super) fn name(self, run: &RunResult) -> &'static str {
        match self {
            Figure::Total => run.replay.total_name(),
            Figure::Reads => "read p99",
            Figure::Writes => "write p99",
            Figure::ReadMean => "read mean",
            Figure::ReadMedian => "read median",
            Figure::WriteMean => "write mean",
            Figure::WriteMedian => "write median",
        }
    }
}
