//! Passes operations from Python to an open store and waits for their results.
//!
//! While waiting, the interpreter's lock is released, and signals are checked. A forked process
//! inherits the handle but not the store's thread, so operations in it fail with an error that says
//! so.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use forebay_store::{Answer, AnswerCallback, Config, Disks, Key, OperationResult, StoreError};
use pyo3::exceptions::{PyOSError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString};

use crate::error::{Error, of_trouble};

/// The interval between checks for signals.
const EVERY: Duration = Duration::from_millis(20);

/// A key or a value, copied from a Python object with the buffer protocol.
pub(super) struct Bytes(pub(super) Key);

impl<'py> FromPyObject<'_, 'py> for Bytes {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Bytes> {
        if let Ok(bytes) = given.cast::<PyBytes>() {
            return Ok(Bytes(bytes.as_bytes().into()));
        }
        if let Ok(bytes) = given.cast::<PyByteArray>() {
            return Ok(Bytes(bytes.to_vec().into()));
        }
        let copied = PyMemoryView::from(&given).and_then(|view| view.call_method0("tobytes"));
        match copied {
            Ok(bytes) => Ok(Bytes(bytes.cast::<PyBytes>()?.as_bytes().into())),
            Err(_) => Err(not_bytes(&given)),
        }
    }
}

fn not_bytes(given: &Bound<'_, PyAny>) -> PyErr {
    let hint = if given.is_instance_of::<PyString>() { ": encode it" } else { "" };
    let name = given.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string());
    PyTypeError::new_err(format!("got {name}, expected bytes or another buffer{hint}"))
}

/// A store that this process opened. Dropping it closes the store.
pub(super) struct Opened {
    store: forebay_store::Store,
    process: u32,
}

impl Opened {
    pub(super) fn new(disks: Disks, config: Config) -> Result<Opened, StoreError> {
        let store = forebay_store::Store::open(disks, config)?;
        Ok(Opened { store, process: std::process::id() })
    }

    /// Returns whether the store's thread belongs to this process.
    pub(super) fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }

    /// Returns the store, or an error if it is closed or belongs to another process.
    pub(super) fn store(&self) -> PyResult<&forebay_store::Store> {
        if !self.is_ours() {
            let what =
                "the store was opened before this process was forked: open it in only one process";
            return Err(Error::new_err(what));
        }
        match self.store.is_closed() {
            false => Ok(&self.store),
            true => Err(Error::new_err("the store is closed")),
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if self.is_ours() && !self.store.is_closed() {
            // If the interpreter is shutting down, the store's thread ends with it, which is safe
            // because acknowledged data is already durable.
            Python::try_attach(|py| py.detach(|| self.store.close()));
        }
    }
}

/// Starts an operation and waits for its result.
pub(super) fn asked(py: Python<'_>, begin: impl FnOnce(AnswerCallback) + Send) -> PyResult<Answer> {
    let (said, answer) = sync_channel::<OperationResult>(1);
    let then: AnswerCallback = Box::new(move |answered| {
        // Sending fails if the caller was interrupted.
        let _ = said.send(answered);
    });
    let answered = awaited(py, move || begin(then), answer)?;
    answered.map_err(|failure| of_trouble(&failure))
}

/// Runs long work in a separate thread and waits for it. If the wait is interrupted, the result is
/// discarded.
pub(super) fn apart<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (said, done) = sync_channel(1);
    let thread = std::thread::Builder::new().name("store-handle".into());
    thread.spawn(move || {
        // Sending fails if the caller was interrupted.
        let _ = said.send(work());
    })?;
    awaited(py, || (), done)
}

fn awaited<T: Send>(
    py: Python<'_>,
    begin: impl FnOnce() + Send,
    coming: Receiver<T>,
) -> PyResult<T> {
    py.detach(move || {
        begin();
        loop {
            match coming.recv_timeout(EVERY) {
                Ok(come) => return Ok(come),
                Err(RecvTimeoutError::Timeout) => Python::attach(|py| py.check_signals())?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(PyOSError::new_err(
                        "the store has stopped: I/O on its disks is not possible",
                    ));
                }
            }
        }
    })
}
