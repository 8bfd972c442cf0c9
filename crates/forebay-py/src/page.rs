//! Renders report pages for results that Python code assembles.

use std::path::PathBuf;

use forebay::{report, words};
use forebay_trace::write::ProtectedFiles;
use pyo3::prelude::*;

use crate::error::{argument, raised};

/// Renders the JSON text `told` as an HTML page. Its keys are title, verdict, headline, findings,
/// cautions, tables, curve and bars.
#[pyfunction]
pub(crate) fn page(told: &str) -> PyResult<String> {
    let told = serde_json::from_str(told).map_err(|error| argument("page", error.to_string()))?;
    Ok(report::plain_html(&told))
}

/// Converts a JSON key to words, without its unit.
#[pyfunction]
pub(crate) fn key_words(key: &str) -> String {
    words::words(key)
}

/// Formats a value with the unit from its key, scaled to its magnitude.
#[pyfunction]
pub(crate) fn shown_value(key: &str, value: f64) -> String {
    report::shown_value(key, value)
}

/// Returns the factor and the unit for an axis that ends at `most`.
#[pyfunction]
pub(crate) fn axis_scale(key: &str, most: f64) -> (f64, &'static str) {
    words::scale(key, most)
}

/// Writes the page to `path` atomically.
#[pyfunction]
pub(crate) fn write_page(told: &str, path: PathBuf) -> PyResult<()> {
    let draft = report::begin(&path, &ProtectedFiles::default()).map_err(raised)?;
    report::write(draft, &page(told)?).map_err(raised)
}
