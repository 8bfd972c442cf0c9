//! The verb `plan`: `plan_capacity` here, each other question in a file of its own.

use std::path::PathBuf;

mod buy;
mod consolidate;
mod devices;
mod power;
mod sla;
mod together;

pub(crate) use buy::plan_buy;
pub(crate) use consolidate::plan_consolidate;
pub(crate) use power::plan_power;
pub(crate) use sla::plan_sla;
pub(crate) use together::Together;

use forebay::plan::amount::{Fraction, span};
use forebay::plan::arrival_times::{ArrivalTimes, Clock};
use forebay::plan::capacity::{self, Doubt, Promises};
use forebay::plan::confidence::Bootstrap;
use forebay::plan::costed::{self, Costs, Load};
use forebay::progress::Told;
use forebay::report::{self, CapacityPage};
use forebay_core::Nanos;
use forebay_trace::write::Kept;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyList, PyTuple};

use crate::error::{argument, raised, warn};
use crate::given::{given, several_or_none, shown};
use crate::options::warn_notes;
use crate::page::Report;
use crate::results::loads;
use crate::signals::{Signals, detached};
use crate::source::Source;
use crate::table::json;
use crate::trace::Trace;

/// Finds the least capacity of a server of constant rate that answers a fraction of the requests of
/// a trace (a path, a `Trace` or a table) within a time.
///
/// Every request counts as one, however long, unless `cost_us` is given.
///
/// `within`: a time with its unit ("5ms") or a list of them. `fraction`: a share above 0 and at most 1, as text
/// ("0.9995") or a number, or a list of them. `by_volume` adds rows for each volume. `confidence` (0.95) gives every
/// capacity an interval by bootstrap, made by `seed`; `hold_out` (0.3) checks what the rest of the
/// trace says on its end. `cost_us` ("100+0.5/KiB", or a device) lets a request cost what its length
/// takes, in microseconds; the answer is then how many times as fast a server has to be. `trust_times`
/// takes the trace's times as they are, though its clock seems too coarse for the promises. `report` is where
/// to write the HTML page. With `device` (a bundled one, a device file, "fixed:300") the answer is how many of them it
/// takes, at most `devices_max`, each with the scheduler `policy`, at a `price` each. The dict has
/// the keys of `forebay plan capacity --format json`.
#[pyfunction]
#[pyo3(signature = (
    trace, *, within=None, fraction=None, by_volume=false, confidence=None, hold_out=None, seed=1,
    cost_us=None, device=None, policy="mq-deadline", devices_max=64, price=None, report=None, trust_times=false,
    from_=None, names=None,
))]
#[allow(clippy::too_many_arguments)] // They are keywords.
pub(crate) fn plan_capacity<'py>(
    py: Python<'py>,
    trace: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = several_or_none)] within: Option<Vec<String>>,
    #[pyo3(from_py_with = several_or_none)] fraction: Option<Vec<Bound<'py, PyAny>>>,
    #[pyo3(from_py_with = given)] by_volume: bool,
    #[pyo3(from_py_with = given)] confidence: Option<f64>,
    #[pyo3(from_py_with = given)] hold_out: Option<f64>,
    #[pyo3(from_py_with = given)] seed: u64,
    #[pyo3(from_py_with = given)] cost_us: Option<String>,
    #[pyo3(from_py_with = given)] device: Option<String>,
    #[pyo3(from_py_with = given)] policy: &str,
    #[pyo3(from_py_with = given)] devices_max: u16,
    #[pyo3(from_py_with = given)] price: Option<f64>,
    #[pyo3(from_py_with = given)] report: Option<PathBuf>,
    #[pyo3(from_py_with = given)] trust_times: bool,
    #[pyo3(from_py_with = given)] from_: Option<String>,
    names: Option<&Bound<'py, Trace>>,
) -> PyResult<Bound<'py, PyDict>> {
    let source = Source::new(trace, from_, names)?;
    let promises = promises(within, fraction)?;
    let clock = Clock::of(promises.within.iter().copied(), trust_times);
    let bootstrap = share("confidence", confidence)?.map(|level| Bootstrap { level, seed });
    let doubt = Doubt { bootstrap, hold_out: share("hold_out", hold_out)? };
    if let Some(device) = device {
        if by_volume || doubt.bootstrap.is_some() || doubt.hold_out.is_some() || cost_us.is_some() {
            let expected = "expected it without by_volume, confidence, hold_out and cost_us";
            return Err(argument("device", format!("got '{device}' with one of them, {expected}")));
        }
        let most = usize::from(devices_max);
        let asked = devices::Asked { device, policy, devices_max: most, price, trust_times };
        return devices::plan_devices(py, source, &promises, asked, report);
    }
    let page = Report::begin(report, &source.kept())?;
    if let Some(text) = cost_us {
        if by_volume || doubt.bootstrap.is_some() || doubt.hold_out.is_some() {
            let expected = "expected it without by_volume, confidence and hold_out";
            return Err(argument("cost_us", format!("got '{text}' with one of them, {expected}")));
        }
        let costs = costs(&text)?;
        let (answer, load) = detached(py, |signals| {
            let load = load(&source, false, clock, signals)?;
            let answer = costed::answer(&load, costs.cost, &promises)?;
            page.write(|| Ok(report::costed_capacity_html(&answer, &costs)))?;
            Ok((answer, load))
        })?;
        warn_load(py, &load)?;
        return loads(py, &json(&answer)?);
    }
    let (answer, arrivals) = detached(py, |signals| {
        let arrivals = arrivals(&source, by_volume, clock, signals)?;
        let answer =
            capacity::answer(&arrivals, &promises, doubt, &mut |_: &Told| signals.go_on())?;
        page.write(|| capacity_html(&arrivals, &promises, &answer.rows))?;
        Ok((answer, arrivals))
    })?;
    warn_arrivals(py, &arrivals)?;
    loads(py, &json(&answer)?)
}

/// When the requests of `source` arrive.
fn arrivals(
    source: &Source,
    by_volume: bool,
    clock: Clock,
    signals: &mut Signals,
) -> Result<ArrivalTimes, forebay::Error> {
    let mut reader = source.open()?;
    ArrivalTimes::read(source.name(), &mut *reader, by_volume, clock, &mut |_| signals.go_on())
}

/// When the requests of `source` arrive, and how long they are.
fn load(
    source: &Source,
    by_volume: bool,
    clock: Clock,
    signals: &mut Signals,
) -> Result<Load, forebay::Error> {
    let mut reader = source.open()?;
    Load::read(source.name(), &mut *reader, by_volume, clock, &mut |_| signals.go_on())
}

/// A cost, or a device's.
fn costs(text: &str) -> PyResult<Costs> {
    Costs::named(text).map_err(|wrong| match wrong {
        forebay::Error::Unfit(said) => argument("cost_us", said),
        other => raised(other),
    })
}

/// Warns of what is to be known of `load`.
fn warn_load(py: Python<'_>, load: &Load) -> PyResult<()> {
    warn_notes(py, &load.path, &load.notes)?;
    for caution in load.cautions() {
        warn(py, format!("{}: {caution}", load.path.display()))?;
    }
    Ok(())
}

/// Warns of what is to be known of `arrivals`.
fn warn_arrivals(py: Python<'_>, arrivals: &ArrivalTimes) -> PyResult<()> {
    warn_notes(py, &arrivals.path, &arrivals.notes)?;
    for caution in arrivals.cautions() {
        warn(py, format!("{}: {caution}", arrivals.path.display()))?;
    }
    Ok(())
}

/// Traces, one or several.
fn sources(traces: &Bound<'_, PyAny>, from: &Option<String>) -> PyResult<Vec<Source>> {
    if traces.is_instance_of::<PyList>() || traces.is_instance_of::<PyTuple>() {
        let each = traces.try_iter()?.map(|trace| Source::new(&trace?, from.clone(), None));
        let sources = each.collect::<PyResult<Vec<Source>>>()?;
        if sources.is_empty() {
            return Err(argument("traces", "got none, expected at least one".to_string()));
        }
        return Ok(sources);
    }
    Ok(vec![Source::new(traces, from.clone(), None)?])
}

/// The files of all, which nothing is written over.
fn kept(sources: &[Source]) -> Kept {
    sources.iter().flat_map(|source| source.kept().paths().to_vec()).collect()
}

/// The report of `plan capacity`.
fn capacity_html(
    arrivals: &ArrivalTimes,
    promises: &Promises,
    rows: &[capacity::Row],
) -> Result<String, forebay::Error> {
    let curves = capacity::curve(arrivals, &promises.within)?;
    Ok(report::capacity_html(&CapacityPage { arrivals, promises, rows, curves, devices: None }))
}

/// Every bound with every fraction; those of the command by default.
fn promises(
    within: Option<Vec<String>>,
    fractions: Option<Vec<Bound<'_, PyAny>>>,
) -> PyResult<Promises> {
    Ok(Promises::new(
        spans(within, &["5ms", "10ms", "20ms", "50ms"])?,
        fractions_of(fractions, &["0.9", "0.95", "0.99", "0.995", "0.999", "1"])?,
    ))
}

fn spans(within: Option<Vec<String>>, default: &[&str]) -> PyResult<Vec<Nanos>> {
    let texts = within.unwrap_or_else(|| default.iter().map(|text| text.to_string()).collect());
    some("within", texts.len())?;
    texts.iter().map(|text| bound(text)).collect()
}

/// None asked for would be an answer without rows.
fn some(name: &str, count: usize) -> PyResult<()> {
    match count {
        0 => Err(argument(name, "got none, expected at least one".to_string())),
        _ => Ok(()),
    }
}

fn bound(text: &str) -> PyResult<Nanos> {
    span(text).map_err(|said| argument("within", said))
}

fn fractions_of(given: Option<Vec<Bound<'_, PyAny>>>, default: &[&str]) -> PyResult<Vec<Fraction>> {
    match given {
        Some(given) => {
            some("fraction", given.len())?;
            given.iter().map(|given| fraction("fraction", given)).collect()
        }
        None => default.iter().map(|text| parsed("fraction", text)).collect(),
    }
}

/// A number's shortest text is what was written; Python's own would have an exponent below 0.0001.
fn fraction(name: &str, given: &Bound<'_, PyAny>) -> PyResult<Fraction> {
    match given.cast::<PyFloat>() {
        Ok(number) => parsed(name, &number.value().to_string()),
        Err(_) => parsed(name, &given.str().map_or_else(|_| shown(given), |text| text.to_string())),
    }
}

fn parsed(name: &str, text: &str) -> PyResult<Fraction> {
    text.parse().map_err(|said| argument(name, said))
}

/// A share above 0 and below 1.
fn share(name: &str, share: Option<f64>) -> PyResult<Option<f64>> {
    match share {
        Some(share) if !(share > 0.0 && share < 1.0) => {
            let expected = "expected a share above 0 and below 1, e.g. 0.95";
            Err(argument(name, format!("got '{share}', {expected}")))
        }
        share => Ok(share),
    }
}
