//! Entry points for fuzzing with untrusted bytes: no input may cause a panic, an endless wait,
//! excessive memory use or a leak.
//!
//! [`Wire`] implements lanes without a kernel: a disk in memory, a clock that advances only when
//! the driver waits, and sockets with scripted input.

// Allowed because the driver's stop flag is an atomic.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::cell::RefCell;
use std::io::{self, Cursor, Read, Write};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use forebay_core::catalog::{DeviceSet, build_placed};
use forebay_core::{Fault, Flags, Lane, Nanos, Op, Piece, Request, Slots};
use forebay_live::{
    Ended, Failure, LEN_MAX, Lanes, Plug, Pool, SocketEvent, SocketLanes, Waker, run,
};

use crate::drive::{Arrivals, Fronted};
use crate::front::{Front, Newcomer, Streams};
use crate::handshake::{Agreed, negotiate};
use crate::journal::Journal;
use crate::protocol::REQUEST_BYTES;
use crate::tally::{Counting, Tally};
use crate::{Export, Named};

const DISK_BYTES: usize = 1 << 20;
/// This number of consecutive waits indicates an endless loop.
const WAITS_MAX: u32 = 1 << 20;
/// The maximum amount of input data in bytes, apart from request headers, so that fuzzing stays
/// fast.
const SAID_MAX: usize = 1 << 17;

fn export(selector: u8) -> Export {
    Export {
        name: "disk".into(),
        description: "for all".into(),
        offset: 0,
        bytes: DISK_BYTES as u64,
        read_only: selector & 1 != 0,
        block_bytes: if selector & 2 != 0 { 4096 } else { 1 },
        rotational: false,
        trims_to_zero: selector & 4 != 0,
    }
}

/// A client that sends all its input at once, and the number of bytes sent to it.
struct Script<'a>(Cursor<&'a [u8]>, usize);

impl Read for Script<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Write for Script<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1 += bytes.len();
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Performs the handshake with a client that sends `bytes`; returns whether the client chose an
/// export, and the number of bytes sent to it.
pub fn handshake(bytes: &[u8]) -> (bool, usize) {
    let mut script = Script(Cursor::new(bytes), 0);
    let exports = [export(0), Export { name: "other".into(), ..export(3) }];
    let agreed = negotiate(&mut script, &exports).ok().flatten();
    if let Some(agreed) = agreed {
        assert!(agreed.export < exports.len() && (agreed.structured || !agreed.allocation));
    }
    (agreed.is_some(), script.1)
}

/// The outcome of serving clients.
#[derive(Debug, PartialEq, Eq)]
pub struct Served {
    /// The number of bytes sent to the untrusted client.
    pub told_bytes: usize,
    /// The peak memory use of buffers in bytes.
    pub peak_bytes: u64,
    /// The number of buffers not freed at the end.
    pub left: usize,
    /// The number of answers that the well-behaved client received.
    pub steady: usize,
}

/// The number of requests that the well-behaved client sends.
pub const STEADY: usize = 4;

/// Runs the transmission phase with a client that sends `bytes` and a well-behaved client. The
/// first two bytes choose the negotiated options and how the untrusted client receives.
pub fn requests(bytes: &[u8]) -> Served {
    let (selector, style, says) = match bytes {
        [selector, style, says @ ..] => (*selector, *style, says),
        _ => return Served { told_bytes: 0, peak_bytes: 0, left: 0, steady: STEADY },
    };
    let says = if style & 1 != 0 { spelled(says) } else { says.to_vec() };
    let hostile = Socket::new(says, 1 + (usize::from(style) >> 3) * 97, style & 2 == 0);
    let steady = Socket::new(steady(), usize::MAX, true);
    let mut wire = Wire::new(vec![hostile, steady], style & 4 != 0);
    let (tx, newcomers) = channel();
    let (_orders, ordered) = channel();
    let agreed = |export, structured| Agreed { export, structured, allocation: structured };
    let structured = selector & 8 != 0;
    for agreed in [agreed(0, structured), agreed(1, false)] {
        // Any file can stand in for the socket, because the simulated wire has its own sockets.
        let file = std::fs::File::open("/dev/null").expect("/dev/null");
        let _ = tx.send(Newcomer { socket: OwnedFd::from(file), agreed, told: None });
    }
    let policy = ["noop", "mq-deadline", "forebay", "cfq"][usize::from(selector >> 4) % 4];
    let (disks, restarts) = (1, true);
    let set = DeviceSet {
        disks,
        disk_len_max: LEN_MAX,
        disk_bytes: 0,
        flash: None,
        restarts,
        costs: [None; 2],
    };
    let mut policy = build_placed(policy, &set).expect("a policy that there is");
    let exports = vec![export(selector), export(4)];
    let tally = Tally::new(&[Named::all(""), Named::all("1")], "noop", &[]);
    let mut front =
        Front::new(exports, Streams::Connections, None, newcomers, ordered, tally, &mut wire.pool);
    let stop = Arc::clone(&wire.stop);
    front.open(stop, || true);
    let front = Rc::new(RefCell::new(front));
    let mut lanes = Fronted::new(wire, Rc::clone(&front));
    let mut arrivals = Arrivals(Rc::clone(&front));
    run(
        &mut *policy,
        &mut lanes,
        &mut arrivals,
        &mut Counting { front, journal: Journal::silent(""), pair: None },
    )
    .expect("lanes that work");
    drop(policy);
    let wire = lanes.lanes;
    let told = |nth: usize| wire.sockets.get(nth).map_or(0, |socket: &Socket| socket.heard);
    Served {
        told_bytes: told(0),
        peak_bytes: wire.pool.peak_bytes(),
        left: wire.pool.live(),
        steady: told(1) / 16,
    }
}

fn header(command: u8, flags: u8, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let mut bytes = vec![0x25, 0x60, 0x95, 0x13, 0, flags, 0, command];
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    bytes
}

/// Encodes four requests whose answers have no data, followed by the end of the stream.
fn steady() -> Vec<u8> {
    let mut bytes = header(1, 0, 1, 512, 3);
    bytes.extend(b"abc");
    bytes.extend(header(3, 0, 2, 0, 0));
    bytes.extend(header(4, 0, 3, 0, 4096));
    bytes.extend(header(6, 1, 4, 4096, 4096));
    bytes.extend(header(2, 0, 5, 0, 0));
    bytes
}

/// Converts each eight bytes to a request; most of the requests are valid. A write is followed by
/// its data, unless it states a false length.
fn spelled(bytes: &[u8]) -> Vec<u8> {
    let mut said = Vec::new();
    for (nth, one) in bytes.chunks_exact(8).enumerate() {
        let [command, flags, at_high, at_low, len_high, len_low, scale, lie] = one else {
            continue;
        };
        let offset = u64::from(u16::from_be_bytes([*at_high, *at_low])) << (scale & 15);
        let len = u32::from(u16::from_be_bytes([*len_high, *len_low])) << (scale >> 4 & 15);
        said.extend(header(command % 9, *flags, nth as u64, offset, len));
        if command % 9 == 1 && *lie < 250 {
            said.resize((said.len() + len as usize).min(SAID_MAX.max(said.len())), *lie);
        }
    }
    said
}

/// A client's socket.
struct Socket {
    says: Vec<u8>,
    said: usize,
    /// The maximum number of bytes that the server receives at a time.
    chunk: usize,
    /// Whether the client reads the server's output.
    listens: bool,
    /// Whether the client stays connected when it has sent everything.
    stays: bool,
    heard: usize,
    receiving: Option<(Piece, bool, u32)>,
    sending: Option<Vec<Piece>>,
    unplugged: bool,
    gone: bool,
}

impl Socket {
    fn new(says: Vec<u8>, chunk: usize, listens: bool) -> Socket {
        let (said, heard, stays, unplugged, gone) = (0, 0, false, false, false);
        Socket {
            says,
            said,
            chunk,
            listens,
            stays,
            heard,
            receiving: None,
            sending: None,
            unplugged,
            gone,
        }
    }

    /// Receives up to one chunk of the available input. If `ends` is set, no more input follows.
    fn receive(&mut self, pool: &mut Pool, ends: bool) -> Option<u32> {
        let (piece, whole, have) = self.receiving.take()?;
        let left = self.says.len() - self.said;
        let count = left.min(self.chunk).min((piece.len - have) as usize);
        pool.give_back(piece, true);
        let into = Piece { at: piece.at + have, len: count as u32, ..piece };
        pool.view_mut(into).copy_from_slice(&self.says[self.said..self.said + count]);
        self.said += count;
        let have = have + count as u32;
        let full = have == piece.len || have > 0 && !whole;
        if full || count == 0 && (ends || self.unplugged) {
            return Some(have);
        }
        pool.lend(piece, true);
        self.receiving = Some((piece, whole, have));
        None
    }
}

/// Lanes without a kernel.
struct Wire {
    pool: Pool,
    disk: Vec<u8>,
    ended: Vec<Ended>,
    sockets: Vec<Socket>,
    plugged: usize,
    now: Nanos,
    waits: u32,
    /// Whether every seventh I/O fails.
    fails: bool,
    started: u64,
    stop: Arc<AtomicBool>,
}

impl Wire {
    fn new(sockets: Vec<Socket>, fails: bool) -> Wire {
        Wire {
            pool: Pool::new(0),
            disk: vec![0; DISK_BYTES],
            ended: Vec::new(),
            sockets,
            plugged: 0,
            now: Nanos::ZERO,
            waits: 0,
            fails,
            started: 0,
            stop: Arc::default(),
        }
    }

    fn serve(&mut self, io: &Request, pieces: &[Piece]) -> Option<Failure> {
        self.started += 1;
        if self.fails && self.started.is_multiple_of(7) {
            return Some(Failure::Emulated(Fault::Media));
        }
        if io.end() > DISK_BYTES as u64 || io.op.moves_data() && io.len > LEN_MAX {
            return Some(Failure::Beyond);
        }
        let mut at = io.offset as usize;
        for &piece in pieces {
            let disk = &mut self.disk[at..at + piece.len as usize];
            at += piece.len as usize;
            match io.op {
                Op::Read if piece.buf == 0 => {}
                _ if piece.buf == 0 => return Some(Failure::Empty),
                Op::Read => self.pool.view_mut(piece).copy_from_slice(disk),
                _ => disk.copy_from_slice(self.pool.view(piece)),
            }
        }
        if io.op == Op::Trim {
            self.disk[io.offset as usize..io.end() as usize].fill(0);
        }
        assert!(!io.flags.has(Flags::FUA) || io.op == Op::Write, "{io:?}");
        None
    }
}

impl Lanes for Wire {
    fn count(&self) -> usize {
        1
    }

    fn reap(&mut self, _next: Nanos, ended: &mut Vec<Ended>) -> io::Result<Nanos> {
        ended.append(&mut self.ended);
        Ok(self.now)
    }

    fn wall(&mut self) -> Nanos {
        self.now
    }

    fn room(&self, _lane: Lane) -> bool {
        self.ended.len() < 8
    }

    fn slots(&mut self) -> &mut dyn Slots {
        &mut self.pool
    }

    fn start(&mut self, now: Nanos, io: Request, pieces: &[Piece]) {
        let failure = self.serve(&io, pieces);
        self.ended.push(Ended::new(io, now, now, failure));
    }

    fn waker(&mut self) -> io::Result<Waker> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn held_up(&mut self) -> Option<(Nanos, Nanos)> {
        None
    }

    fn in_flight(&self) -> usize {
        self.ended.len()
    }

    fn proceed(&mut self, until: Nanos) -> io::Result<()> {
        self.waits += 1;
        assert!(self.waits < WAITS_MAX, "it never ends");
        // Each pass takes a microsecond; the clock otherwise advances only while waiting.
        self.now += Nanos(1000);
        if self.ended.is_empty() && until < Nanos::MAX {
            self.now = self.now.max(until);
        }
        if self.plugged == self.sockets.len() && self.sockets.iter().all(|socket| socket.gone) {
            self.stop.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl SocketLanes for Wire {
    fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    fn plug(&mut self, _socket: OwnedFd) -> Result<Plug, OwnedFd> {
        self.plugged += 1;
        Ok(self.plugged as Plug - 1)
    }

    fn receive(&mut self, plug: Plug, into: &[Piece], whole: bool) {
        let socket = &mut self.sockets[plug as usize];
        if socket.receiving.is_none() && !socket.unplugged {
            assert!(into[0].len > 0, "a buffer for input is not empty");
            self.pool.lend(into[0], true);
            socket.receiving = Some((into[0], whole, 0));
        }
    }

    fn send(&mut self, plug: Plug, from: &[Piece]) {
        let socket = &mut self.sockets[plug as usize];
        assert!(socket.sending.is_none(), "one list at a time");
        if !socket.unplugged {
            from.iter().for_each(|piece| self.pool.lend(*piece, false));
            socket.sending = Some(from.to_vec());
        }
    }

    fn unplug(&mut self, plug: Plug) {
        self.sockets[plug as usize].unplugged = true;
    }

    fn moved(&mut self, moved: &mut Vec<SocketEvent>) -> io::Result<()> {
        for plug in 0..self.plugged {
            let (socket, name) = (&mut self.sockets[plug], plug as Plug);
            // A client that does not read disappears when half of its input is sent, or when the
            // server stops reading from it.
            let silent = socket.said >= socket.says.len() / 2 || socket.receiving.is_none();
            let over = silent && self.ended.is_empty() && !socket.stays;
            if (socket.listens || socket.unplugged || over)
                && let Some(pieces) = socket.sending.take()
            {
                pieces.iter().for_each(|piece| self.pool.give_back(*piece, false));
                let count = pieces.iter().map(|piece| piece.len).sum::<u32>();
                if socket.listens {
                    socket.heard += count as usize;
                }
                let told = if socket.listens { Ok(count) } else { Err(32) };
                moved.push(SocketEvent::Sent(name, told));
                // The client's further input or its disappearance is reported later.
                continue;
            }
            // If possible, end the stream only after everything received has been answered.
            let ends = socket.sending.is_none() && self.ended.is_empty() && !socket.stays;
            if let Some(count) = socket.receive(&mut self.pool, ends) {
                moved.push(SocketEvent::Received(name, Ok(count)));
            }
            if socket.unplugged && socket.receiving.is_none() && !socket.gone {
                socket.gone = true;
                moved.push(SocketEvent::Gone(name));
            }
        }
        Ok(())
    }
}

const _: () = assert!(REQUEST_BYTES == 28, "as long as `header` spells it");

#[cfg(test)]
mod steps;

#[cfg(test)]
mod tests;
