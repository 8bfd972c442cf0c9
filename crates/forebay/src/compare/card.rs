//! The card: every figure of both traces, the first one's with its sampling interval.

use serde::Serialize;

use super::bounds::BoundCheck;
use super::measure::DeviationKind;
use super::verdict::Verdict;

/// How alike two traces are.
#[derive(Clone, Debug, Serialize)]
pub struct Card {
    /// The first trace, which is the measure.
    pub a: CardTrace,
    /// The second, which is held against it.
    pub b: CardTrace,
    /// The answer in a sentence, and each aspect of it.
    pub verdict: Verdict,
    /// The paper's features.
    pub features: Vec<Feature>,
    /// Of whole distributions.
    pub distances: Vec<Distance>,
    /// Burstiness by time scale; empty without times.
    pub dispersion: Vec<Dispersion>,
    /// Bytes of a block of the miss-ratio curves.
    pub mrc_block_bytes: u64,
    /// Mean absolute difference of the miss ratios of LRU caches, over the sizes of [`Card::mrc`].
    pub mrc_mean_error: f64,
    /// The same of the first trace and its resamples: `level` of them stay below.
    pub mrc_mean_error_itself: f64,
    /// The curves, at sizes that grow by an eighth of a doubling up to the larger footprint.
    pub mrc: Vec<MissRatio>,
    /// Where on the disk requests begin.
    pub heat: Heat,
    /// On each device; empty without times.
    pub responses: Vec<Response>,
    /// What could not be compared, and why.
    pub left_out: Vec<String>,
    /// What else is to be kept in mind.
    pub cautions: Vec<String>,
    /// Share of the resamples that an interval holds.
    pub level: f64,
    /// Resamples drawn of blocks of the first trace's time.
    pub resamples: usize,
    /// What made them.
    pub seed: u64,
    /// Distributions for the report.
    #[serde(skip)]
    pub pictures: Pictures,
}

/// One of both traces.
#[derive(Clone, Debug, Serialize)]
pub struct CardTrace {
    /// Its path.
    pub trace: String,
    /// Reads and writes.
    pub requests: u64,
    /// From its first record to its last.
    pub duration_s: f64,
    /// Distinct blocks of the miss-ratio curve.
    pub footprint_blocks: u64,
    /// One in so many of them was looked at for miss ratios and footprint: 1 if they are exact.
    pub sampled_one_in: u64,
}

/// A figure of both traces.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantity {
    /// Of the first.
    pub a: f64,
    /// Of the second.
    pub b: f64,
    /// How far the second is from the first; none where it has no measure.
    pub deviation: Option<f64>,
    /// Lower end of the first one's sampling interval.
    pub a_low: f64,
    /// Upper end.
    pub a_high: f64,
}

impl Quantity {
    /// Whether the second figure is one that the first trace itself might have had.
    pub fn is_within_interval(&self) -> bool {
        self.a_low <= self.b && self.b <= self.a_high
    }
}

/// A feature.
#[derive(Clone, Debug, Serialize)]
pub struct Feature {
    /// What: the unit is its last word, before a colon where one of several is named.
    pub name: String,
    /// How its deviation is counted.
    pub deviation_kind: DeviationKind,
    /// Its figures.
    #[serde(flatten)]
    pub quantity: Quantity,
}

/// How far apart two distributions are; `_itself` is what `level` of the resamples of the first
/// trace stay below.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Distance {
    /// Of what, its unit last.
    pub of: &'static str,
    /// Kolmogorov-Smirnov: greatest difference of the shares up to a value.
    pub ks: f64,
    /// The same of the first trace and itself.
    pub ks_itself: f64,
    /// Wasserstein-1, in the unit.
    pub wasserstein: f64,
    /// The same over the first trace's mean; none where that is 0.
    pub wasserstein_over_mean: Option<f64>,
    /// The same of the first trace and itself.
    pub wasserstein_over_mean_itself: Option<f64>,
}

/// Index of dispersion for counts: variance over mean of the requests in bins of a length.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Dispersion {
    /// The bins' length.
    pub bin_ms: u64,
    /// The figures; relative deviation.
    #[serde(flatten)]
    pub quantity: Quantity,
}

/// A cache of one size.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MissRatio {
    /// Its size.
    pub size_mib: f64,
    /// Miss ratio on the first trace.
    pub a: f64,
    /// And on the second.
    pub b: f64,
}

/// Shares of the requests in ranges that each have an equal share of the ground that either trace uses, to a MiB.
#[derive(Clone, Debug, Serialize)]
pub struct Heat {
    /// Bytes of that ground in a range.
    pub range_bytes: u64,
    /// Share of the requests that fall elsewhere.
    pub total_variation: f64,
    /// The same of the first trace and itself.
    pub total_variation_itself: f64,
    /// Of the first trace.
    pub a: Vec<f64>,
    /// Of the second.
    pub b: Vec<f64>,
}

/// Times from arrival to completion on a device, in open replay.
#[derive(Clone, Debug, Serialize)]
pub struct Response {
    /// The device.
    pub device: String,
    /// Under which scheduler.
    pub policy: &'static str,
    /// Share of the run in which the device was at work.
    pub a_busy_share: f64,
    /// The same of the second trace.
    pub b_busy_share: f64,
    /// Whether requests come faster than they can be served: responses then measure the load alone.
    pub a_overloaded: bool,
    /// The same of the second trace.
    pub b_overloaded: bool,
    /// Mean.
    pub mean_ms: Quantity,
    /// What half of the requests do not exceed.
    pub p50_ms: Quantity,
    /// 90 %.
    pub p90_ms: Quantity,
    /// 99 %.
    pub p99_ms: Quantity,
    /// 99.9 %.
    pub p999_ms: Quantity,
}

impl Response {
    /// Each figure with its name, and against its bound if the verdict asks it.
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

/// Cumulative distributions of both traces: (value, share).
#[derive(Clone, Debug, Default)]
pub struct Pictures {
    /// Sizes in KiB.
    pub sizes: [Vec<(f64, f64)>; 2],
    /// Inter-arrival times in milliseconds.
    pub gaps: [Vec<(f64, f64)>; 2],
    /// Responses in milliseconds, for each device.
    pub responses: Vec<[Vec<(f64, f64)>; 2]>,
}
