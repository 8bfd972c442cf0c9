//! The reports of the verbs: HTML pages that work offline.
//!
//! Invariants: the page refers to nothing outside itself, and the one script that it may hold (zoom in time) is its own
//! and could be left out; every text from outside is escaped; no figure is printed that is not a number; the page is well-formed XML and
//! its size has a bound that does not depend on the trace. Pictures are SVG written here, not by a
//! plotting library, because their colours follow the reader's light or dark scheme.

mod claims;
mod plain;

pub use claims::{ClaimCard, ClaimGroup, ClaimVerdict};
pub use plain::{
    AlongUnit, PlainBar, PlainBars, PlainCell, PlainCurve, PlainLine, PlainPage, PlainTable,
};

use std::io::Read;
use std::path::Path;

use forebay_trace::TraceError;
use forebay_trace::write::{Draft, Kept};

use crate::error::Error;
use crate::words;

/// A value of JSON as pages have it: [`words::shown`] in print's figures.
pub fn shown_value(key: &str, value: f64) -> String {
    forebay_show::html::text::typeset(&words::shown(key, value))
}

/// A page of sentences and tables that were put together elsewhere.
pub fn plain_html(told: &PlainPage) -> String {
    plain::page(told)
}

/// Begins the report that will be called `path`, before the work that it tells of; it has its name
/// only when it is whole. None of `kept` is ever written over, nor a file that is no page.
pub fn begin(path: &Path, kept: &Kept) -> Result<Draft, Error> {
    let draft = Draft::new(path, kept).map_err(cannot)?;
    match is_page_or_new(path) {
        true => Ok(draft),
        false => Err(Error::Unfit(format!(
            "{}: got a file that is no page, expected a new name or that of a page to be replaced",
            path.display()
        ))),
    }
}

/// Whether a report may have this name: it is free, or that of a page or of an empty file.
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
