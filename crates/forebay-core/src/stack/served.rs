//! A scheduler as a server runs it: behind a path, with one stream for all requests of an export.
//!
//! A scheduler in the kernel sees which task sent a request, and gets it at once. A server sees
//! exports only, and each request takes the way from the client and back.

use super::Link;
use crate::contract::bytes::{Bytes, Piece};
use crate::contract::device::Completion;
use crate::contract::policy::{AnyPolicy, Class, Cx, Figure, Gauge, Policy};
use crate::contract::request::{Lane, Request};
use crate::contract::time::Nanos;
use crate::slab::Slab;

/// A policy behind a server's path.
pub struct Served {
    link: Link<AnyPolicy>,
    /// The requests under way, as their clients sent them.
    sent: Slab<Request>,
}

impl Served {
    /// Puts `policy` behind a path whose round trip takes `round_trip`.
    pub fn new(policy: AnyPolicy, round_trip: Nanos) -> Served {
        Served { link: Link::new(policy, round_trip), sent: Slab::default() }
    }

    /// Gives back to the answers after the first `before` the names that their clients use.
    fn name(&mut self, cx: &mut Cx<'_>, before: usize) {
        for done in &mut cx.finished[before..] {
            done.request = self.sent.remove(done.request.id as u32);
        }
    }
}

impl Policy for Served {
    fn submit(&mut self, cx: &mut Cx<'_>, request: Request, bytes: Bytes) {
        let before = cx.finished.len();
        let id = self.sent.insert(request).into();
        self.link.submit(cx, Request { id, stream: 0, ..request }, bytes);
        self.name(cx, before);
    }

    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        self.link.dispatch(now, lane)
    }

    fn complete(&mut self, cx: &mut Cx<'_>, done: &Completion) {
        let before = cx.finished.len();
        self.link.complete(cx, done);
        self.name(cx, before);
    }

    fn wakeup(&self) -> Option<Nanos> {
        self.link.wakeup()
    }

    fn wake(&mut self, cx: &mut Cx<'_>) {
        let before = cx.finished.len();
        self.link.wake(cx);
        self.name(cx, before);
    }

    fn pieces(&self, io: &Request, each: &mut dyn FnMut(Piece)) {
        self.link.pieces(io, each);
    }

    fn figures(&self) -> Vec<Figure> {
        self.link.figures()
    }

    fn gauges(&self) -> Vec<Gauge> {
        self.link.gauges()
    }

    fn classes(&self) -> &[Class] {
        self.link.classes()
    }
}
