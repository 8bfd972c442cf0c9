//! The result of comparing the recorded latencies of two traces.

use serde::Serialize;

use super::super::bounds::{BoundCheck, RELATIVE_MAX};
use crate::advise::judge::TOO_FEW;
use crate::quantities::seconds;

/// Whether latencies are higher or lower in the second trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LatencyChange {
    /// Latencies are at least 10 % higher, and not by chance.
    Slower,
    /// Latencies are at least 10 % lower, and not by chance.
    Faster,
    /// Latencies are higher in one figure or group and lower in another.
    Mixed,
    /// Latencies differ by at least 10 %, but it may be by chance.
    Unsure,
    /// Latencies differ by less than 10 %.
    Same,
    /// There are too few latencies for a conclusion.
    TooFew,
}

/// The property that the requests of a group have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupKind {
    /// All reads and writes.
    All,
    /// The operation: reads or writes.
    Operation,
    /// The size class of the requests.
    Size,
    /// The name of the process that submitted the requests.
    Name,
}

/// The result of comparing the recorded latencies of two traces.
#[derive(Clone, Debug, Serialize)]
pub struct LatencyAnswer {
    /// The result in one sentence.
    pub text: String,
    /// Whether latencies are higher or lower in the second trace.
    pub change: LatencyChange,
    /// The groups whose latencies changed, if those of other groups did not, as in "reads of
    /// postgres".
    pub changed_for: Option<String>,
    /// Set if the second trace has a different mix of groups of this kind, such as more slow
    /// writes, while hardly any single group changed.
    pub mix_of: Option<GroupKind>,
    /// When the change began, in seconds of the second trace, if it is sudden and not from the
    /// beginning.
    pub since_s: Option<f64>,
    /// When the change ended, in seconds of the second trace, if latencies suddenly returned to
    /// those of the first.
    pub until_s: Option<f64>,
    /// The latencies of all requests from `since_s` to `until_s`, if either is known. If the traces
    /// are paired, the first trace's figures are of the same blocks of time, else of the whole
    /// trace.
    pub in_span: Option<LatencyGroup>,
    /// The share of the first trace's requests that have a recorded latency.
    pub a_known_share: f64,
    /// The share of the second trace's requests that have a recorded latency.
    pub b_known_share: f64,
    /// Whether both traces have the same requests over time, so that each block of time can be
    /// compared with its counterpart.
    pub is_paired: bool,
    /// The groups: first all requests, then reads and writes, sizes, and names.
    pub groups: Vec<LatencyGroup>,
}

/// The recorded latencies of a group of requests in both traces.
#[derive(Clone, Debug, Serialize)]
pub struct LatencyGroup {
    /// The property that the group's requests have in common.
    pub kind: GroupKind,
    /// The group's name, such as "reads" or "up to 4 KiB".
    pub group: String,
    /// The number of the group's requests with a recorded latency in the first trace.
    pub a_requests: u64,
    /// The number of the group's requests with a recorded latency in the second trace.
    pub b_requests: u64,
    /// Whether the group's latencies are higher or lower in the second trace. For all requests, all
    /// three figures decide; for other groups, the figure that changed for all requests, or all
    /// three if these changed in different directions.
    pub change: LatencyChange,
    /// The mean latency.
    pub mean_ms: LatencyFigure,
    /// The median latency.
    pub p50_ms: LatencyFigure,
    /// The 99th percentile of latencies.
    pub p99_ms: LatencyFigure,
}

/// A latency figure of both traces, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatencyFigure {
    /// The first trace's figure.
    pub a: f64,
    /// The second trace's figure.
    pub b: f64,
    /// The relative deviation of the second trace's figure from the first's; `None` if only the
    /// first is 0.
    pub deviation: Option<f64>,
    /// The lower end of the deviation's interval, from resampling both traces; `None` if they were
    /// not resampled.
    pub deviation_low: Option<f64>,
    /// The upper end of the deviation's interval; `None` if the traces were not resampled.
    pub deviation_high: Option<f64>,
}

impl LatencyGroup {
    /// Returns whether either trace has too few requests in this group for a conclusion.
    fn is_too_small(&self) -> bool {
        self.a_requests.min(self.b_requests) < TOO_FEW
    }
}

impl LatencyAnswer {
    /// Returns the group of all requests.
    pub fn all(&self) -> &LatencyGroup {
        &self.groups[0]
    }

    /// Returns when the change began and ended, as in " from about 200 s to 300 s"; an empty text
    /// if it is not sudden.
    pub(super) fn when(&self) -> String {
        match (self.since_s.map(seconds), self.until_s.map(seconds)) {
            (Some(since), Some(until)) => format!(" from about {since} to {until}"),
            (Some(since), None) => format!(" since about {since}"),
            (None, Some(until)) => format!(" until about {until}"),
            (None, None) => String::new(),
        }
    }

    /// Returns reads or writes that are too few to judge, if their mean changed by more than its
    /// bound.
    pub(super) fn unjudged(&self) -> Option<&LatencyGroup> {
        let is_changed = |group: &LatencyGroup| {
            group.mean_ms.deviation.is_none_or(|deviation| deviation.abs() > RELATIVE_MAX)
        };
        self.operations().find(|group| group.is_too_small() && is_changed(group))
    }

    fn operations(&self) -> impl Iterator<Item = &LatencyGroup> {
        self.groups.iter().filter(|group| group.kind == GroupKind::Operation)
    }

    /// Checks the latencies of all requests, and the means of reads and of writes unless these are
    /// too few, against their bounds.
    pub fn bound_checks(&self) -> Vec<BoundCheck> {
        let all = self.all();
        let figures = [("mean", all.mean_ms), ("p50", all.p50_ms), ("p99", all.p99_ms)];
        let of_all = figures.map(|(what, figure)| BoundCheck::latency(what, figure));
        let operations = self.operations().filter(|group| !group.is_too_small());
        let of_operation = |group: &LatencyGroup| {
            BoundCheck::latency(&format!("mean of {}", group.group), group.mean_ms)
        };
        of_all.into_iter().chain(operations.map(of_operation)).collect()
    }
}
