//! The HTML reports of the verbs, which work offline.
//!
//! Invariants: a page refers to nothing outside itself, and its only script (zoom in time) is our
//! own and optional. Every text from outside is escaped. Only finite numbers are printed. The page
//! is well-formed XML, and its size has a bound that does not depend on the trace. Charts are SVG
//! written here, not by a plotting library, so that their colors follow the reader's light or dark
//! scheme.

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

use crate::error::Error;
use crate::words;

/// Formats a JSON value for pages: [`words::shown`] with typographic digits.
pub fn shown_value(key: &str, value: f64) -> String {
    forebay_show::html::text::typeset(&words::shown(key, value))
}

/// Makes a page from sentences and tables that were assembled elsewhere.
pub fn plain_html(told: &PlainPage) -> String {
    plain::page(told)
}

/// Begins the report `path` before the work that it describes; the file appears under its name only
/// when it is complete. Never overwrites any of `kept`, or a file that is not a page.
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

/// Returns whether a report may use this path: it is free, or has a page or an empty file.
fn is_page_or_new(path: &Path) -> bool {
    let mut begins = [0; 9];
    let read = std::fs::File::open(path).and_then(|mut file| file.read(&mut begins));
    read.map_or(true, |read| begins[..read].eq_ignore_ascii_case(&b"<!DOCTYPE"[..read]))
}

/// Writes a report that was begun.
pub fn write(draft: Draft, html: &str) -> Result<(), Error> {
    draft.fill(html.as_bytes()).map_err(cannot)
}

fn cannot(error: TraceError) -> Error {
    match error {
        TraceError::Io { path, source } => Error::Report { path, source },
        usage => Error::Trace(usage),
    }
}
