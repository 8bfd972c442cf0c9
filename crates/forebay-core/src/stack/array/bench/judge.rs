//! Checks answers: a request for durability reports the data that were lost before it, once, and
//! nothing else.

use std::collections::{BTreeMap, BTreeSet};

use super::super::level::Roles;
use super::super::unit::Unit;
use super::super::{Array, Phase};
use super::medium::Medium;
use crate::contract::{Fault, Flags, Op, Outcome, Request};

/// A flush that has not been answered.
struct Flush {
    /// The step at which the flush arrived.
    came: u64,
    /// The number of rounds that must end before the flush is answered.
    rounds: u64,
}

/// A FUA write that has not been answered.
struct Durable {
    /// Whether no other write to the same units was outstanding.
    alone: bool,
    /// The step at which the write arrived.
    came: u64,
}

/// A state of a unit, and which chunks of it can be read.
#[derive(Clone, Copy)]
struct State {
    unit: Unit,
    told: Roles,
    /// The chunks that can be read at the positions of lost blocks.
    beside: Roles,
}

/// Returns the readable chunks of a unit. If the unit has not changed, these are the chunks in
/// `before`.
fn told_now(before: Option<State>, unit: Unit, array: &Array, medium: &Medium) -> State {
    let holds = |place| medium.holds(array, place);
    let told = || State {
        unit,
        told: unit.told(array.chunks(), holds),
        beside: unit.told_beside(unit.lost.roles, array.chunks(), holds),
    };
    before.filter(|before| before.unit == unit).unwrap_or_else(told)
}

/// The judge's knowledge about an array.
#[derive(Default)]
pub(super) struct Judge {
    /// By unit: the chunks that were readable at the last check, in the unit's newest state.
    newest: BTreeMap<u64, State>,
    /// The same chunks in the states that a round makes durable.
    round: BTreeMap<u64, State>,
    /// The number of rounds at the last look.
    rounds: u64,
    /// The version of the medium and the number of present drives at the last look.
    version: (u64, usize),
    /// The steps at which chunks became unreadable.
    losses: BTreeSet<u64>,
    /// By stream: when the last flush arrived that reported a loss.
    told: BTreeMap<u32, u64>,
    /// Outstanding requests, by id.
    flushes: BTreeMap<u64, Flush>,
    changes: BTreeMap<u64, Request>,
    durable: BTreeMap<u64, Durable>,
    pub(super) told_flushes: u64,
    pub(super) told_writes: u64,
}

/// Returns the units that a request touches.
fn units(array: &Array, request: &Request) -> std::ops::Range<u64> {
    let unit = array.geometry.unit_bytes();
    request.offset / unit..request.end().div_ceil(unit)
}

/// Returns the chunks of a unit that a request touches.
fn chunks(array: &Array, request: &Request, number: u64) -> Roles {
    let (unit, chunk) = (array.geometry.unit_bytes(), u64::from(array.geometry.chunk_bytes));
    let first = |chunk_of: usize| number * unit + chunk_of as u64 * chunk;
    let is_touched = |of: &usize| request.offset < first(of + 1) && request.end() > first(*of);
    (0..array.chunks()).filter(is_touched).fold(0, |chunks, chunk| chunks | 1 << chunk)
}

impl Judge {
    /// Records the arrival of a request.
    pub(super) fn asked(&mut self, array: &Array, request: &Request, step: u64) {
        if request.op == Op::Flush {
            let rounds = array.counts.commits + u64::from(!array.changed.is_empty());
            self.flushes.insert(request.id, Flush { came: step, rounds });
        }
        if !matches!(request.op, Op::Write | Op::Trim) {
            return;
        }
        let of = units(array, request);
        let meets = |other: &Request| {
            let other = units(array, other);
            other.start < of.end && of.start < other.end
        };
        let mut alone = true;
        for (name, _) in self.changes.iter().filter(|(_, other)| meets(other)) {
            alone = false;
            self.durable.entry(*name).and_modify(|it| it.alone = false);
        }
        self.changes.insert(request.id, *request);
        if request.flags.has(Flags::FUA) {
            self.durable.insert(request.id, Durable { alone, came: step });
        }
    }

    /// Looks for chunks that were not durable and became unreadable in this step.
    pub(super) fn look(&mut self, array: &Array, medium: &Medium, step: u64) {
        let version = (medium.version, array.drives.present().count());
        let is_same = std::mem::replace(&mut self.version, version) == version;
        let is_old =
            std::mem::replace(&mut self.rounds, array.counts.commits) == array.counts.commits;
        let mut coming = Vec::new();
        let mut round = BTreeMap::new();
        for (number, unit) in &array.round {
            let before = self.round.get(number).filter(|_| is_old).or(self.newest.get(number));
            let before = before.copied();
            round.insert(*number, told_now(before.filter(|_| is_same), *unit, array, medium));
            coming.push((before, round[number]));
        }
        for number in 0..array.table.units() {
            let before = self.newest.get(&number).copied();
            let now = told_now(before.filter(|_| is_same), array.unit(number), array, medium);
            self.newest.insert(number, now);
            if array.changed.contains_key(&number) || round.contains_key(&number) {
                coming.push((before, now));
            }
        }
        self.round = round;
        let is_less = |(before, now): &(Option<State>, State)| {
            let is_same = |before: &State| before.unit.lost == now.unit.lost;
            before.is_some_and(|before| {
                let beside = is_same(&before) && before.beside & !now.beside != 0;
                before.told & !now.told != 0 || beside
            })
        };
        self.losses.extend(coming.iter().any(is_less).then_some(step));
    }

    /// Checks an answer of the array.
    pub(super) fn answered(
        &mut self,
        array: &Array,
        medium: &Medium,
        request: &Request,
        outcome: Outcome,
    ) {
        let flush = self.flushes.remove(&request.id);
        self.changes.remove(&request.id);
        let durable = self.durable.remove(&request.id);
        if matches!(array.phase, Phase::Failed(_)) {
            return;
        }
        if let Some(Flush { came, rounds }) = flush {
            self.flushed(request.stream, came, outcome);
            let ended = array.counts.commits - u64::from(!array.log.is_idle());
            assert!(outcome.is_err() || ended >= rounds, "a flush is answered before its round");
        }
        if let Some(write) = durable {
            self.told_writes += u64::from(self.lost_since(write.came + 1) && outcome.is_err());
            if write.alone && outcome.is_ok() {
                assert_kept(array, medium, request);
            }
        }
    }

    fn lost_since(&self, step: u64) -> bool {
        self.losses.range(step..).next().is_some()
    }

    /// Checks the answer to a flush: it reports losses that precede the flush, may report later
    /// ones, and fails for no other reason.
    fn flushed(&mut self, stream: u32, came: u64, outcome: Outcome) {
        // Nothing is lost: the writes become durable when there is space.
        if outcome == Err(Fault::Full) {
            return;
        }
        let known = self.told.get(&stream).copied().unwrap_or(0);
        let has_to = known < came && self.losses.range(known + 1..=came).next().is_some();
        assert!(outcome.is_err() || !has_to, "a flush is answered though writes are lost");
        assert!(outcome.is_ok() || self.lost_since(known + 1), "a flush fails, nothing was lost");
        if outcome.is_err() {
            self.told_flushes += 1;
            self.told.insert(stream, came.max(known));
        }
    }
}

/// Checks that a FUA write survives a power cut.
fn assert_kept(array: &Array, medium: &Medium, write: &Request) {
    for number in units(array, write) {
        let unit = array.table.get(number);
        let kept = unit.told(array.chunks(), |place| medium.keeps(array, place));
        let touched = chunks(array, write, number);
        assert!(touched & !kept == 0, "a durable write is answered though {number} is lost");
    }
}
