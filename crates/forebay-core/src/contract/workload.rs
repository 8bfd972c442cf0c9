//! Workloads: sources of client requests.

use crate::contract::bytes::{Bytes, Slots};
use crate::contract::policy::Done;
use crate::contract::request::Request;
use crate::contract::time::Nanos;

/// A source of client requests in time order.
///
/// Open workloads know every arrival beforehand; closed ones decide the next arrival when earlier
/// requests finish, which is why [`Workload::finished`] exists.
pub trait Workload {
    /// Returns when the next request arrives; `None` when none will, unless something finishes
    /// first.
    fn peek(&self) -> Option<Nanos>;

    /// Returns the next request, whose `at` is the last result of [`Workload::peek`]. Called only
    /// if that was `Some`.
    fn take(&mut self) -> Request;

    /// Returns the bytes of the request that was just taken. A workload with contents allocates a
    /// buffer, fills it if the request writes, and frees it when the request is answered
    /// ([`Workload::finished`]).
    #[inline]
    fn bytes(&mut self, _request: &Request, _slots: &mut dyn Slots) -> Bytes {
        Bytes::NONE
    }

    /// Tells that a request was answered at `now`; it may change what [`Workload::peek`] says, to no
    /// time before `now`.
    #[inline]
    fn finished(&mut self, _now: Nanos, _done: &Done, _slots: &mut dyn Slots) {}

    /// Returns whether no more requests will come, whatever is answered and whoever wakes the
    /// driver. Until then, a live run continues even if nothing is outstanding.
    #[inline]
    fn is_over(&self) -> bool {
        self.peek().is_none()
    }

    /// Returns whether the run is to end at once, whatever is still to do.
    #[inline]
    fn is_stopped(&self) -> bool {
        false
    }
}
