//! Finds the cheapest pair of values for two knobs that keeps a promise.
//!
//! If a pair (x, y) keeps the promise, so does every pair that is at least as high in both. The
//! pairs that keep it are therefore bounded by a staircase: `least(y)`, the lowest x that is enough
//! at y, never rises with y. Finding the lowest x and the lowest y separately is not enough,
//! because a request may have to wait for both knobs in turn.
//!
//! The search is exact for every price that never falls when a knob rises. It divides the range of
//! y into parts. The price of a part is at least that of its smallest y together with an x that is
//! known to be necessary there. Parts that cannot be cheaper than the best pair so far are dropped
//! without a trial, and a single trial per split shows whether a part can contain a cheaper pair at
//! all.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::RangeInclusive;

/// Two knobs with integer values.
pub(super) trait Pairs {
    /// Returns whether the pair keeps the promise. Must be monotone in both knobs.
    fn keeps(&mut self, x: u64, y: u64) -> bool;

    /// Returns the lowest x that is permitted with `y` and at least `x`. Must never decrease when a
    /// knob increases.
    fn lifted(&self, x: u64, _y: u64) -> u64 {
        x
    }

    /// Returns the price of a pair; infinite if no permitted setting is as high. Must never
    /// decrease when a knob increases.
    fn price(&self, x: u64, y: u64) -> f64;

    /// Announces that no pair with a smaller x or y will be tried from now on.
    fn begin_at(&mut self, _x: u64, _y: u64) {}
}

/// A range of y that may contain a cheaper pair. The lowest x for any y in the range is between
/// `x_floor` and `x_ceil`.
#[derive(Clone, Copy, Debug)]
struct Part {
    y_from: u64,
    y_to: u64,
    x_floor: u64,
    x_ceil: u64,
    /// A lower bound for the price of the pairs in the range.
    price_floor: f64,
}

impl PartialEq for Part {
    fn eq(&self, other: &Part) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Part {}

impl PartialOrd for Part {
    fn partial_cmp(&self, other: &Part) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Part {
    /// Orders parts so that a heap returns the one with the lowest possible price first.
    fn cmp(&self, other: &Part) -> Ordering {
        other.price_floor.total_cmp(&self.price_floor).then(other.y_from.cmp(&self.y_from))
    }
}

/// The best pair found so far, with its price.
#[derive(Clone, Copy, Debug)]
struct Best {
    price: f64,
    pair: (u64, u64),
}

impl Best {
    /// Returns whether a pair with this price and `y` is better than `best`: cheaper, or equally
    /// expensive with a smaller y.
    fn is_beaten_by(best: Option<Best>, price: f64, y: u64) -> bool {
        price < f64::INFINITY
            && best.is_none_or(|best| price < best.price || price == best.price && y < best.pair.1)
    }
}

/// How many splits are made between calls of [`Pairs::begin_at`].
const SPLITS_BETWEEN: usize = 16;

/// Finds the cheapest pair within the ranges `xs` and `ys` that keeps the promise; of several, the
/// one with the smallest y. Returns `None` if no permitted pair does.
pub(super) fn cheapest(
    knobs: &mut impl Pairs,
    xs: RangeInclusive<u64>,
    ys: RangeInclusive<u64>,
) -> Option<(u64, u64)> {
    let (x_most, y_most) = (*xs.end(), *ys.end());
    let (x_alone, y_alone) = alone(knobs, xs, ys)?;
    let (mut best, mut splits): (Option<Best>, usize) = (None, 0);
    let mut parts = BinaryHeap::new();
    push(&mut parts, knobs, (y_alone, y_most, x_alone, x_most), best);
    while let Some(part) = parts.pop() {
        if !Best::is_beaten_by(best, part.price_floor, part.y_from) {
            break;
        }
        splits += 1;
        if splits % SPLITS_BETWEEN == 0 {
            let floor = |all: fn(&Part) -> u64| parts.iter().map(all).chain([all(&part)]).min();
            let floors = (floor(|part| part.x_floor), floor(|part| part.y_from));
            if let (Some(x), Some(y)) = floors {
                knobs.begin_at(x, y);
            }
        }
        let y = part.y_from + (part.y_to - part.y_from) / 2;
        // `below` is the lowest x that pairs with a smaller y need; `above` is the most that pairs
        // with a greater y need.
        let (below, above) = match affordable(knobs, &part, y, best) {
            // No pair with this y or a higher y can be better.
            None => (part.x_floor, part.x_floor),
            Some(x) if knobs.keeps(x, y) => {
                let x = first(part.x_floor, x, |x| knobs.keeps(x, y));
                best = Some(Best { price: knobs.price(x, y), pair: (x, y) });
                (x, x)
            }
            // No affordable x is enough at this y.
            Some(x) => (x + 1, part.x_ceil),
        };
        if y > part.y_from {
            push(&mut parts, knobs, (part.y_from, y - 1, below, part.x_ceil), best);
        }
        if y < part.y_to {
            push(&mut parts, knobs, (y + 1, part.y_to, part.x_floor, above), best);
        }
    }
    best.map(|best| best.pair)
}

/// For knobs without a price, finds a balanced pair that keeps the promise. It raises both knobs by
/// the same share above what each needs alone, and then lowers y and x as far as possible, to a
/// corner of the staircase. Returns `None` if no pair keeps the promise.
pub(super) fn balanced(
    knobs: &mut impl Pairs,
    xs: RangeInclusive<u64>,
    ys: RangeInclusive<u64>,
) -> Option<(u64, u64)> {
    let (x_most, y_most) = (*xs.end(), *ys.end());
    let (x_alone, y_alone) = alone(knobs, xs, ys)?;
    let raised = |alone: u64, most: u64, mille: u64| {
        let more = (u128::from(alone.max(1)) * u128::from(mille)).div_ceil(1000);
        (u128::from(alone) + more).min(most.into()) as u64
    };
    let pair = |mille: u64| (raised(x_alone, x_most, mille), raised(y_alone, y_most, mille));
    let mille_most = 1000 * (x_most / x_alone.max(1)).max(y_most / y_alone.max(1)) + 1000;
    let mille = first(0, mille_most, |mille| {
        let (x, y) = pair(mille);
        knobs.keeps(x, y)
    });
    let (mut x, mut y) = pair(mille);
    loop {
        // If y requires a higher x than this, that x may in turn permit a lower y.
        let lifted = knobs.lifted(x, y).min(x_most);
        let lower_y = first(y_alone, y, |y| knobs.keeps(lifted, y));
        x = first(x_alone, lifted, |x| knobs.keeps(x, lower_y));
        if lower_y == y {
            return Some((x, y));
        }
        y = lower_y;
    }
}

/// Returns the lowest x at the highest y, and the lowest y at the highest x; `None` if no pair
/// keeps the promise.
fn alone(
    knobs: &mut impl Pairs,
    xs: RangeInclusive<u64>,
    ys: RangeInclusive<u64>,
) -> Option<(u64, u64)> {
    let ((x_least, x_most), (y_least, y_most)) = (xs.into_inner(), ys.into_inner());
    if x_least > x_most || y_least > y_most || !knobs.keeps(x_most, y_most) {
        return None;
    }
    knobs.begin_at(x_least, y_least);
    let x_alone = first(x_least, x_most, |x| {
        let keeps = knobs.keeps(x, y_most);
        if !keeps {
            knobs.begin_at(x + 1, y_least);
        }
        keeps
    });
    let y_alone = first(y_least, y_most, |y| {
        let keeps = knobs.keeps(x_most, y);
        if !keeps {
            knobs.begin_at(x_alone, y + 1);
        }
        keeps
    });
    Some((x_alone, y_alone))
}

/// Adds a part, unless it cannot contain a pair that is better than the best.
fn push(
    parts: &mut BinaryHeap<Part>,
    knobs: &impl Pairs,
    (y_from, y_to, x_floor, x_ceil): (u64, u64, u64, u64),
    best: Option<Best>,
) {
    let price_floor = knobs.price(x_floor, y_from);
    if x_floor <= x_ceil && Best::is_beaten_by(best, price_floor, y_from) {
        parts.push(Part { y_from, y_to, x_floor, x_ceil, price_floor });
    }
}

/// Returns the highest x of the part that would be better than the best pair at this `y`; `None` if
/// there is none.
fn affordable(knobs: &impl Pairs, part: &Part, y: u64, best: Option<Best>) -> Option<u64> {
    let is_dear = |x: u64| !Best::is_beaten_by(best, knobs.price(x, y), y);
    if is_dear(part.x_floor) {
        return None;
    }
    let dear = first(part.x_floor + 1, part.x_ceil + 1, |x| x > part.x_ceil || is_dear(x));
    Some(dear - 1)
}

/// Returns the smallest number from `low` to `high` for which `enough` returns true; it must be
/// true for `high`.
pub(super) fn first(mut low: u64, mut high: u64, mut enough: impl FnMut(u64) -> bool) -> u64 {
    while low < high {
        let middle = low + (high - low) / 2;
        if enough(middle) { high = middle } else { low = middle + 1 }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A staircase given by the lowest x for each y, and a price that may have steps.
    #[derive(Debug)]
    struct Drawn {
        least_x: Vec<u64>,
        /// For each y, the lowest x that is permitted with it.
        lift: Vec<u64>,
        price: Vec<Vec<f64>>,
        trials: usize,
    }

    impl Pairs for Drawn {
        fn keeps(&mut self, x: u64, y: u64) -> bool {
            self.trials += 1;
            self.lifted(x, y) >= self.least_x[y as usize]
        }
        fn lifted(&self, x: u64, y: u64) -> u64 {
            x.max(self.lift[y as usize])
        }
        fn price(&self, x: u64, y: u64) -> f64 {
            let x = self.lifted(x, y);
            self.price[y as usize].get(x as usize).copied().unwrap_or(f64::INFINITY)
        }
    }

    impl Drawn {
        /// Finds the lowest price of any pair, and the lowest y that has it, by trying all pairs.
        fn brute(&self) -> Option<(f64, u64)> {
            let pairs = (0..self.least_x.len()).flat_map(|y| {
                let xs = self.least_x[y].max(self.lift[y]) as usize..self.price[y].len();
                xs.map(move |x| (self.price[y][x], y as u64))
            });
            let permitted = pairs.filter(|(price, _)| price.is_finite());
            permitted.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))
        }
    }

    /// Draws a staircase that never rises, and prices that never fall.
    fn drawn(xs: usize, ys: usize) -> impl Strategy<Value = Drawn> {
        let steps = prop::collection::vec(0..=xs as u64 + 2, ys);
        let lift = prop_oneof![Just(1), Just(xs as u64)];
        let lift = lift.prop_flat_map(move |most| prop::collection::vec(0..most, ys));
        let dear = prop_oneof![4 => Just(0u32), 2 => 0u32..3, 1 => 0u32..50];
        let price = prop::collection::vec(prop::collection::vec(dear, xs), ys);
        let limit = prop_oneof![Just(f64::INFINITY), (0u32..400).prop_map(f64::from)];
        (steps, lift, price, limit).prop_map(|(mut least_x, mut lift, price, limit)| {
            least_x.sort_unstable_by(|a, b| b.cmp(a));
            lift.sort_unstable();
            let mut sums = vec![vec![0.0; price[0].len()]; price.len()];
            for y in 0..price.len() {
                for x in 0..price[y].len() {
                    let left = if x > 0 { sums[y][x - 1] } else { 0.0f64 };
                    let above = if y > 0 { sums[y - 1][x] } else { 0.0 };
                    sums[y][x] = left.max(above) + f64::from(price[y][x]);
                }
            }
            let permitted =
                |price: &mut f64| *price = if *price > limit { f64::INFINITY } else { *price };
            sums.iter_mut().flatten().for_each(permitted);
            Drawn { least_x, lift, price: sums, trials: 0 }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn the_cheapest_pair_agrees_with_trying_all(mut knobs in drawn(19, 23)) {
            let brute = knobs.brute();
            let found = cheapest(&mut knobs, 0..=18, 0..=22);
            prop_assert_eq!(found.map(|(x, y)| (knobs.price(x, y), y)), brute);
            prop_assert!(found.is_none_or(|(x, y)| knobs.keeps(x, y)));
            // Neither knob of the balanced pair can be lowered.
            let found = balanced(&mut knobs, 0..=18, 0..=22);
            prop_assert_eq!(found.is_some(), knobs.keeps(18, 22));
            if let Some((x, y)) = found {
                prop_assert!(knobs.keeps(x, y));
                prop_assert!(x == 0 || x <= knobs.lift[y as usize] || !knobs.keeps(x - 1, y));
                let x = knobs.lifted(x, y);
                prop_assert!(y == 0 || !knobs.keeps(x, y - 1));
            }
        }
    }

    #[test]
    fn a_long_staircase_takes_few_trials() {
        // The product of x and y must be at least a million.
        let least_x = (0..2000u64).map(|y| 1_000_000u64.div_ceil(y.max(1))).collect::<Vec<_>>();
        struct Product(Vec<u64>, usize);
        impl Pairs for Product {
            fn keeps(&mut self, x: u64, y: u64) -> bool {
                self.1 += 1;
                x >= self.0[y as usize]
            }
            fn price(&self, x: u64, y: u64) -> f64 {
                0.005 * x as f64 + 0.04 * y as f64
            }
        }
        let mut knobs = Product(least_x, 0);
        let (x, y) = cheapest(&mut knobs, 1..=80_000, 1..=1999).unwrap();
        // At the optimum, both terms are almost equal: x = 2,828, y = 354.
        let price = knobs.price(x, y);
        let brute = (1..2000u64).map(|y| knobs.price(knobs.0[y as usize], y));
        assert_eq!(Some(price), brute.min_by(f64::total_cmp));
        assert!(knobs.1 < 600, "{} trials", knobs.1);
    }

    #[test]
    fn no_pair_is_found_where_none_is_permitted_or_enough() {
        let of = |least_x, price: f64| {
            let (lift, price) = (vec![0; 3], vec![vec![price; 4]; 3]);
            Drawn { least_x: vec![least_x; 3], lift, price, trials: 0 }
        };
        let (never, barred) = (of(9, 0.0), of(2, f64::INFINITY));
        for mut knobs in [never, barred] {
            assert_eq!(cheapest(&mut knobs, 0..=3, 0..=2), None);
        }
    }
}
