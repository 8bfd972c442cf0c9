//! The verb `fit`: creates a small model of a trace, to be shared in the trace's place, and
//! evaluates for which purposes traces generated from it may stand in.

use std::path::{Path, PathBuf};

use forebay_ask::Face;
use forebay_model::BUDGET_BYTES;
use forebay_show::{Block, Figure, KeyFigure, Page, Place, Tone, Unit, Verdict};
use forebay_trace::unpack::Consumed;
use forebay_trace::write::Draft;
use forebay_words::plural::counted;
use serde::Serialize;

use super::{Detail, FitOptions, Fitted, fit};
use crate::Error;
use crate::model::judge::{Judged, VerdictOfTwins, judge};
use crate::verb::{Answered, Session, SourceAsk, TraceInput, Verb, in_place_of, warn_notes};

forebay_ask::ask! {
    /// Fit a small model to a trace, which can be shared instead of the trace
    pub struct FitAsk("fit") {
        /// The trace; - is standard input
        trace: TraceInput [.positional()],
        /// The model to write. Without it, nothing is written
        output: Option<PathBuf> [.short('o').word("MODEL")],
        /// Levels of the hierarchy of ranges: 4^level ranges on each volume
        level: Option<u16> [.word("N").between(1.0, 4.0).otherwise("3, fewer with many volumes")],
        /// Allow transitions from any range to any other, not only to its siblings
        flat: bool,
        /// Keep the names of volumes and streams
        keep_names: bool,
        /// The maximum size of the model
        budget_kib: Option<u32> [.word("KIB").between(1.0, 16384.0).otherwise("64, less for a short trace")],
        /// Do not compare twins with the trace. By default the first 100,000 requests are compared
        no_verdict: bool,
        /// The number of parts that the trace is divided into
        epochs: Option<u32> [.only(Face::Python)],
        /// The number of blocks that arrivals are divided into
        blocks: Option<u32> [.only(Face::Python)],
        source: SourceAsk,
    }
}

/// The answer of `fit`.
#[derive(Serialize)]
struct FitAnswer {
    /// The path of the model's file; `None` if no file was written.
    model: Option<String>,
    model_bytes: usize,
    requests: u64,
    duration_s: f64,
    level: u8,
    ranges: usize,
    classes: usize,
    transitions: usize,
    /// What the model reveals about the trace, one sentence each.
    reveals: Vec<String>,
    /// The purposes for which the model's twins may stand in; `None` if no twins were compared.
    verdict: Option<VerdictOfTwins>,
    /// How many requests of the trace and of each twin were compared.
    judged_requests: Option<u64>,
    /// The verdict in one sentence.
    stands_in: Option<String>,
}

impl Verb for FitAsk {
    type Beyond = ();

    fn traces(&self) -> Vec<&TraceInput> {
        vec![&self.trace]
    }

    fn run(self, session: &mut dyn Session) -> Result<Answered, Error> {
        let name = self.trace.name();
        // Check that the output can be written before reading the trace.
        let begin = |output: &PathBuf| Draft::new(output, &self.trace.kept());
        let draft = self.output.as_ref().map(begin).transpose().map_err(Error::output)?;
        let consumed = session.begin("fitting", Some(name));
        let opening = || self.source.open(&self.trace, consumed.clone());
        let Fitted { model, file, notes } =
            fit(name, opening, &self.options(), &mut |requests| session.read(name, requests))?;
        warn_notes(session, name, &notes);
        if self.budget_kib.is_none() && file.len() > BUDGET_BYTES {
            let text = format!(
                "the model takes {} KiB instead of {}, because the trace has so many volumes",
                file.len() >> 10,
                BUDGET_BYTES >> 10
            );
            session.warn(name, &text);
        }
        let replaced = self.output.as_deref().map_or("", in_place_of);
        if let Some(draft) = draft {
            draft.fill(&file).map_err(Error::output)?;
        }
        let judged = match self.no_verdict {
            true => None,
            false => {
                session.begin("comparing with a twin", None);
                let (source, trace) = (self.source.clone(), self.trace.clone());
                let opening = move || source.open(&trace, Consumed::default());
                Some(judge(name, Box::new(opening), &model, &mut |told| session.progress(told))?)
            }
        };
        let answer = FitAnswer {
            model: self.output.as_ref().map(|path| path.display().to_string()),
            model_bytes: file.len(),
            requests: model.requests,
            duration_s: model.duration_ns() as f64 / 1e9,
            level: model.volumes.level,
            ranges: model.volumes.ranges(),
            classes: model.classes(),
            transitions: model.transitions(),
            reveals: model.reveals(),
            stands_in: judged.as_ref().map(Judged::stands_in),
            judged_requests: judged.as_ref().map(|judged| judged.requests),
            verdict: judged.as_ref().and_then(Judged::verdict),
        };
        let page = page(&answer, name, replaced);
        Answered::new(&answer, page)
    }
}

impl FitAsk {
    fn options(&self) -> FitOptions {
        let standard = Detail::default();
        FitOptions {
            detail: Detail {
                level: self.level.map(|level| level as u8),
                flat: self.flat,
                epochs: self.epochs.map_or(standard.epochs, u64::from),
                blocks: self.blocks.map_or(standard.blocks, u64::from),
            },
            names: self.keep_names,
            budget_bytes: self.budget_kib.map(|kib| kib as usize * 1024),
        }
    }
}

/// States how good a twin from the model is; `None` if twins were not compared.
fn twin(answer: &FitAnswer) -> Option<String> {
    let aspects = &answer.verdict.as_ref()?.aspects;
    let good = aspects.iter().filter(|one| one.aspect.holds).count();
    Some(format!("A twin stands in for the trace in {good} of {} aspects.", aspects.len()))
}

fn page(answer: &FitAnswer, trace: &Path, replaced: &str) -> Page {
    let size = Figure::new(answer.model_bytes as f64, Unit::Bytes);
    let called = answer.model.clone().unwrap_or_else(|| "The model".into());
    let requests = counted(answer.requests, "request");
    let file = format!("{called}: {} for {requests}{replaced}.", size.text());
    let headline = twin(answer).map_or(file.clone(), |twin| format!("{twin} {file}"));
    let mut page = Page {
        title: format!("Model: {}", trace.display()),
        verdict: Verdict::new(Tone::Good, "Model"),
        headline,
        about: vec![("Trace".into(), trace.display().to_string())],
        ..Page::default()
    };
    let counts = [
        ("classes", answer.classes),
        ("ranges", answer.ranges),
        ("transitions", answer.transitions),
    ];
    page.key_figures = counts
        .map(|(name, count)| KeyFigure {
            name: name.into(),
            before: None,
            figure: Figure::new(count as f64, Unit::Count),
        })
        .into();
    if let Some(said) = &answer.stands_in {
        let verdict = vec![Block::Text(format!("A twin of the trace {said}."))];
        page.add("What a twin stands in for", Place::FirstScreen, verdict);
    }
    page.add("It reveals", Place::FirstScreen, vec![Block::List(answer.reveals.clone())]);
    page
}
