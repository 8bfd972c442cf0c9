//! `forebay convert --partition-by volume`.

use std::path::Path;

use clap::ValueEnum;
use forebay::Error;
use forebay_trace::ahead::Ahead;
use forebay_trace::partition::{self, Intake, Manifest, Partition, Volumes};
use forebay_trace::plural::counted;
use forebay_trace::{Reader, open};

use crate::options::say_notes;
use crate::output::say;
use crate::progress::Progress;

/// What a trace is parted by.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum By {
    /// A file for each volume.
    Volume,
}

/// Parts `trace`, read as format `from`, into the folder `output`.
pub(crate) fn run(trace: &Path, from: Option<&str>, output: &Path) -> anyhow::Result<()> {
    let manifest = match partition::open(output, trace, from).map_err(Error::output)? {
        Partition::Finished(manifest) => {
            say!("{}: complete already", output.display());
            manifest
        }
        Partition::Read(volumes) => {
            say!("{}: going on where it was interrupted", output.display());
            write(volumes)?
        }
        Partition::Begun(intake) => write(read(trace, from, intake)?)?,
    };
    let requests: u64 = manifest.parts.iter().map(|part| part.requests).sum();
    let (requests, volumes) =
        (counted(requests, "request"), counted(manifest.parts.len() as u64, "volume"));
    say!("{}: {requests} of {volumes}", output.display());
    Ok(())
}

fn read(trace: &Path, from: Option<&str>, mut intake: Intake) -> anyhow::Result<Volumes> {
    let progress = Progress::reading("reading", trace);
    let mut reader = Ahead::new(open::open_counting(trace, from, progress.consumed())?);
    let (mut batch, mut records) = (Vec::new(), 0u64);
    loop {
        reader.read(&mut batch)?;
        if batch.is_empty() {
            break;
        }
        intake.add(&batch).map_err(Error::output)?;
        records += batch.len() as u64;
        progress.say(format!("reading {}: {records} requests", trace.display()));
    }
    drop(progress);
    forebay::input::refuse_empty(trace, records, reader.notes())?;
    say_notes(trace, reader.notes());
    let volumes = intake.seal(reader.dictionary(), reader.notes());
    Ok(volumes.map_err(Error::output)?)
}

fn write(volumes: Volumes) -> anyhow::Result<Manifest> {
    let (progress, requests) = (Progress::new("writing volumes"), volumes.requests());
    Ok(volumes
        .write(|done| progress.say(format!("writing volumes: {done} of {requests} requests")))
        .map_err(Error::output)?)
}
