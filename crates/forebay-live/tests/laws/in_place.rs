//! Tests the contents of arrays that write in place, where small writes to one stripe run concurrently and drives fail
//! meanwhile.

use forebay_core::Lane;
use forebay_core::stack::array::{Array, Geometry, Level, Update};
use forebay_rig::{Crash, Medium, Troubles};

use crate::laws::array::drive;
use crate::laws::oracle::{Mix, Oracle};
use crate::laws::{longer, random};

const LANES: u16 = 6;
const LEVELS: [Level; 5] = [
    Level::Striped { parities: 0 },
    Level::Striped { parities: 1 },
    Level::RAID6,
    Level::Mirrored { copies: 2 },
    Level::TRIPLE,
];

/// Returns an array all of whose units were written, with zeros.
fn array(level: Level) -> Array {
    let sizes = Geometry {
        volume: 0xF0,
        lanes: LANES,
        chunk_bytes: 8 * 4096,
        chunks: 4,
        copies_max: 3,
        units: 3,
        cells: 0,
        ring: 0,
        update: Update::InPlace,
    };
    let geometry = Geometry::new(sizes, level, 4).unwrap();
    Array::new(geometry, level).filled(geometry.units)
}

#[test]
fn contents_are_right_whatever_drives_fail() {
    let mut checked = 0;
    for level in LEVELS {
        for seed in 0..longer(4) {
            println!("{level:?}, seed {seed}");
            let mut state = seed;
            let count = level.tolerates().min(seed as usize % 4);
            let gone = (0..count).map(|nth| {
                ((random(&mut state) % u64::from(LANES)) as Lane, 200 + 300 * nth as u64)
            });
            let troubles = Troubles { gone: gone.collect(), ..Troubles::default() };
            let media: Vec<Medium> =
                (0..LANES).map(|lane| Medium::new(seed ^ u64::from(lane))).collect();
            let mut lanes = Crash::new(media, 512, 4, seed, troubles);
            let sectors = array(level).geometry().capacity_bytes() / 512;
            let mix = Mix { disks: 1, sectors, unit: 16, trims: false, anything_from: sectors };
            let mut oracle = Oracle::new(mix, 800, seed);
            drive(array(level), &mut lanes, &mut oracle);
            assert_eq!((oracle.failed, oracle.gone, lanes.pool().live()), (0, 0, 0));
            checked += oracle.checked;
        }
    }
    assert!(checked > longer(10_000), "{checked} sectors are too few");
}
