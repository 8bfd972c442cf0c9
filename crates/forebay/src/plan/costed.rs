//! `plan` with `--cost-us`: how fast a server has to be if the cost of a request depends on its
//! length.
//!
//! A server of speed 1 takes `base + per KiB` for a request; a server of speed 2 takes half of
//! that. The price of a promise is the least speed, in whole thousandths, at which some order
//! answers the promised share of the requests in time. The remaining requests are put aside, as in
//! [`super::capacity`]; if the cost does not depend on the length, the two agree. This module
//! prices a single promise; [`sla`] and [`consolidate`] cover the other plans.
//!
//! Invariant: exact integer arithmetic (`in_time`). Memory: 16 bytes per request, and 64 bytes per
//! request of the longest busy period.

pub mod consolidate;
mod cost;
mod in_time;
mod load;
pub mod sla;
#[cfg(test)]
mod tests;
mod told;

use std::collections::BTreeMap;
use std::fmt::Display;

use forebay_core::Nanos;
use serde::Serialize;

use self::in_time::{Arrival, in_time, least_speed};
use super::capacity::Promises;
use crate::error::Error;
use crate::jobs::on_all_cores;
use crate::quantities::bound;
use forebay_ask::Share;

pub use self::cost::Cost;
pub use self::load::Load;
pub use self::told::Costs;

/// The trace that a price applies to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct About {
    /// The trace.
    pub trace: String,
    /// The number of its requests.
    pub requests: u64,
    /// The mean length of its requests.
    pub mean_length_bytes: f64,
    /// The cost of a request of the mean length at speed 1.
    pub mean_cost_us: f64,
}

impl About {
    fn of(load: &Load, cost: Cost) -> About {
        let mean_length_bytes = load.mean_bytes();
        About {
            trace: load.path.display().to_string(),
            requests: load.count(),
            mean_length_bytes,
            mean_cost_us: cost.us(mean_length_bytes),
        }
    }
}

/// The price of one promise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostedRow {
    /// The bound.
    pub within_ms: f64,
    /// The share of requests.
    pub fraction: f64,
    /// The least speed of the server.
    pub speed: f64,
    /// Requests of the mean length per second at this speed.
    pub mean_length_iops: f64,
}

/// The prices of promises, with the trace that they apply to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The cost of a request at speed 1: microseconds, plus microseconds per KiB.
    pub cost_us: String,
    /// The trace.
    #[serde(flatten)]
    pub about: About,
    /// Cautions about the prices; one sentence each.
    pub cautions: Vec<String>,
    /// The prices, ordered by bound, then by fraction.
    pub rows: Vec<CostedRow>,
}

/// Prices `promises` for `load` at `cost`.
///
/// # Errors
/// If no speed up to a million keeps a promise.
pub fn answer(load: &Load, cost: Cost, promises: &Promises) -> Result<Answer, Error> {
    let about = About::of(load, cost);
    let rows = table(load, cost, promises, &about)?;
    Ok(Answer { cost_us: cost.to_string(), about, cautions: load.cautions(), rows })
}

fn table(
    load: &Load,
    cost: Cost,
    promises: &Promises,
    about: &About,
) -> Result<Vec<CostedRow>, Error> {
    let of = |within: &Nanos| {
        let found = least_speeds(&load.requests, cost, *within, &promises.fractions);
        let rows = promises.fractions.iter().zip(found).map(|(fraction, speed)| {
            let speed = speed.ok_or_else(|| beyond(&about.trace, *fraction, *within))?;
            Ok(CostedRow {
                within_ms: within.as_millis_f64(),
                fraction: fraction.as_f64(),
                speed: as_speed(speed),
                mean_length_iops: speed as f64 * 1e3 / about.mean_cost_us.max(1e-9),
            })
        });
        rows.collect::<Result<Vec<CostedRow>, Error>>()
    };
    Ok(on_all_cores(&promises.within, of)?.into_iter().flatten().collect())
}

/// Converts thousandths to a number.
fn as_speed(thousandths: u64) -> f64 {
    thousandths as f64 / 1e3
}

/// Makes the error that no speed keeps a promise to `name`.
fn beyond(name: impl Display, fraction: Share, within: Nanos) -> Error {
    Error::Unfit(format!(
        "{name}: no server up to a million times as fast as the cost answers {fraction} of the requests within {}; \
         allow more time or a smaller fraction",
        bound(within.as_millis_f64())
    ))
}

/// Returns the least speed for each fraction, in thousandths; none if it is above a million.
fn least_speeds(
    requests: &[Arrival],
    cost: Cost,
    within: Nanos,
    fractions: &[Share],
) -> Vec<Option<u64>> {
    let mut known = BTreeMap::new();
    let mut count =
        |speed: u64| *known.entry(speed).or_insert_with(|| in_time(requests, cost, within, speed));
    let least = |fraction: &Share| {
        let need = fraction.of(requests.len() as u64);
        least_speed(1, |speed| count(speed) >= need)
    };
    fractions.iter().map(least).collect()
}
