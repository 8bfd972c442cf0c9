//! A row of the answer: the setting found for one volume type at one bucket depth, with its figures
//! and neighboring settings.

use forebay_core::Nanos;
use forebay_core::device::throttled::{Bucket, Measure, Throttle};
use forebay_core::replay::Intensity;
use serde::Serialize;

use super::kind::{self, Shape};
use super::simulated;
use super::{Case, Costed, Counters, Delays, Demand, apply, holds_credit, least};
use crate::devices::volume::{Knobs, VolumeType};
use crate::replayed::Replay;
use crate::{Error, Input};

/// The result for one volume type at one bucket depth.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VolumeRow {
    /// The name of the volume type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The assumed bucket depth, in milliseconds.
    pub depth_ms: f64,
    /// Whether the setting keeps the promise. If no setting does, this is the highest one.
    pub keeps: bool,
    /// The setting of the volume.
    #[serde(flatten)]
    pub setting: Setting,
    /// The share of requests answered in time if they arrive as recorded, by simulation.
    pub in_time_fraction: f64,
    /// The share of requests answered in time if requests wait for earlier ones. Computed for the
    /// user's volume, and for the first rows that keep the promise at each bucket depth, if the
    /// trace records latencies.
    pub dependent_in_time_fraction: Option<f64>,
    /// Whether the load uses up credit faster than it is refilled. If so, the queue grows without
    /// end when the trace is repeated, and no request is in time in the long run.
    pub uses_up_credit: bool,
    /// The 99.9th percentile of latencies; `None` if the queue grows without end.
    pub p999_ms: Option<f64>,
    /// The longest latency of any request; `None` if the queue grows without end.
    pub longest_ms: Option<f64>,
    /// The assumed latency of a read after the buckets release it, which is part of every read's
    /// latency.
    pub base_read_ms: f64,
    /// The assumed latency of any other request after the buckets release it.
    pub base_write_ms: f64,
    /// The lower end of the confidence interval of the monthly price. Computed for the first row
    /// that keeps the promise at each bucket depth, if intervals are requested.
    pub price_low_month: Option<f64>,
    /// The upper end of the confidence interval of the monthly price.
    pub price_high_month: Option<f64>,
    /// The limit that determines the setting; `None` if the smallest setting of the type is enough.
    pub decides: Option<Decides>,
    /// The share of the total delay that limits on operations cause; limits on bytes cause the
    /// rest.
    pub delay_ops_share: Option<f64>,
    /// The share of the total delay that is due to exhausted credit.
    pub delay_credit_share: Option<f64>,
    /// How long full credit lasts at the highest rate, in seconds.
    pub burst_s: Option<f64>,
    /// The smallest remaining share of the credit of any bucket.
    pub credit_least_share: Option<f64>,
    /// The settings one step below this one, none of which is enough.
    pub cheaper: Vec<CheaperSetting>,
    /// The smallest setting of the type, for comparison.
    pub smallest: Option<CheaperSetting>,
    /// The limits of the volume in this setting.
    #[serde(skip)]
    throttle: Throttle,
}

/// The user's choices for a volume, and their price.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Setting {
    /// Whether the volume's type leaves nothing to choose.
    #[serde(skip)]
    pub is_fixed: bool,
    /// The provider's name for the size, if sizes have names.
    pub tier: Option<String>,
    /// The size of the volume in GiB.
    pub gib: u64,
    /// The IOPS that are provisioned.
    pub iops: Option<u64>,
    /// The throughput that is provisioned, in MiB/s.
    pub mibps: Option<u64>,
    /// The throughput that is provisioned, in MB/s.
    pub mbps: Option<u64>,
    /// The operations per second that the volume can sustain.
    pub sustained_iops: Option<f64>,
    /// The throughput that the volume can sustain, in MB/s.
    pub sustained_mb_per_s: Option<f64>,
    /// The monthly price.
    pub price_month: Option<f64>,
    /// The currency of the price, as a three-letter code.
    pub currency: Option<String>,
    /// The year, month or day at which the price was valid.
    pub priced_on: Option<String>,
    /// The region in which the price applies.
    pub region: Option<String>,
}

/// A setting below the chosen one, and how well it keeps the promise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheaperSetting {
    /// The lower setting.
    #[serde(flatten)]
    pub setting: Setting,
    /// The share of requests answered in time if they arrive as recorded, by simulation.
    pub in_time_fraction: f64,
    /// Whether the load uses up credit faster than it is refilled in this setting.
    pub uses_up_credit: bool,
}

/// The limit that determines a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decides {
    Operations,
    Bytes,
    OperationCredit,
    ByteCredit,
}

impl Decides {
    fn of(bucket: &Bucket) -> Decides {
        match (bucket.measure, holds_credit(bucket)) {
            (Measure::Ops, false) => Decides::Operations,
            (Measure::Ops, true) => Decides::OperationCredit,
            (Measure::Bytes, false) => Decides::Bytes,
            (Measure::Bytes, true) => Decides::ByteCredit,
        }
    }

    fn is_credit(self) -> bool {
        matches!(self, Decides::OperationCredit | Decides::ByteCredit)
    }
}

impl VolumeRow {
    /// Replays `input` with requests that wait for earlier ones, and returns the share answered in
    /// time.
    ///
    /// # Errors
    /// Fails if the trace cannot be read again.
    pub(super) fn dependent(
        &self,
        input: &Input,
        within: Nanos,
        growth: Intensity,
    ) -> Result<f64, Error> {
        let replay = (Replay::Dependent, growth);
        Ok(simulated::run(input, &self.throttle, within, replay)?.share())
    }
}

/// Finds the setting for one case, and computes its row.
pub(super) struct Finder<'a> {
    pub case: Case<'a>,
    pub shape: &'a Shape,
    pub demand: Demand<'a>,
}

impl Finder<'_> {
    /// Finds the setting and returns its row; `None` if the type permits no setting.
    ///
    /// # Errors
    /// Fails if the trace cannot be read again.
    pub(super) fn find(&self) -> Result<Option<VolumeRow>, Error> {
        let found = self.case.find(self.shape, self.demand);
        let Some(knobs) = found.clone().or_else(|| self.case.highest(self.shape)) else {
            return Ok(None);
        };
        let mut row = self.row(&knobs)?;
        // A setting may be fast enough but too small for the data, even at the largest size.
        let bytes = row.throttle.capacity_bytes;
        row.keeps &= bytes.div_ceil(1 << 30) >= self.case.gib;
        if found.is_some() {
            row.cheaper = self.cheaper(&knobs)?;
            row.smallest = self.smallest(&knobs)?;
            if row.smallest.is_none() && *self.shape != Shape::Fixed {
                row.decides = None;
            }
        }
        Ok(Some(row))
    }

    /// Computes the row for the user's setting.
    ///
    /// # Errors
    /// Fails if the type does not permit the setting, or if the trace cannot be read again.
    pub(super) fn of_setting(&self, chosen: &Knobs) -> Result<VolumeRow, Error> {
        let all = self.case.kind.knobs().iter();
        let values = all.filter_map(|of| Some((&of.name, chosen.get(&of.name).or(of.default)?)));
        let base = self.case.base.clone();
        self.row(&values.fold(base, |knobs, (name, value)| knobs.with(name, value)))
    }

    /// Computes the row for a setting.
    fn row(&self, knobs: &Knobs) -> Result<VolumeRow, Error> {
        let throttle = self.case.throttle(knobs, self.demand)?;
        Ok(match self.demand {
            Demand::Requests(requests) => self.simulated(knobs, throttle, requests),
            Demand::Counters(counters) => self.bounded(knobs, throttle, counters),
        })
    }

    /// Computes the row for a setting from counters, using the lower bound of the number of late
    /// requests.
    fn bounded(&self, knobs: &Knobs, throttle: Throttle, counters: &Counters) -> VolumeRow {
        let case = &self.case;
        let late = case.least_late(&throttle, counters);
        VolumeRow {
            keeps: least::whole(late) <= case.bound.late_max,
            in_time_fraction: in_time_at_most(late, counters),
            uses_up_credit: case.is_exhausted(&throttle, self.demand),
            ..self.blank(knobs, throttle)
        }
    }

    /// Builds a row without the figures that depend on the load.
    fn blank(&self, knobs: &Knobs, throttle: Throttle) -> VolumeRow {
        VolumeRow {
            kind: self.case.kind.name.clone(),
            depth_ms: knobs.depth_ms.unwrap_or_default(),
            keeps: false,
            setting: setting(self.case.kind, knobs, &throttle),
            in_time_fraction: 0.0,
            dependent_in_time_fraction: None,
            uses_up_credit: false,
            p999_ms: None,
            longest_ms: None,
            base_read_ms: throttle.read_latency.as_millis_f64(),
            base_write_ms: throttle.write_latency.as_millis_f64(),
            price_low_month: None,
            price_high_month: None,
            decides: None,
            delay_ops_share: None,
            delay_credit_share: None,
            burst_s: burst_s(&throttle),
            credit_least_share: None,
            cheaper: Vec::new(),
            smallest: None,
            throttle,
        }
    }

    /// Computes the row for a setting by simulating `requests`.
    fn simulated(&self, knobs: &Knobs, throttle: Throttle, requests: &Costed) -> VolumeRow {
        let case = &self.case;
        let delays = case.delays(requests, &throttle);
        let latencies = requests.latencies(&delays.each_ns, &throttle);
        let credit = throttle.buckets.iter().zip(&delays.least_left_share);
        let credit = credit.filter(|(bucket, _)| holds_credit(bucket)).map(|(_, left)| *left);
        let waited = Waited::new(&throttle, &delays);
        let is_exhausted = case.is_exhausted(&throttle, self.demand);
        let in_time = simulated::open(requests, &throttle, case.bound.within);
        // The search and the replay count late requests independently; a setting has to pass both.
        let late = delays.late.max(in_time.late());
        let in_ms = |ns: u64| (!is_exhausted).then_some(ns as f64 / 1e6);
        VolumeRow {
            keeps: late <= case.bound.late_max && !is_exhausted,
            in_time_fraction: if is_exhausted { 0.0 } else { in_time.share() },
            uses_up_credit: is_exhausted,
            p999_ms: in_ms(latencies.p999_ns),
            longest_ms: in_ms(latencies.longest_ns),
            decides: waited.most,
            delay_ops_share: waited.ops_share,
            delay_credit_share: waited.credit_share,
            credit_least_share: credit.reduce(f64::min),
            ..self.blank(knobs, throttle)
        }
    }

    /// Returns the settings one step below `knobs` in one of the choices, with their results.
    fn cheaper(&self, knobs: &Knobs) -> Result<Vec<CheaperSetting>, Error> {
        let all = kind::steps_below(self.case.kind, self.shape, knobs, self.case.gib);
        all.iter().map(|knobs| self.cheaper_setting(knobs)).collect()
    }

    /// Returns the smallest setting of the type with its results; `None` if that is `knobs`.
    fn smallest(&self, knobs: &Knobs) -> Result<Option<CheaperSetting>, Error> {
        let smallest = kind::smallest(self.case.kind, self.shape, &self.case.base, self.case.gib);
        let other = smallest.filter(|smallest| smallest != knobs);
        other.map(|knobs| self.cheaper_setting(&knobs)).transpose()
    }

    fn cheaper_setting(&self, knobs: &Knobs) -> Result<CheaperSetting, Error> {
        let case = &self.case;
        let throttle = case.throttle(knobs, self.demand)?;
        let uses_up_credit = case.is_exhausted(&throttle, self.demand);
        let in_time_fraction = match self.demand {
            _ if uses_up_credit => 0.0,
            Demand::Requests(requests) => {
                simulated::open(requests, &throttle, case.bound.within).share()
            }
            Demand::Counters(counters) => {
                in_time_at_most(case.least_late(&throttle, counters), counters)
            }
        };
        let setting = setting(case.kind, knobs, &throttle);
        Ok(CheaperSetting { setting, in_time_fraction, uses_up_credit })
    }
}

/// Returns an upper bound of the share of requests answered in time.
fn in_time_at_most(late: f64, counters: &Counters) -> f64 {
    1.0 - (late / counters.ops_most.max(1.0)).min(1.0)
}

/// The limits that delayed the requests.
#[derive(Default)]
struct Waited {
    most: Option<Decides>,
    ops_share: Option<f64>,
    credit_share: Option<f64>,
}

impl Waited {
    fn new(throttle: &Throttle, delays: &Delays) -> Waited {
        let all_ns: f64 = delays.waited_ns.iter().sum();
        if all_ns <= 0.0 {
            return Waited::default();
        }
        let each = || throttle.buckets.iter().map(Decides::of).zip(&delays.waited_ns);
        let share = |counts: &dyn Fn(Decides) -> bool| {
            let ns = each().filter(|(of, _)| counts(*of)).map(|(_, ns)| ns);
            // An iterator's `sum` of no numbers is -0.0, so fold from 0.0 instead.
            Some(ns.fold(0.0, |sum, ns| sum + ns) / all_ns)
        };
        Waited {
            most: each().max_by(|a, b| a.1.total_cmp(b.1)).map(|(of, _)| of),
            ops_share: share(&|of| matches!(of, Decides::Operations | Decides::OperationCredit)),
            credit_share: share(&Decides::is_credit),
        }
    }
}

/// Returns how long full credit lasts at the highest rate, in seconds; the shortest time of all
/// buckets.
fn burst_s(throttle: &Throttle) -> Option<f64> {
    let credits = throttle.buckets.iter().filter(|bucket| holds_credit(bucket));
    let lasts = credits.filter_map(|credit| {
        let of_measure = throttle.buckets.iter().filter(|bucket| bucket.measure == credit.measure);
        let most = of_measure
            .filter(|bucket| !holds_credit(bucket))
            .map(|bucket| bucket.rate_per_s)
            .reduce(f64::min)?;
        (most > credit.rate_per_s).then(|| credit.depth / (most - credit.rate_per_s))
    });
    lasts.reduce(f64::min)
}

/// Describes the setting `knobs` of `kind`, with its price.
fn setting(kind: &VolumeType, knobs: &Knobs, throttle: &Throttle) -> Setting {
    let whole = |name: &str| knobs.get(name).map(|value| value as u64);
    let size = throttle.capacity_bytes;
    let own_gib = if size == u64::MAX { 0 } else { size >> 30 };
    let gib = whole(kind::SIZE).unwrap_or(own_gib);
    let sustained = |measure: Measure| {
        let of = throttle.buckets.iter().filter(|bucket| bucket.measure == measure);
        of.map(|bucket| bucket.rate_per_s).reduce(f64::min)
    };
    let price = kind.price(knobs);
    Setting {
        is_fixed: kind.knobs().is_empty(),
        tier: kind.tier(gib as f64).map(|tier| tier.name.clone()),
        gib,
        iops: whole("iops"),
        mibps: whole("mibps"),
        mbps: whole("mbps"),
        sustained_iops: sustained(Measure::Ops),
        sustained_mb_per_s: sustained(Measure::Bytes).map(|rate| rate / 1e6),
        price_month: price.as_ref().map(|price| (price.amount * 1e6).round() / 1e6),
        currency: price.as_ref().map(|price| price.currency.clone()),
        priced_on: price.as_ref().map(|price| price.on.clone()),
        region: price.and_then(|price| price.region),
    }
}

/// Sorts rows by bucket depth. Within a depth, those that keep the promise come first, and among
/// these the volumes of the user's provider, `here`; then by price in the currency of the first row
/// that has one, then by name.
pub(super) fn rank(rows: &mut [VolumeRow], here: Option<&str>) {
    let currency = rows.iter().find_map(|row| row.setting.currency.clone());
    rows.sort_by(|a, b| {
        let price = |row: &VolumeRow| {
            let price = row.setting.price_month.filter(|_| row.setting.currency == currency);
            price.unwrap_or(f64::INFINITY)
        };
        let kept = |row: &VolumeRow| !row.keeps;
        let elsewhere = |row: &VolumeRow| apply::is_elsewhere(&row.kind, here);
        (a.depth_ms.total_cmp(&b.depth_ms))
            .then(kept(a).cmp(&kept(b)))
            .then(elsewhere(a).cmp(&elsewhere(b)))
            .then(price(a).total_cmp(&price(b)))
            .then_with(|| a.kind.cmp(&b.kind))
    });
}
