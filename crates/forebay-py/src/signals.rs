//! Long work without the interpreter lock, which signals (Ctrl-C) end.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
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

    /// Does `work` in a thread of its own, which is never held up by the interpreter's lock, and waits for it. If a
    /// signal's handler raises, `stop` is set; the work then ends cleanly, and the exception is the outcome.
    pub(crate) fn beside(&mut self, stop: &AtomicBool, work: impl FnOnce() + Send) {
        thread::scope(|scope| {
            let (done, ended) = sync_channel::<()>(1);
            let thread = scope.spawn(move || {
                // Dropped when the work ends, even by a panic.
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
    let outcome = catch_unwind(AssertUnwindSafe(|| work(&mut signals)));
    match (signals.raised, outcome) {
        (Some(raised), _) => Err(raised),
        (None, Ok(outcome)) => outcome.map_err(error::raised),
        (None, Err(_)) => Err(error::internal()),
    }
}
