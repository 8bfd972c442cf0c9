//! Device files made of measurements or of DiskSim's files, and models held against measured times.

use std::path::PathBuf;

use forebay::device::{self, DriveKind, Fit, FitFigures, FitOptions};
use forebay::devices::validate::Arrivals;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::error::warn;
use crate::given::given;
use crate::options;
use crate::results::loads;
use crate::signals::detached;
use crate::table::json;

/// Fits a drive model to what fio measured, and writes the device file `output`.
///
/// `measurements`: fio's results at several queue depths (`--output-format=json`), as one file or folder or a list of
/// them, make a disk or a solid-state drive; a folder of latency logs makes a disk (docs/measure-a-drive.md has both
/// jobs). `capacity`: the drive's size in bytes, which logs need. `heads`: data surfaces, if known; it hardly matters.
/// `kind`: "hdd" or "ssd", by default what the rates say. `name`: what to call the drive, by default as the file. The
/// dict has the keys of `forebay device fit --format json`: of a sweep each row's error, of logs each figure with its
/// standard error.
#[pyfunction]
#[pyo3(signature = (measurements, output, *, capacity=None, heads=None, name=None, kind=None))]
pub(crate) fn device_fit<'py>(
    py: Python<'py>,
    measurements: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = given)] output: PathBuf,
    #[pyo3(from_py_with = given)] capacity: Option<u64>,
    #[pyo3(from_py_with = given)] heads: Option<u32>,
    #[pyo3(from_py_with = given)] name: Option<String>,
    #[pyo3(from_py_with = given)] kind: Option<String>,
) -> PyResult<Bound<'py, PyDict>> {
    let measurements = paths(measurements)?;
    let kind = kind.map(|kind| options::word::<DriveKind>("kind", &kind)).transpose()?;
    let options = FitOptions { capacity_bytes: capacity, heads, name, kind };
    match detached(py, |_| device::fit(&measurements, &options, &output))? {
        Fit::Logs(fitted) => {
            device::told_of(&fitted).into_iter().try_for_each(|told| warn(py, told))?;
            loads(py, &json(&FitFigures::of(&fitted, &output))?)
        }
        Fit::Sweep(figures) => {
            figures.notes.iter().try_for_each(|told| warn(py, told.clone()))?;
            loads(py, &json(&figures)?)
        }
    }
}

/// One path, or a list of them.
fn paths(measured: &Bound<'_, PyAny>) -> PyResult<Vec<PathBuf>> {
    match measured.cast::<PyList>() {
        Ok(list) => list.iter().map(|path| given::<PathBuf>(&path)).collect(),
        Err(_) => Ok(vec![given::<PathBuf>(measured)?]),
    }
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

/// Compares the model `device` (a bundled name or a device file) with what was measured on the drive.
///
/// `trace`: fio's results at several queue depths (files that end in .json, or folders of them; a list for several),
/// which are measured again on the model; or a DiskSim validation trace, which is played. `arrivals`, of a trace:
/// "simulated" (a gap after the simulated completion) or "measured". The dict has the keys of
/// `forebay device validate --format json`.
#[pyfunction]
#[pyo3(signature = (device, trace, *, arrivals="simulated"))]
pub(crate) fn device_validate<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = given)] device: PathBuf,
    trace: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = given)] arrivals: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let arrivals = options::word::<Arrivals>("arrivals", arrivals)?;
    let device = device.to_string_lossy().into_owned();
    let measured = paths(trace)?;
    let (compared, told) = detached(py, |_| device::compare(&device, &measured, arrivals))?;
    told.into_iter().try_for_each(|told| warn(py, told))?;
    loads(py, &json(&compared)?)
}
