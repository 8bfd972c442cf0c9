//! What a store predicts of a load from its beginning: how fast it will take puts.
//!
//! Some logs are put and transformed. Their time on duty gives the rate, and how many logging periods a transformation
//! takes says whether it ends within those that it has (the paper's acceptable alternation, section III.C). What comes
//! later is not foreseen: merges that fall behind, and gaps and lengths of logs that a store which tunes itself still
//! tries.

use forebay_core::Device;
use serde::Serialize;

use crate::config::{Config, Transformation};
use crate::load::Load;
use crate::operation::Trouble;
use crate::simulated::simulate;

/// Logs that are tried.
const LOGS: u64 = 16;

/// What is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Predicted {
    /// Keys and values put a second.
    pub throughput_mb_per_s: f64,
    /// Logging periods that a transformation takes.
    pub periods: f64,
    /// And those it may take, `(disks - 1) / 2`, rounded down.
    pub periods_max: f64,
}

impl Predicted {
    /// Whether transformations end in time. Where they do not more disks help, and fewer or larger puts.
    pub fn keeps_up(&self) -> bool {
        self.periods <= self.periods_max
    }
}

/// Predicts how fast a store that does one thing a disk takes a load, from its first logs.
///
/// # Errors
/// [`Trouble`] where the disks could not take these.
pub fn predict<D: Device + Clone>(
    devices: &[D],
    config: &Config,
    load: Load,
) -> Result<Predicted, Trouble> {
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
