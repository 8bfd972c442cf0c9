//! Tests without data. The laws of the crate forebay-live test the contents.

use super::*;
use crate::contract::{Bare, Done, Fault, Policy};
use crate::device::fixed::Fixed;
use crate::elevator::{BlockLayer, Limits, Noop};
use crate::replay::{Intensity, Open};
use crate::{Observer, simulate};

#[derive(Default)]
struct Seen {
    ios: Vec<(Op, u64, u32, bool)>,
    done: Vec<(u64, u64)>,
}

impl Observer for Seen {
    fn io(&mut self, completion: &Completion) {
        let io = &completion.io;
        self.ios.push((io.op, io.offset, io.len, io.stream == BACKGROUND));
    }
    fn finished(&mut self, now: Nanos, done: &Done) {
        self.done.push((done.request.offset, (now.0 - done.request.at.0) / 1_000_000));
    }
}

fn noop() -> BlockLayer<Noop> {
    BlockLayer::new(Noop::default(), Limits::default())
}

fn read(at_ms: u64, offset: u64, len: u32) -> Request {
    Request {
        at: Nanos::from_millis(at_ms),
        offset,
        id: at_ms,
        len,
        stream: 0,
        lane: 0,
        op: Op::Read,
        flags: Flags::NONE,
    }
}

/// Runs `requests` on a device of 100 IOPS.
fn run(mut policy: impl Policy, requests: &[Request]) -> (Seen, u64) {
    let mut seen = Seen::default();
    let mut workload = Open::new(requests.iter().copied(), Intensity::RECORDED);
    let mut devices = [Fixed::new(100.0).unwrap()];
    let end = simulate::run(&mut policy, &mut devices, &mut workload, &mut seen);
    (seen, end.0 / 1_000_000)
}

#[test]
fn a_request_completes_with_its_last_piece() {
    let map = Rearrangement::laid(&[(8192, 4096)], 1 << 20).unwrap();
    let (seen, _) =
        run(Rearranged::before(Rearrange::new(map), noop(), 1), &[read(0, 4096, 12_288)]);
    let mut places: Vec<u64> = seen.ios.iter().map(|io| io.1).collect();
    places.sort_unstable();
    assert_eq!(places, [4096, 12_288, 1 << 20]);
    assert_eq!(seen.done, [(4096, 30)]);
}

#[test]
fn copying_begins_on_time_and_yields_and_then_the_new_positions_are_valid() {
    let map = Rearrangement::laid(&[(0, 4096), (65_536, 4096)], 1 << 20).unwrap();
    let policy =
        Rearranged::before(Rearrange::moving(map, Nanos::from_millis(15), 1 << 20), noop(), 1);
    let (seen, end) = run(policy, &[read(0, 0, 512), read(18, 0, 512), read(100, 0, 512)]);
    let new = 1 << 20;
    assert_eq!(
        seen.ios,
        [
            (Op::Read, 0, 512, false),
            (Op::Read, 0, 4096, true),
            (Op::Read, 0, 512, false),
            (Op::Write, new, 4096, true),
            (Op::Read, 65_536, 4096, true),
            (Op::Write, new + 4096, 4096, true),
            (Op::Read, new, 512, false),
        ]
    );
    assert_eq!(seen.done, [(0, 10), (0, 17), (0, 10)]);
    assert_eq!(end, 110);
}

fn figure(policy: &impl Policy, name: &str) -> f64 {
    policy.figures().iter().find(|(known, _)| *known == name).unwrap().1
}

/// Returns a policy with one extent that moves from 5 ns on. Tests call it at that time.
fn moving() -> Rearranged<BlockLayer<Noop>> {
    let map = Rearrangement::laid(&[(0, 4096)], 1 << 20).unwrap();
    let mut policy = Rearranged::before(Rearrange::moving(map, Nanos(5), 1 << 20), noop(), 1);
    policy.wake_bare(Nanos(5), &mut Vec::new());
    policy
}

fn end(policy: &mut impl Policy, io: Request, outcome: Outcome) -> Vec<Done> {
    let (started, at, mechanics) = (io.at, Nanos(5), Default::default());
    let mut finished = Vec::new();
    let done = Completion { io, started, at, mechanics, outcome };
    policy.complete_bare(at, &done, &mut finished);
    finished
}

#[test]
fn a_copy_that_fails_leaves_the_disk_as_it_is() {
    for fails in [Op::Read, Op::Write] {
        let mut policy = moving();
        while let Some(io) = policy.dispatch(Nanos(5), 0) {
            let outcome = if io.op == fails { Err(Fault::Media) } else { Ok(()) };
            end(&mut policy, io, outcome);
        }
        assert_eq!(figure(&policy, "rearranging_abandoned"), 1.0, "{fails:?}");
        policy.submit_bare(Nanos(5), read(0, 0, 512));
        assert_eq!(policy.dispatch(Nanos(5), 0).unwrap().offset, 0);
    }
}

#[test]
fn copying_yields_to_requests_and_the_new_positions_wait_for_them() {
    let mut policy = moving();
    policy.submit_bare(Nanos(5), read(0, 0, 512));
    let client = policy.dispatch(Nanos(5), 0).unwrap();
    assert_eq!(policy.dispatch(Nanos(5), 0), None, "it yields");
    end(&mut policy, client, Ok(()));
    let copy = policy.dispatch(Nanos(5), 0).unwrap();
    end(&mut policy, copy, Ok(()));
    let write = policy.dispatch(Nanos(5), 0).unwrap();
    assert_eq!((write.op, write.offset), (Op::Write, 1 << 20));
    policy.submit_bare(Nanos(5), read(0, 0, 512));
    let client = policy.dispatch(Nanos(5), 0).unwrap();
    end(&mut policy, write, Ok(()));
    policy.submit_bare(Nanos(5), read(0, 0, 512));
    let second = policy.dispatch(Nanos(5), 0).unwrap();
    assert_eq!(second.offset, 0, "all is copied, but one is under way");
    end(&mut policy, client, Ok(()));
    end(&mut policy, second, Ok(()));
    policy.submit_bare(Nanos(5), read(0, 0, 512));
    assert_eq!(policy.dispatch(Nanos(5), 0).unwrap().offset, 1 << 20);
}

#[test]
fn a_write_to_a_new_place_waits_for_the_copy_there_and_ends_the_copying() {
    let mut policy = moving();
    let copy = policy.dispatch(Nanos(5), 0).unwrap();
    end(&mut policy, copy, Ok(()));
    let copy = policy.dispatch(Nanos(5), 0).unwrap();
    let write = Request { op: Op::Write, ..read(0, 1 << 20, 512) };
    policy.submit_bare(Nanos(5), write);
    assert_eq!(policy.dispatch(Nanos(5), 0), None, "the copy is under way");
    end(&mut policy, copy, Ok(()));
    for _ in 0..2 {
        let io = policy.dispatch(Nanos(5), 0).unwrap();
        assert_eq!((io.op, io.offset, io.len), (Op::Write, 1 << 20, 512));
        assert_eq!(end(&mut policy, io, Ok(())).len(), 1);
        policy.submit_bare(Nanos(5), write);
    }
    assert_eq!(figure(&policy, "rearranging_abandoned"), 1.0);
}

#[test]
fn data_written_after_copying_are_copied_again() {
    let mut policy = moving();
    policy.submit_bare(Nanos(5), read(0, 65_536, 512));
    let under_way = policy.dispatch(Nanos(5), 0).unwrap();
    end(&mut policy, under_way, Ok(()));
    let copy = policy.dispatch(Nanos(5), 0).unwrap();
    end(&mut policy, copy, Ok(()));
    let copy = policy.dispatch(Nanos(5), 0).unwrap();
    // An outstanding read keeps the old positions valid until the write has been recorded.
    policy.submit_bare(Nanos(5), read(0, 65_536, 512));
    let under_way = policy.dispatch(Nanos(5), 0).unwrap();
    end(&mut policy, copy, Ok(()));
    policy.submit_bare(Nanos(5), Request { op: Op::Write, ..read(0, 0, 512) });
    let write = policy.dispatch(Nanos(5), 0).unwrap();
    assert_eq!(write.offset, 0);
    end(&mut policy, write, Ok(()));
    end(&mut policy, under_way, Ok(()));
    let again: Vec<_> = std::iter::from_fn(|| {
        let io = policy.dispatch(Nanos(5), 0)?;
        end(&mut policy, io, Ok(()));
        Some((io.op, io.offset))
    })
    .collect();
    assert_eq!(again, [(Op::Read, 0), (Op::Write, 1 << 20)]);
    policy.submit_bare(Nanos(5), read(0, 0, 512));
    assert_eq!(policy.dispatch(Nanos(5), 0).unwrap().offset, 1 << 20);
}

#[test]
fn copying_continues_without_requests_in_pieces_of_limited_length() {
    let map = Rearrangement::laid(&[(0, 3 << 10)], 1 << 20).unwrap();
    let (seen, end) =
        run(Rearranged::before(Rearrange::moving(map, Nanos(1), 2 << 10), noop(), 1), &[]);
    let ios: Vec<_> = seen.ios.iter().map(|io| (io.0, io.1, io.2)).collect();
    let new = 1 << 20;
    assert_eq!(
        ios,
        [
            (Op::Read, 0, 2048),
            (Op::Write, new, 2048),
            (Op::Read, 2048, 1024),
            (Op::Write, new + 2048, 1024)
        ]
    );
    assert_eq!(end, 40);
}

const RECORD: Record = Record { at: 2 << 20, marker: 1 << 19 };

/// Returns a disk with a new record, whose positions of data are known.
fn kept() -> Rearranged<BlockLayer<Noop>> {
    let map = Rearrangement::laid(&[(0, 4096)], 1 << 20);
    let mut placement = Rearrange::kept_at(RECORD, map, Nanos(5), 1 << 20);
    placement.kept.as_mut().unwrap().open_blank();
    let mut policy = Rearranged::before(placement, noop(), 1);
    policy.wake_bare(Nanos(5), &mut Vec::new());
    policy
}

/// Returns the outcome of a client's request.
fn asked(policy: &mut impl Policy, request: Request) -> Outcome {
    let mut finished = Vec::new();
    let cx = &mut crate::Cx { now: Nanos(5), slots: &mut crate::Null, finished: &mut finished };
    policy.submit(cx, request, Bytes::NONE);
    while finished.is_empty() {
        let io = policy.dispatch(Nanos(5), 0).unwrap();
        finished = end(policy, io, Ok(()));
    }
    finished[0].outcome
}

#[test]
fn nothing_becomes_durable_after_the_head_repeatedly_failed() {
    let mut policy = kept();
    let mut writes = 0;
    while let Some(io) = policy.dispatch(Nanos(5), 0) {
        let is_head = (io.op, io.offset, io.len) == (Op::Write, 2 << 20, 4096);
        writes += u32::from(is_head);
        end(&mut policy, io, if is_head { Err(Fault::Media) } else { Ok(()) });
    }
    assert_eq!(writes, 4);
    let flush = Request { op: Op::Flush, len: 0, ..read(0, 0, 0) };
    let write = Request { op: Op::Write, ..read(0, 0, 512) };
    let fua = Request { flags: Flags::FUA, ..write };
    for _ in 0..2 {
        assert_eq!(asked(&mut policy, flush), Err(Fault::Media));
        assert_eq!(asked(&mut policy, fua), Err(Fault::Media));
        assert_eq!(asked(&mut policy, write), Ok(()));
        assert_eq!(asked(&mut policy, read(0, 0, 512)), Ok(()));
    }
}

#[test]
fn a_failed_flush_for_the_record_is_reported_by_the_next_flush() {
    let mut policy = kept();
    while let Some(io) = policy.dispatch(Nanos(5), 0) {
        let fails = io.op == Op::Flush;
        assert!(io.op != Op::Write || io.offset == 1 << 20, "no record is written");
        end(&mut policy, io, if fails { Err(Fault::Full) } else { Ok(()) });
    }
    assert_eq!(figure(&policy, "rearranging_abandoned"), 1.0);
    let flush = Request { op: Op::Flush, len: 0, ..read(0, 0, 0) };
    assert_eq!(asked(&mut policy, read(0, 0, 512)), Ok(()));
    assert_eq!(asked(&mut policy, flush), Err(Fault::Full));
    assert_eq!(asked(&mut policy, flush), Ok(()));
}
