//! The third driver: cuts the power at any stage. No acknowledged write is lost, and no read
//! returns data that was never written.

mod clients;
mod denied;
mod faults;
mod holes;
mod images;
mod in_place;
mod lasting;
mod late;
mod lying;
mod meddled;
mod missing;
mod moments;
mod pages;
mod rotten;
mod together;
mod undurable;

use forebay_core::Nanos;
use forebay_live::run;
use forebay_rig::{Crash, Medium, Tear, Troubles};
use forebay_store::{Answer, Config, Desk, Layout, Operation, StorePolicy, Transformation, Tree};
use forebay_testing::longer;

use self::clients::{Clients, Known};
use self::lying::{Lie, Lying};

const DISKS: u16 = 4;
const MIB: u64 = 1 << 20;
/// The number of passes of the driver after which a life counts as endless.
const STUCK: u64 = 300_000;

/// A random number generator like that of the lanes.
struct Draw(u64);

impl Draw {
    fn below(&mut self, count: u64) -> u64 {
        forebay_testing::below(&mut self.0, count)
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
        is_labelled_at_end: true,
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
        scan_bytes: 4000 << draw.below(8),
        step_bytes: 4096 << draw.below(3),
        work_bytes: 1000 << draw.below(7),
        node_bytes: 30_000,
        durable: true,
        merges: true,
        to_media: true,
        read_only: false,
        flushes_puts: false,
        notes_stages: false,
        retry: Nanos::from_millis(1),
        epoch_ns: 1_700_000_000_000_000_000,
    }
}

/// Returns disks that seem to have space although logs find none. Only disk `roomy` can log.
fn cramped(layouts: &[Layout], roomy: usize, config: &Config) -> (Vec<Layout>, Config) {
    let cramp = |(disk, layout): (usize, &Layout)| Layout {
        capacity_bytes: match disk == roomy {
            true => layout.capacity_bytes,
            false => layout.segments_at() + 8192,
        },
        // On the other disks, the last block belongs to the segments.
        is_labelled_at_end: disk == roomy && layout.is_labelled_at_end,
        ..*layout
    };
    let config = Config {
        transformation: Transformation::Basic,
        retry: Nanos::from_secs(1000),
        ..config.clone()
    };
    (layouts.iter().enumerate().map(cramp).collect(), config)
}

/// Creates new disks, each with its label and an empty root.
fn media(seed: u64, layouts: &[Layout]) -> Vec<Medium> {
    let medium = |layout: &Layout| {
        let mut medium = Medium::new(seed ^ u64::from(layout.disk));
        layout.blank().iter().for_each(|(at, bytes)| medium.write(*at, bytes, true));
        medium
    };
    layouts.iter().map(medium).collect()
}

/// Counts of a store's lives.
#[derive(Default)]
struct Came {
    checked: u64,
    cuts: u64,
    merges: u64,
    transformations: u64,
}

/// Runs three lives. The first two end with a power cut or a kill, unless they end earlier.
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
        // In one of four lives, the process is killed instead.
        let is_killed = draw.below(4) == 0;
        // The last life is not cut off.
        let cut_after = Some(if life < 2 { cut_after } else { STUCK });
        let troubles = Troubles { cut_after, ..Troubles::default() };
        let lanes =
            Crash::new(media, 4096, 1 + draw.below(6) as usize, draw.below(u64::MAX), troubles);
        let mut lanes = Lying::over(lanes, lie, layouts[0]);
        let desk = Desk::default();
        let mut policy = StorePolicy::new(&layouts, config.clone(), 65536, desk.clone());
        // Every fourth store has values that are too long for any slot.
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
            let stages = policy.view().stages();
            return Err(format!(
                "seed {seed}, life {life}: {error}; {stages:?}, {:?}",
                policy.view().figures()
            ));
        }
        let figures = policy.view().figures();
        came.merges += figures.merges;
        came.transformations += figures.transformations;
        came.cuts += u64::from(!is_over);
        drop(policy);
        if is_over {
            assert_eq!(lanes.lanes.pool().live(), 0, "seed {seed}: buffers are left over");
        }
        media = match is_killed {
            true => lanes.lanes.kill(),
            false => lanes.lanes.cut(tear),
        };
    }
    Ok(came)
}

#[test]
fn acknowledged_data_survive_every_power_cut() {
    let mut all = Came::default();
    for seed in 0..longer(60) {
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
    assert!(all.cuts > 50 && all.merges > 50 && all.transformations > 500 && all.checked > 15_000);
}

/// Tests that data found after a kill of the process survives the next power cut, whether or not it
/// was acknowledged.
fn is_durable_once_seen(seed: u64, lie: Option<Lie>) -> Result<(), String> {
    let mut draw = Draw(seed ^ 0x09E4);
    let (layouts, config) = (layouts(&mut draw), config(&mut draw));
    let (mut media, mut known) = (media(seed, &layouts), Known::default());
    for life in 0..3 {
        let cut_after = (life == 0).then(|| 20 + draw.below(100));
        let troubles = Troubles { cut_after, ..Troubles::default() };
        let lanes = Crash::new(media, 4096, 4, draw.below(u64::MAX), troubles);
        let mut lanes = Lying::over(lanes, lie, layouts[0]);
        let desk = Desk::default();
        let mut policy = StorePolicy::new(&layouts, config.clone(), 65536, desk.clone());
        let mut work = Clients::new(&desk, &mut known, (seed, 1 + seed % 4, 3000, 3000));
        work.only_looks = life > 0;
        let _ = run(&mut policy, &mut lanes, &mut work, &mut ());
        if let Some(wrong) = work.wrong.take() {
            return Err(format!("seed {seed}, life {life}: {wrong}"));
        }
        drop(policy);
        media = match life {
            0 => lanes.lanes.kill(),
            _ => lanes.lanes.cut(Tear::Sector),
        };
    }
    Ok(())
}

/// Tests that after a power cut, data that is read only if a disk is lost (copies of filters) is
/// not damaged either.
fn is_whole_after_a_cut(seed: u64, lie: Option<Lie>) -> Result<(), String> {
    let mut draw = Draw(seed ^ 0xC0B1);
    let (layouts, config) = (layouts(&mut draw), config(&mut draw));
    let cut_after = Some(500 + draw.below(4000));
    let (depth, troubles) = (1 + draw.below(6), Troubles { cut_after, ..Troubles::default() });
    let lanes = Crash::new(media(seed, &layouts), 4096, depth as usize, seed, troubles);
    let mut lanes = Lying::over(lanes, lie, layouts[0]);
    let (desk, mut known) = (Desk::default(), Known::default());
    let mut policy = StorePolicy::new(&layouts, config.clone(), 65536, desk.clone());
    let mut work = Clients::new(&desk, &mut known, (seed, 3, 3000, 9000));
    let _ = run(&mut policy, &mut lanes, &mut work, &mut ());
    let media = lanes.lanes.cut(Tear::Sector);
    let asked = [Operation::Open, Operation::Check, Operation::Close];
    let (_, answers) = missing::asked((&layouts, config), media, None, &asked);
    match &answers[1] {
        Answer::Checked(checked) if checked.losses.is_empty() => Ok(()),
        other => Err(format!("seed {seed}: {other:?}")),
    }
}

/// Returns the failure of the first test of power cuts that detects a lie.
fn finds(lie: Lie) -> Option<String> {
    // A panic also counts as detecting the lie.
    let caught = |what: &str, seed, run: &dyn Fn(u64) -> Result<(), String>| {
        let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(seed)));
        let wrong = run.unwrap_or_else(|_| Err("a panic".into())).err()?;
        Some(format!("{what}, seed {seed}: {wrong}"))
    };
    (0..longer(400)).find_map(|seed| match lie {
        Lie::Duty => caught("undurable", seed, &|seed| {
            undurable::loses_no_more_than_a_log(seed, Some(lie));
            Ok(())
        }),
        Lie::Copy => caught("check", seed, &|seed| is_whole_after_a_cut(seed, Some(lie))),
        Lie::TargetOptions => caught("killed", seed, &|seed| is_durable_once_seen(seed, Some(lie))),
        Lie::StartedLog | Lie::OtherRoot | Lie::OtherForgets | Lie::OwnForgets => {
            caught("missing", seed, &|seed| {
                missing::is_known_elsewhere(seed, Some(lie));
                Ok(())
            })
        }
        _ => caught("lives", seed, &|seed| lives(seed, Some(lie)).map(drop)),
    })
}

#[test]
fn data_found_after_a_kill_survive_a_power_cut() {
    for seed in 0..longer(80) {
        is_durable_once_seen(seed, None).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

#[test]
fn a_power_cut_during_degraded_reading_damages_nothing() {
    for seed in 0..longer(24) {
        is_whole_after_a_cut(seed, None).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

#[test]
fn without_any_one_sync_something_is_lost() {
    let mut missed = Vec::new();
    for lie in Lie::ALL {
        let found = finds(lie);
        println!("{lie:?}: {found:?}");
        missed.extend(found.is_none().then_some(lie));
    }
    assert_eq!(missed, [], "taken out, and not found");
}
