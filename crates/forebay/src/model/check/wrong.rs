//! What is wrong with a model, and the questions that are asked of every number.

use std::fmt::Debug;

use super::super::state::Range;
use crate::quantities::counted;

/// What is wrong with a model.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) key: String,
    pub(super) got: String,
    pub(super) expected: String,
}

pub(super) fn wrong(
    key: impl Into<String>,
    got: impl ToString,
    expected: impl Into<String>,
) -> Result<(), Wrong> {
    Err(Wrong { key: key.into(), got: got.to_string(), expected: expected.into() })
}

/// Numbers are shown as JSON has them: large ones by their exponent.
pub(super) fn within<T: PartialOrd + Debug>(
    key: impl Into<String>,
    value: T,
    low: T,
    high: T,
) -> Result<(), Wrong> {
    if value >= low && value <= high {
        return Ok(());
    }
    wrong(key, format!("{value:?}"), format!("{low:?} to {high:?}"))
}

/// Whether a list has as many entries as it may.
pub(super) fn entries(
    key: impl Into<String>,
    count: usize,
    low: usize,
    high: usize,
) -> Result<(), Wrong> {
    if (low..=high).contains(&count) {
        return Ok(());
    }
    let expected = match low == high {
        true => format!("{low} of them"),
        false => format!("{low} to {high} of them"),
    };
    wrong(key, format!("of {}", counted(count as u64, "entry")), expected)
}

/// Counts that are not all zero.
pub(super) fn some(key: String, counts: &[u32]) -> Result<(), Wrong> {
    if counts.iter().any(|&count| count > 0) { Ok(()) } else { wrong(key, "zeros", "a count") }
}

/// The range of a path, at the level it has to be.
pub(super) fn range(
    key: String,
    path: &str,
    levels: std::ops::RangeInclusive<u8>,
) -> Result<(), Wrong> {
    match Range::parse(path) {
        Some(range) if levels.contains(&range.level()) => Ok(()),
        _ => wrong(
            key,
            format!("{:?}", path.chars().take(20).collect::<String>()),
            format!("a digit 0 to 3 for each of {} to {} levels", levels.start(), levels.end()),
        ),
    }
}
