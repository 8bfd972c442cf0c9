//! The figures of threads, as they are printed and serialized.

use serde::Serialize;

use super::rules::{Rules, ThreadKind};

/// The description of threads: all of them together, their types, and those with the most requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ByThread {
    /// The length of the periods over which `fluctuation` is measured.
    pub period_s: f64,
    /// The number of complete periods in the trace.
    pub periods: u64,
    /// The bounds that define the types.
    pub rules: Rules,
    /// The number of threads with data requests.
    pub threads: u64,
    /// The figures of all threads together.
    pub all: Figures,
    /// The types of threads. Those with the most requests come first.
    pub types: Vec<TypeRow>,
    /// The threads with the most requests.
    pub rows: Vec<ThreadRow>,
    /// The number of threads that have a type but no row.
    pub threads_hidden: u64,
    /// The number of threads that appeared after the first 4096, which have neither a type nor a
    /// row.
    pub threads_beyond: u64,
    /// The figures of the threads in `threads_beyond` together.
    pub beyond: Option<Figures>,
}

/// The threads of one type together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TypeRow {
    /// The name of the type in the style of the paper: `Data #0`.
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
    /// The label of the thread, as in the description's streams.
    pub label: String,
    /// The label of the thread's type.
    #[serde(rename = "type")]
    pub of_type: String,
    #[allow(missing_docs)]
    #[serde(flatten)]
    pub figures: Figures,
}

/// Figures of data requests. Figures that are undefined, such as a mean without values, are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    #[allow(missing_docs)]
    pub requests: u64,
    #[allow(missing_docs)]
    pub reads: u64,
    #[allow(missing_docs)]
    pub writes: u64,
    /// The paper's thread weight: the share of all requests in the trace.
    pub weight_share: Option<f64>,
    /// Requests per second of the trace's duration.
    pub mean_iops: Option<f64>,
    /// Bytes per second of the trace's duration.
    pub mean_bytes_per_s: Option<f64>,
    /// The time from the first to the last request.
    pub active_s: f64,
    /// The mean length of a request.
    pub mean_kib: Option<f64>,
    /// The mean time between consecutive requests of this thread or group.
    pub inter_arrival_mean_ms: Option<f64>,
    /// The standard deviation of these times divided by their mean. It is unknown for several
    /// threads of one type.
    pub inter_arrival_variation: Option<f64>,
    /// The number of reads divided by the number of writes.
    pub read_write_ratio: Option<f64>,
    /// The share of requests that start where their thread's previous request in the same direction
    /// on the same volume ended.
    pub sequential_share: Option<f64>,
    /// The share of requests that begin in each quarter of the addresses that any thread reads or
    /// writes (to a MiB), with the volumes joined end to end. The precision is 1/64 of the thread's
    /// addresses on a volume.
    pub quarter_shares: Option<[f64; 4]>,
    /// The standard deviation of the number of requests per complete period, minus that of random
    /// arrivals, divided by the mean. It is 0 for steady arrivals.
    pub fluctuation: Option<f64>,
    /// The number of requests in each period, including the incomplete last one.
    pub activity_requests: Vec<u64>,
    /// The mean recorded latency.
    pub latency_mean_ms: Option<f64>,
    /// The share of requests with a recorded latency.
    pub latency_measured_share: Option<f64>,
}
