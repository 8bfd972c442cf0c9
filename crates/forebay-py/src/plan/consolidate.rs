//! The verb `plan consolidate`.

use forebay::plan::amount::span_or_zero;
use forebay::plan::capacity::Promises;
use forebay::plan::consolidate::consolidate;
use forebay_core::Nanos;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{arrivals, fractions_of, sources, spans, warn_arrivals};
use crate::error::argument;
use crate::results::loads;
use crate::signals::detached;
use crate::table::json;

/// Finds what clients that share a server need, beside the sum of what each needs alone.
///
/// `traces`: a list of traces (paths, `Trace`s or tables), or one that is given with itself as so many
/// `clients`. `shift`: how much later each begins than the one before it, for several answers ("1s",
/// "100s" for one trace, "0s" for several). `within` ("10ms") and `fraction` (1, 0.9, 0.95) as in
/// `plan_capacity`. The dict has the keys of `forebay plan consolidate --format json`.
#[pyfunction]
#[pyo3(signature = (traces, *, shift=None, clients=2, within=None, fraction=None, from_=None))]
pub(crate) fn plan_consolidate<'py>(
    py: Python<'py>,
    traces: &Bound<'py, PyAny>,
    shift: Option<Vec<String>>,
    clients: u16,
    within: Option<Vec<String>>,
    fraction: Option<Vec<Bound<'py, PyAny>>>,
    from_: Option<String>,
) -> PyResult<Bound<'py, PyDict>> {
    let sources = sources(traces, &from_)?;
    if !(2..=1000).contains(&clients) {
        return Err(argument("clients", format!("got {clients}, expected 2 to 1000")));
    }
    let copies = if sources.len() == 1 { usize::from(clients) } else { 1 };
    let shifts = match shift {
        Some(texts) => shifts(&texts)?,
        None if copies == 1 => vec![Nanos::ZERO],
        None => vec![Nanos::from_secs(1), Nanos::from_secs(100)],
    };
    let promises = Promises {
        within: spans(within, &["10ms"])?,
        fractions: fractions_of(fraction, &["1", "0.9", "0.95"])?,
    };
    let (found, alone) = detached(py, |signals| {
        let alone = sources.iter().map(|source| arrivals(source, false, signals));
        let alone = alone.collect::<Result<Vec<_>, _>>()?;
        let clients: Vec<_> =
            alone.iter().flat_map(|client| std::iter::repeat_n(client, copies)).collect();
        Ok((consolidate(&clients, &shifts, &promises)?, alone))
    })?;
    for client in &alone {
        warn_arrivals(py, client)?;
    }
    loads(py, &json(&found)?)
}

fn shifts(texts: &[String]) -> PyResult<Vec<Nanos>> {
    texts.iter().map(|text| span_or_zero(text).map_err(|said| argument("shift", said))).collect()
}
