//! The verb `fit`: a model from a trace, in two passes and bounded memory.

use std::path::Path;

use forebay_core::{Nanos, Op};
use forebay_trace::{Dictionary, Notes, Reader, Record, TraceError};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::Error;
use crate::input::read_through;
use crate::progress::GoOn;

use super::bins::{JUMP_BINS, LOG_BINS, NEAR_BINS, jump_bin, log_bin, signed_bin};
use super::cascade::Collector;
use super::families::Sketch;
use super::file::{
    Arrivals, Bins, CategoryModel, Joint, Model, Part, Period, State, Submitter, Transition,
    VERSION, Volume,
};
use super::generate::{GenerateOptions, Generator};
use super::history::{HEADS, Heads, Latest, Past, Ring, Touched};
use super::level;
use super::space::{CELLS, GRAIN, Space, state_of};
use super::state::{
    CATEGORIES, CLASSES_MAX, Category, GAP_CLASSES, Kind, NEAR_BYTES, Range, SizeClasses, gap_class,
};

/// Epochs whose durations are kept.
const EPOCHS_MAX: usize = 512;
/// Periods whose mix is kept, at most.
const PERIODS_MAX: u64 = 256;
/// Numbers that all mixes together hold, about.
const MIX_MAX: usize = 2400;
/// Pairs of categories of all transitions together.
const JOINT_MAX: usize = 1200;
/// Cells of heat.
const HEAT_MAX: usize = 512;
/// Sizes of a category.
const SIZES_MAX: usize = 32;
/// Requests of a range that are remembered.
pub(super) const KEPT: usize = 1 << 20;

/// How to fit.
#[derive(Clone, Debug)]
pub struct FitOptions {
    /// Levels of the hierarchy; none to find out how many are needed.
    pub level: Option<u8>,
    /// A model for each of the busiest streams and one for the rest, not one of all.
    pub by_stream: bool,
    /// Any range to any other.
    pub flat: bool,
    /// Keep names of volumes and streams.
    pub names: bool,
    /// Sizes that are told apart as classes of their own, at most.
    pub common_sizes: usize,
}

/// What a first pass finds.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Requests.
    pub requests: u64,
    /// When the last came.
    pub last: Nanos,
    /// Highest byte reached on each volume.
    pub extents: Vec<u64>,
    /// Requests of each stream.
    pub streams: Vec<u64>,
    tick_ns: u64,
    sizes: FxHashMap<u32, u64>,
}

/// Sizes told apart while surveying.
const SURVEYED_SIZES_MAX: usize = 4096;
/// Share of requests that makes a size common, and a class worth having.
const COMMON_SHARE: f64 = 0.04;
const CLASS_SHARE: f64 = 0.005;

impl Survey {
    /// Takes the next record.
    #[inline]
    pub fn add(&mut self, record: &Record) {
        self.requests += 1;
        let gap = record.at.0 - self.last.0.min(record.at.0);
        self.last = record.at;
        self.tick_ns = if self.tick_ns == 1 { 1 } else { gcd(self.tick_ns, gap) };
        let volume = record.volume as usize;
        if volume >= self.extents.len() {
            self.extents.resize(volume + 1, 0);
        }
        let end = record.offset.saturating_add(u64::from(record.len));
        self.extents[volume] = self.extents[volume].max(end);
        let stream = record.stream as usize;
        if stream >= self.streams.len() {
            self.streams.resize(stream + 1, 0);
        }
        self.streams[stream] += 1;
        if let Some(count) = self.sizes.get_mut(&record.len) {
            *count += 1;
        } else if self.sizes.len() < SURVEYED_SIZES_MAX {
            self.sizes.insert(record.len, 1);
        }
    }

    /// Classes that tell the most common sizes from those between them.
    fn size_classes(&self, common_sizes: usize) -> SizeClasses {
        let mut sizes: Vec<(u32, u64)> =
            self.sizes.iter().map(|(&len, &count)| (len, count)).collect();
        sizes.sort_unstable_by_key(|&(len, count)| (std::cmp::Reverse(count), len));
        let share = |count: u64| count as f64 / self.requests.max(1) as f64;
        let common = sizes.iter().take(common_sizes).filter(|size| share(size.1) >= COMMON_SHARE);
        let mut bounds: Vec<u32> =
            common.flat_map(|&(len, _)| [len.saturating_sub(1), len]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        debug_assert!(bounds.len() < CLASSES_MAX);
        let mut kept: Vec<u32> = Vec::new();
        for (index, &bound) in bounds.iter().enumerate() {
            let low = kept.last().map_or(0, |&low| u64::from(low) + 1);
            let within = |above: u64, to: u64| -> u64 {
                let inside = |len: u32| (above..=to).contains(&u64::from(len));
                sizes.iter().filter(|size| inside(size.0)).map(|size| size.1).sum()
            };
            let next = bounds.get(index + 1).map_or(u64::from(u32::MAX), |&next| u64::from(next));
            let below = share(within(low, u64::from(bound)));
            let above = share(within(u64::from(bound) + 1, next));
            if below >= CLASS_SHARE && above >= CLASS_SHARE {
                kept.push(bound);
            }
        }
        SizeClasses(kept)
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Counts of values, those that repeat the one before apart.
#[derive(Clone, Debug)]
struct Repeating {
    fresh: Vec<u32>,
    repeats: Vec<u32>,
    last: usize,
}

impl Repeating {
    fn new(bins: usize) -> Repeating {
        Repeating { fresh: vec![0; bins], repeats: vec![0; bins], last: usize::MAX }
    }

    #[inline]
    fn add(&mut self, bin: usize) {
        let counts = if bin == self.last { &mut self.repeats } else { &mut self.fresh };
        counts[bin] += 1;
        self.last = bin;
    }
}

/// What a category's requests are like.
#[derive(Clone, Debug)]
struct Traits {
    /// Count and repeats of each size.
    sizes: FxHashMap<u32, (u32, u32)>,
    last_len: u32,
    ranks: Repeating,
    jumps: [u32; JUMP_BINS],
    distances: Repeating,
    same_size: u32,
    same_class: u32,
    inside: u32,
    count: u32,
    alignments: [u32; 16],
    flags: FxHashMap<u8, u32>,
}

impl Default for Traits {
    fn default() -> Traits {
        Traits {
            sizes: FxHashMap::default(),
            last_len: 0,
            ranks: Repeating::new(HEADS),
            jumps: [0; JUMP_BINS],
            distances: Repeating::new(2 * NEAR_BINS),
            same_size: 0,
            same_class: 0,
            inside: 0,
            count: 0,
            alignments: [0; 16],
            flags: FxHashMap::default(),
        }
    }
}

/// The past of a range.
#[derive(Clone, Debug, Default)]
struct RangePast {
    heads: Heads,
    ring: Ring,
    /// Number of the request referenced last.
    referenced: u64,
}

/// Where a request's place came from.
struct Origin {
    kind: Kind,
    rank: Option<usize>,
    distance: usize,
    /// Requests ago, for [`Kind::Again`].
    ago: u64,
    same_size: bool,
    is_inside: bool,
    /// Size of the request that is continued.
    run_len: Option<u32>,
}

impl Origin {
    fn far() -> Origin {
        Origin {
            kind: Kind::Far,
            rank: None,
            distance: 0,
            ago: 0,
            same_size: false,
            is_inside: false,
            run_len: None,
        }
    }
}

/// Fits a part.
struct PartFitter {
    /// How many share the bounds on the model's size.
    parts: usize,
    level: u8,
    is_flat: bool,
    space: Space,
    requests: u64,
    begins: Option<Nanos>,
    last: Nanos,
    last_state: Option<(Range, Category)>,
    last_end: u64,
    last_stream: u32,
    stays: u64,
    arrivals: Collector,
    ranges: FxHashMap<Range, RangePast>,
    latest: Latest,
    touched: Touched,
    classes: SizeClasses,
    states: FxHashMap<(Range, Category), (u64, Vec<u32>)>,
    joints: FxHashMap<(Range, Range, Category, Category), [u32; GAP_CLASSES]>,
    gaps: FxHashMap<(Range, Range), Sketch>,
    epoch_requests: u64,
    epoch_mixes: Vec<FxHashMap<u8, u32>>,
    period_requests: u64,
    periods: Vec<FxHashMap<(Range, Category), u32>>,
    traits: Vec<Traits>,
    heat: Vec<u32>,
}

impl PartFitter {
    fn new(survey: &Survey, options: &FitOptions, requests: u64, parts: usize) -> PartFitter {
        let epochs_max = (EPOCHS_MAX / parts).next_power_of_two();
        PartFitter {
            parts,
            level: options.level.unwrap_or(1),
            is_flat: options.flat,
            space: Space::new(&survey.extents),
            requests: 0,
            begins: None,
            last: Nanos::ZERO,
            last_state: None,
            last_end: u64::MAX,
            last_stream: 0,
            stays: 0,
            arrivals: Collector::new(epochs_max),
            ranges: FxHashMap::default(),
            latest: Latest::new(requests),
            touched: Touched::new(requests),
            classes: survey.size_classes(options.common_sizes),
            states: FxHashMap::default(),
            joints: FxHashMap::default(),
            epoch_requests: epoch_requests(requests, epochs_max),
            gaps: FxHashMap::default(),
            epoch_mixes: Vec::new(),
            // A whole number of epochs.
            period_requests: requests
                .div_ceil(PERIODS_MAX)
                .next_power_of_two()
                .max(epoch_requests(requests, epochs_max)),
            periods: Vec::new(),
            traits: vec![Traits::default(); CATEGORIES],
            heat: vec![0; CELLS as usize],
        }
    }

    fn add(&mut self, record: &Record) {
        let gap = if self.begins.is_none() {
            self.begins = Some(record.at);
            0
        } else {
            record.at.0.saturating_sub(self.last.0)
        };
        self.last = record.at;
        self.arrivals.add(gap);
        let address = self.space.linear(record);
        let cell = self.space.cell(address);
        let range = Range::new(self.level, state_of(cell, self.level));
        if record.op == Op::Flush {
            return self.add_flush(record, gap);
        }
        let origin = self.origin(range, address, record.len);
        let category = Category::new(record.op, origin.kind, self.classes.of(record.len));
        self.count(range, category, gap, record.stream, &origin);
        self.describe(category, record, address, &origin);
        if origin.kind == Kind::Far {
            self.heat[cell as usize] += 1;
        }
        let past = Past { address, len: record.len, stream: record.stream };
        let of_range = self.ranges.entry(range).or_default();
        let end = address.saturating_add(u64::from(record.len));
        self.last_end = end;
        let continued = if origin.kind.is_sequential() { origin.rank } else { None };
        of_range.heads.push(continued, end, record.stream, record.len);
        self.latest.note(address, of_range.ring.count());
        self.touched.mark(address, record.len, of_range.ring.count());
        of_range.ring.push(past, KEPT);
        self.requests += 1;
    }

    /// A flush has no place: it stays in the range of the request before.
    fn add_flush(&mut self, record: &Record, gap: u64) {
        let range = self.last_state.map_or(Range::new(self.level, 0), |(range, _)| range);
        let origin = Origin::far();
        let category = Category::new(record.op, origin.kind, self.classes.of(0));
        self.count(range, category, gap, record.stream, &origin);
        let traits = &mut self.traits[usize::from(category.0)];
        traits.count += 1;
        traits.sizes.entry(0).or_default().0 += 1;
        *traits.flags.entry(record.flags.0).or_default() += 1;
        self.requests += 1;
    }

    fn origin(&mut self, range: Range, address: u64, len: u32) -> Origin {
        let past = self.ranges.entry(range).or_default();
        let mut origin = Origin::far();
        let touched = self.touched.last(address);
        let seen = self.latest.find(address).and_then(|n| past.ring.get(n).map(|was| (n, was)));
        let seen = seen.filter(|(_, was)| was.address == address);
        if let Some(rank) = past.heads.find(address) {
            if let Some((number, _)) = seen {
                past.referenced = number;
            }
            let kind = match (address == self.last_end, touched) {
                (true, None) => Kind::NextNew,
                (true, Some(_)) => Kind::NextOld,
                (false, None) => Kind::ResumeNew,
                (false, Some(_)) => Kind::ResumeOld,
            };
            let run_len = Some(past.heads.at(rank).2);
            return Origin { kind, rank: Some(rank), run_len, ..origin };
        }
        if let Some((number, was)) = seen {
            let on = number.wrapping_sub(past.referenced);
            past.referenced = number;
            origin.same_size = was.len == len;
            if (1..=4).contains(&on) {
                return Origin { kind: Kind::Follow, distance: on as usize, ..origin };
            }
            return Origin { kind: Kind::Again, ago: past.ring.count() - number, ..origin };
        }
        if let Some(number) = touched {
            let ago = past.ring.count().saturating_sub(number).max(1);
            return Origin { kind: Kind::Again, ago, is_inside: true, ..origin };
        }
        let near = (0..past.heads.len().min(4))
            .map(|rank| (rank, address as i64 - past.heads.at(rank).0 as i64))
            .min_by_key(|(_, distance)| distance.unsigned_abs());
        if let Some((rank, distance)) = near
            && distance.unsigned_abs() <= NEAR_BYTES
        {
            let distance = signed_bin(distance);
            return Origin { kind: Kind::Near, rank: Some(rank), distance, ..origin };
        }
        origin
    }

    fn count(&mut self, range: Range, category: Category, gap: u64, stream: u32, origin: &Origin) {
        let state = (range, category);
        let (count, again) = self.states.entry(state).or_default();
        *count += 1;
        if origin.kind == Kind::Again {
            if again.is_empty() {
                again.resize(LOG_BINS, 0);
            }
            again[log_bin(origin.ago)] += 1;
        }
        let (from, before) = self.last_state.unwrap_or(state);
        let (left, entered) = Range::transition(from, range, self.is_flat);
        self.joints.entry((left, entered, before, category)).or_default()[gap_class(gap)] += 1;
        self.gaps.entry((left, entered)).or_default().add(gap);
        self.last_state = Some(state);
        self.stays += u64::from(stream == self.last_stream);
        self.last_stream = stream;
        let period = (self.requests / self.period_requests) as usize;
        if period >= self.periods.len() {
            self.periods.push(FxHashMap::default());
        }
        *self.periods[period].entry(state).or_default() += 1;
        let epoch = (self.requests / self.epoch_requests) as usize;
        if epoch >= self.epoch_mixes.len() {
            self.epoch_mixes.push(FxHashMap::default());
        }
        *self.epoch_mixes[epoch].entry(category.flavour()).or_default() += 1;
    }

    fn describe(&mut self, category: Category, record: &Record, address: u64, origin: &Origin) {
        let traits = &mut self.traits[usize::from(category.0)];
        traits.count += 1;
        let before = origin.run_len.unwrap_or(traits.last_len);
        let size = traits.sizes.entry(record.len).or_default();
        size.0 += 1;
        size.1 += u32::from(record.len == before && !origin.same_size);
        let is_same = |len: u32| self.classes.of(len) == self.classes.of(record.len);
        traits.same_class += u32::from(origin.run_len.is_some_and(is_same));
        traits.last_len = record.len;
        traits.inside += u32::from(origin.is_inside);
        if self.last_end != u64::MAX && !origin.kind.is_next() {
            traits.jumps[jump_bin(self.last_end, address)] += 1;
        }
        if let Some(rank) = origin.rank {
            traits.ranks.add(rank);
        }
        if matches!(origin.kind, Kind::Near | Kind::Follow) {
            traits.distances.add(origin.distance);
        }
        if matches!(origin.kind, Kind::Far | Kind::Near) {
            traits.alignments[((address / 512).trailing_zeros() as usize).min(15)] += 1;
        }
        traits.same_size += u32::from(origin.same_size);
        *traits.flags.entry(record.flags.0).or_default() += 1;
    }

    fn finish(mut self, stream: Option<u32>, tick_ns: u64) -> Part {
        let arrivals = std::mem::replace(&mut self.arrivals, Collector::new(2));
        let (epoch_scale, epochs, splits) = arrivals.finish();
        let mut order: Vec<(Range, Category)> = self.states.keys().copied().collect();
        order.sort_unstable();
        let number: FxHashMap<(Range, Category), u32> = order.iter().copied().zip(0..).collect();
        let states = order
            .iter()
            .map(|state| {
                let (count, again) = &self.states[state];
                State(state.0.path(), state.1.0, *count, Bins::new(again))
            })
            .collect();
        Part {
            stream,
            requests: self.requests,
            begin_s: self.begins.unwrap_or_default().0 as f64 / 1e9,
            arrivals: Arrivals {
                tick_ns: tick_ns.max(1),
                epoch_requests: 1 << epoch_scale,
                epochs_us: epochs.iter().map(|&ns| digits(ns as f64 / 1e3, 6)).collect(),
                epoch_mixes: self
                    .epoch_mixes
                    .iter()
                    .map(|mix| {
                        let mut mix: Vec<(u8, u32)> = mix.iter().map(|(&f, &n)| (f, n)).collect();
                        mix.sort_unstable();
                        mix
                    })
                    .collect(),
                splits,
            },
            states,
            transitions: transitions(
                &self.joints,
                &self.gaps,
                self.requests,
                JOINT_MAX / self.parts,
            ),
            periods: periods(self.periods, &number, MIX_MAX / self.parts),
            categories: self
                .traits
                .iter()
                .enumerate()
                .filter(|(_, traits)| traits.count > 0)
                .map(|(category, traits)| category_model(category as u8, traits))
                .collect(),
            heat: heat(&self.heat, HEAT_MAX / self.parts),
            stay_share: digits(self.stays as f64 / self.requests.max(1) as f64, 4),
        }
    }
}

/// Requests of an epoch, as [`Collector`] comes to them.
fn epoch_requests(requests: u64, epochs_max: usize) -> u64 {
    let fits = |&each: &u64| requests / each < epochs_max as u64;
    (0..63).map(|scale| 1u64 << scale).find(fits).unwrap_or(1 << 62)
}

/// A number to so many significant digits.
fn digits(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10f64.powi(digits - 1 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

fn transitions(
    joints: &FxHashMap<(Range, Range, Category, Category), [u32; GAP_CLASSES]>,
    gaps_of: &FxHashMap<(Range, Range), Sketch>,
    requests: u64,
    joint_max: usize,
) -> Vec<Transition> {
    let mut rows: Vec<_> = joints.iter().map(|(key, gaps)| (*key, *gaps)).collect();
    let total = |gaps: &[u32; GAP_CLASSES]| gaps.iter().map(|&n| u64::from(n)).sum::<u64>();
    rows.sort_unstable_by_key(|(key, gaps)| (std::cmp::Reverse(total(gaps)), *key));
    let mut shares: FxHashMap<(Range, Range), u64> = FxHashMap::default();
    for (key, gaps) in &rows {
        *shares.entry((key.0, key.1)).or_default() += total(gaps);
    }
    // The heaviest row of each transition stays whatever its weight.
    let mut seen = FxHashSet::default();
    let mut kept = 0;
    rows.retain(|(key, _)| {
        kept += 1;
        seen.insert((key.0, key.1)) || kept <= joint_max
    });
    rows.sort_unstable_by_key(|(key, _)| *key);
    let mut list: Vec<Transition> = Vec::new();
    let mut last = None;
    for ((from, to, before, after), gaps) in rows {
        if last != Some((from, to)) {
            last = Some((from, to));
            let share = digits(shares[&(from, to)] as f64 / requests.max(1) as f64, 6);
            let mut gaps = gaps_of[&(from, to)].best();
            gaps.mean_us = digits(gaps.mean_us, 4);
            gaps.deviation_us = digits(gaps.deviation_us, 4);
            gaps.distance = digits(gaps.distance, 2);
            gaps.quantiles_us.iter_mut().for_each(|us| *us = digits(*us, 3));
            list.push(Transition {
                from: from.path(),
                to: to.path(),
                share,
                inter_arrival: gaps,
                joint: Vec::new(),
            });
        }
        let end = gaps.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        if let Some(transition) = list.last_mut() {
            transition.joint.push(Joint(before.0, after.0, gaps[..end].to_vec()));
        }
    }
    list
}

fn periods(
    mut periods: Vec<FxHashMap<(Range, Category), u32>>,
    number: &FxHashMap<(Range, Category), u32>,
    mix_max: usize,
) -> Vec<Period> {
    while periods.len() > 1 && periods.iter().map(FxHashMap::len).sum::<usize>() > mix_max {
        periods = periods
            .chunks(2)
            .map(|pair| {
                let mut sum = pair[0].clone();
                for (state, count) in pair.get(1).into_iter().flatten() {
                    *sum.entry(*state).or_default() += count;
                }
                sum
            })
            .collect();
    }
    periods
        .iter()
        .map(|mix| {
            let mut mix: Vec<(u32, u32)> =
                mix.iter().map(|(state, count)| (number[state], *count)).collect();
            mix.sort_unstable();
            Period { mix }
        })
        .collect()
}

fn category_model(category: u8, traits: &Traits) -> CategoryModel {
    let mut sizes: Vec<(u32, u32, u32)> =
        traits.sizes.iter().map(|(&len, &(count, repeats))| (len, count, repeats)).collect();
    sizes.sort_unstable_by_key(|&(len, count, _)| (std::cmp::Reverse(count), len));
    merge_rare(&mut sizes);
    sizes.sort_unstable();
    let mut flags: Vec<(u8, u32)> = traits.flags.iter().map(|(&f, &count)| (f, count)).collect();
    flags.sort_unstable();
    CategoryModel {
        category,
        sizes,
        ranks: Bins::new(&traits.ranks.fresh),
        rank_repeats: Bins::new(&traits.ranks.repeats),
        distances: Bins::new(&traits.distances.fresh),
        distance_repeats: Bins::new(&traits.distances.repeats),
        jumps: Bins::new(&traits.jumps),
        same_size_share: digits(f64::from(traits.same_size) / f64::from(traits.count), 4),
        same_class_share: digits(f64::from(traits.same_class) / f64::from(traits.count), 4),
        inside_share: digits(f64::from(traits.inside) / f64::from(traits.count), 4),
        alignments: Bins::new(&traits.alignments),
        flags: if flags == [(0, traits.count)] { Vec::new() } else { flags },
    }
}

/// Rare sizes become the mean of their neighbours, in whole sectors.
fn merge_rare(sizes: &mut Vec<(u32, u32, u32)>) {
    if sizes.len() <= SIZES_MAX {
        return;
    }
    let mut rare = sizes.split_off(SIZES_MAX / 2);
    rare.sort_unstable();
    let all: u64 = rare.iter().map(|size| u64::from(size.1)).sum();
    let each = all.div_ceil(SIZES_MAX as u64 / 2).max(1);
    let (mut bytes, mut count, mut repeats) = (0u64, 0u64, 0u32);
    for (index, &(len, times, again)) in rare.iter().enumerate() {
        bytes += u64::from(len) * u64::from(times);
        count += u64::from(times);
        repeats += again;
        if count >= each || index + 1 == rare.len() {
            let mean = bytes as f64 / count as f64;
            let len = if mean < 512.0 { mean.round() } else { (mean / 512.0).round() * 512.0 };
            sizes.push((len as u32, count as u32, repeats));
            (bytes, count, repeats) = (0, 0, 0);
        }
    }
}

/// Cells by count, the heaviest ranges split first.
fn heat(cells: &[u32], heat_max: usize) -> Vec<(u32, u32, u32)> {
    let sum = |first: u32, count: u32| -> u64 {
        cells[first as usize..(first + count) as usize].iter().map(|&n| u64::from(n)).sum()
    };
    let mut done = Vec::new();
    let mut open = std::collections::BinaryHeap::new();
    open.push((sum(0, CELLS as u32), CELLS as u32, 0u32));
    while let Some((weight, count, first)) = open.pop() {
        if weight == 0 {
            continue;
        }
        if count == 1 || done.len() + open.len() >= heat_max {
            done.push((first, count, weight.min(u64::from(u32::MAX)) as u32));
            continue;
        }
        let quarter = count / 4;
        for part in 0..4 {
            let begin = first + part * quarter;
            open.push((sum(begin, quarter), quarter, begin));
        }
    }
    done.sort_unstable();
    done
}

impl Default for FitOptions {
    fn default() -> FitOptions {
        FitOptions {
            level: None,
            by_stream: false,
            flat: false,
            names: false,
            common_sizes: COMMON_SIZES,
        }
    }
}

/// Sizes that are classes of their own unless asked otherwise.
pub const COMMON_SIZES: usize = 3;

/// Streams that have a model of their own.
const OWN_PARTS_MAX: usize = 7;

/// A model and how it came about.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The model.
    pub model: Model,
    /// How reading went.
    pub notes: Notes,
    /// Closed-loop throughput at each level that was tried.
    pub tried: Vec<(u8, f64)>,
}

/// Fits the trace that `opening` opens, as often as it is asked to; messages call it `name`.
///
/// # Errors
/// A trace that cannot be read, holds nothing or changes; [`Error::Stopped`].
pub fn fit<P: GoOn>(
    name: &Path,
    opening: impl Fn() -> Result<Box<dyn Reader>, TraceError>,
    options: &FitOptions,
    mut progress: impl FnMut(u64) -> P,
) -> Result<Fitted, Error> {
    let mut survey = Survey::default();
    read_through(name, &mut *opening()?, &mut progress, |batch, _| {
        batch.iter().for_each(|record| survey.add(record));
    })?;
    let mut fit_at = |level: u8| -> Result<(Model, Notes), Error> {
        let at_level = FitOptions { level: Some(level), ..options.clone() };
        let mut fitter = Fitter::new(survey.clone(), at_level);
        let mut reader = opening()?;
        read_through(name, &mut *reader, &mut progress, |batch, _| {
            batch.iter().for_each(|record| fitter.add(record));
        })?;
        fitter.agrees(name)?;
        let mut model = fitter.finish();
        if options.names {
            name_all(&mut model, reader.dictionary());
        }
        Ok((model, reader.notes().clone()))
    };
    if let Some(level) = options.level {
        let (model, notes) = fit_at(level)?;
        return Ok(Fitted { model, notes, tried: Vec::new() });
    }
    let mut tried: Vec<(u8, f64)> = Vec::new();
    let mut last: Option<(Model, Notes)> = None;
    for level in 1..=level::TRIED_MAX {
        let (model, notes) = fit_at(level)?;
        let drawn = Generator::new(&model, GenerateOptions::default());
        let iops = level::closed_loop_iops(&survey.extents, drawn)?;
        let settled = tried.last().is_some_and(|&(_, before)| level::is_stable(before, iops));
        tried.push((level, iops));
        if settled && let Some((model, notes)) = last {
            return Ok(Fitted { model, notes, tried });
        }
        last = Some((model, notes));
    }
    // It goes on changing: more detail has not shown to help.
    let (model, notes) = last.ok_or_else(|| Error::Unfit("no level was tried".into()))?;
    Ok(Fitted { model, notes, tried })
}

fn name_all(model: &mut Model, dictionary: &Dictionary) {
    for (volume, name) in model.volumes.iter_mut().zip(&dictionary.volumes) {
        volume.name = Some(name.clone());
    }
    for (stream, known) in model.streams.iter_mut().zip(&dictionary.streams) {
        stream.name = Some(known.name.clone());
    }
}

/// Fits a model on what a first pass has surveyed.
pub struct Fitter {
    options: FitOptions,
    survey: Survey,
    parts: Vec<PartFitter>,
    /// The part of each stream.
    part_of: Vec<usize>,
    /// The stream of each part, if it has but one.
    owners: Vec<Option<u32>>,
}

impl Fitter {
    /// Begins.
    pub fn new(survey: Survey, options: FitOptions) -> Fitter {
        let mut busiest: Vec<(u32, u64)> = (0..).zip(survey.streams.iter().copied()).collect();
        busiest.sort_unstable_by_key(|&(stream, requests)| (std::cmp::Reverse(requests), stream));
        let own = if options.by_stream { OWN_PARTS_MAX } else { 0 };
        let (own, rest) = busiest.split_at(own.min(busiest.len()));
        let rest: u64 = rest.iter().map(|stream| stream.1).sum();
        let mut owners: Vec<Option<u32>> =
            own.iter().filter(|stream| stream.1 > 0).map(|stream| Some(stream.0)).collect();
        let mut requests: Vec<u64> = own.iter().map(|stream| stream.1).filter(|&n| n > 0).collect();
        if rest > 0 {
            owners.push(None);
            requests.push(rest);
        }
        let mut part_of = vec![owners.len() - 1; survey.streams.len()];
        for (part, owner) in owners.iter().enumerate() {
            if let Some(stream) = owner {
                part_of[*stream as usize] = part;
            }
        }
        let parts = requests
            .iter()
            .map(|&requests| PartFitter::new(&survey, &options, requests, owners.len()))
            .collect();
        Fitter { options, survey, parts, part_of, owners }
    }

    /// Takes the next record of the second pass.
    #[inline]
    pub fn add(&mut self, record: &Record) {
        // A stream that was not there before is told of by `agrees`.
        let part = self.part_of.get(record.stream as usize).copied().unwrap_or(0);
        self.parts[part].add(record);
    }

    /// Whether the second pass saw what the first did.
    fn agrees(&self, name: &Path) -> Result<(), Error> {
        let requests: u64 = self.parts.iter().map(|part| part.requests).sum();
        if requests == self.survey.requests {
            return Ok(());
        }
        Err(Error::Unfit(format!(
            "{}: got {requests} requests when read again, expected {}; give a file that stays as it is",
            name.display(),
            self.survey.requests
        )))
    }

    /// The model.
    pub fn finish(self) -> Model {
        let Fitter { options, survey, parts, owners, .. } = self;
        let volume =
            |extent: &u64| Volume { extent_mib: extent.div_ceil(GRAIN).max(1), name: None };
        Model {
            forebay_model: VERSION,
            requests: survey.requests,
            duration_s: digits(survey.last.0 as f64 / 1e9, 9),
            level: options.level.unwrap_or(1),
            flat: options.flat,
            size_bounds_bytes: parts[0].classes.0.clone(),
            volumes: survey.extents.iter().map(volume).collect(),
            streams: survey
                .streams
                .iter()
                .map(|&requests| Submitter { requests, name: None })
                .collect(),
            parts: parts
                .into_iter()
                .zip(owners)
                .map(|(part, owner)| part.finish(owner, survey.tick_ns))
                .collect(),
        }
    }
}
