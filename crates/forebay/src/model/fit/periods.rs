//! Requests of each period of wall time, as the paper keeps intensity.

use forebay_core::Nanos;

use super::super::file::Periods;

/// Periods of a part, at most; they are doubled where there would be more.
pub const PERIODS_MAX: u64 = 4096;

/// Counts requests by period.
pub(super) struct Counter {
    tick_ns: u64,
    period_ns: u64,
    requests: Vec<u64>,
    end: Nanos,
}

impl Counter {
    /// For a trace whose last request comes at `last`.
    pub(super) fn new(period: Nanos, last: Nanos, tick_ns: u64) -> Counter {
        let tick_ns = tick_ns.max(1);
        let mut period_ns = period.0.max(1).checked_next_multiple_of(tick_ns).unwrap_or(u64::MAX);
        while last.0 / period_ns >= PERIODS_MAX {
            period_ns *= 2;
        }
        Counter { tick_ns, period_ns, requests: Vec::new(), end: Nanos::ZERO }
    }

    #[inline]
    pub(super) fn add(&mut self, at: Nanos) {
        // What comes later than the survey saw is told of once all is read.
        let period = (at.0 / self.period_ns).min(PERIODS_MAX - 1) as usize;
        if period >= self.requests.len() {
            self.requests.resize(period + 1, 0);
        }
        self.requests[period] += 1;
        self.end = self.end.max(at);
    }

    pub(super) fn finish(self) -> Periods {
        Periods {
            tick_ns: self.tick_ns,
            period_s: self.period_ns as f64 / 1e9,
            end_s: self.end.0 as f64 / 1e9,
            requests: self.requests,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_doubled_until_they_are_few_enough() {
        let last = Nanos(100 * PERIODS_MAX);
        let mut counter = Counter::new(Nanos(30), last, 10);
        (0..=last.0 / 10).for_each(|at| counter.add(Nanos(at * 10)));
        let periods = counter.finish();
        assert_eq!(periods.period_s, 120e-9);
        assert_eq!(periods.requests.len() as u64, last.0 / 120 + 1);
        assert_eq!((periods.requests[0], periods.end_s), (12, last.0 as f64 / 1e9));
        assert_eq!(periods.requests.iter().sum::<u64>(), last.0 / 10 + 1);
    }
}
