//! `plan_capacity` with `device`.

use std::path::PathBuf;

use forebay::devices;
use forebay::input::Input;
use forebay::plan::arrival_times::{ArrivalTimes, Clock};
use forebay::plan::capacity::{Doubt, Promises, curve, table};
use forebay::plan::devices::{Answer, Question, answer};
use forebay::progress::Told;
use forebay::report::{self, CapacityPage, DevicesPart};
use forebay_trace::streams::StreamBy;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{argument, raised, warn};
use crate::options::warn_notes;
use crate::page::Report;
use crate::results::loads;
use crate::signals::detached;
use crate::source::Source;
use crate::table::json;

/// Which devices, and how many are allowed.
pub(super) struct Asked<'a> {
    pub(super) device: String,
    pub(super) policy: &'a str,
    pub(super) devices_max: usize,
    pub(super) price: Option<f64>,
    pub(super) trust_times: bool,
}

pub(super) fn plan_devices<'py>(
    py: Python<'py>,
    source: Source,
    promises: &Promises,
    asked: Asked<'_>,
    report: Option<PathBuf>,
) -> PyResult<Bound<'py, PyDict>> {
    let Asked { policy, devices_max, price, trust_times, .. } = asked;
    if !(1..=4096).contains(&devices_max) {
        return Err(argument("devices_max", format!("got {devices_max}, expected 1 to 4096")));
    }
    if let Some(price) = price.filter(|price| !(0.0..=1e12).contains(price)) {
        return Err(argument("price", format!("got {price}, expected 0 to 1e12, e.g. 89.90")));
    }
    let device = devices::open(&asked.device).map_err(|error| raised(error.into()))?;
    let kept = devices::and_kept(source.kept(), [asked.device.as_str()]);
    let page = Report::begin(report, &kept)?;
    let name = source.name().to_path_buf();
    let question = Question { policy, promises, devices_max, price_each: price, trust_times };
    let (found, notes) = detached(py, |signals| {
        let opening = source.opening();
        // The page has the same promises on a server of constant rate too.
        let arrivals = match page.is_asked() {
            true => {
                let clock = Clock::of(promises.within.iter().copied(), trust_times);
                let mut go_on = |_| signals.go_on();
                Some(ArrivalTimes::read(&name, &mut *opening()?, false, clock, &mut go_on)?)
            }
            false => None,
        };
        let input =
            Input::read_from(&name, opening, StreamBy::default(), &mut |_| signals.go_on())?;
        let found = answer(&input, &device, &question, &mut |_: &Told| signals.go_on())?;
        if let Some(arrivals) = arrivals {
            page.write(|| html(&found, &device, &arrivals, promises))?;
        }
        Ok((found, input.notes))
    })?;
    warn_notes(py, &name, &notes)?;
    for caution in &found.cautions {
        warn(py, format!("{}: {caution}", name.display()))?;
    }
    loads(py, &json(&found)?)
}

/// The page of the same promises on a server of constant rate, with what the devices do.
fn html(
    found: &Answer,
    device: &devices::OpenDevice,
    arrivals: &ArrivalTimes,
    promises: &Promises,
) -> Result<String, forebay::Error> {
    let (said, notes) = (found.told(), found.notes(device));
    let rows = table(arrivals, promises, Doubt::default(), &mut forebay::progress::unheard)?;
    let part = DevicesPart { device: &found.device, said: &said, rows: &found.rows, notes: &notes };
    Ok(report::capacity_html(&CapacityPage {
        arrivals,
        promises,
        rows: &rows,
        curves: curve(arrivals, &promises.within)?,
        devices: Some(part),
    }))
}
