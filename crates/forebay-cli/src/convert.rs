//! `forebay convert`.

use std::path::PathBuf;

use clap::Args;
use forebay_trace::ahead::Ahead;
use forebay_trace::{Reader, TraceError, open, write};

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
        let mut writer = write::create(&self.output, self.to.as_deref(), Some(&self.trace))
            .map_err(output_error)?;
        let progress = Progress::new("converting");
        let (mut batch, mut records) = (Vec::new(), 0u64);
        loop {
            reader.read(&mut batch)?;
            if batch.is_empty() {
                break;
            }
            writer.write(&batch, reader.dictionary()).map_err(output_error)?;
            records += batch.len() as u64;
            progress.say(format!("converting: {records} requests"));
        }
        forebay::input::refuse_empty(&self.trace, records, reader.notes())?;
        let lost = writer.finish(reader.dictionary(), reader.notes()).map_err(output_error)?;
        drop(progress);
        say_notes(&self.trace, reader.notes());
        for what in lost {
            eprintln!("forebay: {}: {what}", self.output.display());
        }
        eprintln!("forebay: {}: {records} requests written", self.output.display());
        Ok(())
    }
}

/// What the system refuses to write is no bad input: exit status 1, not 2.
fn output_error(error: TraceError) -> anyhow::Error {
    match error {
        TraceError::Io { .. } => anyhow::anyhow!("{error}"),
        usage => usage.into(),
    }
}
