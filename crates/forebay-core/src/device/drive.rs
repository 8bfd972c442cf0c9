//! A disk with a controller: track buffer, write cache, command queue, bus.
//!
//! Beside the arm and the platters of the plain disk it models what lies between them and the
//! host, in DiskSim's terms (see `controller`). It departs from DiskSim where that models the
//! code of a drive, not its time: segments are not recycled while in use, the bus is not let go
//! of while the media catches up, and there is one queue. Two rules are what measured times of
//! an HP C2247A show, not DiskSim's: the bus is asked for when a read begins to pass, so that the
//! media hide what that takes; and a write begins only when no sector of it can come too late for
//! the media, its least seek counted from when the data is there (see `mechanism`).
//!
//! Commands are taken while fewer than the queue's depth are outstanding. What the buffer can
//! answer or the write cache can take is served at once, beside the command at the media; of the
//! others that one goes next which the head reaches first, or, at most every eighth time, the oldest
//! if it has waited too long (see `turns`). A drive may leave itself a margin when it ranks them, and
//! may choose some commands ahead of the arm ([`QueueSpec`]). The arm moves on to it when the last access has ended,
//! even while its data is on the bus. Read-ahead
//! goes on until the arm is wanted; what the cache holds is written as soon as nobody waits for
//! the arm, and in line with those who do once most of its places are taken. A flush writes all of
//! it; so does a write with PREFLUSH first, and one with FUA goes past the cache. What lies beyond
//! the capacity is wrapped and cut as on the plain disk. Park is answered at once: with nothing left
//! to do the cache is written and the platters stop ([`crate::device::hdd::Standby`]), until any
//! other command comes.
//!
//! Busy is the time with commands outstanding or the arm at work on the cache.
//!
//! Invariants: completions are never before their start; each command completes once; seek,
//! rotation and transfer never add up to more than the service time; energy never falls.

mod buffer;
mod busy;
mod controller;
mod mechanism;
mod reconsider;
mod search;
mod service;
mod sparing;
mod surface;
mod turns;
mod write_cache;

pub use controller::{
    Admits, BufferSpec, Bus, Controller, ExtraDisconnect, Overhead, Overheads, QueueSpec,
    ReadAhead, WriteCacheSpec,
};
pub use sparing::{Defects, SpareRange, Sparing};
pub use surface::{Format, HeadOrder, ZoneFormat};

use crate::contract::device::{Completion, Device, Mechanics, WriteBack};
use crate::contract::request::{Flags, Op, Request};
use crate::contract::spec::SpecError;
use crate::contract::time::Nanos;
use crate::device::hdd::{HddSpec, SECTOR, check_rest, check_times};
use buffer::Buffer;
use busy::Busy;
use mechanism::Mechanism;
use reconsider::Choice;
use turns::{Pick, Turns};
use write_cache::WriteCache;

/// All figures of a disk with a controller.
#[derive(Clone, Debug, PartialEq)]
pub struct DriveSpec {
    /// Arm and platters. Its overhead is the controller's to say and is not used.
    pub disk: HddSpec,
    /// How it is formatted; `None`: no spares, no defects, skews from `disk`.
    pub format: Option<Format>,
    /// The controller.
    pub controller: Controller,
}

/// A command that waits.
#[derive(Clone, Copy, Debug)]
struct Command {
    io: Request,
    arrived: u64,
    first: u64,
    count: u64,
    /// Controller time of a command of its kind at the media.
    overhead: u64,
    /// The command before it wrote,
    after_write: bool,
    /// and this one does not go on where that ended.
    apart: bool,
}

/// A command that will be done.
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
    /// In the order they came, which is that in which the cache takes them.
    waiting: Vec<Command>,
    served: Vec<Served>,
    turns: Turns,
    /// The last choice, where it may be taken back.
    choice: Option<Choice>,
    bus_free_at: u64,
    /// Whether the last command wrote, and the sector after it.
    wrote: bool,
    next_sector: u64,
    len_max: u32,
    busy: Busy,
    written_back: WriteBack,
    /// Parked as soon as there is nothing to do.
    parks: bool,
}

impl Drive {
    /// A drive with its heads at cylinder 0; fails on the first figure that makes no sense.
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

    /// The same with so many commands in its queue; none where it takes no more.
    pub fn at_queue_depth(&self, depth: u32) -> Option<Drive> {
        let mut drive = self.clone();
        let is_less = (1..drive.controller.queue.depth).contains(&depth);
        drive.controller.queue.depth = depth;
        is_less.then_some(drive)
    }

    /// The same without its write cache; none where it has none.
    pub fn without_write_cache(&self) -> Option<Drive> {
        let mut drive = self.clone();
        drive.controller.write_cache = None;
        drive.cache.take().map(|_| drive)
    }

    /// The time to move the arm over `distance` cylinders before a read, settling included.
    pub fn seek_time(&self, distance: u32) -> Nanos {
        Nanos(self.mechanism.curve.time(distance))
    }

    /// One turn of the platters.
    pub fn revolution(&self) -> Nanos {
        Nanos(self.mechanism.surface.revolution)
    }

    fn outstanding(&self) -> usize {
        self.waiting.len() + self.served.len()
    }

    /// First sector and number of sectors of `io`, brought onto the disk.
    fn extent(&self, io: &Request) -> (u64, u64) {
        let first = io.offset / u64::from(SECTOR);
        let count = (io.offset % u64::from(SECTOR) + u64::from(io.len)).div_ceil(SECTOR.into());
        let sectors = self.mechanism.surface.sectors;
        let first = if first < sectors { first } else { first % sectors };
        (first, count.min(sectors - first))
    }

    /// What is known of a command when it comes.
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
        Command { io, arrived: now, first, count, overhead, after_write: self.wrote, apart }
    }

    /// Serves all that need not wait for the arm, and then of those that do as many as the drive
    /// commits to. Where the cache is drained, runs that the head reaches before that one come first.
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
                    let command = self.waiting.remove(pick.index);
                    let served = self.at_media(now, &command);
                    self.served.push(served);
                    if self.is_committed() {
                        return;
                    }
                }
                // While the arm is at one run no further one is chosen: what is done next asks again.
                None if self.mechanism.motion.free_at > now && !self.served.is_empty() => return,
                // All that waits may wait for room in the cache: then there are runs.
                None if self.write_nearest(now, 0).is_none() => return,
                None => (),
            }
        }
    }

    /// Whether no further command is chosen before one of those at the media is done.
    fn is_committed(&self) -> bool {
        let at_media = self.served.iter().filter(|served| served.at_media).count();
        at_media > self.controller.queue.ahead.max(0) as usize
    }

    /// Serves what needs no arm in the order in which the cache admits writes.
    fn serve_without_arm(&mut self, now: u64) {
        let starvation = self.controller.queue.starvation.0;
        let in_order = match self.controller.write_cache.map(|cache| cache.admits) {
            Some(Admits::Newest) => {
                self.waiting.partition_point(|command| now - command.arrived >= starvation)
            }
            _ => self.waiting.len(),
        };
        let mut kept = 0;
        for _ in 0..in_order {
            kept += usize::from(!self.serve_at(kept, now));
        }
        for index in (kept..self.waiting.len()).rev() {
            self.serve_at(index, now);
        }
    }

    /// Serves the waiting command at `index` if it needs no arm, and says whether it did.
    fn serve_at(&mut self, index: usize, now: u64) -> bool {
        let command = self.waiting[index];
        let served = self.without_arm(now, &command);
        if let Some(served) = served {
            self.waiting.remove(index);
            self.served.push(served);
        }
        served.is_some()
    }

    /// The waiting command that has the arm next: the oldest if it has waited too long and it is its turn,
    /// else that which the head reaches first; `None` where a run of the cache that is to be written
    /// goes before it.
    fn choose(&self, now: u64) -> Option<Pick> {
        let age = |&index: &usize| (self.waiting[index].arrived, self.waiting[index].io.id);
        let needs_arm = |&index: &usize| !self.is_cached(&self.waiting[index]);
        let waiting = || (0..self.waiting.len()).filter(needs_arm);
        let oldest = waiting().min_by_key(age)?;
        let drains = self.cache.as_ref().is_some_and(WriteCache::drains);
        // As with commands, the arm moved on when its last access had ended.
        let run = drains.then(|| self.nearest_run(0)).flatten();
        let arrived = self.waiting[oldest].arrived;
        if self.is_due(now - arrived) && run.is_none_or(|run| !run.forced || arrived <= run.since) {
            return Some(Pick { index: oldest, forced: true, at: 0, since: arrived });
        }
        let reached = |&index: &usize| {
            let command = &self.waiting[index];
            let start = self.mechanism.motion.free_at.max(command.arrived + command.overhead);
            if !command.io.op.moves_data() || command.count == 0 {
                return (start, age(&index));
            }
            let write = command.io.op == Op::Write;
            (self.rank(start, command.first, write), age(&index))
        };
        if !drains && self.waiting.len() == 1 {
            return Some(Pick { index: oldest, forced: false, at: 0, since: arrived });
        }
        let (index, (at, (since, _))) =
            waiting().map(|index| (index, reached(&index))).min_by_key(|c| c.1)?;
        let goes = run.is_none_or(|run| !run.forced && at <= run.at);
        goes.then_some(Pick { index, forced: false, at, since })
    }

    /// When the head reaches sector `first` if it starts at `start`, as the drive counts when it ranks: no
    /// sooner than the seek and the margin after that. What is uncertain is a seek, so there is no margin
    /// where the arm stays on its cylinder or only has to go on to the next.
    fn rank(&self, start: u64, first: u64, write: bool) -> u64 {
        let motion = &self.mechanism.motion;
        let place = self.mechanism.surface.place(first);
        let is_sure = place.cylinder == motion.cylinder || first == motion.next;
        let margin = if is_sure { 0 } else { self.controller.queue.catch_margin.0 };
        let start = start.saturating_add(margin);
        let [seek, rotation] = self.mechanism.approach(start, place, write, 0);
        start.saturating_add(seek + rotation)
    }

    /// Whether something that has waited so long goes next, wherever the head is.
    fn is_due(&self, waited: u64) -> bool {
        self.turns.may_force() && waited >= self.controller.queue.starvation.0
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
        self.waiting.push(command);
        self.dispatch(now);
    }

    fn next(&self) -> Option<Nanos> {
        self.served.iter().map(|served| Nanos(served.done)).min()
    }

    /// # Panics
    /// If nothing was started: a driver's error.
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

    /// The time its sectors take under the heads; over the bus if that is less and a buffer may
    /// hold them; nothing for commands without data.
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
