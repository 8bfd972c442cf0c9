//! Counts the operations of a phase by kind.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::workload::OperationKind;

/// The counts and latencies of one kind of operation.
#[derive(Clone)]
struct Of {
    /// Latencies measured from the scheduled start.
    intended: Histogram<u64>,
    /// Latencies measured from when the operation was sent.
    sent: Histogram<u64>,
    failed: u64,
    wrong: u64,
    bytes: u64,
}

/// The counts and latencies of all operations.
#[derive(Clone)]
pub(super) struct Tally {
    of: Vec<Of>,
    /// Delays caused by the load generator itself.
    late: Histogram<u64>,
    /// The number of operations that had to wait for a free client.
    waited: u64,
    /// The messages of the first few errors.
    messages: Vec<String>,
}

/// When an operation was scheduled, sent and completed, relative to the start of the phase.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) intended: Duration,
    pub(super) sent: Duration,
    pub(super) ended: Duration,
}

/// The maximum number of error messages to keep.
const MESSAGES: usize = 3;

fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("the histogram supports three digits")
}

fn record(histogram: &mut Histogram<u64>, time: Duration) {
    // This cannot fail: the histogram resizes itself, and no run lasts longer than its maximum.
    let _ = histogram.record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
}

impl Default for Tally {
    fn default() -> Tally {
        let of = Of { intended: histogram(), sent: histogram(), failed: 0, wrong: 0, bytes: 0 };
        Tally {
            of: vec![of; OperationKind::ALL.len()],
            late: histogram(),
            waited: 0,
            messages: vec![],
        }
    }
}

impl Tally {
    /// Counts a successful operation that moved `bytes` bytes of values.
    pub(super) fn done(&mut self, kind: OperationKind, times: Times, bytes: u64) {
        let of = &mut self.of[kind as usize];
        record(&mut of.intended, times.ended.saturating_sub(times.intended));
        record(&mut of.sent, times.ended.saturating_sub(times.sent));
        of.bytes += bytes;
    }

    /// Counts an operation that the load generator sent too late, by `late`. `waited` is whether it
    /// had to wait for a free client.
    pub(super) fn sent(&mut self, late: Duration, waited: bool) {
        record(&mut self.late, late);
        self.waited += u64::from(waited);
    }

    /// Counts an operation that the server rejected.
    pub(super) fn failed(&mut self, kind: OperationKind, what: &str) {
        self.of[kind as usize].failed += 1;
        self.note(format!("{}: {what}", kind.name()));
    }

    /// Counts an operation that returned wrong data.
    pub(super) fn wrong(&mut self, kind: OperationKind, what: &str) {
        self.of[kind as usize].wrong += 1;
        self.note(format!("wrong answer to a {}: {what}", kind.name()));
    }

    fn note(&mut self, what: String) {
        if self.messages.len() < MESSAGES && !self.messages.contains(&what) {
            self.messages.push(what);
        }
    }

    /// Adds the counts of another client.
    pub(super) fn add(&mut self, other: Tally) {
        for (of, more) in self.of.iter_mut().zip(other.of) {
            // This cannot fail, because the histograms resize themselves.
            let _ = of.intended.add(more.intended).and_then(|()| of.sent.add(more.sent));
            of.failed += more.failed;
            of.wrong += more.wrong;
            of.bytes += more.bytes;
        }
        let _ = self.late.add(other.late);
        self.waited += other.waited;
        other.messages.into_iter().for_each(|what| self.note(what));
    }

    pub(super) fn messages(&self) -> &[String] {
        &self.messages
    }

    /// Computes the results of a phase that took `elapsed`.
    pub(super) fn figures(&self, elapsed: Duration) -> Figures {
        let seconds = elapsed.as_secs_f64().max(1e-9);
        let asked = |of: &Of| of.intended.len() + of.failed + of.wrong;
        let row = |kind: OperationKind| {
            let of = &self.of[kind as usize];
            OperationRow {
                operation: kind.name(),
                count: of.intended.len(),
                failed: of.failed,
                wrong: of.wrong,
                rate_per_s: of.intended.len() as f64 / seconds,
                values_mb_per_s: of.bytes as f64 / 1e6 / seconds,
                from_intended: Latency::of(&of.intended),
                from_sent: Latency::of(&of.sent),
            }
        };
        let there = |kind: &OperationKind| asked(&self.of[*kind as usize]) > 0;
        let all: u64 = self.of.iter().map(|of| of.intended.len()).sum();
        let sent: u64 = self.of.iter().map(asked).sum();
        Figures {
            elapsed_s: elapsed.as_secs_f64(),
            count: all,
            failed: self.of.iter().map(|of| of.failed).sum(),
            wrong: self.of.iter().map(|of| of.wrong).sum(),
            rate_per_s: all as f64 / seconds,
            operations: OperationKind::ALL.into_iter().filter(there).map(row).collect(),
            generator_late: Latency::of(&self.late),
            waited_for_client_share: self.waited as f64 / sent.max(1) as f64,
        }
    }
}

/// The results of a phase.
#[derive(Serialize)]
pub(super) struct Figures {
    pub(super) elapsed_s: f64,
    /// The number of completed operations.
    pub(super) count: u64,
    pub(super) failed: u64,
    pub(super) wrong: u64,
    pub(super) rate_per_s: f64,
    pub(super) operations: Vec<OperationRow>,
    pub(super) generator_late: Latency,
    pub(super) waited_for_client_share: f64,
}

/// The results for one kind of operation.
#[derive(Serialize)]
pub(super) struct OperationRow {
    pub(super) operation: &'static str,
    pub(super) count: u64,
    pub(super) failed: u64,
    pub(super) wrong: u64,
    pub(super) rate_per_s: f64,
    pub(super) values_mb_per_s: f64,
    pub(super) from_intended: Latency,
    pub(super) from_sent: Latency,
}

/// The distribution of a latency.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Latency {
    pub(super) mean_ms: f64,
    pub(super) p50_ms: f64,
    pub(super) p90_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) p999_ms: f64,
    pub(super) max_ms: f64,
}

impl Latency {
    fn of(histogram: &Histogram<u64>) -> Latency {
        let at = |share: f64| histogram.value_at_quantile(share) as f64 / 1e6;
        Latency {
            mean_ms: histogram.mean() / 1e6,
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: at(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_counts_from_the_intended_start() {
        let ms = Duration::from_millis;
        let mut one = Tally::default();
        one.done(OperationKind::Read, Times { intended: ms(0), sent: ms(90), ended: ms(100) }, 10);
        one.sent(ms(1), true);
        let mut two = Tally::default();
        two.done(OperationKind::Read, Times { intended: ms(50), sent: ms(50), ended: ms(60) }, 10);
        two.sent(ms(3), false);
        two.failed(OperationKind::Update, "no");
        two.wrong(OperationKind::Read, "other");
        one.add(two);
        let figures = one.figures(Duration::from_secs(2));
        let read = &figures.operations[0];
        let near = |got: f64, expected: f64| (got / expected - 1.0).abs() < 0.002;
        assert!(near(read.from_intended.max_ms, 100.0) && near(read.from_intended.p50_ms, 10.0));
        assert!(near(read.from_sent.max_ms, 10.0) && near(figures.generator_late.max_ms, 3.0));
        assert_eq!((read.count, read.wrong, figures.failed), (2, 1, 1));
        assert!(near(read.rate_per_s, 1.0) && near(figures.waited_for_client_share, 0.25));
        assert_eq!(one.messages().len(), 2);
    }
}
