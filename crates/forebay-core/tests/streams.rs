//! A stream number that is assigned anew starts without history: to every scheduler, its new
//! submitter looks like one that uses a number for the first time.

use forebay_core::catalog::{DeviceSet, FlashLane, POLICIES, YARDSTICKS, build_placed};
use forebay_core::contract::policy::AnyPolicy;
use forebay_core::laws::{Bench, LEN_MAX, List};
use forebay_core::{Done, Flags, Nanos, Observer, Op, Policy, Request, simulate};

use crate::laws;

/// The stream whose number is reassigned, and a number that nobody has used.
const REASSIGNED: u32 = 3;
const UNUSED: u32 = 4;

/// Policies above schedulers, which must pass the news on.
const PLACED: &[&str] = &[
    "cache:size-mib=1:disk=cfq",
    "cache:size-mib=1:disk=bfq",
    "tier-bcache:cutoff-kib=64:transfer-us=300:disk=anticipatory",
    "bid-hybrid:size-mib=1",
    "migrate:period-s=1000:size-mib=1:disk=forebay",
    "bfq",
];

/// A submitter's habits: where it reads or writes, and how often.
#[derive(Clone, Copy)]
struct Habit {
    op: Op,
    is_sequential: bool,
    every_us: u64,
}

const HABITS: [Habit; 4] = [
    Habit { op: Op::Read, is_sequential: true, every_us: 2000 },
    Habit { op: Op::Read, is_sequential: false, every_us: 1500 },
    Habit { op: Op::Write, is_sequential: true, every_us: 700 },
    Habit { op: Op::Read, is_sequential: true, every_us: 40_000 },
];

/// Appends 60 requests of `stream`, starting at time `from` and at address `base`.
fn add(requests: &mut Vec<Request>, from: Nanos, stream: u32, base: u64, habit: Habit) {
    for nth in 0..60 {
        let at = from + Nanos::from_micros(nth * habit.every_us);
        let step = if habit.is_sequential { 16 << 10 } else { 37 << 20 };
        let (offset, flags) = (base + nth * step, Flags::NONE);
        let (id, len, lane, op) = (0, 16 << 10, 0, habit.op);
        requests.push(Request { at, offset, id, len, stream, lane, op, flags });
    }
}

/// Returns the requests of a submitter with the number `stream`, beside two others.
fn phase(from: Nanos, stream: u32, base: u64, habit: Habit) -> Vec<Request> {
    let mut requests = Vec::new();
    add(&mut requests, from, 0, 1 << 40, HABITS[1]);
    add(&mut requests, from, 1, 1 << 41, HABITS[0]);
    add(&mut requests, from, stream, base, habit);
    requests.sort_by_key(|request| request.at);
    requests.iter_mut().zip(0..).for_each(|(request, id)| request.id = id);
    requests
}

/// The ids of requests, with the times at which they were answered.
#[derive(Default, PartialEq, Debug)]
struct Answers(Vec<(Nanos, u64)>);

impl Observer for Answers {
    fn finished(&mut self, now: Nanos, done: &Done) {
        self.0.push((now, done.request.id));
    }
}

/// Runs a submitter with the habit `before`, then one with the habit `after`, to whom the number
/// `stream` is assigned. Returns when the requests of the second one were answered.
fn answers(
    mut policy: AnyPolicy,
    stream: u32,
    pause: Nanos,
    [before, after]: [Habit; 2],
) -> Answers {
    let mut devices: Vec<Bench> = (0..2).map(|_| Bench::new(1)).collect();
    let requests = phase(Nanos::ZERO, REASSIGNED, 1 << 42, before);
    let mut unused = Answers::default();
    let end = simulate::run(&mut policy, &mut devices, &mut List::of(&requests), &mut unused);
    policy.begin_stream(stream);
    let mut answers = Answers::default();
    let requests = phase(end + pause, stream, 1 << 43, after);
    simulate::run(&mut policy, &mut devices, &mut List::of(&requests), &mut answers);
    answers
}

/// Builds a policy, with a flash drive beside the disk if it is one of [`PLACED`].
fn build(spec: &str, is_placed: bool) -> AnyPolicy {
    if !is_placed {
        return laws::build(spec, LEN_MAX).unwrap();
    }
    let flash = Some(FlashLane { len_max: LEN_MAX, capacity_bytes: 4 << 20 });
    let (disks, disk_len_max, disk_bytes) = (1, LEN_MAX, 1 << 44);
    let lanes = DeviceSet { disks, disk_len_max, disk_bytes, flash, ..DeviceSet::default() };
    build_placed(spec, &lanes).unwrap()
}

#[test]
fn a_stream_number_that_is_assigned_anew_starts_without_history() {
    let listed = [POLICIES, YARDSTICKS].into_iter().flatten().map(|listed| listed.name);
    let alone = listed.chain(["deadline:form=paper", "cfq:form=paper", "bfq:low-latency=no"]);
    let placed = PLACED.iter().map(|spec| (*spec, true));
    let all: Vec<_> = alone.map(|spec| (spec, false)).chain(placed).collect();
    let pairs = || HABITS.into_iter().flat_map(|b| HABITS.map(|a| [b, a]));
    for pause in [Nanos::from_millis(30), Nanos::from_secs(10)] {
        let differs = |&(spec, is_placed): &(&str, bool)| {
            pairs().any(|habits| {
                let of = |stream| answers(build(spec, is_placed), stream, pause, habits);
                of(REASSIGNED) != of(UNUSED)
            })
        };
        let unlike: Vec<_> = all.iter().filter(|policy| differs(policy)).collect();
        assert!(unlike.is_empty(), "after {pause}: {unlike:?}");
    }
}
