//! `forebay convert`.

use std::path::PathBuf;

use clap::Args;
use forebay_trace::{TraceError, open, write};

use crate::options::{TracePath, say_notes};
use crate::partition;
use crate::progress::Progress;

/// Convert a trace to Parquet, CSV, a fio iolog, DiskSim ascii or blktrace binary
#[derive(Args)]
pub(crate) struct Convert {
    /// The trace
    trace: TracePath,
    /// The file to write; its ending says the format unless --to does
    output: PathBuf,
    /// Format of the trace, if looking at it is not enough
    #[arg(long, value_name = "FORMAT")]
    from: Option<String>,
    /// Format to write: parquet, csv, fio, disksim or blktrace
    #[arg(long, value_name = "FORMAT")]
    to: Option<String>,
    /// Write a folder of Parquet files, one a volume; a rerun goes on where it was interrupted
    #[arg(long, value_name = "WHAT", value_enum, conflicts_with = "to")]
    partition_by: Option<partition::By>,
}

impl Convert {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        if let Some(partition::By::Volume) = self.partition_by {
            return partition::run(&self.trace, self.from.as_deref(), &self.output);
        }
        let mut reader = open::open(&self.trace, self.from.as_deref())?;
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
