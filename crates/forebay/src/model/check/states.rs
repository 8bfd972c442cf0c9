//! States, and in which order they come.

use std::collections::BTreeSet;

use super::super::bins::{AGE_BINS, REACH_BINS};
use super::super::file::{Model, Part};
use super::super::state::{CATEGORIES, GAP_CLASSES, Range};
use super::LIST_MAX;
use super::wrong::{Wrong, entries, range, within, wrong};

/// States of a part.
const STATES_MAX: usize = 4096;

pub(super) fn check_states(model: &Model, part: &Part) -> Result<(), Wrong> {
    entries("states", part.states.len(), 1, STATES_MAX)?;
    let mut known = BTreeSet::new();
    let mut requests = 0u64;
    for (index, state) in part.states.iter().enumerate() {
        let key = |at| format!("states[{index}][{at}]");
        range(key(0), &state.0, 1..=model.level)?;
        within(key(1), usize::from(state.1), 0, CATEGORIES - 1)?;
        within(key(2), state.2, 1, 1 << 40)?;
        entries(key(3), state.3.len(), 0, GAP_CLASSES)?;
        entries(key(4), state.4.len(), 0, GAP_CLASSES)?;
        entries(key(5), state.5.0.len(), 0, AGE_BINS * REACH_BINS)?;
        for (number, &(age, reach, count)) in state.5.0.iter().enumerate() {
            within(format!("{}[{number}][0]", key(5)), usize::from(age), 0, AGE_BINS - 1)?;
            within(format!("{}[{number}][1]", key(5)), usize::from(reach), 0, REACH_BINS - 1)?;
            within(format!("{}[{number}][2]", key(5)), count, 1, u32::MAX)?;
        }
        if !known.insert((&state.0, state.1)) {
            return wrong(key(0), format!("{:?}", state.0), "each pair of range and category once");
        }
        requests += state.2;
    }
    check_leaves(part)?;
    if requests != part.requests {
        return wrong(
            "states",
            format!("counts that sum to {requests}"),
            part.requests.to_string(),
        );
    }
    Ok(())
}

/// Ranges of states lie side by side.
fn check_leaves(part: &Part) -> Result<(), Wrong> {
    let mut ranges: Vec<Range> = part.states.iter().filter_map(|s| Range::parse(&s.0)).collect();
    ranges.sort_unstable_by_key(|range| (range.first_cell(), range.level()));
    ranges.dedup();
    let inside = ranges.windows(2).find(|pair| {
        pair[1].level() > pair[0].level() && pair[1].ancestor(pair[0].level()) == pair[0]
    });
    match inside {
        None => Ok(()),
        Some(pair) => wrong(
            "states",
            format!("range {} inside {}", pair[1].path(), pair[0].path()),
            "ranges side by side",
        ),
    }
}

pub(super) fn check_order(part: &Part) -> Result<(), Wrong> {
    within("order.each", part.order.each, 1, 1 << 40)?;
    entries("order.states", part.order.states.len(), 2, LIST_MAX)?;
    let state_of: Vec<u32> = match part.order.of_places {
        true => part.places().map(|(state, _)| state).collect(),
        false => (0..part.states.len() as u32).collect(),
    };
    let Some(stretches) = part.order.stretches(state_of.len()) else {
        return wrong(
            "order.states",
            "others",
            "pairs of letters, a state before how often it comes, and a phrase's parts before it",
        );
    };
    let mut counts = vec![0u64; part.states.len()];
    for &(state, count) in stretches.iter().flatten() {
        counts[state_of[state as usize] as usize] += u64::from(count);
    }
    let differs = counts.iter().zip(&part.states).position(|(count, state)| *count != state.2);
    match differs {
        None => Ok(()),
        Some(state) => wrong(
            "order.states",
            format!("{} requests of state {state}", counts[state]),
            format!("{}, its count", part.states[state].2),
        ),
    }
}
