//! Options that several verbs share, as the command has them.

use std::path::Path;
use std::str::FromStr;

use forebay::devices::{self, OpenDevice};
use forebay::layout::Map;
use forebay::simulate::{IMPUTED_SHARE_MAX, Replay, RunResult, Setup};
use forebay_core::device::failing::Failure;
use forebay_core::replay::Intensity;
use forebay_trace::Notes;
use forebay_trace::streams::StreamBy;
use pyo3::prelude::*;

use crate::error::{argument, raised, warn};

/// An option given as a word.
pub(crate) fn word<T: FromStr<Err: ToString>>(name: &str, text: &str) -> PyResult<T> {
    text.parse().map_err(|error: T::Err| argument(name, error.to_string()))
}

/// What makes a stream.
pub(crate) fn stream_by(text: &str) -> PyResult<StreamBy> {
    word("stream_by", text)
}

/// How a trace is replayed.
pub(crate) fn setup(replay: &str, intensity: f64, map: &str) -> PyResult<Setup> {
    let replay: Replay = word("replay", replay)?;
    let intensity = Intensity::new(intensity).ok_or_else(|| {
        let expected = "expected a number from 1e-6 to 1e12, e.g. 10 for ten times as fast";
        argument("intensity", format!("got '{intensity}', {expected}"))
    })?;
    Ok(Setup { replay, intensity, map: word::<Map>("map", map)? })
}

/// The device that a name, a spec or a path says.
pub(crate) fn device(name: &Path) -> PyResult<OpenDevice> {
    devices::open(&name.to_string_lossy()).map_err(|error| raised(error.into()))
}

/// Failures to inject, as text.
pub(crate) fn failures(texts: &[String]) -> PyResult<Vec<Failure>> {
    let parsed = texts.iter().map(|text| Failure::parse(text));
    parsed.map(|parsed| parsed.map_err(|error| argument("fail", error.0))).collect()
}

/// Warns of what reading `path` lost.
pub(crate) fn warn_notes(py: Python<'_>, path: &Path, notes: &Notes) -> PyResult<()> {
    for sentence in notes.sentences() {
        warn(py, format!("{}: {sentence}", path.display()))?;
    }
    Ok(())
}

/// Warns of runs that stand on thin ground, of which `run` is the first.
pub(crate) fn warn_runs(py: Python<'_>, trace: &Path, run: Option<&RunResult>) -> PyResult<()> {
    let Some(run) = run else { return Ok(()) };
    let share = run.imputed_share;
    if share > 0.0 {
        let thin = if share > IMPUTED_SHARE_MAX { "; open replay says more here" } else { "" };
        let percent = share * 100.0;
        let trace = trace.display();
        let text = format!("{percent:.1} % of the latencies are missing and imputed{thin}");
        warn(py, format!("{trace}: {text}"))?;
    }
    for sentence in run.changed.told() {
        warn(py, format!("{}: {sentence}", run.device))?;
    }
    Ok(())
}
