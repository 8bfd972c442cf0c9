//! The cheapest setting of a type of volume that keeps a promise.
//!
//! Sizes and single rates are bisected, two rates are searched together ([`staircase`]), and fixed
//! sizes are tried from the cheapest on. All of it relies on delays that never grow with a rate or
//! a depth ([`drain`]), so each result is exact for requests that arrive as recorded.

use std::cell::RefCell;
use std::collections::BTreeMap;

use forebay_core::device::throttled::{Bucket, Count, Queues, Throttle};
use forebay_core::{Nanos, SpecError};

use super::counters::{Counters, least};
use super::drain::{self, Costed, Delays, Drain, Limits};
use super::kind::{self, Rate, Shape};
use super::staircase::{self, Pairs, first};
use crate::devices::volume::{Knobs, VolumeType};

/// The promise, as a number of late requests that it tolerates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound {
    pub within: Nanos,
    pub late_max: u64,
}

/// The load to be answered in time.
#[derive(Clone, Copy)]
pub(super) enum Demand<'a> {
    /// The requests of a trace, as the type counts them.
    Requests(&'a Costed),
    /// Counters, for which every result is a lower bound.
    Counters(&'a Counters),
}

/// What is known and assumed about a volume before it is searched.
#[derive(Clone, Debug)]
pub(super) struct Case<'a> {
    pub kind: &'a VolumeType,
    /// The assumed depth, credit, latency and merging.
    pub base: Knobs,
    /// The least size, in GiB.
    pub gib: u64,
    pub bound: Bound,
    /// Whether the trace is repeated, so that it begins with the credit that it leaves.
    pub is_steady: bool,
    /// Buckets of the instance, which limit the requests as well.
    pub instance: Vec<Bucket>,
}

/// The greatest depth that may be assumed where it is unknown. Deeper buckets hold credit.
pub(super) const DEPTH_MAX: Nanos = Nanos::from_secs(10);

/// Returns whether a bucket holds credit that lasts, and not only what may pass at once.
pub(super) fn holds_credit(bucket: &Bucket) -> bool {
    bucket.depth > bucket.rate_per_s * DEPTH_MAX.as_secs_f64()
}

/// Returns whether the requests of a period take more from a bucket than it is refilled.
fn uses_up(bucket: &Bucket, requests: &Costed, period_ns: f64) -> bool {
    // Requests that all come at one instant have no period in which they are repeated.
    period_ns > 0.0 && requests.total_ns(&Drain::of(bucket)) > period_ns
}

/// Calls `$run` with the buckets as an array.
macro_rules! with_drains {
    ($buckets:expr, $drains:ident => $run:expr, [$($count:literal)*]) => {{
        let all: Vec<Drain> = $buckets.iter().map(Drain::of).collect();
        match all.len() {
            $($count => {
                let $drains: &[Drain; $count] = all.first_chunk().expect("the length is known");
                $run
            })*
            _ => unreachable!("volumes have at most {BUCKETS_MAX} buckets"),
        }
    }};
    ($buckets:expr, $drains:ident => $run:expr) => {
        with_drains!($buckets, $drains => $run, [0 1 2 3 4 5 6 7 8 9 10 11 12])
    };
}

/// The most buckets of a volume and an instance together.
pub(super) const BUCKETS_MAX: usize = 12;

impl Case<'_> {
    /// Returns the throttle of a setting, with the buckets of the instance. If the trace is
    /// repeated, its credit at the start is what the requests leave: none if they use it up faster
    /// than it is refilled.
    ///
    /// # Errors
    /// A setting that the type does not permit, or limits of a kind that cannot be searched.
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
        // Counters are passed twice instead.
        if let Demand::Requests(requests) = demand
            && self.is_steady
            && throttle.buckets.iter().any(holds_credit)
        {
            let spent_ns: Vec<f64> = with_drains!(throttle.buckets, drains => {
                drain::spent_ns(requests, drains).to_vec()
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

    /// Returns whether the load uses up credit faster than it is refilled, so that the queue grows
    /// without end if the trace is repeated.
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

    /// Counts the late requests of a setting, up to `late_max`. A setting that is not permitted
    /// makes all of them late.
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

    /// Returns a lower bound of the late requests among those counted.
    pub(super) fn least_late(&self, throttle: &Throttle, counters: &Counters) -> f64 {
        least::late(counters, throttle, self.bound.within.as_secs_f64(), self.is_steady)
    }

    fn keeps(&self, demand: Demand<'_>, knobs: &Knobs) -> bool {
        self.late(demand, knobs, self.bound.late_max) <= self.bound.late_max
    }

    /// Computes the delay of every request in a setting.
    pub(super) fn delays(&self, requests: &Costed, throttle: &Throttle) -> Delays {
        let limits = self.limits(throttle);
        with_drains!(throttle.buckets, drains => drain::delays(requests, drains, limits))
    }

    /// Counts the late requests of each part that ends at these indexes; none if the setting is not
    /// permitted.
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

    /// Finds the cheapest setting; `None` if no setting keeps the promise.
    pub(super) fn find(&self, shape: &Shape, demand: Demand<'_>) -> Option<Knobs> {
        match shape {
            Shape::Fixed => Some(self.base.clone()).filter(|knobs| self.keeps(demand, knobs)),
            Shape::Sizes(sizes) => self.cheapest_size(sizes, demand),
            Shape::Size => self.least_size(demand),
            Shape::One(rate) => self.least_rate(rate, demand),
            Shape::Two(x, y) => self.cheapest_pair(x, y, demand),
        }
    }

    /// Returns the highest setting.
    pub(super) fn highest(&self, shape: &Shape) -> Option<Knobs> {
        kind::highest(self.kind, shape, &self.base)
    }

    /// Tries fixed sizes from the cheapest on, or from the smallest on if a price is unknown.
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
        // The highest rates may need a larger size than there is.
        let most = match settled(rate.most) {
            Some(_) => rate.most,
            None => {
                first(rate.least, rate.most, |value| settled(value).is_none()).checked_sub(1)?
            }
        };
        self.least(rate.least, most, demand, settled)
    }

    /// Returns the first setting from `low` to `high` that keeps the promise.
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
        // A price list may end below what is needed, so what has no price is tried as well.
        let (x, y) = match cheapest {
            Some(pair) => pair,
            None => staircase::balanced(&mut rates, xs, ys)?,
        };
        rates.settled(x, y)
    }

    /// Returns the monthly price, in millionths, so that prices that differ only by how their parts
    /// were rounded are equal; infinite if it is unknown.
    fn price(&self, knobs: &Knobs) -> f64 {
        self.kind.price(knobs).map_or(f64::INFINITY, |price| (price.amount * 1e6).round())
    }
}

/// Trials of settings with rates or sizes that rise.
struct Trials<'a> {
    case: &'a Case<'a>,
    all: Demand<'a>,
    /// The requests that may be late in settings at least as high as this one.
    few: Option<((u64, u64), Costed)>,
}

impl Trials<'_> {
    /// Returns the requests that may be late at `at` and above.
    fn demand(&self, at: (u64, u64)) -> Demand<'_> {
        match &self.few {
            Some((from, few)) if from.0 <= at.0 && from.1 <= at.1 => Demand::Requests(few),
            _ => self.all,
        }
    }

    fn keeps(&self, at: (u64, u64), knobs: &Knobs) -> bool {
        self.case.keeps(self.demand(at), knobs)
    }

    /// Leaves out the requests that are late in no setting at least as high as `knobs`, the only
    /// settings to be tried from now on. Credit remembers all requests, so none is left out.
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

/// Two rates of a type of volume, as knobs of the search.
struct Rates<'a> {
    trials: Trials<'a>,
    x: &'a Rate,
    y: &'a Rate,
    /// For each y that was tried, the least x that is permitted with it.
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

    /// Returns the least x that is permitted with `y`. Finding it takes many trials of formulas, so
    /// that is done once.
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
