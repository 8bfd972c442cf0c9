//! The totals of a thread, of a type, or of all threads.

use super::folding::Folding;
use super::period::PERIODS_MAX;
use super::rows::Figures;
use super::rules::Features;
use crate::Record;
use crate::describe::{direction, mean_kib, share};

/// Sums over the requests of a thread or of several.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// The number of reads and of writes.
    requests: [u64; 2],
    bytes: [u64; 2],
    /// The number of requests that continue the previous one, and the number for which this is
    /// known.
    sequential: [u64; 2],
    placed: [u64; 2],
    first_ns: Option<u64>,
    last_ns: u64,
    gap_squares_ns2: f64,
    /// Whether this tally combines several threads. Their requests interleave, so the gaps between
    /// them are unknown.
    is_merged: bool,
    latency_ns: u128,
    measured: u64,
    periods: Folding<PERIODS_MAX>,
    quarters: [f64; 4],
}

/// The totals to which figures are relative.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// The requests of all threads.
    pub(super) requests: u64,
    /// The duration of the trace.
    pub(super) duration_ns: u64,
    /// The number of complete periods.
    pub(super) periods: u64,
}

impl Tally {
    /// Adds a request, which arrives in the finest period `period`.
    #[inline]
    pub(super) fn add(&mut self, r: &Record, period: u64, continues: Option<bool>) {
        let direction = direction(r);
        self.requests[direction] += 1;
        self.bytes[direction] += u64::from(r.len);
        self.placed[direction] += u64::from(continues.is_some());
        self.sequential[direction] += u64::from(continues == Some(true));
        match self.first_ns {
            None => self.first_ns = Some(r.at.0),
            Some(_) => {
                let gap_ns = r.at.0.saturating_sub(self.last_ns) as f64;
                self.gap_squares_ns2 += gap_ns * gap_ns;
            }
        }
        self.last_ns = self.last_ns.max(r.at.0);
        if let Some(latency) = r.latency {
            self.latency_ns += u128::from(latency.0);
            self.measured += 1;
        }
        self.periods.add(period);
    }

    /// Adds the tally of another thread. Its periods must have the same level.
    pub(super) fn merge(&mut self, other: &Tally) {
        let add = |to: &mut [u64; 2], from: &[u64; 2]| (0..2).for_each(|at| to[at] += from[at]);
        self.is_merged |= self.requests() > 0;
        add(&mut self.requests, &other.requests);
        add(&mut self.bytes, &other.bytes);
        add(&mut self.sequential, &other.sequential);
        add(&mut self.placed, &other.placed);
        self.first_ns = self.first_ns.into_iter().chain(other.first_ns).min();
        self.last_ns = self.last_ns.max(other.last_ns);
        self.gap_squares_ns2 += other.gap_squares_ns2;
        self.latency_ns += other.latency_ns;
        self.measured += other.measured;
        self.periods.merge(&other.periods);
        self.add_quarters(other.quarters);
    }

    pub(super) fn add_quarters(&mut self, quarters: [f64; 4]) {
        (0..4).for_each(|quarter| self.quarters[quarter] += quarters[quarter]);
    }

    pub(super) fn level(&self) -> u32 {
        self.periods.level()
    }

    pub(super) fn fold_to(&mut self, level: u32) {
        self.periods.fold_to(level);
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.iter().sum()
    }

    fn bytes(&self) -> u64 {
        self.bytes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// Returns the features by which the thread is classified.
    pub(super) fn features(&self, scale: &Scale) -> Features {
        Features {
            requests: self.requests(),
            write_share: share(self.requests[1], self.requests()).unwrap_or(0.0),
            write_sequential_share: share(self.sequential[1], self.placed[1]).unwrap_or(0.0),
            write_kib: mean_kib(self.bytes[1], self.requests[1]).unwrap_or(0.0),
            fluctuation: self.fluctuation(scale.periods),
            weight_share: share(self.requests(), scale.requests).unwrap_or(0.0),
        }
    }

    pub(super) fn figures(&self, scale: &Scale) -> Figures {
        let duration_s = scale.duration_ns as f64 / 1e9;
        let per_s = |count: u64| (duration_s > 0.0).then(|| count as f64 / duration_s);
        let span_ns = self.first_ns.map_or(0, |first| self.last_ns.saturating_sub(first));
        let gaps = self.requests().saturating_sub(1);
        let gap_ns = share(span_ns, gaps);
        let located: f64 = self.quarters.iter().sum();
        // Extend the counts to the last complete period, even if there are no requests in it.
        let mut activity_requests = self.periods.counts().to_vec();
        let shown = activity_requests.len().max(scale.periods as usize);
        activity_requests.resize(shown, 0);
        Figures {
            requests: self.requests(),
            reads: self.requests[0],
            writes: self.requests[1],
            weight_share: share(self.requests(), scale.requests),
            mean_iops: per_s(self.requests()),
            mean_bytes_per_s: per_s(self.bytes()),
            active_s: span_ns as f64 / 1e9,
            mean_kib: mean_kib(self.bytes(), self.requests()),
            inter_arrival_mean_ms: gap_ns.map(|ns| ns / 1e6),
            inter_arrival_variation: gap_ns
                .filter(|mean| *mean > 0.0 && !self.is_merged)
                .map(|mean| variation(self.gap_squares_ns2 / gaps as f64, mean)),
            read_write_ratio: share(self.requests[0], self.requests[1]),
            sequential_share: share(self.sequential.iter().sum(), self.placed.iter().sum()),
            quarter_shares: (located > 0.0).then(|| self.quarters.map(|count| count / located)),
            fluctuation: self.fluctuation(scale.periods),
            activity_requests,
            latency_mean_ms: (self.measured > 0)
                .then(|| self.latency_ns as f64 / self.measured as f64 / 1e6),
            latency_measured_share: share(self.measured, self.requests()),
        }
    }

    /// Returns how much the number of requests per period varies beyond chance (a Poisson process,
    /// whose variance equals its mean), divided by its mean.
    fn fluctuation(&self, periods: u64) -> Option<f64> {
        let counts = self.periods.counts();
        let whole = &counts[..counts.len().min(periods as usize)];
        let sum: u64 = whole.iter().sum();
        if periods < 2 || sum == 0 {
            return None;
        }
        let squares: f64 = whole.iter().map(|count| *count as f64 * *count as f64).sum();
        let mean = sum as f64 / periods as f64;
        let beyond = squares / periods as f64 - mean * mean - mean;
        Some(beyond.max(0.0).sqrt() / mean)
    }
}

/// Returns the standard deviation divided by the mean, given the mean square.
fn variation(square: f64, mean: f64) -> f64 {
    (square / (mean * mean) - 1.0).max(0.0).sqrt()
}
