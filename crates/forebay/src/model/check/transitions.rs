//! What follows what: transitions from range to range, and categories.

use std::collections::BTreeSet;

use super::super::families::{Family, Gaps, SHARES};
use super::super::file::{Joint, Model, Part};
use super::super::state::CATEGORIES;
use super::LIST_MAX;
use super::wrong::{Wrong, entries, range, within, wrong};

/// How far shares may sum from one: their rounding.
const SUM_SLACK: f64 = 1e-3;

fn check_joints(key: &str, joints: &[Joint]) -> Result<(), Wrong> {
    entries(key, joints.len(), 0, LIST_MAX)?;
    for (number, joint) in joints.iter().enumerate() {
        let key = |at| format!("{key}[{number}][{at}]");
        within(key(0), usize::from(joint.0), 0, CATEGORIES - 1)?;
        within(key(1), usize::from(joint.1), 0, CATEGORIES - 1)?;
        within(key(2), joint.2, 1, u32::MAX)?;
    }
    Ok(())
}

pub(super) fn check_transitions(model: &Model, part: &Part) -> Result<(), Wrong> {
    for (number, follows) in part.follows.iter().enumerate() {
        check_joints(&format!("follows[{number}]"), follows)?;
    }
    entries("transitions", part.transitions.len(), 1, LIST_MAX)?;
    let leaves: BTreeSet<&str> = part.states.iter().map(|state| &*state.0).collect();
    let (mut sum, mut known) = (0.0, BTreeSet::new());
    for (index, transition) in part.transitions.iter().enumerate() {
        let key = |name| format!("transitions[{index}].{name}");
        range(key("from"), &transition.from, 1..=model.level)?;
        range(key("to"), &transition.to, 1..=model.level)?;
        let (from, to) = (&*transition.from, &*transition.to);
        let parent = |path: &str| path[..path.len() - 1].to_string();
        if model.flat {
            for (name, path) in [("from", from), ("to", to)] {
                if !leaves.contains(path) {
                    return wrong(key(name), format!("{path:?}"), "a range of states: it is flat");
                }
            }
        } else if parent(from) != parent(to) {
            let expected = format!("a range of the parent of from, {from:?}");
            return wrong(key("to"), format!("{to:?}"), expected);
        }
        if !known.insert((from, to)) {
            return wrong(key("to"), format!("{to:?}"), "each pair of from and to once");
        }
        within(key("share"), transition.share, 0.0, 1.0)?;
        check_gaps(&key("inter_arrival"), &transition.inter_arrival)?;
        sum += transition.share;
        check_joints(&key("joint"), &transition.joint)?;
    }
    if (sum - 1.0).abs() > SUM_SLACK {
        return wrong("transitions", format!("shares that sum to {sum}"), "1");
    }
    Ok(())
}

fn check_gaps(key: &str, gaps: &Gaps) -> Result<(), Wrong> {
    within(format!("{key}.mean_us"), gaps.mean_us, 0.0, 1e16)?;
    within(format!("{key}.deviation_us"), gaps.deviation_us, 0.0, 1e16)?;
    within(format!("{key}.distance"), gaps.distance, 0.0, 1.0)?;
    let quantiles = if gaps.family == Family::Empirical { SHARES.len() } else { 0 };
    entries(format!("{key}.quantiles_us"), gaps.quantiles_us.len(), quantiles, quantiles)?;
    let rises = gaps.quantiles_us.is_sorted() && gaps.quantiles_us.iter().all(|us| *us >= 0.0);
    if rises {
        return Ok(());
    }
    let got = format!("{:?}", gaps.quantiles_us);
    wrong(format!("{key}.quantiles_us"), got, "times from 0 on that never fall")
}
