//! The verbs, each under the name it has on the command line.

use std::path::PathBuf;

use forebay::advise::{Asked, Prefer, default_device, default_flash, redundancy};
use forebay::input::Input;
use forebay::progress::Told;
use forebay::{devices, report, sample};
use pyo3::prelude::*;

use crate::error::argument;
use crate::given::given;
use crate::options::{self, warn_notes, warn_runs};
use crate::page::Report;
use crate::results::Advice;
use crate::signals::{Signals, detached};
use crate::source::Source;
use crate::trace::Trace;

/// The main job: describes a trace (a path, a `Trace` or a table; without one the bundled sample),
/// tries every scheduler on `device` (by default the smallest bundled drive that holds the trace),
/// ranks them by total time with the tail beside it; tries defragmentation, and offloading and
/// caching with `flash` (by default the d7-p5520); explains, and recommends or says that nothing is
/// to be gained.
///
/// `array` is a number of drives, from 6 to 32: where the trace goes to an array of so many, it says
/// too which redundancy pays there (`Advice.redundancy`).
///
/// `prefer` picks among schedulers that nothing beats: "total", "reads", "writes" or "balance".
///
/// `report` is where to write the HTML page; without it none is written (`Advice.html` has it). `replay`: as in
/// `simulate`; without it schedulers run in open and in dependent replay, if the trace has latencies. The
/// other options are those of `simulate`.
#[pyfunction]
#[pyo3(signature = (
    trace=None, *, device=None, flash=None, array=None, report=None, replay=None,
    intensity=1.0, map="scale", stream_by="thread", from_=None, names=None, prefer="balance",
    fit_device=false,
))]
#[allow(clippy::too_many_arguments)] // They are keywords.
pub(crate) fn advise(
    py: Python<'_>,
    trace: Option<&Bound<'_, PyAny>>,
    #[pyo3(from_py_with = given)] device: Option<PathBuf>,
    #[pyo3(from_py_with = given)] flash: Option<PathBuf>,
    #[pyo3(from_py_with = given)] array: Option<u16>,
    #[pyo3(from_py_with = given)] report: Option<PathBuf>,
    #[pyo3(from_py_with = given)] replay: Option<String>,
    #[pyo3(from_py_with = given)] intensity: f64,
    #[pyo3(from_py_with = given)] map: &str,
    #[pyo3(from_py_with = given)] stream_by: &str,
    #[pyo3(from_py_with = given)] from_: Option<String>,
    names: Option<&Bound<'_, Trace>>,
    #[pyo3(from_py_with = given)] prefer: &str,
    #[pyo3(from_py_with = given)] fit_device: bool,
) -> PyResult<Advice> {
    let prefer = Prefer::named(prefer).ok_or_else(|| {
        let names: Vec<&str> = Prefer::ALL.map(Prefer::name).into();
        argument("prefer", format!("got '{prefer}', expected one of {}", names.join(", ")))
    })?;
    if let Some(drives) = array.filter(|drives| !(6..=32).contains(drives)) {
        return Err(argument("array", format!("got {drives}, expected 6 to 32 drives")));
    }
    let source = trace.map(|trace| Source::new(trace, from_, names)).transpose()?;
    let kept = source.as_ref().map(Source::kept).unwrap_or_default();
    let named: Vec<_> = device.iter().chain(&flash).map(|name| name.to_string_lossy()).collect();
    let kept = devices::and_kept(kept, named.iter().map(|name| &**name));
    let device = device.as_deref().map(options::device).transpose()?;
    let flash = flash.as_deref().map(options::device).transpose()?;
    let device_named = device.is_some();
    if fit_device && !device_named {
        let expected = "expected a device too: the disk that the trace was recorded on";
        return Err(argument("fit_device", format!("got True without a device, {expected}")));
    }
    let both_replays = replay.is_none();
    let setup = options::setup(replay.as_deref().unwrap_or("open"), intensity, map)?;
    let by = options::stream_by(stream_by)?;
    let page = Report::begin(report, &kept)?;
    let work = |signals: &mut Signals| {
        let input = match source {
            None => sample::read(by, &mut |_| signals.go_on())?,
            Some(source) => {
                let name = source.name().to_path_buf();
                Input::read_from(&name, source.opening(), by, &mut |_| signals.go_on())?
            }
        };
        let (device, reason) = match device {
            Some(device) => (device, "as asked for".to_string()),
            None => default_device(&input)?,
        };
        let flash = flash.map_or_else(default_flash, Ok)?;
        let mut go_on = |_: &Told| signals.go_on();
        let asked = Asked { prefer, both_replays, device_named, fit_device, ..Asked::default() };
        let mut advice =
            forebay::advise::advise(&input, &device, reason, &flash, setup, asked, &mut go_on)?;
        if let Some(drives) = array.filter(|_| !advice.runs.is_empty()) {
            let scheduler = advice.recommended.as_ref().unwrap_or(&advice.baseline);
            let tried =
                redundancy(&input, &device, drives, scheduler, setup, &mut |_| signals.go_on())?;
            advice.redundancy = Some(tried);
        }
        let html = report::html(&advice);
        page.write(|| Ok(html.clone()))?;
        Ok((input.path, input.notes, advice, html))
    };
    let (path, notes, advice, html) = detached(py, work)?;
    warn_notes(py, &path, &notes)?;
    warn_runs(py, &path, advice.runs.first())?;
    Advice::new(py, &advice, html)
}
