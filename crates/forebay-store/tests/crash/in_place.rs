//! Tests that a tree updated in place has the same contents as a map in memory.

use forebay_core::Nanos;
use forebay_live::run;
use forebay_rig::{Crash, Troubles};
use forebay_store::{
    Config, Desk, Figures, InPlace, Layout, StorePolicy, Transformation, Tree, TreeSync,
};

use crate::crash::clients::{Clients, Known};
use crate::crash::media;

const MIB: u64 = 1 << 20;

/// Runs clients that know the possible values of each key while logs are inserted into trees. The
/// lanes execute I/Os in any order.
fn lives(seed: u64, (disks, transformation): (u16, Transformation), how: InPlace) -> Figures {
    let layout = |disk| Layout {
        store: seed,
        disk,
        disks,
        root_bytes: 32768,
        log_slots: 4,
        slot_bytes: 65536,
        capacity_bytes: 16 * MIB,
        is_labelled_at_end: true,
    };
    let layouts: Vec<Layout> = (0..disks).map(layout).collect();
    let config = Config {
        log_bytes: 20_000,
        transformation,
        tree: Tree::InPlace(how),
        read_log: seed.is_multiple_of(2),
        group_bytes: 20_000,
        step_bytes: 8192,
        retry: Nanos::from_millis(1),
        ..Config::default()
    };
    let mut lanes = Crash::new(media(seed, &layouts), 4096, 4, seed, Troubles::default());
    let desk = Desk::default();
    let mut policy = StorePolicy::new(&layouts, config, 65536, desk.clone());
    let mut known = Known::default();
    let mut work = Clients::new(&desk, &mut known, (seed, 3, 2000, 9000));
    run(&mut policy, &mut lanes, &mut work, &mut ()).unwrap();
    assert_eq!((&work.wrong, work.refused), (&None, 0), "seed {seed}, {how:?}");
    assert!(work.checked > 500);
    let figures = policy.view().figures();
    assert_eq!(figures.transformations, figures.logs);
    figures
}

#[test]
fn puts_are_found_during_and_after_transformation() {
    for seed in 0..27_u64 {
        // The single disk represents RAID 0.
        let arranged =
            [(4, Transformation::Enhanced), (1, Transformation::Basic), (4, Transformation::Basic)];
        let sync = [TreeSync::Record, TreeSync::Log, TreeSync::Close][seed as usize / 3 % 3];
        let page_bytes = [4096, 8192, 65536][seed as usize / 9 % 3];
        // The cache has space for three leaves per tree, or for all of them.
        let cache_bytes = if seed.is_multiple_of(4) { 12 * page_bytes as u64 } else { MIB << 4 };
        let how = InPlace { page_bytes, cache_bytes, sync, depth: 1 + seed as usize % 3 };
        let figures = lives(seed, arranged[seed as usize % 3], how);
        assert!(figures.pages_written > 0 && figures.transformed_bytes > 0);
    }
}
