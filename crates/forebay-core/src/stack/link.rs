//! The link to a remote device: requests reach their policy some time after they were submitted.
//!
//! Source: the **bid** paper, section "BID-hybrid": the host sends requests to the host of the
//! flash device. The latency is charged once per request, for both directions.

use std::collections::VecDeque;

use crate::contract::{Bytes, Completion, Cx, Nanos, Policy, Request};
use crate::forward_policy;

/// A policy reached through a link of constant latency.
#[derive(Clone, Debug)]
pub(crate) struct Link<P> {
    policy: P,
    latency: Nanos,
    /// The requests in transit, with their times of arrival.
    line: VecDeque<(Nanos, Request, Bytes)>,
}

impl<P: Policy> Link<P> {
    /// Puts a delay of `latency` in front of `policy`.
    pub(crate) fn new(policy: P, latency: Nanos) -> Link<P> {
        Link { policy, latency, line: VecDeque::new() }
    }

    fn arrival(&self) -> Option<Nanos> {
        self.line.front().map(|&(at, ..)| at)
    }

    /// Adds the latency to the waits of all answers except the first `before`.
    fn charge(&self, cx: &mut Cx<'_>, before: usize) {
        for done in &mut cx.finished[before..] {
            done.wait += self.latency;
        }
    }
}

impl<P: Policy> Policy for Link<P> {
    forward_policy!(self => self.policy; dispatch pieces begin_stream figures gauges classes);

    #[inline]
    fn submit(&mut self, cx: &mut Cx<'_>, request: Request, bytes: Bytes) {
        if self.latency == Nanos::ZERO {
            self.policy.submit(cx, request, bytes);
        } else {
            self.line.push_back((cx.now + self.latency, request, bytes));
        }
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Finished, Flags, Null, Op, Piece};
    use crate::elevator::{BlockLayer, Limits, Noop};

    #[test]
    fn requests_arrive_after_the_latency_and_their_waits_include_it() {
        let mut link = Link::new(BlockLayer::new(Noop::default(), Limits::default()), Nanos(100));
        let mut finished = Finished::new();
        let mut cx = Cx { now: Nanos(7), slots: &mut Null, finished: &mut finished };
        for id in 0..2 {
            let (at, offset, stream, lane) = (cx.now, id * 4096, 0, 0);
            let (op, flags) = (Op::Read, Flags::NONE);
            let read = Request { at, offset, id, len: 512, stream, lane, op, flags };
            link.submit(&mut cx, read, Bytes { buf: 5, at: offset as u32 });
        }
        assert_eq!((link.dispatch(cx.now, 0), link.wakeup()), (None, Some(Nanos(107))));
        cx.now = Nanos(107);
        link.wake(&mut cx);
        assert_eq!(link.wakeup(), None, "both are there");
        for id in 0..2 {
            let io = link.dispatch(cx.now, 0).unwrap();
            let mut pieces = Vec::new();
            link.pieces(&io, &mut |piece| pieces.push(piece));
            assert_eq!(pieces, [Piece { buf: 5, at: id * 4096, len: 512 }]);
            cx.now = Nanos(110);
            let (started, at, mechanics) = (Nanos(107), cx.now, Default::default());
            link.complete(&mut cx, &Completion { io, started, at, mechanics, outcome: Ok(()) });
        }
        let waits: Vec<Nanos> = finished.iter().map(|done| done.wait).collect();
        assert_eq!(waits, [Nanos(103); 2]);
    }
}
