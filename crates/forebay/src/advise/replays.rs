//! Runs all schedulers in one replay, or in two.
//!
//! In *open* replay, requests arrive as recorded, however late responses are. On a disk that falls
//! behind, open replay understates the work, because the whole backlog can be reordered. In
//! *dependent* replay, requests wait for earlier responses. Whether the disk keeps up determines
//! which replay *leads*, that is, which one the answer is based on. A recommendation has to hold in
//! both.

use forebay_core::Device;
use forebay_core::catalog::POLICIES;
use serde::Serialize;

use super::{
    Case, Choice, EQUAL_SLOTS, EQUAL_SLOTS_SPEC, Prefer, Provider, Ranked, TOO_FEW, rank, resampled,
};
use crate::simulate::{Bed, DEPENDENT_KNOWN_SHARE, Replay, Run, RunResult, Setup, run_all};
use crate::slices::{Resampled, Slices};
use crate::{Error, Input, ProgressReport, Telling};

/// Which schedulers to simulate, and how.
#[derive(Clone, Copy)]
pub(super) struct Schedulers<'a> {
    /// The scheduler that the disk uses now. The others are compared with it.
    pub(super) current: &'a str,
    /// The maximum number of parallel runs.
    pub(super) jobs: usize,
    /// Whether to run the schedulers in both open and dependent replay.
    pub(super) both_replays: bool,
    /// The step of the trace's clock, if requests share its steps, else 0.
    pub(super) clock_step_ms: f64,
}

/// Above this number of requests, the following are not simulated: schedulers that no current
/// system has, drives with other parameters than the catch margin, a second cache, and queue sizes
/// with more than one scheduler.
pub(super) const LARGE_REQUESTS: u64 = 4_000_000;

/// Returns the specs of the policies to simulate for a trace of `requests` requests.
fn tried(current: &str, requests: u64) -> Vec<&str> {
    let mut names: Vec<&str> = POLICIES.iter().map(|listed| listed.name).collect();
    names.retain(|name| !is_left_out(name, requests) || *name == current);
    let own = Some(current).filter(|current| !names.contains(current));
    names.iter().copied().chain([EQUAL_SLOTS_SPEC]).chain(own).collect()
}

fn is_left_out(policy: &str, requests: u64) -> bool {
    requests > LARGE_REQUESTS && !Provider::of(policy).is_obtainable()
}

/// Returns a caution that names the schedulers that were not simulated, if there are any.
pub(super) fn left_out_caution(results: &[RunResult], requests: u64) -> Option<String> {
    let is_tried = |name: &&str| results.iter().any(|run| run.policy == *name);
    let listed = POLICIES.iter().map(|listed| listed.name);
    let missing: Vec<&str> = listed.filter(|name| !is_tried(name)).collect();
    (requests > LARGE_REQUESTS && !missing.is_empty()).then(|| {
        let names = missing.join(", ");
        let most = LARGE_REQUESTS / 1_000_000;
        format!(
            "The trace has more than {most} million requests, so the following were not tried: \
             schedulers that no current system provides ({names}), more than one cache, and queue \
             sizes with more than one scheduler. `forebay simulate TRACE --policy {}` simulates \
             one of these schedulers.",
            missing[0]
        )
    })
}

/// The runs of all schedulers in one replay.
pub(super) struct Tryout {
    current: String,
    pub(super) setup: Setup,
    pub(super) runs: Vec<(String, Run)>,
    pub(super) results: Vec<RunResult>,
    resampled: Resampled,
    clock_step_ms: f64,
    /// Whether the device is so slow that the detour through a server adds little to its latency
    /// (docs/serve-measured.md, section 2).
    is_slow: bool,
}

impl Tryout {
    fn of(
        input: &Input,
        bed: Bed<'_>,
        setup: Setup,
        schedulers: Schedulers<'_>,
        progress: Telling<'_>,
    ) -> Result<Tryout, Error> {
        let Schedulers { current, jobs, clock_step_ms, .. } = schedulers;
        let names = tried(current, input.description.records);
        let mut runs = run_all(input, bed, &names, setup, jobs, progress)?;
        let yardstick = runs.iter_mut().find(|run| run.result.policy == EQUAL_SLOTS_SPEC);
        yardstick.into_iter().for_each(|run| run.result.policy = EQUAL_SLOTS.to_string());
        let slices: Vec<&Slices> = runs.iter().filter_map(|run| run.slices.as_ref()).collect();
        let resampled = resampled(&slices);
        let results = runs.iter().map(|run| run.result.clone()).collect();
        let runs = runs.into_iter().map(|run| (run.result.policy.clone(), run)).collect();
        let is_slow = bed.disk.model.cylinders() > 0;
        let current = current.to_string();
        Ok(Tryout { current, setup, runs, results, resampled, clock_step_ms, is_slow })
    }

    pub(super) fn choice(&self, prefer: Prefer) -> Choice<'_> {
        let choice = Choice::new(&self.results, &self.current, &self.resampled, prefer)
            .with_clock_step(self.clock_step_ms);
        if self.is_slow { choice } else { choice.without_own() }
    }

    pub(super) fn ranking(&self, choice: &Choice<'_>, recommended: Option<&str>) -> Vec<Ranked> {
        rank(&self.results, &self.resampled, choice, recommended)
    }

    /// Returns a scheduler's run with its slices.
    pub(super) fn run(&self, policy: &str) -> Option<(&RunResult, &Slices)> {
        let at = self.results.iter().position(|run| run.policy == policy)?;
        Some((&self.results[at], self.runs[at].1.slices.as_ref()?))
    }

    /// Returns the run of the current scheduler, if the device falls behind in that run.
    fn behind(&self) -> Option<&RunResult> {
        let baseline = self.results.iter().find(|run| run.policy == self.current);
        baseline.filter(|run| run.figures.is_overloaded())
    }
}

/// The runs in the leading replay, on which the answer is based, and in the other replay.
pub(super) struct Tryouts {
    pub(super) leading: Tryout,
    pub(super) other: Option<Tryout>,
}

impl Tryouts {
    /// Returns the run of the current scheduler with the recorded arrivals, if the device falls
    /// behind in that run. Only open replay counts: in dependent replay, lag accumulates on any
    /// device that is slower than the recorded one, and does not mean overload.
    pub(super) fn behind(&self) -> Option<&RunResult> {
        let mut tryouts = std::iter::once(&self.leading).chain(&self.other);
        let open = tryouts.find(|tryout| tryout.setup.replay == Replay::Open)?;
        open.behind().filter(|run| run.figures.requests >= TOO_FEW)
    }

    /// Runs all schedulers in the replay of `setup`, or in both open and dependent replay if both
    /// are requested and the trace has latencies.
    pub(super) fn of(
        input: &Input,
        bed: Bed<'_>,
        setup: Setup,
        schedulers: Schedulers<'_>,
        progress: Telling<'_>,
    ) -> Result<Tryouts, Error> {
        let both = schedulers.both_replays
            && setup.replay == Replay::Open
            && input.known_latency_share() > 0.0;
        let share = if both { 0.5 } else { 1.0 };
        let leading = Tryout::of(input, bed, setup, schedulers, &mut |told: &ProgressReport| {
            progress(&ProgressReport { done_share: told.done_share * share, ..told.clone() })
        })?;
        if !both {
            return Ok(Tryouts { leading, other: None });
        }
        let setup = Setup { replay: Replay::Dependent, ..setup };
        let dependent = Tryout::of(input, bed, setup, schedulers, &mut |told: &ProgressReport| {
            progress(&ProgressReport {
                done_share: share + told.done_share * share,
                ..told.clone()
            })
        })?;
        // With a backlog, dependent replay leads, because open replay's latencies would only
        // measure the length of the backlog. The lag in dependent replay itself is no sign of
        // overload: it accumulates on any device that is slower than the recorded one.
        let (leading, other) = match leading.behind().is_some() {
            true => (dependent, leading),
            false => (leading, dependent),
        };
        Ok(Tryouts { leading, other: Some(other) })
    }
}

/// The ranking of schedulers in the replay that does not lead.
#[derive(Clone, Debug, Serialize)]
pub struct OtherReplay {
    /// Which replay this is: open or dependent.
    pub replay: Replay,
    /// What total time is called in this replay.
    pub total_is: &'static str,
    /// All schedulers in this replay, by increasing total time.
    pub ranking: Vec<Ranked>,
    /// The scheduler that one of the replays alone would recommend, if the replays disagree.
    pub disputed: Option<String>,
}

impl OtherReplay {
    /// Ranks the schedulers in the replay `other`, and detects a disagreement with `choice`.
    pub(super) fn of(other: &Tryout, choice: &Choice<'_>, prefer: Prefer) -> OtherReplay {
        let own = other.choice(prefer);
        let alone = choice.alone().best().filter(|best| *best != choice.baseline().policy);
        let disputed = alone.or(own.best()).filter(|_| choice.is_disputed());
        OtherReplay {
            replay: other.setup.replay,
            total_is: other.setup.replay.total_name(),
            ranking: other.ranking(&own, None),
            disputed: disputed.map(str::to_string),
        }
    }

    pub(super) fn ranked(&self, policy: &str) -> Option<&Ranked> {
        self.ranking.iter().find(|ranked| ranked.policy == policy)
    }
}

impl Case<'_> {
    /// Formats which scheduler one replay alone would recommend, with its results in both replays.
    pub(super) fn disputed(&self) -> String {
        let told = self.other.and_then(|other| {
            let policy = other.disputed.as_deref()?;
            let here = self.results.iter().find(|run| run.policy == policy)?;
            let (first, second) = (self.falls(here), self.in_other(other, policy)?);
            let (ours, theirs) = (self.setup.replay.as_told(), other.replay.as_told());
            Some(format!("{policy}: {ours}, {first}; {theirs}, {second}."))
        });
        format!("{} {} {}", self.on_what(), told.unwrap_or_default(), self.stay())
    }

    /// Formats how a scheduler's results differ from the baseline's in the other replay.
    fn in_other(&self, other: &OtherReplay, policy: &str) -> Option<String> {
        let (is, was) = (other.ranked(policy)?, other.ranked(&self.baseline.policy)?);
        let tails = |of: &Ranked| [of.read_p99_ms, of.write_p99_ms];
        let total = self.total_change(other.total_is, was.total_s, is.total_s);
        Some(self.with_tails(total, tails(is), tails(was)))
    }

    /// Formats the chosen scheduler's results in the other replay; `None` if the baseline was
    /// chosen.
    pub(super) fn under_other(&self) -> Option<String> {
        let other = self.other.filter(|_| self.chosen.policy != self.baseline.policy)?;
        let change = self.in_other(other, &self.chosen.policy)?;
        let (chosen, how) = (&self.chosen.policy, other.replay.as_told());
        Some(format!("{chosen} is also better {how}: {change}."))
    }
}

/// Returns a caution if too few requests have a recorded latency for dependent replay to be
/// reliable.
pub(super) fn rough_caution(input: &Input, replays: [Option<Replay>; 2]) -> Option<String> {
    let share = input.known_latency_share();
    let is_used = replays.contains(&Some(Replay::Dependent));
    (is_used && share < DEPENDENT_KNOWN_SHARE).then(|| {
        format!(
            "Dependent replay is rough here: only {} of the requests have a recorded latency, so \
             it is unclear which requests waited for others.",
            crate::quantities::percent(share)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_trace_tries_available_and_current_schedulers() {
        let all = tried("mq-deadline", LARGE_REQUESTS);
        assert_eq!(all.len(), POLICIES.len() + 1);
        assert_eq!(tried("bfq:slice-idle-us=0", 1).len(), POLICIES.len() + 2);
        let large = tried("cfq", LARGE_REQUESTS + 1);
        for (name, is_tried) in [("cfq", true), ("deadline", false), ("bid", false), ("bfq", true)]
        {
            assert_eq!(large.contains(&name), is_tried, "{name}: {large:?}");
        }
    }

    #[test]
    fn untried_schedulers_are_named() {
        assert_eq!(left_out_caution(&[], LARGE_REQUESTS), None);
        let told = left_out_caution(&[], LARGE_REQUESTS + 1).unwrap();
        assert!(told.contains("(noop, ") && told.contains("--policy noop"), "{told}");
    }
}
