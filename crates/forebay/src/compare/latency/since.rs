//! Finds the time at which latencies changed, and the time at which they changed back.
//!
//! For each block of the second trace, the geometric mean of its latencies is divided by that of
//! the first trace: that of the same block if the traces are paired, else that of the whole trace.
//! The blocks from one time to another are a changed span if separating them from all others
//! explains the variance of these ratios much better than chance would, and if the other blocks are
//! about as fast as the first trace. A step is a span that lasts until the end.

use super::super::tally::{BLOCKS, Counts, Tally, whole};
use super::{LOG_UNITS, LatencySum};
use crate::plan::confidence::Random;

/// The share of the variance that the span must explain.
const EXPLAINED_LEAST: f64 = 0.5;
/// How many random orders of the blocks the span is compared with.
const SHUFFLES: usize = 200;
/// By how much the blocks outside the span may deviate from the first trace, as a share of the
/// change's logarithm.
const OUTSIDE_MAX: f64 = 0.25;
/// The minimum number of blocks in the span, and of blocks outside.
const SIDE_LEAST: usize = 2;
/// The share of the best span's explanation at or above which a step is preferred, because it is
/// simpler.
const STEP_SHARE: f64 = 0.9;

/// The blocks of a span, as `from..to`, and the share of the variance that they explain.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: usize,
    to: usize,
    explained: f64,
}

/// When the second trace's latencies are changed, as shares of its duration.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ChangedSpan {
    /// When the change begins; `None` if it begins with the trace.
    pub(super) since: Option<f64>,
    /// When the change ends; `None` if it lasts until the trace ends.
    pub(super) until: Option<f64>,
}

impl ChangedSpan {
    /// Returns the weights of the blocks: one within the span, zero outside.
    pub(super) fn weights(self) -> Vec<u64> {
        let block = |share: f64| (share * BLOCKS as f64).round() as usize;
        let within = self.since.map_or(0, block)..self.until.map_or(BLOCKS, block);
        (0..BLOCKS).map(|block| u64::from(within.contains(&block))).collect()
    }
}

/// Returns when latencies are changed in the second trace; `None` if there is no such span.
pub(super) fn changed_span([a, b]: [&Tally; 2], is_paired: bool) -> Option<ChangedSpan> {
    let all = log_mean(&a.weigh(&whole()))?;
    let ratio = |block: usize| {
        let mut weights = vec![0; BLOCKS];
        weights[block] = 1;
        let reference = if is_paired { log_mean(&a.weigh(&weights))? } else { all };
        Some((block, log_mean(&b.weigh(&weights))? - reference))
    };
    let ratios: Vec<(usize, f64)> = (0..BLOCKS).filter_map(ratio).collect();
    let values: Vec<f64> = ratios.iter().map(|(_, value)| *value).collect();
    let count = values.len();
    let (step, any) = (best_span(&values, steps)?, best_span(&values, spans)?);
    let is_step = step.explained >= STEP_SHARE * any.explained;
    let (best, family) = if is_step { (step, steps as Family) } else { (any, spans as Family) };
    let inside = mean(&values[best.from..best.to]);
    let outside = mean(&[&values[..best.from], &values[best.to..]].concat());
    let is_span = best.explained >= EXPLAINED_LEAST
        && outside.abs() <= OUTSIDE_MAX * (inside - outside).abs()
        && is_beyond_chance(&values, best.explained, family);
    let share = |at: usize| ratios[at].0 as f64 / BLOCKS as f64;
    is_span.then(|| ChangedSpan {
        since: (best.from > 0).then(|| share(best.from)),
        until: (best.to < count).then(|| share(best.to)),
    })
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

/// Returns whether a family contains the span `from..to` of `count` blocks.
type Family = fn(from: usize, to: usize, count: usize) -> bool;

/// Spans that begin or end with the trace.
fn steps(from: usize, to: usize, count: usize) -> bool {
    from == 0 || to == count
}

fn spans(_: usize, _: usize, _: usize) -> bool {
    true
}

/// Returns the span of a family that explains most of the variance of `values`.
fn best_span(values: &[f64], family: Family) -> Option<Span> {
    let count = values.len();
    let all = mean(values);
    let variance: f64 = values.iter().map(|value| (value - all).powi(2)).sum();
    let mut sums = vec![0.0];
    sums.extend(values.iter().scan(0.0, |sum, value| {
        *sum += value - all;
        Some(*sum)
    }));
    let mut best: Option<Span> = None;
    for (from, begun) in sums.iter().enumerate() {
        for (to, ended) in sums.iter().enumerate().skip(from + SIDE_LEAST) {
            let (inside, outside) = (to - from, count - (to - from));
            if outside < SIDE_LEAST || !family(from, to, count) {
                continue;
            }
            // The sum over all blocks is 0, so the means inside and outside follow from one sum.
            let sum = ended - begun;
            let explained = sum * sum * count as f64 / (inside * outside) as f64 / variance;
            if best.is_none_or(|best| explained > best.explained) {
                best = Some(Span { from, to, explained });
            }
        }
    }
    // A span and the blocks outside it explain the variance equally well. Of a step's two sides,
    // the one that differs more from the first trace is therefore the changed span.
    let sided = best.map(|best| match (best.from, best.to) {
        (0, to) if mean(&values[to..]).abs() > mean(&values[..to]).abs() => {
            Span { from: to, to: count, ..best }
        }
        (from, to) if to == count && mean(&values[..from]).abs() > mean(&values[from..]).abs() => {
            Span { from: 0, to: from, ..best }
        }
        _ => best,
    });
    sided.filter(|best| best.explained.is_finite())
}

/// Returns whether fewer than 1 % of random orders contain a span of the family that explains as
/// much of the variance.
fn is_beyond_chance(values: &[f64], explained: f64, family: Family) -> bool {
    let mut random = Random(1);
    let mut shuffled = values.to_vec();
    let mut reached = 0;
    for _ in 0..SHUFFLES {
        for left in (1..shuffled.len()).rev() {
            shuffled.swap(left, random.below(left + 1));
        }
        let by_chance = best_span(&shuffled, family).map_or(0.0, |best| best.explained);
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
    fn a_step_is_found_and_lasting_changes_have_no_time() {
        let a = tally(|block| 20.0 + noise(block));
        let since = |log: &dyn Fn(usize) -> f64| changed_span([&a, &tally(log)], false);
        let step = |block: usize| 20.0 + noise(block) + if block >= 30 { 1.0 } else { 0.0 };
        assert_eq!(since(&step), from(0.6));
        // No span: slower throughout, equal, a slow drift that begins slower, and a single slow
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

    fn from(share: f64) -> Option<ChangedSpan> {
        Some(ChangedSpan { since: Some(share), until: None })
    }

    #[test]
    fn an_episode_has_a_beginning_and_an_end() {
        let a = tally(|block| 20.0 + noise(block));
        for (slow, expected) in [
            (15..25, (Some(0.3), Some(0.5))),
            (0..20, (None, Some(0.4))),
            (40..50, (Some(0.8), None)),
            (44..47, (Some(0.88), Some(0.94))),
        ] {
            for change in [1.6, -1.6] {
                let log = |block| {
                    20.0 + noise(block + 3) + if slow.contains(&block) { change } else { 0.0 }
                };
                let found = changed_span([&a, &tally(log)], false);
                let (since, until) = expected;
                assert_eq!(found, Some(ChangedSpan { since, until }), "{slow:?} {change}");
            }
        }
    }

    #[test]
    fn pairs_of_blocks_are_compared_with_each_other() {
        let load = |block: usize| 20.0 + (block % 5) as f64 * 2.0;
        let a = tally(load);
        let b = tally(|block| load(block) + if block >= 10 { 0.3 } else { 0.0 });
        assert_eq!(changed_span([&a, &b], true), from(0.2));
        assert_eq!(changed_span([&a, &b], false), None);
        assert_eq!(changed_span([&a, &a], true), None);
        assert_eq!(changed_span([&a, &Tally::default()], true), None);
    }
}
