//! A shaper above a stack. The shaper decides which class is served next, and the stack decides
//! where data is stored and in which order devices serve the I/Os.
//!
//! The window is the shaper's depth: the maximum number of requests, or parts of long ones, that
//! are in the stack at a time. A wide window gives a scheduler more choice, and a narrow one
//! preserves the shaper's order. In either case, the shaper admits requests as for a server of
//! constant rate.

use super::{Recombine, Shaper};
use crate::contract::{
    Bytes, Completion, Cx, Figure, Finished, Gauge, Mechanics, Nanos, Policy, Request, RequestId,
};
use crate::forward_policy;
use crate::slab::Slab;

/// The policy `shaper` above the policy `beneath`.
pub struct Above<R, P> {
    shaper: Shaper<R>,
    beneath: P,
    /// The requests that the shaper has passed to the stack, by their id there.
    sent: Slab<Request>,
    answered: Finished,
}

impl<R: Recombine, P: Policy> Above<R, P> {
    /// Creates a shaper above a stack. The shaper must not require servers of its own.
    pub fn new(shaper: Shaper<R>, beneath: P) -> Above<R, P> {
        debug_assert!(shaper.servers().is_empty(), "a stack is not a server of constant rate");
        Above { shaper, beneath, sent: Slab::default(), answered: Finished::new() }
    }

    /// Passes requests down and answers up until neither makes progress.
    fn pump(&mut self, cx: &mut Cx<'_>) {
        loop {
            let mut answered = std::mem::take(&mut self.answered);
            for done in answered.drain(..) {
                let io = self.sent.remove(done.request.id as u32);
                let (started, at, mechanics) = (cx.now - done.wait, cx.now, Mechanics::default());
                let outcome = done.outcome;
                self.shaper.complete(cx, &Completion { io, started, at, mechanics, outcome });
            }
            self.answered = answered;
            let Some(io) = self.shaper.dispatch(cx.now, 0) else { return };
            let (lane, mut bytes) = (self.shaper.lane(&io), Bytes::NONE);
            self.shaper.pieces(&io, &mut |piece| bytes = piece.bytes());
            let id = RequestId::from(self.sent.insert(io));
            let stream = self.shaper.stream_below(&io);
            let beneath = &mut cx.beneath(&mut self.answered);
            self.beneath.submit(beneath, Request { id, lane, stream, ..io }, bytes);
        }
    }
}

impl<R: Recombine, P: Policy> Policy for Above<R, P> {
    forward_policy!(self => self.shaper; classes unanswered);
    forward_policy!(self => self.beneath; dispatch pieces begin_stream volume order take_events);

    fn submit(&mut self, cx: &mut Cx<'_>, request: Request, bytes: Bytes) {
        self.shaper.submit(cx, request, bytes);
        self.pump(cx);
    }

    fn complete(&mut self, cx: &mut Cx<'_>, done: &Completion) {
        self.beneath.complete(&mut cx.beneath(&mut self.answered), done);
        self.pump(cx);
    }

    fn wakeup(&self) -> Option<Nanos> {
        self.shaper.wakeup().into_iter().chain(self.beneath.wakeup()).min()
    }

    fn wake(&mut self, cx: &mut Cx<'_>) {
        if self.beneath.wakeup().is_some_and(|at| at <= cx.now) {
            self.beneath.wake(&mut cx.beneath(&mut self.answered));
        }
        self.pump(cx);
    }

    fn figures(&self) -> Vec<Figure> {
        let shaper = self.shaper.figures();
        shaper.into_iter().chain(self.beneath.figures()).collect()
    }

    fn gauges(&self) -> Vec<Gauge> {
        let shaper = self.shaper.gauges();
        shaper.into_iter().chain(self.beneath.gauges()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Class, Flags, Lane, Null, Op, Piece};
    use crate::shape::{Fcfs, Promise, Promised, Shape};

    /// Records the streams that begin, and those of requests.
    #[derive(Default)]
    struct NoticeCounter(Vec<u32>);

    impl Policy for NoticeCounter {
        fn submit(&mut self, _cx: &mut Cx<'_>, request: Request, _bytes: Bytes) {
            self.0.push(request.stream);
        }
        fn dispatch(&mut self, _now: Nanos, _lane: Lane) -> Option<Request> {
            None
        }
        fn complete(&mut self, _cx: &mut Cx<'_>, _done: &Completion) {}
        fn pieces(&self, _io: &Request, _each: &mut dyn FnMut(Piece)) {}
        fn begin_stream(&mut self, stream: u32) {
            self.0.push(stream);
        }
    }

    fn above<R: Recombine>(recombine: R) -> Above<R, NoticeCounter> {
        let class = Class { name: "all".into(), within: Nanos::from_millis(1) };
        let (classes, servers, following) = (vec![class], Vec::new(), None);
        let (depth, len_max, dependencies) = (8, 4096, false);
        let shape = Shape { classes, servers, depth, len_max, dependencies, following };
        Above::new(Shaper::new(recombine, shape), NoticeCounter::default())
    }

    #[test]
    fn clients_of_a_tenant_are_one_stream_below_except_for_flushes() {
        let promises = vec![Promise { kept: None, weight: 1 }; 3];
        let mut above = above(Promised::new(promises, None, true));
        let (at, lane, flags) = (Nanos::ZERO, 0, Flags::NONE);
        for (id, (op, len)) in
            [(Op::Read, 8), (Op::Write, 8), (Op::Flush, 0)].into_iter().enumerate()
        {
            let cx = &mut Cx { now: at, slots: &mut Null, finished: &mut Finished::new() };
            let (id, offset) = (id as u64, 8 * id as u64);
            above.submit(
                cx,
                Request { at, offset, id, len, stream: 7, lane, op, flags },
                Bytes::NONE,
            );
        }
        assert_eq!(above.beneath.0, [1, 1, 7]);
    }

    #[test]
    fn what_is_beneath_hears_who_begins() {
        let mut above = above(Fcfs);
        above.begin_stream(7);
        assert_eq!(above.beneath.0, [7]);
    }
}
