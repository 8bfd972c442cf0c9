//! A scheduler in a server: behind a network path, with a single stream for all requests of an
//! export.
//!
//! A scheduler in the kernel knows which task sent a request, and gets the request immediately. A
//! server only knows the export, and each request and answer travels over the network.

use super::Link;
use crate::contract::{AnyPolicy, Bytes, Completion, Cx, Nanos, Policy, Request};
use crate::forward_policy;
use crate::slab::Slab;

/// A policy behind the path to a server.
pub struct Served {
    link: Link<AnyPolicy>,
    /// The outstanding requests, as their clients sent them.
    sent: Slab<Request>,
}

impl Served {
    /// Puts `policy` behind a path whose round trip takes `round_trip`.
    pub fn new(policy: AnyPolicy, round_trip: Nanos) -> Served {
        Served { link: Link::new(policy, round_trip), sent: Slab::default() }
    }

    /// Restores the clients' original requests in all answers except the first `before`.
    fn restore(&mut self, cx: &mut Cx<'_>, before: usize) {
        for done in &mut cx.finished[before..] {
            done.request = self.sent.remove(done.request.id as u32);
        }
    }
}

impl Policy for Served {
    forward_policy!(self => self.link; dispatch wakeup pieces figures gauges classes);

    fn submit(&mut self, cx: &mut Cx<'_>, request: Request, bytes: Bytes) {
        let before = cx.finished.len();
        let id = self.sent.insert(request).into();
        self.link.submit(cx, Request { id, stream: 0, ..request }, bytes);
        self.restore(cx, before);
    }

    fn complete(&mut self, cx: &mut Cx<'_>, done: &Completion) {
        let before = cx.finished.len();
        self.link.complete(cx, done);
        self.restore(cx, before);
    }

    fn wake(&mut self, cx: &mut Cx<'_>) {
        let before = cx.finished.len();
        self.link.wake(cx);
        self.restore(cx, before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Finished, Flags, Null, Op};
    use crate::elevator::{BlockLayer, Limits, Noop};

    #[test]
    fn the_scheduler_sees_one_stream_and_clients_their_own_requests() {
        let noop = BlockLayer::new(Noop::default(), Limits::default());
        let mut served = Served::new(Box::new(noop), Nanos(100));
        let mut finished = Finished::new();
        let mut cx = Cx { now: Nanos(7), slots: &mut Null, finished: &mut finished };
        let sent = [(40, 3, 1 << 30), (41, 8, 0)].map(|(id, stream, offset)| {
            let (at, op, flags) = (Nanos(7), Op::Read, Flags::NONE);
            Request { at, offset, id, len: 512, stream, lane: 0, op, flags }
        });
        sent.iter().for_each(|request| served.submit(&mut cx, *request, Bytes { buf: 5, at: 0 }));
        assert_eq!((served.dispatch(cx.now, 0), served.wakeup()), (None, Some(Nanos(107))));
        cx.now = Nanos(107);
        served.wake(&mut cx);
        for _ in &sent {
            let io = served.dispatch(cx.now, 0).unwrap();
            assert_eq!(io.stream, 0);
            let (started, at, mechanics) = (cx.now, cx.now, Default::default());
            served.complete(&mut cx, &Completion { io, started, at, mechanics, outcome: Ok(()) });
        }
        assert_eq!(finished.iter().map(|done| done.request).collect::<Vec<_>>(), sent);
        assert!(finished.iter().all(|done| done.latency(Nanos(107)) == Nanos(100)));
    }
}
