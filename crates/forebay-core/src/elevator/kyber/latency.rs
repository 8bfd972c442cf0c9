//! The latencies of one domain, counted in quarters of its target, and their percentiles.
//!
//! There are two histograms: of latencies at the device, and since admission. A percentile is
//! available when there are 500 latencies, or one second after it was first requested; then the
//! histogram is reset. As in Linux, both histograms share that second, and the first one consumes
//! it: with fewer than 500 latencies per second, the histogram since admission has a result only
//! every 500 latencies.

use crate::contract::Nanos;

/// How long latencies are counted before the tokens are adjusted.
pub(super) const WINDOW: Nanos = Nanos::from_millis(100);
/// The number of latencies required for a percentile, unless [`PATIENCE`] has passed.
const ENOUGH: u32 = 500;
const PATIENCE: Nanos = Nanos::from_millis(1000);
/// The number of buckets within the target.
const QUARTERS: u32 = 4;
/// The number of buckets: four within the target, and more beyond it, the last of which is
/// unbounded.
const BUCKETS: usize = 8;

/// The latencies of one domain.
#[derive(Clone, Debug)]
pub(super) struct Latencies {
    quarter: Nanos,
    at_device: [u32; BUCKETS],
    in_all: [u32; BUCKETS],
    /// The time from which fewer latencies are enough for a percentile.
    until: Option<Nanos>,
    /// The measured percentile that has not been used yet.
    p99: Option<u32>,
}

impl Latencies {
    /// Creates empty histograms.
    pub(super) fn new(target: Nanos) -> Latencies {
        let quarter = Nanos((target.0 / u64::from(QUARTERS)).max(1));
        let buckets = [0; BUCKETS];
        Latencies { quarter, at_device: buckets, in_all: buckets, until: None, p99: None }
    }

    /// Adds a request with its latencies at the device and since admission.
    pub(super) fn add(&mut self, at_device: Nanos, in_all: Nanos) {
        let bucket = |took: Nanos| {
            (took.0.saturating_sub(1) / self.quarter.0).min(BUCKETS as u64 - 1) as usize
        };
        let (device, all) = (bucket(at_device), bucket(in_all));
        self.at_device[device] += 1;
        self.in_all[all] += 1;
    }

    /// Returns whether at least a tenth of the latencies at the device exceed the target.
    pub(super) fn is_congested(&mut self, now: Nanos) -> bool {
        percentile(&mut self.at_device, 90, &mut self.until, now).is_some_and(|at| at >= QUARTERS)
    }

    /// Returns the factor for the tokens, if they should change, given whether a domain is
    /// `congested`. A measured percentile is kept until it is used.
    pub(super) fn scale(&mut self, now: Nanos, congested: bool) -> Option<(u32, u32)> {
        let seen = percentile(&mut self.in_all, 99, &mut self.until, now);
        let p99 = if congested {
            let before = self.p99.take();
            seen.or(before)?
        } else {
            self.p99 = seen.or(self.p99);
            seen?
        };
        (congested || p99 >= QUARTERS).then_some((p99 + 1, QUARTERS))
    }
}

/// Returns the bucket of a percentile and resets the histogram; `None` if there are too few
/// latencies.
fn percentile(
    buckets: &mut [u32; BUCKETS],
    percent: u32,
    until: &mut Option<Nanos>,
    now: Nanos,
) -> Option<u32> {
    let samples: u32 = buckets.iter().sum();
    if samples == 0 {
        return None;
    }
    let patient_until = *until.get_or_insert(now + PATIENCE);
    if samples < ENOUGH && now < patient_until {
        return None;
    }
    *until = None;
    let rank = (u64::from(samples) * u64::from(percent)).div_ceil(100);
    let mut below = 0;
    let at = buckets.iter().position(|&count| {
        below += u64::from(count);
        below >= rank
    });
    *buckets = [0; BUCKETS];
    at.map(|at| at as u32)
}
