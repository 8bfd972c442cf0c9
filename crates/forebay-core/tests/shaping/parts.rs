//! Tests of requests longer than the device accepts, and of servers with several outstanding I/Os.

use forebay_core::catalog::build;
use forebay_core::contract::Bare;
use forebay_core::contract::device::Mechanics;
use forebay_core::{Completion, Finished, Nanos, Policy, Request};

use crate::shaping::harness::read;

const LEN_MAX: u32 = 4096;

/// Returns a policy with one request of 10,000 bytes, submitted 5 ns after its arrival.
fn policy(spec: &str) -> impl Policy {
    let mut policy = build(spec, LEN_MAX).unwrap();
    policy.submit_bare(Nanos(5), Request { len: 10_000, ..read(7, Nanos(0), 0) });
    policy
}

fn parts(policy: &mut impl Policy) -> Vec<Request> {
    std::iter::from_fn(|| policy.dispatch(Nanos(6), 0)).collect()
}

/// Completes `io` and returns the requests that finish with it.
fn complete(policy: &mut impl Policy, io: Request, at: u64) -> Finished {
    let (started, at, mechanics) = (Nanos(6), Nanos(at), Mechanics::default());
    let mut finished = Finished::new();
    let done = Completion { io, started, at, mechanics, outcome: Ok(()) };
    policy.complete_bare(at, &done, &mut finished);
    finished
}

#[test]
fn a_server_has_as_many_parts_as_its_depth_and_the_last_one_finishes_the_request() {
    let mut policy = policy("fcfs:depth=2");
    let sent = parts(&mut policy);
    let places: Vec<(u64, u32)> = sent.iter().map(|io| (io.offset - (7 << 20), io.len)).collect();
    assert_eq!(places, [(0, 4096), (4096, 4096)]);
    assert!(complete(&mut policy, sent[1], 8).is_empty());
    let last = parts(&mut policy);
    assert_eq!((last.len(), last[0].len), (1, 10_000 - 8192));
    assert!(complete(&mut policy, last[0], 9).is_empty());
    let finished = complete(&mut policy, sent[0], 12);
    assert_eq!((finished.len(), finished[0].request.id, finished[0].request.len), (1, 7, 10_000));
    // The wait is measured from submission, not from arrival.
    assert_eq!(finished[0].wait, Nanos(7));
}

#[test]
fn a_request_is_not_finished_by_a_part_that_is_complete_before_the_next_is_sent() {
    let mut policy = policy("sfq:cmin=1000");
    let mut counts = Vec::new();
    for _ in 0..3 {
        let sent = parts(&mut policy);
        assert_eq!(sent.len(), 1);
        counts.push(complete(&mut policy, sent[0], 7).len());
    }
    assert_eq!((counts, parts(&mut policy).len()), (vec![0, 0, 1], 0));
}
