//! Analyzes recorded latencies and the number of outstanding requests.

use super::description::{Concurrency, Latency};
use super::distribution::{ByDirection, Distribution};
use super::outstanding::Outstanding;
use super::{ms, share};
use crate::Record;

/// Latencies by direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Latencies {
    latencies: ByDirection,
    total_ns: u128,
    first_arrival_ns: Option<u64>,
    last_completion_ns: u64,
    outstanding: Outstanding,
}

impl Latencies {
    /// Adds data requests.
    pub(super) fn add(&mut self, data: &[Record]) {
        let measured = data.iter().filter_map(|r| r.latency.map(|latency| (r, latency)));
        self.latencies.add_all(measured.clone().map(|(r, latency)| (r, latency.0)));
        for (r, latency) in measured {
            let completion = (r.at + latency).0;
            self.total_ns += u128::from(completion - r.at.0);
            self.first_arrival_ns.get_or_insert(r.at.0);
            self.last_completion_ns = self.last_completion_ns.max(completion);
            self.outstanding.add(r.at.0, completion);
        }
    }

    /// Returns the latencies of reads. `reads` is the number of all reads.
    pub(super) fn read(&self, reads: u64) -> Latency {
        figures(self.latencies.reads(), reads)
    }

    /// Returns the latencies of writes. `writes` is the number of all writes.
    pub(super) fn write(&self, writes: u64) -> Latency {
        figures(self.latencies.writes(), writes)
    }

    pub(super) fn concurrency(&self) -> Concurrency {
        let span_ns = self.first_arrival_ns.map(|first| self.last_completion_ns - first);
        Concurrency {
            mean_outstanding: span_ns
                .filter(|&span_ns| span_ns > 0)
                .map(|span_ns| self.total_ns as f64 / span_ns as f64),
            max_outstanding: span_ns.map(|_| self.outstanding.most() as u64),
        }
    }
}

fn figures(d: &Distribution, requests: u64) -> Latency {
    Latency {
        measured_share: share(d.count(), requests),
        mean_ms: d.mean().map(|ns| ns / 1e6),
        p50_ms: d.quantile(0.5).map(ms),
        p99_ms: d.quantile(0.99).map(ms),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{read, write};
    use super::*;
    use forebay_core::Nanos;

    fn took(r: Record, ns: u64) -> Record {
        Record { latency: Some(Nanos(ns)), ..r }
    }

    #[test]
    fn outstanding_requests_leave_when_they_complete() {
        let mut l = Latencies::default();
        l.add(&[
            took(read(0, 0, 512), 100),
            took(read(50, 0, 512), 200),
            read(60, 0, 512),
            took(write(100, 0, 512), 50),
            took(write(240, 0, 512), 160),
        ]);
        // The requests overlap as 0-100, 50-250, 100-150 and 240-400, so there are never more than
        // two.
        assert_eq!(l.concurrency().max_outstanding, Some(2));
        assert_eq!(l.concurrency().mean_outstanding, Some(510.0 / 400.0));
        assert_eq!(l.read(3).measured_share, Some(2.0 / 3.0));
        assert_eq!((l.read(3).mean_ms, l.write(2).p50_ms), (Some(0.000_15), Some(0.000_05)));
    }

    #[test]
    fn unmeasured_and_endless() {
        let mut l = Latencies::default();
        l.add(&[read(0, 0, 512)]);
        assert_eq!((l.concurrency(), l.read(0).measured_share), (Concurrency::default(), None));
        l.add(&[took(read(5, 0, 512), u64::MAX), took(read(5, 0, 512), 0)]);
        assert_eq!(l.concurrency().max_outstanding, Some(2));
        assert_eq!(l.concurrency().mean_outstanding, Some(1.0));
    }
}
