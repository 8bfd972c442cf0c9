//! Describes the outcome of a live run in words, problems first.

use crate::result::PlayResult;
use forebay::replayed::Replay;
use forebay_ask::named;
use forebay_words::plural::counted;
use forebay_words::quantities::{millis, seconds, significant};

/// If 1 % of the requests are issued later than this, in milliseconds, the host is too slow to play
/// the trace.
const LATE_MS: f64 = 1.0;
/// If the target achieves less than this share of the workload's rate, it is too slow.
const ACHIEVED_SHARE: f64 = 0.98;

/// Writes the verdict to `result`.
pub(super) fn judge(result: &mut PlayResult) {
    let late = result.lateness_p99_ms.unwrap_or_default();
    let mut said = Vec::new();
    let lateness = Lateness {
        p99_ms: late,
        max_ms: result.lateness_max_ms,
        host_p99_ms: result.lateness_host_p99_ms.unwrap_or_default(),
        full_s: result.target_full_s,
    };
    result.host_kept_up = lateness.is_host_punctual();
    said.extend(lateness.verdict());
    if let Some(first) = result.errors.first() {
        said.push(format!(
            "{} failed, {} of them {}s with {} ({}); {} failed.",
            counted(result.figures.ios_failed, "I/O"),
            first.ios,
            first.op,
            first.error,
            first.message,
            counted(result.figures.failed, "request")
        ));
    }
    if let Some(why) = result.ended_early {
        let end = match why {
            "time is up" => "It ended when its time was up".to_string(),
            why => format!("It ended early ({why})"),
        };
        said.push(match result.figures.unfinished + result.requests_overdue {
            0 => format!("{end}; all requests that had arrived were finished."),
            1 => format!("{end}; one request had arrived but was not finished."),
            more => format!("{end}; {more} requests had arrived but were not finished."),
        });
    }
    said.extend(rates(result));
    said.push(format!(
        "{}, {} replay{}: one request in a hundred issued more than {} after its time.",
        match (result.result, result.targets.iter().any(|target| target.direct == Some(false))) {
            ("emulated", _) => "Emulated in wall time",
            (_, true) => "Measured through the page cache",
            (_, false) => "Measured",
        },
        match result.replay {
            Replay::Open => "open",
            Replay::Closed => "closed",
            Replay::Dependent => "dependent",
        },
        match result.driver {
            "emulated" => String::new(),
            driver => format!(" through {driver}"),
        },
        millis(late)
    ));
    result.verdict = said;
}

/// The delays in issuing requests.
struct Lateness {
    p99_ms: f64,
    max_ms: f64,
    /// The 99th percentile, excluding delays that the target caused.
    host_p99_ms: f64,
    full_s: f64,
}

impl Lateness {
    fn is_host_punctual(&self) -> bool {
        self.host_p99_ms <= LATE_MS
    }

    /// Describes the delays, if there were any.
    fn verdict(&self) -> Option<String> {
        let Lateness { p99_ms, max_ms, full_s, .. } = self;
        let late = format!(
            "one request in a hundred was issued more than {} late (at most {})",
            millis(*p99_ms),
            millis(*max_ms)
        );
        match (self.is_host_punctual(), *p99_ms <= LATE_MS) {
            (_, true) => None,
            (false, false) => Some(format!(
                "This host did not keep up: {late}. Latencies include this delay; reduce the load on \
                 its processors, try {}, or lower {}.",
                named("realtime=true"),
                named("intensity")
            )),
            (true, false) => Some(format!(
                "The target was saturated: {late}, because it could not accept another I/O for {}. \
                 Latencies include this delay; the target cannot serve more, so lower {}, or \
                 limit its concurrent I/Os with {}.",
                seconds(*full_s),
                named("intensity"),
                named("depth")
            )),
        }
    }
}

/// Describes a target that did not keep up with the workload.
fn rates(result: &PlayResult) -> Option<String> {
    let wanted = result.wanted_iops.filter(|_| target_is_slow(result))?;
    Some(format!(
        "The target did not keep up: {} requests a second were wanted, {} achieved.",
        significant(wanted),
        significant(result.achieved_iops)
    ))
}

/// Returns whether the target, rather than this host, was slower than the workload.
pub(super) fn target_is_slow(result: &PlayResult) -> bool {
    let (requests, makespan_s) = (result.figures.requests, result.figures.makespan_s);
    let is_slow = |wanted| is_slow(requests, wanted, makespan_s);
    result.host_kept_up && result.wanted_iops.is_some_and(is_slow)
}

/// Returns whether `requests` requests took too long, given the workload's rate.
fn is_slow(requests: u64, wanted_iops: f64, makespan_s: f64) -> bool {
    // Requests in flight when the last request arrives take the same time whatever the rate.
    let arriving_s = requests.saturating_sub(1) as f64 / wanted_iops;
    makespan_s * ACHIEVED_SHARE > arriving_s + 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_late_beyond_a_millisecond_and_a_full_target_is_not_the_host() {
        let said = |p99_ms, host_p99_ms| {
            let late = Lateness { p99_ms, max_ms: 70.0, host_p99_ms, full_s: 2.5 };
            (late.is_host_punctual(), late.verdict().unwrap_or_default())
        };
        assert_eq!(
            (said(0.0, 0.0), said(1.0, 1.0)),
            ((true, String::new()), (true, String::new()))
        );
        let (punctual, slow) = said(1.01, 1.01);
        assert!(!punctual && slow.starts_with("This host did not keep up"), "{slow}");
        assert!(slow.contains("1.01 ms late (at most 70.0 ms)"), "{slow}");
        let (punctual, full) = said(23.0, 1.0);
        assert!(punctual && full.starts_with("The target was saturated"), "{full}");
        assert!(full.contains("for 2.50 s") && !full.contains("processors"), "{full}");
    }

    #[test]
    fn a_target_is_slow_beyond_two_percent_and_a_second() {
        // The arrivals take ten seconds.
        assert!(!is_slow(1001, 100.0, 10.0) && !is_slow(1001, 100.0, 11.2));
        assert!(is_slow(1001, 100.0, 11.3));
        assert!(!is_slow(1, 100.0, 1.0) && !is_slow(0, 100.0, 0.0));
    }
}
