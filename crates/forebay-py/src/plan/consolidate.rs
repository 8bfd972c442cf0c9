//! The verb `plan consolidate`.

use forebay::plan::amount::span_or_zero;
use forebay::plan::capacity::Promises;
use forebay::plan::consolidate::{Begin, cautions, consolidate};
use forebay_core::Nanos;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{arrivals, fractions_of, some, sources, spans, warn_arrivals};
use crate::error::{argument, warn};
use crate::results::loads;
use crate::signals::detached;
use crate::table::json;

/// Finds what clients that share a server need, beside the sum of what each needs alone.
///
/// `traces`: a list of traces (paths, `Trace`s or tables), or one that is given with itself as so many
/// `clients` (2). `shift`: how much later each begins than the one before it, for several answers ("1s",
/// "100s" for one trace, "0s" for several). `within` ("10ms") and `fraction` (1, 0.9, 0.95) as in
/// `plan_capacity`. The dict has the keys of `forebay plan consolidate --format json`.
#[pyfunction]
#[pyo3(signature = (traces, *, shift=None, clients=None, within=None, fraction=None, from_=None))]
pub(crate) fn plan_consolidate<'py>(
    py: Python<'py>,
    traces: &Bound<'py, PyAny>,
    shift: Option<Vec<String>>,
    clients: Option<u16>,
    within: Option<Vec<String>>,
    fraction: Option<Vec<Bound<'py, PyAny>>>,
    from_: Option<String>,
) -> PyResult<Bound<'py, PyDict>> {
    let sources = sources(traces, &from_)?;
    let copies = copies(clients, sources.len())?;
    let shifts = match shift {
        Some(texts) => shifts(&texts)?,
        None if copies == 1 => vec![Nanos::ZERO],
        None => vec![Nanos::from_secs(1), Nanos::from_secs(100)],
    };
    let promises = Promises {
        within: spans(within, &["10ms"])?,
        fractions: fractions_of(fraction, &["1", "0.9", "0.95"])?,
    };
    let (found, alone, cautions) = detached(py, |signals| {
        let alone = sources.iter().map(|source| arrivals(source, false, signals));
        let alone = alone.collect::<Result<Vec<_>, _>>()?;
        let clients: Vec<_> =
            alone.iter().flat_map(|client| std::iter::repeat_n(client, copies)).collect();
        let cautions = cautions(&clients, Begin::Together, &shifts);
        Ok((consolidate(&clients, Begin::Together, &shifts, &promises)?, alone, cautions))
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
    texts.iter().map(|text| span_or_zero(text).map_err(|said| argument("shift", said))).collect()
}
