//! What can go wrong in a verb.

use forebay_core::SpecError;
use forebay_trace::TraceError;

use crate::devices::DevicesError;
use crate::disksim::ImportError;

/// A verb's failure, in one message; all of them are the user's to mend.
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
    /// A drive file of DiskSim.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// Trace and device, or options, do not go together.
    #[error("{0}")]
    Unfit(String),
}
