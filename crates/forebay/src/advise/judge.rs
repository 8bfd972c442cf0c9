//! What counts: how many requests, how busy a disk, how much of a difference. Which scheduler is better, and whether
//! flash is worth its price, is [`super::choice`]'s to say.

use super::Verdict;
use super::choice::Choice;
use crate::simulate::{Replay, RunResult};

/// Less than this share of the total is called no difference.
pub(super) const SHARE_THAT_MATTERS: f64 = 0.03;
/// Tails this much apart (as a share) are called different.
pub(super) const TAIL_THAT_MATTERS: f64 = 0.2;
/// Below this utilisation requests seldom meet.
const UTILISATION_THAT_MATTERS: f64 = 0.1;
/// With fewer requests a 99th percentile is a matter of a handful of them.
pub(super) const REQUESTS_THAT_MATTER: u64 = 1000;
/// With fewer nothing is recommended, nor ranked.
pub(super) const TOO_FEW: u64 = 100;
/// A disk that is busy less than this share of the time is mostly idle: time it works less is nobody's
/// gain.
const MOSTLY_IDLE: f64 = 0.5;
/// Two or three random accesses of a 7200-rpm disk: what a request takes that hardly waited.
const TAIL_FINE_MS: f64 = 50.0;

/// Whose 99th percentile people wait for: that of reads where there are enough, else that of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    Reads,
    Writes,
}

impl Tail {
    /// Of runs like this.
    pub(crate) fn of(run: &RunResult) -> Tail {
        let (reads, writes) = (run.figures.reads, run.figures.writes);
        if reads >= TOO_FEW || reads >= writes { Tail::Reads } else { Tail::Writes }
    }

    /// In `run`; 0 without any.
    pub(crate) fn ms(self, run: &RunResult) -> f64 {
        let (reads, writes) = (run.figures.read_p99_ms, run.figures.write_p99_ms);
        if self == Tail::Reads { reads } else { writes }.unwrap_or(0.0)
    }

    /// "reads" or "writes".
    pub(crate) fn name(self) -> &'static str {
        if self == Tail::Reads { "reads" } else { "writes" }
    }
}

/// The tail of a run.
pub(super) fn tail_of(run: &RunResult) -> f64 {
    Tail::of(run).ms(run)
}

/// Whether the disk keeps up with the recording, so that its time is nobody's wait. In closed replay, where each
/// request waits for others, somebody always does.
pub(super) fn keeps_up(run: &RunResult) -> bool {
    run.replay != Replay::Closed && !run.figures.is_overloaded()
}

/// Whether latencies of runs like `baseline` are those of requests. In open replay those of an overloaded disk are the
/// length of its backlog.
pub(super) fn tells_latencies(baseline: &RunResult) -> bool {
    baseline.replay != Replay::Open || !baseline.figures.is_overloaded()
}

/// Whether the disk is mostly idle and answers as fast as it can: then there is nothing to gain.
pub(super) fn is_at_ease(baseline: &RunResult, span_s: f64) -> bool {
    share_busy(baseline, span_s) < MOSTLY_IDLE && tail_of(baseline) <= TAIL_FINE_MS
}

/// The share of the time that the disk works.
pub(super) fn share_busy(run: &RunResult, span_s: f64) -> f64 {
    let over_s = match run.replay {
        Replay::Open => span_s,
        Replay::Closed | Replay::Dependent => run.figures.makespan_s,
    };
    (run.figures.busy_s / over_s.max(1e-9)).min(1.0)
}

/// Which scheduler is to be used, if that can be told.
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
        // On an idle disk too a burst is put in order by some scheduler, to somebody's cost.
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
