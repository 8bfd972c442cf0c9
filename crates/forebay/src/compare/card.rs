//! The card: every figure of both traces; those of the first have sampling intervals.

use serde::Serialize;

use super::bounds::BoundCheck;
use super::latency::LatencyAnswer;
use super::measure::DeviationKind;
use super::verdict::Verdict;

/// The similarity of two traces.
#[derive(Clone, Debug, Serialize)]
pub struct Card {
    /// The first trace, the reference.
    pub a: CardTrace,
    /// The second trace, which is compared with it.
    pub b: CardTrace,
    /// The overall result in a sentence, and the result of each aspect.
    pub verdict: Verdict,
    /// The paper's features.
    pub features: Vec<Feature>,
    /// The distances of whole distributions.
    pub distances: Vec<Distance>,
    /// Burstiness by time scale; empty if a trace has no times.
    pub dispersion: Vec<Dispersion>,
    /// The block size of the miss-ratio curves.
    pub mrc_block_bytes: u64,
    /// The mean absolute difference of the LRU miss ratios, over the sizes of [`Card::mrc`].
    pub mrc_mean_error: f64,
    /// The mean absolute difference between the first trace and its resamples that a share `level`
    /// of them stays below.
    pub mrc_mean_error_itself: f64,
    /// The miss-ratio curves, at sizes that grow by an eighth of a doubling up to the larger
    /// footprint.
    pub mrc: Vec<MissRatio>,
    /// The distribution of request locations over the disk.
    pub heat: Heat,
    /// The response times on each device; empty if a trace has no times.
    pub responses: Vec<Response>,
    /// How the recorded latencies differ; none if a trace has no recorded latencies.
    pub latencies: Option<LatencyAnswer>,
    /// Comparisons that could not be made, with the reason.
    pub left_out: Vec<String>,
    /// Cautions.
    pub cautions: Vec<String>,
    /// The share of resamples that an interval covers.
    pub level: f64,
    /// The number of resamples, drawn from blocks of the first trace's time.
    pub resamples: usize,
    /// The seed of the resamples.
    pub seed: u64,
    /// The distributions for the report's charts.
    #[serde(skip)]
    pub pictures: Pictures,
}

/// A description of one trace.
#[derive(Clone, Debug, Serialize)]
pub struct CardTrace {
    /// Its path.
    pub trace: String,
    /// The number of reads and writes.
    pub requests: u64,
    /// The time from its first record to its last.
    pub duration_s: f64,
    /// Whether it has recorded latencies.
    pub has_latencies: bool,
    /// The number of distinct blocks in the miss-ratio curve.
    pub footprint_blocks: u64,
    /// Miss ratios and footprint are based on one in this many blocks: 1 if they are exact.
    pub sampled_one_in: u64,
}

/// A figure of both traces.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantity {
    /// The first trace's figure.
    pub a: f64,
    /// The second trace's figure.
    pub b: f64,
    /// The deviation of the second figure from the first; none if undefined.
    pub deviation: Option<f64>,
    /// The lower end of the first figure's sampling interval.
    pub a_low: f64,
    /// The upper end of that interval.
    pub a_high: f64,
}

impl Quantity {
    /// Whether the second figure lies within the first one's sampling interval.
    pub fn is_within_interval(&self) -> bool {
        self.a_low <= self.b && self.b <= self.a_high
    }
}

/// A feature.
#[derive(Clone, Debug, Serialize)]
pub struct Feature {
    /// The feature's name; its last word (before a colon, if several are listed) is the unit.
    pub name: String,
    /// How its deviation is measured.
    pub deviation_kind: DeviationKind,
    /// The figures of both traces.
    #[serde(flatten)]
    pub quantity: Quantity,
}

/// The distance between two distributions. A share `level` of the first trace's resamples stays
/// below the figures that end in `_itself`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Distance {
    /// The name of the distribution, with the unit as its last word.
    pub of: &'static str,
    /// The Kolmogorov-Smirnov distance: the greatest difference of the cumulative shares.
    pub ks: f64,
    /// The Kolmogorov-Smirnov distance of the first trace from itself.
    pub ks_itself: f64,
    /// The Wasserstein-1 distance, in the distribution's unit.
    pub wasserstein: f64,
    /// The Wasserstein-1 distance divided by the first trace's mean; none if that is 0.
    pub wasserstein_over_mean: Option<f64>,
    /// The same ratio for the first trace and itself.
    pub wasserstein_over_mean_itself: Option<f64>,
}

/// The index of dispersion for counts: variance over mean of the requests in bins of one length.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Dispersion {
    /// The length of the bins.
    pub bin_ms: u64,
    /// The figures of both traces, with their relative deviation.
    #[serde(flatten)]
    pub quantity: Quantity,
}

/// The miss ratios of a cache of one size.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MissRatio {
    /// The size of the cache.
    pub size_mib: f64,
    /// The miss ratio on the first trace.
    pub a: f64,
    /// The miss ratio on the second trace.
    pub b: f64,
}

/// The shares of requests in ranges of the addresses that either trace uses. Each range has an
/// equal share of these addresses, to a MiB.
#[derive(Clone, Debug, Serialize)]
pub struct Heat {
    /// The used bytes in a range.
    pub range_bytes: u64,
    /// The share of requests that fall into different ranges.
    pub total_variation: f64,
    /// The total variation of the first trace from itself.
    pub total_variation_itself: f64,
    /// The shares of the first trace.
    pub a: Vec<f64>,
    /// The shares of the second trace.
    pub b: Vec<f64>,
}

/// Response times, from arrival to completion, on a device in open replay.
#[derive(Clone, Debug, Serialize)]
pub struct Response {
    /// The device.
    pub device: String,
    /// The scheduler.
    pub policy: &'static str,
    /// The share of the run in which the device was busy, for the first trace.
    pub a_busy_share: f64,
    /// The share of the run in which the device was busy, for the second trace.
    pub b_busy_share: f64,
    /// Whether the first trace's requests arrive faster than they can be served: response times
    /// then only measure the overload.
    pub a_overloaded: bool,
    /// Whether the second trace's requests arrive faster than they can be served.
    pub b_overloaded: bool,
    /// The mean response time.
    pub mean_ms: Quantity,
    /// The median response time.
    pub p50_ms: Quantity,
    /// The 90th percentile.
    pub p90_ms: Quantity,
    /// The 99th percentile.
    pub p99_ms: Quantity,
    /// The 99.9th percentile.
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

/// The cumulative distributions of both traces: (value, share).
#[derive(Clone, Debug, Default)]
pub struct Pictures {
    /// Sizes in KiB.
    pub sizes: [Vec<(f64, f64)>; 2],
    /// Inter-arrival times in milliseconds.
    pub gaps: [Vec<(f64, f64)>; 2],
    /// Response times in milliseconds, for each device.
    pub responses: Vec<[Vec<(f64, f64)>; 2]>,
}
