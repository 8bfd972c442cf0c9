//! The `plan` verbs with `--cost-us`: finds how fast a server has to be if the cost of a request
//! depends on the request's length.
//!
//! A server of speed 1 takes `base + per KiB` for a request; a server of speed 2 takes half of
//! that. The speed that a promise needs is the lowest one, in whole thousandths, at which some
//! order answers the promised share of the requests in time. The remaining requests are deferred,
//! as in [`super::capacity`]. If the cost does not depend on the length, the two agree. This module
//! covers `plan capacity`; the modules [`sla`] and [`consolidate`] cover those verbs.
//!
//! Invariant: all arithmetic is in exact integers (`in_time`). Memory: 16 bytes per request, and 64
//! bytes per request of the longest busy period.

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
use crate::Error;
use crate::jobs::on_all_cores;
use crate::quantities::bound;
use forebay_ask::Share;

pub use self::cost::Cost;
pub use self::load::Load;
pub use self::told::Costs;

/// Figures that describe a trace and the cost of its requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct About {
    /// The name of the trace.
    pub trace: String,
    /// The number of requests in the trace.
    pub requests: u64,
    /// The mean length of the trace's requests, in bytes.
    pub mean_length_bytes: f64,
    /// The cost of a request of the mean length at speed 1, in microseconds.
    pub mean_cost_us: f64,
}

impl About {
    fn of(load: &Load, cost: Cost) -> About {
        let mean_length_bytes = load.mean_bytes();
        About {
            trace: load.path.display().to_string(),
            requests: load.requests(),
            mean_length_bytes,
            mean_cost_us: cost.us(mean_length_bytes),
        }
    }
}

/// The server speed that one promise needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostedRow {
    /// The time within which requests are promised an answer.
    pub within_ms: f64,
    /// The share of requests that is promised an answer in time.
    pub fraction: f64,
    /// The lowest speed of a server that keeps the promise.
    pub speed: f64,
    /// How many requests of the mean length a server of this speed serves per second.
    pub mean_length_iops: f64,
}

/// The answer of `plan capacity` with `--cost-us`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The cost of a request at speed 1: microseconds, plus microseconds per KiB.
    pub cost_us: String,
    /// The trace that the answer is about.
    #[serde(flatten)]
    pub about: About,
    /// Cautions about the speeds, one sentence each.
    pub cautions: Vec<String>,
    /// The speed for each promise, ordered by time bound, then by share.
    pub rows: Vec<CostedRow>,
}

/// Finds the speeds that `promises` need for `load`, if requests cost `cost`.
///
/// # Errors
/// Fails if no speed up to a million keeps a promise.
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
        let found = least_speeds(&load.whole, cost, *within, &promises.fractions);
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

/// Converts a speed from thousandths to a number.
fn as_speed(thousandths: u64) -> f64 {
    thousandths as f64 / 1e3
}

/// Returns the error that no speed keeps the promise to `name`.
fn beyond(name: impl Display, fraction: Share, within: Nanos) -> Error {
    Error::Unfit(format!(
        "{name}: no server up to a million times as fast as the cost answers {fraction} of the requests within {}; \
         allow more time or a smaller fraction",
        bound(within.as_millis_f64())
    ))
}

/// Returns the lowest speed for each share, in thousandths; `None` if it would exceed a million.
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
