//! Calls a policy without data, for tests and for drivers that transfer no data.

use super::policy::{Cx, Finished, Policy};
use crate::contract::{Bytes, Completion, Nanos, Null, Request};

/// Methods that call a policy without data.
pub trait Bare: Policy {
    /// Calls [`Policy::submit`] for a request that the policy does not answer immediately.
    ///
    /// # Panics
    /// If the policy answers the request immediately.
    fn submit_bare(&mut self, now: Nanos, request: Request) {
        let mut finished = Finished::new();
        self.submit(
            &mut Cx { now, slots: &mut Null, finished: &mut finished },
            request,
            Bytes::NONE,
        );
        assert!(finished.is_empty(), "answered at once: {finished:?}");
    }

    /// Calls [`Policy::complete`].
    fn complete_bare(&mut self, now: Nanos, done: &Completion, finished: &mut Finished) {
        self.complete(&mut Cx { now, slots: &mut Null, finished }, done);
    }

    /// Calls [`Policy::wake`] if it is due.
    fn wake_bare(&mut self, now: Nanos, finished: &mut Finished) {
        if self.wakeup().is_some_and(|at| at <= now) {
            self.wake(&mut Cx { now, slots: &mut Null, finished });
        }
    }
}

impl<P: Policy + ?Sized> Bare for P {}
