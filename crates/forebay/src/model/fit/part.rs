//! The second pass: counts what the requests of a part do.

use forebay_core::{Nanos, Op};
use forebay_trace::Record;

use super::super::bins::{align_bin, reach_bin};
use super::super::cascade::{Collector, Found};
use super::super::file::{Arrivals, Part, Scales};
use super::super::history::{Latest, Passing, RangePast, Touched, remember};
use super::super::leaf_ranges::LeafOf;
use super::super::relative_place;
use super::super::space::{CELLS, GRAIN, Space};
use super::super::state::{CATEGORIES, Category, Kind, NEAR_BYTES, Range, SizeClasses};
use super::lists::{digits, heat};
use super::order::Order;
use super::origin::{Origin, origin};
use super::periods::Counter;
use super::states::{Kept, States};
use super::traits::{Traits, category_model};
use super::{FitOptions, Survey};

/// Epochs whose durations are kept.
const EPOCHS_MAX: usize = 512;
/// Divisions of blocks that are kept one by one.
const DIVISIONS_MAX: usize = 65_536;
/// Numbers that tell the order of states.
const ORDER_MAX: usize = 81_920;
/// Cells of heat.
const HEAT_MAX: usize = 512;

/// Fits a part.
pub(super) struct PartFitter {
    /// How many share the bounds on the model's size.
    parts: usize,
    space: Space,
    leaves: Vec<Range>,
    leaf_of: LeafOf,
    pub(super) requests: u64,
    begins: Option<Nanos>,
    last: Nanos,
    last_leaf: usize,
    /// Where the last request of each volume ended.
    volume_ends: Vec<u64>,
    last_stream: u32,
    stays: u64,
    arrivals: Collector,
    /// Where intensity is kept by period.
    periods: Option<Counter>,
    /// By leaf.
    ranges: Vec<RangePast>,
    latest: Latest,
    touched: Touched,
    pub(super) classes: SizeClasses,
    states: States,
    order: Order,
    traits: Vec<Traits>,
    heat: Vec<u32>,
}

impl PartFitter {
    pub(super) fn new(
        survey: &Survey,
        leaves: &[Range],
        options: &FitOptions,
        requests: u64,
        parts: usize,
    ) -> PartFitter {
        PartFitter {
            parts,
            space: Space::new(&survey.extents),
            leaf_of: LeafOf::new(leaves),
            leaves: leaves.to_vec(),
            requests: 0,
            begins: None,
            last: Nanos::ZERO,
            last_leaf: 0,
            volume_ends: vec![u64::MAX; survey.extents.len()],
            last_stream: 0,
            stays: 0,
            arrivals: Collector::new(
                (EPOCHS_MAX / parts).next_power_of_two(),
                DIVISIONS_MAX / parts,
            ),
            periods: options.period.map(|period| Counter::new(period, survey.last, survey.tick_ns)),
            ranges: vec![RangePast::default(); leaves.len()],
            latest: Latest::new(requests, survey.grain_bytes()),
            touched: Touched::new(requests, survey.grain_bytes()),
            classes: survey.size_classes(options.common_sizes),
            states: States::new(leaves.len(), options.flat),
            order: Order::new(),
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
        match &mut self.periods {
            Some(periods) => periods.add(record.at),
            None => self.arrivals.add(gap),
        }
        self.requests += 1;
        self.stays += u64::from(record.stream == self.last_stream);
        self.last_stream = record.stream;
        if record.op == Op::Flush {
            return self.add_flush(record, gap);
        }
        let address = self.space.linear(record);
        let cell = self.space.cell(address);
        let leaf = self.leaf(address);
        let volume_end = self.volume_ends[record.volume as usize];
        let past = &mut self.ranges[leaf];
        let first = u64::from(self.leaves[leaf].first_cell()) * self.space.cell_bytes();
        let reference = past.reference(first);
        let known = (&self.latest, &self.touched);
        let mut origin = origin(past, known, (address, record.len), volume_end);
        if origin.kind == Kind::Again && address.abs_diff(reference) <= NEAR_BYTES {
            origin.kind = if address < reference { Kind::AgainBehind } else { Kind::AgainAhead };
        }
        let category = Category::new(record.op, origin.kind, self.classes.of(record.len));
        let state = self.states.add(leaf, self.leaves[leaf], category, gap);
        let place = match (origin.kind, origin.rank) {
            (kind, Some(rank)) if kind.is_sequential() => self.states.rank(state, rank),
            (kind, rank) => {
                let spot = match kind {
                    Kind::Near => {
                        relative_place::near(rank.unwrap_or(0), origin.distance, record.len)
                    }
                    kind if origin.is_inside => {
                        relative_place::inside(kind, origin.ago, reference, (address, record.len))
                    }
                    kind if kind.is_again() => {
                        relative_place::again(kind, origin.ago, reference, (address, record.len))
                    }
                    _ => (align_bin(address), reach_bin(reference, address)),
                };
                self.states.place(state, spot)
            }
        };
        self.order.add(place);
        self.describe(category, record, address, &origin);
        if origin.kind == Kind::Far {
            self.heat[cell as usize] += 1;
        }
        let passing = Passing {
            address,
            len: record.len,
            stream: record.stream,
            is_read: record.op == Op::Read,
            continued: origin.rank.filter(|_| origin.kind.is_sequential()),
        };
        self.volume_ends[record.volume as usize] = passing.end();
        self.last_leaf = leaf;
        let leaves = (leaf, self.leaf(passing.end()));
        remember(&mut self.ranges, leaves, (&mut self.latest, &mut self.touched), passing);
    }

    /// The leaf of an address.
    #[inline]
    fn leaf(&self, address: u64) -> usize {
        self.leaf_of.of(self.space.cell(address)).unwrap_or(0)
    }

    /// A flush has no place: it stays in the range of the request before.
    fn add_flush(&mut self, record: &Record, gap: u64) {
        let leaf = self.last_leaf;
        let category = Category::new(record.op, Kind::Far, self.classes.of(0));
        let state = self.states.add(leaf, self.leaves[leaf], category, gap);
        let place = self.states.place(state, (0, 0));
        self.order.add(place);
        let traits = &mut self.traits[usize::from(category.0)];
        traits.count += 1;
        traits.sizes.entry(0).or_default().0 += 1;
        traits.add_flags(record.flags.0);
    }

    fn describe(&mut self, category: Category, record: &Record, address: u64, origin: &Origin) {
        let traits = &mut self.traits[usize::from(category.0)];
        traits.count += 1;
        let before = origin.run_len.unwrap_or(traits.last_len);
        let size = traits.sizes.entry(record.len).or_default();
        size.0 += 1;
        size.1 += u32::from(record.len == before && origin.same_size != Some(true));
        let is_same = |len: u32| self.classes.of(len) == self.classes.of(record.len);
        traits.same_class += u32::from(origin.run_len.is_some_and(is_same));
        traits.last_len = record.len;
        if origin.kind == Kind::Follow {
            traits.distances.add(origin.distance as usize);
        }
        traits.alignments[align_bin(address)] += 1;
        traits.same_size += u32::from(origin.same_size == Some(true));
        traits.seen += u32::from(origin.same_size.is_some());
        traits.same_stream += u32::from(origin.run_stream == Some(record.stream));
        let is_read = record.op == Op::Read;
        traits.same_op += u32::from(origin.run_stream.is_some() && origin.run_is_read == is_read);
        traits.add_flags(record.flags.0);
    }

    pub(super) fn finish(self, stream: Option<u32>, tick_ns: u64) -> Part {
        let arrivals = match self.periods {
            Some(periods) => Arrivals::Periods(periods.finish()),
            None => Arrivals::Scales(scales(self.arrivals.finish(), tick_ns)),
        };
        let Kept { states, of_places, of_states, follows, transitions } =
            self.states.finish(self.requests, self.parts);
        let places = states.iter().map(|state| state.5.0.len()).sum();
        let order = self.order.finish(
            (&of_places, places),
            (&of_states, states.len()),
            ORDER_MAX / self.parts,
        );
        Part {
            stream,
            requests: self.requests,
            begin_s: self.begins.unwrap_or_default().0 as f64 / 1e9,
            arrivals,
            states,
            follows,
            transitions,
            order,
            categories: self
                .traits
                .iter()
                .enumerate()
                .filter(|(_, traits)| traits.count > 0)
                .map(|(category, traits)| category_model(category as u16, traits))
                .collect(),
            heat: heat(&self.heat, HEAT_MAX / self.parts, (GRAIN / self.space.cell_bytes()) as u32),
            stay_share: digits(self.stays as f64 / self.requests.max(1) as f64, 4),
        }
    }
}

fn scales(found: Found, tick_ns: u64) -> Scales {
    let Found { epoch_scale, epochs_ns, divisions, splits } = found;
    Scales {
        tick_ns: tick_ns.max(1),
        epoch_requests: 1 << epoch_scale,
        epochs_us: epochs_ns.iter().map(|&ns| digits(ns as f64 / 1e3, 6)).collect(),
        divisions,
        splits,
    }
}
