//! Thresholds for `advise`: how many requests are enough, when a disk counts as busy, and which
//! differences count. [`super::choice`] decides which scheduler is better and whether flash is
//! worth its price.

use forebay_core::replay::Lag;

use super::{Choice, Need, Verdict};
use crate::{Replay, RunResult};

/// A relative difference below this share counts as no difference.
pub(super) const SHARE_THAT_MATTERS: f64 = 0.03;
/// Tail latencies that differ by at least this share count as different.
pub(super) const TAIL_THAT_MATTERS: f64 = 0.2;
/// The utilization below which requests seldom overlap.
pub(super) const UTILISATION_THAT_MATTERS: f64 = 0.1;
/// The number of requests that a 99th percentile must be based on; with fewer, a handful of
/// requests would determine it.
pub(crate) const REQUESTS_THAT_MATTER: u64 = 1000;
/// The length in seconds of the shortest recording from which a change of the scheduler is
/// recommended.
pub(super) const SPAN_LEAST_S: f64 = 5.0;
/// A run must last at least this many seconds beyond the last arrival to count as a burst.
const BURST_LEAST_S: f64 = 0.5;
/// The number of requests below which nothing is recommended or ranked.
pub(crate) const TOO_FEW: u64 = 100;
/// The utilization below which a disk counts as mostly idle, so that nobody benefits from a lower
/// busy time.
const MOSTLY_IDLE: f64 = 0.5;
/// The time for two or three random accesses of a 7200-rpm disk: the latency of a request that
/// hardly waited.
pub(super) const TAIL_FINE_MS: f64 = 50.0;

/// The requests whose 99th percentile is reported: reads if there are enough of them, and otherwise
/// writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    Reads,
    Writes,
}

impl Tail {
    /// Returns which tail to report for this run and for other runs of the same trace.
    pub(crate) fn of(run: &RunResult) -> Tail {
        let (reads, writes) = (run.figures.reads, run.figures.writes);
        if reads >= TOO_FEW || reads >= writes { Tail::Reads } else { Tail::Writes }
    }

    /// Returns this tail latency of `run` in milliseconds; 0 if the run has no requests of that
    /// kind.
    pub(crate) fn ms(self, run: &RunResult) -> f64 {
        let (reads, writes) = (run.figures.read_p99_ms, run.figures.write_p99_ms);
        if self == Tail::Reads { reads } else { writes }.unwrap_or(0.0)
    }

    /// Returns the name of these requests: "reads" or "writes".
    pub(crate) fn name(self) -> &'static str {
        if self == Tail::Reads { "reads" } else { "writes" }
    }
}

/// Returns whether the disk keeps up with the recording, so that nobody waits for its busy time.
/// Always false in closed replay, where each request waits for earlier ones.
pub(crate) fn keeps_up(run: &RunResult) -> bool {
    run.replay != Replay::Closed && !run.figures.is_overloaded()
}

/// Returns whether the latencies of a run describe single requests rather than the length of a
/// backlog.
pub(crate) fn tells_latencies(run: &RunResult) -> bool {
    let figures = &run.figures;
    let tails = [figures.read_p99_ms, figures.write_p99_ms].into_iter().flatten();
    !is_backlog(figures.is_overloaded(), run.replay, tails)
}

/// Returns whether these 99th percentiles only measure the length of a backlog. Those of an
/// overloaded open replay always do. In other replays, a lag may add up from small delays; but if
/// latencies exceed [`Lag::LATE`], too, some requests do not wait for earlier ones (write-back,
/// many tasks), and a backlog grows as in open replay.
pub(super) fn is_backlog(
    is_overloaded: bool,
    replay: Replay,
    tails_ms: impl IntoIterator<Item = f64>,
) -> bool {
    let is_late = |ms: f64| ms > Lag::LATE.as_millis_f64();
    is_overloaded && (replay == Replay::Open || tails_ms.into_iter().any(is_late))
}

/// Returns whether the disk is mostly idle and answers about as fast as it can, so that nothing can
/// be gained.
pub(crate) fn is_at_ease(baseline: &RunResult, span_s: f64) -> bool {
    is_mostly_idle(baseline, span_s) && long_tails(baseline) == [false; 2]
}

/// Returns whether the 99th percentiles of reads and of writes are long, as far as there are enough
/// requests of the kind.
pub(super) fn long_tails(run: &RunResult) -> [bool; 2] {
    let figures = &run.figures;
    [(figures.reads, figures.read_p99_ms), (figures.writes, figures.write_p99_ms)]
        .map(|(requests, p99_ms)| requests >= TOO_FEW && p99_ms.is_some_and(|ms| ms > TAIL_FINE_MS))
}

/// Returns whether the disk is mostly idle.
pub(super) fn is_mostly_idle(baseline: &RunResult, span_s: f64) -> bool {
    share_busy(baseline, span_s) < MOSTLY_IDLE
}

/// Returns the disk's utilization: its busy time as a share of `span_s`.
pub(crate) fn share_busy(run: &RunResult, span_s: f64) -> f64 {
    let over_s = match run.replay {
        Replay::Open => span_s,
        Replay::Closed | Replay::Dependent => run.figures.makespan_s,
    };
    (run.figures.busy_s / over_s.max(1e-9)).min(1.0)
}

/// Returns whether a recording is so short that it is a single burst: serving it takes much longer
/// than its requests take to arrive, so that latencies only reflect the length of the burst.
fn is_one_burst(baseline: &RunResult, span_s: f64) -> bool {
    let figures = &baseline.figures;
    let is_overload = figures.is_overloaded() && shows_overload(span_s);
    let late_s = figures.makespan_s - span_s;
    let is_late = late_s > BURST_LEAST_S.max(span_s);
    baseline.replay == Replay::Open && !is_overload && span_s < SPAN_LEAST_S && is_late
}

/// Returns whether a recording of this length can show that a drive does not keep up. In a shorter
/// recording, requests that arrive so fast that a drive falls behind may be a single burst.
pub(super) fn shows_overload(span_s: f64) -> bool {
    span_s >= Lag::LATE.as_secs_f64()
}

/// Returns the overall conclusion and, if one can be recommended, the scheduler to use.
pub(super) fn scheduler(
    choice: &Choice<'_>,
    span_s: f64,
    need: &Need,
) -> (Verdict, Option<String>) {
    let baseline = choice.baseline();
    if baseline.figures.requests < TOO_FEW {
        return (Verdict::TooShort, None);
    }
    let best = choice.best().and_then(|best| choice.run(best)).unwrap_or(baseline);
    let is_other = best.policy != baseline.policy;
    let is_needed = choice.prefers_total() || need.is_met_by(best, baseline);
    let verdict = match () {
        () if need.is_too_short() || is_one_burst(baseline, span_s) => {
            return (Verdict::TooShort, None);
        }
        () if is_other && span_s < SPAN_LEAST_S && is_needed => return (Verdict::TooShort, None),
        () if is_other && is_needed => Verdict::Recommended,
        () if is_other || need.none().is_some() && !choice.prefers_total() => {
            return (Verdict::LoadTooLow, Some(baseline.policy.clone()));
        }
        () if choice.is_unsure() => Verdict::DependsOnDrive,
        () if choice.is_disputed() => Verdict::Depends,
        () if need.none().is_some() => Verdict::LoadTooLow,
        // Even on a mostly idle disk, some schedulers reorder the requests of a burst, which delays
        // some of them.
        () if choice.differs() => Verdict::BaselineIsBest,
        () if share_busy(baseline, span_s) < UTILISATION_THAT_MATTERS => Verdict::LoadTooLow,
        () => Verdict::NothingToGain,
    };
    (verdict, Some(best.policy.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::sample;

    #[test]
    fn a_backlog_is_no_latency_in_any_replay() {
        let all = [Replay::Open, Replay::Dependent, Replay::Closed];
        let of = |overloaded, p99_ms| all.map(|replay| is_backlog(overloaded, replay, [p99_ms]));
        assert_eq!(of(true, 80e3), [true; 3]);
        assert_eq!(of(true, 30.0), [true, false, false], "a lag that adds up");
        assert_eq!(of(false, 80e3), [false; 3]);
    }

    #[test]
    fn a_recording_of_one_burst_is_too_short() {
        let mut run = sample::advice().runs[0].clone();
        let mut is_burst = |makespan_s, span_s| {
            run.figures.makespan_s = makespan_s;
            is_one_burst(&run, span_s)
        };
        assert!(is_burst(1.6, 1e-7) && is_burst(9.0, 4.0));
        assert!(!is_burst(0.3, 1e-7) && !is_burst(7.0, 4.0) && !is_burst(60.0, 6.0));
        // The lag of an overload is longer than the shortest recordings.
        run.figures.lagging_share = 0.5;
        run.figures.makespan_s = 9.0;
        assert!(is_one_burst(&run, 0.5) && !is_one_burst(&run, 4.0));
    }

    #[test]
    fn no_disk_is_busy_for_more_than_all_of_the_time() {
        let mut run = sample::advice().runs[0].clone();
        (run.figures.busy_s, run.figures.makespan_s) = (50.0, 200.0);
        run.replay = Replay::Open;
        assert_eq!((share_busy(&run, 100.0), share_busy(&run, 40.0)), (0.5, 1.0));
        run.replay = Replay::Closed;
        assert_eq!(share_busy(&run, 100.0), 0.25);
    }
}
