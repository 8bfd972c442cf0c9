//! What was counted as the lists of a model, each with a bound on its length.

use rustc_hash::{FxHashMap, FxHashSet};

use super::super::families::Sketch;
use super::super::file::{Joint, Transition};
use super::super::space::CELLS;
use super::super::state::{Category, Range};

/// A number to so many significant digits.
pub(super) fn digits(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10f64.powi(digits - 1 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

/// Share of requests from which on the times of a transition are kept as quantiles, where no family fits.
const QUANTILES_SHARE: f64 = 0.005;

pub(super) fn transitions(
    joints: &FxHashMap<(Range, Range, Category, Category), u32>,
    gaps_of: &FxHashMap<(Range, Range), &Sketch>,
    requests: u64,
    joint_max: usize,
) -> Vec<Transition> {
    let mut rows: Vec<_> = joints.iter().map(|(key, count)| (*key, *count)).collect();
    rows.sort_unstable_by_key(|(key, count)| (std::cmp::Reverse(*count), *key));
    let mut shares: FxHashMap<(Range, Range), u64> = FxHashMap::default();
    for (key, count) in &rows {
        *shares.entry((key.0, key.1)).or_default() += u64::from(*count);
    }
    // The heaviest row of each transition stays whatever its weight.
    let mut seen = FxHashSet::default();
    let mut kept = 0;
    rows.retain(|(key, _)| {
        kept += 1;
        seen.insert((key.0, key.1)) || kept <= joint_max
    });
    rows.sort_unstable_by_key(|(key, _)| *key);
    let mut list: Vec<Transition> = Vec::new();
    let mut last = None;
    for ((from, to, before, after), count) in rows {
        if last != Some((from, to)) {
            last = Some((from, to));
            let share = digits(shares[&(from, to)] as f64 / requests.max(1) as f64, 6);
            let mut gaps = gaps_of[&(from, to)].best(share >= QUANTILES_SHARE);
            gaps.mean_us = digits(gaps.mean_us, 4);
            gaps.deviation_us = digits(gaps.deviation_us, 4);
            gaps.distance = digits(gaps.distance, 2);
            gaps.quantiles_us.iter_mut().for_each(|us| *us = digits(*us, 3));
            list.push(Transition {
                from: from.path(),
                to: to.path(),
                share,
                inter_arrival: gaps,
                joint: Vec::new(),
            });
        }
        if let Some(transition) = list.last_mut() {
            transition.joint.push(Joint(before.0, after.0, count));
        }
    }
    list
}

/// Cells by count, the heaviest ranges split first, as long as they have more than `least` cells: a cell
/// of a small volume would all but tell offsets.
pub(super) fn heat(cells: &[u32], heat_max: usize, least: u32) -> Vec<(u32, u32, u32)> {
    let sum = |first: u32, count: u32| -> u64 {
        cells[first as usize..(first + count) as usize].iter().map(|&n| u64::from(n)).sum()
    };
    let mut done = Vec::new();
    let mut open = std::collections::BinaryHeap::new();
    open.push((sum(0, CELLS as u32), CELLS as u32, 0u32));
    while let Some((weight, count, first)) = open.pop() {
        if weight == 0 {
            continue;
        }
        if count <= least.max(1) || done.len() + open.len() >= heat_max {
            done.push((first, count, weight.min(u64::from(u32::MAX)) as u32));
            continue;
        }
        let quarter = count / 4;
        for part in 0..4 {
            let begin = first + part * quarter;
            open.push((sum(begin, quarter), quarter, begin));
        }
    }
    done.sort_unstable();
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_first_digits() {
        let kept = [(1234.56, 4), (0.000_123_456, 2), (-987.6, 1), (5.0, 9), (0.0, 3)];
        let kept = kept.map(|(value, places)| digits(value, places));
        assert_eq!(kept, [1235.0, 0.000_12, -1000.0, 5.0, 0.0]);
        assert_eq!(digits(f64::NAN, 3), 0.0);
    }

    #[test]
    fn heat_is_fine_where_requests_are_and_loses_none() {
        let mut cells = vec![0; CELLS as usize];
        (cells[5], cells[20_000], cells[20_001], cells[65_535]) = (7, 1, 2, 900);
        assert_eq!(
            heat(&cells, 512, 1),
            [(5, 1, 7), (20_000, 1, 1), (20_001, 1, 2), (65_535, 1, 900)]
        );
        // Room for few: the heaviest are told apart.
        // None finer than is asked for.
        assert!(heat(&cells, 512, 16).iter().all(|cell| cell.1 == 16));
        let few = heat(&cells, 16, 1);
        assert!(few.len() <= 16 && few.iter().map(|cell| cell.2).sum::<u32>() == 910, "{few:?}");
        assert!(
            few.iter().any(|&(first, count, n)| first + count == 65_536 && n == 900),
            "{few:?}"
        );
    }

    #[test]
    fn the_heaviest_pair_of_each_transition_stays() {
        let [near, far] = [Range::new(1, 0), Range::new(1, 3)];
        let of = |op: u16| Category(op);
        let counts =
            [(near, near, 0, 90), (near, near, 1, 10), (far, far, 0, 1), (near, far, 1, 5)];
        let joints = counts.map(|(from, to, op, count)| ((from, to, of(op), of(op)), count));
        let mut gaps: FxHashMap<(Range, Range), Sketch> = FxHashMap::default();
        for (from, to, _, count) in counts {
            let sketch = gaps.entry((from, to)).or_default();
            // Nothing that a family fits.
            (0..count).for_each(|n| sketch.add(if n % 2 == 0 { 1_000 } else { 1_000_000_000 }));
        }
        let gaps = gaps.iter().map(|(&ends, sketch)| (ends, sketch)).collect();
        let list = transitions(&joints.into_iter().collect(), &gaps, 1000, 1);
        let shown: Vec<_> = list.iter().map(|t| (&*t.from, &*t.to, t.share, &*t.joint)).collect();
        assert_eq!(
            shown,
            [
                ("0", "0", 0.1, &[Joint(0, 0, 90)][..]),
                ("0", "3", 0.005, &[Joint(1, 1, 5)][..]),
                ("3", "3", 0.001, &[Joint(0, 0, 1)][..]),
            ]
        );
        let quantiles = [7, 7, 0];
        let kept = list.iter().map(|t| t.inter_arrival.quantiles_us.len());
        assert!(kept.eq(quantiles), "{list:?}");
    }
}
