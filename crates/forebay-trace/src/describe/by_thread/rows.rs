//! The figures of threads, as printed and serialized.

use serde::Serialize;

use super::rules::{Rules, ThreadKind};

/// The threads: all of them together, their types, and the threads with the most requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ByThread {
    /// The length of the periods over which `fluctuation` is measured.
    pub period_s: f64,
    /// The number of complete periods in the trace.
    pub periods: u64,
    /// The bounds that define the types.
    pub rules: Rules,
    /// Threads with data requests.
    pub threads: u64,
    /// All threads together.
    pub all: Figures,
    /// The threads by kind, the kind with most requests first.
    pub types: Vec<TypeRow>,
    /// The threads with most requests.
    pub rows: Vec<ThreadRow>,
    /// Threads that have a type but no row.
    pub threads_hidden: u64,
    /// Threads that appeared after the first 4096, which have neither.
    pub threads_beyond: u64,
    /// The threads of `threads_beyond` together.
    pub beyond: Option<Figures>,
}

/// The threads of one kind together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TypeRow {
    /// The name in the style of the paper: `Data #0`.
    pub label: String,
    #[allow(missing_docs)]
    #[serde(flatten)]
    pub kind: ThreadKind,
    /// The number of threads.
    pub threads: u64,
    #[allow(missing_docs)]
    #[serde(flatten)]
    pub figures: Figures,
}

/// One thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadRow {
    /// The label, as in the streams of the description.
    pub label: String,
    /// The label of its type.
    #[serde(rename = "type")]
    pub of_type: String,
    #[allow(missing_docs)]
    #[serde(flatten)]
    pub figures: Figures,
}

/// Figures of data requests. Undefined figures (the mean of nothing) are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    #[allow(missing_docs)]
    pub requests: u64,
    #[allow(missing_docs)]
    pub reads: u64,
    #[allow(missing_docs)]
    pub writes: u64,
    /// The paper's thread weight: the share of the trace's requests.
    pub weight_share: Option<f64>,
    /// Requests per second of the trace's duration.
    pub mean_iops: Option<f64>,
    /// Bytes per second of the trace's duration.
    pub mean_bytes_per_s: Option<f64>,
    /// The time from its first request to its last.
    pub active_s: f64,
    /// The mean length of its requests.
    pub mean_kib: Option<f64>,
    /// The mean time between consecutive requests of this set.
    pub inter_arrival_mean_ms: Option<f64>,
    /// The standard deviation of these times over their mean; unknown for several threads of a
    /// type.
    pub inter_arrival_variation: Option<f64>,
    /// Reads over writes.
    pub read_write_ratio: Option<f64>,
    /// The share of requests that start where their thread's previous one with the same direction
    /// and volume ended.
    pub sequential_share: Option<f64>,
    /// The shares of requests that begin in each quarter of the addresses that any thread reads or
    /// writes (to a MiB), with all volumes end to end. Precise to 1/64 of the thread's addresses on
    /// a volume.
    pub quarter_shares: Option<[f64; 4]>,
    /// The standard deviation of the requests per complete period, minus that of random arrivals,
    /// over their mean: 0 for steady arrivals.
    pub fluctuation: Option<f64>,
    /// The requests per period, including the incomplete last one.
    pub activity_requests: Vec<u64>,
    /// Mean recorded latency.
    pub latency_mean_ms: Option<f64>,
    /// The share of requests with a recorded latency.
    pub latency_measured_share: Option<f64>,
}
