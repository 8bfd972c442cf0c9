//! `forebay generate`.

use std::path::PathBuf;

use clap::Args;
use forebay::convert::{Converted, convert};
use forebay::fio_job;
use forebay::model::open::{expect_end, open_model};
use forebay_core::Nanos;
use forebay_model::Model;
use forebay_model::generate::{GenerateOptions, Generator, Mechanism, Mechanisms};
use forebay_show::plural::counted;
use forebay_trace::Reader;
use forebay_trace::write::{self, Draft, Kept};

use crate::options::span;
use crate::output::{in_place_of, say};
use crate::progress::Progress;

/// Draw a trace from a model: the twin of the trace it was fitted on
#[derive(Args)]
pub(crate) struct Generate {
    /// The model
    model: PathBuf,
    /// The trace to write; its ending says the format unless --to does: .fio is a fio job with the
    /// model's means, .iolog fio's log of every request
    #[arg(short, long, value_name = "TRACE")]
    output: PathBuf,
    /// Format to write: parquet, csv, fio (its log), fio-job, disksim or blktrace
    #[arg(long, value_name = "FORMAT")]
    to: Option<String>,
    /// The same seed gives the same bytes
    #[arg(long, value_name = "N", default_value = "0", allow_negative_numbers = true)]
    seed: u64,
    /// Requests [default: as many as the model was fitted on]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..),
          allow_negative_numbers = true)]
    requests: Option<u64>,
    /// How long, e.g. 90s, 30m or 1h [default: as long as the model's trace]
    #[arg(long = "for", value_name = "TIME", value_parser = span, conflicts_with = "requests",
          allow_hyphen_values = true)]
    until: Option<Nanos>,
    /// Let requests arrive this many times as fast
    #[arg(long, value_name = "TIMES", default_value = "1", value_parser = times,
          allow_negative_numbers = true)]
    intensity: f64,
    /// Mechanisms of the model to leave out, to see what each is worth
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = mechanism, hide = true)]
    without: Vec<Mechanism>,
}

fn mechanism(text: &str) -> Result<Mechanism, String> {
    Mechanism::ALL.into_iter().find(|mechanism| mechanism.name() == text).ok_or_else(|| {
        let names = Mechanism::ALL.map(Mechanism::name).join(", ");
        format!("got '{text}', expected one of {names}")
    })
}

fn times(text: &str) -> Result<f64, String> {
    let times: Option<f64> = text.parse().ok();
    times.filter(|times| (1e-6..=1e6).contains(times)).ok_or_else(|| {
        format!("got '{text}', expected a number from 1e-6 to 1e6, e.g. 10 for ten times as fast")
    })
}

impl Generate {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let model = open_model(&self.model).map_err(forebay::Error::from)?;
        let options = GenerateOptions {
            seed: self.seed,
            requests: self.requests,
            until: self.until,
            intensity: self.intensity,
            mechanisms: self.without.iter().fold(Mechanisms::default(), |on, &off| on.without(off)),
        };
        expect_end(&self.model, &model, &options)?;
        let mut generator = Generator::new(&model, options);
        if fio_job::is_asked(&self.output, self.to.as_deref()) {
            return self.job(&mut generator, self.expected(&model));
        }
        let kept = Kept::file(&self.model);
        let replaces = in_place_of(&self.output);
        let writer = write::create(&self.output, self.to.as_deref(), &kept)
            .map_err(forebay::Error::output)?;
        let progress = Progress::new("generating");
        let Converted { records, lost } =
            convert(&self.model, &mut generator, writer, &mut |records| {
                progress.count("generating", records, self.expected(&model))
            })?;
        drop(progress);
        for what in &lost {
            say!("{}: {what}", self.output.display());
        }
        say!("{}: {} written{replaces}", self.output.display(), counted(records, "request"));
        Ok(())
    }

    /// How many requests it will be, where that is known.
    fn expected(&self, model: &Model) -> Option<u64> {
        self.requests.or(self.until.is_none().then_some(model.requests))
    }

    /// Writes a fio job of what is drawn.
    fn job(&self, generator: &mut dyn Reader, of: Option<u64>) -> anyhow::Result<()> {
        let kept = Kept::file(&self.model);
        let replaces = in_place_of(&self.output);
        let draft = Draft::new(&self.output, &kept).map_err(forebay::Error::output)?;
        let progress = Progress::new("generating");
        let records = fio_job::write(&self.model, generator, draft, &mut |records| {
            progress.count("generating", records, of)
        })?;
        drop(progress);
        let output = self.output.display();
        say!(
            "{output}: a fio job with the means of {}; its head says what it does not keep{replaces}",
            counted(records, "request")
        );
        Ok(())
    }
}
