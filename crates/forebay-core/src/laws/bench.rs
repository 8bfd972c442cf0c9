//! The test bench for the laws: a device with pseudo-random service times, and a list of requests.

use std::collections::VecDeque;

use crate::contract::{Completion, Device, Mechanics, Nanos, Policy, Request, Workload};

/// The longest I/O that a bench accepts, in bytes.
pub const LEN_MAX: u32 = 96 * 1024;
/// The minimum duration of an I/O on a bench.
pub const LEAST: Nanos = Nanos::from_micros(50);

/// A device that serves several I/Os at a time. Its service times look random but depend only on
/// the calls.
pub struct Bench {
    depth: usize,
    running: VecDeque<(Nanos, Nanos, Request)>,
    last: Nanos,
}

impl Bench {
    /// Creates a device that serves `depth` I/Os at a time.
    pub fn new(depth: usize) -> Self {
        Bench { depth, running: VecDeque::new(), last: Nanos::ZERO }
    }

    /// Creates as many devices as `policy` requires.
    pub fn of(policy: &impl Policy, depth: usize) -> Vec<Bench> {
        (0..policy.servers().len().max(1)).map(|_| Bench::new(depth)).collect()
    }
}

impl Device for Bench {
    fn room(&self) -> bool {
        self.running.len() < self.depth
    }
    fn start(&mut self, now: Nanos, io: Request) {
        let mixed = (io.offset ^ u64::from(io.len) << 7).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44;
        self.last = self.last.max(now) + LEAST + Nanos(mixed);
        self.running.push_back((self.last, now, io));
    }
    fn next(&self) -> Option<Nanos> {
        self.running.front().map(|&(at, _, _)| at)
    }
    fn finish(&mut self, now: Nanos) -> Completion {
        let (_, started, io) = self.running.pop_front().expect("something is running");
        Completion { io, started, at: now, mechanics: Mechanics::default(), outcome: Ok(()) }
    }
    fn joules(&self, _now: Nanos) -> f64 {
        0.0
    }
    fn busy(&self, _now: Nanos) -> Nanos {
        Nanos::ZERO
    }
    fn floor(&self, _io: &Request) -> Nanos {
        Nanos::ZERO
    }
    fn capacity(&self) -> u64 {
        u64::MAX
    }
    fn len_max(&self) -> u32 {
        LEN_MAX
    }
}

/// A workload of requests that are known in advance.
pub struct List(VecDeque<Request>);

impl List {
    /// Returns a workload of `requests`.
    pub fn of(requests: &[Request]) -> List {
        List(requests.iter().copied().collect())
    }
}

impl Workload for List {
    fn peek(&self) -> Option<Nanos> {
        self.0.front().map(|request| request.at)
    }
    fn take(&mut self) -> Request {
        self.0.pop_front().expect("peeked")
    }
}
