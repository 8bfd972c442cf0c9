//! Content for workloads that have none: writes carry a pattern that depends on their position, and
//! reads get a buffer.
//!
//! The byte written to an address is that of [`payload`], so the result of a run can be verified
//! wherever a policy has placed it. Nothing is copied for a write, because the pattern is in a
//! separate buffer.

use std::collections::BTreeMap;

use forebay_core::{Buf, Bytes, Done, Nanos, Op, Piece, Request, RequestId, Slots, Workload};

use crate::wire::{LEN_MAX, payload, source_at};

/// A workload with content.
pub struct Patterned<W> {
    /// The underlying workload.
    pub workload: W,
    pattern: Buf,
    /// Whether reads need a buffer, for example because a policy caches the data.
    reads: bool,
    /// The buffers of reads, and of writes that are longer than the pattern.
    taken: BTreeMap<RequestId, Buf>,
}

impl<W: Workload> Patterned<W> {
    /// Makes writes use the buffer `pattern` from [`crate::Uring::pattern`]; if it is 0, they have
    /// no content. If `reads` is set, each read gets a buffer, as policies that copy data require;
    /// otherwise, reads have no buffer and use no memory while they wait.
    pub fn new(workload: W, pattern: Buf, reads: bool) -> Patterned<W> {
        Patterned { workload, pattern, reads, taken: BTreeMap::new() }
    }
}

/// Stores the payload for the addresses starting at `offset`.
fn fill(offset: u64, to: Piece, slots: &mut dyn Slots) {
    const STEP: u32 = 4096;
    for done in (0..to.len).step_by(STEP as usize) {
        let len = (to.len - done).min(STEP);
        let from = offset + u64::from(done);
        let bytes: Vec<u8> = (from..from + u64::from(len)).map(payload).collect();
        slots.put(to.bytes().on(done).len(len), &bytes);
    }
}

impl<W: Workload> Workload for Patterned<W> {
    #[inline]
    fn peek(&self) -> Option<Nanos> {
        self.workload.peek()
    }

    #[inline]
    fn take(&mut self) -> Request {
        self.workload.take()
    }

    #[inline]
    fn bytes(&mut self, request: &Request, slots: &mut dyn Slots) -> Bytes {
        match request.op {
            _ if self.pattern == 0 => Bytes::NONE,
            Op::Read if !self.reads => Bytes::NONE,
            Op::Write if request.len <= LEN_MAX => {
                Bytes { buf: self.pattern, at: source_at(request.offset) as u32 }
            }
            Op::Read | Op::Write if request.len > 0 => {
                let buf = slots.take(request.len);
                self.taken.insert(request.id, buf);
                if request.op == Op::Write {
                    fill(request.offset, Bytes::of(buf).len(request.len), slots);
                }
                Bytes::of(buf)
            }
            _ => Bytes::NONE,
        }
    }

    #[inline]
    fn finished(&mut self, now: Nanos, done: &Done, slots: &mut dyn Slots) {
        if let Some(buf) = self.taken.remove(&done.request.id) {
            slots.free(buf);
        }
        self.workload.finished(now, done, slots);
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.workload.is_over()
    }

    #[inline]
    fn is_stopped(&self) -> bool {
        self.workload.is_stopped()
    }
}
