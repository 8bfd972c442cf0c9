//! Runs policies written in Python, for experiments. They are classes with the methods of the
//! core's trait.
//!
//! A policy either acts as a scheduler within the block layer ([`order`]) or replaces the block
//! layer ([`bare`]). Policies in the core cannot fail. If a Python policy raises an exception or
//! breaks a rule, its [`Object`] stores the error and stops calling the policy; the error is raised
//! at the end of the run.

mod bare;
mod laws;
mod object;
mod order;
mod request;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use forebay::Error;
use forebay::input::Input;
use forebay::simulate::{Bed, OwnPolicy, PolicyInput, Run, Setup, run_own};
use forebay_ask::AskError;
use forebay_core::Device;
use forebay_core::elevator::{BlockLayer, Limits};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple, PyType};

pub(crate) use laws::laws_check;
pub(crate) use request::Request;

use crate::error::argument;
use crate::given::{several, shown};
use crate::signals::{attached, detached};
use bare::Bare;
use object::Object;
use order::Order;

/// Converts `policies`, which are names or objects, to inputs of a verb.
pub(crate) fn inputs(policies: &Bound<'_, PyAny>) -> PyResult<Vec<PolicyInput>> {
    if let Ok(text) = policies.extract::<String>() {
        return Ok(text.split(',').map(|name| PolicyInput::Named(name.to_string())).collect());
    }
    if let Ok(names) = several(policies) {
        return Ok(names.into_iter().map(PolicyInput::Named).collect());
    }
    if !(policies.is_instance_of::<PyList>() || policies.is_instance_of::<PyTuple>()) {
        return Ok(vec![own(policies)?]);
    }
    let one = |policy: Bound<'_, PyAny>| match policy.cast::<PyString>() {
        Ok(name) => Ok(PolicyInput::Named(name.to_string())),
        Err(_) => own(&policy),
    };
    policies.try_iter()?.map(|policy| one(policy?)).collect()
}

fn own(policy: &Bound<'_, PyAny>) -> PyResult<PolicyInput> {
    if !is_made(policy)? && !policy.is_callable() {
        return Err(PyTypeError::new_err(format!(
            "policy: got {}, expected a name such as \"noop\", or a class or an object with the methods submit and dispatch",
            shown(policy)
        )));
    }
    Ok(PolicyInput::Own(Arc::new(Own(AssertUnwindSafe(policy.clone().unbind())))))
}

/// A policy written in Python: an object, or a callable that returns one.
struct Own(AssertUnwindSafe<Py<PyAny>>);

impl OwnPolicy for Own {
    fn check(&self, bed: Bed<'_>) -> Result<(), Error> {
        if bed.disks <= 1 {
            return Ok(());
        }
        let text = format!("a policy in Python drives one disk; got disks={}", bed.disks);
        Err(AskError::new("policy", text).into())
    }

    fn run(&self, input: &Input, bed: Bed<'_>, setup: Setup) -> Result<Run, Error> {
        let run = |py: Python<'_>| run_one(py, input, bed, self.0.bind(py), setup);
        Python::attach(run).map_err(|raised| Error::Face(Box::new(raised)))
    }
}

/// Returns whether the object is a policy itself, rather than a callable that returns one.
fn is_made(policy: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(!policy.is_instance_of::<PyType>() && policy.hasattr("submit")?)
}

/// Returns the policy object, calling its factory if necessary.
fn made<'py>(policy: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if is_made(policy)? { Ok(policy.clone()) } else { policy.call0() }
}

fn run_one(
    py: Python<'_>,
    input: &Input,
    bed: Bed<'_>,
    policy: &Bound<'_, PyAny>,
    setup: Setup,
) -> PyResult<Run> {
    let model = &bed.disk.model;
    let object = Object::new(&made(policy)?)?;
    let (name, fault) = (object.name().to_string(), object.fault());
    let failed = || fault.lock().ok().and_then(|mut fault| fault.take());
    // If the trace is read during the run, another thread may need Python to read it, so every
    // method call acquires the interpreter's lock anew. Otherwise, the lock is held throughout.
    let outcome = if object.is_bare() {
        let bare = Bare::new(object, model.len_max(), model.capacity());
        ran(py, input, (bed, setup), &name, bare, Bare::end)
    } else {
        let limits = Limits::parse(&object.queue(py)?, model.len_max());
        let limits = limits.map_err(|error| argument("queue", error.0))?;
        match object.hears_of_merging() {
            true => {
                let layer = BlockLayer::new(Order::<true>::new(object), limits);
                ran(py, input, (bed, setup), &name, layer, |layer| layer.elevator().end())
            }
            false => {
                let layer = BlockLayer::new(Order::<false>::new(object), limits);
                ran(py, input, (bed, setup), &name, layer, |layer| layer.elevator().end())
            }
        }
    };
    match failed() {
        Some(error) => Err(error),
        None => outcome,
    }
}

/// Runs `policy`, then calls `end` to check for unfinished requests.
fn ran<P: forebay_core::Policy + Send>(
    py: Python<'_>,
    input: &Input,
    (bed, setup): (Bed<'_>, Setup),
    name: &str,
    mut policy: P,
    end: impl FnOnce(&P) + Send,
) -> PyResult<Run> {
    let work = |signals: &mut crate::signals::Signals| -> Result<Run, Error> {
        let run = run_own(input, bed, (name, &mut policy), setup, &mut |_| signals.go_on())?;
        end(&policy);
        Ok(run)
    };
    if input.is_in_memory() { attached(work) } else { detached(py, work) }
}
