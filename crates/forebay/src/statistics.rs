//! Statistics of a run: the figures that every result shows, collected by one observer in
//! simulations and in live runs.
//!
//! Percentiles come from histograms with three significant digits. Percentiles of streams have two
//! digits, and exist only for the first [`STREAMS_MEASURED`] streams, so that memory stays bounded.
//! Head movement is counted in cylinders, between the previous position of the heads and the first
//! sector of an I/O, and within an I/O that crosses cylinders. The approach to the first I/O is not
//! counted, as in the **bid** paper's worked example, section "Disk head movement (seek) distance".

use forebay_core::contract::policy::Class;
use forebay_core::replay::Lag;
use forebay_core::{BACKGROUND, Completion, Device, Done, Nanos, Observer, Op, Request, WriteBack};
use hdrhistogram::Histogram;
use serde::Serialize;

mod classes;

pub use classes::ClassFigures;
use classes::Classes;

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

    /// Returns the devices that were passed to [`Statistics::new`].
    #[inline]
    pub fn devices(&self) -> &[D] {
        &self.devices
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

impl Figures {
    /// Returns whether the devices fell behind the recording, so that response times measure the
    /// length of a backlog.
    pub fn is_overloaded(&self) -> bool {
        Lag::is_overload_of(self.lagging_share)
    }

    /// Sets how far the run, and each of its streams, was behind the recording.
    pub fn set_lags(&mut self, all: Lag, of_stream: impl Fn(u32) -> Lag) {
        self.set_lag(all);
        for share in &mut self.streams {
            share.longest_lag_ms = of_stream(share.number).longest().as_millis_f64();
        }
    }

    fn set_lag(&mut self, lag: Lag) {
        self.lag_mean_ms = lag.mean().map(Nanos::as_millis_f64);
        self.longest_lag_ms = lag.longest().as_millis_f64();
        self.lagging_share = lag.late_share();
    }
}

/// The figures of a run. The latency of a request starts when the request may be submitted. That is
/// when it arrives, unless earlier requests of its stream are still waiting for a place in the
/// request queue. Waits start when the request is admitted to that queue.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// The number of client requests of all kinds that finished. `describe` calls this number
    /// `records`; its `requests` are only reads and writes.
    pub requests: u64,
    /// The number of reads that finished.
    pub reads: u64,
    /// The number of writes that finished.
    pub writes: u64,
    /// The number of requests that finished and only flush. A write that flushes first counts as a
    /// write.
    pub flushes: u64,
    /// The number of trims that finished.
    pub trims: u64,
    /// The number of client requests that never finished; above 0 only because of a bug in the
    /// policy.
    pub unfinished: u64,
    /// The number of client requests that failed. Latencies and waits do not include them.
    pub failed: u64,
    /// The number of I/Os that the devices served.
    pub ios: u64,
    /// The number of I/Os that failed.
    pub ios_failed: u64,
    /// The time from the first arrival to the last completion, in seconds.
    pub makespan_s: f64,
    /// The sum of the devices' busy times in seconds.
    pub busy_s: f64,
    /// The shortest time in which the same bytes can be transferred at the media rate, in seconds.
    pub transfer_bound_s: f64,
    /// The time spent moving the arm, in seconds.
    pub seek_s: f64,
    /// The time spent waiting for sectors to rotate to the head, in seconds.
    pub rotation_s: f64,
    /// The time spent transferring data, including head and track switches, in seconds.
    pub transfer_s: f64,
    /// The part of the seek, rotation and transfer times in which the arm emptied the drives' write
    /// caches, whether or not requests were waiting.
    pub write_back_s: f64,
    /// How many times the heads moved to another cylinder.
    pub head_movements: u64,
    /// The number of cylinders crossed, in full sweeps over the disk.
    pub seek_sweeps: f64,
    /// The mean number of cylinders crossed per head movement.
    pub avg_seek_tracks: f64,
    /// The standard deviation of the number of cylinders crossed per head movement.
    pub seek_stddev_tracks: f64,
    /// The mean read latency.
    pub read_mean_ms: Option<f64>,
    /// The median read latency.
    pub read_p50_ms: Option<f64>,
    /// The 99th percentile of read latencies.
    pub read_p99_ms: Option<f64>,
    /// The 99.9th percentile of read latencies.
    pub read_p999_ms: Option<f64>,
    /// The longest read latency.
    pub read_max_ms: Option<f64>,
    /// The mean write latency.
    pub write_mean_ms: Option<f64>,
    /// The median write latency.
    pub write_p50_ms: Option<f64>,
    /// The 99th percentile of write latencies.
    pub write_p99_ms: Option<f64>,
    /// The 99.9th percentile of write latencies.
    pub write_p999_ms: Option<f64>,
    /// The longest write latency.
    pub write_max_ms: Option<f64>,
    /// The mean time from a request's admission to its completion.
    pub wait_mean_ms: Option<f64>,
    /// The 99th percentile of the times from a request's admission to its completion.
    pub wait_p99_ms: Option<f64>,
    /// The longest time from a request's admission to its completion.
    pub longest_wait_ms: f64,
    /// The mean time for which a request was held back by earlier requests of its stream. This time
    /// is not part of its latency.
    pub held_mean_ms: Option<f64>,
    /// The longest time for which a request was held back by earlier requests of its stream.
    pub longest_held_ms: f64,
    /// The mean time by which the run was behind the recording: from a request's arrival (in
    /// dependent replay, from its arrival in the recording) until it entered the request queue.
    pub lag_mean_ms: Option<f64>,
    /// The longest time by which the run was behind the recording.
    pub longest_lag_ms: f64,
    /// The share of requests at which the run was more than a second behind the recording.
    pub lagging_share: f64,
    /// The mean service time of an I/O.
    pub service_mean_ms: Option<f64>,
    /// The highest number of requests that were outstanding at the same time.
    pub outstanding_max: u64,
    /// The energy that all devices used, in joules.
    pub energy_j: f64,
    /// The number of streams in the run.
    pub streams_total: usize,
    /// The streams that use most busy time, up to 1000, in order of decreasing share.
    pub streams: Vec<StreamShare>,
    /// The service classes, if the policy has any. The first entry covers all requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassFigures>,
}

impl Figures {
    /// Returns the share of the busy time in which heads move or wait for a sector; 0 if no device
    /// was busy.
    pub fn moving_share(&self) -> f64 {
        // Heads also move for cached writes, while no request waits.
        let moving_s = (self.seek_s + self.rotation_s).min(self.busy_s);
        if self.busy_s > 0.0 { moving_s / self.busy_s } else { 0.0 }
    }

    /// Returns the longest latency of any read or write; `None` if there are none.
    pub fn longest_ms(&self) -> Option<f64> {
        self.read_max_ms.into_iter().chain(self.write_max_ms).reduce(f64::max)
    }
}

/// The figures of one stream in a run.
#[derive(Clone, Debug, Serialize)]
pub struct StreamShare {
    /// The name of the stream.
    pub stream: String,
    /// The number of the stream's requests that finished.
    pub requests: u64,
    /// The service time of the stream's I/Os divided by the device's busy time. This is the mean
    /// number of its I/Os in progress while the device works, so it can exceed 1 on a drive with a
    /// queue. An I/O that combines requests of several streams counts for the first of them.
    pub busy_share: f64,
    /// The median latency; `None` for streams after the first 4096 of the trace.
    pub p50_ms: Option<f64>,
    /// The 99th percentile of latencies; `None` for streams after the first 4096 of the trace.
    pub p99_ms: Option<f64>,
    /// When the stream's last request completed, in seconds since the start of the run.
    pub done_s: f64,
    /// The longest time by which the stream was behind the recording, as in
    /// [`Figures::longest_lag_ms`].
    pub longest_lag_ms: f64,
    /// The stream's number in the trace.
    #[serde(skip)]
    pub(crate) number: u32,
    /// Whether all of the stream's requests are reads.
    #[serde(skip)]
    pub(crate) is_reads: bool,
    /// The mean length of the stream's requests in bytes.
    #[serde(skip)]
    pub(crate) mean_bytes: f64,
}
