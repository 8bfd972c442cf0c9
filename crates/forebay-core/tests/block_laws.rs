//! Tests the laws of the block layer under every scheduler: flushes go first and in order, a write
//! follows its preflush, FUA writes are not merged, and the reported wait is that of the part that
//! waited longest.

use std::collections::{BTreeMap, VecDeque};

use forebay_core::catalog::{POLICIES, build};
use forebay_core::device::fixed::Fixed;
use forebay_core::replay::{Intensity, Open};
use forebay_core::{
    Bytes, Completion, Cx, Done, Finished, Flags, Mechanics, Nanos, Null, Observer, Op, Policy,
    Request, simulate,
};
use proptest::prelude::*;

/// The maximum length of an I/O, which is short so that most requests are split.
const LEN_MAX: u32 = 16 << 10;

/// The state of a client request that is not complete.
struct Asked {
    request: Request,
    /// When its preflush completed, or when it arrived if it has none; `None` before that.
    entered: Option<Nanos>,
    /// The number of bytes dispatched and completed.
    given: u32,
    done: u32,
}

/// A policy, its requests, and the I/Os outstanding at the device.
struct Bench<P> {
    policy: P,
    now: Nanos,
    asked: BTreeMap<u64, Asked>,
    /// Flushes and preflushes, which must go before everything else.
    first: VecDeque<(Op, u64)>,
    /// The outstanding I/Os, each with the requests it consists of and the bytes of each.
    running: Vec<(Request, Vec<(u64, u32)>)>,
    answered: usize,
}

impl<P: Policy> Bench<P> {
    fn submit(&mut self, mut request: Request) {
        request.at = self.now;
        let (id, op) = (request.id, request.op);
        let parted = op == Op::Write && request.flags.has(Flags::PREFLUSH);
        if parted || !op.moves_data() {
            self.first.push_back((if parted { Op::Flush } else { op }, id));
        }
        let entered = (!parted).then_some(self.now);
        self.asked.insert(id, Asked { request, entered, given: 0, done: 0 });
        // The buffer of each request has the request's id as its number.
        let bytes = Bytes { buf: id as u32, at: 0 };
        let mut finished = Finished::new();
        let mut cx = Cx { now: self.now, slots: &mut Null, finished: &mut finished };
        self.policy.submit(&mut cx, request, bytes);
        assert!(finished.is_empty(), "answered at once");
    }

    /// Dispatches an I/O and returns whether there was one.
    fn dispatch(&mut self) -> bool {
        let Some(io) = self.policy.dispatch(self.now, 0) else {
            assert!(self.first.is_empty(), "{:?} waits", self.first);
            return false;
        };
        let mut parts = Vec::new();
        match self.first.pop_front() {
            Some((op, id)) => {
                assert_eq!(io.op, op, "what goes first, in order");
                parts.push((id, 0));
            }
            None => {
                self.policy.pieces(&io, &mut |piece| parts.push((u64::from(piece.buf), piece.len)));
                self.check_parts(&io, &parts);
            }
        }
        assert!(self.running.iter().all(|(other, _)| other.id != io.id));
        self.running.push((io, parts));
        true
    }

    fn check_parts(&mut self, io: &Request, parts: &[(u64, u32)]) {
        let mut offset = io.offset;
        for (id, len) in parts {
            let asked = self.asked.get_mut(id).expect("nobody asked for it");
            let Asked { request, entered, .. } = asked;
            assert!(entered.is_some(), "{request:?} before its preflush is done");
            assert_eq!(io.op, request.op);
            assert!(request.offset <= offset && offset + u64::from(*len) <= request.end());
            let is_fua = request.flags.has(Flags::FUA);
            assert!(!is_fua || parts.len() == 1, "{request:?} is merged");
            assert!(!is_fua || io.flags.has(Flags::FUA), "{request:?} lost its flag");
            asked.given += len;
            offset += u64::from(*len);
        }
        assert_eq!(offset, io.end());
    }

    fn complete(&mut self, index: usize) {
        let (io, parts) = self.running.remove(index);
        let done = Completion {
            io,
            started: io.at,
            at: self.now,
            mechanics: Mechanics::default(),
            outcome: Ok(()),
        };
        let mut finished = Finished::new();
        let mut cx = Cx { now: self.now, slots: &mut Null, finished: &mut finished };
        self.policy.complete(&mut cx, &done);
        let mut expected = Vec::new();
        for (id, len) in parts {
            let asked = self.asked.get_mut(&id).expect("it was given");
            asked.done += len;
            if asked.entered.is_none() {
                asked.entered = Some(self.now);
            } else if asked.done == asked.request.len || !asked.request.op.moves_data() {
                expected.push(self.answer(id));
            }
        }
        assert_eq!(finished, expected);
        self.answered += finished.len();
    }

    /// Checks and removes a completed request. All its parts enter the queue together and the last
    /// part to complete waits longest, unless the preflush took longer than that.
    fn answer(&mut self, id: u64) -> Done {
        let Asked { request, entered, given, .. } = self.asked.remove(&id).unwrap();
        assert!(given == request.len || !request.op.moves_data());
        let entered = entered.unwrap();
        let wait = (self.now - entered).max(entered - request.at);
        Done { request, wait, held: Nanos::ZERO, outcome: Ok(()), class: 0 }
    }
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let op = prop_oneof![3 => Just(Op::Read), 6 => Just(Op::Write), 1 => Just(Op::Flush), 1 => Just(Op::Trim)];
    let flags = prop_oneof![4 => Just(0), 1 => 0u8..32];
    let one = (op, 0u64..30, prop_oneof![1u32..3, 1u32..12], 0u32..2, flags);
    prop::collection::vec(one, 1..30).prop_map(|rows| {
        let one = |(id, (op, place, pages, stream, flags))| Request {
            at: Nanos::ZERO,
            offset: place * 4096,
            id,
            len: if op == Op::Flush { 0 } else { pages * 4096 },
            stream,
            lane: 0,
            op,
            flags: Flags(u16::from(flags)),
        };
        (0..).zip(rows).map(one).collect()
    })
}

fn check(spec: &str, requests: &[Request], steps: &[(u8, u64, usize)]) {
    let policy = build(spec, LEN_MAX).unwrap();
    let (asked, first, running, now) = (BTreeMap::new(), VecDeque::new(), Vec::new(), Nanos::ZERO);
    let mut bench = Bench { policy, now, asked, first, running, answered: 0 };
    let mut waiting: VecDeque<Request> = requests.iter().copied().collect();
    let mut steps = steps.iter().cycle();
    let mut idle = 0;
    while bench.answered < requests.len() {
        let &(kind, pause, which) = steps.next().unwrap();
        bench.now += Nanos(pause);
        match kind {
            0..=2 if !waiting.is_empty() => bench.submit(waiting.pop_front().unwrap()),
            3..=5 if bench.running.len() < 4 => drop(bench.dispatch()),
            _ if !bench.running.is_empty() => bench.complete(which % bench.running.len()),
            // If nothing is left to do, advance to the policy's wakeup.
            _ if waiting.is_empty() && !bench.dispatch() => {
                bench.now = bench.policy.wakeup().expect("requests wait for ever").max(bench.now);
            }
            _ => {}
        }
        idle += 1;
        assert!(idle < 100_000, "{spec}: it goes on for ever");
    }
    assert_eq!(bench.policy.dispatch(Nanos::MAX, 0), None, "{spec}: more than was asked for");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn every_scheduler_keeps_the_laws_of_the_block_layer(
        requests in requests(),
        steps in prop::collection::vec((0u8..9, 0u64..2_000_000, any::<usize>()), 20..60),
    ) {
        for listed in POLICIES {
            // With this many tags, no request waits for admission.
            let tags = listed.parameters().find(|parameter| parameter.key == "requests-max");
            let tags = tags.map_or("reads-max", |parameter| parameter.key);
            // Under bfq, a task gets its weight's share of the tags and sleeps if it needs more,
            // even if others are free.
            let line = if listed.name == "bfq" { ":queue=line" } else { "" };
            for merge in ["yes", "no"] {
                let spec = format!("{}:{tags}=999:merge={merge}{line}", listed.name);
                check(&spec, &requests, &steps);
            }
        }
    }
}

/// Counts completed requests.
#[derive(Default)]
struct Answers(u64);

impl Observer for Answers {
    fn finished(&mut self, _now: Nanos, _done: &Done) {
        self.0 += 1;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// Every task that sleeps for a slot is woken. In particular, a throttled write that is merged
    /// must return its slot.
    #[test]
    fn all_requests_are_answered_with_many_sleeping_tasks(
        rows in prop::collection::vec(
            (0u64..4_000, 0u64..40, 1u32..3, 0u32..20, 0usize..6), 30..200),
        tags in prop_oneof![Just(1u64), Just(8), Just(64)],
    ) {
        let mut at = 0;
        let requests: Vec<Request> = (0..).zip(&rows).map(|(id, &(gap_us, place, pages, stream, kind))| {
            at += if gap_us < 3_000 { 0 } else { gap_us };
            let (op, flags) = [
                (Op::Read, Flags::NONE),
                (Op::Write, Flags::SYNC),
                (Op::Write, Flags::NONE),
                (Op::Write, Flags::WRITE_BACK),
                (Op::Write, Flags::WRITE_BACK),
                (Op::Write, Flags::WRITE_BACK.with(Flags::PREFLUSH)),
            ][kind];
            let (at, offset, len, lane) = (Nanos::from_micros(at), place * 4096, pages * 4096, 0);
            Request { at, offset, id, len, stream, lane, op, flags }
        }).collect();
        for listed in POLICIES {
            let has_tags = listed.parameters().any(|parameter| parameter.key == "requests-max");
            let limits = if has_tags { format!(":requests-max={tags}") } else { String::new() };
            let spec = format!("{}{limits}", listed.name);
            let mut policy = build(&spec, LEN_MAX).unwrap();
            let mut devices = [Fixed::new(500.0).unwrap()];
            let mut workload = Open::new(requests.iter().copied(), Intensity::RECORDED);
            let mut answers = Answers::default();
            simulate::run(&mut policy, &mut devices, &mut workload, &mut answers);
            prop_assert_eq!(answers.0, requests.len() as u64, "{}", spec);
        }
    }
}
