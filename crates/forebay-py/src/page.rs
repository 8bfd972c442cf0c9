//! Pages of the report's design for answers that are put together in Python.

use std::path::PathBuf;

use forebay::report;
use forebay_trace::write::Kept;
use pyo3::prelude::*;

use crate::error::{argument, raised};

/// A page as HTML, of what the JSON text `told` says: title, verdict, headline, findings, cautions, tables, curve, bars.
#[pyfunction]
pub(crate) fn page(told: &str) -> PyResult<String> {
    let told = serde_json::from_str(told).map_err(|error| argument("page", error.to_string()))?;
    Ok(report::plain_html(&told))
}

/// Writes such a page to `path`, whole or not at all.
#[pyfunction]
pub(crate) fn write_page(told: &str, path: PathBuf) -> PyResult<()> {
    let draft = report::begin(&path, &Kept::default()).map_err(raised)?;
    report::write(draft, &page(told)?).map_err(raised)
}
