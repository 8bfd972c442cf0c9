//! Tests the laws of contents on arrays of hard disks and solid-state drives, whose units move
//! between the two sets as hints request, with drives of either kind missing.

use forebay_core::stack::array::{Array, Census, DriveKind, Hint, KINDS, Level};
use forebay_live::run;
use forebay_rig::{Crash, Medium, Tear, Troubles};
use forebay_testing::longer;

use crate::laws::array::{SHAPES, Shape, drive, over, sound};
use crate::laws::oracle::Oracle;
use crate::laws::random;

/// Four hard disks, then four solid-state drives.
const SHAPE: Shape = Shape { lanes: 8, chunks: 2, units: 40, spare: 40, ..SHAPES[0] };

fn kinds(lanes: u16) -> Vec<DriveKind> {
    (0..lanes).map(|lane| KINDS[usize::from(lane >= lanes / 2)]).collect()
}

fn hint(state: &mut u64, shape: &Shape) -> Hint {
    let end = shape.geometry().capacity_bytes();
    let [from, to] = [0, 1].map(|_| random(state) % end);
    let levels = [None, Some(Level::RAID6), Some(Level::TRIPLE)];
    let level = levels[(random(state) % 3) as usize];
    let kind = [None, Some(DriveKind::Hdd), Some(DriveKind::Ssd)][(random(state) % 3) as usize];
    Hint { bytes: from.min(to)..from.max(to), level, kind }
}

fn hints(state: &mut u64, shape: &Shape) -> Vec<Hint> {
    (0..3).map(|_| hint(state, shape)).collect()
}

/// Runs an array to its end or to a power cut, then cuts the power. Returns whether the run was
/// cut, the census, and the media.
fn ran(
    array: Array,
    media: Vec<Medium>,
    oracle: &mut Oracle,
    (seed, cut_after): (u64, Option<u64>),
) -> (bool, Census, Vec<Medium>) {
    let troubles = Troubles { cut_after, ..Troubles::default() };
    let mut lanes = Crash::new(media, 4096, 4, seed, troubles);
    let mut policy = over(array);
    let is_cut = run(&mut policy, &mut lanes, oracle, &mut ()).is_err();
    let census = policy.placement().census();
    let media = lanes.cut(Tear::Page);
    oracle.cut();
    (is_cut, census, media)
}

#[test]
fn units_go_where_hints_say_whenever_the_power_is_cut() {
    let shapes = [SHAPE, Shape { adapts: true, ..SHAPE }, Shape { spare: 4, ..SHAPE }];
    let (mut cuts, mut on_both) = (0, 0);
    for shape in &shapes {
        for seed in 0..longer(4) {
            println!("{shape:?}, seed {seed}");
            let (mut state, mut oracle) = (seed, Oracle::new(shape.mix(), 0, seed));
            let media = (0..shape.lanes).map(|lane| Medium::new(seed ^ u64::from(lane))).collect();
            oracle.more(200);
            let array = Array::created(shape.geometry(), shape.first);
            let array = shape.ruled(array.with_kinds(&kinds(shape.lanes)));
            let array = array.hinted(&hints(&mut state, shape));
            let (_, _, mut media) = ran(array, media, &mut oracle, (seed, None));
            for _ in 0..4 {
                oracle.more(300);
                let array = shape.found(&[]).hinted(&hints(&mut state, shape));
                let cut = (random(&mut state), Some(random(&mut state) % 1500));
                let (is_cut, _, after) = ran(array, media, &mut oracle, cut);
                cuts += u32::from(is_cut);
                // Two drives are missing, of the same kind or of both.
                let away = [0, 1].map(|_| (random(&mut state) % 8) as usize);
                oracle.settle();
                let failed = oracle.failed;
                let array = shape.found(&away).hinted(&hints(&mut state, shape));
                let (_, _, after) = ran(array, after, &mut oracle, (random(&mut state), None));
                assert_eq!(oracle.failed, failed, "failures are told");
                let whole = (random(&mut state), None);
                oracle.settle();
                let (_, census, after) = ran(shape.found(&[]).mending(), after, &mut oracle, whole);
                assert_eq!((census.degraded_units, census.lost_units), (0, 0));
                let units: u64 = census.units.iter().map(|(_, count)| count).sum();
                on_both += u32::from((1..units).contains(&census.ssd_units));
                media = after;
            }
        }
    }
    assert!(cuts > 20 && on_both > 30, "{cuts} cuts, {on_both} on both");
}

#[test]
fn where_there_is_room_hints_are_kept() {
    let (mut oracle, shape) = (Oracle::new(SHAPE.mix(), 600, 5), &Shape { spare: 200, ..SHAPE });
    let media = (0..8).map(Medium::new).collect();
    let array = Array::created(shape.geometry(), shape.first).with_kinds(&kinds(8));
    let (_, census, mut media) = ran(array, media, &mut oracle, (5, None));
    let units: u64 = census.units.iter().map(|(_, count)| count).sum();
    assert_eq!((census.ssd_units, census.units.len()), (0, 1), "hard disks come first");
    let half = shape.geometry().capacity_bytes() / 2;
    let mut moved = 0;
    for (level, kind) in [(Level::TRIPLE, DriveKind::Ssd), (Level::RAID6, DriveKind::Hdd)] {
        let hint = Hint { bytes: 0..half, level: Some(level), kind: Some(kind) };
        let mut lanes = sound(media, 6);
        oracle.settle();
        drive(
            shape.found(&[]).hinted(std::slice::from_ref(&hint)).mending(),
            &mut lanes,
            &mut oracle,
        );
        media = lanes.cut(Tear::Page);
        oracle.cut();
        // The units stay there even without the hint.
        oracle.settle();
        let (_, census, after) = ran(shape.found(&[]), media, &mut oracle, (8, None));
        let triple = census.units.iter().filter(|(level, _)| *level == Level::TRIPLE);
        let triple: u64 = triple.map(|(_, count)| count).sum();
        assert_eq!(triple, census.ssd_units);
        match kind {
            DriveKind::Ssd => moved = census.ssd_units,
            DriveKind::Hdd => assert_eq!(census.ssd_units, 0),
        }
        media = after;
    }
    assert!(moved > units / 3 && moved < units, "{moved} of {units}");
}

#[test]
fn replacements_keep_the_kind_and_added_drives_have_the_given_kind() {
    let (mut oracle, shape) = (Oracle::new(SHAPE.mix(), 400, 7), &SHAPE);
    let media = (0..8).map(Medium::new).collect();
    let array = Array::created(shape.geometry(), shape.first).with_kinds(&kinds(8));
    let all = Hint { bytes: 0..u64::MAX, level: None, kind: Some(DriveKind::Ssd) };
    let (_, _, mut media) = ran(array.hinted(&[all]), media, &mut oracle, (5, None));
    let found = |numbers: &[u8]| Array::found(shape.geometry(), shape.first, numbers).mending();
    // Drive 7, a solid-state drive, is lost permanently. Drive 9 is added, and later drives 10 and
    // 11.
    media[6] = Medium::new(77);
    oracle.settle();
    let (_, census, mut media) =
        ran(found(&[1, 2, 3, 4, 5, 6, 9, 8]), media, &mut oracle, (6, None));
    assert_eq!((census.drives[6].kind, census.degraded_units), (DriveKind::Ssd, 0));
    media.extend([78, 79].map(Medium::new));
    let numbers = [1, 2, 3, 4, 5, 6, 9, 8, 10, 11];
    oracle.settle();
    let (_, census, media) =
        ran(found(&numbers).growing(DriveKind::Ssd), media, &mut oracle, (7, None));
    assert_eq!(census.drives[9].kind, DriveKind::Ssd);
    oracle.settle();
    let (_, census, _) = ran(found(&numbers), media, &mut oracle, (8, None));
    let kinds: Vec<DriveKind> = census.drives.iter().map(|drive| drive.kind).collect();
    assert_eq!((&kinds[..4], &kinds[4..]), (&[DriveKind::Hdd; 4][..], &[DriveKind::Ssd; 6][..]));
    assert_eq!((oracle.failed, census.lost_units), (0, 0));
    assert!(census.ssd_units > 0);
}
