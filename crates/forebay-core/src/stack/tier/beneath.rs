//! The policies below two tiers: the disks' schedulers, which may divert requests, and the flash's.

use crate::contract::{AnyPolicy, Bytes, Completion, Cx, Lane, Nanos, Piece, Policy, Request};
use crate::elevator::{BlockLayer, Elevator};
use crate::stack::placed::Beneath;

impl<E: Elevator> Beneath for BlockLayer<E> {
    #[inline]
    fn divert(&mut self, now: Nanos) -> Option<Request> {
        BlockLayer::divert(self, now)
    }
    fn gone(&mut self, io: &Request) {
        BlockLayer::gone(self, io);
    }
    fn keep(&mut self, io: &Request) {
        BlockLayer::keep(self, io);
    }
    fn back(&mut self, cx: &mut Cx<'_>, io: &Request) {
        BlockLayer::back(self, cx, io);
    }
    fn parts(&self, io: &Request, each: &mut dyn FnMut(u64, Piece)) {
        BlockLayer::parts(self, io, each);
    }
}

/// The policy of a lane.
pub(crate) enum Tier<D> {
    /// The policy of a disk.
    Disk(D),
    /// The policy of the flash.
    Flash(AnyPolicy),
}

macro_rules! each {
    ($tier:expr, $one:ident => $answer:expr) => {
        match $tier {
            Tier::Disk($one) => $answer,
            Tier::Flash($one) => $answer,
        }
    };
}

impl<D: Policy> Policy for Tier<D> {
    fn submit(&mut self, cx: &mut Cx<'_>, request: Request, bytes: Bytes) {
        each!(self, tier => tier.submit(cx, request, bytes));
    }
    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        each!(self, tier => tier.dispatch(now, lane))
    }
    fn complete(&mut self, cx: &mut Cx<'_>, done: &Completion) {
        each!(self, tier => tier.complete(cx, done));
    }
    fn wakeup(&self) -> Option<Nanos> {
        each!(self, tier => tier.wakeup())
    }
    fn wake(&mut self, cx: &mut Cx<'_>) {
        each!(self, tier => tier.wake(cx));
    }
    fn pieces(&self, io: &Request, each: &mut dyn FnMut(Piece)) {
        each!(self, tier => tier.pieces(io, each));
    }
    fn begin_stream(&mut self, stream: u32) {
        each!(self, tier => tier.begin_stream(stream));
    }
}

impl<D: Beneath> Beneath for Tier<D> {
    fn divert(&mut self, now: Nanos) -> Option<Request> {
        each!(self, tier => tier.divert(now))
    }
    fn gone(&mut self, io: &Request) {
        each!(self, tier => tier.gone(io));
    }
    fn keep(&mut self, io: &Request) {
        each!(self, tier => tier.keep(io));
    }
    fn back(&mut self, cx: &mut Cx<'_>, io: &Request) {
        each!(self, tier => tier.back(cx, io));
    }
    fn parts(&self, io: &Request, each: &mut dyn FnMut(u64, Piece)) {
        each!(self, tier => tier.parts(io, each));
    }
}
