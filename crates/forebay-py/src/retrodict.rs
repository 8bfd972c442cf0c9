//! `retrodict`: a model held against the recording.

use std::path::PathBuf;

use forebay::input::Input;
use forebay::simulate::Bed;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::raised;
use crate::given::given;
use crate::options::{self, warn_notes};
use crate::results::loads;
use crate::signals::detached;
use crate::source::Source;
use crate::table::json;
use crate::trace::Trace;

/// Simulates the system that recorded a trace (a path, a `Trace` or a table), the disk `device` under the scheduler
/// `policy`, and holds what comes of it against the recorded latencies.
///
/// A dict: `requests` that are judged, `requests_unmeasured`, `is_overloaded` (the model cannot keep up, so that its times
/// are a backlog's), `reads` and `writes` (p50 and p99, recorded and modelled, and the errors: modelled over recorded, less
/// 1), `outstanding` (requests outstanding in each second: the mean absolute error and the correlation). A trace
/// without latencies is refused. The other options are those of `simulate`.
#[pyfunction]
#[pyo3(signature = (
    trace, *, device, policy="mq-deadline", disks=1, replay="open", map="scale", stream_by="thread", from_=None,
    names=None,
))]
#[allow(clippy::too_many_arguments)] // They are keywords.
pub(crate) fn retrodict<'py>(
    py: Python<'py>,
    trace: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = given)] device: PathBuf,
    #[pyo3(from_py_with = given)] policy: &str,
    #[pyo3(from_py_with = given)] disks: u16,
    #[pyo3(from_py_with = given)] replay: &str,
    #[pyo3(from_py_with = given)] map: &str,
    #[pyo3(from_py_with = given)] stream_by: &str,
    #[pyo3(from_py_with = given)] from_: Option<String>,
    names: Option<&Bound<'py, Trace>>,
) -> PyResult<Bound<'py, PyDict>> {
    let source = Source::new(trace, from_, names)?;
    let device = options::device(&device)?;
    let setup = options::setup(replay, 1.0, map)?;
    let by = options::stream_by(stream_by)?;
    let disks = options::disks(disks)?;
    let (name, bed) = (source.name().to_path_buf(), Bed { disks, ..Bed::of(&device) });
    bed.check(policy).map_err(raised)?;
    let (answer, notes) = detached(py, |signals| {
        let input = Input::read_from(&name, source.opening(), by, &mut |_| signals.go_on())?;
        let go_on = &mut |_| signals.go_on();
        let answer = forebay::retrodict::retrodict(&input, bed, policy, setup, go_on)?;
        Ok((answer, input.notes))
    })?;
    warn_notes(py, &name, &notes)?;
    loads(py, &json(&answer)?)
}
