//! Observers, which collect statistics for both drivers.

use crate::contract::device::Completion;
use crate::contract::policy::Done;
use crate::contract::request::Request;
use crate::contract::time::Nanos;

/// Sees everything that happens in a run and changes nothing.
pub trait Observer {
    /// A client request arrived.
    #[inline]
    fn arrived(&mut self, _request: &Request) {}

    /// A device finished an I/O; `completion.io.lane` says which.
    #[inline]
    fn io(&mut self, _completion: &Completion) {}

    /// A client request finished at `now`.
    #[inline]
    fn finished(&mut self, _now: Nanos, _done: &Done) {}
}

/// An observer that sees nothing.
impl Observer for () {}
