//! Converts requests of any length to I/Os of whole blocks, by reading, modifying and writing
//! blocks.
//!
//! The lanes accept only whole blocks. A read of partial blocks reads the whole blocks and copies
//! the requested bytes. A write of partial blocks first reads the first and the last block, unless
//! it covers them completely, and then writes all blocks. A trim is reduced to the whole blocks
//! that it covers. If two changes touch a block that either of them covers only partly, the later
//! one waits for the earlier, because otherwise the bytes of one would be lost ([`order`]).
//! Requests of whole blocks pass through unchanged.

mod order;

use crate::contract::{Buf, Bytes, Fault, Figure, Op, Outcome, Request, worst};
use crate::slab::Slab;
use crate::stack::placed::{Owner, Placement, Plan, Planned};

use order::{Order, Span};

/// A request with partial blocks, or a change for which other requests may have to wait.
#[derive(Clone, Copy, Debug)]
struct Work {
    client: u32,
    request: Request,
    bytes: Bytes,
    /// The range of the touched blocks in bytes; `end` is exclusive.
    first: u64,
    end: u64,
    /// Whether the request covers only whole blocks.
    whole: bool,
    /// A buffer for the contents of the blocks, if the request has partial blocks.
    buf: Buf,
    /// The number of outstanding I/Os.
    left: u32,
    writing: bool,
    outcome: Outcome,
}

impl Work {
    /// Returns the blocks that the request changes; None if it is neither a write nor a trim.
    fn span(&self, block: u64) -> Option<Span> {
        let lane = self.request.lane;
        let begin = self.request.offset > self.first;
        let within = self.request.end() < self.end;
        matches!(self.request.op, Op::Write | Op::Trim).then_some(Span {
            lane,
            first: self.first / block,
            end: self.end / block,
            begins_within: begin,
            ends_within: within,
        })
    }
}

/// The token of I/Os that pass through unchanged.
const PASSES: u64 = u64::MAX;

/// Extends partial blocks to complete ones.
#[derive(Clone, Debug)]
pub struct Blocks {
    block: u64,
    works: Slab<Work>,
    order: Order,
    partial_requests: u64,
}

impl Blocks {
    /// Creates a layer for lanes with blocks of `block_bytes` bytes, at least 1.
    pub fn new(block_bytes: u32) -> Blocks {
        Blocks {
            block: u64::from(block_bytes.max(1)),
            works: Slab::default(),
            order: Order::default(),
            partial_requests: 0,
        }
    }

    /// Returns the whole blocks within a trim. The rest may be omitted, because a trim is only a
    /// hint.
    fn narrowed(&self, trim: &Request) -> Request {
        let first = trim.offset.div_ceil(self.block).saturating_mul(self.block);
        let end = trim.end() / self.block * self.block;
        Request { offset: first, len: end.saturating_sub(first) as u32, ..*trim }
    }

    fn begin(&mut self, key: u32, plan: &mut Plan<'_>) {
        let Work { client, request, bytes, first, end, whole, .. } = self.works[key];
        if whole {
            self.works[key].left = 1;
            let io = Planned::whole(client, &request, bytes);
            return plan.io(Planned { token: key.into(), ..io });
        }
        self.partial_requests += 1;
        self.works[key].buf = plan.slots.take((end - first) as u32);
        if request.op == Op::Read {
            return self.io(key, Op::Read, first, end, plan);
        }
        let last = end - self.block;
        let (head, tail) = (request.offset > first, request.end() < end);
        if head {
            self.io(key, Op::Read, first, first + self.block, plan);
        }
        if tail && !(head && last == first) {
            self.io(key, Op::Read, last, end, plan);
        }
    }

    /// Plans an I/O of whole blocks from or to the buffer.
    fn io(&mut self, key: u32, op: Op, from: u64, to: u64, plan: &mut Plan<'_>) {
        let work = &mut self.works[key];
        work.left += 1;
        let Request { lane, stream, flags, .. } = work.request;
        let bytes = Bytes::of(work.buf).on((from - work.first) as u32);
        let (owner, offset, len) = (Owner::Client(work.client), from, (to - from) as u32);
        plan.io(Planned { owner, lane, op, offset, len, bytes, stream, flags, token: key.into() });
    }

    /// Continues or finishes a request whose I/Os have completed.
    fn end(&mut self, key: u32, plan: &mut Plan<'_>) {
        let work = self.works[key];
        let Work { client, request, bytes, first, end, buf, writing, outcome, .. } = work;
        let asked = Bytes::of(buf).on((request.offset - first) as u32);
        if outcome.is_ok() && !work.whole && request.op == Op::Read {
            plan.slots.copy(asked.len(request.len), bytes);
        }
        let partial = !work.whole && request.op == Op::Write;
        if partial && !writing && outcome.is_ok() {
            // Use another buffer, because the one that was read may still be in use elsewhere, for
            // example to fill a cache.
            let len = (end - first) as u32;
            let fresh = plan.slots.take(len);
            plan.slots.copy(Bytes::of(buf).len(len), Bytes::of(fresh));
            plan.slots.copy(bytes.len(request.len), Bytes { buf: fresh, ..asked });
            plan.slots.free(buf);
            (self.works[key].buf, self.works[key].writing) = (fresh, true);
            return self.io(key, Op::Write, first, end, plan);
        }
        plan.slots.free(buf);
        self.works.remove(key);
        plan.release(client, outcome);
        if let Some(span) = work.span(self.block) {
            for next in self.order.end(key, &span) {
                self.begin(next, plan);
            }
        }
    }
}

impl Placement for Blocks {
    const BACKGROUND: bool = false;

    fn place(&mut self, client: u32, request: &Request, bytes: Bytes, plan: &mut Plan<'_>) {
        let request = &match request.op {
            Op::Trim => self.narrowed(request),
            _ => *request,
        };
        if request.op == Op::Trim && request.len == 0 {
            return; // The trim covers no whole block, so it is answered.
        }
        let first = request.offset / self.block * self.block;
        let end = request.end().checked_next_multiple_of(self.block);
        let Some(end) = end.filter(|end| end - first <= u64::from(u32::MAX)) else {
            plan.hold(client);
            return plan.release(client, Err(Fault::Refused));
        };
        let whole = first == request.offset && end == request.end();
        let touches = request.len > 0 && matches!(request.op, Op::Read | Op::Write | Op::Trim);
        if !touches || whole && request.op == Op::Read {
            let io = Planned::whole(client, request, bytes);
            return plan.io(Planned { token: PASSES, ..io });
        }
        plan.hold(client);
        let key = self.works.insert(Work {
            client,
            request: *request,
            bytes,
            first,
            end,
            whole,
            buf: 0,
            left: 0,
            writing: false,
            outcome: Ok(()),
        });
        let span = self.works[key].span(self.block);
        if span.is_none_or(|span| self.order.begin(key, &span)) {
            self.begin(key, plan);
        }
    }

    fn done(&mut self, io: &Planned, outcome: Outcome, plan: &mut Plan<'_>) -> Outcome {
        if io.token == PASSES {
            return outcome;
        }
        let key = io.token as u32;
        let work = &mut self.works[key];
        work.left -= 1;
        work.outcome = worst(work.outcome, outcome);
        if work.left == 0 {
            self.end(key, plan);
        }
        // The outcome is reported when the request is released.
        Ok(())
    }

    fn figures(&self) -> Vec<Figure> {
        vec![("partial_requests", self.partial_requests as f64)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Flags, Nanos};
    use crate::stack::placed::plan::planned;

    fn request(op: Op, offset: u64, len: u32) -> Request {
        let (at, id, stream, lane, flags) = (Nanos::ZERO, 0, 0, 0, Flags::NONE);
        Request { at, offset, id, len, stream, lane, op, flags }
    }

    fn asked(blocks: &mut Blocks, op: Op, offset: u64, len: u32) -> Vec<Planned> {
        planned(|plan| blocks.place(0, &request(op, offset, len), Bytes::NONE, plan))
    }

    fn done(blocks: &mut Blocks, io: &Planned) -> Vec<Planned> {
        planned(|plan| assert_eq!(blocks.done(io, Ok(()), plan), Ok(())))
    }

    fn told(ios: &[Planned]) -> Vec<(Op, u64, u32)> {
        ios.iter().map(|io| (io.op, io.offset, io.len)).collect()
    }

    #[test]
    fn partial_blocks_are_completed_and_whole_blocks_pass() {
        let mut blocks = Blocks::new(4096);
        assert_eq!(told(&asked(&mut blocks, Op::Read, 4096, 8192)), [(Op::Read, 4096, 8192)]);
        let part = asked(&mut blocks, Op::Read, 4608, 4096);
        assert_eq!(told(&part), [(Op::Read, 4096, 8192)]);
        done(&mut blocks, &part[0]);
        let whole = asked(&mut blocks, Op::Write, 0, 4096);
        assert_eq!(told(&whole), [(Op::Write, 0, 4096)]);
        done(&mut blocks, &whole[0]);
        // Requests that begin or end within a block, or both, or lie within one block.
        let cases = [
            (512, 12_288, vec![0, 12_288], 16_384),
            (0, 4608, vec![4096], 8192),
            (3584, 4608, vec![0], 8192),
            (512, 512, vec![0], 4096),
        ];
        for (offset, len, reads, all) in cases {
            let ios = asked(&mut blocks, Op::Write, offset, len);
            let reads: Vec<_> = reads.into_iter().map(|at| (Op::Read, at, 4096)).collect();
            assert_eq!(told(&ios), reads);
            let mut after: Vec<_> = ios.iter().map(|io| done(&mut blocks, io)).collect();
            let last = after.pop().unwrap();
            assert_eq!(told(&last), [(Op::Write, 0, all)]);
            assert_eq!(done(&mut blocks, &last[0]), []);
        }
        assert!(blocks.works.is_empty() && blocks.order.is_empty());
    }

    #[test]
    fn trims_are_reduced_to_whole_blocks() {
        let mut blocks = Blocks::new(4096);
        for (offset, len) in [(512, 3584), (0, 4095), (4000, 4000)] {
            assert_eq!(asked(&mut blocks, Op::Trim, offset, len), []);
        }
        let inner = asked(&mut blocks, Op::Trim, 1, 12_290);
        assert_eq!(told(&inner), [(Op::Trim, 4096, 8192)]);
        assert_eq!(asked(&mut blocks, Op::Write, 4608, 512), [], "it follows the trim");
        let next = done(&mut blocks, &inner[0]);
        assert_eq!(told(&next), [(Op::Read, 4096, 4096)]);
    }

    #[test]
    fn writes_that_share_a_block_follow_each_other() {
        let mut blocks = Blocks::new(4096);
        let first = asked(&mut blocks, Op::Write, 512, 512);
        assert_eq!(asked(&mut blocks, Op::Write, 0, 4096), [], "a whole one after a part");
        assert_eq!(asked(&mut blocks, Op::Write, 4000, 200), [], "a part after both");
        assert_eq!(asked(&mut blocks, Op::Write, 4096, 4096), [], "no overtaking");
        assert_eq!(asked(&mut blocks, Op::Write, 8192, 4096).len(), 1, "nothing is shared");
        let write = done(&mut blocks, &first[0]);
        let second = done(&mut blocks, &write[0]);
        assert_eq!(told(&second), [(Op::Write, 0, 4096)]);
        let third = done(&mut blocks, &second[0]);
        assert_eq!(told(&third), [(Op::Read, 0, 4096), (Op::Read, 4096, 4096)]);
    }
}
