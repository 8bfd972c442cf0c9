//! A mechanical disk: zoned geometry, seek curve, head and cylinder switches, rotation.
//!
//! The disk serves one command at a time. Rotation is deterministic: the angle of the platters
//! depends only on the time. A command takes its overhead, the seek (including settling), the
//! rotational delay until its first sector, and the transfer, track by track, including switches.
//!
//! Two kinds of command continue the stream of the last command of the same operation without
//! losing a revolution:
//! * a command that starts at the exact time and position at which the last one ended. Its overhead
//!   is hidden too. This approximates command pipelining and the drive's buffer;
//! * a read at the end of the last read after a pause of at most one revolution, as if from
//!   read-ahead. During the pause, the head continues, including over switches. The data then
//!   arrives at the media rate, which is also the limit of the link, while the overhead runs
//!   concurrently. A pause therefore costs no rotational delay, but saves no transfer time either.
//!   Read-ahead continues through gaps: a read that begins at most one revolution beyond that end
//!   may wait until the head has passed the gap, if a seek would take longer.
//!
//! Flush and Trim cost only the command overhead because there is no write cache. Park takes no
//! time and stops the platters ([`Standby`]); the arm is assumed to stay where it was. An address
//! beyond the capacity wraps to the start and is cut at the end, so that no I/O panics.
//!
//! Invariants: completions are never before their start; seek, rotation and transfer together never
//! exceed the service time; no command takes less than its [`Device::floor`]; energy never
//! decreases.

pub(in crate::device) mod geometry;
mod order_bound;
pub(in crate::device) mod parts;
pub(in crate::device) mod power;
pub(in crate::device) mod seek;

pub use geometry::{Layout, SECTOR, Zone, zones};
pub use order_bound::{OrderBound, Pieces};
pub use power::{Power, Standby};
pub use seek::{KNEE_SHARE, SeekSpec};

use crate::contract::{Completion, Device, Mechanics, Nanos, Op, Positioning, Request, SpecError};
use geometry::{Divisor, Geometry, Place, step};
use power::Meter;
use seek::SeekCurve;

/// The parameters of a mechanical disk.
#[derive(Clone, Debug, PartialEq)]
pub struct HddSpec {
    /// The number of heads, each for one surface.
    pub heads: u32,
    /// The zones, without gaps, from cylinder 0 at the outer edge inward.
    pub zones: Vec<Zone>,
    /// The duration of a revolution.
    pub revolution: Nanos,
    /// The initial angle of the platters, as a time.
    pub start_phase: Nanos,
    /// The time of the arm's moves before a read.
    pub seek: SeekSpec,
    /// The additional settling time of a move before a write.
    pub write_settle: Nanos,
    /// The time to switch to the next head on the same cylinder.
    pub head_switch: Nanos,
    /// The time to switch from the last head of a cylinder to the first head of the next.
    pub cylinder_switch: Nanos,
    /// The angle by which a track is offset from the previous one, as a time. `None` means the head
    /// switch, so that sequential transfers lose no revolution.
    pub track_skew: Option<Nanos>,
    /// The angle by which the first track of a cylinder is offset from the last track of the
    /// previous one. `None` means the cylinder switch.
    pub cylinder_skew: Option<Nanos>,
    /// The overhead of each command before anything moves.
    pub overhead: Nanos,
    /// The longest command in bytes.
    pub len_max: u32,
    /// The power in each state, and standby.
    pub power: Power,
}

/// The default of [`HddSpec::len_max`], 1 GiB: only the block layer's limit applies.
pub const LEN_MAX: u32 = 1 << 30;

/// The maximum of all times in the parameters: one second.
const LONGEST: u64 = 1_000_000_000;

/// The end of the last command that transferred data. Another command may continue there.
#[derive(Clone, Copy, Debug)]
struct Stream {
    op: Op,
    /// The sector after the command's last one.
    next_sector: u64,
    /// When that command completed.
    done: u64,
    /// The stream time at which the command's last sector ends.
    ends: u64,
}

/// The phases of a command that transfers data.
struct Access {
    last: Place,
    done: u64,
    mechanics: Mechanics,
}

/// The command in progress.
#[derive(Clone, Copy, Debug)]
struct Current {
    io: Request,
    started: u64,
    done: u64,
    mechanics: Mechanics,
}

/// A mechanical disk.
#[derive(Clone, Debug)]
pub struct Hdd {
    geometry: Geometry,
    curve: SeekCurve,
    revolution: u64,
    turn: Divisor,
    start_phase: u64,
    write_settle: u64,
    head_switch: u64,
    overhead: u64,
    len_max: u32,
    meter: Meter,
    cylinder: u32,
    head: u32,
    stream: Option<Stream>,
    current: Option<Current>,
    busy_ns: u64,
    seek_ns: u64,
    transfer_ns: u64,
}

impl Hdd {
    /// Returns a disk with its heads at cylinder 0.
    ///
    /// # Errors
    /// Names the first invalid parameter.
    pub fn new(spec: HddSpec) -> Result<Hdd, SpecError> {
        check_times(&spec)?;
        check_rest(&spec)?;
        let revolution = spec.revolution.0;
        let (head, cylinder) = (spec.head_switch, spec.cylinder_switch);
        let geometry = Geometry::new(
            &spec.zones,
            spec.heads,
            revolution,
            step(head.0, spec.track_skew.unwrap_or(head).0, revolution),
            step(cylinder.0, spec.cylinder_skew.unwrap_or(cylinder).0, revolution),
        )?;
        let curve = SeekCurve::new(&spec.seek, geometry.cylinders)?;
        Ok(Hdd {
            geometry,
            curve,
            revolution,
            turn: Divisor::new(revolution),
            start_phase: spec.start_phase.0,
            write_settle: spec.write_settle.0,
            head_switch: head.0,
            overhead: spec.overhead.0,
            len_max: spec.len_max,
            meter: Meter::new(spec.power),
            cylinder: 0,
            head: 0,
            stream: None,
            current: None,
            busy_ns: 0,
            seek_ns: 0,
            transfer_ns: 0,
        })
    }

    /// Returns the time to move the arm by `distance` cylinders before a read, including settling.
    pub fn seek_time(&self, distance: u32) -> Nanos {
        Nanos(self.curve.time(distance))
    }

    /// Returns the first sector of `io` and the number of sectors, moved and limited to fit the
    /// disk.
    #[inline]
    fn extent(&self, io: &Request) -> (u64, u64) {
        let first = io.offset / u64::from(SECTOR);
        let count = (io.offset % u64::from(SECTOR) + u64::from(io.len)).div_ceil(SECTOR.into());
        let sectors = self.geometry.sectors;
        let first = if first < sectors { first } else { first % sectors };
        (first, count.min(sectors - first))
    }

    /// Stops the platters at `now`, which is returned. The read-ahead is lost.
    fn park(&mut self, now: u64) -> u64 {
        self.meter.park(now);
        self.stream = None;
        now
    }

    /// Returns when a command without data completes, and the breakdown of its time.
    fn idle_command(&self, now: u64, op: Op) -> (u64, Mechanics) {
        let overhead = if matches!(op, Op::Park | Op::Open) { 0 } else { self.overhead };
        let here = self.cylinder;
        let mechanics = Mechanics {
            cylinder_from: here,
            cylinder_first: here,
            cylinder_last: here,
            ..Mechanics::default()
        };
        (now.saturating_add(overhead), mechanics)
    }

    /// Transfers `count` > 0 sectors starting at `first`, and returns when that completes.
    #[inline]
    fn transfer(&mut self, now: u64, op: Op, first: u64, count: u64) -> (u64, Mechanics) {
        let Access { last, done, mechanics } = self.access(now, op, first, count);
        self.cylinder = last.cylinder;
        self.head = last.head;
        self.stream = Some(Stream { op, next_sector: first + count, done, ends: last.ends });
        (done, mechanics)
    }

    /// Returns how a transfer of `count` > 0 sectors starting at `first` would proceed.
    #[inline]
    fn access(&self, now: u64, op: Op, first: u64, count: u64) -> Access {
        let (from, last) = self.geometry.run(first, count);
        let mut mechanics = Mechanics {
            cylinder_from: self.cylinder,
            cylinder_first: from.cylinder,
            cylinder_last: last.cylinder,
            ..Mechanics::default()
        };
        let stream = self.stream.filter(|stream| self.continues(stream, now, op, first, from));
        let on = stream.map(|stream| {
            let on = last.ends - stream.ends;
            // Without a pause, the overhead is hidden, and only the media limit the rate.
            let paused = now > stream.done;
            let least = if paused { self.overhead.max(last.ends - from.begins) } else { on };
            (on, now.saturating_add(least).max(stream.done.saturating_add(on)))
        });
        let joins = stream.is_some_and(|stream| stream.next_sector == first);
        if let Some((on, done)) = on.filter(|_| joins) {
            mechanics.transfer = Nanos(on.min(done - now));
            return Access { last, done, mechanics };
        }
        let seek = self.move_time(from.cylinder, from.head, op);
        let arrived = now.saturating_add(self.overhead + seek);
        let rotation = self.wait(arrived, from.begins);
        let transfer = last.ends - from.begins;
        let done = arrived.saturating_add(rotation + transfer);
        if let Some((_, sooner)) = on.filter(|(_, sooner)| *sooner < done) {
            // The sectors that pass before the first one are not part of the transfer.
            mechanics.transfer = Nanos(transfer.min(sooner - now));
            mechanics.rotation = Nanos(sooner - now) - mechanics.transfer;
            return Access { last, done: sooner, mechanics };
        }
        mechanics.seek = Nanos(seek);
        mechanics.rotation = Nanos(rotation);
        mechanics.transfer = Nanos(transfer);
        Access { last, done, mechanics }
    }

    #[inline]
    fn continues(&self, stream: &Stream, now: u64, op: Op, first: u64, from: Place) -> bool {
        let (pause, next) = (now.saturating_sub(stream.done), stream.next_sector);
        if stream.op != op || first < next {
            return false;
        }
        if op == Op::Read {
            let goes_on = first == next || from.begins - stream.ends <= self.revolution;
            return goes_on && pause <= self.revolution;
        }
        first == next && pause == 0
    }

    /// Returns the time to move `head` to `cylinder`.
    #[inline]
    fn move_time(&self, cylinder: u32, head: u32, op: Op) -> u64 {
        self.move_between((self.cylinder, self.head), (cylinder, head), op)
    }

    /// Returns the time to move from one cylinder and head to another.
    #[inline]
    fn move_between(&self, from: (u32, u32), to: (u32, u32), op: Op) -> u64 {
        let distance = to.0.abs_diff(from.0);
        let time = match distance {
            0 if to.1 == from.1 => return 0,
            0 => self.head_switch,
            _ => self.curve.time(distance),
        };
        time + if op == Op::Write { self.write_settle } else { 0 }
    }

    /// Returns the time from `now` until the sector with stream time `begins` arrives under the
    /// head.
    #[inline]
    fn wait(&self, now: u64, begins: u64) -> u64 {
        let (_, turned) = self.turn.divide(now.wrapping_add(self.start_phase));
        let (_, angle) = self.turn.divide(begins);
        let lap = std::hint::select_unpredictable(angle >= turned, 0, self.revolution);
        angle + lap - turned
    }

    /// Returns the times spent seeking and transferring until `now`.
    fn states(&self, now: u64) -> (u64, u64) {
        let Some(current) = &self.current else { return (self.seek_ns, self.transfer_ns) };
        let (seek, transfer) = (current.mechanics.seek.0, current.mechanics.transfer.0);
        // A command ends with its transfer, which follows the rotation, which follows the seek.
        let left = current.done.saturating_sub(now);
        let moving = transfer.saturating_sub(left);
        let before = left.saturating_sub(transfer + current.mechanics.rotation.0);
        let seeking = seek.saturating_sub(before);
        (self.seek_ns.saturating_add(seeking), self.transfer_ns.saturating_add(moving))
    }
}

impl Device for Hdd {
    #[inline]
    fn room(&self) -> bool {
        self.current.is_none()
    }

    #[inline]
    fn start(&mut self, now: Nanos, io: Request) {
        let (first, count) = self.extent(&io);
        let begun = if io.op == Op::Park { self.park(now.0) } else { self.meter.wake(now.0) };
        let (done, mechanics) = if io.op.moves_data() && count > 0 {
            self.transfer(begun, io.op, first, count)
        } else {
            self.idle_command(begun, io.op)
        };
        self.current = Some(Current { io, started: now.0, done, mechanics });
    }

    #[inline]
    fn next(&self) -> Option<Nanos> {
        self.current.as_ref().map(|current| Nanos(current.done))
    }

    /// # Panics
    /// If no command was started, which is a bug in the driver.
    #[inline]
    fn finish(&mut self, now: Nanos) -> Completion {
        let Some(current) = self.current.take() else { panic!("finish without start") };
        self.busy_ns += current.done - current.started;
        self.seek_ns = self.seek_ns.saturating_add(current.mechanics.seek.0);
        self.transfer_ns = self.transfer_ns.saturating_add(current.mechanics.transfer.0);
        Completion {
            io: current.io,
            started: Nanos(current.started),
            at: now,
            mechanics: current.mechanics,
            outcome: Ok(()),
        }
    }

    fn joules(&self, now: Nanos) -> f64 {
        let (seek, transfer) = self.states(now.0);
        self.meter.joules(now.0, seek, transfer)
    }

    fn busy(&self, now: Nanos) -> Nanos {
        let current = self.current.as_ref();
        let running = current.map_or(0, |c| now.0.min(c.done).saturating_sub(c.started));
        Nanos(self.busy_ns.saturating_add(running))
    }

    /// Returns the time in which the sectors pass the heads. Commands without data take no time.
    fn floor(&self, io: &Request) -> Nanos {
        let (first, count) = self.extent(io);
        if !io.op.moves_data() || count == 0 {
            return Nanos::ZERO;
        }
        // Parts on several tracks are rounded separately, as when they are served.
        let (from, last) = self.geometry.run(first, count);
        Nanos(self.geometry.media_time(first, count).min(last.ends - from.begins))
    }

    fn cylinders(&self) -> u32 {
        self.geometry.cylinders
    }

    fn capacity(&self) -> u64 {
        self.geometry.sectors * u64::from(SECTOR)
    }

    fn len_max(&self) -> u32 {
        self.len_max
    }
}

/// Only commands with data count, because others do not move the arm.
impl Positioning for Hdd {
    #[inline]
    fn positioning(&self, now: Nanos, io: &Request) -> Nanos {
        let (first, count) = self.extent(io);
        if count == 0 {
            return Nanos(self.overhead);
        }
        let Access { done, mechanics, .. } = self.access(now.0, io.op, first, count);
        Nanos(done) - now - mechanics.transfer
    }

    #[inline]
    fn moved(&mut self, now: Nanos, io: &Request) {
        let (first, count) = self.extent(io);
        if count > 0 {
            self.transfer(now.0, io.op, first, count);
        }
    }
}

pub(in crate::device) fn check_times(spec: &HddSpec) -> Result<(), SpecError> {
    let turn = spec.revolution.0;
    if !(1_000..=LONGEST).contains(&turn) {
        return Err(SpecError(format!("revolution: got {turn} ns, expected 1000 to {LONGEST} ns")));
    }
    let skews = [("track skew", spec.track_skew), ("cylinder skew", spec.cylinder_skew)];
    let times = [
        ("start phase", Some(spec.start_phase)),
        ("write settle", Some(spec.write_settle)),
        ("head switch", Some(spec.head_switch)),
        ("cylinder switch", Some(spec.cylinder_switch)),
        ("overhead", Some(spec.overhead)),
    ];
    for (name, time) in times.into_iter().chain(skews) {
        if let Some(Nanos(ns)) = time
            && ns > LONGEST
        {
            return Err(SpecError(format!("{name}: got {ns} ns, expected 0 to {LONGEST} ns")));
        }
    }
    Ok(())
}

pub(in crate::device) fn check_rest(spec: &HddSpec) -> Result<(), SpecError> {
    spec.power.check()?;
    if spec.len_max < SECTOR {
        let got = spec.len_max;
        return Err(SpecError(format!("longest command: got {got} B, expected {SECTOR} or more")));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
