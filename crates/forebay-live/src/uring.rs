//! Files and block devices through io_uring.
//!
//! Files are registered, and two buffers: one that all reads fill (nobody looks at it) and one that
//! holds the data of writes. What a pass of the driver starts goes to the kernel a few at a time, the
//! last of them in the call that also waits where there is time to wait. Completions are read from shared memory; the kernel is
//! entered for them only where it says that it has work to do for us.
//!
//! Invariant: the buffers outlive every I/O. Dropping waits for those under way; where that fails the
//! buffers are leaked.
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::AsRawFd;

use forebay_core::{Completion, Flags, Lane, Mechanics, Nanos, Op, Request};
use io_uring::squeue::Entry;
use io_uring::types::{Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode};

use crate::clock::{Clock, SPIN, WallClock};
use crate::lanes::{Ended, Failure, Lanes};
use crate::memory::Memory;
use crate::target::Target;
use crate::wire::{Extent, Shape, WIRE_MAX, outcome, source, source_at};

/// The registered buffers' places.
const SINK: u16 = 0;
const SOURCE: u16 = 1;
/// I/Os that are handed over at once: more save calls, but let the device wait for the first of them.
const BATCH: usize = 4;

/// An I/O under way.
#[derive(Clone, Copy)]
struct Slot {
    io: Request,
    started: Nanos,
    extent: Extent,
}

/// Targets as lanes.
pub struct Uring {
    ring: IoUring,
    /// Open as long as the ring may use them.
    targets: Vec<Target>,
    shapes: Vec<Shape>,
    depth: u32,
    in_flight: Vec<u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// What ended without being tried.
    refused: Vec<Ended>,
    /// Whether the buffers are registered.
    registered: bool,
    buffers: Option<Buffers>,
    clock: WallClock,
    now: Nanos,
}

struct Buffers {
    sink: Memory,
    source: Memory,
}

impl Uring {
    /// Lane `i` is `targets[i]`; each takes `depth` I/Os at a time. The run's time starts now.
    ///
    /// # Errors
    /// Where the kernel has no io_uring, does not let us use it, or one that is too old (before 5.11);
    /// the targets come back.
    pub fn new(targets: Vec<Target>, depth: u32) -> Result<Uring, (io::Error, Vec<Target>)> {
        let entries = depth.saturating_mul(targets.len() as u32).clamp(1, 1 << 15);
        let depth = (entries / targets.len().max(1) as u32).max(1);
        let ring = match prepare(&targets, entries.next_power_of_two()) {
            Ok(ring) => ring,
            Err(error) => return Err((error, targets)),
        };
        let buffers = Buffers { sink: Memory::zeroed(WIRE_MAX), source: source() };
        let vectors = [&buffers.sink, &buffers.source]
            .map(|memory| libc::iovec { iov_base: memory.address().cast(), iov_len: memory.len() });
        // SAFETY: both stay where they are until the ring is dropped, or for ever.
        let registered = unsafe { ring.submitter().register_buffers(&vectors) }.is_ok();
        Ok(Uring {
            shapes: targets.iter().map(Target::shape).collect(),
            in_flight: vec![0; targets.len()],
            slots: Vec::with_capacity(entries as usize),
            free: Vec::with_capacity(entries as usize),
            refused: Vec::new(),
            ring,
            targets,
            depth,
            registered,
            buffers: Some(buffers),
            clock: WallClock::start(),
            now: Nanos::ZERO,
        })
    }

    /// The targets.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Whether the buffers could be registered; where not, the kernel maps them for each I/O.
    pub fn is_registered(&self) -> bool {
        self.registered
    }

    /// The entry for an I/O.
    fn entry(&self, io: &Request, extent: Extent) -> Entry {
        let file = Fixed(u32::from(io.lane));
        let Extent { offset, len } = extent;
        let Some(buffers) = &self.buffers else { return opcode::Nop::new().build() };
        match io.op {
            Op::Read => {
                let to = buffers.sink.address();
                match self.registered {
                    true => opcode::ReadFixed::new(file, to, len, SINK).offset(offset).build(),
                    false => opcode::Read::new(file, to, len).offset(offset).build(),
                }
            }
            Op::Write => {
                // Within the source: it is a period and the longest extent long.
                let from = buffers.source.address().wrapping_add(source_at(offset)).cast_const();
                let durable = io.flags.has(Flags::FUA) || io.flags.has(Flags::PREFLUSH);
                let how = if durable { libc::RWF_DSYNC } else { 0 };
                let fixed = opcode::WriteFixed::new(file, from, len, SOURCE);
                match self.registered {
                    true => fixed.offset(offset).rw_flags(how).build(),
                    false => {
                        opcode::Write::new(file, from, len).offset(offset).rw_flags(how).build()
                    }
                }
            }
            Op::Flush => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
            Op::Trim if len == 0 => opcode::Nop::new().build(),
            Op::Trim => opcode::Fallocate::new(file, u64::from(len))
                .offset(offset)
                .mode(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE)
                .build(),
            Op::Park => opcode::Nop::new().build(),
        }
    }

    /// Enters the kernel; that time is up or there is nothing to do yet is no error.
    fn enter(&mut self, wait: Option<Nanos>) -> io::Result<()> {
        let entered = match wait {
            None => self.ring.submitter().submit(),
            Some(span) => {
                let time = Timespec::new()
                    .sec(span.0 / 1_000_000_000)
                    .nsec((span.0 % 1_000_000_000) as u32);
                let args = SubmitArgs::new().timespec(&time);
                self.ring.submitter().submit_with_args(1, &args)
            }
        };
        match entered.map_err(|error| (error.raw_os_error(), error)) {
            Ok(_) => Ok(()),
            Err((Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY), _)) => Ok(()),
            Err((_, error)) => Err(error),
        }
    }
}

/// A ring with the targets' files.
fn prepare(targets: &[Target], entries: u32) -> io::Result<IoUring> {
    let mut deferred = IoUring::builder();
    deferred.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
    let mut cooperative = IoUring::builder();
    cooperative.setup_coop_taskrun().setup_taskrun_flag();
    // Newest kernels first: deferred work needs 6.1, cooperative 5.19.
    let ring = deferred
        .build(entries)
        .or_else(|_| cooperative.build(entries))
        .or_else(|_| IoUring::new(entries))?;
    if !ring.params().is_feature_ext_arg() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "needs Linux 5.11 or later"));
    }
    let files: Vec<_> = targets.iter().map(|target| target.file().as_raw_fd()).collect();
    ring.submitter().register_files(&files)?;
    Ok(ring)
}

impl Lanes for Uring {
    fn count(&self) -> usize {
        self.targets.len()
    }

    #[inline]
    fn reap(&mut self, _next: Nanos, ended: &mut Vec<Ended>) -> io::Result<Nanos> {
        if self.ring.completion().is_empty() && self.ring.submission().taskrun() {
            self.enter(None)?;
        }
        self.now = self.clock.now();
        for entry in self.ring.completion() {
            let key = entry.user_data() as u32;
            let Slot { io, started, extent } = self.slots[key as usize];
            self.free.push(key);
            self.in_flight[usize::from(io.lane)] -= 1;
            let failure = match entry.result() {
                error if error < 0 => Some(Failure::Os(-error)),
                moved => outcome(io.op, extent, moved as u64),
            };
            let (at, mechanics) = (self.now, Mechanics::default());
            ended.push(Ended { completion: Completion { io, started, at, mechanics }, failure });
        }
        for mut refused in self.refused.drain(..) {
            refused.completion.at = self.now;
            ended.push(refused);
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
        self.in_flight[usize::from(lane)] < self.depth
    }

    #[inline]
    fn start(&mut self, now: Nanos, io: Request) {
        let extent = match self.shapes[usize::from(io.lane)].extent(&io) {
            Ok(extent) => extent,
            Err(failure) => {
                let mechanics = Mechanics::default();
                let completion = Completion { io, started: now, at: now, mechanics };
                return self.refused.push(Ended { completion, failure: Some(failure) });
            }
        };
        let slot = Slot { io, started: now, extent };
        let key = match self.free.pop() {
            Some(key) => {
                self.slots[key as usize] = slot;
                key
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        let entry = self.entry(&io, extent).user_data(u64::from(key));
        // SAFETY: the buffers and files it names live until it has ended, see `Drop`.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the queue has as many entries as all lanes take");
        self.in_flight[usize::from(io.lane)] += 1;
        if self.ring.submission().len() >= BATCH {
            // What the kernel does not take now, it is offered again by `proceed`, which tells why.
            let _ = self.enter(None);
        }
    }

    fn under_way(&self) -> usize {
        self.in_flight.iter().sum::<u32>() as usize + self.refused.len()
    }

    #[inline]
    fn proceed(&mut self, until: Nanos) -> io::Result<()> {
        let left = until - self.clock.now() - SPIN;
        if left > Nanos::ZERO && self.refused.is_empty() {
            return self.enter(Some(left));
        }
        if self.ring.submission().is_empty() { Ok(()) } else { self.enter(None) }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        let mut ended = Vec::new();
        self.refused.clear();
        while self.under_way() > 0 {
            let reaped = self.enter(Some(Nanos::from_millis(100))).and_then(|()| {
                ended.clear();
                self.reap(Nanos::MAX, &mut ended)
            });
            if reaped.is_err() {
                // The kernel may still write to them.
                mem::forget(self.buffers.take());
                return;
            }
        }
        // The kernel takes a closed ring apart at leisure; targets shall be free at once.
        let _ = self.ring.submitter().unregister_files();
    }
}
