//! What can go wrong in a verb.

use std::io;
use std::path::PathBuf;

use forebay_ask::AskError;
use forebay_core::SpecError;
use forebay_trace::TraceError;

use crate::devices::DevicesError;
use crate::devices::disksim::ImportError;
use crate::devices::fit::FitError;
use crate::devices::validate::ValidateError;

/// A verb's failure, in one message; the user's to mend unless [`Error::is_input`] denies it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The policy or its parameters.
    #[error("{0}")]
    Policy(#[from] SpecError),
    /// The device or its file.
    #[error(transparent)]
    Device(#[from] DevicesError),
    /// Measurements of a drive.
    #[error(transparent)]
    Fit(#[from] FitError),
    /// What is written cannot be; the trace is not to blame.
    #[error(transparent)]
    Output(TraceError),
    /// The report cannot be written.
    #[error("{}: cannot write the report: {source}", path.display())]
    Report {
        /// Where to.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Whoever was told of the progress asked to stop.
    #[error("stopped")]
    Stopped,
    /// A drive file of DiskSim.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// A model and what was measured do not go together.
    #[error(transparent)]
    Validate(#[from] ValidateError),
    /// Trace and device, or options, do not go together.
    #[error("{0}")]
    Unfit(String),
    /// What went wrong in something that a face holds itself, such as a policy in Python.
    #[error("{0}")]
    Face(Box<dyn std::error::Error + Send + Sync>),
    /// An input.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// A failure in a crate above this one, such as a target that cannot be opened.
    #[error("{message}")]
    Live {
        /// The message.
        message: String,
        /// Whether inputs or files are at fault, not the system.
        is_input: bool,
        /// What the system refused, if it did.
        system: Option<io::ErrorKind>,
    },
}

impl Error {
    /// Whether what was asked for or read is at fault, not the system; so is a place that nothing can be written to.
    pub fn is_input(&self) -> bool {
        match self {
            Error::Output(TraceError::Io { source, .. }) | Error::Report { source, .. } => {
                is_of_place(source)
            }
            Error::Output(_) | Error::Stopped => false,
            Error::Live { is_input, .. } => *is_input,
            _ => true,
        }
    }

    /// From a writer: what it says of options is the user's to mend, the rest the system's.
    pub fn output(error: TraceError) -> Error {
        match error {
            TraceError::Io { .. } => Error::Output(error),
            usage => Error::Trace(usage),
        }
    }
}

/// Whether a file cannot be there at all; a disk that is full or fails is another matter.
fn is_of_place(source: &io::Error) -> bool {
    use io::ErrorKind::{
        AlreadyExists, IsADirectory, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem,
    };
    [AlreadyExists, NotFound, NotADirectory, IsADirectory, PermissionDenied, ReadOnlyFilesystem]
        .contains(&source.kind())
}
