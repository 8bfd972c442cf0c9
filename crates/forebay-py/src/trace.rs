//! `forebay.Trace`: a trace on disk, which is read in batches whenever its rows are requested.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use forebay::Error;
use forebay_ask::{Spelling, spelled};
use forebay_trace::{Dictionary, Notes, open};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};

use crate::arrow::{self, Library, Streamed};
use crate::batches::Batches;
use crate::error;
use crate::given::given;
use crate::results::view;
use crate::signals::detached;
use crate::source::Source;
use crate::table::Table;

/// Information that is known only after reading a trace to its end.
#[derive(Clone)]
pub(crate) struct Ended {
    pub(crate) records: u64,
    pub(crate) dictionary: Dictionary,
    pub(crate) notes: Notes,
}

/// The information that is known at the end, stored by the first reader that gets there.
pub(crate) type End = Arc<Mutex<Option<Ended>>>;

/// A block-I/O trace. It is not held in memory: the file is read in batches each time its rows are
/// requested.
///
/// Any library that supports Arrow's PyCapsule interface can open it without copies:
/// `pl.DataFrame(trace)`, `pa.table(trace)`, or `pa.RecordBatchReader.from_stream(trace)` to read
/// it batch by batch.
///
/// Columns: `at_ns` (int64, nanoseconds from the first request), `op` (read, write, flush, trim),
/// `offset` (uint64, bytes), `len` (uint64, bytes), `stream` (uint32, an index into `streams`),
/// `volume` (uint32, an index into `volumes`), `latency_ns` (int64, nanoseconds, null where
/// unknown), `flags` (letters of PFASM: preflush, FUA, read-ahead, synchronous, metadata).
#[pyclass(frozen, module = "forebay")]
pub(crate) struct Trace {
    /// The file to read.
    #[pyo3(get)]
    path: PathBuf,
    /// The name of the file's format.
    #[pyo3(get)]
    format: &'static str,
    from: Option<String>,
    /// The streams and volumes, if the file begins with them.
    first: Option<Dictionary>,
    end: End,
}

impl Trace {
    /// Opens the file and checks that it is a trace.
    pub(crate) fn open(py: Python<'_>, path: PathBuf, from: Option<String>) -> PyResult<Trace> {
        detached(py, |_| {
            let reader = open::open(&path, from.as_deref())?;
            let (format, dictionary) = (reader.notes().format, reader.dictionary());
            // Only canonical Parquet begins with complete dictionaries. Those of other formats may
            // be incomplete before the first record.
            let whole = format == "parquet" && !dictionary.streams.is_empty();
            let first = whole.then(|| dictionary.clone());
            Ok(Trace { path, format, from, first, end: End::default() })
        })
    }

    /// Returns the trace as the argument of a verb.
    pub(crate) fn source(&self) -> Source {
        Source::File(self.path.clone(), self.from.clone())
    }

    fn known(&self) -> Option<Ended> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the information known at the end. Reads the whole trace unless it was read before.
    fn ended(&self, py: Python<'_>) -> PyResult<Ended> {
        if let Some(ended) = self.known() {
            return Ok(ended);
        }
        let ended = detached(py, |signals| {
            let mut reader = open::open(&self.path, self.from.as_deref())?;
            let (mut batch, mut records) = (Vec::new(), 0);
            loop {
                reader.read(&mut batch)?;
                if batch.is_empty() {
                    let (dictionary, notes) = (reader.dictionary().clone(), reader.notes().clone());
                    return Ok(Ended { records, dictionary, notes });
                }
                records += batch.len() as u64;
                if signals.go_on().is_break() {
                    return Err(Error::Stopped);
                }
            }
        })?;
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended.clone());
        Ok(ended)
    }

    /// Returns all rows from the beginning.
    fn stream(&self, py: Python<'_>) -> PyResult<Streamed> {
        let known = self.first.clone().or_else(|| self.known().map(|end| end.dictionary));
        let reader = detached(py, |_| Ok(self.source().open()?))?;
        let batches = Batches::new(reader, known.as_ref());
        Ok(Streamed::new(batches, Arc::clone(&self.end)))
    }

    /// Returns the names of streams and volumes.
    pub(crate) fn dictionary(&self, py: Python<'_>) -> PyResult<Dictionary> {
        match &self.first {
            Some(first) => Ok(first.clone()),
            None => Ok(self.ended(py)?.dictionary),
        }
    }
}

#[pymethods]
impl Trace {
    /// The streams that submitted requests: for each number in the column `stream`, a dict of
    /// `thread`, `process` (ids, or None) and `name`. If the file does not begin with them, it is
    /// read to its end once.
    #[getter]
    fn streams<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let streams = PyList::empty(py);
        for stream in self.dictionary(py)?.streams {
            let one = PyDict::new(py);
            one.set_item("thread", stream.thread)?;
            one.set_item("process", stream.process)?;
            one.set_item("name", stream.name)?;
            streams.append(one)?;
        }
        Ok(streams)
    }

    /// The name of each number in the column `volume`. May read the file once, as `streams` does.
    #[getter]
    fn volumes(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(self.dictionary(py)?.volumes)
    }

    /// The number of rows. The file is read to its end once.
    #[getter]
    fn records(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.ended(py)?.records)
    }

    /// Returns the number of rows.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(usize::try_from(self.records(py)?)?)
    }

    /// Notes about reading the trace, such as skipped rows and warnings, one sentence each. The
    /// file is read to its end once.
    #[getter]
    fn notes(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let sentences = self.ended(py)?.notes.sentences();
        Ok(sentences.iter().map(|said| spelled(said, Spelling::Python)).collect())
    }

    /// Arrow's PyCapsule interface: a stream of record batches, from the beginning. The schema's
    /// metadata contains streams and volumes if they are known before the end.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface permits producers to ignore the requested schema.
        drop(requested_schema);
        arrow::stream(py, self.stream(py)?)
    }

    /// Iterates over all rows as `Table`s of about 65,000 rows.
    fn batches(&self, py: Python<'_>) -> PyResult<TraceBatches> {
        Ok(TraceBatches(Mutex::new(self.stream(py)?)))
    }

    /// Returns all rows as a `pyarrow.Table`.
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        opened(slf, &arrow::PYARROW)
    }

    /// Returns all rows as a `polars.DataFrame`.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        opened(slf, &arrow::POLARS)
    }

    /// Returns all rows as a `pandas.DataFrame` with Arrow columns (`pandas.ArrowDtype`), so that
    /// integer columns with nulls stay integers. Needs pyarrow.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        arrow::to_pandas(&opened(slf, &arrow::PYARROW)?)
    }

    /// Shows the trace's name, format and columns in notebooks, without reading the file.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        view(slf, "trace_html")
    }

    fn __repr__(&self) -> String {
        format!("forebay.Trace({:?}, format={:?})", self.path.display().to_string(), self.format)
    }
}

/// Opens the trace in a library, batch by batch so that signals can interrupt it.
fn opened<'py>(trace: &Bound<'py, Trace>, library: &Library) -> PyResult<Bound<'py, PyAny>> {
    let batches = trace.get().batches(trace.py())?.into_pyobject(trace.py())?;
    match library.open_all(&batches)? {
        Some(table) => Ok(table),
        None => library.open(trace),
    }
}

/// The iterator returned by `Trace.batches`.
#[pyclass(frozen, name = "Batches", module = "forebay")]
pub(crate) struct TraceBatches(Mutex<Streamed>);

#[pymethods]
impl TraceBatches {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// Reads the next batch without the interpreter's lock.
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Table>> {
        let next = py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).next());
        next.map(|batch| batch.map(Table).map_err(error::of_arrow)).transpose()
    }
}

/// Opens the trace at `path`: a file, which may be compressed, or the base name of a blktrace set.
///
/// The format is detected from the content unless `from_` names it (docs/traces.md lists the
/// names). `columns` describes a text file with one request per line, as `--columns` does, e.g.
/// "at:us,op,offset:sectors,len:sectors,volume". Only the beginning of the file is read.
///
/// Raises `Error` if it is not a trace, and `FileNotFoundError` or another `OSError` if it cannot
/// be opened.
#[pyfunction]
#[pyo3(signature = (path, *, from_=None, columns=None))]
pub(crate) fn read(
    py: Python<'_>,
    #[pyo3(from_py_with = given)] path: PathBuf,
    #[pyo3(from_py_with = given)] from_: Option<String>,
    #[pyo3(from_py_with = given)] columns: Option<&str>,
) -> PyResult<Trace> {
    let from = match (from_, columns) {
        (Some(_), Some(_)) => {
            let text = "got both, expected one: columns replaces the format";
            return Err(error::argument("from_, columns", text.into()));
        }
        (from, None) => from,
        (None, Some(spec)) => Some(format!("{}{spec}", open::COLUMNS)),
    };
    Trace::open(py, path, from)
}
