//! The errors that verbs return.

use std::io;
use std::path::PathBuf;

use forebay_ask::AskError;
use forebay_core::SpecError;
use forebay_trace::TraceError;

use crate::devices::DevicesError;
use crate::devices::disksim::ImportError;
use crate::devices::fit::FitError;
use crate::devices::validate::ValidateError;

/// Why a verb failed, as one message. The user can correct the cause, unless [`Error::is_input`]
/// returns false.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A trace is invalid.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A policy or one of its parameters is invalid.
    #[error("{0}")]
    Policy(#[from] SpecError),
    /// A device or a device file is invalid.
    #[error(transparent)]
    Device(#[from] DevicesError),
    /// A drive cannot be fitted to these measurements.
    #[error(transparent)]
    Fit(#[from] FitError),
    /// The output could not be written; the trace is not the cause.
    #[error(transparent)]
    Output(TraceError),
    /// The report could not be written.
    #[error("{}: cannot write the report: {source}", path.display())]
    Report {
        /// The path of the report.
        path: PathBuf,
        /// The error that the operating system returned.
        source: io::Error,
    },
    /// The progress callback requested the verb to stop.
    #[error("stopped")]
    Stopped,
    /// A DiskSim drive file is invalid.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The model cannot be compared with these measurements.
    #[error(transparent)]
    Validate(#[from] ValidateError),
    /// The trace, the device or the options do not fit together.
    #[error("{0}")]
    Unfit(String),
    /// An object that the caller supplied failed, such as a policy written in Python.
    #[error("{0}")]
    Face(Box<dyn std::error::Error + Send + Sync>),
    /// An option is invalid.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// An operation in a crate above this one failed, such as opening a target device.
    #[error("{message}")]
    Live {
        /// The complete error message.
        message: String,
        /// Whether the cause is an option or a file, and not the operating system.
        is_input: bool,
        /// The kind of the operating system's error, if it caused the failure.
        system: Option<io::ErrorKind>,
    },
}

impl Error {
    /// Returns whether the cause is an option or a file that was read, and not the operating
    /// system. An output path that can never be written counts as an option.
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

    /// Converts a writer's error. Errors in options are the user's to correct; all others come from
    /// the operating system.
    pub fn output(error: TraceError) -> Error {
        match error {
            TraceError::Io { .. } => Error::Output(error),
            usage => Error::Trace(usage),
        }
    }
}

/// Returns whether the path can never hold a file, as opposed to a disk that is full or failing.
fn is_of_place(source: &io::Error) -> bool {
    use io::ErrorKind::{
        AlreadyExists, IsADirectory, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem,
    };
    [AlreadyExists, NotFound, NotADirectory, IsADirectory, PermissionDenied, ReadOnlyFilesystem]
        .contains(&source.kind())
}
