//! Adapts the assumed capacity to the server's actual capacity, as Linux's iocost adapts its vrate
//! to the device.
//!
//! Rates are counted on the shaper's own clock, which runs at a *pace*: at a pace of one half, a
//! rate of 300 becomes 150. Promises, reservations, limits and tokens shrink in proportion, so that
//! the remaining promises are kept.
//!
//! Two things are measured. While the window is full, the layer below is saturated, so the rate of
//! completions is its capacity. The other measurement is whether promised requests are late. After
//! each period, the pace is lowered immediately to what the measured rate permits, or raised toward
//! it by one sixteenth per period. What is permitted includes a margin, because the rate alone is
//! not sufficient: a window may be too wide, or a disk uneven. If more than 1 % of the promised
//! requests are late, the margin grows by one sixteenth; a period without too many late requests
//! reduces it by 1/128. Requests promised before the pace was lowered do not count.
//!
//! The window may be full because the shaper is *cautious*: some requests took long, so it lets in
//! less than it would otherwise. The rate is then that of the few requests at the server. The rate
//! is therefore extrapolated to the number of requests in earlier measurements, but not beyond the
//! rate found then; lower rates with the same number of requests are used as they are.
//!
//! Old measurements lose weight: the assumed rate rises by one sixteenth with each period in which
//! the window was full for less than half of the time.
//!
//! Departures from iocost: it has no promises, so it only checks whether the device's latencies are
//! within targets and whether tags run out; here, a rate can be measured because there is a window.
//! Only token bucket and limits hold back requests because of the pace; all other requests are
//! served whenever there is room.
//!
//! Invariant: at a constant pace of 1, the clock is exactly the actual time.

use std::cmp::Ordering;

use super::Backlog;
use crate::contract::{Figure, Gauge, GaugeOf, Nanos};
use crate::rtt::{Classes, Rtt, SERVICE};

/// The length of a period as a multiple of the shortest bound, but limited to the range from
/// `PERIOD_LEAST` to `PERIOD_MOST`.
const BOUNDS_A_PERIOD: u64 = 10;
const PERIOD_LEAST: Nanos = Nanos::from_millis(50);
const PERIOD_MOST: Nanos = Nanos::from_millis(1000);
/// The minimum number of requests over which a rate is measured.
const MEASURED_LEAST: u64 = 16;
/// The pace, or the remainder of the margin, divided by this number is the size of one step.
const STEP: u64 = 16;
/// Each period without too many late requests increases the share that the margin leaves by 1 /
/// `EASE` of itself.
const EASE: u64 = 128;
/// The share of the rate that remains at the widest margin.
const LEFT_LEAST: u64 = Pace::ONE.0 / 100;
/// The pace changes only if the permitted one differs by more than 1 / `DEAD_BAND` of it.
const DEAD_BAND: u64 = 32;
/// A period has too many late requests if more than one in `LATE_ONE_IN` is late.
const LATE_ONE_IN: u64 = 100;

/// The speed of the clock with which rates are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pace(u64);

impl Pace {
    /// The pace at which the clock is the actual time.
    pub const ONE: Pace = Pace(1 << 16);

    /// Returns a pace of `percent` percent, at least 1.
    pub fn percent(percent: u32) -> Pace {
        Pace((u64::from(percent.max(1)) * Pace::ONE.0).div_ceil(100))
    }

    /// Returns the pace in percent.
    pub fn as_percent(self) -> f64 {
        self.0 as f64 * 100.0 / Pace::ONE.0 as f64
    }

    /// Returns `figure` multiplied by the pace, rounded down.
    #[inline]
    pub fn of(self, figure: u64) -> u64 {
        let scaled = u128::from(figure) * u128::from(self.0) / u128::from(Pace::ONE.0);
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }

    /// Returns the time in which the clock advances by `span`, rounded up.
    #[inline]
    pub fn time_of(self, span: u128) -> Nanos {
        let time = span.saturating_mul(u128::from(Pace::ONE.0)).div_ceil(u128::from(self.0));
        Nanos(u64::try_from(time).unwrap_or(u64::MAX))
    }
}

/// A time, and the reading of the paced clock at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The actual time.
    pub now: Nanos,
    /// The time on the paced clock.
    pub paced: Nanos,
    /// The current pace of the clock.
    pub pace: Pace,
}

impl Moment {
    /// Returns a moment for which the paced clock is the actual time.
    #[inline]
    pub fn plain(now: Nanos) -> Moment {
        Moment { now, paced: now, pace: Pace::ONE }
    }

    /// Returns whether `rtt` admits a request of `units` whose class has `waiting` requests. The
    /// bound is a duration of actual time, so it is shorter on a slower clock. On a slower clock,
    /// the length of the queue is limited too, because requests that were promised at a faster pace
    /// may still be waiting.
    #[inline]
    pub(super) fn admits(self, rtt: &mut Rtt, units: u64, waiting: usize) -> bool {
        let within = self.pace.of(rtt.within().0);
        if self.pace >= Pace::ONE {
            return rtt.admit_within(self.paced, Nanos(within), units);
        }
        let places = u128::from(within) * u128::from(rtt.rate_iops()) / u128::from(SERVICE);
        (waiting as u128) < places && rtt.admit_within(self.paced, Nanos(within), units)
    }

    /// Returns the first tier, at or after `least`, that admits a request.
    #[inline]
    pub(super) fn admit(
        self,
        tiers: &mut Classes,
        least: usize,
        backlog: &Backlog,
    ) -> Option<usize> {
        tiers.admit_each(least, |tier, rtt| self.admits(rtt, 1, backlog.waiting(tier)))
    }
}

/// The server capacity that a shaper needs to keep its promises at a pace of 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// The part that is proportional to the pace, in requests per second; 0 if there are no
    /// promises.
    pub scaled_iops: u64,
    /// The part that does not depend on the pace, in requests per second.
    pub fixed_iops: u64,
}

/// The range of paces within which a shaper follows its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Following {
    /// The lowest pace.
    pub least: Pace,
    /// The highest pace.
    pub most: Pace,
}

/// A full window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full {
    /// The number of requests at the server.
    pub(super) inside: u32,
    /// Whether more requests would be admitted if no request had taken longer than expected.
    pub(super) is_cautious: bool,
}

/// Measures a server and adapts the pace to it.
#[derive(Clone, Debug)]
pub(super) struct Follower {
    following: Following,
    period: Nanos,
    pace: Pace,
    /// The paced clock, in fractions of a nanosecond, and the actual time of its reading.
    clock: u128,
    clock_at: Nanos,
    begun: Nanos,
    /// Since when and in which way the window has been full, and for how long it was full in this
    /// period.
    full_since: Option<(Nanos, Full)>,
    full: Nanos,
    /// Since the last measurement: how long the window has been full, how much of that because of
    /// caution, and the integral of the requests at the server.
    watched: Nanos,
    cautious: Nanos,
    inside: u128,
    /// How long the window has been full since the last measurement, the part of that time before
    /// the last completion, and the number of completions and their units in that part.
    measuring: Nanos,
    ended_in: Nanos,
    ended: u64,
    ended_milli: u64,
    /// The server's rate, in thousandths of a request per second, and the number of requests at the
    /// server, in thousandths, at which it was measured.
    measured: Option<u64>,
    measured_beside: u64,
    /// The share of the rate that the margin leaves, in units of 1 / `Pace::ONE`.
    left: u64,
    lowered_at: Nanos,
    /// The number of requests that were due in this period, and how many of those were late.
    due: u64,
    late: u64,
    slowest: Pace,
}

impl Follower {
    /// Creates a follower for promises whose shortest bound is `shortest`.
    pub(super) fn new(following: Following, shortest: Nanos) -> Follower {
        let period = Nanos(shortest.0.saturating_mul(BOUNDS_A_PERIOD));
        let pace = Pace::ONE.clamp(following.least, following.most);
        Follower {
            following,
            period: period.clamp(PERIOD_LEAST, PERIOD_MOST),
            pace,
            clock: 0,
            clock_at: Nanos::ZERO,
            begun: Nanos::ZERO,
            full_since: None,
            full: Nanos::ZERO,
            watched: Nanos::ZERO,
            cautious: Nanos::ZERO,
            inside: 0,
            measuring: Nanos::ZERO,
            ended_in: Nanos::ZERO,
            ended: 0,
            ended_milli: 0,
            measured: None,
            measured_beside: 0,
            left: Pace::ONE.0,
            lowered_at: Nanos::ZERO,
            due: 0,
            late: 0,
            slowest: pace,
        }
    }

    /// Advances the clock to `now` and returns the moment. Must be called before other methods for
    /// this time.
    #[inline]
    pub(super) fn moment(&mut self, now: Nanos, capacity: impl FnOnce() -> Capacity) -> Moment {
        self.clock += u128::from((now - self.clock_at).0) * u128::from(self.pace.0);
        self.clock_at = now;
        if now - self.begun >= self.period {
            self.turn(now, capacity());
        }
        let paced = u64::try_from(self.clock / u128::from(Pace::ONE.0)).unwrap_or(u64::MAX);
        Moment { now, paced: Nanos(paced), pace: self.pace }
    }

    /// Records whether the window is full from now on.
    #[inline]
    pub(super) fn window(&mut self, now: Nanos, full: Option<Full>) {
        if full != self.full_since.map(|(_, full)| full) {
            self.settle(now);
            self.full_since = full.map(|full| (now, full));
        }
    }

    /// Records the completion of a request of `units_milli` thousandths of a small one. Must be
    /// called before its place in the window becomes free.
    #[inline]
    pub(super) fn ended(&mut self, units_milli: u64) {
        if self.full_since.is_some() {
            self.settle(self.clock_at);
            self.ended += 1;
            (self.ended_milli, self.ended_in) = (self.ended_milli + units_milli, self.measuring);
        }
    }

    /// Records the completion of a promised request that arrived at `at`.
    #[inline]
    pub(super) fn was_due(&mut self, at: Nanos, is_late: bool) {
        if at >= self.lowered_at {
            self.due += 1;
            self.late += u64::from(is_late);
        }
    }

    /// Adds the time for which the window has been full.
    fn settle(&mut self, now: Nanos) {
        let Some((since, full)) = &mut self.full_since else { return };
        let span = now - *since;
        *since = now;
        self.full += span;
        self.measuring += span;
        self.watched += span;
        self.inside += u128::from(span.0) * u128::from(full.inside);
        if full.is_cautious {
            self.cautious += span;
        }
    }

    /// Ends a period and adapts the pace.
    fn turn(&mut self, now: Nanos, capacity: Capacity) {
        self.settle(now);
        self.measure(now);
        let is_late = self.late * LATE_ONE_IN > self.due;
        self.left = match is_late {
            true => (self.left - self.left / STEP).max(LEFT_LEAST),
            false => (self.left + self.left / EASE + 1).min(Pace::ONE.0),
        };
        let (pace, allowed) = (self.pace.0, self.allowed(capacity).0);
        let next = match allowed.cmp(&pace) {
            _ if !is_late && allowed.abs_diff(pace) <= pace / DEAD_BAND => pace,
            Ordering::Greater => allowed.min(pace + (pace / STEP).max(1)),
            _ => allowed,
        };
        self.pace = Pace(next).clamp(self.following.least, self.following.most);
        if self.pace.0 < pace {
            self.lowered_at = now;
        }
        self.slowest = self.slowest.min(self.pace);
        (self.begun, self.full, self.due, self.late) = (now, Nanos::ZERO, 0, 0);
    }

    /// Returns the pace that the measured rate and the margin permit.
    fn allowed(&self, capacity: Capacity) -> Pace {
        let most = self.following.most.0;
        let of_rate = self.measured.and_then(|measured| {
            let iops = u128::from(measured).saturating_sub(u128::from(capacity.fixed_iops) * 1000);
            let needed = u128::from(capacity.scaled_iops) * 1000;
            (iops * u128::from(Pace::ONE.0)).checked_div(needed)
        });
        let unsaid = u128::from(most);
        let pace = of_rate.unwrap_or(unsaid).min(unsaid) * u128::from(self.left);
        Pace(u64::try_from(pace / u128::from(Pace::ONE.0)).unwrap_or(most))
    }

    fn measure(&mut self, now: Nanos) {
        if self.ended >= MEASURED_LEAST && self.ended_in > Nanos::ZERO {
            let fresh = u128::from(self.ended_milli) * 1_000_000_000 / u128::from(self.ended_in.0);
            self.follow(u64::try_from(fresh).unwrap_or(u64::MAX));
            self.measuring = self.measuring - self.ended_in;
            (self.ended, self.ended_milli, self.ended_in) = (0, 0, Nanos::ZERO);
            (self.watched, self.cautious, self.inside) = (Nanos::ZERO, Nanos::ZERO, 0);
        } else if self.full.0.saturating_mul(2) < (now - self.begun).0 {
            let grown = |rate: u64| rate.saturating_add((rate / STEP).max(1));
            self.measured = self.measured.map(grown);
        }
    }

    /// Takes a rate into account that has just been measured.
    fn follow(&mut self, fresh: u64) {
        let inside = (self.inside * 1000 / u128::from(self.watched.0.max(1))).max(1);
        let beside = u64::try_from(inside).unwrap_or(u64::MAX);
        let is_cautious = self.cautious.0.saturating_mul(2) > self.watched.0;
        let Some(old) = self.measured else {
            if !is_cautious {
                (self.measured, self.measured_beside) = (Some(fresh), beside);
            }
            return;
        };
        // If the rate is about the same, the number does not matter, and measurements are averaged.
        let is_lower = fresh < old - old / STEP;
        let fresh = match is_cautious && is_lower && beside < self.measured_beside {
            true => {
                let with_more = u128::from(fresh) * u128::from(self.measured_beside) / inside;
                u64::try_from(with_more).unwrap_or(u64::MAX).min(old)
            }
            false => {
                self.measured_beside =
                    if is_cautious { self.measured_beside.max(beside) } else { beside };
                fresh
            }
        };
        self.measured = Some((old >> 1) + (fresh >> 1) + (old & fresh & 1));
    }

    /// Returns statistics of the pace.
    pub(super) fn figures(&self) -> [Figure; 2] {
        let time = u128::from(self.clock_at.0.max(1)) * u128::from(Pace::ONE.0);
        let mean = self.clock as f64 * 100.0 / time as f64;
        [("pace_mean_percent", mean), ("pace_least_percent", self.slowest.as_percent())]
    }

    /// Returns the current pace and the measured rate.
    pub(super) fn gauges(&self) -> Vec<Gauge> {
        let gauge = |name, value| Gauge { name, of: GaugeOf::All, value };
        let measured = self.measured.map(|rate| gauge("measured_iops", rate as f64 / 1000.0));
        [gauge("pace_percent", self.pace.as_percent())].into_iter().chain(measured).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLLOWING: Following = Following { least: Pace(1 << 12), most: Pace::ONE };

    /// Serves `count` requests at `iops` starting at `at`, with a window that is always full.
    fn serve(follower: &mut Follower, at: Nanos, iops: u64, count: u64, is_late: bool) -> Nanos {
        let capacity = || Capacity { scaled_iops: 300, fixed_iops: 100 };
        let end = |nth: u64| Nanos(at.0 + nth * 1_000_000_000 / iops);
        for nth in 1..=count {
            follower.moment(end(nth), capacity);
            follower.ended(1000);
            follower.window(end(nth), None);
            follower.window(end(nth), Some(Full { inside: 8, is_cautious: false }));
            follower.was_due(end(nth), is_late);
        }
        end(count)
    }

    #[test]
    fn the_pace_is_what_the_rate_leaves_and_rises_again_in_steps() {
        let mut follower = Follower::new(FOLLOWING, Nanos::from_millis(10));
        let at = serve(&mut follower, Nanos::ZERO, 400, 400, false);
        assert_eq!(
            (follower.pace, follower.clock_at, follower.moment(at, Capacity::default)),
            (Pace::ONE, at, Moment::plain(at)),
            "what it needs is there"
        );
        // At 250 IOPS, the fixed part needs 100, so 150 are left: half of the 300 that are
        // proportional to the pace.
        let at = serve(&mut follower, at, 250, 500, false);
        assert!((49.0..52.0).contains(&follower.pace.as_percent()), "{follower:?}");
        // The clock runs at half speed.
        let before = follower.moment(at, Capacity::default).paced;
        let after = follower.moment(at + Nanos::from_millis(2), Capacity::default).paced;
        assert!((980_000..1_040_000).contains(&(after - before).0), "{before} {after}");
        let at = serve(&mut follower, at + Nanos::from_millis(2), 400, 60, false);
        assert!((51.0..90.0).contains(&follower.pace.as_percent()), "in steps: {follower:?}");
        serve(&mut follower, at, 400, 400, false);
        assert!(follower.pace.as_percent() > 95.0, "{follower:?}");
    }

    #[test]
    fn what_is_late_slows_it_to_the_least_though_the_rate_is_there() {
        let mut follower = Follower::new(FOLLOWING, Nanos::from_millis(10));
        serve(&mut follower, Nanos::ZERO, 1000, 10_000, true);
        assert_eq!(follower.pace, FOLLOWING.least);
        assert_eq!(follower.figures()[1], ("pace_least_percent", 6.25));
    }

    #[test]
    fn an_old_rate_is_forgotten_while_the_window_is_not_full() {
        let mut follower = Follower::new(FOLLOWING, Nanos::from_millis(10));
        let at = serve(&mut follower, Nanos::ZERO, 100, 100, false);
        assert_eq!(follower.pace, FOLLOWING.least, "nothing is left for promises");
        follower.window(at, None);
        for nth in 1..200 {
            let capacity = || Capacity { scaled_iops: 300, fixed_iops: 100 };
            follower.moment(at + Nanos::from_millis(100 * nth), capacity);
        }
        assert_eq!(follower.pace, Pace::ONE);
    }

    /// Serves requests at `iops` with `inside` at the server, because of caution.
    fn serve_cautiously(follower: &mut Follower, at: Nanos, iops: u64, inside: u32) -> Nanos {
        let full = Full { inside, is_cautious: true };
        let end = |nth: u64| Nanos(at.0 + nth * 1_000_000_000 / iops);
        for nth in 1..=5 * iops {
            follower.moment(end(nth), || Capacity { scaled_iops: 300, fixed_iops: 100 });
            follower.ended(1000);
            follower.window(end(nth), None);
            follower.window(end(nth), Some(full));
        }
        end(5 * iops)
    }

    #[test]
    fn a_few_requests_at_a_time_do_not_show_what_a_server_can_do() {
        let mut follower = Follower::new(FOLLOWING, Nanos::from_millis(10));
        let at = serve(&mut follower, Nanos::ZERO, 400, 400, false);
        // Requests are sent one at a time instead of eight, and take as long as before or less.
        let at = serve_cautiously(&mut follower, at, 100, 1);
        assert_eq!(follower.pace, Pace::ONE, "{follower:?}");
        // Each request takes four times as long, so eight at a time would complete 200 per second.
        let at = serve_cautiously(&mut follower, at, 25, 1);
        assert!((30.0..36.0).contains(&follower.pace.as_percent()), "{follower:?}");
        // Eight requests at a time are served at the original rate again.
        serve_cautiously(&mut follower, at, 400, 8);
        assert!(follower.pace.as_percent() > 98.0, "{follower:?}");
    }

    #[test]
    fn about_the_same_rate_of_fewer_requests_is_averaged() {
        let mut follower = Follower::new(FOLLOWING, Nanos::from_millis(10));
        let mut at = serve(&mut follower, Nanos::ZERO, 400, 400, false);
        for iops in [410, 390] {
            at = serve_cautiously(&mut follower, at, iops, 1);
        }
        let measured = follower.measured.unwrap();
        assert!((388_000..392_000).contains(&measured), "{measured}");
    }

    #[test]
    fn caution_before_the_first_measurement_says_nothing() {
        let mut follower = Follower::new(FOLLOWING, Nanos::from_millis(10));
        serve_cautiously(&mut follower, Nanos::ZERO, 50, 1);
        assert_eq!((follower.pace, follower.measured), (Pace::ONE, None));
    }

    #[test]
    fn spans_of_the_clock_take_no_less_time_than_that() {
        for percent in [1, 7, 33, 100, 250] {
            let pace = Pace::percent(percent);
            for span in [1, 2, 999, 1_000_000_007] {
                let time = pace.time_of(span);
                assert!(u128::from(pace.of(time.0)) >= span - 1, "{percent} {span}");
                assert!(time > Nanos::ZERO);
            }
        }
        assert_eq!(Pace::percent(100), Pace::ONE);
        assert_eq!(Pace::ONE.time_of(12_345), Nanos(12_345));
    }
}
