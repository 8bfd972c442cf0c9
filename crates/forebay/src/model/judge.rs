//! Evaluates the purposes for which a model's twins may replace the trace, before the model is
//! shared.

use std::path::Path;

use forebay_model::Model;
use forebay_model::generate::{GenerateOptions, Generator};
use forebay_trace::streams::StreamBy;
use forebay_trace::{Dictionary, Notes, Reader, Record, TraceError};

use serde::Serialize;

use crate::compare::{self, Aspect, Verdict};
use crate::input::{Input, Opening};
use crate::{Error, ProgressReport, Telling};

/// The number of requests up to which twins are compared with the whole trace. Comparing more would
/// take much longer than the fit.
const WHOLE_MAX: u64 = 1 << 18;
/// How many requests are compared, from the beginning, if the trace is longer; this limits memory.
/// A twin reproduces each part of the trace, so its beginning corresponds to the trace's.
pub const JUDGED_MAX: u64 = 100_000;

/// The number of twins to compare. They have the first seeds, including the default one. Several
/// twins are compared because a single one may match by chance.
pub const TWINS: u64 = 3;

/// The verdicts of `compare` on [`TWINS`] twins of a trace, or of its first [`JUDGED_MAX`]
/// requests.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The verdict on each twin, by seed; empty if the trace has neither reads nor writes.
    pub verdicts: Vec<Verdict>,
    /// The number of requests of each trace that were compared.
    pub requests: u64,
    /// Whether the whole trace was compared, rather than only its beginning.
    pub is_whole: bool,
}

impl Judged {
    /// States in one sentence for which purposes most twins may replace the trace, and which part
    /// of the trace was compared if not all of it.
    pub fn stands_in(&self) -> String {
        if self.verdicts.is_empty() {
            return "has nothing to compare: only flushes and trims".into();
        }
        match self.is_whole {
            true => stands_in(&self.aspects()),
            false => {
                format!(
                    "{} (judged by its first {} requests)",
                    stands_in(&self.aspects()),
                    self.requests
                )
            }
        }
    }

    /// Returns each aspect with the number of twins in which it holds, and with the figures of the
    /// twin that is furthest from its bound.
    pub fn aspects(&self) -> Vec<AspectOfTwins> {
        let of = |name: &str| -> Option<AspectOfTwins> {
            let found = self.verdicts.iter().flat_map(|verdict| &verdict.aspects);
            let found: Vec<&Aspect> = found.filter(|aspect| aspect.aspect == name).collect();
            let off = |aspect: &Aspect| aspect.found.abs() / aspect.allowed.max(f64::MIN_POSITIVE);
            let worst = found.iter().max_by(|a, b| off(a).total_cmp(&off(b)))?;
            let (twins_held, twins) = (found.iter().filter(|one| one.holds).count(), found.len());
            let aspect = Aspect { holds: 2 * twins_held > twins, ..(**worst).clone() };
            Some(AspectOfTwins { aspect, twins_held, twins })
        };
        let names = self.verdicts.first().into_iter().flat_map(|verdict| &verdict.aspects);
        names.filter_map(|aspect| of(aspect.aspect)).collect()
    }

    /// Returns the verdict on all twins together; `None` if there was nothing to compare.
    pub fn verdict(&self) -> Option<VerdictOfTwins> {
        let aspects = self.aspects();
        let faithful = aspects.iter().all(|one| one.aspect.holds);
        (!aspects.is_empty()).then(|| VerdictOfTwins { faithful, text: self.stands_in(), aspects })
    }
}

/// The purposes for which most twins may stand in for the trace.
#[derive(Clone, Debug, Serialize)]
pub struct VerdictOfTwins {
    /// Whether most twins may stand in for the trace in every aspect.
    pub faithful: bool,
    /// The verdict in one sentence.
    pub text: String,
    /// The verdict in each aspect.
    pub aspects: Vec<AspectOfTwins>,
}

/// An aspect: one purpose for which twins may stand in for the trace.
#[derive(Clone, Debug, Serialize)]
pub struct AspectOfTwins {
    /// Whether the aspect holds in most twins, with the figures of the worst twin.
    #[serde(flatten)]
    pub aspect: Aspect,
    /// The number of twins in which the aspect holds.
    pub twins_held: usize,
    /// The number of twins that were compared.
    pub twins: usize,
}

fn stands_in(aspects: &[AspectOfTwins]) -> String {
    let named = |holds| {
        let found = aspects.iter().filter(|one| one.aspect.holds == holds);
        let told = found.map(|one| match one.twins_held {
            some if some == one.twins || some == 0 => one.aspect.aspect.to_string(),
            some => format!("{} ({some} of {} twins)", one.aspect.aspect, one.twins),
        });
        told.collect::<Vec<_>>().join(", ")
    };
    match (named(true), named(false)) {
        (all, none) if none.is_empty() => format!("stands in for the trace in every aspect: {all}"),
        (none, all) if none.is_empty() => {
            format!("stands in for the trace in no aspect: not for {all}")
        }
        (good, bad) => format!("stands in for {good}; not for {bad}"),
    }
}

/// A reader that ends after the first requests of a trace.
struct First {
    inner: Box<dyn Reader>,
    left: usize,
}

impl Reader for First {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        if self.left > 0 {
            self.inner.read(batch)?;
            batch.truncate(self.left);
            self.left -= batch.len();
        }
        Ok(())
    }

    fn found(&self) -> (&Dictionary, &Notes) {
        self.inner.found()
    }
}

/// Compares the trace that `opening` opens with the model's twins for the first [`TWINS`] seeds. Of
/// a long trace, only the first [`JUDGED_MAX`] requests are compared.
///
/// # Errors
/// Fails like [`compare::compare`].
pub fn judge(
    name: &Path,
    opening: Opening,
    model: &Model,
    progress: Telling<'_>,
) -> Result<Judged, Error> {
    let requests = if model.requests > WHOLE_MAX { JUDGED_MAX } else { model.requests };
    let begin = move || -> Result<Box<dyn Reader>, TraceError> {
        Ok(Box::new(First { inner: opening()?, left: requests as usize }))
    };
    let told =
        |done_share| ProgressReport { doing: format!("reading {}", name.display()), done_share };
    let a =
        Input::read_from(name, Box::new(begin), StreamBy::Thread, &mut |_| progress(&told(0.0)))?;
    let options = compare::Options::new(&[], None, 1.0, 0)?;
    let mut verdicts = Vec::new();
    for seed in (0..TWINS).filter(|_| a.description.requests > 0) {
        let twin = model.clone();
        let draw = move || -> Result<Box<dyn Reader>, TraceError> {
            let requests = Some(requests);
            let options = GenerateOptions { seed, requests, ..GenerateOptions::default() };
            Ok(Box::new(Generator::new(&twin, options)))
        };
        let its_twin = Path::new("its twin");
        // Generating the twin is about a tenth of the work.
        let mut progress = |done: f64| {
            let doing = format!("comparing with twin {} of {TWINS}", seed + 1);
            progress(&ProgressReport { doing, done_share: (seed as f64 + done) / TWINS as f64 })
        };
        let drawn = |read| 0.1 * read as f64 / requests.max(1) as f64;
        let b = Input::read_from(its_twin, Box::new(draw), StreamBy::Thread, &mut |read| {
            progress(drawn(read))
        })?;
        let mut compared = |told: &ProgressReport| progress(0.1 + 0.9 * told.done_share);
        verdicts.push(compare::compare(&a, &b, &options, &mut compared)?.verdict);
    }
    Ok(Judged { verdicts, requests, is_whole: requests == model.requests })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_requests_are_read() {
        let bundled =
            Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/terasort.parquet"));
        let read = |left: usize| {
            let inner = forebay_trace::open::open(bundled, None).unwrap();
            let (mut first, mut batch, mut all) = (First { inner, left }, Vec::new(), Vec::new());
            loop {
                first.read(&mut batch).unwrap();
                if batch.is_empty() {
                    return all;
                }
                all.extend_from_slice(&batch);
            }
        };
        let whole = read(usize::MAX);
        assert!(whole.len() > 5000);
        for left in [0, 1, 4096, 5000] {
            assert_eq!(read(left), whole[..left]);
        }
    }

    #[test]
    fn most_twins_decide_and_a_verdict_on_a_part_says_so() {
        let aspect = |aspect, holds| Aspect {
            tested: true,
            aspect,
            holds,
            figure: String::new(),
            is_points: false,
            worst: String::new(),
            bound: String::new(),
            found: 0.0,
            allowed: 0.0,
        };
        let verdict = |sizes, caching, tails| Verdict {
            aspects: vec![
                aspect("sizes", sizes),
                aspect("caching", caching),
                aspect("tails", tails),
            ],
            ..Verdict::default()
        };
        let verdicts = vec![
            verdict(true, true, false),
            verdict(true, false, false),
            verdict(true, true, true),
        ];
        let judged = |is_whole| Judged { verdicts: verdicts.clone(), requests: 7, is_whole };
        let text = "stands in for sizes, caching (2 of 3 twins); not for tails (1 of 3 twins)";
        assert_eq!(judged(true).stands_in(), text);
        assert_eq!(judged(false).stands_in(), format!("{text} (judged by its first 7 requests)"));
        let none = Judged { verdicts: Vec::new(), ..judged(true) };
        assert!(none.stands_in().contains("nothing to compare"));
    }
}
