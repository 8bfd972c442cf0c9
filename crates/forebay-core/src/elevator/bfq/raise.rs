//! Weight raising (`low_latency`) for latency-sensitive streams. The weight of a stream that
//! begins, or resumes after a pause, is multiplied by thirty for a few seconds, so that interactive
//! tasks finish quickly. The weight of a stream with a low steady rate, such as a media player, is
//! multiplied by three thousand as long as it keeps that rate.
//!
//! Many streams that begin together are one task (a boot, a make), which does not need low latency.
//! Once such a burst is large, none of its streams is raised; streams of the burst that were raised
//! before lose this when their next request is dispatched.

use crate::contract::Nanos;

/// The factor by which the weight of a queue is raised.
const RAISE: u32 = 30;
/// The factor for a queue with a steady rate.
const STEADY_RAISE: u32 = 100 * RAISE;
/// How long the weight of a steady queue stays raised after each time that the queue was empty.
const STEADY_FOR: Nanos = Nanos::from_millis(300);
/// The maximum rate of a steady stream in bytes per second (7000 sectors).
const STEADY_RATE: u64 = 7000 * 512;
/// The additional pause, four clock ticks of 4 ms in Linux, that distinguishes a steady stream from
/// a greedy one.
const STEADY_GAP: Nanos = Nanos::from_millis(16);

/// The pause after which a queue is raised again.
pub(super) const PAUSE_MIN: Nanos = Nanos::from_secs(2);
/// The pause after which a queue no longer belongs to its burst.
const BURST_OVER: Nanos = Nanos::from_secs(10);
/// The maximum number of bytes of an interactive stream (120,000 sectors).
const RAISED_BYTES_MAX: u64 = 120_000 * 512;
/// The pause after which the asynchronous queue is raised.
const ASYNC_PAUSE: Nanos = Nanos::from_millis(500);

/// The maximum time between the beginnings of successive streams of a burst.
pub(super) const BURST_GAP: Nanos = Nanos::from_millis(180);
/// The number of streams from which a burst is large.
const BURST_LARGE: u32 = 8;

/// The current burst: streams that begin shortly after each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Burst {
    /// The number of this burst, counted from 1; 0 before the first.
    number: u32,
    streams: u32,
    last: Nanos,
    /// The numbers of the large bursts.
    large: Vec<u32>,
}

impl Burst {
    /// Returns the burst of a stream that begins, if it belongs to one. A burst begins only while
    /// no other queue is busy.
    pub(super) fn begins(&mut self, now: Nanos, is_alone: bool) -> Option<u32> {
        if self.streams == 0 && !is_alone {
            return None;
        }
        if self.number == 0 || now > self.last + BURST_GAP {
            (self.number, self.streams) = (self.number + 1, u32::from(is_alone));
            self.last = now;
            return is_alone.then_some(self.number);
        }
        self.streams += 1;
        self.last = now;
        if self.streams == BURST_LARGE {
            self.large.push(self.number);
        }
        Some(self.number)
    }
}

/// Why a queue is raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// The stream is new, or was idle.
    Interactive,
    /// The stream has a low steady rate, and was interactive until this time.
    Steady { interactive_until: Option<Nanos> },
}

/// Whether the weight of a queue is raised, and until when.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Raised {
    why: Option<Why>,
    since: Nanos,
    lasts: Nanos,
    /// Bytes dispatched while the weight was raised.
    given: u64,
    /// When the queue last ran out of queued and outstanding requests; `None` before its first
    /// request.
    pub(super) idle_since: Option<Nanos>,
    /// The burst in which the queue began.
    pub(super) burst: Option<u32>,
    /// Since when the queue has had requests, and the bytes dispatched since then.
    pub(super) busy_since: Nanos,
    pub(super) busy_bytes: u64,
    /// A queue that becomes busy after this time has a low steady rate.
    steady_from: Nanos,
    /// Whether `steady_from` must be determined when the last request completes.
    looks: bool,
}

/// The state of a queue that becomes busy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entering {
    pub(super) now: Nanos,
    /// Whether raising is allowed: the queue is synchronous and serves one stream or one task.
    pub(super) may_raise: bool,
    /// Whether all its requests seek, which rules out a steady stream.
    pub(super) always_seeks: bool,
    /// The number of its requests at the device.
    pub(super) in_flight: u32,
    /// How long the weight of an interactive queue is raised.
    pub(super) lasts: Nanos,
}

impl Raised {
    /// Returns the state of a queue that begins.
    pub(super) fn new(now: Nanos, burst: Option<u32>) -> Raised {
        Raised { since: now, steady_from: now, burst, ..Raised::default() }
    }

    #[inline]
    pub(super) fn is_of_large(&self, burst: &Burst) -> bool {
        self.burst.is_some_and(|number| burst.large.binary_search(&number).is_ok())
    }

    /// Returns the current factor of the queue's weight.
    #[inline]
    pub(super) fn factor(&self) -> u32 {
        match self.why {
            None => 1,
            Some(Why::Interactive) => RAISE,
            Some(Why::Steady { .. }) => STEADY_RAISE,
        }
    }

    #[inline]
    pub(super) fn is_raised(&self) -> bool {
        self.why.is_some()
    }

    /// Returns whether the weight is raised because of a steady rate.
    #[inline]
    pub(super) fn is_steady(&self) -> bool {
        matches!(self.why, Some(Why::Steady { .. }))
    }

    /// Updates raising when the queue becomes busy. Returns whether raising begins.
    pub(super) fn enter(&mut self, entering: Entering, burst: &Burst) -> bool {
        let Entering { now, may_raise, always_seeks, in_flight, lasts } = entering;
        let is_of_large = self.is_of_large(burst);
        let has_paused =
            in_flight == 0 && self.idle_since.is_none_or(|since| now > since + PAUSE_MIN);
        let is_steady = !always_seeks && !is_of_large && in_flight == 0 && now > self.steady_from;
        let is_interactive = has_paused && !is_of_large;
        if in_flight == 0 && self.idle_since.is_some_and(|since| now > since + BURST_OVER) {
            self.burst = None;
        }
        let was_raised = self.is_raised();
        match was_raised {
            false if may_raise && (is_interactive || is_steady) => {
                self.given = 0;
                self.begin(now, is_interactive, None, lasts);
            }
            true if is_interactive => self.begin(now, true, None, lasts),
            true if is_of_large => self.why = None,
            true if is_steady => {
                let interactive_until = match self.why {
                    Some(Why::Steady { interactive_until }) => interactive_until,
                    _ => Some(self.since + lasts),
                };
                self.begin(now, false, interactive_until, lasts);
            }
            _ => {}
        }
        if !was_raised || !self.is_raised() {
            self.since = now;
        }
        !was_raised && self.is_raised()
    }

    /// Records that the queue has become backlogged.
    pub(super) fn backlogged(&mut self, now: Nanos) {
        (self.busy_since, self.busy_bytes, self.looks) = (now, 0, false);
    }

    fn begin(
        &mut self,
        now: Nanos,
        is_interactive: bool,
        interactive_until: Option<Nanos>,
        lasts: Nanos,
    ) {
        self.since = now;
        (self.why, self.lasts) = match is_interactive {
            true => (Some(Why::Interactive), lasts),
            false => (Some(Why::Steady { interactive_until }), STEADY_FOR),
        };
    }

    /// Ends raising, because the stream has moved to another queue.
    pub(super) fn lower(&mut self) {
        self.why = None;
    }

    /// Copies the raising of `other`, unless the queue is already raised.
    pub(super) fn inherit(&mut self, other: &Raised) {
        if !self.is_raised() && other.is_raised() {
            (self.why, self.since, self.lasts) = (other.why, other.since, other.lasts);
        }
    }

    /// Records that a request arrives in the asynchronous queue, which has others.
    pub(super) fn arrive_async(&mut self, now: Nanos, lasts: Nanos) {
        if !self.is_raised() {
            if now > self.since + ASYNC_PAUSE {
                self.begin(now, true, None, lasts);
            }
            self.since = now;
        }
    }

    /// Records that `bytes` were dispatched.
    pub(super) fn give(&mut self, bytes: u64) {
        self.busy_bytes += bytes;
        if self.is_raised() {
            self.given += bytes;
        }
    }

    /// Ends raising when its time is over or too many bytes were dispatched.
    pub(super) fn expire(&mut self, now: Nanos, burst: &Burst) {
        let Some(why) = self.why else { return };
        let is_over = now > self.since + self.lasts;
        match why {
            _ if self.is_of_large(burst) => self.end(now),
            Why::Interactive if is_over || self.given > RAISED_BYTES_MAX => self.end(now),
            Why::Steady { interactive_until } if is_over => match interactive_until {
                Some(until) if now <= until => {
                    (self.why, self.since, self.lasts) = (Some(Why::Interactive), now, until - now);
                }
                _ => self.end(now),
            },
            _ => {}
        }
    }

    fn end(&mut self, now: Nanos) {
        if !self.is_steady() {
            self.steady_from = now;
        }
        (self.why, self.since) = (None, now);
    }

    /// Handles the end of a turn with an empty queue; `in_flight` of its requests are at the
    /// device.
    pub(super) fn dry(&mut self, now: Nanos, in_flight: u32, slice_idle: Nanos) {
        match in_flight {
            0 => self.look(now, slice_idle),
            _ => self.looks = true,
        }
    }

    /// Handles the completion of the last request of an empty queue.
    pub(super) fn ended(&mut self, now: Nanos, slice_idle: Nanos) {
        if self.looks && self.why != Some(Why::Interactive) {
            self.look(now, slice_idle);
        }
    }

    /// Determines the time after which a return of the queue counts as steady.
    fn look(&mut self, now: Nanos, slice_idle: Nanos) {
        let spread_ns = u128::from(self.busy_bytes) * 1_000_000_000 / u128::from(STEADY_RATE);
        let spread = Nanos(spread_ns as u64);
        self.steady_from =
            self.steady_from.max(self.busy_since + spread).max(now + slice_idle + STEADY_GAP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LASTS: Nanos = Nanos::from_secs(7);

    fn entering(now: Nanos) -> Entering {
        Entering { now, may_raise: true, always_seeks: true, in_flight: 0, lasts: LASTS }
    }

    #[test]
    fn a_stream_is_raised_when_it_begins_and_after_a_pause() {
        let (mut burst, at) = (Burst::default(), Nanos::from_secs);
        let mut raised = Raised::new(at(0), burst.begins(at(0), true));
        assert!(raised.enter(entering(at(0)), &burst));
        raised.idle_since = Some(at(7));
        raised.expire(at(8), &burst);
        assert!(!raised.enter(entering(at(8)), &burst) && !raised.is_raised(), "too short a pause");
        raised.idle_since = Some(at(9));
        assert!(raised.enter(entering(at(12)), &burst));
        raised.give(RAISED_BYTES_MAX + 1);
        raised.expire(at(12), &burst);
        assert!(!raised.is_raised(), "no person asks for so much");
    }

    #[test]
    fn a_stream_may_read_more_than_nanoseconds_can_count() {
        let at = Nanos::from_secs;
        let mut raised = Raised::new(at(0), None);
        raised.busy_bytes = 20_000_000_000;
        raised.dry(at(10), 0, Nanos::from_millis(8));
        assert_eq!(raised.steady_from.as_secs_f64().round(), 5580.0);
    }

    #[test]
    fn a_large_burst_is_not_raised() {
        let mut burst = Burst::default();
        let begin = |at_ms: u64, burst: &mut Burst| {
            let now = Nanos::from_millis(at_ms);
            let mut raised = Raised::new(now, burst.begins(now, at_ms == 0));
            raised.enter(entering(now), burst)
        };
        let raised = (0..20).filter(|i| begin(i * 100, &mut burst)).count();
        assert_eq!(raised, 7, "the eighth makes it large");
        assert!(begin(3000, &mut burst), "one that begins later is alone");
    }

    #[test]
    fn the_first_queues_of_a_large_burst_lose_their_raised_weight() {
        let (at, mut burst) = (Nanos::from_millis, Burst::default());
        let mut streams = [(); 8].map(|()| Raised::new(at(1), burst.begins(at(1), true)));
        streams.iter_mut().for_each(|stream| _ = stream.enter(entering(at(1)), &burst));
        assert!(!streams[7].is_raised());
        for stream in &mut streams {
            stream.expire(at(2), &burst);
            assert!(!stream.is_raised());
            stream.idle_since = Some(at(2));
            assert!(!stream.enter(entering(at(5000)), &burst));
            stream.idle_since = Some(at(5000));
            stream.enter(entering(at(16_000)), &burst);
            assert!(stream.enter(entering(at(16_000)), &burst), "the burst is long over");
        }
    }

    #[test]
    fn a_steady_pace_is_raised_most_while_it_lasts() {
        let (at, mut burst) = (Nanos::from_millis, Burst::default());
        let mut raised = Raised::new(at(0), burst.begins(at(0), true));
        let steady = |now| Entering { always_seeks: false, ..entering(now) };
        raised.enter(steady(at(0)), &burst);
        for n in 1..100 {
            let now = at(100 * n);
            raised.give(4096);
            raised.idle_since = Some(now - at(90));
            raised.dry(now - at(90), 0, at(8));
            raised.enter(steady(now), &burst);
            assert_eq!((raised.factor(), raised.is_steady()), (STEADY_RAISE, true));
        }
        raised.expire(at(10_300), &burst);
        assert!(!raised.is_raised());
    }
}
