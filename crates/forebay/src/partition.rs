//! The verb `convert` into a folder of a trace a volume, which goes on where it was interrupted
//! ([`forebay_trace::partition`]).

use std::ops::ControlFlow;

use std::path::Path;

use forebay_trace::partition::{self, Intake, Manifest, Partition, Volumes};
use forebay_trace::{Notes, Reader, TraceError};

use crate::error::Error;
use crate::input::refuse_empty;
use crate::progress::{Meter, Progress};

/// A trace that lies in a folder, a file a volume.
#[derive(Debug)]
pub struct Parted {
    /// What the folder holds.
    pub manifest: Manifest,
    /// What it held before.
    pub found: Found,
    /// What is to be said of the trace, if it was read.
    pub notes: Option<Notes>,
}

/// What a folder held of the same trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// All that was read, but not all volumes.
    Part,
    /// All of it.
    Whole,
}

impl Parted {
    /// Requests of all volumes.
    pub fn requests(&self) -> u64 {
        self.manifest.parts.iter().map(|part| part.requests).sum()
    }
}

/// What is under way.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// The trace is read.
    Reading,
    /// Volumes are written, of so many requests together.
    Writing {
        /// How many.
        of: u64,
    },
}

/// Parts the trace at `trace`, which `open` opens as what is of format `from`, into `folder`. `progress` is told how many requests of a
/// step are done. What was stopped goes on when it is asked for again: once the trace is read, with the volumes that are not there.
///
/// # Errors
/// [`Error::Output`] for a folder that holds something else, or where the system refuses to write; what reading says;
/// [`Error::Stopped`] where `progress` asks for it.
pub fn part(
    trace: &Path,
    from: Option<&str>,
    folder: &Path,
    open: impl FnOnce() -> Result<Box<dyn Reader>, TraceError>,
    progress: &mut dyn FnMut(Step, u64) -> ControlFlow<()>,
) -> Result<Parted, Error> {
    let (volumes, found, notes) =
        match partition::open(folder, trace, from).map_err(Error::output)? {
            Partition::Finished(manifest) => {
                return Ok(Parted { manifest, found: Found::Whole, notes: None });
            }
            Partition::Read(volumes) => (volumes, Found::Part, None),
            Partition::Begun(intake) => {
                let mut reader = open()?;
                let mut told = |requests| progress(Step::Reading, requests);
                let volumes = read(trace, &mut *reader, intake, &mut told)?;
                (volumes, Found::Nothing, Some(reader.notes().clone()))
            }
        };
    let of = volumes.requests();
    let written = volumes.write(|done| !progress(Step::Writing { of }, done).is_break());
    let manifest = written.map_err(Error::output)?.ok_or(Error::Stopped)?;
    Ok(Parted { manifest, found, notes })
}

fn read(
    trace: &Path,
    reader: &mut dyn Reader,
    mut intake: Intake,
    progress: Progress<'_>,
) -> Result<Volumes, Error> {
    let (mut batch, mut meter) = (Vec::new(), Meter::new(progress));
    loop {
        reader.read(&mut batch)?;
        if batch.is_empty() {
            break;
        }
        intake.add(&batch).map_err(Error::output)?;
        if meter.stops_after(batch.len()) {
            return Err(Error::Stopped);
        }
    }
    refuse_empty(trace, meter.count(), reader.notes())?;
    intake.seal(reader.dictionary(), reader.notes()).map_err(Error::output)
}
