//! Tests where the roles of incomplete units are placed.

use std::collections::BTreeSet;

use super::super::bench::{Bench, LANES, Rates, created};
use super::super::drives::Drives;
use super::super::geometry::Geometry;
use super::*;
use crate::contract::{Fault, Flags, Op, Outcome, Request};

const UNITS: u64 = 12;

/// Returns an array with this many written, durable units.
fn filled(array: Array, units: u64) -> Bench {
    let mut bench = Bench::new(array, 1, Rates::default());
    (0..units).for_each(|unit| bench.write(4 * unit, 4));
    assert_eq!(bench.flush(0), Ok(()));
    bench
}

/// Writes the first chunk while the drives in `refuse` fail writes, and checks that the write is
/// answered. Then the unit is made whole, or, without `may_be_whole`, writes keep failing.
fn write_first(bench: &mut Bench, refuse: &[u16], may_be_whole: bool) {
    let write = bench.ask(Op::Write, Flags::NONE, 0, 0, 1);
    let outcome = |io: &Request| -> Outcome {
        match io.op {
            Op::Write if refuse.contains(&io.lane) && !io.flags.has(Flags::FUA) => {
                Err(Fault::Media)
            }
            _ => Ok(()),
        }
    };
    while !bench.answers.contains_key(&write) {
        let io = *bench.under_way().next().expect("it is answered");
        bench.end_one(|it| *it == io, outcome(&io));
    }
    assert_eq!(bench.answers[&write], Ok(()));
    assert!(bench.array().unit(0).places[0].is_lost(), "no drive took it");
    bench.end_all(|io| if may_be_whole { Ok(()) } else { outcome(io) });
    assert_eq!(bench.array().drives.present().count(), LANES.into());
}

fn lanes(bench: &Bench) -> Vec<Option<usize>> {
    let array = bench.array();
    array.unit(0).places[..6].iter().map(|place| array.drives.lane(*place)).collect()
}

/// A role that a write omits because no drive accepts it is restored automatically.
#[test]
fn a_write_that_was_answered_with_fewer_roles_is_made_whole() {
    let mut bench = filled(created(Level::RAID6, 60, false), UNITS);
    let loser = bench.lane_of(0);
    write_first(&mut bench, &[loser], true);
    assert!(!bench.array().is_needy(&bench.array().unit(0)), "{:?}", lanes(&bench));
    bench.check();
}

/// A drive has lost a role. Other roles do not move to it while their own drives are full: if it
/// and one more drive failed, three roles would be missing.
#[test]
fn a_role_does_not_go_to_the_drive_that_lost_another() {
    let mut bench = filled(created(Level::RAID6, 2, false), UNITS);
    let (loser, full) = (bench.lane_of(0), bench.lane_of(1));
    write_first(&mut bench, &[loser], false);
    assert_eq!(bench.flush(0), Ok(()));
    let before = lanes(&bench);
    assert_eq!(before.iter().filter(|lane| lane.is_none()).count(), 1);
    // The parities of every unit are on two drives, which have space for two writes until the next
    // round.
    for unit in 1..UNITS {
        if bench.array().drives.free(full.into()) == 0 {
            break;
        }
        let places = bench.array().unit(unit).places;
        let role =
            (0..6).find(|role| bench.array().drives.lane(places[*role]) == Some(full.into()));
        let chunk = role.expect("a unit is on all drives").min(3) as u64;
        bench.write(4 * unit + chunk, 1);
    }
    assert_eq!(bench.array().drives.free(full.into()), 0);
    assert!(bench.array().drives.free(loser.into()) > 0);
    let write = bench.ask(Op::Write, Flags::NONE, 0, 1, 1);
    while !bench.answers.contains_key(&write) {
        bench.end_one(|_| true, Ok(()));
    }
    assert_eq!(bench.answers[&write], Ok(()));
    assert_eq!(lanes(&bench), before);
    let other = bench.lane_of(2);
    bench.lose(&[loser, other]);
    assert_eq!(bench.flush(0), Ok(()), "two of six may go");
    assert_eq!(bench.array().census().lost_units, 0);
}

/// If a role's drive is full and stays full, the role goes to another drive, even one that lost a
/// role.
#[test]
fn a_write_is_not_refused_if_another_drive_has_room() {
    let full = Bench::written(created(Level::RAID6, 0, false), true).lane_of(1);
    let mut cells = [UNITS as u32; 6];
    cells[usize::from(full)] = 6;
    let mut bench = filled(created(Level::RAID6, 0, false).with_cells(&cells), 6);
    assert_eq!((bench.lane_of(1), bench.array().drives.free(full.into())), (full, 0));
    let loser = bench.lane_of(0);
    write_first(&mut bench, &[loser], false);
    bench.write(1, 1);
    assert_eq!(bench.lane_of(1), loser);
    bench.check();
}

/// A role that finds no drive is recorded as lost by a missing drive, which may return before all
/// units are whole.
#[test]
fn a_role_without_a_drive_is_lost_by_a_missing_drive() {
    let mut bench = filled(created(Level::RAID6, 2, false), 1);
    let missing = [0, 1].map(|role| bench.lane_of(role));
    bench.lose(&missing);
    for unit in 0..2 {
        bench.write(4 * unit, 4);
        let unit = bench.array().unit(unit);
        let losers: BTreeSet<u8> = unit.places.iter().filter_map(|it| it.loser()).collect();
        assert_eq!(losers, BTreeSet::from(missing.map(|lane| lane as u8 + 1)), "{unit:?}");
    }
}

/// Returns drives, the first of which is full, and a unit on six of them whose role `lost` was lost
/// by drive 7.
fn crowded(level: Level, lost: usize) -> (Drives, Unit) {
    let mut drives = Drives::new(&[1, 2, 3, 4, 5, 6, 7], 100);
    let mut unit = Unit { level: Some(level), ..Unit::EMPTY };
    for role in (0..level.roles(4)).filter(|role| *role != lost) {
        unit.places[role] = drives.take(role % 6).unwrap();
    }
    while drives.take(0).is_some() {}
    unit.places[lost] = Place::lost_by(7);
    (drives, unit)
}

/// A drive that lost one role is not used for another role that must be on a different drive, as
/// long as it may still have the lost one.
#[test]
fn a_role_avoids_a_drive_that_lost_a_related_role() {
    let geometry = Geometry::new(Geometry::sample(7), Level::RAID6, 20).unwrap();
    let choose =
        |drives: &Drives, unit: &Unit| drives.choose(&geometry, 0, unit, unit.level.unwrap(), 0);
    let (mut drives, unit) = crowded(Level::RAID6, 5);
    let whole =
        Unit { places: unit.places.map(|it| if it.is_lost() { Place::LOST } else { it }), ..unit };
    // Lane 0 is the role's own drive, lane 5 has no role, and lane 6 lost another role.
    let moved = |(role, lane)| (role == 0).then_some(lane);
    assert_eq!(choose(&drives, &unit), Some(5));
    assert_eq!(drives.roomier(&unit, 4).and_then(moved), Some(5));
    while drives.take(5).is_some() {}
    assert_eq!((choose(&drives, &whole), choose(&drives, &unit)), (Some(6), None));
    let roomier = [&whole, &unit].map(|unit| drives.roomier(unit, 4).and_then(moved));
    assert_eq!(roomier, [Some(6), None]);
    drives.reckless = true;
    assert_eq!(choose(&drives, &unit), Some(6));
    drives.reckless = false;
    // New units avoid such a drive too, and so do roles whose drive has disappeared; but if no
    // other drive is left, they use it.
    let mut new = unit;
    new.places[0] = Place::ZERO;
    assert_eq!(choose(&drives, &new), None);
    assert!(drives.fail(0));
    assert_eq!((choose(&drives, &unit), choose(&drives, &new)), (None, None));
    assert!(drives.fail(5));
    assert_eq!((choose(&drives, &unit), choose(&drives, &new)), (Some(6), Some(6)));
    // With copies, only roles of the same chunk exclude each other.
    for (lost, is_beside) in [(4, true), (5, false)] {
        let (mut drives, unit) = crowded(Level::TRIPLE, lost);
        (1..6).for_each(|lane| while drives.take(lane).is_some() {});
        assert_eq!(choose(&drives, &unit).is_none(), is_beside);
    }
}
