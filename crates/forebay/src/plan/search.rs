//! The searches that all plans use: for the smallest number that is enough, and for the lowest
//! capacities that keep promises with one time bound. They are exact and take few passes over the
//! arrivals.
//!
//! One pass counts the requests that RTT admits at up to [`LANES_MAX`] capacities. Each count
//! narrows the brackets of all promised shares at once, because counts never fall as the capacity
//! increases ([`forebay_core::rtt`] says why). A bracket consists of a capacity that is too low and
//! one that is enough; the search is done when they are neighbors. It starts near the result for a
//! thinned trace, then interpolates between two counts in floating point. A wrong guess can cost a
//! pass, but never changes the result.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use forebay_core::Nanos;
use forebay_core::rtt::{Gaps, LANES_MAX, RATE_MAX_IOPS, admitted, least_rate_for_all};

/// Returns the lowest whole capacity in IOPS at which RTT admits each number of requests in `needs`
/// within the time `within`; `None` if the capacity would exceed [`RATE_MAX_IOPS`].
pub fn least_capacities(gaps: &Gaps, within: Nanos, needs: &[u64]) -> Vec<Option<u64>> {
    Search::new(gaps, within).run(needs)
}

/// Finds the smallest number from `first` to `most` for which `enough` returns true, if there is
/// one. Tries numbers at distances that start with `step` and double, then bisects. Unless the
/// result is `first`, the number one below it was tried and is not enough.
pub(super) fn least(
    first: u64,
    most: u64,
    step: u64,
    mut enough: impl FnMut(u64) -> bool,
) -> Option<u64> {
    let found = try_least(first, most, step, |number| Ok::<bool, Infallible>(enough(number)));
    found.unwrap_or_else(|never| match never {})
}

/// Like [`least`], for trials that can fail.
pub(super) fn try_least<E>(
    first: u64,
    most: u64,
    step: u64,
    mut enough: impl FnMut(u64) -> Result<bool, E>,
) -> Result<Option<u64>, E> {
    if enough(first)? {
        return Ok(Some(first));
    }
    let (mut low, mut step) = (first, step.max(1));
    let mut high = loop {
        if low >= most {
            return Ok(None);
        }
        let next = low.saturating_add(step).min(most);
        if enough(next)? {
            break next;
        }
        (low, step) = (next, step.saturating_mul(2));
    };
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if enough(middle)? { high = middle } else { low = middle }
    }
    Ok(Some(high))
}

/// The number of requests at or above which the search starts with a thinned trace.
const THINNED_FROM: u64 = 100_000;
const THINNED_BY: usize = 16;

/// The state of the search for one promised share.
#[derive(Clone, Copy, Debug)]
struct Bracket {
    need: u64,
    /// A capacity that is known to be too low.
    low: u64,
    /// The lowest capacity that is known to be enough; `None` if there is none yet.
    enough: Option<u64>,
    /// Whether the last guess narrowed the bracket by only a little.
    is_slow: bool,
}

impl Bracket {
    fn width(&self) -> u64 {
        self.enough.map_or(0, |enough| enough - self.low)
    }

    fn is_open(&self) -> bool {
        self.width() > 1
    }
}

struct Search<'a> {
    gaps: &'a Gaps,
    within: Nanos,
    /// The capacities tried, with the number of requests that each admits.
    known: BTreeMap<u64, u64>,
    /// The number of passes so far, and of the capacities counted in them.
    passes: usize,
    counted: usize,
}

impl<'a> Search<'a> {
    fn new(gaps: &'a Gaps, within: Nanos) -> Search<'a> {
        let mut search =
            Search { gaps, within, known: BTreeMap::from([(0, 0)]), passes: 0, counted: 0 };
        match least_rate_for_all(gaps, within) {
            Some(rate) => drop(search.known.insert(rate, gaps.len() as u64)),
            None => search.count(&[RATE_MAX_IOPS]),
        }
        search
    }

    fn run(&mut self, needs: &[u64]) -> Vec<Option<u64>> {
        self.start(needs);
        let mut brackets: Vec<Bracket> = needs.iter().map(|need| self.bracket(*need)).collect();
        loop {
            let open: Vec<&Bracket> = brackets.iter().filter(|bracket| bracket.is_open()).collect();
            if open.is_empty() {
                return brackets.into_iter().map(|bracket| bracket.enough).collect();
            }
            let probes = self.probes(&open);
            self.count(&probes);
            for bracket in brackets.iter_mut().filter(|bracket| bracket.is_open()) {
                let before = bracket.width();
                self.narrow(bracket);
                bracket.is_slow = bracket.width() > before / 4;
            }
        }
    }

    /// Counts at capacities around those that a thinned trace needs.
    fn start(&mut self, needs: &[u64]) {
        let requests = self.gaps.len() as u64;
        if requests < THINNED_FROM {
            return;
        }
        let thin = self.gaps.thinned(THINNED_BY);
        let (few, most) = (thin.len() as u64, self.known.keys().next_back().copied().unwrap_or(0));
        let scaled =
            |need: &u64| (u128::from(*need) * u128::from(few) / u128::from(requests)) as u64;
        let scaled: Vec<u64> = needs.iter().filter(|need| **need < requests).map(scaled).collect();
        let found = least_capacities(&thin, self.within, &scaled);
        let mut probes = BTreeSet::new();
        for guess in found.into_iter().flatten().take(LANES_MAX / 3) {
            let step = guess / 64 + 1;
            probes.extend([guess.saturating_sub(step), guess, guess + step]);
        }
        probes.retain(|probe| (1..most).contains(probe));
        self.count(&probes.into_iter().collect::<Vec<_>>());
    }

    fn count(&mut self, capacities: &[u64]) {
        self.counted += capacities.len();
        self.passes += 1;
        let counts = admitted(self.gaps, self.within, capacities);
        self.known.extend(capacities.iter().copied().zip(counts));
    }

    /// Returns the widest bracket that is consistent with the counts.
    fn bracket(&self, need: u64) -> Bracket {
        let mut bracket = Bracket { need, low: 0, enough: None, is_slow: false };
        self.narrow(&mut bracket);
        if let Some(enough) = bracket.enough {
            let least =
                if need == self.gaps.len() as u64 { enough } else { self.too_low(need) + 1 };
            bracket.low = bracket.low.max(least.min(enough).saturating_sub(1));
        }
        bracket
    }

    fn narrow(&self, bracket: &mut Bracket) {
        for (&capacity, &count) in &self.known {
            if count >= bracket.need {
                bracket.enough = Some(capacity);
                return;
            }
            bracket.low = bracket.low.max(capacity);
        }
    }

    /// Returns a capacity that is too low for `need` requests, because it cannot serve as many
    /// between the first arrival and the last deadline.
    fn too_low(&self, need: u64) -> u64 {
        let span = u128::from((self.gaps.last() - self.gaps.first()).0) + u128::from(self.within.0);
        let least = (u128::from(need) * 1_000_000_000).div_ceil(span.max(1));
        u64::try_from(least).unwrap_or(u64::MAX).saturating_sub(1)
    }

    /// Returns the capacities to count in the next pass, divided equally among the open brackets.
    fn probes(&self, open: &[&Bracket]) -> Vec<u64> {
        let mut probes = BTreeSet::new();
        if self.known.len() <= 2 {
            let low = open.iter().map(|bracket| bracket.low).min().unwrap_or(0);
            let high = open.iter().filter_map(|bracket| bracket.enough).max().unwrap_or(0);
            spread(low, high, LANES_MAX as u64, &mut probes);
        } else {
            let share = (LANES_MAX / open.len()).max(1) as u64;
            open.iter().take(LANES_MAX).for_each(|bracket| self.look(bracket, share, &mut probes));
        }
        probes.into_iter().collect()
    }

    /// Adds `share` capacities within one bracket to `probes`.
    fn look(&self, bracket: &Bracket, share: u64, probes: &mut BTreeSet<u64>) {
        let (low, high) = (bracket.low, bracket.enough.unwrap_or(0));
        if high - low - 1 <= share {
            probes.extend(low + 1..high);
            return;
        }
        let Some((guess, doubt)) = self.guess(bracket) else {
            let steps = (1..=share).map(|step| {
                low + (u128::from(high - low) * u128::from(step) / u128::from(share + 1)) as u64
            });
            probes.extend(steps);
            return;
        };
        let mut place = |at: u64| {
            probes.insert(at.clamp(low + 1, high - 1));
        };
        place(guess);
        for index in 1..share - u64::from(bracket.is_slow && share > 1) {
            let away = doubt.saturating_mul(index.div_ceil(2));
            place(if index % 2 == 1 {
                guess.saturating_sub(away)
            } else {
                guess.saturating_add(away)
            });
        }
        if bracket.is_slow {
            place(low + (high - low) / 2);
        }
    }

    /// Estimates the capacity at which the count reaches the need, and the error of this estimate.
    /// Treats the capacity as a smooth function of the logarithm of the number of refused requests,
    /// and interpolates between the counts nearest to the bracket.
    fn guess(&self, bracket: &Bracket) -> Option<(u64, u64)> {
        let (low, high) = (bracket.low, bracket.enough?);
        let requests = self.gaps.len() as u64;
        let point = |(&capacity, &count): (&u64, &u64)| {
            (((requests - count) as f64 + 0.5).ln(), capacity as f64)
        };
        self.known.get(&low)?;
        let below: Vec<(f64, f64)> = self.known.range(..=low).rev().take(2).map(point).collect();
        let above: Vec<(f64, f64)> = self.known.range(high..).take(2).map(point).collect();
        let at = ((requests - bracket.need) as f64 + 0.5).ln();
        let line = through(&[below[0], above[0]], at)?;
        let all: Vec<(f64, f64)> = below.into_iter().chain(above).collect();
        let inside = |guess: &f64| (low as f64..=high as f64).contains(guess);
        let curve = through(&all, at).filter(inside).unwrap_or(line);
        let doubt = ((curve - line).abs() / 6.0) as u64 + 1;
        Some((curve as u64, doubt.min((high - low) / 4).max(1)))
    }
}

/// Evaluates the polynomial through `points` at `x` by Neville's scheme; `None` if two points have
/// the same x.
fn through(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let mut values: Vec<f64> = points.iter().map(|point| point.1).collect();
    for width in 1..points.len() {
        for from in 0..points.len() - width {
            let (left, right) = (points[from].0, points[from + width].0);
            values[from] =
                ((x - right) * values[from] + (left - x) * values[from + 1]) / (left - right);
        }
    }
    values.first().copied().filter(|value| value.is_finite())
}

/// Adds `steps` capacities between `low` and `high` to `probes`, each larger than the previous one
/// by the same factor.
fn spread(low: u64, high: u64, steps: u64, probes: &mut BTreeSet<u64>) {
    if high <= low + 1 {
        return;
    }
    let (from, to) = ((low + 1) as f64, high as f64);
    for step in 1..=steps {
        let at = from * (to / from).powf(step as f64 / (steps + 1) as f64);
        probes.insert((at as u64).clamp(low + 1, high - 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_core::rtt::Rtt;
    use proptest::prelude::*;

    fn count(times: &[u64], rate: u64, within: u64) -> u64 {
        let Ok(mut rtt) = Rtt::new(rate, Nanos(within)) else { return 0 };
        times.iter().map(|at| u64::from(rtt.admit(Nanos(*at)))).sum()
    }

    #[test]
    fn the_least_number_is_found_in_few_trials() {
        for (first, most, step) in
            [(1, 1000, 1), (7, 1000, 7), (16, 1000, 1), (5, 5, 1), (3, 900, 897)]
        {
            for needed in (1..=most + 1).step_by(13).chain([first, first + 1, most, most + 1]) {
                let mut tried = Vec::new();
                let found = least(first, most, step, |number| {
                    tried.push(number);
                    number >= needed
                });
                let expected = needed.max(first);
                assert_eq!(found, (expected <= most).then_some(expected), "{first} {needed}");
                assert!(tried.len() <= 22 && tried.iter().all(|one| *one <= most), "{tried:?}");
                if let Some(found) = found.filter(|found| *found > first) {
                    assert!(tried.contains(&(found - 1)), "{tried:?}");
                }
            }
        }
        let failed =
            try_least(1, 9, 1, |number| if number < 4 { Ok(false) } else { Err("failed") });
        assert_eq!(failed, Err("failed"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Compares the result with a search that tries 1, 2, 3 and so on until a capacity is
        /// enough.
        #[test]
        fn each_capacity_is_the_least(
            gaps in prop::collection::vec(
                prop_oneof![Just(0u64), 0u64..3_000_000, 0u64..40_000_000], 1..80),
            within in 3_000_000u64..60_000_000,
            needs in prop::collection::vec(1u64..80, 1..25),
        ) {
            let mut now = 0;
            let times: Vec<u64> = gaps.iter().map(|gap| { now += gap; now }).collect();
            let needs: Vec<u64> = needs.iter().map(|need| *need.min(&(times.len() as u64))).collect();
            let packed: Gaps = times.iter().copied().map(Nanos).collect();
            let mut brute = Vec::new();
            for need in &needs {
                brute.push((1u64..).find(|rate| count(&times, *rate, within) >= *need));
            }
            prop_assert_eq!(least_capacities(&packed, Nanos(within), &needs), brute);
        }

        /// For traces too large for brute force, checks that the result is enough and that one IOPS
        /// less is not.
        #[test]
        fn one_step_less_is_not_enough(
            gaps in prop::collection::vec(prop_oneof![Just(0u64), 0u64..3_000], 1..300),
            within in 1u64..100_000,
            needs in prop::collection::vec(1u64..300, 1..9),
        ) {
            let mut now = 0;
            let times: Vec<u64> = gaps.iter().map(|gap| { now += gap; now }).collect();
            let packed: Gaps = times.iter().copied().map(Nanos).collect();
            let needs: Vec<u64> = needs.iter().map(|need| *need.min(&(times.len() as u64))).collect();
            for (need, found) in needs.iter().zip(least_capacities(&packed, Nanos(within), &needs)) {
                match found {
                    None => prop_assert!(count(&times, RATE_MAX_IOPS, within) < *need),
                    Some(rate) => {
                        prop_assert!(count(&times, rate, within) >= *need);
                        prop_assert!(count(&times, rate - 1, within) < *need);
                    }
                }
            }
        }
    }

    #[test]
    fn few_passes_are_enough() {
        // The load is steady, with an additional burst every second.
        let times =
            (0..200_000u64).map(|i| Nanos(i * 500_000 - i % 2000 / 1500 * (i % 500) * 400_000));
        let mut times: Vec<Nanos> = times.collect();
        times.sort();
        let gaps: Gaps = times.into_iter().collect();
        let needs = [180_000, 190_000, 198_000, 199_000, 199_800, 200_000];
        let mut search = Search::new(&gaps, Nanos(5_000_000));
        search.run(&needs);
        let told = format!("{} passes, {} counts", search.passes, search.counted);
        assert!(search.passes <= 9 && search.counted <= 110, "{told}");
    }
}
