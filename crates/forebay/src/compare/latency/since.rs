//! Finds the time at which latencies changed.
//!
//! For each block of the second trace, the geometric mean of its latencies is divided by that of
//! the first trace: that of the same block if the traces are paired, else that of the whole trace.
//! The change is a step if splitting these ratios at one point in time explains their variance much
//! better than chance would, and if the blocks before that point are about as fast as the first
//! trace.

use super::super::tally::{BLOCKS, Counts, Tally, whole};
use super::{LOG_UNITS, LatencySum};
use crate::plan::confidence::Random;

/// The share of the variance that the step must explain.
const EXPLAINED_LEAST: f64 = 0.5;
/// How many random orders of the blocks the step is compared with.
const SHUFFLES: usize = 200;
/// By how much the blocks before the step may deviate from the first trace, as a share of the
/// step's logarithm.
const BEFORE_MAX: f64 = 0.25;
/// The minimum number of blocks on either side of the step.
const SIDE_LEAST: usize = 2;

/// Returns when the step occurs in the second trace, as a share of the trace's duration; `None` if
/// there is no step.
pub(super) fn since_share([a, b]: [&Tally; 2], is_paired: bool) -> Option<f64> {
    let all = log_mean(&a.weigh(&whole()))?;
    let ratio = |block: usize| {
        let mut weights = vec![0; BLOCKS];
        weights[block] = 1;
        let reference = if is_paired { log_mean(&a.weigh(&weights))? } else { all };
        Some((block, log_mean(&b.weigh(&weights))? - reference))
    };
    let ratios: Vec<(usize, f64)> = (0..BLOCKS).filter_map(ratio).collect();
    let values: Vec<f64> = ratios.iter().map(|(_, value)| *value).collect();
    let (at, explained) = best_split(&values)?;
    let [before, after] = [&values[..at], &values[at..]].map(mean);
    let is_step = explained >= EXPLAINED_LEAST
        && before.abs() <= BEFORE_MAX * (after - before).abs()
        && is_beyond_chance(&values, explained);
    is_step.then(|| ratios[at].0 as f64 / BLOCKS as f64)
}

/// Returns the mean of the latencies' binary logarithms.
fn log_mean(sums: &Counts) -> Option<f64> {
    let [requests, logs] =
        [LatencySum::Requests, LatencySum::Logarithms].map(|sum| sums.of(sum as usize) as f64);
    (requests > 0.0).then(|| logs / LOG_UNITS / requests)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the index at which splitting `values` explains most of their variance, and the share
/// that it explains.
fn best_split(values: &[f64]) -> Option<(usize, f64)> {
    let count = values.len();
    let all = mean(values);
    let variance: f64 = values.iter().map(|value| (value - all).powi(2)).sum();
    let mut before = values.iter().take(SIDE_LEAST).sum::<f64>();
    let mut best = None;
    for at in SIDE_LEAST..=count.saturating_sub(SIDE_LEAST) {
        let (first, last) = (at as f64, (count - at) as f64);
        let step = before / first - (all * count as f64 - before) / last;
        let explained = first * last / count as f64 * step * step / variance;
        if best.is_none_or(|(_, most)| explained > most) {
            best = Some((at, explained));
        }
        before += values[at.min(count - 1)];
    }
    best.filter(|(_, explained)| explained.is_finite())
}

/// Returns whether fewer than 1 % of the random orders have a split that explains as much.
fn is_beyond_chance(values: &[f64], explained: f64) -> bool {
    let mut random = Random(1);
    let mut shuffled = values.to_vec();
    let mut reached = 0;
    for _ in 0..SHUFFLES {
        for left in (1..shuffled.len()).rev() {
            shuffled.swap(left, random.below(left + 1));
        }
        let by_chance = best_split(&shuffled).map_or(0.0, |(_, explained)| explained);
        reached += usize::from(by_chance >= explained);
    }
    reached * 100 < SHUFFLES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(log: impl Fn(usize) -> f64) -> Tally {
        let mut tally = Tally::default();
        for block in 0..BLOCKS {
            tally.add(block, LatencySum::Requests as usize, 10);
            let sum = (10.0 * log(block) * LOG_UNITS) as u64;
            tally.add(block, LatencySum::Logarithms as usize, sum);
        }
        tally
    }

    fn noise(block: usize) -> f64 {
        (block * 7 % 11) as f64 / 30.0
    }

    #[test]
    fn a_step_is_found_and_anything_else_is_none() {
        let a = tally(|block| 20.0 + noise(block));
        let since = |log: &dyn Fn(usize) -> f64| since_share([&a, &tally(log)], false);
        let step = |block: usize| 20.0 + noise(block) + if block >= 30 { 1.0 } else { 0.0 };
        assert_eq!(since(&step), Some(0.6));
        // No step: slower throughout, equal, a slow drift that begins slower, and a single slow
        // block.
        for log in [
            &(|block| 21.0 + noise(block)) as &dyn Fn(usize) -> f64,
            &|block| 20.0 + noise(block),
            &|block| 21.0 + noise(block) + block as f64 / 50.0,
            &|block| 20.0 + noise(block) + if block == 20 { 3.0 } else { 0.0 },
        ] {
            assert_eq!(since(log), None);
        }
    }

    #[test]
    fn pairs_of_blocks_are_compared_with_each_other() {
        let load = |block: usize| 20.0 + (block % 5) as f64 * 2.0;
        let a = tally(load);
        let b = tally(|block| load(block) + if block >= 10 { 0.3 } else { 0.0 });
        assert_eq!(since_share([&a, &b], true), Some(0.2));
        assert_eq!(since_share([&a, &b], false), None);
        assert_eq!(since_share([&a, &a], true), None);
        assert_eq!(since_share([&a, &Tally::default()], true), None);
    }
}
