//! `forebay convert`.

use std::path::PathBuf;

use clap::Args;
use forebay::convert::{Converted, convert};
use forebay::model::open::expect_trace;
use forebay_trace::ahead::Ahead;
use forebay_trace::plural::counted;
use forebay_trace::write::{self, Kept};
use forebay_trace::{Reader, open};

use crate::options::{Source, TracePath, say_notes};
use crate::partition;
use crate::progress::Progress;

/// Convert a trace to Parquet, CSV, a fio iolog, DiskSim ascii or blktrace binary
#[derive(Args)]
pub(crate) struct Convert {
    /// The trace
    trace: TracePath,
    /// The file to write; its ending says the format unless --to does
    output: PathBuf,
    #[command(flatten)]
    source: Source,
    /// Format to write: parquet, csv, fio, disksim or blktrace
    #[arg(long, value_name = "FORMAT")]
    to: Option<String>,
    /// Write a folder of Parquet files, one a volume; a rerun goes on where it was interrupted
    #[arg(long, value_name = "WHAT", value_enum, conflicts_with = "to")]
    partition_by: Option<partition::By>,
}

impl Convert {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let from = self.source.from();
        if from.is_none() {
            expect_trace(&self.trace).map_err(forebay::Error::from)?;
        }
        if let Some(partition::By::Volume) = self.partition_by {
            return partition::run(&self.trace, from.as_deref(), &self.output);
        }
        let progress = Progress::reading("converting", &self.trace);
        let opened = open::open_counting(&self.trace, from.as_deref(), progress.consumed())?;
        let mut reader = Ahead::new(opened);
        let kept = Kept::trace(&self.trace);
        let writer = write::create(&self.output, self.to.as_deref(), &kept)
            .map_err(forebay::Error::output)?;
        let Converted { records, lost } = convert(&self.trace, &mut reader, writer, |records| {
            progress.say(format!("converting: {records} requests"));
        })?;
        drop(progress);
        say_notes(&self.trace, reader.notes());
        for what in &lost {
            eprintln!("forebay: {}: {what}", self.output.display());
        }
        let so_far = if lost.is_empty() { "written" } else { "converted, but for that" };
        let records = counted(records, "request");
        eprintln!("forebay: {}: {records} {so_far}", self.output.display());
        Ok(())
    }
}
