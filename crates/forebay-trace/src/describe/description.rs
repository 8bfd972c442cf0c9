//! The figures of a description, as they are printed and serialized.
//!
//! Unless stated otherwise, figures cover *data requests*: reads and writes of at least one byte. A
//! share is between 0 and 1. A figure that is undefined for a trace, such as a mean without values,
//! is `None` (`null` in JSON). Quantiles are at most 0.1 % below the nearest-rank value, and exact
//! for sizes of whole KiB up to 2 MiB. Counts, sums, means and maxima are exact.

use serde::Serialize;

use super::by_thread::rows::ByThread;
use crate::RunStart;
use crate::streams::StreamBy;

/// The description of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Description {
    /// The name of the trace's format.
    pub format: String,
    /// The number of records in the trace, of every kind.
    pub records: u64,
    /// The number of data requests.
    pub requests: u64,
    /// The number of reads among the data requests.
    pub reads: u64,
    /// The number of writes among the data requests.
    pub writes: u64,
    /// The number of cache flushes, either separate or before another request (preflush).
    pub flushes: u64,
    /// The number of trims (discards).
    pub trims: u64,
    /// The number of bytes read.
    pub read_bytes: u64,
    /// The number of bytes written.
    pub write_bytes: u64,
    /// The number of bytes trimmed.
    pub trim_bytes: u64,
    /// The time from the first record to the last arrival.
    pub duration_s: f64,
    /// The duration without gaps in seconds, if one or two gaps are nearly the whole trace. Rates
    /// are then those outside the gaps.
    #[serde(skip)]
    pub without_gaps_s: Option<f64>,
    /// Data requests per second of the duration, or of the time outside gaps if gaps are nearly the
    /// whole trace.
    pub mean_iops: Option<f64>,
    /// The number of bytes read and written, divided by the same duration.
    pub mean_bytes_per_s: Option<f64>,
    /// The definition of a stream.
    pub stream_by: StreamBy,
    /// The number of streams with data requests. All write-back workers of a kernel form one stream.
    pub streams: u64,
    /// The number of threads with data requests, or 0 if the source does not identify threads.
    pub threads: u64,
    /// The number of processes with data requests, or 0 if the source does not identify processes.
    pub processes: u64,
    /// The number of volumes with data requests.
    pub volumes: u64,
    /// The size of all distinct 512-byte sectors that are read or written.
    pub footprint_bytes: u64,
    /// Whether the footprint is exact. It is if at most 458,752 aligned regions of 2 MiB are
    /// touched (250 to 310 MB of memory, or 962 GB of disk if dense). Otherwise, it is estimated
    /// from a random sample of regions.
    pub footprint_exact: bool,
    /// The relative standard error of the footprint, estimated from the sample, or 0 if the
    /// footprint is exact.
    pub footprint_error_share: f64,
    /// The share of requests that start where the previous request on their volume ended, among
    /// those that have a previous request.
    pub sequential_share: Option<f64>,
    /// The share of requests that start where the previous request of their stream, direction and
    /// volume ended.
    pub sequential_share_by_stream: Option<f64>,
    /// The same share by thread, with write-back workers separate. This is what a scheduler that
    /// distinguishes threads sees.
    pub sequential_share_by_thread: Option<f64>,
    /// The share of written bytes that came from write-back workers.
    pub write_back_share: Option<f64>,
    /// The share of requests of at most 4 KiB.
    pub small_request_share: Option<f64>,
    /// The share of bytes in requests of at least 256 KiB.
    pub large_request_byte_share: Option<f64>,
    /// The number of rows whose request could not be represented.
    pub rows_skipped: u64,
    /// The number of rows that arrived too late to be sorted, so that their times were raised to
    /// keep the order.
    pub rows_late: u64,
    /// The first places where the clock goes back, as if another recording began there.
    pub run_starts: Vec<RunStart>,
    /// Notes for users about how the trace was read.
    pub warnings: Vec<String>,
    /// The sizes of reads.
    pub read_size: Sizes,
    /// The sizes of writes.
    pub write_size: Sizes,
    /// The times between the arrivals of consecutive data requests.
    pub inter_arrival: InterArrival,
    /// The numbers of arrivals at several time scales.
    pub arrivals: Vec<Arrivals>,
    /// Runs on a volume: sequences of requests, each of which starts where the previous one ended.
    pub runs: Runs,
    /// Runs within a stream, direction and volume, as the stream intended them.
    pub stream_runs: Runs,
    /// The distances from the end of a request on a volume to the start of the next.
    pub seeks: Seeks,
    /// The latencies of reads.
    pub read_latency: Latency,
    /// The latencies of writes.
    pub write_latency: Latency,
    /// The number of outstanding requests over time.
    pub concurrency: Concurrency,
    /// The figures of each stream.
    pub by_stream: ByStream,
    /// The volumes with data requests, in the order of the dictionary.
    pub by_volume: Vec<VolumeRow>,
    /// The figures of each thread and of types of threads, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_thread: Option<ByThread>,
}

/// The distribution of request sizes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Sizes {
    pub mean_kib: Option<f64>,
    pub p50_kib: Option<f64>,
    pub p90_kib: Option<f64>,
    pub p99_kib: Option<f64>,
    pub max_kib: Option<f64>,
}

/// The distribution of times between arrivals.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct InterArrival {
    pub mean_ms: Option<f64>,
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub max_ms: Option<f64>,
    /// The standard deviation divided by the mean: 0 for a constant rate, 1 for a Poisson process.
    pub variation: Option<f64>,
}

/// The numbers of arrivals in consecutive bins of equal length, starting at the first record.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Arrivals {
    /// The length of a bin.
    pub bin_ms: u64,
    /// The number of bins that lie completely within the trace, including empty ones.
    pub bins: u64,
    /// The mean number of requests in complete bins.
    pub mean_requests: Option<f64>,
    /// The highest number of requests in any bin, including the incomplete last one, as a rate per
    /// second.
    pub peak_iops: Option<f64>,
    /// The variance divided by the mean of the numbers in complete bins (index of dispersion): 1 at
    /// every scale for a Poisson process, and growing with the scale for bursty arrivals. At least
    /// two bins are required.
    pub dispersion: Option<f64>,
}

/// The lengths of sequential runs. A request that does not continue another one begins a new run.
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

/// The distances from the end of a request to the start of the next on the same volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Seeks {
    /// The number of requests that do not start where the previous one ended.
    pub count: u64,
    /// The share of requests with a distance of zero, which is the sequential share.
    pub zero_share: Option<f64>,
    /// Quantiles of the distances other than zero, regardless of direction.
    pub p10_bytes: Option<u64>,
    #[allow(missing_docs)]
    pub p50_bytes: Option<u64>,
    #[allow(missing_docs)]
    pub p90_bytes: Option<u64>,
    /// The number of distances other than zero by powers of two, in ascending order, without empty
    /// buckets.
    pub histogram: Vec<SeekBucket>,
}

/// The number of seeks over at least `from_bytes` and less than twice that distance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SeekBucket {
    /// The lower end of the bucket, a power of two.
    pub from_bytes: u64,
    /// The number of seeks towards higher addresses.
    pub forward: u64,
    /// The number of seeks towards lower addresses.
    pub backward: u64,
}

/// The distribution of recorded latencies.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// The share of requests in this direction that have a recorded latency.
    pub measured_share: Option<f64>,
    #[allow(missing_docs)]
    pub mean_ms: Option<f64>,
    #[allow(missing_docs)]
    pub p50_ms: Option<f64>,
    #[allow(missing_docs)]
    pub p99_ms: Option<f64>,
}

/// The number of outstanding requests over time, among those with a recorded latency.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Concurrency {
    /// The average over the time from the first arrival to the last completion.
    pub mean_outstanding: Option<f64>,
    /// The highest number, which is counted up to 1,048,576.
    pub max_outstanding: Option<u64>,
}

/// The figures of the streams with the most bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ByStream {
    /// The number of streams with data requests, shown or not.
    pub total: u64,
    /// Up to 20 streams, in descending order of bytes read and written.
    pub rows: Vec<StreamRow>,
    /// The sum of all other streams, if there are any.
    pub other: Option<StreamRow>,
}

/// The data requests of a stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct StreamRow {
    pub label: String,
    pub requests: u64,
    pub reads: u64,
    pub writes: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    /// The share of requests that start where the stream's previous request in the same direction
    /// on the same volume ended.
    pub sequential_share: Option<f64>,
    pub mean_kib: Option<f64>,
    /// The stream's share of all requests.
    pub request_share: Option<f64>,
    /// The stream's share of all bytes.
    pub byte_share: Option<f64>,
}

/// The data requests on a volume.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct VolumeRow {
    pub label: String,
    pub requests: u64,
    pub reads: u64,
    pub writes: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    /// Defined like [`Description::sequential_share`].
    pub sequential_share: Option<f64>,
    pub mean_kib: Option<f64>,
    /// The volume's share of all requests.
    pub request_share: Option<f64>,
    /// Defined like [`Description::footprint_bytes`].
    pub footprint_bytes: u64,
    /// The highest byte read or written, plus one. The volume is at least this large.
    pub extent_bytes: u64,
}
