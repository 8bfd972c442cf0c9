//! The running machine: `play` and `capture`.
//!
//! Both work in a thread of their own, so that no driver ever waits for the interpreter's lock; the calling thread
//! waits beside them and looks at signals. Ctrl-C ends them cleanly, and then raises.

use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay::input::Input;
use forebay_ask::positive_duration as span;
use forebay_core::Nanos;
use forebay_play::capture::{Asked, Via, begin};
use forebay_play::{Driver, Place, Plan, PlayResult};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};

use crate::error::{argument, of_play, warn};
use crate::given::{given, several_or_none};
use crate::options::{self, warn_notes};
use crate::results::loads;
use crate::signals::{beside, detached};
use crate::source::Source;
use crate::table::json;
use crate::trace::Trace;

/// Plays a trace (a path, a `Trace` or a table) in wall time: on the file or block device `target`, on one for each
/// volume (`map_volume`, a dict by name), on the `volume` of these drives, or on a device model (`emulate`).
///
/// What is on a target is kept: a trace with writes needs a file that does not exist yet, or `overwrite=True`; a
/// mounted device is refused. `policy` is the policy in between, by default none; `flash` is what placements use
/// beside the targets; `fail` as in `simulate`, for what is emulated. `for_` ("60s") is how long at most; `driver`
/// "io_uring" or "threads"; `buffered` goes through the page cache; `realtime` runs before everything else on a
/// processor (root); `depth` is how many I/Os a target is given at a time (256).
///
/// The dict has the keys of `forebay play --format json`. Ctrl-C ends it early and raises.
#[pyfunction]
#[pyo3(signature = (
    trace, *, target=None, map_volume=None, volume=None, emulate=None, flash=None, fail=None, policy=None,
    for_=None, overwrite=false, driver=None, buffered=false, realtime=false, depth=None, replay="open", intensity=1.0, map="scale", stream_by="thread", from_=None, names=None,
))]
#[allow(clippy::too_many_arguments)] // They are keywords.
pub(crate) fn play<'py>(
    py: Python<'py>,
    trace: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = given)] target: Option<PathBuf>,
    map_volume: Option<&Bound<'py, PyMapping>>,
    #[pyo3(from_py_with = several_or_none)] volume: Option<Vec<PathBuf>>,
    #[pyo3(from_py_with = given)] emulate: Option<PathBuf>,
    #[pyo3(from_py_with = given)] flash: Option<PathBuf>,
    #[pyo3(from_py_with = several_or_none)] fail: Option<Vec<String>>,
    #[pyo3(from_py_with = given)] policy: Option<String>,
    #[pyo3(from_py_with = given)] for_: Option<&str>,
    #[pyo3(from_py_with = given)] overwrite: bool,
    #[pyo3(from_py_with = given)] driver: Option<&str>,
    #[pyo3(from_py_with = given)] buffered: bool,
    #[pyo3(from_py_with = given)] realtime: bool,
    #[pyo3(from_py_with = given)] depth: Option<u32>,
    #[pyo3(from_py_with = given)] replay: &str,
    #[pyo3(from_py_with = given)] intensity: f64,
    #[pyo3(from_py_with = given)] map: &str,
    #[pyo3(from_py_with = given)] stream_by: &str,
    #[pyo3(from_py_with = given)] from_: Option<String>,
    names: Option<&Bound<'py, Trace>>,
) -> PyResult<Bound<'py, PyDict>> {
    let named = |name: PathBuf| name.to_string_lossy().into_owned();
    let place = Place {
        target,
        map_volume: map_volume.map(mapped).transpose()?.unwrap_or_default(),
        volume: volume.unwrap_or_default(),
        emulate: emulate.map(named),
        flash: flash.map(named),
        fail: options::failures(&fail.unwrap_or_default())?,
        driver: driver.map(|text| options::word::<Driver>("driver", text)).transpose()?,
        overwrite,
        buffered,
        depth,
    };
    let source = Source::new(trace, from_, names)?;
    let found = place.find().map_err(of_play)?;
    let policy = found.policy(policy.as_deref());
    forebay_play::check(found.on(), policy).map_err(of_play)?;
    let plan = Plan {
        policy,
        setup: options::setup(replay, intensity, map)?,
        length: for_.map(for_what).transpose()?,
        realtime,
    };
    let by = options::stream_by(stream_by)?;
    let input = detached(py, |signals| {
        let name = source.name().to_path_buf();
        Input::read_from(&name, source.opening(), by, &mut |_| signals.go_on())
    })?;
    warn_notes(py, &input.path, &input.notes)?;
    let result = beside(py, |stop| {
        forebay_play::play(&input, found.on(), plan, stop, |_| ()).map_err(of_play)
    })?;
    answered(py, &input.path, &result)
}

/// The dict of a run, and warnings of what spoils it.
fn answered<'py>(
    py: Python<'py>,
    trace: &Path,
    result: &PlayResult,
) -> PyResult<Bound<'py, PyDict>> {
    for told in result.changed.told().into_iter().chain(result.notes.iter().cloned()) {
        warn(py, told)?;
    }
    if let Some(error) = &result.flush_error {
        warn(py, error.clone())?;
    }
    let said = loads(py, &json(result)?)?;
    said.set_item("trace", trace.display().to_string())?;
    Ok(said)
}

fn mapped(volumes: &Bound<'_, PyMapping>) -> PyResult<Vec<(String, PathBuf)>> {
    let one = |item: Bound<'_, PyAny>| {
        let (name, path): (Bound<'_, PyAny>, Bound<'_, PyAny>) = item.extract()?;
        Ok((given(&name)?, given(&path)?))
    };
    volumes.items()?.iter().map(one).collect()
}

fn for_what(text: &str) -> PyResult<Nanos> {
    span(text).map_err(|said| argument("for_", said))
}

/// Captures what reaches the block device `device`, and writes it to `output` as a trace: Parquet, CSV, a fio iolog,
/// DiskSim ascii or blktrace, as the ending of its name says, or `to`. Needs root.
///
/// `for_` ("60s") is how long; `via` the kernel's interface: "any", "blktrace" or "tracefs". Nothing of what is read
/// or written is kept, only who asked for which blocks when. Returns a dict: `requests` written, `elapsed_s`, `via`,
/// `events_lost`. Ctrl-C ends it early, keeps what there is, and raises.
#[pyfunction]
#[pyo3(signature = (device, output, *, for_, to=None, via="any"))]
pub(crate) fn capture<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = given)] device: PathBuf,
    #[pyo3(from_py_with = given)] output: PathBuf,
    #[pyo3(from_py_with = given)] for_: &str,
    #[pyo3(from_py_with = given)] to: Option<String>,
    #[pyo3(from_py_with = given)] via: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let asked = Asked {
        device: &device,
        output: &output,
        to: to.as_deref(),
        length: Duration::from_nanos(for_what(for_)?.0),
        via: options::word::<Via>("via", via)?,
    };
    let begun = begin(asked).map_err(of_play)?;
    if let Some(caution) = begun.caution() {
        warn(py, caution)?;
    }
    let written = beside(py, |stop| {
        let captured = begun.capture(stop, |_| ()).map_err(of_play)?;
        begun.write(captured).map_err(of_play)
    })?;
    warn_notes(py, &device, &written.notes)?;
    for what in written.lost {
        warn(py, format!("{}: {what}", output.display()))?;
    }
    let said = PyDict::new(py);
    said.set_item("requests", written.records)?;
    said.set_item("elapsed_s", written.elapsed.as_secs_f64())?;
    said.set_item("via", written.by)?;
    said.set_item("events_lost", written.events_lost)?;
    Ok(said)
}
