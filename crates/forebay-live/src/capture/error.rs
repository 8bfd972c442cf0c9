//! Errors of capturing.

use std::io;
use std::path::{Path, PathBuf};

/// An error of a capture. Its message says what failed, on which file, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The request is invalid; the user must correct it.
    #[error("{0}")]
    Usage(String),
    /// The system does not permit capturing.
    #[error("{0}")]
    Refused(String),
    /// An operation failed during the capture.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

pub(super) const NEEDS_ROOT: &str = "needs root (CAP_SYS_ADMIN): run the command with sudo";

impl CaptureError {
    /// Returns whether the request was invalid, rather than refused by the system.
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

    /// Creates the error for a file system that is not mounted. `mount` is the command that mounts
    /// it. If the user is not root, the error asks for root instead, because mounting requires it.
    pub(crate) fn not_mounted(what: &str, mount: &str) -> CaptureError {
        CaptureError::Refused(match rustix::process::geteuid().is_root() {
            true => format!("no {what} is mounted: {mount}"),
            false => format!("{NEEDS_ROOT} (no {what} is mounted, or it is not visible)"),
        })
    }

    /// Creates the error for a file that the tracer needs and that the system does not permit it to
    /// use.
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
                "another tracer is active: stop it (`fuser -v` on the folder's trace_pipe shows it)"
            }
            io::ErrorKind::ReadOnlyFilesystem => {
                "mounted read-only: remount it with `-o remount,rw`"
            }
            _ => "the kernel refuses it",
        };
        CaptureError::Refused(format!("cannot {doing} {}: {error}; {hint}", path.display()))
    }
}
