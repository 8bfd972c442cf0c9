//! Observers, which collect statistics for both drivers.

use crate::contract::{Completion, Done, Nanos, Request};

/// Receives the events of a run, without influencing them.
pub trait Observer {
    /// A client request arrived.
    #[inline]
    fn arrived(&mut self, _request: &Request) {}

    /// A device completed an I/O; `completion.io.lane` is its lane.
    #[inline]
    fn io(&mut self, _completion: &Completion) {}

    /// A client request finished at `now`.
    #[inline]
    fn finished(&mut self, _now: Nanos, _done: &Done) {}
}

/// An observer that ignores all events.
impl Observer for () {}
