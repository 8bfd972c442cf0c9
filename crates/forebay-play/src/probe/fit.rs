//! Fits token buckets to the answers of a probe.
//!
//! If reads always wait behind a single bucket, the *i*-th read (from 1) is answered at max(base,
//! base + (*i* - 1 - depth) / rate). The rate is the slope of the late answers; the depth follows
//! from that line's value at the beginning.

use super::measure::PhaseTimes;

/// A line through the late answers of a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    /// The number of reads answered per second.
    pub(super) rate_per_s: f64,
    /// The number of reads that passed at once.
    pub(super) depth: f64,
    /// The largest relative difference between the rates in the third and the last quarter of the
    /// time.
    pub(super) drift_share: f64,
}

/// The limits of a volume, as far as a probe reveals them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct FittedLimits {
    /// The median time of a single read, in seconds.
    pub(super) base_s: f64,
    /// The limit on operations; None if the probe did not reach it.
    pub(super) ops: Option<Line>,
    /// The limit on bytes, in bytes; None if the probe did not reach it.
    pub(super) bytes: Option<Line>,
    /// The size in bytes in which the volume counts operations; None if the limits do not reveal
    /// it.
    pub(super) unit_bytes: Option<u32>,
    /// Whether sequential reads are merged; None if the limits do not reveal it.
    pub(super) merges: Option<bool>,
}

/// The minimum relative difference of two rates for them to count as different.
const DIFFERENT_SHARE: f64 = 0.1;
/// A phase that reaches this share of the rate possible with its queue depth and base latency is
/// limited by these, and not by a bucket.
const UNLIMITED_SHARE: f64 = 0.7;
/// The minimum number of answers for a line.
const ANSWERS_MIN: usize = 16;

/// Returns the median of `values`; 0 without any.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// Fits a line to the answers in the second half of the time; None if there are too few.
pub(super) fn line(times: &PhaseTimes, base_s: f64) -> Option<Line> {
    let end_s = *times.done_s.last()?;
    let first = times.done_s.partition_point(|done_s| *done_s < end_s / 2.0);
    let late: Vec<(f64, f64)> = times
        .done_s
        .iter()
        .zip(1_u32..)
        .skip(first)
        .map(|(done_s, number)| (done_s - base_s, f64::from(number)))
        .collect();
    let (rate_per_s, at_zero) = slope(&late)?;
    let (third, last) = late.split_at(late.partition_point(|(at_s, _)| *at_s < end_s * 0.75));
    let drift_share = match (slope(third), slope(last)) {
        (Some((third, _)), Some((last, _))) => (third / last - 1.0).abs(),
        _ => f64::INFINITY,
    };
    Some(Line { rate_per_s, depth: (at_zero - 1.0).max(0.0), drift_share })
}

/// Returns the slope of the least-squares line through `points`, and its value at 0.
fn slope(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    if points.len() < ANSWERS_MIN {
        return None;
    }
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let covariance: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let slope = covariance / variance;
    (slope.is_finite() && slope > 0.0).then_some((slope, mean_y - slope * mean_x))
}

/// A measured phase: its answers, the length of its reads, and the number of reads in flight.
pub(super) struct Measured<'a> {
    pub(super) times: &'a PhaseTimes,
    pub(super) len: u32,
    pub(super) depth: usize,
}

impl Measured<'_> {
    /// Returns the phase's line if a limit slows the phase down.
    fn limited(&self, base_s: f64) -> Option<Line> {
        let line = line(self.times, base_s)?;
        let most = self.depth as f64 / base_s.max(1e-9);
        (line.rate_per_s < UNLIMITED_SHARE * most).then_some(line)
    }
}

/// Fits limits to the results of the phases in [`super::measure::PHASES`].
pub(super) fn limits(phases: &[Measured<'_>; 5]) -> FittedLimits {
    let [single, small, large, sequential, larger] = phases;
    let base_s = median(&single.times.took_s);
    let slower = |line: &Line, than: Option<Line>| {
        than.is_none_or(|than| line.rate_per_s < than.rate_per_s * (1.0 - DIFFERENT_SHARE))
    };
    let mut ops = small.limited(base_s);
    let of_large = large.limited(base_s).filter(|line| slower(line, ops));
    let of_larger = larger.limited(base_s);
    let in_bytes = |line: Line, len: u32| Line {
        rate_per_s: line.rate_per_s * f64::from(len),
        depth: line.depth * f64::from(len),
        ..line
    };
    let mut bytes = of_large.map(|line| in_bytes(line, large.len));
    let per_larger = of_larger.zip(ops).map(|(larger, ops)| ops.rate_per_s / larger.rate_per_s);
    let mut unit_bytes = None;
    if bytes.is_none()
        && let Some(per_larger) = per_larger
    {
        let units = per_larger.round();
        // If the ratio is a power of two, it is a counting unit; otherwise, there is a limit on
        // bytes.
        let is_whole = (per_larger - units).abs() < 0.05 * units;
        if units >= 2.0 && is_whole && (units as u32).is_power_of_two() {
            unit_bytes = Some((f64::from(larger.len) / units) as u32);
        } else if units >= 2.0 {
            bytes = of_larger.map(|line| in_bytes(line, larger.len));
        }
    }
    // Small reads may already be slowed down by the limit on bytes.
    if let (Some(line), Some(limit)) = (ops, bytes)
        && line.rate_per_s * f64::from(small.len) > limit.rate_per_s * (1.0 - DIFFERENT_SHARE)
    {
        ops = None;
    }
    let merges = ops.zip(line(sequential.times, base_s)).and_then(|(ops, sequential_line)| {
        let possible = bytes.map_or(f64::INFINITY, |it| it.rate_per_s) / f64::from(sequential.len);
        let is_visible = possible > ops.rate_per_s * (1.0 + 3.0 * DIFFERENT_SHARE);
        let is_faster = sequential_line.rate_per_s > ops.rate_per_s * (1.0 + 2.0 * DIFFERENT_SHARE);
        is_visible.then_some(is_faster)
    });
    FittedLimits { base_s, ops, bytes, unit_bytes, merges }
}
