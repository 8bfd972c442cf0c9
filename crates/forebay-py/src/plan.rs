//! The verb `plan`: `plan_capacity` here, each other question in a file of its own.

mod buy;
mod consolidate;
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
use forebay::plan::costed::{Costs, Load};

use forebay_core::Nanos;
use forebay_trace::write::Kept;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyList, PyTuple};

use crate::error::{argument, raised, warn};
use crate::given::shown;
use crate::options::warn_notes;
use crate::signals::Signals;
use crate::source::Source;

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
