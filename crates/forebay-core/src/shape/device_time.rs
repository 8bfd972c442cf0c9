//! Estimates the device time of I/Os, and limits how much of it is in the device at once.
//!
//! Source: reservations of device time are Fahrrad's (Povzner et al., EuroSys 2008). The *unit* is
//! the time of a small I/O at the server's capacity, whatever the workload. An I/O costs at least
//! one unit, and one of up to 4 KiB exactly one if the capacity is given. Longer I/Os cost what those of their kind and size
//! took so far: after every [`PERIOD`] I/Os, the difference between their costs and the time that the
//! device was busy is shared among the kinds and sizes in proportion to their part of the costs. Until one
//! has been seen, a byte costs [`BYTE_PS`].
//!
//! **The window** is device time, not a number of I/Os: a promised I/O that arrives now must be
//! finished in time although everything in the device is before it. An I/O enters only if each
//! promised I/O in the device with an earlier deadline is still in time if it is served last.
//! Unpromised I/Os also leave the device early enough for promised ones to come; see
//! [`DeviceTime::has_room`].
//!
//! The *tail* is how much longer than estimated I/Os are in the device: a peak that rises quickly
//! and decays slowly. The window is shortened by it.
//!
//! **Deferred work.** A drive with a write cache answers writes before it makes them, and makes them
//! later in competition with promised reads. If a promised I/O is in the device much longer than
//! estimated, the difference between the cost and the measured time of every unpromised write is
//! *owed* from then on: unpromised I/Os enter only when enough of it has been worked off, which happens
//! while the device is empty. While promised I/Os take as long as estimated, the share of the difference
//! that is owed shrinks to nothing within [`OWED_BOUNDS`]. From the first promised I/O on, all of it is owed.
//!
//! Departure: Fahrrad charges the measured time of each I/O. A drive that reorders I/Os does not show that
//! time, so I/Os are charged estimates, which completions correct.
//!
//! Invariant: if the device is empty and nothing is owed, any I/O may enter.

use crate::contract::request::{Op, Request, RequestId};
use crate::contract::time::Nanos;

/// The assumed time of a byte in picoseconds, until I/Os of that size have been seen: 100 MB/s.
const BYTE_PS: u64 = 10_000;
/// Classes of sizes: up to 4 KiB, 8 KiB, and so on; the last one has all longer ones.
const SIZES: usize = 15;
/// The least time of an I/O if no capacity is given.
const UNIT_LEAST: Nanos = Nanos(1_000);
/// The longest I/O that costs exactly a unit.
const SMALL_BYTES: u32 = 4096;
/// Reads, writes, and everything else.
const KINDS: usize = 3;
/// The number of I/Os after which costs are corrected.
const PERIOD: u32 = 16;
/// The tail moves this part of the way up to a greater excess, and loses this part per I/O.
const RISE: u64 = 2;
const DECAY: u64 = 512;
/// The number of shortest bounds after which nothing more is owed.
const OWED_BOUNDS: u64 = 500;
/// The shortest part of a long request.
const PART_LEAST_BYTES: u32 = 64 << 10;

/// An I/O in the device.
#[derive(Clone, Copy, Debug)]
struct InDevice {
    id: RequestId,
    is_write: bool,
    class: usize,
    cost: Nanos,
    issued: Nanos,
    /// Its deadline if it is promised.
    deadline: Option<Nanos>,
    /// When it leaves if it is served after all I/Os that have entered so far.
    expected: Nanos,
}

/// The device time of what is in a device.
#[derive(Clone, Debug)]
pub(super) struct DeviceTime {
    unit: Nanos,
    is_unit_known: bool,
    /// What I/Os of each class cost.
    costs: [Option<Nanos>; SIZES * KINDS],
    /// The I/Os that left in this period, of each class and all; the sum of their costs; and the
    /// time that the device was busy.
    left: [u32; SIZES * KINDS],
    left_all: u32,
    expected: Nanos,
    busy: Nanos,
    inside: Vec<InDevice>,
    /// The sum of all costs, and of those that are not promised.
    work: Nanos,
    unpromised: Nanos,
    tail: Nanos,
    last_end: Nanos,
    /// The deferred work when the device was last empty.
    owed: Nanos,
    /// When a promised I/O last took too long, and for how long that matters.
    disturbed: Option<Nanos>,
    owed_for: Nanos,
}

fn class_of(op: Op, len: u32) -> usize {
    let size = len.max(1).div_ceil(4096).next_power_of_two().ilog2() as usize;
    let kind = match op {
        Op::Read => 0,
        Op::Write => 1,
        _ => 2,
    };
    kind * SIZES + size.min(SIZES - 1)
}

impl DeviceTime {
    /// Creates an estimate for a server of unknown capacity.
    pub(super) fn new() -> DeviceTime {
        DeviceTime {
            unit: UNIT_LEAST,
            is_unit_known: false,
            costs: [None; SIZES * KINDS],
            left: [0; SIZES * KINDS],
            left_all: 0,
            expected: Nanos::ZERO,
            busy: Nanos::ZERO,
            inside: Vec::new(),
            work: Nanos::ZERO,
            unpromised: Nanos::ZERO,
            tail: Nanos::ZERO,
            last_end: Nanos::ZERO,
            owed: Nanos::ZERO,
            disturbed: None,
            owed_for: Nanos::ZERO,
        }
    }

    /// Returns the estimated time of an I/O.
    #[inline]
    pub(super) fn cost(&self, op: Op, len: u32) -> Nanos {
        if self.is_unit_known && op.moves_data() && len <= SMALL_BYTES {
            return self.unit;
        }
        let learnt = self.costs[class_of(op, len)];
        learnt.unwrap_or_else(|| self.assumed(op, len)).max(self.unit)
    }

    fn assumed(&self, op: Op, len: u32) -> Nanos {
        let bytes = if op.moves_data() { u64::from(len) } else { 0 };
        self.unit + Nanos(bytes * BYTE_PS / 1000)
    }

    /// Sets the time of a small I/O, and the shortest bound of a promise.
    pub(super) fn set_unit(&mut self, unit: Nanos, shortest: Nanos) {
        (self.unit, self.is_unit_known) = (unit.max(Nanos(1)), true);
        self.owed_for = Nanos(shortest.0.saturating_mul(OWED_BOUNDS));
    }

    /// Returns the assumed cost of an I/O in thousandths of a unit, whatever was measured.
    pub(super) fn assumed_units_milli(&self, io: &Request) -> u64 {
        self.assumed(io.op, io.len).0.saturating_mul(1000) / self.unit.0.max(1)
    }

    /// Returns the cost of a request in whole units, rounded to the nearest, at least 1.
    #[inline]
    pub(super) fn units(&self, op: Op, len: u32) -> u64 {
        ((self.cost(op, len).0 + self.unit.0 / 2) / self.unit.0.max(1)).max(1)
    }

    /// Returns how much longer than estimated I/Os are in the device.
    pub(super) fn tail(&self) -> Nanos {
        self.tail
    }

    /// Returns the length of the next part of a request of which `left` bytes are left: as long as
    /// fits into `window`.
    #[inline]
    pub(super) fn part_bytes(&self, left: u32, window: Nanos) -> u32 {
        if left <= PART_LEAST_BYTES { left } else { left.min(self.longest_part(window)) }
    }

    fn longest_part(&self, window: Nanos) -> u32 {
        let window = window - self.tail;
        let fits = |len: &u32| self.cost(Op::Read, *len).max(self.cost(Op::Write, *len)) <= window;
        (0..=9)
            .rev()
            .map(|double| PART_LEAST_BYTES << double)
            .find(fits)
            .unwrap_or(PART_LEAST_BYTES)
    }

    /// Returns whether an I/O of `cost` may enter at `now`. Unpromised ones have no `deadline`,
    /// and may occupy the device for `window` at most.
    pub(super) fn has_room(
        &self,
        now: Nanos,
        cost: Nanos,
        deadline: Option<Nanos>,
        window: Nanos,
    ) -> bool {
        if deadline.is_none() && self.room_at(now, cost, window) > now {
            return false;
        }
        let end = now + self.work + cost + self.tail;
        let is_before = |due: Nanos| deadline.is_none_or(|own| now <= due && due < own);
        let mut promised = self.inside.iter().filter_map(|io| io.deadline);
        promised.all(|due| !is_before(due) || end <= due)
    }

    /// Returns when an unpromised I/O of `cost` may enter if nothing else happens before;
    /// [`Nanos::MAX`] if another one has to leave first.
    pub(super) fn room_at(&self, now: Nanos, cost: Nanos, window: Nanos) -> Nanos {
        let owed = self.owed_at(now);
        let inside = self.unpromised + owed;
        if inside == Nanos::ZERO {
            return now;
        }
        let over = inside + cost + self.tail - window;
        match self.inside.is_empty() {
            _ if over == Nanos::ZERO => now,
            true => now + over.min(owed),
            false => Nanos::MAX,
        }
    }

    /// Returns the work that is still owed.
    fn owed_at(&self, now: Nanos) -> Nanos {
        if self.inside.is_empty() { self.owed - (now - self.last_end) } else { self.owed }
    }

    /// Records that an I/O enters.
    pub(super) fn enter(&mut self, now: Nanos, io: &Request, deadline: Option<Nanos>) {
        self.owed = self.owed_at(now);
        let (cost, class) = (self.cost(io.op, io.len), class_of(io.op, io.len));
        self.work += cost;
        let expected = now + self.work;
        self.inside.iter_mut().for_each(|other| other.expected = other.expected.max(expected));
        let (id, is_write) = (io.id, io.op == Op::Write);
        self.inside.push(InDevice { id, is_write, class, cost, issued: now, deadline, expected });
        if deadline.is_none() {
            self.unpromised += cost;
        }
    }

    /// Records that an I/O has left.
    pub(super) fn leave(&mut self, now: Nanos, id: RequestId, window: Nanos) {
        let Some(at) = self.inside.iter().position(|io| io.id == id) else { return };
        let io = self.inside.swap_remove(at);
        self.work = self.work - io.cost;
        if io.deadline.is_none() {
            self.unpromised = self.unpromised - io.cost;
        }
        let excess = now - io.expected;
        if io.deadline.is_some() {
            self.tail = match excess > self.tail {
                true => self.tail + Nanos((excess - self.tail).0.div_ceil(RISE)),
                false => self.tail - Nanos(self.tail.0 / DECAY),
            };
        }
        let took = now - self.last_end.max(io.issued);
        self.defer(now, &io, took, excess, window);
        self.last_end = now;
        self.left[io.class] += 1;
        self.left_all += 1;
        self.expected += io.cost;
        self.busy += took;
        self.costs[io.class].get_or_insert(io.cost);
        if self.left_all >= PERIOD {
            self.correct();
        }
    }

    /// Corrects the costs at the end of a period.
    fn correct(&mut self) {
        let expected = self.expected.0.max(1) as f64;
        let error = self.busy.0 as f64 / expected - 1.0;
        for (cost, left) in self.costs.iter_mut().zip(self.left) {
            let Some(cost) = cost.as_mut().filter(|_| left > 0) else { continue };
            let part = cost.0 as f64 * f64::from(left) / expected;
            let corrected = cost.0 as f64 * (1.0 + error * part.min(1.0) / 2.0);
            *cost = Nanos(corrected as u64).max(self.unit);
        }
        (self.left, self.left_all) = ([0; _], 0);
        (self.expected, self.busy) = (Nanos::ZERO, Nanos::ZERO);
    }

    /// Updates what is owed after `io`.
    fn defer(&mut self, now: Nanos, io: &InDevice, took: Nanos, excess: Nanos, window: Nanos) {
        if io.deadline.is_some() {
            if excess.0 > window.0 / 2 || self.disturbed.is_none() {
                self.disturbed = Some(now);
            }
        } else if let Some(disturbed) = self.disturbed.filter(|_| io.is_write) {
            let left = self.owed_for - (now - disturbed);
            let owed = u128::from((io.cost - took).0) * u128::from(left.0);
            self.owed += Nanos((owed / u128::from(self.owed_for.0.max(1))) as u64);
        }
    }
}
