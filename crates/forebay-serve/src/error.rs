//! Errors of the server.

use std::io;

use forebay_ask::{Spelling, spelled};
use forebay_trace::TraceError;

/// Why the server cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Invalid input that the user can correct.
    #[error("{0}")]
    Unfit(String),
    /// The disks have no space for data that must be written.
    #[error("{0}")]
    Disks(String),
    /// A target cannot be used.
    #[error(transparent)]
    Target(#[from] forebay_live::TargetError),
    /// A policy spec is invalid.
    #[error(transparent)]
    Policy(#[from] forebay_core::SpecError),
    /// A volume cannot be used.
    #[error(transparent)]
    Volume(#[from] forebay_volume::Error),
    /// A trace cannot be read or written.
    #[error("'{back}': {key}: {error}")]
    Beside {
        /// The back that the trace belongs to.
        back: String,
        /// The configuration key that names the trace.
        key: &'static str,
        /// The underlying error.
        error: Box<TraceError>,
        /// Whether the error occurred before serving began.
        at_start: bool,
    },
    /// A back ended with an error.
    #[error("'{name}': {error}")]
    Back {
        /// The name of the back.
        name: String,
        /// The error.
        error: Box<Error>,
    },
    /// An operation was refused by the system.
    #[error("{what}: {source}")]
    System {
        /// The attempted operation.
        what: String,
        /// The system's error.
        source: io::Error,
    },
}

impl Error {
    /// Wraps the error in one that names the back, unless it already does.
    pub(crate) fn of(self, name: &str) -> Error {
        match self {
            Error::Beside { .. } | Error::Back { .. } => self,
            other => Error::Back { name: name.into(), error: Box::new(other) },
        }
    }

    /// Returns whether the user can fix the error by changing the configuration or command.
    pub fn is_users(&self) -> bool {
        match self {
            Error::System { .. } | Error::Disks(_) => false,
            Error::Volume(error) => error.is_input(),
            Error::Beside { at_start: true, .. } => true,
            // The file was writable when the server started, so a later failure is not the user's
            // mistake.
            Error::Beside { error, .. } => !matches!(**error, TraceError::Io { .. }),
            Error::Back { error, .. } => error.is_users(),
            _ => true,
        }
    }
}

/// Wraps an error of the file that key `key` of `back` specifies, with advice in terms of the
/// configuration.
pub(crate) fn beside(back: &str, key: &'static str, error: TraceError) -> Error {
    let advice = match key {
        "rearrange" => "`forebay convert` makes a Parquet trace of it, which works unchanged",
        _ => "use a name that ends in .parquet or .csv",
    };
    let error = match error {
        TraceError::Malformed { path, place, got, expected, hint }
            if spelled(&hint, Spelling::Command) != hint =>
        {
            let hint = advice.into();
            TraceError::Malformed { path, place, got, expected, hint }
        }
        other => other,
    };
    Error::Beside { back: back.into(), key, error: Box::new(error), at_start: true }
}

pub(crate) fn unfit(what: impl Into<String>) -> Error {
    Error::Unfit(what.into())
}

pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let what = what.into();
    |source| Error::System { what, source }
}
