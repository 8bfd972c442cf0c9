//! What a live run came to, in words: what spoils it comes first.

use crate::result::PlayResult;
use forebay::replayed::Replay;

/// A host that issues one request in a hundred later than this does not play the trace.
const LATE_MS: f64 = 1.0;
/// A target that does less than this share of what is wanted does not keep up.
const ACHIEVED_SHARE: f64 = 0.98;

/// Writes the verdict into `result`.
pub(super) fn judge(result: &mut PlayResult) {
    let late = result.lateness_p99_ms.unwrap_or_default();
    result.host_kept_up = is_punctual(late);
    let mut said = Vec::new();
    if !result.host_kept_up {
        said.push(format!(
            "This host did not keep up: one request in a hundred was issued more than {late:.3} ms \
             late (at most {:.3} ms). Latencies include that; free its processors, try --realtime, \
             or lower --intensity.",
            result.lateness_max_ms
        ));
    }
    if let Some(first) = result.errors.first() {
        said.push(format!(
            "{} I/Os failed, {} of them {}s with {} ({}); {} requests failed.",
            result.figures.ios_failed,
            first.ios,
            first.op,
            first.error,
            first.message,
            result.figures.failed
        ));
    }
    if let Some(why) = result.ended_early {
        said.push(format!(
            "It ended early ({why}): {} requests had arrived and were not finished.",
            result.figures.unfinished
        ));
    }
    said.extend(rates(result));
    said.push(format!(
        "{}, {} replay through {}: one request in a hundred issued more than {late:.3} ms after its \
         time.",
        match (result.result, result.targets.iter().any(|target| target.direct == Some(false))) {
            ("emulated", _) => "Emulated in wall time",
            (_, true) => "Measured with the page cache in between",
            (_, false) => "Measured",
        },
        match result.replay {
            Replay::Open => "open",
            Replay::Closed => "closed",
            Replay::Dependent => "dependent",
        },
        result.driver
    ));
    result.verdict = said;
}

/// Whether a host keeps up whose 99th percentile of lateness is `late_ms`.
fn is_punctual(late_ms: f64) -> bool {
    late_ms <= LATE_MS
}

/// What there is to say of a target that did not keep up with the workload.
fn rates(result: &PlayResult) -> Option<String> {
    let wanted = result.wanted_iops?;
    let slow = is_slow(result.figures.requests, wanted, result.figures.makespan_s);
    (slow && result.host_kept_up).then(|| {
        format!(
            "The target did not keep up: {wanted:.0} requests a second were wanted, {:.0} achieved.",
            result.achieved_iops
        )
    })
}

/// Whether `requests` wanted at a rate took too long.
fn is_slow(requests: u64, wanted_iops: f64, makespan_s: f64) -> bool {
    // What is still under way when the last request arrives takes its time whatever the rate was.
    let arriving_s = requests.saturating_sub(1) as f64 / wanted_iops;
    makespan_s * ACHIEVED_SHARE > arriving_s + 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_late_beyond_a_millisecond() {
        assert!(is_punctual(0.0) && is_punctual(1.0) && !is_punctual(1.001));
    }

    #[test]
    fn a_target_is_slow_beyond_two_percent_and_a_second() {
        // Ten seconds of arrivals.
        assert!(!is_slow(1001, 100.0, 10.0) && !is_slow(1001, 100.0, 11.2));
        assert!(is_slow(1001, 100.0, 11.3));
        assert!(!is_slow(1, 100.0, 1.0) && !is_slow(0, 100.0, 0.0));
    }
}
