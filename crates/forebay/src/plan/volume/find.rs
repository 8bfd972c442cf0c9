//! Finds the cheapest setting of a volume type that keeps a promise.
//!
//! Sizes and single rates are bisected, two rates are searched together ([`staircase`]), and fixed
//! sizes are tried from the cheapest on. All of this relies on delays that never grow if a rate or
//! a depth increases ([`drain`]). The result is exact for requests that arrive as recorded.

use std::cell::RefCell;
use std::collections::BTreeMap;

use forebay_core::device::throttled::{Bucket, Count, Queues, Throttle};
use forebay_core::{Nanos, SpecError};

use super::counters::{Counters, least};
use super::drain::{self, Costed, Delays, Drain, Limits};
use super::kind::{self, Rate, Shape};
use super::staircase::{self, Pairs, first};
use crate::devices::volume::{Knobs, VolumeType};

/// The promise, with the number of late requests that it allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound {
    pub within: Nanos,
    pub late_max: u64,
}

/// The load for which the promise must be kept.
#[derive(Clone, Copy)]
pub(super) enum Demand<'a> {
    /// The requests of a trace, with costs as the volume type counts them.
    Requests(&'a Costed),
    /// Counters; every result is then a lower bound.
    Counters(&'a Counters),
}

/// A volume type to search, with everything that is fixed before the search.
#[derive(Clone, Debug)]
pub(super) struct Case<'a> {
    pub kind: &'a VolumeType,
    /// The assumed bucket depth, credit, latency and merging.
    pub base: Knobs,
    /// The minimum size in GiB.
    pub gib: u64,
    pub bound: Bound,
    /// Whether the trace is repeated over and over, so that it starts with the credit that it
    /// leaves at its end.
    pub is_steady: bool,
    /// The buckets of the instance, which limit the requests in addition to those of the volume.
    pub instance: Vec<Bucket>,
}

/// The largest bucket depth that can be assumed if the real one is unknown. Deeper buckets hold
/// credit.
pub(super) const DEPTH_MAX: Nanos = Nanos::from_secs(10);

/// Returns whether a bucket holds burst credit, in contrast to just smoothing the rate.
pub(super) fn holds_credit(bucket: &Bucket) -> bool {
    bucket.depth > bucket.rate_per_s * DEPTH_MAX.as_secs_f64()
}

/// Returns whether the requests of a period take more tokens from a bucket than it is refilled
/// with.
fn uses_up(bucket: &Bucket, requests: &Costed, period_ns: f64) -> bool {
    // If all requests arrive at the same time, the trace has no period in which it could be
    // repeated.
    period_ns > 0.0 && requests.total_ns(&Drain::of(bucket)) > period_ns
}

/// Calls `$run` with the drains of the buckets as an array, whose length is known at compile time:
/// the least of a few lengths that is enough, filled up with buckets that limit nothing.
macro_rules! with_drains {
    ($buckets:expr, $drains:ident => $run:expr, [$($count:literal)*]) => {{
        let mut all: Vec<Drain> = $buckets.iter().map(Drain::of).collect();
        match all.len() {
            $(0..=$count => {
                all.resize($count, Drain::UNLIMITED);
                let $drains: &[Drain; $count] = all.first_chunk().expect("the length is known");
                $run
            })*
            _ => unreachable!("volumes have at most {BUCKETS_MAX} buckets"),
        }
    }};
    ($buckets:expr, $drains:ident => $run:expr) => {
        with_drains!($buckets, $drains => $run, [2 4 6 12])
    };
}

/// The maximum number of buckets of a volume and an instance together.
pub(super) const BUCKETS_MAX: usize = 12;

impl Case<'_> {
    /// Returns the throttle of a setting, including the buckets of the instance. If the trace is
    /// repeated, its credit at the start is what the requests leave, or none if they use it up
    /// faster than it is refilled.
    ///
    /// # Errors
    /// Fails if the type does not permit the setting, or has limits of a kind that cannot be
    /// searched.
    pub(super) fn throttle(
        &self,
        knobs: &Knobs,
        demand: Demand<'_>,
    ) -> Result<Throttle, SpecError> {
        let mut throttle = self.kind.at(knobs)?;
        throttle.buckets.extend_from_slice(&self.instance);
        let is_fractional = matches!(throttle.count, Count::Fractions { .. });
        let is_apart = throttle.queues != Queues::Shared;
        if is_apart || is_fractional || throttle.buckets.len() > BUCKETS_MAX {
            return Err(SpecError(format!(
                "{}: got queues by direction, fractions of operations or more than {BUCKETS_MAX} \
                 buckets, expected one queue of reads and writes and whole operations",
                self.kind.name
            )));
        }
        // For counters, two passes are made instead.
        if let Demand::Requests(requests) = demand
            && self.is_steady
            && throttle.buckets.iter().any(holds_credit)
        {
            let spent_ns: Vec<f64> = with_drains!(throttle.buckets, drains => {
                drain::spent_ns(requests, drains)
            });
            let period_ns = drain::period_ns(requests);
            for (bucket, spent_ns) in throttle.buckets.iter_mut().zip(spent_ns) {
                if !holds_credit(bucket) {
                    continue;
                }
                bucket.start_share = match uses_up(bucket, requests, period_ns) {
                    true => 0.0,
                    false => 1.0 - spent_ns / 1e9 * bucket.rate_per_s / bucket.depth,
                };
            }
        }
        Ok(throttle)
    }

    fn limits(&self, throttle: &Throttle) -> Limits {
        Limits::new(self.bound.within, throttle.read_latency, throttle.write_latency)
    }

    /// Returns whether the load uses up credit faster than it is refilled. If so, the queue grows
    /// without end when the trace is repeated.
    pub(super) fn is_exhausted(&self, throttle: &Throttle, demand: Demand<'_>) -> bool {
        let requests = match demand {
            Demand::Requests(requests) => requests,
            Demand::Counters(counters) => {
                return self.is_steady && least::uses_up_credit(counters, throttle);
            }
        };
        let period_ns = drain::period_ns(requests);
        let mut credits = throttle.buckets.iter().filter(|bucket| holds_credit(bucket));
        self.is_steady && credits.any(|bucket| uses_up(bucket, requests, period_ns))
    }

    /// Counts the late requests in a setting, up to `late_max`. In a setting that is not permitted,
    /// all requests count as late.
    fn late(&self, demand: Demand<'_>, knobs: &Knobs, late_max: u64) -> u64 {
        let Ok(throttle) = self.throttle(knobs, demand) else { return u64::MAX };
        if self.is_exhausted(&throttle, demand) {
            return u64::MAX;
        }
        let limits = self.limits(&throttle);
        match demand {
            Demand::Requests(requests) => {
                with_drains!(throttle.buckets, drains => {
                    drain::late(requests, drains, limits, late_max)
                })
            }
            Demand::Counters(counters) => least::whole(self.least_late(&throttle, counters)),
        }
    }

    /// Returns a lower bound of the number of late requests, given counters.
    pub(super) fn least_late(&self, throttle: &Throttle, counters: &Counters) -> f64 {
        least::late(counters, throttle, self.bound.within.as_secs_f64(), self.is_steady)
    }

    fn keeps(&self, demand: Demand<'_>, knobs: &Knobs) -> bool {
        self.late(demand, knobs, self.bound.late_max) <= self.bound.late_max
    }

    /// Computes the delay of every request under the throttle of a setting.
    pub(super) fn delays(&self, requests: &Costed, throttle: &Throttle) -> Delays {
        let limits = self.limits(throttle);
        with_drains!(throttle.buckets, drains => drain::delays(requests, drains, limits))
    }

    /// Counts the late requests in each part of the trace; `ends` are the indices at which the
    /// parts end. Returns `None` if the setting is not permitted.
    pub(super) fn late_by_part(
        &self,
        requests: &Costed,
        knobs: &Knobs,
        ends: &[usize],
    ) -> Option<Vec<u64>> {
        let throttle = self.throttle(knobs, Demand::Requests(requests)).ok()?;
        let limits = self.limits(&throttle);
        Some(with_drains!(throttle.buckets, drains => {
            drain::late_by_part(requests, drains, limits, ends)
        }))
    }

    /// Finds the cheapest setting that keeps the promise; `None` if no setting does.
    pub(super) fn find(&self, shape: &Shape, demand: Demand<'_>) -> Option<Knobs> {
        match shape {
            Shape::Fixed => Some(self.base.clone()).filter(|knobs| self.keeps(demand, knobs)),
            Shape::Sizes(sizes) => self.cheapest_size(sizes, demand),
            Shape::Size => self.least_size(demand),
            Shape::One(rate) => self.least_rate(rate, demand),
            Shape::Two(x, y) => self.cheapest_pair(x, y, demand),
        }
    }

    /// Returns the highest setting that the type permits.
    pub(super) fn highest(&self, shape: &Shape) -> Option<Knobs> {
        kind::highest(self.kind, shape, &self.base)
    }

    /// Tries the fixed sizes from the cheapest on, or from the smallest on if a price is unknown.
    fn cheapest_size(&self, sizes: &[f64], demand: Demand<'_>) -> Option<Knobs> {
        let large = sizes.iter().filter(|gib| **gib >= self.gib as f64);
        let sized = large.map(|gib| self.base.clone().with(kind::SIZE, *gib));
        let mut priced: Vec<(f64, Knobs)> = sized.map(|one| (self.price(&one), one)).collect();
        if priced.iter().all(|(price, _)| price.is_finite()) {
            priced.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        priced.into_iter().map(|(_, knobs)| knobs).find(|knobs| self.keeps(demand, knobs))
    }

    fn least_size(&self, demand: Demand<'_>) -> Option<Knobs> {
        let [least, most] = kind::sizes(self.kind)?;
        let sized = |gib: u64| Some(self.base.clone().with(kind::SIZE, gib as f64));
        self.least(self.gib.max(least), most, demand, sized)
    }

    fn least_rate(&self, rate: &Rate, demand: Demand<'_>) -> Option<Knobs> {
        let settled = |value: u64| kind::settled(self.kind, &self.base, self.gib, &[(rate, value)]);
        // The highest rates may require a larger size than the type has.
        let most = match settled(rate.most) {
            Some(_) => rate.most,
            None => {
                first(rate.least, rate.most, |value| settled(value).is_none()).checked_sub(1)?
            }
        };
        self.least(rate.least, most, demand, settled)
    }

    /// Returns the setting for the lowest value from `low` to `high` that keeps the promise.
    fn least(
        &self,
        low: u64,
        high: u64,
        demand: Demand<'_>,
        setting: impl Fn(u64) -> Option<Knobs>,
    ) -> Option<Knobs> {
        let mut trials = Trials { case: self, all: demand, few: None };
        let mut keeps = |value: u64| {
            let Some(knobs) = setting(value) else { return false };
            let keeps = trials.keeps((value, 0), &knobs);
            if !keeps {
                trials.begin_at((value, 0), &knobs);
            }
            keeps
        };
        if low > high || !keeps(high) {
            return None;
        }
        setting(first(low, high, keeps))
    }

    fn cheapest_pair(&self, x: &Rate, y: &Rate, demand: Demand<'_>) -> Option<Knobs> {
        let trials = Trials { case: self, all: demand, few: None };
        let mut rates = Rates { trials, x, y, lifts: RefCell::default() };
        let (xs, ys) = (x.least..=x.most, y.least..=y.most);
        let is_priced = rates.price(x.least, y.least).is_finite();
        let cheapest =
            is_priced.then(|| staircase::cheapest(&mut rates, xs.clone(), ys.clone())).flatten();
        // The price list may not cover settings that are high enough. If so, settings without a
        // price are searched as well.
        let (x, y) = match cheapest {
            Some(pair) => pair,
            None => staircase::balanced(&mut rates, xs, ys)?,
        };
        rates.settled(x, y)
    }

    /// Returns the monthly price in millionths, rounded so that prices that differ only in rounding
    /// errors are equal; infinite if it is unknown.
    fn price(&self, knobs: &Knobs) -> f64 {
        self.kind.price(knobs).map_or(f64::INFINITY, |price| (price.amount * 1e6).round())
    }
}

/// Tries settings whose rates or sizes increase.
struct Trials<'a> {
    case: &'a Case<'a>,
    all: Demand<'a>,
    /// The lowest setting that will still be tried, and the requests that may be late in this
    /// setting or in higher ones.
    few: Option<((u64, u64), Costed)>,
}

impl Trials<'_> {
    /// Returns the requests that may be late in the setting `at` and in higher ones.
    fn demand(&self, at: (u64, u64)) -> Demand<'_> {
        match &self.few {
            Some((from, few)) if from.0 <= at.0 && from.1 <= at.1 => Demand::Requests(few),
            _ => self.all,
        }
    }

    fn keeps(&self, at: (u64, u64), knobs: &Knobs) -> bool {
        self.case.keeps(self.demand(at), knobs)
    }

    /// Called when only settings at least as high as `knobs` will still be tried; leaves out the
    /// requests that are late in none of these. With burst credit, earlier requests always matter,
    /// so none is left out.
    fn begin_at(&mut self, at: (u64, u64), knobs: &Knobs) {
        if self.few.as_ref().is_some_and(|(from, _)| *from == at) {
            return;
        }
        let Ok(throttle) = self.case.throttle(knobs, self.all) else { return };
        if throttle.buckets.iter().any(holds_credit) {
            return;
        }
        let Demand::Requests(requests) = self.demand(at) else { return };
        let limits = self.case.limits(&throttle);
        let few = with_drains!(throttle.buckets, drains => {
            drain::that_may_be_late(requests, drains, limits)
        });
        self.few = Some((at, few));
    }
}

/// The two rates of a volume type, as knobs of the staircase search.
struct Rates<'a> {
    trials: Trials<'a>,
    x: &'a Rate,
    y: &'a Rate,
    /// For each y that was tried, the lowest x that the type permits with it.
    lifts: RefCell<BTreeMap<u64, u64>>,
}

impl Rates<'_> {
    fn settled(&self, x: u64, y: u64) -> Option<Knobs> {
        self.of(self.lifted(x, y), y)
    }

    fn of(&self, x: u64, y: u64) -> Option<Knobs> {
        let case = self.trials.case;
        kind::settled(case.kind, &case.base, case.gib, &[(self.x, x), (self.y, y)])
    }

    /// Returns the lowest x that is permitted with `y`. The result is cached, because finding it
    /// evaluates formulas many times.
    fn lift(&self, y: u64) -> u64 {
        let least = || self.of(self.x.least, y).and_then(|knobs| knobs.get(&self.x.name));
        let mut lifts = self.lifts.borrow_mut();
        *lifts.entry(y).or_insert_with(|| least().map_or(self.x.least, |x| x as u64))
    }
}

impl Pairs for Rates<'_> {
    fn keeps(&mut self, x: u64, y: u64) -> bool {
        self.settled(x, y).is_some_and(|knobs| self.trials.keeps((x, y), &knobs))
    }

    fn lifted(&self, x: u64, y: u64) -> u64 {
        x.max(self.lift(y))
    }

    fn price(&self, x: u64, y: u64) -> f64 {
        self.settled(x, y).map_or(f64::INFINITY, |knobs| self.trials.case.price(&knobs))
    }

    fn begin_at(&mut self, x: u64, y: u64) {
        if let Some(knobs) = self.settled(x, y) {
            self.trials.begin_at((x, y), &knobs);
        }
    }
}
