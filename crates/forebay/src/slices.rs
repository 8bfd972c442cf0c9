//! A run divided into slices by arrival time, to estimate how much its figures would vary by chance
//! (a block bootstrap over time).
//!
//! A resample draws as many slices as there are, with replacement. It draws the same slices for
//! every run that is compared, so that all runs face the same requests. A slice contains the
//! latencies of its requests, in buckets about 2 % wide, and the time during which devices executed
//! commands for them, with overlaps counted once. Limitations: the method does not account for
//! bursts that are too rare to occur in the trace, nor for the time in which a drive empties its
//! write cache while no command is outstanding.

use forebay_core::{Completion, Done, Nanos, Observer, Op};

use crate::plan::confidence::Random;

/// The maximum number of slices. If there would be more, neighboring slices are merged in pairs.
const SLICES: usize = 64;
/// The initial length of a slice.
const WIDTH: Nanos = Nanos::from_millis(1);
/// The number of buckets per doubling of the latency.
const STEPS: u64 = 32;
/// The number of resamples that are drawn.
const RESAMPLES: usize = 200;
/// The number of parts of the trace, each of which is left out once.
const PARTS: usize = 10;
/// The share of resamples that an interval covers.
const LEVEL: f64 = 0.95;

/// A histogram of latencies with buckets 1/32 of an octave wide.
#[derive(Clone, Debug, Default)]
struct Tally(Vec<u32>);

impl Tally {
    #[inline]
    fn record(&mut self, latency: Nanos) {
        let bucket = bucket(latency.0);
        if bucket >= self.0.len() {
            self.0.resize(bucket + 1, 0);
        }
        self.0[bucket] += 1;
    }

    fn add(&mut self, other: &Tally) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(sum, count)| *sum += count);
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|count| u64::from(*count)).sum()
    }

    /// Returns the mean latency in ns; `None` if the histogram is empty.
    fn mean(&self) -> Option<f64> {
        let sums = self.0.iter().enumerate().map(|(at, count)| middle(at) * f64::from(*count));
        let count = self.count();
        (count > 0).then(|| sums.sum::<f64>() / count as f64)
    }

    /// Returns the latency in ns that is exceeded by at most one in `of` requests; `None` if the
    /// histogram is empty.
    fn all_but_one_in(&self, of: u64) -> Option<f64> {
        let count = self.count();
        let mut left = count - count / of;
        let holds = |count: &u32| {
            let is_there = u64::from(*count) >= left;
            left = left.saturating_sub(u64::from(*count));
            is_there
        };
        let bucket = self.0.iter().position(holds).filter(|_| count > 0)?;
        Some(middle(bucket))
    }
}

fn bucket(ns: u64) -> usize {
    let shift = (63 - (ns | 1).leading_zeros() as u64).saturating_sub(STEPS.ilog2().into());
    (shift * STEPS + (ns >> shift)) as usize
}

/// Returns the latency in the middle of a bucket.
fn middle(bucket: usize) -> f64 {
    let bucket = bucket as u64;
    let shift = (bucket / STEPS).saturating_sub(1);
    ((bucket - shift * STEPS) as f64 + 0.5) * 2f64.powi(shift as i32)
}

/// The latencies and the busy time of requests that arrived within one slice of time.
#[derive(Clone, Debug, Default)]
struct Slice {
    reads: Tally,
    writes: Tally,
    busy: Nanos,
}

impl Slice {
    fn add(&mut self, other: &Slice) {
        self.reads.add(&other.reads);
        self.writes.add(&other.writes);
        self.busy += other.busy;
    }
}

/// A run, divided into slices by arrival time.
#[derive(Clone, Debug)]
pub struct Slices {
    width: Nanos,
    slices: Vec<Slice>,
    /// Busy time that has not been assigned to a slice yet.
    busy: Nanos,
    /// For each device, by lane, the time up to which its busy time has been counted.
    counted: Vec<Nanos>,
}

impl Default for Slices {
    fn default() -> Slices {
        Slices { width: WIDTH, slices: Vec::new(), busy: Nanos::ZERO, counted: Vec::new() }
    }
}

impl Slices {
    fn slice(&mut self, at: Nanos) -> &mut Slice {
        while at.0 / self.width.0 >= SLICES as u64 {
            self.halve();
        }
        let index = (at.0 / self.width.0) as usize;
        if index >= self.slices.len() {
            self.slices.resize(index + 1, Slice::default());
        }
        &mut self.slices[index]
    }

    /// Doubles the length of the slices, which halves their number.
    fn halve(&mut self) {
        self.width = self.width + self.width;
        let pairs = self.slices.chunks(2).map(|pair| {
            let mut both = pair[0].clone();
            pair.iter().skip(1).for_each(|other| both.add(other));
            both
        });
        self.slices = pairs.collect();
    }
}

impl Slices {
    /// Adds busy time, which is assigned to the slices of the requests that finish next.
    #[inline]
    pub fn worked(&mut self, time: Nanos) {
        self.busy += time;
    }
}

impl Observer for Slices {
    #[inline]
    fn io(&mut self, completion: &Completion) {
        let lane = usize::from(completion.io.lane);
        if lane >= self.counted.len() {
            self.counted.resize(lane + 1, Nanos::ZERO);
        }
        // If a drive executes several commands at the same time, the time counts only once.
        let from = completion.started.max(self.counted[lane]);
        if completion.at > from {
            self.counted[lane] = completion.at;
            self.worked(completion.at - from);
        }
    }

    #[inline]
    fn finished(&mut self, now: Nanos, done: &Done) {
        let busy = std::mem::take(&mut self.busy);
        let slice = self.slice(done.request.at);
        slice.busy += busy;
        let latency = done.latency(now);
        match done.request.op {
            _ if done.outcome.is_err() => {}
            Op::Read => slice.reads.record(latency),
            Op::Write => slice.writes.record(latency),
            _ => {}
        }
    }
}

/// The figures in which runs are compared; lower is better.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Compared {
    /// The busy time of all devices in s.
    pub busy_s: f64,
    /// The 99th percentile of read latencies in ms; `None` without reads.
    pub read_p99_ms: Option<f64>,
    /// The 99th percentile of write latencies in ms; `None` without writes.
    pub write_p99_ms: Option<f64>,
    /// The median read latency in ms; `None` without reads.
    pub read_p50_ms: Option<f64>,
    /// The median write latency in ms; `None` without writes.
    pub write_p50_ms: Option<f64>,
    /// The mean read latency in ms; `None` without reads.
    pub read_mean_ms: Option<f64>,
    /// The mean write latency in ms; `None` without writes.
    pub write_mean_ms: Option<f64>,
}

/// The resampled figures of several runs of one trace, which show how much they might vary between
/// similar traces.
pub struct Resampled {
    /// The figures of each run, for each resample.
    drawn: Vec<Vec<Compared>>,
    /// The figures of each run without each tenth of the trace, by time; empty if the trace has
    /// fewer slices than that.
    without: Vec<Vec<Compared>>,
}

impl Resampled {
    /// Draws resamples of these runs with the random seed `seed`.
    pub fn of(runs: &[&Slices], seed: u64) -> Resampled {
        let width = runs.iter().map(|run| run.width).max().unwrap_or(WIDTH);
        let same = |run: &&Slices| {
            let mut run = (*run).clone();
            while run.width < width {
                run.halve();
            }
            run
        };
        let runs: Vec<Slices> = runs.iter().map(same).collect();
        let count = runs.iter().map(|run| run.slices.len()).max().unwrap_or(0);
        let mut random = Random(seed);
        let drawn = (0..RESAMPLES).map(|_| {
            let slices: Vec<usize> = (0..count).map(|_| random.below(count)).collect();
            runs.iter().map(|run| run.figures(&slices)).collect()
        });
        let drawn = drawn.collect();
        let parts = if count < PARTS { 0 } else { PARTS };
        let without = (0..parts).map(|part| {
            let slices: Vec<usize> = (0..count).filter(|at| at * PARTS / count != part).collect();
            runs.iter().map(|run| run.figures(&slices)).collect()
        });
        Resampled { drawn, without: without.collect() }
    }

    /// Returns the largest ratio of a figure between two runs if any tenth of the trace is left
    /// out. A long episode may decide a figure, and yet be in nearly all resamples, because they
    /// draw short slices. `None` if the trace is too short for tenths.
    pub fn ratio_without_a_tenth(
        &self,
        (a, b): (usize, usize),
        of: impl Fn(&Compared) -> Option<f64>,
    ) -> Option<f64> {
        let ratio = |runs: &Vec<Compared>| Some(of(&runs[a])? / of(&runs[b])?.max(1e-12));
        self.without.iter().filter_map(ratio).reduce(f64::max)
    }

    /// Returns the interval of the ratio of a figure between two runs; `of` returns the figure.
    /// `None` if a resample lacks it.
    pub fn ratio(
        &self,
        (a, b): (usize, usize),
        of: impl Fn(&Compared) -> Option<f64>,
    ) -> Option<(f64, f64)> {
        let ratio = |runs: &Vec<Compared>| Some(of(&runs[a])? / of(&runs[b])?.max(1e-12));
        interval(self.drawn.iter().map(ratio).collect::<Option<Vec<f64>>>()?)
    }

    /// Returns the interval of the total time `total_s` of a run, assuming that it varies in
    /// proportion to the devices' busy time.
    pub fn total(&self, run: usize, total_s: f64) -> Option<(f64, f64)> {
        let all = |runs: &Vec<Compared>| runs[run].busy_s;
        let mean = self.drawn.iter().map(all).sum::<f64>() / self.drawn.len().max(1) as f64;
        let (low, high) = self.figure(run, |run| Some(run.busy_s))?;
        (mean > 0.0).then(|| (total_s * low / mean, total_s * high / mean))
    }

    /// Returns the interval of a figure of a run; `of` returns the figure. `None` if a resample
    /// lacks it.
    pub fn figure(&self, run: usize, of: impl Fn(&Compared) -> Option<f64>) -> Option<(f64, f64)> {
        interval(self.drawn.iter().map(|runs| of(&runs[run])).collect::<Option<Vec<f64>>>()?)
    }
}

fn interval(mut values: Vec<f64>) -> Option<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    let cut = (values.len() as f64 * (1.0 - LEVEL) / 2.0) as usize;
    Some((*values.get(cut)?, *values.get(values.len() - 1 - cut)?))
}

impl Slices {
    /// Computes the figures of the given slices together.
    fn figures(&self, slices: &[usize]) -> Compared {
        let mut sum = Slice::default();
        slices.iter().filter_map(|slice| self.slices.get(*slice)).for_each(|one| sum.add(one));
        let ms = |ns: f64| ns / 1e6;
        Compared {
            busy_s: sum.busy.as_secs_f64(),
            read_p99_ms: sum.reads.all_but_one_in(100).map(ms),
            write_p99_ms: sum.writes.all_but_one_in(100).map(ms),
            read_p50_ms: sum.reads.all_but_one_in(2).map(ms),
            write_p50_ms: sum.writes.all_but_one_in(2).map(ms),
            read_mean_ms: sum.reads.mean().map(ms),
            write_mean_ms: sum.writes.mean().map(ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_core::{Flags, Request};

    /// Returns a run of `count` reads, one per ms; `latency_us` returns their latencies.
    fn run(count: u64, latency_us: impl Fn(u64) -> u64) -> Slices {
        let mut slices = Slices::default();
        for index in 0..count {
            let at = Nanos::from_millis(index);
            let request = Request {
                at,
                offset: 0,
                id: index,
                len: 4096,
                stream: 0,
                lane: 0,
                op: Op::Read,
                flags: Flags::NONE,
            };
            let now = at + Nanos::from_micros(latency_us(index));
            slices.worked(Nanos::from_micros(500));
            let done = Done::at_once(request, Ok(()));
            slices.finished(now, &done);
        }
        slices
    }

    #[test]
    fn buckets_hold_what_they_say() {
        for ns in (0..5000).chain((0..63).flat_map(|bit| [1 << bit, (1u64 << bit) * 3 / 2])) {
            let is = middle(bucket(ns));
            assert!((is - ns as f64).abs() <= 0.5 + ns as f64 / 32.0, "{ns}: {is}");
            assert!(bucket(ns) <= bucket(ns + 1));
        }
    }

    #[test]
    fn slices_grow_and_lose_nothing() {
        let slices = run(10_000, |index| 100 + index % 100);
        assert!(slices.slices.len() > SLICES / 2 && slices.slices.len() <= SLICES);
        let all: Vec<usize> = (0..slices.slices.len()).collect();
        let figures = slices.figures(&all);
        assert!((figures.busy_s - 5.0).abs() < 1e-9);
        // By the definition of percentiles, 9,900 of 10,000 requests take 198 µs or less.
        assert!((figures.read_p99_ms.unwrap() - 0.198).abs() < 0.004, "{figures:?}");
        assert_eq!(figures.write_p99_ms, None);
    }

    #[test]
    fn concurrent_commands_count_their_time_once() {
        let mut slices = Slices::default();
        let ms = Nanos::from_millis;
        let io = |lane, started, at| {
            let (id, offset, len, stream) = (0, 0, 4096, 0);
            let at_first = ms(started);
            let (op, flags) = (Op::Read, Flags::NONE);
            let io = Request { at: at_first, offset, id, len, stream, lane, op, flags };
            let (mechanics, outcome) = (Default::default(), Ok(()));
            Completion { io, started: at_first, at: ms(at), mechanics, outcome }
        };
        // One device executes three commands at a time, pauses, then executes one. Another device
        // works in parallel.
        for (lane, started, at) in [(0, 0, 4), (0, 1, 6), (0, 2, 5), (0, 10, 12), (1, 0, 3)] {
            slices.io(&io(lane, started, at));
        }
        assert_eq!(slices.busy, ms(6 + 2 + 3));
    }

    #[test]
    fn consistent_gains_are_distinguished_from_chance() {
        let read = |of: &Compared| of.read_p99_ms;
        let (slow, fast) =
            (run(5000, |index| 1000 + index % 7), run(5000, |index| 900 + index % 7));
        // The 99th percentile of this run is higher only because of a single burst.
        let once = run(5000, |index| if (2000..2060).contains(&index) { 2000 } else { 1000 });
        let plain = run(5000, |_| 1000);
        let told = Resampled::of(&[&fast, &slow, &once, &plain], 1);
        let (low, high) = told.ratio((0, 1), read).unwrap();
        assert!(0.85 < low && high < 0.95, "{low} to {high}");
        let (low, high) = told.ratio((2, 3), read).unwrap();
        assert!(low <= 1.0 && high > 1.9, "{low} to {high}: one slice is chance");
        let (low, high) = told.ratio((0, 1), |of| Some(of.busy_s)).unwrap();
        assert_eq!((low, high), (1.0, 1.0));
        assert_eq!(told.ratio((0, 1), |of| of.write_p99_ms), None);
        let (low, high) = told.figure(1, read).unwrap();
        assert!(low < 1.05 && high > 0.95 && low <= high);
    }
}
