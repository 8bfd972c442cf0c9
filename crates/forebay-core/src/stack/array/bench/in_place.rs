//! Tests that an array that writes in place runs small writes concurrently unless they overlap.

use super::*;
use crate::stack::array::geometry::Update;
use crate::stack::array::level::LEVELS;

/// Returns an array that writes in place, with all units written.
fn in_place(level: Level) -> Array {
    let sizes = Geometry {
        units: UNITS,
        chunk_bytes: 16 * 4096,
        copies_max: 4,
        update: Update::InPlace,
        ..Geometry::sample(LANES)
    };
    Array::new(Geometry::new(sizes, level, 0).unwrap(), level).filled(UNITS)
}

/// Checks that no outstanding I/O overlaps an outstanding write.
fn check_apart(bench: &Bench) {
    for (at, io) in bench.under_way.iter().enumerate().filter(|(_, io)| io.op == Op::Write) {
        for (_, other) in bench.under_way.iter().enumerate().filter(|(other, _)| *other != at) {
            let overlaps = io.offset < other.end() && other.offset < io.end();
            assert!(io.lane != other.lane || !overlaps, "{io:?} beside {other:?}");
        }
    }
}

impl Bench {
    fn ask_part(&mut self, blocks: u64) {
        let op = if self.random(3) == 0 { Op::Read } else { Op::Write };
        let (first, count) = (self.random(blocks - 3), 1 + self.random(3));
        self.ask(op, Flags::NONE, 0, first, count);
    }
}

#[test]
fn writes_of_the_same_bytes_of_a_drive_run_one_after_another() {
    let mut together = 0;
    for level in LEVELS.into_iter().filter(|level| level.width(4) <= LANES.into()) {
        for seed in 0..forebay_testing::longer(4) {
            println!("{level:?}, seed {seed}");
            let mut bench = Bench::new(in_place(level), seed, Rates::default());
            let tolerated = level.tolerates().min(2) as u64 * (seed % 2);
            let blocks = 2 * bench.array().geometry().unit_bytes() / 4096;
            let mut steps = 0;
            while bench.asked < 600 || bench.waiting > 0 {
                steps += 1;
                if bench.asked < 600 && bench.waiting < 12 && bench.random(2) == 0 {
                    bench.ask_part(blocks);
                } else if !bench.under_way.is_empty() {
                    bench.end_any();
                }
                if steps % 300 == 0 && (bench.gone.len() as u64) < tolerated {
                    let lane = bench.random(LANES.into()) as Lane;
                    bench.gone.insert(lane);
                }
                check_apart(&bench);
                let jobs = bench.array().jobs.len() - bench.array().vacant.len();
                together = together.max(jobs);
            }
            assert!(bench.answers.values().all(|answer| answer.is_ok()));
            // No unit refers to a failed drive, because all chunks have been rewritten since.
            for number in 0..2 {
                let unit = bench.array().unit(number);
                let drives = unit.places.iter().filter_map(|place| place.cell());
                let is_gone = |(drive, _)| bench.gone.contains(&(Lane::from(drive) - 1));
                assert!(!drives.into_iter().any(is_gone), "{unit:?}");
            }
            ledger::tests::check(bench.array());
        }
    }
    assert!(together > 6, "at most {together} jobs ran at a time");
}

#[test]
fn small_writes_to_one_stripe_run_concurrently() {
    let mut bench = Bench::new(in_place(Level::RAID6), 1, Rates::default());
    for row in [0, 2, 4] {
        bench.ask(Op::Write, Flags::NONE, 0, row, 1);
    }
    // Each write reads three blocks.
    assert_eq!(bench.under_way().filter(|io| io.op == Op::Read).count(), 9);
    // The first row of the next chunk shares its parities.
    let chunk = u64::from(bench.array().geometry().chunk_bytes) / 4096;
    bench.ask(Op::Write, Flags::NONE, 0, chunk, 1);
    assert_eq!(bench.under_way().count(), 9);
    bench.end_all(|_| Ok(()));
    assert_eq!(bench.answers.len(), 4);
}

/// A job writes the same bytes of all its chunks, so a single job for both chunks would rewrite
/// them completely.
#[test]
fn a_small_write_across_two_chunks_touches_no_more_than_its_bytes() {
    let mut bench = Bench::new(in_place(Level::RAID6), 1, Rates::default());
    let chunk = u64::from(bench.array().geometry().chunk_bytes) / 4096;
    let write = bench.ask(Op::Write, Flags::NONE, 0, chunk - 1, 2);
    let read: u32 = bench.under_way().map(|io| io.len).sum();
    assert_eq!(read, 6 * 4096, "three blocks of each of two rows");
    bench.end_all(|_| Ok(()));
    assert_eq!(bench.answers[&write], Ok(()));
}

/// Two drives fail during two concurrent writes. Neither write discards the loss that the other
/// recorded.
#[test]
fn losses_recorded_by_concurrent_writes_add_up() {
    let mut bench = Bench::new(in_place(Level::RAID6), 1, Rates::default());
    let lanes = [0, 1].map(|role| bench.lane_of(role));
    let chunk = u64::from(bench.array().geometry().chunk_bytes) / 4096;
    bench.ask(Op::Write, Flags::NONE, 0, 0, 1);
    bench.ask(Op::Write, Flags::NONE, 0, chunk + 2, 1);
    bench.end_all(|io| match io.op {
        Op::Write if lanes.contains(&io.lane) => Err(Fault::Gone),
        _ => Ok(()),
    });
    assert!(bench.answers.values().all(|answer| answer.is_ok()), "{:?}", bench.answers);
    let places = bench.array().unit(0).places;
    assert!(places[0].is_lost() && places[1].is_lost(), "{places:?}");
}
