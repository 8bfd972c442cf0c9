//! Workloads: sources of client requests.

use crate::contract::{Bytes, Done, Nanos, Request, Slots};

/// A source of client requests in time order.
///
/// An open workload knows all arrivals in advance. A closed one decides on the next arrival when
/// earlier requests finish, which [`Workload::finished`] reports.
pub trait Workload {
    /// Returns when the next request arrives; `None` if no request will arrive unless an earlier
    /// one finishes.
    fn peek(&self) -> Option<Nanos>;

    /// Returns the next request, whose `at` is the last result of [`Workload::peek`]. Called only
    /// if that result was `Some`.
    fn take(&mut self) -> Request;

    /// Returns the bytes of the request that was just taken. A workload with data allocates a
    /// buffer, fills it if the request is a write, and frees it when the request is answered
    /// ([`Workload::finished`]).
    #[inline]
    fn bytes(&mut self, _request: &Request, _slots: &mut dyn Slots) -> Bytes {
        Bytes::NONE
    }

    /// Called when a request is answered at `now`. This may change the result of
    /// [`Workload::peek`], but to no time before `now`.
    #[inline]
    fn finished(&mut self, _now: Nanos, _done: &Done, _slots: &mut dyn Slots) {}

    /// Returns whether no more requests will come, regardless of answers and wakeups. A live run
    /// continues until this returns true, even if no request is outstanding.
    #[inline]
    fn is_over(&self) -> bool {
        self.peek().is_none()
    }

    /// Returns whether the run must end immediately, even if work remains.
    #[inline]
    fn is_stopped(&self) -> bool {
        false
    }
}
