//! Long work without the interpreter lock, which signals (Ctrl-C) end.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
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

/// Does `work` in a thread of its own, which is never held up by the interpreter's lock, and waits for it. A signal
/// whose handler raises sets what `work` is given; it then ends cleanly, and what was raised is the outcome.
pub(crate) fn beside<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&AtomicBool) -> PyResult<T> + Send,
) -> PyResult<T> {
    let stop = AtomicBool::new(false);
    py.detach(|| {
        std::thread::scope(|scope| {
            let (done, ended) = sync_channel(1);
            let thread = scope.spawn(|| {
                let done = done;
                let outcome = catch_unwind(AssertUnwindSafe(|| work(&stop)));
                // Who waits is there as long as this is.
                let _ = done.send(());
                outcome
            });
            let mut raised = None;
            while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                if raised.is_none()
                    && let Err(error) = Python::attach(|py| py.check_signals())
                {
                    stop.store(true, Ordering::Relaxed);
                    raised = Some(error);
                }
            }
            let outcome = thread
                .join()
                .and_then(|outcome| outcome)
                .unwrap_or_else(|_| Err(error::internal()));
            raised.map_or(outcome, Err)
        })
    })
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
