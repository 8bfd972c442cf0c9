//! The arm and the platters: their positions, the time of an access, and the energy used.
//!
//! The angle of the platters depends only on the time. Accesses do not overlap: each begins no
//! earlier than the end of the previous one. An access may be determined after it began, so moving
//! the arm must take at least idle power; otherwise energy could decrease.

use crate::contract::SpecError;
use crate::device::hdd::geometry::{Divisor, Place};
use crate::device::hdd::power::Meter;
use crate::device::hdd::seek::SeekCurve;
use crate::device::hdd::{HddSpec, Power};

use super::{Format, Spot, Surface};

/// The parameters of an access.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    /// The earliest time for the arm to move.
    pub(super) start: u64,
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) write: bool,
    /// The minimum time between the arrival of write data and its use by the media.
    pub(super) seek_least: u64,
    /// Whether the access may begin with any of its sectors.
    pub(super) zero_latency: bool,
    /// When the data of a write begins to arrive over the bus, and its time per sector in ns.
    pub(super) data: (u64, f64),
    /// The number of sectors that must have arrived before the media write begins.
    pub(super) watermark: u64,
}

/// The number of sectors that a drive with a minimum seek delay passes to the media at a time: 4
/// KiB. DiskSim has no such parameter; the value follows from the revolutions that measured
/// sequential writes lose.
const WRITE_BLOCK: u64 = 8;

impl Task {
    /// Returns when the first `count` sectors of a write are available to the media.
    fn there(&self, count: u64) -> u64 {
        self.data.0 + (self.data.1 * count as f64) as u64 + self.seek_least
    }

    /// Returns a task that reads `count` sectors starting at `first`.
    pub(super) fn read(start: u64, first: u64, count: u64) -> Task {
        let (write, seek_least, zero_latency) = (false, 0, false);
        Task { start, first, count, write, seek_least, zero_latency, data: (0, 0.0), watermark: 0 }
    }
}

/// The timing of an access.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) seek: u64,
    pub(super) rotation: u64,
    pub(super) transfer: u64,
    /// When the first sector began to pass the head.
    pub(super) first_begins: u64,
    /// The time at which the first sector had passed the head.
    pub(super) first_ends: u64,
    /// The time at which the last sector had passed the head.
    pub(super) ends: u64,
    pub(super) from: Place,
    pub(super) last: Place,
}

/// A period of work that takes more than idle power.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    from: u64,
    to: u64,
}

impl Window {
    fn until(self, now: u64) -> u64 {
        now.clamp(self.from, self.to.max(self.from)) - self.from
    }
}

/// The state of the arm and its statistics, which are all that an access changes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Motion {
    pub(super) cylinder: u32,
    pub(super) head: u32,
    /// The next sector under the head if it continues to read.
    pub(super) next: u64,
    /// When the arm's current work ends.
    pub(super) free_at: u64,
    seeking: Window,
    moving: Window,
    seek_ns: u64,
    transfer_ns: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Mechanism {
    pub(super) surface: Surface,
    pub(super) curve: SeekCurve,
    turn: Divisor,
    start_phase: u64,
    write_settle: u64,
    pub(super) write_less: u64,
    head_switch: u64,
    pub(super) motion: Motion,
    meter: Meter,
    /// When the platters will stop unless a command arrives earlier.
    rests_at: Option<u64>,
}

impl Mechanism {
    pub(super) fn new(disk: &HddSpec, format: Option<&Format>) -> Result<Mechanism, SpecError> {
        let surface = Surface::new(disk, format)?;
        let curve = SeekCurve::new(&disk.seek, surface.cylinders)?;
        let Power { idle_w, seek_w, transfer_w, .. } = disk.power;
        if seek_w < idle_w || transfer_w < idle_w {
            return Err(SpecError(format!(
                "power: got {seek_w} W to seek and {transfer_w} W to transfer, expected at least \
                 the idle power of {idle_w} W"
            )));
        }
        Ok(Mechanism {
            curve,
            turn: Divisor::new(surface.revolution),
            surface,
            start_phase: disk.start_phase.0,
            write_settle: disk.write_settle.0,
            write_less: 0,
            head_switch: disk.head_switch.0,
            motion: Motion::default(),
            meter: Meter::new(disk.power),
            rests_at: None,
        })
    }

    /// Returns the position of sector `first`, for an access that can start at `from` or later.
    pub(super) fn spot(&self, first: u64, from: u64, write: bool) -> Spot {
        let Place { cylinder, head, begins, .. } = self.surface.place(first);
        Spot { cylinder, head, first, angle: self.turn.divide(begins).1, from, write, key: 0 }
    }

    /// Returns when the head reaches `spot` after a seek that takes `seek`, if the arm starts at
    /// `start`.
    #[inline]
    pub(super) fn reach(&self, spot: &Spot, start: u64, seek: u64) -> u64 {
        let arrived = start.saturating_add(self.settled(seek, spot.head, spot.write));
        arrived.saturating_add(self.turn_to(arrived, spot.angle))
    }

    /// Returns the time to move the arm by `distance` cylinders before a read.
    #[inline]
    pub(super) fn seek_time(&self, distance: u32) -> u64 {
        self.curve.time(distance)
    }

    #[inline]
    fn move_time(&self, place: Place, write: bool) -> u64 {
        let seek = self.curve.time(place.cylinder.abs_diff(self.motion.cylinder));
        self.settled(seek, place.head, write)
    }

    /// Returns the time of a seek until the head can read or write.
    #[inline]
    fn settled(&self, seek: u64, head: u32, write: bool) -> u64 {
        let switch = if head == self.motion.head { 0 } else { self.head_switch };
        let time = seek.max(switch);
        match write && time > 0 {
            true => (time + self.write_settle).saturating_sub(self.write_less),
            false => time,
        }
    }

    #[inline]
    fn angle(&self, now: u64) -> u64 {
        self.turn.divide(now.wrapping_add(self.start_phase)).1
    }

    #[inline]
    fn wait(&self, now: u64, begins: u64) -> u64 {
        self.turn_to(now, self.turn.divide(begins).1)
    }

    #[inline]
    fn turn_to(&self, now: u64, angle: u64) -> u64 {
        let turned = self.angle(now);
        if angle >= turned { angle - turned } else { angle + self.surface.revolution - turned }
    }

    /// Performs an access and returns its timing.
    pub(super) fn access(&mut self, task: Task) -> Access {
        let from = self.surface.place(task.first);
        let last = match task.count {
            1 => from,
            count => self.surface.place(task.first + count - 1),
        };
        let turn = self.surface.revolution;
        let start = task.start.max(self.motion.free_at);
        let mut seek = self.move_time(from, task.write).max(task.seek_least);
        if task.write {
            seek = seek.max(task.there(task.watermark).saturating_sub(start));
        }
        let arrived = start.saturating_add(seek);
        let mut rotation = self.wait(arrived, from.begins);
        let length = last.ends.saturating_sub(from.begins);
        let mut first_ends = arrived + rotation + (from.ends - from.begins);
        let mut ends = arrived + rotation + length;
        let mut late = if task.write { self.late(&task, from, arrived + rotation) } else { 0 };
        let inside = turn - rotation;
        let one_track = (from.cylinder, from.head) == (last.cylinder, last.head);
        if task.zero_latency && one_track && rotation > 0 && inside < length {
            // The head arrived within the request's sectors, so one revolution later it has passed
            // all of them.
            let sector = (from.ends - from.begins).max(1);
            ends = arrived + turn + (sector - inside % sector);
            first_ends = first_ends.min(ends);
            rotation = 0;
            late = task.there(task.count).saturating_sub(ends);
        }
        let turns = late.div_ceil(turn) * turn;
        (first_ends, ends) = (first_ends + turns, ends + turns);
        let transfer = ends - arrived - rotation;
        self.note(start, arrived, arrived + rotation, ends);
        (self.motion.cylinder, self.motion.head, self.motion.free_at) =
            (last.cylinder, last.head, ends);
        self.motion.next = task.first + task.count;
        let first_begins = first_ends.saturating_sub(from.ends - from.begins);
        Access { seek, rotation, transfer, first_begins, first_ends, ends, from, last }
    }

    /// Returns how late the data of a write that begins at `begins` arrives for the media, or zero.
    fn late(&self, task: &Task, from: Place, begins: u64) -> u64 {
        if task.there(task.count) <= begins {
            return 0;
        }
        let block = if task.seek_least > 0 { WRITE_BLOCK } else { 1 };
        let late = |sector: u64| {
            let passed = self.surface.place(task.first + sector).begins.saturating_sub(from.begins);
            task.there((sector + block).min(task.count)).saturating_sub(begins + passed)
        };
        let (mut latest, mut sector) = (0, 0);
        while sector < task.count {
            let (_, last) = self.surface.track(task.first + sector);
            let end = (last + 1 - task.first).min(task.count);
            // On a track, both data and media progress evenly, so either the first or the last
            // block is the most critical.
            let [first, last] = [sector.next_multiple_of(block), (end - 1) / block * block];
            if first <= last {
                latest = latest.max(late(first)).max(late(last));
            }
            sector = end;
        }
        latest
    }

    /// Adds the previous access to the statistics, and records one that begins at `start`.
    fn note(&mut self, start: u64, arrived: u64, found: u64, ends: u64) {
        self.motion.seek_ns += self.motion.seeking.until(u64::MAX);
        self.motion.transfer_ns += self.motion.moving.until(u64::MAX);
        self.motion.seeking = Window { from: start, to: arrived };
        self.motion.moving = Window { from: found, to: ends };
    }

    /// Records that the head continues to read until `to` at the latest.
    pub(super) fn note_streaming(&mut self, to: u64) {
        self.motion.moving.to = self.motion.moving.to.max(to);
    }

    /// Records that read-ahead stopped at `at`, which is later than any queried time.
    pub(super) fn note_stopped(&mut self, at: u64) {
        self.motion.moving.to = self.motion.moving.to.min(at).max(self.motion.moving.from);
    }

    pub(super) fn joules(&self, now: u64) -> f64 {
        let seek = self.motion.seek_ns + self.motion.seeking.until(now);
        let transfer = self.motion.transfer_ns + self.motion.moving.until(now);
        match self.rests_at.filter(|at| *at < now) {
            None => self.meter.joules(now, seek, transfer),
            Some(at) => {
                let mut meter = self.meter.clone();
                meter.park(at);
                meter.joules(now, seek, transfer)
            }
        }
    }

    /// Stops the platters after the current work, unless another command arrives first.
    pub(super) fn rest(&mut self, now: u64) {
        self.rests_at = self.rests_at.or(Some(now.max(self.motion.free_at)));
    }

    /// Makes the arm available at `now`, or as soon as the platters have reached their speed.
    pub(super) fn wake(&mut self, now: u64) {
        if let Some(at) = self.rests_at.take().filter(|at| *at < now) {
            self.meter.park(at);
            self.motion.free_at = self.motion.free_at.max(self.meter.wake(now));
        }
    }

    /// Returns when `count` sectors starting at `first`, read by `access`, have been transferred
    /// over a bus that takes `ns` per sector and begins no earlier than `begins`.
    pub(super) fn over_bus(
        &self,
        access: &Access,
        first: u64,
        count: u64,
        begins: u64,
        ns: f64,
    ) -> u64 {
        let time = |sectors: u64| (sectors as f64 * ns) as u64;
        let end = first + count;
        let mut done = begins.max(access.first_ends).saturating_add(time(count));
        done = done.max(access.ends + time(1));
        if (access.from.cylinder, access.from.head) != (access.last.cylinder, access.last.head) {
            let mut next = self.surface.track(first).1 + 1;
            while next < end {
                let left = access.last.ends - self.surface.place(next).ends;
                let there = access.ends.saturating_sub(left);
                done = done.max(there + time(end - next));
                next = self.surface.track(next).1 + 1;
            }
        }
        done
    }
}
