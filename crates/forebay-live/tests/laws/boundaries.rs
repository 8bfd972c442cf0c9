//! Tests power cuts at every I/O boundary of a short run of an array, whichever drives are missing
//! afterwards. Also tests that omitting any flush or record loses data.

use std::panic::{AssertUnwindSafe, catch_unwind};

use forebay_core::{Flags, Op};
use forebay_live::run;
use forebay_rig::{Crash, Lie, Medium, Tear, Troubles};

use crate::laws::array::{SHAPES, Shape, begun, drive, over, sound};
use crate::laws::oracle::Oracle;

type Script = [(Op, Flags, u64, u64)];

const NONE: Flags = Flags::NONE;
const FLUSH: (Op, Flags, u64, u64) = (Op::Flush, NONE, 0, 0);

/// A chunk has 16 sectors, and a unit has 64. The script overwrites part of a chunk, parts of two
/// chunks, and a complete unit.
const WRITES: &Script =
    &[(Op::Write, NONE, 70, 5), FLUSH, (Op::Write, Flags::FUA, 140, 9), (Op::Write, NONE, 192, 64)];
/// Switches a unit's level at every other write: small writes switch to copies, and large ones to
/// parities.
const SWITCHES: &Script = &[
    (Op::Write, Flags::FUA, 64, 8),
    (Op::Write, NONE, 80, 8),
    FLUSH,
    (Op::Write, Flags::FUA, 96, 8),
    (Op::Write, NONE, 64, 64),
    (Op::Write, Flags::FUA, 64, 64),
];
const TRIMS: &Script =
    &[(Op::Trim, NONE, 64, 64), FLUSH, (Op::Write, Flags::FUA, 66, 3), (Op::Trim, NONE, 64, 128)];

fn pairs() -> Vec<[usize; 2]> {
    (0..6).flat_map(|one| (0..one).map(move |other| [other, one])).collect()
}

/// Checks that all required data is present without the drives on these lanes.
fn check(shape: &Shape, media: &[Medium], oracle: &Oracle, away: &[usize]) {
    let (mut oracle, mut lanes) = (oracle.clone(), sound(media.to_vec(), 9));
    oracle.settle();
    drive(shape.found(away), &mut lanes, &mut oracle);
    assert_eq!(oracle.failed, 0, "failures are told without {away:?}");
}

fn writes(media: &[Medium]) -> u64 {
    media.iter().map(Medium::mark).sum()
}

/// Returns the distance between tested boundaries. Only long runs test all boundaries.
fn stride() -> usize {
    if forebay_testing::laws_times().is_some() { 1 } else { 8 }
}

/// Cuts a script at every boundary (or every [`stride`]-th), including those of opening, with the
/// drives on `away` missing from the start. Returns the number of cuts after which the media had
/// changed.
fn cut_everywhere(shape: &Shape, script: &Script, away: &[usize], seed: u64) -> u64 {
    let mut first = Oracle::new(shape.mix(), 0, seed);
    let media = begun(shape, seed, &mut first, 30);
    let mut cuts = 0;
    for passes in (0..).step_by(stride()) {
        let troubles = Troubles { cut_after: Some(passes), ..Troubles::default() };
        let mut lanes = Crash::new(media.clone(), 4096, 4, seed, troubles);
        let mut oracle = first.clone();
        oracle.ask(script);
        let mut policy = over(shape.found(away));
        let is_cut = run(&mut policy, &mut lanes, &mut oracle, &mut ()).is_err();
        let after = lanes.cut(if passes % 2 == 0 { Tear::Sector } else { Tear::Page });
        oracle.cut();
        if writes(&after) == writes(&media) {
            assert!(is_cut, "nothing was written");
            continue;
        }
        cuts += 1;
        // Tests all pairs of missing drives after the complete script, and four pairs, in turn,
        // after each cut.
        let pairs = pairs();
        let count = if is_cut { 4 } else { pairs.len() };
        let turn = |step: usize| pairs[(passes as usize * 4 + step) % pairs.len()];
        for missing in (0..count).map(turn) {
            // If drives were missing during the run, only these may be missing now, because they
            // lack data.
            check(shape, &after, &oracle, if away.is_empty() { &missing } else { away });
        }
        check(shape, &after, &oracle, &[]);
        if !is_cut {
            return cuts * stride() as u64;
        }
    }
    unreachable!("it ends without a cut")
}

fn shapes() -> [Shape; 2] {
    let small = Shape { units: 6, ..SHAPES[0] };
    [small, Shape { units: 6, ..SHAPES[5] }]
}

#[test]
fn a_write_is_cut_at_every_boundary() {
    let cuts = cut_everywhere(&shapes()[0], WRITES, &[], 1);
    assert!(cuts > 20, "{cuts} cuts are too few");
}

#[test]
fn a_switch_is_cut_at_every_boundary() {
    let cuts = cut_everywhere(&shapes()[1], SWITCHES, &[], 2);
    assert!(cuts > 30, "{cuts} cuts are too few");
}

#[test]
fn a_trim_is_cut_at_every_boundary() {
    let cuts = cut_everywhere(&shapes()[0], TRIMS, &[], 3);
    assert!(cuts > 15, "{cuts} cuts are too few");
}

#[test]
fn all_are_cut_at_every_boundary_while_drives_are_missing() {
    for (script, seed) in [(WRITES, 4), (SWITCHES, 5), (TRIMS, 6)] {
        let cuts = cut_everywhere(&shapes()[1], script, &[1, 4], seed);
        assert!(cuts > 15, "{cuts} cuts are too few");
    }
}

/// Tests that a bad sector among the records loses only one record slot, not everything that is
/// read together with it. Records begin at 8192 and are as long; all drives have the bad sector in
/// a slot that is not in use yet.
#[test]
fn a_bad_sector_among_records_costs_no_other() {
    for shape in shapes() {
        let mut oracle = Oracle::new(shape.mix(), 0, 7);
        let media = begun(&shape, 7, &mut oracle, 30);
        let bad = |lane| (lane, 8192 + 120 * 8192 + 512);
        let troubles =
            Troubles { bad: (0..media.len() as u16).map(bad).collect(), ..Troubles::default() };
        let mut lanes = Crash::new(media, 4096, 4, 7, troubles);
        oracle.settle();
        drive(shape.found(&[]), &mut lanes, &mut oracle);
        assert_eq!(oracle.failed, 0);
    }
}

/// Runs a script while omitting one operation, cuts the power, and checks the array without any two
/// drives, for several outcomes of the cut. Returns whether any check failed, or None if there is
/// nothing more to omit.
fn is_missed(shape: &Shape, lie: Lie, at: u64) -> Option<bool> {
    let seeds = 0..24;
    for seed in seeds {
        let mut oracle = Oracle::new(shape.mix(), 0, 1);
        let media = begun(shape, 1, &mut oracle, 30);
        let mut lanes = sound(media, seed);
        let mut policy = over(shape.found(&[]));
        oracle.ask(&[FLUSH]);
        run(&mut policy, &mut lanes, &mut oracle, &mut ()).unwrap();
        lanes.trouble(Troubles { lies: Some(lie), lies_at: Some(at), ..Troubles::default() });
        oracle.ask(&[(Op::Write, NONE, 70, 5), FLUSH]);
        run(&mut policy, &mut lanes, &mut oracle, &mut ()).unwrap();
        if lanes.chances() <= at {
            return None;
        }
        let media = lanes.cut(Tear::Page);
        oracle.cut();
        let is_wrong = |missing: &[usize; 2]| {
            catch_unwind(AssertUnwindSafe(|| check(shape, &media, &oracle, missing))).is_err()
        };
        if pairs().iter().any(is_wrong) {
            return Some(true);
        }
    }
    Some(false)
}

#[test]
fn each_flush_and_each_record_is_needed() {
    let shape = &shapes()[0];
    // The data is one chunk and two parities, each on another drive, and three drives have their
    // record.
    for (lie, expected) in [(Lie::Flushes, 3), (Lie::Lost, 3), (Lie::Durable, 3)] {
        let mut count = 0;
        while let Some(is_missed) = is_missed(shape, lie, count) {
            assert!(is_missed, "{lie:?} {count} changes nothing");
            count += 1;
        }
        assert_eq!(count, expected, "{lie:?}");
    }
}
