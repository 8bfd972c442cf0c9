//! Finds sequential runs, and the seeks between them.
//!
//! A request *continues* its predecessor if it starts at the byte at which that one ended. A run is
//! a maximal sequence of requests in which each continues the previous one.

use super::{Distribution, Runs, SeekBucket, Seeks, kib, share};
use crate::Record;

/// The current run in a sequence of requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Run {
    /// The first byte after the last request.
    end: u64,
    /// The number of requests so far, or 0 before the first.
    requests: u64,
    bytes: u64,
}

impl Run {
    /// Adds the next request. Returns whether it continues the run. There are no branches, because
    /// the end of a run is hard to predict.
    #[inline]
    pub(super) fn step(&mut self, r: &Record) -> bool {
        let (before, len) = (*self, u64::from(r.len));
        let continues = (before.requests > 0) & (before.end == r.offset);
        self.end = r.offset.saturating_add(len);
        self.requests = if continues { before.requests } else { 0 } + 1;
        self.bytes = if continues { before.bytes } else { 0 }.saturating_add(len);
        continues
    }
}

/// The end of a run, and the start of the next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Break {
    ended: Run,
    next: u64,
}

/// The breaks between runs in part of a trace.
#[derive(Clone, Debug, Default)]
pub(super) struct Breaks {
    breaks: Vec<Break>,
    count: usize,
}

impl Breaks {
    /// Clears the breaks, and reserves memory for up to `steps_max` of them.
    pub(super) fn clear(&mut self, steps_max: usize) {
        self.count = 0;
        if self.breaks.len() < steps_max {
            self.breaks.resize(steps_max, Break::default());
        }
    }

    /// Adds the next request to a run. If it does not continue the run, records a break. Returns
    /// whether it continues the run.
    #[inline]
    pub(super) fn step(&mut self, run: &mut Run, r: &Record) -> bool {
        let before = *run;
        let continues = run.step(r);
        self.breaks[self.count] = Break { ended: before, next: r.offset };
        self.count += usize::from((before.requests > 0) & !continues);
        continues
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Break> + Clone {
        self.breaks[..self.count].iter()
    }
}

/// The lengths of the runs that have ended.
#[derive(Clone, Debug, Default)]
pub(super) struct RunLengths {
    requests: Distribution,
    bytes: Distribution,
}

impl RunLengths {
    pub(super) fn add(&mut self, breaks: &Breaks) {
        self.add_runs(breaks.iter().map(|b| &b.ended));
    }

    /// Counts runs that have ended. Empty runs are ignored.
    pub(super) fn add_runs<'a>(&mut self, runs: impl Iterator<Item = &'a Run> + Clone) {
        let runs = runs.filter(|run| run.requests > 0);
        self.requests.add_all(runs.clone().map(|run| run.requests));
        self.bytes.add_all(runs.map(|run| run.bytes));
    }

    pub(super) fn figures(&self) -> Runs {
        Runs {
            count: self.requests.count(),
            mean_requests: self.requests.mean(),
            p50_requests: self.requests.quantile(0.5),
            p99_requests: self.requests.quantile(0.99),
            max_requests: self.requests.max(),
            mean_kib: self.bytes.mean().map(|bytes| bytes / 1024.0),
            p50_kib: self.bytes.quantile(0.5).map(kib),
            p99_kib: self.bytes.quantile(0.99).map(kib),
            max_kib: self.bytes.max().map(kib),
        }
    }
}

/// The distances between runs.
#[derive(Clone, Debug)]
pub(super) struct Distances {
    sequential: u64,
    /// The distances have a finer resolution than other distributions, because a thousandth of a
    /// disk is a large distance.
    distances: Distribution<12>,
    /// The numbers of forward and backward distances, by powers of two.
    powers: [[u64; 2]; 64],
}

impl Default for Distances {
    fn default() -> Distances {
        Distances { sequential: 0, distances: Distribution::default(), powers: [[0; 2]; 64] }
    }
}

impl Distances {
    /// Adds breaks, and the number of requests that continued a run.
    pub(super) fn add(&mut self, breaks: &Breaks, sequential: u64) {
        self.sequential += sequential;
        self.distances.add_all(breaks.iter().map(|b| b.next.abs_diff(b.ended.end)));
        for b in breaks.iter() {
            let power = (b.next.abs_diff(b.ended.end) | 1).ilog2() as usize;
            self.powers[power][usize::from(b.next < b.ended.end)] += 1;
        }
    }

    pub(super) fn sequential_share(&self) -> Option<f64> {
        share(self.sequential, self.sequential + self.distances.count())
    }

    pub(super) fn figures(&self) -> Seeks {
        let histogram = (0u32..).zip(&self.powers).filter(|(_, counts)| **counts != [0, 0]);
        Seeks {
            count: self.distances.count(),
            zero_share: self.sequential_share(),
            p10_bytes: self.distances.quantile(0.1),
            p50_bytes: self.distances.quantile(0.5),
            p90_bytes: self.distances.quantile(0.9),
            histogram: histogram
                .map(|(power, &[forward, backward])| SeekBucket {
                    from_bytes: 1 << power,
                    forward,
                    backward,
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{read, write};
    use super::*;

    fn walk(requests: &[(u64, u32)]) -> (Runs, Seeks) {
        let (mut run, mut lengths, mut distances) =
            (Run::default(), RunLengths::default(), Distances::default());
        let mut breaks = Breaks::default();
        breaks.clear(requests.len());
        let mut step = |&(offset, len): &(u64, u32)| breaks.step(&mut run, &read(0, offset, len));
        let sequential = requests.iter().filter(|&request| step(request)).count();
        distances.add(&breaks, sequential as u64);
        lengths.add(&breaks);
        lengths.add_runs([run].iter());
        (lengths.figures(), distances.figures())
    }

    #[test]
    fn runs_end_where_the_next_request_starts_elsewhere() {
        let (runs, seeks) =
            walk(&[(0, 1024), (1024, 1024), (2048, 2048), (8192, 512), (0, 512), (512, 512)]);
        assert_eq!((runs.count, runs.max_requests), (3, Some(3)));
        assert_eq!((runs.p50_requests, runs.mean_requests), (Some(2), Some(2.0)));
        assert_eq!((runs.max_kib, runs.p50_kib), (Some(4.0), Some(1.0)));
        assert_eq!((seeks.count, seeks.zero_share), (2, Some(0.6)));
        assert_eq!((seeks.p10_bytes, seeks.p90_bytes), (Some(4096), Some(8704)));
        let bucket = |from_bytes, forward, backward| SeekBucket { from_bytes, forward, backward };
        assert_eq!(seeks.histogram, [bucket(4096, 1, 0), bucket(8192, 0, 1)]);
    }

    #[test]
    fn a_first_request_at_zero_continues_nothing() {
        let (runs, seeks) = walk(&[(0, 512)]);
        assert_eq!((runs.count, seeks.count, seeks.zero_share), (1, 0, None));
        assert_eq!(walk(&[]), (Runs::default(), Seeks::default()));
    }

    #[test]
    fn direction_does_not_matter_to_the_disk() {
        let (mut run, mut breaks) = (Run::default(), Breaks::default());
        breaks.clear(2);
        assert!(!breaks.step(&mut run, &read(0, 0, 512)));
        assert!(breaks.step(&mut run, &write(0, 512, 512)));
    }

    #[test]
    fn the_far_end_of_the_address_space() {
        let far = u64::MAX - 100;
        let (runs, seeks) = walk(&[(far, 512), (0, 512), (1 << 63, 512)]);
        assert_eq!(runs.count, 3);
        assert_eq!(seeks.histogram.last().map(|b| (b.from_bytes, b.backward)), Some((1 << 63, 1)));
    }
}
