//! A disk with a controller: track buffer, write cache, command queue, bus.
//!
//! In addition to the arm and the platters of the plain disk, this models the components between
//! them and the host, in DiskSim's terms (see `controller`). It departs from DiskSim where DiskSim
//! models the implementation of a drive rather than its timing: segments in use are not recycled,
//! the drive does not disconnect from the bus while the media catches up, and there is one queue.
//! Two rules follow measured times of an HP C2247A rather than DiskSim. First, the bus is requested
//! when the data of a read begins to pass the head, so that the media transfer hides the request.
//! Second, a write begins only when no sector of it can be too late for the media, with its minimum
//! seek counted from the arrival of the data (see `mechanism`).
//!
//! Commands are accepted while fewer than the queue's depth are outstanding. A command that the
//! buffer can answer or the write cache can accept is served at once, concurrently with the command
//! at the media. Of the others, the command that the head reaches first is next or, at most every
//! eighth time, the oldest command if it has waited too long (see `turns`). A drive may reserve a
//! margin when it orders commands, and may choose some commands ahead of the arm ([`QueueSpec`]).
//! The arm moves to the next command when the last access has ended, even while its data is on the
//! bus. Read-ahead continues until the arm is needed. The write cache is written when no command
//! waits for the arm, and in competition with waiting commands once most of its places are in use.
//! A flush writes all of the cache, and so does a write with PREFLUSH before it begins; a write
//! with FUA bypasses the cache. Addresses beyond the capacity are handled as on the plain disk.
//! Park is answered at once: when no work is left, the cache is written and the platters stop
//! ([`crate::device::hdd::Standby`]) until another command arrives.
//!
//! Busy time is the time with commands outstanding or the arm working on the cache.
//!
//! Invariants: completions are never before their start; each command completes once; seek,
//! rotation and transfer together never exceed the service time; energy never decreases.

mod buffer;
mod busy;
mod controller;
mod hopes;
mod mechanism;
mod reconsider;
mod search;
mod service;
mod sparing;
mod spots;
mod surface;
mod turns;
mod write_cache;

pub use controller::{
    Admits, BufferSpec, Bus, Controller, ExtraDisconnect, Overhead, Overheads, QueueSpec,
    ReadAhead, WriteCacheSpec,
};
pub use sparing::{Defects, SpareRange, Sparing};
pub use surface::{Format, HeadOrder, ZoneFormat};

use crate::contract::{
    Completion, Device, Flags, Mechanics, Nanos, Op, Request, SpecError, WriteBack,
};
use crate::device::hdd::{HddSpec, SECTOR, check_rest, check_times};
use buffer::{Buffer, Hit};
use busy::Busy;
use hopes::Hopes;
use mechanism::{Access, Mechanism, Motion, Task};
use reconsider::Choice;
use spots::{Spot, Spots};
use surface::Surface;
use turns::{Pick, Turns};
use write_cache::{Dirty, WriteCache};

/// The parameters of a disk with a controller.
#[derive(Clone, Debug, PartialEq)]
pub struct DriveSpec {
    /// The arm and the platters. Their overhead is not used, because the controller has its own.
    pub disk: HddSpec,
    /// The format of the disk; `None` means no spares, no defects, and uses the skews of `disk`.
    pub format: Option<Format>,
    /// The controller.
    pub controller: Controller,
}

/// A waiting command.
#[derive(Clone, Copy, Debug)]
struct Command {
    io: Request,
    arrived: u64,
    first: u64,
    count: u64,
    /// The position of the command's first sector.
    spot: Spot,
    /// Whether the command must wait for the arm, because the cache does not accept it.
    needs_arm: bool,
    /// The controller's overhead for a command of this kind at the media.
    overhead: u64,
    /// Whether the previous command was a write.
    after_write: bool,
    /// Whether the previous command was a write and this one does not continue where it ended.
    apart: bool,
}

/// A command in service, with its known completion time.
#[derive(Clone, Copy, Debug)]
struct Served {
    io: Request,
    arrived: u64,
    done: u64,
    at_media: bool,
    mechanics: Mechanics,
}

/// A disk with a controller.
#[derive(Clone, Debug)]
pub struct Drive {
    mechanism: Mechanism,
    controller: Controller,
    buffer: Option<Buffer>,
    cache: Option<WriteCache>,
    /// The waiting commands in order of arrival. Their keys are in the same order, and the cache
    /// accepts commands in this order.
    waiting: Vec<Command>,
    /// The target positions of the arm.
    spots: Spots,
    /// The number of waiting commands that need no arm movement.
    still: usize,
    /// The keys of the checked commands that might be served without the arm. Commands are left out
    /// if they are reads whose first sector will be neither in the buffer nor in the cache.
    hopes: Hopes,
    /// The number of commands so far.
    commands: u64,
    served: Vec<Served>,
    turns: Turns,
    /// The last choice, if it can still be revoked.
    choice: Option<Choice>,
    bus_free_at: u64,
    /// Whether the last command was a write, and the sector after it.
    wrote: bool,
    next_sector: u64,
    len_max: u32,
    busy: Busy,
    written_back: WriteBack,
    /// Whether the drive parks as soon as there is no work.
    parks: bool,
}

impl Drive {
    /// Returns a drive with its heads at cylinder 0.
    ///
    /// # Errors
    /// Names the first invalid parameter.
    pub fn new(spec: &DriveSpec) -> Result<Drive, SpecError> {
        check_times(&spec.disk)?;
        check_rest(&spec.disk)?;
        spec.controller.check()?;
        let depth = spec.controller.queue.depth as usize;
        let mut mechanism = Mechanism::new(&spec.disk, spec.format.as_ref())?;
        mechanism.write_less = spec.controller.write_seek_less.0;
        Ok(Drive {
            mechanism,
            controller: spec.controller,
            buffer: spec.controller.buffer.map(Buffer::new),
            cache: spec.controller.write_cache.map(WriteCache::new),
            waiting: Vec::with_capacity(depth),
            spots: Spots::default(),
            still: 0,
            hopes: Hopes::with_capacity(depth),
            commands: 0,
            served: Vec::with_capacity(depth),
            turns: Turns::default(),
            choice: None,
            bus_free_at: 0,
            wrote: false,
            next_sector: u64::MAX,
            len_max: spec.disk.len_max,
            busy: Busy::default(),
            written_back: WriteBack::default(),
            parks: false,
        })
    }

    /// Returns this drive with `depth` commands in its queue; `None` if it does not support that
    /// depth.
    pub fn at_queue_depth(&self, depth: u32) -> Option<Drive> {
        let mut drive = self.clone();
        let is_less = (1..drive.controller.queue.depth).contains(&depth);
        drive.controller.queue.depth = depth;
        is_less.then_some(drive)
    }

    /// Returns this drive without its write cache; `None` if it has none.
    pub fn without_write_cache(&self) -> Option<Drive> {
        let mut drive = self.clone();
        drive.controller.write_cache = None;
        drive.cache.take().map(|_| drive)
    }

    /// Returns the time to move the arm by `distance` cylinders before a read, including settling.
    pub fn seek_time(&self, distance: u32) -> Nanos {
        Nanos(self.mechanism.curve.time(distance))
    }

    /// Returns the time of a revolution.
    pub fn revolution(&self) -> Nanos {
        Nanos(self.mechanism.surface.revolution)
    }

    fn outstanding(&self) -> usize {
        self.waiting.len() + self.served.len()
    }

    /// Returns the first sector of `io` and the number of sectors, moved and limited to fit the
    /// disk.
    fn extent(&self, io: &Request) -> (u64, u64) {
        let first = io.offset / u64::from(SECTOR);
        let count = (io.offset % u64::from(SECTOR) + u64::from(io.len)).div_ceil(SECTOR.into());
        let sectors = self.mechanism.surface.sectors;
        let first = if first < sectors { first } else { first % sectors };
        (first, count.min(sectors - first))
    }

    /// Creates the command for an I/O that arrives.
    fn command(&mut self, now: u64, io: Request) -> Command {
        let (first, count) = self.extent(&io);
        let overheads = &self.controller.overheads;
        let kind = match io.op {
            Op::Read => overheads.read_miss,
            Op::Park | Op::Open => Overhead::default(),
            _ => overheads.write_miss,
        };
        let overhead = kind.after(self.wrote);
        let apart = self.wrote && first != self.next_sector;
        let mut command = Command {
            io,
            arrived: now,
            first,
            count,
            spot: self.mechanism.spot(first, now + overhead, io.op == Op::Write),
            needs_arm: true,
            overhead,
            after_write: self.wrote,
            apart,
        };
        self.commands += 1;
        command.spot.key = self.commands;
        command.needs_arm = !self.is_cached(&command);
        command
    }

    /// Serves all commands that need not wait for the arm, and then as many of the others as the
    /// drive commits to. While the cache is being drained, runs of the cache that the head reaches
    /// earlier go first.
    fn dispatch(&mut self, now: u64) {
        loop {
            self.serve_without_arm(now);
            if self.is_committed() || self.waiting.is_empty() {
                return;
            }
            if self.waits_for_the_host() {
                self.mechanism.motion.free_at = self.mechanism.motion.free_at.max(now);
            }
            match self.choose(now) {
                Some(pick) => {
                    self.remember(now, pick);
                    self.turns.count(pick.forced);
                    let command = self.remove(pick.index);
                    let served = self.at_media(now, &command);
                    self.served.push(served);
                    if self.is_committed() {
                        return;
                    }
                }
                // While the arm serves a run, do not choose another run; the next choice is made
                // when the run ends.
                None if self.mechanism.motion.free_at > now && !self.served.is_empty() => return,
                // If all waiting commands wait for space in the cache, the cache contains runs to
                // write.
                None if self.write_nearest(now, 0).is_none() => return,
                None => (),
            }
        }
    }

    /// Returns whether the next command is chosen only after a command at the media has completed.
    fn is_committed(&self) -> bool {
        let at_media = self.served.iter().filter(|served| served.at_media).count();
        at_media > self.controller.queue.ahead.max(0) as usize
    }

    /// Serves the commands that need no arm, in the order in which the cache admits writes.
    fn serve_without_arm(&mut self, now: u64) {
        self.notice();
        if self.hopes.is_empty() {
            return;
        }
        let starvation = self.controller.queue.starvation.0;
        let newest_from = match self.controller.write_cache.map(|cache| cache.admits) {
            Some(Admits::Newest) => {
                let aged = |command: &Command| now - command.arrived >= starvation;
                let in_order = self.waiting.partition_point(aged);
                self.waiting.get(in_order).map_or(u64::MAX, |command| command.spot.key)
            }
            _ => u64::MAX,
        };
        let mut key = 0;
        while let Some(next) = self.hopes.after(key).filter(|next| *next < newest_from) {
            key = next;
            self.serve_hope(key, now);
        }
        let mut key = u64::MAX;
        while let Some(next) = self.hopes.before(key).filter(|next| *next >= newest_from) {
            key = next;
            self.serve_hope(key, now);
        }
    }

    /// Serves the waiting command with this key if it needs no arm.
    fn serve_hope(&mut self, key: u64, now: u64) {
        let Some(index) = self.named(key) else { return };
        let command = self.waiting[index];
        if !self.may_hit(&command) {
            self.hopes.remove(key);
        } else if let Some(served) = self.without_arm(now, &command) {
            self.remove(index);
            self.served.push(served);
            self.notice();
        }
    }

    /// Returns the index in `waiting` of the command with this key.
    fn named(&self, key: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&key, |command| command.spot.key).ok()
    }

    fn insert(&mut self, command: Command) {
        if command.is_sought() {
            self.spots.insert(command.spot);
        }
        self.still += usize::from(command.is_still());
        let key = command.spot.key;
        if self.may_hit(&command) {
            self.hopes.insert(key);
        }
        let index = self.waiting.partition_point(|other| other.spot.key < key);
        self.waiting.insert(index, command);
    }

    fn remove(&mut self, index: usize) -> Command {
        let command = self.waiting.remove(index);
        if command.is_sought() {
            self.spots.remove(&command.spot);
        }
        self.still -= usize::from(command.is_still());
        self.hopes.remove(command.spot.key);
        command
    }

    /// Returns whether `command` might be served without the arm: it is not a read, or the buffer
    /// or the cache reaches its first sector.
    fn may_hit(&self, command: &Command) -> bool {
        command.io.op != Op::Read || command.count == 0 || self.reaches(command)
    }

    /// Returns whether the first sector of `command` is in the buffer or the cache, or is being
    /// read into the buffer.
    fn reaches(&self, command: &Command) -> bool {
        self.buffer.as_ref().is_some_and(|buffer| buffer.reaches(command.first))
            || self.cache.as_ref().is_some_and(|cache| cache.reaches(command.first))
    }

    /// Marks the reads that the buffer may now be able to serve.
    fn notice(&mut self) {
        while let Some((from, to)) = self.buffer.as_mut().and_then(Buffer::grown) {
            self.noticed(from, to);
        }
    }

    /// Marks the reads that begin in the sectors from `from` to `to`, which may now be available
    /// without the arm.
    fn noticed(&mut self, from: u64, to: u64) {
        for command in &self.waiting {
            if (from <= command.first) & (command.first < to) {
                self.hopes.insert(command.spot.key);
            }
        }
    }

    /// Returns the waiting command that the arm serves next: the oldest if it has waited too long
    /// and may be forced, or else the one that the head reaches first. `None` if a run of the cache
    /// must be written first.
    fn choose(&self, now: u64) -> Option<Pick> {
        let age = |index: usize| (self.waiting[index].arrived, self.waiting[index].io.id);
        let oldest = self.oldest()?;
        let drains = self.cache.as_ref().is_some_and(WriteCache::drains);
        // For a run, as for a command, assume that the arm started when its last access ended.
        let run = drains.then(|| self.nearest_run(0)).flatten();
        let arrived = self.waiting[oldest].arrived;
        if self.is_due(now - arrived) && run.is_none_or(|run| !run.forced || arrived <= run.since) {
            return Some(Pick { index: oldest, forced: true, at: 0, since: arrived });
        }
        if !drains && self.waiting.len() == 1 {
            return Some(Pick { index: oldest, forced: false, at: 0, since: arrived });
        }
        let free_at = self.mechanism.motion.free_at;
        let margin = self.controller.queue.catch_margin.0;
        let is_before = |a, b| self.named(a).map(age) < self.named(b).map(age);
        let sought = self.spots.nearest(&self.mechanism, (free_at, margin), is_before);
        let sought = sought.and_then(|(at, key)| Some((at, self.named(key)?)));
        // Commands without data wait until the arm is free.
        let places = if self.still > 0 { 0..self.waiting.len() } else { 0..0 };
        let still = places.filter(|&index| self.waiting[index].is_still());
        let still = still.map(|index| (free_at.max(self.waiting[index].spot.from), index));
        let (at, index) = still.chain(sought).min_by_key(|(at, index)| (*at, age(*index)))?;
        let goes = run.is_none_or(|run| !run.forced && at <= run.at);
        goes.then_some(Pick { index, forced: false, at, since: self.waiting[index].arrived })
    }

    /// Returns the command that has waited longest for the arm.
    fn oldest(&self) -> Option<usize> {
        let first = self.waiting.iter().position(|command| command.needs_arm)?;
        let arrived = self.waiting[first].arrived;
        let as_old = self.waiting[first..].iter().take_while(|command| command.arrived == arrived);
        let as_old = as_old.enumerate().filter(|(_, command)| command.needs_arm);
        as_old.min_by_key(|(_, command)| command.io.id).map(|(at, _)| first + at)
    }

    /// Returns whether a command or run that has waited for `waited` goes next, regardless of the
    /// head's position.
    fn is_due(&self, waited: u64) -> bool {
        self.turns.may_force() && waited >= self.controller.queue.starvation.0
    }
}

impl Command {
    /// Returns whether the arm must move to the first sector of the command.
    fn is_sought(&self) -> bool {
        self.needs_arm && self.io.op.moves_data() && self.count > 0
    }

    /// Returns whether the command waits for the arm although it needs no arm movement.
    fn is_still(&self) -> bool {
        self.needs_arm && !self.is_sought()
    }
}

impl Overhead {
    fn after(&self, wrote: bool) -> u64 {
        if wrote { self.after_write.0 } else { self.after_read.0 }
    }
}

impl Device for Drive {
    fn room(&self) -> bool {
        self.outstanding() < self.controller.queue.depth as usize
    }

    fn start(&mut self, now: Nanos, io: Request) {
        let now = now.0;
        self.idle_until(now);
        if self.outstanding() == 0 {
            self.busy.begin(now);
        }
        self.take_back(now);
        self.parks = io.op == Op::Park;
        if !self.parks {
            self.mechanism.wake(now);
        }
        let command = self.command(now, io);
        if io.op.moves_data() && command.count > 0 {
            self.wrote = io.op == Op::Write;
            self.next_sector = command.first + command.count;
        }
        self.insert(command);
        self.dispatch(now);
    }

    fn next(&self) -> Option<Nanos> {
        self.served.iter().map(|served| Nanos(served.done)).min()
    }

    /// # Panics
    /// If no command was started, which is a bug in the driver.
    fn finish(&mut self, now: Nanos) -> Completion {
        let first =
            (0..self.served.len()).min_by_key(|&i| (self.served[i].done, self.served[i].io.id));
        let Some(first) = first else { panic!("finish without start") };
        let served = self.served.swap_remove(first);
        self.choice = self.choice.take().filter(|_| !served.at_media);
        if self.outstanding() == 0 {
            self.busy.end(served.done);
        }
        self.dispatch(now.0);
        self.idle_until(now.0);
        if self.parks && self.outstanding() == 0 {
            self.park(now.0);
        }
        Completion {
            io: served.io,
            started: Nanos(served.arrived),
            at: now,
            mechanics: served.mechanics,
            outcome: Ok(()),
        }
    }

    fn joules(&self, now: Nanos) -> f64 {
        self.mechanism.joules(now.0)
    }

    fn busy(&self, now: Nanos) -> Nanos {
        Nanos(self.busy.at(now.0))
    }

    /// Returns the time in which the sectors pass the heads, or the time on the bus if that is
    /// shorter and a buffer may contain them. Commands without data take no time.
    fn floor(&self, io: &Request) -> Nanos {
        let (first, count) = self.extent(io);
        if !io.op.moves_data() {
            return Nanos::ZERO;
        }
        let media = self.mechanism.surface.media_time(first, count);
        let bus = self.controller.bus;
        let ns = bus.read_ns_per_sector.min(bus.write_ns_per_sector) * count as f64;
        let buffered = self.buffer.is_some() || self.cache.is_some();
        Nanos(if buffered { media.min(ns as u64) } else { media })
    }

    fn write_back(&self) -> WriteBack {
        self.written_back
    }

    fn cylinders(&self) -> u32 {
        self.mechanism.surface.cylinders
    }

    fn capacity(&self) -> u64 {
        self.mechanism.surface.sectors * u64::from(SECTOR)
    }

    fn len_max(&self) -> u32 {
        self.len_max
    }
}

#[cfg(test)]
mod tests;
