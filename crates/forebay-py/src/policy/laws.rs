//! Checks whether a policy written in Python obeys the core's policy laws.

use forebay_core::elevator::{BlockLayer, Limits};
use forebay_core::laws::{Broken, LEN_MAX, case, check, starves};
use forebay_core::{Policy, Request};
use pyo3::prelude::*;

use super::bare::Bare;
use super::object::{Object, RaisedError};
use super::order::Order;
use super::{is_made, made};
use crate::error::{Error, argument};
use crate::given::{given, shown};

/// The maximum length of a workload, in requests.
const REQUESTS_MAX: u64 = 200;

/// Checks the policy laws on instances of `policy`, which is a class or another callable that
/// returns a new policy: on `cases` workloads, short ones first, and then on one that detects
/// starvation. Raises `Error` with the first broken law, or the policy's own exception. Returns the
/// policy's name.
#[pyfunction]
#[pyo3(signature = (policy, cases=32))]
pub(crate) fn laws_check(
    policy: &Bound<'_, PyAny>,
    #[pyo3(from_py_with = given)] cases: u64,
) -> PyResult<String> {
    if is_made(policy)? || !policy.is_callable() {
        let got = format!(
            "got {}, expected a class or a function that returns a policy, because each run needs \
             a new one",
            shown(policy)
        );
        return Err(argument("policy", got));
    }
    let object = Object::new(&made(policy)?)?;
    for seed in 0..cases {
        let count = 1 + REQUESTS_MAX * seed / cases.max(1);
        let (requests, depth) = (case(seed, count as usize), 1 + seed as usize % 4);
        let keeps = Keeps { requests: &requests, depth };
        asked(
            policy,
            &object,
            "",
            keeps,
            &format!("on {count} requests of seed {seed}, {depth} at a time"),
        )?;
    }
    asked(
        policy,
        &object,
        "merge=no",
        Serves,
        "together with a stream that always has 32 requests waiting",
    )?;
    Ok(object.name().to_string())
}

/// A check that needs several instances of a policy.
trait Look {
    fn look<P: Policy>(self, build: impl FnMut() -> P) -> Result<(), Broken>;
}

/// Checks all laws except the law on starvation.
struct Keeps<'a> {
    requests: &'a [Request],
    depth: usize,
}

impl Look for Keeps<'_> {
    fn look<P: Policy>(self, build: impl FnMut() -> P) -> Result<(), Broken> {
        check(build, self.requests, self.depth)
    }
}

/// Checks the law on starvation.
struct Serves;

impl Look for Serves {
    fn look<P: Policy>(self, build: impl FnMut() -> P) -> Result<(), Broken> {
        starves(build)
    }
}

/// Runs a check on new policy objects. They are created in advance, because creating them may fail.
/// `queue` is added to the policy's own queue parameters.
fn asked(
    policy: &Bound<'_, PyAny>,
    like: &Object,
    queue: &str,
    look: impl Look,
    on: &str,
) -> PyResult<()> {
    let objects = [(); 3].map(|()| made(policy).and_then(|made| Object::new(&made)));
    let objects = objects.into_iter().collect::<PyResult<Vec<Object>>>()?;
    let faults: Vec<RaisedError> = objects.iter().map(Object::fault).collect();
    let mut objects = objects.into_iter();
    let mut next = || objects.next().expect("three at most are built");
    let limits = || -> PyResult<Limits> {
        let own = like.queue(policy.py())?;
        let both =
            [own.as_str(), queue].into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>();
        // Each parameter may be given only once.
        let text = if own.contains("merge=") { own.clone() } else { both.join(":") };
        Limits::parse(&text, LEN_MAX).map_err(|error| argument("queue", error.0))
    };
    let outcome = if like.is_bare() {
        look.look(|| Bare::new(next(), LEN_MAX, u64::MAX))
    } else if like.hears_of_merging() {
        let limits = limits()?;
        look.look(|| BlockLayer::new(Order::<true>::new(next()), limits))
    } else {
        let limits = limits()?;
        look.look(|| BlockLayer::new(Order::<false>::new(next()), limits))
    };
    for fault in &faults {
        if let Some(error) = fault.lock().ok().and_then(|mut fault| fault.take()) {
            return Err(error);
        }
    }
    outcome.map_err(|broken| {
        Error::new_err(format!("policy {} breaks a law {on}: {broken}", like.name()))
    })
}
