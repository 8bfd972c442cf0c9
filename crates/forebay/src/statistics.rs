//! Statistics of a run: the figures that every result shows, collected by one observer in
//! simulations and in live runs.
//!
//! Percentiles come from histograms with three significant digits. Percentiles of streams have two
//! digits, and exist only for the first [`STREAMS_MEASURED`] streams, so that memory stays bounded.
//! Head movement is counted in cylinders, between the previous position of the heads and the first
//! sector of an I/O, and within an I/O that crosses cylinders. The approach to the first I/O is not
//! counted, as in the **bid** paper's worked example, section "Disk head movement (seek) distance".

use forebay_core::contract::Class;
use forebay_core::replay::Lag;
use forebay_core::{BACKGROUND, Completion, Device, Done, Nanos, Observer, Op, Request, WriteBack};
use hdrhistogram::Histogram;

mod classes;
mod figures;

pub use classes::ClassFigures;
use classes::Classes;
pub use figures::{Figures, StreamShare};

/// A histogram of the latencies of one kind of request.
pub struct Latencies {
    histogram: Histogram<u32>,
    sum_ns: u128,
    count: u64,
    max: Nanos,
}

impl Latencies {
    /// Creates an empty histogram with `significant_digits` digits.
    ///
    /// # Panics
    /// Panics if there are more than 5 digits.
    pub fn new(significant_digits: u8) -> Latencies {
        let histogram = Histogram::new(significant_digits).expect("digits are from 0 to 5");
        Latencies { histogram, sum_ns: 0, count: 0, max: Nanos::ZERO }
    }

    /// Adds a latency to the histogram.
    #[inline]
    pub fn record(&mut self, latency: Nanos) {
        // The histogram grows as needed; recording fails only if it would exceed the address space.
        let _ = self.histogram.record(latency.0);
        self.sum_ns += u128::from(latency.0);
        self.count += 1;
        self.max = self.max.max(latency);
    }

    /// Returns the number of latencies recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the mean latency in milliseconds; `None` if there are no requests.
    pub fn mean_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64 / 1e6)
    }

    /// Returns the latency, in milliseconds, that a share `share` (0 to 1) of the requests do not
    /// exceed; `None` if there are no requests.
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        let ns = self.histogram.value_at_quantile(share).min(self.max.0);
        (self.count > 0).then_some(ns as f64 / 1e6)
    }

    /// Returns the longest latency; zero if there are no requests.
    pub fn max(&self) -> Nanos {
        self.max
    }

    /// Returns the longest latency in milliseconds; `None` if there are no requests.
    fn max_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.max.as_millis_f64())
    }

    /// Returns about `points` points of the cumulative distribution, as (milliseconds, share).
    pub fn distribution(&self, points: usize) -> Vec<(f64, f64)> {
        let share = |index: usize| index as f64 / points as f64;
        (0..=points)
            .filter_map(|index| Some((self.quantile_ms(share(index))?, share(index))))
            .collect()
    }
}

/// The head movements of a device in cylinders.
#[derive(Clone, Copy, Debug, Default)]
struct Movement {
    count: u64,
    sum: u64,
    sum_of_squares: f64,
}

impl Movement {
    #[inline]
    fn add(&mut self, distance: u32, times: u64) {
        if distance > 0 && times > 0 {
            self.count += times;
            self.sum += u64::from(distance) * times;
            self.sum_of_squares += f64::from(distance) * f64::from(distance) * times as f64;
        }
    }

    fn add_back(&mut self, back: &WriteBack) {
        self.count += back.movements;
        self.sum += back.cylinders;
        self.sum_of_squares += back.cylinders_squared;
    }

    fn sum(movements: &[Movement]) -> Movement {
        movements.iter().fold(Movement::default(), |all, one| Movement {
            count: all.count + one.count,
            sum: all.sum + one.sum,
            sum_of_squares: all.sum_of_squares + one.sum_of_squares,
        })
    }

    fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    fn deviation(&self) -> f64 {
        let mean_square =
            if self.count == 0 { 0.0 } else { self.sum_of_squares / self.count as f64 };
        (mean_square - self.mean() * self.mean()).max(0.0).sqrt()
    }
}

/// The maximum number of streams in a result; those that use most device time are chosen.
const STREAMS_SHOWN: usize = 1000;
/// Streams with numbers below this have percentiles of their own, which take about 15 KB per
/// stream.
const STREAMS_MEASURED: usize = 4096;

/// The counts of one stream in a run.
#[derive(Default)]
struct Stream {
    requests: u64,
    reads: u64,
    bytes: u64,
    latencies: Option<Box<Latencies>>,
    busy: Nanos,
    lag: Lag,
    /// When the stream's last request was answered.
    done: Nanos,
}

impl Stream {
    fn is_seen(&self) -> bool {
        self.requests > 0 || self.busy > Nanos::ZERO
    }
}

/// The I/Os sent to one device.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceLoad {
    /// The number of I/Os sent to the device.
    pub ios: u64,
    /// The number of bytes read from the device.
    pub read_bytes: u64,
    /// The number of bytes written to the device.
    pub written_bytes: u64,
}

/// The properties of a device that statistics need. A real device reports less about itself than a
/// model does.
pub trait Known {
    /// Returns the shortest time in which the data of `io` can be transferred; zero if unknown.
    fn floor(&self, io: &Request) -> Nanos;
    /// Returns the number of cylinders of a disk; 0 for devices without moving parts, or if
    /// unknown.
    fn cylinders(&self) -> u32;
}

impl<D: Device> Known for D {
    fn floor(&self, io: &Request) -> Nanos {
        Device::floor(self, io)
    }
    fn cylinders(&self) -> u32 {
        Device::cylinders(self)
    }
}

/// An observer that collects the statistics of one run.
pub struct Statistics<D> {
    /// Devices of the same kind as those in the run, by lane, for computing lower bounds.
    devices: Vec<D>,
    asked: Vec<DeviceLoad>,
    reads: Latencies,
    writes: Latencies,
    waits: Latencies,
    /// How long requests were held because earlier requests of their stream were waiting for a
    /// place in the request queue.
    held: Latencies,
    /// How long after their arrival requests entered the request queue.
    lag: Lag,
    /// The sum of the service times of all I/Os in nanoseconds.
    service_ns: u128,
    outstanding_max: u64,
    arrived: u64,
    finished: u64,
    flushes: u64,
    trims: u64,
    /// The numbers of failed reads, failed writes and other failed requests.
    failed: [u64; 3],
    ios: u64,
    ios_failed: u64,
    floor: Nanos,
    seek: Nanos,
    rotation: Nanos,
    transfer: Nanos,
    /// The head movements of each device.
    movements: Vec<Movement>,
    streams: Vec<Stream>,
    classes: Classes,
}

impl<D: Known> Statistics<D> {
    /// Creates statistics for a run on devices like these, by lane, under a policy with the service
    /// classes `classes`.
    pub fn new(devices: Vec<D>, classes: &[Class]) -> Statistics<D> {
        Statistics {
            asked: vec![DeviceLoad::default(); devices.len()],
            movements: vec![Movement::default(); devices.len()],
            devices,
            reads: Latencies::new(3),
            writes: Latencies::new(3),
            waits: Latencies::new(3),
            held: Latencies::new(3),
            lag: Lag::default(),
            service_ns: 0,
            outstanding_max: 0,
            arrived: 0,
            finished: 0,
            flushes: 0,
            trims: 0,
            failed: [0; 3],
            ios: 0,
            ios_failed: 0,
            floor: Nanos::ZERO,
            seek: Nanos::ZERO,
            rotation: Nanos::ZERO,
            transfer: Nanos::ZERO,
            streams: Vec::new(),
            classes: Classes::new(classes),
        }
    }

    /// Returns whether no request has arrived.
    pub fn is_empty(&self) -> bool {
        self.arrived == 0
    }

    /// Returns the latencies of reads so far.
    pub fn reads(&self) -> &Latencies {
        &self.reads
    }

    /// Returns the latencies of writes so far.
    pub fn writes(&self) -> &Latencies {
        &self.writes
    }

    fn stream(&mut self, stream: u32) -> &mut Stream {
        let index = stream as usize;
        if index >= self.streams.len() {
            self.streams.resize_with(index + 1, Stream::default);
        }
        &mut self.streams[index]
    }

    /// Returns the I/Os sent to each device so far.
    pub fn asked(&self) -> &[DeviceLoad] {
        &self.asked
    }

    /// Converts the cylinders crossed to full sweeps over the respective device.
    fn sweeps(&self, movements: &[Movement]) -> f64 {
        let of = |(device, movement): (&D, &Movement)| match device.cylinders() {
            0 => 0.0,
            cylinders => movement.sum as f64 / f64::from(cylinders),
        };
        self.devices.iter().zip(movements).map(of).sum()
    }

    /// Computes the figures of the run. `busy` and `joules` are totals over its devices,
    /// `written_back` is the write-back of each modeled device, by lane, and `labels` are the names
    /// of the streams.
    pub fn figures(
        &self,
        makespan: Nanos,
        (busy, joules): (Nanos, f64),
        written_back: &[WriteBack],
        labels: &[String],
    ) -> Figures {
        let mut movements = self.movements.clone();
        movements.iter_mut().zip(written_back).for_each(|(movement, back)| movement.add_back(back));
        let movement = Movement::sum(&movements);
        let back = |time: fn(&WriteBack) -> Nanos| {
            written_back.iter().map(time).fold(Nanos::ZERO, |sum, time| sum + time)
        };
        let mut figures = Figures {
            requests: self.finished,
            reads: self.reads.count() + self.failed[0],
            writes: self.writes.count() + self.failed[1],
            flushes: self.flushes,
            trims: self.trims,
            unfinished: self.arrived - self.finished,
            failed: self.failed.iter().sum(),
            ios: self.ios,
            ios_failed: self.ios_failed,
            makespan_s: makespan.as_secs_f64(),
            busy_s: busy.as_secs_f64(),
            transfer_bound_s: self.floor.as_secs_f64(),
            seek_s: (self.seek + back(|it| it.seek)).as_secs_f64(),
            rotation_s: (self.rotation + back(|it| it.rotation)).as_secs_f64(),
            transfer_s: (self.transfer + back(|it| it.transfer)).as_secs_f64(),
            write_back_s: back(WriteBack::time).as_secs_f64(),
            head_movements: movement.count,
            seek_sweeps: self.sweeps(&movements),
            avg_seek_tracks: movement.mean(),
            seek_stddev_tracks: movement.deviation(),
            read_mean_ms: self.reads.mean_ms(),
            read_p50_ms: self.reads.quantile_ms(0.5),
            read_p99_ms: self.reads.quantile_ms(0.99),
            read_p999_ms: self.reads.quantile_ms(0.999),
            read_max_ms: self.reads.max_ms(),
            write_mean_ms: self.writes.mean_ms(),
            write_p50_ms: self.writes.quantile_ms(0.5),
            write_p99_ms: self.writes.quantile_ms(0.99),
            write_p999_ms: self.writes.quantile_ms(0.999),
            write_max_ms: self.writes.max_ms(),
            wait_mean_ms: self.waits.mean_ms(),
            wait_p99_ms: self.waits.quantile_ms(0.99),
            longest_wait_ms: self.waits.max.as_millis_f64(),
            held_mean_ms: self.held.mean_ms(),
            longest_held_ms: self.held.max.as_millis_f64(),
            lag_mean_ms: None,
            longest_lag_ms: 0.0,
            lagging_share: 0.0,
            service_mean_ms: (self.ios > 0).then(|| self.service_ns as f64 / self.ios as f64 / 1e6),
            outstanding_max: self.outstanding_max,
            energy_j: joules,
            streams_total: self.streams.iter().filter(|stream| stream.is_seen()).count(),
            streams: self.shares(busy, labels),
            classes: self.classes.figures(),
        };
        figures.set_lag(self.lag);
        figures
    }

    /// Returns the streams in order of decreasing share of the device's time.
    fn shares(&self, busy: Nanos, labels: &[String]) -> Vec<StreamShare> {
        let mut shares: Vec<StreamShare> = self
            .streams
            .iter()
            .enumerate()
            .filter_map(|(index, stream)| {
                let latencies = stream.latencies.as_ref();
                stream.is_seen().then(|| StreamShare {
                    stream: labels.get(index).cloned().unwrap_or_else(|| index.to_string()),
                    requests: stream.requests,
                    busy_share: stream.busy.0 as f64 / busy.0.max(1) as f64,
                    p50_ms: latencies.and_then(|latencies| latencies.quantile_ms(0.5)),
                    p99_ms: latencies.and_then(|latencies| latencies.quantile_ms(0.99)),
                    done_s: stream.done.as_secs_f64(),
                    is_reads: stream.reads == stream.requests,
                    mean_bytes: stream.bytes as f64 / stream.requests.max(1) as f64,
                    longest_lag_ms: stream.lag.longest().as_millis_f64(),
                    number: index as u32,
                })
            })
            .collect();
        shares.sort_by(|a, b| b.busy_share.total_cmp(&a.busy_share));
        shares.truncate(STREAMS_SHOWN);
        shares
    }
}

impl<D: Known> Observer for Statistics<D> {
    #[inline]
    fn arrived(&mut self, _request: &Request) {
        self.arrived += 1;
        self.outstanding_max = self.outstanding_max.max(self.arrived - self.finished);
    }

    #[inline]
    fn io(&mut self, completion: &Completion) {
        let Completion { io, started, at, mechanics, outcome } = completion;
        let took = *at - *started;
        let lane = usize::from(io.lane);
        let (asked, movement) = (&mut self.asked[lane], &mut self.movements[lane]);
        if asked.ios > 0 {
            movement.add(mechanics.cylinder_first.abs_diff(mechanics.cylinder_from), 1);
        }
        let crossed = mechanics.cylinder_last.abs_diff(mechanics.cylinder_first);
        movement.add(1, u64::from(crossed));
        asked.ios += 1;
        match io.op {
            Op::Read => asked.read_bytes += u64::from(io.len),
            Op::Write => asked.written_bytes += u64::from(io.len),
            _ => {}
        }
        self.ios += 1;
        self.ios_failed += u64::from(outcome.is_err());
        self.floor += self.devices[lane].floor(io);
        self.seek += mechanics.seek;
        self.rotation += mechanics.rotation;
        self.transfer += mechanics.transfer;
        self.service_ns += u128::from(took.0);
        // Background I/O was requested by no client and belongs to no stream.
        if io.stream != BACKGROUND {
            self.stream(io.stream).busy += took;
        }
    }

    #[inline]
    fn finished(&mut self, now: Nanos, done: &Done) {
        let latency = done.latency(now);
        self.finished += 1;
        match done.request.op {
            op if done.outcome.is_err() => {
                // The time until a request fails says nothing about the speed of other requests.
                self.failed[if op.moves_data() { op as usize } else { 2 }] += 1;
                return;
            }
            Op::Read => self.reads.record(latency),
            Op::Write => self.writes.record(latency),
            Op::Flush => self.flushes += 1,
            Op::Trim => self.trims += 1,
            Op::Park | Op::Open => {}
        }
        self.waits.record(done.wait);
        self.held.record(done.held);
        let lag = latency + done.held - done.wait;
        self.lag.record(lag);
        self.classes.record(done.class, latency);
        let stream = self.stream(done.request.stream);
        stream.requests += 1;
        stream.reads += u64::from(done.request.op == Op::Read);
        stream.bytes += u64::from(done.request.len);
        stream.lag.record(lag);
        stream.done = now;
        if (done.request.stream as usize) < STREAMS_MEASURED {
            stream.latencies.get_or_insert_with(|| Box::new(Latencies::new(2))).record(latency);
        }
    }
}
