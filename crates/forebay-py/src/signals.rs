//! Runs long work without the interpreter's lock; signals such as Ctrl-C interrupt it.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::error;

/// The interval between checks for signals. Taking the interpreter's lock may be slow if other
/// threads are busy.
const EVERY: Duration = Duration::from_millis(20);

/// Checks for signals periodically. Python handles signals in its main thread only.
pub(crate) struct Signals {
    last: Instant,
    raised: Option<PyErr>,
}

impl Signals {
    /// Checks for signals; returns `Break` if the work must stop. Called on each progress report.
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

    /// Runs `work` in its own thread, which never waits for the interpreter's lock, and waits for
    /// it to end. If a signal handler raises an exception, `stop` is set so that the work ends
    /// cleanly, and the exception is returned.
    pub(crate) fn beside(&mut self, stop: &AtomicBool, work: impl FnOnce() + Send) {
        thread::scope(|scope| {
            let (done, ended) = sync_channel::<()>(1);
            let thread = scope.spawn(move || {
                // Dropped when the work ends, even if it panics.
                let _done = done;
                work();
            });
            while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                if self.raised.is_none()
                    && let Err(error) = Python::attach(|py| py.check_signals())
                {
                    stop.store(true, Ordering::Relaxed);
                    self.raised = Some(error);
                }
            }
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
        });
    }
}

/// Runs `work` without the interpreter's lock. It stops when [`Signals::go_on`] returns `Break`; an
/// exception raised by a signal handler is returned.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&mut Signals) -> Result<T, forebay::Error> + Send,
) -> PyResult<T> {
    py.detach(|| told(work))
}

/// Runs work like [`detached`], but with the interpreter's lock, for work done in Python.
pub(crate) fn attached<T>(
    work: impl FnOnce(&mut Signals) -> Result<T, forebay::Error>,
) -> PyResult<T> {
    told(work)
}

fn told<T>(work: impl FnOnce(&mut Signals) -> Result<T, forebay::Error>) -> PyResult<T> {
    let mut signals = Signals { last: Instant::now(), raised: None };
    let outcome = catch_unwind(AssertUnwindSafe(|| work(&mut signals)));
    match (signals.raised, outcome) {
        (Some(raised), _) => Err(raised),
        (None, Ok(outcome)) => outcome.map_err(error::raised),
        (None, Err(_)) => Err(error::internal()),
    }
}
