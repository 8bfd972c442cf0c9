//! Text formats of one request a line, its fields parted by commas.
//!
//! A format says how one line is understood ([`Row`]); blank lines, a header line, positions in
//! messages and the limits every request must keep are the same for all.

use std::io::BufRead;
use std::path::Path;

use forebay_core::{Flags, Nanos, Op};

use crate::error::{Place, TraceError};
use crate::lines::Lines;
use crate::trace::{BATCH, Dictionary, Notes, Reader, Record};

/// Longest request believed.
pub(crate) const LEN_BYTES_MAX: u64 = 1 << 30;

/// First byte no request may reach.
pub(crate) const END_BYTES_MAX: u64 = 1 << 63;

/// What is wrong with a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) column: &'static str,
    pub(crate) got: String,
    pub(crate) expected: &'static str,
}

impl Wrong {
    #[cold]
    pub(crate) fn new(column: &'static str, got: &[u8], expected: &'static str) -> Wrong {
        Wrong { column, got: shorten(got), expected }
    }

    /// As the error of a file.
    pub(crate) fn at(self, path: &Path, place: Place, hint: &str) -> TraceError {
        TraceError::Malformed {
            path: path.to_path_buf(),
            place,
            got: format!("{} in column {}", self.got, self.column),
            expected: self.expected.into(),
            hint: hint.into(),
        }
    }
}

/// Foreign bytes, fit to be shown.
pub(crate) fn shorten(bytes: &[u8]) -> String {
    const SHOWN: usize = 60;
    let shown = bytes.get(..SHOWN).unwrap_or(bytes);
    let dots = if bytes.len() > SHOWN { "…" } else { "" };
    if bytes.is_empty() { "nothing".into() } else { format!("\"{}{dots}\"", shown.escape_ascii()) }
}

/// One line's way through a format.
pub(crate) trait Row: Send {
    /// The format's name.
    const NAME: &'static str;
    /// The columns, for messages.
    const COLUMNS: &'static str;

    /// The request of a line; a length of zero says that there is none to keep.
    fn row(&mut self, line: &[u8], dictionary: &mut Dictionary) -> Result<Record, Wrong>;

    /// Whether a first line names the columns.
    fn is_header(line: &[u8]) -> bool;
}

/// A record that moves data on one unnamed stream, checked against the limits.
#[inline]
pub(crate) fn record(at: u64, op: Op, offset: u64, len: u64) -> Result<Record, Wrong> {
    if len > LEN_BYTES_MAX {
        return Err(Wrong::new("Size", len.to_string().as_bytes(), "at most 1 GiB a request"));
    }
    if offset >= END_BYTES_MAX - len {
        let got = offset.to_string();
        return Err(Wrong::new("Offset", got.as_bytes(), "a request that ends below 2^63 bytes"));
    }
    Ok(Record {
        at: Nanos(at),
        offset,
        latency: None,
        len: len as u32,
        stream: 0,
        volume: 0,
        op,
        flags: Flags::NONE,
    })
}

/// Whether `head` looks like lines of format `R`: one of its first lines is understood. A damaged
/// first line shall be reported by the format, so it does not decide.
pub(crate) fn sniff<R: Row + Default>(head: &[u8]) -> bool {
    let (mut row, mut dictionary) = (R::default(), Dictionary::default());
    head.split(|&b| b == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| !line.is_empty())
        .take(4)
        .any(|line| row.row(line, &mut dictionary).is_ok())
}

/// A [`Reader`] of a [`Row`] format, in the order of the file.
pub(crate) struct Rows<R> {
    lines: Lines,
    row: R,
    dictionary: Dictionary,
    notes: Notes,
}

impl<R: Row + Default> Rows<R> {
    pub(crate) fn new(path: &Path, content: Box<dyn BufRead + Send>) -> Rows<R> {
        Rows {
            lines: Lines::new(path, content),
            row: R::default(),
            dictionary: Dictionary { streams: vec![Default::default()], volumes: Vec::new() },
            notes: Notes { format: R::NAME, ..Notes::default() },
        }
    }

    #[cold]
    fn malformed(&self, wrong: Wrong) -> TraceError {
        let hint = format!(
            "format {} has the columns {}; if this is another format, name it with --from",
            R::NAME,
            R::COLUMNS
        );
        wrong.at(self.lines.path(), Place::Line(self.lines.number()), &hint)
    }
}

impl<R: Row + Default> Reader for Rows<R> {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        let mut first = self.lines.number() == 0;
        while batch.len() < BATCH {
            let Some(line) = self.lines.next()? else { break };
            if line.trim_ascii().is_empty() {
                continue;
            }
            let header = std::mem::take(&mut first) && R::is_header(line);
            match self.row.row(line, &mut self.dictionary) {
                Ok(record) if record.len == 0 => self.notes.rows_skipped += 1,
                Ok(record) => batch.push(record),
                Err(_) if header => {}
                Err(wrong) => return Err(self.malformed(wrong)),
            }
        }
        Ok(())
    }

    fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    fn notes(&self) -> &Notes {
        &self.notes
    }
}
