//! Draws the requests of a part.

use forebay_core::{Flags, Nanos, Op};
use forebay_trace::Record;

use super::super::file::{Model, Part};
use super::super::history::{Latest, Passing, Past, Touched, kept, remember};
use super::super::leaf_ranges::LeafOf;
use super::super::relative_place;
use super::super::space::{GRAIN, Space};
use super::super::state::{CATEGORIES, Category, Kind, Range, SizeClasses};
use super::categories::CategoryDrawer;
use super::choose::Chooser;
use super::clock::Clock;
use super::draw::{Bag, Dice};
use super::ranges::{RangeDrawer, ranges};
use super::states::{StateDrawer, follows, states};

/// How often another stream is drawn for, at most: there may be none.
const OTHERS_TRIED: usize = 8;

/// Where a request is, and what that tells of its size.
struct Found {
    address: u64,
    /// Bytes of the latest request that began there.
    before: Option<u32>,
    /// Bytes, where the place had to be found for them.
    len: Option<u32>,
    /// The run that goes on.
    run: Option<Run>,
}

impl Found {
    fn at(address: u64) -> Found {
        Found { address, before: None, len: None, run: None }
    }
}

/// A run that goes on.
struct Run {
    /// Among the latest ends.
    rank: usize,
    /// Bytes of its last request.
    len: u32,
    /// Its stream, and whether that asks again.
    owner: (u32, bool),
}

pub(super) struct PartGenerator {
    /// Requests that it still has to draw.
    left: u64,
    dice: Dice,
    space: Space,
    // When.
    clock: Clock,
    /// The next request's gap, state and known place.
    upcoming: (u64, usize, Option<usize>),
    at: u64,
    // Which state.
    chooser: Chooser,
    states: Vec<StateDrawer>,
    // What.
    categories: Vec<CategoryDrawer>,
    ranges: Vec<RangeDrawer>,
    leaf_of: LeafOf,
    latest: Latest,
    last_leaf: usize,
    last_end: u64,
    /// The same of each volume.
    volume_ends: Vec<u64>,
    touched: Touched,
    classes: SizeClasses,
    // Who.
    stay: f64,
    stream: u32,
    only: Option<u32>,
    bag: Bag,
}

impl PartGenerator {
    pub(super) fn new(model: &Model, part: &Part, seed: u64, left: u64) -> PartGenerator {
        let extents: Vec<u64> =
            model.volumes.iter().map(|volume| volume.extent_mib.saturating_mul(GRAIN)).collect();
        let space = Space::new(&extents);
        let mut leaves: Vec<Range> =
            part.states.iter().filter_map(|state| Range::parse(&state.0)).collect();
        leaves.sort_unstable_by_key(|leaf| leaf.first_cell());
        leaves.dedup();
        let number = |range: Range| leaves.iter().position(|leaf| *leaf == range).unwrap_or(0);
        let states = states(part, number);
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
            left,
            dice: Dice::new(seed),
            clock: Clock::new(model, part, &leaves),
            upcoming: (0, 0, None),
            at: (part.begin_s * 1e9).round() as u64,
            chooser: Chooser::new(part, follows(model, part)),
            states,
            categories,
            ranges: ranges(&leaves, part, &space, model.grain_bytes),
            leaf_of: LeafOf::new(&leaves),
            space,
            latest: Latest::new(part.requests, model.grain_bytes),
            last_leaf: 0,
            last_end: u64::MAX,
            volume_ends: vec![u64::MAX; extents.len()],
            touched: Touched::new(part.requests, model.grain_bytes),
            classes: SizeClasses(model.size_bounds_bytes.clone()),
            stay: part.stay_share,
            stream: 0,
            only: part.stream,
            bag: Bag::new(streams),
        };
        generator.upcoming = generator.choose(None);
        generator
    }

    #[inline]
    pub(super) fn next(&mut self) -> Option<Record> {
        self.left = self.left.checked_sub(1)?;
        let (gap, state, known) = self.upcoming;
        self.upcoming = self.choose(Some(state));
        let next = self.upcoming.1;
        self.at = self.at.saturating_add(gap);
        let mut record = self.place((state, known), next);
        record.at = Nanos(self.clock.whole(self.at));
        Some(record)
    }

    /// The gap, state and known place of the request after one of state `last`.
    #[inline]
    fn choose(&mut self, last: Option<usize>) -> (u64, usize, Option<usize>) {
        let classes = self.clock.look_ahead(&mut self.dice);
        let (state, place) = self.chooser.next(&self.states, classes, &mut self.dice);
        let to = self.states[state].leaf;
        let from = last.map_or(to, |last| self.states[last].leaf);
        (self.clock.gap((from, to), &mut self.dice), state, place)
    }

    /// A request of a state, at its place if that is known, before one of state `next`.
    fn place(&mut self, (state, known): (usize, Option<usize>), next: usize) -> Record {
        let (leaf, category) = (self.states[state].leaf, self.states[state].category);
        let drawer = &self.categories[usize::from(category.0)];
        let flags = drawer.flags.get(drawer.flag.draw(&mut self.dice)).copied();
        let flags = Flags(flags.unwrap_or(0));
        if category.op() == Op::Flush {
            let stream = self.who(None);
            return record(0, 0, 0, stream, Op::Flush, flags);
        }
        let found = match category.kind() {
            kind if kind.is_sequential() => self.goes_on(state, known),
            kind if kind.is_again() => self.used_again((state, known), next),
            Kind::Near if !self.ranges[leaf].past.heads.is_empty() => {
                Some(self.near_by(state, known))
            }
            _ => None,
        };
        let found = found.unwrap_or_else(|| self.anywhere(state, known));
        let len = self.size(category, &found);
        let stream = self.who(found.run.as_ref().map(|run| run.owner));
        let (volume, offset, len) = self.space.place(found.address, len.max(1));
        self.pass(
            leaf,
            volume,
            Passing {
                address: found.address,
                len,
                stream,
                is_read: category.op() == Op::Read,
                continued: found.run.map(|run| run.rank),
            },
        );
        record(volume, offset, len, stream, category.op(), flags)
    }

    /// Where a run goes on.
    fn goes_on(&mut self, state: usize, known: Option<usize>) -> Option<Found> {
        let (state, dice) = (&mut self.states[state], &mut self.dice);
        let (leaf, category, kind) = (state.leaf, state.category, state.category.kind());
        let (drawer, range) = (&self.categories[usize::from(category.0)], &self.ranges[leaf]);
        let drawn = state.rank(known, dice);
        let class = (dice.unit() < drawer.same_class).then_some(category.class());
        let is_read = (dice.unit() < drawer.same_op).then_some(category.op() == Op::Read);
        let wanted = (kind, class, is_read, known.is_some());
        let ends = (&self.space, &self.volume_ends[..]);
        let head = range.rank(drawn, wanted, ends, &self.touched, (&self.classes, drawer));
        let overshot = kind.is_next() && leaf == self.last_leaf;
        match head {
            Some((rank, strays)) if !(strays && overshot) => {
                let (end, stream, len) = range.past.heads.at(rank);
                let owner = (stream, dice.unit() < drawer.same_stream);
                let address = match kind.is_new() {
                    true => range.fresh((end, len), &self.touched),
                    false => end,
                };
                // Where all are of one size it need not be looked up.
                let asks = drawer.same_size > 0.0 && drawer.sizes.len() > 1;
                let places = (&self.latest, &self.touched);
                let before = asks.then(|| range.began(address, places)).flatten();
                Some(Found { before, run: Some(Run { rank, len, owner }), ..Found::at(address) })
            }
            _ if overshot && self.last_end < self.space.span() => Some(Found::at(self.last_end)),
            _ => None,
        }
    }

    /// A place used before, if there is any.
    fn used_again(&mut self, (state, known): (usize, Option<usize>), next: usize) -> Option<Found> {
        let next = &self.states[next];
        let next = (next.leaf == self.states[state].leaf).then_some(next.category.kind());
        let (state, dice) = (&mut self.states[state], &mut self.dice);
        let (category, kind) = (state.category, state.category.kind());
        let drawer = &mut self.categories[usize::from(category.0)];
        let range = &mut self.ranges[state.leaf];
        let wanted = state.place(known, dice);
        let is_inside = relative_place::is_inside(kind, wanted);
        if is_inside && kind.is_near() {
            let len = drawer.size(None, dice);
            let address = range.within((kind, wanted, len), drawer, dice, &self.touched);
            return Some(Found { len: Some(len), ..Found::at(address) });
        }
        let on = drawer.distances.draw(dice) as u64;
        let misfit = |past: Past| {
            let same_class = self.classes.of(past.len) == category.class();
            drawer.misfit(past.address, same_class)
        };
        let followed = match kind {
            Kind::Follow => range.follow(on, wanted, misfit, &self.latest),
            _ => None,
        };
        let places = (&self.latest, &self.touched);
        let past = followed.or_else(|| range.again((kind, wanted, next), misfit, dice, places))?;
        Some(match is_inside {
            true => Found::at(range.inside(past, drawer, dice)),
            false => Found { before: Some(past.len), ..Found::at(past.address) },
        })
    }

    /// New ground near a recent end.
    fn near_by(&mut self, state: usize, known: Option<usize>) -> Found {
        let (state, dice) = (&mut self.states[state], &mut self.dice);
        let drawer = &mut self.categories[usize::from(state.category.0)];
        let wanted = state.place(known, dice);
        let len = drawer.size(None, dice);
        let range = &self.ranges[state.leaf];
        let address = range.near(drawer, (wanted, len), dice, &self.touched);
        Found { len: Some(len), ..Found::at(address) }
    }

    /// New ground anywhere in the range.
    fn anywhere(&mut self, state: usize, known: Option<usize>) -> Found {
        let state = &mut self.states[state];
        let wanted = state.place(known, &mut self.dice);
        let range = &mut self.ranges[state.leaf];
        Found::at(range.far(wanted, &mut self.dice, (&self.touched, &self.space)))
    }

    /// How large a request of a category is there.
    fn size(&mut self, category: Category, found: &Found) -> u32 {
        let (drawer, dice) = (&mut self.categories[usize::from(category.0)], &mut self.dice);
        match found.before {
            Some(len)
                if self.classes.of(len) == category.class()
                    && dice.unit() < drawer.same_size
                    && drawer.take_size(len) =>
            {
                len
            }
            _ => {
                let of_run = found.run.as_ref().map(|run| run.len);
                found.len.unwrap_or_else(|| drawer.size(of_run, dice))
            }
        }
    }

    /// A request of a leaf and volume becomes past.
    fn pass(&mut self, leaf: usize, volume: u32, passing: Passing) {
        self.last_end = passing.end();
        self.last_leaf = leaf;
        self.volume_ends[volume as usize] = self.last_end;
        let kept = kept(self.ranges.len());
        let starts = &mut self.ranges[leaf].starts;
        // A start takes about twice the memory of a request of the past.
        if passing.continued.is_none() && starts.count() < kept / 2 {
            starts.insert(passing.address);
        }
        let ends_in = self.leaf_of.of(self.space.cell(self.last_end)).unwrap_or(leaf);
        let known = (&mut self.latest, &mut self.touched);
        remember(&mut self.ranges, (leaf, ends_in), known, passing);
    }

    /// The stream that asks: that of the run which is continued, or the last one, or another.
    #[inline]
    fn who(&mut self, owner: Option<(u32, bool)>) -> u32 {
        if let Some(only) = self.only {
            return only;
        }
        let stays = self.dice.unit() < self.stay;
        let wanted = match owner {
            Some((owner, true)) => Some(owner),
            Some((owner, false)) => (stays && owner != self.stream).then_some(self.stream),
            None => stays.then_some(self.stream),
        };
        self.stream = match wanted {
            Some(stream) if self.bag.take(stream as usize) => stream,
            _ => self.another(stays),
        };
        self.stream
    }

    /// A stream of those that have requests left, and not the last one unless it `stays`.
    fn another(&mut self, stays: bool) -> u32 {
        let mut drawn = self.bag.draw(&mut self.dice);
        for _ in 0..OTHERS_TRIED {
            if stays || drawn != self.stream as usize {
                break;
            }
            self.bag.put(drawn);
            drawn = self.bag.draw(&mut self.dice);
        }
        drawn as u32
    }
}

fn record(volume: u32, offset: u64, len: u32, stream: u32, op: Op, flags: Flags) -> Record {
    Record { at: Nanos::ZERO, offset, latency: None, len, stream, volume, op, flags }
}
