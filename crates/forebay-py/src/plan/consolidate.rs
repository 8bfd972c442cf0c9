//! The verb `plan consolidate`.

use std::path::PathBuf;

use forebay::plan::amount::span_or_zero;
use forebay::plan::arrival_times::{Clock, Span};
use forebay::plan::capacity::{Promises, once};
use forebay::plan::confidence::Bootstrap;
use forebay::plan::consolidate::clients::{OneClient, clients as clients_of};
use forebay::plan::consolidate::{cautions, consolidate};
use forebay::plan::costed;
use forebay::progress::Told;
use forebay::report::{self, ConsolidatePage};
use forebay_core::Nanos;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{
    arrivals, costs, fractions_of, kept, load, share, some, sources, spans, warn_arrivals,
    warn_load,
};
use crate::error::{argument, warn};
use crate::given::{given, several_or_none};
use crate::page::Report;
use crate::results::loads;
use crate::signals::detached;
use crate::table::json;

/// Finds what clients that share a server need, beside the sum of what each needs alone.
///
/// `traces`: a list of traces (paths, `Trace`s or tables), or one that is given with itself as so many
/// `clients` (2). `shift`: how much later each begins than the one before it, for several answers ("1s",
/// "100s" for one trace, "0s" for several). `within` ("10ms") and `fraction` (1, 0.9, 0.95) as in
/// `plan_capacity`. `by_volume`: each trace's volumes are the clients, on its clock. `keep_times`: each client begins when it
/// was recorded, by the clock that the traces have in common. `confidence` (0.95) gives every capacity an interval, alone and
/// together, made by `seed`. With `cost_us` ("100+0.5/KiB", or a device) a request costs what its length takes, in
/// microseconds, and the answers are speeds. `report` is where to write the HTML page. `trust_times` as in `plan_capacity`. `worst_client` counts from 1, as
/// `client` does in `clients`. The dict has the keys of `forebay plan consolidate --format
/// json`.
#[pyfunction]
#[pyo3(signature = (
    traces, *, shift=None, clients=None, by_volume=false, keep_times=false, within=None, fraction=None,
    confidence=None, seed=1, cost_us=None, report=None, trust_times=false, from_=None,
))]
#[allow(clippy::too_many_arguments)] // They are keywords.
pub(crate) fn plan_consolidate<'py>(
    py: Python<'py>,
    traces: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = several_or_none)] shift: Option<Vec<String>>,
    #[pyo3(from_py_with = given)] clients: Option<u16>,
    #[pyo3(from_py_with = given)] by_volume: bool,
    #[pyo3(from_py_with = given)] keep_times: bool,
    #[pyo3(from_py_with = several_or_none)] within: Option<Vec<String>>,
    #[pyo3(from_py_with = several_or_none)] fraction: Option<Vec<Bound<'py, PyAny>>>,
    #[pyo3(from_py_with = given)] confidence: Option<f64>,
    #[pyo3(from_py_with = given)] seed: u64,
    #[pyo3(from_py_with = given)] cost_us: Option<String>,
    #[pyo3(from_py_with = given)] report: Option<PathBuf>,
    #[pyo3(from_py_with = given)] trust_times: bool,
    #[pyo3(from_py_with = given)] from_: Option<String>,
) -> PyResult<Bound<'py, PyDict>> {
    let sources = sources(traces, &from_)?;
    let copies = match (by_volume, clients) {
        (true, Some(clients)) => {
            let said = format!("got {clients} with by_volume, expected one of them");
            return Err(argument("clients", said));
        }
        (true, None) => 1,
        (false, clients) => copies(clients, sources.len())?,
    };
    let shifts = match shift {
        Some(texts) => shifts(&texts)?,
        None if copies == 1 => vec![Nanos::ZERO],
        None => vec![Nanos::from_secs(1), Nanos::from_secs(100)],
    };
    let promises =
        Promises::new(spans(within, &["10ms"])?, fractions_of(fraction, &["1", "0.9", "0.95"])?);
    let clock = Clock::of(promises.within.iter().copied(), trust_times);
    let bootstrap = share("confidence", confidence)?.map(|level| Bootstrap { level, seed });
    let page = Report::begin(report, &kept(&sources))?;
    if let Some(text) = cost_us {
        if bootstrap.is_some() {
            let said = format!("got '{text}' with confidence, expected one of them");
            return Err(argument("cost_us", said));
        }
        let costs = costs(&text)?;
        let (found, alone, cautions) = detached(py, |signals| {
            let read = sources.iter().map(|source| load(source, by_volume, clock, signals));
            let (alone, begin) =
                clients_of(read.collect::<Result<_, _>>()?, by_volume, keep_times)?;
            let clients = repeated(&alone, copies);
            let cautions = cautions(&spans_of(&clients), begin, &shifts);
            let found =
                costed::consolidate::consolidate(&clients, begin, &shifts, &promises, costs.cost)?;
            page.write(|| Ok(report::costed_consolidate_html(&found, &costs)))?;
            Ok((found, alone, cautions))
        })?;
        alone.iter().try_for_each(|client| warn_load(py, client))?;
        cautions.into_iter().try_for_each(|caution| warn(py, caution))?;
        return loads(py, &json(&found)?);
    }
    let (found, alone, cautions) = detached(py, |signals| {
        let read = sources.iter().map(|source| arrivals(source, by_volume, clock, signals));
        let (alone, begin) = clients_of(read.collect::<Result<_, _>>()?, by_volume, keep_times)?;
        let clients = repeated(&alone, copies);
        let cautions = cautions(&spans_of(&clients), begin, &shifts);
        let found =
            consolidate(&clients, begin, &shifts, &promises, bootstrap, &mut |_: &Told| {
                signals.go_on()
            })?;
        let told = ConsolidatePage { clients: &clients, begin, shifts: &shifts, found: &found };
        page.write(|| Ok(report::consolidate_html(&told)))?;
        Ok((found, alone, cautions))
    })?;
    for client in &alone {
        warn_arrivals(py, client)?;
    }
    for caution in cautions {
        warn(py, caution)?;
    }
    loads(py, &json(&found)?)
}

fn repeated<C>(alone: &[C], copies: usize) -> Vec<&C> {
    alone.iter().flat_map(|client| std::iter::repeat_n(client, copies)).collect()
}

fn spans_of<'a, C: OneClient>(clients: &[&'a C]) -> Vec<Span<'a>> {
    clients.iter().map(|client| client.span()).collect()
}

/// How many clients each of so many `traces` stands for.
fn copies(clients: Option<u16>, traces: usize) -> PyResult<usize> {
    match clients {
        Some(clients) if !(2..=1000).contains(&clients) => {
            Err(argument("clients", format!("got {clients}, expected 2 to 1000")))
        }
        Some(clients) if traces > 1 => {
            let expected = format!("expected one trace that stands for {clients}");
            Err(argument("clients", format!("got {clients} with {traces} traces, {expected}")))
        }
        _ if traces > 1 => Ok(1),
        clients => Ok(usize::from(clients.unwrap_or(2))),
    }
}

fn shifts(texts: &[String]) -> PyResult<Vec<Nanos>> {
    some("shift", texts.len())?;
    let each = texts.iter();
    let each = each.map(|text| span_or_zero(text).map_err(|said| argument("shift", said)));
    Ok(once(each.collect::<PyResult<Vec<Nanos>>>()?))
}
