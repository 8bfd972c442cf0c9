//! What counts: how many requests, how busy a disk, how much of a difference. Which scheduler is better, and whether
//! flash is worth its price, is [`super::choice`]'s to say.

use super::Verdict;
use super::choice::Choice;
use crate::simulate::RunResult;

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
/// A disk that is busy less than this share of the time keeps up with its requests.
pub(super) const KEEPS_UP: f64 = 0.95;
/// The 99th percentile that people wait for: reads where there are any, else writes.
pub(super) fn tail_ms(read_p99_ms: Option<f64>, write_p99_ms: Option<f64>) -> f64 {
    read_p99_ms.or(write_p99_ms).unwrap_or(0.0)
}

/// The same of a run.
pub(super) fn tail_of(run: &RunResult) -> f64 {
    tail_ms(run.figures.read_p99_ms, run.figures.write_p99_ms)
}

/// The share of the time that the disk works.
pub(super) fn utilisation(run: &RunResult) -> f64 {
    run.figures.busy_s / run.figures.makespan_s.max(1e-9)
}

/// Whether the disk is mostly idle and answers as fast as it can: then there is nothing to gain.
pub(super) fn is_at_ease(baseline: &RunResult) -> bool {
    utilisation(baseline) < MOSTLY_IDLE && tail_of(baseline) <= TAIL_FINE_MS
}

/// Which scheduler is to be used, if that can be told.
pub(super) fn scheduler(choice: &Choice<'_>) -> (Verdict, Option<String>) {
    let baseline = choice.baseline();
    if baseline.figures.requests < TOO_FEW {
        return (Verdict::TooShort, None);
    }
    let best = choice.best().unwrap_or(&baseline.policy);
    let verdict = match () {
        () if best != baseline.policy => Verdict::Recommended,
        () if utilisation(baseline) < UTILISATION_THAT_MATTERS || is_at_ease(baseline) => {
            Verdict::LoadTooLow
        }
        () if choice.differs() => Verdict::BaselineIsBest,
        () => Verdict::NothingToGain,
    };
    (verdict, Some(best.to_string()))
}
