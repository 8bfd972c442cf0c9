//! The cheapest setting of a type of volume that keeps a promise.
//!
//! Sizes and single rates are bisected, two rates are searched together ([`staircase`]), and fixed
//! sizes are tried from the cheapest on. All of it relies on delays that never grow with a rate or
//! a depth ([`drain`]), so each result is exact for requests that arrive as recorded.

use forebay_core::device::throttled::{Bucket, Queues, Throttle};
use forebay_core::{Nanos, SpecError};

use super::drain::{self, Before, Costed, Delays, Drain, Limits};
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
    pub before: Before,
    /// Buckets of the instance, which limit the requests as well.
    pub instance: &'a [Bucket],
}

/// The longest time that a bucket of unknown depth may overdraw. Longer ones hold credit.
const FLAT_MAX_NS: f64 = 10e9;

/// Returns whether a bucket holds credit that lasts, and not only what may pass at once.
pub(super) fn holds_credit(bucket: &Bucket) -> bool {
    bucket.depth > bucket.rate_per_s * (FLAT_MAX_NS / 1e9)
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
    /// Returns the throttle of a setting, with the buckets of the instance.
    ///
    /// # Errors
    /// A setting that the type does not permit, or limits of a kind that cannot be searched.
    pub(super) fn throttle(&self, knobs: &Knobs) -> Result<Throttle, SpecError> {
        let mut throttle = self.kind.at(knobs)?;
        throttle.buckets.extend_from_slice(self.instance);
        match throttle.queues == Queues::Shared && throttle.buckets.len() <= BUCKETS_MAX {
            true => Ok(throttle),
            false => Err(SpecError(format!(
                "{}: got queues by direction or more than {BUCKETS_MAX} buckets, expected one \
                 queue of reads and writes",
                self.kind.name
            ))),
        }
    }

    fn limits(&self, throttle: &Throttle) -> Limits {
        Limits::new(self.bound.within, throttle.read_latency, throttle.write_latency)
    }

    /// Returns what precedes the counted requests. Only credit remembers it.
    fn before(&self, throttle: &Throttle) -> Before {
        match throttle.buckets.iter().any(holds_credit) {
            true => self.before,
            false => Before::Nothing,
        }
    }

    /// Returns whether the load uses up credit faster than it is refilled, so that no queue ever
    /// ends if the trace is repeated.
    pub(super) fn is_exhausted(&self, throttle: &Throttle, requests: &Costed) -> bool {
        let period_ns = drain::period_ns(requests);
        self.before == Before::Trace
            && throttle.buckets.iter().filter(|bucket| holds_credit(bucket)).any(|bucket| {
                requests.total_ns(&Drain::of(bucket)) > period_ns
            })
    }

    /// Counts the late requests of a setting, up to `late_max`. A setting that is not permitted
    /// makes all of them late.
    fn late(&self, requests: &Costed, knobs: &Knobs, late_max: u64) -> u64 {
        let Ok(throttle) = self.throttle(knobs) else { return u64::MAX };
        if self.is_exhausted(&throttle, requests) {
            return u64::MAX;
        }
        let (limits, before) = (self.limits(&throttle), self.before(&throttle));
        with_drains!(throttle.buckets, drains => {
            drain::late(requests, drains, limits, before, late_max)
        })
    }

    fn keeps(&self, requests: &Costed, knobs: &Knobs) -> bool {
        self.late(requests, knobs, self.bound.late_max) <= self.bound.late_max
    }

    /// Computes the delay of every request in a setting.
    ///
    /// # Errors
    /// If the setting is not permitted.
    pub(super) fn delays(&self, requests: &Costed, throttle: &Throttle) -> Delays {
        let (limits, before) = (self.limits(throttle), self.before(throttle));
        with_drains!(throttle.buckets, drains => drain::delays(requests, drains, limits, before))
    }

    /// Finds the cheapest setting; `None` if no setting keeps the promise.
    pub(super) fn find(&self, shape: &Shape, requests: &Costed) -> Option<Knobs> {
        match shape {
            Shape::Sizes(sizes) => self.cheapest_size(sizes, requests),
            Shape::Size => {
                let [least, most] = kind::sizes(self.kind)?;
                let sized = |gib: u64| self.base.clone().with(kind::SIZE, gib as f64);
                let keeps = |gib: u64| self.keeps(requests, &sized(gib));
                let least = self.gib.max(least);
                (least <= most && keeps(most)).then(|| sized(first(least, most, keeps)))
            }
            Shape::One(rate) => self.least_rate(rate, requests),
            Shape::Two(x, y) => self.cheapest_pair(x, y, requests),
        }
    }

    /// Returns the highest setting.
    pub(super) fn highest(&self, shape: &Shape) -> Option<Knobs> {
        kind::highest(self.kind, shape, &self.base)
    }

    /// Tries fixed sizes from the cheapest on.
    fn cheapest_size(&self, sizes: &[f64], requests: &Costed) -> Option<Knobs> {
        let large = sizes.iter().filter(|gib| **gib >= self.gib as f64);
        let sized = large.map(|gib| self.base.clone().with(kind::SIZE, *gib));
        let mut priced: Vec<(f64, Knobs)> = sized.map(|one| (self.price(&one), one)).collect();
        // A stable sort: without prices, the smallest comes first.
        priced.sort_by(|a, b| a.0.total_cmp(&b.0));
        priced.into_iter().map(|(_, knobs)| knobs).find(|knobs| self.keeps(requests, knobs))
    }

    fn least_rate(&self, rate: &Rate, requests: &Costed) -> Option<Knobs> {
        let settled = |value: u64| kind::settled(self.kind, &self.base, self.gib, &[(rate, value)]);
        let keeps = |value: u64| settled(value).is_some_and(|knobs| self.keeps(requests, &knobs));
        if keeps(rate.most) {
            return settled(first(rate.least, rate.most, keeps));
        }
        // The highest rates may need a larger size than there is.
        if settled(rate.most).is_some() {
            return None;
        }
        let barred = first(rate.least, rate.most, |value| settled(value).is_none());
        let most = barred.checked_sub(1).filter(|most| *most >= rate.least && keeps(*most))?;
        settled(first(rate.least, most, keeps))
    }

    fn cheapest_pair(&self, x: &Rate, y: &Rate, requests: &Costed) -> Option<Knobs> {
        let mut rates = Rates { case: self, x, y, all: requests, few: None };
        let (x, y) = staircase::cheapest(&mut rates, x.least..=x.most, y.least..=y.most)?;
        rates.settled(x, y)
    }

    /// Returns the price by which settings of this type are compared: the monthly one, or if that is
    /// unknown, a number that grows with every rate.
    fn price(&self, knobs: &Knobs) -> f64 {
        let price = match self.kind.price(knobs) {
            Some(price) => price.amount,
            None => unpriced(self.kind, knobs),
        };
        // Prices that differ only by how their parts were rounded are equal.
        (price * 1e6).round()
    }
}

/// The operations per second that count as much as a MiB/s where no prices are known. For gp3 they
/// cost about the same.
const OPS_PER_MIBPS: f64 = 8.0;

/// Returns a substitute for the price of a setting.
fn unpriced(kind: &VolumeType, knobs: &Knobs) -> f64 {
    let worth = |name: &str| match name {
        "iops" => 1.0,
        kind::SIZE => 1e-3,
        _ => OPS_PER_MIBPS,
    };
    kind.knobs().iter().map(|knob| worth(&knob.name) * knobs.get(&knob.name).unwrap_or(0.0)).sum()
}

/// Two rates of a type of volume, as knobs of the search.
struct Rates<'a> {
    case: &'a Case<'a>,
    x: &'a Rate,
    y: &'a Rate,
    all: &'a Costed,
    /// The requests that may be late at these rates and above.
    few: Option<((u64, u64), Costed)>,
}

impl Rates<'_> {
    fn settled(&self, x: u64, y: u64) -> Option<Knobs> {
        let case = self.case;
        kind::settled(case.kind, &case.base, case.gib, &[(self.x, x), (self.y, y)])
    }

    /// Returns the setting with these rates, whether or not it is permitted together with the size.
    fn throttle(&self, x: u64, y: u64) -> Option<Throttle> {
        self.case.throttle(&self.settled(x, y)?).ok()
    }
}

impl Pairs for Rates<'_> {
    fn keeps(&mut self, x: u64, y: u64) -> bool {
        let Some(knobs) = self.settled(x, y) else { return false };
        let requests = match &self.few {
            Some((from, few)) if from.0 <= x && from.1 <= y => few,
            _ => self.all,
        };
        self.case.keeps(requests, &knobs)
    }

    fn price(&self, x: u64, y: u64) -> f64 {
        self.settled(x, y).map_or(f64::INFINITY, |knobs| self.case.price(&knobs))
    }

    fn begin_at(&mut self, x: u64, y: u64) {
        let Some(throttle) = self.throttle(x, y) else { return };
        if throttle.buckets.iter().any(holds_credit) {
            return;
        }
        let limits = self.case.limits(&throttle);
        let from = self.few.as_ref().map_or(self.all, |(_, few)| few);
        let few = with_drains!(throttle.buckets, drains => {
            drain::that_may_be_late(from, drains, limits)
        });
        self.few = Some(((x, y), few));
    }
}
