//! Reports that fio wrote during a run (`status-interval`). Each of them covers the time from the
//! start of the run, so only the last one is the result of the run.

use serde_json::Value;

use super::fio::number;

/// The maximum difference, in seconds, between the starts that two reports of one run imply: both
/// the time of a report and the elapsed time are rounded to seconds.
const SAME_START_S: f64 = 2.0;

/// Removes the reports that a later report of the same run supersedes. Returns the results of the
/// runs, and the number of reports removed.
pub(super) fn results(mut reports: Vec<Value>) -> (Vec<Value>, usize) {
    let all = reports.len();
    let is_kept: Vec<bool> = (0..all)
        .map(|at| !reports.get(at + 1).is_some_and(|next| goes_on(&reports[at], next)))
        .collect();
    let mut is_kept = is_kept.into_iter();
    reports.retain(|_| is_kept.next().unwrap_or(true));
    let removed = all - reports.len();
    (reports, removed)
}

/// Returns whether `next` is a later report of the same run as `report`: the same jobs, which began
/// at the same time and have done at least as much since.
fn goes_on(report: &Value, next: &Value) -> bool {
    let is_same_start = begun_s(report)
        .zip(begun_s(next))
        .is_some_and(|(one, other)| (one - other).abs() <= SAME_START_S);
    is_same_start && names(report) == names(next) && ios(report) <= ios(next)
}

fn jobs(report: &Value) -> &[Value] {
    report.get("jobs").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn names(report: &Value) -> Vec<Option<&Value>> {
    jobs(report).iter().map(|job| job.get("jobname")).collect()
}

/// Returns when the run began, in seconds.
fn begun_s(report: &Value) -> Option<f64> {
    let elapsed = jobs(report).first()?.get("elapsed").and_then(number)?;
    Some(report.get("timestamp").and_then(number)? - elapsed)
}

/// Returns the number of I/Os that all jobs have completed.
fn ios(report: &Value) -> f64 {
    let of_job = |job: &Value| {
        let sides = ["read", "write", "trim"].into_iter().filter_map(|key| job.get(key));
        sides.filter_map(|side| side.get("total_ios").and_then(number)).sum::<f64>()
    };
    jobs(report).iter().map(of_job).sum()
}
