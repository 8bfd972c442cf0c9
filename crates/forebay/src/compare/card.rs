//! The card, which is the result of `compare`: every figure of both traces. The first trace's
//! figures have sampling intervals.

use serde::Serialize;

use super::{BoundCheck, DeviationKind, LatencyAnswer, Verdict};

/// The result of comparing two traces.
#[derive(Clone, Debug, Serialize)]
pub struct Card {
    /// The first trace, which is the reference.
    pub a: CardTrace,
    /// The second trace, which is compared with the reference.
    pub b: CardTrace,
    /// Whether the second trace may replace the first, overall and in each aspect.
    pub verdict: Verdict,
    /// The features that the paper compares.
    pub features: Vec<Feature>,
    /// Distances between the two traces' distributions, of request sizes and the like.
    pub distances: Vec<Distance>,
    /// The burstiness of arrivals at several time scales; empty if a trace has no times.
    pub dispersion: Vec<Dispersion>,
    /// The block size of the miss-ratio curves, in bytes.
    pub mrc_block_bytes: u64,
    /// The mean absolute difference of the LRU miss ratios over the cache sizes in [`Card::mrc`].
    pub mrc_mean_error: f64,
    /// The bound below which, with probability `level`, the mean difference of a second recording
    /// like the first trace stays.
    pub mrc_mean_error_itself: f64,
    /// The miss-ratio curves, at eight cache sizes per doubling, up to the larger footprint.
    pub mrc: Vec<MissRatio>,
    /// The distribution of request locations over the disk.
    pub heat: Heat,
    /// The response times on each simulated device; empty if a trace has no times.
    pub responses: Vec<Response>,
    /// How the recorded latencies of the two traces differ; `None` if either trace has none.
    pub latencies: Option<LatencyAnswer>,
    /// Comparisons that were left out, each with the reason.
    pub left_out: Vec<String>,
    /// Cautions about the results, one sentence each.
    pub cautions: Vec<String>,
    /// The share of resamples that an interval covers, such as 0.95.
    pub level: f64,
    /// The number of resamples drawn from blocks of the first trace's time.
    pub resamples: usize,
    /// The seed for drawing resamples.
    pub seed: u64,
    /// The distributions plotted in the report.
    #[serde(skip)]
    pub pictures: Pictures,
}

/// A description of one trace.
#[derive(Clone, Debug, Serialize)]
pub struct CardTrace {
    /// The path of the trace.
    pub trace: String,
    /// The number of reads and writes in the trace.
    pub requests: u64,
    /// The time from the trace's first record to its last, in seconds.
    pub duration_s: f64,
    /// Whether the trace has recorded latencies.
    pub has_latencies: bool,
    /// The number of distinct blocks that the trace accesses.
    pub footprint_blocks: u64,
    /// The miss ratios and the footprint are based on one in this many blocks; 1 means that they
    /// are exact.
    pub sampled_one_in: u64,
}

/// A figure of both traces, with its deviation and sampling interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantity {
    /// The first trace's figure.
    pub a: f64,
    /// The second trace's figure.
    pub b: f64,
    /// The deviation of the second trace's figure from the first's; `None` if undefined.
    pub deviation: Option<f64>,
    /// The lower end of the interval in which a second recording like the first trace has its
    /// figure.
    pub a_low: f64,
    /// The upper end of that interval.
    pub a_high: f64,
}

/// A feature of the load, such as the mean request size, for both traces.
#[derive(Clone, Debug, Serialize)]
pub struct Feature {
    /// The feature's name. Its last word is the unit (the last word before the colon, if the name
    /// has one).
    pub name: String,
    /// How the feature's deviation is measured: relatively or in points.
    pub deviation_kind: DeviationKind,
    /// The feature's values in both traces.
    #[serde(flatten)]
    pub quantity: Quantity,
}

/// The distances between the traces' distributions of one quantity. Figures that end in `_itself`
/// are what a second recording like the first trace stays below, with probability `level`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Distance {
    /// The quantity, with the unit as its last word.
    pub of: &'static str,
    /// The Kolmogorov-Smirnov distance: the largest difference of the cumulative distributions.
    pub ks: f64,
    /// The Kolmogorov-Smirnov distance to expect of a second recording like the first trace.
    pub ks_itself: f64,
    /// The Wasserstein-1 distance, in the unit of the quantity.
    pub wasserstein: f64,
    /// The Wasserstein-1 distance divided by the first trace's mean; `None` if the mean is 0.
    pub wasserstein_over_mean: Option<f64>,
    /// The Wasserstein-1 distance to expect of a second recording like the first trace, divided by
    /// the first trace's mean.
    pub wasserstein_over_mean_itself: Option<f64>,
}

/// The index of dispersion for counts: the variance of the number of requests in bins of one
/// length, divided by its mean.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Dispersion {
    /// The length of the bins in milliseconds.
    pub bin_ms: u64,
    /// The number of bins in the trace that has fewer.
    #[serde(skip)]
    pub(super) bins: u64,
    /// The index of both traces, with their relative deviation.
    #[serde(flatten)]
    pub quantity: Quantity,
}

/// The miss ratios of both traces in a cache of one size.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MissRatio {
    /// The cache size in MiB.
    pub size_mib: f64,
    /// The first trace's miss ratio.
    pub a: f64,
    /// The second trace's miss ratio.
    pub b: f64,
}

/// How both traces' requests are distributed over the addresses that either trace uses. These
/// addresses are divided into ranges of equal size, to a MiB.
#[derive(Clone, Debug, Serialize)]
pub struct Heat {
    /// The number of used bytes in each range.
    pub range_bytes: u64,
    /// The total variation: the share of requests that would have to move to another range for the
    /// distributions to agree.
    pub total_variation: f64,
    /// The total variation to expect of a second recording like the first trace.
    pub total_variation_itself: f64,
    /// The total variation to expect if requests are independent.
    #[serde(skip)]
    pub(super) by_counting: f64,
    /// Whether both traces have the same volumes, so that positions can be compared.
    pub comparable: bool,
    /// The first trace's share of requests in each range.
    pub a: Vec<f64>,
    /// The second trace's share of requests in each range.
    pub b: Vec<f64>,
}

/// Both traces' response times (from arrival to completion) on a simulated device in open replay.
#[derive(Clone, Debug, Serialize)]
pub struct Response {
    /// The name of the simulated device.
    pub device: String,
    /// The scheduler that was used on the device.
    pub policy: &'static str,
    /// The share of the run in which the device was busy, for the first trace.
    pub a_busy_share: f64,
    /// The share of the run in which the device was busy, for the second trace.
    pub b_busy_share: f64,
    /// Whether the first trace's requests arrive faster than the device can serve them. Response
    /// times then only measure the overload.
    pub a_overloaded: bool,
    /// Whether the second trace's requests arrive faster than the device can serve them.
    pub b_overloaded: bool,
    /// The mean response time of each trace.
    pub mean_ms: Quantity,
    /// The median response time of each trace.
    pub p50_ms: Quantity,
    /// The 90th percentile of response times.
    pub p90_ms: Quantity,
    /// The 99th percentile of response times.
    pub p99_ms: Quantity,
    /// The 99.9th percentile of response times.
    pub p999_ms: Quantity,
}

impl Response {
    /// Returns each figure with its name, and its bound check if the verdict uses it.
    pub fn quantities(&self) -> [(&'static str, &Quantity, Option<BoundCheck>); 5] {
        [
            ("mean_ms", &self.mean_ms, Some(self.mean_check())),
            ("p50_ms", &self.p50_ms, None),
            ("p90_ms", &self.p90_ms, None),
            ("p99_ms", &self.p99_ms, Some(self.p99_check())),
            ("p999_ms", &self.p999_ms, None),
        ]
    }
}

/// The cumulative distributions of both traces as points (value, share), for the report's charts.
#[derive(Clone, Debug, Default)]
pub struct Pictures {
    /// The distribution of request sizes in KiB.
    pub sizes: [Vec<(f64, f64)>; 2],
    /// The distribution of inter-arrival times in milliseconds.
    pub gaps: [Vec<(f64, f64)>; 2],
    /// The distribution of response times in milliseconds, for each device.
    pub responses: Vec<[Vec<(f64, f64)>; 2]>,
}
