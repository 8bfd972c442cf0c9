//! The workload model: `fit` and `generate`.

use std::path::PathBuf;

use forebay::convert::{Converted, convert};
use forebay::fio_job;
use forebay::model::fit::{Detail, FitOptions, Fitted, LEVEL_MAX};
use forebay::model::judge::{Judged, judge};
use forebay::model::open::{expect_end, open_model};
use forebay::progress::Told;
use forebay_ask::positive_duration as span;
use forebay_model::generate::{GenerateOptions, Generator, Mechanism, Mechanisms};
use forebay_trace::write::{self, Draft, Kept};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{Error, argument, raised, warn};
use crate::given::{given, several_or_none};
use crate::options::warn_notes;
use crate::signals::detached;
use crate::source::Source;
use crate::trace::Trace;

/// Fits a small model of a trace (a path, a `Trace` or a table), to be shared in its place.
///
/// Writes it to `output`, if any, and returns what there is to say of it as a dict: its size, what it
/// reveals, and unless `verdict` is false what a twin of it stands in for, by the first 100,000 requests of both.
/// `level`: levels of the hierarchy of ranges, 1 to 4. `flat`: any range may lead to any other. `keep_names` keeps the
/// names of volumes and streams. `budget_kib`: how large it may be. `epochs` and `blocks` say how many parts of the
/// trace and blocks of arrivals are told apart.
#[pyfunction]
#[pyo3(signature = (
    trace, output=None, *, level=None, flat=false, keep_names=false, budget_kib=None, verdict=true,
    epochs=None, blocks=None, from_=None, names=None
))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn fit<'py>(
    py: Python<'py>,
    trace: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = given)] output: Option<PathBuf>,
    #[pyo3(from_py_with = given)] level: Option<u8>,
    #[pyo3(from_py_with = given)] flat: bool,
    #[pyo3(from_py_with = given)] keep_names: bool,
    #[pyo3(from_py_with = given)] budget_kib: Option<u32>,
    #[pyo3(from_py_with = given)] verdict: bool,
    #[pyo3(from_py_with = given)] epochs: Option<u32>,
    #[pyo3(from_py_with = given)] blocks: Option<u32>,
    #[pyo3(from_py_with = given)] from_: Option<String>,
    names: Option<&Bound<'py, Trace>>,
) -> PyResult<Bound<'py, PyDict>> {
    if level.is_some_and(|level| !(1..=LEVEL_MAX).contains(&level)) {
        return Err(Error::new_err(format!(
            "level: got {}, expected 1 to {LEVEL_MAX}",
            level.unwrap_or_default()
        )));
    }
    if budget_kib.is_some_and(|kib| !(1..=16_384).contains(&kib)) {
        return Err(Error::new_err("budget_kib: expected 1 to 16384"));
    }
    let source = Source::new(trace, from_, names)?;
    let name = source.name().to_path_buf();
    let begin = |output: PathBuf| Draft::new(&output, &source.kept());
    let draft =
        output.map(begin).transpose().map_err(|error| raised(forebay::Error::output(error)))?;
    let standard = Detail::default();
    let detail = Detail {
        level,
        flat,
        epochs: epochs.map_or(standard.epochs, u64::from),
        blocks: blocks.map_or(standard.blocks, u64::from),
    };
    let budget_bytes = budget_kib.map(|kib| kib as usize * 1024);
    let options = FitOptions { detail, names: keep_names, budget_bytes };
    let (Fitted { model, file, notes }, verdict) = detached(py, |signals| {
        let fitted =
            forebay::model::fit::fit(&name, || source.open(), &options, &mut |_| signals.go_on())?;
        let opening = verdict.then(|| source.opening());
        let judge = |opening| judge(&name, opening, &fitted.model, &mut |_: &Told| signals.go_on());
        let judged = opening.map(judge).transpose()?;
        Ok((fitted, judged))
    })?;
    warn_notes(py, &name, &notes)?;
    if let Some(draft) = draft {
        draft.fill(&file).map_err(|error| raised(forebay::Error::output(error)))?;
    }
    let said = PyDict::new(py);
    said.set_item("model_bytes", file.len())?;
    said.set_item("requests", model.requests)?;
    said.set_item("duration_s", model.duration_ns() as f64 / 1e9)?;
    said.set_item("level", model.volumes.level)?;
    said.set_item("ranges", model.volumes.ranges())?;
    said.set_item("classes", model.classes())?;
    said.set_item("transitions", model.transitions())?;
    said.set_item("reveals", model.reveals())?;
    said.set_item("stands_in", verdict.as_ref().map(Judged::stands_in))?;
    Ok(said)
}

/// Draws a trace from a model file and writes it to `output`: as Parquet, CSV, a fio iolog, DiskSim ascii
/// or blktrace, as the ending of its name says, or `to`. A name that ends in `.fio`, or `to="fio-job"`, is a fio job with the
/// means of what is drawn.
///
/// The same `seed` gives the same bytes. `requests` or `for_` ("90s", "30m", "1h") say how much, else as much as
/// the model was fitted on; `intensity` divides inter-arrival times; `without` names mechanisms
/// of the model to leave out. Returns the requests written.
#[pyfunction]
#[pyo3(signature = (model, output, *, seed=0, requests=None, for_=None, intensity=1.0, to=None, without=None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn generate(
    py: Python<'_>,
    #[pyo3(from_py_with = given)] model: PathBuf,
    #[pyo3(from_py_with = given)] output: PathBuf,
    #[pyo3(from_py_with = given)] seed: u64,
    #[pyo3(from_py_with = given)] requests: Option<u64>,
    #[pyo3(from_py_with = given)] for_: Option<String>,
    #[pyo3(from_py_with = given)] intensity: f64,
    #[pyo3(from_py_with = given)] to: Option<String>,
    #[pyo3(from_py_with = several_or_none)] without: Option<Vec<String>>,
) -> PyResult<u64> {
    let mechanisms = mechanisms(without.unwrap_or_default())?;
    if !(1e-6..=1e6).contains(&intensity) {
        return Err(Error::new_err("intensity: expected a number from 1e-6 to 1e6"));
    }
    if requests.is_some() && for_.is_some() {
        return Err(argument("requests, for_", "expected one of them at most".into()));
    }
    if requests == Some(0) {
        return Err(argument("requests", "got 0, expected 1 at least".into()));
    }
    let until = for_.as_deref().map(span).transpose();
    let until = until.map_err(|error| argument("for_", error))?;
    let options = GenerateOptions { seed, requests, until, intensity, mechanisms };
    let Converted { records, lost } = detached(py, |signals| {
        let fitted = open_model(&model)?;
        expect_end(&model, &fitted, &options)?;
        let (mut generator, kept) = (Generator::new(&fitted, options), Kept::file(&model));
        if fio_job::is_asked(&output, to.as_deref()) {
            let draft = Draft::new(&output, &kept).map_err(forebay::Error::output)?;
            let records = fio_job::write(&model, &mut generator, draft, &mut |_| signals.go_on())?;
            return Ok(Converted { records, lost: Vec::new() });
        }
        let writer =
            write::create(&output, to.as_deref(), &kept).map_err(forebay::Error::output)?;
        convert(&model, &mut generator, writer, &mut |_| signals.go_on())
    })?;
    for what in lost {
        warn(py, format!("{}: {what}", output.display()))?;
    }
    Ok(records)
}

fn mechanisms(without: Vec<String>) -> PyResult<Mechanisms> {
    without.iter().try_fold(Mechanisms::default(), |on, name| {
        let found = Mechanism::ALL.into_iter().find(|mechanism| mechanism.name() == name);
        let names = || Mechanism::ALL.map(Mechanism::name).join(", ");
        found.map(|off| on.without(off)).ok_or_else(|| {
            Error::new_err(format!("without: got {name:?}, expected some of {}", names()))
        })
    })
}
