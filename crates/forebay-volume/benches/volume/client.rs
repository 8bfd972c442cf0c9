//! The client that writes to the volume.

use forebay_testing::random;
use std::fmt;

use forebay_core::contract::policy::Done;
use forebay_core::{Flags, Nanos, Op, Request, Slots, Workload};
use forebay_live::CpuTime;

/// The size of the area that the client writes to, in bytes; all of it has been written before.
const AREA: u64 = 512 << 20;
/// The number of bytes that the client writes.
const TOTAL: u64 = 1 << 30;
/// The number of bytes between flushes.
const FLUSHED: u64 = 64 << 20;
/// The number of outstanding requests.
const DEPTH: u32 = 32;

/// The size and order of the client's writes.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    len: u32,
    is_random: bool,
}

impl Load {
    pub(crate) const ALL: [Load; 4] = [
        Load { len: 64 << 10, is_random: true },
        Load { len: 64 << 10, is_random: false },
        Load { len: 1 << 20, is_random: true },
        Load { len: 1 << 20, is_random: false },
    ];

    pub(crate) fn bytes(self) -> u64 {
        TOTAL
    }

    /// Returns the writes, with a flush after every [`FLUSHED`] bytes, but without the one at the
    /// end.
    fn requests(self, state: &mut u64) -> Vec<(Op, u64, u32)> {
        let len = u64::from(self.len);
        let mut requests = Vec::new();
        for at in (0..TOTAL).step_by(self.len as usize) {
            let place = if self.is_random { random(state) % (AREA / len) * len } else { at % AREA };
            requests.push((Op::Write, place, self.len));
            if (at + len) % FLUSHED == 0 && at + len < TOTAL {
                requests.push((Op::Flush, 0, 0));
            }
        }
        requests
    }
}

impl fmt::Display for Load {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = if self.is_random { "random" } else { "in order" };
        to.pad(&format!("{} KiB {order}", self.len >> 10))
    }
}

/// A client that fills the area, and then sends the writes that are measured.
pub(crate) struct Client {
    requests: Vec<(Op, u64, u32)>,
    /// The indexes of two flushes that run alone: at the end of the filling, and at the end of the
    /// writes.
    alone: [usize; 2],
    next: usize,
    under_way: u32,
    now: Nanos,
    pub(crate) failed: u64,
    /// When the area had been filled.
    pub(crate) began: Nanos,
    /// When all writes were durable.
    pub(crate) ended: Nanos,
    used: Option<CpuTime>,
    cpu: Option<CpuTime>,
}

impl Client {
    pub(crate) fn new(load: Load) -> Client {
        let step = 1 << 20;
        let fill = (0..AREA).step_by(step as usize).map(|at| (Op::Write, at, step));
        let mut requests: Vec<_> = fill.collect();
        let filled = requests.len();
        requests.push((Op::Flush, 0, 0));
        requests.extend(load.requests(&mut 1));
        let alone = [filled, requests.len()];
        requests.push((Op::Flush, 0, 0));
        let (began, ended) = (Nanos::ZERO, Nanos::ZERO);
        let (next, under_way, now, failed) = (0, 0, Nanos::ZERO, 0);
        Client {
            requests,
            alone,
            next,
            under_way,
            now,
            failed,
            began,
            ended,
            used: None,
            cpu: None,
        }
    }

    /// Returns the processor time of the measured writes.
    pub(crate) fn cpu(self) -> CpuTime {
        self.cpu.unwrap()
    }

    fn may_begin(&self) -> bool {
        let after_alone = self.next > 0 && self.alone.contains(&(self.next - 1));
        match self.alone.contains(&self.next) || after_alone {
            true => self.under_way == 0,
            false => self.under_way < DEPTH,
        }
    }
}

impl Workload for Client {
    fn peek(&self) -> Option<Nanos> {
        (self.next < self.requests.len() && self.may_begin()).then_some(self.now)
    }

    fn take(&mut self) -> Request {
        let (op, offset, len) = self.requests[self.next];
        let id = self.next as u64;
        self.next += 1;
        self.under_way += 1;
        Request { at: self.now, offset, id, len, stream: 0, lane: 0, op, flags: Flags::NONE }
    }

    fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        self.now = now;
        self.under_way -= 1;
        self.failed += u64::from(done.outcome.is_err());
        let id = done.request.id as usize;
        if id == self.alone[0] {
            (self.began, self.used) = (now, Some(CpuTime::used()));
        }
        if id == self.alone[1] {
            self.ended = now;
            self.cpu = self.used.take().map(|before| CpuTime::used().since(before));
        }
    }

    fn is_over(&self) -> bool {
        self.next == self.requests.len() && self.under_way == 0
    }
}
