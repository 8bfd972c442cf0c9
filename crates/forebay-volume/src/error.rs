//! What can go wrong with a volume.

use std::io;
use std::path::PathBuf;

use forebay_live::TargetError;

/// Why a volume could not be made, found or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A drive cannot be opened.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A drive is not what it should be.
    #[error("{}: {what}", path.display())]
    Drive {
        /// Which.
        path: PathBuf,
        /// What it is, and what was expected.
        what: String,
    },
    /// The drives do not make the volume.
    #[error("{0}")]
    Volume(String),
    /// The file systems below have no room for what has to be written.
    #[error("{0}")]
    Full(String),
    /// The user ended the work.
    #[error("stopped")]
    Stopped,
    /// The live driver fails; the system is to blame.
    #[error("the drives cannot be driven: {0}")]
    Driver(#[from] io::Error),
}

impl Error {
    /// Whether files or options are at fault, which the user can mend.
    pub fn is_input(&self) -> bool {
        !matches!(self, Error::Driver(_) | Error::Full(_) | Error::Stopped)
    }

    pub(crate) fn drive(path: &std::path::Path, what: impl Into<String>) -> Error {
        Error::Drive { path: path.to_path_buf(), what: what.into() }
    }
}
