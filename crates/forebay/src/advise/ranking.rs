//! The ranking of all schedulers, with 95 % intervals for their figures.

use serde::Serialize;

use super::available::Provider;
use super::choice::{Choice, PassedOver, total_scale};
use super::judge::{TOO_FEW, tells_latencies};
use crate::RunResult;
use crate::slices::{Compared, Resampled};

/// A scheduler's entry in the ranking.
#[derive(Clone, Debug, Serialize)]
pub struct Ranked {
    /// The scheduler's name.
    pub policy: String,
    /// The scheduler's total time in seconds.
    pub total_s: f64,
    /// The share of the baseline's total time that the scheduler saves, negative if it takes
    /// longer; `None` if there are too few requests to compare.
    pub gain_share: Option<f64>,
    /// The lower end of the 95 % interval of `gain_share`, from resampling the run together with
    /// the baseline.
    pub gain_low_share: Option<f64>,
    /// The upper end of the 95 % interval of `gain_share`.
    pub gain_high_share: Option<f64>,
    /// The lower end of the 95 % interval of the share by which the 99th percentile of reads falls.
    pub read_p99_gain_low_share: Option<f64>,
    /// The upper end of the 95 % interval of the share by which the 99th percentile of reads falls.
    pub read_p99_gain_high_share: Option<f64>,
    /// The lower end of the 95 % interval of the share by which the 99th percentile of writes
    /// falls.
    pub write_p99_gain_low_share: Option<f64>,
    /// The upper end of the 95 % interval of the share by which the 99th percentile of writes
    /// falls.
    pub write_p99_gain_high_share: Option<f64>,
    /// The 99th percentile of the scheduler's read latencies.
    pub read_p99_ms: Option<f64>,
    /// The 99th percentile of the scheduler's write latencies.
    pub write_p99_ms: Option<f64>,
    /// The longest latency of any request; `None` if there are neither reads nor writes.
    pub longest_ms: Option<f64>,
    /// Which system provides the scheduler.
    pub from: Provider,
    /// The lower end of the 95 % interval of the total time, from resampling the run.
    pub total_low_s: Option<f64>,
    /// The upper end of the 95 % interval of the total time, from resampling the run.
    pub total_high_s: Option<f64>,
    /// The lower end of the 95 % interval of `read_p99_ms`.
    pub read_p99_low_ms: Option<f64>,
    /// The upper end of the 95 % interval of `read_p99_ms`.
    pub read_p99_high_ms: Option<f64>,
    /// The lower end of the 95 % interval of `write_p99_ms`.
    pub write_p99_low_ms: Option<f64>,
    /// The upper end of the 95 % interval of `write_p99_ms`.
    pub write_p99_high_ms: Option<f64>,
    /// Why this scheduler is not recommended; `None` for the chosen scheduler, and if there are too
    /// few requests to compare.
    pub passed_over: Option<PassedOver>,
}

/// Ranks schedulers by total time. If the device keeps up under the baseline, schedulers under
/// which it falls behind come last. Schedulers with equal times stay in catalog order, simplest
/// first, and so do all schedulers if there are too few requests to compare.
pub(super) fn rank(
    results: &[RunResult],
    resampled: &Resampled,
    choice: &Choice<'_>,
    recommended: Option<&str>,
) -> Vec<Ranked> {
    let baseline = choice.baseline();
    if baseline.figures.requests < TOO_FEW {
        return results.iter().map(|run| ranked(run, None)).collect();
    }
    let base = results.iter().position(|run| run.policy == baseline.policy).unwrap_or(0);
    let with_interval = |(at, run): (usize, &RunResult)| {
        // A gain is the ratio of two runs in the same resample, which contains the same requests of
        // both.
        let saved = |of: fn(&Compared) -> Option<f64>, scale: f64| {
            let ratio = resampled.ratio((at, base), of);
            ratio.map(|(low, high)| (1.0 - high * scale, 1.0 - low * scale)).unzip()
        };
        let scale = total_scale(run, baseline);
        let (gain_low_share, gain_high_share) = saved(|run| Some(run.busy_s), scale);
        let (read_p99_gain_low_share, read_p99_gain_high_share) = saved(|run| run.read_p99_ms, 1.0);
        let (write_p99_gain_low_share, write_p99_gain_high_share) =
            saved(|run| run.write_p99_ms, 1.0);
        let one = ranked(run, Some(baseline));
        let (total_low_s, total_high_s) = resampled.total(at, run.total_s()).unzip();
        let (read_p99_low_ms, read_p99_high_ms) =
            resampled.figure(at, |run| run.read_p99_ms).unzip();
        let (write_p99_low_ms, write_p99_high_ms) =
            resampled.figure(at, |run| run.write_p99_ms).unzip();
        Ranked {
            gain_low_share: least(gain_low_share, one.gain_share),
            gain_high_share: most(gain_high_share, one.gain_share),
            read_p99_gain_low_share,
            read_p99_gain_high_share,
            write_p99_gain_low_share,
            write_p99_gain_high_share,
            total_low_s: least(total_low_s, Some(run.total_s())),
            total_high_s: most(total_high_s, Some(run.total_s())),
            read_p99_low_ms: least(read_p99_low_ms, run.figures.read_p99_ms),
            read_p99_high_ms: most(read_p99_high_ms, run.figures.read_p99_ms),
            write_p99_low_ms: least(write_p99_low_ms, run.figures.write_p99_ms),
            write_p99_high_ms: most(write_p99_high_ms, run.figures.write_p99_ms),
            passed_over: recommended.and_then(|chosen| choice.passed_over(&run.policy, chosen)),
            ..one
        }
    };
    let place = |(_, run): &(usize, &RunResult)| (choice.falls_behind(run), run.total_s());
    let mut placed: Vec<(usize, &RunResult)> = results.iter().enumerate().collect();
    placed.sort_by(|a, b| {
        let ((behind, a_s), (other_behind, b_s)) = (place(a), place(b));
        behind.cmp(&other_behind).then(a_s.total_cmp(&b_s))
    });
    let ranking = placed.into_iter().map(with_interval);
    match tells_latencies(baseline) {
        true => ranking.collect(),
        false => ranking.map(Ranked::without_latencies).collect(),
    }
}

impl Ranked {
    /// Removes the latencies from the entry, because they only measure the length of a backlog.
    fn without_latencies(self) -> Ranked {
        Ranked {
            read_p99_gain_low_share: None,
            read_p99_gain_high_share: None,
            write_p99_gain_low_share: None,
            write_p99_gain_high_share: None,
            read_p99_ms: None,
            write_p99_ms: None,
            longest_ms: None,
            read_p99_low_ms: None,
            read_p99_high_ms: None,
            write_p99_low_ms: None,
            write_p99_high_ms: None,
            ..self
        }
    }
}

/// Returns the lower end of an interval, or the figure itself if that is lower: resamples are
/// counted in steps of 1 %, so the figure may lie outside.
fn least(low: Option<f64>, figure: Option<f64>) -> Option<f64> {
    Some(low?.min(figure?))
}

/// Returns the upper end of an interval, or the figure itself if that is higher.
fn most(high: Option<f64>, figure: Option<f64>) -> Option<f64> {
    Some(high?.max(figure?))
}

/// Builds the entry of a run, with its gain over `baseline`.
fn ranked(result: &RunResult, baseline: Option<&RunResult>) -> Ranked {
    Ranked {
        policy: result.policy.clone(),
        total_s: result.total_s(),
        // Adding 0.0 turns -0.0 into 0.0, which is printed without a sign.
        gain_share: baseline
            .map(|baseline| 1.0 - result.total_s() / baseline.total_s().max(1e-9) + 0.0),
        read_p99_ms: result.figures.read_p99_ms,
        write_p99_ms: result.figures.write_p99_ms,
        longest_ms: result.figures.longest_ms(),
        from: Provider::of(&result.policy),
        gain_low_share: None,
        gain_high_share: None,
        read_p99_gain_low_share: None,
        read_p99_gain_high_share: None,
        write_p99_gain_low_share: None,
        write_p99_gain_high_share: None,
        total_low_s: None,
        total_high_s: None,
        read_p99_low_ms: None,
        read_p99_high_ms: None,
        write_p99_low_ms: None,
        write_p99_high_ms: None,
        passed_over: None,
    }
}
