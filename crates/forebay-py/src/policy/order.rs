//! Runs a Python policy that only orders the request queue, as schedulers do. The block layer
//! splits, merges, admits and answers requests.

use forebay_core::elevator::{Elevator, Queue, QueuedId};
use forebay_core::{Lane, Nanos};
use pyo3::prelude::*;

use super::object::Object;
use super::request::{Place, Request};
use crate::given::shown;

/// An elevator that calls a Python policy. With `JOINS`, two waiting requests may be merged with
/// each other. This requires a `merged` method, because the policy could otherwise dispatch a
/// request that no longer exists.
pub(super) struct Order<const JOINS: bool> {
    object: Object,
    /// The requests in the queue, indexed by queue id.
    requests: Vec<Option<Py<Request>>>,
    submitted: u64,
    /// The number of requests that were not dispatched yet.
    queued: u64,
}

impl<const JOINS: bool> Order<JOINS> {
    /// Creates an elevator that calls `object`.
    pub(super) fn new(object: Object) -> Self {
        Order { object, requests: Vec::new(), submitted: 0, queued: 0 }
    }

    /// Checks at the end of the run that the queue is empty.
    pub(super) fn end(&self) {
        if self.queued == 0 {
            return;
        }
        Python::attach(|py| {
            let waits = |it: &&Py<Request>| matches!(it.borrow(py).place, Place::Queued(_));
            let first =
                self.requests.iter().flatten().filter(waits).min_by_key(|it| it.borrow(py).id);
            let first = first.map(|first| first.borrow(py).said()).unwrap_or_default();
            let count = self.queued;
            self.object.breaks(
                self.object.now(),
                format!(
                    "{count} of its requests were never dispatched, the first of them {first}: \
                 nothing else will happen, dispatch returns None and so does wakeup"
                ),
            );
        });
    }

    fn handle(&self, id: QueuedId) -> Option<&Py<Request>> {
        self.requests.get(id as usize)?.as_ref()
    }

    /// Returns the queue id of a request that the policy returned, after checking that this request
    /// is waiting.
    fn name(&mut self, now: Nanos, given: &Bound<'_, PyAny>) -> Option<QueuedId> {
        let wrong = match given.cast::<Request>() {
            Err(_) => {
                format!(
                    "dispatch returned {}, expected a request that was submitted, or None",
                    shown(given)
                )
            }
            Ok(request) => {
                let mut known = request.borrow_mut();
                let said = known.said();
                match known.place {
                    Place::Queued(id) if self.handle(id).is_some_and(|it| it.is(request)) => {
                        known.place = Place::Running;
                        return Some(id);
                    }
                    Place::Own | Place::Queued(_) => {
                        format!("dispatch returned {said}, which was never submitted in this run")
                    }
                    Place::Running | Place::Ended => {
                        format!(
                            "dispatch returned {said} a second time; a request is dispatched once"
                        )
                    }
                    Place::Merged => format!(
                        "dispatch returned {said}, which was merged into another: `merged` is \
                         told which one"
                    ),
                }
            }
        };
        self.object.breaks(now, wrong);
        None
    }
}

impl<const JOINS: bool> Elevator for Order<JOINS> {
    const JOINS: bool = JOINS;

    fn scope(&self, _bio: &forebay_core::Request) -> u32 {
        0
    }

    fn add(&mut self, now: Nanos, id: QueuedId, queue: &mut Queue) {
        let queued = &queue[id];
        let request = forebay_core::Request {
            at: now,
            offset: queued.offset,
            id: self.submitted,
            len: queued.len,
            stream: queued.stream,
            lane: Lane::default(),
            op: queued.op,
            flags: queued.flags,
        };
        self.submitted += 1;
        self.queued += 1;
        let slot = id as usize;
        if self.requests.len() <= slot {
            self.requests.resize_with(slot + 1, || None);
        }
        Python::attach(|py| {
            match Py::new(py, Request::of(&request, request.id, Place::Queued(id))) {
                Ok(handle) => {
                    self.object.submit(py, now, &handle);
                    self.requests[slot] = Some(handle);
                }
                Err(error) => self.object.fail(error),
            }
        });
    }

    fn grown(&mut self, now: Nanos, id: QueuedId, _offset_before: u64, queue: &mut Queue) {
        let Some(handle) = self.handle(id) else { return };
        Python::attach(|py| {
            let mut known = handle.borrow_mut(py);
            (known.offset, known.len, known.flags) =
                (queue[id].offset, queue[id].len, queue[id].flags);
            drop(known);
            self.object.merged(py, now, handle, None);
        });
    }

    fn join(&mut self, now: Nanos, kept: QueuedId, gone: QueuedId, queue: &mut Queue) {
        let joined = self.requests.get_mut(gone as usize).and_then(Option::take);
        let (Some(joined), Some(handle)) = (joined, self.handle(kept)) else { return };
        Python::attach(|py| {
            joined.borrow_mut(py).place = Place::Merged;
            let mut known = handle.borrow_mut(py);
            known.len += queue[gone].len;
            known.flags = known.flags.with(queue[gone].flags);
            drop(known);
            self.object.merged(py, now, handle, Some(&joined));
        });
        self.queued -= 1;
    }

    fn take(&mut self, now: Nanos, _queue: &mut Queue) -> Option<QueuedId> {
        if self.queued == 0 {
            return None;
        }
        let id = Python::attach(|py| {
            let given = self.object.dispatch(py, now)?;
            self.name(now, &given)
        })?;
        self.queued -= 1;
        Some(id)
    }

    fn completed(&mut self, now: Nanos, id: QueuedId, _queue: &Queue) {
        let Some(handle) = self.requests.get_mut(id as usize).and_then(Option::take) else {
            return;
        };
        self.object.happened();
        Python::attach(|py| {
            handle.borrow_mut(py).place = Place::Ended;
            self.object.complete(py, now, &handle);
        });
    }

    fn wakeup(&self) -> Option<Nanos> {
        self.object.wakeup()
    }
}
