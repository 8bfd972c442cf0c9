//! The harness for tests of shapers: servers of constant rate, bursty arrivals, and the result of
//! each request.

#![allow(dead_code, clippy::unwrap_used)] // each test uses a part

use std::collections::VecDeque;

use forebay_core::catalog::{DeviceSet, build, build_placed};
use forebay_core::device::fixed::Fixed;
use forebay_core::{
    Bytes, Completion, Cx, Device, Done, Flags, Lane, Nanos, Op, Policy, Request, Workload,
    forward_policy, simulate,
};
use proptest::prelude::*;

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) request: Request,
    pub(crate) class: u16,
    pub(crate) started: Nanos,
    pub(crate) finished: Nanos,
}

impl Outcome {
    pub(crate) fn took(&self) -> Nanos {
        self.finished - self.request.at
    }
}

/// Returns a read of `stream` that is not adjacent to any other.
pub(crate) fn read(id: u64, at: Nanos, stream: u32) -> Request {
    let (offset, op, flags) = (id << 20, Op::Read, Flags::NONE);
    Request { at, offset, id, len: 4096, stream, lane: 0, op, flags }
}

pub(crate) fn reads(times: &[u64]) -> Vec<Request> {
    times.iter().enumerate().map(|(id, at)| read(id as u64, Nanos(*at), 0)).collect()
}

/// Generates arrival times in ns with all kinds of bursts.
pub(crate) fn arrivals(most: usize) -> impl Strategy<Value = Vec<u64>> {
    let gap = prop_oneof![6 => Just(0u64), 4 => 0u64..2_000_000, 3 => 0u64..20_000_000,
        1 => 0u64..300_000_000];
    prop::collection::vec(gap, 1..most).prop_map(|gaps| {
        gaps.into_iter()
            .scan(0, |now, gap| {
                *now += gap;
                Some(*now)
            })
            .collect()
    })
}

struct List(VecDeque<Request>);

impl Workload for List {
    fn peek(&self) -> Option<Nanos> {
        self.0.front().map(|request| request.at)
    }
    fn take(&mut self) -> Request {
        self.0.pop_front().unwrap()
    }
}

/// A policy that records when each request starts and completes. Requests must not be split.
struct Noted<P> {
    policy: P,
    servers: usize,
    /// The times at which the policy left a server idle, and whether requests were waiting then.
    declined: Vec<(Nanos, bool)>,
    at_device: Vec<(u64, Nanos)>,
    held: usize,
    outcomes: Vec<Outcome>,
    promised: Vec<u64>,
}

impl<P: Policy> Policy for Noted<P> {
    forward_policy!(self => self.policy; wakeup pieces);

    fn submit(&mut self, cx: &mut Cx<'_>, request: Request, bytes: Bytes) {
        self.held += 1;
        self.policy.submit(cx, request, bytes);
    }

    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        let io = self.policy.dispatch(now, lane);
        match io {
            Some(io) => self.at_device.push((io.id, now)),
            None => self.declined.push((now, self.held > self.at_device.len())),
        }
        io
    }

    fn complete(&mut self, cx: &mut Cx<'_>, done: &Completion) {
        let before = cx.finished.len();
        self.policy.complete(cx, done);
        let at = self.at_device.iter().position(|(id, _)| *id == done.io.id).unwrap();
        let (_, started) = self.at_device.swap_remove(at);
        for Done { request, class, .. } in cx.finished[before..].iter().copied() {
            self.held -= 1;
            if done.io.flags.has(Flags::PROMISED) {
                self.promised.push(request.id);
            }
            self.outcomes.push(Outcome { request, class, started, finished: cx.now });
        }
    }
}

/// The result of a run.
pub(crate) struct Ran {
    /// The result of each request, in order of completion.
    pub(crate) outcomes: Vec<Outcome>,
    /// The times at which a server was left idle while requests waited.
    pub(crate) idled: Vec<Nanos>,
    /// The ids of the requests whose I/Os had the flag of promises.
    pub(crate) promised: Vec<u64>,
    /// The final pace in percent, for shapers that measure their server's capacity.
    pub(crate) pace: Option<f64>,
}

impl Ran {
    /// Returns the results of `class` in order of arrival.
    pub(crate) fn class(&self, class: u16) -> Vec<Outcome> {
        let mut of: Vec<Outcome> =
            self.outcomes.iter().copied().filter(|outcome| outcome.class == class).collect();
        of.sort_by_key(|outcome| outcome.request.id);
        of
    }

    /// Returns the times at which requests started, in ascending order.
    pub(crate) fn starts(&self) -> Vec<Nanos> {
        let mut starts: Vec<Nanos> = self.outcomes.iter().map(|one| one.started).collect();
        starts.sort();
        starts
    }
}

/// Runs `requests` through `spec` on servers with the given IOPS, each of which serves one request
/// at a time.
pub(crate) fn run(spec: &str, iops: &[u64], requests: &[Request]) -> Ran {
    let server = |rate: &u64| Fixed::new(*rate as f64).unwrap();
    run_on(spec, &mut iops.iter().map(server).collect::<Vec<_>>(), requests)
}

/// Returns the same for servers of any kind.
pub(crate) fn run_on<D: Device>(spec: &str, servers: &mut [D], requests: &[Request]) -> Ran {
    // Even a shaper above another policy gives the device one I/O at a time.
    let set = DeviceSet { disks: 1, disk_len_max: u32::MAX, ..DeviceSet::default() };
    let is_above = spec.contains(":over=");
    let policy = if is_above { build_placed(spec, &set) } else { build(spec, u32::MAX) }.unwrap();
    let mut noted = Noted {
        servers: policy.servers().len().max(1),
        policy,
        declined: Vec::new(),
        at_device: Vec::new(),
        held: 0,
        outcomes: Vec::new(),
        promised: Vec::new(),
    };
    assert_eq!(noted.servers, servers.len(), "{spec}");
    let mut workload = List(requests.iter().copied().collect());
    simulate::run(&mut noted, servers, &mut workload, &mut ());
    assert_eq!(noted.outcomes.len(), requests.len(), "{spec}: everything finishes");
    let idled = noted.declined.iter().filter(|(_, held)| *held).map(|(at, _)| *at);
    let pace = noted.policy.gauges().first().map(|gauge| gauge.value);
    Ran { idled: idled.collect(), outcomes: noted.outcomes, promised: noted.promised, pace }
}
