//! The verbs `fit` and `generate`.

use std::path::PathBuf;

use forebay::convert::Converted;
use forebay::model::check;
use forebay::model::fit::FitOptions;
use forebay::model::generate::{GenerateOptions, Generator};
use forebay_trace::write;
use pyo3::prelude::*;

use crate::error::{argument, warn};
use crate::options::warn_notes;
use crate::signals::detached;
use crate::source::Source;
use crate::trace::Trace;

/// Sizes that are told apart, as the command has it.
const COMMON_SIZES: usize = 3;
/// Levels of the hierarchy of ranges at most.
const LEVEL_MAX: u8 = 8;

/// Fits a small model of a trace (a path, a `Trace` or a table), to be shared in its place, and writes
/// it to the JSON file `output`.
///
/// `level`: how many times ranges of the disk are divided in four. `flat` lets any range lead to any
/// other, not only to its siblings.
#[pyfunction]
#[pyo3(signature = (trace, output, *, level=2, flat=false, from_=None, names=None))]
pub(crate) fn fit(
    py: Python<'_>,
    trace: &Bound<'_, PyAny>,
    output: PathBuf,
    level: u8,
    flat: bool,
    from_: Option<String>,
    names: Option<&Bound<'_, Trace>>,
) -> PyResult<()> {
    let source = Source::new(trace, from_, names)?;
    if !(1..=LEVEL_MAX).contains(&level) {
        return Err(argument("level", format!("got {level}, expected 1 to {LEVEL_MAX}")));
    }
    let options = FitOptions { level, flat, common_sizes: COMMON_SIZES };
    let name = source.name().to_path_buf();
    let (model, notes) = detached(py, |signals| {
        forebay::model::fit::fit(&name, || source.open(), &options, |_| signals.go_on())
    })?;
    warn_notes(py, &name, &notes)?;
    std::fs::write(&output, model.json()).map_err(PyErr::from)
}

/// Draws a trace from the file of a model, the twin of the trace it was fitted on, and writes it to
/// `output`, in the format that the ending of its name says, or `to`.
///
/// The same `seed` gives the same bytes. `requests`: how many, if not as many as the model was fitted
/// on. Returns the requests written.
#[pyfunction]
#[pyo3(signature = (model, output, *, seed=0, requests=None, to=None))]
pub(crate) fn generate(
    py: Python<'_>,
    model: PathBuf,
    output: PathBuf,
    seed: u64,
    requests: Option<u64>,
    to: Option<String>,
) -> PyResult<u64> {
    if requests == Some(0) {
        return Err(argument("requests", "got 0, expected at least 1".to_string()));
    }
    let Converted { records, lost } = detached(py, |signals| {
        let read = check::read(&model)?;
        let writer =
            write::create(&output, to.as_deref(), Some(&model)).map_err(forebay::Error::output)?;
        let options = GenerateOptions { seed, requests, ..GenerateOptions::default() };
        let mut generator = Generator::new(&read, options);
        forebay::convert::convert(&model, &mut generator, writer, |_| signals.go_on())
    })?;
    for what in lost {
        warn(py, format!("{}: {what}", output.display()))?;
    }
    Ok(records)
}
