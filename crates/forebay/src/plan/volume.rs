//! The verb `plan volume`: finds the cloud volume that keeps a promise.
//!
//! Every volume type is a list of token buckets ([`crate::devices::volume`]). For each type, the
//! cheapest setting that answers the promised share of requests in time is found exactly
//! ([`find`]). This uses the given depth of the buckets, or both ends of the range in which unknown
//! depths lie. The setting and its neighbors are then replayed on the simulated device
//! ([`simulated`]). If the input is [`counters`] instead of a trace, the settings found are a lower
//! bound.
//!
//! All requests of a trace go to one volume. Memory: 17 bytes per request for each way in which
//! types count operations, in addition to the trace itself ([`crate::input`]).

mod apply;
mod counters;
pub mod drain;
mod find;
mod interval;
mod kind;
mod page;
mod prices;
mod row;
mod said;
mod shaped;
mod simulated;
mod staircase;
mod verb;

use std::path::Path;

use forebay_ask::{Share, named};
use forebay_core::Nanos;
use forebay_core::device::throttled::{Bucket, Count, Queues, Throttle};
use forebay_core::replay::Intensity;
use serde::Serialize;

use super::arrival_times::{Clock, cautions, timed, told_apart};
use super::confidence::Bootstrap;
use crate::clock::Times;
use crate::devices::volume::{ChosenVolume, Knobs, VolumeType};
use crate::jobs::{each_told, on_all_cores};
use crate::{Error, Input, Telling};
pub use counters::CountersRead;
use counters::{Counters, least};
use drain::{Costed, Delays};
use find::{Bound, Case, DEPTH_MAX, Demand, holds_credit};
use kind::{SIZE, Shape};
pub use row::{CheaperSetting, VolumeRow};
use row::{Decides, Finder, Setting};
use said::{choice, passes, throughput};
pub use shaped::Shaped;
use staircase::first;
pub use verb::VolumeAsk;

/// The burst credit of a volume when the trace begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Credit {
    /// The volume has as much credit as it can hold.
    Full,
    /// The volume has no credit.
    Empty,
    /// The volume has the credit that remains when the trace is repeated over and over.
    Steady,
}

impl Answer {
    /// Returns the row of the volume to buy: the cheapest one of the user's provider, or of all if
    /// none is known, at the smallest bucket depth at which any volume keeps the promise.
    pub fn best(&self) -> Option<&VolumeRow> {
        self.rows.iter().find(|row| row.keeps)
    }

    /// Returns whether the best row keeps the promise even at the smallest of the assumed bucket
    /// depths.
    fn is_sure(&self) -> bool {
        self.best().is_some_and(|best| self.depths_ms.first() == Some(&best.depth_ms))
    }

    /// Yields the rows that keep the promise at the bucket depth of the best row.
    fn kept(&self) -> impl Iterator<Item = &VolumeRow> {
        let depth_ms = self.best().map(|row| row.depth_ms);
        self.rows.iter().filter(move |row| row.keeps && Some(row.depth_ms) == depth_ms)
    }
}

/// An EC2 instance, whose limits apply in addition to the volume's.
pub struct Instance {
    /// The limits of the instance.
    pub chosen: ChosenVolume,
    /// The source of the limits, as a sentence; `None` if the user gave them.
    pub note: Option<String>,
}

/// The options of `plan volume`.
pub struct Question<'a> {
    /// The time within which requests are promised an answer.
    pub within: Nanos,
    /// The share of all requests that is promised an answer in time.
    pub fraction: Share,
    /// The factor by which the request rate is assumed to grow.
    pub growth: f64,
    /// The minimum size of the volume in GiB.
    pub gib: u64,
    /// Whether the user gave the minimum size; otherwise it is the size of the trace's address
    /// range.
    pub is_size_given: bool,
    /// The volume types to try.
    pub kinds: &'a [VolumeType],
    /// The burst credit of volumes when the trace begins.
    pub credit: Credit,
    /// The bucket depths to assume, in milliseconds, the smallest first.
    pub depths_ms: Vec<f64>,
    /// The latency of a request once the buckets release it; `None` for the latency of the volume
    /// type.
    pub base_latency: Option<Nanos>,
    /// The EC2 instance that the volume is attached to, if its limits matter.
    pub instance: Option<&'a Instance>,
    /// The volume that the user has now.
    pub current: Option<&'a ChosenVolume>,
    /// The settings for bootstrap intervals of prices; `None` if no intervals are requested.
    pub bootstrap: Option<Bootstrap>,
    /// Whether to trust the trace's times even if its clock seems too coarse for the promise.
    pub trust_times: bool,
}

impl Question<'_> {
    /// Returns the user's provider: that of the present volume, or AWS if an EC2 instance is given.
    fn provider(&self) -> Option<&'static str> {
        let current = self.current.and_then(|chosen| apply::provider(&chosen.volume.name));
        current.or(self.instance.map(|_| apply::AWS))
    }
}

/// The answer of `plan volume`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The name of the trace, or of the file of counters.
    pub trace: String,
    /// What was read from the file of counters; `None` for a trace. With counters, all settings and
    /// prices are lower bounds, and shares answered in time are upper bounds.
    pub counters: Option<CountersRead>,
    /// The number of requests in the trace.
    pub requests: u64,
    /// The time from the trace's first request to its last, in seconds.
    pub duration_s: f64,
    /// The time within which requests are promised an answer.
    pub within_ms: f64,
    /// The share of requests that is promised an answer in time.
    pub fraction: f64,
    /// The factor by which the request rate was assumed to grow.
    pub growth: f64,
    /// The minimum size of the volume in GiB.
    pub gib: u64,
    /// Whether the user gave the minimum size; otherwise it is the size of the trace's address
    /// range.
    pub is_size_given: bool,
    /// The burst credit of volumes when the trace begins.
    pub credit: Credit,
    /// The bucket depths that were assumed, in milliseconds.
    pub depths_ms: Vec<f64>,
    /// Cautions about the answer, one sentence each.
    pub cautions: Vec<String>,
    /// Explanations, one sentence each: the factor that determines the setting, cheaper
    /// alternatives, and uncertainties.
    pub said: Vec<String>,
    /// How the user's present volume performs at each bucket depth; one row if the user gave its
    /// depth.
    pub current: Vec<VolumeRow>,
    /// The savings of a shaper in front of the volume.
    pub shaped: Option<Shaped>,
    /// Commands that create the best volume or change the present one, and configuration that sets
    /// the same limits on a virtual machine or a local device; `None` if no volume keeps the
    /// promise.
    pub apply: Option<apply::Apply>,
    /// The settings found, ordered by bucket depth, then by price. Settings without a price follow,
    /// and types that cannot keep the promise come last. If the user's provider is known, other
    /// providers' types follow those of that provider.
    pub rows: Vec<VolumeRow>,
    /// The user's provider, if known, as the prefix of the names of its types.
    #[serde(skip)]
    provider: Option<&'static str>,
    /// The cautions that concern only the trace.
    #[serde(skip)]
    of_trace: Vec<String>,
}

/// Finds the volumes that keep the promise.
///
/// # Errors
/// Fails if the trace cannot be read again or has no usable times, or if a type is invalid. Returns
/// [`Error::Stopped`] if `progress` requests a stop.
pub fn answer(
    input: &Input,
    question: &Question<'_>,
    progress: Telling<'_>,
) -> Result<Answer, Error> {
    let growth = Intensity::new(question.growth).unwrap_or(Intensity::RECORDED);
    let offered: Vec<Offered<'_>> = question.kinds.iter().filter_map(Offered::new).collect();
    let current = question.current.and_then(Offered::of_chosen);
    let counted = counted(input, offered.iter().chain(&current), growth)?;
    let any = counted.first().map(|(_, requests)| requests).ok_or_else(nothing_to_try)?;
    let times = Times::among(any.times());
    timed(&input.path, &input.notes)?;
    told_apart(&input.path, times, Clock::of([question.within], question.trust_times))?;
    let requests = any.len() as u64;
    let late_max = requests - question.fraction.of(requests).min(requests);
    let bound = Bound { within: question.within, late_max };
    let finders = offered.iter().flat_map(|of| of.finders(question, bound, &counted));
    let finders: Vec<Finder<'_>> = finders.collect();
    let mut rows = found(&finders, question.provider(), progress)?;
    if let Some(bootstrap) = question.bootstrap {
        add_intervals(&mut rows, &finders, question.fraction, bootstrap);
    }
    let mut owned = Vec::new();
    if let Some(of) = &current {
        for finder in of.finders(question, bound, &counted) {
            owned.push(finder.of_setting(&of.chosen)?);
        }
    }
    if input.known_latency_share() > 0.0 {
        let mut offered = first_kept(&mut rows);
        offered.extend(&mut owned);
        let replayed = on_all_cores(&offered, |row| row.dependent(input, question.within, growth))?;
        for (row, share) in offered.into_iter().zip(replayed) {
            row.dependent_in_time_fraction = Some(share);
        }
    }
    let best = rows.iter().find(|row| row.keeps);
    let latency =
        Nanos::from_millis_f64(best.map_or(0.0, |row| row.base_read_ms.max(row.base_write_ms)));
    let shaped = best.and_then(|_| shaped::shaped(any, bound, latency));
    let of_trace = cautions(requests, Nanos::from_secs_f64(input.description.duration_s), times);
    Ok(Answer {
        trace: input.path.display().to_string(),
        counters: None,
        requests,
        duration_s: input.description.duration_s,
        within_ms: question.within.as_millis_f64(),
        fraction: question.fraction.as_f64(),
        growth: question.growth,
        gib: question.gib,
        is_size_given: question.is_size_given,
        credit: question.credit,
        depths_ms: question.depths_ms.clone(),
        cautions: said::cautions(&rows, question)
            .into_iter()
            .chain(of_trace.iter().cloned())
            .collect(),
        said: {
            let touched = input.description.footprint_bytes;
            let gaps = best.and_then(|_| said::gaps((input.used_bytes(), touched), question));
            gaps.into_iter().chain(said::said(&rows, &owned, question)).collect()
        },
        current: owned,
        shaped,
        apply: best.map(apply::apply),
        rows,
        provider: question.provider(),
        of_trace,
    })
}

/// Adds a confidence interval to the price of the first row that keeps the promise at each bucket
/// depth.
fn add_intervals(
    rows: &mut [VolumeRow],
    finders: &[Finder<'_>],
    fraction: Share,
    bootstrap: Bootstrap,
) {
    for rows in rows.chunk_by_mut(|a, b| a.depth_ms == b.depth_ms) {
        let Some(row) = rows.iter_mut().find(|row| row.keeps) else { continue };
        let is_of_row = |finder: &&Finder<'_>| {
            finder.case.kind.name == row.kind && finder.case.base.depth_ms == Some(row.depth_ms)
        };
        let finder = finders.iter().find(is_of_row);
        let ends = finder.and_then(|of| interval::interval(of, fraction, bootstrap));
        (row.price_low_month, row.price_high_month) = ends.unzip();
    }
}

/// Searches all types, and ranks the rows for a customer of the provider `here`.
fn found(
    finders: &[Finder<'_>],
    here: Option<&str>,
    progress: Telling<'_>,
) -> Result<Vec<VolumeRow>, Error> {
    let called = |finder: &Finder<'_>| finder.case.kind.name.clone();
    let found = each_told(finders, called, 0.0..0.8, Finder::find, progress)?;
    let mut rows: Vec<VolumeRow> = found.into_iter().flatten().collect();
    row::rank(&mut rows, here);
    Ok(rows)
}

/// Finds the smallest volumes that might keep the promise, for the counters in the file at `path`.
fn answer_of_counters(
    path: &Path,
    counters: &Counters,
    question: &Question<'_>,
    progress: Telling<'_>,
) -> Result<Answer, Error> {
    let offered: Vec<Offered<'_>> = question.kinds.iter().filter_map(Offered::new).collect();
    let late_max = ((1.0 - question.fraction.as_f64()) * counters.ops_most + 1e-6) as u64;
    let bound = Bound { within: question.within, late_max };
    let demand = Demand::Counters(counters);
    let finders = offered.iter().flat_map(|of| {
        let shape = &of.shape;
        of.cases(question, bound).map(move |case| Finder { case, shape, demand })
    });
    let finders: Vec<Finder<'_>> = finders.collect();
    if finders.is_empty() {
        return Err(nothing_to_try());
    }
    let rows = found(&finders, question.provider(), progress)?;
    let mut owned = Vec::new();
    if let Some(of) = question.current.and_then(Offered::of_chosen) {
        for case in of.cases(question, bound) {
            owned.push(Finder { case, shape: &of.shape, demand }.of_setting(&of.chosen)?);
        }
    }
    let best = rows.iter().find(|row| row.keeps);
    let mut cautions = counters.read.cautions();
    if !question.is_size_given {
        let (gib, option) = (question.gib, named("gib"));
        cautions.push(format!("Counters record no size: {gib} GiB is assumed ({option})."));
    }
    cautions.extend(said::cautions(&rows, question));
    Ok(Answer {
        trace: path.display().to_string(),
        counters: Some(counters.read.clone()),
        requests: counters.ops_most.round() as u64,
        duration_s: counters.samples.iter().map(|sample| sample.len_s).sum(),
        within_ms: question.within.as_millis_f64(),
        fraction: question.fraction.as_f64(),
        growth: question.growth,
        gib: question.gib,
        is_size_given: question.is_size_given,
        credit: question.credit,
        depths_ms: question.depths_ms.clone(),
        said: said::of_counters(&rows, &owned, &counters.read, question),
        cautions,
        current: owned,
        shaped: None,
        apply: best.map(apply::apply),
        rows,
        provider: question.provider(),
        of_trace: counters.read.cautions(),
    })
}

/// The number of rows per bucket depth that appear on the first screen. These are also replayed
/// with requests that wait for earlier ones.
const REPLAYED_ROWS: usize = 3;

/// Returns the first [`REPLAYED_ROWS`] rows at each bucket depth that keep the promise.
fn first_kept(rows: &mut [VolumeRow]) -> Vec<&mut VolumeRow> {
    let by_depth = rows.chunk_by_mut(|a, b| a.depth_ms == b.depth_ms);
    by_depth.flat_map(|rows| rows.iter_mut().filter(|row| row.keeps).take(REPLAYED_ROWS)).collect()
}

fn nothing_to_try() -> Error {
    Error::Unfit(format!(
        "nothing to try: got no type that is sold by its size and rates, expected at least one; \
         specify other types ({})",
        named("type")
    ))
}

/// A volume type that can be searched.
struct Offered<'a> {
    kind: &'a VolumeType,
    shape: Shape,
    counting: Counting,
    /// Settings chosen by the user, which take precedence over the assumptions for all types.
    chosen: Knobs,
}

impl<'a> Offered<'a> {
    /// Prepares the search of a type; `None` for a type that is not sold by its size and rates, or
    /// whose requests do not share one queue.
    fn new(kind: &'a VolumeType) -> Option<Offered<'a>> {
        let shape = kind::shape(kind)?;
        let highest = kind::highest(kind, &shape, &Knobs::default())?;
        let throttle = kind.at(&highest).ok().filter(|of| of.queues == Queues::Shared)?;
        Some(Offered { kind, shape, counting: counting(&throttle), chosen: Knobs::default() })
    }

    /// Prepares the evaluation of a volume with fixed settings; `None` if its requests do not share
    /// one queue.
    fn of_chosen(chosen: &'a ChosenVolume) -> Option<Offered<'a>> {
        let throttle = chosen.volume.at(&chosen.knobs).ok();
        let throttle = throttle.filter(|of| of.queues == Queues::Shared)?;
        let (counting, knobs) = (counting(&throttle), chosen.knobs.clone());
        Some(Offered { kind: &chosen.volume, shape: Shape::Size, counting, chosen: knobs })
    }

    /// Yields a search for each bucket depth.
    fn finders(
        &'a self,
        question: &'a Question<'_>,
        bound: Bound,
        counted: &'a [(Counting, Costed)],
    ) -> impl Iterator<Item = Finder<'a>> {
        let of_way = counted.iter().find(|(way, _)| *way == self.counting);
        let requests = of_way.into_iter().map(|(_, requests)| Demand::Requests(requests));
        requests.flat_map(move |demand| {
            let cases = self.cases(question, bound);
            cases.map(move |case| Finder { case, shape: &self.shape, demand })
        })
    }

    /// Yields a case for each bucket depth.
    fn cases(&self, question: &'a Question<'_>, bound: Bound) -> impl Iterator<Item = Case<'a>> {
        let (kind, chosen) = (self.kind, &self.chosen);
        let depths_ms = chosen.depth_ms.map_or(question.depths_ms.clone(), |depth| vec![depth]);
        let latency_us = question.base_latency.map(|latency| latency.as_millis_f64() * 1e3);
        let start_share = if question.credit == Credit::Empty { 0.0 } else { 1.0 };
        let is_steady = question.credit == Credit::Steady && chosen.start_share.is_none();
        let mut base = Knobs::default();
        base.start_share = chosen.start_share.or(Some(start_share));
        base.latency_us = chosen.latency_us.or(latency_us);
        base.merges = chosen.merges;
        depths_ms.into_iter().map(move |depth_ms| {
            let mut base = base.clone();
            base.depth_ms = Some(depth_ms);
            let instance = question.instance.filter(|_| kind.name.starts_with(apply::AWS));
            let instance = instance.map(|of| buckets(&of.chosen, &base)).unwrap_or_default();
            Case { kind, base, gib: question.gib, bound, is_steady, instance }
        })
    }
}

/// Returns the buckets of an instance, with the same assumptions as for the volume.
fn buckets(instance: &ChosenVolume, base: &Knobs) -> Vec<Bucket> {
    let mut knobs = instance.knobs.clone();
    (knobs.depth_ms, knobs.start_share) = (base.depth_ms, base.start_share);
    // The limits were checked when the option was parsed, so `at` does not fail.
    instance.volume.at(&knobs).map(|throttle| throttle.buckets).unwrap_or_default()
}

/// How a type counts operations: the unit, whether bytes are rounded up to whole units, and whether
/// sequential requests share units.
type Counting = (Count, bool, bool);

fn counting(throttle: &Throttle) -> Counting {
    (throttle.count, throttle.whole_units, throttle.merges)
}

/// Computes the cost of each request, for each way in which one of the types counts operations.
fn counted<'a>(
    input: &Input,
    offered: impl Iterator<Item = &'a Offered<'a>>,
    growth: Intensity,
) -> Result<Vec<(Counting, Costed)>, Error> {
    let mut ways: Vec<Counting> = offered.map(|of| of.counting).collect();
    ways.sort_by_key(|way| format!("{way:?}"));
    ways.dedup();
    let counted = |way: &Counting| {
        let (count, whole_units, merges) = *way;
        let throttle = Throttle { count, whole_units, merges, ..Throttle::of(Vec::new()) };
        Ok((*way, simulated::costed(input, &throttle, growth)?))
    };
    ways.iter().map(counted).collect()
}
