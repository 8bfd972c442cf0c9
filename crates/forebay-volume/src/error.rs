//! Errors of volumes.

use std::io;
use std::path::PathBuf;

use forebay_live::TargetError;

/// Why a volume could not be created, found or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A drive cannot be opened.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A drive differs from what the volume expects.
    #[error("{}: {what}", path.display())]
    Drive {
        /// The path of the drive.
        path: PathBuf,
        /// What the drive contains, and what was expected.
        what: String,
    },
    /// Another process uses the drive.
    #[error(
        "{}: is in use by another process; nothing was written (if `forebay serve` serves the volume, \
         use `forebay control volume`, `check`, `replace`, `grow` or `remove`)", .0.display()
    )]
    InUse(PathBuf),
    /// The drives do not form the volume.
    #[error("{0}")]
    Volume(String),
    /// The file systems below have no space for necessary writes.
    #[error("{0}")]
    Full(String),
    /// The user ended the work.
    #[error("stopped")]
    Stopped,
    /// The live driver failed because of an operating-system error.
    #[error("the drives cannot be driven: {0}")]
    Driver(#[from] io::Error),
}

impl Error {
    /// Returns whether the error is due to files or options, so that the user can fix it.
    pub fn is_input(&self) -> bool {
        !matches!(self, Error::Driver(_) | Error::Full(_) | Error::Stopped)
    }

    pub(crate) fn drive(path: &std::path::Path, what: impl Into<String>) -> Error {
        Error::Drive { path: path.to_path_buf(), what: what.into() }
    }
}
