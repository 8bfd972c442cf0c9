//! Converts a trace into a folder with one trace per volume, as the verb `convert` does for a
//! folder. Running the conversion again resumes an interrupted one ([`forebay_trace::partition`]).

use std::ops::ControlFlow;

use std::path::Path;

use forebay_trace::partition::{self, Intake, Manifest, Partition, Volumes};
use forebay_trace::{Notes, Reader, TraceError};

use crate::Error;
use crate::input::refuse_empty;
use crate::progress::{Meter, Progress};

/// The result of splitting a trace into a folder with one file per volume.
#[derive(Debug)]
pub struct Parted {
    /// The manifest of the folder, which lists the volumes.
    pub manifest: Manifest,
    /// The previous content of the folder.
    pub found: ExistingOutput,
    /// Notes about reading the trace; `None` if it did not have to be read again.
    pub notes: Option<Notes>,
}

/// The content that an earlier conversion of the same trace left in the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingOutput {
    /// The folder contained nothing.
    Nothing,
    /// The folder contained the complete intermediate data, but not all volumes.
    Part,
    /// The folder contained all volumes.
    Whole,
}

impl Parted {
    /// Returns the total number of requests in all volumes.
    pub fn requests(&self) -> u64 {
        self.manifest.parts.iter().map(|part| part.requests).sum()
    }
}

/// The current step of the conversion.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// The trace is being read.
    Reading,
    /// The volumes are being written.
    Writing {
        /// The total number of requests in the volumes that are to be written.
        of: u64,
    },
}

/// Splits the trace at `trace`, which `open` opens in the format `from`, into files in `folder`.
/// Reports the number of requests completed in the current step to `progress`. An interrupted
/// conversion can be resumed: once the trace has been read, only missing volumes are written.
///
/// # Errors
/// [`Error::Output`] if the folder contains something else or if the operating system refuses to
/// write; errors from reading the trace; [`Error::Stopped`] if `progress` requests a stop.
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
                return Ok(Parted { manifest, found: ExistingOutput::Whole, notes: None });
            }
            Partition::Read(volumes) => (volumes, ExistingOutput::Part, None),
            Partition::Begun(intake) => {
                let mut reader = open()?;
                let mut told = |requests| progress(Step::Reading, requests);
                let volumes = read(trace, &mut *reader, intake, &mut told)?;
                (volumes, ExistingOutput::Nothing, Some(reader.notes().clone()))
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
