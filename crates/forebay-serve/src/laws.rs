//! Tests the server's guarantees on media that lose power and fail: data covered by a flush or FUA
//! survives, and acknowledged data can be read.

#![allow(clippy::unwrap_used)]

mod client;
mod cuts;
mod kept_up;
mod losses;
mod newcomers;
mod promises;
mod resized;
mod switches;

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};

use forebay_core::contract::AnyPolicy;
use forebay_core::{Lane, Nanos, Piece, Policy, Request, Slots};
use forebay_live::{Ended, Lanes, Plug, Pool, SocketEvent, SocketLanes, Waker, run};
use forebay_rig::Crash;
use forebay_testing::longer;

use crate::drive::{Arrivals, Fronted, Shared};
use crate::front::{Front, Newcomer, Order, Streams};
use crate::handshake::Agreed;
use crate::journal::Journal;
use crate::tally::{Counting, Tally};
use crate::{Export, Named};
use client::Client;

/// Media that lose power and fail, and the socket of one client.
pub(super) struct Cutting {
    crash: Crash,
    client: Client,
    receiving: Option<(Piece, bool, u32)>,
    sending: Option<Vec<Piece>>,
    /// Called in each pass of the driver.
    meddle: Meddle,
}

type Meddle = Box<dyn FnMut(&mut Crash, &mut Client)>;

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
    fn in_flight(&self) -> usize {
        self.crash.in_flight()
    }
    fn proceed(&mut self, until: Nanos) -> io::Result<()> {
        self.crash.proceed(until)
    }
}

impl SocketLanes for Cutting {
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
    fn moved(&mut self, moved: &mut Vec<SocketEvent>) -> io::Result<()> {
        let pool = self.crash.pool_mut();
        if let Some(pieces) = self.sending.take() {
            let mut count = 0;
            for piece in pieces {
                pool.give_back(piece, false);
                self.client.heard.extend(pool.view(piece));
                count += piece.len;
            }
            moved.push(SocketEvent::Sent(0, Ok(count)));
            self.client.hear();
            self.crash.client_proceeds();
        }
        (self.meddle)(&mut self.crash, &mut self.client);
        let pool = self.crash.pool_mut();
        self.client.go_on();
        let has_bytes = !self.client.says.is_empty();
        if let Some((piece, whole, have)) = self.receiving.take() {
            let count =
                self.client.says.len().min((piece.len - have) as usize).min(self.client.chunk);
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
                moved.push(SocketEvent::Received(0, Ok(have)));
            }
            if has_bytes {
                self.crash.client_proceeds();
            }
        }
        Ok(())
    }
}

/// The outcome of serving a client.
struct Served {
    outcome: io::Result<()>,
    crash: Crash,
    client: Client,
}

/// The channels on which the driver receives input from other threads.
struct Arriving {
    /// The export at the beginning of the test.
    export: Export,
    newcomers: Receiver<Newcomer>,
    orders: Receiver<Order>,
}

impl Arriving {
    /// A client of an export of `bytes` bytes.
    fn one(bytes: u64, orders: Receiver<Order>) -> Arriving {
        Arriving::told(export(0, bytes), None, orders)
    }

    /// A client of `export`, which was described to it as `told` during the handshake.
    fn told(export: Export, told: Option<Export>, orders: Receiver<Order>) -> Arriving {
        let (newcome, newcomers) = channel();
        let socket = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let agreed = Agreed { export: 0, structured: false, allocation: false };
        newcome.send(Newcomer { socket, agreed, told }).unwrap();
        Arriving { export, newcomers, orders }
    }
}

fn export(offset: u64, bytes: u64) -> Export {
    Export {
        name: String::new(),
        description: String::new(),
        offset,
        bytes,
        read_only: false,
        block_bytes: 512,
        rotational: false,
        trims_to_zero: false,
    }
}

/// Serves a client through `policy` until `stop` is set or the power fails; calls `meddle` in each
/// pass.
fn serve<P: Policy + ?Sized>(
    policy: &mut P,
    crash: Crash,
    client: Client,
    stop: Arc<AtomicBool>,
    meddle: Meddle,
) -> Served {
    let (_order, orders) = channel();
    serve_ordered(policy, crash, client, stop, meddle, orders)
}

/// Serves a client through a policy that accepts orders during the run.
fn serve_reachable(
    policy: &Rc<RefCell<AnyPolicy>>,
    crash: Crash,
    client: Client,
    stop: Arc<AtomicBool>,
    meddle: Meddle,
    orders: Receiver<Order>,
) -> Served {
    let mut shared = Shared(Rc::clone(policy));
    let arriving = Arriving::one(client.bytes(), orders);
    serve_as(&mut shared, Some(policy), crash, client, stop, meddle, arriving)
}

/// Serves a client like [`serve`], with orders from another thread. The run also ends when the
/// policy is to be switched.
fn serve_ordered<P: Policy + ?Sized>(
    policy: &mut P,
    crash: Crash,
    client: Client,
    stop: Arc<AtomicBool>,
    meddle: Meddle,
    orders: Receiver<Order>,
) -> Served {
    let arriving = Arriving::one(client.bytes(), orders);
    serve_as(policy, None, crash, client, stop, meddle, arriving)
}

fn serve_as<P: Policy + ?Sized>(
    policy: &mut P,
    reachable: Option<&Rc<RefCell<AnyPolicy>>>,
    crash: Crash,
    client: Client,
    stop: Arc<AtomicBool>,
    meddle: Meddle,
    arriving: Arriving,
) -> Served {
    let mut lanes = Cutting { crash, client, receiving: None, sending: None, meddle };
    let tally = Tally::new(&[Named::all("")], "noop", &[]);
    let streams = Streams::Connections;
    let Arriving { export, newcomers, orders } = arriving;
    let mut front = Front::new(vec![export], streams, None, newcomers, orders, tally, lanes.pool());
    reachable.iter().for_each(|policy| front.follow(policy));
    front.open(stop, || true);
    let front = Rc::new(RefCell::new(front));
    let mut lanes = Fronted::new(lanes, Rc::clone(&front));
    let (mut arrivals, front) = (Arrivals(Rc::clone(&front)), front);
    let mut counting = Counting { front, journal: Journal::silent(""), pair: None };
    let outcome = run(policy, &mut lanes, &mut arrivals, &mut counting).map(drop);
    drop(arrivals);
    let Cutting { mut crash, client, receiving, sending, .. } = lanes.lanes;
    for piece in sending.into_iter().flatten() {
        crash.pool_mut().give_back(piece, false);
    }
    if let Some((piece, _, _)) = receiving {
        crash.pool_mut().give_back(piece, true);
    }
    Served { outcome, crash, client }
}
