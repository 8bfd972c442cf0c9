//! Tests disks on which reads, writes or flushes fail temporarily, either occasionally or
//! completely. Acknowledged data survives, no read returns a wrong or old value, and once the disks
//! work again, so does the store, without being reopened.

use std::cell::Cell;
use std::rc::Rc;

use forebay_core::{Lane, Nanos};
use forebay_live::{Lanes, run};
use forebay_rig::{Crash, Tear, Troubles};
use forebay_store::{Config, Desk, StorePolicy};

use crate::crash::clients::{Clients, Known};
use crate::crash::meddled::{Meddle, Meddled};
use crate::crash::{DISKS, Draw, STUCK, config, layouts, longer, media};

/// Changes the faults of the disks when the driver reaches given passes.
struct Changing {
    troubles: Vec<(u64, Troubles)>,
    passes: u64,
    /// The time from which all disks work and failed ones have been retried.
    calm_from: Rc<Cell<Nanos>>,
    retry: Nanos,
}

impl Meddle for Changing {
    fn pass(&mut self, lanes: &mut Crash) {
        self.passes += 1;
        if self.troubles.first().is_some_and(|(from, _)| *from <= self.passes) {
            lanes.trouble(self.troubles.remove(0).1);
            if self.troubles.is_empty() {
                // I/Os that began before the change may still fail; hence twice the retry interval.
                self.calm_from.set(lanes.wall() + self.retry + self.retry);
            }
        }
    }
}

/// The kind of operation that fails temporarily.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Reads,
    Writes,
    Flushes,
    All,
    Gone,
}

impl What {
    const EACH: [What; 5] = [What::Reads, What::Writes, What::Flushes, What::All, What::Gone];

    fn troubles(self, draw: &mut Draw, from: u64) -> Troubles {
        // In most cases, the faults affect only one disk, on which one in `one_in` I/Os fails.
        let lane = (draw.below(3) > 0).then(|| draw.below(DISKS.into()) as Lane);
        let one_in = [1, 3, 20][draw.below(3) as usize];
        let of = |what| if self == what || self == What::All { one_in } else { 0 };
        let gone = if self == What::Gone { vec![(lane.unwrap_or_default(), from)] } else { vec![] };
        Troubles {
            lane,
            reads_one_in: of(What::Reads),
            writes_one_in: of(What::Writes),
            flushes_one_in: of(What::Flushes),
            gone,
            cut_after: Some(STUCK),
            ..Troubles::default()
        }
    }
}

/// The counts of a store's lives with failing disks.
#[derive(Default)]
struct Came {
    refused: u64,
    checked: u64,
    /// The number of lives that continued after the last fault.
    calm: u64,
    merges: u64,
}

/// Runs two lives with faults in the middle, then one without.
fn lives(seed: u64, what: What) -> Came {
    let mut draw = Draw(seed ^ 0xFA17);
    let (layouts, config) = (layouts(&mut draw), config(&mut draw));
    let config = Config { retry: Nanos::from_micros(100), ..config };
    let tear = [Tear::Sector, Tear::Page][draw.below(2) as usize];
    let mut media = media(seed, &layouts);
    let (mut known, mut came) = (Known::default(), Came::default());
    for life in 0..3 {
        let calm = Troubles { cut_after: Some(STUCK), ..Troubles::default() };
        // Opening needs all disks. After it, there are two periods of faults.
        let mut troubles = Vec::new();
        let mut at = 1500;
        for _ in 0..2 {
            at += draw.below(1000);
            troubles.push((at, what.troubles(&mut draw, 0)));
            at += 200 + draw.below(800);
            troubles.push((at, calm.clone()));
        }
        if life == 2 {
            troubles.clear();
        }
        // The first life ends with a power cut, whatever else fails.
        let cut = 2000 + draw.below(4000);
        if life == 0 {
            troubles.iter_mut().for_each(|(_, trouble)| trouble.cut_after = Some(cut));
        }
        let first = Troubles { cut_after: Some(if life == 0 { cut } else { STUCK }), ..calm };
        let depth = 1 + draw.below(6) as usize;
        let lanes = Crash::new(media, 4096, depth, draw.below(u64::MAX), first);
        let calm_from = Rc::new(Cell::new(Nanos::MAX));
        let by =
            Changing { troubles, passes: 0, calm_from: Rc::clone(&calm_from), retry: config.retry };
        let mut lanes = Meddled { lanes, by };
        let desk = Desk::default();
        let mut policy = StorePolicy::new(&layouts, config.clone(), 65536, desk.clone());
        let load = (draw.below(u64::MAX), 1 + seed % 5, if life == 2 { 60 } else { 2000 }, 9000);
        let mut work = Clients::new(&desk, &mut known, load);
        work.calm_from = Rc::clone(&calm_from);
        let outcome = run(&mut policy, &mut lanes, &mut work, &mut ());
        let wrong = work.wrong.take();
        assert_eq!(wrong, None, "seed {seed}, {what:?}, life {life}");
        if let Err(error) = outcome {
            let (stages, figures) = (policy.view().stages(), policy.view().figures());
            let is_power = life == 0 && error.to_string().contains("power");
            assert!(
                is_power,
                "seed {seed}, {what:?}, life {life}: {error}; {stages:?}, {figures:?}"
            );
        }
        came.refused += work.refused;
        if life == 2 {
            assert_eq!(work.refused, 0, "seed {seed}, {what:?}: nothing fails any more");
        }
        came.checked += work.checked;
        came.calm += u64::from(calm_from.get() < lanes.lanes.wall());
        came.merges += policy.view().figures().merges;
        drop(policy);
        media = lanes.lanes.cut(tear);
    }
    came
}

#[test]
fn acknowledged_data_survive_faults_and_the_store_continues() {
    for what in What::EACH {
        let mut all = Came::default();
        for seed in 0..longer(6) {
            let came = lives(seed, what);
            all.refused += came.refused;
            all.calm += came.calm;
            all.checked += came.checked;
            all.merges += came.merges;
        }
        let Came { refused, checked, calm, merges } = all;
        println!("{what:?}: {refused} refused, {checked} checked, {merges} merges, {calm} calm");
        let came = (refused, checked, calm, merges);
        // Puts are written through, so a failed flush refuses a put only if it delays the space for
        // its log.
        let least = if what == What::Flushes { 1 } else { 20 };
        assert!(refused > least && checked > 2000 && merges > 80 && calm > 4, "{came:?}");
    }
}
