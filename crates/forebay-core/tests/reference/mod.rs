//! Brute-force reference implementations of algorithms, compared with the policies and workloads on
//! random cases. Algorithms that are lists of rules are tested with tables of cases instead.

mod bid;
mod cfq;
mod clook;
mod closed;
mod deadline;
mod hdd;
mod merging;
mod order_bound;
mod s3fifo;
mod sptf;

use forebay_core::contract::Bare;
use forebay_core::{Completion, Finished, Flags, Mechanics, Nanos, Op, Policy, Request};

fn request(id: u64, at: Nanos, offset: u64, len: u32, op: Op) -> Request {
    Request { at, offset, id, len, stream: 0, lane: 0, op, flags: Flags::NONE }
}

fn complete(policy: &mut impl Policy, now: Nanos, io: Request) {
    let done = Completion {
        io,
        started: io.at,
        at: now,
        mechanics: Mechanics::default(),
        outcome: Ok(()),
    };
    policy.complete_bare(now, &done, &mut Finished::new());
}
