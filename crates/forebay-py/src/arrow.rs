//! Exports Arrow tables without copies, through Arrow's C stream interface in a PyCapsule.
//!
//! Callbacks of that interface never touch the interpreter: the caller may or may not hold the
//! interpreter's lock, and PyO3's view of the lock's state may be wrong there.

use std::ffi::CStr;
use std::sync::PoisonError;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyCapsule, PyList};

use crate::batches::Batches;
use crate::trace::{End, Ended};

const STREAM: &CStr = c"arrow_array_stream";

/// Creates a capsule that streams `batches`.
pub(crate) fn stream(
    py: Python<'_>,
    batches: impl RecordBatchReader + Send + 'static,
) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), STREAM)
}

/// A trace that is being exported.
pub(crate) struct Streamed {
    batches: Batches,
    end: End,
    records: u64,
}

impl Streamed {
    /// Wraps `batches`. When they are exhausted, `end` receives information that is only known at
    /// the end.
    pub(crate) fn new(batches: Batches, end: End) -> Streamed {
        Streamed { batches, end, records: 0 }
    }
}

impl Iterator for Streamed {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.batches.next();
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

/// A library that can open tables: its name, and the names of its functions that open and
/// concatenate tables.
pub(crate) struct Library(&'static str, &'static str, &'static str);

pub(crate) const PYARROW: Library = Library("pyarrow", "table", "concat_tables");
pub(crate) const POLARS: Library = Library("polars", "DataFrame", "concat");

impl Library {
    /// Opens `table` in the library.
    pub(crate) fn open<'py>(&self, table: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        table.py().import(self.0)?.call_method1(self.1, (table,))
    }

    /// Opens `tables` as one table in the library, and checks for signals before each of them.
    pub(crate) fn open_all<'py>(
        &self,
        tables: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let opened = PyList::empty(tables.py());
        for table in tables.try_iter()? {
            tables.py().check_signals()?;
            opened.append(self.open(&table?)?)?;
        }
        let some = !opened.is_empty();
        let concat = || tables.py().import(self.0)?.call_method1(self.2, (opened,));
        some.then(concat).transpose()
    }
}

/// Converts a `pyarrow.Table` to pandas. Columns keep their Arrow types.
pub(crate) fn to_pandas<'py>(table: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = table.py();
    let mapper = py.import("pandas")?.getattr("ArrowDtype")?;
    table.call_method("to_pandas", (), Some(&[("types_mapper", mapper)].into_py_dict(py)?))
}
