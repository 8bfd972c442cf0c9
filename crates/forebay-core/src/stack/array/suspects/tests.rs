//! Tests of cells that may be lost, and of what depends on them.

use super::super::bench::{Bench, LANES, Rates, created};
use super::super::job::Doing;
use super::super::level::LEVELS;
use super::super::method::View;
use super::*;
use crate::contract::{Flags, Op};

/// At every level and with any set of present drives, the chunks that roles can reconstruct are
/// those that a read can get from them.
#[test]
fn roles_reconstruct_the_chunks_that_a_read_gets_from_them() {
    for level in LEVELS.into_iter().filter(|level| level.roles(3) <= 9) {
        for usable in 0..=all(level.roles(3)) {
            let view = View { level, chunks: 3, usable, zero: 0, copy: 0 };
            let is_read = |chunk: &usize| view.to_read(1 << chunk).is_some();
            let read = (0..3).filter(is_read).fold(0, |told, chunk| told | 1 << chunk);
            assert_eq!(level.told(usable, 3), read, "{level:?} {usable:b}");
        }
    }
}

/// Roles that an earlier attempt of a job wrote are written again if a flush loses them while the
/// others are being retried.
#[test]
fn a_failed_flush_loses_roles_that_an_earlier_attempt_wrote() {
    let mut bench = Bench::new(created(Level::RAID6, 60, false), 1, Rates::default());
    bench.write(4, 4);
    let write = bench.ask(Op::Write, Flags::NONE, 0, 0, 4);
    let flush = bench.ask(Op::Flush, Flags::NONE, 0, 0, 0);
    for lane in 1..LANES {
        bench.end_one(|io| io.op == Op::Write && io.lane == lane, Ok(()));
    }
    // The block layer retries each part before it gives up.
    while bench.array().jobs[0].tries == 0 {
        bench.end_one(|io| io.op == Op::Write, Err(Fault::Media));
    }
    bench.end_one(|io| io.op == Op::Flush && io.lane == 3, Err(Fault::Media));
    while !bench.answers.contains_key(&write) {
        bench.end_one(|io| io.op == Op::Write, Ok(()));
    }
    bench.check();
    let unit = bench.array().unit(0);
    assert!(!bench.array().is_needy(&unit), "all of it is there: {unit:?}");
    bench.end_all(|_| Ok(()));
    assert_eq!((bench.answers[&write], bench.answers[&flush]), (Ok(()), Ok(())));
}

/// Returns whether a unit with copies is being rewritten at a leaner level.
fn shrinks(bench: &Bench) -> bool {
    bench.array().jobs.iter().any(|job| {
        let is_switch = matches!(job.doing, Doing::Switch(Level::Striped { .. }, _));
        is_switch && job.level == Level::TRIPLE && job.writing && job.left > 0
    })
}

/// A switch keeps some cells for the new level, but not a cell that a flush loses in the meantime.
#[test]
fn a_switch_leaves_lost_cells_behind() {
    for chunk in 0..4 {
        let mut bench = Bench::new(created(Level::TRIPLE, 60, true), 1, Rates::default());
        for turn in 0.. {
            assert!(turn < 100, "no unit goes to a leaner level");
            bench.ask(Op::Write, Flags::NONE, 0, 0, 4 - 3 * (turn / 4 % 2));
            while !shrinks(&bench) && bench.under_way().next().is_some() {
                bench.end_one(|_| true, Ok(()));
            }
            if shrinks(&bench) {
                break;
            }
        }
        let flush = bench.ask(Op::Flush, Flags::NONE, 0, 0, 0);
        let job = bench.array().jobs.iter().find(|job| job.writing && job.left > 0);
        let carried = job.expect("the switch").new.places[chunk];
        assert!(bench.array().unit(0).names(carried), "it was there before");
        let lane = bench.array().drives.lane(carried).expect("its drive") as u16;
        bench.end_one(|io| io.op == Op::Flush && io.lane == lane, Err(Fault::Media));
        while bench.array().unit(0).level == Some(Level::TRIPLE) {
            bench.end_one(|io| io.op == Op::Write, Ok(()));
        }
        bench.check();
        assert!(!bench.array().unit(0).names(carried), "chunk {chunk}");
        bench.end_all(|_| Ok(()));
        assert_eq!(bench.answers[&flush], Ok(()));
        assert!(!bench.array().is_needy(&bench.array().unit(0)), "all was made anew");
    }
}

/// A unit that has lost data accepts further writes, and their loss is reported, too.
#[test]
fn a_second_loss_of_a_unit_is_reported() {
    let mut bench = Bench::written(created(Level::RAID6, 60, false), false);
    let lost = [0, 1, 2].map(|role| bench.lane_of(role));
    bench.age(&lost, &lost);
    let unit = bench.array().unit(0);
    let needed = unit.places[..3].iter().filter(|place| bench.array().unsure.has(**place));
    // A repair may have found in the meantime that one of the three cannot be read.
    assert!(needed.count() > 0, "all would have been made anew: {unit:?}");
    bench.assert_told_once(Fault::Media);
    let write = bench.ask(Op::Write, Flags::NONE, 0, 3, 1);
    bench.end_all(|io| match io.op {
        Op::Read if lost.contains(&io.lane) => Err(Fault::Media),
        _ => Ok(()),
    });
    assert_eq!(bench.answers[&write], Ok(()), "the fourth chunk and both parities are there");
    let fourth = bench.lane_of(3);
    bench.lose(&[fourth]);
    bench.assert_told_once(Fault::Gone);
}

/// Lost cells remain named, because a drive may have their data after all, but they no longer
/// count.
#[test]
fn lost_data_are_not_lost_again() {
    let mut bench = Bench::written(created(Level::Mirrored { copies: 2 }, 60, false), false);
    // Lose both copies of the first chunk.
    let lost = [0, 4].map(|role| bench.lane_of(role));
    bench.age(&lost, &lost);
    bench.assert_told_once(Fault::Media);
    let places = bench.array().unit(0).places;
    let named = [0, 4].into_iter().find(|role| !places[*role].is_lost()).expect("one of them");
    assert!(bench.array().unsure.has(places[named]), "{places:?}");
    let write = bench.ask(Op::Write, Flags::NONE, 0, 2, 1);
    bench.end_all(|io| match io.op {
        Op::Read if lost.contains(&io.lane) => Err(Fault::Media),
        _ => Ok(()),
    });
    assert_eq!(bench.answers[&write], Ok(()));
    let lane = bench.lane_of(named);
    bench.lose(&[lane]);
    assert_eq!(bench.flush(0), Ok(()), "others are there");
}

/// Cells that may be lost but turn out to be readable are rewritten, and then freed.
#[test]
fn cells_that_were_not_lost_after_all_are_rewritten() {
    let mut bench = Bench::written(created(Level::TRIPLE, 60, false), false);
    bench.age(&[0, 1, 2, 3, 4, 5], &[]);
    bench.assert_told_once(Fault::Media);
    assert!(bench.array().unsure.cells.is_empty(), "{:?}", bench.array().unsure);
    bench.lose(&[1, 4]);
    assert_eq!(bench.flush(0), Ok(()), "two of six may go");
}

/// A drive that disappears during a flush loses its data only once.
#[test]
fn the_flush_of_a_missing_drive_is_not_another_loss() {
    let mut bench = Bench::written(created(Level::RAID6, 60, false), true);
    bench.write(0, 1);
    let early = bench.ask(Op::Flush, Flags::NONE, 0, 0, 0);
    let gone = [0, 4, 1].map(|role| bench.lane_of(role));
    bench.ask(Op::Read, Flags::NONE, 0, 0, 4);
    while bench.under_way().any(|io| io.op == Op::Read) {
        let is_gone = bench.under_way().any(|io| io.op == Op::Read && gone.contains(&io.lane));
        let which = |io: &crate::contract::request::Request| {
            io.op == Op::Read && (!is_gone || gone.contains(&io.lane))
        };
        bench.end_one(which, if is_gone { Err(Fault::Gone) } else { Ok(()) });
    }
    let late = bench.ask(Op::Flush, Flags::NONE, 1, 0, 0);
    bench.end_all(|io| if gone.contains(&io.lane) { Err(Fault::Gone) } else { Ok(()) });
    let lost = Err(Fault::Gone);
    assert_eq!((bench.answers[&early], bench.answers[&late]), (lost, lost));
    assert_eq!(bench.flush(1), Ok(()), "it came after the loss, and knows");
    assert_eq!([bench.flush(0), bench.flush(0)], [lost, Ok(())], "it came before");
}

/// If the switch failed in part, it would leave less certain data than the copies that it began
/// with.
#[test]
fn a_switch_keeps_data_that_are_certain() {
    let rates = Rates { flushes: 4, writes: 60, reads: 60, drives: 0 };
    let first = Level::Striped { parities: 0 };
    Bench::new(created(first, 60, true), 16, rates).run(400);
}
