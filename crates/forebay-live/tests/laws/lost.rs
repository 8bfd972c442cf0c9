//! Tests damage beyond the redundancy of an array: losses are reported and remembered with their
//! ranges, and no more than necessary is lost.

use forebay_core::stack::array::{Array, Census, Level, LostRange};
use forebay_core::{Flags, Op, Policy};
use forebay_live::run;
use forebay_rig::{Crash, Medium, Tear, Troubles};

use crate::laws::array::{SHAPES, Shape, begun, over, sound};
use crate::laws::oracle::Oracle;
use crate::laws::{longer, random};

const BLOCK: u64 = 4096;
/// The number of bytes that the oracle reads at a time: a chunk.
const PLACE_BYTES: u64 = 16 * 512;

/// Opens an array and runs `oracle` to its end. Returns the array's census and counters.
fn opened(array: Array, lanes: &mut Crash, oracle: &mut Oracle) -> (Census, [f64; 2]) {
    let mut policy = over(array);
    run(&mut policy, lanes, oracle, &mut ()).unwrap();
    assert_eq!(oracle.outstanding(), 0, "requests were never answered");
    let figure = |name| policy.figures().iter().find(|(it, _)| *it == name).unwrap().1;
    let counted = [figure("rotten_blocks"), figure("repaired_roles")];
    (policy.placement().census(), counted)
}

/// Reads everything without other requests; returns the census and the number of failed reads.
fn read_all(array: Array, lanes: &mut Crash, oracle: &mut Oracle) -> (Census, u64) {
    let failed = oracle.failed;
    oracle.settle();
    let (census, _) = opened(array, lanes, oracle);
    (census, oracle.failed - failed)
}

/// Checks and repairs everything, including copies and parities.
fn checked(array: Array, lanes: &mut Crash, oracle: &mut Oracle) -> (Census, [f64; 2]) {
    oracle.ask(&[(Op::Open, Flags::NONE, 0, 0)]);
    opened(array.scrubbing().mending(), lanes, oracle)
}

/// Returns the number of the oracle's reads that must fail according to a census.
fn lost_places(census: &Census) -> u64 {
    let ranges = census.lost.iter().flat_map(|unit| &unit.ranges);
    let places = ranges.flat_map(|range| {
        range.offset / PLACE_BYTES..(range.offset + range.bytes).div_ceil(PLACE_BYTES)
    });
    places.collect::<std::collections::BTreeSet<_>>().len() as u64
}

/// Returns the lost ranges without their drives, because rewritten cells may move to other drives.
fn ranges(census: &Census) -> Vec<(u64, Vec<LostRange>)> {
    census.lost.iter().map(|unit| (unit.unit, unit.ranges.clone())).collect()
}

/// Damages blocks in all cells of a drive. Blocks 0 and 1 of a cell are its chunk, and block 2 is
/// its trailer.
fn rot(shape: &Shape, medium: &mut Medium, mut rots: impl FnMut(u64) -> bool) {
    let geometry = shape.geometry();
    let first = geometry.lane_bytes() - u64::from(geometry.cells) * geometry.cell_bytes();
    for cell in 0..u64::from(geometry.cells) {
        for block in (0..geometry.cell_bytes() / BLOCK).filter(|block| rots(*block)) {
            let at = first + cell * geometry.cell_bytes() + block * BLOCK;
            let mut bytes = [0; BLOCK as usize];
            medium.read(at, &mut bytes);
            // Writes zeros, as on a drive that was wiped, or ones if the block was all zeros.
            let wrong = if bytes.iter().all(|byte| *byte == 0) { 1 } else { 0 };
            medium.write(at, &[wrong; BLOCK as usize], true);
        }
    }
}

/// Checks, reopens and reads the array. The result must agree with the census, which may name only
/// drives in `bad`.
fn assert_settled(
    shape: &Shape,
    census: &Census,
    away: &[usize],
    bad: &[usize],
    lanes: &mut Crash,
    oracle: &mut Oracle,
) {
    let (again, counted) = checked(shape.found(away), lanes, oracle);
    assert_eq!((&again.lost, counted[1]), (&census.lost, 0.0), "a check that finds no more");
    oracle.ask(&[(Op::Open, Flags::NONE, 0, 0)]);
    let (status, _) = opened(shape.found(away).reading(), lanes, oracle);
    assert_eq!((&status.lost, status.lost_units), (&census.lost, census.lost_units));
    let (after, failed) = read_all(shape.found(away), lanes, oracle);
    assert_eq!((failed, &after.lost), (lost_places(census), &census.lost), "reads that fail");
    for unit in &census.lost {
        let are_bad = unit.drives.iter().all(|drive| bad.contains(&(usize::from(*drive) - 1)));
        assert!(are_bad && !unit.drives.is_empty() && !unit.ranges.is_empty(), "{unit:?}");
    }
}

#[test]
fn rot_on_more_drives_than_a_level_tolerates_is_lost_and_reported() {
    let mut mirrored = 0;
    for shape in SHAPES.iter().filter(|shape| shape.units < 100) {
        // Damages whole cells, one block of each, or the trailers.
        for (drives, blocks) in [(2, 0b111), (3, 0b111), (3, 0b010), (4, 0b100)] {
            println!("{shape:?}, {drives} drives, blocks {blocks:03b}");
            let mut oracle = Oracle::new(shape.mix(), 0, 3);
            let mut media = begun(shape, 3, &mut oracle, 300);
            let bad: Vec<usize> = (0..drives).collect();
            for lane in &bad {
                rot(shape, &mut media[*lane], |block| blocks >> block & 1 == 1);
            }
            let mut lanes = sound(media, 3);
            let (census, [rotten, _]) = checked(shape.found(&[]), &mut lanes, &mut oracle);
            assert!(rotten > 0.0);
            // On a wide array or with mirrors, the other drives may have all data.
            let is_lost = census.lost_units > 0;
            let all = drives > 2 && shape.lanes == 6 && shape.first == Level::RAID6;
            assert!(is_lost || !all, "{shape:?}");
            assert!(!is_lost || drives > 2, "{:?}", census.lost);
            mirrored += u64::from(is_lost && shape.first == Level::TRIPLE);
            assert_settled(shape, &census, &[], &bad, &mut lanes, &mut oracle);
        }
    }
    assert!(mirrored > 0, "{mirrored}");
}

/// Tests damage at different positions in chunks: a block is recovered from the blocks at the same
/// position in other chunks.
#[test]
fn each_block_follows_from_those_beside_it() {
    for shape in SHAPES {
        println!("{shape:?}");
        let mut oracle = Oracle::new(shape.mix(), 0, 3);
        let mut media = begun(shape, 3, &mut oracle, 300);
        for (lane, medium) in media.iter_mut().take(4).enumerate() {
            rot(shape, medium, |block| block == lane as u64 / 2);
        }
        let mut lanes = sound(media, 3);
        let (census, failed) = read_all(shape.found(&[]), &mut lanes, &mut oracle);
        assert_eq!((census.lost_units, failed), (0, 0), "{:?}", census.lost);
        let (census, _) = checked(shape.found(&[]), &mut lanes, &mut oracle);
        assert_settled(shape, &census, &[], &[], &mut lanes, &mut oracle);
        // Full redundancy is restored, so any other two drives may be missing.
        let (_, failed) = read_all(shape.found(&[4, 5]), &mut lanes, &mut oracle);
        assert_eq!(failed, 0);
    }
}

#[test]
fn undetectable_rot_is_lost_and_nothing_else() {
    let (mut lost, mut partly) = (0, 0);
    for shape in SHAPES.iter().filter(|shape| shape.units < 100) {
        for (seed, one_in) in (0..longer(3)).zip([3, 6, 10].into_iter().cycle()) {
            println!("{shape:?}, seed {seed}, one block in {one_in}");
            let mut oracle = Oracle::new(shape.mix(), 0, seed);
            let mut media = begun(shape, seed, &mut oracle, 300);
            let mut state = seed;
            for medium in &mut media {
                rot(shape, medium, |_| random(&mut state).is_multiple_of(one_in));
            }
            // Either clients find the damage, or a check does.
            let mut lanes = sound(media.clone(), seed);
            let (read, failed) = read_all(shape.found(&[]), &mut lanes, &mut oracle.clone());
            assert_eq!(failed, lost_places(&read), "what reads find is known");
            lanes = sound(media, seed);
            let (census, _) = checked(shape.found(&[]), &mut lanes, &mut oracle);
            assert_eq!(ranges(&census), ranges(&read));
            let all: Vec<usize> = (0..shape.lanes.into()).collect();
            assert_settled(shape, &census, &[], &all, &mut lanes, &mut oracle);
            lost += census.lost_units;
            let unit_bytes = shape.geometry().unit_bytes();
            partly += u64::from(census.lost_bytes < census.lost_units * unit_bytes);
            // Clients continue in the meantime. Acknowledged data must be read back, also after a
            // power cut.
            let troubles = Troubles { cut_after: Some(2000), ..Troubles::default() };
            lanes.trouble(troubles);
            oracle.more(400);
            let _ = run(&mut over(shape.found(&[])), &mut lanes, &mut oracle, &mut ());
            let media = lanes.cut(Tear::Page);
            oracle.cut();
            let mut lanes = sound(media, seed);
            let (census, failed) = read_all(shape.found(&[]), &mut lanes, &mut oracle);
            assert_eq!(failed, lost_places(&census));
            overwrite(shape, &mut lanes, &mut oracle);
        }
    }
    assert!(lost > 100 && partly > 10, "{lost}, {partly}");
}

/// Checks that a lost range is intact again once it has been overwritten completely.
fn overwrite(shape: &Shape, lanes: &mut Crash, oracle: &mut Oracle) {
    let unit = shape.geometry().unit_bytes() / 512;
    let units = shape.mix().sectors / unit;
    let mut script: Vec<_> =
        (0..units).map(|at| (Op::Write, Flags::NONE, at * unit, unit)).collect();
    script.push((Op::Flush, Flags::NONE, 0, 0));
    let failed = oracle.failed;
    oracle.ask(&script);
    let (census, _) = opened(shape.found(&[]), lanes, oracle);
    assert_eq!((census.lost_units, oracle.failed), (0, failed), "{:?}", census.lost);
    let (census, failed) = read_all(shape.found(&[]), lanes, oracle);
    assert_eq!((census.lost_units, failed), (0, 0));
}

#[test]
fn returning_drives_restore_lost_blocks() {
    for shape in SHAPES.iter().filter(|shape| !shape.adapts && shape.first == Level::RAID6) {
        for third in [2, usize::from(shape.lanes) - 1] {
            println!("{shape:?}, {third}");
            let mut oracle = Oracle::new(shape.mix(), 0, 3);
            let mut media = begun(shape, 3, &mut oracle, 300);
            rot(shape, &mut media[third], |block| block == 1);
            let mut lanes = sound(media, 3);
            let (census, _) = checked(shape.found(&[0, 1]), &mut lanes, &mut oracle);
            assert!(census.lost_units > 0 || shape.lanes > 6);
            assert_settled(shape, &census, &[0, 1], &[0, 1, third], &mut lanes, &mut oracle);
            let (census, _) = checked(shape.found(&[]), &mut lanes, &mut oracle);
            assert_eq!(census.lost_units, 0, "{:?}", census.lost);
            let (_, failed) = read_all(shape.found(&[]), &mut lanes, &mut oracle);
            assert_eq!(failed, 0);
        }
    }
}

/// Tests blocks that drives cannot read temporarily: they count as lost until they can be read
/// again.
#[test]
fn blocks_that_drives_refuse_are_lost_until_they_are_read() {
    let mut lost = 0;
    for shape in SHAPES.iter().filter(|shape| !shape.adapts) {
        println!("{shape:?}");
        let mut oracle = Oracle::new(shape.mix(), 0, 3);
        let media = begun(shape, 3, &mut oracle, 300);
        let geometry = shape.geometry();
        let first = geometry.lane_bytes() - u64::from(geometry.cells) * geometry.cell_bytes();
        // Only a few cells are bad, because drives with more errors would be given up.
        let cells = (6..14).map(|cell| first + cell * geometry.cell_bytes());
        let bad = cells.flat_map(|at| (0..6).map(move |lane| (lane, at + BLOCK))).collect();
        let mut lanes = Crash::new(media, 4096, 4, 3, Troubles { bad, ..Troubles::default() });
        let (census, _) = checked(shape.found(&[]), &mut lanes, &mut oracle);
        lost += census.lost_units;
        assert!(census.drives.iter().all(|drive| drive.is_present), "{:?}", census.drives);
        let (_, failed) = read_all(shape.found(&[]), &mut lanes, &mut oracle);
        assert_eq!(failed, lost_places(&census));
        lanes.soothe();
        let (census, _) = checked(shape.found(&[]), &mut lanes, &mut oracle);
        assert_eq!(census.lost_units, 0, "{:?}", census.lost);
        let (_, failed) = read_all(shape.found(&[]), &mut lanes, &mut oracle);
        assert_eq!(failed, 0);
    }
    assert!(lost > 2, "{lost}");
}
