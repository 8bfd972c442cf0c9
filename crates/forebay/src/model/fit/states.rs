//! States as they are met: how often, after and before which gaps, where, and what follows what.

use rustc_hash::FxHashMap;

use super::super::families::Sketch;
use super::super::file::{Joint, Places, State, Transition};
use super::super::relative_place::RelativePlace;
use super::super::state::{CATEGORIES, Category, GAP_CLASSES, Range, gap_class};
use super::lists::transitions;

/// Pairs of categories of all transitions together.
const JOINT_MAX: usize = 1200;
/// Pairs of categories within ranges, and from one to another.
const FOLLOWS_MAX: usize = 300;
/// Entries that tell where requests of all states are.
const PLACES_MAX: usize = 4096;

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
    /// How often each place, and its number.
    places: FxHashMap<(u8, u8), (u32, u32)>,
    last_rank: usize,
}

/// States and transitions as they are kept.
pub(super) struct Kept {
    /// In the order of ranges.
    pub(super) states: Vec<State>,
    /// The new number of each place among all that are kept.
    pub(super) of_places: Vec<u32>,
    /// The new number of the state of each place.
    pub(super) of_states: Vec<u32>,
    pub(super) follows: [Vec<Joint>; 2],
    pub(super) transitions: Vec<Transition>,
}

/// All states of a part.
pub(super) struct States {
    /// Number by leaf and category.
    numbers: Vec<u32>,
    all: Vec<Counts>,
    /// The state of each place, and the place.
    places: Vec<(u32, (u8, u8))>,
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
            places: Vec::new(),
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

    /// Where a request of the state was; answers the place's number.
    #[inline]
    pub(super) fn place(&mut self, number: u32, spot: RelativePlace) -> u32 {
        let key = (spot.0 as u8, spot.1 as u8);
        let place = self.all[number as usize].places.entry(key).or_insert_with(|| {
            self.places.push((number, key));
            (0, self.places.len() as u32 - 1)
        });
        place.0 += 1;
        place.1
    }

    /// Which run a request of the state went on with.
    #[inline]
    pub(super) fn rank(&mut self, number: u32, rank: usize) -> u32 {
        let repeats = usize::from(self.all[number as usize].last_rank == rank);
        self.all[number as usize].last_rank = rank;
        self.place(number, (rank, repeats))
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
        let states: Vec<State> = order.iter().map(|&at| state(&self.all[at], least)).collect();
        let (of_places, of_states) = self.renumbered(&states, &numbers);
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
        Kept { states, of_places, of_states, follows, transitions }
    }

    /// The new number of each place, and of its state: `numbers` of old states.
    fn renumbered(&self, states: &[State], numbers: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let lens = states.iter().map(|state| state.5.0.len() as u32);
        let firsts: Vec<u32> =
            lens.scan(0, |sum, len| Some(std::mem::replace(sum, *sum + len))).collect();
        let renumber = |&(old, place): &(u32, (u8, u8))| {
            let state = numbers[old as usize];
            let kept = &states[state as usize].5.0;
            (firsts[state as usize] + nearest(kept, place) as u32, state)
        };
        self.places.iter().map(renumber).unzip()
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
            self.all.iter().flat_map(|state| state.places.values().map(|place| place.0)).collect();
        counts.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
        counts.get(places_max).map_or(0, |&count| count + 1)
    }
}

/// A state as it is kept: places that come less than `least` times count for the nearest of the others.
fn state(counts: &Counts, least: u32) -> State {
    let mut all: Vec<(u8, u8, u32)> =
        counts.places.iter().map(|(&(age, reach), &(count, _))| (age, reach, count)).collect();
    all.sort_unstable();
    let most = all.iter().map(|place| place.2).max().unwrap_or(0);
    let is_kept = |place: &(u8, u8, u32)| place.2 >= least.min(most);
    let mut places: Vec<(u8, u8, u32)> = all.iter().copied().filter(is_kept).collect();
    for rare in all.iter().filter(|place| !is_kept(place)) {
        let kept = nearest(&places, (rare.0, rare.1));
        places[kept].2 += rare.2;
    }
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

/// The number of the place that is most like this one.
fn nearest(places: &[(u8, u8, u32)], (age, reach): (u8, u8)) -> usize {
    let off = |place: &(u8, u8, u32)| {
        u16::from(place.0.abs_diff(age)) + u16::from(place.1.abs_diff(reach))
    };
    places.iter().enumerate().min_by_key(|(_, place)| off(place)).map_or(0, |(at, _)| at)
}
