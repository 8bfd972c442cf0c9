//! Workloads: where client requests come from.

use crate::policy::Done;
use crate::request::Request;
use crate::time::Nanos;

/// A source of client requests in time order.
///
/// Open workloads know every arrival beforehand; closed ones decide the next arrival when earlier
/// requests finish, which is why [`Workload::finished`] exists.
pub trait Workload {
    /// When the next request arrives; `None` when none will, unless something finishes first.
    fn peek(&self) -> Option<Nanos>;

    /// The next request, whose `at` is what [`Workload::peek`] last said. Called only after `Some`.
    fn take(&mut self) -> Request;

    /// Tells that a request finished at `now`; it may change what [`Workload::peek`] says, to no
    /// time before `now`.
    #[inline]
    fn finished(&mut self, _now: Nanos, _done: &Done) {}

    /// Whether the run is to end at once, whatever is still to do.
    #[inline]
    fn is_stopped(&self) -> bool {
        false
    }
}
