//! Finds idle periods of a run, in which no request is in progress and background work would
//! disturb nobody.
//!
//! Only two periods are stored, so memory is constant: the longest, and the first that is long
//! enough for a given need.

use forebay_core::Nanos;

/// A period during which no request is in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// When the period starts.
    pub at: Nanos,
    /// How long the period lasts.
    pub length: Nanos,
}

/// The notable idle periods of a run. The time after the last request does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdlePeriods {
    /// The first period that is long enough for the given need.
    pub first: Option<Period>,
    /// The longest period of the run.
    pub longest: Option<Period>,
}

/// An observer that finds idle periods.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Idle {
    needed: Nanos,
    under_way: u64,
    since: Nanos,
    periods: IdlePeriods,
}

impl Idle {
    pub(crate) fn new(needed: Nanos) -> Idle {
        Idle { needed, under_way: 0, since: Nanos::ZERO, periods: IdlePeriods::default() }
    }

    #[inline]
    pub(crate) fn arrived(&mut self, at: Nanos) {
        self.under_way += 1;
        if self.under_way > 1 || at <= self.since {
            return;
        }
        let period = Period { at: self.since, length: at - self.since };
        if period.length >= self.needed {
            self.periods.first.get_or_insert(period);
        }
        if self.periods.longest.is_none_or(|longest| longest.length < period.length) {
            self.periods.longest = Some(period);
        }
    }

    #[inline]
    pub(crate) fn finished(&mut self, now: Nanos) {
        self.under_way = self.under_way.saturating_sub(1);
        self.since = now;
    }

    pub(crate) fn periods(&self) -> IdlePeriods {
        self.periods
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_long_enough_and_the_longest() {
        let mut idle = Idle::new(Nanos(5));
        for (arrival, completion) in [(0, 10), (13, 20), (26, 30), (50, 60)] {
            idle.arrived(Nanos(arrival));
            idle.finished(Nanos(completion));
        }
        idle.arrived(Nanos(61));
        idle.arrived(Nanos(99));
        let period = |at, length| Some(Period { at: Nanos(at), length: Nanos(length) });
        assert_eq!(idle.periods(), IdlePeriods { first: period(20, 6), longest: period(30, 20) });
    }
}
