//! The figures of threads, as they are printed and serialised.

use serde::Serialize;

use super::rules::{Kind, Rules};

/// Threads: all of them, their types, and those with most requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ByThread {
    /// Length of the periods that `fluctuation` is taken over.
    pub period_s: f64,
    /// Whole ones in the trace.
    pub periods: u64,
    /// The bounds that types are told apart by.
    pub rules: Rules,
    /// Threads with data requests.
    pub threads: u64,
    /// All threads together.
    pub all: Figures,
    /// Threads by kind, that with most requests first.
    pub types: Vec<TypeRow>,
    /// The threads with most requests.
    pub rows: Vec<ThreadRow>,
    /// Threads that have a type and no row.
    pub threads_hidden: u64,
    /// Threads that came after the first 4096; they have neither.
    pub threads_beyond: u64,
    /// Those together.
    pub beyond: Option<Figures>,
}

/// Threads of one kind together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TypeRow {
    /// As the paper calls them: `Data #0`.
    pub label: String,
    #[allow(missing_docs)]
    #[serde(flatten)]
    pub kind: Kind,
    /// How many there are.
    pub threads: u64,
    #[allow(missing_docs)]
    #[serde(flatten)]
    pub figures: Figures,
}

/// One thread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThreadRow {
    /// As in the streams of the description.
    pub label: String,
    /// The label of its type.
    #[serde(rename = "type")]
    pub of_type: String,
    #[allow(missing_docs)]
    #[serde(flatten)]
    pub figures: Figures,
}

/// Figures of data requests. What is not defined (the mean of nothing) is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    #[allow(missing_docs)]
    pub requests: u64,
    #[allow(missing_docs)]
    pub reads: u64,
    #[allow(missing_docs)]
    pub writes: u64,
    /// The paper's thread weight: these requests among those of the trace.
    pub weight_share: Option<f64>,
    /// Requests per second of the trace's duration.
    pub mean_iops: Option<f64>,
    /// Bytes per second of the trace's duration.
    pub mean_bytes_per_s: Option<f64>,
    /// From its first request to its last.
    pub active_s: f64,
    /// Mean size.
    pub mean_kib: Option<f64>,
    /// Between one of these requests and the next.
    pub inter_arrival_mean_ms: Option<f64>,
    /// Standard deviation over mean; not known of several threads of a type.
    pub inter_arrival_variation: Option<f64>,
    /// Reads over writes.
    pub read_write_ratio: Option<f64>,
    /// Requests that start where their thread's previous one of the direction and volume ended.
    pub sequential_share: Option<f64>,
    /// Requests that begin in each quarter of the storage that any thread reads or writes (to a MiB), all volumes
    /// end to end. To within a 64th of what the thread uses of a volume.
    pub quarter_shares: Option<[f64; 4]>,
    /// Standard deviation of the requests of whole periods beyond that of chance arrivals, over their
    /// mean: 0 where they are steady.
    pub fluctuation: Option<f64>,
    /// Requests by period, the unfinished last one included.
    pub activity_requests: Vec<u64>,
    /// Mean recorded latency.
    pub latency_mean_ms: Option<f64>,
    /// Requests of which it was recorded.
    pub latency_measured_share: Option<f64>,
}
