//! All schedulers under a replay, and under another beside it.
//!
//! *Open* replay lets requests come as recorded, however late answers are: of a disk that falls behind it understates
//! the work, since all of its backlog can be put in order. In *dependent* replay requests wait for answers. Which one an
//! answer is told by depends on whether the disk keeps up; what is recommended has to hold in both.

use forebay_core::Device;
use forebay_core::catalog::POLICIES;
use serde::Serialize;

use super::available::{EQUAL_SLOTS, EQUAL_SLOTS_SPEC};
use super::choice::{Choice, Prefer};
use super::findings::Case;
use super::judge::TOO_FEW;
use super::ranking::{Ranked, rank};
use super::resampled;
use crate::error::Error;
use crate::input::Input;
use crate::progress::{Telling, Told};
use crate::simulate::{Bed, DEPENDENT_KNOWN_SHARE, Replay, Run, RunResult, Setup, run_all};
use crate::slices::{Resampled, Slices};

/// What is tried, and how.
#[derive(Clone, Copy)]
pub(super) struct Schedulers<'a> {
    /// The scheduler that the disk has now, which the others are compared with.
    pub(super) current: &'a str,
    /// The most runs at a time.
    pub(super) jobs: usize,
    /// Whether both replays are wanted.
    pub(super) both_replays: bool,
}

/// Every scheduler's run under one replay.
pub(super) struct Tryout {
    current: String,
    pub(super) setup: Setup,
    pub(super) runs: Vec<(String, Run)>,
    pub(super) results: Vec<RunResult>,
    resampled: Resampled,
    /// Whether the device is slow enough for the way through a server not to count: docs/serve-measured.md, section 2.
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
        let Schedulers { current, jobs, .. } = schedulers;
        let listed = || POLICIES.iter().map(|listed| listed.name);
        let own = Some(current).filter(|current| listed().all(|name| name != *current));
        let names: Vec<&str> = listed().chain([EQUAL_SLOTS_SPEC]).chain(own).collect();
        let mut runs = run_all(input, bed, &names, setup, jobs, progress)?;
        let yardstick = runs.iter_mut().find(|run| run.result.policy == EQUAL_SLOTS_SPEC);
        yardstick.into_iter().for_each(|run| run.result.policy = EQUAL_SLOTS.to_string());
        let slices: Vec<&Slices> = runs.iter().filter_map(|run| run.slices.as_ref()).collect();
        let resampled = resampled(&slices);
        let results = runs.iter().map(|run| run.result.clone()).collect();
        let runs = runs.into_iter().map(|run| (run.result.policy.clone(), run)).collect();
        let is_slow = bed.disk.model.cylinders() > 0;
        Ok(Tryout { current: current.to_string(), setup, runs, results, resampled, is_slow })
    }

    pub(super) fn choice(&self, prefer: Prefer) -> Choice<'_> {
        let choice = Choice::new(&self.results, &self.current, &self.resampled, prefer);
        if self.is_slow { choice } else { choice.without_own() }
    }

    pub(super) fn ranking(&self, choice: &Choice<'_>, recommended: Option<&str>) -> Vec<Ranked> {
        rank(&self.results, &self.resampled, choice, recommended)
    }

    /// A scheduler's run, whole and in slices.
    pub(super) fn run(&self, policy: &str) -> Option<(&RunResult, &Slices)> {
        let at = self.results.iter().position(|run| run.policy == policy)?;
        Some((&self.results[at], self.runs[at].1.slices.as_ref()?))
    }

    /// The run under the current scheduler, where the device falls behind.
    fn behind(&self) -> Option<&RunResult> {
        let baseline = self.results.iter().find(|run| run.policy == self.current);
        baseline.filter(|run| run.figures.is_overloaded())
    }
}

/// The replay that an answer is told by, and the other.
pub(super) struct Tryouts {
    pub(super) leading: Tryout,
    pub(super) other: Option<Tryout>,
}

impl Tryouts {
    /// The run under the current scheduler with arrivals as recorded, if the device falls behind there. Where requests wait
    /// for answers, a lag is no overload: it adds up on any device that is slower than the recorded one.
    pub(super) fn behind(&self) -> Option<&RunResult> {
        let mut tryouts = std::iter::once(&self.leading).chain(&self.other);
        let open = tryouts.find(|tryout| tryout.setup.replay == Replay::Open)?;
        open.behind().filter(|run| run.figures.requests >= TOO_FEW)
    }

    /// Under the replay of `setup` and, if `both` are wanted and the trace has latencies, open and dependent.
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
        let leading = Tryout::of(input, bed, setup, schedulers, &mut |told: &Told| {
            progress(&Told { done_share: told.done_share * share, ..told.clone() })
        })?;
        if !both {
            return Ok(Tryouts { leading, other: None });
        }
        let setup = Setup { replay: Replay::Dependent, ..setup };
        let dependent = Tryout::of(input, bed, setup, schedulers, &mut |told: &Told| {
            progress(&Told { done_share: share + told.done_share * share, ..told.clone() })
        })?;
        // A backlog's length is nobody's latency. Where there is none, requests that wait for answers may still add up to a
        // lag, as on any device that is slower than the recorded one: that is no overload.
        let (leading, other) = match leading.behind().is_some() {
            true => (dependent, leading),
            false => (leading, dependent),
        };
        Ok(Tryouts { leading, other: Some(other) })
    }
}

/// Schedulers under the replay that the answer is not told by.
#[derive(Clone, Debug, Serialize)]
pub struct OtherReplay {
    /// Which.
    pub replay: Replay,
    /// What its total times are.
    pub total_is: &'static str,
    /// Every scheduler, that with the least total time first.
    pub ranking: Vec<Ranked>,
    /// Where the replays do not agree: the scheduler that one of them alone would have.
    pub disputed: Option<String>,
}

impl OtherReplay {
    /// Of `other`, beside what `choice` has chosen.
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
    /// What one replay alone would have, with what it comes to in both.
    pub(super) fn disputed(&self) -> String {
        let told = self.other.and_then(|other| {
            let policy = other.disputed.as_deref()?;
            let here = self.results.iter().find(|run| run.policy == policy)?;
            let (first, second) = (self.falls(here), self.in_other(other, policy)?);
            let (ours, theirs) = (self.setup.replay.as_told(), other.replay.as_told());
            Some(format!("{policy}: {ours}, {first}; {theirs}, {second}."))
        });
        format!(
            "It depends on whether requests wait for one another. {} {}",
            told.unwrap_or_default(),
            self.stay()
        )
    }

    /// What a scheduler changes under the other replay, against the baseline there.
    fn in_other(&self, other: &OtherReplay, policy: &str) -> Option<String> {
        let (is, was) = (other.ranked(policy)?, other.ranked(&self.baseline.policy)?);
        let tails = |of: &Ranked| [of.read_p99_ms, of.write_p99_ms];
        let total = self.total_change(other.total_is, was.total_s, is.total_s);
        Some(self.with_tails(total, tails(is), tails(was)))
    }

    /// What comes of what is chosen under the other replay; nothing where that is the baseline.
    pub(super) fn under_other(&self) -> Option<String> {
        let other = self.other.filter(|_| self.chosen.policy != self.baseline.policy)?;
        let change = self.in_other(other, &self.chosen.policy)?;
        let (chosen, how) = (&self.chosen.policy, other.replay.as_told());
        Some(format!("{chosen} is also better {how}: {change}."))
    }
}

/// A caution where dependent replay has few latencies to go by.
pub(super) fn rough_caution(input: &Input, replays: [Option<Replay>; 2]) -> Option<String> {
    let share = input.known_latency_share();
    let is_used = replays.contains(&Some(Replay::Dependent));
    (is_used && share < DEPENDENT_KNOWN_SHARE).then(|| {
        format!(
            "Dependent replay is rough here: only {} of the requests have a recorded latency, so it cannot tell what waited \
             for the others.",
            crate::quantities::percent(share)
        )
    })
}
