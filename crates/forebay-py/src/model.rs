//! The workload model: `fit` and `generate`.

use std::path::PathBuf;

use forebay::convert::{Converted, convert};
use forebay::model::fit::{FitOptions, Fitted};
use forebay::model::generate::{GenerateOptions, Generator};
use forebay::model::open::open_model;
use forebay_trace::write::{self, Draft, Kept};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{raised, warn};
use crate::options::warn_notes;
use crate::results::loads;
use crate::signals::detached;
use crate::source::Source;
use crate::trace::Trace;

/// Fits a small model of a trace (a path, a `Trace` or a table), to be shared in its place.
///
/// Returns the model as a dict, the content of the JSON file; with `output` it is written there too.
/// `level`: levels of the hierarchy of ranges, 1 to 8; without it as many as closed-loop throughput
/// needs to settle. `flat`: any range may lead to any other. `by`: "pooled" or "stream". `names` keeps
/// the names of volumes and streams. `period_s`: intensity by periods this long (the paper: 1800) and gaps
/// of the families of transitions, not the division of time.
#[pyfunction]
#[pyo3(signature = (
    trace, output=None, *, level=None, flat=false, by="pooled", keep_names=false, period_s=None, from_=None, names=None
))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn fit<'py>(
    py: Python<'py>,
    trace: &Bound<'py, PyAny>,
    output: Option<PathBuf>,
    level: Option<u8>,
    flat: bool,
    by: &str,
    keep_names: bool,
    period_s: Option<f64>,
    from_: Option<String>,
    names: Option<&Bound<'py, Trace>>,
) -> PyResult<Bound<'py, PyDict>> {
    if level.is_some_and(|level| !(1..=8).contains(&level)) {
        return Err(PyValueError::new_err("level: expected 1 to 8"));
    }
    if period_s.is_some_and(|seconds| !(1e-9..1e10).contains(&seconds)) {
        return Err(PyValueError::new_err("period_s: expected seconds above 0"));
    }
    let by_stream = match by {
        "pooled" => false,
        "stream" => true,
        _ => {
            return Err(PyValueError::new_err(format!(
                "by: got {by:?}, expected pooled or stream"
            )));
        }
    };
    let source = Source::new(trace, from_, names)?;
    let name = source.name().to_path_buf();
    let begin = |output: PathBuf| Draft::new(&output, &source.kept());
    let draft =
        output.map(begin).transpose().map_err(|error| raised(forebay::Error::output(error)))?;
    let period = period_s.map(|seconds| forebay_core::Nanos((seconds * 1e9) as u64));
    let options =
        FitOptions { level, flat, by_stream, names: keep_names, period, ..FitOptions::default() };
    let Fitted { model, notes, .. } = detached(py, |signals| {
        let go_on = |_| signals.go_on();
        forebay::model::fit::fit(&name, || source.open(), &options, go_on)
    })?;
    warn_notes(py, &name, &notes)?;
    let json = model.json();
    if let Some(draft) = draft {
        draft.fill(json.as_bytes()).map_err(|error| raised(forebay::Error::output(error)))?;
    }
    loads(py, &json)
}

/// Draws a trace from a model file and writes it to `output`: as Parquet, CSV, a fio iolog, DiskSim ascii
/// or blktrace, as the ending of its name says, or `to`.
///
/// The same `seed` gives the same bytes. `requests` or `for_s` (seconds) say how much, else as much as
/// the model was fitted on; `intensity` divides inter-arrival times. Returns the requests written.
#[pyfunction]
#[pyo3(signature = (model, output, *, seed=0, requests=None, for_s=None, intensity=1.0, to=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn generate(
    py: Python<'_>,
    model: PathBuf,
    output: PathBuf,
    seed: u64,
    requests: Option<u64>,
    for_s: Option<f64>,
    intensity: f64,
    to: Option<String>,
) -> PyResult<u64> {
    if !(1e-6..=1e6).contains(&intensity) {
        return Err(PyValueError::new_err("intensity: expected a number from 1e-6 to 1e6"));
    }
    if for_s.is_some_and(|seconds| !(1e-9..1e10).contains(&seconds)) {
        return Err(PyValueError::new_err("for_s: expected seconds above 0"));
    }
    let until = for_s.map(|seconds| forebay_core::Nanos((seconds * 1e9) as u64));
    let options = GenerateOptions { seed, requests, until, intensity };
    let Converted { records, lost } = detached(py, |signals| {
        let fitted = open_model(&model)?;
        options.expect_end(&model, &fitted)?;
        let writer = write::create(&output, to.as_deref(), &Kept::file(&model))
            .map_err(forebay::Error::output)?;
        let mut generator = Generator::new(&fitted, options);
        convert(&model, &mut generator, writer, |_| signals.go_on())
    })?;
    for what in lost {
        warn(py, format!("{}: {what}", output.display()))?;
    }
    Ok(records)
}
