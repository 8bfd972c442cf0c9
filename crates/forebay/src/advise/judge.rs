//! Thresholds: how many requests, how busy a disk and how large a difference count.
//! [`super::choice`] decides which scheduler is better and whether flash is worth its price.

use super::Verdict;
use super::choice::Choice;
use crate::simulate::{Replay, RunResult};

/// A difference below this share of the total counts as no difference.
pub(super) const SHARE_THAT_MATTERS: f64 = 0.03;
/// Tails that differ by at least this share count as different.
pub(super) const TAIL_THAT_MATTERS: f64 = 0.2;
/// Below this utilization, requests seldom overlap.
const UTILISATION_THAT_MATTERS: f64 = 0.1;
/// With fewer requests, only a handful of them determine the 99th percentile.
pub(crate) const REQUESTS_THAT_MATTER: u64 = 1000;
/// With fewer requests, nothing is recommended or ranked.
pub(crate) const TOO_FEW: u64 = 100;
/// A disk that is busy for less than this share of the time is mostly idle. Nobody benefits if it
/// works less.
const MOSTLY_IDLE: f64 = 0.5;
/// Two or three random accesses of a 7200-rpm disk: the latency of a request that hardly waited.
pub(super) const TAIL_FINE_MS: f64 = 50.0;

/// The requests whose 99th percentile people wait for: reads if there are enough of them, else
/// writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    Reads,
    Writes,
}

impl Tail {
    /// Returns the tail to use for this run and runs like it.
    pub(crate) fn of(run: &RunResult) -> Tail {
        let (reads, writes) = (run.figures.reads, run.figures.writes);
        if reads >= TOO_FEW || reads >= writes { Tail::Reads } else { Tail::Writes }
    }

    /// Returns the tail latency of `run`; 0 if it has no such requests.
    pub(crate) fn ms(self, run: &RunResult) -> f64 {
        let (reads, writes) = (run.figures.read_p99_ms, run.figures.write_p99_ms);
        if self == Tail::Reads { reads } else { writes }.unwrap_or(0.0)
    }

    /// Returns "reads" or "writes".
    pub(crate) fn name(self) -> &'static str {
        if self == Tail::Reads { "reads" } else { "writes" }
    }
}

/// Returns the tail latency of a run.
pub(super) fn tail_of(run: &RunResult) -> f64 {
    Tail::of(run).ms(run)
}

/// Returns whether the disk keeps up with the recording, so that nobody waits for its busy time. In
/// closed replay each request waits for others, so somebody always waits.
pub(crate) fn keeps_up(run: &RunResult) -> bool {
    run.replay != Replay::Closed && !run.figures.is_overloaded()
}

/// Returns whether latencies of runs like `baseline` are meaningful for single requests. In open
/// replay, an overloaded disk's latencies only measure the length of its backlog.
pub(super) fn tells_latencies(baseline: &RunResult) -> bool {
    baseline.replay != Replay::Open || !baseline.figures.is_overloaded()
}

/// Returns whether the disk is mostly idle and responds as fast as it can, so that nothing can be
/// gained.
pub(crate) fn is_at_ease(baseline: &RunResult, span_s: f64) -> bool {
    share_busy(baseline, span_s) < MOSTLY_IDLE && tail_of(baseline) <= TAIL_FINE_MS
}

/// Returns the share of the time that the disk is busy.
pub(crate) fn share_busy(run: &RunResult, span_s: f64) -> f64 {
    let over_s = match run.replay {
        Replay::Open => span_s,
        Replay::Closed | Replay::Dependent => run.figures.makespan_s,
    };
    (run.figures.busy_s / over_s.max(1e-9)).min(1.0)
}

/// Returns the kind of answer and the scheduler to use, if one can be recommended.
pub(super) fn scheduler(choice: &Choice<'_>, span_s: f64) -> (Verdict, Option<String>) {
    let baseline = choice.baseline();
    if baseline.figures.requests < TOO_FEW {
        return (Verdict::TooShort, None);
    }
    let best = choice.best().unwrap_or(&baseline.policy);
    let verdict = match () {
        () if best != baseline.policy => Verdict::Recommended,
        () if choice.is_unsure() => Verdict::DependsOnDrive,
        () if choice.is_disputed() => Verdict::Depends,
        () if is_at_ease(baseline, span_s) => Verdict::LoadTooLow,
        // Even on an idle disk, some schedulers reorder a burst to the disadvantage of some
        // requests.
        () if choice.differs() => Verdict::BaselineIsBest,
        () if share_busy(baseline, span_s) < UTILISATION_THAT_MATTERS => Verdict::LoadTooLow,
        () => Verdict::NothingToGain,
    };
    (verdict, Some(best.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::sample;

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
