//! Shared parts of the live driver's tests: workloads, clocks, and an observer that counts.
#![allow(dead_code, clippy::unwrap_used)]

pub(crate) use forebay_testing::random;
use std::collections::BTreeMap;

use forebay_core::contract::policy::Done;
use forebay_core::replay::{Intensity, Open};
use forebay_core::{Completion, Flags, Nanos, Observer, Op, Request, Workload};
use forebay_live::{Clock, Failure, Watch};

pub(crate) fn request(id: u64, at_us: u64, op: Op, offset: u64, len: u32) -> Request {
    Request {
        at: Nanos::from_micros(at_us),
        offset,
        id,
        len,
        stream: (id % 3) as u32,
        lane: 0,
        op,
        flags: Flags::NONE,
    }
}

/// Generates reads and writes, a third of them sequential, with gaps up to `gap_us` microseconds.
pub(crate) fn mixed(count: u64, gap_us: u64, within_bytes: u64) -> Vec<Request> {
    let (mut state, mut at_us, mut next) = (11, 0, 0);
    let requests = (0..count).map(|id| {
        let dice = random(&mut state);
        at_us += dice % gap_us;
        let len = 4096 << (dice >> 20 & 3);
        let op = if dice >> 24 & 3 == 0 { Op::Write } else { Op::Read };
        let anywhere = (dice >> 30) % (within_bytes / 4096 - 8) * 4096;
        let offset = if dice >> 28 & 3 == 0 { next % (within_bytes - 32768) } else { anywhere };
        next = offset + len;
        request(id, at_us, op, offset, len as u32)
    });
    requests.collect()
}

pub(crate) fn open(requests: &[Request]) -> impl Workload + use<> {
    Open::new(requests.to_vec(), Intensity::RECORDED)
}

/// A clock that advances by a microsecond with each query, and oversleeps by up to 40 microseconds.
#[derive(Default)]
pub(crate) struct Sloppy {
    now: Nanos,
    state: u64,
}

impl Clock for Sloppy {
    fn now(&mut self) -> Nanos {
        self.now += Nanos::from_micros(1);
        self.now
    }
    fn wait(&mut self, until: Nanos) {
        let over = Nanos(random(&mut self.state) % 40_000);
        self.now = self.now.max(until + over);
    }
}

/// An observer that counts events.
#[derive(Default)]
pub(crate) struct Counted {
    pub(crate) arrived: u64,
    pub(crate) ios: u64,
    pub(crate) finished: u64,
    pub(crate) started: Vec<Request>,
    pub(crate) latencies: Vec<u64>,
    pub(crate) lateness: Vec<Nanos>,
    /// Delays of the driver: start, end, and the number of requests issued before.
    pub(crate) held_up: Vec<(Nanos, Nanos, usize)>,
    pub(crate) failures: BTreeMap<Failure, u64>,
    pub(crate) stop_at: Option<Nanos>,
}

impl Observer for Counted {
    fn arrived(&mut self, _request: &Request) {
        self.arrived += 1;
    }
    fn io(&mut self, completion: &Completion) {
        self.ios += u64::from(completion.outcome.is_ok());
    }
    fn finished(&mut self, now: Nanos, done: &Done) {
        self.finished += 1;
        self.latencies.push((now - done.request.at).0);
    }
}

impl Watch for Counted {
    fn issued(&mut self, wanted: Nanos, at: Nanos) {
        self.lateness.push(at - wanted);
    }
    fn started(&mut self, _now: Nanos, io: &Request) {
        self.started.push(*io);
    }
    fn failed(&mut self, _now: Nanos, _io: &Request, failure: Failure) {
        *self.failures.entry(failure).or_default() += 1;
    }
    fn held_up(&mut self, from: Nanos, to: Nanos) {
        self.held_up.push((from, to, self.lateness.len()));
    }
    fn stops(&mut self, wall: Nanos) -> bool {
        self.stop_at.is_some_and(|at| wall >= at)
    }
}
