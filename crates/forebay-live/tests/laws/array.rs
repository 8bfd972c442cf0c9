//! Tests the laws of contents on arrays: drives fail, return errors and lose power, and as many
//! drives are missing as the levels tolerate.

use std::panic::{AssertUnwindSafe, catch_unwind};

use forebay_core::adapt::{BonusMalus, Costs, Factor, First};
use forebay_core::catalog::build;
use forebay_core::stack::array::{Array, Geometry, Level, Update};
use forebay_core::stack::placed::Placed;
use forebay_core::{Lane, Policy};
use forebay_live::run;
use forebay_rig::{Crash, Lie, Medium, Tear, Troubles};

use crate::laws::oracle::{Mix, Oracle};
use crate::laws::{longer, random};

const CHUNK: u32 = 8192;

/// The levels and sizes of an array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) lanes: u16,
    pub(crate) chunks: u8,
    pub(crate) first: Level,
    pub(crate) units: u64,
    pub(crate) spare: u32,
    /// Whether levels adapt to the workload, which makes them change often.
    pub(crate) adapts: bool,
}

pub(crate) const SHAPES: &[Shape] = &[
    Shape { lanes: 6, chunks: 4, first: Level::RAID6, units: 24, spare: 8, adapts: false },
    Shape { lanes: 6, chunks: 4, first: Level::TRIPLE, units: 24, spare: 40, adapts: false },
    // Mirrors that run out of space, and an array with hardly any spare space.
    Shape { lanes: 6, chunks: 4, first: Level::TRIPLE, units: 24, spare: 20, adapts: false },
    Shape { lanes: 6, chunks: 4, first: Level::RAID6, units: 24, spare: 2, adapts: false },
    // An array whose table has several pages.
    Shape { lanes: 6, chunks: 4, first: Level::RAID6, units: 130, spare: 8, adapts: false },
    // Arrays whose levels change.
    Shape { lanes: 6, chunks: 4, first: Level::RAID6, units: 24, spare: 60, adapts: true },
    Shape { lanes: 6, chunks: 4, first: Level::TRIPLE, units: 24, spare: 22, adapts: true },
    Shape { lanes: 9, chunks: 4, first: Level::RAID6, units: 24, spare: 40, adapts: true },
    // Arrays with more drives than a unit needs.
    Shape { lanes: 8, chunks: 3, first: Level::RAID6, units: 30, spare: 8, adapts: false },
    Shape {
        lanes: 7,
        chunks: 5,
        first: Level::Mirrored { copies: 3 },
        units: 12,
        spare: 40,
        adapts: false,
    },
];

/// Shapes whose levels tolerate the loss of none, one or three drives.
pub(crate) const OTHERS: &[Shape] = &[
    Shape { lanes: 5, chunks: 4, first: Level::Striped { parities: 0 }, ..SHAPES[0] },
    Shape { lanes: 6, chunks: 4, first: Level::Striped { parities: 1 }, ..SHAPES[0] },
    Shape { lanes: 5, chunks: 4, first: Level::Mirrored { copies: 2 }, ..SHAPES[0] },
    Shape { lanes: 6, chunks: 4, first: Level::Mirrored { copies: 4 }, ..SHAPES[0] },
];

impl Shape {
    pub(crate) fn geometry(&self) -> Geometry {
        let sizes = Geometry {
            volume: 0xF0,
            lanes: self.lanes,
            chunk_bytes: CHUNK,
            chunks: self.chunks,
            copies_max: if self.first.tolerates() == 3 { 4 } else { 3 },
            units: self.units,
            cells: 0,
            ring: 0,
            update: Update::Fresh,
        };
        let leanest = if self.first.tolerates() == 2 { Level::RAID6 } else { self.first };
        Geometry::new(sizes, leanest, self.spare).unwrap()
    }

    pub(crate) fn mix(&self) -> Mix {
        let sectors = self.geometry().capacity_bytes() / 512 / 16 * 16;
        Mix { disks: 1, sectors, unit: 16, trims: true, anything_from: sectors }
    }

    fn media(&self, seed: u64) -> Vec<Medium> {
        (0..self.lanes).map(|lane| Medium::new(seed ^ u64::from(lane))).collect()
    }
}

impl Shape {
    pub(crate) fn ruled(&self, array: Array) -> Array {
        if !self.adapts {
            return array;
        }
        // With a quarter of the paper's thresholds, every other write switches the level.
        let rule = BonusMalus::new(Factor { times: 1, over: 4 });
        let levels = vec![Level::RAID6, Level::TRIPLE];
        array.adapting(rule, [Costs::paper_hdd(), Costs::paper_hdd()], First::Fixed(0), levels)
    }

    fn created(&self) -> Array {
        self.ruled(Array::created(self.geometry(), self.first))
    }

    /// Returns the existing array without the drives on these lanes.
    pub(crate) fn found(&self, away: &[usize]) -> Array {
        let number = |lane: usize| if away.contains(&lane) { 0 } else { lane as u8 + 1 };
        let numbers: Vec<u8> = (0..self.lanes.into()).map(number).collect();
        self.ruled(Array::found(self.geometry(), self.first, &numbers))
    }

    /// Returns random lanes, at most as many as may be missing.
    pub(crate) fn away(&self, state: &mut u64) -> Vec<usize> {
        let count = random(state) % (self.first.tolerates() as u64 + 1);
        (0..count).map(|_| (random(state) % u64::from(self.lanes)) as usize).collect()
    }
}

pub(crate) fn over(array: Array) -> Placed<Array, Box<dyn Policy + Send>> {
    let lanes = array.lanes();
    Placed::over(array, (0..lanes).map(|_| build("noop", 1 << 20).unwrap()).collect())
}

pub(crate) fn drive(array: Array, lanes: &mut Crash, oracle: &mut Oracle) {
    let mut policy = over(array);
    run(&mut policy, lanes, oracle, &mut ()).unwrap();
    assert!(policy.is_idle(), "I/Os were never answered");
    assert_eq!(oracle.outstanding(), 0, "requests were never answered");
}

/// Returns the faults for a seed, all of which the array must hide from clients.
fn troubles(seed: u64, lanes: u16) -> Troubles {
    let some = |one_in| if seed % 3 == 1 { one_in } else { 0 };
    let mut state = seed;
    let mut lane = || (random(&mut state) % u64::from(lanes)) as Lane;
    let gone = match seed % 4 {
        1 => vec![(lane(), 500)],
        2 => vec![(lane(), 300), (lane(), 900)],
        3 => vec![(lane(), 0), (lane(), 400)],
        _ => Vec::new(),
    };
    Troubles {
        reads_one_in: some(60),
        writes_one_in: some(60),
        flushes_one_in: some(40),
        gone,
        ..Troubles::default()
    }
}

#[test]
fn an_array_answers_whatever_drives_fail() {
    let mut checked = 0;
    for (shape, nth) in SHAPES.iter().zip(0..) {
        // The faults repeat after twelve seeds. Each shape is tested with a few of them in turn, or
        // with all of them in long runs.
        for seed in 4 * nth..4 * nth + longer(4) {
            println!("{shape:?}, seed {seed}");
            let array = Array::created(shape.geometry(), shape.first);
            let depth = 1 + seed as usize % 4;
            let trouble = troubles(seed, shape.lanes);
            let mut lanes = Crash::new(shape.media(seed), 4096, depth, seed, trouble);
            let mut oracle = Oracle::new(shape.mix(), 600, seed);
            drive(array, &mut lanes, &mut oracle);
            if seed % 3 != 1 {
                assert_eq!(oracle.failed, 0, "failures are told");
            }
            assert_eq!(lanes.pool().live(), 0, "a buffer is left");
            checked += oracle.checked;
        }
    }
    assert!(checked > longer(30_000), "{checked} sectors are too few");
}

#[test]
fn drives_without_space_are_waited_for_and_kept() {
    let mut told = 0;
    for shape in SHAPES {
        // The fault lasts for some passes, or forever.
        for (seed, until) in (0..4).zip([150, 300, 500, u64::MAX]) {
            println!("{shape:?}, seed {seed}, until {until}");
            let trouble = Troubles { full: Some((100, until)), ..Troubles::default() };
            let mut lanes = Crash::new(shape.media(seed), 4096, 4, seed, trouble);
            let mut oracle = Oracle::new(shape.mix(), 300, seed);
            let mut policy = over(shape.created());
            run(&mut policy, &mut lanes, &mut oracle, &mut ()).unwrap();
            assert_eq!(oracle.outstanding(), 0, "requests were never answered");
            assert_eq!(oracle.failed > 0, until == u64::MAX, "{} failed", oracle.failed);
            let drives = policy.placement().census().drives;
            assert!(drives.iter().all(|drive| drive.is_present && drive.faults == 0));
            told += oracle.failed;
            lanes.soothe();
            let failed = oracle.failed;
            oracle.settle();
            run(&mut policy, &mut lanes, &mut oracle, &mut ()).unwrap();
            oracle.more(200);
            run(&mut policy, &mut lanes, &mut oracle, &mut ()).unwrap();
            assert_eq!(oracle.failed, failed, "there is space");
            let media = lanes.cut(Tear::Sector);
            oracle.cut();
            let mut lanes = sound(media, seed);
            oracle.settle();
            drive(shape.found(&[]), &mut lanes, &mut oracle);
            assert_eq!(oracle.failed, failed, "failures are told");
        }
    }
    assert!(told > 100, "{told}");
}

#[test]
fn an_array_that_is_found_on_drives_without_space_waits_to_be_opened() {
    for shape in SHAPES {
        for (seed, until) in (0..3).zip([60, 90, u64::MAX]) {
            println!("{shape:?}, seed {seed}, until {until}");
            let mut oracle = Oracle::new(shape.mix(), 0, seed);
            let media = begun(shape, seed, &mut oracle, 200);
            let trouble = Troubles { full: Some((0, until)), ..Troubles::default() };
            let mut lanes = Crash::new(media, 4096, 4, seed, trouble);
            oracle.more(100);
            let mut policy = over(shape.found(&[]));
            run(&mut policy, &mut lanes, &mut oracle, &mut ()).unwrap();
            assert_eq!(oracle.outstanding(), 0, "requests were never answered");
            assert_eq!(oracle.failed > 0, until == u64::MAX, "{} failed", oracle.failed);
            assert_eq!(oracle.gone, 0, "a drive without space is not gone");
            assert_eq!(lanes.pool().live(), 0, "a buffer is left");
            let failed = oracle.failed;
            let media = lanes.cut(Tear::Sector);
            oracle.cut();
            let mut lanes = sound(media, seed);
            oracle.settle();
            drive(shape.found(&[]), &mut lanes, &mut oracle);
            assert_eq!(oracle.failed, failed, "all is there");
        }
    }
}

/// Returns lanes without faults.
pub(crate) fn sound(media: Vec<Medium>, seed: u64) -> Crash {
    Crash::new(media, 4096, 4, seed, Troubles::default())
}

/// Creates an array and executes some requests.
pub(crate) fn begun(shape: &Shape, seed: u64, oracle: &mut Oracle, requests: u64) -> Vec<Medium> {
    let mut lanes = sound(shape.media(seed), seed);
    oracle.more(requests);
    drive(shape.created(), &mut lanes, oracle);
    let media = lanes.cut(Tear::Sector);
    oracle.cut();
    media
}

/// Runs until a power cut, then checks that all required data is found with drives missing. Returns
/// whether the power was cut before the end of the run.
fn cut_once(
    shape: &Shape,
    state: &mut u64,
    media: Vec<Medium>,
    oracle: &mut Oracle,
    lies: Option<Lie>,
) -> (bool, Vec<Medium>) {
    let tear = if random(state).is_multiple_of(2) { Tear::Sector } else { Tear::Page };
    let away = shape.away(state);
    // If all drives are present, one drive may lose writes since its last flush, and report that.
    let errs = away.is_empty() && shape.first.tolerates() > 0 && lies.is_none();
    let errs = errs.then(|| (random(state) % u64::from(shape.lanes)) as usize);
    let troubles = Troubles {
        cut_after: Some(random(state) % 3000),
        lies,
        lane: errs.map(|lane| lane as Lane),
        flushes_one_in: if errs.is_some() { 5 } else { 0 },
        ..Troubles::default()
    };
    let mut lanes = Crash::new(media, 4096, 4, random(state), troubles);
    oracle.more(1000);
    let mut policy = over(shape.found(&away));
    let is_cut = run(&mut policy, &mut lanes, oracle, &mut ()).is_err();
    let media = lanes.cut(tear);
    oracle.cut();
    let mut lanes = sound(media, random(state));
    // Missing drives may be back, and others may be missing, as long as they are no more than the
    // level tolerates.
    let away = match errs {
        // A drive that lost writes counts as missing: no more drives than these failed, so a level
        // that tolerates their number has all data. (If a drive lost one part of a unit, no other
        // part of the unit is on that drive.)
        Some(lane) => {
            [lane].into_iter().chain(shape.away(state)).take(shape.first.tolerates()).collect()
        }
        None if away.is_empty() => shape.away(state),
        None => away,
    };
    let away = if random(state).is_multiple_of(2) { away } else { Vec::new() };
    oracle.settle();
    let failed = oracle.failed;
    drive(shape.found(&away), &mut lanes, oracle);
    assert_eq!(oracle.failed, failed, "failures are told");
    let media = lanes.cut(tear);
    oracle.cut();
    // All drives are back, and the data that they missed is restored.
    let mut lanes = sound(media, random(state));
    oracle.settle();
    drive(shape.found(&[]).mending(), &mut lanes, oracle);
    let media = lanes.cut(tear);
    oracle.cut();
    (is_cut, media)
}

#[test]
fn an_array_is_found_after_a_cut_with_drives_missing() {
    let mut cuts = 0;
    let seeds = if longer(1) > 1 { longer(3) } else { 1 };
    for shape in SHAPES.iter().chain(OTHERS) {
        for seed in 0..seeds {
            println!("{shape:?}, seed {seed}");
            let (mut state, mut oracle) = (seed, Oracle::new(shape.mix(), 0, seed));
            let mut media = begun(shape, seed, &mut oracle, 20);
            for round in 0..4 {
                println!("round {round}");
                let (is_cut, after) = cut_once(shape, &mut state, media, &mut oracle, None);
                (media, cuts) = (after, cuts + u64::from(is_cut));
            }
        }
    }
    assert!(cuts > longer(25), "{cuts} cuts are too few");
}

#[test]
fn without_its_flushes_or_records_an_array_would_not_be_found() {
    let shape = &SHAPES[0];
    for lie in [Lie::Flushes, Lie::Durable, Lie::Lost] {
        let is_caught = (0..60).any(|seed| {
            let (mut state, mut oracle) = (seed, Oracle::new(shape.mix(), 0, seed));
            let media = begun(shape, seed, &mut oracle, 20);
            let cut = || cut_once(shape, &mut state, media, &mut oracle, Some(lie));
            catch_unwind(AssertUnwindSafe(cut)).is_err()
        });
        assert!(is_caught, "{lie:?} changes nothing");
    }
}

#[test]
fn all_data_are_readable_with_any_tolerated_drives_missing() {
    for shape in SHAPES.iter().filter(|shape| shape.lanes == 6).chain(OTHERS) {
        let mut oracle = Oracle::new(shape.mix(), 0, 5);
        let mut media = begun(shape, 5, &mut oracle, 400);
        let tolerated =
            |set: &u32| (1..=shape.first.tolerates()).contains(&(set.count_ones() as usize));
        for set in (0..1 << shape.lanes).filter(tolerated) {
            let away: Vec<usize> =
                (0..shape.lanes.into()).filter(|lane| set >> lane & 1 == 1).collect();
            let mut lanes = sound(media, 7);
            oracle.settle();
            drive(shape.found(&away), &mut lanes, &mut oracle);
            assert_eq!(oracle.failed, 0, "{shape:?} without {away:?}");
            media = lanes.cut(Tear::Page);
            oracle.cut();
        }
    }
}

#[test]
fn rot_is_found_and_repaired() {
    for shape in SHAPES {
        for seed in 0..6 {
            println!("{shape:?}, seed {seed}");
            let mut oracle = Oracle::new(shape.mix(), 0, seed);
            let mut media = begun(shape, seed, &mut oracle, 300);
            let mut state = seed;
            // Two drives are damaged in random places, one of them everywhere: data, parities,
            // trailers, records and labels.
            let bytes = shape.geometry().lane_bytes();
            let lanes = [0, 1].map(|_| (random(&mut state) % u64::from(shape.lanes)) as usize);
            for (lane, one_in) in lanes.into_iter().zip([1, 5]) {
                for page in (0..bytes / 4096).filter(|page| page % one_in == 0) {
                    let at = page * 4096 + random(&mut state) % 4096;
                    let mut byte = [0];
                    media[lane].read(at, &mut byte);
                    media[lane].write(at, &[byte[0] ^ 1], true);
                }
            }
            let mut lanes = sound(media, seed);
            oracle.settle();
            drive(shape.found(&[]), &mut lanes, &mut oracle);
            assert_eq!(oracle.failed, 0, "failures are told");
            // Everything is read and repaired; afterwards, any two drives may be missing.
            oracle.settle();
            drive(shape.found(&[]).scrubbing().mending(), &mut lanes, &mut oracle);
            let mut policy = over(shape.found(&[]).scrubbing().mending());
            oracle.settle();
            run(&mut policy, &mut lanes, &mut oracle, &mut ()).unwrap();
            let figure = |name| policy.figures().iter().find(|(it, _)| *it == name).unwrap().1;
            assert_eq!((figure("rotten_blocks"), figure("repaired_roles")), (0.0, 0.0));
            let media = lanes.cut(Tear::Sector);
            oracle.cut();
            let away = shape.away(&mut state);
            let mut lanes = sound(media, seed);
            oracle.settle();
            drive(shape.found(&away), &mut lanes, &mut oracle);
            assert_eq!(oracle.failed, 0, "failures are told");
        }
    }
}

#[test]
fn a_new_drive_takes_the_place_of_one_that_is_gone() {
    // With some of these seeds, arrays without much spare space have none while roles are restored.
    let seeds = (0..longer(1)).chain([3, 7, 11, 15, 16, 21, 22]);
    for (seed, shape) in seeds.flat_map(|seed| SHAPES.iter().map(move |shape| (seed, shape))) {
        println!("{shape:?}, seed {seed}");
        let mut oracle = Oracle::new(shape.mix(), 0, seed);
        let media = begun(shape, seed, &mut oracle, 300);
        // Drive 2 is replaced with an empty one, which has the next number.
        let numbers = |second: u8| {
            let of = |lane: u8| if lane == 1 { second } else { lane + 1 };
            (0..shape.lanes as u8).map(of).collect::<Vec<_>>()
        };
        let found = |second| {
            let numbers = numbers(second);
            shape.ruled(Array::found(shape.geometry(), shape.first, &numbers)).mending()
        };
        let new = shape.lanes as u8 + 1;
        let mut media = media;
        let old = std::mem::replace(&mut media[1], Medium::new(99));
        let mut lanes = sound(media, seed);
        oracle.more(100);
        let mut policy = over(found(new));
        run(&mut policy, &mut lanes, &mut oracle, &mut ()).unwrap();
        assert_eq!(oracle.outstanding(), 0, "requests were never answered");
        let census = policy.placement().census();
        assert_eq!(census.degraded_units, 0, "there is space for all roles: {census:?}");
        let mut media = lanes.cut(Tear::Page);
        oracle.cut();
        // The old drive is back, but its data must not be used.
        let replaced = std::mem::replace(&mut media[1], old);
        let mut lanes = sound(media, seed + 1);
        oracle.settle();
        drive(found(2), &mut lanes, &mut oracle);
        let mut media = lanes.cut(Tear::Page);
        oracle.cut();
        media[1] = replaced;
        // Any two other drives may be missing.
        let mut lanes = sound(media, seed + 2);
        let mut away = numbers(new);
        (away[0], away[2]) = (0, 0);
        oracle.settle();
        let array = Array::found(shape.geometry(), shape.first, &away);
        drive(shape.ruled(array), &mut lanes, &mut oracle);
        assert_eq!(oracle.failed, 0, "failures are told");
    }
}

#[test]
fn records_are_on_new_drives_too() {
    // The table has many pages, with records that are older than the drives that replaced others.
    let shape = &Shape { units: 1200, ..SHAPES[0] };
    for first in 0..6 {
        let mut oracle = Oracle::new(shape.mix(), 0, 3);
        let mut media = begun(shape, 3, &mut oracle, 40);
        let mut numbers: Vec<u8> = (1..=shape.lanes as u8).collect();
        for step in 0..2 {
            let lane = (first + step) % 6;
            (numbers[lane], media[lane]) = (7 + step as u8, Medium::new(lane as u64));
            let array = Array::found(shape.geometry(), shape.first, &numbers).mending();
            let mut lanes = sound(media, 5);
            oracle.more(1);
            drive(array, &mut lanes, &mut oracle);
            media = lanes.cut(Tear::Page);
            oracle.cut();
        }
        // The third drive with the record is missing.
        numbers[(first + 2) % 6] = 0;
        let mut lanes = sound(media, 9);
        oracle.more(200);
        drive(Array::found(shape.geometry(), shape.first, &numbers), &mut lanes, &mut oracle);
        assert_eq!(oracle.failed, 0, "failures are told");
    }
}
