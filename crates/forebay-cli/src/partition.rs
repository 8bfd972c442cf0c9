//! `forebay convert --partition-by volume`.

use std::path::Path;

use clap::ValueEnum;
use forebay::partition::{Found, Step, part};
use forebay_show::plural::counted;
use forebay_trace::ahead::Ahead;
use forebay_trace::open;

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
    let progress = Progress::reading("reading", trace);
    let opened = || {
        let opened = open::open_counting(trace, from, progress.consumed())?;
        Ok(Box::new(Ahead::new(opened)) as Box<dyn forebay_trace::Reader>)
    };
    let parted = part(trace, from, output, opened, &mut |step, requests| match step {
        Step::Reading => progress.say(format!("reading {}: {requests} requests", trace.display())),
        Step::Writing { of } => {
            let doing = format!("writing volumes: {requests} of {of} requests");
            progress.within(doing, requests as f64, Some(of as f64))
        }
    })?;
    drop(progress);
    match parted.found {
        Found::Whole => say!("{}: complete already", output.display()),
        Found::Part => say!("{}: went on where it was interrupted", output.display()),
        Found::Nothing => {}
    }
    if let Some(notes) = &parted.notes {
        say_notes(trace, notes);
    }
    let requests = counted(parted.requests(), "request");
    let volumes = counted(parted.manifest.parts.len() as u64, "volume");
    say!("{}: {requests} of {volumes}", output.display());
    Ok(())
}
