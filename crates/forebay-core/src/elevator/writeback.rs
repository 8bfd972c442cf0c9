//! Writeback throttling: limits the number of page-cache writes in the queue, so that reads need
//! not wait behind them.
//!
//! Source: Linux 6.12, `block/blk-wbt.c` and `block/blk-rq-qos.c`. An asynchronous write of the
//! page cache ([`Flags::WRITE_BACK`]) needs one of a few places before it needs a tag; its
//! submitter sleeps until one is free. There are half of `depth`, and a quarter within a tenth of a
//! second after any read; if the disk has its own write cache, sleepers are woken when all places
//! are free. In each window of a tenth of a second, the fastest read is compared with a target. If
//! it is slower, the depth is halved; otherwise it is doubled up to 16, and further if there are no
//! reads.
//!
//! If a trace does not identify the writes of the page cache, none is throttled. Linux does not
//! throttle `O_DIRECT` writes either. Synchronous writes of the page cache (`fsync`) may use the
//! whole depth in Linux; here they are not limited.
//!
//! Departures: a window is evaluated at the first event after its end; whether a task is slowed
//! down for dirtying too many pages, or memory is short, is not known; trims are not throttled; the
//! disk is assumed to have a write cache.
//!
//! [`Flags::WRITE_BACK`]: crate::contract::request::Flags::WRITE_BACK

use std::collections::VecDeque;

use super::queue::QueuedId;
use crate::contract::request::Op;
use crate::contract::time::Nanos;

/// The depth at step 0.
const DEPTH: u32 = 16;
const WINDOW: Nanos = Nanos::from_millis(100);
/// Reads older than this no longer compete.
const READ_LATELY: Nanos = Nanos::from_millis(100);
/// Writes that a window needs to tell anything.
const WRITES_MIN: u32 = 3;
/// After this many inconclusive windows, the depth moves back towards that of step 0.
const UNKNOWN_MAX: u32 = 5;
/// Steps beyond which nothing changes.
const STEP_MAX: i32 = 31;

/// The result of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Exceeded,
    Kept,
    WritesAlone,
    Nothing,
}

/// Places for writes of the page cache.
#[derive(Clone, Debug)]
pub(crate) struct Writeback {
    /// The maximum time of the fastest read of a window at the device.
    target: Nanos,
    queue_depth: u32,
    /// Above 0 there are fewer places, below it more.
    step: i32,
    depth: u32,
    is_deepest: bool,
    /// Writes that have a place.
    taken: u32,
    /// Streams that sleep for one, and whether they are to be woken.
    sleepers: VecDeque<u32>,
    wakes: bool,
    last_read: Option<Nanos>,
    /// The read at the device that is watched, and since when it is there.
    watched: Option<(QueuedId, Nanos)>,
    window: Nanos,
    window_ends: Option<Nanos>,
    /// The quickest read, and the writes, that have ended in this window.
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

    /// Takes a place if there is one and nobody sleeps for it.
    pub(crate) fn take(&mut self, now: Nanos) -> bool {
        self.look(now);
        let may = self.sleepers.is_empty() && self.taken < self.limit(now);
        if may {
            self.taken += 1;
            self.watch(now);
        }
        may
    }

    /// `stream` falls asleep.
    pub(crate) fn sleep(&mut self, stream: u32) {
        self.sleepers.push_back(stream);
    }

    /// Returns the next stream that is woken, which has a place.
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

    /// A read needs a tag.
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

    /// A write that has a place has left the queue.
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

    /// Starts measuring the fastest read.
    fn watch(&mut self, now: Nanos) {
        if self.window_ends.is_none() {
            self.window_ends = Some(now + self.window);
        }
    }

    /// Draws conclusions from windows that are over.
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

    /// Returns the number of slots available at once.
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
