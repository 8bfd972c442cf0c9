//! What can go wrong before anything is served.

use std::io;

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for cannot be: the user's to mend.
    #[error("{0}")]
    Unfit(String),
    /// A target that cannot be used.
    #[error(transparent)]
    Target(#[from] forebay_live::TargetError),
    /// A wrong policy.
    #[error(transparent)]
    Policy(#[from] forebay_core::SpecError),
    /// A wrong volume.
    #[error(transparent)]
    Volume(#[from] forebay_volume::Error),
    /// A trace or a tape cannot be written.
    #[error(transparent)]
    Written(#[from] forebay::Error),
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
    /// Whether the user can mend it by asking otherwise.
    pub fn is_users(&self) -> bool {
        match self {
            Error::System { .. } => false,
            Error::Written(error) => error.is_input(),
            Error::Back { error, .. } => error.is_users(),
            _ => true,
        }
    }
}

pub(crate) fn unfit(what: impl Into<String>) -> Error {
    Error::Unfit(what.into())
}

pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let what = what.into();
    |source| Error::System { what, source }
}
