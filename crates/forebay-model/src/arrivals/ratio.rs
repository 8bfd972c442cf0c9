//! The ratio in which a duration is divided into two parts, as one of few codes, which are finer if
//! the parts are similar.

use crate::bins;
use crate::dice::RandomSource;

/// The code for a second part of zero. It is the largest code.
pub(super) const MAX: u32 = 127;
/// The code for parts proportional to their numbers of requests: an even pace.
const EVEN: u32 = 1;
/// The code for parts that are about equal, the first being the longer.
const ALIKE: u32 = 64;
/// The maximum distance of a code from [`ALIKE`].
const STEPS: u32 = 36;

/// Returns the step of a ratio of at least 1, which is given in quarter powers of two. Steps are a
/// quarter wide up to 2 powers, a half up to 8, and a whole power beyond.
fn step(quarters: u32) -> u32 {
    match quarters {
        0..8 => quarters,
        8..32 => 8 + (quarters - 8) / 2,
        _ => (20 + (quarters - 32) / 4).min(STEPS),
    }
}

/// Returns the first quarter of a step and the first of the next step.
fn quarters(step: u32) -> (u32, u32) {
    let from = |step: u32| match step {
        0..8 => step,
        8..20 => 8 + (step - 8) * 2,
        _ => 32 + (step - 20) * 4,
    };
    (from(step), from(step + 1))
}

/// Returns the code for parts of these durations with these numbers of requests.
pub(super) fn of((first, second): (u64, u64), requests: (u64, u64)) -> u32 {
    if first == 0 || second == 0 {
        return if first == 0 { 0 } else { MAX };
    }
    if u128::from(first) * u128::from(requests.1) == u128::from(second) * u128::from(requests.0) {
        return EVEN;
    }
    let (more, less) = (first.max(second), first.min(second));
    let eighths = (u128::from(more) * 8 / u128::from(less)).min(u128::from(u64::MAX)) as u64;
    let step = step(bins::bin(eighths) - 8);
    if first >= second { ALIKE + step } else { ALIKE - 1 - step }
}

/// Draws a share of the first part, out of all shares with this code.
#[inline]
pub(super) fn draw(number: u32, requests: (u64, u64), dice: &mut RandomSource) -> f64 {
    if number == 0 || number >= MAX {
        return if number == 0 { 0.0 } else { 1.0 };
    }
    if number == EVEN {
        return requests.0 as f64 / (requests.0 + requests.1) as f64;
    }
    let is_first = number >= ALIKE;
    let step = if is_first { number - ALIKE } else { ALIKE - 1 - number };
    let (low, high) = quarters(step.min(STEPS));
    let edge = |quarter: u32| bins::range(quarter + 8).0 as f64 / 8.0;
    let ratio = edge(low) + dice.unit() * (edge(high) - edge(low));
    if is_first { ratio / (1.0 + ratio) } else { 1.0 / (1.0 + ratio) }
}

/// Returns the coarse class of the first part's share: from much smaller than the second part (0)
/// to much larger (4).
pub(super) fn class(first: u64, second: u64) -> u8 {
    match first + second {
        0 => 2,
        whole => class_of(first as f64 / whole as f64),
    }
}

/// Returns the coarse class of a share.
pub(super) fn class_of(share: f64) -> u8 {
    [0.1, 0.4, 0.6, 0.9].iter().filter(|&&bound| share >= bound).count() as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_drawn_share_has_its_number(first in 1u64..1 << 40, second in 1u64..1 << 40, seed: u64) {
            let halves = (1 << 41, 1);
            let number = of((first, second), halves);
            prop_assert!(number > EVEN && number < MAX);
            let share = draw(number, halves, &mut RandomSource::new(seed));
            let whole = (1u64 << 60) as f64;
            let back = of(((share * whole) as u64, ((1.0 - share) * whole) as u64), halves);
            // Rounding at the edge of a step may change the code by one.
            prop_assert!(back.abs_diff(number) <= 1, "{} and {}", back, number);
        }

        #[test]
        fn an_even_pace_stays_even(gap in 1u64..1 << 30, first in 1u64..1000, second in 1u64..1000) {
            let number = of((gap * first, gap * second), (first, second));
            prop_assert_eq!(number, EVEN);
            let share = draw(number, (first, second), &mut RandomSource::new(1));
            let found = share * (gap * (first + second)) as f64;
            prop_assert!((found - (gap * first) as f64).abs() < 1e-3 * gap as f64);
        }
    }

    #[test]
    fn nothing_and_all_are_numbers_of_their_own() {
        let mut dice = RandomSource::new(1);
        let halves = (2, 3);
        assert_eq!(
            (
                of((0, 5), halves),
                draw(0, halves, &mut dice),
                of((5, 0), halves),
                draw(MAX, halves, &mut dice)
            ),
            (0, 0.0, 127, 1.0)
        );
        assert_eq!((class(0, 0), class(1, 99), class(50, 50), class(99, 1)), (2, 0, 2, 4));
    }
}
