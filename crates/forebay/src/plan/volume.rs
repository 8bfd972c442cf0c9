//! `plan volume`: the cloud volume that keeps a promise.
//!
//! Every type is a list of token buckets ([`crate::devices::volume`]). For each type the cheapest
//! setting that answers the promised share in time is found exactly ([`find`]), at the depth that
//! is given, or at both ends of the range in which unknown depths lie. The setting and its
//! neighbors are then replayed on the device ([`simulated`]). For [`counters`] in place of a trace,
//! the settings are a lower bound.
//!
//! All requests of a trace go to one volume. Memory: 17 bytes per request for each way of counting
//! operations, beside the trace itself ([`crate::input`]).

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
use crate::error::Error;
use crate::input::Input;
use crate::jobs::{each_told, on_all_cores};
use crate::progress::Telling;
use counters::Counters;
pub use counters::CountersRead;
use drain::Costed;
use find::{Bound, Case, Demand};
use kind::Shape;
use row::Finder;
pub use row::{CheaperSetting, VolumeRow};
pub use shaped::Shaped;
pub use verb::VolumeAsk;

/// The credit of a volume when the trace begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Credit {
    /// As much as the volume holds.
    Full,
    /// None.
    Empty,
    /// What is left if the trace is repeated.
    Steady,
}

impl Answer {
    /// Returns the row of the volume to buy: the cheapest at the smallest depth at which any volume
    /// keeps the promise.
    pub fn best(&self) -> Option<&VolumeRow> {
        self.rows.iter().find(|row| row.keeps)
    }

    /// Returns whether the best row keeps the promise at the smallest of the assumed depths.
    fn is_sure(&self) -> bool {
        self.best().is_some_and(|best| self.depths_ms.first() == Some(&best.depth_ms))
    }

    /// Returns the rows that keep the promise at the depth of the best one.
    fn kept(&self) -> impl Iterator<Item = &VolumeRow> {
        let depth_ms = self.best().map(|row| row.depth_ms);
        self.rows.iter().filter(move |row| row.keeps && Some(row.depth_ms) == depth_ms)
    }
}

/// An EC2 instance.
pub struct Instance {
    /// Its limits.
    pub chosen: ChosenVolume,
    /// The source of the limits, as a sentence; none if the user gave them.
    pub note: Option<String>,
}

/// What to keep and what to try.
pub struct Question<'a> {
    /// The time within which to answer.
    pub within: Nanos,
    /// The share of all requests to answer in time.
    pub fraction: Share,
    /// How many times as fast requests arrive.
    pub growth: f64,
    /// The least size, in GiB.
    pub gib: u64,
    /// Whether the user gave the size; otherwise it is that of the trace's addresses.
    pub is_size_given: bool,
    /// The types to try.
    pub kinds: &'a [VolumeType],
    /// The credit when the trace begins.
    pub credit: Credit,
    /// The depths to assume, in ms, the smallest first.
    pub depths_ms: Vec<f64>,
    /// The latency of released requests, if it is not that of the type.
    pub base_latency: Option<Nanos>,
    /// The limits of an EC2 instance.
    pub instance: Option<&'a Instance>,
    /// The volume that the user has.
    pub current: Option<&'a ChosenVolume>,
    /// The confidence interval of the prices, if one is wanted.
    pub bootstrap: Option<Bootstrap>,
    /// Whether to trust the trace's times even if its clock seems too coarse for the promise.
    pub trust_times: bool,
}

/// The volumes that keep a promise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The trace, or the file of counters.
    pub trace: String,
    /// What was read from the file of counters. All results are then lower bounds, and shares in
    /// time are upper bounds. None for a trace.
    pub counters: Option<CountersRead>,
    /// The number of its requests.
    pub requests: u64,
    /// The time from its first request to its last.
    pub duration_s: f64,
    /// The bound.
    pub within_ms: f64,
    /// The promised share of the requests.
    pub fraction: f64,
    /// How many times as fast as recorded requests arrive.
    pub growth: f64,
    /// The least size.
    pub gib: u64,
    /// Whether the user gave the size; otherwise it is that of the trace's addresses.
    pub is_size_given: bool,
    /// The credit when the trace begins.
    pub credit: Credit,
    /// The assumed depths.
    pub depths_ms: Vec<f64>,
    /// Cautions about the answer; one sentence each.
    pub cautions: Vec<String>,
    /// What decides, what would be cheaper and what is uncertain; one sentence each.
    pub said: Vec<String>,
    /// What the user's volume does, at each depth; one row if the user gave its depth.
    pub current: Vec<VolumeRow>,
    /// What a shaper in front of the volume saves.
    pub shaped: Option<Shaped>,
    /// The commands that create the first volume or change an existing one, and that set the same
    /// limits on a virtual machine or a local device; none if no volume keeps the promise.
    pub apply: Option<apply::Apply>,
    /// The settings, by depth and then by price. Those without a price come after the others, and
    /// types that cannot keep the promise come last.
    pub rows: Vec<VolumeRow>,
    /// The cautions about the trace.
    #[serde(skip)]
    of_trace: Vec<String>,
}

/// Finds the volumes.
///
/// # Errors
/// If the trace cannot be read again, has no usable times, or a type is invalid;
/// [`Error::Stopped`] if `progress` requested a stop.
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
    let mut rows = found(&finders, progress)?;
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
        said: said::said(&rows, &owned, question),
        current: owned,
        shaped,
        apply: best.map(apply::apply),
        rows,
        of_trace,
    })
}

/// Adds the confidence interval to the price of the first row that keeps the promise at each depth.
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

/// Finds the rows and ranks them.
fn found(finders: &[Finder<'_>], progress: Telling<'_>) -> Result<Vec<VolumeRow>, Error> {
    let called = |finder: &Finder<'_>| finder.case.kind.name.clone();
    let found = each_told(finders, called, 0.0..0.8, Finder::find, progress)?;
    let mut rows: Vec<VolumeRow> = found.into_iter().flatten().collect();
    row::rank(&mut rows);
    Ok(rows)
}

/// Finds the least volumes that may keep the promise for the counters in the file at `path`.
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
    let rows = found(&finders, progress)?;
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
        said: said::of_counters(&rows, &owned, &counters.read),
        cautions,
        current: owned,
        shaped: None,
        apply: best.map(apply::apply),
        rows,
        of_trace: counters.read.cautions(),
    })
}

/// The rows at each depth that are also replayed with requests that wait for one another: those on
/// the first screen.
const REPLAYED_ROWS: usize = 3;

/// Returns the first rows at each depth that keep the promise.
fn first_kept(rows: &mut [VolumeRow]) -> Vec<&mut VolumeRow> {
    let by_depth = rows.chunk_by_mut(|a, b| a.depth_ms == b.depth_ms);
    by_depth.flat_map(|rows| rows.iter_mut().filter(|row| row.keeps).take(REPLAYED_ROWS)).collect()
}

fn nothing_to_try() -> Error {
    Error::Unfit(format!(
        "nothing to try: got no type that is sold by its size and rates, expected at least one; \
         give other types ({})",
        named("type")
    ))
}

/// A type that can be searched.
struct Offered<'a> {
    kind: &'a VolumeType,
    shape: Shape,
    counting: Counting,
    /// What the user chose, which takes precedence over what is assumed for all types.
    chosen: Knobs,
}

impl<'a> Offered<'a> {
    /// Returns `None` for a type that is not sold by its size and rates.
    fn new(kind: &'a VolumeType) -> Option<Offered<'a>> {
        let shape = kind::shape(kind)?;
        let highest = kind::highest(kind, &shape, &Knobs::default())?;
        let throttle = kind.at(&highest).ok().filter(|of| of.queues == Queues::Shared)?;
        Some(Offered { kind, shape, counting: counting(&throttle), chosen: Knobs::default() })
    }

    /// Returns a volume that is not searched but has its choices; `None` if its queues are not one.
    fn of_chosen(chosen: &'a ChosenVolume) -> Option<Offered<'a>> {
        let throttle = chosen.volume.at(&chosen.knobs).ok();
        let throttle = throttle.filter(|of| of.queues == Queues::Shared)?;
        let (counting, knobs) = (counting(&throttle), chosen.knobs.clone());
        Some(Offered { kind: &chosen.volume, shape: Shape::Size, counting, chosen: knobs })
    }

    /// Returns a search for each depth.
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

    /// Returns a case for each depth.
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

/// Returns the buckets of an instance with the same assumptions as those of a volume.
fn buckets(instance: &ChosenVolume, base: &Knobs) -> Vec<Bucket> {
    let mut knobs = instance.knobs.clone();
    (knobs.depth_ms, knobs.start_share) = (base.depth_ms, base.start_share);
    // The limits were checked when they were read.
    instance.volume.at(&knobs).map(|throttle| throttle.buckets).unwrap_or_default()
}

/// How operations are counted: the count, whether bytes are counted in whole units, and whether
/// sequential requests share units.
type Counting = (Count, bool, bool);

fn counting(throttle: &Throttle) -> Counting {
    (throttle.count, throttle.whole_units, throttle.merges)
}

/// Counts the requests in each way that the types count operations.
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
