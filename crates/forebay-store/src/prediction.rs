//! Predicts a store's throughput under a load by simulating the beginning of the load.
//!
//! A few logs are put and transformed. Their time on duty gives the throughput. The duration of
//! transformations in logging periods shows whether they end in time (the paper's acceptable
//! alternation, section III.C). Later effects are not predicted: merges that fall behind, and a
//! self-tuning store's search for gaps and log lengths.

use forebay_core::Device;
use serde::Serialize;

use crate::{Config, Load, OperationError, Transformation, simulate};

/// The number of logs to simulate.
const LOGS: u64 = 16;

/// The predicted throughput, and whether transformations keep up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Predicted {
    /// The throughput of keys and values.
    pub throughput_mb_per_s: f64,
    /// The duration of a transformation in logging periods.
    pub periods: f64,
    /// The maximum duration of a transformation in logging periods: `(disks - 1) / 2`, rounded
    /// down.
    pub periods_max: f64,
}

impl Predicted {
    /// Returns whether transformations end in time. If they do not, more disks, fewer puts or
    /// larger puts help.
    pub fn keeps_up(&self) -> bool {
        self.periods <= self.periods_max
    }
}

/// Predicts the throughput of a store in the enhanced arrangement from its first logs.
///
/// # Errors
/// Returns [`OperationError`] if the disks could not take these logs.
pub fn predict<D: Device + Clone>(
    devices: &[D],
    config: &Config,
    load: Load,
) -> Result<Predicted, OperationError> {
    let config = Config { transformation: Transformation::Enhanced, ..config.clone() };
    let total_bytes = load.total_bytes.min(LOGS * config.log_bytes);
    let figures = simulate(devices.to_vec(), None, config, Load { total_bytes, ..load })?.figures;
    let logging = figures.logging.as_secs_f64();
    let a_log = logging / figures.logs.max(1) as f64;
    let transforming = figures.transforming.as_secs_f64() / figures.transformations.max(1) as f64;
    let (periods, periods_max) = (transforming / a_log, ((devices.len().max(3) - 1) / 2) as f64);
    let throughput_mb_per_s = figures.put_bytes as f64 / logging / 1e6;
    Ok(Predicted { throughput_mb_per_s, periods, periods_max })
}
