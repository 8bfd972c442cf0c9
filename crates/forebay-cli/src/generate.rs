//! `forebay generate`.

use std::path::PathBuf;

use clap::Args;
use forebay::convert::{Converted, convert};
use forebay::model::check;
use forebay::model::generate::{GenerateOptions, Generator};
use forebay_trace::write;

use crate::progress::Progress;

/// Draw a trace from a model: the twin of the trace it was fitted on
#[derive(Args)]
pub(crate) struct Generate {
    /// The model
    model: PathBuf,
    /// The trace to write; its ending says the format unless --to does
    #[arg(short, long, value_name = "TRACE")]
    output: PathBuf,
    /// Format to write: parquet, csv, fio, disksim or blktrace
    #[arg(long, value_name = "FORMAT")]
    to: Option<String>,
    /// The same seed gives the same bytes
    #[arg(long, value_name = "N", default_value = "0")]
    seed: u64,
    /// Requests, if not as many as the model was fitted on
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
}

impl Generate {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let model = check::read(&self.model)?;
        let writer = write::create(&self.output, self.to.as_deref(), Some(&self.model))
            .map_err(forebay::Error::output)?;
        let progress = Progress::new("generating");
        let options = GenerateOptions {
            seed: self.seed,
            requests: self.requests,
            ..GenerateOptions::default()
        };
        let mut generator = Generator::new(&model, options);
        let Converted { records, lost } =
            convert(&self.model, &mut generator, writer, |records| {
                progress.say(format!("generating: {records} requests"));
            })?;
        drop(progress);
        for what in &lost {
            eprintln!("forebay: {}: {what}", self.output.display());
        }
        eprintln!("forebay: {}: {records} requests written", self.output.display());
        Ok(())
    }
}
