//! Counts and latencies of an export's requests.

use forebay_core::Nanos;
use hdrhistogram::Histogram;

use super::{LATENCY_MAX_US, empty};
use crate::figures::ExportFigures;
use crate::protocol::{Command, Header};
use crate::{Named, Promise};

/// The minimum time for which a latency counts as recent.
const RECENT: Nanos = Nanos::from_millis(5000);

/// Latencies in microseconds. Memory is allocated only for the first latency, because a server may
/// have thousands of unused exports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies(Option<Histogram<u64>>);

impl Latencies {
    fn record(&mut self, took: Nanos) {
        let us = (took.0 / 1000).clamp(1, LATENCY_MAX_US);
        self.0.get_or_insert_with(empty).saturating_record(us);
    }

    /// Returns the latencies of both.
    fn and(self, other: &Latencies) -> Latencies {
        match (self.0, &other.0) {
            (Some(mut both), Some(other)) => {
                // Both histograms have the same bounds.
                let _ = both.add(other);
                Latencies(Some(both))
            }
            (one, other) => Latencies(one.or_else(|| other.clone())),
        }
    }

    /// Returns this quantile of the latencies in milliseconds; None if there are none.
    pub(crate) fn quantile_ms(&self, share: f64) -> Option<f64> {
        self.0.as_ref().map(|latencies| latencies.value_at_quantile(share) as f64 / 1e3)
    }

    /// Returns the highest latency in milliseconds.
    pub(crate) fn longest_ms(&self) -> Option<f64> {
        self.0.as_ref().map(|latencies| latencies.max() as f64 / 1e3)
    }

    /// Returns how many latencies were at most `ms` milliseconds.
    pub(crate) fn count_until(&self, ms: f64) -> u64 {
        self.0.as_ref().map_or(0, |latencies| latencies.count_between(0, (ms * 1e3) as u64))
    }
}

/// The counts of one export.
#[derive(Clone, Debug)]
pub(crate) struct ExportTally {
    /// All figures except those computed on demand.
    pub(crate) figures: ExportFigures,
    /// Latencies of successful reads and writes in microseconds, from the complete receipt of a
    /// request to its answer.
    pub(crate) latency_us: Latencies,
    /// The latencies since `since`, and those of the period before.
    recent_us: [Latencies; 2],
    since: Nanos,
    /// The bound of the promise.
    pub(super) within: Option<Nanos>,
    /// The maximum number of outstanding requests that a promise covers.
    covered: u64,
    /// Whether requests outside the promise are outstanding, and how many overdue requests the
    /// promise may cover.
    asks_beyond: bool,
    undecided: u64,
}

/// Whether a promise covers an outstanding request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coverage {
    /// The promise covers the request, which waited for this long before it was covered.
    Kept {
        after: Nanos,
    },
    Beyond,
    /// The policy does not know the request yet.
    Undecided,
    /// No promise covers operations other than reads and writes.
    Exempt,
}

/// How a request was answered.
#[derive(Clone, Copy)]
pub(crate) struct Answered {
    pub(crate) took: Nanos,
    pub(crate) failed: bool,
    /// How long the request waited until the promise covered it; None if the promise does not cover
    /// it.
    pub(crate) kept_after: Option<Nanos>,
}

impl ExportTally {
    pub(super) fn new(named: &Named) -> ExportTally {
        let figures = ExportFigures { name: named.name.clone(), ..ExportFigures::default() };
        let mut tally = ExportTally {
            figures,
            latency_us: Latencies::default(),
            recent_us: Default::default(),
            since: Nanos::ZERO,
            within: None,
            covered: 0,
            asks_beyond: false,
            undecided: 0,
        };
        tally.promise(named.promise);
        tally
    }

    /// Sets a new promise, and resets the counts of the previous one.
    pub(super) fn promise(&mut self, promise: Option<Promise>) {
        let within = promise.map(|promise| promise.within);
        let iops = promise.map_or(0, |promise| promise.iops);
        let figures = &mut self.figures;
        if (self.within, figures.keep_iops) != (within, iops) {
            (figures.kept, figures.kept_in_time, figures.kept_failed) = (0, 0, 0);
            (figures.owed, figures.received, figures.broken) = (0.0, 0.0, None);
        }
        figures.keep_iops = iops;
        figures.within_ms = within.map(|within| within.0 as f64 / 1e6);
        self.within = within;
        let covered = |promise: Promise| {
            let product = u128::from(promise.iops) * u128::from(promise.within.0);
            (product / 1_000_000_000 + 1) as u64
        };
        self.covered = promise.map_or(0, covered);
    }

    /// Resets the figures of outstanding requests, before all are registered again.
    pub(crate) fn none_outstanding(&mut self) {
        (self.figures.oldest_request_s, self.figures.overdue) = (0.0, 0);
        (self.asks_beyond, self.undecided) = (false, 0);
    }

    /// Registers a request that has been outstanding for `age`.
    pub(crate) fn is_outstanding(&mut self, age: Nanos, coverage: Coverage) {
        let figures = &mut self.figures;
        figures.oldest_request_s = figures.oldest_request_s.max(age.0 as f64 / 1e9);
        let is_overdue = |age: Nanos| u64::from(self.within.is_some_and(|within| age > within));
        match coverage {
            Coverage::Kept { after } => figures.overdue += is_overdue(age - after),
            Coverage::Undecided => self.undecided += is_overdue(age),
            Coverage::Beyond => self.asks_beyond = true,
            Coverage::Exempt => {}
        }
    }

    /// Called when all outstanding requests have been registered. If none of them is outside the
    /// promise, the promise also covers those that the policy has not classified yet.
    pub(crate) fn all_outstanding(&mut self) {
        if !self.asks_beyond {
            let most = self.covered.saturating_sub(self.figures.overdue);
            self.figures.overdue += self.undecided.min(most);
        }
    }

    /// Returns the latencies of the last five to ten seconds.
    pub(crate) fn recent(&self) -> Latencies {
        let [now, before] = &self.recent_us;
        now.clone().and(before)
    }

    /// Discards latencies that are no longer recent.
    pub(super) fn turn(&mut self, now: Nanos) {
        if now - self.since < RECENT {
            return;
        }
        if now - self.since >= RECENT + RECENT {
            self.recent_us[0] = Latencies::default();
        }
        self.recent_us.swap(0, 1);
        self.recent_us[0] = Latencies::default();
        self.since = now;
    }

    pub(super) fn answered(&mut self, now: Nanos, header: &Header, how: Answered) {
        self.turn(now);
        let (len, figures) = (u64::from(header.len), &mut self.figures);
        let promised = self.within.zip(how.kept_after);
        if let Some((within, kept_after)) = promised.filter(|_| header.command.is_promisable()) {
            figures.kept += 1;
            figures.kept_in_time += u64::from(!how.failed && how.took - kept_after <= within);
            figures.kept_failed += u64::from(how.failed);
        }
        match header.command {
            _ if how.failed => {
                figures.failed += 1;
                return;
            }
            Command::Read => {
                (figures.reads, figures.read_bytes) = (figures.reads + 1, figures.read_bytes + len)
            }
            Command::Write => {
                (figures.writes, figures.written_bytes) =
                    (figures.writes + 1, figures.written_bytes + len);
            }
            _ => {
                figures.others += 1;
                return;
            }
        }
        figures.latency_s += how.took.0 as f64 / 1e9;
        self.latency_us.record(how.took);
        self.recent_us[0].record(how.took);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outstanding_requests_are_overdue_after_the_bound_if_the_promise_covers_them() {
        let promise = Promise { iops: 10, within: Nanos::from_millis(300) };
        let mut tally = ExportTally::new(&Named { promise: Some(promise), ..Named::all("a") });
        let of = |tally: &mut ExportTally, requests: &[(u64, Coverage)]| {
            tally.none_outstanding();
            let register = |(ms, coverage): &(u64, Coverage)| {
                tally.is_outstanding(Nanos::from_millis(*ms), *coverage);
            };
            requests.iter().for_each(register);
            tally.all_outstanding();
            (tally.figures.oldest_request_s, tally.figures.overdue)
        };
        use Coverage::{Beyond, Exempt, Undecided};
        let after = |ms| Coverage::Kept { after: Nanos::from_millis(ms) };
        assert_eq!(of(&mut tally, &[]), (0.0, 0));
        assert_eq!(of(&mut tally, &[(300, after(0)), (20, after(0))]), (0.3, 0));
        assert_eq!(
            of(&mut tally, &[(301, after(0)), (66_000, after(0)), (20, after(0))]),
            (66.0, 2)
        );
        assert_eq!(of(&mut tally, &[(1000, after(0)); 50]), (1.0, 50));
        assert_eq!(of(&mut tally, &[(1000, after(700)), (1000, after(699))]), (1.0, 1));
        assert_eq!(of(&mut tally, &[(1000, Beyond); 50]), (1.0, 0));
        assert_eq!(of(&mut tally, &[(1000, Exempt); 50]), (1.0, 0));
        // The promise covers four requests within the bound.
        assert_eq!(of(&mut tally, &[(1000, Undecided); 50]), (1.0, 4));
        assert_eq!(of(&mut tally, &[(1000, Undecided), (1000, after(0)), (9, Exempt)]), (1.0, 2));
        assert_eq!(of(&mut tally, &[(1000, Undecided), (1000, after(0)), (9, Beyond)]), (1.0, 1));
        tally.promise(None);
        assert_eq!(of(&mut tally, &[(1000, after(0)), (1000, Undecided)]), (1.0, 0));
    }
}
