//! Arrow tables out of Rust, without copies: the buffers cross as they are, through Arrow's C
//! stream interface in a PyCapsule.

use std::ffi::CStr;
use std::sync::PoisonError;
use std::thread::{self, ThreadId};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use forebay_trace::table::Batches;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyCapsule};

use crate::trace::{End, Ended};

const STREAM: &CStr = c"arrow_array_stream";

/// A capsule with what `batches` gives.
pub(crate) fn stream(
    py: Python<'_>,
    batches: impl RecordBatchReader + Send + 'static,
) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), STREAM)
}

/// A trace on its way out, which signals end.
pub(crate) struct Streamed {
    batches: Batches,
    end: End,
    records: u64,
    /// Only in the thread that asked for the stream is it certain that nobody who holds the
    /// interpreter's lock waits for us.
    thread: ThreadId,
}

impl Streamed {
    pub(crate) fn new(batches: Batches, end: End) -> Streamed {
        Streamed { batches, end, records: 0, thread: thread::current().id() }
    }

    /// The next batch, read without the interpreter's lock.
    fn read(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        if thread::current().id() != self.thread {
            return self.batches.next();
        }
        Python::attach(|py| match py.check_signals() {
            Ok(()) => py.detach(|| self.batches.next()),
            Err(error) => Some(Err(interrupted(py, error))),
        })
    }
}

/// The stream's error for what a signal's handler raised. Consumers raise errors of their own
/// kind, so an interrupt is signalled once more, to be raised when they are done.
fn interrupted(py: Python<'_>, error: PyErr) -> ArrowError {
    let text = error.to_string();
    if error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py) {
        let again = py.import("_thread").and_then(|module| module.call_method0("interrupt_main"));
        if let Err(error) = again {
            return ArrowError::ExternalError(Box::new(error));
        }
    }
    ArrowError::ExternalError(text.into())
}

impl Iterator for Streamed {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.read();
        match &next {
            Some(Ok(batch)) => self.records += batch.num_rows() as u64,
            Some(Err(_)) => {}
            None => {
                let reader = self.batches.reader();
                let ended = Ended {
                    records: self.records,
                    dictionary: reader.dictionary().clone(),
                    notes: reader.notes().clone(),
                };
                self.end.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(ended);
            }
        }
        next
    }
}

impl RecordBatchReader for Streamed {
    fn schema(&self) -> SchemaRef {
        self.batches.schema()
    }
}

/// `pyarrow.table(object)`.
pub(crate) fn to_pyarrow<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    converted(object.py(), || object.py().import("pyarrow")?.call_method1("table", (object,)))
}

/// `polars.DataFrame(object)`.
pub(crate) fn to_polars<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    converted(object.py(), || object.py().import("polars")?.call_method1("DataFrame", (object,)))
}

/// `pyarrow.table(object)` in pandas, the columns left in Arrow's form.
pub(crate) fn to_pandas<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    let mapper = py.import("pandas")?.getattr("ArrowDtype")?;
    let table = to_pyarrow(object)?;
    table.call_method("to_pandas", (), Some(&[("types_mapper", mapper)].into_py_dict(py)?))
}

/// What a library made of a table, or what a signal raised meanwhile.
fn converted<'py>(
    py: Python<'py>,
    convert: impl FnOnce() -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    convert().or_else(|error| {
        py.check_signals()?;
        Err(error)
    })
}
