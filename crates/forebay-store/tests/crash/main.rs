//! The third clock: power cuts anywhere, at every stage. No acknowledged write is lost, and none is seen that
//! was never written.

#![allow(clippy::unwrap_used)]

mod clients;
mod in_place;
mod lying;
mod missing;
mod undurable;

use forebay_core::Nanos;
use forebay_live::{Crash, Medium, Tear, Troubles, run};
use forebay_store::{Config, Desk, Layout, StorePolicy, Transformation, Tree};

use clients::{Clients, Known};
use lying::{Lie, Lying};

const DISKS: u16 = 4;
const MIB: u64 = 1 << 20;
/// No life of so many passes ends.
const STUCK: u64 = 300_000;

/// A generator like the lanes' own.
struct Draw(u64);

impl Draw {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % count
    }
}

fn layouts(draw: &mut Draw) -> Vec<Layout> {
    let (store, log_slots, root_bytes) =
        (draw.below(u64::MAX), 2 + draw.below(3), 32768 << draw.below(2));
    let layout = |disk| Layout {
        store,
        disk,
        disks: DISKS,
        root_bytes,
        log_slots,
        slot_bytes: 65536,
        capacity_bytes: 16 * MIB,
    };
    (0..DISKS).map(layout).collect()
}

fn config(draw: &mut Draw) -> Config {
    let transformation = match draw.below(4) {
        0 => Transformation::Basic,
        _ => Transformation::Enhanced,
    };
    Config {
        log_bytes: 8000 + draw.below(30_000),
        tunes: draw.below(2) == 0,
        log_bytes_max: 60_000,
        transformation,
        tree: Tree::Runs,
        read_log: draw.below(3) == 0,
        group_bytes: 20_000,
        gap_bytes: [0, 0, 4096, 12288][draw.below(4) as usize],
        runs_max: 4 + draw.below(30) as usize,
        fan_in: 2 + draw.below(3) as usize,
        dead_share: 0.4,
        segment_bytes: 10_000 << draw.below(3),
        merge_bytes: 10_000 << draw.below(4),
        step_bytes: 4096 << draw.below(3),
        node_bytes: 30_000,
        durable: true,
        merges: true,
        to_media: true,
        read_only: false,
        flushes_puts: false,
        notes_stages: false,
        retry: Nanos::from_millis(1),
    }
}

/// New disks, each with its label.
fn media(seed: u64, layouts: &[Layout]) -> Vec<Medium> {
    let medium = |layout: &Layout| {
        let mut medium = Medium::new(seed ^ u64::from(layout.disk));
        medium.write(0, &layout.label(), true);
        medium.write(4096, &layout.label(), true);
        medium
    };
    layouts.iter().map(medium).collect()
}

/// What a run came to.
#[derive(Default)]
struct Came {
    checked: u64,
    cuts: u64,
    merges: u64,
    transformations: u64,
}

/// Three lives, the first two of which end in a cut, most of them.
fn lives(seed: u64, lie: Option<Lie>) -> Result<Came, String> {
    let mut draw = Draw(seed);
    let (layouts, config) = (layouts(&mut draw), config(&mut draw));
    let tear = [Tear::Sector, Tear::Page][draw.below(2) as usize];
    let mut media = media(seed, &layouts);
    let (mut known, mut came) = (Known::default(), Came::default());
    let clients = 1 + draw.below(5);
    for life in 0..3 {
        let early = draw.below(4) == 0;
        let cut_after = 1 + draw.below(if early { 200 } else { 6000 });
        // The last life ends by itself.
        let cut_after = Some(if life < 2 { cut_after } else { STUCK });
        let troubles = Troubles { cut_after, ..Troubles::default() };
        let mut lanes =
            Crash::new(media, 4096, 1 + draw.below(6) as usize, draw.below(u64::MAX), troubles);
        let desk = Desk::default();
        let policy = StorePolicy::over(&layouts, config.clone(), 65536, desk.clone());
        let mut policy = Lying { policy, lie, layout: layouts[0] };
        // Every fourth store has values that no slot has room for.
        let most = if seed.is_multiple_of(4) { 90_000 } else { 9000 };
        let how = (draw.below(u64::MAX), clients, if life < 2 { 3000 } else { 60 }, most);
        let mut work = Clients::new(&desk, &mut known, how);
        let outcome = run(&mut policy, &mut lanes, &mut work, &mut ());
        let (wrong, is_over) = (work.wrong.take(), outcome.is_ok());
        came.checked += work.checked;
        if let Some(wrong) = wrong {
            return Err(format!("seed {seed}, life {life}: {wrong}"));
        }
        if let Err(error) = outcome
            && (life == 2 || !error.to_string().contains("power"))
        {
            let stages = policy.policy.view().stages();
            return Err(format!(
                "seed {seed}, life {life}: {error}; {stages:?}, {:?}",
                policy.policy.view().figures()
            ));
        }
        let figures = policy.policy.view().figures();
        came.merges += figures.merges;
        came.transformations += figures.transformations;
        came.cuts += u64::from(!is_over);
        drop(policy);
        if is_over {
            assert_eq!(lanes.pool().live(), 0, "seed {seed}: buffers are left over");
        }
        media = lanes.cut(tear);
    }
    Ok(came)
}

/// How many runs; `make laws` asks for more.
fn seeds(usual: u64) -> u64 {
    let times = std::env::var("FOREBAY_LAWS").ok().and_then(|times| times.parse().ok());
    usual * times.unwrap_or(1)
}

#[test]
fn what_was_acknowledged_outlives_every_cut() {
    let mut all = Came::default();
    for seed in 0..seeds(300) {
        let came = lives(seed, None).unwrap_or_else(|wrong| panic!("{wrong}"));
        all.checked += came.checked;
        all.cuts += came.cuts;
        all.merges += came.merges;
        all.transformations += came.transformations;
    }
    println!(
        "{} cuts, {} checked, {} transformations, {} merges",
        all.cuts, all.checked, all.transformations, all.merges
    );
    assert!(
        all.cuts > 300 && all.merges > 300 && all.transformations > 3000 && all.checked > 100_000
    );
}

#[test]
fn without_any_one_sync_something_is_lost() {
    for lie in Lie::ALL {
        let found = (0..seeds(300)).find_map(|seed| {
            let run = std::panic::catch_unwind(|| lives(seed, Some(lie)));
            run.map_or(Some((seed, "a panic".into())), |run| run.err().map(|wrong| (seed, wrong)))
        });
        assert!(found.is_some(), "{lie:?} taken out is not found");
        println!("{lie:?}: {found:?}");
    }
}
