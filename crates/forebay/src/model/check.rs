//! Reading a model: what a file holds is believed only after every number in it was looked at, so that
//! generating cannot fail.

mod arrivals;
mod categories;
mod states;
mod transitions;
mod wrong;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use forebay_trace::TraceError;
use forebay_trace::error::Place;
use serde::Deserialize;

use self::arrivals::{check_periods, check_scales};
use self::categories::check_categories;
use self::states::{check_order, check_states};
use self::transitions::check_transitions;
use self::wrong::{Wrong, entries, within, wrong};
use super::file::{Arrivals, Model, Part, VERSION};
use super::fit::PARTS_MAX;
use super::space::{CELLS, LEVEL_MAX};
use super::state::CLASSES_MAX;
use crate::error::Error;

/// Bytes that a model may have.
pub const FILE_BYTES_MAX: u64 = 64 << 20;
/// MiB that its volumes may have together: 1 EiB.
const EXTENT_MIB_MAX: u64 = 1 << 40;
/// Entries of any list.
const LIST_MAX: usize = 1 << 20;
/// How far the duration may be from where arrivals end: their rounding.
const DURATION_SLACK: f64 = 1e-3;

/// Characters of a file that a message repeats, at most.
const GOT_CHARS_MAX: usize = 300;

/// Reads a model.
///
/// # Errors
/// A file that cannot be read, is no model, or is none that could have been fitted.
pub fn read(path: &Path) -> Result<Model, TraceError> {
    let text = || -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        // What is no file may have no end.
        File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)?;
        Ok(text)
    };
    let text = text().map_err(|source| TraceError::Io { path: path.to_path_buf(), source })?;
    if text.len() as u64 <= FILE_BYTES_MAX {
        return parse(path, &text);
    }
    let got = format!("more than {} MiB", FILE_BYTES_MAX >> 20);
    Err(malformed(path, &got, "a model, which has some 400 KB", ""))
}

/// The model that `text` holds; messages call it `path`.
///
/// # Errors
/// As [`read`].
pub fn parse(path: &Path, text: &[u8]) -> Result<Model, TraceError> {
    let expected = "a model of the form that docs/model.md describes";
    let mut json = serde_json::Deserializer::from_slice(text);
    let model: Model = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        if let Some(Wrong { key, got, expected }) = other_version(text) {
            return malformed(path, &format!("{key} {got}"), &expected, "fit the trace again");
        }
        let is_cut = error.inner().is_eof();
        let hint = if is_cut { "the file is cut off: copy it again" } else { TAKE_BACK };
        let key = error.path().to_string();
        let at = if is_cut || key == "." { String::new() } else { format!(" at {key}") };
        malformed(path, &format!("{}{at}", error.inner()), expected, hint)
    })?;
    json.end().map_err(|error| {
        malformed(path, &format!("{error} after the model"), expected, TAKE_BACK)
    })?;
    check(&model).map_err(|wrong| wrong.told(path))?;
    Ok(model)
}

/// What to do about a model that was changed.
const TAKE_BACK: &str = "take back what was changed in it, or fit the trace again";

impl Wrong {
    fn told(self, path: &Path) -> TraceError {
        malformed(path, &format!("{} {}", self.key, self.got), &self.expected, TAKE_BACK)
    }
}

fn malformed(path: &Path, got: &str, expected: &str, hint: &str) -> TraceError {
    TraceError::Malformed {
        path: path.to_path_buf(),
        place: Place::File,
        got: one_line(got),
        expected: expected.into(),
        hint: hint.into(),
    }
}

/// Whether the text is a model whose keys another version of Forebay knows.
fn other_version(text: &[u8]) -> Option<Wrong> {
    #[derive(Deserialize)]
    struct Head {
        forebay_model: u32,
    }
    let head: Head = serde_json::from_slice(text).ok()?;
    check_version(head.forebay_model).err()
}

fn check_version(version: u32) -> Result<(), Wrong> {
    if version == VERSION {
        return Ok(());
    }
    let expected = format!("version {VERSION}, which this Forebay reads and writes");
    wrong("forebay_model", version, expected)
}

/// Refuses a model that was fitted but could not be read again; messages call the trace `name`.
pub(super) fn expect_readable(name: &Path, model: &Model) -> Result<(), Error> {
    check(model).map_err(|wrong| {
        Error::Unfit(format!(
            "{}: got a trace whose model would have {} {}, expected {}",
            name.display(),
            wrong.key,
            wrong.got,
            wrong.expected
        ))
    })
}

/// What stands in a file, fit for a message.
fn one_line(text: &str) -> String {
    text.chars().take(GOT_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Whether a model is one that can be drawn from.
fn check(model: &Model) -> Result<(), Wrong> {
    check_version(model.forebay_model)?;
    within("level", model.level, 1, LEVEL_MAX)?;
    entries("volumes", model.volumes.len(), 1, LIST_MAX)?;
    entries("streams", model.streams.len(), 1, LIST_MAX)?;
    entries("parts", model.parts.len(), 1, PARTS_MAX)?;
    within("duration_s", model.duration_s, 0.0, 1e10)?;
    check_sizes(model)?;
    check_counts(model)?;
    let paths = model.parts.iter().flat_map(|part| &part.states).map(|state| state.0.len());
    let deepest = paths.max().unwrap_or(0);
    if (1..=LEVEL_MAX.into()).contains(&deepest) && deepest != usize::from(model.level) {
        return wrong("level", model.level, format!("{deepest}, as the deepest range of states"));
    }
    model.parts.iter().enumerate().try_for_each(|(index, part)| {
        check_part(model, part).map_err(|mut wrong| {
            wrong.key = format!("parts[{index}].{}", wrong.key);
            wrong
        })
    })?;
    let end_s = model.parts.iter().map(Part::end_ns).max().unwrap_or(0) as f64 / 1e9;
    if (end_s - model.duration_s).abs() > DURATION_SLACK * (1.0 + end_s) {
        return wrong("duration_s", model.duration_s, format!("{end_s}, as the arrivals end"));
    }
    Ok(())
}

/// How large: volumes, and classes of requests.
fn check_sizes(model: &Model) -> Result<(), Wrong> {
    let mut mib = 0u64;
    for (index, volume) in model.volumes.iter().enumerate() {
        within(format!("volumes[{index}].extent_mib"), volume.extent_mib, 1, EXTENT_MIB_MAX)?;
        mib += volume.extent_mib;
    }
    within("volumes of extent_mib in all", mib, 1, EXTENT_MIB_MAX)?;
    let grain_bytes = model.grain_bytes;
    if !grain_bytes.is_power_of_two() || !(512..=4096).contains(&grain_bytes) {
        return wrong("grain_bytes", grain_bytes, "512, 1024, 2048 or 4096");
    }
    let bounds = &model.size_bounds_bytes;
    entries("size_bounds_bytes", bounds.len(), 0, CLASSES_MAX - 1)?;
    if bounds.windows(2).any(|pair| pair[0] >= pair[1]) {
        return wrong("size_bounds_bytes", format!("{bounds:?}"), "sizes that rise");
    }
    Ok(())
}

/// How many: of all streams, of all parts, and of the streams that have a part of their own.
fn check_counts(model: &Model) -> Result<(), Wrong> {
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
    let mut known = BTreeSet::new();
    for (index, part) in model.parts.iter().enumerate() {
        let key = |name| format!("parts[{index}].{name}");
        if !known.insert(part.stream) {
            let got = part.stream.map_or("null".to_string(), |stream| stream.to_string());
            return wrong(key("stream"), got, "each stream once, and null for the rest");
        }
        let Some(stream) = part.stream else { continue };
        within(key("stream"), stream as usize, 0, model.streams.len() - 1)?;
        let expected = model.streams[stream as usize].requests;
        if part.requests != expected {
            let expected = format!("{expected}, as its stream has");
            return wrong(key("requests"), part.requests, expected);
        }
    }
    Ok(())
}

fn check_part(model: &Model, part: &Part) -> Result<(), Wrong> {
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
    entries("heat", part.heat.len(), 0, LIST_MAX)?;
    for (index, &(first, count, _)) in part.heat.iter().enumerate() {
        within(format!("heat[{index}][0]"), u64::from(first), 0, CELLS - 1)?;
        within(format!("heat[{index}][1]"), u64::from(count), 1, CELLS - u64::from(first))?;
    }
    Ok(())
}
