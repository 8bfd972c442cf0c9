//! States as they are met: how often, after and before which gaps, where, and what follows what.

use rustc_hash::FxHashMap;

use super::super::families::Sketch;
use super::super::file::{Joint, Places, State, Transition};
use super::super::state::{CATEGORIES, Category, GAP_CLASSES, Range, gap_class};
use super::lists::transitions;

/// Pairs of categories of all transitions together.
const JOINT_MAX: usize = 1200;
/// Pairs of categories within ranges, and from one to another.
const FOLLOWS_MAX: usize = 300;
/// Entries that tell where requests of all states are.
const PLACES_MAX: usize = 2400;

/// Not met yet.
const NONE: u32 = u32::MAX;

/// What is counted of a state.
#[derive(Clone, Debug)]
struct Counts {
    range: Range,
    category: Category,
    requests: u64,
    before: [u32; GAP_CLASSES],
    after: [u32; GAP_CLASSES],
    places: FxHashMap<(u8, u8), u32>,
    last_rank: usize,
}

/// States and transitions as they are kept.
pub(super) struct Kept {
    /// In the order of ranges.
    pub(super) states: Vec<State>,
    /// The new number of each.
    pub(super) numbers: Vec<u32>,
    pub(super) follows: [Vec<Joint>; 2],
    pub(super) transitions: Vec<Transition>,
}

/// All states of a part.
pub(super) struct States {
    /// Number by leaf and category.
    numbers: Vec<u32>,
    all: Vec<Counts>,
    /// How often a state follows another.
    pairs: FxHashMap<(u32, u32), u32>,
    /// The transition from leaf to leaf, by number.
    transitions: Vec<u32>,
    leaves: usize,
    numbered: FxHashMap<(Range, Range), u32>,
    /// Inter-arrival times by transition.
    gaps: Vec<Sketch>,
    last: Option<(u32, usize)>,
    is_flat: bool,
}

impl States {
    pub(super) fn new(leaves: usize, is_flat: bool) -> States {
        States {
            numbers: vec![NONE; leaves * CATEGORIES],
            all: Vec::new(),
            pairs: FxHashMap::default(),
            transitions: vec![NONE; leaves * leaves],
            leaves,
            numbered: FxHashMap::default(),
            gaps: Vec::new(),
            last: None,
            is_flat,
        }
    }

    /// A request of this state comes `gap` after the one before; answers the state's number.
    #[inline]
    pub(super) fn add(&mut self, leaf: usize, range: Range, category: Category, gap: u64) -> u32 {
        let slot = &mut self.numbers[leaf * CATEGORIES + usize::from(category.0)];
        if *slot == NONE {
            *slot = self.all.len() as u32;
            self.all.push(Counts {
                range,
                category,
                requests: 0,
                before: [0; GAP_CLASSES],
                after: [0; GAP_CLASSES],
                places: FxHashMap::default(),
                last_rank: usize::MAX,
            });
        }
        let number = *slot;
        let class = gap_class(gap);
        let counts = &mut self.all[number as usize];
        counts.requests += 1;
        counts.before[class] += 1;
        let (last, from) = self.last.replace((number, leaf)).unwrap_or((number, leaf));
        let last_counts = &mut self.all[last as usize];
        last_counts.after[class] += 1;
        let last_range = last_counts.range;
        *self.pairs.entry((last, number)).or_default() += 1;
        let at = from * self.leaves + leaf;
        if self.transitions[at] == NONE {
            self.transitions[at] = self.transition(last_range, range);
        }
        self.gaps[self.transitions[at] as usize].add(gap);
        number
    }

    /// The number of the transition from one range to another.
    fn transition(&mut self, from: Range, to: Range) -> u32 {
        let next = self.gaps.len() as u32;
        let transition = Range::transition(from, to, self.is_flat);
        let number = *self.numbered.entry(transition).or_insert(next);
        if number == next {
            self.gaps.push(Sketch::default());
        }
        number
    }

    /// Where a request of the state was.
    #[inline]
    pub(super) fn place(&mut self, number: u32, age: usize, reach: usize) {
        let places = &mut self.all[number as usize].places;
        *places.entry((age as u8, reach as u8)).or_default() += 1;
    }

    /// Which run a request of the state went on with.
    #[inline]
    pub(super) fn rank(&mut self, number: u32, rank: usize) {
        let repeats = usize::from(self.all[number as usize].last_rank == rank);
        self.all[number as usize].last_rank = rank;
        self.place(number, rank, repeats);
    }

    /// Everything as it is kept; `parts` share the bounds.
    pub(super) fn finish(self, requests: u64, parts: usize) -> Kept {
        let mut order: Vec<usize> = (0..self.all.len()).collect();
        order.sort_unstable_by_key(|&at| {
            let counts = &self.all[at];
            (counts.range.first_cell(), counts.range, counts.category)
        });
        let mut numbers = vec![0; order.len()];
        order.iter().zip(0..).for_each(|(&at, number)| numbers[at] = number);
        let least = self.least_place(PLACES_MAX / parts);
        let states = order.iter().map(|&at| state(&self.all[at], least)).collect();
        let mut joints = FxHashMap::default();
        for (&(before, after), &count) in &self.pairs {
            let (before, after) = (&self.all[before as usize], &self.all[after as usize]);
            let (from, to) = Range::transition(before.range, after.range, self.is_flat);
            *joints.entry((from, to, before.category, after.category)).or_default() += count;
        }
        let follows = [true, false].map(|within| self.follows(within, FOLLOWS_MAX / parts));
        let gaps =
            self.numbered.iter().map(|(&ends, &at)| (ends, &self.gaps[at as usize])).collect();
        let transitions = transitions(&joints, &gaps, requests, JOINT_MAX / parts);
        Kept { states, numbers, follows, transitions }
    }

    /// How categories follow each other within a range, or from one to another: the heaviest pairs.
    fn follows(&self, within: bool, follows_max: usize) -> Vec<Joint> {
        let mut counts: FxHashMap<(Category, Category), u32> = FxHashMap::default();
        for (&(before, after), &count) in &self.pairs {
            let (before, after) = (&self.all[before as usize], &self.all[after as usize]);
            if (before.range == after.range) == within {
                *counts.entry((before.category, after.category)).or_default() += count;
            }
        }
        let mut joints: Vec<Joint> =
            counts.iter().map(|(pair, &count)| Joint(pair.0.0, pair.1.0, count)).collect();
        joints.sort_unstable_by_key(|joint| (std::cmp::Reverse(joint.2), joint.0, joint.1));
        joints.truncate(follows_max);
        joints.sort_unstable_by_key(|joint| (joint.0, joint.1));
        joints
    }

    /// The least count of a place for which there is room.
    fn least_place(&self, places_max: usize) -> u32 {
        let mut counts: Vec<u32> =
            self.all.iter().flat_map(|state| state.places.values().copied()).collect();
        counts.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
        counts.get(places_max).map_or(0, |&count| count + 1)
    }
}

/// A state as it is kept: places that come less than `least` times are left out, unless all would be.
fn state(counts: &Counts, least: u32) -> State {
    let mut places: Vec<(u8, u8, u32)> =
        counts.places.iter().map(|(&(age, reach), &count)| (age, reach, count)).collect();
    places.sort_unstable();
    let most = places.iter().map(|place| place.2).max().unwrap_or(0);
    places.retain(|place| place.2 >= least.min(most));
    let shown = |classes: &[u32; GAP_CLASSES]| {
        let end = classes.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        classes[..end].to_vec()
    };
    State(
        counts.range.path(),
        counts.category.0,
        counts.requests,
        shown(&counts.before),
        shown(&counts.after),
        Places(places),
    )
}
