//! The verb `plan sla`.

use std::path::PathBuf;

use forebay::plan::arrival_times::Clock;
use forebay::plan::costed;
use forebay::plan::sla::{Sla, price};
use forebay::report::{self, SlaPage};
use forebay_core::rtt::RATE_MAX_IOPS;
use forebay_trace::write::Kept;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{arrivals, costs, load, warn_arrivals, warn_load};
use crate::error::{Error, argument, raised};
use crate::given::{given, shown};
use crate::page::Report;
use crate::results::loads;
use crate::signals::detached;
use crate::source::Source;
use crate::table::json;
use crate::trace::Trace;

/// A promise: the file that holds it, or its tiers.
pub(crate) enum Promise {
    Tiers(Vec<(f64, f64)>),
    File(PathBuf),
}

impl Promise {
    /// Several tiers, one by itself, or a path.
    fn given(object: &Bound<'_, PyAny>) -> PyResult<Promise> {
        if let Ok(tier) = object.extract::<(f64, f64)>() {
            return Ok(Promise::Tiers(vec![tier]));
        }
        if let Ok(tiers) = object.extract::<Vec<(f64, f64)>>() {
            return Ok(Promise::Tiers(tiers));
        }
        given::<PathBuf>(object).map(Promise::File).map_err(|error| {
            if error.is_instance_of::<Error>(object.py()) {
                return error;
            }
            PyTypeError::new_err(format!(
                "got {}, expected a path, or a list of (fraction, milliseconds) as in [(0.9, 20), (0.99, 50)]",
                shown(object)
            ))
        })
    }

    fn read(self) -> Result<Sla, forebay::Error> {
        match self {
            Promise::File(path) => Sla::open(&path),
            Promise::Tiers(tiers) => Sla::new(&tiers),
        }
    }

    /// What is not written over, with its file.
    fn kept(&self, kept: Kept) -> Kept {
        match self {
            Promise::File(path) => kept.and_file(path),
            Promise::Tiers(_) => kept,
        }
    }
}

/// Checks and prices a promise of several tiers to a trace (a path, a `Trace` or a table).
///
/// `promise`: the file of `forebay plan sla`, or a list of (fraction, milliseconds), as in
/// [(0.9, 20), (0.99, 50), (1, 500)]. `capacity` is one to check the promise at; `report` is where to write the
/// HTML page; `trust_times` as in
/// `plan_capacity`. The dict has the keys `cautions`, `floor_iops`, `least`, `separate_iops`, `fcfs_iops`, `miser_iops` and, with `capacity`, `checked` of
/// `forebay plan sla --format json`. With `cost_us` ("100+0.5/KiB", or a device) a request costs what its
/// length takes, in microseconds, and the dict has the keys of `--cost-us` there.
#[pyfunction]
#[pyo3(signature = (
    promise, trace, *, capacity=None, cost_us=None, report=None, trust_times=false, from_=None, names=None,
))]
#[allow(clippy::too_many_arguments)] // They are keywords.
pub(crate) fn plan_sla<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = Promise::given)] promise: Promise,
    trace: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = given)] capacity: Option<u64>,
    #[pyo3(from_py_with = given)] cost_us: Option<String>,
    #[pyo3(from_py_with = given)] report: Option<PathBuf>,
    #[pyo3(from_py_with = given)] trust_times: bool,
    #[pyo3(from_py_with = given)] from_: Option<String>,
    names: Option<&Bound<'py, Trace>>,
) -> PyResult<Bound<'py, PyDict>> {
    let source = Source::new(trace, from_, names)?;
    let kept = promise.kept(source.kept());
    let promise = promise.read().map_err(raised)?;
    let clock = Clock::of(promise.within(), trust_times);
    if let Some(got) = capacity.filter(|iops| !(1..=RATE_MAX_IOPS).contains(iops)) {
        let text = format!("got {got}, expected 1 to {RATE_MAX_IOPS} IOPS");
        return Err(argument("capacity", text));
    }
    let page = Report::begin(report, &kept)?;
    if let Some(text) = cost_us {
        if let Some(got) = capacity {
            let text =
                format!("got {got} with cost_us, expected one of them: speeds are not in IOPS");
            return Err(argument("capacity", text));
        }
        let costs = costs(&text)?;
        let (found, load) = detached(py, |signals| {
            let load = load(&source, false, clock, signals)?;
            let found = costed::sla::price(&load, costs.cost, &promise)?;
            page.write(|| Ok(report::costed_sla_html(&found, &costs)))?;
            Ok((found, load))
        })?;
        warn_load(py, &load)?;
        return loads(py, &json(&found)?);
    }
    let (found, arrivals) = detached(py, |signals| {
        let arrivals = arrivals(&source, false, clock, signals)?;
        let found = price(&arrivals, &promise, capacity)?;
        page.write(|| Ok(report::sla_html(&SlaPage { arrivals: &arrivals, price: &found })))?;
        Ok((found, arrivals))
    })?;
    warn_arrivals(py, &arrivals)?;
    loads(py, &json(&found)?)
}
