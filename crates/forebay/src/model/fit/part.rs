//! The second pass: counts what the requests of a part do.

use forebay_core::{Nanos, Op};
use forebay_trace::Record;
use rustc_hash::FxHashMap;

use super::super::bins::{LOG_BINS, jump_bin, log_bin, signed_bin};
use super::super::cascade::Collector;
use super::super::families::Sketch;
use super::super::file::{Arrivals, Bins, Part, State};
use super::super::history::{Heads, Latest, Past, Ring, Touched};
use super::super::space::{CELLS, Space, state_of};
use super::super::state::{
    CATEGORIES, Category, GAP_CLASSES, Kind, NEAR_BYTES, Range, SizeClasses, gap_class,
};
use super::lists::{digits, epoch_requests, heat, periods, transitions};
use super::traits::{Traits, category_model};
use super::{FitOptions, KEPT, Survey};

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
pub(super) struct PartFitter {
    /// How many share the bounds on the model's size.
    parts: usize,
    level: u8,
    is_flat: bool,
    space: Space,
    pub(super) requests: u64,
    begins: Option<Nanos>,
    last: Nanos,
    last_state: Option<(Range, Category)>,
    last_end: u64,
    /// The same of each volume.
    volume_ends: Vec<u64>,
    last_stream: u32,
    stays: u64,
    arrivals: Collector,
    ranges: FxHashMap<Range, RangePast>,
    latest: Latest,
    touched: Touched,
    pub(super) classes: SizeClasses,
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
    pub(super) fn new(
        survey: &Survey,
        options: &FitOptions,
        requests: u64,
        parts: usize,
    ) -> PartFitter {
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
            volume_ends: vec![u64::MAX; survey.extents.len()],
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

    pub(super) fn add(&mut self, record: &Record) {
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
        let volume_end = self.volume_ends[record.volume as usize];
        let origin = self.origin(range, address, record.len, volume_end);
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
        self.volume_ends[record.volume as usize] = end;
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

    fn origin(&mut self, range: Range, address: u64, len: u32, volume_end: u64) -> Origin {
        let past = self.ranges.entry(range).or_default();
        let mut origin = Origin::far();
        let touched = self.touched.last(address);
        let seen = self.latest.find(address).and_then(|n| past.ring.get(n).map(|was| (n, was)));
        let seen = seen.filter(|(_, was)| was.address == address);
        if let Some(rank) = past.heads.find(address) {
            if let Some((number, _)) = seen {
                past.referenced = number;
            }
            let kind = match (address == volume_end, touched) {
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

    pub(super) fn finish(mut self, stream: Option<u32>, tick_ns: u64) -> Part {
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
