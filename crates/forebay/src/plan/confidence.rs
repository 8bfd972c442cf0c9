//! Estimates how reliable a capacity is: a confidence interval by block bootstrap over time, and a
//! check on a held-out part of the trace.
//!
//! The trace is divided into blocks of equal time. A resample draws as many blocks as there are,
//! with replacement, and computes the lowest capacity that answers the promised share of its
//! requests in time. How many requests of each block are admitted at a capacity is counted only
//! once, in the trace's own order, so a backlog at the start of a block (at most as long as the
//! time bound) is the one in the trace. These counts are made on a grid of capacities, up to the
//! one that answers all requests. Between grid points, the logarithm of the number of refused
//! requests is interpolated. If requests arrive at the same time, the counts jump at capacities at
//! which one more service time fits into the bound. The grid therefore includes these steps around
//! each capacity found.
//!
//! Limitation: the interval cannot account for bursts that are too rare to occur in the trace. For
//! a share of 1, no resample needs more than the trace itself, so the upper end of the interval
//! equals the capacity found and says little.

use std::collections::BTreeSet;

use forebay_core::Nanos;
use forebay_core::rtt::{Gaps, RATE_MAX_IOPS, Rtt, admitted_by_part, least_rate_for_all};

use super::search::least_capacities;
use forebay_ask::Share;

/// The number of blocks that a trace is divided into.
pub const BLOCKS: u64 = 50;

/// The number of resamples that are drawn.
const RESAMPLES: usize = 1000;

/// The number of grid points, in addition to the capacities found and the steps around them.
const GRID: u32 = 64;

/// The number of steps to include on either side of a capacity found. At each step, one more
/// request fits within the time bound.
const STEPS: u64 = 12;

/// The settings for bootstrap intervals.
#[derive(Clone, Copy, Debug)]
pub struct Bootstrap {
    /// The share of resamples that an interval covers, such as 0.95.
    pub level: f64,
    /// The seed for drawing resamples.
    pub seed: u64,
}

/// Returns the confidence interval, in IOPS, of each capacity in `found`; these belong to
/// `fractions`.
pub fn intervals(
    gaps: &Gaps,
    within: Nanos,
    fractions: &[Share],
    found: &[u64],
    bootstrap: Bootstrap,
) -> Vec<(u64, u64)> {
    // Each promised share has its own grid, so that its interval does not depend on which others
    // are requested.
    let most = least_rate_for_all(gaps, within).unwrap_or(RATE_MAX_IOPS);
    let ends = block_ends(gaps);
    let each = fractions.iter().zip(found);
    each.map(|(fraction, found)| {
        let grid = grid(within, *found, most.max(*found));
        interval(gaps, within, (*fraction, &grid), &ends, bootstrap)
    })
    .collect()
}

/// Computes the interval for one share from the counts on its `grid`.
fn interval(
    gaps: &Gaps,
    within: Nanos,
    (fraction, grid): (Share, &[u64]),
    ends: &[usize],
    bootstrap: Bootstrap,
) -> (u64, u64) {
    let sizes = sizes(ends);
    let counts = admitted_by_part(gaps, within, grid, ends);
    let drawn = resamples(sizes.len(), bootstrap.seed, |weigh| {
        let requests = weigh(&sizes);
        let admitted: Vec<u64> = counts.iter().map(|by_block| weigh(by_block)).collect();
        least(grid, &admitted, requests, fraction.of(requests))
    });
    percentiles(drawn.collect(), bootstrap.level)
}

/// Returns the number of requests in each block, given where the blocks end.
pub(crate) fn sizes(ends: &[usize]) -> Vec<u64> {
    let begins = std::iter::once(0).chain(ends.iter().copied());
    begins.zip(ends).map(|(from, to)| (to - from) as u64).collect()
}

/// Draws resamples of `blocks` blocks. `of` is given a function that adds up the counts of the
/// drawn blocks, one for each time that a block was drawn.
pub(crate) fn resamples<T>(
    blocks: usize,
    seed: u64,
    of: impl Fn(&dyn Fn(&[u64]) -> u64) -> T,
) -> impl Iterator<Item = T> {
    let (mut random, mut weights) = (Random(seed), vec![0u64; blocks]);
    (0..RESAMPLES).map(move |_| {
        weights.fill(0);
        (0..blocks).for_each(|_| weights[random.below(blocks)] += 1);
        of(&|counts| counts.iter().zip(&weights).map(|(count, weight)| count * weight).sum())
    })
}

/// Returns the grid: capacities from an eighth of `found` up to `most`, which answers all requests,
/// so that no resample needs more.
fn grid(within: Nanos, found: u64, most: u64) -> Vec<u64> {
    let (from, to) = (found.max(1) as f64 / 8.0, most as f64);
    let at = |step: u32| from * (to / from).powf(f64::from(step) / f64::from(GRID));
    let even = (0..=GRID).map(|step| (at(step).ceil() as u64).max(1));
    let all = even.chain(steps_about(found, within)).chain([found, most]);
    all.filter(|capacity| *capacity <= most).collect::<BTreeSet<u64>>().into_iter().collect()
}

/// Returns the capacities near `found` at which one more request fits within the time bound, each
/// preceded by the capacity one below.
fn steps_about(found: u64, within: Nanos) -> impl Iterator<Item = u64> {
    const SECOND: u128 = 1_000_000_000;
    let (found, within) = (u128::from(found), u128::from(within.0.max(1)));
    let held = u64::try_from(found * within / SECOND).unwrap_or(u64::MAX);
    let steps = held.saturating_sub(STEPS)..=held.saturating_add(STEPS);
    steps.filter(|held| *held > 0).flat_map(move |held| {
        let least = (u128::from(held) * SECOND).div_ceil(within);
        let least = u64::try_from(least).unwrap_or(RATE_MAX_IOPS);
        [least.saturating_sub(1).max(1), least]
    })
}

/// Returns where each block of time ends, as an index into the requests.
fn block_ends(gaps: &Gaps) -> Vec<usize> {
    let duration = u128::from((gaps.last() - gaps.first()).0) + 1;
    let mut ends = Vec::with_capacity(BLOCKS as usize);
    for (index, at) in gaps.times().enumerate() {
        let block = u128::from((at - gaps.first()).0) * u128::from(BLOCKS) / duration;
        while (ends.len() as u128) < block {
            ends.push(index);
        }
    }
    ends.resize(BLOCKS as usize, gaps.len());
    ends
}

/// Returns the lowest capacity at which `need` of `requests` are admitted, interpolated between
/// grid points.
fn least(grid: &[u64], admitted: &[u64], requests: u64, need: u64) -> f64 {
    let enough = admitted.partition_point(|count| *count < need);
    let Some(&high) = grid.get(enough) else { return grid.last().map_or(0.0, |most| *most as f64) };
    let Some(before) = enough.checked_sub(1) else { return high as f64 };
    let low = grid[before];
    let refused = |count: u64| (requests.saturating_sub(count) as f64 + 0.5).ln();
    let span = (refused(admitted[before]) - refused(admitted[enough])).max(1e-9);
    let share = (refused(admitted[before]) - refused(need)) / span;
    low as f64 + (high - low) as f64 * share.clamp(0.0, 1.0)
}

/// Returns the interval of a share. `blocks` are the number of requests in each block, and how many
/// of these count.
pub(crate) fn share_interval(blocks: &[(u64, u64)], bootstrap: Bootstrap) -> (f64, f64) {
    let mut random = Random(bootstrap.seed);
    let drawn = (0..RESAMPLES).map(|_| {
        let add = |sum: (u64, u64), of: (u64, u64)| (sum.0 + of.0, sum.1 + of.1);
        let draws = (0..blocks.len()).map(|_| blocks[random.below(blocks.len())]);
        match draws.fold((0, 0), add) {
            (0, _) => 1.0,
            (all, counted) => counted as f64 / all as f64,
        }
    });
    ends(drawn.collect(), bootstrap.level)
}

fn percentiles(drawn: Vec<f64>, level: f64) -> (u64, u64) {
    let (low, high) = ends(drawn, level);
    (low.floor() as u64, high.ceil() as u64)
}

/// Returns the ends of the central interval that covers a share `level` of `drawn`.
pub(crate) fn ends(mut drawn: Vec<f64>, level: f64) -> (f64, f64) {
    drawn.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let index = (share * (drawn.len() - 1) as f64).round() as usize;
        drawn[index.min(drawn.len() - 1)]
    };
    (at((1.0 - level) / 2.0), at((1.0 + level) / 2.0))
}

/// A random number generator, with its state.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// Returns a random number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        forebay_core::random::below(&mut self.0, end as u64) as usize
    }
}

/// Splits the trace in two: the last `held_out` of its time, and everything before. Returns `None`
/// if either part has no requests.
pub fn hold_out(gaps: &Gaps, held_out: f64) -> Option<(Gaps, Gaps)> {
    let duration = (gaps.last() - gaps.first()).0;
    let cut = gaps.first() + Nanos((duration as f64 * (1.0 - held_out)) as u64);
    let (mut known, mut held) = (Gaps::default(), Gaps::default());
    for at in gaps.times() {
        if at < cut { known.push(at) } else { held.push(at) }
    }
    (!known.is_empty() && !held.is_empty()).then_some((known, held))
}

/// How a capacity found on one part of a trace performs on the held-out part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Check {
    /// The share of the held-out requests that is answered in time.
    pub fraction: f64,
    /// Whether `fraction` is at least the promised share.
    pub kept: bool,
    /// The lowest capacity that keeps the promise on the held-out part; `None` if no supported
    /// capacity does.
    pub capacity_iops: Option<u64>,
}

/// Checks `capacities`, which belong to `fractions`, on the held-out part `held`.
pub fn check(held: &Gaps, within: Nanos, fractions: &[Share], capacities: &[u64]) -> Vec<Check> {
    let requests = held.len() as u64;
    let needs: Vec<u64> = fractions.iter().map(|fraction| fraction.of(requests)).collect();
    let own = least_capacities(held, within, &needs);
    let checks = capacities.iter().zip(needs.iter().zip(own));
    checks
        .map(|(&capacity, (&need, capacity_iops))| {
            let admitted = count(held, within, capacity);
            let fraction = admitted as f64 / requests.max(1) as f64;
            Check { fraction, kept: admitted >= need, capacity_iops }
        })
        .collect()
}

fn count(gaps: &Gaps, within: Nanos, capacity: u64) -> u64 {
    let Ok(mut rtt) = Rtt::new(capacity, within) else { return 0 };
    gaps.times().map(|at| u64::from(rtt.admit(at))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Returns reproducible, Poisson-like arrivals at 1000 per second.
    fn steady(requests: usize) -> Gaps {
        let (mut random, mut now) = (Random(7), 0);
        (0..requests)
            .map(|_| {
                let u = (random.below(1 << 30) + 1) as f64 / (1u64 << 30) as f64;
                now += (-u.ln() * MS as f64) as u64;
                Nanos(now)
            })
            .collect()
    }

    fn fractions() -> Vec<Share> {
        ["0.9", "0.99", "1"].iter().map(|text| text.parse().unwrap()).collect()
    }

    fn found(gaps: &Gaps, within: Nanos) -> Vec<u64> {
        let needs: Vec<u64> = fractions().iter().map(|f| f.of(gaps.len() as u64)).collect();
        least_capacities(gaps, within, &needs).into_iter().map(Option::unwrap).collect()
    }

    const HALF: Bootstrap = Bootstrap { level: 0.95, seed: 1 };

    #[test]
    fn the_interval_contains_the_answer_and_is_narrow_for_a_steady_load() {
        let (gaps, within) = (steady(50_000), Nanos(10 * MS));
        let found = found(&gaps, within);
        let intervals = intervals(&gaps, within, &fractions(), &found, HALF);
        for ((low, high), capacity) in intervals.iter().zip(&found) {
            assert!(low <= capacity && capacity <= high, "{low} {capacity} {high}");
        }
        let (low, high) = intervals[0];
        assert!(low < high && high - low < found[0] / 10, "{low} to {high}");
        assert_eq!(intervals[2].1, found[2]);
    }

    #[test]
    fn the_interval_often_holds_the_capacity_of_another_draw() {
        // Compares the 95 % interval of the first half with the capacity of the second half.
        let within = Nanos(10 * MS);
        let (first, second) = hold_out(&steady(100_000), 0.5).unwrap();
        let own = found(&first, within);
        let interval = intervals(&first, within, &fractions()[..2], &own[..2], HALF);
        let checks = check(&second, within, &fractions(), &own);
        for ((low, high), check) in interval.iter().zip(&checks) {
            // The difference between two draws varies more than a single draw, so the test allows
            // twice the width.
            let (capacity, width) = (check.capacity_iops.unwrap(), high - low);
            assert!(low - width / 2 <= capacity && capacity <= high + width / 2);
        }
    }

    #[test]
    fn the_interval_of_a_fraction_does_not_depend_on_other_fractions() {
        // Every 50 ms there is a burst of 1 to 20 requests, so resamples that draw more of the long
        // bursts need more.
        let mut random = Random(3);
        let burst = |index: u64, most: usize| {
            std::iter::repeat_n(Nanos(index * 50 * MS), random.below(most) + 1)
        };
        let mut burst = burst;
        let gaps: Gaps = (0..2000u64).flat_map(|index| burst(index, 20)).collect();
        let within = Nanos(10 * MS);
        let one: Vec<Share> = vec!["0.9".parse().unwrap()];
        let found = least_capacities(&gaps, within, &[one[0].of(gaps.len() as u64)])[0].unwrap();
        let alone = intervals(&gaps, within, &one, &[found], HALF)[0];
        assert_eq!(found % 100, 0, "a whole request more in 10 ms");
        assert!(alone.0 <= found && found <= alone.1 && alone.1 > found, "{alone:?} {found}");
        let two = [one[0], "1".parse().unwrap()];
        let both = intervals(&gaps, within, &two, &[found, 2000], HALF);
        assert_eq!((both[0], both[1].1), (alone, 2000));
    }

    #[test]
    fn every_block_is_drawn() {
        // All bursts are in the first or in the last block, so resamples without that block need
        // little.
        for burst_at in [0u64, 999] {
            let each =
                |ms: u64| std::iter::repeat_n(Nanos(ms * MS), if ms == burst_at { 500 } else { 1 });
            let (gaps, within) = ((0..1000).flat_map(each).collect::<Gaps>(), Nanos(10 * MS));
            let fractions: Vec<Share> = vec!["0.95".parse().unwrap()];
            let need = fractions[0].of(gaps.len() as u64);
            let found = [least_capacities(&gaps, within, &[need])[0].unwrap()];
            let (low, high) = intervals(&gaps, within, &fractions, &found, HALF)[0];
            assert!(low < found[0] / 2 && high >= found[0], "{low} {found:?} {high}");
        }
    }

    #[test]
    fn an_interval_leaves_out_as_much_on_either_side() {
        let drawn = || (0..=1000).rev().map(f64::from).collect();
        assert_eq!(percentiles(drawn(), 0.9), (50, 950));
        assert_eq!(percentiles(drawn(), 0.5), (250, 750));
        assert_eq!(percentiles(vec![7.5], 0.9), (7, 8));
    }

    #[test]
    fn the_interval_of_a_share_is_as_wide_as_blocks_differ() {
        let alike = share_interval(&[(10, 9); 50], HALF);
        assert_eq!(alike, (0.9, 0.9));
        let mut blocks = vec![(10, 10); 50];
        blocks[3] = (50, 0);
        // Some resamples do not draw the bad block, others draw it up to three times.
        let (low, high) = share_interval(&blocks, HALF);
        assert_eq!((low, high), (470.0 / 620.0, 1.0));
    }

    #[test]
    fn a_promise_that_is_just_kept_is_kept() {
        let held: Gaps = [Nanos(0); 10].into_iter().collect();
        let half = ["0.5".parse().unwrap(), "0.6".parse().unwrap()];
        let checks = check(&held, Nanos(100 * MS), &half, &[50, 50]);
        assert_eq!(
            [0, 1].map(|at| (checks[at].fraction, checks[at].kept)),
            [(0.5, true), (0.5, false)]
        );
        assert_eq!([0, 1].map(|at| checks[at].capacity_iops), [Some(50), Some(60)]);
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let (gaps, within) = (steady(5000), Nanos(5 * MS));
        let found = found(&gaps, within);
        let with =
            |seed| intervals(&gaps, within, &fractions(), &found, Bootstrap { level: 0.9, seed });
        assert_eq!(with(3), with(3));
        assert_ne!(with(3), with(4));
    }

    #[test]
    fn blocks_are_of_equal_time() {
        let gaps: Gaps = (0..100).map(|i| Nanos(i * 10)).collect();
        let ends = block_ends(&gaps);
        assert_eq!((ends.len(), ends[0], ends[1], *ends.last().unwrap()), (50, 2, 4, 100));
        // The gap in the middle leaves blocks without requests.
        let gaps: Gaps = [0, 1, 1000].into_iter().map(Nanos).collect();
        let ends = block_ends(&gaps);
        assert_eq!((ends[0], ends[48], ends[49]), (2, 2, 3));
    }

    #[test]
    fn the_held_out_part_is_the_end() {
        let gaps: Gaps = (0..=10).map(|i| Nanos(100 + i * 10)).collect();
        let (known, held) = hold_out(&gaps, 0.3).unwrap();
        assert_eq!((known.len(), held.len()), (7, 4));
        assert_eq!(held.first(), Nanos(170));
        assert!(hold_out(&[Nanos(5)].into_iter().collect(), 0.5).is_none());
    }
}
