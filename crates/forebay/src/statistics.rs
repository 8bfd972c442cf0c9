//! Statistics of a run: the figures every result shows, gathered by one observer for both drivers.
//!
//! Percentiles come from histograms with three significant digits (per stream: two, and only for the
//! first [`STREAMS_MEASURED`], so that memory stays bounded). Head movement is counted in cylinders
//! between the first sector of an I/O and where the heads stood, and within an I/O that crosses
//! cylinders; the approach to the first I/O is not counted (the **bid** paper's worked example,
//! section "Disk head movement (seek) distance").

use forebay_core::contract::policy::Class;
use forebay_core::{BACKGROUND, Completion, Device, Done, Nanos, Observer, Op, Request, WriteBack};
use hdrhistogram::Histogram;
use serde::Serialize;

mod classes;

pub use classes::ClassFigures;
use classes::Classes;

/// Latencies of one kind of request.
pub struct Latencies {
    histogram: Histogram<u32>,
    sum_ns: u128,
    count: u64,
    max: Nanos,
}

impl Latencies {
    /// Empty, exact to so many significant digits.
    ///
    /// # Panics
    /// With more than 5 digits.
    pub fn new(significant_digits: u8) -> Latencies {
        let histogram = Histogram::new(significant_digits).expect("digits are from 0 to 5");
        Latencies { histogram, sum_ns: 0, count: 0, max: Nanos::ZERO }
    }

    /// Takes one more.
    #[inline]
    pub fn record(&mut self, latency: Nanos) {
        // Resizes itself; fails only beyond the machine's address space.
        let _ = self.histogram.record(latency.0);
        self.sum_ns += u128::from(latency.0);
        self.count += 1;
        self.max = self.max.max(latency);
    }

    /// Requests recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean in milliseconds; `None` without requests.
    pub fn mean_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64 / 1e6)
    }

    /// The latency that `share` (0 to 1) of the requests do not exceed, in milliseconds.
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        let ns = self.histogram.value_at_quantile(share).min(self.max.0);
        (self.count > 0).then_some(ns as f64 / 1e6)
    }

    /// The longest.
    pub fn max(&self) -> Nanos {
        self.max
    }

    /// The longest, in milliseconds; `None` without requests.
    fn max_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.max.as_millis_f64())
    }

    /// Points of the cumulative distribution: (milliseconds, share), about `points` of them.
    pub fn distribution(&self, points: usize) -> Vec<(f64, f64)> {
        let share = |index: usize| index as f64 / points as f64;
        (0..=points)
            .filter_map(|index| Some((self.quantile_ms(share(index))?, share(index))))
            .collect()
    }
}

/// Head movements, in cylinders.
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

/// Streams a result lists, those that take most of the device's time.
const STREAMS_SHOWN: usize = 1000;
/// Streams below this have percentiles of their own: some 15 KB each.
const STREAMS_MEASURED: usize = 4096;

/// One stream's share of a run.
#[derive(Default)]
struct Stream {
    requests: u64,
    latencies: Option<Box<Latencies>>,
    busy: Nanos,
}

impl Stream {
    fn is_seen(&self) -> bool {
        self.requests > 0 || self.busy > Nanos::ZERO
    }
}

/// What was asked of one device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// I/Os it did.
    pub ios: u64,
    /// Bytes read from it.
    pub read_bytes: u64,
    /// Bytes written to it.
    pub written_bytes: u64,
}

/// What statistics ask of a device: less than a model knows, since a real one has none.
pub trait Known {
    /// The least time that moving `io`'s data can take; zero where nobody knows.
    fn floor(&self, io: &Request) -> Nanos;
    /// Cylinders of a disk; 0 without moving parts, and where nobody knows.
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

/// Gathers the statistics of one run.
pub struct Statistics<D> {
    /// Devices of the same kinds, by lane, asked for floors.
    devices: Vec<D>,
    asked: Vec<Asked>,
    reads: Latencies,
    writes: Latencies,
    waits: Latencies,
    /// Until their streams' turns came.
    held: Latencies,
    /// Requests that entered the queue later than [`LAG_MAX`] after they came.
    lagging: u64,
    /// Sum over I/Os.
    service_ns: u128,
    outstanding_max: u64,
    arrived: u64,
    finished: u64,
    flushes: u64,
    trims: u64,
    /// Reads, writes and other requests that failed.
    failed: [u64; 3],
    ios: u64,
    ios_failed: u64,
    floor: Nanos,
    seek: Nanos,
    rotation: Nanos,
    transfer: Nanos,
    /// Of each device.
    movements: Vec<Movement>,
    streams: Vec<Stream>,
    classes: Classes,
}

impl<D: Known> Statistics<D> {
    /// For a run on devices like these, by lane, by a policy with `classes`.
    pub fn new(devices: Vec<D>, classes: &[Class]) -> Statistics<D> {
        Statistics {
            asked: vec![Asked::default(); devices.len()],
            movements: vec![Movement::default(); devices.len()],
            devices,
            reads: Latencies::new(3),
            writes: Latencies::new(3),
            waits: Latencies::new(3),
            held: Latencies::new(3),
            lagging: 0,
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

    /// Whether no request arrived.
    pub fn is_empty(&self) -> bool {
        self.arrived == 0
    }

    /// Latencies of reads.
    pub fn reads(&self) -> &Latencies {
        &self.reads
    }

    /// Latencies of writes.
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

    /// The devices it was told of.
    #[inline]
    pub fn devices(&self) -> &[D] {
        &self.devices
    }

    /// What was asked of each device.
    pub fn asked(&self) -> &[Asked] {
        &self.asked
    }

    /// Cylinders crossed, in sweeps of the device they were crossed on.
    fn sweeps(&self, movements: &[Movement]) -> f64 {
        let of = |(device, movement): (&D, &Movement)| match device.cylinders() {
            0 => 0.0,
            cylinders => movement.sum as f64 / f64::from(cylinders),
        };
        self.devices.iter().zip(movements).map(of).sum()
    }

    /// The figures, with `busy` and `joules` as the devices of the run tell them together, `written_back` of each by
    /// lane where they are models, and streams named by `labels`.
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
        Figures {
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
            lagging_share: self.lagging as f64 / self.finished.max(1) as f64,
            service_mean_ms: (self.ios > 0).then(|| self.service_ns as f64 / self.ios as f64 / 1e6),
            outstanding_max: self.outstanding_max,
            energy_j: joules,
            streams_total: self.streams.iter().filter(|stream| stream.is_seen()).count(),
            streams: self.shares(busy, labels),
            classes: self.classes.figures(),
        }
    }

    /// Streams by falling share of the device's time.
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
        // What nobody asked for belongs to no stream.
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
                // How soon a request fails says nothing of how soon others are served.
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
        self.lagging += u64::from(latency + done.held - done.wait > LAG_MAX);
        self.classes.record(done.class, latency);
        let stream = self.stream(done.request.stream);
        stream.requests += 1;
        if (done.request.stream as usize) < STREAMS_MEASURED {
            stream.latencies.get_or_insert_with(|| Box::new(Latencies::new(2))).record(latency);
        }
    }
}

/// A run that is so far behind its recording lags.
const LAG_MAX: Nanos = Nanos::from_secs(1);

/// A device is overloaded where more than this share of requests lags.
const LAGGING_SHARE_MAX: f64 = 0.01;

impl Figures {
    /// Whether the devices fell behind the recording, so that times from arrival are the length of a backlog.
    pub fn is_overloaded(&self) -> bool {
        self.lagging_share > LAGGING_SHARE_MAX
    }
}

/// What a run came to. Latencies run from the turn of a request's stream, which is its arrival unless requests of the
/// stream before it found no place in the request queue; waits from admission to that queue.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Client requests finished, whatever they do: the `records` of a description (whose `requests`
    /// are reads and writes only).
    pub requests: u64,
    /// Reads among them.
    pub reads: u64,
    /// Writes among them.
    pub writes: u64,
    /// Requests among them that only flush; a write that flushes first counts as a write.
    pub flushes: u64,
    /// Trims among them.
    pub trims: u64,
    /// Client requests that never finished: always 0, or the policy is broken.
    pub unfinished: u64,
    /// Client requests that failed. Latencies and waits are those of the others.
    pub failed: u64,
    /// I/Os the devices did.
    pub ios: u64,
    /// I/Os among them that failed.
    pub ios_failed: u64,
    /// From the first arrival to the last completion.
    pub makespan_s: f64,
    /// Time the devices worked, one added to the other.
    pub busy_s: f64,
    /// Least time that moving the same bytes takes at media rate.
    pub transfer_bound_s: f64,
    /// Time moving the arm.
    pub seek_s: f64,
    /// Time waiting for sectors to come round.
    pub rotation_s: f64,
    /// Time moving data, switches on the way included.
    pub transfer_s: f64,
    /// Time of these three in which the arm emptied the drives' write caches, while others waited or nobody did.
    pub write_back_s: f64,
    /// Times the heads changed cylinder.
    pub head_movements: u64,
    /// Cylinders crossed, in full sweeps over the disk.
    pub seek_sweeps: f64,
    /// Cylinders crossed per movement.
    pub avg_seek_tracks: f64,
    /// Standard deviation of the same.
    pub seek_stddev_tracks: f64,
    /// Mean read latency.
    pub read_mean_ms: Option<f64>,
    /// Median read latency.
    pub read_p50_ms: Option<f64>,
    /// Read latency that 99 % do not exceed.
    pub read_p99_ms: Option<f64>,
    /// Read latency that 99.9 % do not exceed.
    pub read_p999_ms: Option<f64>,
    /// The longest read latency.
    pub read_max_ms: Option<f64>,
    /// Mean write latency.
    pub write_mean_ms: Option<f64>,
    /// Median write latency.
    pub write_p50_ms: Option<f64>,
    /// Write latency that 99 % do not exceed.
    pub write_p99_ms: Option<f64>,
    /// Write latency that 99.9 % do not exceed.
    pub write_p999_ms: Option<f64>,
    /// The longest write latency.
    pub write_max_ms: Option<f64>,
    /// Mean time from admission to completion.
    pub wait_mean_ms: Option<f64>,
    /// Time from admission to completion that 99 % do not exceed.
    pub wait_p99_ms: Option<f64>,
    /// The longest time from admission to completion.
    pub longest_wait_ms: f64,
    /// Mean time until the turn of a request's stream came, before it could be submitted: no part of its latency.
    pub held_mean_ms: Option<f64>,
    /// The longest such time.
    pub longest_held_ms: f64,
    /// Requests that entered the queue more than a second after they came, of all.
    pub lagging_share: f64,
    /// Mean time the device took for an I/O.
    pub service_mean_ms: Option<f64>,
    /// The most requests that had arrived and were not finished.
    pub outstanding_max: u64,
    /// Energy the devices used.
    pub energy_j: f64,
    /// Streams there are.
    pub streams_total: usize,
    /// The streams that take most of the busy time, 1000 at most, by falling share.
    pub streams: Vec<StreamShare>,
    /// Classes of service, where the policy has any; first all requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassFigures>,
}

impl Figures {
    /// The share of the busy time in which heads are moved or wait for a sector; 0 where no device was busy.
    pub fn moving_share(&self) -> f64 {
        let moving_s = self.seek_s + self.rotation_s;
        if self.busy_s > 0.0 { moving_s / self.busy_s } else { 0.0 }
    }

    /// The longest latency of reads and writes; none without any.
    pub fn longest_ms(&self) -> Option<f64> {
        self.read_max_ms.into_iter().chain(self.write_max_ms).reduce(f64::max)
    }
}

/// One stream in a run.
#[derive(Clone, Debug, Serialize)]
pub struct StreamShare {
    /// Its name.
    pub stream: String,
    /// Client requests finished.
    pub requests: u64,
    /// The time of its I/Os over the device's busy time: how many are under way on average while the device works, so
    /// above 1 on a drive with a queue (an I/O merged from several streams counts for the first).
    pub busy_share: f64,
    /// Median latency; none for streams past the first 4096 of the trace.
    pub p50_ms: Option<f64>,
    /// Latency that 99 % of its requests do not exceed; none as above.
    pub p99_ms: Option<f64>,
}
