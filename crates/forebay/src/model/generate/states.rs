//! States and what can follow them.

use rustc_hash::FxHashMap;

use super::super::bins::REACH_BINS;
use super::super::file::{Bins, Joint, Model, Part, State};
use super::super::history::HEADS;
use super::super::state::{Category, GAP_CLASSES, Range};
use super::draw::{Bag, Dice, Repeating};

/// How much likelier than by chance is what was never seen, or not kept.
const UNSEEN: f32 = 0.05;
/// The same of what would go on in another range than the one before.
const STRAY: f32 = 1e-4;

/// A state.
pub(super) struct StateDrawer {
    /// Number of its leaf.
    pub(super) leaf: usize,
    pub(super) category: Category,
    /// Bins of age and reach, one of which is drawn for each request.
    pub(super) places: Vec<(u8, u8)>,
    pub(super) place: Bag,
    /// Which run goes on.
    pub(super) ranks: Repeating,
    /// How much likelier a gap of each class is before it, and after it, than at any.
    pub(super) before: [f32; GAP_CLASSES],
    pub(super) after: [f32; GAP_CLASSES],
}

impl StateDrawer {
    /// Bins of age and reach for the next request: those of a place that is known, or any.
    #[inline]
    pub(super) fn place(&mut self, known: Option<usize>, dice: &mut Dice) -> (usize, usize) {
        let place = match known {
            Some(place) => {
                self.place.take(place);
                place
            }
            None => self.place.draw(dice),
        };
        self.places
            .get(place)
            .map_or((0, REACH_BINS / 2), |place| (usize::from(place.0), usize::from(place.1)))
    }

    /// The rank of the run that goes on.
    #[inline]
    pub(super) fn rank(&mut self, known: Option<usize>, dice: &mut Dice) -> usize {
        match known.and_then(|place| self.places.get(place)) {
            Some(place) => usize::from(place.0),
            None => self.ranks.draw(dice),
        }
    }
}

/// The states of a part; `leaf_of` numbers their ranges.
pub(super) fn states(part: &Part, leaf_of: impl Fn(Range) -> usize) -> Vec<StateDrawer> {
    let shares = |of: fn(&State) -> &Vec<u32>| {
        let mut sums = [0.0f64; GAP_CLASSES];
        for state in &part.states {
            of(state).iter().zip(&mut sums).for_each(|(&count, sum)| *sum += f64::from(count));
        }
        let all: f64 = sums.iter().sum();
        sums.map(|sum| (sum + 1.0) / (all + GAP_CLASSES as f64))
    };
    let (before, after) = (shares(|state| &state.3), shares(|state| &state.4));
    let drawer = |saved: &State| {
        Some(StateDrawer {
            leaf: leaf_of(Range::parse(&saved.0)?),
            category: Category(saved.1),
            places: saved.5.0.iter().map(|place| (place.0, place.1)).collect(),
            place: Bag::new(saved.5.0.iter().map(|place| u64::from(place.2)).collect()),
            ranks: ranks(saved),
            before: lifts(&saved.3, &before),
            after: lifts(&saved.4, &after),
        })
    };
    part.states.iter().filter_map(drawer).collect()
}

/// The ranks of runs that go on, those like the one before apart.
fn ranks(saved: &State) -> Repeating {
    let counts = |repeats: u8| {
        let mut counts = vec![0; HEADS];
        let is_sequential = Category(saved.1).kind().is_sequential();
        for place in saved.5.0.iter().filter(|place| is_sequential && place.1 == repeats) {
            counts[usize::from(place.0).min(HEADS - 1)] += place.2;
        }
        Bins::new(&counts)
    };
    Repeating::new(&counts(0), &counts(1))
}

/// How much likelier each class is than its share of all; as if one more had been seen, of the usual
/// kind.
fn lifts(counts: &[u32], shares: &[f64; GAP_CLASSES]) -> [f32; GAP_CLASSES] {
    let sum: f64 = counts.iter().map(|&count| f64::from(count)).sum();
    std::array::from_fn(|class| {
        let count = counts.get(class).copied().map_or(0.0, f64::from);
        ((count + shares[class]) / (sum + 1.0) / shares[class]) as f32
    })
}

/// How much likelier than by chance each state follows each: a row for each state before.
pub(super) fn follows(model: &Model, part: &Part) -> Vec<f32> {
    let states: Vec<(Range, Category)> = part
        .states
        .iter()
        .filter_map(|state| Some((Range::parse(&state.0)?, Category(state.1))))
        .collect();
    let mut nodes: FxHashMap<(Range, Category), f64> = FxHashMap::default();
    for ((range, category), saved) in states.iter().zip(&part.states) {
        for level in 1..=range.level() {
            *nodes.entry((range.ancestor(level), *category)).or_default() += saved.2 as f64;
        }
    }
    let mut joints = FxHashMap::default();
    for transition in &part.transitions {
        let ends = Range::parse(&transition.from).zip(Range::parse(&transition.to));
        let Some((from, to)) = ends else { continue };
        for joint in &transition.joint {
            let key = (from, to, Category(joint.0), Category(joint.1));
            joints.insert(key, f64::from(joint.2));
        }
    }
    let requests = part.requests as f64;
    let pooled = pooled(part, &states);
    let lift = |before: &(Range, Category), after: &(Range, Category)| {
        let (from, to) = Range::transition(before.0, after.0, model.flat);
        match joints.get(&(from, to, before.1, after.1)) {
            Some(count) => {
                (count * requests / nodes[&(from, before.1)] / nodes[&(to, after.1)]) as f32
            }
            None => {
                let within = before.0 == after.0;
                let unseen = if after.1.kind().is_next() && !within { STRAY } else { UNSEEN };
                pooled[usize::from(!within)].get(&(before.1, after.1)).copied().unwrap_or(unseen)
            }
        }
    };
    states.iter().flat_map(|before| states.iter().map(move |after| lift(before, after))).collect()
}

/// How much likelier than by chance each category follows each, within a range and from one to another.
fn pooled(part: &Part, states: &[(Range, Category)]) -> [FxHashMap<(Category, Category), f32>; 2] {
    let mut of_range: FxHashMap<Range, Vec<(Category, f64)>> = FxHashMap::default();
    let mut of_category: FxHashMap<Category, f64> = FxHashMap::default();
    for (&(range, category), saved) in states.iter().zip(&part.states) {
        of_range.entry(range).or_default().push((category, saved.2 as f64));
        *of_category.entry(category).or_default() += saved.2 as f64;
    }
    let requests = part.requests as f64;
    let mut within: FxHashMap<(Category, Category), f64> = FxHashMap::default();
    for list in of_range.values() {
        for before in list {
            for after in list {
                *within.entry((before.0, after.0)).or_default() += before.1 * after.1 / requests;
            }
        }
    }
    [0, 1].map(|elsewhere| {
        let lift = |joint: &Joint| {
            let pair = (Category(joint.0), Category(joint.1));
            let all = of_category.get(&pair.0)? * of_category.get(&pair.1)? / requests;
            let same = within.get(&pair).copied().unwrap_or(0.0);
            let by_chance = if elsewhere == 1 { all - same } else { same };
            Some((pair, (f64::from(joint.2) / by_chance.max(1e-3)) as f32))
        };
        part.follows[elsewhere].iter().filter_map(lift).collect()
    })
}
