//! A solid-state drive: channels, dies, a page-mapped translation layer, a write buffer.
//!
//! Commands are served in order of submission, up to the queue depth at a time. A command passes
//! the controller, and its data passes the link; each flash page that it touches occupies a die:
//! * a read waits for the current operation of the die, which is at most one program: reads precede
//!   programs that only wait in the buffer;
//! * a write is acknowledged when the link has transferred it and the buffer has space; the buffer
//!   drains to the dies in the background. A partial page requires reading the rest first, unless
//!   it continues the part written before;
//! * a page in the read cache is read without a die. The read cache is direct-mapped and contains a
//!   page that was read or written, until another page takes its place;
//! * garbage collection proceeds with the host's writes to a die that runs out of blocks: a few
//!   pages per write, which occupy that die.
//!
//! Commands pass the controller one at a time, before or after the flash ([`Ceiling`]). A read
//! takes the time of its page ([`Modes`]). A write may take time to enter the buffer
//! ([`Entrance`]).
//!
//! Dies are simulated exactly. Links, channels and controller are modeled by the amount of work
//! that they were given, not by time slots, so data that is ready never waits for data that is not.
//! Not modeled: reads served from the write buffer, garbage collection while idle, single-bit
//! caches, wear-out.
//!
//! Invariants: no completion is before its start; energy never decreases; a Flush, or a write with
//! FUA, completes after everything that it covers is programmed, unless the drive protects its
//! buffer against power loss.

mod flash;
mod ftl;
mod modes;
mod sparse;
mod spec;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::contract::{Completion, Device, Flags, Mechanics, Nanos, Op, Request, SpecError};
use flash::Flash;
use ftl::Ftl;
use modes::{Times, mixed};

pub use ftl::{Collection, Shape, Wear};
pub use modes::{Mode, Modes};
pub use spec::{Ceiling, Entrance, Power, Precondition, SsdSpec};

/// A command in progress.
#[derive(Clone, Copy, Debug)]
struct Pending {
    io: Request,
    started: u64,
}

/// A solid-state drive.
#[derive(Clone, Debug)]
pub struct Ssd {
    spec: SsdSpec,
    page_bytes: u64,
    ftl: Ftl,
    flash: Flash,
    /// When the controller can accept the next command.
    controller_free: u64,
    /// When the last command left the drive, if commands leave one at a time.
    left: u64,
    /// The times of writes for entering the buffer, and when each lane of the entrance is free.
    entrance: Option<(Times, Vec<u64>)>,
    /// When each direction of the link is free: to the drive, from the drive.
    link_free: [u64; 2],
    /// When each page of the write buffer is free again, earliest first.
    buffer: BinaryHeap<Reverse<u64>>,
    /// For each place in the read cache, the number of the cached page plus one; 0 if the place is
    /// empty.
    cached: Vec<u32>,
    /// When all data written so far is programmed.
    drained: u64,
    /// Where the last write ended, if that was within a page.
    partial_end: Option<u64>,
    pending: Vec<Option<Pending>>,
    vacant: Vec<u16>,
    /// The completion times of commands, in order. In case of a tie, the command that started first
    /// precedes.
    completions: BinaryHeap<Reverse<(u64, u64, u16)>>,
    /// Commands that still have to pass the controller after the flash, with the times at which
    /// they are ready.
    leaving: BinaryHeap<Reverse<(u64, u64, u16)>>,
    started: u64,
    busy_ns: u64,
    busy_since: u64,
}

impl Ssd {
    /// Returns a drive, preconditioned according to the spec.
    ///
    /// # Errors
    /// Names the first invalid parameter.
    pub fn new(spec: SsdSpec) -> Result<Ssd, SpecError> {
        spec.check()?;
        let mut ftl = Ftl::new(spec.shape()?, spec.collection, spec.filled_pages())?;
        let Precondition { overwrites_share, seed, .. } = spec.precondition;
        if overwrites_share > 0.0 {
            ftl.churn((overwrites_share * f64::from(spec.filled_pages())) as u64, seed);
        }
        Ok(Ssd::with(ftl, spec))
    }

    /// Creates a drive with the translation layer `ftl`.
    fn with(ftl: Ftl, spec: SsdSpec) -> Ssd {
        let page_bytes = u64::from(spec.page_bytes);
        let depth = spec.queue_depth;
        let buffer_pages = (spec.write_buffer_bytes / page_bytes).max(1) as usize;
        Ssd {
            flash: Flash::new(&spec),
            ftl,
            page_bytes,
            controller_free: 0,
            left: 0,
            entrance: (spec.entrance.as_ref())
                .map(|of| (Times::new(&of.times), vec![0; of.lanes as usize])),
            link_free: [0; 2],
            buffer: std::iter::repeat_n(Reverse(0), buffer_pages).collect(),
            cached: vec![0; (spec.read_cache_bytes / page_bytes) as usize],
            drained: 0,
            partial_end: None,
            pending: vec![None; depth.into()],
            vacant: (0..depth).rev().collect(),
            completions: BinaryHeap::with_capacity(depth.into()),
            leaving: BinaryHeap::with_capacity(depth.into()),
            started: 0,
            busy_ns: 0,
            busy_since: 0,
            spec,
        }
    }

    /// Returns the pages written and blocks erased since the start, without preconditioning.
    pub fn wear(&self) -> Wear {
        self.ftl.wear()
    }

    /// Returns a drive with the same parameters but without data.
    pub fn without_content(&self) -> Ssd {
        Ssd::with(self.ftl.emptied(), self.spec.clone())
    }

    /// Returns the parameters of the drive.
    pub fn spec(&self) -> &SsdSpec {
        &self.spec
    }

    /// Returns the first byte of `io` and its end, moved and limited to fit the drive.
    #[inline]
    fn extent(&self, io: &Request) -> (u64, u64) {
        let capacity = self.capacity();
        let from = if io.offset < capacity { io.offset } else { io.offset % capacity };
        (from, (from + u64::from(io.len)).min(capacity))
    }

    /// Returns when `bytes`, which are available at `ready`, have passed the link.
    #[inline]
    fn pass(&mut self, direction: usize, ready: u64, bytes: u64) -> u64 {
        let lane = if self.spec.duplex { direction } else { 0 };
        let free = &mut self.link_free[lane];
        *free = ready.max(*free).saturating_add(time_of(bytes, self.spec.link_bytes_per_s));
        *free
    }

    fn read(&mut self, ready: u64, io: &Request) -> u64 {
        let (from, to) = self.extent(io);
        let mut done = ready;
        // The die, row and bytes of pages that are read together, because they were programmed
        // together.
        let mut together: Option<(u32, u32, u64)> = None;
        for page in from / self.page_bytes..to.div_ceil(self.page_bytes) {
            let Some(place) = self.ftl.lookup(page as u32) else { continue };
            if self.is_cached(page as u32) {
                continue;
            }
            let (die, row) = (self.ftl.die(page as u32), place / self.spec.program_pages);
            let bytes = to.min((page + 1) * self.page_bytes) - from.max(page * self.page_bytes);
            together = match together {
                Some((die, same, sum)) if same == row => Some((die, row, sum + bytes)),
                before => {
                    done = done.max(self.read_row(ready, before));
                    Some((die, row, bytes))
                }
            };
        }
        done = done.max(self.read_row(ready, together));
        done.max(self.pass(1, ready, to - from))
    }

    /// Returns whether a page was in the read cache, and puts it there.
    #[inline]
    fn is_cached(&mut self, page: u32) -> bool {
        let places = self.cached.len();
        if places == 0 {
            return false;
        }
        let before = std::mem::replace(&mut self.cached[page as usize % places], page + 1);
        before == page + 1
    }

    #[inline]
    fn read_row(&mut self, ready: u64, row: Option<(u32, u32, u64)>) -> u64 {
        row.map_or(ready, |(die, row, bytes)| self.flash.read(die, row, ready, bytes))
    }

    /// Returns when a write that is available at `ready` has passed the entrance of the buffer.
    #[inline]
    fn enter(&mut self, ready: u64) -> u64 {
        let number = mixed(self.started);
        let Some((times, lanes)) = &mut self.entrance else { return ready };
        let (before, busy) = times.of(number);
        let lane = (number % lanes.len() as u64) as usize;
        lanes[lane] = lanes[lane].max(ready + before) + busy;
        lanes[lane]
    }

    /// Returns when a write is in the buffer, and when it is programmed.
    fn write(&mut self, ready: u64, io: &Request) -> (u64, u64) {
        let (from, to) = self.extent(io);
        // Writes enter the buffer after the link. Otherwise, a write that enters late would delay
        // the data of the writes behind it.
        let passed = self.pass(0, ready, to - from);
        let arrived = self.enter(passed);
        let (mut accepted, mut programmed) = (arrived, arrived);
        for page in from / self.page_bytes..to.div_ceil(self.page_bytes) {
            let (begin, end) = (page * self.page_bytes, (page + 1) * self.page_bytes);
            if from > begin && self.partial_end == Some(from) {
                continue; // the rest of a page that is already in the buffer
            }
            let free = self.buffer.pop().map_or(0, |Reverse(free)| free);
            let at = arrived.max(free);
            let whole = from <= begin && to >= end;
            let done = self.write_page(page as u32, at, whole);
            self.buffer.push(Reverse(done));
            accepted = accepted.max(at);
            programmed = programmed.max(done);
        }
        self.partial_end = (to % self.page_bytes != 0).then_some(to);
        self.drained = self.drained.max(programmed);
        (accepted, programmed)
    }

    #[inline]
    fn write_page(&mut self, page: u32, at: u64, whole: bool) -> u64 {
        let die = self.ftl.die(page);
        let is_cached = self.is_cached(page);
        if !whole && !is_cached && self.ftl.lookup(page).is_some() {
            self.flash.read_back(die, at);
        }
        self.ftl.write(page, &mut self.flash.at(at));
        self.flash.program(die, at)
    }

    fn trim(&mut self, io: &Request) {
        let (from, to) = self.extent(io);
        for page in from.div_ceil(self.page_bytes)..to / self.page_bytes {
            self.ftl.trim(page as u32);
        }
    }

    /// Returns for how long a command occupies the controller, and whether it does so before or
    /// after the flash.
    #[inline]
    fn passing(&self, op: Op) -> (u64, Ceiling) {
        match op {
            Op::Write => (self.spec.write_command.0, self.spec.write_ceiling),
            Op::Read | Op::Flush | Op::Trim => (self.spec.command.0, self.spec.ceiling),
            Op::Park | Op::Open => (0, Ceiling::Arrival),
        }
    }

    /// Returns when the next command in `leaving` will have passed the controller, which handles
    /// these commands one at a time.
    #[inline]
    fn next_to_leave(&self) -> Option<u64> {
        // Commands leave in the order in which they are ready. None that starts later is ready
        // earlier.
        let Reverse((ready, _, slot)) = self.leaving.peek()?;
        let pending = self.pending[usize::from(*slot)].as_ref()?;
        let (passing, _) = self.passing(pending.io.op);
        Some((*ready).max(self.left).saturating_add(passing))
    }

    /// Returns whether no command is outstanding.
    #[inline]
    fn is_idle(&self) -> bool {
        self.completions.is_empty() && self.leaving.is_empty()
    }

    /// Returns when a command completes, apart from passing the controller after the flash.
    #[inline]
    fn serve(&mut self, now: u64, io: &Request) -> u64 {
        if matches!(io.op, Op::Park | Op::Open) {
            return now;
        }
        let begun = now.max(self.controller_free);
        let (passing, at) = self.passing(io.op);
        if at == Ceiling::Arrival {
            self.controller_free = begun.saturating_add(passing);
        }
        let ready = begun.saturating_add(self.spec.overhead.0);
        let covered = if self.spec.power_loss_protection { 0 } else { self.drained };
        let flushed = if io.flags.has(Flags::PREFLUSH) { covered } else { 0 };
        match io.op {
            Op::Read => self.read(ready, io),
            Op::Write => {
                let (accepted, programmed) = self.write(ready, io);
                let durable = io.flags.has(Flags::FUA) && !self.spec.power_loss_protection;
                let done = if durable { programmed } else { accepted };
                done.max(flushed)
            }
            Op::Flush => ready.max(covered),
            Op::Trim => {
                self.trim(io);
                ready
            }
            Op::Park | Op::Open => now,
        }
    }
}

/// Returns the time to transfer `bytes` at a rate, rounded up.
#[inline]
fn time_of(bytes: u64, bytes_per_s: u64) -> u64 {
    (bytes * 1_000_000_000).div_ceil(bytes_per_s)
}

impl Device for Ssd {
    #[inline]
    fn room(&self) -> bool {
        !self.vacant.is_empty()
    }

    /// # Panics
    /// If the device accepts no more I/Os, which is a bug in the driver.
    #[inline]
    fn start(&mut self, now: Nanos, io: Request) {
        let done = self.serve(now.0, &io);
        let Some(slot) = self.vacant.pop() else { panic!("start without room") };
        if self.is_idle() {
            self.busy_since = now.0;
        }
        self.pending[usize::from(slot)] = Some(Pending { io, started: now.0 });
        let (_, ceiling) = self.passing(io.op);
        let under_way = match ceiling {
            Ceiling::Arrival => &mut self.completions,
            Ceiling::Completion => &mut self.leaving,
        };
        under_way.push(Reverse((done, self.started, slot)));
        self.started += 1;
    }

    #[inline]
    fn next(&self) -> Option<Nanos> {
        let done = self.completions.peek().map(|Reverse((done, _, _))| *done);
        let left = self.next_to_leave();
        done.into_iter().chain(left).min().map(Nanos)
    }

    /// # Panics
    /// If no command was started, which is a bug in the driver.
    #[inline]
    fn finish(&mut self, now: Nanos) -> Completion {
        let leaves = self.next_to_leave().is_some_and(|left| {
            self.completions.peek().is_none_or(|Reverse((done, _, _))| left < *done)
        });
        let under_way = if leaves { &mut self.leaving } else { &mut self.completions };
        let slot = under_way.pop().map(|Reverse((_, _, slot))| slot);
        let pending = slot.and_then(|slot| self.pending[usize::from(slot)].take());
        let (Some(slot), Some(Pending { io, started })) = (slot, pending) else {
            panic!("finish without start")
        };
        self.vacant.push(slot);
        if leaves {
            self.left = now.0;
        }
        if self.is_idle() {
            self.busy_ns += now.0 - self.busy_since;
        }
        Completion {
            io,
            started: Nanos(started),
            at: now,
            mechanics: Mechanics::default(),
            outcome: Ok(()),
        }
    }

    fn joules(&self, now: Nanos) -> f64 {
        now.0 as f64 * self.spec.power.idle_w / 1e9 + self.flash.joules()
    }

    fn busy(&self, now: Nanos) -> Nanos {
        let running = if self.is_idle() { 0 } else { now.0 - self.busy_since };
        Nanos(self.busy_ns + running)
    }

    /// Returns the time to transfer the data of `io` over the link.
    fn floor(&self, io: &Request) -> Nanos {
        let (from, to) = self.extent(io);
        let bytes = if io.op.moves_data() { to - from } else { 0 };
        Nanos(time_of(bytes, self.spec.link_bytes_per_s))
    }

    fn capacity(&self) -> u64 {
        u64::from(self.spec.logical_pages()) * self.page_bytes
    }

    fn len_max(&self) -> u32 {
        self.spec.len_max
    }
}

#[cfg(test)]
mod tests;
