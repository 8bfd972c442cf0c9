//! The verbs, each under the name it has on the command line.

use std::path::PathBuf;

use forebay::defragment::study;
use forebay::input::Input;
use forebay::simulate::{Bed, LeastTime};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::raised;
use crate::given::given;
use crate::options::{self, Policies, warn_notes};
use crate::results::loads;
use crate::signals::detached;
use crate::source::Source;
use crate::table::json;
use crate::trace::Trace;

/// What laying blocks of a trace (a path, a `Trace` or a table) in the order they are read would gain
/// and cost on the disk `device` under `policy`.
///
/// Learnt on the first half of the requests: `held_out` is the effect on the rest, `in_sample` on the
/// half itself. The dict is that of `defragmentation` in `forebay simulate --defragment --format json`.
#[pyfunction]
#[pyo3(signature = (
    trace, *, device, policy="noop", replay="open", intensity=1.0, map="scale", stream_by="thread",
    from_=None, names=None,
))]
#[allow(clippy::too_many_arguments)] // They are keywords.
pub(crate) fn defragment<'py>(
    py: Python<'py>,
    trace: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = given)] device: PathBuf,
    #[pyo3(from_py_with = given)] policy: &str,
    #[pyo3(from_py_with = given)] replay: &str,
    #[pyo3(from_py_with = given)] intensity: f64,
    #[pyo3(from_py_with = given)] map: &str,
    #[pyo3(from_py_with = given)] stream_by: &str,
    #[pyo3(from_py_with = given)] from_: Option<String>,
    names: Option<&Bound<'py, Trace>>,
) -> PyResult<Bound<'py, PyDict>> {
    let source = Source::new(trace, from_, names)?;
    let device = options::device(&device)?;
    let setup = options::setup(replay, intensity, map)?;
    let by = options::stream_by(stream_by)?;
    let (name, bed) = (source.name().to_path_buf(), Bed::of(&device));
    bed.check(policy).map_err(raised)?;
    let (answer, notes) = detached(py, |signals| {
        let input = Input::read_from(&name, source.opening(), by, &mut |_| signals.go_on())?;
        let answer = study(&input, bed, policy, setup, &mut |_| signals.go_on())?;
        Ok((answer, input.notes))
    })?;
    warn_notes(py, &name, &notes)?;
    loads(py, &json(&answer)?)
}

/// What order alone could gain on a trace (a path, a `Trace` or a table): the best order of the I/Os
/// of small windows, found by search, beside each scheduler of `policies` on the same requests.
///
/// A list of dicts, one for each of `windows` windows of `ios` I/Os (12 at most), evenly over the
/// trace: `requests`, `ios` (neighbours joined), `transfer_bound_s`, `best_s` and `makespan_s`, a
/// dict by policy. All requests of a window are there from its start. The other options are those of
/// `simulate`.
#[pyfunction]
#[pyo3(signature = (
    trace, *, device, policies, windows=50, ios=8, stream_by="thread", from_=None, names=None,
))]
#[allow(clippy::too_many_arguments)] // They are keywords.
pub(crate) fn offline<'py>(
    py: Python<'py>,
    trace: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = given)] device: PathBuf,
    #[pyo3(from_py_with = Policies::given)] policies: Policies,
    #[pyo3(from_py_with = given)] windows: usize,
    #[pyo3(from_py_with = given)] ios: usize,
    #[pyo3(from_py_with = given)] stream_by: &str,
    #[pyo3(from_py_with = given)] from_: Option<String>,
    names: Option<&Bound<'py, Trace>>,
) -> PyResult<Bound<'py, PyAny>> {
    let source = Source::new(trace, from_, names)?;
    let device = options::device(&device)?;
    let policies = policies.each(Bed::of(&device))?;
    let by = options::stream_by(stream_by)?;
    let (input, found) = detached(py, |signals| {
        let name = source.name().to_path_buf();
        let input = Input::read_from(&name, source.opening(), by, &mut |_| signals.go_on())?;
        let found = forebay::offline::windows(&input, &device, &policies, windows, ios)?;
        Ok((input, found))
    })?;
    warn_notes(py, &input.path, &input.notes)?;
    py.import("json")?.call_method1("loads", (json(&found)?,))
}

/// What no order of a trace's requests can beat on the plain disk `device` (a path, a `Trace` or a table; the other
/// options are those of `simulate`): a dict of `makespan_s` and `busy_s`, or `None` where there is no such bound: on
/// another device, or of a trace of more than 16 Mi requests.
#[pyfunction]
#[pyo3(signature = (
    trace, *, device, replay="open", intensity=1.0, map="scale", stream_by="thread", from_=None, names=None,
))]
#[allow(clippy::too_many_arguments)] // They are keywords.
pub(crate) fn least_time<'py>(
    py: Python<'py>,
    trace: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = given)] device: PathBuf,
    #[pyo3(from_py_with = given)] replay: &str,
    #[pyo3(from_py_with = given)] intensity: f64,
    #[pyo3(from_py_with = given)] map: &str,
    #[pyo3(from_py_with = given)] stream_by: &str,
    #[pyo3(from_py_with = given)] from_: Option<String>,
    names: Option<&Bound<'py, Trace>>,
) -> PyResult<Bound<'py, PyAny>> {
    let source = Source::new(trace, from_, names)?;
    let device = options::device(&device)?;
    let setup = options::setup(replay, intensity, map)?;
    let by = options::stream_by(stream_by)?;
    let (input, found) = detached(py, |signals| {
        let name = source.name().to_path_buf();
        let input = Input::read_from(&name, source.opening(), by, &mut |_| signals.go_on())?;
        let found = LeastTime::of(&input, Bed::of(&device), setup)?;
        Ok((input, found))
    })?;
    warn_notes(py, &input.path, &input.notes)?;
    py.import("json")?.call_method1("loads", (json(&found)?,))
}
