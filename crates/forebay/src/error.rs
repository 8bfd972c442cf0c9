//! What can go wrong in a verb.

use forebay_core::SpecError;
use forebay_trace::TraceError;

use crate::devices::DevicesError;

/// A verb's failure, in one message; all but [`Error::Output`] and [`Error::Stopped`] are the user's
/// to mend.
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
    /// What is written cannot be; the trace is not to blame.
    #[error(transparent)]
    Output(TraceError),
    /// Whoever was told of the progress asked to stop.
    #[error("stopped")]
    Stopped,
    /// Trace and device, or options, do not go together.
    #[error("{0}")]
    Unfit(String),
}

impl Error {
    /// From a writer: what it says of options is the user's to mend, the rest the system's.
    pub fn output(error: TraceError) -> Error {
        match error {
            TraceError::Io { .. } => Error::Output(error),
            usage => Error::Trace(usage),
        }
    }
}
