//! What two tiers of devices hold, against a plain model: for tests of whatever places data.
//!
//! Devices do I/Os when they like between their start and their end, and in any order. A sector has one
//! writer at a time, as under a page cache, so its versions only rise: a read has to find what was
//! acknowledged when it was asked for, or something newer.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Finished, Policy};
use crate::device::Completion;
use crate::request::{BACKGROUND, Flags, Lane, Op, Request};
use crate::time::Nanos;

const BLOCK: u64 = 4096;
const SECTOR: u64 = 512;
/// Bytes of disk that the model looks at.
const DISK_SECTORS: u64 = 512;

/// What a sector holds, by version, on a device that does I/Os when it likes.
#[derive(Default)]
struct Contents {
    /// By disk and sector.
    disks: BTreeMap<(Lane, u64), u64>,
    /// By sector of the flash.
    flash: BTreeMap<u64, u64>,
    /// What background work has read, by disk and sector.
    carried: BTreeMap<(Lane, u64), u64>,
    /// The same of clients, from which caches copy.
    read: BTreeMap<(Lane, u64), u64>,
}

/// An I/O the device has: what it reads or writes is fixed when it is done.
struct Running {
    io: Request,
    started: Nanos,
    /// Disk and sector of each of its sectors.
    homes: Vec<(Lane, u64)>,
    /// By sector: what it writes; for reads what a client has to find at least, if one asked.
    versions: Vec<Option<u64>>,
    /// Reads happen when they begin or when they end.
    early: Option<Vec<u64>>,
}

/// A client request that is not finished.
struct Asked {
    request: Request,
    /// By sector: what a read has to find at least; what a write writes.
    versions: Vec<u64>,
}

pub(super) struct World<P> {
    pub(super) policy: P,
    flash_lane: Lane,
    /// What is written to the flash in the background is what clients read, not what a move did.
    pub(super) copies_reads: bool,
    /// Disks merge whosever reads touch, so that one I/O may be of clients and of moves.
    pub(super) merges_moves: bool,
    home: fn(&P, u64) -> Option<(Lane, u64)>,
    now: Nanos,
    contents: Contents,
    running: Vec<Running>,
    asked: Vec<Asked>,
    /// By disk and sector: the newest version that was acknowledged.
    acknowledged: BTreeMap<(Lane, u64), u64>,
    version: u64,
    pub(super) finished: u64,
}

fn sectors_of(request: &Request) -> impl Iterator<Item = (Lane, u64)> + use<> {
    let lane = request.lane;
    (request.offset / SECTOR..request.end().div_ceil(SECTOR)).map(move |sector| (lane, sector))
}

impl<P: Policy> World<P> {
    pub(super) fn new(
        policy: P,
        flash_lane: Lane,
        home: fn(&P, u64) -> Option<(Lane, u64)>,
    ) -> World<P> {
        World {
            policy,
            flash_lane,
            copies_reads: false,
            merges_moves: false,
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
        let version = |home: &(Lane, u64)| self.version_of(&io, *home);
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

    /// What an I/O writes to a sector, or a client has to find there at least.
    fn version_of(&self, io: &Request, home: (Lane, u64)) -> Option<u64> {
        let Contents { read, carried, .. } = &self.contents;
        match (io.stream == BACKGROUND, io.op) {
            _ if self.is_mixed(io) => self.asked_of(Op::Read, home),
            (true, Op::Write) if self.copies_reads && io.lane == self.flash_lane => {
                Some(read.get(&home).copied().unwrap_or(0))
            }
            (true, Op::Write) => Some(carried.get(&home).copied().unwrap_or(0)),
            (true, _) => None,
            (false, op) => {
                let asked = self.asked_of(op, home);
                assert!(asked.is_some(), "nobody asked: {io:?}");
                asked
            }
        }
    }

    /// Whether an I/O may be of clients and of moves, whatever its stream.
    fn is_mixed(&self, io: &Request) -> bool {
        self.merges_moves && io.op == Op::Read && io.lane < self.flash_lane
    }

    /// A sector was read, by a client if it had to find something.
    fn found(&mut self, io: &Request, home: (Lane, u64), found: u64, least: Option<u64>) {
        if let Some(least) = least {
            assert!(found >= least, "{home:?}: found {found}, expected {least} or newer");
            self.contents.read.insert(home, found);
        }
        match least {
            None => {
                self.contents.carried.insert(home, found);
            }
            // A move may have read it too, here or in an I/O of its own; that found the newest there is.
            Some(_) if self.is_mixed(io) => {
                let carried = self.contents.carried.entry(home).or_default();
                *carried = found.max(*carried);
            }
            Some(_) => {}
        }
    }

    /// Does an I/O; what a read found.
    fn effect(&mut self, running: &Running) -> Vec<u64> {
        let io = &running.io;
        let mut found = Vec::new();
        for (index, place) in sectors_of(io).enumerate() {
            let on_flash = io.lane == self.flash_lane;
            match io.op {
                Op::Write if on_flash => {
                    let version = running.versions[index].unwrap_or(0);
                    self.contents.flash.insert(place.1, version);
                }
                Op::Write => {
                    let version = running.versions[index].unwrap_or(0);
                    self.contents.disks.insert(place, version);
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
            for (index, &home) in running.homes.iter().enumerate() {
                self.found(&running.io, home, found[index], running.versions[index]);
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

pub(super) fn request(op: Op, lane: Lane, sector: u64, count: u64, stream: u32) -> Request {
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
pub(super) type Step = (u8, u64, u64, u32, u64);

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Few places, so that everything overlaps; aligned ones are common, as on real disks.
    let place = prop_oneof![(0..60u64).prop_map(|block| block * 8), 0..480u64];
    let count = prop_oneof![3 => (1..4u64).prop_map(|blocks| blocks * 8), 1 => 1..30u64];
    prop::collection::vec((0u8..32, place, count, 0u32..4, 0u64..8_000), 1..400)
}

pub(super) fn play<P: Policy>(world: &mut World<P>, steps: &[Step]) {
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
