//! The laws of content on arrays that grow: with new drives, larger ones, and the power cut on the way.

use forebay_core::Policy;
use forebay_core::stack::array::{Array, Geometry, Level};
use forebay_live::{Crash, Medium, Tear, Troubles, run};

use crate::array::{SHAPES, Shape, begun, drive, over, sound};
use crate::oracle::Oracle;
use crate::random;

/// Cells of each drive since drives are larger than the array was made for.
const CELLS: u32 = 400;
const NEW: usize = 2;

fn shapes() -> [Shape; 3] {
    let shape = Shape { units: 130, ..SHAPES[0] };
    [shape, Shape { first: Level::TRIPLE, ..shape }, Shape { units: 130, ..SHAPES[5] }]
}

/// The array with new drives, without those on these lanes.
fn found(shape: &Shape, away: &[usize]) -> Array {
    let lanes = usize::from(shape.lanes) + NEW;
    let number = |lane: usize| if away.contains(&lane) { 0 } else { lane as u8 + 1 };
    let numbers: Vec<u8> = (0..lanes).map(number).collect();
    let array = Array::found(shape.geometry(), shape.first, &numbers);
    shape.ruled(array.with_cells(&vec![CELLS; lanes]))
}

/// Runs until all is done; the array's sizes then.
fn run_out(array: Array, lanes: &mut Crash, oracle: &mut Oracle) -> (Geometry, f64) {
    let mut policy = over(array);
    run(&mut policy, lanes, oracle, &mut ()).unwrap();
    let moved = policy.figures().iter().find(|(name, _)| *name == "moved_roles").unwrap().1;
    (*policy.placement().geometry(), moved)
}

#[test]
fn an_array_grows_whenever_the_power_is_cut() {
    let (mut cuts, mut moved) = (0, 0.0);
    for shape in &shapes() {
        for seed in 0..12 {
            println!("{shape:?}, seed {seed}");
            let (mut state, mut oracle) = (seed, Oracle::new(shape.mix(), 0, seed));
            let mut media = begun(shape, seed, &mut oracle, 400);
            media.extend((0..NEW).map(|new| Medium::new(77 + new as u64)));
            for _ in 0..2 {
                let cut_after = Some(random(&mut state) % 1200);
                let troubles = Troubles { cut_after, ..Troubles::default() };
                let mut lanes = Crash::new(media, 4096, 4, random(&mut state), troubles);
                oracle.more(100);
                let mut policy = over(found(shape, &[]).growing().mending());
                cuts += u32::from(run(&mut policy, &mut lanes, &mut oracle, &mut ()).is_err());
                media = lanes.cut(Tear::Page);
                oracle.cut();
                // Whether it has the new drives yet or not, two of the old ones may be away.
                let mut lanes = sound(media, random(&mut state));
                let away = [0, 1].map(|_| (random(&mut state) % 6) as usize);
                oracle.settle();
                drive(found(shape, &away), &mut lanes, &mut oracle);
                assert_eq!(oracle.failed, 0, "failures are told");
                media = lanes.cut(Tear::Page);
                oracle.cut();
            }
            // Nobody asks for anything: it is as large as it can be when the opening is answered.
            let mut lanes = sound(media, seed);
            oracle.settle();
            let (grown, count) =
                run_out(found(shape, &[]).growing().mending(), &mut lanes, &mut oracle);
            moved += count;
            assert!(grown.units >= 2 * shape.units, "{} units", grown.units);
            media = lanes.cut(Tear::Page);
            oracle.cut();
            // All of it is written, then any two drives may be away.
            oracle.widen(grown.capacity_bytes() / 512 / 16 * 16);
            let mut lanes = sound(media, seed);
            oracle.more(600);
            drive(found(shape, &[]), &mut lanes, &mut oracle);
            media = lanes.cut(Tear::Sector);
            oracle.cut();
            let away = [0, 1].map(|_| (random(&mut state) % 8) as usize);
            let mut lanes = sound(media, seed);
            oracle.settle();
            let (again, _) = run_out(found(shape, &away), &mut lanes, &mut oracle);
            assert_eq!((oracle.failed, again.units), (0, grown.units), "without {away:?}");
        }
    }
    assert!(cuts > 30 && moved > 100.0, "{cuts} cuts, {moved} roles moved: too few");
}
