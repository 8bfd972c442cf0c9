//! Runs a Python policy that replaces the block layer. It receives requests as clients submit them,
//! dispatches them unchanged or as I/Os of its own, and decides when each request is answered.
//!
//! Requests answered by `complete` get the outcome of the I/O that completed; requests answered by
//! other methods succeed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use forebay_core::{Bytes, Completion, Cx, Done, Flags, Lane, Nanos, Outcome, Piece, Policy};
use pyo3::prelude::*;

use super::object::Object;
use super::request::{Place, Request};
use crate::given::shown;

/// The number of runs so far. A request is valid only in the run that created it.
static RUNS: AtomicU32 = AtomicU32::new(0);

/// A request that has not been answered yet.
struct Waiting {
    handle: Py<Request>,
    request: forebay_core::Request,
    since: Nanos,
}

/// The policy. It only uses lane 0.
pub(super) struct Bare {
    object: Object,
    /// The number of this run within the process.
    run: u32,
    len_max: u32,
    capacity: u64,
    submitted: u64,
    waiting: BTreeMap<u64, Waiting>,
    dispatched: u64,
    /// I/Os in flight, each with its state before it was dispatched.
    running: BTreeMap<u64, Py<Request>>,
}

impl Bare {
    /// Creates a policy that calls `object`, for a device of `capacity` bytes that accepts I/Os of
    /// up to `len_max` bytes.
    pub(super) fn new(object: Object, len_max: u32, capacity: u64) -> Bare {
        let (waiting, running) = (BTreeMap::new(), BTreeMap::new());
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        Bare { object, run, len_max, capacity, submitted: 0, waiting, dispatched: 0, running }
    }

    /// Checks at the end of the run that every request was answered.
    pub(super) fn end(&self) {
        let Some(first) = self.waiting.values().next() else { return };
        let first = Python::attach(|py| first.handle.borrow(py).said());
        let count = self.waiting.len();
        self.object.breaks(self.object.now(), format!(
            "{count} of its requests were never answered, the first of them {first}: submit, complete and \
             wake return the requests that they answer"
        ));
    }

    /// Answers the requests returned by a method, which returns None, one request or several.
    fn answer(&mut self, cx: &mut Cx<'_>, method: &str, said: &Bound<'_, PyAny>, outcome: Outcome) {
        if said.is_none() {
            return;
        }
        if let Ok(request) = said.cast::<Request>() {
            return self.answer_one(cx, method, request, outcome);
        }
        let wrong = || {
            format!(
                "{method} returned {}, expected the requests that it answers, or None",
                shown(said)
            )
        };
        let Ok(several) = said.try_iter() else { return self.object.breaks(cx.now, wrong()) };
        for one in several {
            match one.as_ref().map(|one| one.cast::<Request>()) {
                Ok(Ok(request)) => self.answer_one(cx, method, request, outcome),
                _ => return self.object.breaks(cx.now, wrong()),
            }
        }
    }

    fn answer_one(
        &mut self,
        cx: &mut Cx<'_>,
        method: &str,
        request: &Bound<'_, Request>,
        outcome: Outcome,
    ) {
        let known = request.borrow();
        let is_same = |waiting: &Waiting| waiting.handle.is(request);
        let id = known.id.filter(|id| self.waiting.get(id).is_some_and(is_same));
        let Some(waiting) = id.and_then(|id| self.waiting.remove(&id)) else {
            let said = known.said();
            let wrong = match known.place {
                Place::Own => format!(
                    "{method} answered {said}, which is not an outstanding \
                    request"
                ),
                _ => format!("{method} answered {said} a second time; a request is answered once"),
            };
            return self.object.breaks(cx.now, wrong);
        };
        self.object.happened();
        let wait = cx.now - waiting.since;
        cx.finished.push(Done {
            request: waiting.request,
            wait,
            held: Nanos::ZERO,
            outcome,
            class: 0,
        });
    }

    /// Returns the I/O that the policy dispatched. If it is invalid, records an error and returns
    /// None.
    fn io(&mut self, now: Nanos, given: &Bound<'_, PyAny>) -> Option<forebay_core::Request> {
        let Ok(request) = given.cast::<Request>() else {
            let got = shown(given);
            self.object
                .breaks(now, format!("dispatch returned {got}, expected a request, or None"));
            return None;
        };
        let mut known = request.borrow_mut();
        if let Some(wrong) = self.wrong(&known) {
            self.object.breaks(now, format!("dispatch returned {}, {wrong}", known.said()));
            return None;
        }
        known.place = Place::Running;
        let id = self.dispatched;
        self.dispatched += 1;
        self.running.insert(id, request.clone().unbind());
        // Devices do not support preflush, so a policy that honors it must dispatch a flush first.
        let flags = Flags(known.flags.0 & !Flags::PREFLUSH.0);
        let &mut Request { offset, len, stream, op, .. } = &mut *known;
        Some(forebay_core::Request { at: now, offset, id, len, stream, lane: 0, op, flags })
    }

    /// Returns the reason why a request must not be dispatched, or None if it may be.
    fn wrong(&self, known: &Request) -> Option<String> {
        let end = known.offset.saturating_add(u64::from(known.len));
        match known.place {
            Place::Running | Place::Ended | Place::Merged => {
                return Some("a second time; a request is dispatched once".to_string());
            }
            Place::Queued(run) if run != self.run => {
                return Some("which was never submitted in this run".to_string());
            }
            Place::Queued(_) | Place::Own => (),
        }
        if known.op.moves_data() && known.len > self.len_max {
            let most = self.len_max;
            return Some(format!(
                "which is too long: the device accepts {most} bytes at a time, so dispatch the \
                 rest as another I/O"
            ));
        }
        let most = self.capacity;
        (end > most).then(|| format!("which ends beyond the device's {most} bytes"))
    }
}

impl Policy for Bare {
    fn submit(&mut self, cx: &mut Cx<'_>, request: forebay_core::Request, _bytes: Bytes) {
        let (id, since) = (self.submitted, cx.now);
        self.submitted += 1;
        Python::attach(|py| {
            let known = Request { at: since, ..Request::of(&request, id, Place::Queued(self.run)) };
            match Py::new(py, known) {
                Ok(handle) => {
                    let waiting = Waiting { handle: handle.clone_ref(py), request, since };
                    self.waiting.insert(id, waiting);
                    if let Some(said) = self.object.submit(py, since, &handle) {
                        self.answer(cx, "submit", &said, Ok(()));
                    }
                }
                Err(error) => self.object.fail(error),
            }
        });
    }

    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<forebay_core::Request> {
        if lane != 0 {
            return None;
        }
        Python::attach(|py| {
            let given = self.object.dispatch(py, now)?;
            self.io(now, &given)
        })
    }

    fn complete(&mut self, cx: &mut Cx<'_>, done: &Completion) {
        let Some(handle) = self.running.remove(&done.io.id) else { return };
        Python::attach(|py| {
            let mut known = handle.borrow_mut(py);
            known.place = if known.id.is_some() { Place::Ended } else { Place::Own };
            drop(known);
            let said = match self.object.completes() {
                true => self.object.complete(py, cx.now, &handle),
                false => Some(handle.bind(py).clone().into_any()),
            };
            if let Some(said) = said {
                self.answer(cx, "complete", &said, done.outcome);
            }
        });
    }

    fn wakeup(&self) -> Option<Nanos> {
        self.object.wakeup()
    }

    fn wake(&mut self, cx: &mut Cx<'_>) {
        Python::attach(|py| {
            if let Some(said) = self.object.wake(py, cx.now) {
                self.answer(cx, "wake", &said, Ok(()));
            }
        });
    }

    fn pieces(&self, _io: &forebay_core::Request, _each: &mut dyn FnMut(Piece)) {}
}
