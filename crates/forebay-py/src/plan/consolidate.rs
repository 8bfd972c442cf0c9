//! The verb `plan consolidate`.

use forebay::plan::amount::span_or_zero;
use forebay::plan::arrival_times::{Clock, Span};
use forebay::plan::capacity::{Promises, once};
use forebay::plan::consolidate::{Begin, cautions, consolidate};
use forebay::plan::costed::{self, Load};
use forebay_core::Nanos;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{arrivals, cost, fractions_of, load, some, sources, spans, warn_arrivals, warn_load};
use crate::error::{argument, warn};
use crate::given::given;
use crate::results::loads;
use crate::signals::detached;
use crate::table::json;

/// Finds what clients that share a server need, beside the sum of what each needs alone.
///
/// `traces`: a list of traces (paths, `Trace`s or tables), or one that is given with itself as so many
/// `clients` (2). `shift`: how much later each begins than the one before it, for several answers ("1s",
/// "100s" for one trace, "0s" for several). `within` ("10ms") and `fraction` (1, 0.9, 0.95) as in
/// `plan_capacity`. With `cost_us` ("100+0.5/KiB", or a device) a request costs what its length takes, in
/// microseconds, and the answers are speeds. `trust_times` as in `plan_capacity`. `worst_client` counts from 1, as
/// `client` does in `clients`. The dict has the keys of `forebay plan consolidate --format
/// json`.
#[pyfunction]
#[pyo3(signature = (
    traces, *, shift=None, clients=None, within=None, fraction=None, cost_us=None, trust_times=false,
    from_=None,
))]
#[allow(clippy::too_many_arguments)] // They are keywords.
pub(crate) fn plan_consolidate<'py>(
    py: Python<'py>,
    traces: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = given)] shift: Option<Vec<String>>,
    #[pyo3(from_py_with = given)] clients: Option<u16>,
    #[pyo3(from_py_with = given)] within: Option<Vec<String>>,
    fraction: Option<Vec<Bound<'py, PyAny>>>,
    #[pyo3(from_py_with = given)] cost_us: Option<String>,
    trust_times: bool,
    #[pyo3(from_py_with = given)] from_: Option<String>,
) -> PyResult<Bound<'py, PyDict>> {
    let sources = sources(traces, &from_)?;
    let copies = copies(clients, sources.len())?;
    let shifts = match shift {
        Some(texts) => shifts(&texts)?,
        None if copies == 1 => vec![Nanos::ZERO],
        None => vec![Nanos::from_secs(1), Nanos::from_secs(100)],
    };
    let promises =
        Promises::new(spans(within, &["10ms"])?, fractions_of(fraction, &["1", "0.9", "0.95"])?);
    let clock = Clock::of(promises.within.iter().copied(), trust_times);
    let begin = Begin::Together;
    if let Some(text) = cost_us {
        let cost = cost(&text)?;
        let (found, alone, cautions) = detached(py, |signals| {
            let alone = sources.iter().map(|source| load(source, clock, signals));
            let alone = alone.collect::<Result<Vec<_>, _>>()?;
            let clients = alone.iter().flat_map(|client| std::iter::repeat_n(client, copies));
            let clients: Vec<&Load> = clients.collect();
            let spans: Vec<Span<'_>> = clients.iter().map(|client| client.span()).collect();
            let cautions = cautions(&spans, begin, &shifts);
            let found =
                costed::consolidate::consolidate(&clients, begin, &shifts, &promises, cost)?;
            Ok((found, alone, cautions))
        })?;
        alone.iter().try_for_each(|client| warn_load(py, client))?;
        cautions.into_iter().try_for_each(|caution| warn(py, caution))?;
        return loads(py, &json(&found)?);
    }
    let (found, alone, cautions) = detached(py, |signals| {
        let alone = sources.iter().map(|source| arrivals(source, false, clock, signals));
        let alone = alone.collect::<Result<Vec<_>, _>>()?;
        let clients: Vec<_> =
            alone.iter().flat_map(|client| std::iter::repeat_n(client, copies)).collect();
        let spans: Vec<Span<'_>> = clients.iter().map(|client| client.span()).collect();
        let cautions = cautions(&spans, begin, &shifts);
        Ok((consolidate(&clients, begin, &shifts, &promises)?, alone, cautions))
    })?;
    for client in &alone {
        warn_arrivals(py, client)?;
    }
    for caution in cautions {
        warn(py, caution)?;
    }
    loads(py, &json(&found)?)
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
