//! Tests the laws of contents on arrays whose drives go and return. A drive that returned has all records
//! once the array says so. Until then it never opens the array alone with an old state.

use forebay_core::Policy;
use forebay_core::stack::array::{Array, DriveKind, Geometry, Level, Update};
use forebay_live::run;
use forebay_rig::{Crash, Medium, Tear, Troubles};

use crate::laws::array::{over, sound};
use crate::laws::oracle::{Mix, Oracle};
use crate::laws::{longer, random};

/// An array whose table has so many pages that few of them are recorded while clients write.
#[derive(Clone, Copy, Debug)]
struct Returning {
    lanes: u16,
    chunks: u8,
    level: Level,
}

const SHAPES: [Returning; 5] = [
    Returning { lanes: 2, chunks: 4, level: Level::Mirrored { copies: 2 } },
    Returning { lanes: 3, chunks: 4, level: Level::TRIPLE },
    Returning { lanes: 4, chunks: 4, level: Level::TRIPLE },
    Returning { lanes: 4, chunks: 2, level: Level::RAID6 },
    Returning { lanes: 6, chunks: 4, level: Level::RAID6 },
];

impl Returning {
    fn geometry(&self) -> Geometry {
        let sizes = Geometry {
            volume: 0xF0,
            lanes: self.lanes,
            chunk_bytes: 4096,
            chunks: self.chunks,
            copies_max: 3,
            units: 12_000,
            cells: 0,
            ring: 0,
            update: Update::Fresh,
        };
        Geometry::new(sizes, self.level, 80).unwrap()
    }

    /// Only the first units are used.
    fn mix(&self) -> Mix {
        let sectors = 12 * self.geometry().unit_bytes() / 512;
        Mix { disks: 1, sectors, unit: 8, trims: true, anything_from: sectors }
    }

    fn found(&self, away: &[usize]) -> Array {
        let number = |lane: usize| if away.contains(&lane) { 0 } else { lane as u8 + 1 };
        let numbers: Vec<u8> = (0..self.lanes.into()).map(number).collect();
        Array::found(self.geometry(), self.level, &numbers)
    }

    /// Returns this many different lanes.
    fn some(&self, count: usize, state: &mut u64) -> Vec<usize> {
        let first = random(state) as usize;
        (0..count).map(|nth| (first + nth) % usize::from(self.lanes)).collect()
    }
}

/// An array after the power was cut.
struct Lived {
    is_open: bool,
    /// It has ended its work.
    is_whole: bool,
    /// It says that all drives have their records.
    has_records: bool,
    media: Vec<Medium>,
}

/// Executes requests on an array until the power is cut.
fn live(
    array: Array,
    media: Vec<Medium>,
    oracle: &mut Oracle,
    cut_after: Option<u64>,
    seed: u64,
) -> Lived {
    let mut lanes = Crash::new(media, 4096, 4, seed, Troubles { cut_after, ..Troubles::default() });
    let mut policy = over(array);
    let is_whole = run(&mut policy, &mut lanes, oracle, &mut ()).is_ok();
    let state = Policy::volume(&policy).unwrap();
    if is_whole {
        assert_eq!((state.lacking_chunks, state.records_left), (0, 0), "{state:?}");
        assert!(!state.lacks_records, "{state:?}");
    }
    let is_open = policy.placement().census().is_open;
    let media = lanes.cut(Tear::Sector);
    oracle.cut();
    Lived { is_open, is_whole, has_records: !state.lacks_records, media }
}

#[test]
fn a_drive_that_returned_opens_the_array_alone_with_all_data_or_not_at_all() {
    let (mut whole, mut refused, mut opened) = (0, 0, 0);
    for shape in SHAPES {
        for seed in 0..longer(8) {
            let mut state = seed;
            let most = shape.level.tolerates();
            let away = shape.some(1 + random(&mut state) as usize % most, &mut state);
            println!("{shape:?}, seed {seed}, without {away:?}");
            let mut oracle = Oracle::new(shape.mix(), 60, seed);
            let media: Vec<Medium> =
                (0..shape.lanes).map(|lane| Medium::new(seed ^ u64::from(lane))).collect();
            let new = Array::created(shape.geometry(), shape.level);
            let mut media = live(new, media, &mut oracle, None, seed).media;
            // The others continue for a while, some of them for a second time.
            for _ in 0..1 + random(&mut state) % 2 {
                oracle.more(40 + random(&mut state) % 100);
                let mut lanes = sound(media, random(&mut state));
                let mut policy = over(shape.found(&away));
                run(&mut policy, &mut lanes, &mut oracle, &mut ()).unwrap();
                assert_eq!(oracle.failed, 0);
                media = lanes.cut(Tear::Sector);
                oracle.cut();
            }
            // All drives are present, for a while or until all work is done.
            let cut_after = (!seed.is_multiple_of(3)).then(|| 100 + random(&mut state) % 400);
            oracle.more(random(&mut state) % 60);
            let all = match seed % 2 {
                0 => shape.found(&[]),
                // Growth does not hide that records are lacking.
                _ => shape.found(&[]).growing(DriveKind::Hdd),
            };
            let Lived { is_open, is_whole, has_records, media } =
                live(all, media, &mut oracle, cut_after, random(&mut state));
            if !is_open {
                continue;
            }
            // As many of the drives that went on go for good as may be missing.
            let stayed = (0..usize::from(shape.lanes)).filter(|lane| !away.contains(lane));
            let gone: Vec<usize> = stayed.take(most).collect();
            let mut lanes = sound(media, seed);
            oracle.settle();
            let mut policy = over(shape.found(&gone));
            run(&mut policy, &mut lanes, &mut oracle, &mut ()).unwrap();
            let is_open = policy.placement().census().is_open;
            whole += u64::from(has_records);
            opened += u64::from(is_open && !has_records);
            refused += u64::from(!is_open);
            assert!(!has_records || is_open, "without {gone:?}");
            assert!(!is_whole || oracle.failed == 0, "without {gone:?}");
        }
    }
    println!("{whole} with all records, {opened} opened before, {refused} refused");
    assert!(whole >= longer(12) && refused >= 2, "{whole}, {refused}");
}

#[test]
fn records_are_written_again_only_if_drives_lack_them() {
    // The first drive is absent, and returns.
    let mirror: &[(&[usize], bool)] = &[(&[], false), (&[0], false), (&[], true), (&[], false)];
    // Each record is on three of six drives.
    let wide: &[(&[usize], bool)] = &[(&[], false), (&[0], true), (&[0], false), (&[], false)];
    for (shape, steps) in [(SHAPES[0], mirror), (SHAPES[4], wide)] {
        let mut oracle = Oracle::new(shape.mix(), 60, 3);
        let media: Vec<Medium> = (0..shape.lanes).map(|lane| Medium::new(lane.into())).collect();
        let new = Array::created(shape.geometry(), shape.level);
        let mut media = live(new, media, &mut oracle, None, 3).media;
        let mut before = None;
        for (away, writes_all) in [&steps[..1], steps].concat() {
            let mut lanes = sound(media, 3);
            let mut policy = over(shape.found(away));
            oracle.more(20);
            run(&mut policy, &mut lanes, &mut oracle, &mut ()).unwrap();
            let record = policy.placement().census().record;
            let written = record - before.replace(record).unwrap_or(record);
            let is_all = written >= shape.geometry().pages();
            assert_eq!(is_all, writes_all, "{shape:?} without {away:?}: {written} records");
            media = lanes.cut(Tear::Sector);
            oracle.cut();
        }
    }
}
