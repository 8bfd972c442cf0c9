//! `forebay convert`.

use std::path::PathBuf;

use clap::Args;
use forebay::convert::{Converted, convert};
use forebay_trace::ahead::Ahead;
use forebay_trace::{Reader, open, write};

use crate::options::{Source, TracePath, say_notes};
use crate::progress::Progress;

/// Convert a trace to Parquet, CSV or a fio iolog
#[derive(Args)]
pub(crate) struct Convert {
    /// The trace
    trace: TracePath,
    /// The file to write; its ending says the format unless --to does
    output: PathBuf,
    #[command(flatten)]
    source: Source,
    /// Format to write: parquet, csv or fio
    #[arg(long, value_name = "FORMAT")]
    to: Option<String>,
}

impl Convert {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let mut reader = Ahead::new(open::open(&self.trace, self.source.from().as_deref())?);
        let writer = write::create(&self.output, self.to.as_deref(), Some(&self.trace))
            .map_err(forebay::Error::output)?;
        let progress = Progress::new("converting");
        let Converted { records, lost } = convert(&self.trace, &mut reader, writer, |records| {
            progress.say(format!("converting: {records} requests"));
        })?;
        drop(progress);
        say_notes(&self.trace, reader.notes());
        for what in lost {
            eprintln!("forebay: {}: {what}", self.output.display());
        }
        eprintln!("forebay: {}: {records} requests written", self.output.display());
        Ok(())
    }
}
