//! Where clients meet the driver: requests out of connections, answers into them.
//!
//! Invariants: every request that was taken is answered once, or its client is gone; a buffer is freed when its answer was
//! sent. What one client sends or leaves unread holds up nobody else: each has bounds of its own.

// Signs from other threads are its task.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod permitted;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use forebay_core::contract::policy::{AnyPolicy, Done};
use forebay_core::slab::Slab;
use forebay_core::{Buf, Bytes, Fault, Flags, Nanos, Op, Outcome, Request, Slots, worst};
use forebay_live::{Memory, Moved, Plug, Pool, Wired};

use crate::connection::{AllHeld, Connection, Next, Payload, Reply, Told};
use crate::export::Export;
use crate::handshake::Agreed;
use crate::protocol::{Command, CommandFlags, Errno, Header, PAYLOAD_MAX};
use crate::stored::Stored;
use crate::tally::{Answered, Tally};
use permitted::permitted;

/// Zeros are written in pieces of this.
const ZEROS_BYTES: u32 = 1 << 20;
/// So many of them at a time.
const ZEROS_AT_ONCE: u32 = 4;
/// Extents that a client is told of at a time.
const EXTENTS_MAX: usize = 512;

/// How long a server that ends waits for clients that do not read their answers.
const PATIENCE: Nanos = Nanos::from_millis(5000);

/// How long a policy may go on with work of its own when all clients are answered and it is to end.
const LINGER: Nanos = Nanos::from_millis(500);

/// A client that has chosen an export.
pub(crate) struct Newcomer {
    pub(crate) socket: OwnedFd,
    pub(crate) agreed: Agreed,
}

/// What other threads want of a driver.
pub(crate) enum Order {
    /// Another policy from now on.
    Switch(Switch),
    /// What was counted so far.
    Tell(Sender<Tally>),
}

/// The next policy.
pub(crate) struct Switch {
    pub(crate) policy: String,
    /// Told how long nothing was taken.
    pub(crate) done: Sender<Nanos>,
}

/// Who is a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// Each connection: what a scheduler takes for a process.
    Connections,
    /// Each export: what a shaper takes for a tenant.
    Exports,
}

/// A request that was taken and is not answered.
#[derive(Clone, Copy)]
struct Asked {
    /// None asks for itself.
    plug: Option<Plug>,
    header: Header,
    at: Nanos,
    buf: Buf,
    /// What was not begun of it: from, to; what it does with it.
    rest: (u64, u64),
    op: Op,
    parts: u32,
    outcome: Outcome,
    /// Whether it was served in the first class there is.
    kept: bool,
}

/// How the driver is to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// Takes requests.
    Open,
    /// Takes none, while the policy is opened or until those under way are answered for the next one.
    Held,
    /// Takes none any more; then makes all durable.
    Closing,
}

/// Clients and their requests.
pub(crate) struct Front {
    exports: Vec<Export>,
    streams: Streams,
    stored: Option<Stored>,
    newcomers: Receiver<Newcomer>,
    connections: Vec<Option<Connection>>,
    all_held: AllHeld,
    asked: Slab<Asked>,
    ready: VecDeque<Request>,
    moved: Vec<Moved>,
    zeros: Buf,
    now: Nanos,
    /// Parts of requests that were begun and have not ended.
    begun: u32,
    course: Course,
    /// Whether clients are to be listened to again.
    listens: bool,
    orders: Receiver<Order>,
    /// The policy that follows once nothing is under way, and since when it is awaited.
    next: Option<(Switch, Nanos)>,
    /// Whether what is there is being made durable before the end, and whether it is.
    flushing: bool,
    flushed: bool,
    failed: Option<(Op, Fault)>,
    /// Since when a run is over for clients.
    over: Option<Nanos>,
    /// When to wait no longer for clients that do not read.
    deadline: Option<Nanos>,
    stop: Arc<AtomicBool>,
    /// To be called when the policy is open.
    opened: Option<Box<dyn FnOnce()>>,
    pub(crate) tally: Tally,
    /// The policy, to be asked what it counts.
    policy: Option<Rc<RefCell<AnyPolicy>>>,
}

impl Front {
    pub(crate) fn new(
        exports: Vec<Export>,
        streams: Streams,
        stored: Option<Stored>,
        newcomers: Receiver<Newcomer>,
        orders: Receiver<Order>,
        tally: Tally,
        pool: &mut Pool,
    ) -> Front {
        Front {
            tally,
            policy: None,
            exports,
            streams,
            stored,
            newcomers,
            connections: Vec::new(),
            all_held: AllHeld::default(),
            asked: Slab::default(),
            ready: VecDeque::new(),
            moved: Vec::new(),
            zeros: pool.constant(Memory::zeroed(ZEROS_BYTES as usize)),
            now: Nanos::ZERO,
            begun: 0,
            course: Course::Held,
            listens: false,
            orders,
            next: None,
            flushing: false,
            flushed: false,
            failed: None,
            over: None,
            deadline: None,
            stop: Arc::default(),
            opened: None,
        }
    }

    /// Takes in what came over sockets.
    pub(crate) fn turn<L: Wired + ?Sized>(&mut self, lanes: &mut L) -> io::Result<()> {
        let mut moved = std::mem::take(&mut self.moved);
        lanes.moved(&mut moved)?;
        if !moved.is_empty() || self.course != Course::Open {
            self.now = self.now.max(lanes.wall());
        }
        for one in moved.drain(..) {
            match one {
                Moved::Received(plug, count) => self.received(plug, count, lanes),
                Moved::Sent(plug, count) => self.sent(plug, count, lanes),
                Moved::Gone(plug) => {
                    if let Some(gone) = self.connections[plug as usize].take() {
                        self.tally.left(gone.agreed.export);
                        gone.close(lanes.pool());
                    }
                }
            }
        }
        self.moved = moved;
        while let Ok(newcomer) = self.newcomers.try_recv() {
            self.welcome(newcomer, lanes);
        }
        if std::mem::take(&mut self.listens) {
            for plug in 0..self.connections.len() as Plug {
                self.read_on(plug, lanes);
            }
        }
        // One after another: the next policy is open before another order is looked at.
        while self.course != Course::Held
            && let Ok(order) = self.orders.try_recv()
        {
            match order {
                // Who asked may not wait for it.
                Order::Tell(told) => drop(told.send(self.figures(lanes.wall()))),
                Order::Switch(_) if self.course == Course::Closing => {}
                Order::Switch(switch) => {
                    (self.course, self.now) = (Course::Held, self.now.max(lanes.wall()));
                    self.next = Some((switch, self.now));
                }
            }
        }
        self.over = self.is_over().then(|| self.over.unwrap_or(self.now));
        if self.stop.load(Ordering::Relaxed) {
            self.close(lanes.wall());
        }
        if self.course == Course::Closing && !self.flushing && self.begun == 0 {
            // What was written is made durable before the end.
            self.flushing = true;
            self.ask(Op::Flush);
        }
        Ok(())
    }

    /// Has the policy get back the state that was there before; then calls `opened`, where it could. It ends
    /// when `stop` is set.
    pub(crate) fn open(&mut self, stop: Arc<AtomicBool>, opened: impl FnOnce() + 'static) {
        self.stop = stop;
        self.opened = Some(Box::new(opened));
        self.ask(Op::Open);
    }

    /// The policy from now on is this one.
    pub(crate) fn follow(&mut self, policy: &Rc<RefCell<AnyPolicy>>, spec: &str) {
        self.policy = Some(Rc::clone(policy));
        self.tally.policy = spec.to_string();
    }

    /// Nobody looks at the policy any more.
    pub(crate) fn let_policy_go(&mut self) {
        self.policy = None;
    }

    /// What was counted until now.
    fn figures(&mut self, now: Nanos) -> Tally {
        if let Some(policy) = &self.policy {
            self.tally.counted = policy.borrow().figures();
        }
        self.tally.at(now)
    }

    /// The policy for which a run ended.
    pub(crate) fn next_policy(&self) -> Option<&str> {
        self.next.as_ref().map(|(switch, _)| &*switch.policy)
    }

    /// Has the next policy get back its state; then takes requests again.
    pub(crate) fn reopen(&mut self, trims_to_zero: bool) {
        self.exports.iter_mut().for_each(|export| export.trims_to_zero = trims_to_zero);
        self.ask(Op::Open);
    }

    /// Takes no more requests.
    fn close(&mut self, wall: Nanos) {
        if self.course != Course::Closing {
            self.course = Course::Closing;
            self.deadline = Some(wall + PATIENCE);
        }
    }

    /// What failed of opening the policy and of the flush at the end, and how.
    pub(crate) fn failed(&self) -> Option<(Op, Fault)> {
        self.failed
    }

    pub(crate) fn course(&self) -> Course {
        self.course
    }

    /// Whether a run of the driver is over.
    pub(crate) fn is_over(&self) -> bool {
        let sent = || self.connections.iter().flatten().all(|one| one.deaf || one.is_quiet());
        match self.course {
            Course::Open => false,
            Course::Held => self.begun == 0,
            Course::Closing => {
                let late = self.deadline.is_some_and(|deadline| self.now > deadline);
                self.flushed && self.begun == 0 && (late || sent())
            }
        }
    }

    /// Whether a run is to end although its policy would go on: some have always something to do.
    pub(crate) fn is_stopped(&self) -> bool {
        self.over.is_some_and(|since| self.now - since > LINGER)
    }

    /// Asks something that no client wants.
    fn ask(&mut self, op: Op) {
        let (header, at, outcome) = (Header::FLUSH, self.now, Ok(()));
        let asked = Asked {
            plug: None,
            header,
            at,
            buf: 0,
            rest: (0, 0),
            op,
            parts: 0,
            outcome,
            kept: false,
        };
        let name = self.asked.insert(asked);
        self.begin(name);
    }

    /// What the front asked itself is answered.
    fn told(&mut self, op: Op, outcome: Outcome) {
        match (op, outcome) {
            (Op::Open, Ok(())) => {
                if self.course == Course::Held {
                    (self.course, self.listens) = (Course::Open, true);
                }
                if let Some(opened) = self.opened.take() {
                    opened();
                }
                if let Some((switch, since)) = self.next.take() {
                    // Who ordered it may not wait for it.
                    let pause = self.now - since;
                    (self.tally.switches, self.tally.last_pause) = (self.tally.switches + 1, pause);
                    let _ = switch.done.send(pause);
                }
            }
            (Op::Open, Err(_)) => {
                self.failed = outcome.err().map(|fault| (op, fault));
                (self.course, self.flushing, self.flushed) = (Course::Closing, true, true);
            }
            _ => {
                (self.failed, self.flushed) = (outcome.err().map(|fault| (op, fault)), true);
            }
        }
    }

    fn welcome<L: Wired + ?Sized>(&mut self, newcomer: Newcomer, lanes: &mut L) {
        let Newcomer { socket, agreed } = newcomer;
        if self.course == Course::Closing {
            return;
        }
        // With too many the socket is dropped, which its client sees.
        let Ok(plug) = lanes.plug(socket) else { return };
        let stream = match self.streams {
            Streams::Connections => plug,
            Streams::Exports => agreed.export as u32,
        };
        let at = plug as usize;
        self.connections.resize_with(self.connections.len().max(at + 1), || None);
        self.connections[at] =
            Some(Connection::new(agreed, stream, self.all_held.clone(), lanes.pool()));
        self.tally.came(agreed.export);
        self.listen(plug, lanes);
    }

    /// Bytes came, or none will any more.
    fn received<L: Wired + ?Sized>(&mut self, plug: Plug, count: Result<u32, i32>, lanes: &mut L) {
        let Some(connection) = &mut self.connections[plug as usize] else { return };
        connection.receiving = false;
        match count {
            // What comes after the last flush is not begun: nothing would make it durable.
            Ok(count) if count > 0 && !connection.leaving && !self.flushing => {
                if connection.received(count)
                    && let Some(payload) = connection.payload.take()
                {
                    self.begin(payload.asked);
                }
                self.read_on(plug, lanes);
            }
            // A client that is gone without a word, perhaps in the middle of a write.
            _ => self.leave(plug, lanes),
        }
    }

    /// Takes the requests that are there, and listens for more.
    fn read_on<L: Wired + ?Sized>(&mut self, plug: Plug, lanes: &mut L) {
        while self.course == Course::Open {
            let Some(connection) = &mut self.connections[plug as usize] else { return };
            if connection.leaving || connection.payload.is_some() || !connection.admits() {
                break;
            }
            match connection.next(lanes.pool()) {
                Next::Starved => break,
                Next::Foreign => return self.leave(plug, lanes),
                Next::Request(header) => self.take_in(plug, header, lanes),
            }
        }
        self.listen(plug, lanes);
    }

    fn listen<L: Wired + ?Sized>(&mut self, plug: Plug, lanes: &mut L) {
        let Some(connection) = &mut self.connections[plug as usize] else { return };
        let wants = connection.payload.is_some() || connection.admits();
        if self.course == Course::Open && !connection.leaving && !connection.receiving && wants {
            let (room, whole) = connection.room(lanes.pool());
            connection.receiving = true;
            lanes.receive(plug, &[room], whole);
        }
    }

    /// A request's header came.
    fn take_in<L: Wired + ?Sized>(&mut self, plug: Plug, header: Header, lanes: &mut L) {
        let Some(connection) = &mut self.connections[plug as usize] else { return };
        if header.command == Command::Disconnect {
            connection.leaving = true;
            return self.let_go(plug, lanes);
        }
        if header.command == Command::Write && header.len > PAYLOAD_MAX {
            // So many bytes nobody waits for.
            return self.leave(plug, lanes);
        }
        connection.under_way += 1;
        self.tally.asked(connection.agreed.export);
        let export = &self.exports[connection.agreed.export];
        if let Err(errno) = permitted(&header, export, &connection.agreed) {
            if header.command == Command::Write {
                connection.skip = header.len;
            }
            return self.owe(plug, &header, Told::Failed(errno), (self.now, false));
        }
        if header.command == Command::BlockStatus {
            let one = header.flags.has(CommandFlags::REQUEST_ONE);
            let most = if one { 1 } else { EXTENTS_MAX };
            let at = export.offset + header.offset;
            let told = Stored::extents(self.stored.as_ref(), at, header.len, most);
            return self.owe(plug, &header, Told::Stored(told), (self.now, false));
        }
        let buf = match header.command {
            Command::Read | Command::Write => connection.take(header.len, lanes.pool()),
            _ => 0,
        };
        let begin = export.offset + header.offset;
        let op = match header.command {
            Command::Read | Command::Cache => Op::Read,
            Command::Flush => Op::Flush,
            Command::Trim => Op::Trim,
            Command::WriteZeroes
                if export.trims_to_zero && !header.flags.has(CommandFlags::NO_HOLE) =>
            {
                Op::Trim
            }
            _ => Op::Write,
        };
        let asked = self.asked.insert(Asked {
            plug: Some(plug),
            header,
            at: self.now,
            buf,
            rest: (begin, begin + u64::from(header.len)),
            op,
            parts: 0,
            outcome: Ok(()),
            kept: false,
        });
        if header.command == Command::Write {
            let mut payload = Payload { asked, buf, have: 0, len: header.len };
            if !connection.fill(&mut payload, lanes.pool()) {
                connection.payload = Some(payload);
                return;
            }
        }
        self.begin(asked);
    }

    /// Makes what was not begun of a request ready to be taken.
    fn begin(&mut self, name: u32) {
        let asked = &mut self.asked[name];
        let (offset, end) = asked.rest;
        let left = end - offset;
        let (len, at_once) = match (asked.header.command, asked.op) {
            // Whatever is not one request below.
            (Command::WriteZeroes, Op::Write) | (Command::Cache, _) => {
                (left.min(u64::from(ZEROS_BYTES)), ZEROS_AT_ONCE)
            }
            _ => (left, 1),
        };
        asked.rest.0 += len;
        asked.parts += 1;
        self.begun += 1;
        let more = asked.rest.0 < end && asked.parts < at_once;
        let durable = asked.header.flags.has(CommandFlags::FUA) && asked.op == Op::Write;
        let stream = asked.plug.and_then(|plug| self.connections[plug as usize].as_ref());
        self.ready.push_back(Request {
            at: self.now,
            offset,
            id: u64::from(name),
            len: len as u32,
            stream: stream.map_or(0, |connection| connection.stream),
            lane: 0,
            op: asked.op,
            // NBD does not say who waits for a write; for one that has to be durable somebody does.
            flags: if durable { Flags::FUA.with(Flags::SYNC) } else { Flags::NONE },
        });
        if more {
            self.begin(name);
        }
    }

    /// Where the bytes of a request are.
    pub(crate) fn bytes(&self, request: &Request) -> Bytes {
        let asked = &self.asked[request.id as u32];
        match (asked.header.command, asked.op) {
            (Command::WriteZeroes, Op::Write) => Bytes::of(self.zeros),
            _ if asked.buf != 0 => Bytes::of(asked.buf),
            _ => Bytes::NONE,
        }
    }

    pub(crate) fn peek(&self) -> Option<Nanos> {
        self.ready.front().map(|request| request.at)
    }

    /// # Panics
    /// Where there is none ([`Front::peek`]).
    pub(crate) fn take(&mut self) -> Request {
        self.ready.pop_front().expect("asked for only where there is one")
    }

    /// A request is answered, or a part of one.
    pub(crate) fn finished(&mut self, now: Nanos, done: &Done, slots: &mut dyn Slots) {
        self.now = self.now.max(now);
        let name = done.request.id as u32;
        let asked = &mut self.asked[name];
        asked.parts -= 1;
        self.begun -= 1;
        asked.outcome = worst(asked.outcome, done.outcome);
        asked.kept = done.class == 0;
        let fast = asked.header.flags.has(CommandFlags::FAST_ZERO);
        if let (Command::WriteZeroes, Op::Trim, Err(_), false) =
            (asked.header.command, asked.op, asked.outcome, fast)
        {
            // It cannot make holes: zeros then.
            asked.op = Op::Write;
            asked.outcome = Ok(());
            asked.rest.0 = done.request.offset;
        }
        if asked.rest.0 < asked.rest.1 && asked.outcome.is_ok() {
            return self.begin(name);
        }
        if asked.parts > 0 {
            return;
        }
        if asked.op == Op::Trim
            && asked.outcome.is_ok()
            && asked.header.flags.has(CommandFlags::FUA)
        {
            // Nothing below knows a trim that is durable at once.
            asked.op = Op::Flush;
            asked.rest = (0, 0);
            return self.begin(name);
        }
        let asked = self.asked.remove(name);
        self.answer(asked, slots);
    }

    fn answer(&mut self, asked: Asked, slots: &mut dyn Slots) {
        let Asked { header, buf, outcome, .. } = asked;
        let Some(plug) = asked.plug else {
            return self.told(asked.op, outcome);
        };
        let told = match (outcome, header.command) {
            (Err(_), Command::WriteZeroes) if asked.op == Op::Trim => {
                Told::Failed(Errno::NotSupported)
            }
            (Err(fault), _) => Told::Failed(Errno::from(fault)),
            (Ok(()), Command::Read) => Told::Data { offset: header.offset, buf, len: header.len },
            (Ok(()), _) => Told::Done,
        };
        if buf != 0 && !matches!(told, Told::Data { .. }) {
            slots.free(buf);
            if let Some(connection) = &mut self.connections[plug as usize] {
                connection.let_free(header.len);
            }
        }
        self.owe(plug, &header, told, (asked.at, asked.kept));
    }

    /// Queues an answer, which is sent with the others of the pass.
    fn owe(&mut self, plug: Plug, header: &Header, told: Told, (at, kept): (Nanos, bool)) {
        let Some(connection) = &mut self.connections[plug as usize] else { return };
        connection.under_way -= 1;
        let failed = matches!(told, Told::Failed(_));
        let how = Answered { took: self.now - at, failed, kept };
        self.tally.answered(connection.agreed.export, self.now, header, how);
        connection.owe(Reply { cookie: header.cookie, told });
    }

    /// Sends what clients are owed.
    pub(crate) fn send<L: Wired + ?Sized>(&mut self, lanes: &mut L) {
        for plug in 0..self.connections.len() as Plug {
            let Some(connection) = &mut self.connections[plug as usize] else { continue };
            if connection.deaf {
                connection.forget(lanes.pool());
            } else if connection.has_to_send() {
                let pieces = connection.compose(lanes.pool());
                lanes.send(plug, pieces);
            }
            // What was answered makes room for more.
            let listens = connection.receiving || connection.leaving;
            if !listens && connection.payload.is_none() {
                self.read_on(plug, lanes);
            }
            self.let_go(plug, lanes);
        }
    }

    fn sent<L: Wired + ?Sized>(&mut self, plug: Plug, count: Result<u32, i32>, lanes: &mut L) {
        let Some(connection) = &mut self.connections[plug as usize] else { return };
        if !connection.was_sent(count.ok(), lanes.pool()) {
            return self.leave(plug, lanes);
        }
        self.let_go(plug, lanes);
    }

    /// A client that cannot be talked with any more.
    fn leave<L: Wired + ?Sized>(&mut self, plug: Plug, lanes: &mut L) {
        let Some(connection) = &mut self.connections[plug as usize] else { return };
        connection.leaving = true;
        connection.deaf = true;
        // What is still being received belongs to the system until that ends, which comes here again.
        if !connection.receiving
            && let Some(payload) = connection.payload.take()
        {
            connection.under_way -= 1;
            let asked = self.asked.remove(payload.asked);
            let how = Answered { took: Nanos::ZERO, failed: true, kept: false };
            self.tally.answered(connection.agreed.export, self.now, &asked.header, how);
            connection.free(asked.buf, payload.len, lanes.pool());
        }
        connection.forget(lanes.pool());
        self.let_go(plug, lanes);
    }

    /// Unplugs a client that is leaving once it is owed nothing.
    fn let_go<L: Wired + ?Sized>(&mut self, plug: Plug, lanes: &mut L) {
        let Some(connection) = &mut self.connections[plug as usize] else { return };
        if connection.leaving && connection.is_done() && !connection.unplugged {
            connection.unplugged = true;
            lanes.unplug(plug);
        }
    }
}
