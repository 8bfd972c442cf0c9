//! The way to a device that is elsewhere: requests reach their policy some time after they were
//! submitted.
//!
//! Source: the **bid** paper, section "BID-hybrid": the host transfers requests to the host of the
//! flash device. The time is charged once a request, for both ways.

use std::collections::VecDeque;

use super::{Cx, Policy};
use crate::bytes::{Bytes, Piece};
use crate::device::Completion;
use crate::request::{Lane, Request};
use crate::time::Nanos;

/// A policy behind a link of constant latency.
#[derive(Clone, Debug)]
pub(super) struct Link<P> {
    policy: P,
    latency: Nanos,
    /// Under way, with the time of arrival.
    line: VecDeque<(Nanos, Request, Bytes)>,
}

impl<P: Policy> Link<P> {
    /// `policy` behind `latency`.
    pub(super) fn new(policy: P, latency: Nanos) -> Link<P> {
        Link { policy, latency, line: VecDeque::new() }
    }

    fn arrival(&self) -> Option<Nanos> {
        self.line.front().map(|&(at, ..)| at)
    }

    /// Adds the way to the waits of what was answered after the first `before` answers.
    fn charge(&self, cx: &mut Cx<'_>, before: usize) {
        for done in &mut cx.finished[before..] {
            done.wait += self.latency;
        }
    }
}

impl<P: Policy> Policy for Link<P> {
    #[inline]
    fn submit(&mut self, cx: &mut Cx<'_>, request: Request, bytes: Bytes) {
        if self.latency == Nanos::ZERO {
            self.policy.submit(cx, request, bytes);
        } else {
            self.line.push_back((cx.now + self.latency, request, bytes));
        }
    }

    #[inline]
    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        self.policy.dispatch(now, lane)
    }

    #[inline]
    fn complete(&mut self, cx: &mut Cx<'_>, done: &Completion) {
        let before = cx.finished.len();
        self.policy.complete(cx, done);
        self.charge(cx, before);
    }

    #[inline]
    fn wakeup(&self) -> Option<Nanos> {
        self.arrival().into_iter().chain(self.policy.wakeup()).min()
    }

    fn wake(&mut self, cx: &mut Cx<'_>) {
        let before = cx.finished.len();
        while self.arrival().is_some_and(|at| at <= cx.now) {
            let Some((_, request, bytes)) = self.line.pop_front() else { break };
            self.policy.submit(cx, request, bytes);
        }
        if self.policy.wakeup().is_some_and(|at| at <= cx.now) {
            self.policy.wake(cx);
        }
        self.charge(cx, before);
    }

    fn pieces(&self, io: &Request, each: &mut dyn FnMut(Piece)) {
        self.policy.pieces(io, each);
    }
}
