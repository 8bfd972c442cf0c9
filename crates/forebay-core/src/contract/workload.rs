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
    /// When the next request arrives; `None` when none will, unless something finishes first.
    fn peek(&self) -> Option<Nanos>;

    /// The next request, whose `at` is what [`Workload::peek`] last said. Called only after `Some`.
    fn take(&mut self) -> Request;

    /// Where the bytes of the request are that was just taken. Whoever wants content takes a buffer,
    /// fills it if the request writes, and frees it when it is answered ([`Workload::finished`]).
    #[inline]
    fn bytes(&mut self, _request: &Request, _slots: &mut dyn Slots) -> Bytes {
        Bytes::NONE
    }

    /// Tells that a request was answered at `now`; it may change what [`Workload::peek`] says, to no
    /// time before `now`.
    #[inline]
    fn finished(&mut self, _now: Nanos, _done: &Done, _slots: &mut dyn Slots) {}

    /// Whether no request will come any more, whatever is answered and whoever wakes the driver.
    /// Until then a live run goes on, though nothing is under way.
    #[inline]
    fn is_over(&self) -> bool {
        self.peek().is_none()
    }

    /// Whether the run is to end at once, whatever is still to do.
    #[inline]
    fn is_stopped(&self) -> bool {
        false
    }
}
