//! How each run compares with the baseline, for `simulate`. Means and medians count here too.

use super::figure::Figure;
use super::{CLEAR_SHARE, Choice};
use crate::RunResult;
use crate::advise::judge::SHARE_THAT_MATTERS;

/// How a run compares with the baseline, by the rule of [`super::Choice`]'s module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunStanding {
    /// The run is the baseline.
    Baseline,
    /// The run is better than the baseline in a figure, and worse in none.
    Better,
    /// The run is worse than the baseline in a figure, and better in none.
    Worse,
    /// The run is better than the baseline in one figure and worse in another, perhaps by chance.
    Mixed,
    /// The run does not differ from the baseline by both 3 % and more than chance.
    Alike,
}

impl<'a> Choice<'a> {
    /// Returns how run number `run` compares with the baseline in the figures that count.
    pub(crate) fn standing(&self, run: usize) -> RunStanding {
        let less = |a: usize, b: usize| {
            self.figures.iter().any(|one| self.is_less(*one, a, b)) || self.is_typically_less(a, b)
        };
        match (less(run, self.baseline), less(self.baseline, run)) {
            _ if run == self.baseline => RunStanding::Baseline,
            _ if !self.may_be_used(run) => RunStanding::Worse,
            (true, false) if !self.is_worse_in_any(run, self.baseline) => RunStanding::Better,
            (true, _) => RunStanding::Mixed,
            (false, true) => RunStanding::Worse,
            (false, false) => RunStanding::Alike,
        }
    }

    /// Returns whether run `a` has a mean or a median a tenth below that of run `b`, beyond chance.
    fn is_typically_less(&self, a: usize, b: usize) -> bool {
        let typical = self.typical();
        typical.iter().any(|figure| self.is_less_by(CLEAR_SHARE, *figure, a, b))
    }

    /// Returns whether run `a` is 3 % worse than run `b` in a figure that counts, or in a mean or a
    /// median.
    fn is_worse_in_any(&self, a: usize, b: usize) -> bool {
        let typical = self.typical();
        let is_worse = |figure: &Figure| self.share(*figure, a, b) > 1.0 + SHARE_THAT_MATTERS;
        self.figures.iter().chain(&typical).any(is_worse)
    }

    /// Returns the best run that [`Choice::standing`] calls better than the baseline.
    pub(crate) fn best_in_standing(&self) -> Option<&'a RunResult> {
        let better = (0..self.runs.len()).filter(|run| self.standing(*run) == RunStanding::Better);
        let better: Vec<usize> = better.collect();
        let picked = self.best_over_baseline().map(|run| &run.policy);
        let is_picked = |run: &&usize| Some(&self.runs[**run].policy) == picked;
        let least = better.iter().min_by(|a, b| self.weight(**a).total_cmp(&self.weight(**b)));
        better.iter().find(is_picked).or(least).map(|run| &self.runs[*run])
    }

    /// Formats the figures in which a run is better than the baseline: the figures that count or,
    /// if the run is not better in any of these, means and medians.
    pub(crate) fn gains(&self, run: &RunResult) -> String {
        let at = self.runs.iter().position(|other| other.policy == run.policy);
        let at = at.unwrap_or(self.baseline);
        if self.beats(at, self.baseline).is_some() {
            return self.against_baseline(run);
        }
        let typical = self.typical();
        let is_less = |figure: &&Figure| self.is_less_by(CLEAR_SHARE, **figure, at, self.baseline);
        self.told_of(typical.iter().filter(is_less), at, self.baseline)
    }
}
