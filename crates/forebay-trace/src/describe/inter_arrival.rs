//! Analyzes arrival times: the gaps between requests, and their number at several time scales.
//!
//! Bins without arrivals take no computing time, so a gap of years costs a single division. Bins
//! are ten times as long at each scale as at the previous one. A complete bin is added to the next
//! longer one.

use super::{Arrivals, Distribution, InterArrival, ms};
use crate::Record;

/// The length of the shortest bins in nanoseconds. At each further scale, bins are ten times as
/// long.
const SHORTEST_NS: u64 = 1_000_000;
const SCALES: usize = 6;

/// The arrival times of a trace.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    first_ns: Option<u64>,
    last_ns: u64,
    last_request_ns: Option<u64>,
    gaps: Distribution,
    picked_gaps: Vec<u64>,
    gap_squares_ns2: f64,
    scales: [Scale; SCALES],
}

/// The numbers of requests in bins of one length.
#[derive(Clone, Debug, Default)]
struct Scale {
    bin: u64,
    count: u64,
    peak: u64,
    sum: u64,
    squares: u128,
}

impl Times {
    /// Adds records, and the data requests among them.
    pub(super) fn add(&mut self, records: &[Record], data: &[Record]) {
        let Some(first) = records.first() else { return };
        let first = *self.first_ns.get_or_insert(first.at.0);
        self.last_ns = records.iter().fold(self.last_ns, |last, r| last.max(r.at.0));
        let Some(last) = data.last() else { return };
        let before = self.last_request_ns.replace(last.at.0).into_iter();
        let earlier = before.chain(data.iter().map(|r| r.at.0));
        let later = data.iter().skip(usize::from(earlier.size_hint().0 == data.len()));
        self.picked_gaps.clear();
        self.picked_gaps.extend(earlier.zip(later).map(|(a, b)| b.at.0.saturating_sub(a)));
        for &gap in &self.picked_gaps {
            self.gap_squares_ns2 += gap as f64 * gap as f64;
        }
        self.gaps.add_all(self.picked_gaps.iter().copied());
        for r in data {
            self.arrive(r.at.0.saturating_sub(first) / SHORTEST_NS);
        }
    }

    /// Counts a request in a bin of the first scale, which is the current bin or a later one. The
    /// code has no branches, because a new bin is as likely as not; if there is none, zero is
    /// added.
    #[inline]
    fn arrive(&mut self, bin: u64) {
        let [current, longer, ..] = &mut self.scales;
        let is_new = bin > current.bin;
        let (done, in_bin) = (current.bin, current.count);
        let finished = if is_new { in_bin } else { 0 };
        current.bin = done.max(bin);
        current.count = in_bin - finished + 1;
        current.peak = current.peak.max(finished);
        current.sum += finished;
        current.squares += u128::from(finished) * u128::from(finished);
        if done / 10 <= longer.bin {
            longer.count += finished;
        } else if is_new {
            self.turn(1, done / 10, finished);
        }
    }

    /// Adds `count` requests to a bin, which is the current bin or a later one.
    #[inline]
    fn count(&mut self, scale: usize, bin: u64, count: u64) {
        let Some(current) = self.scales.get_mut(scale) else { return };
        if bin <= current.bin {
            current.count += count;
        } else {
            self.turn(scale, bin, count);
        }
    }

    /// Finishes the current bin and begins another.
    fn turn(&mut self, scale: usize, bin: u64, count: u64) {
        let Some(current) = self.scales.get_mut(scale) else { return };
        let (done, requests) = (current.bin, current.count);
        current.finish(true);
        (current.bin, current.count) = (bin, count);
        self.count(scale + 1, done / 10, requests);
    }

    /// Returns the time from the first to the last record.
    pub(super) fn duration_ns(&self) -> u64 {
        self.last_ns - self.first_ns.unwrap_or(self.last_ns)
    }

    pub(super) fn inter_arrival(&self) -> InterArrival {
        let variation = self.gaps.mean().filter(|&mean| mean > 0.0).map(|mean| {
            let square = self.gap_squares_ns2 / self.gaps.count() as f64;
            (square / (mean * mean) - 1.0).max(0.0).sqrt()
        });
        InterArrival {
            mean_ms: self.gaps.mean().map(|ns| ns / 1e6),
            p50_ms: self.gaps.quantile(0.5).map(ms),
            p99_ms: self.gaps.quantile(0.99).map(ms),
            max_ms: self.gaps.max().map(ms),
            variation,
        }
    }

    pub(super) fn arrivals(mut self) -> Vec<Arrivals> {
        let mut length_ns = SHORTEST_NS;
        let mut rows = Vec::with_capacity(SCALES);
        for index in 0..SCALES {
            let bins = self.duration_ns() / length_ns;
            let (bin, count) = (self.scales[index].bin, self.scales[index].count);
            self.scales[index].finish(bin < bins);
            self.count(index + 1, bin / 10, count);
            rows.push(self.scales[index].figures(bins, length_ns));
            length_ns *= 10;
        }
        rows
    }
}

impl Scale {
    /// Ends the current bin. It is included in the mean and the variance only if it lies completely
    /// within the trace.
    fn finish(&mut self, whole: bool) {
        self.peak = self.peak.max(self.count);
        if whole {
            self.sum += self.count;
            self.squares += u128::from(self.count).pow(2);
        }
    }

    fn figures(&self, bins: u64, length_ns: u64) -> Arrivals {
        let mean = (bins > 0).then(|| self.sum as f64 / bins as f64);
        let dispersion = mean.filter(|&mean| bins > 1 && mean > 0.0).map(|mean| {
            let variance = self.squares as f64 / bins as f64 - mean * mean;
            variance.max(0.0) / mean
        });
        Arrivals {
            bin_ms: length_ns / 1_000_000,
            bins,
            mean_requests: mean,
            peak_iops: (self.peak > 0).then(|| self.peak as f64 * 1e9 / length_ns as f64),
            dispersion,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::read;
    use super::*;
    use forebay_core::{Nanos, Op};

    fn times(at_us: &[u64]) -> Times {
        let mut times = Times::default();
        for &us in at_us {
            let records = [read(us * 1000, 0, 512)];
            times.add(&records, &records);
        }
        times
    }

    #[test]
    fn gaps() {
        let gaps = times(&[5000, 6000, 9000]).inter_arrival();
        assert_eq!((gaps.mean_ms, gaps.max_ms), (Some(2.0), Some(3.0)));
        assert!((gaps.p50_ms.unwrap() - 1.0).abs() < 1e-3);
        assert!((gaps.variation.unwrap() - 0.5).abs() < 1e-12);
        assert_eq!(times(&[0, 10, 20]).inter_arrival().variation, Some(0.0));
        assert_eq!(times(&[0, 0]).inter_arrival().variation, None);
    }

    #[test]
    fn empty_bins_count_and_the_unfinished_one_does_not() {
        // Bins of 1 ms contain 3, 0 and 1 requests, and the incomplete last one 2.
        let rows = times(&[1000, 1100, 1999, 3500, 4000, 4001]).arrivals();
        assert_eq!((rows[0].bin_ms, rows[0].bins), (1, 3));
        assert_eq!(rows[0].mean_requests, Some(4.0 / 3.0));
        assert_eq!(rows[0].peak_iops, Some(3000.0));
        let variance = 10.0 / 3.0 - 16.0 / 9.0;
        assert!((rows[0].dispersion.unwrap() - variance * 3.0 / 4.0).abs() < 1e-12);
        assert_eq!((rows[1].bins, rows[1].mean_requests), (0, None));
        assert_eq!(rows[1].peak_iops, Some(600.0));
        assert_eq!(rows[5].bin_ms, 100_000);
    }

    #[test]
    fn longer_scales_add_up_the_shorter() {
        let rows = times(&[0, 9_999, 10_000, 25_000, 30_000]).arrivals();
        // Bins of 10 ms contain 2, 1 and 1 requests; the last one is incomplete.
        assert_eq!((rows[1].bins, rows[1].mean_requests), (3, Some(4.0 / 3.0)));
        assert_eq!(rows[1].peak_iops, Some(200.0));
        assert_eq!((rows[2].bins, rows[2].peak_iops), (0, Some(50.0)));
    }

    #[test]
    fn a_flush_ends_the_trace_but_is_no_arrival() {
        let mut t = times(&[0]);
        t.add(&[Record { op: Op::Flush, len: 0, ..read(2_000_000, 0, 0) }], &[]);
        assert_eq!(t.duration_ns(), 2_000_000);
        let rows = t.arrivals();
        assert_eq!((rows[0].bins, rows[0].mean_requests), (2, Some(0.5)));
    }

    #[test]
    fn years_take_no_time() {
        let year_ns = 365 * 86_400 * 1_000_000_000;
        let mut t = Times::default();
        for k in 0..500 {
            let records = [Record { at: Nanos(k * year_ns), ..read(0, 0, 512) }];
            t.add(&records, &records);
        }
        let last = [Record { at: Nanos::MAX, ..read(0, 0, 512) }];
        t.add(&last, &last);
        let rows = t.arrivals();
        assert_eq!(rows[0].bins, u64::MAX / 1_000_000);
        assert_eq!(rows[5].peak_iops, Some(0.01));
    }
}
