//! Decides which policy is better than the first one, by the rule of [`crate::advise::choice`]: a
//! difference has to be large enough and beyond chance. Means and medians count too, if they differ
//! by a tenth.

use crate::advise::choice::{Choice, Prefer, RunStanding};
use crate::advise::judge::{TOO_FEW, is_at_ease, share_busy};
use crate::advise::resampled;
use crate::quantities::{counted, millis, percent, seconds};
use crate::slices::Slices;

use super::{Run, RunResult};

/// How the runs of one trace compare with the first run.
pub(super) struct Ruling<'a> {
    runs: &'a [RunResult],
    /// The resampled figures; `None` if there are no runs, or if they have no slices.
    resampled: Option<crate::slices::Resampled>,
    /// The duration of the trace in seconds.
    span_s: f64,
}

impl<'a> Ruling<'a> {
    pub(super) fn new(runs: &'a [RunResult], full: &[(String, Run)], span_s: f64) -> Ruling<'a> {
        let slices: Vec<&Slices> = full.iter().filter_map(|(_, run)| run.slices.as_ref()).collect();
        let is_whole = !runs.is_empty() && slices.len() == runs.len();
        Ruling { runs, resampled: is_whole.then(|| resampled(&slices)), span_s }
    }

    fn choice(&self) -> Option<Choice<'_>> {
        let first = self.runs.first()?;
        let choice =
            Choice::new(self.runs, &first.policy, self.resampled.as_ref()?, Prefer::Balance);
        (first.figures.requests >= TOO_FEW).then_some(choice)
    }

    /// Returns the run that is better than the first one; `None` if none is.
    pub(super) fn best(&self) -> Option<&'a RunResult> {
        let best = self.choice()?.best_in_standing()?.policy.clone();
        self.runs.iter().find(|run| run.policy == best)
    }

    /// Returns how each run compares with the first one; `None` if there are too few requests.
    pub(super) fn standings(&self) -> Option<Vec<RunStanding>> {
        let choice = self.choice()?;
        Some((0..self.runs.len()).map(|run| choice.standing(run)).collect())
    }

    /// Summarizes the runs in a sentence of at most 25 words.
    pub(super) fn headline(&self) -> String {
        let Some(first) = self.runs.first() else { return "Nothing was run.".to_string() };
        if first.figures.is_overloaded() {
            return self.overload(first);
        }
        let name = &first.policy;
        if let [_] = self.runs {
            let total = seconds(first.total_s());
            return format!(
                "Under {name} the {} is {total}{}.",
                first.replay.total_name(),
                tail(first)
            );
        }
        let Some(choice) = self.choice() else {
            let requests = counted(first.figures.requests, "request");
            return format!("Too few requests to compare policies: {requests}.");
        };
        let best = self.best().map(|best| (best, choice.gains(best)));
        match best {
            Some((best, figures)) => {
                let better = format!("{} is better than {name}: ", best.policy);
                better + &shortened(&figures) + "."
            }
            None if is_at_ease(first, self.span_s) => format!(
                "No policy is measurably better than {name}: the disk is idle {} of the time.",
                percent(1.0 - share_busy(first, self.span_s))
            ),
            None => {
                let figures = choice.figures_of(first);
                let given = if figures.is_empty() { tail(first) } else { format!(": {figures}") };
                format!("No policy is measurably better than {name}{given}.")
            }
        }
    }

    /// States which share of the requests is late under the first policy, and under the policy with
    /// the fewest late requests.
    fn overload(&self, first: &RunResult) -> String {
        let late = |run: &RunResult| percent(run.figures.lagging_share);
        let share = |run: &&RunResult| run.figures.lagging_share;
        let whole = self.runs.iter().filter(|run| run.figures.unfinished == 0);
        let fewest = whole.min_by(|a, b| share(a).total_cmp(&share(b))).unwrap_or(first);
        let text = format!("{} of requests are over 1 s late", late(first));
        let (name, other) = (&first.policy, &fewest.policy);
        match late(fewest) {
            _ if self.runs.len() == 1 => format!("The disk cannot keep up under {name}: {text}."),
            same if same == late(first) => {
                format!("The disk cannot keep up under any policy: {text} under {name}.")
            }
            fewer if fewest.figures.is_overloaded() => {
                format!("The disk cannot keep up: {text} under {name}, {fewer} under {other}.")
            }
            fewer => format!(
                "Under {name} the disk cannot keep up: {text}; under {other} it can ({fewer} late)."
            ),
        }
    }
}

/// Shortens a list of figures until it fits into a headline, keeping the most important ones, which
/// come first.
fn shortened(figures: &str) -> String {
    const FIGURES_MAX: usize = 2;
    figures.split(", ").take(FIGURES_MAX).collect::<Vec<_>>().join(", ")
}

/// Formats the 99th percentile of reads, or that of writes if there are no reads.
fn tail(run: &RunResult) -> String {
    let reads = run.figures.read_p99_ms.map(|ms| ("reads", ms));
    let writes = run.figures.write_p99_ms.map(|ms| ("writes", ms));
    let said = reads.or(writes).map(|(kind, ms)| format!("; 99 % of {kind} within {}", millis(ms)));
    said.unwrap_or_default()
}
