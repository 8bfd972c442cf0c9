//! What can go wrong before anything is served.

use std::io;

use forebay_ask::{Spelling, spelled};
use forebay_trace::TraceError;

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for cannot be: the user's to mend.
    #[error("{0}")]
    Unfit(String),
    /// The disks cannot take what has to be written.
    #[error("{0}")]
    Disks(String),
    /// A target that cannot be used.
    #[error(transparent)]
    Target(#[from] forebay_live::TargetError),
    /// A wrong policy.
    #[error(transparent)]
    Policy(#[from] forebay_core::SpecError),
    /// A wrong volume.
    #[error(transparent)]
    Volume(#[from] forebay_volume::Error),
    /// A trace beside a disk cannot be read or written.
    #[error("'{back}': {key}: {error}")]
    Beside {
        /// Whose it is.
        back: String,
        /// What names it.
        key: &'static str,
        /// What is wrong with it.
        error: Box<TraceError>,
        /// Whether nothing is served yet.
        at_start: bool,
    },
    /// A back ended with an error.
    #[error("'{name}': {error}")]
    Back {
        /// Which.
        name: String,
        /// Its error.
        error: Box<Error>,
    },
    /// The system refuses something.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// Why not.
        source: io::Error,
    },
}

impl Error {
    /// The same as what a back ended with, where it does not name it already.
    pub(crate) fn of(self, name: &str) -> Error {
        match self {
            Error::Beside { .. } | Error::Back { .. } => self,
            other => Error::Back { name: name.into(), error: Box::new(other) },
        }
    }

    /// Whether the user can mend it by asking otherwise.
    pub fn is_users(&self) -> bool {
        match self {
            Error::System { .. } | Error::Disks(_) => false,
            Error::Volume(error) => error.is_input(),
            Error::Beside { at_start: true, .. } => true,
            // It could be written when serving began.
            Error::Beside { error, .. } => !matches!(**error, TraceError::Io { .. }),
            Error::Back { error, .. } => error.is_users(),
            _ => true,
        }
    }
}

/// Of a file that the key `key` of `back` names: advice is in the words of a configuration.
pub(crate) fn beside(back: &str, key: &'static str, error: TraceError) -> Error {
    let advice = match key {
        "rearrange" => "`forebay convert` makes a Parquet trace of it, which is taken as it is",
        _ => "let its name end in .parquet or .csv",
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
