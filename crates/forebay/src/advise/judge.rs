//! What counts as better: schedulers against the baseline; what needs flash against the baseline and
//! the recommended scheduler both, by total time and tail together.

use super::{Ranked, Verdict, baseline};
use crate::simulate::{Replay, RunResult};

/// Less than this share of the total is called no difference.
pub(super) const SHARE_THAT_MATTERS: f64 = 0.03;
/// Tails this much apart (as a share) are called different.
pub(super) const TAIL_THAT_MATTERS: f64 = 0.2;
/// Below this utilisation requests seldom meet.
const UTILISATION_THAT_MATTERS: f64 = 0.1;
/// Totals this close are called equal; a tail that differs decides.
const EQUAL_SHARE: f64 = 0.01;
/// With fewer requests a 99th percentile is a matter of a handful of them.
pub(super) const REQUESTS_THAT_MATTER: u64 = 1000;
/// With fewer nothing is recommended, nor ranked.
pub(super) const TOO_FEW: u64 = 100;
/// Flash that saves a smaller share of the total time than this is not worth its price.
const FLASH_SHARE_THAT_MATTERS: f64 = 0.1;
/// A disk that is busy less than this share of the time is mostly idle: time it works less is nobody's
/// gain.
const MOSTLY_IDLE: f64 = 0.5;
/// Two or three random accesses of a 7200-rpm disk: what a request takes that hardly waited.
const TAIL_FINE_MS: f64 = 50.0;
/// A disk that is busy less than this share of the time keeps up with its requests.
const KEEPS_UP: f64 = 0.95;
/// On a disk that keeps up, nothing is recommended that makes the tail more than so many times longer.
const TAIL_BEARABLE: f64 = 2.0;
/// A tail that is longer by less counts as the same.
const TAIL_SAME: f64 = 0.05;

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

/// Whether a scheduler that helps one tail makes another one worse.
fn harms(ranked: &Ranked, baseline: &RunResult) -> bool {
    let worse = |now: f64, before: f64| now > before * (1.0 + TAIL_THAT_MATTERS);
    let writes = ranked.write_p99_ms.zip(baseline.figures.write_p99_ms);
    writes.is_some_and(|(now, before)| worse(now, before))
        || worse(ranked.longest_wait_ms, baseline.figures.longest_wait_ms)
}

/// Which scheduler is to be used, if that can be told.
pub(super) fn scheduler(results: &[RunResult], ranking: &[Ranked]) -> (Verdict, Option<String>) {
    let baseline = baseline(results);
    if baseline.figures.requests < TOO_FEW {
        return (Verdict::TooShort, None);
    }
    let (verdict, chosen) = chosen(baseline, ranking);
    (verdict, Some(chosen.unwrap_or(&baseline.policy).to_string()))
}

/// The scheduler that beats the baseline, if one does.
fn chosen<'a>(baseline: &RunResult, ranking: &'a [Ranked]) -> (Verdict, Option<&'a str>) {
    let tail = |ranked: &Ranked| tail_ms(ranked.read_p99_ms, ranked.write_p99_ms);
    let gain = |ranked: &Ranked| ranked.gain_share.unwrap_or(0.0);
    let baseline_tail = tail_of(baseline);
    let utilisation = utilisation(baseline);
    // Where the disk keeps up, its time is worth less than people's.
    let keeps_up = baseline.replay == Replay::Open && utilisation < KEEPS_UP;
    let bearable = |one: &&Ranked| !keeps_up || tail(one) <= baseline_tail * TAIL_BEARABLE;
    let first = ranking.iter().find(bearable).unwrap_or(&ranking[0]);
    let best_tail = |share: f64| {
        let close = ranking.iter().filter(|one| one.total_s <= first.total_s * (1.0 + share));
        close.min_by(|a, b| tail(a).total_cmp(&tail(b))).unwrap_or(first)
    };
    let calmest = best_tail(SHARE_THAT_MATTERS);
    let tail_helps = tail(calmest) <= baseline_tail * (1.0 - TAIL_THAT_MATTERS)
        && baseline.figures.requests >= REQUESTS_THAT_MATTER
        && !harms(calmest, baseline);
    if (utilisation < UTILISATION_THAT_MATTERS || is_at_ease(baseline)) && !tail_helps {
        return (Verdict::LoadTooLow, None);
    }
    if gain(first) >= SHARE_THAT_MATTERS {
        let equal = best_tail(EQUAL_SHARE);
        let calmer = tail(equal) <= tail(first) * (1.0 - TAIL_THAT_MATTERS);
        return (Verdict::Recommended, Some(&if calmer { equal } else { first }.policy));
    }
    if tail_helps {
        return (Verdict::Recommended, Some(&calmest.policy));
    }
    let worst = ranking.iter().map(|ranked| -gain(ranked)).fold(0.0, f64::max);
    if worst >= SHARE_THAT_MATTERS {
        return (Verdict::BaselineIsBest, None);
    }
    (Verdict::NothingToGain, None)
}

/// Why flash is not worth its price in `run`; none if it is. It has to beat both the baseline and what
/// is free, in total time without harm to the tails, or in the tail without harm to the rest.
pub(super) fn against_flash(
    run: &RunResult,
    free: &RunResult,
    baseline: &RunResult,
) -> Option<&'static str> {
    let references = [free, baseline];
    let least = |of: &dyn Fn(&RunResult) -> f64| of(free).min(of(baseline));
    let saved = 1.0 - run.total_s() / least(&RunResult::total_s).max(1e-9);
    let (was, is) = (least(&tail_of), tail_of(run));
    let placed = super::ranked(run, Some(baseline));
    let harmed = references.iter().any(|reference| harms(&placed, reference));
    let late_writes = references.iter().any(|reference| {
        let writes = run.figures.write_p99_ms.zip(reference.figures.write_p99_ms);
        writes.is_some_and(|(now, before)| now > before * (1.0 + TAIL_THAT_MATTERS))
    });
    let calmer =
        is <= was * (1.0 - TAIL_THAT_MATTERS) && baseline.figures.requests >= REQUESTS_THAT_MATTER;
    let shorter = saved >= FLASH_SHARE_THAT_MATTERS;
    let mostly_idle = utilisation(baseline) < MOSTLY_IDLE;
    if is_at_ease(baseline) {
        return Some(
            "Nothing to gain from flash: the disk is mostly idle, and answers about as fast as a disk \
             can",
        );
    }
    if shorter && !mostly_idle && is <= was * (1.0 + TAIL_SAME) && !late_writes {
        return None;
    }
    if calmer && saved >= -SHARE_THAT_MATTERS && !harmed {
        return None;
    }
    Some(match () {
        () if shorter && is > was * (1.0 + TAIL_SAME) => {
            "Not worth flash: it saves time, but the slowest 1 % become slower"
        }
        () if shorter && late_writes => {
            "Not worth flash: it saves time, but the slowest 1 % of writes become slower"
        }
        () if shorter && mostly_idle => {
            "Not worth flash: the disk has little to do, and the slowest 1 % do not become much faster"
        }
        () if calmer && saved < -SHARE_THAT_MATTERS => {
            "Not worth flash: 99 % are faster, but in total it takes longer than what is free"
        }
        () if calmer => "Not worth flash: 99 % are faster, but others pay for it",
        () if is > was * (1.0 + TAIL_SAME) => {
            "Not worth flash: the slowest 1 % become slower, and it saves too little"
        }
        () => "Not worth flash: it saves too little beyond what is free",
    })
}

#[cfg(test)]
mod tests;
