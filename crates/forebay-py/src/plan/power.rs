//! The verb `plan power`.

use std::path::PathBuf;

use forebay::devices;
use forebay::plan::arrival_times::Clock;
use forebay::plan::power::{Disk, Question, power};
use forebay::report::{self, PowerPage};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{arrivals, bound, fraction as of, parsed, warn_arrivals};
use crate::error::{argument, raised, warn};
use crate::given::given;
use crate::page::Report;
use crate::results::loads;
use crate::signals::detached;
use crate::source::Source;
use crate::table::json;
use crate::trace::Trace;

/// Finds what a promise costs in energy when pools of disks can be switched off.
///
/// `trace`: a path, a `Trace` or a table. `device`: a bundled disk or a device file with standby
/// figures; `disk_iops` its rate (by default that of random 4 KiB reads, simulated), `off_w` its power
/// when it is off (the paper neglects it), `pool_disks` how many make a pool. `within`, `fraction` and
/// `baseline_fraction` are the promise and the share the baseline has pools for; `epoch` how long pools
/// stay as they are, `history` how many past epochs a prediction looks at; `report` is where to write
/// the HTML page; `trust_times` as in `plan_capacity`. The dict is one of the
/// `traces` of `forebay plan power --format json`, without its name.
#[pyfunction]
#[pyo3(signature = (
    trace, *, device="ultrastar-36z15", disk_iops=None, off_w=None, pool_disks=4, within="20ms",
    fraction=None, baseline_fraction=None, epoch="1h", history=1, report=None, trust_times=false,
    from_=None, names=None,
))]
#[allow(clippy::too_many_arguments)] // They are keywords.
pub(crate) fn plan_power<'py>(
    py: Python<'py>,
    trace: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = given)] device: &str,
    #[pyo3(from_py_with = given)] disk_iops: Option<u64>,
    #[pyo3(from_py_with = given)] off_w: Option<f64>,
    #[pyo3(from_py_with = given)] pool_disks: u64,
    #[pyo3(from_py_with = given)] within: &str,
    fraction: Option<Bound<'py, PyAny>>,
    baseline_fraction: Option<Bound<'py, PyAny>>,
    #[pyo3(from_py_with = given)] epoch: &str,
    #[pyo3(from_py_with = given)] history: u16,
    #[pyo3(from_py_with = given)] report: Option<PathBuf>,
    #[pyo3(from_py_with = given)] trust_times: bool,
    #[pyo3(from_py_with = given)] from_: Option<String>,
    names: Option<&Bound<'py, Trace>>,
) -> PyResult<Bound<'py, PyDict>> {
    let source = Source::new(trace, from_, names)?;
    let share = |name, given: Option<Bound<'py, PyAny>>, default| match given {
        Some(given) => of(name, &given),
        None => parsed(name, default),
    };
    positive("history", Some(history.into()))?;
    positive("pool_disks", Some(pool_disks))?;
    positive("disk_iops", disk_iops)?;
    let mut disk = Disk::open(device, disk_iops).map_err(raised)?;
    disk.standby_w = watts(off_w)?.unwrap_or(disk.standby_w);
    let question = Question {
        within: bound(within)?,
        fraction: share("fraction", fraction, "0.99")?,
        baseline: share("baseline_fraction", baseline_fraction, "1")?,
        epoch: forebay::plan::amount::span(epoch).map_err(|said| argument("epoch", said))?,
        history: usize::from(history),
        pool_disks,
        disk,
    };
    let page = Report::begin(report, &devices::and_kept(source.kept(), [device]))?;
    let (found, arrivals) = detached(py, |signals| {
        let arrivals =
            arrivals(&source, false, Clock::of([question.within], trust_times), signals)?;
        let found = power(&arrivals, &question)?;
        let trace = arrivals.path.display().to_string();
        let traces = [(trace.as_str(), &found)];
        page.write(|| Ok(report::power_html(&PowerPage { question: &question, traces: &traces })))?;
        Ok((found, arrivals))
    })?;
    warn_arrivals(py, &arrivals)?;
    if let Some(caution) = found.epoch_caution() {
        warn(py, format!("{}: {caution}", arrivals.path.display()))?;
    }
    loads(py, &json(&found)?)
}

fn positive(name: &str, given: Option<u64>) -> PyResult<()> {
    match given {
        Some(0) => Err(argument(name, "got 0, expected at least 1".to_string())),
        _ => Ok(()),
    }
}

fn watts(given: Option<f64>) -> PyResult<Option<f64>> {
    match given {
        Some(watts) if !(0.0..=1e6).contains(&watts) => {
            Err(argument("off_w", format!("got '{watts}', expected 0 to 1000000 W, e.g. 2.5")))
        }
        given => Ok(given),
    }
}
