//! Runs long work without holding the interpreter's lock, so that signals such as Ctrl-C can
//! interrupt it.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::error;

/// The interval between checks for signals. They are infrequent because acquiring the interpreter's
/// lock may take long if other threads are busy.
const EVERY: Duration = Duration::from_millis(20);

/// Periodically checks for signals. Python handles signals only in its main thread.
pub(crate) struct Signals {
    last: Instant,
    raised: Option<PyErr>,
}

impl Signals {
    /// Checks for signals. Returns `Break` if the work must stop. This is called with every
    /// progress report.
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

    /// Runs `work` in a separate thread, so that it never waits for the interpreter's lock, and
    /// waits for its end. If a signal handler raises an exception, sets `stop` so that the work
    /// ends cleanly, and stores the exception.
    pub(crate) fn beside(&mut self, stop: &AtomicBool, work: impl FnOnce() + Send) {
        thread::scope(|scope| {
            let (done, ended) = sync_channel::<()>(1);
            let thread = scope.spawn(move || {
                // This is dropped when the work ends, even if it panics.
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

/// Runs `work` without holding the interpreter's lock. The work must stop when [`Signals::go_on`]
/// returns `Break`; the exception that a signal handler raised is then returned.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&mut Signals) -> Result<T, forebay::Error> + Send,
) -> PyResult<T> {
    py.detach(|| told(work))
}

/// Runs work like [`detached`], but holds the interpreter's lock, because the work uses Python
/// objects.
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
