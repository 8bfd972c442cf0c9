//! The HTML reports of the verbs, which work offline.
//!
//! Invariants: a page refers to nothing outside itself, and its only script (for zooming in time)
//! is our own and optional. All text from outside is escaped. Only finite numbers are printed. The
//! page is well-formed XML, and its size is bounded regardless of the trace. Charts are SVG
//! generated here, not by a plotting library, so that their colors follow the reader's light or
//! dark scheme.

mod claims;
mod plain;

pub use claims::{ClaimCard, ClaimGroup, ClaimVerdict};
pub use plain::{
    AlongUnit, PlainBar, PlainBars, PlainCell, PlainCurve, PlainLine, PlainPage, PlainTable,
};

use std::io::Read;
use std::path::Path;

use forebay_trace::TraceError;
use forebay_trace::write::{Draft, ProtectedFiles};

use crate::{Error, words};

/// Formats a JSON value like [`words::shown`], but with typographic digits for pages.
pub fn shown_value(key: &str, value: f64) -> String {
    forebay_show::html::text::typeset(&words::shown(key, value))
}

/// Renders a page of sentences and tables that the caller has assembled.
pub fn plain_html(told: &PlainPage) -> String {
    plain::page(told)
}

/// Reserves the report's `path` before the work that the report describes, so that an unwritable
/// path fails early. The file appears under its name only when it is complete. Never overwrites any
/// of `kept`, or a file that is not a report.
pub fn begin(path: &Path, kept: &ProtectedFiles) -> Result<Draft, Error> {
    let draft = Draft::new(path, kept).map_err(cannot)?;
    match is_page_or_new(path) {
        true => Ok(draft),
        false => Err(Error::Unfit(format!(
            "{}: got an existing file that is not a report, expected a new name or a report to \
             replace",
            path.display()
        ))),
    }
}

/// Returns whether a report may be written to this path: no file exists there, or the file is empty
/// or a report.
fn is_page_or_new(path: &Path) -> bool {
    let mut begins = [0; 9];
    let read = std::fs::File::open(path).and_then(|mut file| file.read(&mut begins));
    read.map_or(true, |read| begins[..read].eq_ignore_ascii_case(&b"<!DOCTYPE"[..read]))
}

/// Writes the report to a path reserved by [`begin`].
pub fn write(draft: Draft, html: &str) -> Result<(), Error> {
    draft.fill(html.as_bytes()).map_err(cannot)
}

fn cannot(error: TraceError) -> Error {
    match error {
        TraceError::Io { path, source } => Error::Report { path, source },
        usage => Error::Trace(usage),
    }
}
