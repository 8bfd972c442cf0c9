//! Pages of the report's design for answers that are put together in Python.

use forebay::report;
use pyo3::prelude::*;

use crate::error::argument;

/// A page as HTML, of what the JSON text `told` says: title, verdict, headline, findings, cautions, tables, curve.
#[pyfunction]
pub(crate) fn page(told: &str) -> PyResult<String> {
    let told = serde_json::from_str(told).map_err(|error| argument("page", error.to_string()))?;
    Ok(report::plain_html(&told))
}
