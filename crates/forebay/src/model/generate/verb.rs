//! The verb `generate`: generates a trace, or a fio job, from a model.

use std::path::PathBuf;

use forebay_ask::{Choice, Face, Value, exists};
use forebay_core::Nanos;
use forebay_model::Model;
use forebay_model::generate::{GenerateOptions, Generator, Mechanism, Mechanisms};
use forebay_show::{Page, Tone, Verdict};
use forebay_trace::write::{self, Draft, ProtectedFiles};
use forebay_words::plural::counted;
use serde::Serialize;

use crate::convert::verb::written;
use crate::convert::{Converted, convert};
use crate::model::open::{expect_end, open_model};
use crate::verb::{Answered, Session, Verb, in_place_of};
use crate::{Error, ProgressReport, fio_job};

forebay_ask::ask! {
    /// Generate a trace from a model: a twin of the trace that the model was fitted to
    pub struct GenerateAsk("generate") {
        /// The model
        model: PathBuf [.positional().word("MODEL").checked(exists)],
        /// The trace to write. Its extension selects the format unless a format is given: .fio is a
        /// fio job with the model's means, .iolog is fio's log of every request
        output: PathBuf [.short('o').word("FILE")],
        /// The format to write: parquet, csv, fio (its log), fio-job, disksim or blktrace
        to: Option<String> [.word("FORMAT")],
        /// The seed of all random choices; the same seed produces the same bytes
        seed: u64 = "0" [.word("N")],
        /// How many requests to generate
        requests: Option<u64> [.word("N").at_least(1.0).otherwise("the number in the fitted trace")],
        /// The duration of the trace, e.g. 90s, 30m or 1h
        r#for: Option<Nanos> [.excludes(&["requests"]).otherwise("the duration of the fitted trace")],
        /// The factor by which requests arrive faster
        intensity: f64 = "1" [.word("TIMES").between(1e-6, 1e6)],
        /// Mechanisms of the model to leave out, to measure their contributions
        without: Vec<LeftOut> [.only(Face::Python)],
    }
}

/// The name of a mechanism of the model that generation should leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut(Mechanism);

impl Value for LeftOut {
    const WORD: &'static str = "NAME";
    const CHOICES: &'static [Choice] = &[];

    fn parse(text: &str) -> Result<LeftOut, String> {
        let found = Mechanism::ALL.into_iter().find(|mechanism| mechanism.name() == text);
        found.map(LeftOut).ok_or_else(|| {
            let names = Mechanism::ALL.map(Mechanism::name).join(", ");
            format!("got '{text}', expected one of {names}")
        })
    }
}

/// The answer of `generate` if it writes a fio job.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct JobAnswer {
    output: String,
    requests: u64,
}

impl Verb for GenerateAsk {
    type Beyond = ();

    fn run(self, session: &mut dyn Session) -> Result<Answered, Error> {
        let model = open_model(&self.model)?;
        let mechanisms =
            self.without.iter().fold(Mechanisms::default(), |on, off| on.without(off.0));
        let options = GenerateOptions {
            seed: self.seed,
            requests: self.requests,
            until: self.r#for,
            intensity: self.intensity,
            mechanisms,
        };
        expect_end(&self.model, &model, &options)?;
        let mut generator = Generator::new(&model, options);
        let (kept, replaces) = (ProtectedFiles::file(&self.model), in_place_of(&self.output));
        let of = self.expected(&model);
        session.begin("generating", None);
        let mut go_on = |requests: u64| {
            let doing = format!("generating: {requests} requests");
            let done_share = of.map_or(0.0, |of| requests as f64 / of.max(1) as f64);
            session.progress(&ProgressReport { doing, done_share })
        };
        if fio_job::is_asked(&self.output, self.to.as_deref()) {
            let draft = Draft::new(&self.output, &kept).map_err(Error::output)?;
            let requests = fio_job::write(&self.model, &mut generator, draft, &mut go_on)?;
            return self.job(requests, replaces);
        }
        let writer =
            write::create(&self.output, self.to.as_deref(), &kept).map_err(Error::output)?;
        let Converted { records, lost } = convert(&self.model, &mut generator, writer, &mut go_on)?;
        written(&self.output, records, None, (lost, Vec::new()), replaces, session)
    }
}

impl GenerateAsk {
    /// Returns the number of requests that will be generated, if known in advance.
    fn expected(&self, model: &Model) -> Option<u64> {
        self.requests.or(self.r#for.is_none().then_some(model.requests))
    }

    fn job(&self, requests: u64, replaces: &str) -> Result<Answered, Error> {
        let output = self.output.display().to_string();
        let of = counted(requests, "request");
        let headline = format!(
            "{output}: a fio job with the means of {of}{replaces}; its header lists what it \
             leaves out."
        );
        let verdict = Verdict::new(Tone::Good, "Written");
        let page = Page { title: output.clone(), verdict, headline, ..Page::default() };
        Answered::new(&JobAnswer { output, requests }, page)
    }
}
