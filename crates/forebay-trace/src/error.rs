//! Errors about traces. Each is a single message with the file, the place, the invalid content,
//! what is expected, and what to do.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The place of an error in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line of a text file, counted from 1.
    Line(u64),
    /// A row of a table, counted from 1.
    Row(u64),
    /// A byte of a binary file, counted from 0.
    Byte(u64),
    /// The file as a whole.
    File,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(n) => write!(f, ", line {n}"),
            Place::Row(n) => write!(f, ", row {n}"),
            Place::Byte(n) => write!(f, ", byte {n}"),
            Place::File => Ok(()),
        }
    }
}

/// The reason why a trace cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The content is invalid in the format.
    #[error("{}{place}: got {got}, expected {expected}{}", path.display(), remedy(hint))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The place in the file.
        place: Place,
        /// The invalid content, shortened.
        got: String,
        /// What was expected there.
        expected: String,
        /// A hint about what to do. May be empty.
        hint: String,
    },
    /// The operating system reported an error.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl TraceError {
    /// Returns the place within the file, the problem and the expected content.
    pub(crate) fn parts(&self) -> Option<[String; 3]> {
        let TraceError::Malformed { place, got, expected, .. } = self else { return None };
        let place = place.to_string().trim_start_matches(", ").to_owned();
        Some([place, got.clone(), expected.clone()])
    }

    /// Adds a hint before the existing one.
    pub(crate) fn with_hint(mut self, text: &str) -> TraceError {
        if let TraceError::Malformed { hint, .. } = &mut self {
            *hint = if hint.is_empty() { text.to_owned() } else { format!("{text}; {hint}") };
        }
        self
    }

    /// Creates the error that no temporary copy of `what` can be made.
    pub fn no_temporary_file(error: &io::Error, what: &str) -> TraceError {
        TraceError::Malformed {
            path: std::env::temp_dir(),
            place: Place::File,
            got: error.to_string(),
            expected: format!("a folder for a temporary copy of {what}"),
            hint: "set TMPDIR to another folder".to_owned(),
        }
    }

    /// Creates the error that no row could be read.
    pub(crate) fn no_row() -> TraceError {
        let (place, hint) = (Place::File, String::new());
        let (got, expected) = ("no row that can be read".into(), "at least one".into());
        TraceError::Malformed { path: PathBuf::new(), place, got, expected, hint }
    }
}

fn remedy(hint: &str) -> String {
    if hint.is_empty() { String::new() } else { format!("; {hint}") }
}
