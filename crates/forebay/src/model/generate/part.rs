//! Draws the requests of a part.

use forebay_core::{Flags, Nanos, Op};
use forebay_trace::Record;

use super::super::cascade::Cascade;
use super::super::file::{Model, Part};
use super::super::fit::KEPT;
use super::super::history::{Latest, Past, Touched};
use super::super::space::{GRAIN, SECTOR, Space};
use super::super::state::{CATEGORIES, Category, GAP_CLASSES, Kind, Range, SizeClasses, gap_class};
use super::categories::{CategoryDrawer, table};
use super::draw::{Bag, Dice};
use super::ranges::{RangeDrawer, ranges};
use super::states::{Nodes, StateDrawer, before_gap, candidates, flavours};

pub(super) struct PartGenerator {
    pub(super) dice: Dice,
    pub(super) space: Space,
    // When.
    pub(super) tick: u64,
    pub(super) epoch_requests: u64,
    pub(super) epochs: Vec<u64>,
    pub(super) epoch: usize,
    pub(super) requests: u64,
    pub(super) cascade: Cascade,
    pub(super) next_gap: u64,
    pub(super) at: u64,
    // Which state.
    pub(super) epoch_mixes: Vec<Vec<(u8, u32)>>,
    pub(super) mix_epoch: usize,
    pub(super) mix_left: u64,
    /// What is left of each flavour in the epoch, and its share of all.
    pub(super) flavours: Vec<(f32, f32)>,
    pub(super) flavour_of: Vec<u8>,
    pub(super) states: Vec<StateDrawer>,
    /// Nodes below each node; none below the finest.
    pub(super) children: Vec<Vec<u32>>,
    /// State of each node of the finest level.
    pub(super) state_of: Vec<u32>,
    pub(super) budget: Vec<f32>,
    /// How much likelier a gap of each class is after each node than after any.
    pub(super) before_gap: Vec<[f32; GAP_CLASSES]>,
    pub(super) periods: Vec<Vec<(u32, u32)>>,
    pub(super) period: usize,
    pub(super) period_left: u64,
    pub(super) state: usize,
    // What.
    pub(super) categories: Vec<CategoryDrawer>,
    pub(super) ranges: Vec<RangeDrawer>,
    pub(super) latest: Latest,
    pub(super) last_end: u64,
    /// The same of each volume.
    pub(super) volume_ends: Vec<u64>,
    pub(super) touched: Touched,
    pub(super) classes: SizeClasses,
    // Who.
    pub(super) stay: f64,
    pub(super) stream: u32,
    pub(super) only: Option<u32>,
    pub(super) bag: Bag,
}

impl PartGenerator {
    pub(super) fn new(model: &Model, part: &Part, seed: u64) -> PartGenerator {
        let extents: Vec<u64> =
            model.volumes.iter().map(|volume| volume.extent_mib.saturating_mul(GRAIN)).collect();
        let space = Space::new(&extents);
        let parsed: Vec<(Range, Category)> = part
            .states
            .iter()
            .filter_map(|state| Some((Range::parse(&state.0)?, Category(state.1))))
            .collect();
        let nodes = Nodes::new(&parsed, part);
        let (range_of, ranges) = ranges(&parsed, part, &space);
        let next = candidates(model, part, &parsed, &nodes);
        let before_gap = before_gap(part, &nodes);
        let states = parsed
            .iter()
            .zip(next)
            .zip(&part.states)
            .map(|((state, next), saved)| StateDrawer {
                range: range_of[&state.0],
                category: state.1,
                nodes: nodes.above(*state),
                next,
                again: table(&saved.3),
            })
            .collect();
        let mut categories = vec![CategoryDrawer::default(); CATEGORIES];
        for category in &part.categories {
            categories[usize::from(category.category)] = CategoryDrawer::new(category);
        }
        // Streams with a part of their own are not drawn here.
        let own: Vec<u32> = model.parts.iter().filter_map(|part| part.stream).collect();
        let streams = model
            .streams
            .iter()
            .zip(0u32..)
            .map(|(stream, number)| if own.contains(&number) { 0 } else { stream.requests })
            .collect();
        let mut generator = PartGenerator {
            dice: Dice::new(seed),
            space,
            tick: part.arrivals.tick_ns.max(1),
            epoch_requests: part.arrivals.epoch_requests,
            epochs: part.arrivals.epochs_us.iter().map(|us| (us * 1e3).round() as u64).collect(),
            epoch: 0,
            requests: part.requests,
            cascade: Cascade::new(&part.arrivals.splits),
            next_gap: 0,
            at: (part.begin_s * 1e9).round() as u64,
            epoch_mixes: part.arrivals.epoch_mixes.clone(),
            mix_epoch: 0,
            mix_left: 0,
            flavours: flavours(part),
            flavour_of: nodes.flavours(),
            states,
            children: nodes.children,
            state_of: nodes.state_of,
            budget: vec![0.0; nodes.ids.len()],
            before_gap,
            periods: part.periods.iter().map(|period| period.mix.clone()).collect(),
            period: 0,
            period_left: 0,
            state: 0,
            categories,
            ranges,
            latest: Latest::new(part.requests),
            last_end: u64::MAX,
            volume_ends: vec![u64::MAX; extents.len()],
            touched: Touched::new(part.requests),
            classes: SizeClasses(model.size_bounds_bytes.clone()),
            stay: part.stay_share,
            stream: 0,
            only: part.stream,
            bag: Bag::new(streams),
        };
        generator.next_gap = generator.gap();
        generator.state = generator.periods[0].first().map_or(0, |mix| mix.0 as usize);
        generator
    }

    #[inline]
    pub(super) fn next(&mut self) -> Option<Record> {
        let gap = self.next_gap;
        self.next_gap = self.gap();
        self.at = self.at.saturating_add(gap);
        self.choose_state(gap_class(gap), gap_class(self.next_gap));
        let mut record = self.place();
        record.at = Nanos(self.at / self.tick * self.tick);
        Some(record)
    }

    fn gap(&mut self) -> u64 {
        let dice = &mut self.dice;
        if let Some(gap) = self.cascade.next(|| dice.unit()) {
            return gap;
        }
        let before = self.epoch as u64 * self.epoch_requests;
        let requests = self.epoch_requests.min(self.requests - before);
        self.cascade.begin(requests, self.epochs[self.epoch]);
        self.epoch = (self.epoch + 1) % self.epochs.len();
        self.cascade.next(|| dice.unit()).unwrap_or(0)
    }

    fn place(&mut self) -> Record {
        let state = &self.states[self.state];
        let category = state.category;
        let drawer = &mut self.categories[usize::from(category.0)];
        let flags = Flags(drawer.flags.get(drawer.flag.draw(&mut self.dice)).copied().unwrap_or(0));
        if category.op() == Op::Flush {
            let stream = self.who(None);
            return record(0, 0, 0, stream, Op::Flush, flags);
        }
        let range = &mut self.ranges[state.range as usize];
        let dice = &mut self.dice;
        let mut continued = None;
        let mut owner = None;
        let mut run_len = None;
        let found = match category.kind() {
            kind if kind.is_sequential() && !range.heads.is_empty() => {
                let drawn = drawer.ranks.draw(dice);
                let class = (dice.unit() < drawer.same_class).then_some(category.class());
                let ends = (&self.space, &self.volume_ends[..]);
                let rank = range.rank(drawn, (kind, class), ends, &self.touched, &self.classes);
                let (end, stream, len) = range.heads.at(rank);
                run_len = Some(len);
                continued = Some(rank);
                owner = Some(stream);
                (end < range.end).then_some((end, None))
            }
            Kind::Follow => {
                let number = range.referenced + drawer.distances.draw(dice) as u64;
                range.past(number, &self.latest)
            }
            Kind::Again => {
                let jump = (drawer.jumps.draw(dice), self.last_end);
                let past = range.again(&state.again, jump, dice, &self.latest);
                match past {
                    Some((address, Some(len))) if dice.unit() < drawer.inside => {
                        let grain = if len > 4096 { 4096 } else { SECTOR };
                        let steps = (u64::from(len) / grain).max(2) - 1;
                        Some((address + grain * (1 + dice.below(steps)), None))
                    }
                    past => past,
                }
            }
            Kind::Near if !range.heads.is_empty() => {
                Some((range.near(drawer, dice, &self.touched), None))
            }
            _ => None,
        };
        if found.is_none() {
            continued = None;
        }
        let (address, len) = found.unwrap_or_else(|| {
            (range.far(drawer, dice, &self.touched, (&self.space, self.last_end)), None)
        });
        let len = match len {
            Some(len)
                if self.classes.of(len) == category.class()
                    && dice.unit() < drawer.same_size
                    && drawer.take_size(len) =>
            {
                len
            }
            _ => drawer.size(run_len, dice),
        };
        let address = address.clamp(range.first, range.end - 1);
        let stream = self.who(owner);
        let (volume, offset, len) = self.space.place(address, len.max(1));
        let range = &mut self.ranges[self.states[self.state].range as usize];
        self.last_end = address + u64::from(len);
        self.volume_ends[volume as usize] = self.last_end;
        range.heads.push(continued, self.last_end, stream, len);
        self.latest.note(address, range.ring.count());
        self.touched.mark(address, len, range.ring.count());
        range.ring.push(Past { address, len, stream }, KEPT);
        record(volume, offset, len, stream, category.op(), flags)
    }

    /// The stream that asks: that of the run which is continued, or the last one, or another.
    #[inline]
    fn who(&mut self, owner: Option<u32>) -> u32 {
        if let Some(only) = self.only {
            return only;
        }
        let wanted = match owner {
            Some(owner) => Some(owner),
            None => (self.dice.unit() < self.stay).then_some(self.stream),
        };
        self.stream = match wanted {
            Some(stream) if self.bag.take(stream as usize) => stream,
            _ => self.bag.draw(&mut self.dice) as u32,
        };
        self.stream
    }
}

fn record(volume: u32, offset: u64, len: u32, stream: u32, op: Op, flags: Flags) -> Record {
    Record { at: Nanos::ZERO, offset, latency: None, len, stream, volume, op, flags }
}
