//! Which state the next request is in: one of those left of its stretch, by how likely it follows the
//! last one after such a gap and before such a one.

use super::super::file::Part;
use super::super::order::Mix;
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
    /// States left of the stretch, and how often each.
    left: Vec<(u32, f32)>,
    /// Leaf in which the next stretch goes on.
    last_leaf: Option<usize>,
    requests_left: u64,
    /// The place of the stretch.
    place: Option<usize>,
    /// How much likelier than by chance each follows each.
    follows: Vec<f32>,
    last: u32,
}

impl Chooser {
    pub(super) fn new(part: &Part, follows: Vec<f32>) -> Chooser {
        let stretches = stretches(part);
        let last = stretches[0].mix[0].0;
        Chooser {
            stretches,
            stretch: 0,
            left: Vec::new(),
            last_leaf: None,
            requests_left: 0,
            place: None,
            follows,
            last,
        }
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
        let at = match self.left.len() {
            1 => 0,
            _ => self.likely(states, gaps, dice),
        };
        let (state, count) = &mut self.left[at];
        let state = *state;
        *count -= 1.0;
        if *count < 0.5 {
            self.left.swap_remove(at);
        }
        self.last = state;
        (state as usize, self.place)
    }

    fn begin(&mut self, states: &[StateDrawer]) {
        let Stretch { mix, place } = &self.stretches[self.stretch];
        self.place = *place;
        self.left.clear();
        self.left.extend(mix.iter().map(|&(state, count)| (state, count as f32)));
        self.requests_left = mix.iter().map(|&(_, count)| u64::from(count)).sum();
        self.stretch = (self.stretch + 1) % self.stretches.len();
        self.last_leaf = goes_on(&self.stretches[self.stretch].mix, states);
    }

    /// One of what is left.
    #[inline]
    fn likely(
        &self,
        states: &[StateDrawer],
        gaps: Option<(usize, usize)>,
        dice: &mut Dice,
    ) -> usize {
        let row = &self.follows[self.last as usize * states.len()..];
        let weigh = |&(state, count): &(u32, f32)| {
            let drawer = &states[state as usize];
            let by_gaps =
                gaps.map_or(1.0, |(before, after)| drawer.before[before] * drawer.after[after]);
            let likely = count * row[state as usize] * by_gaps;
            if Some(drawer.leaf) == self.last_leaf { likely * EARLY } else { likely }
        };
        let sum: f32 = self.left.iter().map(weigh).sum();
        let mut drawn = dice.unit() as f32 * sum;
        for (at, candidate) in self.left.iter().enumerate() {
            drawn -= weigh(candidate);
            if drawn < 0.0 {
                return at;
            }
        }
        self.left.len() - 1
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
