//! The figures of a description, as printed and serialized.
//!
//! Unless stated otherwise, figures cover *data requests*: reads and writes with at least one byte.
//! A share is between 0 and 1. A figure that is undefined for a trace (the mean of nothing) is
//! `None`, in JSON `null`. Quantiles are at most 0.1 % below the nearest-rank value, and exact for
//! sizes that are whole KiB up to 2 MiB; counts, sums, means and maxima are exact.

use serde::Serialize;

use super::by_thread::rows::ByThread;
use crate::streams::StreamBy;

/// The description of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Description {
    /// The format of the trace.
    pub format: String,
    /// All records of the trace, of every kind.
    pub records: u64,
    /// Data requests.
    pub requests: u64,
    /// Reads among them.
    pub reads: u64,
    /// Writes among them.
    pub writes: u64,
    /// Flushes of the device's cache: on their own, or before another request (preflush).
    pub flushes: u64,
    /// Trims (discards).
    pub trims: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Bytes trimmed.
    pub trim_bytes: u64,
    /// The time from the first record to the last arrival.
    pub duration_s: f64,
    /// Data requests per second of the duration.
    pub mean_iops: Option<f64>,
    /// Bytes read and written per second of the duration.
    pub mean_bytes_per_s: Option<f64>,
    /// What counts as one stream.
    pub stream_by: StreamBy,
    /// Streams that submitted data requests; all write-back workers of a kernel are one.
    pub streams: u64,
    /// Threads that submitted data requests; 0 if the source identifies none.
    pub threads: u64,
    /// Processes that submitted data requests; 0 if the source identifies none.
    pub processes: u64,
    /// Volumes with data requests.
    pub volumes: u64,
    /// Distinct 512-byte sectors read or written, in bytes.
    pub footprint_bytes: u64,
    /// Whether the footprint is exact. It is if at most 458,752 aligned regions of 2 MiB are
    /// touched (250 to 310 MB of memory; 962 GB of disk if dense); otherwise a random sample of
    /// regions is counted.
    pub footprint_exact: bool,
    /// The relative standard error of the footprint, estimated from the sample; 0 if exact.
    pub footprint_error_share: f64,
    /// The share of requests that start where the trace's previous request on their volume ended,
    /// among those that have a previous one.
    pub sequential_share: Option<f64>,
    /// The share of requests that start where the previous request of their stream, direction and
    /// volume ended.
    pub sequential_share_by_stream: Option<f64>,
    /// The same share by thread, with separate write-back workers: what a scheduler that
    /// distinguishes threads sees.
    pub sequential_share_by_thread: Option<f64>,
    /// The share of written bytes that came from write-back workers.
    pub write_back_share: Option<f64>,
    /// The share of requests of at most 4 KiB.
    pub small_request_share: Option<f64>,
    /// The share of bytes in requests of at least 256 KiB.
    pub large_request_byte_share: Option<f64>,
    /// Rows with a request that could not be represented.
    pub rows_skipped: u64,
    /// Rows that were too late to be sorted; their times were raised.
    pub rows_late: u64,
    /// What a user should know about the reading.
    pub warnings: Vec<String>,
    /// Sizes of reads.
    pub read_size: Sizes,
    /// Sizes of writes.
    pub write_size: Sizes,
    /// The times between the arrivals of consecutive data requests.
    pub inter_arrival: InterArrival,
    /// Arrivals at several time scales.
    pub arrivals: Vec<Arrivals>,
    /// Runs of consecutive requests on a volume, each of which starts where the previous one ended.
    pub runs: Runs,
    /// Runs within one stream, direction and volume, as the stream intended them.
    pub stream_runs: Runs,
    /// The distances between the end of a request on a volume and the start of the next.
    pub seeks: Seeks,
    /// Latencies of reads.
    pub read_latency: Latency,
    /// Latencies of writes.
    pub write_latency: Latency,
    /// The number of outstanding requests over time.
    pub concurrency: Concurrency,
    /// The figures by stream.
    pub by_stream: ByStream,
    /// The volumes with data requests, in the order of the dictionary.
    pub by_volume: Vec<VolumeRow>,
    /// The streams individually and by type, if requested.
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
    /// The standard deviation over the mean: 0 for a constant rate, 1 for a Poisson process.
    pub variation: Option<f64>,
}

/// Arrivals counted in consecutive bins of one length, starting at the first record.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Arrivals {
    /// The length of a bin.
    pub bin_ms: u64,
    /// The number of bins that lie completely within the duration, including empty ones.
    pub bins: u64,
    /// The mean count of these bins.
    pub mean_requests: Option<f64>,
    /// The highest count of any bin, including the incomplete last one, per second.
    pub peak_iops: Option<f64>,
    /// The variance over the mean of the counts of the complete bins (index of dispersion): 1 for a
    /// Poisson process at every scale, growing with the scale for bursty arrivals. Needs two bins.
    pub dispersion: Option<f64>,
}

/// The lengths of sequential runs; a request that continues no other starts its own run.
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
    /// The number of requests that do not start where the previous one ended.
    pub count: u64,
    /// The share of distances of zero: the sequential share.
    pub zero_share: Option<f64>,
    /// Quantiles of the distances other than zero, in either direction.
    pub p10_bytes: Option<u64>,
    #[allow(missing_docs)]
    pub p50_bytes: Option<u64>,
    #[allow(missing_docs)]
    pub p90_bytes: Option<u64>,
    /// Distances other than zero by powers of two, ascending, without empty buckets.
    pub histogram: Vec<SeekBucket>,
}

/// Seeks over at least `from_bytes` and less than twice that.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SeekBucket {
    /// A power of two.
    pub from_bytes: u64,
    /// Towards higher addresses.
    pub forward: u64,
    /// Towards lower addresses.
    pub backward: u64,
}

/// Latencies as recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// The share of this direction's requests that have a recorded latency.
    pub measured_share: Option<f64>,
    #[allow(missing_docs)]
    pub mean_ms: Option<f64>,
    #[allow(missing_docs)]
    pub p50_ms: Option<f64>,
    #[allow(missing_docs)]
    pub p99_ms: Option<f64>,
}

/// The number of requests between arrival and completion over time, among those with a recorded
/// latency.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Concurrency {
    /// The average over time, from the first arrival to the last completion.
    pub mean_outstanding: Option<f64>,
    /// The highest number; counted up to 1,048,576.
    pub max_outstanding: Option<u64>,
}

/// The streams with most bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ByStream {
    /// Streams with data requests, shown or not.
    pub total: u64,
    /// Up to 20 streams, in descending order of bytes read and written.
    pub rows: Vec<StreamRow>,
    /// All other streams together, if there are any.
    pub other: Option<StreamRow>,
}

/// The data requests of one stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct StreamRow {
    pub label: String,
    pub requests: u64,
    pub reads: u64,
    pub writes: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    /// The share of requests that start where the stream's previous one of the same direction and
    /// volume ended.
    pub sequential_share: Option<f64>,
    pub mean_kib: Option<f64>,
    /// Its share of the trace's requests.
    pub request_share: Option<f64>,
    /// Its share of the trace's bytes.
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
    /// The same as [`Description::sequential_share`].
    pub sequential_share: Option<f64>,
    pub mean_kib: Option<f64>,
    /// Its share of the trace's requests.
    pub request_share: Option<f64>,
    /// The same as [`Description::footprint_bytes`].
    pub footprint_bytes: u64,
    /// The highest byte read or written, plus one: the volume is at least this large.
    pub extent_bytes: u64,
}
