//! An array on drives that complete I/Os in any order and store no data.

use std::collections::BTreeSet;

use super::super::super::unit::Unit;
use super::super::super::{Array, Phase, ledger};
use super::configurations::{Ask, Config};
use crate::catalog::build;
use crate::contract::{
    Bytes, Completion, Cx, Fault, Finished, Flags, Lane, Mechanics, Nanos, Null, Op, Outcome,
    Policy, Request,
};
use crate::stack::placed::Placed;

/// Maximum number of outstanding requests.
const DEPTH: u64 = 16;
/// The duration of an I/O.
const STEP: Nanos = Nanos(20_000);

type Policied = Placed<Array, Box<dyn Policy + Send>>;

/// An array under test, with its outstanding I/Os, lost drives and refused requests.
pub(super) struct Rig {
    policy: Policied,
    state: u64,
    now: Nanos,
    asked: u64,
    waiting: u64,
    under_way: Vec<Request>,
    gone: BTreeSet<Lane>,
    refused: Vec<(Request, Fault)>,
    flushed_at: u64,
    /// Whether units may give up copies to shrink.
    pub(super) may_shed: bool,
}

impl Rig {
    pub(super) fn new(array: Array, seed: u64) -> Rig {
        let lanes = (0..array.lanes()).map(|_| build("noop", 1 << 20).unwrap()).collect();
        Rig {
            policy: Placed::over(array, lanes),
            state: seed,
            now: Nanos::ZERO,
            asked: 0,
            waiting: 0,
            under_way: Vec::new(),
            gone: BTreeSet::new(),
            refused: Vec::new(),
            flushed_at: 0,
            may_shed: false,
        }
    }

    pub(super) fn array(&self) -> &Array {
        self.policy.placement()
    }

    pub(super) fn units(&self) -> u64 {
        self.array().geometry.units
    }

    /// Makes a drive disappear.
    pub(super) fn lose(&mut self, lane: Lane) {
        self.gone.insert(lane);
    }

    fn call(&mut self, call: impl FnOnce(&mut Policied, &mut Cx<'_>)) {
        let mut finished = Finished::new();
        let mut cx = Cx { now: self.now, slots: &mut Null, finished: &mut finished };
        call(&mut self.policy, &mut cx);
        self.waiting -= finished.len() as u64;
        for done in finished {
            self.refused.extend(done.outcome.err().map(|fault| (done.request, fault)));
        }
        for lane in 0..self.array().lanes() as Lane {
            while let Some(io) = self.policy.dispatch(self.now, lane) {
                self.under_way.push(Request { lane, ..io });
            }
        }
    }

    fn ask(&mut self, (op, flags, offset, len): Ask) {
        let (id, at) = (self.asked, self.now);
        let request = Request { at, offset, id, len, stream: 0, lane: 0, op, flags };
        (self.asked, self.waiting) = (self.asked + 1, self.waiting + 1);
        self.call(|policy, cx| policy.submit(cx, request, Bytes::NONE));
    }

    fn end_any(&mut self) {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let at = (self.state >> 33) as usize % self.under_way.len();
        let io = self.under_way.swap_remove(at);
        let is_gone = self.gone.contains(&io.lane);
        let outcome: Outcome = if is_gone { Err(Fault::Gone) } else { Ok(()) };
        self.now += STEP;
        let mechanics = Mechanics::default();
        let done = Completion { io, started: self.now, at: self.now, mechanics, outcome };
        self.call(|policy, cx| policy.complete(cx, &done));
    }

    /// Advances to the time when something is due, and wakes the array. Returns whether anything is
    /// due.
    fn wake(&mut self) -> bool {
        let due = self.policy.wakeup();
        if let Some(due) = due {
            self.now = self.now.max(due);
            self.call(|policy, cx| policy.wake(cx));
        }
        due.is_some()
    }

    /// Issues all requests, with flushes in between as configured, and waits for all answers.
    pub(super) fn write(&mut self, asks: Vec<Ask>, config: &Config) {
        let (mut asks, mut steps) = (asks.into_iter().peekable(), 0u64);
        loop {
            steps += 1;
            assert!(steps < 3_000_000, "it goes on for ever: {} wait", self.waiting);
            if self.policy.wakeup().is_some_and(|due| due <= self.now) {
                self.wake();
            }
            if self.waiting < DEPTH
                && let Some(ask) = asks.next()
            {
                self.ask(ask);
                if config.flush_every.is_some_and(|every| self.asked >= self.flushed_at + every) {
                    self.flushed_at = self.asked + 1;
                    self.ask((Op::Flush, Flags::NONE, 0, 0));
                }
            } else if !self.under_way.is_empty() {
                self.end_any();
            } else if self.waiting == 0 && asks.peek().is_none() {
                return;
            } else {
                assert!(self.wake(), "{} requests are never answered", self.waiting);
            }
        }
    }

    /// Waits until nothing is left to do.
    fn settle(&mut self) {
        while !self.under_way.is_empty() || self.wake() {
            if !self.under_way.is_empty() {
                self.end_any();
            }
        }
    }

    pub(super) fn assert_all_written(&self, config: &Config) {
        let (levels, states) = (self.array().levels, self.array().drives.states());
        assert_eq!(self.refused, [], "{config:?} {levels:?} {states:?}");
        assert!(self.may_shed || self.array().room.sheds == 0, "{config:?}: units give up copies");
        ledger::tests::check(self.array());
    }

    /// Returns the array reopened, and grown if configured.
    pub(super) fn reopen(mut self, config: &Config) -> Rig {
        self.settle();
        let gone: Vec<Lane> = self.gone.iter().copied().collect();
        let mut rig = Rig::new(reopened(self.array(), config, &gone), self.state);
        rig.wake();
        rig.settle();
        rig
    }
}

/// Returns an array with the state of another one, without the drives that are gone.
pub(super) fn reopened(old: &Array, config: &Config, gone: &[Lane]) -> Array {
    let mut array = config.found(gone);
    array.phase = Phase::Ready;
    for number in 0..old.geometry.units {
        let unit = old.unit(number);
        array.table.set(number, &unit);
        array.hold(number, &Unit::EMPTY, &unit);
        assert!(unit.places.iter().all(|place| array.drives.mark(*place)));
    }
    array.care.begin(Nanos::ZERO);
    array
}
