//! Converts Forebay's errors to Python exceptions. Their text is the same as in the command.

use std::ffi::CString;
use std::io;

use arrow_schema::ArrowError;
use forebay::devices::DevicesError;
use forebay::devices::disksim::ImportError;
use forebay::devices::fit::FitError;
use forebay::refusal::with_remedy;
use forebay_ask::{Spelling, spelled};
use forebay_store::{OperationError, StoreError};
use forebay_trace::TraceError;
use pyo3::create_exception;
use pyo3::exceptions::{PyUserWarning, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyType;

create_exception!(
    forebay,
    Error,
    PyValueError,
    "An option or an input is wrong, or the operating system refuses access. The message names \
     the file, the position, what was found, what was expected and what to do; it is the message \
     that the command prints, with options under their Python names."
);

create_exception!(
    forebay,
    TraceWarning,
    PyUserWarning,
    "A trace was read with losses, or a result is unreliable; the message says why."
);

/// Creates an exception for an operating-system error: an [`Error`] that is also the corresponding
/// `OSError`.
pub(crate) fn refused(kind: io::ErrorKind, text: String) -> PyErr {
    let text = with_remedy(text);
    Python::attach(|py| {
        let class = match kind {
            io::ErrorKind::NotFound => "NotFound",
            io::ErrorKind::PermissionDenied => "NotPermitted",
            io::ErrorKind::AlreadyExists => "AlreadyThere",
            io::ErrorKind::IsADirectory => "IsFolder",
            io::ErrorKind::NotADirectory => "IsNoFolder",
            _ => "Refused",
        };
        let module = py.import(intern!(py, "forebay._refused"));
        let class = module.and_then(|module| Ok(module.getattr(class)?.cast_into::<PyType>()?));
        class.map_or_else(|error| error, |class| PyErr::from_type(class, text))
    })
}

/// Creates the exception for a bug in Forebay.
pub(crate) fn internal() -> PyErr {
    Error::new_err("internal error; please report it with the call that led here")
}

/// Creates the exception for `error`. For an operating-system error, it is also the corresponding
/// `OSError`.
pub(crate) fn raised(error: forebay::Error) -> PyErr {
    let error = match error {
        forebay::Error::Face(cause) => {
            return match cause.downcast::<PyErr>() {
                Ok(raised) => *raised,
                Err(cause) => Error::new_err(cause.to_string()),
            };
        }
        error => error,
    };
    let text = spelled(&error.to_string(), Spelling::Python);
    let system = match &error {
        forebay::Error::Trace(TraceError::Io { source, .. })
        | forebay::Error::Output(TraceError::Io { source, .. })
        | forebay::Error::Report { source, .. }
        | forebay::Error::Device(DevicesError::Io { source, .. })
        | forebay::Error::Fit(FitError::Io { source, .. })
        | forebay::Error::Import(ImportError::Io { source, .. }) => Some(source.kind()),
        forebay::Error::Live { system, .. } => *system,
        _ => None,
    };
    match system {
        Some(kind) => refused(kind, text),
        None => Error::new_err(text),
    }
}

/// An error that occurred while reading a trace. It spells names as in Python, because libraries
/// that read a trace through Arrow print the error themselves.
#[derive(Debug)]
pub(crate) struct ReadError(pub(crate) TraceError);

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&spelled(&self.0.to_string(), Spelling::Python))
    }
}

impl std::error::Error for ReadError {}

/// Creates the exception for an Arrow error that one of our own errors caused.
pub(crate) fn of_arrow(error: ArrowError) -> PyErr {
    match error {
        ArrowError::ExternalError(cause) => match cause.downcast::<ReadError>() {
            Ok(error) => raised(error.0.into()),
            Err(other) => Error::new_err(other.to_string()),
        },
        other => Error::new_err(other.to_string()),
    }
}

/// Creates the exception for a store that cannot be opened.
pub(crate) fn of_store(error: StoreError) -> PyErr {
    let text = spelled(&error.to_string(), Spelling::Python);
    match error {
        StoreError::File { source, .. } | StoreError::Driver(source) => {
            refused(source.kind(), text)
        }
        _ => Error::new_err(text),
    }
}

/// Creates the exception for a failed store operation. A disk failure is also an `OSError`.
pub(crate) fn of_trouble(trouble: &OperationError) -> PyErr {
    let kind = match trouble {
        OperationError::Disk { .. }
        | OperationError::Damaged { .. }
        | OperationError::Missing { .. }
        | OperationError::Lost { .. }
        | OperationError::Root { .. }
        | OperationError::Label { .. }
        | OperationError::Rootless { .. } => io::ErrorKind::Other,
        OperationError::Full | OperationError::NoSpace { .. } => io::ErrorKind::StorageFull,
        OperationError::NoSnapshot
        | OperationError::ReadOnly
        | OperationError::Closed
        | OperationError::Long { .. } => {
            return Error::new_err(trouble.to_string());
        }
    };
    refused(kind, trouble.to_string())
}

/// Creates an error about an argument.
pub(crate) fn argument(name: &str, text: String) -> PyErr {
    Error::new_err(format!("{name}: {text}"))
}

/// Issues a warning that points to the caller of the verb.
pub(crate) fn warn(py: Python<'_>, text: String) -> PyResult<()> {
    let text = spelled(&text, Spelling::Python);
    let text = CString::new(text.replace('\0', " "))?;
    PyErr::warn(py, py.get_type::<TraceWarning>().as_any(), &text, 1)
}
