//! Pages of the reports' design, for answers that are put together in Python.

use std::path::PathBuf;

use forebay::{report, words};
use forebay_trace::write::Kept;
use pyo3::prelude::*;

use crate::error::{argument, raised};

/// A page as HTML, of what the JSON text `told` says: title, verdict, headline, findings, cautions, tables, curve, bars.
#[pyfunction]
pub(crate) fn page(told: &str) -> PyResult<String> {
    let told = serde_json::from_str(told).map_err(|error| argument("page", error.to_string()))?;
    Ok(report::plain_html(&told))
}

/// A key of JSON in words, without its unit.
#[pyfunction]
pub(crate) fn key_words(key: &str) -> String {
    words::words(key)
}

/// A value in the unit that its key has and its magnitude asks for.
#[pyfunction]
pub(crate) fn shown_value(key: &str, value: f64) -> String {
    report::shown_value(key, value)
}

/// For an axis that reaches to `most`: by what the values of a key are multiplied, and what they are counted in then.
#[pyfunction]
pub(crate) fn axis_scale(key: &str, most: f64) -> (f64, &'static str) {
    words::scale(key, most)
}

/// Writes such a page to `path`, whole or not at all.
#[pyfunction]
pub(crate) fn write_page(told: &str, path: PathBuf) -> PyResult<()> {
    let draft = report::begin(&path, &Kept::default()).map_err(raised)?;
    report::write(draft, &page(told)?).map_err(raised)
}
