//! The way to a device that is elsewhere: requests reach their policy some time after they were
//! submitted.
//!
//! Source: the **bid** paper, section "BID-hybrid": the host transfers requests to the host of the
//! flash device. The time is charged once a request, for both ways.

use std::collections::VecDeque;

use super::{Finished, Policy};
use crate::device::Completion;
use crate::request::{Lane, Request};
use crate::time::Nanos;

/// A policy behind a link of constant latency.
#[derive(Clone, Debug)]
pub(super) struct Link<P> {
    policy: P,
    latency: Nanos,
    /// Under way, with the time of arrival.
    line: VecDeque<(Nanos, Request)>,
}

impl<P: Policy> Link<P> {
    /// `policy` behind `latency`.
    pub(super) fn new(policy: P, latency: Nanos) -> Link<P> {
        Link { policy, latency, line: VecDeque::new() }
    }
}

impl<P: Policy> Policy for Link<P> {
    #[inline]
    fn submit(&mut self, now: Nanos, request: Request) {
        if self.latency == Nanos::ZERO {
            self.policy.submit(now, request);
        } else {
            self.line.push_back((now + self.latency, request));
        }
    }

    #[inline]
    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        while let Some(&(at, request)) = self.line.front()
            && at <= now
        {
            self.line.pop_front();
            self.policy.submit(now, request);
        }
        self.policy.dispatch(now, lane)
    }

    #[inline]
    fn complete(&mut self, now: Nanos, done: &Completion, finished: &mut Finished) {
        let before = finished.len();
        self.policy.complete(now, done, finished);
        for done in &mut finished[before..] {
            done.wait += self.latency;
        }
    }

    #[inline]
    fn wakeup(&self) -> Option<Nanos> {
        let arrival = self.line.front().map(|&(at, _)| at);
        match (arrival, self.policy.wakeup()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}
