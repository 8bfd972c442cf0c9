//! The verb `plan buy`.

use std::path::PathBuf;

use forebay::input::Input;
use forebay::plan::amount::span;
use forebay::plan::buy::{
    By, Candidate, Configuration, DRIVES_MAX, GROWTH_MAX, Layout, Prices, Promise, Question,
    Sharing, answer,
};
use forebay::plan::consolidate::Begin;
use forebay::progress::Told;
use forebay::{devices, report};
use forebay_trace::streams::StreamBy;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{bound, fraction as of, kept, parsed, sources};
use crate::error::{argument, raised, warn};
use crate::given::{given, several_or_none};
use crate::options::warn_notes;
use crate::page::Report;
use crate::results::loads;
use crate::signals::detached;
use crate::table::json;

/// Finds which drives to buy, how many and in which layout, for what clients are promised.
///
/// `traces`: a list of traces (paths, `Trace`s or tables), or one; each is a client, with `by_volume` each volume is.
/// `keep_times` keeps the clock that they have in common. `within` and `fraction` are what each is promised, and
/// `promises` others' own, as `{"web": ("5ms", 0.999)}`. `growth`: how many times as many bytes and requests a second
/// there will be; `spare`: drives that stand ready; `survives`: drives that may fail without loss (0, 1, 2). `prices`:
/// a TOML file. `devices`, `layouts`: what is tried (all bundled drives; "single", "mirror", "raid6", "flash-cache",
/// "adaptive"); `clients`: "shared", "apart" or "both"; `flash`: what disks share as a cache; `policy`: the scheduler
/// of each disk; `devices_max`: the most drives that are tried. `report` is where to write the HTML page, `configure` a folder for
/// the configuration. The dict has the keys of `forebay plan buy --format json`.
#[pyfunction]
#[pyo3(signature = (
    traces, *, by_volume=false, keep_times=false, within="10ms", fraction=None, promises=None, growth=1.0, spare=0,
    survives=0, prices=None, devices=None, layouts=None, clients="both", flash="d7-p5520", policy="mq-deadline",
    devices_max=64, report=None, configure=None, trust_times=false, from_=None,
))]
#[allow(clippy::too_many_arguments)] // They are keywords.
pub(crate) fn plan_buy<'py>(
    py: Python<'py>,
    traces: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = given)] by_volume: bool,
    #[pyo3(from_py_with = given)] keep_times: bool,
    #[pyo3(from_py_with = given)] within: &str,
    fraction: Option<Bound<'py, PyAny>>,
    #[pyo3(from_py_with = given)] promises: Option<Bound<'py, PyDict>>,
    #[pyo3(from_py_with = given)] growth: f64,
    #[pyo3(from_py_with = given)] spare: u16,
    #[pyo3(from_py_with = given)] survives: u16,
    #[pyo3(from_py_with = given)] prices: Option<PathBuf>,
    #[pyo3(from_py_with = several_or_none)] devices: Option<Vec<String>>,
    #[pyo3(from_py_with = several_or_none)] layouts: Option<Vec<String>>,
    #[pyo3(from_py_with = given)] clients: &str,
    #[pyo3(from_py_with = given)] flash: &str,
    #[pyo3(from_py_with = given)] policy: &str,
    #[pyo3(from_py_with = given)] devices_max: u16,
    #[pyo3(from_py_with = given)] report: Option<PathBuf>,
    #[pyo3(from_py_with = given)] configure: Option<PathBuf>,
    #[pyo3(from_py_with = given)] trust_times: bool,
    #[pyo3(from_py_with = given)] from_: Option<String>,
) -> PyResult<Bound<'py, PyDict>> {
    let sources = sources(traces, &from_)?;
    if let Some(folder) = &configure {
        Configuration::check(folder).map_err(raised)?;
    }
    within_range("growth", growth, 0.001, GROWTH_MAX)?;
    within_range("spare", spare.into(), 0.0, 1024.0)?;
    within_range("survives", survives.into(), 0.0, 2.0)?;
    within_range("devices_max", devices_max.into(), 1.0, DRIVES_MAX as f64)?;
    let fraction = match &fraction {
        Some(given) => of("fraction", given)?,
        None => parsed("fraction", "0.99")?,
    };
    let own = promises.map_or_else(|| Ok(Vec::new()), |promises| own(&promises))?;
    let drives = opened(devices)?;
    let flash = Candidate::open(flash).map_err(raised)?;
    let names = drives.iter().chain([&flash]).map(|one| one.device.name.clone());
    let prices = prices.map(|path| Prices::read(&path, &names.collect::<Vec<_>>()));
    let prices = prices.transpose().map_err(raised)?.unwrap_or_default();
    let layouts = named(layouts)?;
    let sharings: &[Sharing] = match clients {
        "shared" => &[Sharing::Shared],
        "apart" => &[Sharing::Apart],
        "both" => &[Sharing::Shared, Sharing::Apart],
        other => {
            let said = format!("got '{other}', expected 'shared', 'apart' or 'both'");
            return Err(argument("clients", said));
        }
    };
    let question = Question {
        promise: Promise { within: bound(within)?, fraction },
        own: &own,
        by: if by_volume { By::Volume } else { By::Trace },
        begin: if keep_times { Begin::OwnClocks } else { Begin::Together },
        trust_times,
        growth,
        spare: spare.into(),
        survives: survives.into(),
        drives: &drives,
        layouts: &layouts,
        flash: &flash,
        scheduler: policy,
        drives_max: devices_max.into(),
        sharings,
        prices: &prices,
    };
    let folder_asked = configure.clone();
    let kept = kept(&sources);
    let page = Report::begin(report, &kept)?;
    let (answer, notes) = detached(py, |signals| {
        let mut inputs = Vec::new();
        for source in sources {
            let name = source.name().to_path_buf();
            let by = StreamBy::default();
            inputs.push(Input::read_from(&name, source.opening(), by, &mut |_| signals.go_on())?);
        }
        let answer = answer(&inputs, &question, &mut |_: &Told| signals.go_on())?;
        page.write(|| Ok(report::buy_html(&answer)))?;
        if let (Some(folder), Some(configuration)) = (&configure, &answer.configuration) {
            configuration.write(folder, &kept)?;
        }
        let notes = inputs.iter().map(|input| (input.path.clone(), input.notes.clone()));
        Ok((answer, notes.collect::<Vec<_>>()))
    })?;
    for (path, notes) in &notes {
        warn_notes(py, path, notes)?;
    }
    for caution in &answer.cautions {
        warn(py, caution.clone())?;
    }
    if let (Some(folder), None) = (&folder_asked, &answer.configuration) {
        let folder = folder.display();
        warn(py, format!("configure: {folder} is not written, since nothing keeps the promise"))?;
    }
    loads(py, &json(&answer)?)
}

fn within_range(name: &str, given: f64, least: f64, most: f64) -> PyResult<()> {
    match (least..=most).contains(&given) {
        true => Ok(()),
        false => Err(argument(name, format!("got {given}, expected {least} to {most}"))),
    }
}

/// Clients' own promises.
fn own(promises: &Bound<'_, PyDict>) -> PyResult<Vec<(String, Promise)>> {
    let wrong =
        || argument("promises", "expected a dict as {\"web\": (\"5ms\", 0.999)}".to_string());
    let one = |(name, promise): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let name: String = name.extract().map_err(|_| wrong())?;
        let (within, fraction): (String, Bound<'_, PyAny>) =
            promise.extract().map_err(|_| wrong())?;
        let within = span(&within).map_err(|said| argument("promises", said))?;
        Ok((name, Promise { within, fraction: of("promises", &fraction)? }))
    };
    promises.iter().map(one).collect()
}

fn opened(names: Option<Vec<String>>) -> PyResult<Vec<Candidate>> {
    let names = match names {
        Some(names) if names.is_empty() => {
            return Err(argument("devices", "got none, expected at least one".to_string()));
        }
        Some(names) => names,
        None => {
            let all = devices::list().map_err(|error| raised(error.into()))?;
            all.into_iter().map(|device| device.name).collect()
        }
    };
    names.iter().map(|name| Candidate::open(name).map_err(raised)).collect()
}

fn named(names: Option<Vec<String>>) -> PyResult<Vec<Layout>> {
    let Some(names) = names else { return Ok(Layout::ALL.to_vec()) };
    super::some("layouts", names.len())?;
    let one = |name: &String| {
        Layout::named(name).ok_or_else(|| {
            let all = Layout::ALL.map(Layout::name).join(", ");
            argument("layouts", format!("got '{name}', expected some of {all}"))
        })
    };
    names.iter().map(one).collect()
}
