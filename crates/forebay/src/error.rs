//! The errors of the verbs.

use std::io;
use std::path::PathBuf;

use forebay_ask::AskError;
use forebay_core::SpecError;
use forebay_trace::TraceError;

use crate::devices::DevicesError;
use crate::devices::disksim::ImportError;
use crate::devices::fit::FitError;
use crate::devices::validate::ValidateError;

/// The failure of a verb, as one message. The user can fix it, unless [`Error::is_input`] returns
/// false.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An invalid trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// An invalid policy or parameter.
    #[error("{0}")]
    Policy(#[from] SpecError),
    /// An invalid device or device file.
    #[error(transparent)]
    Device(#[from] DevicesError),
    /// Measurements that a drive cannot be fitted to.
    #[error(transparent)]
    Fit(#[from] FitError),
    /// The output cannot be written; the trace is not the cause.
    #[error(transparent)]
    Output(TraceError),
    /// The report cannot be written.
    #[error("{}: cannot write the report: {source}", path.display())]
    Report {
        /// The path of the report.
        path: PathBuf,
        /// The error from the system.
        source: io::Error,
    },
    /// The progress callback requested a stop.
    #[error("stopped")]
    Stopped,
    /// An invalid DiskSim drive file.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// A model that cannot be compared with these measurements.
    #[error(transparent)]
    Validate(#[from] ValidateError),
    /// The trace, the device or the options do not fit together.
    #[error("{0}")]
    Unfit(String),
    /// An error in an object that the caller supplied, such as a policy in Python.
    #[error("{0}")]
    Face(Box<dyn std::error::Error + Send + Sync>),
    /// An invalid option.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// A failure in a crate above this one, such as a target that cannot be opened.
    #[error("{message}")]
    Live {
        /// The message.
        message: String,
        /// Whether the options or files are the cause, and not the system.
        is_input: bool,
        /// The kind of the system's error, if there is one.
        system: Option<io::ErrorKind>,
    },
}

impl Error {
    /// Returns whether the options or the files read are the cause, and not the system. Paths that
    /// cannot be written to count as options.
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

    /// Converts a writer's error: those about options are the user's to fix, all others the
    /// system's.
    pub fn output(error: TraceError) -> Error {
        match error {
            TraceError::Io { .. } => Error::Output(error),
            usage => Error::Trace(usage),
        }
    }
}

/// Returns whether the path can never hold a file, as opposed to a disk that is full or fails.
fn is_of_place(source: &io::Error) -> bool {
    use io::ErrorKind::{
        AlreadyExists, IsADirectory, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem,
    };
    [AlreadyExists, NotFound, NotADirectory, IsADirectory, PermissionDenied, ReadOnlyFilesystem]
        .contains(&source.kind())
}
