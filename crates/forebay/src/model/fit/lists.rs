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

/// Cells by count, the heaviest ranges split first.
pub(super) fn heat(cells: &[u32], heat_max: usize) -> Vec<(u32, u32, u32)> {
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
        if count == 1 || done.len() + open.len() >= heat_max {
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
