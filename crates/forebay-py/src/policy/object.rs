//! The Python object that implements a policy: its methods, and the first error that occurred in
//! it.

use crate::given::shown;
use std::cell::Cell;
use std::sync::{Arc, Mutex};

use forebay_core::Nanos;
use pyo3::call::PyCallArgs;
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::request::Request;
use crate::error::Error;

/// The maximum number of consecutive calls without an arrival or an answer. A policy that keeps
/// waking itself more often would never end.
const IDLE_CALLS_MAX: u32 = 1_000_000;

/// The first exception that was raised.
pub(super) type RaisedError = Arc<Mutex<Option<PyErr>>>;

/// A policy's methods. They are no longer called after the first error.
pub(super) struct Object {
    name: String,
    object: Py<PyAny>,
    submit: Py<PyAny>,
    dispatch: Py<PyAny>,
    complete: Option<Py<PyAny>>,
    wakeup: Option<Py<PyAny>>,
    wake: Option<Py<PyAny>>,
    merged: Option<Py<PyAny>>,
    fault: RaisedError,
    failed: Cell<bool>,
    /// The time of the last call.
    now: Cell<Nanos>,
    /// The last submitted request, for messages.
    last: Option<Py<Request>>,
    idle_calls: u32,
    /// The cached result of `wakeup`, valid until the next call that may change it.
    wakeup_said: Cell<Option<Option<Nanos>>>,
}

impl Object {
    /// Looks up the methods of `object`.
    pub(super) fn new(object: &Bound<'_, PyAny>) -> PyResult<Object> {
        let method = |name: &str| -> PyResult<Option<Py<PyAny>>> {
            let Some(method) = object.getattr_opt(name)? else { return Ok(None) };
            if method.is_callable() { Ok(Some(method.unbind())) } else { Ok(None) }
        };
        let class = object.get_type();
        let needed = |name: &str| -> PyResult<Py<PyAny>> {
            method(name)?.ok_or_else(|| {
                let class = class.name().map(|name| name.to_string()).unwrap_or_default();
                PyTypeError::new_err(format!("{class}: a policy needs a method '{name}'"))
            })
        };
        Ok(Object {
            name: name_of(object, &class)?,
            submit: needed("submit")?,
            dispatch: needed("dispatch")?,
            complete: method("complete")?,
            wakeup: method("wakeup")?,
            wake: method("wake")?,
            merged: method("merged")?,
            object: object.clone().unbind(),
            fault: RaisedError::default(),
            failed: Cell::new(false),
            now: Cell::new(Nanos::ZERO),
            last: None,
            idle_calls: 0,
            wakeup_said: Cell::new(None),
        })
    }

    /// Returns the name for results and messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the time of the last call.
    pub(super) fn now(&self) -> Nanos {
        self.now.get()
    }

    /// Returns the shared place where the first error is stored.
    pub(super) fn fault(&self) -> RaisedError {
        Arc::clone(&self.fault)
    }

    /// Returns the attribute `bare`: whether the policy replaces the block layer.
    pub(super) fn is_bare(&self) -> bool {
        Python::attach(|py| {
            let said = self.object.bind(py).getattr_opt("bare").ok().flatten();
            said.is_some_and(|said| said.is_truthy().unwrap_or(false))
        })
    }

    /// Returns the attribute `queue`: the block layer's parameters for this policy.
    pub(super) fn queue(&self, py: Python<'_>) -> PyResult<String> {
        match self.object.bind(py).getattr_opt("queue")? {
            Some(said) => Ok(said.extract::<String>().unwrap_or_default()),
            None => Ok(String::new()),
        }
    }

    /// Returns whether the policy has a `merged` method.
    pub(super) fn hears_of_merging(&self) -> bool {
        self.merged.is_some()
    }

    /// Returns whether the policy has a `complete` method, so that it answers completions itself.
    pub(super) fn completes(&self) -> bool {
        self.complete.is_some()
    }

    /// Calls `submit(now, request)`.
    pub(super) fn submit<'py>(
        &mut self,
        py: Python<'py>,
        now: Nanos,
        request: &Py<Request>,
    ) -> Option<Bound<'py, PyAny>> {
        self.last = Some(request.clone_ref(py));
        self.happened();
        self.call(py, now, "submit", Some(&self.submit), (now.0, request))
    }

    /// Calls `dispatch(now)` and returns its result, if any.
    pub(super) fn dispatch<'py>(
        &mut self,
        py: Python<'py>,
        now: Nanos,
    ) -> Option<Bound<'py, PyAny>> {
        self.idle_calls += 1;
        if self.idle_calls > IDLE_CALLS_MAX {
            self.breaks(
                now,
                format!(
                    "it was called {IDLE_CALLS_MAX} times in a row while no request arrived or was \
                 answered: it wakes itself, or dispatches its own requests, forever"
                ),
            );
        }
        let given = self.call(py, now, "dispatch", Some(&self.dispatch), (now.0,))?;
        (!given.is_none()).then_some(given)
    }

    /// Calls `complete(now, request)`, if there is such a method.
    pub(super) fn complete<'py>(
        &mut self,
        py: Python<'py>,
        now: Nanos,
        request: &Py<Request>,
    ) -> Option<Bound<'py, PyAny>> {
        self.call(py, now, "complete", self.complete.as_ref(), (now.0, request))
    }

    /// Calls `merged(now, request, gone)`, if there is such a method.
    pub(super) fn merged(
        &self,
        py: Python<'_>,
        now: Nanos,
        request: &Py<Request>,
        gone: Option<&Py<Request>>,
    ) {
        self.call(py, now, "merged", self.merged.as_ref(), (now.0, request, gone));
    }

    /// Calls `wake(now)`, if there is such a method.
    pub(super) fn wake<'py>(&self, py: Python<'py>, now: Nanos) -> Option<Bound<'py, PyAny>> {
        self.call(py, now, "wake", self.wake.as_ref(), (now.0,))
    }

    /// Calls `wakeup()`, if there is such a method.
    pub(super) fn wakeup(&self) -> Option<Nanos> {
        let wakeup = self.wakeup.as_ref()?;
        if self.failed.get() {
            return None;
        }
        if let Some(said) = self.wakeup_said.get() {
            return said;
        }
        let at = Python::attach(|py| {
            let now = self.now.get();
            let said = self.call(py, now, "wakeup", Some(wakeup), ())?;
            if said.is_none() {
                return None;
            }
            let at = said.extract::<u64>().ok();
            if at.is_none() {
                let got = shown(&said);
                self.breaks(now, format!(
                    "wakeup returned {got}, expected a whole number of nanoseconds from the start \
                     of the run, or None"
                ));
            }
            at.map(Nanos)
        });
        self.wakeup_said.set(Some(at));
        at
    }

    /// Resets the count of idle calls after an arrival or an answer.
    pub(super) fn happened(&mut self) {
        self.idle_calls = 0;
    }

    /// Records a broken rule, to be raised at the end of the run unless an earlier error was
    /// recorded.
    pub(super) fn breaks(&self, now: Nanos, said: String) {
        self.fail(Error::new_err(format!("policy {} broke a rule at {now}: {said}", self.name)));
    }

    /// Calls a method unless an error has been recorded.
    fn call<'py>(
        &self,
        py: Python<'py>,
        now: Nanos,
        name: &str,
        method: Option<&Py<PyAny>>,
        arguments: impl PyCallArgs<'py>,
    ) -> Option<Bound<'py, PyAny>> {
        let method = method?;
        if self.failed.get() {
            return None;
        }
        self.now.set(now);
        self.wakeup_said.set(None);
        match method.bind(py).call1(arguments) {
            Ok(said) => Some(said),
            Err(error) => {
                self.note(py, &error, now, name);
                self.fail(error);
                None
            }
        }
    }

    /// Adds a note to an exception that says where it was raised. Exceptions that are not errors,
    /// such as KeyboardInterrupt, are left alone.
    fn note(&self, py: Python<'_>, error: &PyErr, now: Nanos, method: &str) {
        if !error.is_instance_of::<PyException>(py) {
            return;
        }
        let last = match (&self.last, method) {
            (None, _) => "before any request".to_string(),
            (Some(last), "submit") => format!("with {}", last.borrow(py).said()),
            (Some(last), _) => format!("after {} was submitted", last.borrow(py).said()),
        };
        let note = format!("raised in {}.{method} at {now} of the run, {last}", self.name);
        // Python 3.10 does not support notes.
        let _ = error.value(py).call_method1("add_note", (note,));
    }

    pub(super) fn fail(&self, error: PyErr) {
        self.failed.set(true);
        if let Ok(mut fault) = self.fault.lock() {
            fault.get_or_insert(error);
        }
    }
}

/// Returns the attribute `name`, or the name of the class.
fn name_of(object: &Bound<'_, PyAny>, class: &Bound<'_, PyType>) -> PyResult<String> {
    let given = object.getattr_opt("name")?.and_then(|name| name.extract::<String>().ok());
    given.map_or_else(|| Ok(class.name()?.to_string()), Ok)
}
