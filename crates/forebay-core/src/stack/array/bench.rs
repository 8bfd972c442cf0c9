//! A test bench for arrays, with drives that complete I/Os in any order, fail some, and may
//! disappear. The drives lose everything that they may lose ([`medium`]), and the array's answers
//! are compared with that ([`judge`]).

mod in_place;
mod judge;
mod medium;
mod scenes;

use std::collections::{BTreeMap, BTreeSet};

use super::geometry::Geometry;
use super::level::Level;
use super::{Array, ledger};
use crate::adapt::{BonusMalus, Costs, Factor, First};
use crate::catalog::build;
use crate::contract::{
    Bytes, Completion, Cx, Fault, Finished, Flags, Lane, Mechanics, Nanos, Null, Op, Outcome,
    Policy, Request,
};
use crate::stack::placed::Placed;

use judge::Judge;
use medium::Medium;

pub(super) const LANES: u16 = 6;
const UNITS: u64 = 12;
/// The duration of a step, in ns.
const STEP: u64 = 1000;

/// Fault rates: one in this many operations fails, or none if 0; and the number of requests after
/// which a drive disappears.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    pub(super) flushes: u64,
    pub(super) writes: u64,
    pub(super) reads: u64,
    pub(super) drives: u64,
}

/// An array and the outstanding I/Os of its drives.
pub(super) struct Bench {
    pub(super) policy: Placed<Array, Box<dyn Policy + Send>>,
    state: u64,
    rates: Rates,
    asked: u64,
    pub(super) waiting: u64,
    /// Outstanding I/Os of the drives.
    under_way: Vec<Request>,
    medium: Medium,
    judge: Judge,
    pub(super) answers: BTreeMap<u64, Outcome>,
    step: u64,
    gone: BTreeSet<Lane>,
    pub(super) failed_flushes: u64,
}

impl Bench {
    pub(super) fn new(array: Array, seed: u64, rates: Rates) -> Bench {
        let lanes = (0..LANES).map(|_| build("noop", 1 << 20).unwrap()).collect();
        Bench {
            policy: Placed::over(array, lanes),
            state: seed,
            rates,
            asked: 0,
            waiting: 0,
            under_way: Vec::new(),
            medium: Medium::default(),
            judge: Judge::default(),
            answers: BTreeMap::new(),
            step: 0,
            gone: BTreeSet::new(),
            failed_flushes: 0,
        }
    }

    pub(super) fn now(&self) -> Nanos {
        Nanos(self.step * STEP)
    }

    pub(super) fn array(&self) -> &Array {
        self.policy.placement()
    }

    /// Returns how many flushes and how many FUA writes reported a loss.
    pub(super) fn told(&self) -> [u64; 2] {
        [self.judge.told_flushes, self.judge.told_writes]
    }

    pub(super) fn under_way(&self) -> impl Iterator<Item = &Request> {
        self.under_way.iter()
    }

    /// Returns a number below `end`.
    fn random(&mut self, end: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.state >> 33) % end
    }

    fn fails(&mut self, one_in: u64) -> bool {
        one_in > 0 && self.random(one_in) == 0
    }

    /// Issues a random request.
    fn ask_any(&mut self) {
        let unit = self.array().geometry().unit_bytes() / 4096;
        let blocks = UNITS * unit;
        let (op, flags) = match self.random(16) {
            0 => (Op::Flush, Flags::NONE),
            1 => (Op::Trim, Flags::NONE),
            2..5 => (Op::Read, Flags::NONE),
            5 => (Op::Write, Flags::FUA),
            _ => (Op::Write, Flags::NONE),
        };
        let (first, count) = match (op, self.random(3)) {
            (Op::Flush, _) => (0, 0),
            (Op::Trim, _) | (_, 0) => (self.random(UNITS) * unit, unit),
            _ => (self.random(blocks - 6), 1 + self.random(6)),
        };
        let stream = self.random(3) as u32;
        self.ask(op, flags, stream, first, count);
        if self.rates.drives > 0 && self.asked.is_multiple_of(self.rates.drives) {
            let lane = self.random(LANES.into()) as Lane;
            self.gone.insert(lane);
        }
    }

    /// Issues a request for blocks and returns its id.
    pub(super) fn ask(&mut self, op: Op, flags: Flags, stream: u32, first: u64, count: u64) -> u64 {
        let (id, lane, at) = (self.asked, 0, Nanos(self.step * STEP));
        let (offset, len) = (first * 4096, count as u32 * 4096);
        let request = Request { at, offset, id, len, stream, lane, op, flags };
        (self.asked, self.waiting) = (self.asked + 1, self.waiting + 1);
        self.judge.asked(self.policy.placement(), &request, self.step);
        self.call(|policy, cx| policy.submit(cx, request, Bytes::NONE));
        id
    }

    fn call(&mut self, call: impl FnOnce(&mut Placed<Array, Box<dyn Policy + Send>>, &mut Cx<'_>)) {
        self.step += 1;
        let mut finished = Finished::new();
        let now = Nanos(self.step * STEP);
        call(&mut self.policy, &mut Cx { now, slots: &mut Null, finished: &mut finished });
        self.waiting -= finished.len() as u64;
        let array = self.policy.placement();
        self.judge.look(array, &self.medium, self.step);
        for done in finished {
            self.answers.insert(done.request.id, done.outcome);
            self.judge.answered(array, &self.medium, &done.request, done.outcome);
        }
        for lane in 0..LANES {
            while let Some(io) = self.policy.dispatch(now, lane) {
                self.under_way.push(Request { lane, ..io });
            }
        }
    }

    /// Completes the outstanding I/O at index `at`.
    fn end(&mut self, at: usize, outcome: Outcome) {
        let io = self.under_way.swap_remove(at);
        self.failed_flushes += u64::from(io.op == Op::Flush && outcome.is_err());
        self.medium.end(self.policy.placement(), &io, outcome);
        let (now, mechanics) = (Nanos(self.step * STEP), Mechanics::default());
        let done = Completion { io, started: now, at: now, mechanics, outcome };
        self.call(|policy, cx| policy.complete(cx, &done));
    }

    /// Completes a random outstanding I/O.
    fn end_any(&mut self) {
        let at = self.random(self.under_way.len() as u64) as usize;
        let io = self.under_way[at];
        if self.gone.contains(&io.lane) {
            return self.end(at, Err(Fault::Gone));
        }
        let fails = match io.op {
            Op::Flush => self.fails(self.rates.flushes),
            // Records and labels always succeed, because nothing works without them.
            Op::Write if !io.flags.has(Flags::FUA) => self.fails(self.rates.writes),
            Op::Read => self.fails(self.rates.reads),
            _ => false,
        };
        self.end(at, if fails { Err(Fault::Media) } else { Ok(()) });
    }

    /// Completes all outstanding I/Os, and those that follow, with the outcomes from `outcome`.
    pub(super) fn end_all(&mut self, mut outcome: impl FnMut(&Request) -> Outcome) {
        while let Some(io) = self.under_way.first() {
            let outcome = outcome(io);
            self.end(0, outcome);
        }
    }

    /// Completes the first outstanding I/O for which `which` is true.
    pub(super) fn end_one(&mut self, which: impl Fn(&Request) -> bool, outcome: Outcome) {
        let at = self.under_way.iter().position(which);
        self.end(at.expect("such an I/O is under way"), outcome);
    }

    /// Issues requests and completes I/Os in random order, until all requests are answered.
    pub(super) fn run(&mut self, requests: u64) {
        let mut steps = 0u64;
        while self.asked < requests || self.waiting > 0 {
            steps += 1;
            let asks = self.asked < requests && self.waiting < 12 && self.random(3) == 0;
            if asks || self.under_way.is_empty() {
                match self.asked < requests {
                    true => self.ask_any(),
                    false => self.wake(),
                }
            } else {
                self.end_any();
            }
            if steps.is_multiple_of(16) {
                self.check();
            }
        }
        self.check();
    }

    pub(super) fn check(&self) {
        ledger::tests::check(self.array());
        ledger::tests::check_apart(self.array());
        medium::check(self.array(), &self.medium);
    }

    /// Returns whether something will become due without new requests.
    pub(super) fn has_due(&self) -> bool {
        self.policy.wakeup().is_some()
    }

    /// Lets time pass without any event.
    pub(super) fn idle(&mut self, time: Nanos) {
        self.step += time.0.div_ceil(STEP);
    }

    /// Advances to the next time at which something is due, and wakes the array.
    pub(super) fn wake(&mut self) {
        let due = self.policy.wakeup().expect("requests are never answered");
        self.step = self.step.max(due.0 / STEP);
        self.call(|policy, cx| policy.wake(cx));
    }
}

/// Returns a new array of six drives. If `adapts`, every other write changes a unit's level.
pub(super) fn created(first: Level, spare: u32, adapts: bool) -> Array {
    let leanest = if adapts { Level::RAID6 } else { first };
    let sizes = Geometry { units: UNITS, copies_max: 4, ..Geometry::sample(LANES) };
    let array = Array::created(Geometry::new(sizes, leanest, spare).unwrap(), first);
    if !adapts {
        return array;
    }
    let rule = BonusMalus::new(Factor { times: 1, over: 4 });
    array.adapting(
        rule,
        [(); 2].map(|()| Costs::paper_hdd()),
        First::Fixed(0),
        vec![Level::RAID6, Level::TRIPLE],
    )
}
