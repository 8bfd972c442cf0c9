//! What there is to name: `devices()` and `policies()`.

use std::path::PathBuf;

use forebay::listings::{self, ListedDevice};
use pyo3::prelude::*;

use crate::error::raised;
use crate::given::given;
use crate::options;
use crate::table::json;

fn dicts<'py>(py: Python<'py>, rows: &impl serde::Serialize) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (json(rows)?,))
}

/// The bundled devices, or those that are named, as `forebay devices --format json` has them: a list of dicts with
/// `device`, `description`, `summary`, and which of its figures are assumed or derived.
#[pyfunction]
#[pyo3(signature = (*names))]
pub(crate) fn devices<'py>(
    py: Python<'py>,
    names: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let found = match names.is_empty() {
        true => forebay::devices::list().map_err(|error| raised(error.into()))?,
        false => (names.iter().map(|name| options::device(&given::<PathBuf>(name)?)))
            .collect::<PyResult<_>>()?,
    };
    dicts(py, &found.into_iter().map(ListedDevice::of).collect::<Vec<_>>())
}

/// Every policy that can be asked for, or those that are named, as `forebay policies --format json` has them: a list of
/// dicts with `policy`, `kind`, `summary`, `parameters`, and what each of them does in `described`.
#[pyfunction]
#[pyo3(signature = (*names))]
pub(crate) fn policies<'py>(
    py: Python<'py>,
    names: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let names: Vec<String> = names.iter().map(given::<String>).collect::<PyResult<_>>()?;
    let found = listings::policies_named(&names).map_err(|error| raised(error.into()))?;
    dicts(py, &found)
}
