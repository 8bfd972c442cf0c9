//! Chooses the scheduler to use, by one rule that a reader can repeat:
//!
//! 1. The figures compared are the total time, if the device cannot keep up (otherwise nobody waits
//!    for it), and the 99th percentiles of reads and of writes, if there are enough requests of
//!    that kind. In open replay, these tails do not count if the baseline is overloaded
//!    ([`crate::statistics::Figures::is_overloaded`]), because they then measure the length of the
//!    backlog. A scheduler that is overloaded when the baseline is not cannot be chosen.
//! 2. A scheduler is *better* in a figure if the figure is at least 3 % less, and less in 95 % of
//!    resamples of the run (a block bootstrap, [`crate::slices`]) and without any tenth of the run.
//!    A scheduler *beats* another if it is better in at least one figure and in none more than 3 %
//!    worse, even by chance.
//! 3. Among the available schedulers that no other available scheduler beats, the preference picks
//!    one: the one with the shortest total time, read tail, write tail, or product of these
//!    figures. If the product decides and the device keeps up, a scheduler with a figure that is a
//!    tenth worse than the baseline's beyond chance, or a third worse at all, cannot be chosen.
//!    Latencies that differ by less than the step of the trace's clock count as equal.
//! 4. Schedulers that are within a tenth of that pick and cannot be distinguished from it count as
//!    equally good. Two schedulers cannot be distinguished if the preference does not separate
//!    them, and the pick is not better in one figure while the other is better in none. If the
//!    baseline is among the equally good schedulers, the baseline is chosen. Otherwise the choice
//!    is one that beats the baseline, preferably one in Linux, or else the first in the list, which
//!    is the simplest.
//!
//! If the trace is replayed in both open and dependent replay, candidates must beat the baseline in
//! both ([`Choice::agreeing`]).
//!
//! Flash is worth its price if it is a tenth better than the baseline, than the chosen scheduler,
//! and than every available scheduler that no other beats, either under the same preference or in
//! the mean or the median latency of the requests that the preference considers. In none of these
//! figures may it be 3 % worse than the baseline or the chosen scheduler. Of two uses of flash, the
//! one that needs less flash is chosen, unless the other is better by another tenth.

mod figure;
mod passed_over;
mod standing;

use super::{
    Objection, Provider, REQUESTS_THAT_MATTER, SHARE_THAT_MATTERS, Sensitivity, TOO_FEW, keeps_up,
    tells_latencies,
};
use crate::RunResult;
use crate::slices::{Compared, Resampled};

pub use figure::Prefer;
pub use passed_over::PassedOver;
pub(crate) use standing::RunStanding;

use figure::Figure;

/// Returns the factor that converts the ratio of two runs' busy times into the ratio of their total
/// times. Slices record busy time but not total time, so the total time of a resample is assumed to
/// be proportional to its busy time.
pub(super) fn total_scale(a: &RunResult, b: &RunResult) -> f64 {
    let busy = a.figures.busy_s / b.figures.busy_s.max(1e-9);
    a.total_s() / b.total_s().max(1e-9) / busy.max(1e-9)
}

/// The share by which flash has to improve the figures on average to be worth its price, and a mean
/// or a median to count as better.
const CLEAR_SHARE: f64 = 0.1;

/// The share by which a simpler scheduler may be worse than the best one and still be chosen.
const NEAR_SHARE: f64 = 0.1;

/// The share by which no figure may be worse than the baseline's, even if that may be chance.
const HARM_SHARE: f64 = 1.0 / 3.0;

/// The schedulers' runs, and the parameters of the rule that chooses among them.
pub(crate) struct Choice<'a> {
    runs: &'a [RunResult],
    /// The index of the baseline, the run against which gains are measured.
    baseline: usize,
    resampled: &'a Resampled,
    figures: Vec<Figure>,
    prefer: Prefer,
    /// For each run, whether it also beats the baseline in the other replay; `None` if only one
    /// replay was simulated.
    agreed: Option<Vec<bool>>,
    /// Whether some scheduler should replace the baseline in the other replay.
    other_moves: bool,
    /// Whether Forebay's own schedulers may be chosen.
    own: bool,
    /// By how much latencies must differ to count as different: the step of the trace's clock.
    clock_step_ms: f64,
    /// Indices of runs that are not better than the baseline on every drive that the device may
    /// stand for.
    unsure: Vec<usize>,
}

impl<'a> Choice<'a> {
    /// Creates a choice among runs of one trace, one of which is the run of `baseline`.
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
        // A 99th percentile of few requests is unreliable, so it counts only if neither reads nor
        // writes have a reliable one.
        let (reads, writes) = (baseline.figures.reads, baseline.figures.writes);
        let least = match reads.max(writes) >= REQUESTS_THAT_MATTER {
            true => REQUESTS_THAT_MATTER,
            false => TOO_FEW,
        };
        let counts = [
            (Figure::Total, total),
            (Figure::Reads, tails && reads >= least),
            (Figure::Writes, tails && writes >= least),
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
            clock_step_ms: 0.0,
            unsure: Vec::new(),
        }
    }

    /// Excludes schedulers that do not beat the baseline in `other`, which has the runs of the same
    /// schedulers in the other replay.
    pub(super) fn agreeing(self, other: &Choice<'_>) -> Self {
        let beats = |run: &RunResult| {
            let at = other.runs.iter().position(|other| other.policy == run.policy);
            at.is_some_and(|at| other.beats(at, other.baseline).is_some())
        };
        let agreed = self.runs.iter().map(beats).collect();
        let other_moves = other.best().is_some_and(|best| best != other.baseline().policy);
        Choice { agreed: Some(agreed), other_moves, ..self }
    }

    /// Excludes Forebay's own schedulers, for use on flash: the detour through a server adds about
    /// a quarter to the time of a read, and the server's limit of some 100,000 requests per second
    /// is not simulated.
    pub(super) fn without_own(self) -> Self {
        Choice { own: false, ..self }
    }

    /// Treats latencies that differ by less than the step of the trace's clock as equal.
    pub(super) fn with_clock_step(self, clock_step_ms: f64) -> Self {
        Choice { clock_step_ms, ..self }
    }

    /// Returns whether a scheduler should replace the baseline in one of the replays, but none
    /// should in both.
    pub(super) fn is_disputed(&self) -> bool {
        let stays = |choice: &Choice<'_>| choice.best() == Some(self.baseline().policy.as_str());
        self.agreed.is_some() && stays(self) && (self.other_moves || !stays(&self.alone()))
    }

    /// Returns the choice based on this replay only.
    pub(super) fn alone(&self) -> Choice<'a> {
        let (figures, unsure) = (self.figures.clone(), self.unsure.clone());
        Choice { agreed: None, figures, unsure, ..*self }
    }

    /// Returns whether `policy` is still better than the baseline on a drive that differs slightly
    /// from the assumed one. It must be better in the figure in which it gains most, and at most
    /// 3 % worse in any other.
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

    /// Returns the run of `policy`; `None` if it was not simulated.
    pub(super) fn run(&self, policy: &str) -> Option<&'a RunResult> {
        self.runs.iter().find(|run| run.policy == policy)
    }

    /// Returns whether a scheduler was rejected because it is not better on every drive that the
    /// device may stand for.
    pub(super) fn is_unsure(&self) -> bool {
        !self.unsure.is_empty()
    }

    /// Excludes `policy`, because it is not better on every drive that the device may stand for.
    pub(super) fn without(mut self, policy: &str) -> Self {
        self.unsure.extend(self.runs.iter().position(|run| run.policy == policy));
        self
    }

    /// Returns whether the user prefers the shortest total time to low latencies.
    pub(super) fn prefers_total(&self) -> bool {
        self.prefer == Prefer::Total
    }

    /// Returns whether the figure that `prefer` favors is among the compared figures.
    pub(super) fn counts(&self, prefer: Prefer) -> bool {
        prefer.figure().is_some_and(|figure| self.figures.contains(&figure))
    }

    /// Returns the baseline, the run against which gains are measured.
    pub(super) fn baseline(&self) -> &'a RunResult {
        &self.runs[self.baseline]
    }

    /// Returns whether run `a` is better than run `b` in `figure`: by 3 %, and beyond chance.
    fn is_less(&self, figure: Figure, a: usize, b: usize) -> bool {
        self.is_less_by(SHARE_THAT_MATTERS, figure, a, b)
    }

    /// Returns whether run `a` is less than run `b` in `figure` by at least `share`, and less by
    /// any amount in 95 % of resamples and without any tenth of the trace.
    fn is_less_by(&self, share: f64, figure: Figure, a: usize, b: usize) -> bool {
        let point = figure.of(&self.runs[a]).zip(figure.of(&self.runs[b]));
        let ratio = self.resampled.ratio((a, b), |run| figure.resampled(run));
        let scale =
            if figure == Figure::Total { total_scale(&self.runs[a], &self.runs[b]) } else { 1.0 };
        let least = if figure == Figure::Total { 0.0 } else { self.clock_step_ms };
        let without = self.resampled.ratio_without_a_tenth((a, b), |run| figure.resampled(run));
        point.zip(ratio).is_some_and(|((is, was), (_, high))| {
            let high = high.max(without.unwrap_or(high));
            is < was * (1.0 - share) && was - is >= least && high * scale < 1.0
        })
    }

    /// Returns the figure in which run `a` is better than `b` by the largest share; `None` if `a`
    /// does not beat `b`.
    fn beats(&self, a: usize, b: usize) -> Option<Figure> {
        // A figure that is 3 % worse prevents a win even if the difference may be chance.
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

    /// Returns the figures that the preference considers: the preferred figure if it counts, else
    /// all figures that count.
    fn looked_at(&self) -> &[Figure] {
        let own = self.prefer.figure();
        let at = self.figures.iter().position(|figure| Some(*figure) == own);
        at.map_or(&self.figures, |at| &self.figures[at..=at])
    }

    /// Returns the mean and the median latency of the requests that the preference considers.
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

    /// Returns whether run `a` is better than run `b` beyond chance under the preference, and by at
    /// least `share` per figure on average.
    fn is_better_by(&self, share: f64, a: usize, b: usize) -> bool {
        let looked_at = self.looked_at();
        let weight = |run: &Compared| {
            looked_at.iter().map(|figure| figure.resampled(run)).product::<Option<f64>>()
        };
        let least = (1.0 - share).powi(looked_at.len().max(1) as i32);
        let without = self.resampled.ratio_without_a_tenth((a, b), weight);
        self.weight(a) < self.weight(b) * least
            && self.resampled.ratio((a, b), weight).is_some_and(|(_, high)| high < 1.0)
            && without.is_none_or(|ratio| ratio < 1.0)
    }

    /// Returns whether run `a` is at most a tenth worse than run `b`, averaged over the figures
    /// that the preference considers.
    fn is_near(&self, a: usize, b: usize) -> bool {
        let most = (1.0 + NEAR_SHARE).powi(self.looked_at().len().max(1) as i32);
        self.weight(a) <= self.weight(b) * most
    }

    /// Returns the runs in `among` that no other run in `among` beats.
    fn front(&self, among: &[usize]) -> Vec<usize> {
        let is_beaten = |run: &usize| among.iter().any(|other| self.beats(*other, *run).is_some());
        among.iter().copied().filter(|run| !is_beaten(run)).collect()
    }

    /// Returns the run in `among` that the rule chooses.
    fn pick(&self, among: &[usize]) -> Option<usize> {
        let mut front = self.front(among);
        // A difference that may be chance is no reason for a user of the baseline to change
        // schedulers.
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

    /// Returns whether run `best` can be distinguished from run `other`: it is better under the
    /// preference, or better in one figure and worse in none.
    fn is_told_apart(&self, best: usize, other: usize) -> bool {
        let less =
            |a: usize, b: usize| self.figures.iter().any(|figure| self.is_less(*figure, a, b));
        let is_better = self.is_better_by(SHARE_THAT_MATTERS, best, other);
        let exceeds_clock = self.clock_step_ms == 0.0 || less(best, other);
        is_better && exceeds_clock || less(best, other) && !less(other, best)
    }

    /// Returns the runs of candidates that no other candidate beats.
    pub(super) fn unbeaten(&self) -> Vec<&'a RunResult> {
        self.front(&self.candidates()).into_iter().map(|run| &self.runs[run]).collect()
    }

    /// Returns the best available scheduler: one from Linux or Forebay, or the baseline itself.
    pub(super) fn best(&self) -> Option<&'a str> {
        self.pick(&self.candidates()).map(|run| self.policy(run))
    }

    fn can_be_had(&self, run: usize) -> bool {
        let from = Provider::of(self.policy(run));
        let may = from.is_obtainable() && (self.own || from != Provider::Forebay);
        run == self.baseline || may && self.may_be_used(run)
    }

    /// Returns whether the run answers every request, and keeps up if the baseline does.
    fn may_be_used(&self, run: usize) -> bool {
        let is_whole = self.runs[run].figures.unfinished == 0;
        run == self.baseline || is_whole && !self.falls_behind(&self.runs[run])
    }

    /// Returns whether no figure of `run` is a tenth worse than the baseline's beyond chance, or a
    /// third worse at all. Always true if the device cannot keep up, because then the time counts
    /// most, and if the user prefers one figure to the others.
    fn is_harmless(&self, run: usize) -> bool {
        let is_harmed = |figure: &Figure| {
            self.is_less_by(NEAR_SHARE, *figure, self.baseline, run)
                || self.share(*figure, run, self.baseline) > 1.0 + HARM_SHARE
        };
        let is_behind = self.figures.contains(&Figure::Total);
        self.prefer != Prefer::Balance || is_behind || !self.figures.iter().any(is_harmed)
    }

    /// Returns whether the device is overloaded in `run` but not in the baseline's run.
    pub(super) fn falls_behind(&self, run: &RunResult) -> bool {
        !self.baseline().figures.is_overloaded() && run.figures.is_overloaded()
    }

    /// Returns whether the run is also better than the baseline in the other replay and on every
    /// drive that the device may stand for.
    fn is_agreed(&self, run: usize) -> bool {
        let agreed = self.agreed.as_ref().is_none_or(|agreed| agreed[run]);
        run == self.baseline || agreed && !self.unsure.contains(&run)
    }

    /// Returns the runs that may be chosen: those of available schedulers that are confirmed by
    /// both replays.
    fn candidates(&self) -> Vec<usize> {
        let may =
            |run: &usize| self.can_be_had(*run) && self.is_agreed(*run) && self.is_harmless(*run);
        (0..self.runs.len()).filter(may).collect()
    }

    /// Returns the Linux scheduler to use: the best scheduler overall if it is part of Linux, else
    /// the best of those in Linux.
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

    /// Returns why the first run, which uses flash, does not justify its price; `None` if it does.
    /// The first run has to be a tenth better than each other run, under the preference or in a
    /// mean or median that the preference considers. In none of these figures may it be worse than
    /// any of the first `unharmed` of the other runs.
    pub(super) fn against_flash(&self, unharmed: usize) -> Option<Objection> {
        let typical = self.typical();
        let harmed = (1..=unharmed).find_map(|other| {
            let is_worse =
                |figure: &&Figure| self.share(**figure, 0, other) > 1.0 + SHARE_THAT_MATTERS;
            Some((other, *self.looked_at().iter().chain(&typical).find(is_worse)?))
        });
        if let Some((other, figure)) = harmed {
            let (name, other_name) = (figure.name(&self.runs[0]), &self.runs[other].policy);
            let told = self.told(figure, 0, other).unwrap_or_default();
            let why = format!("Not worth flash: {name} rises compared with {other_name} ({told})");
            return Some(Objection::new(why, format!("{name} rises")));
        }
        let share = CLEAR_SHARE;
        let is_worth = |other: &usize| {
            let is_typical = |figure: &Figure| self.is_less_by(share, *figure, 0, *other);
            self.is_better_by(share, 0, *other) || typical.iter().any(is_typical)
        };
        let other = (1..self.runs.len()).find(|other| !is_worth(other))?;
        let least = (1.0 - CLEAR_SHARE).powi(self.looked_at().len().max(1) as i32);
        let why = match self.weight(0) < self.weight(other) * least {
            true => "it is not significantly better than",
            false => "it is less than 10 % better than",
        };
        let together = if self.looked_at().len() > 1 { ", all figures together" } else { "" };
        let (policy, figures) = (&self.runs[other].policy, self.held_against(0, other));
        let in_full = format!("Not worth flash: {why} {policy}{together} ({figures})");
        Some(Objection::new(in_full, format!("{why} {policy}")))
    }

    /// Compares runs on a drive that differs slightly from the assumed one. If the first run does
    /// not improve on one of the others (it is worse in a figure, or not better under the
    /// preference), returns the reason; `None` if it improves on all of them.
    pub(super) fn against_first(&self) -> Option<Objection> {
        let (first, figures) = (0, self.looked_at());
        let harmed = |other: usize| {
            let share = |figure: &&Figure| self.share(**figure, first, other);
            figures.iter().find(|figure| share(figure) > 1.0 + SHARE_THAT_MATTERS)
        };
        let is_no_better =
            |other: usize| !figures.is_empty() && self.weight(first) >= self.weight(other);
        let other =
            (1..self.runs.len()).find(|other| harmed(*other).is_some() || is_no_better(*other))?;
        let why = format!("{} under {}", self.held_against(first, other), self.policy(other));
        let in_short = match harmed(other) {
            Some(figure) => {
                format!("{} may rise, depending on the drive", figure.name(&self.runs[first]))
            }
            None => "the gain depends on the drive".to_string(),
        };
        Some(Objection::new(why, in_short))
    }

    /// Formats one figure for two runs, such as "read p99 95 ms against 90 ms"; `None` if a run
    /// lacks it.
    fn told(&self, figure: Figure, run: usize, other: usize) -> Option<String> {
        let (is, was) = (figure.of(&self.runs[run])?, figure.of(&self.runs[other])?);
        let name = figure.name(&self.runs[run]);
        Some(format!("{name} {} against {}", figure.told(is), figure.told(was)))
    }

    /// Formats all figures that the preference considers, for two runs.
    fn held_against(&self, run: usize, other: usize) -> String {
        self.told_of(self.looked_at().iter(), run, other)
    }

    /// Formats those figures considered by the preference whose printed values differ between two
    /// runs.
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

    /// Returns whether the first run, which needs more flash than the second, is worth that: better
    /// by a tenth under the preference.
    pub(super) fn is_worth_more_flash(&self) -> bool {
        self.is_better_by(CLEAR_SHARE, 0, 1)
    }

    /// Returns the run that the rule chooses among all runs, including schedulers that are not
    /// available; `None` if it chooses the baseline.
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
            None => "no significant difference".to_string(),
        }
    }

    /// Returns the run that is best under the preference, apart from the baseline.
    pub(super) fn nearest_other(&self) -> Option<&'a RunResult> {
        let others = (0..self.runs.len()).filter(|run| *run != self.baseline);
        let best = others.min_by(|a, b| self.weight(*a).total_cmp(&self.weight(*b)))?;
        Some(&self.runs[best])
    }

    /// Formats the figures of a run that count, without the baseline's figures.
    pub(crate) fn figures_of(&self, run: &RunResult) -> String {
        let one = |figure: &Figure| {
            Some(format!("{} {}", figure.name(run), figure.told(figure.of(run)?)))
        };
        self.figures.iter().filter_map(one).collect::<Vec<_>>().join(", ")
    }

    /// Formats the figures of a run that count, each compared with the baseline's.
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
    /// formatted figure). If several figures count, a last entry without a figure names the
    /// scheduler that is best in all figures together. Returns an empty list unless some scheduler
    /// is better than `chosen` in a figure beyond chance.
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
        // The last entry follows the whole rule under `Prefer::Balance`, which does more than
        // choose the lowest product.
        let balance = Choice { prefer: Prefer::Balance, ..self.alone() };
        let together = balance.best().filter(|_| self.figures.len() > 1);
        let together = together.map(|policy| (Prefer::Balance, policy, None));
        self.figures.iter().filter_map(one).chain(together).collect()
    }
}

#[cfg(test)]
mod tests;
