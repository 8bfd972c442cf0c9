//! Estimates the device time of I/Os, and limits how much of it is outstanding at the device.
//!
//! Source: Fahrrad (Povzner et al., EuroSys 2008) introduced reservations of device time. The
//! *unit* is the time of a small I/O at the server's capacity, regardless of the workload. An I/O
//! costs at least one unit, and one of up to 4 KiB costs exactly one if the capacity is given. The
//! cost of longer I/Os is learned for each kind and size: after every [`PERIOD`] I/Os, the
//! difference between their total cost and the time that the device was busy is distributed among
//! the kinds and sizes in proportion to their costs. Until an I/O of a kind and size has been seen,
//! a byte costs [`BYTE_PS`].
//!
//! **The window** limits device time, not the number of I/Os: a promised I/O that arrives now must
//! complete in time although everything at the device precedes it. An I/O may enter only if each
//! promised I/O at the device with an earlier deadline is still in time if it is served last.
//! Unpromised I/Os must also complete early enough for promised I/Os that arrive later; see
//! [`DeviceTime::has_room`].
//!
//! While promised I/Os are at the device, unpromised ones get only what the promises leave: the
//! *surplus* of the shortest bound at once, and then the same share of the time. More would delay
//! promised I/Os that arrive later.
//!
//! The *tail* is the excess of the actual time of promised I/Os at the device over the estimate: a
//! peak that rises quickly and decays slowly. The window is shortened by the tail. The excess that
//! also occurs while no unpromised I/Os are at the device cannot be avoided by holding these back,
//! so it shortens the window by at most three quarters. If a promised I/O is overdue by as much
//! time as it was allowed to take, other I/Os are no longer held back for it, because a device may
//! never answer it.
//!
//! **Deferred work** of drives with a write cache is *owed*, and other I/Os wait until it has been
//! paid ([`deferred`]).
//!
//! **A wrong capacity.** If the device is slower than the configured capacity, small I/Os take
//! longer than a unit. Their actual time is measured in periods in which there are only small I/Os
//! and the device is never idle; a client that sends one request at a time does not reveal the
//! rate. The measured time replaces the unit when streams are charged and when the costs of longer
//! I/Os are learned. Otherwise longer I/Os would be charged for the time of small ones, and their
//! streams would starve. Promises still count units.
//!
//! Departure: Fahrrad charges the measured time of each I/O. A drive that reorders I/Os does not
//! reveal that time, so streams are charged estimates, which completions correct.
//!
//! Invariant: if the device is empty and nothing is owed, any I/O may enter.

mod deferred;

use crate::contract::{Nanos, Op, Request, RequestId};

/// The time per byte, in picoseconds, that is assumed until I/Os of that size have been measured
/// (100 MB/s).
const BYTE_PS: u64 = 10_000;
/// The number of size classes: up to 4 KiB, up to 8 KiB, and so on; the last class is unbounded.
const SIZES: usize = 15;
/// The minimum time of an I/O if no capacity is given.
const UNIT_LEAST: Nanos = Nanos(1_000);
/// The length in bytes up to which an I/O costs exactly one unit.
const SMALL_BYTES: u32 = 4096;
/// The number of kinds: reads, writes, and all others.
const KINDS: usize = 3;
/// The number of I/Os after which costs are corrected.
const PERIOD: u32 = 16;
/// When the excess exceeds the tail, the tail increases by 1 / `RISE` of the difference. Per
/// shortest bound, it decreases by 1 / `DECAY`.
const RISE: u64 = 2;
const DECAY: u64 = 128;
/// The number of shortest bounds within which the owed share shrinks to zero.
const OWED_BOUNDS: u64 = 500;
/// How much more slowly the owed share shrinks near a share at which promised I/Os took too long.
const CAREFUL: u64 = 16;
/// The minimum length of a part of a long request.
const PART_LEAST_BYTES: u32 = 64 << 10;

/// A device that is empty for more than 1 / `IDLE` of a unit is idle.
const IDLE: u64 = 16;

/// Without promises, an I/O that has been at the device for more than `STARVES_WINDOWS` windows
/// holds other I/Os back, until it has been there for `STARVED_WINDOWS`.
const STARVES_WINDOWS: u64 = 2;
const STARVED_WINDOWS: u64 = 20;
/// The maximum length of a part of a trim.
const TRIM_BYTES: u32 = 64 << 20;
/// While the device is not empty, debt is paid at 1 / `PAID_BUSY` of the time.
const PAID_BUSY: u64 = 8;
/// If no I/Os of a class arrive, the difference between its cost and the assumed cost decreases by
/// 1 / `FORGET` per period.
const FORGET: u64 = 64;

/// A share of the time, in units of 2^-16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share(u64);

impl Share {
    pub(super) const ALL: Share = Share(1 << 16);

    /// Returns the share `some` / `all`, rounded up. `all` must not be 0.
    pub(super) fn of_parts(some: u64, all: u64) -> Share {
        let parts = (u128::from(some) << 16).div_ceil(u128::from(all.max(1)));
        Share(parts.min(1 << 16) as u64)
    }

    fn of(self, time: Nanos) -> Nanos {
        Nanos(((u128::from(time.0) * u128::from(self.0)) >> 16) as u64)
    }

    /// Returns the share without the share `some` / `all`.
    fn without(self, some: Nanos, all: Nanos) -> Share {
        Share(self.0.saturating_sub(Share::of_parts(some.0.min(all.0), all.0).0))
    }

    fn half_way_to_all(self) -> Share {
        Share(self.0.midpoint(Share::ALL.0))
    }
}

/// An I/O at the device.
#[derive(Clone, Copy, Debug)]
struct InDevice {
    id: RequestId,
    class: usize,
    cost: Nanos,
    issued: Nanos,
    /// The deadline, if the I/O is promised.
    deadline: Option<Nanos>,
    /// When the I/O completes if it is served after all I/Os that have entered so far.
    expected: Nanos,
    /// Whether there were unpromised I/Os at the device at the same time.
    has_others: bool,
}

impl InDevice {
    fn is_write(&self) -> bool {
        self.class / SIZES == kind_of(Op::Write)
    }

    /// Returns when the I/O stops holding others back: when it is overdue by as much time as it was
    /// allowed to take.
    fn gives_up_at(&self) -> Option<Nanos> {
        self.deadline.map(|due| due + (due - self.issued))
    }

    /// Returns whether a drive that reorders I/Os has passed over this I/O for too long.
    fn starves(&self, now: Nanos, window: Nanos) -> bool {
        let since = self.issued + Nanos(window.0.saturating_mul(STARVES_WINDOWS));
        since < now && now <= self.starves_until(window)
    }

    fn starves_until(&self, window: Nanos) -> Nanos {
        self.issued + Nanos(window.0.saturating_mul(STARVED_WINDOWS))
    }

    fn is_due_after(&self, at: Nanos) -> bool {
        self.deadline.is_none_or(|due| due > at)
    }

    fn is_given_up(&self, now: Nanos) -> bool {
        self.gives_up_at().is_some_and(|at| at < now)
    }
}

/// The maximum of recent times, which rises quickly and decays slowly.
#[derive(Clone, Copy, Debug, Default)]
struct Peak {
    most: Nanos,
    since: Nanos,
}

impl Peak {
    /// Takes a time into account. The peak decays once per `each`.
    fn follow(&mut self, now: Nanos, time: Nanos, each: Nanos) {
        if time > self.most {
            self.most += Nanos((time - self.most).0.div_ceil(RISE));
        } else if now - self.since >= each {
            self.most = self.most - Nanos(self.most.0.div_ceil(DECAY));
            self.since = now;
        }
    }
}

/// The device time of the I/Os at a device.
#[derive(Clone, Debug)]
pub(super) struct DeviceTime {
    unit: Nanos,
    is_unit_known: bool,
    /// The measured time of a small I/O, at least a unit.
    small: Nanos,
    /// The cost of an I/O of each class; `None` until an I/O of the class has been measured.
    costs: [Option<Nanos>; SIZES * KINDS],
    /// The number of I/Os that completed in this period, by class and in total; the sum of their
    /// costs; and the time that the device was busy.
    left: [u32; SIZES * KINDS],
    left_all: u32,
    expected: Nanos,
    busy: Nanos,
    /// Whether the device was idle in this period.
    was_idle: bool,
    inside: Vec<InDevice>,
    /// The total cost of all I/Os at the device, and of the unpromised ones among them.
    work: Nanos,
    unpromised: Nanos,
    /// How much longer than expected promised I/Os took recently, and the same for those that were
    /// at the device without unpromised I/Os.
    tail: Peak,
    alone: Peak,
    last_end: Nanos,
    /// The capacity that promises leave: a share of the time, and the corresponding part of the
    /// shortest bound.
    spare: Share,
    surplus: Nanos,
    /// The number of promised I/Os at the device, the time since which there have been any, and the
    /// cost of unpromised I/Os that have been at the device since then.
    promised: u32,
    promised_since: Nanos,
    beside: Nanos,
    /// The deferred work that was owed at the time `owed_since`, and the part of it for promised
    /// writes, which is paid first.
    owed: Nanos,
    owed_promised: Nanos,
    owed_since: Nanos,
    /// When a promised I/O last took too long, and how long this has an effect.
    disturbed: Option<Nanos>,
    owed_for: Nanos,
    /// The share below which the owed share shrinks slowly, and whether writes have been deferred
    /// since the last disturbance.
    careful: Share,
    has_deferred: bool,
    /// The shortest promised bound.
    shortest: Nanos,
}

fn kind_of(op: Op) -> usize {
    match op {
        Op::Read => 0,
        Op::Write => 1,
        _ => 2,
    }
}

fn class_of(op: Op, len: u32) -> usize {
    let size = len.max(1).div_ceil(4096).next_power_of_two().ilog2() as usize;
    kind_of(op) * SIZES + size.min(SIZES - 1)
}

/// Returns whether I/Os of a class cost one unit if the capacity is given.
fn is_small(class: usize) -> bool {
    class == class_of(Op::Read, SMALL_BYTES) || class == class_of(Op::Write, SMALL_BYTES)
}

impl DeviceTime {
    /// Creates an estimate for a server of unknown capacity.
    pub(super) fn new() -> DeviceTime {
        DeviceTime {
            unit: UNIT_LEAST,
            is_unit_known: false,
            small: UNIT_LEAST,
            costs: [None; SIZES * KINDS],
            left: [0; SIZES * KINDS],
            left_all: 0,
            expected: Nanos::ZERO,
            busy: Nanos::ZERO,
            was_idle: true,
            inside: Vec::new(),
            work: Nanos::ZERO,
            unpromised: Nanos::ZERO,
            tail: Peak::default(),
            alone: Peak::default(),
            last_end: Nanos::ZERO,
            spare: Share::ALL,
            surplus: Nanos::ZERO,
            promised: 0,
            promised_since: Nanos::ZERO,
            beside: Nanos::ZERO,
            owed: Nanos::ZERO,
            owed_promised: Nanos::ZERO,
            owed_since: Nanos::ZERO,
            disturbed: None,
            owed_for: Nanos::ZERO,
            careful: Share(0),
            has_deferred: false,
            shortest: Nanos::ZERO,
        }
    }

    fn is_unit(&self, op: Op, len: u32) -> bool {
        self.is_unit_known && op.moves_data() && len <= SMALL_BYTES
    }

    /// Returns what an I/O is charged for: its estimated time, with the measured time of small
    /// ones.
    #[inline]
    pub(super) fn charge(&self, op: Op, len: u32) -> Nanos {
        if self.is_unit(op, len) { self.small } else { self.cost(op, len) }
    }

    /// Returns the rates of small I/Os: according to the capacity, and measured. None if no
    /// capacity is given.
    pub(super) fn small_iops(&self) -> Option<(f64, f64)> {
        let iops = |each: Nanos| 1e9 / each.0.max(1) as f64;
        self.is_unit_known.then(|| (iops(self.unit), iops(self.small)))
    }

    /// Returns the estimated time of an I/O.
    #[inline]
    pub(super) fn cost(&self, op: Op, len: u32) -> Nanos {
        if self.is_unit(op, len) {
            return self.unit;
        }
        let learnt = self.costs[class_of(op, len)];
        learnt.unwrap_or_else(|| self.assumed(op, len)).max(self.unit)
    }

    /// Returns the assumed cost of the longest I/O in a class.
    fn assumed_of_class(&self, class: usize) -> Nanos {
        let op = [Op::Read, Op::Write, Op::Trim][class / SIZES];
        self.assumed(op, 4096 << (class % SIZES))
    }

    fn assumed(&self, op: Op, len: u32) -> Nanos {
        let bytes = if op.moves_data() { u64::from(len) } else { 0 };
        self.unit + Nanos(bytes * BYTE_PS / 1000)
    }

    /// Sets the time of a small I/O, the shortest promised bound, and the share of the time that
    /// promises leave.
    pub(super) fn set_unit(&mut self, unit: Nanos, shortest: Nanos, spare: Share) {
        (self.spare, self.surplus) = (spare, spare.of(shortest));
        (self.unit, self.is_unit_known) = (unit.max(Nanos(1)), true);
        self.small = self.small.max(self.unit);
        self.shortest = shortest;
        self.owed_for = Nanos(shortest.0.saturating_mul(OWED_BOUNDS));
    }

    /// Returns the assumed cost of an I/O in thousandths of a unit, regardless of measurements.
    pub(super) fn assumed_units_milli(&self, io: &Request) -> u64 {
        match io.len <= SMALL_BYTES {
            true => 1000,
            false => self.assumed(io.op, io.len).0.saturating_mul(1000) / self.unit.0.max(1),
        }
    }

    /// Returns the cost of an I/O in thousandths of a unit.
    #[inline]
    pub(super) fn units_milli(&self, io: &Request) -> u64 {
        match self.is_unit(io.op, io.len) {
            true => 1000,
            false => self.cost(io.op, io.len).0.saturating_mul(1000) / self.unit.0.max(1),
        }
    }

    /// Returns the cost of a request with all its parts in whole units, rounded to the nearest, at
    /// least 1.
    #[inline]
    pub(super) fn units(&self, op: Op, len: u32, window: Nanos) -> u64 {
        let part = self.part_bytes(op, len, window).max(1);
        let (parts, rest) = (u64::from(len / part), len % part);
        let rest = if rest > 0 { self.cost(op, rest) } else { Nanos::ZERO };
        let cost = self.cost(op, part).0.saturating_mul(parts).saturating_add(rest.0);
        (cost.saturating_add(self.unit.0 / 2) / self.unit.0.max(1)).max(1)
    }

    /// Returns by how much the actual time of promised I/Os at the device exceeds the estimate.
    pub(super) fn tail(&self) -> Nanos {
        self.tail.most
    }

    /// Returns the part of `window` that is left after the excess delay of promised I/Os.
    pub(super) fn shortened(&self, window: Nanos) -> Nanos {
        let others = self.tail.most - self.alone.most;
        (window - self.tail.most).max((window - others).min(Nanos(window.0 / 4)))
    }

    /// Returns the length of the next part of a request that has `left` bytes left: as long as fits
    /// into `window`.
    #[inline]
    pub(super) fn part_bytes(&self, op: Op, left: u32, window: Nanos) -> u32 {
        match op {
            Op::Trim => left.min(TRIM_BYTES),
            _ if left <= PART_LEAST_BYTES || !op.moves_data() => left,
            _ => left.min(self.longest_part(window)),
        }
    }

    fn longest_part(&self, window: Nanos) -> u32 {
        let window = self.shortened(window);
        let fits = |len: &u32| self.cost(Op::Read, *len).max(self.cost(Op::Write, *len)) <= window;
        (0..=9)
            .rev()
            .map(|double| PART_LEAST_BYTES << double)
            .find(fits)
            .unwrap_or(PART_LEAST_BYTES)
    }

    /// Returns whether an I/O of `cost` may enter at `now`. Unpromised I/Os have no `deadline` and
    /// may occupy the device for at most `window`.
    pub(super) fn has_room(
        &self,
        now: Nanos,
        cost: Nanos,
        deadline: Option<Nanos>,
        op: Op,
        window: Nanos,
    ) -> bool {
        if deadline.is_none() && self.room_at(now, op, cost, window) > now {
            return false;
        }
        if self.shortest == Nanos::ZERO && self.inside.iter().any(|io| io.starves(now, window)) {
            return false;
        }
        self.leaves_others_in_time(now, cost, deadline, self.tail.most)
    }

    /// Returns whether an I/O that is not admitted would be admitted if no I/O had taken longer
    /// than estimated.
    pub(super) fn is_cautious(
        &self,
        now: Nanos,
        cost: Nanos,
        deadline: Option<Nanos>,
        op: Op,
        window: Nanos,
    ) -> bool {
        let within = self.room_within(now, op, cost, window);
        (deadline.is_some() || within <= now)
            && self.leaves_others_in_time(now, cost, deadline, Nanos::ZERO)
    }

    /// Returns whether the promised I/Os at the device remain in time if another I/O enters and the
    /// last one takes longer than estimated by `tail`.
    fn leaves_others_in_time(
        &self,
        now: Nanos,
        cost: Nanos,
        deadline: Option<Nanos>,
        tail: Nanos,
    ) -> bool {
        if deadline.is_some_and(|due| due > now + self.shortest) && !self.inside.is_empty() {
            // An I/O with the shortest bound may arrive later and be due before this one.
            let later = self.inside.iter().filter(|io| io.is_due_after(now + self.shortest));
            let later = later.fold(Nanos::ZERO, |sum, io| sum + io.cost);
            if later + cost > self.surplus {
                return false;
            }
        }
        let end = now + self.work + cost + tail;
        let is_before = |due: Nanos| deadline.is_none_or(|own| now <= due && due < own);
        let mut promised = self.inside.iter().filter(|io| !io.is_given_up(now));
        promised.all(|io| io.deadline.is_none_or(|due| !is_before(due) || end <= due))
    }

    /// Returns when to check again whether a promised I/O with this deadline has room, even if no
    /// I/O completes: when an I/O at the device is overdue, or when no other I/O with the shortest
    /// bound can be due before it.
    pub(super) fn reconsiders_at(&self, now: Nanos, deadline: Nanos) -> Option<Nanos> {
        let dues = self.inside.iter().filter_map(|io| io.deadline);
        let changes = dues.map(|due| due + Nanos(1)).chain([deadline - self.shortest]);
        changes.filter(|at| *at > now).min()
    }

    /// Returns when the first I/O at the device that holds others back stops doing so.
    pub(super) fn given_up_at(&self, now: Nanos, window: Nanos) -> Option<Nanos> {
        let promised = self.inside.iter().filter(|io| !io.is_given_up(now));
        let promised = promised.filter_map(InDevice::gives_up_at);
        let starving = self.inside.iter().filter(|io| io.starves(now, window));
        let starving = starving.map(|io| io.starves_until(window));
        promised.chain(starving).min().map(|at| at + Nanos(1))
    }

    /// Returns when an unpromised I/O of `cost` may enter, provided that no other event occurs;
    /// [`Nanos::MAX`] if another I/O must complete first.
    pub(super) fn room_at(&self, now: Nanos, op: Op, cost: Nanos, window: Nanos) -> Nanos {
        self.room_within(now, op, cost, self.shortened(window))
    }

    /// Like [`DeviceTime::room_at`], but for a window that is not shortened.
    fn room_within(&self, now: Nanos, op: Op, cost: Nanos, window: Nanos) -> Nanos {
        if self.inside.iter().any(|io| io.deadline.is_some() && !io.is_given_up(now)) {
            let left = self.surplus + self.spare.of(now - self.promised_since);
            if self.beside + cost > left {
                return Nanos::MAX;
            }
        }
        let owed = if op == Op::Write { self.owed } else { self.owed_promised };
        let owed = owed - self.paid_until(now);
        let inside = self.unpromised + owed;
        if inside == Nanos::ZERO {
            return now;
        }
        let over = inside + cost - window;
        match self.inside.is_empty() {
            _ if over == Nanos::ZERO => now,
            true => now + over.min(owed),
            false => Nanos::MAX,
        }
    }

    /// Records that an I/O enters the device.
    pub(super) fn enter(&mut self, now: Nanos, io: &Request, deadline: Option<Nanos>) {
        self.pay(now);
        let (cost, class) = (self.cost(io.op, io.len), class_of(io.op, io.len));
        self.work += cost;
        let expected = now + self.work;
        self.inside.iter_mut().for_each(|other| other.expected = other.expected.max(expected));
        self.was_idle |= self.inside.is_empty() && now - self.last_end > Nanos(self.unit.0 / IDLE);
        let has_others = self.unpromised > Nanos::ZERO;
        let entered =
            InDevice { id: io.id, class, cost, issued: now, deadline, expected, has_others };
        self.inside.push(entered);
        match deadline {
            None => {
                self.inside.iter_mut().for_each(|other| other.has_others = true);
                self.unpromised += cost;
                self.beside += cost;
            }
            Some(_) if self.promised == 0 => {
                (self.promised, self.promised_since, self.beside) = (1, now, self.unpromised);
            }
            Some(_) => self.promised += 1,
        }
    }

    /// Records that an I/O has completed.
    pub(super) fn leave(&mut self, now: Nanos, id: RequestId, window: Nanos) {
        let Some(at) = self.inside.iter().position(|io| io.id == id) else { return };
        self.pay(now);
        let io = self.inside.swap_remove(at);
        self.work = self.work - io.cost;
        match io.deadline {
            None => self.unpromised = self.unpromised - io.cost,
            Some(_) => self.promised -= 1,
        }
        let excess = now - io.expected;
        let counted = if io.deadline.is_some() { excess.min(self.shortest) } else { Nanos::ZERO };
        self.tail.follow(now, counted, self.shortest);
        if io.deadline.is_some() && !io.has_others {
            self.alone.follow(now, counted, self.shortest);
        }
        let took = now - self.last_end.max(io.issued);
        self.defer(now, &io, took, excess, window);
        self.last_end = now;
        self.left[io.class] += 1;
        self.left_all += 1;
        let is_small = self.is_unit_known && is_small(io.class);
        self.expected += if is_small { self.small } else { io.cost };
        self.busy += took;
        // The cost of flushes and trims is unknown before the first one.
        let first = if io.class < 2 * SIZES { io.cost } else { took };
        self.costs[io.class].get_or_insert(first);
        if self.left_all >= PERIOD {
            self.correct();
        }
    }

    /// Corrects the costs at the end of a period.
    fn correct(&mut self) {
        let only_small = |(class, left): (usize, &u32)| *left == 0 || is_small(class);
        if !self.was_idle && self.left.iter().enumerate().all(only_small) {
            self.measure_small();
        }
        let expected = self.expected.0.max(1) as f64;
        // Limit the cost, so that a device that stalls once does not make all I/Os expensive.
        let error = (self.busy.0 as f64 / expected - 1.0).min(1.0);
        for (class, left) in self.left.into_iter().enumerate() {
            let Some(cost) = self.costs[class] else { continue };
            self.costs[class] = Some(if left == 0 {
                let excess = cost - self.assumed_of_class(class);
                cost - Nanos(excess.0.div_ceil(FORGET))
            } else {
                let part = cost.0 as f64 * f64::from(left) / expected;
                let corrected = cost.0 as f64 * (1.0 + error * part.min(1.0) / 2.0);
                Nanos(corrected as u64).max(self.unit)
            });
        }
        (self.left, self.left_all) = ([0; _], 0);
        (self.expected, self.busy) = (Nanos::ZERO, Nanos::ZERO);
        self.was_idle = false;
    }

    /// Measures small I/Os at the end of a period without others. A single stall does not make them
    /// expensive.
    fn measure_small(&mut self) {
        let took = Nanos(self.busy.0 / u64::from(self.left_all.max(1)));
        let took = took.min(self.small + self.small);
        self.small = Nanos((3 * self.small.0 + took.0) / 4).max(self.unit);
    }
}

#[cfg(test)]
mod tests;
