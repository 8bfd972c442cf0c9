//! Tests the laws of contents on arrays that are opened although some of their records cannot be read, for a
//! while or for good, on as many drives as may fail.

use forebay_core::Lane;
use forebay_core::stack::array::{Array, Geometry};
use forebay_live::run;
use forebay_rig::{Crash, Medium, Tear, Troubles};

use crate::laws::array::{OTHERS, SHAPES, Shape, begun, drive, over, sound};
use crate::laws::oracle::Oracle;
use crate::laws::{longer, random};

/// The drives of an array, one of which may have been replaced by a new one.
struct Drives {
    numbers: Vec<u8>,
    media: Vec<Medium>,
}

impl Drives {
    fn found(&self, shape: &Shape) -> Array {
        shape.ruled(Array::found(shape.geometry(), shape.first, &self.numbers))
    }
}

/// Returns sectors of records of a drive: some anywhere, some among the newest ones, or all of a part of the
/// ring.
fn sectors(shape: &Shape, newest: u64, lane: Lane, state: &mut u64) -> Vec<(Lane, u64)> {
    let ring = shape.geometry().ring;
    let sector = |record: u64, half: u64| {
        (lane, 8192 + record % ring * Geometry::RECORD_BYTES + half % 2 * 4096)
    };
    let count = 1 + random(state) % 40;
    match random(state) % 4 {
        0 => (0..count).map(|_| sector(random(state), random(state))).collect(),
        1 => (0..count).map(|nth| sector(newest + 3 + ring - nth, random(state))).collect(),
        2 => {
            let from = random(state) % ring;
            (from..from + 200).map(|record| sector(record, 0)).collect()
        }
        _ => {
            let some = (0..count).map(|_| random(state) % 60).collect::<Vec<_>>();
            some.into_iter().map(|back| sector(newest + ring - back, random(state))).collect()
        }
    }
}

#[test]
fn records_that_cannot_be_read_on_as_many_drives_as_may_fail_lose_nothing() {
    let (mut cuts, mut checked) = (0, 0);
    // The same with a table of many pages.
    let long = [Shape { units: 600, ..SHAPES[0] }, Shape { units: 600, ..OTHERS[2] }];
    let shapes = SHAPES.iter().chain(OTHERS).chain(&long);
    for shape in shapes.filter(|shape| shape.first.tolerates() > 0) {
        for seed in 0..longer(6) {
            println!("{shape:?}, seed {seed}");
            let (mut state, mix) = (seed, shape.mix());
            let mut oracle = Oracle::new(mix, 0, seed);
            let media = begun(shape, seed, &mut oracle, 150);
            let mut drives = Drives { numbers: (1..=shape.lanes as u8).collect(), media };
            // Drives are absent for a while.
            let away = shape.away(&mut state);
            let mut lanes = sound(drives.media, seed);
            oracle.more(100);
            let mut policy = over(shape.found(&away));
            run(&mut policy, &mut lanes, &mut oracle, &mut ()).unwrap();
            let newest = policy.placement().census().record;
            drives.media = lanes.cut(Tear::Sector);
            oracle.cut();
            oracle.settle();
            let mut lanes = sound(drives.media, seed);
            drive(shape.found(&[]), &mut lanes, &mut oracle);
            drives.media = lanes.cut(Tear::Sector);
            oracle.cut();
            // One drive may have been replaced, and records of others cannot be read.
            let first = random(&mut state) as usize;
            let lane = |nth: usize| (first + nth) % usize::from(shape.lanes);
            let replaced = usize::from(random(&mut state).is_multiple_of(3));
            if replaced > 0 {
                let at = lane(0);
                (drives.numbers[at], drives.media[at]) = (shape.lanes as u8 + 1, Medium::new(99));
            }
            let lanes = (replaced..shape.first.tolerates()).map(|nth| lane(nth) as Lane);
            let bad = lanes.flat_map(|lane| sectors(shape, newest, lane, &mut state)).collect();
            let from = random(&mut state) % 400 * (random(&mut state) % 2);
            let until = from + random(&mut state) % 800;
            let bad_during = (!random(&mut state).is_multiple_of(3)).then_some((from, until));
            let cut_after =
                (!random(&mut state).is_multiple_of(3)).then(|| random(&mut state) % 2500);
            let troubles = Troubles { bad, bad_during, cut_after, ..Troubles::default() };
            let mut lanes = Crash::new(
                std::mem::take(&mut drives.media),
                4096,
                4,
                random(&mut state),
                troubles,
            );
            oracle.settle();
            let failed = oracle.failed;
            let mut policy = over(drives.found(shape));
            let is_cut = run(&mut policy, &mut lanes, &mut oracle, &mut ()).is_err();
            assert!(is_cut || policy.placement().census().is_open, "it opens");
            assert_eq!(oracle.failed, failed, "failures are told");
            cuts += u64::from(is_cut);
            drives.media = lanes.cut(Tear::Sector);
            oracle.cut();
            // Everything can be read again, and everything is there.
            let mut lanes = sound(std::mem::take(&mut drives.media), seed);
            oracle.settle();
            drive(drives.found(shape), &mut lanes, &mut oracle);
            assert_eq!(oracle.failed, failed, "failures are told");
            checked += oracle.checked;
        }
    }
    assert!(cuts >= longer(8) && checked > 10_000, "{cuts} cuts, {checked} sectors");
}
