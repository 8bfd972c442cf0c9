//! The verb `simulate`.

use std::path::PathBuf;

use forebay::devices;
use forebay::input::Input;
use forebay::report::{self, RunsPage};
use forebay::simulate::{Bed, LeastTime, Run, Setup};
use forebay_core::Device;
use pyo3::prelude::*;

use crate::error::warn;
use crate::given::{given, several_or_none};
use crate::options::{self, warn_notes, warn_runs};
use crate::page::Report;
use crate::policy::{Wanted, run_each};
use crate::results::Simulation;
use crate::signals::detached;
use crate::source::Source;
use crate::trace::Trace;

/// Runs a trace (a path, a `Trace` or a table) through `policies` on a model of `device`, side by
/// side, in virtual time.
///
/// `device`: a bundled name ("st1000nm0011", ...), "fixed:RATE" (I/Os a second) or a device file.
/// `policies`: "noop", "deadline", "cfq", "bid", each with its parameters ("cfq:quantum=8"), and classes or
/// objects of your own with the methods `submit` and `dispatch` (docs/python-policies.md); with
/// `flash`, a solid-state drive beside the device, also "bid-hybrid", "cache" and others that place
/// data. `disks`: how many of the device there are, sharing the flash; volumes are dealt over them.
/// `replay`: "open" (recorded arrivals), "closed" (recorded think times after each answer) or "dependent" (likewise,
/// but only after answers whose times the recording has). `intensity`: how many times as fast as recorded. `map`: what becomes of addresses beyond the device, "scale", "wrap" or
/// "clip". `fail`: I/Os that fail, each "[lane=N:]from-s=SECONDS" (the device is gone from then on),
/// "[lane=N:]range=OFFSET+BYTES" or "[lane=N:]one-in=N"; disks are lanes from 0, the flash is the last.
/// Longer traces than 8 million requests are read again for each policy. `report` is where to write the HTML page.
#[pyfunction]
#[pyo3(signature = (
    trace, *, device, policies, flash=None, disks=1, replay="open", intensity=1.0, map="scale",
    stream_by="thread", from_=None, names=None, fail=None, report=None,
))]
#[allow(clippy::too_many_arguments)] // They are keywords.
pub(crate) fn simulate(
    py: Python<'_>,
    trace: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = given)] device: PathBuf,
    policies: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = given)] flash: Option<PathBuf>,
    #[pyo3(from_py_with = given)] disks: u16,
    #[pyo3(from_py_with = given)] replay: &str,
    #[pyo3(from_py_with = given)] intensity: f64,
    #[pyo3(from_py_with = given)] map: &str,
    #[pyo3(from_py_with = given)] stream_by: &str,
    #[pyo3(from_py_with = given)] from_: Option<String>,
    names: Option<&Bound<'_, Trace>>,
    #[pyo3(from_py_with = several_or_none)] fail: Option<Vec<String>>,
    #[pyo3(from_py_with = given)] report: Option<PathBuf>,
) -> PyResult<Simulation> {
    let source = Source::new(trace, from_, names)?;
    let named: Vec<_> = flash.iter().chain([&device]).map(|name| name.to_string_lossy()).collect();
    let kept = devices::and_kept(source.kept(), named.iter().map(|name| &**name));
    let device = options::device(&device)?;
    let flash = flash.as_deref().map(options::device).transpose()?;
    let failures = options::failures(&fail.unwrap_or_default())?;
    let bed = Bed {
        disk: &device,
        disks: options::disks(disks)?,
        flash: flash.as_ref(),
        failures: &failures,
        slices: false,
        judged: None,
    };
    let wanted = Wanted::each(policies, bed)?;
    let setup = options::setup(replay, intensity, map)?;
    let by = options::stream_by(stream_by)?;
    let page = Report::begin(report, &kept)?;
    let input = detached(py, |signals| {
        let name = source.name().to_path_buf();
        Input::read_from(&name, source.opening(), by, &mut |_| signals.go_on())
    })?;
    let runs = run_each(py, &input, bed, &wanted, setup)?;
    let runs = match page.is_asked() {
        true => detached(py, |_| told(page, &input, bed, setup, runs))?,
        false => runs,
    };
    warn_notes(py, &input.path, &input.notes)?;
    let names: Vec<String> = wanted.iter().filter_map(Wanted::name).map(str::to_string).collect();
    for told in bed.idle_parts(&input, &names) {
        warn(py, told)?;
    }
    warn_runs(py, &input.path, runs.first().map(|run| &run.result))?;
    Simulation::new(py, &input.path, &runs)
}

/// Writes the page of `runs`, with what no order can beat, which only the page tells.
fn told(
    page: Report,
    input: &Input,
    bed: Bed<'_>,
    setup: Setup,
    runs: Vec<Run>,
) -> Result<Vec<Run>, forebay::Error> {
    let least_time = LeastTime::of(input, bed, setup)?;
    let runs: Vec<_> = runs.into_iter().map(|run| (run.result.policy.clone(), run)).collect();
    let device = bed.disk;
    let cautions = bed.cautions(runs.first().map(|(_, run)| &run.result));
    let times = setup.intensity.times();
    page.write(|| {
        Ok(report::runs_html(&RunsPage {
            trace: &input.path.display().to_string(),
            description: &input.description,
            device: &device.name,
            cylinders: device.model.cylinders(),
            streams: &input.labels,
            intensity: times,
            arrivals: input.arrival_rates(times)?,
            runs: &runs,
            least_time: least_time.as_ref(),
            findings: &[],
            cautions: &cautions,
        }))
    })?;
    Ok(runs.into_iter().map(|(_, run)| run).collect())
}
