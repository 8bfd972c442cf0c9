//! Reading a model: what a file holds is believed only after every number in it was looked at, so that
//! generating cannot fail.

use std::path::Path;

use forebay_trace::TraceError;
use forebay_trace::error::Place;

use super::bins::{AGE_BINS, ALIGN_BINS, REACH_BINS};
use super::cascade::{BINS, CLASSES, SCALES};
use super::families::{Family, Gaps, SHARES};
use super::file::{Arrivals, Bins, Joint, Model, Part, Periods, Scales, VERSION};
use super::fit::{PARTS_MAX, PERIODS_MAX};
use super::letters::numbers;
use super::space::{CELLS, LEVEL_MAX};
use super::state::{CATEGORIES, CLASSES_MAX, FOLLOWS_MAX, GAP_CLASSES, Range};

/// Bytes that a model may have.
pub const FILE_BYTES_MAX: u64 = 64 << 20;
/// MiB that its volumes may have together: 1 EiB.
const EXTENT_MIB_MAX: u64 = 1 << 40;
/// Entries of any list.
const LIST_MAX: usize = 1 << 20;
/// States of a part.
const STATES_MAX: usize = 4096;
/// How far shares may sum from one: their rounding.
const SUM_SLACK: f64 = 1e-3;

/// Characters of a file that a message repeats, at most.
const GOT_CHARS_MAX: usize = 300;

/// What is wrong with a model.
struct Wrong {
    key: String,
    got: String,
    expected: String,
}

/// Reads a model.
///
/// # Errors
/// A file that cannot be read, is no model, or is none that could have been fitted.
pub fn read(path: &Path) -> Result<Model, TraceError> {
    let text = || -> std::io::Result<Vec<u8>> {
        let bytes = std::fs::metadata(path)?.len();
        if bytes > FILE_BYTES_MAX {
            let text = format!("got {bytes} bytes, expected a model of at most {FILE_BYTES_MAX}");
            return Err(std::io::Error::other(text));
        }
        std::fs::read(path)
    };
    let text = text().map_err(|source| TraceError::Io { path: path.to_path_buf(), source })?;
    parse(path, &text)
}

/// The model that `text` holds; messages call it `path`.
///
/// # Errors
/// As [`read`].
pub fn parse(path: &Path, text: &[u8]) -> Result<Model, TraceError> {
    let malformed = |got: String, expected: String| TraceError::Malformed {
        path: path.to_path_buf(),
        place: Place::File,
        got: one_line(&got),
        expected,
        hint: String::new(),
    };
    let form = || "a model of the form that docs/model.md describes".to_string();
    let mut json = serde_json::Deserializer::from_slice(text);
    let model: Model = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let key = error.path().to_string();
        let at = if key == "." { String::new() } else { format!(" at {key}") };
        malformed(format!("{}{at}", error.inner()), form())
    })?;
    json.end().map_err(|error| malformed(format!("{error} after the model"), form()))?;
    check(&model)
        .map_err(|wrong| malformed(format!("{} {}", wrong.key, wrong.got), wrong.expected))?;
    Ok(model)
}

/// What stands in a file, fit for a message.
fn one_line(text: &str) -> String {
    text.chars().take(GOT_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn wrong(
    key: impl Into<String>,
    got: impl ToString,
    expected: impl Into<String>,
) -> Result<(), Wrong> {
    Err(Wrong { key: key.into(), got: got.to_string(), expected: expected.into() })
}

fn within<T: PartialOrd + ToString>(
    key: impl Into<String>,
    value: T,
    low: T,
    high: T,
) -> Result<(), Wrong> {
    if value >= low && value <= high {
        return Ok(());
    }
    wrong(key, value, format!("{} to {}", low.to_string(), high.to_string()))
}

/// Whether a model is one that can be drawn from.
fn check(model: &Model) -> Result<(), Wrong> {
    within("forebay_model", model.forebay_model, VERSION, VERSION)?;
    within("level", model.level, 1, LEVEL_MAX)?;
    within("volumes", model.volumes.len(), 1, LIST_MAX)?;
    within("streams", model.streams.len(), 1, LIST_MAX)?;
    if !model.grain_bytes.is_power_of_two() || !(512..=4096).contains(&model.grain_bytes) {
        return wrong("grain_bytes", model.grain_bytes, "512, 1024, 2048 or 4096");
    }
    within("size_bounds_bytes", model.size_bounds_bytes.len(), 0, CLASSES_MAX - 1)?;
    within("parts", model.parts.len(), 1, PARTS_MAX)?;
    within("duration_s", model.duration_s, 0.0, 1e10)?;
    let mut mib = 0u64;
    for (index, volume) in model.volumes.iter().enumerate() {
        within(format!("volumes[{index}].extent_mib"), volume.extent_mib, 1, EXTENT_MIB_MAX)?;
        mib += volume.extent_mib;
    }
    within("volumes", mib, 1, EXTENT_MIB_MAX)?;
    let mut requests = 0u64;
    for (index, stream) in model.streams.iter().enumerate() {
        within(format!("streams[{index}].requests"), stream.requests, 0, 1 << 40)?;
        requests += stream.requests;
    }
    if requests != model.requests {
        return wrong("requests", model.requests, format!("{requests}, as the streams sum to"));
    }
    let of_parts: u64 = model.parts.iter().map(|part| part.requests.min(1 << 40)).sum();
    if of_parts != model.requests {
        return wrong("requests", model.requests, format!("{of_parts}, as the parts sum to"));
    }
    let paths = model.parts.iter().flat_map(|part| &part.states).map(|state| state.0.len());
    let deepest = paths.max().unwrap_or(0);
    if deepest != usize::from(model.level) && deepest <= LEVEL_MAX.into() {
        return wrong("level", model.level, format!("{deepest}, as the deepest range of states"));
    }
    model.parts.iter().enumerate().try_for_each(|(index, part)| {
        check_part(model, part).map_err(|mut wrong| {
            wrong.key = format!("parts[{index}].{}", wrong.key);
            wrong
        })
    })
}

fn check_part(model: &Model, part: &Part) -> Result<(), Wrong> {
    if let Some(stream) = part.stream {
        within("stream", stream as usize, 0, model.streams.len() - 1)?;
    }
    within("requests", part.requests, 1, 1 << 40)?;
    within("begin_s", part.begin_s, 0.0, 1e10)?;
    within("stay_share", part.stay_share, 0.0, 1.0)?;
    match &part.arrivals {
        Arrivals::Scales(scales) => check_scales(part, scales)?,
        Arrivals::Periods(periods) => check_periods(part, periods)?,
    }
    check_states(model, part)?;
    check_transitions(model, part)?;
    check_order(part)?;
    check_categories(part)?;
    within("heat", part.heat.len(), 0, LIST_MAX)?;
    for (index, &(first, count, _)) in part.heat.iter().enumerate() {
        within(format!("heat[{index}][0]"), u64::from(first), 0, CELLS - 1)?;
        within(format!("heat[{index}][1]"), u64::from(count), 1, CELLS - u64::from(first))?;
    }
    Ok(())
}

fn check_periods(part: &Part, periods: &Periods) -> Result<(), Wrong> {
    within("arrivals.tick_ns", periods.tick_ns, 1, 1_000_000_000_000)?;
    within("arrivals.period_s", periods.period_s, 1e-9, 1e11)?;
    within("arrivals.end_s", periods.end_s, part.begin_s, 1e11)?;
    within("arrivals.requests", periods.requests.len(), 1, PERIODS_MAX as usize)?;
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

fn check_scales(part: &Part, arrivals: &Scales) -> Result<(), Wrong> {
    within("arrivals.tick_ns", arrivals.tick_ns, 1, 1_000_000_000_000)?;
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
    within("arrivals.divisions", arrivals.divisions.len(), 0, SCALES)?;
    for (index, division) in arrivals.divisions.iter().enumerate() {
        let key = |name| format!("arrivals.divisions[{index}].{name}");
        within(key("scale"), usize::from(division.scale), 1, SCALES - 1)?;
        within(key("bins"), division.bins.len(), 0, LIST_MAX)?;
        let Some(bins) = numbers(&division.bins) else {
            return wrong(key("bins"), "other signs", "letters from # to ~ without the backslash");
        };
        for (number, &bin) in bins.iter().enumerate() {
            within(format!("{}[{number}]", key("bins")), bin, 0, BINS - 1)?;
        }
    }
    within("arrivals.splits", arrivals.splits.len(), 0, SCALES * CLASSES)?;
    for (index, split) in arrivals.splits.iter().enumerate() {
        let key = |name| format!("arrivals.splits[{index}].{name}");
        within(key("scale"), usize::from(split.scale), 1, SCALES - 1)?;
        within(key("class"), usize::from(split.class), 0, CLASSES - 1)?;
        within(key("first"), usize::from(split.first), 0, BINS - 1)?;
        within(key("counts"), split.counts.len(), 1, BINS - usize::from(split.first))?;
        some(key("counts"), &split.counts)?;
    }
    Ok(())
}

/// Counts that are not all zero.
fn some(key: String, counts: &[u32]) -> Result<(), Wrong> {
    if counts.iter().any(|&count| count > 0) { Ok(()) } else { wrong(key, "zeros", "a count") }
}

fn check_bins(key: String, bins: &Bins, bins_max: usize) -> Result<(), Wrong> {
    if bins.is_empty() {
        return Ok(());
    }
    within(format!("{key}[0]"), bins.0 as usize, 0, bins_max - 1)?;
    within(format!("{key}[1]"), bins.1.len(), 1, bins_max - bins.0 as usize)?;
    some(format!("{key}[1]"), &bins.1)
}

/// The range of a path, at the level it has to be.
fn range(key: String, path: &str, levels: std::ops::RangeInclusive<u8>) -> Result<(), Wrong> {
    match Range::parse(path) {
        Some(range) if levels.contains(&range.level()) => Ok(()),
        _ => wrong(
            key,
            format!("{:?}", path.chars().take(20).collect::<String>()),
            format!("a digit 0 to 3 for each of {} to {} levels", levels.start(), levels.end()),
        ),
    }
}

fn check_states(model: &Model, part: &Part) -> Result<(), Wrong> {
    within("states", part.states.len(), 1, STATES_MAX)?;
    let mut known = std::collections::BTreeSet::new();
    let mut requests = 0u64;
    for (index, state) in part.states.iter().enumerate() {
        let key = |at| format!("states[{index}][{at}]");
        range(key(0), &state.0, 1..=model.level)?;
        within(key(1), usize::from(state.1), 0, CATEGORIES - 1)?;
        within(key(2), state.2, 1, 1 << 40)?;
        within(key(3), state.3.len(), 0, GAP_CLASSES)?;
        within(key(4), state.4.len(), 0, GAP_CLASSES)?;
        within(key(5), state.5.0.len(), 0, AGE_BINS * REACH_BINS)?;
        for (number, &(age, reach, count)) in state.5.0.iter().enumerate() {
            within(format!("{}[{number}][0]", key(5)), usize::from(age), 0, AGE_BINS - 1)?;
            within(format!("{}[{number}][1]", key(5)), usize::from(reach), 0, REACH_BINS - 1)?;
            within(format!("{}[{number}][2]", key(5)), count, 1, u32::MAX)?;
        }
        if !known.insert((&state.0, state.1)) {
            return wrong(key(0), &state.0, "each pair of range and category once");
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

fn check_joints(key: &str, joints: &[Joint]) -> Result<(), Wrong> {
    within(key, joints.len(), 0, LIST_MAX)?;
    for (number, joint) in joints.iter().enumerate() {
        let key = |at| format!("{key}[{number}][{at}]");
        within(key(0), usize::from(joint.0), 0, CATEGORIES - 1)?;
        within(key(1), usize::from(joint.1), 0, CATEGORIES - 1)?;
        within(key(2), joint.2, 1, u32::MAX)?;
    }
    Ok(())
}

fn check_transitions(model: &Model, part: &Part) -> Result<(), Wrong> {
    for (number, follows) in part.follows.iter().enumerate() {
        check_joints(&format!("follows[{number}]"), follows)?;
    }
    within("transitions", part.transitions.len(), 1, LIST_MAX)?;
    let mut sum = 0.0;
    for (index, transition) in part.transitions.iter().enumerate() {
        let key = |name| format!("transitions[{index}].{name}");
        range(key("from"), &transition.from, 1..=model.level)?;
        range(key("to"), &transition.to, 1..=model.level)?;
        if !model.flat && transition.from.len() != transition.to.len() {
            return wrong(key("to"), &transition.to, "as many levels as in from");
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
    within(format!("{key}.quantiles_us"), gaps.quantiles_us.len(), quantiles, quantiles)?;
    let rises = gaps.quantiles_us.is_sorted() && gaps.quantiles_us.iter().all(|us| *us >= 0.0);
    if rises {
        return Ok(());
    }
    wrong(format!("{key}.quantiles_us"), "others", "times from 0 on that never fall")
}

fn check_order(part: &Part) -> Result<(), Wrong> {
    within("order.each", part.order.each, 1, 1 << 40)?;
    within("order.states", part.order.states.len(), 2, LIST_MAX)?;
    let state_of: Vec<u32> = match part.order.of_places {
        true => part.places().map(|(state, _)| state).collect(),
        false => (0..part.states.len() as u32).collect(),
    };
    let Some(stretches) = part.order.stretches(state_of.len()) else {
        return wrong(
            "order.states",
            "others",
            "pairs of letters, a state before how often it comes, and phrases before they are used",
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

fn check_categories(part: &Part) -> Result<(), Wrong> {
    within("categories", part.categories.len(), 1, CATEGORIES)?;
    for (index, category) in part.categories.iter().enumerate() {
        let key = |name| format!("categories[{index}].{name}");
        within(key("category"), usize::from(category.category), 0, CATEGORIES - 1)?;
        within(key("sizes"), category.sizes.len(), 1, LIST_MAX)?;
        for (number, &(_, count, repeats)) in category.sizes.iter().enumerate() {
            within(format!("{}[{number}][1]", key("sizes")), count, 1, u32::MAX)?;
            within(format!("{}[{number}][2]", key("sizes")), repeats, 0, count)?;
        }
        check_bins(key("distance_repeats"), &category.distance_repeats, FOLLOWS_MAX as usize + 1)?;
        check_bins(key("distances"), &category.distances, FOLLOWS_MAX as usize + 1)?;
        check_bins(key("alignments"), &category.alignments, ALIGN_BINS)?;
        within(key("same_class_share"), category.same_class_share, 0.0, 1.0)?;
        within(key("same_stream_share"), category.same_stream_share, 0.0, 1.0)?;
        within(key("same_op_share"), category.same_op_share, 0.0, 1.0)?;
        within(key("same_size_share"), category.same_size_share, 0.0, 1.0)?;
        for (number, &(flags, _)) in category.flags.iter().enumerate() {
            within(format!("{}[{number}][0]", key("flags")), flags, 0, 31)?;
        }
    }
    for (index, state) in part.states.iter().enumerate() {
        if !part.categories.iter().any(|category| category.category == state.1) {
            return wrong(format!("states[{index}][1]"), state.1, "one of categories");
        }
    }
    Ok(())
}
