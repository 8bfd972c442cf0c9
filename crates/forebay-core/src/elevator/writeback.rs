//! Writeback throttling: limits the number of page-cache writes in the queue, so that reads need
//! not wait behind them.
//!
//! Source: Linux 6.12, `block/blk-wbt.c` and `block/blk-rq-qos.c`. An asynchronous write from the
//! page cache ([`Flags::WRITE_BACK`]) needs a slot before it needs a tag; its submitter sleeps
//! until a slot is free. There are half as many slots as `depth`, and a quarter within a tenth of a
//! second after any read. If the disk has its own write cache, sleepers are woken only when all
//! slots are free. In each window of a tenth of a second, the fastest read is compared with a
//! target. If it is slower, the depth is halved; otherwise it is doubled up to 16, and further if
//! there are no reads.
//!
//! If a trace does not identify the writes of the page cache, no writes are throttled. Linux does
//! not throttle `O_DIRECT` writes either. Synchronous writes of the page cache (`fsync`) may use
//! the whole depth in Linux; here they are not limited.
//!
//! Departures: a window is evaluated at the first event after its end; it is not known whether a
//! task is slowed down for dirtying too many pages, or whether memory is short; trims are not
//! throttled; the disk is assumed to have a write cache.
//!
//! [`Flags::WRITE_BACK`]: crate::contract::request::Flags::WRITE_BACK

use std::collections::VecDeque;

use super::queue::QueuedId;
use crate::contract::{Nanos, Op};

/// The depth at step 0.
const DEPTH: u32 = 16;
const WINDOW: Nanos = Nanos::from_millis(100);
/// How long after a read the number of slots stays reduced.
const READ_LATELY: Nanos = Nanos::from_millis(100);
/// The number of writes below which a window is inconclusive.
const WRITES_MIN: u32 = 3;
/// The number of inconclusive windows after which the depth begins to return to that of step 0.
const UNKNOWN_MAX: u32 = 5;
/// The highest step, beyond which the depth does not change.
const STEP_MAX: i32 = 31;

/// The result of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Exceeded,
    Kept,
    WritesAlone,
    Nothing,
}

/// The slots for writes of the page cache.
#[derive(Clone, Debug)]
pub(crate) struct Writeback {
    /// The longest acceptable time at the device of the fastest read in a window.
    target: Nanos,
    queue_depth: u32,
    /// The deviation from [`DEPTH`]: steps above 0 halve the number of slots, steps below 0 double
    /// it.
    step: i32,
    depth: u32,
    is_deepest: bool,
    /// The number of writes that have a slot.
    taken: u32,
    /// The streams that sleep for a slot, and whether they should be woken.
    sleepers: VecDeque<u32>,
    wakes: bool,
    last_read: Option<Nanos>,
    /// The read at the device whose time is measured, and when it was dispatched.
    watched: Option<(QueuedId, Nanos)>,
    window: Nanos,
    window_ends: Option<Nanos>,
    /// The time of the fastest read and the number of writes that completed in this window.
    quickest: Option<Nanos>,
    writes: u32,
    unknown: u32,
}

impl Writeback {
    pub(crate) fn new(target: Nanos, queue_depth: u32) -> Writeback {
        let mut throttle = Writeback {
            target,
            queue_depth,
            step: 0,
            depth: 0,
            is_deepest: false,
            taken: 0,
            sleepers: VecDeque::new(),
            wakes: false,
            last_read: None,
            watched: None,
            window: WINDOW,
            window_ends: None,
            quickest: None,
            writes: 0,
            unknown: 0,
        };
        throttle.set_depth();
        throttle
    }

    /// Allocates a slot, if one is free and no stream sleeps for it.
    pub(crate) fn take(&mut self, now: Nanos) -> bool {
        self.look(now);
        let may = self.sleepers.is_empty() && self.taken < self.limit(now);
        if may {
            self.taken += 1;
            self.watch(now);
        }
        may
    }

    /// Puts `stream` to sleep until a slot is free.
    pub(crate) fn sleep(&mut self, stream: u32) {
        self.sleepers.push_back(stream);
    }

    /// Wakes the next stream, which receives a slot.
    pub(crate) fn wake(&mut self, now: Nanos) -> Option<u32> {
        if !self.wakes || self.taken >= self.limit(now) {
            self.wakes = false;
            return None;
        }
        let stream = self.sleepers.pop_front()?;
        self.taken += 1;
        self.watch(now);
        Some(stream)
    }

    /// Records that a read has arrived.
    #[inline]
    pub(crate) fn read_comes(&mut self, now: Nanos) {
        self.last_read = Some(now);
    }

    /// Records that a read was dispatched.
    #[inline]
    pub(crate) fn read_given(&mut self, now: Nanos, id: QueuedId) {
        self.watched.get_or_insert((id, now));
    }

    /// Records the completion of a request that was dispatched at `given`.
    #[inline]
    pub(crate) fn ended(&mut self, now: Nanos, id: QueuedId, op: Op, given: Nanos) {
        self.look(now);
        if op == Op::Read {
            let took = now - given;
            self.quickest = Some(self.quickest.map_or(took, |least| least.min(took)));
            self.last_read = Some(now);
            self.watched = self.watched.filter(|(watched, _)| *watched != id);
        } else {
            self.writes += 1;
        }
    }

    /// Frees the slot of a write that has left the queue.
    pub(crate) fn leave(&mut self) {
        self.taken -= 1;
        self.wakes |= self.taken == 0;
    }

    fn limit(&self, now: Nanos) -> u32 {
        let [normal, background] = match self.depth {
            depth @ ..=2 => [depth, 1],
            depth => [depth.div_ceil(2), depth.div_ceil(4)],
        };
        let lately = |at: Nanos| now < at + READ_LATELY;
        if self.last_read.is_some_and(lately) { background } else { normal }
    }

    fn set_depth(&mut self) {
        let depth = DEPTH.min(self.queue_depth);
        let deepest = self.queue_depth / 4 * 3 + self.queue_depth % 4 * 3 / 4;
        self.is_deepest = false;
        self.depth = match self.step {
            _ if self.queue_depth == 1 => {
                self.is_deepest = self.step <= 0;
                2 - u32::from(self.step > 0)
            }
            0 => depth,
            1.. => 1 + ((depth - 1) >> self.step.min(STEP_MAX)),
            ..0 => {
                let more = (u64::from(depth) - 1) << -self.step.max(-STEP_MAX);
                self.is_deepest = more + 1 > deepest.into();
                (more + 1).min(deepest.into()) as u32
            }
        };
    }

    /// Starts a window if none is in progress.
    fn watch(&mut self, now: Nanos) {
        if self.window_ends.is_none() {
            self.window_ends = Some(now + self.window);
        }
    }

    /// Evaluates the windows that have ended and adjusts the depth.
    fn look(&mut self, now: Nanos) {
        while let Some(end) = self.window_ends.filter(|end| *end <= now) {
            let seen = self.seen(end);
            (self.quickest, self.writes) = (None, 0);
            match seen {
                Seen::Exceeded => self.scale_down(true),
                Seen::Kept | Seen::WritesAlone => self.scale_up(),
                Seen::Nothing => {
                    self.unknown += 1;
                    match self.step {
                        _ if self.unknown < UNKNOWN_MAX => {}
                        1.. => self.scale_up(),
                        ..0 => self.scale_down(false),
                        0 => {}
                    }
                }
            }
            self.window = match self.step {
                1.. => Nanos((WINDOW.0 as f64 / f64::from(self.step + 1).sqrt()) as u64),
                _ => WINDOW,
            };
            let goes_on = self.step != 0 || self.taken > 0;
            self.window_ends = goes_on.then(|| end + self.window);
        }
    }

    fn seen(&self, end: Nanos) -> Seen {
        let waits = self.watched.map_or(Nanos::ZERO, |(_, since)| end - since);
        match self.quickest {
            _ if waits > self.window => Seen::Exceeded,
            None if waits > self.target => Seen::Exceeded,
            Some(quickest) if self.writes >= WRITES_MIN => match quickest > self.target {
                true => Seen::Exceeded,
                false => Seen::Kept,
            },
            _ if self.writes > 0 || self.taken > 0 => Seen::WritesAlone,
            _ => Seen::Nothing,
        }
    }

    fn scale_up(&mut self) {
        if !self.is_deepest {
            self.step = (self.step - 1).max(-STEP_MAX);
            self.set_depth();
            (self.unknown, self.wakes) = (0, true);
        }
    }

    fn scale_down(&mut self, at_once: bool) {
        if self.depth > 1 {
            self.step = if self.step < 0 && at_once { 0 } else { self.step + 1 };
            self.set_depth();
            self.unknown = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    fn throttle() -> Writeback {
        Writeback::new(MS(75), 64)
    }

    /// Returns the number of slots that can be allocated now.
    fn places(throttle: &mut Writeback, now: Nanos) -> usize {
        std::iter::repeat_with(|| throttle.take(now)).take_while(|took| *took).count()
    }

    #[test]
    fn a_read_halves_the_places_for_a_tenth_of_a_second() {
        let mut throttle = throttle();
        assert_eq!(places(&mut throttle, MS(0)), 8);
        throttle.read_comes(MS(10));
        (0..8).for_each(|_| throttle.leave());
        assert_eq!(places(&mut throttle, MS(20)), 4);
        assert_eq!(places(&mut throttle, MS(110)), 12, "sixteen, for nobody reads");
    }

    #[test]
    fn sleepers_are_woken_when_all_places_are_free_as_many_as_there_are() {
        let mut throttle = throttle();
        throttle.read_comes(MS(0));
        assert_eq!(places(&mut throttle, MS(1)), 4);
        (0..6).for_each(|stream| throttle.sleep(stream));
        (0..3).for_each(|_| throttle.leave());
        assert_eq!(throttle.wake(MS(2)), None);
        throttle.leave();
        let woken: Vec<u32> = std::iter::from_fn(|| throttle.wake(MS(2))).collect();
        assert_eq!(woken, [0, 1, 2, 3]);
        assert!(!throttle.take(MS(2)), "those that sleep come first");
    }

    #[test]
    fn slow_reads_halve_the_depth_and_writes_alone_double_it() {
        let mut throttle = throttle();
        assert!(throttle.take(MS(0)));
        let depths = [80, 80, 60, 60, 0, 0, 0].map(|took_ms| {
            let end = throttle.window_ends.expect("a write is under way");
            (0..3).for_each(|_| throttle.ended(end - MS(1), 0, Op::Write, MS(0)));
            if took_ms > 0 {
                throttle.ended(end - MS(1), 1, Op::Read, end - MS(1 + took_ms));
            }
            throttle.look(end);
            throttle.depth
        });
        assert_eq!(depths, [8, 4, 8, 16, 31, 48, 48]);
    }

    #[test]
    fn a_read_that_never_ends_is_too_slow() {
        let mut throttle = throttle();
        assert!(throttle.take(MS(0)));
        throttle.read_given(MS(10), 7);
        throttle.look(MS(99));
        assert_eq!(throttle.depth, 16);
        throttle.look(MS(100));
        assert_eq!(throttle.depth, 8);
    }
}
