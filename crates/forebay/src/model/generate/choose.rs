//! Which state the next request is in: one of those left of its stretch, by how likely it follows the
//! last one, after such a gap and before such a one.

use super::super::file::{Mix, Part};
use super::super::state::GAP_CLASSES;
use super::draw::Dice;
use super::states::StateDrawer;

/// How much less likely a state is while it is too early for it.
const EARLY: f32 = 1e-3;

/// The leaf in which the stretch before has to end: one with a run that goes on, but none that it could
/// go on from.
fn goes_on(mix: &[(u32, u32)], states: &[StateDrawer]) -> Option<usize> {
    let of = |state: u32| &states[state as usize];
    let goes_on = |state: u32| of(state).category.kind().is_next();
    mix.iter()
        .map(|&(state, _)| state)
        .filter(|&state| goes_on(state))
        .map(|state| of(state).leaf)
        .find(|&leaf| !mix.iter().any(|&(state, _)| of(state).leaf == leaf && !goes_on(state)))
}

/// Requests whose order is not known.
struct Stretch {
    /// States, and how often each.
    mix: Mix,
    /// The place of all of them, by its number in the state, where it is known.
    place: Option<usize>,
}

/// Draws the order of states.
pub(super) struct Chooser {
    stretches: Vec<Stretch>,
    stretch: usize,
    left: Left,
    requests_left: u64,
    /// How much likelier than by chance each follows each.
    follows: Vec<f32>,
    last: u32,
}

impl Chooser {
    pub(super) fn new(part: &Part, follows: Vec<f32>) -> Chooser {
        let stretches = stretches(part);
        let last = stretches[0].mix[0].0;
        // The first comes next.
        let (stretch, left) = (stretches.len() - 1, Left::default());
        Chooser { stretches, stretch, left, requests_left: 0, follows, last }
    }

    /// The state of a request with such classes of gaps before and after it, where they are known, and
    /// its place if that is known.
    #[inline]
    pub(super) fn next(
        &mut self,
        states: &[StateDrawer],
        gaps: Option<(usize, usize)>,
        dice: &mut Dice,
    ) -> (usize, Option<usize>) {
        if self.requests_left == 0 {
            self.begin(states);
        }
        self.requests_left -= 1;
        let stretch = &self.stretches[self.stretch];
        self.last = match stretch.mix[..] {
            [(only, _)] => only,
            _ => {
                let row = &self.follows[self.last as usize * states.len()..][..states.len()];
                self.left.draw(row, gaps, dice)
            }
        };
        (self.last as usize, stretch.place)
    }

    fn begin(&mut self, states: &[StateDrawer]) {
        let next = |stretch| (stretch + 1) % self.stretches.len();
        self.stretch = next(self.stretch);
        let mix = &self.stretches[self.stretch].mix;
        self.requests_left = mix.iter().map(|&(_, count)| u64::from(count)).sum();
        if mix.len() > 1 {
            let last_leaf = goes_on(&self.stretches[next(self.stretch)].mix, states);
            self.left.fill(mix, last_leaf, states);
        }
    }
}

/// Candidates that are weighed at once.
const LANES: usize = 8;
/// Something of each of so many candidates.
type Lane = [f32; LANES];
/// No gap tells anything.
const UNKNOWN: usize = GAP_CLASSES;

/// What is left of a stretch, side by side so that candidates are weighed [`LANES`] at once.
#[derive(Default)]
struct Left {
    states: Vec<u32>,
    counts: Vec<u32>,
    /// Count of each, less where it is too early for it.
    shares: Vec<Lane>,
    /// What a share is of a count.
    each: Vec<f32>,
    /// Lifts by class of the gap before, and after: a row for each class and one of ones.
    before: Vec<Lane>,
    after: Vec<Lane>,
    /// Lifts by the candidate before, filled in where they are met; the last row is for what came before
    /// the stretch.
    follows: Vec<Lane>,
    is_filled: Vec<bool>,
    last: usize,
    weights: Vec<Lane>,
    /// Sums of weights.
    sums: Vec<f32>,
}

impl Left {
    fn fill(&mut self, mix: &[(u32, u32)], last_leaf: Option<usize>, states: &[StateDrawer]) {
        let width = mix.len().div_ceil(LANES);
        self.states.clear();
        self.counts.clear();
        self.each.clear();
        for (lanes, len) in [
            (&mut self.shares, width),
            (&mut self.weights, width),
            (&mut self.before, width * (GAP_CLASSES + 1)),
            (&mut self.after, width * (GAP_CLASSES + 1)),
        ] {
            lanes.clear();
            lanes.resize(len, [1.0; LANES]);
        }
        self.sums.resize(width, 0.0);
        if let Some(last) = self.shares.last_mut() {
            *last = [0.0; LANES];
        }
        for (at, &(state, count)) in mix.iter().enumerate() {
            let drawer = &states[state as usize];
            let each = if Some(drawer.leaf) == last_leaf { EARLY } else { 1.0 };
            let (block, lane) = (at / LANES, at % LANES);
            self.states.push(state);
            self.counts.push(count);
            self.each.push(each);
            self.shares[block][lane] = count as f32 * each;
            for class in 0..GAP_CLASSES {
                self.before[class * width + block][lane] = drawer.before[class];
                self.after[class * width + block][lane] = drawer.after[class];
            }
        }
        // Rows of an earlier stretch need not be cleared: none counts as filled.
        let rows = width * (mix.len() + 1);
        self.follows.resize(self.follows.len().max(rows), [0.0; LANES]);
        self.is_filled.clear();
        self.is_filled.resize(mix.len() + 1, false);
        self.last = mix.len();
    }

    /// Takes one; `row` tells how likely each state follows the last one.
    #[inline]
    fn draw(&mut self, row: &[f32], gaps: Option<(usize, usize)>, dice: &mut Dice) -> u32 {
        if !std::mem::replace(&mut self.is_filled[self.last], true) {
            let width = self.sums.len();
            let lifts = &mut self.follows[self.last * width..][..width];
            for (lifts, states) in lifts.iter_mut().zip(self.states.chunks(LANES)) {
                lifts.iter_mut().zip(states).for_each(|(lift, &state)| *lift = row[state as usize]);
            }
        }
        let sum = self.weigh(gaps.unwrap_or((UNKNOWN, UNKNOWN)));
        let at = self.find(dice.unit() as f32 * sum);
        self.counts[at] -= 1;
        self.shares[at / LANES][at % LANES] = self.counts[at] as f32 * self.each[at];
        self.last = at;
        self.states[at]
    }

    /// Weighs all; their sum.
    #[inline]
    fn weigh(&mut self, (before, after): (usize, usize)) -> f32 {
        let width = self.sums.len();
        let follows = &self.follows[self.last * width..][..width];
        let before = &self.before[before * width..][..width];
        let after = &self.after[after * width..][..width];
        let (shares, weights) = (&self.shares[..width], &mut self.weights[..width]);
        let mut all = 0.0;
        for block in 0..width {
            let mut of = [0.0; LANES];
            for lane in 0..LANES {
                let lift = follows[block][lane] * (before[block][lane] * after[block][lane]);
                of[lane] = shares[block][lane] * lift;
            }
            weights[block] = of;
            // In an order that can be summed side by side.
            let half: [f32; 4] = [of[0] + of[4], of[1] + of[5], of[2] + of[6], of[3] + of[7]];
            self.sums[block] = (half[0] + half[2]) + (half[1] + half[3]);
            all += self.sums[block];
        }
        all
    }

    /// The candidate at which the sum of weights exceeds `drawn`.
    #[inline]
    fn find(&self, mut drawn: f32) -> usize {
        for (block, &sum) in self.sums.iter().enumerate() {
            if drawn >= sum {
                drawn -= sum;
                continue;
            }
            for (lane, weight) in self.weights[block].iter().enumerate() {
                drawn -= weight;
                if drawn < 0.0 {
                    return block * LANES + lane;
                }
            }
            break;
        }
        // What was lost in rounding.
        self.counts.iter().rposition(|&count| count > 0).unwrap_or(0)
    }
}

/// The stretches of a part, by its states.
fn stretches(part: &Part) -> Vec<Stretch> {
    if !part.order.of_places {
        let known = part.order.stretches(part.states.len()).unwrap_or_default();
        return known.into_iter().map(|mix| Stretch { mix, place: None }).collect();
    }
    let places: Vec<(u32, usize)> = part.places().collect();
    let known = part.order.stretches(places.len()).unwrap_or_default();
    let each = known.into_iter().flatten().map(|(place, count)| {
        let (state, place) = places[place as usize];
        Stretch { mix: vec![(state, count)], place: Some(place) }
    });
    each.collect()
}
