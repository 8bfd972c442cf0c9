//! How the recorded latencies of two traces differ.

use serde::Serialize;

use super::super::bounds::BoundCheck;

/// Whether latencies rose or fell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencyChange {
    /// Slower by 10 % or more, and beyond chance.
    Slower,
    /// Faster by 10 % or more, and beyond chance.
    Faster,
    /// Slower in one figure and faster in another.
    Mixed,
    /// A difference of 10 % or more that may be chance.
    Unsure,
    /// No difference of 10 %.
    Same,
    /// Too few latencies to tell.
    TooFew,
}

/// What the requests of a group have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupKind {
    /// Nothing: all reads and writes.
    All,
    /// Reads, or writes.
    Operation,
    /// A class of sizes.
    Size,
    /// The name of the submitter.
    Name,
}

/// The comparison of recorded latencies.
#[derive(Clone, Debug, Serialize)]
pub struct LatencyAnswer {
    /// The answer in a sentence.
    pub text: String,
    /// Whether the second trace is slower or faster.
    pub change: LatencyChange,
    /// The groups that changed, if others did not: "reads of postgres".
    pub changed_for: Option<String>,
    /// The kind of group whose mix changed while no such group changed by itself.
    pub mix_of: Option<GroupKind>,
    /// The time in the second trace from which the change holds, if it is a step.
    pub since_s: Option<f64>,
    /// The share of the first trace's requests that have a recorded latency.
    pub a_known_share: f64,
    /// The share of the second trace's requests that have a recorded latency.
    pub b_known_share: f64,
    /// Whether both traces have the same requests over time, so that each block of time is compared
    /// with its counterpart.
    pub is_paired: bool,
    /// All requests first, then reads and writes, sizes, and names.
    pub groups: Vec<LatencyGroup>,
}

/// The latencies of a group of requests.
#[derive(Clone, Debug, Serialize)]
pub struct LatencyGroup {
    /// What the requests have in common.
    pub kind: GroupKind,
    /// The name of the group.
    pub group: String,
    /// The first trace's requests with a recorded latency.
    pub a_requests: u64,
    /// The second trace's requests with a recorded latency.
    pub b_requests: u64,
    /// Whether the group's latencies rose or fell: for all requests by all three figures, for
    /// others by the figure that changed for all.
    pub change: LatencyChange,
    /// The mean.
    pub mean_ms: LatencyFigure,
    /// The median.
    pub p50_ms: LatencyFigure,
    /// The 99th percentile.
    pub p99_ms: LatencyFigure,
}

/// A figure of both traces.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatencyFigure {
    /// The first trace's figure.
    pub a: f64,
    /// The second trace's figure.
    pub b: f64,
    /// The deviation of the second figure from the first; none if the first is 0 and the second is
    /// not.
    pub deviation: Option<f64>,
    /// The lower end of the deviation's interval, from resampling both traces; none where that was
    /// not done.
    pub deviation_low: Option<f64>,
    /// The upper end of that interval.
    pub deviation_high: Option<f64>,
}

impl LatencyAnswer {
    /// Returns the figures of all requests.
    pub fn all(&self) -> &LatencyGroup {
        &self.groups[0]
    }

    /// Checks the figures of all requests against their bounds.
    pub fn bound_checks(&self) -> Vec<BoundCheck> {
        let all = self.all();
        let figures = [("mean", all.mean_ms), ("p50", all.p50_ms), ("p99", all.p99_ms)];
        figures.map(|(what, figure)| BoundCheck::latency(what, figure)).into()
    }
}
