//! Long work without the interpreter lock, which signals (Ctrl-C) end.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::error;

/// Between one look at signals and the next: taking the interpreter's lock may take a while when
/// other threads are busy.
const EVERY: Duration = Duration::from_millis(20);

/// Looks at signals now and then. Python handles them in its main thread only.
pub(crate) struct Signals {
    last: Instant,
    raised: Option<PyErr>,
}

impl Signals {
    /// The answer to news of progress.
    pub(crate) fn go_on(&mut self) -> ControlFlow<()> {
        if self.last.elapsed() < EVERY {
            return ControlFlow::Continue(());
        }
        self.last = Instant::now();
        match Python::attach(|py| py.check_signals()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.raised = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

/// Works without the interpreter's lock. `work` stops when [`Signals::go_on`] says so, and what a
/// signal's handler raised is the outcome.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&mut Signals) -> Result<T, forebay::Error> + Send,
) -> PyResult<T> {
    py.detach(|| told(work))
}

/// As [`detached`], with the interpreter's lock: for work that is done in Python.
pub(crate) fn attached<T>(
    work: impl FnOnce(&mut Signals) -> Result<T, forebay::Error>,
) -> PyResult<T> {
    told(work)
}

fn told<T>(work: impl FnOnce(&mut Signals) -> Result<T, forebay::Error>) -> PyResult<T> {
    let mut signals = Signals { last: Instant::now(), raised: None };
    let outcome = work(&mut signals);
    match signals.raised {
        Some(raised) => Err(raised),
        None => outcome.map_err(error::raised),
    }
}
