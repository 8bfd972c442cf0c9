//! Keeps track of which cells are in use: those that something names.
//!
//! A unit's cells are named by its durable state, by the states that will become durable (in the
//! current round, or changed since), and by the jobs on the unit. A cell becomes free when none of
//! them names it any longer: whoever drops a name calls [`Array::release`], which checks for
//! others.
//!
//! A failed flush removes names from the states that will become durable ([`super::suspects`]),
//! while jobs that began with these names may still run. Such cells are *doubted*: they stay in use
//! until no job on the unit runs, and changes of the unit must not depend on them.

use std::collections::BTreeMap;

use super::{Array, Place, Unit};
use crate::contract::{Fault, Outcome};

/// By unit: cells that a failed flush removed from the unit's state. Current jobs may still refer
/// to them.
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

    /// Returns all doubted cells.
    #[cfg(test)]
    fn all(&self) -> impl Iterator<Item = (u64, Place)> + '_ {
        self.units.iter().flat_map(|(number, places)| places.iter().map(|it| (*number, *it)))
    }
}

impl Array {
    /// Drops a state of a unit, and frees the cells that no other state uses.
    pub(super) fn release(&mut self, number: u64, dropped: &Unit) {
        let (table, round) = (self.table.get(number), self.round.get(&number));
        let newer = [round, self.changed.get(&number)].map(|it| it.copied());
        let is_named =
            |place| table.names(place) || newer.iter().flatten().any(|it| it.names(place));
        for place in dropped.places {
            if place.cell().is_some() && !is_named(place) && !self.doubted.has(number, place) {
                self.drives.give(place);
                self.unsure.forget(place);
            }
        }
    }

    /// Frees the doubted cells of a unit if its last job has ended.
    pub(super) fn settle_doubts(&mut self, number: u64) {
        if !self.doubted.units.is_empty() && !self.locks.is_under_way(number) {
            self.free_doubted(number);
        }
    }

    /// Frees the doubted cells of a unit whose only job starts again.
    pub(super) fn free_doubted(&mut self, number: u64) {
        for place in self.doubted.units.remove(&number).into_iter().flatten() {
            let mut dropped = Unit::EMPTY;
            dropped.places[0] = place;
            self.release(number, &dropped);
        }
    }

    /// Removes doubted cells from the result of a job: what a failed flush took from the unit since
    /// the job began is lost to the job, too. Fails if too much is lost.
    pub(super) fn without_doubted(&mut self, key: u32) -> Outcome {
        let job = &self.jobs[key as usize];
        let (number, old, mut new) = (job.number, job.old, job.new);
        let now = self.unit(number);
        for place in &mut new.places {
            if self.doubted.has(number, *place) && !now.names(*place) {
                *place = place.lost();
            }
        }
        if new != old && !self.is_kept(job, &new) {
            return Err(Fault::Gone);
        }
        self.jobs[key as usize].new = new;
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use forebay_testing::longer;

    use super::super::bench::{Bench, Rates, created};
    use super::super::level::LEVELS;
    use super::super::{Array, Phase};
    use super::*;

    /// Checks that every cell of a present drive is either free or named by exactly one unit.
    pub(in super::super) fn check(array: &Array) {
        if matches!(array.phase, Phase::Failed(_)) {
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
            let newest = (0..array.table.units()).map(|number| array.unit(number));
            let places = newest.flat_map(|unit| unit.places);
            let newest = places.filter(|place| array.drives.lane(*place) == Some(lane)).count();
            assert_eq!(array.named(lane) as usize, newest, "cells counted on lane {lane}");
        }
    }

    /// Fault rates: flushes, writes and reads (one in this many), and the number of requests after
    /// which a drive disappears.
    const RATES: [(u64, u64, u64, u64); 7] = [
        (1, 0, 0, 0),
        (2, 0, 0, 0),
        (4, 60, 60, 0),
        (20, 20, 0, 0),
        (200, 20, 0, 0),
        (0, 0, 0, 90),
        (30, 0, 0, 90),
    ];

    /// Checks that roles that must not share a drive do not. While all drives are present, they
    /// also avoid drives that lost a related role.
    pub(in super::super) fn check_apart(array: &Array) {
        for number in 0..array.table.units() {
            let unit = array.unit(number);
            let Some(level) = unit.level else { continue };
            let roles = level.roles(array.chunks());
            let is_known = |place: &Place| !place.is_lost() || place.loser().is_some();
            assert!(unit.places.iter().all(is_known), "of {number} it is not known who lost it");
            let is_whole = array.drives.present().count() == array.lanes();
            let drives = unit.places.map(|place| {
                let has = array.drives.lane(place).and_then(|_| Some(place.cell()?.0));
                has.or(place.loser().filter(|_| is_whole))
            });
            for role in 0..roles {
                for other in (0..role).filter(|other| level.parts(*other, role, array.chunks())) {
                    let are_apart = drives[role].is_none() || drives[role] != drives[other];
                    assert!(
                        are_apart,
                        "roles {other} and {role} of {number} share a drive: {unit:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn cells_are_used_while_named_and_losses_are_reported_whatever_fails() {
        let (mut failed, mut flushes_told, mut writes_told) = (0, 0, 0);
        for first in LEVELS {
            for (spare, adapts) in [(6, false), (60, false), (60, true)] {
                for (flushes, writes, reads, drives) in RATES {
                    for seed in 0..longer(1) {
                        let rates = Rates { flushes, writes, reads, drives };
                        println!("{first:?}, {spare} spare, {adapts}, {rates:?}, seed {seed}");
                        let mut bench = Bench::new(created(first, spare, adapts), seed, rates);
                        bench.run(400);
                        let [flushes, writes] = bench.told();
                        failed += bench.failed_flushes;
                        flushes_told += flushes;
                        writes_told += writes;
                    }
                }
            }
        }
        println!(
            "{failed} flushes failed; {flushes_told} flushes and {writes_told} writes reported a loss"
        );
        assert!(failed > 2500, "only {failed} flushes failed");
        assert!(flushes_told > 250, "only {flushes_told} flushes reported a loss");
        assert!(writes_told > 125, "only {writes_told} durable writes reported a loss");
    }
}
