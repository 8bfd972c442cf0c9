//! Contents of both devices against a plain model, whatever order they complete in, and small cases.

use super::table::BLOCK;
use super::*;
use crate::policy::bid::{Bid, BidConfig};
use crate::policy::hybrid::Packing;
use crate::policy::none::NoScheduler;
use crate::policy::{BlockLayer, Limits};
use crate::request::{BACKGROUND, Flags};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Bytes of disk that the model looks at.
const DISK_SECTORS: u64 = 512;

type Hybrid = Tiers<BlockLayer<Bid>, Later>;

fn hybrid(flash_blocks: u64, threshold_bytes: u32) -> Hybrid {
    let limits = Limits { request_len_max: 64 << 10, ..Limits::default() };
    let disk = || {
        let bid = Bid::hybrid(BidConfig::default(), Packing { threshold_bytes });
        BlockLayer::new(bid, limits)
    };
    let flash = Box::new(BlockLayer::new(NoScheduler::default(), limits));
    Tiers::new(vec![disk(), disk()], flash, flash_blocks * BLOCK, Later)
}

/// What a sector holds, by version, on a device that does I/Os when it likes.
#[derive(Default)]
struct Contents {
    /// By disk and sector.
    disks: BTreeMap<(Lane, u64), u64>,
    /// By sector of the flash.
    flash: BTreeMap<u64, u64>,
    /// What background work carries, by disk and sector.
    carried: BTreeMap<(Lane, u64), u64>,
}

/// An I/O the device has: what it reads or writes is fixed when it is done.
struct Running {
    io: Request,
    started: Nanos,
    /// Disk and sector of each of its sectors.
    homes: Vec<(Lane, u64)>,
    /// By sector: what it writes; for reads what it has to find at least.
    versions: Vec<u64>,
    /// Reads happen when they begin or when they end.
    early: Option<Vec<u64>>,
}

/// A client request that is not finished.
struct Asked {
    request: Request,
    /// By sector: what a read has to find at least; what a write writes.
    versions: Vec<u64>,
}

struct World<P> {
    policy: P,
    flash_lane: Lane,
    home: fn(&P, u64) -> Option<(Lane, u64)>,
    now: Nanos,
    contents: Contents,
    running: Vec<Running>,
    asked: Vec<Asked>,
    /// By disk and sector: the newest version that was acknowledged.
    acknowledged: BTreeMap<(Lane, u64), u64>,
    version: u64,
    finished: u64,
}

fn sectors_of(request: &Request) -> impl Iterator<Item = (Lane, u64)> + use<> {
    let lane = request.lane;
    (request.offset / SECTOR..request.end().div_ceil(SECTOR)).map(move |sector| (lane, sector))
}

impl<P: Policy> World<P> {
    fn new(policy: P, flash_lane: Lane, home: fn(&P, u64) -> Option<(Lane, u64)>) -> World<P> {
        World {
            policy,
            flash_lane,
            home,
            now: Nanos::ZERO,
            contents: Contents::default(),
            running: Vec::new(),
            asked: Vec::new(),
            acknowledged: BTreeMap::new(),
            version: 0,
            finished: 0,
        }
    }

    /// Submits unless it overlaps a request of the same kind: a sector has one writer at a time.
    fn submit(&mut self, mut request: Request) {
        let overlaps = |other: &Asked| {
            let same = other.request.op == request.op;
            let barred = same || other.request.op == Op::Trim || request.op == Op::Trim;
            barred
                && other.request.lane == request.lane
                && other.request.offset < request.end()
                && request.offset < other.request.end()
        };
        if request.op != Op::Flush && self.asked.iter().any(overlaps) {
            return;
        }
        self.version += 1;
        request.id = self.version;
        let versions = sectors_of(&request).map(|sector| match request.op {
            Op::Read => self.acknowledged.get(&sector).copied().unwrap_or(0),
            _ => self.version,
        });
        let versions = versions.collect();
        self.asked.push(Asked { request, versions });
        self.policy.submit(self.now, request);
    }

    /// What a client asked of a sector.
    fn asked_of(&self, op: Op, home: (Lane, u64)) -> Option<u64> {
        self.asked.iter().find_map(|asked| {
            let first = asked.request.offset / SECTOR;
            let inside = asked.request.op == op
                && asked.request.lane == home.0
                && (asked.request.offset..asked.request.end()).contains(&(home.1 * SECTOR));
            inside.then(|| asked.versions[(home.1 - first) as usize])
        })
    }

    fn dispatch(&mut self, lane: Lane, early: bool) -> bool {
        let Some(io) = self.policy.dispatch(self.now, lane) else { return false };
        let homes: Vec<(Lane, u64)> = sectors_of(&io)
            .map(|(lane, sector)| {
                if lane < self.flash_lane {
                    return (lane, sector);
                }
                let (disk, block) =
                    (self.home)(&self.policy, sector * SECTOR / BLOCK).expect("its place is taken");
                (disk, block * (BLOCK / SECTOR) + sector % (BLOCK / SECTOR))
            })
            .collect();
        let background = io.stream == BACKGROUND;
        let version = |home: &(Lane, u64)| match (background, io.op) {
            (true, Op::Write) => self.contents.carried.get(home).copied().unwrap_or(0),
            (true, _) => 0,
            (false, op) => {
                self.asked_of(op, *home).unwrap_or_else(|| panic!("nobody asked: {io:?}"))
            }
        };
        let versions =
            if io.op.moves_data() { homes.iter().map(version).collect() } else { vec![] };
        let mut running = Running { io, started: self.now, homes, versions, early: None };
        if early {
            let found = self.effect(&running);
            running.early = Some(found);
        }
        self.running.push(running);
        true
    }

    /// Does an I/O; what a read found.
    fn effect(&mut self, running: &Running) -> Vec<u64> {
        let io = &running.io;
        let mut found = Vec::new();
        for (index, place) in sectors_of(io).enumerate() {
            let on_flash = io.lane == self.flash_lane;
            match io.op {
                Op::Write if on_flash => {
                    self.contents.flash.insert(place.1, running.versions[index]);
                }
                Op::Write => {
                    self.contents.disks.insert(place, running.versions[index]);
                }
                Op::Trim => {
                    self.contents.disks.insert(place, self.asked_of(Op::Trim, place).unwrap_or(0));
                }
                Op::Read if on_flash => {
                    found.push(self.contents.flash.get(&place.1).copied().unwrap_or(0));
                }
                Op::Read => found.push(self.contents.disks.get(&place).copied().unwrap_or(0)),
                _ => {}
            }
        }
        found
    }

    fn complete(&mut self, which: usize) {
        let running = self.running.swap_remove(which % self.running.len());
        let late = self.effect_again(&running);
        let found = running.early.clone().unwrap_or(late);
        if running.io.op == Op::Read {
            for (index, home) in running.homes.iter().enumerate() {
                if running.io.stream == BACKGROUND {
                    self.contents.carried.insert(*home, found[index]);
                } else {
                    let (got, least) = (found[index], running.versions[index]);
                    assert!(got >= least, "{home:?}: found {got}, expected {least} or newer");
                }
            }
        }
        let (io, started, at) = (running.io, running.started, self.now);
        let done = Completion { io, started, at, mechanics: Default::default() };
        let mut finished = Finished::new();
        self.policy.complete(self.now, &done, &mut finished);
        for done in finished {
            let place = self.asked.iter().position(|asked| asked.request.id == done.request.id);
            let asked = self.asked.swap_remove(place.expect("it finishes once"));
            assert_eq!(asked.request, done.request);
            self.finished += 1;
            // After a trim anything that was ever written may be found.
            if done.request.op == Op::Write {
                for (home, version) in sectors_of(&asked.request).zip(asked.versions) {
                    self.acknowledged.insert(home, version);
                }
            }
        }
    }

    /// What was done when it began is not done again.
    fn effect_again(&mut self, running: &Running) -> Vec<u64> {
        if running.early.is_some() { Vec::new() } else { self.effect(running) }
    }

    /// Everything under way is done.
    fn drain(&mut self) {
        for _ in 0..100_000 {
            let lanes = 0..=self.flash_lane;
            let any = lanes.fold(false, |any, lane| self.dispatch(lane, false) | any);
            if let Some(last) = self.running.len().checked_sub(1) {
                self.complete(last / 2);
            } else if !any {
                match self.policy.wakeup() {
                    Some(at) if !self.asked.is_empty() => self.now = self.now.max(at),
                    _ => break,
                }
            }
        }
        assert!(self.asked.is_empty(), "{} requests never finish", self.asked.len());
    }

    /// Reads everything there is.
    fn read_all(&mut self) {
        for lane in 0..self.flash_lane {
            for at in (0..DISK_SECTORS).step_by(64) {
                self.submit(request(Op::Read, lane, at, 64, 0));
            }
        }
        self.drain();
    }
}

fn request(op: Op, lane: Lane, sector: u64, count: u64, stream: u32) -> Request {
    Request {
        at: Nanos::ZERO,
        offset: sector * SECTOR,
        id: 0,
        len: (count * SECTOR) as u32,
        stream,
        lane,
        op,
        flags: Flags::NONE,
    }
}

/// One step: what to do, where, how much, who.
type Step = (u8, u64, u64, u32, u64);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Few places, so that everything overlaps; aligned ones are common, as on real disks.
    let place = prop_oneof![(0..60u64).prop_map(|block| block * 8), 0..480u64];
    let count = prop_oneof![3 => (1..4u64).prop_map(|blocks| blocks * 8), 1 => 1..30u64];
    prop::collection::vec((0u8..32, place, count, 0u32..4, 0u64..8_000), 1..400)
}

fn play<P: Policy>(world: &mut World<P>, steps: &[Step]) {
    for &(what, sector, count, stream, pause_us) in steps {
        let (lane, early) = ((stream % 2) as Lane, sector % 2 == 0);
        match what {
            0..=4 => world.submit(request(Op::Read, lane, sector, count, stream)),
            5..=11 => world.submit(request(Op::Write, lane, sector, count, stream)),
            12 => world.submit(request(Op::Trim, lane, sector, count, stream)),
            13 => world.submit(request(Op::Flush, lane, 0, 0, stream)),
            14..=21 => {
                world.dispatch((count % 3) as Lane, early);
            }
            22..=28 if !world.running.is_empty() => world.complete(sector as usize),
            _ => world.now += Nanos::from_micros(pause_us),
        }
    }
    world.drain();
    world.read_all();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any order of arrivals, dispatches and completions, a flash that is large or full at once.
    #[test]
    fn reads_find_what_was_written_last(steps in steps(), blocks in 1u64..80, light in any::<bool>()) {
        let policy = hybrid(blocks, if light { 1 << 20 } else { 16 << 10 });
        let mut world = World::new(policy, 2, |policy, slot| policy.table.owner(slot));
        play(&mut world, &steps);
        let pending = world.policy.table.is_idle();
        prop_assert!(pending, "an I/O to the flash was not told to the table");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The same while extents move up and down all the time.
    #[test]
    fn moves_lose_nothing(steps in steps(), blocks in 8u64..80, bcache in any::<bool>()) {
        let config = MigrateConfig {
            extent_bytes: 16 << 10,
            period: Nanos::from_millis(2),
            hot: 2,
            moves_max: 3,
        };
        let world = |policy| World::new(policy, 2, |policy: &Hybrid, slot| policy.table.owner(slot));
        if bcache {
            let limits = Limits { request_len_max: 64 << 10, ..Limits::default() };
            let lane = || -> Scheduler { Box::new(BlockLayer::new(NoScheduler::default(), limits)) };
            let tiers = Tiers::new(vec![lane(), lane()], lane(), blocks * BLOCK, Rolling::new(9000));
            let mut world = World::new(tiers.migrating(Some(config)), 2, |policy, slot| {
                policy.table.owner(slot)
            });
            play(&mut world, &steps);
            prop_assert!(world.policy.table.is_idle());
        } else {
            let mut world = world(hybrid(blocks, 16 << 10).migrating(Some(config)));
            play(&mut world, &steps);
            prop_assert!(world.policy.table.is_idle());
        }
    }
}

#[test]
fn much_used_extents_move_up_and_are_charged() {
    let config =
        MigrateConfig { extent_bytes: 64 << 10, period: Nanos::from_secs(1), hot: 3, moves_max: 8 };
    let mut policy = hybrid(1000, 0).migrating(Some(config));
    let mut now = Nanos::ZERO;
    for _ in 0..3 {
        policy.submit(now, request(Op::Read, 0, 128, 8, 0));
        settle(&mut policy, &mut now);
    }
    now += Nanos::from_secs(2);
    policy.submit(now, request(Op::Read, 0, 9000, 8, 0));
    let mut ios = settle(&mut policy, &mut now);
    ios.sort_by_key(|io| (io.0, io.1, io.2));
    let extent = 128 * SECTOR;
    assert_eq!(
        ios,
        [
            (0, Op::Read, extent, 65_536),
            (0, Op::Read, 9000 * SECTOR, 4096),
            (2, Op::Write, 0, 65_536),
        ]
    );
    policy.submit(now, request(Op::Read, 0, 136, 8, 0));
    assert_eq!(settle(&mut policy, &mut now), [(2, Op::Read, 4096, 4096)]);
    let figure = |name| policy.figures().iter().find(|(known, _)| *known == name).unwrap().1;
    assert_eq!((figure("extents_to_flash"), figure("moved_bytes")), (1.0, 65_536.0));
}

/// Runs until nothing is left to do.
fn settle(policy: &mut Hybrid, now: &mut Nanos) -> Vec<(Lane, Op, u64, u32)> {
    let mut ios = Vec::new();
    loop {
        let mut finished = Finished::new();
        let io = (0..3).find_map(|lane| policy.dispatch(*now, lane));
        match (io, policy.wakeup()) {
            (Some(io), _) => {
                ios.push((io.lane, io.op, io.offset, io.len));
                let (started, at) = (*now, *now);
                let done = Completion { io, started, at, mechanics: Default::default() };
                policy.complete(*now, &done, &mut finished);
            }
            (None, Some(at)) => *now = (*now).max(at),
            (None, None) => return ios,
        }
    }
}

#[test]
fn light_writes_go_to_the_flash_and_bulky_ones_to_the_disk() {
    let mut policy = hybrid(1000, 16 << 10);
    let mut now = Nanos::ZERO;
    // Stream 0 writes 4 KiB far apart and reads; stream 1 writes 64 KiB in a row.
    let light = [100, 900].map(|sector| request(Op::Write, 0, sector, 8, 0));
    light.into_iter().for_each(|write| policy.submit(now, write));
    policy.submit(now, request(Op::Read, 0, 2000, 8, 0));
    (0..8).for_each(|at| policy.submit(now, request(Op::Write, 0, 5000 + 16 * at, 16, 1)));
    let mut ios = settle(&mut policy, &mut now);
    ios.sort_by_key(|io| (io.0, io.2));
    assert_eq!(
        ios,
        [
            (0, Op::Read, 2000 * SECTOR, 4096),
            (0, Op::Write, 5000 * SECTOR, 65_536),
            (2, Op::Write, 4 * SECTOR, 4096),
            (2, Op::Write, 2 * BLOCK + 4 * SECTOR, 4096),
        ]
    );
    // What is on the flash is read there; a read that spans both is cut and finishes once.
    policy.submit(now, request(Op::Read, 0, 96, 16, 3));
    let mut ios = settle(&mut policy, &mut now);
    ios.sort_by_key(|io| (io.0, io.2));
    assert_eq!(
        ios,
        [
            (0, Op::Read, 96 * SECTOR, 2048),
            (0, Op::Read, 108 * SECTOR, 2048),
            (2, Op::Read, 4 * SECTOR, 4096),
        ]
    );
    // An update, even by a bulky writer, is done where the data are.
    policy.submit(now, request(Op::Write, 0, 100, 8, 1));
    assert_eq!(settle(&mut policy, &mut now), [(2, Op::Write, 4 * SECTOR, 4096)]);
    let figure = |name| policy.figures().iter().find(|(known, _)| *known == name).unwrap().1;
    assert_eq!((figure("offloaded_requests"), figure("offloaded_bytes")), (2.0, 8192.0));
    assert_eq!((figure("flash_updates"), figure("split_requests")), (1.0, 1.0));
}

#[test]
fn without_room_writes_go_to_the_disk_and_are_counted() {
    let mut policy = hybrid(2, 16 << 10);
    let mut now = Nanos::ZERO;
    for at in 0..3 {
        policy.submit(now, request(Op::Write, 0, 1000 * at, 8, 0));
    }
    let lanes: Vec<Lane> = settle(&mut policy, &mut now).iter().map(|io| io.0).collect();
    // Each covers two blocks unless it begins with one: the first does, with sector 0.
    assert_eq!(lanes.iter().filter(|&&lane| lane == 0).count(), 1, "{lanes:?}");
    let figure = |name| policy.figures().iter().find(|(known, _)| *known == name).unwrap().1;
    assert_eq!((figure("exhausted_requests"), figure("exhausted_bytes")), (1.0, 4096.0));
    // A trim makes room again.
    policy.submit(now, request(Op::Trim, 0, 0, 16, 0));
    settle(&mut policy, &mut now);
    policy.submit(now, request(Op::Write, 0, 4000, 8, 0));
    assert_eq!(settle(&mut policy, &mut now).len(), 1);
    assert_eq!(policy.table.used_bytes(), 2 * BLOCK);
}
