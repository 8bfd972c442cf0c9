//! Arrivals: epochs and their divisions, or periods.

use super::super::base91::numbers;
use super::super::cascade::{BINS, CLASSES, SCALES};
use super::super::file::{Part, Periods, Scales};
use super::super::fit::PERIODS_MAX;
use super::LIST_MAX;
use super::wrong::{Wrong, entries, some, within, wrong};

/// What times may be multiples of: some 30 years.
const TICK_NS_MAX: u64 = 1_000_000_000_000_000_000;

pub(super) fn check_periods(part: &Part, periods: &Periods) -> Result<(), Wrong> {
    within("arrivals.tick_ns", periods.tick_ns, 1, TICK_NS_MAX)?;
    within("arrivals.period_s", periods.period_s, 1e-9, 1e11)?;
    within("arrivals.end_s", periods.end_s, part.begin_s, 1e11)?;
    entries("arrivals.requests", periods.requests.len(), 1, PERIODS_MAX as usize)?;
    let begun = (periods.requests.len() - 1) as f64 * periods.period_s;
    if begun > periods.end_s * (1.0 + 1e-9) {
        let expected = format!("none that begins after end_s, {} s", periods.end_s);
        return wrong("arrivals.requests", format!("a period from {begun} s on"), expected);
    }
    let mut sum = 0u64;
    for (index, &requests) in periods.requests.iter().enumerate() {
        within(format!("arrivals.requests[{index}]"), requests, 0, 1 << 40)?;
        sum += requests;
    }
    if sum == part.requests {
        return Ok(());
    }
    wrong("arrivals.requests", format!("counts that sum to {sum}"), part.requests.to_string())
}

pub(super) fn check_scales(part: &Part, arrivals: &Scales) -> Result<(), Wrong> {
    within("arrivals.tick_ns", arrivals.tick_ns, 1, TICK_NS_MAX)?;
    let requests = arrivals.epoch_requests;
    if !requests.is_power_of_two() || requests > 1 << 40 {
        return wrong("arrivals.epoch_requests", requests, "a power of two up to 2^40");
    }
    let epochs = part.requests.div_ceil(requests);
    if arrivals.epochs_us.len() as u64 != epochs {
        let expected = format!("{epochs} epochs of {requests} of {} requests", part.requests);
        return wrong("arrivals.epochs_us", arrivals.epochs_us.len(), expected);
    }
    for (index, &us) in arrivals.epochs_us.iter().enumerate() {
        within(format!("arrivals.epochs_us[{index}]"), us, 0.0, 1e16)?;
    }
    entries("arrivals.divisions", arrivals.divisions.len(), 0, SCALES)?;
    for (index, division) in arrivals.divisions.iter().enumerate() {
        let key = |name| format!("arrivals.divisions[{index}].{name}");
        within(key("scale"), usize::from(division.scale), 1, SCALES - 1)?;
        entries(key("bins"), division.bins.len(), 0, LIST_MAX)?;
        let Some(bins) = numbers(&division.bins) else {
            return wrong(key("bins"), "other signs", "letters from # to ~ without the backslash");
        };
        for (number, &bin) in bins.iter().enumerate() {
            within(format!("{}[{number}]", key("bins")), bin, 0, BINS - 1)?;
        }
    }
    entries("arrivals.splits", arrivals.splits.len(), 0, SCALES * CLASSES)?;
    for (index, split) in arrivals.splits.iter().enumerate() {
        let key = |name| format!("arrivals.splits[{index}].{name}");
        within(key("scale"), usize::from(split.scale), 1, SCALES - 1)?;
        within(key("class"), usize::from(split.class), 0, CLASSES - 1)?;
        within(key("first"), usize::from(split.first), 0, BINS - 1)?;
        entries(key("counts"), split.counts.len(), 1, BINS - usize::from(split.first))?;
        some(key("counts"), &split.counts)?;
    }
    Ok(())
}
