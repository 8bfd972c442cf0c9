//! Draws the requests of a part.

use forebay_core::{Flags, Nanos, Op};
use forebay_trace::Record;
use rustc_hash::FxHashMap;

use super::super::bins::{NEAR_BINS, jump_bin, log_bounds};
use super::super::cascade::Cascade;
use super::super::file::{Bins, CategoryModel, Model, Part};
use super::super::fit::KEPT;
use super::super::history::{Heads, Latest, Past, Ring, Touched};
use super::super::space::{CELLS, GRAIN, LEVEL_MAX, SECTOR, Space};
use super::super::state::{CATEGORIES, Category, GAP_CLASSES, Kind, Range, SizeClasses, gap_class};
use super::draw::{Bag, Dice, Repeating, Table};

/// Times a new place is drawn again because it was used before.
const RETRIES: usize = 6;
/// Requests of the past among which the one at the right distance is chosen.
const AIMS: usize = 12;
/// How far from a drawn request of the past one is looked for that was not repeated since.
const PROBES: u64 = 12;

/// How much a state counts that would go on in another range.
const STRAY_WEIGHT: f32 = 1e-3;

/// Something that can follow: a node of the hierarchy, and its weight for its budget.
type Candidate = (u32, f32);

/// A state of the finest level.
struct StateDrawer {
    range: u32,
    category: Category,
    /// Its node and those above it.
    nodes: Vec<u32>,
    /// What can follow, by class of the gap, and after any.
    next: [Vec<Candidate>; GAP_CLASSES + 1],
    again: Table,
}

#[derive(Clone, Debug, Default)]
struct CategoryDrawer {
    sizes: Vec<u32>,
    repeats: Vec<f64>,
    size: Bag,
    last_size: usize,
    ranks: Repeating,
    distances: Repeating,
    jumps: Table,
    same_size: f64,
    same_class: f64,
    inside: f64,
    alignments: Table,
    flags: Vec<u8>,
    flag: Table,
}

struct RangeDrawer {
    first: u64,
    end: u64,
    heads: Heads,
    ring: Ring,
    referenced: u64,
    /// Cells of heat in it: first, count.
    cells: Vec<(u32, u32)>,
    cell: Bag,
}

pub(super) struct PartGenerator {
    dice: Dice,
    space: Space,
    // When.
    tick: u64,
    epoch_requests: u64,
    epochs: Vec<u64>,
    epoch: usize,
    requests: u64,
    cascade: Cascade,
    next_gap: u64,
    at: u64,
    // Which state.
    epoch_mixes: Vec<Vec<(u8, u32)>>,
    mix_epoch: usize,
    mix_left: u64,
    /// What is left of each flavour in the epoch, and its share of all.
    flavours: Vec<(f32, f32)>,
    flavour_of: Vec<u8>,
    states: Vec<StateDrawer>,
    /// Nodes below each node; none below the finest.
    children: Vec<Vec<u32>>,
    /// State of each node of the finest level.
    state_of: Vec<u32>,
    budget: Vec<f32>,
    /// How much likelier a gap of each class is after each node than after any.
    before_gap: Vec<[f32; GAP_CLASSES]>,
    periods: Vec<Vec<(u32, u32)>>,
    period: usize,
    period_left: u64,
    state: usize,
    // What.
    categories: Vec<CategoryDrawer>,
    ranges: Vec<RangeDrawer>,
    latest: Latest,
    last_end: u64,
    touched: Touched,
    classes: SizeClasses,
    // Who.
    stay: f64,
    stream: u32,
    only: Option<u32>,
    bag: Bag,
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

    #[inline]
    fn choose_state(&mut self, gap: usize, next: usize) {
        if self.period_left == 0 {
            self.begin_period();
        }
        self.period_left -= 1;
        if self.mix_left == 0 {
            self.begin_mix();
        }
        self.mix_left -= 1;
        let node = self.follow(gap, next).or_else(|| self.follow(GAP_CLASSES, next));
        let mut node = match node {
            Some(node) => node,
            None => self.any_state(),
        };
        while self.state_of[node as usize] == u32::MAX {
            node = self.descend(node);
        }
        self.state = self.state_of[node as usize] as usize;
        for &node in &self.states[self.state].nodes {
            self.budget[node as usize] -= 1.0;
        }
        let flavour = self.states[self.state].category.flavour();
        let left = &mut self.flavours[usize::from(flavour)].0;
        *left = (*left - 1.0).max(0.0);
    }

    fn begin_mix(&mut self) {
        self.flavours.iter_mut().for_each(|flavour| flavour.0 = 0.0);
        for &(flavour, count) in &self.epoch_mixes[self.mix_epoch] {
            self.flavours[usize::from(flavour)].0 = count as f32;
            self.mix_left += u64::from(count);
        }
        self.mix_left = self.mix_left.max(1);
        self.mix_epoch = (self.mix_epoch + 1) % self.epoch_mixes.len();
    }

    /// How much a flavour's share of what is left of the epoch exceeds its share of all.
    #[inline]
    fn favour(&self, flavour: u8) -> f32 {
        let (left, share) = self.flavours[usize::from(flavour)];
        left * share
    }

    fn begin_period(&mut self) {
        self.budget.fill(0.0);
        for &(state, count) in &self.periods[self.period] {
            for &node in &self.states[state as usize].nodes {
                self.budget[node as usize] += count as f32;
            }
            self.period_left += u64::from(count);
        }
        self.period = (self.period + 1) % self.periods.len();
    }

    /// A node that follows the current state after a gap of that class.
    #[inline]
    fn follow(&mut self, gap: usize, next: usize) -> Option<u32> {
        let uniform = self.dice.unit() as f32;
        let candidates = &self.states[self.state].next[gap];
        let weigh = |&(node, weight): &Candidate| {
            weight
                * self.budget[node as usize]
                * self.before_gap[node as usize][next]
                * self.favour(self.flavour_of[node as usize])
        };
        let sum: f32 = candidates.iter().map(weigh).sum();
        if sum <= 0.0 {
            return None;
        }
        let mut drawn = uniform * sum;
        let mut last = None;
        for candidate in candidates {
            let weight = weigh(candidate);
            if weight > 0.0 {
                last = Some(candidate.0);
                drawn -= weight;
                if drawn < 0.0 {
                    break;
                }
            }
        }
        last
    }

    /// A node below one, by their budgets.
    fn descend(&mut self, node: u32) -> u32 {
        let children = &self.children[node as usize];
        let sum: f32 = children.iter().map(|&child| self.budget[child as usize]).sum();
        let mut drawn = self.dice.unit() as f32 * sum;
        let mut last = children[0];
        for &child in children {
            let budget = self.budget[child as usize];
            if budget > 0.0 {
                last = child;
                drawn -= budget;
                if drawn < 0.0 {
                    break;
                }
            }
        }
        last
    }

    /// A node of any state of the period, by what is left of them.
    fn any_state(&mut self) -> u32 {
        let period = (self.period + self.periods.len() - 1) % self.periods.len();
        let uniform = self.dice.unit() as f32;
        let mix = &self.periods[period];
        let range = self.states[self.state].range;
        let weigh = |state: u32| {
            let state = &self.states[state as usize];
            // What goes on elsewhere than here would not go on.
            let strays = state.category.kind().is_next() && state.range != range;
            let favour = self.favour(state.category.flavour()) + STRAY_WEIGHT;
            let budget = self.budget[state.nodes[0] as usize] * favour;
            if strays { budget * STRAY_WEIGHT } else { budget }
        };
        let sum: f32 = mix.iter().map(|&(state, _)| weigh(state)).sum();
        let mut drawn = uniform * sum;
        let mut last = mix[0].0;
        for &(state, _) in mix {
            let weight = weigh(state);
            if weight > 0.0 {
                last = state;
                drawn -= weight;
                if drawn < 0.0 {
                    break;
                }
            }
        }
        self.states[last as usize].nodes[0]
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
                let rank = match kind {
                    Kind::NextNew | Kind::NextOld => 0,
                    _ => {
                        let drawn = drawer.ranks.draw(dice);
                        let class = (dice.unit() < drawer.same_class).then_some(category.class());
                        let wanted = (kind.is_new(), class);
                        range.rank(drawn, wanted, self.last_end, &self.touched, &self.classes)
                    }
                };
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

impl RangeDrawer {
    /// The request of the past with this number, or one close to it that was not repeated since.
    fn past(&mut self, number: u64, latest: &Latest) -> Option<(u64, Option<u32>)> {
        let mut fallback = None;
        for step in 0..PROBES {
            let tried = if step % 2 == 0 {
                number.wrapping_add(step / 2)
            } else {
                number.wrapping_sub(step / 2 + 1)
            };
            let Some(past) = self.ring.get(tried) else { continue };
            if latest.find(past.address) == Some(tried) {
                self.referenced = tried;
                return Some((past.address, Some(past.len)));
            }
            fallback = fallback.or(Some((past.address, Some(past.len))));
        }
        fallback
    }

    /// The rank closest to `drawn` whose end is on such ground, but is not that of the last request.
    fn rank(
        &self,
        rank: usize,
        (is_new, class): (bool, Option<usize>),
        last_end: u64,
        touched: &Touched,
        classes: &SizeClasses,
    ) -> usize {
        let cost = |&at: &usize| {
            let (end, _, len) = self.heads.at(at);
            let strays = end == last_end || touched.last(end).is_none() != is_new;
            let differs = class.is_some_and(|class| classes.of(len) != class);
            (strays, differs, at.abs_diff(rank))
        };
        (0..self.heads.len()).min_by_key(cost).unwrap_or(0)
    }

    /// Of several requests of the past, the one that is about as far away as wanted.
    fn again(
        &mut self,
        ago: &Table,
        (jump, last_end): (usize, u64),
        dice: &mut Dice,
        latest: &Latest,
    ) -> Option<(u64, Option<u32>)> {
        let mut best: Option<(usize, u64)> = None;
        for _ in 0..AIMS {
            let (low, count) = log_bounds(ago.draw(dice));
            let number = self.ring.count().saturating_sub(low + dice.below(count));
            let Some(past) = self.ring.get(number) else { continue };
            if past.address == last_end {
                // That would be sequential.
                continue;
            }
            let off = jump_bin(last_end, past.address).abs_diff(jump);
            if best.is_none_or(|(least, _)| off < least) {
                best = Some((off, number));
            }
            if off == 0 {
                break;
            }
        }
        self.past(best?.1, latest)
    }

    fn near(&mut self, drawer: &mut CategoryDrawer, dice: &mut Dice, touched: &Touched) -> u64 {
        let mut best = None;
        for _ in 0..RETRIES {
            let rank = drawer.ranks.draw(dice).min(self.heads.len() - 1);
            let bin = drawer.distances.draw(dice);
            let (low, count) = log_bounds(bin % NEAR_BINS);
            let distance = (low + dice.below(count)).saturating_mul(SECTOR);
            let head = self.heads.at(rank).0;
            let grain = SECTOR << drawer.alignments.draw(dice);
            let aimed = if bin < NEAR_BINS {
                head.saturating_sub(distance.max(SECTOR))
            } else {
                // Not where the head is: that would be sequential.
                head.saturating_add(distance.max(grain / 2 + SECTOR))
            };
            let address =
                (aimed.saturating_add(grain / 2) / grain * grain).clamp(self.first, self.end - 1);
            if self.heads.find(address).is_some() {
                continue;
            }
            if touched.last(address).is_none() {
                return address;
            }
            best = Some(address);
        }
        best.unwrap_or(self.first)
    }

    fn far(
        &mut self,
        drawer: &CategoryDrawer,
        dice: &mut Dice,
        touched: &Touched,
        (space, last_end): (&Space, u64),
    ) -> u64 {
        let jump = drawer.jumps.draw(dice);
        let mut best: Option<(usize, u64, Option<usize>)> = None;
        for _ in 0..RETRIES {
            let cell = (!self.cell.is_empty()).then(|| self.cell.draw(dice));
            let (low, high) = match cell.and_then(|cell| self.cells.get(cell)) {
                Some(&(first, count)) => {
                    let low = u64::from(first) * space.cell_bytes();
                    (low, low + u64::from(count) * space.cell_bytes())
                }
                None => (self.first, self.end),
            };
            let (low, high) = (low.max(self.first), high.min(self.end).max(low + 1));
            let grain = SECTOR << drawer.alignments.draw(dice);
            let drawn = ((low + dice.below(high - low)) / grain * grain).max(self.first);
            let off = jump_bin(last_end, drawn).abs_diff(jump);
            let good = 4 * room(drawn, touched) + 3 - off.min(3);
            let worse = match best {
                Some((most, _, _)) if most >= good => Some(cell),
                _ => best.replace((good, drawn, cell)).map(|(_, _, cell)| cell),
            };
            if let Some(cell) = worse.flatten() {
                self.cell.put(cell);
            }
            if good == 4 * ROOM.len() + 3 {
                break;
            }
        }
        best.map_or(self.first, |(_, address, _)| address)
    }
}

/// How far ahead of a new place is looked for ground not used before.
const ROOM: [u64; 6] = [0, 128 << 10, 1 << 20, 8 << 20, 32 << 20, 128 << 20];

/// How far the ground from `address` on was not used before.
fn room(address: u64, touched: &Touched) -> usize {
    ROOM.iter().take_while(|&&ahead| touched.last(address.saturating_add(ahead)).is_none()).count()
}

impl CategoryDrawer {
    fn new(saved: &CategoryModel) -> CategoryDrawer {
        let sizes: Vec<u32> = saved.sizes.iter().map(|size| size.0).collect();
        let repeats: Vec<f64> = saved
            .sizes
            .iter()
            .map(|size| (f64::from(size.2) / f64::from(size.1.max(1))).min(1.0))
            .collect();
        let counts = saved.sizes.iter().map(|size| u64::from(size.1)).collect();
        CategoryDrawer {
            size: Bag::new(counts),
            sizes,
            repeats,
            last_size: usize::MAX,
            ranks: Repeating::new(&saved.ranks, &saved.rank_repeats),
            distances: Repeating::new(&saved.distances, &saved.distance_repeats),
            jumps: table(&saved.jumps),
            same_size: saved.same_size_share,
            same_class: saved.same_class_share,
            inside: saved.inside_share,
            alignments: table(&saved.alignments),
            flags: saved.flags.iter().map(|flag| flag.0).collect(),
            flag: Table::new(0, saved.flags.iter().map(|flag| flag.1)),
        }
    }

    /// Whether one of this size is left.
    #[inline]
    fn take_size(&mut self, len: u32) -> bool {
        self.sizes.binary_search(&len).is_ok_and(|at| self.size.take(at))
    }

    #[inline]
    fn size(&mut self, run_len: Option<u32>, dice: &mut Dice) -> u32 {
        if let Some(len) = run_len {
            self.last_size = self.sizes.binary_search(&len).unwrap_or(usize::MAX);
        }
        let repeats = self.repeats.get(self.last_size).is_some_and(|&share| dice.unit() < share);
        if !repeats || !self.size.take(self.last_size) {
            self.last_size = self.size.draw(dice);
        }
        self.sizes.get(self.last_size).copied().unwrap_or(SECTOR as u32)
    }
}

fn table(bins: &Bins) -> Table {
    Table::new(bins.0 as usize, bins.1.iter().copied())
}

/// Ranges at all levels with the categories seen in them.
struct Nodes {
    ids: FxHashMap<(Range, Category), u32>,
    children: Vec<Vec<u32>>,
    state_of: Vec<u32>,
    counts: Vec<u64>,
}

impl Nodes {
    fn new(states: &[(Range, Category)], part: &Part) -> Nodes {
        let mut nodes = Nodes {
            ids: FxHashMap::default(),
            children: Vec::new(),
            state_of: Vec::new(),
            counts: Vec::new(),
        };
        for ((range, category), (saved, number)) in
            states.iter().zip(part.states.iter().zip(0u32..))
        {
            let mut below = None;
            for level in (1..=range.level()).rev() {
                let key = (range.ancestor(level), *category);
                let fresh = nodes.ids.len() as u32;
                let id = *nodes.ids.entry(key).or_insert(fresh);
                if id == fresh {
                    nodes.children.push(Vec::new());
                    nodes.state_of.push(u32::MAX);
                    nodes.counts.push(0);
                }
                nodes.counts[id as usize] += saved.2;
                match below {
                    None => nodes.state_of[id as usize] = number,
                    Some(child) if !nodes.children[id as usize].contains(&child) => {
                        nodes.children[id as usize].push(child);
                    }
                    Some(_) => {}
                }
                below = Some(id);
            }
        }
        nodes
    }

    /// The flavour of each node.
    fn flavours(&self) -> Vec<u8> {
        let mut flavours = vec![0; self.ids.len()];
        for (&(_, category), &id) in &self.ids {
            flavours[id as usize] = category.flavour();
        }
        flavours
    }

    /// The node of a state and those above it.
    fn above(&self, (range, category): (Range, Category)) -> Vec<u32> {
        (1..=range.level())
            .rev()
            .map(|level| self.ids[&(range.ancestor(level), category)])
            .collect()
    }
}

/// What can follow each state.
fn candidates(
    model: &Model,
    part: &Part,
    states: &[(Range, Category)],
    nodes: &Nodes,
) -> Vec<[Vec<Candidate>; GAP_CLASSES + 1]> {
    let mut rows: FxHashMap<(Range, Category), Vec<(u32, &Vec<u32>)>> = FxHashMap::default();
    for transition in &part.transitions {
        let ends = Range::parse(&transition.from).zip(Range::parse(&transition.to));
        let Some((from, to)) = ends else { continue };
        for joint in &transition.joint {
            if let Some(&node) = nodes.ids.get(&(to, Category(joint.1))) {
                rows.entry((from, Category(joint.0))).or_default().push((node, &joint.2));
            }
        }
    }
    let levels =
        |range: Range| if model.flat { range.level()..=range.level() } else { 1..=range.level() };
    states
        .iter()
        .map(|&(range, category)| {
            let mut next: [Vec<Candidate>; GAP_CLASSES + 1] = Default::default();
            for level in levels(range).rev() {
                let from = (range.ancestor(level), category);
                let Some(&id) = nodes.ids.get(&from) else { continue };
                let visits = nodes.counts[id as usize].max(1) as f64;
                for (node, gaps) in rows.get(&from).into_iter().flatten() {
                    let follows = nodes.counts[*node as usize].max(1) as f64;
                    let weight = |count: f64| (count / visits / follows * 1e6) as f32;
                    for (class, &count) in gaps.iter().enumerate().filter(|(_, count)| **count > 0)
                    {
                        next[class].push((*node, weight(f64::from(count))));
                    }
                    let all: f64 = gaps.iter().map(|&count| f64::from(count)).sum();
                    next[GAP_CLASSES].push((*node, weight(all)));
                }
            }
            next
        })
        .collect()
}

/// How much likelier a gap of each class is after each node than after any.
fn before_gap(part: &Part, nodes: &Nodes) -> Vec<[f32; GAP_CLASSES]> {
    let mut counts = vec![[0f64; GAP_CLASSES]; nodes.ids.len()];
    let mut all = [0f64; GAP_CLASSES];
    for transition in &part.transitions {
        let Some(from) = Range::parse(&transition.from) else { continue };
        for joint in &transition.joint {
            for (class, &count) in joint.2.iter().enumerate() {
                all[class] += f64::from(count);
                if let Some(&node) = nodes.ids.get(&(from, Category(joint.0))) {
                    counts[node as usize][class] += f64::from(count);
                }
            }
        }
    }
    let sum: f64 = all.iter().sum();
    let share = all.map(|count| (count + 1.0) / (sum + GAP_CLASSES as f64));
    counts
        .iter()
        .map(|counts| {
            let sum: f64 = counts.iter().sum();
            // As if one more had been seen, of the usual kind.
            std::array::from_fn(|class| {
                ((counts[class] + share[class]) / (sum + 1.0) / share[class]) as f32
            })
        })
        .collect()
}

/// The ranges of states, and the number of each.
fn ranges(
    states: &[(Range, Category)],
    part: &Part,
    space: &Space,
) -> (FxHashMap<Range, u32>, Vec<RangeDrawer>) {
    let mut numbers = FxHashMap::default();
    let mut list = Vec::new();
    for (range, _) in states {
        if numbers.contains_key(range) {
            continue;
        }
        numbers.insert(*range, list.len() as u32);
        let width = (CELLS >> (2 * range.level())) as u32;
        let first = range.index() * width;
        let cells: Vec<(u32, u32, u32)> = part
            .heat
            .iter()
            .filter(|(begin, count, _)| *begin < first + width && begin + count > first)
            .copied()
            .collect();
        let bytes = |cell: u32| u64::from(cell) * space.cell_bytes();
        let begin = bytes(first).min(space.span() - 1);
        list.push(RangeDrawer {
            first: begin,
            end: bytes(first + width).min(space.span()).max(begin + 1),
            heads: Heads::default(),
            ring: Ring::default(),
            referenced: 0,
            cell: Bag::new(cells.iter().map(|cell| u64::from(cell.2)).collect()),
            cells: cells.iter().map(|cell| (cell.0, cell.1)).collect(),
        });
    }
    debug_assert!(states.iter().all(|(range, _)| range.level() <= LEVEL_MAX));
    (numbers, list)
}

/// No flavour left of an epoch; beside it what one has over its share of all.
fn flavours(part: &Part) -> Vec<(f32, f32)> {
    let mut counts = vec![0u64; CATEGORIES];
    for state in &part.states {
        counts[usize::from(Category(state.1).flavour())] += state.2;
    }
    let share = |count: u64| if count > 0 { (1e3 / count as f64) as f32 } else { 0.0 };
    counts.into_iter().map(|count| (0.0, share(count))).collect()
}
