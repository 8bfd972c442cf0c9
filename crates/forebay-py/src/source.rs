//! The source of a trace: a file, or a Python object that provides Arrow tables.

use std::path::{Path, PathBuf};

use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_pyarrow::FromPyArrow;
use forebay::model::open::open_any;
use forebay_trace::unpack::Consumed;
use forebay_trace::write::ProtectedFiles;
use forebay_trace::{Dictionary, Reader, TraceError, table};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;

use crate::error;
use crate::given::given;
use crate::tabled::Tabled;
use crate::trace::Trace;

/// The trace argument passed to a verb.
pub(crate) enum Source {
    /// A file, and the name of its format unless that is to be detected.
    File(PathBuf, Option<String>),
    /// An object with `__arrow_c_stream__`, and the names of its streams and volumes.
    Table(Py<PyAny>, PathBuf, Option<Dictionary>),
}

impl Source {
    /// Converts the argument `trace`. `from` applies to files, `names` to tables.
    pub(crate) fn new(
        trace: &Bound<'_, PyAny>,
        from: Option<String>,
        names: Option<&Bound<'_, Trace>>,
    ) -> PyResult<Source> {
        if let Ok(trace) = trace.cast::<Trace>() {
            refuse(from.is_some() || names.is_some(), "a Trace has its format and its names")?;
            return Ok(trace.get().source());
        }
        let py = trace.py();
        if trace.hasattr(intern!(py, "__arrow_c_stream__"))? {
            refuse(from.is_some(), "a table has no format to name")?;
            let names = names.map(|names| names.get().dictionary(py)).transpose()?;
            let name = PathBuf::from(format!("({})", trace.get_type().name()?));
            return Ok(Source::Table(trace.clone().unbind(), name, names));
        }
        refuse(names.is_some(), "a file has its own names")?;
        let path = given::<PathBuf>(trace).map_err(|error| {
            if error.is_instance_of::<error::Error>(py) {
                return error;
            }
            PyTypeError::new_err(format!(
                "got {}, expected a path, a forebay.Trace, or a table with __arrow_c_stream__ (of \
                 Polars, pandas, pyarrow, ...; a LazyFrame after collect())",
                trace.get_type()
            ))
        })?;
        Ok(Source::File(path, from))
    }

    /// Returns the name of the trace for messages.
    pub(crate) fn name(&self) -> &Path {
        match self {
            Source::File(path, _) | Source::Table(_, path, _) => path,
        }
    }

    /// Returns the files of the trace, which must not be overwritten.
    pub(crate) fn kept(&self) -> ProtectedFiles {
        match self {
            Source::File(path, _) => ProtectedFiles::trace(path),
            Source::Table(..) => ProtectedFiles::default(),
        }
    }

    /// Opens the trace.
    pub(crate) fn open(&self) -> Result<Box<dyn Reader>, TraceError> {
        match self {
            Source::File(path, from) => open_any(path, from.as_deref(), 0, Consumed::default()),
            Source::Table(object, name, names) => {
                let import =
                    |py: Python<'_>| RecordBatchStreamReader::from_pyarrow_bound(object.bind(py));
                let batches = Python::attach(import).map_err(|error| TraceError::Io {
                    path: name.clone(),
                    source: std::io::Error::other(error),
                })?;
                let said: Vec<(String, String)> = (batches.schema().metadata().iter())
                    .map(|(key, value)| (key.to_string(), value.to_string()))
                    .collect();
                let table = Tabled::new(name, Box::new(batches));
                table::read(name, Box::new(table), said, names.as_ref())
            }
        }
    }
}

fn refuse(wrong: bool, why: &str) -> PyResult<()> {
    if wrong { Err(error::argument("from_, names", why.to_string())) } else { Ok(()) }
}
