//! The cheapest setting of a type of volume that keeps a promise.
//!
//! Sizes and single rates are bisected, two rates are searched together ([`staircase`]), and fixed
//! sizes are tried from the cheapest on. All of it relies on delays that never grow with a rate or
//! a depth ([`drain`]), so each result is exact for requests that arrive as recorded.

use std::cell::RefCell;
use std::collections::BTreeMap;

use forebay_core::device::throttled::{Bucket, Count, Queues, Throttle};
use forebay_core::{Nanos, SpecError};

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
    /// repeated, its credit at the start is what `requests` leave.
    ///
    /// # Errors
    /// A setting that the type does not permit, or limits of a kind that cannot be searched.
    pub(super) fn throttle(&self, knobs: &Knobs, requests: &Costed) -> Result<Throttle, SpecError> {
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
        if self.is_steady && throttle.buckets.iter().any(holds_credit) {
            let spent_ns: Vec<f64> = with_drains!(throttle.buckets, drains => {
                drain::spent_ns(requests, drains).to_vec()
            });
            for (bucket, spent_ns) in throttle.buckets.iter_mut().zip(spent_ns) {
                if holds_credit(bucket) {
                    bucket.start_share = 1.0 - spent_ns / 1e9 * bucket.rate_per_s / bucket.depth;
                }
            }
        }
        Ok(throttle)
    }

    fn limits(&self, throttle: &Throttle) -> Limits {
        Limits::new(self.bound.within, throttle.read_latency, throttle.write_latency)
    }

    /// Returns whether the load uses up credit faster than it is refilled, so that the queue grows
    /// without end if the trace is repeated.
    pub(super) fn is_exhausted(&self, throttle: &Throttle, requests: &Costed) -> bool {
        let period_ns = drain::period_ns(requests);
        let credits = throttle.buckets.iter().filter(|bucket| holds_credit(bucket));
        // Requests that all come at one instant have no period in which they are repeated.
        self.is_steady
            && period_ns > 0.0
            && credits.map(Drain::of).any(|drain| requests.total_ns(&drain) > period_ns)
    }

    /// Counts the late requests of a setting, up to `late_max`. A setting that is not permitted
    /// makes all of them late.
    fn late(&self, requests: &Costed, knobs: &Knobs, late_max: u64) -> u64 {
        let Ok(throttle) = self.throttle(knobs, requests) else { return u64::MAX };
        if self.is_exhausted(&throttle, requests) {
            return u64::MAX;
        }
        let limits = self.limits(&throttle);
        with_drains!(throttle.buckets, drains => drain::late(requests, drains, limits, late_max))
    }

    fn keeps(&self, requests: &Costed, knobs: &Knobs) -> bool {
        self.late(requests, knobs, self.bound.late_max) <= self.bound.late_max
    }

    /// Computes the delay of every request in a setting.
    pub(super) fn delays(&self, requests: &Costed, throttle: &Throttle) -> Delays {
        let limits = self.limits(throttle);
        with_drains!(throttle.buckets, drains => drain::delays(requests, drains, limits))
    }

    /// Finds the cheapest setting; `None` if no setting keeps the promise.
    pub(super) fn find(&self, shape: &Shape, requests: &Costed) -> Option<Knobs> {
        match shape {
            Shape::Sizes(sizes) => self.cheapest_size(sizes, requests),
            Shape::Size => self.least_size(requests),
            Shape::One(rate) => self.least_rate(rate, requests),
            Shape::Two(x, y) => self.cheapest_pair(x, y, requests),
        }
    }

    /// Returns the highest setting.
    pub(super) fn highest(&self, shape: &Shape) -> Option<Knobs> {
        kind::highest(self.kind, shape, &self.base)
    }

    /// Tries fixed sizes from the cheapest on, or from the smallest on if a price is unknown.
    fn cheapest_size(&self, sizes: &[f64], requests: &Costed) -> Option<Knobs> {
        let large = sizes.iter().filter(|gib| **gib >= self.gib as f64);
        let sized = large.map(|gib| self.base.clone().with(kind::SIZE, *gib));
        let mut priced: Vec<(f64, Knobs)> = sized.map(|one| (self.price(&one), one)).collect();
        if priced.iter().all(|(price, _)| price.is_finite()) {
            priced.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        priced.into_iter().map(|(_, knobs)| knobs).find(|knobs| self.keeps(requests, knobs))
    }

    fn least_size(&self, requests: &Costed) -> Option<Knobs> {
        let [least, most] = kind::sizes(self.kind)?;
        let sized = |gib: u64| Some(self.base.clone().with(kind::SIZE, gib as f64));
        self.least(self.gib.max(least), most, requests, sized)
    }

    fn least_rate(&self, rate: &Rate, requests: &Costed) -> Option<Knobs> {
        let settled = |value: u64| kind::settled(self.kind, &self.base, self.gib, &[(rate, value)]);
        // The highest rates may need a larger size than there is.
        let most = match settled(rate.most) {
            Some(_) => rate.most,
            None => {
                first(rate.least, rate.most, |value| settled(value).is_none()).checked_sub(1)?
            }
        };
        self.least(rate.least, most, requests, settled)
    }

    /// Returns the first setting from `low` to `high` that keeps the promise.
    fn least(
        &self,
        low: u64,
        high: u64,
        requests: &Costed,
        setting: impl Fn(u64) -> Option<Knobs>,
    ) -> Option<Knobs> {
        let mut trials = Trials { case: self, all: requests, few: None };
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

    fn cheapest_pair(&self, x: &Rate, y: &Rate, requests: &Costed) -> Option<Knobs> {
        let trials = Trials { case: self, all: requests, few: None };
        let mut rates = Rates { trials, x, y, lifts: RefCell::default() };
        let (xs, ys) = (x.least..=x.most, y.least..=y.most);
        let is_priced = rates.price(x.least, y.least).is_finite();
        let (x, y) = match is_priced {
            true => staircase::cheapest(&mut rates, xs, ys)?,
            false => staircase::balanced(&mut rates, xs, ys)?,
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
    all: &'a Costed,
    /// The requests that may be late in settings at least as high as this one.
    few: Option<((u64, u64), Costed)>,
}

impl Trials<'_> {
    /// Returns the requests that may be late at `at` and above.
    fn requests(&self, at: (u64, u64)) -> &Costed {
        match &self.few {
            Some((from, few)) if from.0 <= at.0 && from.1 <= at.1 => few,
            _ => self.all,
        }
    }

    fn keeps(&self, at: (u64, u64), knobs: &Knobs) -> bool {
        self.case.keeps(self.requests(at), knobs)
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
        let limits = self.case.limits(&throttle);
        let few = with_drains!(throttle.buckets, drains => {
            drain::that_may_be_late(self.requests(at), drains, limits)
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
        let x = x.max(self.lift(y));
        self.of(x, y)
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

    fn price(&self, x: u64, y: u64) -> f64 {
        self.settled(x, y).map_or(f64::INFINITY, |knobs| self.trials.case.price(&knobs))
    }

    fn begin_at(&mut self, x: u64, y: u64) {
        if let Some(knobs) = self.settled(x, y) {
            self.trials.begin_at((x, y), &knobs);
        }
    }
}
