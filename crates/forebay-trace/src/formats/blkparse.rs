//! Text output of blkparse, either in its default format, with one event per line (`maj,min cpu
//! sequence seconds pid action RWBS sector + count [process]`), or in a format chosen by the user
//! ([`template`]).
//!
//! Units: seconds with nine decimals, sectors of 512 bytes. Epoch: the first request. Comment lines
//! (`#`) and the summary that blkparse appends are recognized and skipped. The text contains the
//! same events as the binary files, so requests and latencies are derived in the same way.

mod line;
mod template;

use super::Input;
use super::events::text::{self, EventLine, Line, Unreadable, Words};
use crate::{Place, Reader, TraceError};
pub(in crate::formats) use line::event;
use template::Template;

/// The default format of blkparse.
struct Blkparse;

impl EventLine for Blkparse {
    const NAME: &'static str = "blkparse";
    const LAYOUT: &'static str = "blkparse's default format, maj,min cpu sequence seconds pid action RWBS \u{2026}; for the \
         output of blkparse -f, name its format string";

    fn parse<'a>(&mut self, line: &'a [u8]) -> Result<Line<'a>, Unreadable> {
        line::parse(line)
    }

    fn is_insert(&self, line: &[u8]) -> bool {
        Words(line).nth(5) == Some(&b"I"[..])
    }
}

pub(crate) fn sniff(head: &[u8]) -> bool {
    text::sniff(Blkparse, head)
}

/// Opens the output of blkparse, in the format stated by the input's parameter.
///
/// # Errors
/// Fails if the format string lacks fields that are required.
pub(crate) fn open(input: Input) -> Result<Box<dyn Reader>, TraceError> {
    let Some(format) = &input.parameter else { return Ok(text::open(Blkparse, input)) };
    match Template::new(format) {
        Ok(template) => Ok(text::open(template, input)),
        Err(expected) => Err(TraceError::Malformed {
            path: input.path,
            place: Place::File,
            got: format!("blkparse's format string {format:?}"),
            expected,
            hint: "the string must be the one that was passed to blkparse -f".into(),
        }),
    }
}

#[cfg(test)]
mod tests;
