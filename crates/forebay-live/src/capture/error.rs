//! Errors of capturing.

use std::io;
use std::path::{Path, PathBuf};

/// One message each: what, which file, what helps.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The request is invalid; the user must correct it.
    #[error("{0}")]
    Usage(String),
    /// The system does not let us capture.
    #[error("{0}")]
    Refused(String),
    /// Something fails on the way.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

impl CaptureError {
    /// Returns whether the user's wish is at fault, not the system.
    pub fn is_usage(&self) -> bool {
        matches!(self, CaptureError::Usage(_))
    }

    /// Returns the kind of the system error, if the system refused something.
    pub fn system(&self) -> Option<io::ErrorKind> {
        match self {
            CaptureError::Usage(_) => None,
            CaptureError::Refused(_) => Some(io::ErrorKind::PermissionDenied),
            CaptureError::Io { source, .. } => Some(source.kind()),
        }
    }

    /// A file that the tracer needs and the system does not let us use.
    pub(crate) fn denied(path: &Path, doing: &str, error: &io::Error) -> CaptureError {
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied => {
                "needs root (CAP_SYS_ADMIN): run the command with sudo; if you are root, this is a \
                 container without the capability or a locked-down kernel"
            }
            io::ErrorKind::NotFound => {
                "the kernel is built without it: CONFIG_BLK_DEV_IO_TRACE=y is needed"
            }
            io::ErrorKind::ResourceBusy => {
                "another tracer is at work: end it (`fuser -v` on the folder's trace_pipe shows it)"
            }
            io::ErrorKind::ReadOnlyFilesystem => {
                "mounted read-only: remount it with `-o remount,rw`"
            }
            _ => "the kernel refuses it",
        };
        CaptureError::Refused(format!("cannot {doing} {}: {error}; {hint}", path.display()))
    }
}
