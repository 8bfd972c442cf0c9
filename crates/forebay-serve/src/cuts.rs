//! What a flush or FUA promised a client is there after a cut: NBD's own rules on media that lose power, under every
//! kind of policy, with a client that keeps account of what each sector may hold.

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::channel;

use forebay_core::catalog::{DeviceSet, build_placed};
use forebay_core::{Lane, Nanos, Piece, Request, Slots};
use forebay_live::{
    Crash, Ended, LEN_MAX, Lanes, Lie, Medium, Moved, Plug, Pool, Tear, Troubles, Waker, Wired, run,
};

use crate::config::Named;
use crate::drive::{Arrivals, Fronted};
use crate::export::Export;
use crate::front::{Front, Newcomer, Streams};
use crate::handshake::Agreed;
use crate::tally::{Counting, Tally};

const SECTOR: u64 = 512;
const SECTORS: u64 = 256;
const UNDER_WAY: usize = 12;

/// What a sector may hold: zeros, the stamp of a write, or anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Stamp(u64),
    Anything,
}

/// A change of a sector, in the order that they were asked.
#[derive(Clone, Copy, Debug)]
struct Change {
    value: Value,
    /// When it was answered.
    answered: Option<u64>,
}

#[derive(Clone, Copy)]
struct Asked {
    command: u16,
    fua: bool,
    first: u64,
    count: u64,
    /// When it was asked.
    at: u64,
}

/// A client that asks at random and knows what it was promised.
struct Client {
    state: u64,
    clock: u64,
    sectors: Vec<Vec<Change>>,
    under_way: BTreeMap<u64, Asked>,
    says: VecDeque<u8>,
    heard: VecDeque<u8>,
    answered: u64,
}

impl Client {
    fn new(seed: u64) -> Client {
        let settled = Change { value: Value::Stamp(0), answered: Some(0) };
        Client {
            state: seed,
            clock: 1,
            sectors: vec![vec![settled]; SECTORS as usize],
            under_way: BTreeMap::new(),
            says: VecDeque::new(),
            heard: VecDeque::new(),
            answered: 0,
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % below
    }

    /// Asks one thing more, of sectors that nothing under way touches.
    fn ask(&mut self) {
        let command = [1, 1, 1, 1, 0, 0, 3, 4, 6][self.draw(9) as usize];
        let fua = self.draw(4) == 0 && command != 0 && command != 3;
        let (first, count) = (self.draw(SECTORS - 16), 1 + self.draw(16));
        let (first, count) = if command == 3 { (0, 0) } else { (first, count) };
        let meets = |one: &Asked| one.first < first + count && first < one.first + one.count;
        if self.under_way.values().any(meets) {
            return;
        }
        self.clock += 1;
        let (cookie, at) = (self.clock, self.clock);
        self.under_way.insert(cookie, Asked { command, fua, first, count, at });
        let value = match command {
            1 => Some(Value::Stamp(cookie)),
            4 => Some(Value::Anything),
            6 => Some(Value::Stamp(0)),
            _ => None,
        };
        for sector in first..first + count {
            let changes = &mut self.sectors[sector as usize];
            changes.extend(value.map(|value| Change { value, answered: None }));
        }
        self.says.extend(0x2560_9513_u32.to_be_bytes());
        // Zeros without a hole, every other time.
        let no_hole = u16::from(command == 6 && cookie % 2 == 0) << 1;
        self.says.extend((u16::from(fua) | no_hole).to_be_bytes());
        self.says.extend(command.to_be_bytes());
        self.says.extend(cookie.to_be_bytes());
        self.says.extend((first * SECTOR).to_be_bytes());
        self.says.extend(((count * SECTOR) as u32).to_be_bytes());
        if command == 1 {
            let stamp = cookie.to_le_bytes();
            (0..count * SECTOR / 8).for_each(|_| self.says.extend(stamp));
        }
    }

    /// Takes in answers that came whole.
    fn hear(&mut self) {
        while self.heard.len() >= 16 {
            let head: Vec<u8> = self.heard.iter().copied().take(16).collect();
            assert_eq!(head[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0], "nothing fails");
            let cookie = u64::from_be_bytes(head[8..].try_into().unwrap());
            let asked = self.under_way[&cookie];
            let len = if asked.command == 0 { (asked.count * SECTOR) as usize } else { 0 };
            if self.heard.len() < 16 + len {
                return;
            }
            let data: Vec<u8> = self.heard.drain(..16 + len).skip(16).collect();
            self.under_way.remove(&cookie);
            self.clock += 1;
            self.answered += 1;
            self.settle(&asked, &data);
        }
    }

    /// What an answer promises.
    fn settle(&mut self, asked: &Asked, data: &[u8]) {
        let clock = self.clock;
        for (nth, sector) in (asked.first..asked.first + asked.count).enumerate() {
            let changes = &mut self.sectors[sector as usize];
            match asked.command {
                0 => {
                    let newest = changes.last().unwrap().value;
                    let read = &data[nth * SECTOR as usize..][..SECTOR as usize];
                    assert!(holds(read, newest), "sector {sector} reads otherwise than {newest:?}");
                }
                _ => changes.last_mut().unwrap().answered = Some(clock),
            }
            if asked.fua {
                changes.drain(..changes.len() - 1);
            }
        }
        if asked.command == 3 {
            for changes in &mut self.sectors {
                let covered = |one: &Change| one.answered.is_some_and(|at| at < asked.at);
                if let Some(newest) = changes.iter().rposition(covered) {
                    changes.drain(..newest);
                }
            }
        }
    }

    /// Sectors that do not hold what was promised.
    fn broken(&self, medium: &Medium) -> Vec<u64> {
        let is_broken = |sector: &u64| {
            let mut found = [0; SECTOR as usize];
            medium.read(sector * SECTOR, &mut found);
            !self.sectors[*sector as usize].iter().any(|change| holds(&found, change.value))
        };
        (0..SECTORS).filter(is_broken).collect()
    }
}

fn holds(bytes: &[u8], value: Value) -> bool {
    match value {
        Value::Anything => true,
        Value::Stamp(stamp) => bytes.chunks(8).all(|word| word == stamp.to_le_bytes()),
    }
}

/// Media that lose power, and one client's socket.
struct Cutting {
    crash: Crash,
    client: Client,
    receiving: Option<(Piece, bool, u32)>,
    sending: Option<Vec<Piece>>,
}

impl Lanes for Cutting {
    fn count(&self) -> usize {
        self.crash.count()
    }
    fn reap(&mut self, next: Nanos, ended: &mut Vec<Ended>) -> io::Result<Nanos> {
        self.crash.reap(next, ended)
    }
    fn wall(&mut self) -> Nanos {
        self.crash.wall()
    }
    fn room(&self, lane: Lane) -> bool {
        self.crash.room(lane)
    }
    fn slots(&mut self) -> &mut dyn Slots {
        self.crash.slots()
    }
    fn start(&mut self, now: Nanos, io: Request, pieces: &[Piece]) {
        self.crash.start(now, io, pieces);
    }
    fn waker(&mut self) -> io::Result<Waker> {
        self.crash.waker()
    }
    fn held_up(&mut self) -> Option<(Nanos, Nanos)> {
        self.crash.held_up()
    }
    fn under_way(&self) -> usize {
        self.crash.under_way()
    }
    fn proceed(&mut self, until: Nanos) -> io::Result<()> {
        self.crash.proceed(until)
    }
}

impl Wired for Cutting {
    fn pool(&mut self) -> &mut Pool {
        self.crash.pool_mut()
    }
    fn plug(&mut self, _socket: OwnedFd) -> Result<Plug, OwnedFd> {
        Ok(0)
    }
    fn receive(&mut self, _plug: Plug, into: &[Piece], whole: bool) {
        self.crash.pool_mut().lend(into[0], true);
        self.receiving = Some((into[0], whole, 0));
    }
    fn send(&mut self, _plug: Plug, from: &[Piece]) {
        from.iter().for_each(|piece| self.crash.pool_mut().lend(*piece, false));
        self.sending = Some(from.to_vec());
    }
    fn unplug(&mut self, _plug: Plug) {}
    fn moved(&mut self, moved: &mut Vec<Moved>) -> io::Result<()> {
        let pool = self.crash.pool_mut();
        if let Some(pieces) = self.sending.take() {
            let mut count = 0;
            for piece in pieces {
                pool.give_back(piece, false);
                self.client.heard.extend(pool.view(piece));
                count += piece.len;
            }
            moved.push(Moved::Sent(0, Ok(count)));
            self.client.hear();
        }
        if self.client.under_way.len() < UNDER_WAY {
            self.client.ask();
        }
        if let Some((piece, whole, have)) = self.receiving.take() {
            let count = self.client.says.len().min((piece.len - have) as usize);
            pool.give_back(piece, true);
            let into = Piece { at: piece.at + have, len: count as u32, ..piece };
            pool.view_mut(into)
                .iter_mut()
                .zip(self.client.says.drain(..count))
                .for_each(|(to, from)| *to = from);
            let have = have + count as u32;
            if have == 0 || whole && have < piece.len {
                pool.lend(piece, true);
                self.receiving = Some((piece, whole, have));
            } else {
                moved.push(Moved::Received(0, Ok(have)));
            }
        }
        Ok(())
    }
}

/// Serves a client until the power goes: how many requests were answered, and which sectors then break a promise.
fn cut(policy: &str, seed: u64, lies: Option<Lie>) -> (u64, Vec<u64>) {
    let mut client = Client::new(seed);
    let cut_after = Some(20 + client.draw(600));
    let troubles = Troubles { cut_after, lies, ..Troubles::default() };
    let depth = 1 + client.draw(8) as usize;
    let crash = Crash::new(vec![Medium::new(seed)], 512, depth, seed, troubles);
    let mut lanes = Cutting { crash, client, receiving: None, sending: None };
    let set = DeviceSet { disks: 1, disk_len_max: LEN_MAX, restarts: true, ..DeviceSet::default() };
    let mut policy = build_placed(policy, &set).unwrap();
    let export = Export {
        name: String::new(),
        description: String::new(),
        offset: 0,
        bytes: SECTORS * SECTOR,
        read_only: false,
        block_bytes: 512,
        rotational: false,
        trims_to_zero: false,
    };
    let (newcome, newcomers) = channel();
    let (_order, orders) = channel();
    let socket = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
    let agreed = Agreed { export: 0, structured: false, allocation: false };
    newcome.send(Newcomer { socket, agreed }).unwrap();
    let tally = Tally::new(&[Named::all("")], "noop");
    let streams = Streams::Connections;
    let mut front = Front::new(vec![export], streams, None, newcomers, orders, tally, lanes.pool());
    front.open(Arc::default(), || {});
    let front = Rc::new(RefCell::new(front));
    let mut lanes = Fronted { lanes, front: Rc::clone(&front) };
    let (mut arrivals, front) = (Arrivals(Rc::clone(&front)), front);
    let mut counting = Counting { front, recording: None };
    run(&mut *policy, &mut lanes, &mut arrivals, &mut counting).expect_err("the power goes");
    let Cutting { mut crash, client, receiving, sending } = lanes.lanes;
    for piece in sending.into_iter().flatten() {
        crash.pool_mut().give_back(piece, false);
    }
    if let Some((piece, _, _)) = receiving {
        crash.pool_mut().give_back(piece, true);
    }
    let media = crash.cut(Tear::Sector);
    (client.answered, client.broken(&media[0]))
}

const POLICIES: [&str; 6] =
    ["noop", "none", "mq-deadline", "forebay", "bid", "promised:cmin=100:over=deadline:depth=4"];

/// How many cuts: 2,000 with `FOREBAY_LAWS=10`.
fn seeds() -> u64 {
    let times: u64 =
        std::env::var("FOREBAY_LAWS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    34 * times
}

#[test]
fn what_a_flush_or_fua_covered_is_there_after_a_cut() {
    let mut answered = 0;
    for policy in POLICIES {
        for seed in 0..seeds() {
            let (count, broken) = cut(policy, seed, None);
            assert!(broken.is_empty(), "{policy}, seed {seed}: sectors {broken:?}");
            answered += count;
        }
    }
    assert!(answered > 50 * seeds(), "{answered} answers are too few to tell anything");
}

#[test]
fn a_disk_that_lies_breaks_it() {
    for lie in [Lie::Flushes, Lie::Durable] {
        for policy in POLICIES {
            let breaks = |seed| !cut(policy, seed, Some(lie)).1.is_empty();
            assert!((0..40).any(breaks), "{policy}: {lie:?} goes unnoticed");
        }
    }
}
