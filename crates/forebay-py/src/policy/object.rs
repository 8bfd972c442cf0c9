//! Wraps the Python object that implements a policy: calls its methods and stores the first error.

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

/// The maximum number of consecutive calls without an arrival or an answer, so that a policy that
/// keeps waking itself cannot run forever.
const IDLE_CALLS_MAX: u32 = 1_000_000;

/// The first exception raised by the policy, if any.
pub(super) type RaisedError = Arc<Mutex<Option<PyErr>>>;

/// The methods of a policy. They are no longer called after the first error.
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
    /// The last submitted request, to be named in messages.
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

    /// Returns the name of the policy for results and messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the time of the last call.
    pub(super) fn now(&self) -> Nanos {
        self.now.get()
    }

    /// Returns the shared storage of the first error.
    pub(super) fn fault(&self) -> RaisedError {
        Arc::clone(&self.fault)
    }

    /// Returns the attribute `bare`, which tells whether the policy replaces the block layer.
    pub(super) fn is_bare(&self) -> bool {
        Python::attach(|py| {
            let said = self.object.bind(py).getattr_opt("bare").ok().flatten();
            said.is_some_and(|said| said.is_truthy().unwrap_or(false))
        })
    }

    /// Returns the attribute `queue`, which contains the block layer's parameters for this policy.
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

    /// Returns whether the policy has a `complete` method, which means that it answers requests
    /// itself.
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

    /// Calls `dispatch(now)` and returns its result, or None if it returned nothing or failed.
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

    /// Calls `complete(now, request)` if the policy has this method.
    pub(super) fn complete<'py>(
        &mut self,
        py: Python<'py>,
        now: Nanos,
        request: &Py<Request>,
    ) -> Option<Bound<'py, PyAny>> {
        self.call(py, now, "complete", self.complete.as_ref(), (now.0, request))
    }

    /// Calls `merged(now, request, gone)` if the policy has this method.
    pub(super) fn merged(
        &self,
        py: Python<'_>,
        now: Nanos,
        request: &Py<Request>,
        gone: Option<&Py<Request>>,
    ) {
        self.call(py, now, "merged", self.merged.as_ref(), (now.0, request, gone));
    }

    /// Calls `wake(now)` if the policy has this method.
    pub(super) fn wake<'py>(&self, py: Python<'py>, now: Nanos) -> Option<Bound<'py, PyAny>> {
        self.call(py, now, "wake", self.wake.as_ref(), (now.0,))
    }

    /// Calls `wakeup()` if the policy has this method.
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

    /// Records that the policy broke a rule, unless there was an earlier error. The error is raised
    /// at the end of the run.
    pub(super) fn breaks(&self, now: Nanos, said: String) {
        self.fail(Error::new_err(format!("policy {} broke a rule at {now}: {said}", self.name)));
    }

    /// Calls a method, unless an error was recorded before.
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

    /// Adds a note that says where an exception was raised. Exceptions that are not errors, such as
    /// KeyboardInterrupt, get no note.
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
        // Ignore the error of Python 3.10, which does not support notes.
        let _ = error.value(py).call_method1("add_note", (note,));
    }

    pub(super) fn fail(&self, error: PyErr) {
        self.failed.set(true);
        if let Ok(mut fault) = self.fault.lock() {
            fault.get_or_insert(error);
        }
    }
}

/// Returns the object's attribute `name` or, failing that, the name of its class.
fn name_of(object: &Bound<'_, PyAny>, class: &Bound<'_, PyType>) -> PyResult<String> {
    let given = object.getattr_opt("name")?.and_then(|name| name.extract::<String>().ok());
    given.map_or_else(|| Ok(class.name()?.to_string()), Ok)
}
