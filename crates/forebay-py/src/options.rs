//! Options that several verbs share, as the command has them.

use std::path::Path;
use std::str::FromStr;

use forebay::devices::{self, OpenDevice};
use forebay::layout::Map;
use forebay::simulate::{Bed, IMPUTED_SHARE_MAX, Replay, RunResult, Setup};
use forebay_core::replay::Intensity;
use forebay_trace::Notes;
use forebay_trace::streams::StreamBy;
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::error::{argument, raised, warn};
use crate::given::several;

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

/// How many disks share a flash device, as the command has it.
pub(crate) fn disks(count: u16) -> PyResult<u16> {
    let text = || format!("got {count}, expected 1 to 256");
    (1..=256).contains(&count).then_some(count).ok_or_else(|| argument("disks", text()))
}

/// Policies, one or several, or several in one text parted by commas.
pub(crate) struct Policies(Vec<String>);

impl Policies {
    pub(crate) fn given(object: &Bound<'_, PyAny>) -> PyResult<Policies> {
        let names: Vec<String> = several(object)?;
        Ok(Policies(match object.is_instance_of::<PyString>() {
            true => names[0].split(',').map(str::to_string).collect(),
            false => names,
        }))
    }

    /// Each by itself.
    pub(crate) fn names(self) -> Vec<String> {
        self.0
    }

    /// Each by itself, checked against the devices.
    pub(crate) fn each(self, bed: Bed<'_>) -> PyResult<Vec<String>> {
        let Policies(policies) = self;
        if policies.is_empty() {
            let text = "got none, expected at least one, e.g. \"noop\" (see forebay policies)";
            return Err(argument("policies", text.to_string()));
        }
        for policy in &policies {
            bed.check(policy).map_err(raised)?;
        }
        Ok(policies)
    }
}

/// Warns of what reading `path` lost.
pub(crate) fn warn_notes(py: Python<'_>, path: &Path, notes: &Notes) -> PyResult<()> {
    for sentence in notes.sentences() {
        warn(py, format!("{}: {sentence}", path.display()))?;
    }
    Ok(())
}
