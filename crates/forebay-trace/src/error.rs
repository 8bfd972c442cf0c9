//! What can go wrong with a trace, each in one message: file, place, got, expected, remedy.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Where in a file something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line of a text file, from 1.
    Line(u64),
    /// A row of a table, from 1.
    Row(u64),
    /// A byte of a binary file, from 0.
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

/// Why a trace cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The content is not what the format says.
    #[error("{}{place}: got {got}, expected {expected}{}", path.display(), remedy(hint))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where in it.
        place: Place,
        /// What stands there, shortened.
        got: String,
        /// What should.
        expected: String,
        /// What to do about it; may be empty.
        hint: String,
    },
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Its reason.
        source: io::Error,
    },
}

fn remedy(hint: &str) -> String {
    if hint.is_empty() { String::new() } else { format!("; {hint}") }
}
