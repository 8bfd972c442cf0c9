//! Connects clients to the driver: converts their input to requests, and results to answers.
//!
//! Invariants: every accepted request is answered once, unless its client is gone; a buffer is
//! freed when its answer has been sent. A client that sends too much or does not read delays no
//! other client, because each client has its own limits.

// Allowed because this module receives signals from other threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod clients;
mod course;
mod device;
mod exports;
mod gone;
mod memory;
mod outstanding;
mod permitted;
mod volume;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Receiver;

use forebay_core::contract::{AnyPolicy, Done, VolumeOrder};
use forebay_core::slab::Slab;
use forebay_core::{
    Buf, Bytes, Completion, Fault, Flags, Nanos, Op, Outcome, Piece, Request, Slots, worst,
};
use forebay_live::{Memory, Plug, Pool, SocketEvent, SocketLanes};

use crate::Export;
use crate::back::{CLIENTS_MAX, JoinedDrive};
use crate::config::{MEMORY_BYTES, Scrub};
use crate::connection::{Connection, Payload, Reply, ReplyContent};
use crate::handshake::Agreed;
use crate::protocol::{Command, CommandFlags, Errno, Header, PAYLOAD_MAX};
use crate::request_memory::RequestMemory;
use crate::stored::Stored;
use crate::tally::{Answered, Tally};
use crate::traces::Traces;
use course::Ordered;
pub(crate) use course::{Course, Order, PolicySetup, Switch, SwitchFailure};
pub(crate) use device::{Attachment, header_of};
use exports::names_of;
use gone::Gone;
use memory::MemoryWatch;
use outstanding::Outstanding;
use permitted::permitted;
use volume::EarlierCounts;
pub(crate) use volume::{JoiningDrive, Purpose};

/// The length in bytes of the pieces in which zeros are written.
const ZEROS_BYTES: u32 = 1 << 20;
/// The maximum number of these pieces in flight.
const ZEROS_AT_ONCE: u32 = 4;
/// The maximum number of extents in one answer.
const EXTENTS_MAX: usize = 512;

/// A client that has chosen an export.
pub(crate) struct Newcomer {
    pub(crate) socket: OwnedFd,
    pub(crate) agreed: Agreed,
    /// The export as described to the client during the handshake; None if it cannot have changed
    /// since.
    pub(crate) told: Option<Export>,
}

/// What the policy treats as a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// Each connection, so that schedulers treat it as a process.
    Connections,
    /// Each export, so that its connections are served first come, first served.
    Exports,
    /// Each connection, as a client of its export: streams that are equal modulo this number belong
    /// to one export. The last number of each group is reserved for the server's own requests.
    ConnectionsOf(u32),
}

impl Streams {
    /// Returns the stream of a connection of an export.
    pub(crate) fn of(self, plug: Plug, export: usize) -> u32 {
        match self {
            Streams::Connections => plug,
            Streams::Exports => export as u32,
            Streams::ConnectionsOf(exports) => export as u32 + plug * exports,
        }
    }

    /// Returns the connection of a stream; None if streams are exports.
    fn connection(self, stream: u32) -> Option<usize> {
        match self {
            Streams::Connections => Some(stream as usize),
            Streams::Exports => None,
            Streams::ConnectionsOf(exports) => Some((stream / exports.max(1)) as usize),
        }
    }

    /// Returns the export of a stream; None if it must be looked up by connection.
    fn export(self, stream: u32) -> Option<usize> {
        match self {
            Streams::Connections => None,
            Streams::Exports => Some(stream as usize),
            Streams::ConnectionsOf(exports) => Some((stream % exports.max(1)) as usize),
        }
    }
}

/// A request that was accepted and has not been answered.
#[derive(Clone, Copy)]
struct PendingRequest {
    /// The connection; None for the server's own requests.
    plug: Option<Plug>,
    header: Header,
    /// When the request had arrived completely, minus the time for which it waited for memory.
    at: Nanos,
    /// How long the request waited for memory.
    waited: Nanos,
    buf: Buf,
    /// The part of the range for which no I/O has been started.
    rest: (u64, u64),
    op: Op,
    parts: u32,
    outcome: Outcome,
    /// How long the request waited before the policy admitted it to the class that the promise
    /// covers; None if it was not admitted to that class.
    kept_after: Option<Nanos>,
}

/// Clients and their requests.
pub(crate) struct Front {
    exports: Vec<Export>,
    /// The names of the exports, as streams of a trace.
    names: Vec<Arc<str>>,
    streams: Streams,
    stored: Option<Stored>,
    newcomers: Receiver<Newcomer>,
    connections: Vec<Option<Connection>>,
    memory: MemoryWatch,
    gone: Gone,
    asked: Slab<PendingRequest>,
    outstanding: Outstanding,
    ready: VecDeque<Request>,
    /// Writes whose data arrived while no requests were accepted. They begin when requests are
    /// accepted again.
    held: Vec<u32>,
    moved: Vec<SocketEvent>,
    zeros: Buf,
    now: Nanos,
    /// The number of parts of requests that have begun and not ended.
    begun: u32,
    course: Course,
    /// Whether to resume reading from clients.
    listens: bool,
    orders: Receiver<Order>,
    /// Policy switches that wait for the current one.
    switches: VecDeque<Switch>,
    /// The policy to use once no requests are in flight.
    next: Option<Ordered>,
    /// Whether the final flush has begun.
    flushing: bool,
    flushed: bool,
    failed: Option<(Op, Fault)>,
    /// The time since which clients have had no pending work, while the server is stopping.
    over: Option<Nanos>,
    /// The time at which to stop waiting for clients that do not read.
    deadline: Option<Nanos>,
    stop: Arc<AtomicBool>,
    /// Called when the policy is open; returns whether the policy may serve.
    opened: Option<Box<dyn FnOnce() -> bool>>,
    pub(crate) tally: Tally,
    pub(crate) traces: Traces,
    /// Messages that have not been reported to the user yet.
    pub(crate) notes: Vec<String>,
    /// The policy, for reading its counters.
    policy: Option<Rc<RefCell<AnyPolicy>>>,
    /// The number of requests of the server's own that only make the driver check for due work.
    nudges: u32,
    /// The drives that joined a volume since the start.
    joined: Vec<JoinedDrive>,
    /// Regular checks, and when the next one is due, since 1970.
    scrub: Option<(Scrub, Nanos)>,
    /// The last limit of rebuilding, and the last order to check the volume.
    limit: Option<VolumeOrder>,
    check: Option<VolumeOrder>,
    /// Work on a volume that the next policy must resume, because its predecessor was doing it.
    resumed: Vec<VolumeOrder>,
    /// The counts of the policies that served the volume before the current one.
    earlier: EarlierCounts,
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
            traces: Traces::default(),
            notes: Vec::new(),
            policy: None,
            nudges: 0,
            joined: Vec::new(),
            scrub: None,
            limit: None,
            check: None,
            resumed: Vec::new(),
            earlier: EarlierCounts::default(),
            names: names_of(&exports),
            exports,
            streams,
            stored,
            newcomers,
            connections: Vec::new(),
            memory: MemoryWatch::new(RequestMemory::new(MEMORY_BYTES)),
            gone: Gone::default(),
            asked: Slab::default(),
            outstanding: Outstanding::default(),
            ready: VecDeque::new(),
            held: Vec::new(),
            moved: Vec::new(),
            zeros: pool.constant(Memory::zeroed(ZEROS_BYTES as usize)),
            now: Nanos::ZERO,
            begun: 0,
            course: Course::Held,
            listens: false,
            orders,
            switches: VecDeque::new(),
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

    /// Processes everything that has arrived on sockets.
    pub(crate) fn turn<L: SocketLanes + ?Sized>(&mut self, lanes: &mut L) -> io::Result<()> {
        let mut moved = std::mem::take(&mut self.moved);
        lanes.moved(&mut moved)?;
        if !moved.is_empty() || self.course != Course::Open {
            self.now = self.now.max(lanes.wall());
        }
        for one in moved.drain(..) {
            match one {
                SocketEvent::Received(plug, count) => self.received(plug, count, lanes),
                SocketEvent::Sent(plug, count) => self.sent(plug, count, lanes),
                SocketEvent::Asked(plug, request) => self.asked_by_device(plug, request, lanes),
                SocketEvent::Gone(plug) => {
                    if let Some(gone) = self.connections[plug as usize].take() {
                        self.tally.left(gone.agreed.export);
                        gone.close(lanes.pool());
                    }
                }
            }
        }
        self.moved = moved;
        // The export of a newcomer may have changed before it connected. The order that changed it
        // has already been received, so it is executed first.
        let newcomers: Vec<Newcomer> = self.newcomers.try_iter().collect();
        if std::mem::take(&mut self.listens) {
            for plug in 0..self.connections.len() as Plug {
                self.read_on(plug, lanes);
            }
        }
        self.steer(lanes);
        for newcomer in newcomers {
            self.welcome(newcomer, lanes);
        }
        Ok(())
    }

    /// Processes the header of a request. Returns false if there is no memory for the request,
    /// which is then set aside.
    fn take_in<L: SocketLanes + ?Sized>(
        &mut self,
        plug: Plug,
        header: Header,
        lanes: &mut L,
    ) -> bool {
        let Some(connection) = &mut self.connections[plug as usize] else { return true };
        if header.command == Command::Disconnect {
            (connection.leaving, connection.took_leave) = (true, true);
            self.let_go(plug, lanes);
            return true;
        }
        if header.command == Command::Write && header.len > PAYLOAD_MAX {
            // The write announces more data than the server is willing to receive.
            self.leave(plug, lanes);
            return true;
        }
        let export = &self.exports[connection.agreed.export];
        let permitted = permitted(&header, export, &connection.agreed);
        let has_data = matches!(header.command, Command::Read | Command::Write);
        let (mut buf, mut waited) = (0, Nanos::ZERO);
        if has_data && permitted.is_ok() {
            self.memory.watch();
            let is_promised = self.tally.has_promise(connection.agreed.export);
            let Some(taken) = connection.take(header.len, is_promised, lanes.pool()) else {
                connection.starve(header, self.now);
                return false;
            };
            waited = connection.starving_since().map_or(Nanos::ZERO, |since| self.now - since);
            connection.stop_starving();
            self.gone.took(taken, plug);
            buf = taken;
        }
        self.accept(plug, header, (buf, waited), permitted, lanes);
        true
    }

    /// Registers that a request has arrived completely.
    fn arrives(&mut self, name: u32, export: usize) {
        let asked = &mut self.asked[name];
        asked.at = self.now - asked.waited;
        self.outstanding.begins(name, export, asked.at, asked.header.command);
    }

    /// Accepts a request whose data has a buffer, after it has waited for that buffer.
    fn accept<L: SocketLanes + ?Sized>(
        &mut self,
        plug: Plug,
        header: Header,
        (buf, waited): (Buf, Nanos),
        permitted: Result<(), Errno>,
        lanes: &mut L,
    ) {
        let Some(connection) = &mut self.connections[plug as usize] else { return };
        connection.under_way += 1;
        self.tally.asked(connection.agreed.export);
        let export = &self.exports[connection.agreed.export];
        if let Err(errno) = permitted {
            if header.command == Command::Write {
                connection.skip = header.len;
            }
            return self.owe(plug, &header, ReplyContent::Failed(errno), (self.now, None));
        }
        if header.command == Command::BlockStatus {
            let one = header.flags.has(CommandFlags::REQUEST_ONE);
            let most = if one { 1 } else { EXTENTS_MAX };
            let at = export.offset + header.offset;
            let told = Stored::extents(self.stored.as_ref(), at, header.len, most);
            return self.owe(plug, &header, ReplyContent::Stored(told), (self.now, None));
        }
        // A prefetch has no data for the client, but a cache would write its buffer to the flash.
        if header.command == Command::Cache && !self.gone.drops() {
            return self.owe(plug, &header, ReplyContent::Done, (self.now, None));
        }
        let is_device = connection.device.is_some();
        if is_device && header.command == Command::Write {
            let into = Piece { buf, at: 0, len: header.len };
            if lanes.load(plug, device::tag_of(&header), into).is_err() {
                connection.free(buf, header.len, lanes.pool());
                let failed = ReplyContent::Failed(Errno::Io);
                return self.owe(plug, &header, failed, (self.now, None));
            }
        }
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
        let asked = self.asked.insert(PendingRequest {
            plug: Some(plug),
            header,
            at: self.now,
            waited,
            buf,
            rest: (begin, begin + u64::from(header.len)),
            op,
            parts: 0,
            outcome: Ok(()),
            kept_after: None,
        });
        if header.command == Command::Write && !is_device {
            let mut payload = Payload { asked, buf, have: 0, len: header.len };
            if !connection.fill(&mut payload, lanes.pool()) {
                connection.payload = Some(payload);
                return;
            }
        }
        let export = connection.agreed.export;
        self.arrives(asked, export);
        self.begin(asked);
    }

    /// Makes the remaining parts of a request available to the driver.
    fn begin(&mut self, name: u32) {
        let own = self.own_stream();
        let asked = &mut self.asked[name];
        let (offset, end) = asked.rest;
        let left = end - offset;
        let (len, at_once) = match (asked.header.command, asked.op) {
            // These commands need several requests.
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
            stream: stream.map_or(own, |connection| connection.stream),
            lane: 0,
            op: asked.op,
            // NBD does not say whether anything waits for a write; a durable write is assumed to be
            // waited for.
            flags: if durable { Flags::FUA.with(Flags::SYNC) } else { Flags::NONE },
        });
        if more {
            self.begin(name);
        }
    }

    /// Returns the stream of the server's own requests. It differs from the streams of all clients:
    /// an error reported to it has not been reported to any client.
    pub(crate) fn own_stream(&self) -> u32 {
        match self.streams {
            Streams::Connections => CLIENTS_MAX,
            Streams::Exports => self.exports.len() as u32,
            Streams::ConnectionsOf(exports) => exports.saturating_sub(1),
        }
    }

    /// Returns where the bytes of a request are.
    pub(crate) fn bytes(&self, request: &Request) -> Bytes {
        let asked = &self.asked[request.id as u32];
        match (asked.header.command, asked.op) {
            (Command::WriteZeroes, Op::Write) => Bytes::of(self.zeros),
            _ if asked.buf != 0 => Bytes::of(asked.buf),
            _ => Bytes::NONE,
        }
    }

    /// Records the arrival of a request. The server's final flush is recorded too, so that a
    /// simulation of the trace also performs it.
    #[inline]
    pub(crate) fn record_arrival(&mut self, request: &Request) {
        if self.traces.records_clients() {
            let name = self.name_of(request.stream);
            self.traces.arrived(request, name.as_ref());
        }
    }

    /// Records the start of an I/O.
    #[inline]
    pub(crate) fn record_start(&mut self, now: Nanos, io: &Request) {
        if self.traces.records_issued() {
            let name = self.owner_of(io);
            self.traces.started(now, io, name.as_ref());
        }
    }

    /// Records the end of an I/O.
    #[inline]
    pub(crate) fn record_end(&mut self, completion: &Completion) {
        self.traces.ended(completion);
    }

    pub(crate) fn peek(&self) -> Option<Nanos> {
        self.ready.front().map(|request| request.at)
    }

    /// Returns the next request.
    ///
    /// # Panics
    /// Panics if there is no request ([`Front::peek`]).
    pub(crate) fn take(&mut self) -> Request {
        self.ready.pop_front().expect("called only if one is ready")
    }

    /// Handles the answer to a request, or to a part of one.
    pub(crate) fn finished(&mut self, now: Nanos, done: &Done, slots: &mut dyn Slots) {
        self.now = self.now.max(now);
        let name = done.request.id as u32;
        let asked = &mut self.asked[name];
        asked.parts -= 1;
        self.begun -= 1;
        asked.outcome = worst(asked.outcome, done.outcome);
        asked.kept_after =
            (done.class == 0).then(|| done.deferred(now).max(asked.kept_after.unwrap_or_default()));
        let fast = asked.header.flags.has(CommandFlags::FAST_ZERO);
        if let (Command::WriteZeroes, Op::Trim, Err(_), false) =
            (asked.header.command, asked.op, asked.outcome, fast)
        {
            // The disk cannot punch holes, so zeros are written instead.
            asked.op = Op::Write;
            asked.outcome = Ok(());
            asked.rest.0 = done.request.offset;
        }
        let goes_on = asked.rest.0 < asked.rest.1 && asked.outcome.is_ok();
        if goes_on && !self.is_for_nobody(name) {
            return self.begin(name);
        }
        let asked = &mut self.asked[name];
        if asked.parts > 0 {
            return;
        }
        if asked.op == Op::Trim
            && asked.outcome.is_ok()
            && asked.header.flags.has(CommandFlags::FUA)
        {
            // The layers below do not support durable trims, so a flush follows.
            asked.op = Op::Flush;
            asked.rest = (0, 0);
            return self.begin(name);
        }
        let asked = self.asked.remove(name);
        self.outstanding.ends(name);
        self.answer(asked, slots);
    }

    fn answer(&mut self, asked: PendingRequest, slots: &mut dyn Slots) {
        let PendingRequest { header, buf, outcome, .. } = asked;
        let Some(plug) = asked.plug else {
            return self.told(asked.op, outcome);
        };
        let told = match (outcome, header.command) {
            (Err(_), Command::WriteZeroes) if asked.op == Op::Trim => {
                ReplyContent::Failed(Errno::NotSupported)
            }
            (Err(fault), _) => ReplyContent::Failed(Errno::from(fault)),
            (Ok(()), Command::Read) => {
                ReplyContent::Data { offset: header.offset, buf, len: header.len }
            }
            (Ok(()), _) => ReplyContent::Done,
        };
        if buf != 0 && !matches!(told, ReplyContent::Data { .. }) {
            slots.free(buf);
            if let Some(connection) = &mut self.connections[plug as usize] {
                connection.let_free(header.len);
            }
        }
        self.owe(plug, &header, told, (asked.at, asked.kept_after));
    }

    /// Queues an answer, which is sent together with the other answers of this pass.
    fn owe(
        &mut self,
        plug: Plug,
        header: &Header,
        told: ReplyContent,
        (at, kept_after): (Nanos, Option<Nanos>),
    ) {
        let Some(connection) = &mut self.connections[plug as usize] else { return };
        connection.under_way -= 1;
        let failed = matches!(told, ReplyContent::Failed(_));
        let how = Answered { took: self.now - at, failed, kept_after };
        self.tally.answered(connection.agreed.export, self.now, header, how);
        connection.owe(Reply { cookie: header.cookie, told });
    }
}
