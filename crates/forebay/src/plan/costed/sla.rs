//! `plan sla --cost-us`: a promise of several tiers on a server on which long requests cost more.
//!
//! Prices one server that serves requests first come, first served, and puts none aside. A faster
//! server answers every request no later, so its least speed is found exactly. Below the floor, the
//! speed of the most expensive tier alone, no scheduler keeps the promise, and neither do several
//! servers with that total speed ([`super::in_time`]).
//!
//! Separate servers for the tiers, and Miser, are not priced. The requests that one tier puts aside
//! go to the next. With unequal costs several sets of admitted requests are equally large and leave
//! different work for the next tier, so the price would not be unique. Moreover, a server that
//! admits whatever still fits may admit fewer requests as it gets faster.

use serde::Serialize;

use super::in_time::{first_come, least_speed, scale};
use super::{About, Cost, Load, as_speed, beyond, least_speeds};
use crate::error::Error;
use crate::jobs::on_all_cores;
use crate::plan::sla::Sla;

/// A tier and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tier {
    /// The bound.
    pub within_ms: f64,
    /// The promised share of all requests.
    pub fraction: f64,
    /// The least speed for this tier alone, regardless of the scheduler.
    pub alone_speed: f64,
    /// The share of all requests that is answered within the bound at `fcfs_speed`.
    pub achieved_fraction: f64,
}

/// The price of a promise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Price {
    /// The cost of a request at speed 1: microseconds, plus microseconds per KiB.
    pub cost_us: String,
    /// The trace.
    #[serde(flatten)]
    pub about: About,
    /// Cautions; one sentence each.
    pub cautions: Vec<String>,
    /// The speed below which no scheduler keeps the promise.
    pub floor_speed: f64,
    /// The speed that one first-come, first-served server needs.
    pub fcfs_speed: f64,
    /// Requests of the mean length per second at this speed.
    pub mean_length_iops: f64,
    /// The tiers, ordered from the strictest bound.
    pub tiers: Vec<Tier>,
}

/// Prices `sla` on `load` at `cost`.
///
/// # Errors
/// If no speed up to a million keeps a promise.
pub fn price(load: &Load, cost: Cost, sla: &Sla) -> Result<Price, Error> {
    let about = About::of(load, cost);
    let alone = on_all_cores(&sla.tiers, |tier| {
        let found = least_speeds(&load.requests, cost, tier.within, &[tier.fraction]);
        let found = found.into_iter().flatten().next();
        found.ok_or_else(|| beyond(&about.trace, tier.fraction, tier.within))
    })?;
    let floor = alone.iter().copied().max().unwrap_or(1);
    let needs: Vec<u64> = sla.tiers.iter().map(|tier| tier.fraction.of(load.count())).collect();
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
        achieved_fraction: in_time as f64 / load.count().max(1) as f64,
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

/// Counts the requests that are answered within the bound of each tier, first come, first served.
fn answered(load: &Load, cost: Cost, sla: &Sla, speed: u64) -> Vec<u64> {
    let bounds = sla.tiers.iter().map(|tier| u128::from(tier.within.0) * scale(speed));
    let bounds: Vec<u128> = bounds.collect();
    let mut counts = vec![0; bounds.len()];
    first_come(&load.requests, cost, speed, |took| {
        let within = bounds.iter().zip(&mut counts);
        within.for_each(|(bound, count)| *count += u64::from(took <= *bound));
    });
    counts
}
