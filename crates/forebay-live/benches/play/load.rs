//! The loads of the benchmark.

use forebay_core::contract::policy::Done;
use forebay_core::replay::{Intensity, Open};
use forebay_core::{Flags, Nanos, Op, Request, Slots, Workload};
use forebay_testing::random;

const LEN: u32 = 4096;

/// Returns 1 MiB of incompressible data.
pub(crate) fn noise(mut seed: u64) -> Vec<u8> {
    (0..1 << 17).flat_map(|_| random(&mut seed).to_le_bytes()).collect()
}

fn read(state: &mut u64, id: u64, at: Nanos, file_bytes: u64) -> Request {
    Request {
        at,
        offset: random(state) % (file_bytes / u64::from(LEN)) * u64::from(LEN),
        id,
        len: LEN,
        stream: 0,
        lane: 0,
        op: Op::Read,
        flags: Flags::NONE,
    }
}

/// Random reads, always with the same number outstanding.
pub(crate) struct Outstanding {
    ready: u32,
    asked: u64,
    now: Nanos,
    state: u64,
    file_bytes: u64,
}

impl Outstanding {
    pub(crate) fn new(depth: u32, file_bytes: u64) -> Outstanding {
        Outstanding { ready: depth, asked: 0, now: Nanos::ZERO, state: 1, file_bytes }
    }
}

impl Workload for Outstanding {
    fn peek(&self) -> Option<Nanos> {
        (self.ready > 0).then_some(self.now)
    }
    fn take(&mut self) -> Request {
        self.ready -= 1;
        self.asked += 1;
        read(&mut self.state, self.asked, self.now, self.file_bytes)
    }
    fn finished(&mut self, now: Nanos, _done: &Done, _slots: &mut dyn Slots) {
        self.now = now;
        self.ready += 1;
    }
}

/// Random reads at given times.
pub(crate) struct Timed {
    pub(crate) requests: Vec<Request>,
    /// The time at which each request is due.
    pub(crate) wanted: Vec<Nanos>,
}

impl Timed {
    pub(crate) fn new(rate_iops: f64, seconds: u64, file_bytes: u64) -> Timed {
        let (mut state, mut at, mut requests) = (7, 0.0, Vec::new());
        while at < seconds as f64 {
            let id = requests.len() as u64;
            requests.push(read(&mut state, id, Nanos::from_secs_f64(at), file_bytes));
            let dice = (random(&mut state) >> 11) as f64 / (1u64 << 53) as f64;
            at -= (1.0 - dice).ln() / rate_iops;
        }
        let wanted = requests.iter().map(|request| request.at).collect();
        Timed { requests, wanted }
    }

    pub(crate) fn workload(&self) -> impl Workload + use<> {
        Open::new(self.requests.clone(), Intensity::RECORDED)
    }
}
