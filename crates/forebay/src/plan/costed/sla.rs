//! The verb `plan sla` with `--cost-us`: a promise of several tiers, on a server on which longer
//! requests cost more.
//!
//! Computes the speed of one server that serves all requests first come, first served. A faster
//! server answers no request later, so the lowest speed is found exactly. The floor is the highest
//! speed that any tier needs alone. Below the floor, no scheduler keeps the promise, and neither do
//! several servers with that total speed ([`mod@super::in_time`]).
//!
//! Separate servers for the tiers, and Miser, are not covered. There, the requests that the server
//! of one tier defers go to the next. If costs differ, several sets of admitted requests are
//! equally large and leave different work for the next tier, so the result would not be unique.
//! Moreover, a server that admits whatever still fits may admit fewer requests as it gets faster.

use serde::Serialize;

use super::in_time::{first_come, least_speed, scale};
use super::{About, Cost, Load, as_speed, beyond, least_speeds};
use crate::Error;
use crate::jobs::on_all_cores;
use crate::plan::sla::Sla;

/// A tier of the promise, with the speed that it needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tier {
    /// The time within which the tier's requests are promised an answer.
    pub within_ms: f64,
    /// The share of all requests that is promised an answer within this time.
    pub fraction: f64,
    /// The lowest speed that keeps this tier alone, with any scheduler.
    pub alone_speed: f64,
    /// The share of all requests that is answered within this time at `fcfs_speed`.
    pub achieved_fraction: f64,
}

/// The answer of `plan sla` with `--cost-us`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Price {
    /// The cost of a request at speed 1: microseconds, plus microseconds per KiB.
    pub cost_us: String,
    /// The trace that the answer is about.
    #[serde(flatten)]
    pub about: About,
    /// Cautions about the speeds, one sentence each.
    pub cautions: Vec<String>,
    /// The speed below which no scheduler keeps the promise.
    pub floor_speed: f64,
    /// The minimum speed of a first-come, first-served server that keeps the promise.
    pub fcfs_speed: f64,
    /// How many requests of the mean length a server of `fcfs_speed` serves per second.
    pub mean_length_iops: f64,
    /// The tiers, in order of increasing time.
    pub tiers: Vec<Tier>,
}

/// Finds the speeds that `sla` needs for `load`, if requests cost `cost`.
///
/// # Errors
/// Fails if no speed up to a million keeps a promise.
pub fn price(load: &Load, cost: Cost, sla: &Sla) -> Result<Price, Error> {
    let about = About::of(load, cost);
    let alone = on_all_cores(&sla.tiers, |tier| {
        let found = least_speeds(&load.whole, cost, tier.within, &[tier.fraction]);
        let found = found.into_iter().flatten().next();
        found.ok_or_else(|| beyond(&about.trace, tier.fraction, tier.within))
    })?;
    let floor = alone.iter().copied().max().unwrap_or(1);
    let needs: Vec<u64> = sla.tiers.iter().map(|tier| tier.fraction.of(load.requests())).collect();
    let keeps =
        |speed| answered(load, cost, sla, speed).iter().zip(&needs).all(|(is, of)| is >= of);
    let last = &sla.tiers[sla.tiers.len() - 1];
    let fcfs = least_speed(floor, keeps)
        .ok_or_else(|| beyond(&about.trace, last.fraction, last.within))?;
    let in_time = answered(load, cost, sla, fcfs);
    let tiers = sla.tiers.iter().zip(alone).zip(in_time).map(|((tier, alone), in_time)| Tier {
        within_ms: tier.within.as_millis_f64(),
        fraction: tier.fraction.as_f64(),
        alone_speed: as_speed(alone),
        achieved_fraction: in_time as f64 / load.requests().max(1) as f64,
    });
    Ok(Price {
        floor_speed: as_speed(floor),
        fcfs_speed: as_speed(fcfs),
        mean_length_iops: fcfs as f64 * 1e3 / about.mean_cost_us.max(1e-9),
        tiers: tiers.collect(),
        cost_us: cost.to_string(),
        cautions: load.cautions(),
        about,
    })
}

/// Returns how many requests are answered within each tier's time if they are served first come,
/// first served.
fn answered(load: &Load, cost: Cost, sla: &Sla, speed: u64) -> Vec<u64> {
    let bounds = sla.tiers.iter().map(|tier| u128::from(tier.within.0) * scale(speed));
    let bounds: Vec<u128> = bounds.collect();
    let mut counts = vec![0; bounds.len()];
    first_come(&load.whole, cost, speed, |took| {
        let within = bounds.iter().zip(&mut counts);
        within.for_each(|(bound, count)| *count += u64::from(took <= *bound));
    });
    counts
}
