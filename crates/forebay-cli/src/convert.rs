//! `forebay convert`.

use std::path::PathBuf;

use clap::Args;
use forebay::convert::{Converted, convert, extents, read_key};
use forebay::model::open::expect_trace;
use forebay_show::plural::counted;
use forebay_trace::ahead::Ahead;
use forebay_trace::anonymize::{Anonymized, CELL_BYTES, Extents, Key};
use forebay_trace::write::{self, Kept};
use forebay_trace::{Reader, open};

use crate::options::{Source, TracePath, say_notes};
use crate::output::{in_place_of, say};
use crate::partition;
use crate::progress::Progress;
use crate::stdin;

/// Convert a trace to Parquet, CSV, a fio iolog, DiskSim ascii or blktrace binary
#[derive(Args)]
pub(crate) struct Convert {
    /// The trace; - is standard input
    #[arg(value_parser = stdin::trace_path())]
    trace: TracePath,
    /// The file to write; its ending says the format unless --to does
    output: PathBuf,
    #[command(flatten)]
    source: Source,
    /// Format to write: parquet, csv, fio, disksim or blktrace
    #[arg(long, value_name = "FORMAT")]
    to: Option<String>,
    /// Write a folder of Parquet files, one a volume; a rerun continues where it was interrupted
    #[arg(long, value_name = "WHAT", value_enum, conflicts_with = "to")]
    partition_by: Option<partition::By>,
    #[command(flatten)]
    anonymize: Anonymize,
}

/// How to hide what a trace is of.
#[derive(Args)]
struct Anonymize {
    /// Drop names and dates, number threads anew, and shuffle the cells of each volume
    #[arg(long, conflicts_with = "partition_by")]
    anonymize: bool,
    /// File with the secret that decides new names and places; without it a new one is made and forgotten
    #[arg(long, value_name = "FILE", requires = "anonymize")]
    key: Option<PathBuf>,
    /// Size of a cell, within which nothing moves, in MiB
    #[arg(long, value_name = "MIB", requires = "anonymize", default_value_t = CELL_MIB,
          value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    cell_mib: u64,
}

/// The default of `--cell-mib`.
const CELL_MIB: u64 = CELL_BYTES >> 20;

impl Anonymize {
    fn key(&self) -> anyhow::Result<Key> {
        Ok(match &self.key {
            Some(file) => read_key(file)?,
            None => Key::random()?,
        })
    }
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
        let anonymize = match self.anonymize.anonymize {
            true => Some((self.anonymize.key()?, self.extents(from.as_deref())?)),
            false => None,
        };
        let progress = Progress::reading("converting", &self.trace);
        let opened = open::open_counting(&self.trace, from.as_deref(), progress.consumed())?;
        let mut reader = Ahead::new(opened);
        let mut anonymized;
        let reader: &mut dyn Reader = match anonymize {
            None => &mut reader,
            Some((key, extents)) => {
                anonymized = Anonymized::new(&mut reader, &self.trace, key, extents);
                &mut anonymized
            }
        };
        let mut kept = Kept::trace(&self.trace);
        if let Some(key) = &self.anonymize.key {
            kept = kept.and_file(key);
        }
        let replaces = in_place_of(&self.output);
        let writer = write::create(&self.output, self.to.as_deref(), &kept)
            .map_err(forebay::Error::output)?;
        let Converted { records, lost } = convert(&self.trace, reader, writer, &mut |records| {
            progress.say(format!("converting: {records} requests"))
        })?;
        drop(progress);
        say_notes(&self.trace, reader.notes());
        for what in &lost {
            say!("{}: {what}", self.output.display());
        }
        let so_far =
            if lost.is_empty() { "written" } else { "converted, without what is said above" };
        let records = counted(records, "request");
        say!("{}: {records} {so_far}{replaces}", self.output.display());
        Ok(())
    }

    fn extents(&self, from: Option<&str>) -> anyhow::Result<Extents> {
        let progress = Progress::reading("measuring", &self.trace);
        let mut reader = Ahead::new(open::open_counting(&self.trace, from, progress.consumed())?);
        Ok(extents(&mut reader, self.anonymize.cell_mib << 20, &mut |records| {
            progress.say(format!("measuring: {records} requests"))
        })?)
    }
}
