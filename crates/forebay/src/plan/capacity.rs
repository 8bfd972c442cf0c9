//! The verb `plan capacity`: finds the lowest capacity for each promise, that is, for each time
//! bound and each share of requests.

mod page;
mod verb;

use std::fmt::Display;

use forebay_core::Nanos;
use forebay_core::rtt::{Gaps, RATE_MAX_IOPS};
use serde::Serialize;

use super::arrival_times::{ArrivalTimes, size_caution};
use super::confidence::{self, Bootstrap};
use super::page::mean_iops;
use super::search::least_capacities;
use crate::jobs::{each_told, on_all_cores};
use crate::quantities::bound;
use crate::{Error, Telling};
use forebay_ask::Share;

pub use verb::CapacityAsk;

/// The promises to find capacities for: every combination of a time bound and a share of requests.
#[derive(Clone, Debug)]
pub struct Promises {
    /// The times within which requests must be answered, each above zero.
    pub within: Vec<Nanos>,
    /// The shares of all requests that must be answered in time.
    pub fractions: Vec<Share>,
}

impl Promises {
    /// Combines each of `within` with each of `fractions`; duplicates are dropped.
    pub fn new(within: Vec<Nanos>, fractions: Vec<Share>) -> Promises {
        Promises { within: once(within), fractions: once(fractions) }
    }
}

/// Removes duplicates from `given`, keeping the first occurrence of each.
pub fn once<T: PartialEq>(given: Vec<T>) -> Vec<T> {
    let mut kept = Vec::new();
    for one in given {
        if !kept.contains(&one) {
            kept.push(one);
        }
    }
    kept
}

/// How to estimate the uncertainty of the capacities found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Doubt {
    /// The settings for bootstrap intervals; `None` if no intervals are requested.
    pub bootstrap: Option<Bootstrap>,
    /// The share of the trace's time, at its end, that is held out to check the capacities; `None`
    /// for no check.
    pub hold_out: Option<f64>,
}

/// The capacity that one promise needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CapacityRow {
    /// The name of the volume; `None` for the whole trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// The name of the stream; `None` for the whole trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// The time within which requests are promised an answer.
    pub within_ms: f64,
    /// The share of requests that is promised an answer in time.
    pub fraction: f64,
    /// The lowest capacity that keeps the promise, in whole requests per second.
    pub capacity_iops: u64,
    /// The confidence interval of the capacity over other periods of the same load; `None` if not
    /// requested.
    #[serde(flatten)]
    pub interval: Option<Interval>,
    /// How the capacity performs on the held-out part of the trace; `None` if not requested.
    #[serde(flatten)]
    pub held_out: Option<HeldOut>,
}

impl CapacityRow {
    /// Returns which part of the trace the row is about, as (kind of part, name); `None` for the
    /// whole trace.
    pub(crate) fn part(&self) -> Option<(&'static str, &str)> {
        let volume = self.volume.as_deref().map(|name| ("volume", name));
        volume.or(self.stream.as_deref().map(|name| ("stream", name)))
    }
}

/// The confidence interval of a capacity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The lower end of the interval.
    pub capacity_low_iops: u64,
    /// The upper end of the interval.
    pub capacity_high_iops: u64,
}

/// The capacity that the trace needs without its held-out end, and how that capacity performs on
/// the held-out end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HeldOut {
    /// The capacity found on the rest of the trace.
    pub train_capacity_iops: u64,
    /// The lower end of the interval of `train_capacity_iops`; `None` if not requested.
    pub train_low_iops: Option<u64>,
    /// The upper end of the interval of `train_capacity_iops`; `None` if not requested.
    pub train_high_iops: Option<u64>,
    /// The share of the held-out requests that `train_capacity_iops` answers in time.
    pub held_out_fraction: f64,
    /// Whether `held_out_fraction` is at least the promised share.
    pub held_out_kept: bool,
    /// The capacity that the held-out part needs by itself; `None` if no supported capacity is
    /// enough.
    pub held_out_capacity_iops: Option<u64>,
}

/// The highest number of requests that arrive within a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Busiest {
    /// The time, which is one of the promised bounds.
    pub within_ms: f64,
    /// The number of requests.
    pub requests: u64,
}

/// The answer of `plan capacity` for a constant-rate server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The name of the trace.
    pub trace: String,
    /// The number of requests in the trace.
    pub requests: u64,
    /// The time from the trace's first request to its last, in seconds.
    pub duration_s: f64,
    /// The same time without gaps, if one or two gaps are nearly all of it.
    #[serde(skip)]
    pub active_s: Option<f64>,
    /// The trace's mean request rate, outside such gaps; `None` if all requests arrive at the same
    /// time.
    pub mean_iops: Option<f64>,
    /// The highest number of requests that arrive within any second.
    pub busiest_second_iops: u64,
    /// The highest number of requests that arrive within each time bound.
    pub busiest: Vec<Busiest>,
    /// Cautions about the capacities, one sentence each.
    pub cautions: Vec<String>,
    /// The capacities, in the order of [`table`].
    pub rows: Vec<CapacityRow>,
}

/// Returns the capacities of [`table`], with figures that describe the trace.
///
/// # Errors
/// Fails like [`table`].
pub fn answer(
    arrivals: &ArrivalTimes,
    promises: &Promises,
    doubt: Doubt,
    progress: Telling<'_>,
) -> Result<Answer, Error> {
    let rows = table(arrivals, promises, doubt, progress)?;
    let cautions =
        arrivals.cautions().into_iter().chain(size_caution([arrivals], &["cost_us", "device"]));
    let (requests, duration_s) = (arrivals.requests(), arrivals.duration().as_secs_f64());
    let active_s = arrivals.active_s();
    Ok(Answer {
        trace: arrivals.path.display().to_string(),
        requests,
        duration_s,
        active_s,
        mean_iops: mean_iops(requests, active_s.unwrap_or(duration_s)),
        busiest_second_iops: busiest(&arrivals.whole, Nanos::from_secs(1)),
        busiest: promises
            .within
            .iter()
            .map(|within| Busiest::of(&arrivals.whole, *within))
            .collect(),
        cautions: cautions.chain(missing(&rows, doubt)).collect(),
        rows,
    })
}

impl Busiest {
    fn of(gaps: &Gaps, within: Nanos) -> Busiest {
        Busiest { within_ms: within.as_millis_f64(), requests: busiest(gaps, within) }
    }
}

/// The minimum duration of a trace, in seconds, for which a busiest second is reported.
const SECONDS_LEAST_S: f64 = 2.0;

impl Answer {
    /// Returns whether the trace is long enough for its busiest second to mean something.
    fn has_seconds(&self) -> bool {
        self.duration_s >= SECONDS_LEAST_S
    }

    /// Returns the highest number of requests that arrive within the time bound of `row`.
    fn busiest_within(&self, row: &CapacityRow) -> Option<u64> {
        let of_bound = self.busiest.iter().find(|of| of.within_ms == row.within_ms);
        of_bound.map(|of| of.requests)
    }
}

/// Returns the highest number of requests that arrive within any period of length `window`.
fn busiest(gaps: &Gaps, window: Nanos) -> u64 {
    let (mut starts, mut most) = (gaps.times().zip(0u64..).peekable(), 0);
    for (at, nth) in gaps.times().zip(0u64..) {
        while starts.next_if(|(start, _)| *start + window <= at).is_some() {}
        most = most.max(nth + 1 - starts.peek().map_or(nth, |(_, first)| *first));
    }
    most
}

/// Explains which of the requested intervals and checks could not be computed, one sentence each.
pub fn missing(rows: &[CapacityRow], doubt: Doubt) -> Vec<String> {
    let interval = doubt.bootstrap.is_some() && rows.iter().any(|row| row.interval.is_none());
    let check = doubt.hold_out.is_some() && rows.iter().any(|row| row.held_out.is_none());
    let said = [
        (interval, "no interval is computed if all requests arrive at the same time"),
        (check, "no check is made if either part of the trace has no request"),
    ];
    said.into_iter().filter(|(is_so, _)| *is_so).map(|(_, said)| said.to_string()).collect()
}

/// Finds the capacities that `promises` need, for the whole trace and then for each of its volumes.
/// Uses all processors.
///
/// # Errors
/// Fails if a promise needs more than [`RATE_MAX_IOPS`]. Returns [`Error::Stopped`] if `progress`
/// requests a stop.
pub fn table(
    arrivals: &ArrivalTimes,
    promises: &Promises,
    doubt: Doubt,
    progress: Telling<'_>,
) -> Result<Vec<CapacityRow>, Error> {
    let whole = std::iter::once((None, &arrivals.whole));
    let volumes = arrivals.volumes.iter().map(|(name, gaps)| (Some(name), gaps));
    let traces: Vec<(Option<&String>, &Gaps)> = whole.chain(volumes).collect();
    let jobs: Vec<(usize, Nanos)> = (0..traces.len())
        .flat_map(|trace| promises.within.iter().map(move |within| (trace, *within)))
        .collect();
    let called = |(trace, within): &(usize, Nanos)| {
        let volume = traces[*trace].0.map_or(String::new(), |name| format!("volume {name} "));
        format!("{volume}within {}", bound(within.as_millis_f64()))
    };
    let work = |(trace, within): &(usize, Nanos)| {
        let prices = prices(traces[*trace].1, *within, &promises.fractions, doubt);
        prices.map_err(|fraction| beyond(arrivals.path.display(), *within, fraction))
    };
    let prices = each_told(&jobs, called, 0.0..1.0, work, progress)?;
    let mut rows = Vec::new();
    for ((trace, _), prices) in jobs.iter().zip(prices) {
        rows.extend(
            prices.into_iter().map(|row| CapacityRow { volume: traces[*trace].0.cloned(), ..row }),
        );
    }
    Ok(rows)
}

/// Finds the capacities for one time bound. If no capacity keeps one of the promises, fails with
/// the promised share.
fn prices(
    gaps: &Gaps,
    within: Nanos,
    fractions: &[Share],
    doubt: Doubt,
) -> Result<Vec<CapacityRow>, Share> {
    let found = least(gaps, within, fractions)?;
    let intervals = intervals_of(gaps, within, fractions, &found, doubt.bootstrap);
    let held_out = match doubt.hold_out.and_then(|share| confidence::hold_out(gaps, share)) {
        Some((known, held)) => held_outs(&known, &held, within, fractions, doubt.bootstrap)?,
        None => vec![None; fractions.len()],
    };
    let row = |index: usize| CapacityRow {
        volume: None,
        stream: None,
        within_ms: within.as_millis_f64(),
        fraction: fractions[index].as_f64(),
        capacity_iops: found[index],
        interval: intervals[index],
        held_out: held_out[index],
    };
    Ok((0..fractions.len()).map(row).collect())
}

fn least(gaps: &Gaps, within: Nanos, fractions: &[Share]) -> Result<Vec<u64>, Share> {
    let needs: Vec<u64> = fractions.iter().map(|f| f.of(gaps.len() as u64)).collect();
    let found = least_capacities(gaps, within, &needs).into_iter();
    found.zip(fractions).map(|(price, fraction)| price.ok_or(*fraction)).collect()
}

/// Returns the intervals of the capacities in `found`. They are `None` if all requests arrive at
/// the same time, because there is then nothing to resample.
pub(super) fn intervals_of(
    gaps: &Gaps,
    within: Nanos,
    fractions: &[Share],
    found: &[u64],
    bootstrap: Option<Bootstrap>,
) -> Vec<Option<Interval>> {
    let Some(bootstrap) = bootstrap.filter(|_| gaps.first() < gaps.last()) else {
        return vec![None; found.len()];
    };
    confidence::intervals(gaps, within, fractions, found, bootstrap)
        .into_iter()
        .map(|(low, high)| Interval { capacity_low_iops: low, capacity_high_iops: high })
        .map(Some)
        .collect()
}

fn held_outs(
    known: &Gaps,
    held: &Gaps,
    within: Nanos,
    fractions: &[Share],
    bootstrap: Option<Bootstrap>,
) -> Result<Vec<Option<HeldOut>>, Share> {
    let found = least(known, within, fractions)?;
    let intervals = intervals_of(known, within, fractions, &found, bootstrap);
    let checks = confidence::check(held, within, fractions, &found);
    let row = |index: usize| HeldOut {
        train_capacity_iops: found[index],
        train_low_iops: intervals[index].map(|interval| interval.capacity_low_iops),
        train_high_iops: intervals[index].map(|interval| interval.capacity_high_iops),
        held_out_fraction: checks[index].fraction,
        held_out_kept: checks[index].kept,
        held_out_capacity_iops: checks[index].capacity_iops,
    };
    Ok((0..fractions.len()).map(|index| Some(row(index))).collect())
}

/// For each time bound, computes the capacity over all shares from 0.9 to 1, as points (share,
/// IOPS).
///
/// # Errors
/// Fails like [`table`].
pub fn curve(arrivals: &ArrivalTimes, within: &[Nanos]) -> Result<Vec<Vec<(f64, u64)>>, Error> {
    let steps = (900..990)
        .step_by(5)
        .map(|mille| mille * 10)
        .chain((9900..9995).step_by(5))
        .chain(9995..=10_000);
    let fractions: Vec<Share> = steps
        .filter_map(|share| format!("{}.{:04}", share / 10_000, share % 10_000).parse().ok())
        .collect();
    on_all_cores(within, |within| {
        let prices = least(&arrivals.whole, *within, &fractions);
        let prices =
            prices.map_err(|fraction| beyond(arrivals.path.display(), *within, fraction))?;
        Ok(fractions.iter().map(|fraction| fraction.as_f64()).zip(prices).collect())
    })
}

/// Returns the error that no capacity keeps the promise to `name`.
pub(super) fn beyond(name: impl Display, within: Nanos, fraction: Share) -> Error {
    Error::Unfit(format!(
        "{name}: a fraction of {fraction} within {within} requires more than {RATE_MAX_IOPS} IOPS, \
         expected a promise that requires less; allow more time or a smaller fraction"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(
        arrivals: &ArrivalTimes,
        promises: &Promises,
        doubt: Doubt,
    ) -> Result<Vec<CapacityRow>, Error> {
        super::table(arrivals, promises, doubt, &mut crate::progress::unheard)
    }

    fn arrivals(times: impl Iterator<Item = u64>) -> ArrivalTimes {
        ArrivalTimes {
            volumes: vec![("a".into(), [Nanos(0)].into_iter().collect())],
            ..ArrivalTimes::of(times.map(Nanos).collect())
        }
    }

    fn promises(within: &[u64], fractions: &[&str]) -> Promises {
        Promises {
            within: within.iter().copied().map(Nanos).collect(),
            fractions: fractions.iter().map(|text| text.parse().unwrap()).collect(),
        }
    }

    /// As when a recording was stopped for hours.
    #[test]
    fn the_mean_rate_leaves_out_a_long_gap() {
        const GAP: u64 = 8 * 3_600_000_000_000;
        let at = |n: u64| n * 100_000_000 + if n >= 100 { GAP } else { 0 };
        let (trace, asked) = (arrivals((0..200).map(at)), promises(&[20_000_000], &["1"]));
        let answer =
            super::answer(&trace, &asked, Doubt::default(), &mut crate::progress::unheard).unwrap();
        assert!((answer.mean_iops.unwrap() - 10.0).abs() < 0.2, "{:?}", answer.mean_iops);
        assert!(answer.duration_s > 8.0 * 3600.0);
        let said = crate::quantities::lasting(answer.duration_s, answer.active_s);
        assert_eq!(said, "19.8 s, leaving out a gap of 8.00 h");
    }

    #[test]
    fn rows_come_by_trace_then_bound_then_fraction() {
        // Ten requests arrive at once, so the last one waits for ten service times.
        let rows = table(
            &arrivals([0; 10].into_iter()),
            &promises(&[1_000_000_000, 500_000_000], &["0.5", "1"]),
            Doubt::default(),
        )
        .unwrap();
        let shown: Vec<_> = rows
            .iter()
            .map(|r| (r.volume.as_deref(), r.within_ms, r.fraction, r.capacity_iops))
            .collect();
        assert_eq!(
            shown[..4],
            [
                (None, 1000.0, 0.5, 5),
                (None, 1000.0, 1.0, 10),
                (None, 500.0, 0.5, 10),
                (None, 500.0, 1.0, 20),
            ]
        );
        assert_eq!(shown[4..6], [(Some("a"), 1000.0, 0.5, 1), (Some("a"), 1000.0, 1.0, 1)]);
        assert_eq!(rows.len(), 8);
    }

    #[test]
    fn the_busiest_second_may_begin_at_any_request() {
        let ms = |times: &[u64]| times.iter().map(|at| Nanos::from_millis(*at)).collect::<Gaps>();
        let second = |times: &[u64]| busiest(&ms(times), Nanos::from_secs(1));
        assert_eq!(second(&[0, 900, 1000, 1100, 1899, 2000, 9000]), 4);
        assert_eq!((second(&[5; 7]), second(&[0, 1000])), (7, 1));
    }

    #[test]
    fn duplicate_bounds_are_answered_once() {
        let (ten, five) = (Nanos(10), Nanos(5));
        let fractions = ["0.9", "1", "0.90"].map(|text| text.parse().unwrap());
        let promises = Promises::new(vec![ten, five, ten], fractions.to_vec());
        assert_eq!(promises.within, [ten, five]);
        assert_eq!(promises.fractions, fractions[..2]);
    }

    #[test]
    fn promises_that_no_capacity_keeps_are_reported() {
        let refused =
            table(&arrivals([0; 10].into_iter()), &promises(&[9], &["0.5", "1"]), Doubt::default());
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("a fraction of 1 within") && text.contains("1000000000"), "{text}");
    }

    #[test]
    fn the_held_out_half_checks_the_other() {
        // The bursts in the second half have twice as many requests as in the first.
        let times = (0..100u64).flat_map(|s| {
            let burst = if s < 70 { 10 } else { 20 };
            std::iter::repeat_n(s * 1_000_000_000, burst)
        });
        let doubt =
            Doubt { bootstrap: Some(Bootstrap { level: 0.95, seed: 1 }), hold_out: Some(0.3) };
        let promises = promises(&[100_000_000], &["1"]);
        let row = &table(&arrivals(times), &promises, doubt).unwrap()[0];
        let held = row.held_out.unwrap();
        assert_eq!((held.train_capacity_iops, held.held_out_capacity_iops), (100, Some(200)));
        assert_eq!((held.held_out_fraction, held.held_out_kept), (0.5, false));
        assert_eq!((row.capacity_iops, row.interval.unwrap().capacity_high_iops), (200, 200));
        assert_eq!(held.train_high_iops, Some(100));
    }

    #[test]
    fn the_curve_rises_to_the_price_of_all() {
        let times = (0..100u64).flat_map(|s| std::iter::repeat_n(s * 1_000_000_000, s as usize));
        let curve = &curve(&arrivals(times), &[Nanos(1_000_000_000)]).unwrap()[0];
        assert!(curve.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
        assert_eq!((curve[0].0, curve[curve.len() - 1]), (0.9, (1.0, 99)));
    }
}
