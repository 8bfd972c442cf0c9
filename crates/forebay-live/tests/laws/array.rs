//! The laws of content on arrays: drives that fail, err and lose power, with any that the levels tolerate
//! missing.

use forebay_core::catalog::build;
use forebay_core::stack::array::{Array, Geometry, Level, Update};
use forebay_core::stack::placed::Placed;
use forebay_core::{Lane, Policy};
use forebay_live::{Crash, Medium, Tear, Troubles, run};

use crate::oracle::{Mix, Oracle};
use crate::random;

const CHUNK: u32 = 8192;

/// An array of these levels and sizes.
#[derive(Clone, Copy, Debug)]
struct Shape {
    lanes: u16,
    chunks: u8,
    first: Level,
    units: u64,
    spare: u32,
}

const SHAPES: &[Shape] = &[
    Shape { lanes: 6, chunks: 4, first: Level::RAID6, units: 24, spare: 8 },
    Shape { lanes: 6, chunks: 4, first: Level::TRIPLE, units: 24, spare: 40 },
    // Mirrors that run out of room, and hardly any room at all.
    Shape { lanes: 6, chunks: 4, first: Level::TRIPLE, units: 24, spare: 20 },
    Shape { lanes: 6, chunks: 4, first: Level::RAID6, units: 24, spare: 2 },
    // More drives than a unit needs.
    Shape { lanes: 8, chunks: 3, first: Level::RAID6, units: 30, spare: 8 },
    Shape { lanes: 7, chunks: 5, first: Level::Mirrored { copies: 3 }, units: 12, spare: 40 },
];

impl Shape {
    fn geometry(&self) -> Geometry {
        let sizes = Geometry {
            volume: 0xF0,
            lanes: self.lanes,
            chunk_bytes: CHUNK,
            chunks: self.chunks,
            copies_max: 3,
            units: self.units,
            cells: 0,
            update: Update::Fresh,
        };
        Geometry::new(sizes, Level::RAID6, self.spare).unwrap()
    }

    fn mix(&self) -> Mix {
        let sectors = self.geometry().capacity_bytes() / 512 / 16 * 16;
        Mix { disks: 1, sectors, unit: 16, trims: true, anything_from: sectors }
    }

    fn media(&self, seed: u64) -> Vec<Medium> {
        (0..self.lanes).map(|lane| Medium::new(seed ^ u64::from(lane))).collect()
    }
}

fn over(array: Array) -> Placed<Array, Box<dyn Policy + Send>> {
    let lanes = array.geometry().lanes;
    Placed::over(array, (0..lanes).map(|_| build("noop", 1 << 20).unwrap()).collect())
}

fn drive(array: Array, lanes: &mut Crash, oracle: &mut Oracle) {
    let mut policy = over(array);
    run(&mut policy, lanes, oracle, &mut ()).unwrap();
    assert!(policy.is_idle(), "I/Os were never answered");
    assert_eq!(oracle.outstanding(), 0, "requests were never answered");
}

/// What may go wrong without anybody being told.
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
    for shape in SHAPES {
        for seed in 0..24 {
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
    assert!(checked > 100_000, "{checked} sectors are too few");
}

#[test]
fn an_array_is_found_after_a_cut_with_drives_missing() {
    let mut cuts = 0;
    for shape in SHAPES {
        for seed in 0..20 {
            println!("{shape:?}, seed {seed}");
            let (mut state, mut oracle) = (seed, Oracle::new(shape.mix(), 0, seed));
            let geometry = shape.geometry();
            let mut lanes = Crash::new(shape.media(seed), 4096, 4, seed, Troubles::default());
            oracle.more(20);
            drive(Array::created(geometry, shape.first), &mut lanes, &mut oracle);
            let tear = if seed % 2 == 0 { Tear::Sector } else { Tear::Page };
            let mut media = lanes.cut(tear);
            oracle.cut();
            for round in 0..4 {
                println!("round {round}");
                let cut_after = Some(random(&mut state) % 3000);
                let troubles = Troubles { cut_after, ..Troubles::default() };
                let mut lanes = Crash::new(media, 4096, 4, random(&mut state), troubles);
                oracle.more(1000);
                let (array, _) = found(shape, &mut state, &mut lanes, 0);
                let mut policy = over(array);
                cuts += u64::from(run(&mut policy, &mut lanes, &mut oracle, &mut ()).is_err());
                media = lanes.cut(tear);
                oracle.cut();
                let mut lanes = Crash::new(media, 4096, 4, seed, Troubles::default());
                // Up to two drives are away.
                let away = random(&mut state) % 3;
                let (array, _) = found(shape, &mut state, &mut lanes, away);
                oracle.settle();
                drive(array, &mut lanes, &mut oracle);
                assert_eq!(oracle.failed, 0, "failures are told");
                media = lanes.cut(tear);
                oracle.cut();
            }
        }
    }
    assert!(cuts > 200, "{cuts} cuts are too few");
}

/// The array again, without some of its drives.
fn found(shape: &Shape, state: &mut u64, _lanes: &mut Crash, away: u64) -> (Array, Vec<usize>) {
    let mut numbers: Vec<u8> = (1..=shape.lanes as u8).collect();
    let mut missing = Vec::new();
    for _ in 0..away {
        let lane = (random(state) % u64::from(shape.lanes)) as usize;
        numbers[lane] = 0;
        missing.push(lane);
    }
    (Array::found(shape.geometry(), shape.first, &numbers), missing)
}
