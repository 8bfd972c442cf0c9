//! Files and block devices through io_uring.
//!
//! Files are registered, and so is the first part of the buffer pool. The I/Os of a pass are
//! submitted in small batches, the last one in the call that also waits, if there is time to wait.
//! Completions are read from shared memory; the kernel is entered for them only if it signals
//! pending work.
//!
//! Invariant: bytes are lent from before an I/O is submitted until it has ended. Dropping the
//! driver waits for I/Os in flight; if that fails, the pool leaks its memory, because bytes are
//! still lent.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use forebay_core::{Buf, Flags, Lane, Nanos, Op, Piece, Request, Slots};
use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::{Fixed, FsyncFlags};

use crate::clock::{Clock, SPIN, WallClock};
use crate::held_up::SubmissionDelays;
use crate::lent::Lent;
use crate::page_cache::{self, PageCache};
use crate::priority::{NO_PRIORITY, promised_priority};
use crate::ring::{CompletedEntry, Ring};
use crate::ublk::Channel;
use crate::wire::{Extent, LEN_MAX, Shape, outcome, source};
use crate::{Ended, Failure, Lanes, Plug, Pool, SocketEvent, SocketLanes, Target, Waker};

/// The index of the arena among the registered buffers.
const ARENA: u16 = 0;
/// The number of registered bytes of the pool: enough for 32 I/Os of the maximum length. Space that
/// was used for one size of buffer is not reused for other sizes.
const ARENA_BYTES: usize = 32 << 20;
/// The number of I/Os that are submitted at once. A greater number saves system calls, but delays
/// the first I/O of a batch.
const BATCH: usize = 4;

/// The number of bytes to copy from and to memory in one pass before the completed I/Os are
/// answered.
const AT_ONCE_BYTES: u64 = 256 << 10;

/// An I/O in flight. Its lists are reused.
struct Slot {
    io: Request,
    started: Nanos,
    extent: Extent,
    lent: Lent,
    /// The pieces in the kernel's form, if there are several.
    vectors: Vec<libc::iovec>,
}

impl Slot {
    fn new(io: Request, started: Nanos, extent: Extent) -> Slot {
        Slot { io, started, extent, lent: Lent::default(), vectors: Vec::new() }
    }

    /// Tries to complete a partial write. If the file system is full, this returns the error.
    #[cold]
    fn write_again(&self, target: &Target, pool: &Pool) -> Option<Failure> {
        let mut offset = self.extent.offset;
        for piece in &self.lent.pieces {
            if let Err(error) = target.file().write_all_at(pool.view(*piece), offset) {
                return Some(Failure::of(&error));
            }
            offset += u64::from(piece.len);
        }
        let durable = self.io.flags.has(Flags::FUA).then(|| target.file().sync_data());
        durable?.err().map(|error| Failure::of(&error))
    }
}

/// The I/Os that the driver performs itself, because the kernel would only pass them to a thread.
enum Copied {
    Nothing,
    /// All reads and writes, because the data is in memory and cannot be made durable.
    All,
    /// Only writes that do not block.
    Writes(PageCache),
}

impl Copied {
    fn of(target: &Target) -> Copied {
        match target.block_bytes() {
            _ if target.is_in_memory() => Copied::All,
            None => Copied::Writes(PageCache::default()),
            Some(_) => Copied::Nothing,
        }
    }

    #[inline]
    fn takes(&mut self, now: Nanos, io: &Request, alone: bool) -> bool {
        match self {
            Copied::Nothing => false,
            Copied::All => io.op.moves_data(),
            Copied::Writes(cache) => cache.takes(now, io, alone, page_cache::vmstat),
        }
    }

    #[inline]
    fn took(&mut self, begun: Nanos, ended: Nanos) {
        if let Copied::Writes(cache) = self {
            cache.took(begun, ended);
        }
    }
}

/// Targets as lanes.
pub struct Uring {
    ring: Ring,
    /// The targets, which must be open as long as the ring may use them.
    targets: Vec<Target>,
    shapes: Vec<Shape>,
    depth: u32,
    in_flight: Vec<u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// I/Os that ended at once, because they were rejected, or copied from or to memory.
    at_once: Vec<Ended>,
    /// The number of bytes of these I/Os.
    at_once_bytes: u64,
    /// Whether entries were kept for the next pass because an I/O completed immediately.
    waited: bool,
    /// For each target, the I/Os that the driver performs itself.
    copied: Vec<Copied>,
    /// Whether the arena is registered.
    registered: bool,
    /// The priority of I/Os that a promise depends on.
    priority: u16,
    pool: Pool,
    pattern: Buf,
    /// The buffer for reads whose data is not needed.
    sink: Buf,
    clock: WallClock,
    now: Nanos,
    held_up: SubmissionDelays,
}

impl Uring {
    /// Creates lanes on these targets: lane `i` is `targets[i]`. Each lane accepts `depth` I/Os at
    /// a time. The run's time starts now.
    ///
    /// # Errors
    /// The kernel has no io_uring, does not permit its use, or is too old (before 5.11). The
    /// targets are returned.
    pub fn new(targets: Vec<Target>, depth: u32) -> Result<Uring, (io::Error, Vec<Target>)> {
        Uring::with_sockets(targets, depth, 0)
    }

    /// Creates lanes like [`Uring::new`] that also wait for up to `sockets_max` sockets
    /// ([`SocketLanes`]), 1024 at most.
    ///
    /// # Errors
    /// Fails like [`Uring::new`].
    pub fn with_sockets(
        targets: Vec<Target>,
        depth: u32,
        sockets_max: u32,
    ) -> Result<Uring, (io::Error, Vec<Target>)> {
        let sockets_max = sockets_max.min(1024);
        let most = (1 << 15) - 1 - 2 * sockets_max;
        let entries = depth.saturating_mul(targets.len() as u32).clamp(1, most);
        let depth = (entries / targets.len().max(1) as u32).max(1);
        let ring = match prepare(&targets, entries, sockets_max) {
            Ok(ring) => ring,
            Err(error) => return Err((error, targets)),
        };
        let mut pool = Pool::new(ARENA_BYTES);
        let (pattern, sink) = (pool.constant(source()), pool.sink(LEN_MAX));
        let registered = pool.arena().is_some_and(|(start, len)| {
            let arena = [libc::iovec { iov_base: start.cast(), iov_len: len }];
            // SAFETY: the arena stays in place until the pool is dropped, which is after the ring,
            // or forever.
            unsafe { ring.submitter().register_buffers(&arena) }.is_ok()
        });
        Ok(Uring {
            shapes: targets.iter().map(Target::shape).collect(),
            in_flight: vec![0; targets.len()],
            slots: Vec::with_capacity(entries as usize),
            free: Vec::with_capacity(entries as usize),
            at_once: Vec::new(),
            at_once_bytes: 0,
            waited: false,
            copied: targets.iter().map(Copied::of).collect(),
            ring,
            targets,
            depth,
            registered,
            priority: promised_priority(),
            pool,
            pattern,
            sink,
            clock: WallClock::start(),
            now: Nanos::ZERO,
            held_up: SubmissionDelays::default(),
        })
    }

    /// Returns the targets.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Returns whether the pool could be registered. Otherwise, the kernel maps buffers for each
    /// I/O.
    pub fn is_registered(&self) -> bool {
        self.registered
    }

    /// Returns the buffer for [`crate::Patterned`].
    pub fn pattern(&self) -> Buf {
        self.pattern
    }

    /// Returns the entry for an I/O, whose bytes are lent.
    fn entry(&mut self, key: u32) -> Entry {
        let Slot { io, extent: Extent { offset, len }, lent, vectors, .. } =
            &mut self.slots[key as usize];
        let (file, offset, len) = (Fixed(u32::from(io.lane)), *offset, *len);
        let how = if io.flags.has(Flags::FUA) { libc::RWF_DSYNC } else { 0 };
        let priority = if io.flags.has(Flags::PROMISED) { self.priority } else { NO_PRIORITY };
        match (io.op, &lent.pieces[..]) {
            (Op::Read | Op::Write, [piece]) => {
                let (start, inside) = self.pool.address(*piece);
                match (io.op, inside && self.registered) {
                    (Op::Read, true) => opcode::ReadFixed::new(file, start, len, ARENA)
                        .offset(offset)
                        .ioprio(priority)
                        .build(),
                    (Op::Read, false) => {
                        opcode::Read::new(file, start, len).offset(offset).ioprio(priority).build()
                    }
                    (_, true) => opcode::WriteFixed::new(file, start, len, ARENA)
                        .offset(offset)
                        .rw_flags(how)
                        .ioprio(priority)
                        .build(),
                    (_, false) => opcode::Write::new(file, start, len)
                        .offset(offset)
                        .rw_flags(how)
                        .ioprio(priority)
                        .build(),
                }
            }
            (Op::Read | Op::Write, several) if !several.is_empty() => {
                lent.write_vectors(vectors, &self.pool);
                let (first, count) = (vectors.as_ptr(), vectors.len() as u32);
                match io.op {
                    Op::Read => opcode::Readv::new(file, first, count)
                        .offset(offset)
                        .ioprio(priority)
                        .build(),
                    _ => opcode::Writev::new(file, first, count)
                        .offset(offset)
                        .rw_flags(how)
                        .ioprio(priority)
                        .build(),
                }
            }
            (Op::Flush, _) => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
            (Op::Trim, _) if len > 0 => opcode::Fallocate::new(file, u64::from(len))
                .offset(offset)
                .mode(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE)
                .build(),
            _ => opcode::Nop::new().build(),
        }
    }

    /// Submits waiting entries to the system.
    fn hand_over(&mut self) -> io::Result<()> {
        let begun = self.held_up.begin(self.clock.now());
        let entered = self.ring.enter(None);
        self.held_up.end(&begun, self.clock.now());
        entered
    }

    /// Reads or writes a target without using the ring.
    fn copy(&mut self, io: &Request, pieces: &[Piece]) -> Result<(), Failure> {
        let named: u64 = pieces.iter().map(|piece| u64::from(piece.len)).sum();
        assert!(named == u64::from(io.len), "{io:?} names {named} bytes");
        let (file, mut offset) = (self.targets[usize::from(io.lane)].file(), io.offset);
        for piece in pieces {
            let copied = match io.op {
                Op::Read => file.read_exact_at(self.pool.view_mut(*piece), offset),
                _ => file.write_all_at(self.pool.view(*piece), offset),
            };
            copied.map_err(|error| Failure::of(&error))?;
            offset += u64::from(piece.len);
        }
        Ok(())
    }

    /// Lends `pieces` to the kernel.
    fn lend(&mut self, key: u32, pieces: &[Piece]) -> Result<(), Failure> {
        let Slot { io, lent, .. } = &mut self.slots[key as usize];
        let block = self.shapes[usize::from(io.lane)].block;
        lent.lend(io, pieces, block, self.sink, &mut self.pool)
    }
}

/// The time that an abandoned ring waits for outstanding I/Os, which is longer than the kernel
/// retries a disk.
const DROP_MAX: Nanos = Nanos::from_millis(120_000);

/// The number of targets that can be added to a server's ring.
const TARGETS_MORE: usize = 32;

/// Returns a ring with the targets' files, and with places for more if it serves clients.
fn prepare(targets: &[Target], entries: u32, sockets_max: u32) -> io::Result<Ring> {
    let ring = Ring::new(entries, sockets_max)?;
    let more = if sockets_max > 0 { TARGETS_MORE } else { 0 };
    let files = targets.iter().map(|target| target.file().as_raw_fd());
    let files: Vec<_> = files.chain(std::iter::repeat_n(-1, more)).collect();
    ring.submitter().register_files(&files)?;
    Ok(ring)
}

impl Lanes for Uring {
    fn count(&self) -> usize {
        self.targets.len()
    }

    #[inline]
    fn reap(&mut self, _next: Nanos, ended: &mut Vec<Ended>) -> io::Result<Nanos> {
        self.now = self.clock.now();
        let Uring { ring, slots, free, in_flight, pool, sink, now, targets, .. } = self;
        ring.reap(pool, |pool, CompletedEntry { key, result }| {
            let slot = &mut slots[key as usize];
            let (io, started) = (slot.io, slot.started);
            let failure = match result {
                error if error < 0 => Some(Failure::Os(-error)),
                moved => match outcome(io.op, slot.extent, moved as u64) {
                    Some(Failure::Short) if io.op == Op::Write => {
                        slot.write_again(&targets[usize::from(io.lane)], pool)
                    }
                    outcome => outcome,
                },
            };
            slot.lent.settle(io.op, *sink, pool);
            free.push(key as u32);
            in_flight[usize::from(io.lane)] -= 1;
            ended.push(Ended::new(io, started, *now, failure));
        })?;
        self.at_once_bytes = 0;
        for mut over in self.at_once.drain(..) {
            over.completion.at = self.now;
            ended.push(over);
        }
        Ok(self.now)
    }

    #[inline]
    fn wall(&mut self) -> Nanos {
        self.now = self.clock.now();
        self.now
    }

    #[inline]
    fn room(&self, lane: Lane) -> bool {
        self.in_flight[usize::from(lane)] < self.depth && self.at_once_bytes < AT_ONCE_BYTES
    }

    fn slots(&mut self) -> &mut dyn Slots {
        &mut self.pool
    }

    #[inline]
    fn start(&mut self, now: Nanos, io: Request, pieces: &[Piece]) {
        let shape = self.shapes[usize::from(io.lane)];
        let is_whole = || shape.extent(&io).is_ok() && pieces.iter().all(|piece| piece.buf != 0);
        let alone = self.in_flight[usize::from(io.lane)] == 0 && self.at_once.is_empty();
        if self.copied[usize::from(io.lane)].takes(now, &io, alone) && is_whole() {
            self.at_once_bytes += u64::from(io.len);
            let begun = self.clock.now();
            let failure = self.copy(&io, pieces).err();
            self.copied[usize::from(io.lane)].took(begun, self.clock.now());
            return self.at_once.push(Ended::new(io, now, now, failure));
        }
        let extent = shape.extent(&io).unwrap_or(Extent { offset: 0, len: 0 });
        let slot = Slot::new(io, now, extent);
        let key = match self.free.pop() {
            Some(key) => {
                let known = &mut self.slots[key as usize];
                (known.io, known.started, known.extent) = (io, now, extent);
                key
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        if let Err(failure) = shape.extent(&io).and_then(|_| self.lend(key, pieces)) {
            self.free.push(key);
            return self.at_once.push(Ended::new(io, now, now, Some(failure)));
        }
        let entry = self.entry(key);
        // SAFETY: the bytes are lent, and files and vectors live, until the entry has ended; see
        // `Drop`.
        unsafe { self.ring.push(entry, u64::from(key)) };
        self.in_flight[usize::from(io.lane)] += 1;
        if self.ring.waiting() >= BATCH {
            // Entries that the kernel does not accept now are submitted again by `proceed`, which
            // reports the reason.
            let _ = self.hand_over();
        }
    }

    fn in_flight(&self) -> usize {
        self.in_flight.iter().sum::<u32>() as usize + self.at_once.len()
    }

    #[inline]
    fn proceed(&mut self, until: Nanos) -> io::Result<()> {
        self.ring.watch();
        let mut now = self.clock.now();
        if until - now > SPIN && self.at_once.is_empty() {
            self.waited = false;
            if self.held_up.is_watched(now) && self.ring.waiting() > 0 {
                // Submits before waiting, so that blocked submissions can be distinguished from the
                // wait.
                self.hand_over()?;
                now = self.clock.now();
            }
            let left = until - now - SPIN;
            let hands_over = self.ring.waiting() > 0;
            let entered = self.ring.enter(Some(left));
            if hands_over && self.clock.now() > until {
                self.held_up.took_long(until);
            }
            return entered;
        }
        // Waiting entries are submitted together with the answers of the next pass, unless the
        // answers are long or the entries have waited before.
        let answers = !self.at_once.is_empty() && self.at_once_bytes < AT_ONCE_BYTES;
        self.waited = answers && !self.waited;
        if self.waited || self.ring.waiting() == 0 { Ok(()) } else { self.hand_over() }
    }

    fn held_up(&mut self) -> Option<(Nanos, Nanos)> {
        self.held_up.take()
    }

    fn waker(&mut self) -> io::Result<Waker> {
        self.ring.waker()
    }
}

impl SocketLanes for Uring {
    fn add(&mut self, target: Target) -> io::Result<Lane> {
        let lane = self.targets.len();
        let files = [target.file().as_raw_fd()];
        self.ring.submitter().register_files_update(lane as u32, &files)?;
        self.shapes.push(target.shape());
        self.copied.push(Copied::of(&target));
        self.in_flight.push(0);
        self.targets.push(target);
        Ok(lane as Lane)
    }

    fn enlarge(&mut self, lane: Lane, bytes: u64) {
        self.shapes[usize::from(lane)].capacity = bytes;
    }

    fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    fn plug(&mut self, socket: OwnedFd) -> Result<Plug, OwnedFd> {
        self.ring.plug(socket)
    }

    fn receive(&mut self, plug: Plug, into: &[Piece], whole: bool) {
        self.ring.receive(plug, into, whole, &mut self.pool);
    }

    fn send(&mut self, plug: Plug, from: &[Piece]) {
        self.ring.send(plug, from, &mut self.pool);
    }

    fn unplug(&mut self, plug: Plug) {
        self.ring.unplug(plug);
    }

    fn attach(&mut self, device: Channel) -> Result<Plug, Channel> {
        self.ring.attach(device)
    }

    fn load(&mut self, plug: Plug, tag: u16, into: Piece) -> io::Result<()> {
        self.ring.load(plug, tag, into, &mut self.pool)
    }

    fn store(&mut self, plug: Plug, tag: u16, from: Piece) -> io::Result<()> {
        self.ring.store(plug, tag, from, &self.pool)
    }

    fn answer(&mut self, plug: Plug, tag: u16, result: i32) {
        self.ring.answer(plug, tag, result);
    }

    fn moved(&mut self, moved: &mut Vec<SocketEvent>) -> io::Result<()> {
        self.ring.moved(moved);
        Ok(())
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        let mut ended = Vec::new();
        self.at_once.clear();
        self.ring.unplug_all();
        let latest = self.clock.now() + DROP_MAX;
        while self.in_flight() > 0 || self.ring.sockets_busy() {
            let reaped = self.ring.enter(Some(Nanos::from_millis(100))).and_then(|()| {
                ended.clear();
                self.reap(Nanos::MAX, &mut ended)
            });
            if reaped.is_err() || self.now > latest {
                // The kernel may still write to the lent bytes, so the pool leaks them.
                return;
            }
        }
        // The kernel releases a closed ring late, but the targets should be free at once.
        let _ = self.ring.submitter().unregister_files();
    }
}

#[cfg(test)]
mod tests;
