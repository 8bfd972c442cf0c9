//! What can go wrong while playing and capturing.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use forebay_ask::named;
use forebay_core::SpecError;
use forebay_live::TargetError;
use forebay_live::capture::CaptureError;

/// Why a trace could not be played, or captured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The trace, the policy, a device or how they go together.
    #[error(transparent)]
    Verb(#[from] forebay::Error),
    /// A target.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A volume.
    #[error(transparent)]
    Volume(#[from] forebay_volume::Error),
    /// The system does not let us capture, or fails.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// Nothing came.
    #[error("no request reached {} in {:.1} s; nothing is written", device.display(), elapsed.as_secs_f64())]
    Nothing {
        /// Where.
        device: PathBuf,
        /// For how long.
        elapsed: Duration,
    },
    /// The live driver fails; the system is to blame.
    #[error("the {driver} driver failed; another may do ({}): {source}", named("driver"))]
    Driver {
        /// Its name.
        driver: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

impl From<Error> for forebay::Error {
    fn from(error: Error) -> forebay::Error {
        let (is_input, system) = match &error {
            Error::Verb(_) | Error::Target(_) => (true, None),
            Error::Volume(forebay_volume::Error::Driver(source)) => (false, Some(source.kind())),
            Error::Volume(error) => (error.is_input(), None),
            Error::Capture(error) => (error.is_usage(), error.system()),
            Error::Nothing { .. } => (false, None),
            Error::Driver { source, .. } => (false, Some(source.kind())),
        };
        match error {
            Error::Verb(error) => error,
            Error::Volume(forebay_volume::Error::Stopped) => forebay::Error::Stopped,
            error => forebay::Error::Live { message: error.to_string(), is_input, system },
        }
    }
}

impl From<SpecError> for Error {
    fn from(error: SpecError) -> Error {
        Error::Verb(error.into())
    }
}

/// Trace, target and options that do not go together.
pub(crate) fn unfit(what: String) -> Error {
    Error::Verb(forebay::Error::Unfit(what))
}
