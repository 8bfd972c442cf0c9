//! What a twin of a model is good for, before somebody shares it.

use std::path::Path;

use forebay_model::Model;
use forebay_model::generate::{GenerateOptions, Generator};
use forebay_trace::streams::StreamBy;
use forebay_trace::{Dictionary, Notes, Reader, Record, TraceError};

use crate::compare::{self, Verdict};
use crate::error::Error;
use crate::input::{Input, Opening};
use crate::progress::GoOn;

/// A trace of at most so many requests is compared with its twin whole. To compare more takes much longer than to fit them.
const WHOLE_MAX: u64 = 1_000_000;
/// A longer one is judged by its first requests, in little memory whatever they touch: the twin has what the trace has in
/// each part, so its beginning stands for the beginning.
pub const JUDGED_MAX: u64 = 100_000;

/// The verdict of `compare` on a trace, or its first [`JUDGED_MAX`] requests.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The verdict.
    pub verdict: Verdict,
    /// Requests of each of the two that were compared.
    pub requests: u64,
    /// Whether these are all.
    pub is_whole: bool,
}

impl Judged {
    /// The verdict in a sentence, and of what it is one where that is not the whole trace.
    pub fn stands_in(&self) -> String {
        match self.is_whole {
            true => stands_in(&self.verdict),
            false => {
                format!("{} (by its first {} requests)", stands_in(&self.verdict), self.requests)
            }
        }
    }
}

fn stands_in(verdict: &Verdict) -> String {
    let named = |holds| {
        let found = verdict.aspects.iter().filter(|aspect| aspect.holds == holds);
        found.map(|aspect| aspect.aspect).collect::<Vec<_>>().join(", ")
    };
    match (named(true), named(false)) {
        (all, none) if none.is_empty() => format!("stands in for the trace in all: {all}"),
        (none, all) if none.is_empty() => {
            format!("stands in for the trace in nothing; not for {all}")
        }
        (good, bad) => format!("stands in for {good}; not for {bad}"),
    }
}

/// The first requests of a trace.
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

    fn dictionary(&self) -> &Dictionary {
        self.inner.dictionary()
    }

    fn notes(&self) -> &Notes {
        self.inner.notes()
    }
}

/// What a twin of the model is good for: the verdict of `compare` on the trace that `opening` opens and the
/// twin of seed 1; of a long one on the first [`JUDGED_MAX`] requests.
///
/// # Errors
/// As [`compare::compare`].
pub fn judge<P: GoOn>(
    name: &Path,
    opening: Opening,
    model: &Model,
    mut progress: impl FnMut(u64) -> P,
) -> Result<Judged, Error> {
    let requests = if model.requests > WHOLE_MAX { JUDGED_MAX } else { model.requests };
    let twin = model.clone();
    let begin = move || -> Result<Box<dyn Reader>, TraceError> {
        Ok(Box::new(First { inner: opening()?, left: requests as usize }))
    };
    let draw = move || -> Result<Box<dyn Reader>, TraceError> {
        let requests = Some(requests);
        let options = GenerateOptions { seed: 1, requests, ..GenerateOptions::default() };
        Ok(Box::new(Generator::new(&twin, options)))
    };
    let a = Input::read_from(name, Box::new(begin), StreamBy::Thread, &mut progress)?;
    let b =
        Input::read_from(Path::new("its twin"), Box::new(draw), StreamBy::Thread, &mut progress)?;
    let options = compare::Options::new(&[], None, 1.0, 0)?;
    let verdict = compare::compare(&a, &b, &options, |_| progress(0))?.verdict;
    Ok(Judged { verdict, requests, is_whole: requests == model.requests })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_first_requests_are_read_and_no_more() {
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
    fn a_verdict_on_a_part_says_so() {
        let verdict = Verdict { aspects: Vec::new(), ..Verdict::default() };
        let judged = |is_whole| Judged { verdict: verdict.clone(), requests: 7, is_whole };
        assert!(judged(false).stands_in().ends_with("(by its first 7 requests)"));
        assert!(!judged(true).stands_in().contains("first"));
    }
}
