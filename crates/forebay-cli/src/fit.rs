//! `forebay fit`.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use forebay::model::fit::{FitOptions, fit};

use crate::options::{Source, TracePath, ahead, say_notes};
use crate::progress::Progress;

/// Fit a small model of a trace, to be shared in its place
#[derive(Args)]
pub(crate) struct Fit {
    /// The trace
    trace: TracePath,
    /// The model to write, a JSON file
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,
    #[command(flatten)]
    source: Source,
    /// Levels of the hierarchy of ranges: 4^level of them
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u8).range(1..=8))]
    level: u8,
    /// Let any range lead to any other, not only to its siblings
    #[arg(long)]
    flat: bool,
}

impl Fit {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let progress = Progress::reading("fitting", &self.trace);
        let from = self.source.from();
        let opening = || ahead(&self.trace, from.as_deref(), progress.consumed());
        let options = FitOptions { level: self.level, flat: self.flat, common_sizes: 3 };
        let (model, notes) = fit(&self.trace, opening, &options, |records| {
            progress.say(format!("fitting: {records} requests"));
        })?;
        drop(progress);
        say_notes(&self.trace, &notes);
        std::fs::write(&self.output, model.json())
            .with_context(|| format!("{}: cannot write the model", self.output.display()))?;
        Ok(())
    }
}
