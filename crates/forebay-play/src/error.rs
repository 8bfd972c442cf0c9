//! Errors of playing and capturing.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use forebay_ask::named;
use forebay_core::SpecError;
use forebay_live::TargetError;
use forebay_live::capture::CaptureError;

/// An error of playing, of capturing, or of a volume.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An error in the trace, the policy, a device or their combination.
    #[error(transparent)]
    Verb(#[from] forebay::Error),
    /// A target cannot be used.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A volume cannot be used.
    #[error(transparent)]
    Volume(#[from] forebay_volume::Error),
    /// Capturing is not permitted, or failed.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// No requests arrived.
    #[error("no request reached {} in {:.1} s; nothing was written", device.display(), elapsed.as_secs_f64())]
    Nothing {
        /// The captured device.
        device: PathBuf,
        /// How long the capture lasted.
        elapsed: Duration,
    },
    /// The live driver failed because of an operating-system error.
    #[error("the {driver} driver failed; another one may work ({}): {source}", named("driver"))]
    Driver {
        /// The driver's name.
        driver: &'static str,
        /// The operating-system error.
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

/// Creates an error for a trace, a target and options that cannot be combined.
pub(crate) fn unfit(what: String) -> Error {
    Error::Verb(forebay::Error::Unfit(what))
}
