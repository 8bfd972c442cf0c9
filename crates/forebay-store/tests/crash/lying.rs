//! A store one kind of whose syncs is left out.

use forebay_core::{Bytes, Completion, Cx, Flags, Lane, Nanos, Op, Piece, Policy, Request};
use forebay_store::{Layout, StorePolicy};

/// What is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// A batch is not durable when it is answered.
    Log,
    /// A segment is not durable when a root names it.
    Segment,
    /// A root is not durable when what it replaces is used again.
    Root,
}

impl Lie {
    pub(crate) const ALL: [Lie; 3] = [Lie::Log, Lie::Segment, Lie::Root];
}

pub(crate) struct Lying {
    pub(crate) policy: StorePolicy,
    pub(crate) lie: Option<Lie>,
    pub(crate) layout: Layout,
}

impl Policy for Lying {
    fn submit(&mut self, cx: &mut Cx<'_>, request: Request, bytes: Bytes) {
        self.policy.submit(cx, request, bytes);
    }
    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        let mut io = self.policy.dispatch(now, lane)?;
        let is_root = io.offset < self.layout.slot_at(0);
        let is_segment = io.offset >= self.layout.segments_at();
        let is_left_out = match self.lie {
            Some(Lie::Log) => io.op == Op::Write && !is_root && !is_segment,
            Some(Lie::Root) => io.op == Op::Write && is_root,
            _ => false,
        };
        if is_left_out {
            io.flags = Flags::NONE;
        }
        if self.lie == Some(Lie::Segment) && io.op == Op::Flush {
            // Something that takes as long and keeps nothing.
            io.op = Op::Park;
        }
        Some(io)
    }
    fn complete(&mut self, cx: &mut Cx<'_>, done: &Completion) {
        self.policy.complete(cx, done);
    }
    fn wakeup(&self) -> Option<Nanos> {
        self.policy.wakeup()
    }
    fn wake(&mut self, cx: &mut Cx<'_>) {
        self.policy.wake(cx);
    }
    fn pieces(&self, io: &Request, each: &mut dyn FnMut(Piece)) {
        self.policy.pieces(io, each);
    }
}
