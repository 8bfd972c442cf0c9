//! The figures of a description, as they are printed and serialised.
//!
//! Unless a figure says otherwise it covers *data requests*: reads and writes with at least one
//! byte. A share is between 0 and 1. A figure that is undefined for a trace (the mean of nothing)
//! is `None`, in JSON `null`. Quantiles are at most 0.1 % below the nearest-rank value, and exact
//! for sizes that are whole KiB up to 2 MiB; counts, sums, means and maxima are exact.

use serde::Serialize;

use super::by_thread::rows::ByThread;
use crate::streams::StreamBy;

/// What a trace looks like.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Description {
    /// The format it was read from.
    pub format: String,
    /// Everything in the trace, whatever it does.
    pub records: u64,
    /// Data requests.
    pub requests: u64,
    /// Reads among them.
    pub reads: u64,
    /// Writes among them.
    pub writes: u64,
    /// Flushes of the device's cache: by themselves, or ahead of another request (preflush).
    pub flushes: u64,
    /// Trims (discards).
    pub trims: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Bytes trimmed.
    pub trim_bytes: u64,
    /// From the first record to the last arrival.
    pub duration_s: f64,
    /// Data requests per second of the duration.
    pub mean_iops: Option<f64>,
    /// Bytes read and written per second of the duration.
    pub mean_bytes_per_s: Option<f64>,
    /// What a stream is, here.
    pub stream_by: StreamBy,
    /// Streams that submitted data requests; all write-back workers of a kernel are one.
    pub streams: u64,
    /// Threads that did; 0 where the source names none.
    pub threads: u64,
    /// Processes that did; 0 where the source names none.
    pub processes: u64,
    /// Volumes with data requests.
    pub volumes: u64,
    /// Distinct 512-byte sectors read or written, in bytes.
    pub footprint_bytes: u64,
    /// Whether it is exact. It is while the touched aligned 2 MiB regions number at most 458 752
    /// (250 to 310 MB of memory; 962 GB of disk if dense); beyond, a random sample of regions is counted.
    pub footprint_exact: bool,
    /// Standard error of the footprint over itself, estimated from the sample; 0 if exact.
    pub footprint_error_share: f64,
    /// Requests that start where the previous one of the trace on their volume ended, among those
    /// that have a previous one.
    pub sequential_share: Option<f64>,
    /// Requests that start where the previous one of their stream, direction and volume ended,
    /// among all.
    pub sequential_share_by_stream: Option<f64>,
    /// The same by thread, write-back workers apart: what a scheduler that keys on threads sees.
    pub sequential_share_by_thread: Option<f64>,
    /// Written bytes that came from write-back workers, among all written.
    pub write_back_share: Option<f64>,
    /// Requests of at most 4 KiB, among all.
    pub small_request_share: Option<f64>,
    /// Bytes in requests of at least 256 KiB, among all.
    pub large_request_byte_share: Option<f64>,
    /// Rows that held a request but could not be kept.
    pub rows_skipped: u64,
    /// Rows that lay too far back in time; their time was raised.
    pub rows_late: u64,
    /// What a user should know about the reading.
    pub warnings: Vec<String>,
    /// Sizes of reads.
    pub read_size: Sizes,
    /// Sizes of writes.
    pub write_size: Sizes,
    /// Times between the arrivals of one data request and the next.
    pub inter_arrival: InterArrival,
    /// Arrivals at several time scales.
    pub arrivals: Vec<Arrivals>,
    /// Runs of requests on a volume of which each starts where the previous one ended.
    pub runs: Runs,
    /// The same within one stream, direction and volume: the runs the stream meant to make.
    pub stream_runs: Runs,
    /// Distances between where one request on a volume ended and the next starts.
    pub seeks: Seeks,
    /// Latencies of reads.
    pub read_latency: Latency,
    /// Latencies of writes.
    pub write_latency: Latency,
    /// Requests at the device at a time.
    pub concurrency: Concurrency,
    /// Who asks.
    pub by_stream: ByStream,
    /// Where; volumes with data requests, in the order of the dictionary.
    pub by_volume: Vec<VolumeRow>,
    /// The streams one by one and by types, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_thread: Option<ByThread>,
}

/// Sizes of requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Sizes {
    pub mean_kib: Option<f64>,
    pub p50_kib: Option<f64>,
    pub p90_kib: Option<f64>,
    pub p99_kib: Option<f64>,
    pub max_kib: Option<f64>,
}

/// Times between arrivals.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct InterArrival {
    pub mean_ms: Option<f64>,
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub max_ms: Option<f64>,
    /// Standard deviation over mean: 0 for a metronome, 1 for a Poisson process.
    pub variation: Option<f64>,
}

/// Arrivals counted in bins of one length, laid end to end from the first record.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Arrivals {
    /// Length of a bin.
    pub bin_ms: u64,
    /// Bins that lie within the duration as a whole, empty ones included.
    pub bins: u64,
    /// Mean count of these bins.
    pub mean_requests: Option<f64>,
    /// Highest count of any bin, the unfinished last one included, per second.
    pub peak_iops: Option<f64>,
    /// Variance over mean of the counts of the whole bins (index of dispersion): 1 for a Poisson
    /// process at every scale, growing with the scale for bursty arrivals. Needs two bins.
    pub dispersion: Option<f64>,
}

/// Lengths of sequential runs; a request that continues nothing starts a run of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Runs {
    pub count: u64,
    pub mean_requests: Option<f64>,
    pub p50_requests: Option<u64>,
    pub p99_requests: Option<u64>,
    pub max_requests: Option<u64>,
    pub mean_kib: Option<f64>,
    pub p50_kib: Option<f64>,
    pub p99_kib: Option<f64>,
    pub max_kib: Option<f64>,
}

/// Distances from the end of a request to the start of the next on the same volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Seeks {
    /// Requests that do not start where the previous one ended.
    pub count: u64,
    /// Distances of zero among all: the sequential share.
    pub zero_share: Option<f64>,
    /// Quantiles of the distances other than zero, in either direction.
    pub p10_bytes: Option<u64>,
    #[allow(missing_docs)]
    pub p50_bytes: Option<u64>,
    #[allow(missing_docs)]
    pub p90_bytes: Option<u64>,
    /// Distances other than zero by powers of two, ascending, empty ones left out.
    pub histogram: Vec<SeekBucket>,
}

/// Seeks over at least `from_bytes` and less than twice as many.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SeekBucket {
    /// A power of two.
    pub from_bytes: u64,
    /// Towards higher addresses.
    pub forward: u64,
    /// Towards lower addresses.
    pub backward: u64,
}

/// Latency as recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Requests whose latency was measured, among all of this direction.
    pub measured_share: Option<f64>,
    #[allow(missing_docs)]
    pub mean_ms: Option<f64>,
    #[allow(missing_docs)]
    pub p50_ms: Option<f64>,
    #[allow(missing_docs)]
    pub p99_ms: Option<f64>,
}

/// Requests between arrival and completion at a time, of those whose latency was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Concurrency {
    /// Average over time, from the first arrival to the last completion.
    pub mean_outstanding: Option<f64>,
    /// Most at a time; counted up to 1 048 576.
    pub max_outstanding: Option<u64>,
}

/// The streams with most bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ByStream {
    /// Streams with data requests, shown or not.
    pub total: u64,
    /// At most 20, by bytes read and written, descending.
    pub rows: Vec<StreamRow>,
    /// All others together, if there are any.
    pub other: Option<StreamRow>,
}

/// Data requests of one stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct StreamRow {
    pub label: String,
    pub requests: u64,
    pub reads: u64,
    pub writes: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    /// Requests that start where the stream's previous one of the direction and volume ended.
    pub sequential_share: Option<f64>,
    pub mean_kib: Option<f64>,
    /// Its requests among those of the trace.
    pub request_share: Option<f64>,
    /// Its bytes among those of the trace.
    pub byte_share: Option<f64>,
}

/// Data requests on one volume.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct VolumeRow {
    pub label: String,
    pub requests: u64,
    pub reads: u64,
    pub writes: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    /// As [`Description::sequential_share`].
    pub sequential_share: Option<f64>,
    pub mean_kib: Option<f64>,
    /// Its requests among those of the trace.
    pub request_share: Option<f64>,
    /// As [`Description::footprint_bytes`].
    pub footprint_bytes: u64,
    /// The highest byte read or written, plus one: the volume is at least this large.
    pub extent_bytes: u64,
}
