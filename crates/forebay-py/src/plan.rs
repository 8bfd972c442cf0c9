//! The verb `plan capacity`.

use forebay::plan::amount::{Fraction, span};
use forebay::plan::arrivals::Arrivals;
use forebay::plan::capacity::{self, Doubt, Promises};
use forebay::plan::confidence::Bootstrap;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{argument, warn};
use crate::options::warn_notes;
use crate::results::loads;
use crate::signals::detached;
use crate::source::Source;
use crate::table::json;
use crate::trace::Trace;

/// Finds the least capacity of a server of constant rate that answers a fraction of the requests of
/// a trace (a path, a `Trace` or a table) within a time.
///
/// `within`: times with their unit ("5ms"). `fraction`: shares above 0 and at most 1, as text
/// ("0.9995") or numbers. `by_volume` adds rows for each volume. `confidence` (0.95) gives every
/// capacity an interval by bootstrap, made by `seed`; `hold_out` (0.3) checks what the rest of the
/// trace says on its end. The dict has the keys of `forebay plan capacity --format json`.
#[pyfunction]
#[pyo3(signature = (
    trace, *, within=None, fraction=None, by_volume=false, confidence=None, hold_out=None, seed=1,
    from_=None, names=None,
))]
#[allow(clippy::too_many_arguments)] // They are keywords.
pub(crate) fn plan_capacity<'py>(
    py: Python<'py>,
    trace: &Bound<'py, PyAny>,
    within: Option<Vec<String>>,
    fraction: Option<Vec<Bound<'py, PyAny>>>,
    by_volume: bool,
    confidence: Option<f64>,
    hold_out: Option<f64>,
    seed: u64,
    from_: Option<String>,
    names: Option<&Bound<'py, Trace>>,
) -> PyResult<Bound<'py, PyDict>> {
    let source = Source::new(trace, from_, names)?;
    let promises = promises(within, fraction)?;
    let bootstrap = share("confidence", confidence)?.map(|level| Bootstrap { level, seed });
    let doubt = Doubt { bootstrap, hold_out: share("hold_out", hold_out)? };
    let (answer, notes, cautions) = detached(py, |signals| {
        let mut reader = source.open()?;
        let go_on = |_| signals.go_on();
        let arrivals = Arrivals::read(source.name(), &mut *reader, by_volume, go_on)?;
        let answer = capacity::answer(&arrivals, &promises, doubt)?;
        let cautions = arrivals.cautions();
        Ok((answer, arrivals.notes, cautions))
    })?;
    warn_notes(py, source.name(), &notes)?;
    for caution in cautions {
        warn(py, format!("{}: {caution}", source.name().display()))?;
    }
    loads(py, &json(&answer)?)
}

/// Every bound with every fraction; those of the command by default.
fn promises(
    within: Option<Vec<String>>,
    fractions: Option<Vec<Bound<'_, PyAny>>>,
) -> PyResult<Promises> {
    let default = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect();
    let within = within.unwrap_or_else(|| default(&["5ms", "10ms", "20ms", "50ms"]));
    let fractions = match fractions {
        // A number's shortest text is what was written.
        Some(given) => given.iter().map(|f| Ok(f.str()?.to_string())).collect::<PyResult<_>>()?,
        None => default(&["0.9", "0.95", "0.99", "0.995", "0.999", "1"]),
    };
    let fraction = |text: &String| text.parse().map_err(|said| argument("fraction", said));
    let bound = |text: &String| span(text).map_err(|said| argument("within", said));
    let promises = Promises {
        within: within.iter().map(bound).collect::<PyResult<_>>()?,
        fractions: fractions.iter().map(fraction).collect::<PyResult<Vec<Fraction>>>()?,
    };
    if promises.within.is_empty() || promises.fractions.is_empty() {
        return Err(argument("within, fraction", "got none, expected at least one".to_string()));
    }
    Ok(promises)
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
