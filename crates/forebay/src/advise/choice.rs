//! Chooses the scheduler to use, by one rule that a reader can repeat:
//!
//! 1. These figures count: the total time if the device cannot keep up (otherwise nobody waits for
//!    it), and the 99th percentiles of reads and of writes if there are enough of them. In open
//!    replay, tails do not count if the baseline is overloaded
//!    ([`crate::statistics::Figures::is_overloaded`]), because they then measure how long the
//!    backlog is, or how little of it may wait. A scheduler that is overloaded when the baseline is
//!    not is no candidate.
//! 2. A scheduler is better in a figure if the figure is at least 3 % less, and less in 95 % of
//!    resamples of the run (a block bootstrap, [`crate::slices`]). A scheduler beats another if it
//!    is better in one figure and 3 % worse in none, whether or not by chance.
//! 3. Among the available schedulers that no other available scheduler beats, the preference picks
//!    one: least time, read tail, write tail, or the product of these figures.
//! 4. Schedulers that cannot be distinguished from that pick and are within a tenth of it count as
//!    equally good. Two schedulers cannot be distinguished if the preference does not separate
//!    them, and the pick is not better in one figure while the other is better in none. Among the
//!    equally good schedulers, the baseline is chosen if it is one of them; else one that beats the
//!    baseline, preferably one in Linux; else the first in the list, which is the simplest.
//!
//! If the trace is replayed both open and dependent, only schedulers that beat the baseline in the
//! replay that does not lead are candidates ([`Choice::agreeing`]).
//!
//! Flash is worth its price if it is better by a tenth than the baseline, than the chosen
//! scheduler, and than every available scheduler that no other beats, either under the same
//! preference or in the mean or the median of the requests that the preference considers. It must
//! also not be 3 % worse than the baseline or the chosen scheduler in any of these figures. Of two
//! uses of flash, the one that needs less is chosen, unless the other is better by another tenth.

mod passed_over;

use serde::Serialize;

use super::Sensitivity;
use super::available::Provider;
use super::judge::{SHARE_THAT_MATTERS, TOO_FEW, keeps_up, tells_latencies};
use crate::quantities::{millis, seconds};
use crate::simulate::RunResult;
use crate::slices::{Compared, Resampled};

pub use passed_over::PassedOver;

/// Returns the factor that converts the ratio of two runs' busy times into the ratio of their total
/// times. Slices do not record total times, so a resample's total time is assumed to change in
/// proportion to its busy time.
pub(super) fn total_scale(a: &RunResult, b: &RunResult) -> f64 {
    let busy = a.figures.busy_s / b.figures.busy_s.max(1e-9);
    a.total_s() / b.total_s().max(1e-9) / busy.max(1e-9)
}

/// Flash has to improve figures by this share on average.
const FLASH_SHARE_THAT_MATTERS: f64 = 0.1;

/// A scheduler that is worse than the best by more than this share is not chosen for its
/// simplicity.
const NEAR_SHARE: f64 = 0.1;

/// The preference that decides between schedulers that no other scheduler beats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Prefer {
    /// The least busy time of the device, or the least time until everything is done.
    Total,
    /// The lowest 99th percentile of reads.
    Reads,
    /// The lowest 99th percentile of writes.
    Writes,
    /// The least product of all figures that count.
    #[default]
    Balance,
}

impl Prefer {
    /// All preferences.
    pub const ALL: [Prefer; 4] = [Prefer::Total, Prefer::Reads, Prefer::Writes, Prefer::Balance];

    /// Returns the name of the preference.
    pub fn name(self) -> &'static str {
        match self {
            Prefer::Total => "total",
            Prefer::Reads => "reads",
            Prefer::Writes => "writes",
            Prefer::Balance => "balance",
        }
    }

    /// Returns the preference with this name.
    pub fn named(name: &str) -> Option<Prefer> {
        Prefer::ALL.into_iter().find(|prefer| prefer.name() == name)
    }

    fn figure(self) -> Option<Figure> {
        match self {
            Prefer::Total => Some(Figure::Total),
            Prefer::Reads => Some(Figure::Reads),
            Prefer::Writes => Some(Figure::Writes),
            Prefer::Balance => None,
        }
    }
}

/// A figure by which schedulers are compared; less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Total,
    Reads,
    Writes,
    ReadMean,
    ReadMedian,
    WriteMean,
    WriteMedian,
}

impl Figure {
    fn of(self, run: &RunResult) -> Option<f64> {
        match self {
            Figure::Total => Some(run.total_s()),
            Figure::Reads => run.figures.read_p99_ms,
            Figure::Writes => run.figures.write_p99_ms,
            Figure::ReadMean => run.figures.read_mean_ms,
            Figure::ReadMedian => run.figures.read_p50_ms,
            Figure::WriteMean => run.figures.write_mean_ms,
            Figure::WriteMedian => run.figures.write_p50_ms,
        }
    }

    fn resampled(self, run: &Compared) -> Option<f64> {
        match self {
            Figure::Total => Some(run.busy_s),
            Figure::Reads => run.read_p99_ms,
            Figure::Writes => run.write_p99_ms,
            Figure::ReadMean => run.read_mean_ms,
            Figure::ReadMedian => run.read_p50_ms,
            Figure::WriteMean => run.write_mean_ms,
            Figure::WriteMedian => run.write_p50_ms,
        }
    }

    fn told(self, value: f64) -> String {
        match self {
            Figure::Total => seconds(value),
            _ => millis(value),
        }
    }

    /// Returns the figure's name for runs with the replay of `run`.
    fn name(self, run: &RunResult) -> &'static str {
        match self {
            Figure::Total => run.replay.total_name(),
            Figure::Reads => "read p99",
            Figure::Writes => "write p99",
            Figure::ReadMean => "read mean",
            Figure::ReadMedian => "read median",
            Figure::WriteMean => "write mean",
            Figure::WriteMedian => "write median",
        }
    }
}

/// How a run compares with the baseline, by the rule above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunStanding {
    /// The run is the baseline.
    Baseline,
    /// Better in a figure, and worse in none.
    Better,
    /// Worse in a figure, and better in none.
    Worse,
    /// Better in one figure and worse in another.
    Mixed,
    /// No difference that is both material and beyond chance.
    Alike,
}

/// The schedulers' runs and the rule's parameters.
pub(crate) struct Choice<'a> {
    runs: &'a [RunResult],
    /// The index of the run that gains are measured against.
    baseline: usize,
    resampled: &'a Resampled,
    figures: Vec<Figure>,
    prefer: Prefer,
    /// Whether each run also beats the baseline under the other replay; none if there is only one
    /// replay.
    agreed: Option<Vec<bool>>,
    /// Whether the other replay has a scheduler that should replace the baseline.
    other_moves: bool,
    /// Whether Forebay's own schedulers may be chosen.
    own: bool,
    /// Runs that are not better than the baseline on every drive that the device may be.
    unsure: Vec<usize>,
}

impl<'a> Choice<'a> {
    /// Creates a choice between runs of one trace, which include the run of `baseline`.
    pub(crate) fn new(
        runs: &'a [RunResult],
        baseline: &str,
        resampled: &'a Resampled,
        prefer: Prefer,
    ) -> Self {
        let at = runs.iter().position(|run| run.policy == baseline).unwrap_or(0);
        let baseline = &runs[at];
        let total = !keeps_up(baseline) || prefer == Prefer::Total;
        let tails = tells_latencies(baseline);
        let counts = [
            (Figure::Total, total),
            (Figure::Reads, tails && baseline.figures.reads >= TOO_FEW),
            (Figure::Writes, tails && baseline.figures.writes >= TOO_FEW),
        ];
        let figures = counts.into_iter().filter(|(_, counts)| *counts);
        let figures = figures.map(|(figure, _)| figure).collect();
        Choice {
            runs,
            baseline: at,
            resampled,
            figures,
            prefer,
            agreed: None,
            other_moves: false,
            own: true,
            unsure: Vec::new(),
        }
    }

    /// Excludes schedulers that do not beat the baseline in `other`, which has the same schedulers
    /// under another replay.
    pub(super) fn agreeing(self, other: &Choice<'_>) -> Self {
        let beats = |run: &RunResult| {
            let at = other.runs.iter().position(|other| other.policy == run.policy);
            at.is_some_and(|at| other.beats(at, other.baseline).is_some())
        };
        let agreed = self.runs.iter().map(beats).collect();
        let other_moves = other.best().is_some_and(|best| best != other.baseline().policy);
        Choice { agreed: Some(agreed), other_moves, ..self }
    }

    /// Excludes Forebay's own schedulers. On flash, the path through a server takes about a quarter
    /// of a read, and the server's own limit, some 100,000 requests a second, is not simulated.
    pub(super) fn without_own(self) -> Self {
        Choice { own: false, ..self }
    }

    /// Returns whether one replay has a scheduler that should replace the baseline, but the two
    /// replays together have none.
    pub(super) fn is_disputed(&self) -> bool {
        let stays = |choice: &Choice<'_>| choice.best() == Some(self.baseline().policy.as_str());
        self.agreed.is_some() && stays(self) && (self.other_moves || !stays(&self.alone()))
    }

    /// Returns the choice by this replay alone.
    pub(super) fn alone(&self) -> Choice<'a> {
        let (figures, unsure) = (self.figures.clone(), self.unsure.clone());
        Choice { agreed: None, figures, unsure, ..*self }
    }

    /// Returns whether `policy` is still better than the baseline on a drive that differs slightly
    /// from the assumed one: better in the figure where it gains most, and no more than 3 % worse
    /// in any other.
    pub(super) fn holds(&self, policy: &str, elsewhere: &Sensitivity) -> bool {
        let Some(run) = self.runs.iter().position(|run| run.policy == policy) else { return true };
        let gain = |figure: Figure| match figure {
            Figure::Total => Some(elsewhere.gain_share),
            Figure::Reads => elsewhere.read_p99_gain_share,
            Figure::Writes => elsewhere.write_p99_gain_share,
            _ => None,
        };
        let best = self.beats(run, self.baseline).and_then(gain);
        let mut gains = self.figures.iter().filter_map(|figure| gain(*figure));
        best.is_none_or(|gain| gain > 0.0) && gains.all(|gain| gain >= -SHARE_THAT_MATTERS)
    }

    /// Returns the run of `policy`.
    pub(super) fn run(&self, policy: &str) -> Option<&'a RunResult> {
        self.runs.iter().find(|run| run.policy == policy)
    }

    /// Returns whether a scheduler was rejected because it is not better on every drive.
    pub(super) fn is_unsure(&self) -> bool {
        !self.unsure.is_empty()
    }

    /// Excludes `policy`, which is not better on every drive that the device may be.
    pub(super) fn without(mut self, policy: &str) -> Self {
        self.unsure.extend(self.runs.iter().position(|run| run.policy == policy));
        self
    }

    /// Returns the run that gains are measured against.
    pub(super) fn baseline(&self) -> &'a RunResult {
        &self.runs[self.baseline]
    }

    /// Returns whether run `a` is better than `b` in a figure.
    fn is_less(&self, figure: Figure, a: usize, b: usize) -> bool {
        self.is_less_by(SHARE_THAT_MATTERS, figure, a, b)
    }

    /// Returns whether run `a` is better than `b` in a figure by `share`, and better at all in 95 %
    /// of resamples.
    fn is_less_by(&self, share: f64, figure: Figure, a: usize, b: usize) -> bool {
        let point = figure.of(&self.runs[a]).zip(figure.of(&self.runs[b]));
        let ratio = self.resampled.ratio((a, b), |run| figure.resampled(run));
        let scale =
            if figure == Figure::Total { total_scale(&self.runs[a], &self.runs[b]) } else { 1.0 };
        point
            .zip(ratio)
            .is_some_and(|((is, was), (_, high))| is < was * (1.0 - share) && high * scale < 1.0)
    }

    /// Returns the figure in which `a` beats `b` most; none if `a` does not beat `b`.
    fn beats(&self, a: usize, b: usize) -> Option<Figure> {
        // A figure that may well be worse does not count as unharmed.
        if self.figures.iter().any(|figure| self.share(*figure, a, b) > 1.0 + SHARE_THAT_MATTERS) {
            return None;
        }
        let better = self.figures.iter().copied().filter(|figure| self.is_less(*figure, a, b));
        better.min_by(|x, y| self.share(*x, a, b).total_cmp(&self.share(*y, a, b)))
    }

    fn share(&self, figure: Figure, a: usize, b: usize) -> f64 {
        let values = figure.of(&self.runs[a]).zip(figure.of(&self.runs[b]));
        values.map_or(1.0, |(is, was)| is / was.max(1e-9))
    }

    /// Returns the figures that the preference considers: its own figure if that counts, else all
    /// that count.
    fn looked_at(&self) -> &[Figure] {
        let own = self.prefer.figure();
        let at = self.figures.iter().position(|figure| Some(*figure) == own);
        at.map_or(&self.figures, |at| &self.figures[at..=at])
    }

    /// Returns the means and medians of the requests that the preference considers.
    fn typical(&self) -> Vec<Figure> {
        let of = |figure: &Figure| match figure {
            Figure::Reads => vec![Figure::ReadMean, Figure::ReadMedian],
            Figure::Writes => vec![Figure::WriteMean, Figure::WriteMedian],
            _ => Vec::new(),
        };
        self.looked_at().iter().flat_map(of).collect()
    }

    fn weight(&self, run: usize) -> f64 {
        let values = self.looked_at().iter().map(|figure| figure.of(&self.runs[run]));
        values.map(|value| value.unwrap_or(0.0).max(1e-9)).product()
    }

    /// Returns whether the preference distinguishes `a` from `b`, and `a` is better by `share` of
    /// each figure on average.
    fn is_better_by(&self, share: f64, a: usize, b: usize) -> bool {
        let looked_at = self.looked_at();
        let weight = |run: &Compared| {
            looked_at.iter().map(|figure| figure.resampled(run)).product::<Option<f64>>()
        };
        let least = (1.0 - share).powi(looked_at.len().max(1) as i32);
        self.weight(a) < self.weight(b) * least
            && self.resampled.ratio((a, b), weight).is_some_and(|(_, high)| high < 1.0)
    }

    /// Returns whether `a` is at most a tenth worse than `b` in each figure on average.
    fn is_near(&self, a: usize, b: usize) -> bool {
        let most = (1.0 + NEAR_SHARE).powi(self.looked_at().len().max(1) as i32);
        self.weight(a) <= self.weight(b) * most
    }

    /// Returns the runs in `among` that no other run in `among` beats.
    fn front(&self, among: &[usize]) -> Vec<usize> {
        let is_beaten = |run: &usize| among.iter().any(|other| self.beats(*other, *run).is_some());
        among.iter().copied().filter(|run| !is_beaten(run)).collect()
    }

    /// Returns the run to use from `among`.
    fn pick(&self, among: &[usize]) -> Option<usize> {
        let mut front = self.front(among);
        // A user of the baseline need not change for a difference that may be chance.
        if front.contains(&self.baseline) {
            let moves =
                |run: &usize| *run == self.baseline || self.is_told_apart(*run, self.baseline);
            front.retain(moves);
        }
        let best = *front.iter().min_by(|a, b| self.weight(**a).total_cmp(&self.weight(**b)))?;
        let rank = |run: &usize| {
            let is_better = self.beats(*run, self.baseline).is_some();
            (
                *run != self.baseline,
                !is_better,
                Provider::of(self.policy(*run)) != Provider::Linux,
                *run,
            )
        };
        let near = |run: &usize| !self.is_told_apart(best, *run) && self.is_near(*run, best);
        front.into_iter().filter(near).min_by_key(rank)
    }

    /// Returns whether `best` is better than `other` under the preference, or better in a figure
    /// and worse in none.
    fn is_told_apart(&self, best: usize, other: usize) -> bool {
        let less =
            |a: usize, b: usize| self.figures.iter().any(|figure| self.is_less(*figure, a, b));
        self.is_better_by(SHARE_THAT_MATTERS, best, other)
            || (less(best, other) && !less(other, best))
    }

    /// Returns the candidates that no other candidate beats.
    pub(super) fn unbeaten(&self) -> Vec<&'a RunResult> {
        self.front(&self.candidates()).into_iter().map(|run| &self.runs[run]).collect()
    }

    /// Returns the best available scheduler: one from Linux or Forebay, or the baseline.
    pub(super) fn best(&self) -> Option<&'a str> {
        self.pick(&self.candidates()).map(|run| self.policy(run))
    }

    fn can_be_had(&self, run: usize) -> bool {
        let from = Provider::of(self.policy(run));
        let may = from.is_to_be_had() && (self.own || from != Provider::Forebay);
        run == self.baseline || may && self.may_be_used(run)
    }

    /// Returns whether the run answers every request and does not fall behind where the baseline
    /// keeps up.
    fn may_be_used(&self, run: usize) -> bool {
        let is_whole = self.runs[run].figures.unfinished == 0;
        run == self.baseline || is_whole && !self.falls_behind(&self.runs[run])
    }

    /// Returns whether the device is overloaded in `run` but not in the baseline's run.
    pub(super) fn falls_behind(&self, run: &RunResult) -> bool {
        !self.baseline().figures.is_overloaded() && run.figures.is_overloaded()
    }

    /// Returns whether the run also holds in the other replay and on every drive that the device
    /// may be.
    fn is_agreed(&self, run: usize) -> bool {
        let agreed = self.agreed.as_ref().is_none_or(|agreed| agreed[run]);
        run == self.baseline || agreed && !self.unsure.contains(&run)
    }

    /// Returns the runs that may be chosen: available schedulers that both replays agree on.
    fn candidates(&self) -> Vec<usize> {
        let may = |run: &usize| self.can_be_had(*run) && self.is_agreed(*run);
        (0..self.runs.len()).filter(may).collect()
    }

    /// Returns the Linux scheduler to use: the best of all schedulers if it is in Linux, else the
    /// best of those in Linux.
    pub(super) fn today(&self) -> Option<&'a str> {
        if let Some(best) = self.best().filter(|best| Provider::of(best) == Provider::Linux) {
            return Some(best);
        }
        let may = |run: &usize| self.is_today(*run) && self.is_agreed(*run);
        let among: Vec<usize> = (0..self.runs.len()).filter(may).collect();
        self.pick(&among).map(|run| self.policy(run))
    }

    fn is_today(&self, run: usize) -> bool {
        Provider::of(self.policy(run)) == Provider::Linux
    }

    fn policy(&self, run: usize) -> &'a str {
        self.runs[run].policy.as_str()
    }

    /// Returns why the first run, which uses flash, does not justify its price; none if it does.
    /// The first run has to be better than each other run by a tenth under the preference, or in a
    /// mean or median that the preference considers. In none of these figures may it be worse than
    /// the first `unharmed` of the other runs.
    pub(super) fn against_flash(&self, unharmed: usize) -> Option<String> {
        let typical = self.typical();
        let harmed = (1..=unharmed).find_map(|other| {
            let is_worse =
                |figure: &&Figure| self.share(**figure, 0, other) > 1.0 + SHARE_THAT_MATTERS;
            Some((other, *self.looked_at().iter().chain(&typical).find(is_worse)?))
        });
        if let Some((other, figure)) = harmed {
            return Some(format!(
                "Not worth flash: {} rises against {} ({})",
                figure.name(&self.runs[0]),
                self.runs[other].policy,
                self.told(figure, 0, other).unwrap_or_default()
            ));
        }
        let share = FLASH_SHARE_THAT_MATTERS;
        let is_worth = |other: &usize| {
            let is_typical = |figure: &Figure| self.is_less_by(share, *figure, 0, *other);
            self.is_better_by(share, 0, *other) || typical.iter().any(is_typical)
        };
        let other = (1..self.runs.len()).find(|other| !is_worth(other))?;
        let least = (1.0 - FLASH_SHARE_THAT_MATTERS).powi(self.looked_at().len().max(1) as i32);
        let why = match self.weight(0) < self.weight(other) * least {
            true => "it is not significantly better than",
            false => "it is not a tenth better than",
        };
        let together = if self.looked_at().len() > 1 { ", all figures together" } else { "" };
        let (policy, figures) = (&self.runs[other].policy, self.held_against(0, other));
        Some(format!("Not worth flash: {why} {policy}{together} ({figures})"))
    }

    /// Returns the figures of the first run and of a run that it does not improve on: the first run
    /// is worse in a figure, or no better under the preference. Returns none if the first run is
    /// better than each of the others. The runs are on a drive that differs slightly from the
    /// assumed one.
    pub(super) fn against_first(&self) -> Option<String> {
        let (first, figures) = (0, self.looked_at());
        let is_worse = |other: usize| {
            let share = |figure: &Figure| self.share(*figure, first, other);
            let harms = figures.iter().any(|figure| share(figure) > 1.0 + SHARE_THAT_MATTERS);
            harms || (!figures.is_empty() && self.weight(first) >= self.weight(other))
        };
        let other = (1..self.runs.len()).find(|other| is_worse(*other))?;
        Some(format!("{} under {}", self.held_against(first, other), self.policy(other)))
    }

    /// Formats a figure of two runs.
    fn told(&self, figure: Figure, run: usize, other: usize) -> Option<String> {
        let (is, was) = (figure.of(&self.runs[run])?, figure.of(&self.runs[other])?);
        let name = figure.name(&self.runs[run]);
        Some(format!("{name} {} against {}", figure.told(is), figure.told(was)))
    }

    /// Formats all figures that the preference considers, for two runs.
    fn held_against(&self, run: usize, other: usize) -> String {
        self.told_of(self.looked_at().iter(), run, other)
    }

    /// Formats those of the considered figures that differ in print.
    fn told_apart(&self, run: usize, other: usize) -> String {
        let told =
            |figure: &Figure, run: usize| figure.of(&self.runs[run]).map(|is| figure.told(is));
        let apart = |figure: &&Figure| told(figure, run) != told(figure, other);
        self.told_of(self.looked_at().iter().filter(apart), run, other)
    }

    fn told_of<'b>(
        &self,
        figures: impl Iterator<Item = &'b Figure>,
        run: usize,
        other: usize,
    ) -> String {
        let told: Vec<String> =
            figures.filter_map(|figure| self.told(*figure, run, other)).collect();
        told.join(", ")
    }

    /// Returns whether the first run justifies more flash than the second: it is better by a tenth
    /// under the preference.
    pub(super) fn is_worth_more_flash(&self) -> bool {
        self.is_better_by(FLASH_SHARE_THAT_MATTERS, 0, 1)
    }

    /// Returns the run to use of all runs, whoever provides the scheduler; none if that is the
    /// baseline.
    pub(crate) fn best_over_baseline(&self) -> Option<&'a RunResult> {
        let all: Vec<usize> = (0..self.runs.len()).filter(|run| self.may_be_used(*run)).collect();
        let best = self.pick(&all).filter(|run| *run != self.baseline)?;
        Some(&self.runs[best])
    }

    /// Explains why `run` should not replace the baseline.
    pub(super) fn why_not_over_baseline(&self, run: &RunResult) -> String {
        let at = self.runs.iter().position(|other| other.policy == run.policy);
        let at = at.unwrap_or(self.baseline);
        let worse = |figure: &&Figure| self.is_less(**figure, self.baseline, at);
        match self.figures.iter().find(worse) {
            Some(figure) => {
                let told = self.told(*figure, at, self.baseline).unwrap_or_default();
                format!("not better under the preference, and worse in another figure ({told})")
            }
            None => "no difference that could not be chance".to_string(),
        }
    }

    /// Returns the run, other than the baseline, that is best under the preference.
    pub(super) fn nearest_other(&self) -> Option<&'a RunResult> {
        let others = (0..self.runs.len()).filter(|run| *run != self.baseline);
        let best = others.min_by(|a, b| self.weight(*a).total_cmp(&self.weight(*b)))?;
        Some(&self.runs[best])
    }

    /// Returns how a run compares with the baseline in the figures that count.
    pub(crate) fn standing(&self, run: usize) -> RunStanding {
        let less = |a: usize, b: usize| self.figures.iter().any(|one| self.is_less(*one, a, b));
        match (less(run, self.baseline), less(self.baseline, run)) {
            _ if run == self.baseline => RunStanding::Baseline,
            _ if !self.may_be_used(run) => RunStanding::Worse,
            (true, true) => RunStanding::Mixed,
            (true, false) if self.beats(run, self.baseline).is_some() => RunStanding::Better,
            (false, true) => RunStanding::Worse,
            (true, false) | (false, false) => RunStanding::Alike,
        }
    }

    /// Formats the figures of a run that count, without those of the baseline.
    pub(crate) fn figures_of(&self, run: &RunResult) -> String {
        let one = |figure: &Figure| {
            Some(format!("{} {}", figure.name(run), figure.told(figure.of(run)?)))
        };
        self.figures.iter().filter_map(one).collect::<Vec<_>>().join(", ")
    }

    /// Formats all figures of a run that count, compared with the baseline's.
    pub(crate) fn against_baseline(&self, run: &RunResult) -> String {
        let at = self.runs.iter().position(|other| other.policy == run.policy);
        let at = at.unwrap_or(self.baseline);
        let one = |figure: &Figure| self.told(*figure, at, self.baseline);
        self.figures.iter().filter_map(one).collect::<Vec<_>>().join(", ")
    }

    /// Returns whether any available scheduler differs from the baseline in a figure that counts.
    pub(super) fn differs(&self) -> bool {
        (0..self.runs.len()).any(|run| self.can_be_had(run) && self.is_apart(run))
    }

    /// Returns whether any Linux scheduler differs from the baseline in a figure that counts.
    pub(super) fn differs_today(&self) -> bool {
        (0..self.runs.len()).any(|run| self.is_today(run) && self.is_apart(run))
    }

    fn is_apart(&self, run: usize) -> bool {
        let less = |figure: &Figure| {
            self.is_less(*figure, run, self.baseline) || self.is_less(*figure, self.baseline, run)
        };
        self.figures.iter().any(less)
    }

    /// Returns the best available scheduler in each figure that counts, as (preference, scheduler,
    /// formatted figure). If several figures count, a last entry without a figure names the best
    /// scheduler in all of them together. Returns nothing unless some other scheduler is better
    /// than `chosen` in a figure by more than chance.
    pub(super) fn extremes(&self, chosen: &str) -> Vec<(Prefer, &'a str, Option<String>)> {
        let at = (0..self.runs.len()).find(|run| self.policy(*run) == chosen).unwrap_or(0);
        let is_less = |run: usize| self.figures.iter().any(|figure| self.is_less(*figure, run, at));
        if !(0..self.runs.len()).any(|run| self.can_be_had(run) && is_less(run)) {
            return Vec::new();
        }
        let had = || (0..self.runs.len()).filter(|run| self.can_be_had(*run));
        let one = |figure: &Figure| {
            let prefer = Prefer::ALL.into_iter().find(|prefer| prefer.figure() == Some(*figure))?;
            let of = |run: usize| figure.of(&self.runs[run]).unwrap_or(f64::MAX);
            let best = had().min_by(|a, b| of(*a).total_cmp(&of(*b)))?;
            Some((prefer, self.policy(best), Some(figure.told(of(best)))))
        };
        // The pick under the balanced preference, which considers more than the least product.
        let balance = Choice { prefer: Prefer::Balance, ..self.alone() };
        let together = balance.best().filter(|_| self.figures.len() > 1);
        let together = together.map(|policy| (Prefer::Balance, policy, None));
        self.figures.iter().filter_map(one).chain(together).collect()
    }
}

#[cfg(test)]
mod tests;
