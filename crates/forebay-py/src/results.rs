//! Results of verbs as Python objects: dicts equal to the command's JSON, and tables.

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

/// Parses a JSON object into a Python dict.
pub(crate) fn loads<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyDict>> {
    Ok(py.import("json")?.call_method1("loads", (text,))?.cast_into()?)
}

fn rows<'a, T: serde::Serialize + 'a>(
    values: impl IntoIterator<Item = &'a T>,
) -> PyResult<RecordBatch> {
    table::table(&values.into_iter().map(Row::of).collect::<PyResult<Vec<Row>>>()?)
}

/// Builds a table with one row per stream of each run.
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

/// Builds a table from columns of equal length.
fn columns<const N: usize>(columns: [(&str, ArrayRef); N]) -> PyResult<RecordBatch> {
    RecordBatch::try_from_iter(columns).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// Builds a table of the head positions in each run.
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

/// Builds a table of the latency distributions of each run.
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

/// Renders a result with a function of the package's `_views` module, named by `what`.
pub(crate) fn view<'py, T: PyClass>(of: &Bound<'py, T>, what: &str) -> PyResult<Bound<'py, PyAny>> {
    of.py().import("forebay._views")?.call_method1(what, (of,))
}

/// The result of `simulate`. Opens as a table in Polars, pandas and pyarrow, with one row for each
/// policy.
#[pyclass(frozen, name = "Result", module = "forebay")]
pub(crate) struct Simulation {
    answer: Py<PyDict>,
    /// A sentence that names the policy with the shortest total time.
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
    /// A list with one dict per policy, in the order given, with the keys of `forebay simulate
    /// --format json`: `policy`, `busy_s`, `read_p99_ms`, `energy_j`, ...; the last word of a key
    /// is its unit.
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

    /// A table of the head positions of the first disk: `policy`, `time_s`, `cylinder`, with a row
    /// for each I/O in the order of execution, sampled evenly if there are more than 200,000.
    #[getter]
    fn heads(&self) -> Table {
        Table(self.heads.clone())
    }

    /// A table of the latency distributions: `policy`, `op` (read, write), `latency_ms`, and the
    /// `share` of requests with at most this latency.
    #[getter]
    fn latencies(&self) -> Table {
        Table(self.latencies.clone())
    }

    /// Returns the whole result, as the command prints it with `--format json`.
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

    /// Returns the runs as a `pyarrow.Table`.
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrow::PYARROW.open(slf)
    }

    /// Returns the runs as a `polars.DataFrame`.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrow::POLARS.open(slf)
    }

    /// Returns the runs as a `pandas.DataFrame` of Arrow columns. Needs pyarrow.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrow::to_pandas(&arrow::PYARROW.open(slf)?)
    }

    /// Plots the latency distributions by policy, reads next to writes; returns a matplotlib figure.
    /// Needs matplotlib and pyarrow.
    fn plot<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        view(slf, "plot")
    }

    /// Shows the headline and a table of the runs in notebooks.
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

/// The result of `advise`. Opens as a table in Polars, pandas and pyarrow: the ranking, best first.
#[pyclass(frozen, module = "forebay")]
pub(crate) struct Advice {
    answer: Py<PyDict>,
    ranking: RecordBatch,
    /// The report as a self-contained HTML page.
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
    /// The kind of answer: "recommended", "baseline_is_best", "load_too_low", "nothing_to_gain",
    /// "depends" (open and dependent replay disagree), "too_short" or "no_times".
    #[getter]
    fn verdict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, "verdict")
    }

    /// The scheduler to use; None if the trace does not support a recommendation.
    #[getter]
    fn recommended<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, "recommended")
    }

    /// The best scheduler that Linux offers, and the commands that set it (`policy`, `now`,
    /// `for_good`); None if no change is needed.
    #[getter]
    fn today<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, "today")
    }

    /// The answer in at most 25 words.
    #[getter]
    fn headline<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, "headline")
    }

    /// The full answer with its reasons: a list of findings.
    #[getter]
    fn findings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, "findings")
    }

    /// How far the model deviates from the recorded device, a dict: `said`, `is_checked`,
    /// `retrodiction`, `other_replay`, `fit`.
    #[getter]
    fn trust<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, "trust")
    }

    /// The two streams that disturb each other most, as a list of dicts: `stream`, `beside`, `p99_ms`,
    /// `p99_without_ms`, `matters` and others.
    #[getter]
    fn disturbances<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, "disturbances")
    }

    /// All kinds of remedies, free ones first, as a list of dicts.
    #[getter]
    fn remedies<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, "remedies")
    }

    /// Limitations of the answer, a list.
    #[getter]
    fn cautions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, "cautions")
    }

    /// A list with one dict per scheduler, best first: `policy`, `total_s`, `gain_share`,
    /// `read_p99_ms`, ...
    #[getter]
    fn ranking<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, "ranking")
    }

    /// The ranking under the replay mode not used for the answer, a dict with `replay`, `ranking`
    /// and `disputed`; None if there is only one mode.
    #[getter]
    fn other_replay<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, "other_replay")
    }

    /// Which redundancy pays on an array, a dict; None if this was not requested.
    #[getter]
    fn redundancy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, "redundancy")
    }

    /// The complete runs, in the form of `Result.runs`.
    #[getter]
    fn runs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, "runs")
    }

    /// Returns the whole result, as `forebay advise --format json` prints it.
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

    /// Returns the ranking as a `pyarrow.Table`.
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrow::PYARROW.open(slf)
    }

    /// Returns the ranking as a `polars.DataFrame`.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrow::POLARS.open(slf)
    }

    /// Returns the ranking as a `pandas.DataFrame` of Arrow columns. Needs pyarrow.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrow::to_pandas(&arrow::PYARROW.open(slf)?)
    }

    /// Shows the report in notebooks.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        view(slf, "advice_html")
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("forebay.Advice({:?})", self.headline(py)?.extract::<String>()?))
    }
}
