//! Which cells are taken: those that somebody names.
//!
//! A unit's cells are named by its durable state, by the states that are to become durable (the round under
//! way, and what has changed since), and by what is under way on it. A cell is free again when the last of
//! these names it no more: whoever drops a name calls [`Array::release`], which looks whether others have it.
//!
//! A flush that fails takes names out of the coming states, in which each may keep or lose a cell for
//! itself, and does so beneath jobs that began with them. Such cells are *doubted*: they stay taken until
//! nothing is under way on the unit, and no change of it may count on them.

use std::collections::BTreeMap;

use super::Array;
use super::unit::{Place, Unit};
use crate::contract::outcome::{Fault, Outcome};

/// By unit: cells that a coming state has lost, of which jobs under way may know nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Doubted {
    units: BTreeMap<u64, Vec<Place>>,
}

impl Doubted {
    pub(super) fn add(&mut self, number: u64, place: Place) {
        let places = self.units.entry(number).or_default();
        if !places.iter().any(|it| it.is_same_cell(place)) {
            places.push(place);
        }
    }

    fn has(&self, number: u64, place: Place) -> bool {
        let places = self.units.get(&number);
        places.is_some_and(|places| places.iter().any(|it| it.is_same_cell(place)))
    }

    /// The cells, to look at.
    #[cfg(test)]
    fn all(&self) -> impl Iterator<Item = (u64, Place)> + '_ {
        self.units.iter().flat_map(|(number, places)| places.iter().map(|it| (*number, *it)))
    }
}

impl Array {
    /// A state of a unit is dropped: its cells are free that no other state names.
    pub(super) fn release(&mut self, number: u64, dropped: &Unit) {
        let (table, round) = (self.table.get(number), self.round.get(&number));
        let newer = [round, self.changed.get(&number)].map(|it| it.copied());
        let is_named =
            |place| table.names(place) || newer.iter().flatten().any(|it| it.names(place));
        for place in dropped.places {
            if place.cell().is_some() && !is_named(place) && !self.doubted.has(number, place) {
                self.drives.give(place);
            }
        }
    }

    /// A job on a unit has ended: with the last one, cells are free that were only doubted.
    pub(super) fn settle_doubts(&mut self, number: u64) {
        if !self.doubted.units.is_empty() && !self.locks.is_under_way(number) {
            self.free_doubted(number);
        }
    }

    /// The same where the only job under way begins anew.
    pub(super) fn free_doubted(&mut self, number: u64) {
        for place in self.doubted.units.remove(&number).into_iter().flatten() {
            let mut dropped = Unit::EMPTY;
            dropped.places[0] = place;
            self.release(number, &dropped);
        }
    }

    /// What a failed flush took out of a unit since a job began on it is lost to the job too: an error where
    /// that leaves too little.
    pub(super) fn without_doubted(&mut self, key: u32) -> Outcome {
        let number = self.jobs[key as usize].number;
        if !self.doubted.units.contains_key(&number) {
            return Ok(());
        }
        let (now, mut new) = (self.unit(number), self.jobs[key as usize].new);
        for place in &mut new.places {
            if self.doubted.has(number, *place) && !now.names(*place) {
                *place = Place::LOST;
            }
        }
        if new != self.jobs[key as usize].new && !self.drives.has_all(&new, self.chunks()) {
            return Err(Fault::Gone);
        }
        self.jobs[key as usize].new = new;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::geometry::Geometry;
    use super::super::level::LEVELS;
    use super::super::{Level, Phase};
    use super::*;
    use crate::adapt::{BonusMalus, Costs, Factor, First};
    use crate::catalog::build;
    use crate::contract::bytes::{Bytes, Null};
    use crate::contract::device::{Completion, Mechanics};
    use crate::contract::policy::{Cx, Finished, Policy};
    use crate::contract::request::{Flags, Op, Request};
    use crate::contract::time::Nanos;
    use crate::stack::placed::Placed;

    const LANES: u16 = 6;
    const UNITS: u64 = 12;

    /// How often things fail: one in so many, none if 0.
    #[derive(Clone, Copy, Debug)]
    struct Rates {
        flushes: u64,
        writes: u64,
        reads: u64,
    }

    /// An array, and what its drives are at, which do I/Os in any order.
    struct Bench {
        policy: Placed<Array, Box<dyn Policy + Send>>,
        now: Nanos,
        state: u64,
        rates: Rates,
        asked: u64,
        waiting: u64,
        under_way: Vec<Request>,
        failed_flushes: u64,
    }

    impl Bench {
        fn new(array: Array, seed: u64, rates: Rates) -> Bench {
            let lanes = (0..LANES).map(|_| build("noop", 1 << 20).unwrap()).collect();
            Bench {
                policy: Placed::over(array, lanes),
                now: Nanos::ZERO,
                state: seed,
                rates,
                asked: 0,
                waiting: 0,
                under_way: Vec::new(),
                failed_flushes: 0,
            }
        }

        /// A number below `end`.
        fn random(&mut self, end: u64) -> u64 {
            self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.state >> 33) % end
        }

        fn fails(&mut self, one_in: u64) -> bool {
            one_in > 0 && self.random(one_in) == 0
        }

        /// Something is asked.
        fn ask(&mut self, unit_bytes: u64) {
            let blocks = UNITS * unit_bytes / 4096;
            let (op, flags) = match self.random(16) {
                0 => (Op::Flush, Flags::NONE),
                1 => (Op::Trim, Flags::NONE),
                2..5 => (Op::Read, Flags::NONE),
                5 => (Op::Write, Flags::FUA),
                _ => (Op::Write, Flags::NONE),
            };
            let (first, count) = match (op, self.random(3)) {
                (Op::Flush, _) => (0, 0),
                (Op::Trim, _) | (_, 0) => {
                    (self.random(UNITS) * unit_bytes / 4096, unit_bytes / 4096)
                }
                _ => (self.random(blocks - 6), 1 + self.random(6)),
            };
            let (id, stream, lane) = (self.asked, 0, 0);
            let (offset, len) = (first * 4096, count as u32 * 4096);
            let request = Request { at: self.now, offset, id, len, stream, lane, op, flags };
            (self.asked, self.waiting) = (self.asked + 1, self.waiting + 1);
            self.call(|policy, cx| policy.submit(cx, request, Bytes::NONE));
        }

        fn call(
            &mut self,
            call: impl FnOnce(&mut Placed<Array, Box<dyn Policy + Send>>, &mut Cx<'_>),
        ) {
            let mut finished = Finished::new();
            call(
                &mut self.policy,
                &mut Cx { now: self.now, slots: &mut Null, finished: &mut finished },
            );
            self.waiting -= finished.len() as u64;
            for lane in 0..LANES {
                while let Some(io) = self.policy.dispatch(self.now, lane) {
                    self.under_way.push(Request { lane, ..io });
                }
            }
        }

        /// Any I/O that is under way ends.
        fn end_any(&mut self) {
            let at = self.random(self.under_way.len() as u64) as usize;
            let io = self.under_way.swap_remove(at);
            let fails = match io.op {
                Op::Flush => self.fails(self.rates.flushes),
                // Records and labels are taken: without them nothing goes on.
                Op::Write if !io.flags.has(Flags::FUA) => self.fails(self.rates.writes),
                Op::Read => self.fails(self.rates.reads),
                _ => false,
            };
            self.failed_flushes += u64::from(fails && io.op == Op::Flush);
            let outcome = if fails { Err(Fault::Media) } else { Ok(()) };
            let (started, at, mechanics) = (self.now, self.now, Mechanics::default());
            let done = Completion { io, started, at, mechanics, outcome };
            self.call(|policy, cx| policy.complete(cx, &done));
        }

        /// Requests come and I/Os end, in any order; then all is answered.
        fn run(&mut self, requests: u64) {
            let unit_bytes = self.policy.placement().geometry().unit_bytes();
            let mut steps = 0u64;
            while self.asked < requests || self.waiting > 0 {
                steps += 1;
                self.now += Nanos(1000);
                let asks = self.asked < requests && self.waiting < 12 && self.random(3) == 0;
                if asks || self.under_way.is_empty() {
                    match self.asked < requests {
                        true => self.ask(unit_bytes),
                        false => self.wake(),
                    }
                } else {
                    self.end_any();
                }
                if steps.is_multiple_of(16) {
                    check(self.policy.placement());
                }
            }
            check(self.policy.placement());
        }

        fn wake(&mut self) {
            self.now = self.policy.wakeup().expect("requests are never answered").max(self.now);
            self.call(|policy, cx| policy.wake(cx));
        }
    }

    /// Every cell of a drive that is there is taken by one unit that names it, or free.
    fn check(array: &Array) {
        if matches!(array.phase, Phase::Failed) {
            return;
        }
        let mut owners = BTreeMap::new();
        let mut own = |number: u64, unit: &Unit| {
            for place in unit.places.into_iter().filter(|it| array.drives.lane(*it).is_some()) {
                let other = owners.insert(place.cell(), number);
                assert!(other.is_none_or(|it| it == number), "{place:?} of {number} and {other:?}");
            }
        };
        (0..array.table.units()).for_each(|number| own(number, &array.table.get(number)));
        array.round.iter().chain(&array.changed).for_each(|(number, unit)| own(*number, unit));
        let is_under_way = |key: &u32| !array.vacant.contains(key);
        for job in (0..array.jobs.len() as u32).filter(is_under_way) {
            let job = &array.jobs[job as usize];
            own(job.number, &job.old);
            own(job.number, &job.new);
        }
        for (number, place) in array.doubted.all() {
            let mut unit = Unit::EMPTY;
            unit.places[0] = place;
            own(number, &unit);
        }
        for lane in array.drives.present() {
            let number = array.drives.number(lane);
            let named = owners.keys().filter(|cell| cell.is_some_and(|(drive, _)| drive == number));
            let taken = array.drives.cells(lane) - array.drives.free(lane);
            assert_eq!(taken as usize, named.count(), "cells taken on lane {lane} and named");
        }
    }

    fn created(first: Level, spare: u32, adapts: bool) -> Array {
        let leanest = if adapts { Level::RAID6 } else { first };
        let sizes = Geometry { units: UNITS, copies_max: 4, ..Geometry::sample(LANES) };
        let array = Array::created(Geometry::new(sizes, leanest, spare).unwrap(), first);
        if !adapts {
            return array;
        }
        // A switch at every other write.
        let rule = BonusMalus::new(Factor { times: 1, over: 4 });
        array.adapting(rule, Costs::paper_hdd(), First::Fixed(0), vec![Level::RAID6, Level::TRIPLE])
    }

    #[test]
    fn cells_are_taken_while_named_however_many_flushes_fail() {
        let mut failed = 0;
        for first in LEVELS {
            for (spare, adapts) in [(6, false), (60, false), (60, true)] {
                for (flushes, writes, reads) in [(1, 0, 0), (2, 0, 0), (4, 60, 60), (20, 20, 0)] {
                    for seed in 0..5 {
                        let rates = Rates { flushes, writes, reads };
                        println!("{first:?}, {spare} spare, {adapts}, {rates:?}, seed {seed}");
                        let mut bench = Bench::new(created(first, spare, adapts), seed, rates);
                        bench.run(400);
                        failed += bench.failed_flushes;
                    }
                }
            }
        }
        assert!(failed > 10_000, "{failed} flushes that fail are too few");
    }
}
