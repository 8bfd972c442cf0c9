//! The verb `compare`.

use std::path::PathBuf;

use forebay::compare::Options;
use forebay::input::Input;
use forebay::{devices, report};
use forebay_trace::write::Kept;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{raised, warn};
use crate::given::{given, several_or_none};
use crate::options::{self, warn_notes};
use crate::page::Report;
use crate::results::loads;
use crate::signals::detached;
use crate::source::Source;
use crate::table::json;

/// Tells how alike two traces are (each a path, a `Trace` or a table), and for what `b` may stand in
/// for `a`.
///
/// The dict has the keys of `forebay compare --format json`: `verdict` (`faithful`, `text`, `aspects`),
/// `features`, `distances`, `dispersion`, `mrc_mean_error`, `mrc`, `heat`, `responses`, and what was
/// `left_out`. Figures of `a` stand in the interval that resamples of its own time give them, made by
/// `seed`. `device`: where responses are compared, one or a list, by default a disk, a SATA solid-state drive and an
/// NVMe one. `block_kib`: the block of the caches. `intensity`: how many times as fast as recorded
/// requests reach the devices. `report`: a file for the card as an HTML page. Cautions are told as
/// `TraceWarning`.
#[pyfunction]
#[pyo3(signature = (
    a, b, *, device=None, block_kib=None, intensity=1.0, seed=1, report=None,
    stream_by="thread", from_=None,
))]
#[allow(clippy::too_many_arguments)] // They are keywords.
pub(crate) fn compare<'py>(
    py: Python<'py>,
    a: &Bound<'py, PyAny>,
    b: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = several_or_none)] device: Option<Vec<String>>,
    #[pyo3(from_py_with = given)] block_kib: Option<u32>,
    #[pyo3(from_py_with = given)] intensity: f64,
    #[pyo3(from_py_with = given)] seed: u64,
    #[pyo3(from_py_with = given)] report: Option<PathBuf>,
    #[pyo3(from_py_with = given)] stream_by: &str,
    #[pyo3(from_py_with = given)] from_: Option<String>,
) -> PyResult<Bound<'py, PyDict>> {
    let sources = [Source::new(a, from_.clone(), None)?, Source::new(b, from_, None)?];
    let by = options::stream_by(stream_by)?;
    let device = device.unwrap_or_default();
    let options = Options::new(&device, block_kib, intensity, seed).map_err(raised)?;
    let kept: Kept = sources.iter().flat_map(|source| source.kept().paths().to_vec()).collect();
    let kept = devices::and_kept(kept, device.iter().map(String::as_str));
    let page = Report::begin(report, &kept)?;
    let (card, notes) = detached(py, |signals| {
        let [a, b] = sources.map(|source| {
            let name = source.name().to_path_buf();
            Input::read_from(&name, source.opening(), by, &mut |_| signals.go_on())
        });
        let (a, b) = (a?, b?);
        let card = forebay::compare::compare(&a, &b, &options, &mut |_| signals.go_on())?;
        page.write(|| Ok(report::card_html(&card)))?;
        Ok((card, [(a.path, a.notes), (b.path, b.notes)]))
    })?;
    for (path, notes) in &notes {
        warn_notes(py, path, notes)?;
    }
    for told in card.left_out.iter().chain(&card.cautions) {
        warn(py, told.clone())?;
    }
    loads(py, &json(&card)?)
}
