//! Device files made of measurements or of DiskSim's files, and models held against measured times.

use std::path::PathBuf;

use forebay::device::{self, FitFigures};
use forebay::devices::validate::Arrivals;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::warn;
use crate::given::given;
use crate::options;
use crate::results::loads;
use crate::signals::detached;
use crate::table::json;

/// Fits a disk model to latencies that fio measured on a drive of `capacity` bytes (docs/measure-a-drive.md has the
/// jobs), whose logs are in the folder `measurements`, and writes the device file `output`.
///
/// `heads`: data surfaces, if known; it hardly matters. `name`: what to call the drive, by default as the file. The
/// dict has the keys of `forebay device fit --format json`: each fitted figure with its standard error.
#[pyfunction]
#[pyo3(signature = (measurements, output, *, capacity, heads=2, name=None))]
pub(crate) fn device_fit<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = given)] measurements: PathBuf,
    #[pyo3(from_py_with = given)] output: PathBuf,
    #[pyo3(from_py_with = given)] capacity: u64,
    #[pyo3(from_py_with = given)] heads: u32,
    #[pyo3(from_py_with = given)] name: Option<String>,
) -> PyResult<Bound<'py, PyDict>> {
    let fitted = detached(py, |_| device::fit(&measurements, capacity, heads, name, &output))?;
    device::told_of(&fitted).into_iter().try_for_each(|told| warn(py, told))?;
    loads(py, &json(&FitFigures::of(&fitted, &output))?)
}

/// Makes a device file of a DiskSim `.diskspecs` and those beside it, and writes it to `output`, if any.
///
/// A dict: the `device`'s name, its `summary`, `notes` on what was not taken over, and the device file's `text`.
#[pyfunction]
#[pyo3(signature = (file, output=None))]
pub(crate) fn device_import(
    py: Python<'_>,
    #[pyo3(from_py_with = given)] file: PathBuf,
    #[pyo3(from_py_with = given)] output: Option<PathBuf>,
) -> PyResult<Bound<'_, PyDict>> {
    let imported = detached(py, |_| device::import(&file, output.as_deref()))?;
    let said = PyDict::new(py);
    said.set_item("device", imported.device)?;
    said.set_item("summary", imported.summary)?;
    said.set_item("notes", imported.notes)?;
    said.set_item("text", imported.text)?;
    Ok(said)
}

/// Plays a DiskSim validation trace on the disk `device` (a bundled name or a device file) and says how near its
/// service times are to the measured ones.
///
/// `arrivals`: "simulated" (a gap after the simulated completion) or "measured". The dict has the keys of
/// `forebay device validate --format json`.
#[pyfunction]
#[pyo3(signature = (device, trace, *, arrivals="simulated"))]
pub(crate) fn device_validate<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = given)] device: PathBuf,
    #[pyo3(from_py_with = given)] trace: PathBuf,
    #[pyo3(from_py_with = given)] arrivals: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let arrivals = options::word::<Arrivals>("arrivals", arrivals)?;
    let device = device.to_string_lossy().into_owned();
    let (validation, told) = detached(py, |_| device::validate(&device, &trace, arrivals))?;
    told.into_iter().try_for_each(|told| warn(py, told))?;
    loads(py, &json(&validation)?)
}
