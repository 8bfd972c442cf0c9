//! Tests the loss of a volume's drives while clients write and levels change. The loss of two
//! drives is invisible to clients and loses nothing acknowledged; the loss of three fails only
//! requests for data without other copies.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_core::adapt::{BonusMalus, Costs, Factor, First};
use forebay_core::catalog::{build, build_over_array};
use forebay_core::contract::{AnyPolicy, Gauge, GaugeOf};
use forebay_core::stack::array::{Array, Geometry, Level, Update};
use forebay_core::stack::placed::Placed;
use forebay_core::{Bytes, Completion, Cx, Lane, Nanos, Piece, Policy, Request};
use forebay_live::LEN_MAX;
use forebay_rig::{Crash, Medium, Tear, Troubles};

use super::client::{Client, Does, SECTOR};
use super::{Served, longer, serve};

pub(super) const DRIVES: u16 = 6;
/// The number of answers before everything is read.
const ANSWERS: u64 = 500;

pub(super) fn geometry() -> Geometry {
    let sizes = Geometry {
        volume: 0xF0,
        lanes: DRIVES,
        chunk_bytes: 8192,
        chunks: 4,
        copies_max: 3,
        units: 24,
        cells: 0,
        ring: 0,
        update: Update::Fresh,
    };
    Geometry::new(sizes, Level::RAID6, 60).unwrap()
}

/// Creates an array that changes a unit's level on every other write.
pub(super) fn ruled(array: Array) -> Volume {
    let rule = BonusMalus::new(Factor { times: 1, over: 4 });
    let levels = vec![Level::RAID6, Level::TRIPLE];
    let array =
        array.adapting(rule, [Costs::paper_hdd(), Costs::paper_hdd()], First::Fixed(0), levels);
    let below = (0..DRIVES).map(|_| build("noop", 1 << 20).unwrap()).collect();
    Volume(Rc::new(RefCell::new(Placed::over(array, below))))
}

/// A volume that the test can inspect between calls.
#[derive(Clone)]
pub(super) struct Volume(Rc<RefCell<Placed<Array, AnyPolicy>>>);

impl Policy for Volume {
    fn submit(&mut self, cx: &mut Cx<'_>, request: Request, bytes: Bytes) {
        self.0.borrow_mut().submit(cx, request, bytes);
    }
    fn dispatch(&mut self, now: Nanos, lane: Lane) -> Option<Request> {
        self.0.borrow_mut().dispatch(now, lane)
    }
    fn complete(&mut self, cx: &mut Cx<'_>, done: &Completion) {
        self.0.borrow_mut().complete(cx, done);
    }
    fn wakeup(&self) -> Option<Nanos> {
        self.0.borrow().wakeup()
    }
    fn wake(&mut self, cx: &mut Cx<'_>) {
        self.0.borrow_mut().wake(cx);
    }
    fn pieces(&self, io: &Request, each: &mut dyn FnMut(Piece)) {
        self.0.borrow().pieces(io, each);
    }
}

impl Volume {
    fn counted(&self, name: &str) -> u64 {
        let figures = self.0.borrow().figures();
        figures.iter().find(|(known, _)| *known == name).unwrap().1 as u64
    }
}

impl Volume {
    /// Returns the number of units per level, from the volume's gauges.
    fn levels(&self) -> Vec<(Level, u64)> {
        let gauges = self.0.borrow().gauges();
        let level = |gauge: &Gauge| match (gauge.name, gauge.of) {
            ("units", GaugeOf::Part(name)) => Some((Level::named(name)?, gauge.value as u64)),
            _ => None,
        };
        gauges.iter().filter_map(level).collect()
    }
}

/// When the two drives fail: the first when a switch of levels begins, and the second this many
/// passes later.
#[derive(Clone, Copy, Debug)]
struct Loss {
    pair: [Lane; 2],
    switches: u64,
    apart: u64,
}

/// Counts of relevant events.
struct Happened {
    served: Served,
    volume: Volume,
    /// The number of level switches that completed after one of the two drives had failed.
    switches_after: u64,
}

pub(super) fn gone(lanes: &[Lane]) -> Troubles {
    Troubles { gone: lanes.iter().map(|lane| (*lane, 0)).collect(), ..Troubles::default() }
}

/// Runs a client while two drives fail, then reads everything; then a third drive fails, and
/// everything is read again.
fn lose(seed: u64, first: Level, loss: Loss, third: Lane) -> Happened {
    let media = (0..DRIVES).map(|lane| Medium::new(seed ^ u64::from(lane))).collect();
    let crash = Crash::new(media, 4096, 1 + (seed % 4) as usize, seed, Troubles::default());
    let client = Client::new(seed, geometry().capacity_bytes() / SECTOR / 16 * 16);
    let (volume, stop) =
        (ruled(Array::created(geometry(), first)), Arc::new(AtomicBool::new(false)));
    let (seen, over) = (volume.clone(), Arc::clone(&stop));
    let (mut since, mut flushed, mut at_loss) = (0, false, None);
    let meddle = move |crash: &mut Crash, client: &mut Client| {
        let switches = seen.counted("switches");
        if since > 0 || switches >= loss.switches {
            since += 1;
            match since {
                1 => crash.trouble(gone(&loss.pair[..1])),
                _ if since == 2 + loss.apart => {
                    crash.trouble(gone(&loss.pair));
                    at_loss = Some(switches);
                }
                _ => {}
            }
        }
        match client.does {
            Does::Anything if client.answered >= ANSWERS && at_loss.is_some() => {
                client.does = Does::ReadAll { next: 0 };
            }
            Does::ReadAll { .. } if client.has_read_all() && client.may_fail => {
                over.store(true, Ordering::Relaxed);
            }
            Does::ReadAll { .. } if client.has_read_all() => {
                client.does = Does::Nothing;
                client.flush();
            }
            Does::Nothing if client.is_quiet() && !flushed => {
                flushed = true;
                let [one, other] = loss.pair;
                crash.trouble(gone(&[one, other, third]));
                (client.may_fail, client.does) = (true, Does::ReadAll { next: 0 });
            }
            _ => {}
        }
    };
    let mut policy = volume.clone();
    let served = serve(&mut policy, crash, client, stop, Box::new(meddle));
    let switches_after = volume.counted("switches") - loss.switches;
    Happened { served, volume, switches_after }
}

/// Runs a client while two drives fail and then a third; then writes more and reads sector by
/// sector.
fn write_on(seed: u64, first: Level, gone_ones: [Lane; 3]) -> Client {
    let media = (0..DRIVES).map(|lane| Medium::new(seed ^ u64::from(lane))).collect();
    let crash = Crash::new(media, 4096, 1 + (seed % 4) as usize, seed, Troubles::default());
    let client = Client::new(seed, geometry().capacity_bytes() / SECTOR / 16 * 16);
    let (mut policy, stop) =
        (ruled(Array::created(geometry(), first)), Arc::new(AtomicBool::new(false)));
    let (over, mut losses) = (Arc::clone(&stop), 0);
    let meddle = move |crash: &mut Crash, client: &mut Client| match client.does {
        Does::Anything if losses < 3 && client.answered >= 100 * (losses + 1) => {
            if losses < 2 {
                losses += 1;
                crash.trouble(gone(&gone_ones[..losses as usize]));
            } else {
                client.does = Does::Nothing;
            }
        }
        Does::Nothing if client.is_quiet() => {
            losses = 3;
            crash.trouble(gone(&gone_ones));
            client.may_fail = true;
            client.counts_from_now();
            client.does = Does::Anything;
        }
        Does::Anything if client.answered + client.failures >= 600 => {
            client.does = Does::ReadEach { next: 0 };
        }
        Does::ReadEach { .. } if client.has_read_all() => over.store(true, Ordering::Relaxed),
        _ => {}
    };
    let served = serve(&mut policy, crash, client, stop, Box::new(meddle));
    assert!(served.client.has_read_all());
    served.client
}

#[test]
fn data_acknowledged_after_a_third_loss_are_readable() {
    let (mut failures, mut answered) = (0, 0);
    for third in 0..DRIVES {
        for seed in 0..longer(5) {
            let lanes = [third, (third + 1 + seed as u16 % 3) % DRIVES, (third + 5) % DRIVES];
            let first = [Level::RAID6, Level::TRIPLE][seed as usize % 2];
            println!("{lanes:?}, {first:?}, seed {seed}");
            let client = write_on(seed, first, lanes);
            (failures, answered) = (failures + client.failures, answered + client.answered);
        }
    }
    assert!(failures > 1000 && answered > 10_000, "{failures}, {answered}");
}

/// Reads everything again from the remaining drives.
fn read_again(media: Vec<Medium>, mut client: Client, seed: u64, pair: [Lane; 2]) -> Client {
    let number = |lane: Lane| if pair.contains(&lane) { 0 } else { lane as u8 + 1 };
    let numbers: Vec<u8> = (0..DRIVES).map(number).collect();
    let mut policy = ruled(Array::found(geometry(), Level::RAID6, &numbers));
    let (crash, stop) =
        (Crash::new(media, 4096, 4, seed, gone(&pair)), Arc::new(AtomicBool::new(false)));
    let over = Arc::clone(&stop);
    (client.may_fail, client.does) = (false, Does::ReadAll { next: 0 });
    let meddle = move |_: &mut Crash, client: &mut Client| {
        over.store(client.has_read_all(), Ordering::Relaxed);
    };
    let served = serve(&mut policy, crash, client, stop, Box::new(meddle));
    served.outcome.unwrap();
    assert!(served.client.has_read_all());
    served.client
}

#[test]
fn a_promise_above_an_array_loses_nothing_of_it() {
    for seed in 0..longer(6) {
        let media = (0..DRIVES).map(|lane| Medium::new(seed ^ u64::from(lane))).collect();
        let crash = Crash::new(media, 4096, 1 + (seed % 4) as usize, seed, Troubles::default());
        let client = Client::new(seed, geometry().capacity_bytes() / SECTOR / 16 * 16);
        let array = Array::created(geometry(), [Level::RAID6, Level::TRIPLE][seed as usize % 2]);
        let spec = "promised:cmin=100:delta-ms=20:depth=4:over=array+adapt=bonus-malus";
        let mut policy = build_over_array(spec, array, LEN_MAX).unwrap();
        let pair = [seed as Lane % DRIVES, (seed as Lane + 2) % DRIVES];
        let stop = Arc::new(AtomicBool::new(false));
        let (over, mut lost) = (Arc::clone(&stop), 0);
        let meddle = move |crash: &mut Crash, client: &mut Client| match client.does {
            Does::Anything if lost < 2 && client.answered >= 150 * (lost + 1) => {
                lost += 1;
                crash.trouble(gone(&pair[..lost as usize]));
            }
            Does::Anything if client.answered >= ANSWERS => {
                client.does = Does::ReadAll { next: 0 };
            }
            Does::ReadAll { .. } if client.has_read_all() => over.store(true, Ordering::Relaxed),
            _ => {}
        };
        let served = serve(&mut *policy, crash, client, stop, Box::new(meddle));
        served.outcome.unwrap();
        assert!(served.client.has_read_all());
        assert!(policy.gauges().iter().any(|gauge| gauge.name == "units"), "it is told of still");
        read_again(served.crash.cut(Tear::Sector), served.client, seed, pair);
    }
}

#[test]
fn losing_any_two_drives_while_levels_change_loses_nothing() {
    let (mut switched, mut lost, mut spared) = (0, 0, 0);
    let pairs = (0..DRIVES).flat_map(|one| (0..DRIVES).map(move |other| [one, other]));
    for pair in pairs.filter(|[one, other]| one != other) {
        for round in 0..longer(1) {
            let seed = u64::from(pair[0]) << 32 | u64::from(pair[1]) << 16 | round;
            let first = [Level::RAID6, Level::TRIPLE][usize::from(pair[0] < pair[1])];
            let loss = Loss { pair, switches: 1 + seed % 7, apart: seed % 5 * 9 };
            let third = (0..DRIVES).find(|lane| !pair.contains(lane)).unwrap();
            println!("{loss:?}, {third}, {first:?}, seed {seed}");
            let Happened { served, volume, switches_after } = lose(seed, first, loss, third);
            let Served { crash, client, .. } = served;
            assert!(client.has_read_all() && client.answered > ANSWERS);
            // Reads fail exactly for units whose only copy was on the lost drives.
            let unit_sectors = 4 * 8192 / SECTOR;
            let failed: BTreeSet<u64> = client.failed.iter().map(|at| at / unit_sectors).collect();
            let census = volume.0.borrow().placement().census();
            assert_eq!(failed.len() as u64, census.lost_units);
            assert_eq!(volume.levels(), census.units);
            let written: u64 = census.units.iter().map(|(_, units)| units).sum();
            (lost, spared) = (lost + census.lost_units, spared + written - census.lost_units);
            switched += switches_after;
            assert_eq!(volume.counted("drives_failed"), 3);
            read_again(crash.cut(Tear::Sector), client, seed, pair);
        }
    }
    assert!(switched > 250 && lost > 20 && spared > 250, "{switched}, {lost}, {spared}");
}
