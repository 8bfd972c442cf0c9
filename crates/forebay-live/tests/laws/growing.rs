//! Tests the laws of contents on arrays that grow, with new and with larger drives, and with power
//! cuts while they grow.

use forebay_core::stack::array::{Array, Census, DriveKind, Geometry, Level};
use forebay_core::{Flags, Op};
use forebay_live::run;
use forebay_rig::{Crash, Medium, Tear, Troubles};

use crate::laws::array::{SHAPES, Shape, begun, drive, over, sound};
use crate::laws::oracle::Oracle;
use crate::laws::random;

const NEW: usize = 2;

/// The shapes, each with the number of cells per drive, which is larger than when the array was
/// created. The tables grow to twice as many pages, or from four pages to seven.
fn shapes() -> [(Shape, u32); 3] {
    let shape = Shape { units: 130, ..SHAPES[0] };
    let mirrored = Shape { first: Level::TRIPLE, ..shape };
    [(shape, 260), (mirrored, 400), (Shape { units: 130, ..SHAPES[5] }, 400)]
}

/// Returns the existing array with the new drives, but without the drives on these lanes.
fn found((shape, cells): &(Shape, u32), away: &[usize]) -> Array {
    let lanes = usize::from(shape.lanes) + NEW;
    let number = |lane: usize| if away.contains(&lane) { 0 } else { lane as u8 + 1 };
    let numbers: Vec<u8> = (0..lanes).map(number).collect();
    let array = Array::found(shape.geometry(), shape.first, &numbers);
    shape.ruled(array.with_cells(&vec![*cells; lanes]))
}

/// Runs until all work is done, then cuts the power. Returns the state and geometry of the array,
/// and the media.
fn run_out(
    array: Array,
    media: Vec<Medium>,
    oracle: &mut Oracle,
) -> (Census, Geometry, Vec<Medium>) {
    let mut lanes = sound(media, 6);
    let mut policy = over(array);
    oracle.settle();
    run(&mut policy, &mut lanes, oracle, &mut ()).unwrap();
    assert_eq!(oracle.failed, 0, "failures are told");
    oracle.cut();
    (policy.placement().census(), *policy.placement().geometry(), lanes.cut(Tear::Page))
}

#[test]
fn an_array_grows_whenever_the_power_is_cut() {
    let mut cuts = 0;
    let every = if forebay_testing::laws_times().is_some() { 1 } else { 5 };
    for all in &shapes() {
        let shape = &all.0;
        for seed in (0..10).step_by(every) {
            println!("{shape:?}, seed {seed}");
            let (mut state, mut oracle) = (seed, Oracle::new(shape.mix(), 0, seed));
            let mut media = begun(shape, seed, &mut oracle, 400);
            media.extend((0..NEW).map(|new| Medium::new(77 + new as u64)));
            // Drives that are merely present do not become members of the array.
            let (census, _, after) = run_out(found(all, &[]), media, &mut oracle);
            assert_eq!(census.members.len(), 6);
            media = after;
            for _ in 0..2 {
                let cut_after = Some(random(&mut state) % 1200);
                let troubles = Troubles { cut_after, ..Troubles::default() };
                let mut lanes = Crash::new(media, 4096, 4, random(&mut state), troubles);
                oracle.more(100);
                let mut policy = over(found(all, &[]).growing(DriveKind::Hdd).mending());
                cuts += u32::from(run(&mut policy, &mut lanes, &mut oracle, &mut ()).is_err());
                media = lanes.cut(Tear::Page);
                oracle.cut();
                let (census, _, after) = run_out(found(all, &[]), media, &mut oracle);
                // Two members may be missing. (New drives that are not members would have to take
                // their places, so they are absent.)
                let mut away: Vec<usize> = (census.members.len()..8).collect();
                away.extend([0, 1].map(|_| (random(&mut state) % 6) as usize));
                (_, _, media) = run_out(found(all, &away), after, &mut oracle);
            }
            // When the opening is answered, the array has its full size, and keeps it when it is
            // opened again.
            let (census, grown, after) =
                run_out(found(all, &[]).growing(DriveKind::Hdd).mending(), media, &mut oracle);
            media = after;
            assert!(grown.units > shape.units * 19 / 10, "{grown:?}");
            let free = census.drives.iter().map(|drive| drive.free_cells);
            let uneven = free.clone().max().unwrap() - free.min().unwrap();
            assert!(shape.adapts || uneven <= 40, "{census:?}");
            // Each opening writes one record, so old and new pages overlap in all possible ways.
            for _ in 0..=seed {
                let (_, again, after) = run_out(found(all, &[]), media, &mut oracle);
                assert_eq!(again.units, grown.units);
                media = after;
            }
            // After the whole array has been written, any two drives may be missing.
            oracle.widen(grown.capacity_bytes() / 512 / 16 * 16);
            let mut lanes = sound(media, seed);
            oracle.more(600);
            drive(found(all, &[]), &mut lanes, &mut oracle);
            media = lanes.cut(Tear::Sector);
            oracle.cut();
            let away = [0, 1].map(|_| (random(&mut state) % 8) as usize);
            println!("without {away:?}");
            run_out(found(all, &away), media, &mut oracle);
        }
    }
    assert!(cuts > 4, "{cuts} cuts are too few");
}

#[test]
fn growing_on_drives_without_space_ends_and_is_reported() {
    let mut told = 0;
    for all in &shapes() {
        let shape = &all.0;
        for from in [50, 100, 200, 400, 800] {
            println!("{shape:?}, from {from}");
            let mut oracle = Oracle::new(shape.mix(), 0, from);
            let mut media = begun(shape, from, &mut oracle, 400);
            media.extend((0..NEW).map(|new| Medium::new(77 + new as u64)));
            // A run that never ends is cut off.
            let (full, cut_after) = (Some((from, u64::MAX)), Some(300_000));
            let troubles = Troubles { full, cut_after, ..Troubles::default() };
            let mut lanes = Crash::new(media, 4096, 4, from, troubles);
            oracle.ask(&[(Op::Open, Flags::NONE, 0, 0)]);
            let mut policy = over(found(all, &[]).growing(DriveKind::Hdd).mending());
            run(&mut policy, &mut lanes, &mut oracle, &mut ()).expect("it ends");
            assert_eq!(oracle.outstanding(), 0, "the opening was never answered");
            told += oracle.failed;
            // Growing continues once there is space.
            let media = lanes.cut(Tear::Page);
            oracle.cut();
            let mut lanes = sound(media, 6);
            oracle.failed = 0;
            oracle.settle();
            drive(found(all, &[]).growing(DriveKind::Hdd).mending(), &mut lanes, &mut oracle);
            assert_eq!(oracle.failed, 0, "nothing is lost");
        }
    }
    assert!(told > 3, "{told}");
}
