//! The figures of a run and of its streams.

use forebay_core::Nanos;
use forebay_core::replay::Lag;
use serde::Serialize;

use super::ClassFigures;

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
    /// The number of client requests that never finished; above 0 only because of a bug in the policy.
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

    pub(super) fn set_lag(&mut self, lag: Lag) {
        self.lag_mean_ms = lag.mean().map(Nanos::as_millis_f64);
        self.longest_lag_ms = lag.longest().as_millis_f64();
        self.lagging_share = lag.late_share();
    }

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
