//! What the verbs answer: the dicts of the command's JSON, and tables of them.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt32Array};
use forebay::head::HeadPoint;
use forebay::simulate::{Run, RunResult};
use forebay::verb::Answered;
use forebay_show::html::document;
use pyo3::PyClass;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use serde_json::Value;

use crate::arrow;
use crate::asked::Yield;
use crate::table::{self, Row, Table};

/// The Python dict of a JSON object.
pub(crate) fn loads<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyDict>> {
    Ok(py.import("json")?.call_method1("loads", (text,))?.cast_into()?)
}

fn rows<'a, T: serde::Serialize + 'a>(
    values: impl IntoIterator<Item = &'a T>,
) -> PyResult<RecordBatch> {
    table::table(&values.into_iter().map(Row::of).collect::<PyResult<Vec<Row>>>()?)
}

/// One row for each stream of each run.
fn streams(runs: &[RunResult]) -> PyResult<RecordBatch> {
    let mut all = Vec::new();
    for run in runs {
        for stream in &run.figures.streams {
            let mut row = Row::of(stream)?;
            row.0.insert(0, ("policy".to_string(), Value::from(run.policy.as_str())));
            all.push(row);
        }
    }
    table::table(&all)
}

/// A table of `columns`, all of one length.
fn columns<const N: usize>(columns: [(&str, ArrayRef); N]) -> PyResult<RecordBatch> {
    RecordBatch::try_from_iter(columns).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// Where the heads were in each run.
fn heads(runs: &[Run]) -> PyResult<RecordBatch> {
    let points = || runs.iter().flat_map(|run| &run.head.points);
    let names = runs
        .iter()
        .flat_map(|run| std::iter::repeat_n(run.result.policy.as_str(), run.head.points.len()));
    columns([
        ("policy", Arc::new(StringArray::from_iter_values(names))),
        ("time_s", Arc::new(Float64Array::from_iter_values(points().map(HeadPoint::done_s)))),
        ("cylinder", Arc::new(UInt32Array::from_iter_values(points().map(|point| point.cylinder)))),
    ])
}

/// The latency distributions of each run.
fn latencies(runs: &[Run]) -> PyResult<RecordBatch> {
    let (mut policies, mut ops, mut ms, mut shares) = (vec![], vec![], vec![], vec![]);
    for run in runs {
        let sides = [("read", &run.read_distribution), ("write", &run.write_distribution)];
        for (op, points) in sides {
            for &(latency_ms, share) in points {
                policies.push(run.result.policy.as_str());
                ops.push(op);
                ms.push(latency_ms);
                shares.push(share);
            }
        }
    }
    columns([
        ("policy", Arc::new(StringArray::from(policies))),
        ("op", Arc::new(StringArray::from(ops))),
        ("latency_ms", Arc::new(Float64Array::from(ms))),
        ("share", Arc::new(Float64Array::from(shares))),
    ])
}

/// What the package's `_views` shows of a result.
pub(crate) fn view<'py, T: PyClass>(of: &Bound<'py, T>, what: &str) -> PyResult<Bound<'py, PyAny>> {
    of.py().import("forebay._views")?.call_method1(what, (of,))
}

/// What `simulate` answers. Opens as a table in Polars, pandas and pyarrow, one row for each policy.
#[pyclass(frozen, name = "Result", module = "forebay")]
pub(crate) struct Simulation {
    answer: Py<PyDict>,
    /// Which policy has the least total time, in a sentence.
    #[pyo3(get)]
    headline: String,
    runs: RecordBatch,
    streams: RecordBatch,
    heads: RecordBatch,
    latencies: RecordBatch,
}

impl Yield for Vec<Run> {
    const TYPE: &'static str = "Result";

    fn python(py: Python<'_>, answered: Answered<Vec<Run>>) -> PyResult<Py<PyAny>> {
        let Answered { data, page, beyond: runs, .. } = answered;
        let results: Vec<RunResult> = runs.iter().map(|run| run.result.clone()).collect();
        let simulation = Simulation {
            answer: loads(py, &data.to_string())?.unbind(),
            headline: page.headline,
            runs: rows(&results)?,
            streams: streams(&results)?,
            heads: heads(&runs)?,
            latencies: latencies(&runs)?,
        };
        Ok(Py::new(py, simulation)?.into_any())
    }
}

#[pymethods]
impl Simulation {
    /// A dict for each policy, in the order asked for, with the keys of `forebay simulate --format
    /// json`: `policy`, `busy_s`, `read_p99_ms`, `energy_j`, ..., the unit last.
    #[getter]
    fn runs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.answer.bind(py).as_any().get_item("runs")
    }

    /// A table of the streams in each run: `policy`, `stream`, `requests`, `busy_share`, `p50_ms`,
    /// `p99_ms`.
    #[getter]
    fn streams(&self) -> Table {
        Table(self.streams.clone())
    }

    /// A table of where the heads of the first disk were: `policy`, `time_s`, `cylinder`, a row for
    /// each I/O in the order they were done, thinned evenly where there are more than 200 thousand.
    #[getter]
    fn heads(&self) -> Table {
        Table(self.heads.clone())
    }

    /// A table of the latency distributions: `policy`, `op` (read, write), `latency_ms`, and the
    /// `share` of the requests that do not exceed it.
    #[getter]
    fn latencies(&self) -> Table {
        Table(self.latencies.clone())
    }

    /// The whole answer, as the command prints it with `--format json`.
    fn to_dict<'py>(&self, py: Python<'py>) -> Bound<'py, PyDict> {
        self.answer.bind(py).clone()
    }

    /// Arrow's PyCapsule interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        table::stream(py, &self.runs)
    }

    /// The runs as a `pyarrow.Table`.
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrow::PYARROW.open(slf)
    }

    /// The runs as a `polars.DataFrame`.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrow::POLARS.open(slf)
    }

    /// The runs as a `pandas.DataFrame` of Arrow columns. Needs pyarrow.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrow::to_pandas(&arrow::PYARROW.open(slf)?)
    }

    /// Latency distributions by policy, reads beside writes: a matplotlib figure, which notebooks show. Needs matplotlib
    /// and pyarrow.
    fn plot<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        view(slf, "plot")
    }

    /// In notebooks: the headline and a table of the runs.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        view(slf, "result_html")
    }

    fn __repr__(&self) -> String {
        match self.runs.num_rows() {
            1 => "forebay.Result(1 run)".to_string(),
            runs => format!("forebay.Result({runs} runs)"),
        }
    }
}

/// What `advise` answers. Opens as a table in Polars, pandas and pyarrow: the ranking, best first.
#[pyclass(frozen, module = "forebay")]
pub(crate) struct Advice {
    answer: Py<PyDict>,
    ranking: RecordBatch,
    /// The report: one HTML page that stands by itself.
    #[pyo3(get)]
    html: String,
}

impl Yield for forebay::advise::Advice {
    const TYPE: &'static str = "Advice";

    fn python(py: Python<'_>, answered: Answered<Self>) -> PyResult<Py<PyAny>> {
        let Answered { data, page, beyond: found, .. } = answered;
        let advice = Advice {
            answer: loads(py, &data.to_string())?.unbind(),
            ranking: rows(&found.ranking)?,
            html: document(&page),
        };
        Ok(Py::new(py, advice)?.into_any())
    }
}

impl Advice {
    fn get<'py>(&self, py: Python<'py>, key: &str) -> PyResult<Bound<'py, PyAny>> {
        self.answer.bind(py).as_any().get_item(key)
    }
}

#[pymethods]
impl Advice {
    /// The kind of answer: "recommended", "baseline_is_best", "load_too_low", "nothing_to_gain", "depends" (open and
    /// dependent replay do not agree), "too_short" or "no_times".
    #[getter]
    fn verdict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, "verdict")
    }

    /// The scheduler to use; None where nothing can be said of schedulers.
    #[getter]
    fn recommended<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, "recommended")
    }

    /// The scheduler to use of those that Linux has, and the lines that set it (`policy`, `now`, `for_good`); None where
    /// nothing need be changed.
    #[getter]
    fn today<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, "today")
    }

    /// The answer in at most 25 words.
    #[getter]
    fn headline<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, "headline")
    }

    /// The answer in full and why, a list of one thing each.
    #[getter]
    fn findings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, "findings")
    }

    /// How far the model is off what the recorded device did, a dict: `said`, `is_checked`, `retrodiction`,
    /// `other_replay`, `fit`.
    #[getter]
    fn trust<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, "trust")
    }

    /// Every kind of remedy, free ones first, a list of dicts.
    #[getter]
    fn remedies<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, "remedies")
    }

    /// What to keep in mind when believing it, a list.
    #[getter]
    fn cautions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, "cautions")
    }

    /// A dict for each scheduler, best first: `policy`, `total_s`, `gain_share`, `read_p99_ms`, ...
    #[getter]
    fn ranking<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, "ranking")
    }

    /// The ranking under the replay that the answer is not told by, a dict with `replay`, `ranking` and `disputed`; None
    /// where there is one alone.
    #[getter]
    fn other_replay<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, "other_replay")
    }

    /// Which redundancy pays on an array, a dict; None where that was not asked.
    #[getter]
    fn redundancy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, "redundancy")
    }

    /// The runs in full, as `Result.runs`.
    #[getter]
    fn runs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, "runs")
    }

    /// The whole answer, as `forebay advise --format json` prints it.
    fn to_dict<'py>(&self, py: Python<'py>) -> Bound<'py, PyDict> {
        self.answer.bind(py).clone()
    }

    /// Arrow's PyCapsule interface.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        table::stream(py, &self.ranking)
    }

    /// The ranking as a `pyarrow.Table`.
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrow::PYARROW.open(slf)
    }

    /// The ranking as a `polars.DataFrame`.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrow::POLARS.open(slf)
    }

    /// The ranking as a `pandas.DataFrame` of Arrow columns. Needs pyarrow.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrow::to_pandas(&arrow::PYARROW.open(slf)?)
    }

    /// In notebooks: the report.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        view(slf, "advice_html")
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("forebay.Advice({:?})", self.headline(py)?.extract::<String>()?))
    }
}
