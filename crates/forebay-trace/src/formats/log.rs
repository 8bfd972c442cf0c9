//! Text logs: lines of several kinds, some of which are requests.
//!
//! A format classifies its lines ([`Log`]); blank lines, positions in messages and counting are
//! handled here.

use std::io::BufRead;
use std::path::Path;

use crate::error::{Place, TraceError};
use crate::lines::{CUT_HINT, Lines};
use crate::rows::RowError;
use crate::trace::{BATCH, Dictionary, Notes, Reader, Record};
use forebay_ask::named;

/// The kinds of lines.
pub(super) enum Line {
    /// A request.
    Request(Record),
    /// A request that cannot be represented correctly.
    Skipped,
    /// Any other line that the format knows.
    Other,
}

/// A line-based format.
pub(super) trait Log: Send {
    /// The format's name.
    const NAME: &'static str;
    /// The layout of its lines, for messages.
    const LINES: &'static str;

    /// Parses a line that is not blank.
    fn line(&mut self, line: &[u8], dictionary: &mut Dictionary) -> Result<Line, RowError>;

    /// Returns whether the request in the last line, which has no line end, may be read anyway.
    fn is_whole(&self, _last: &Record) -> bool {
        true
    }

    /// Returns the notes for the user at the end of the log.
    fn end(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Returns whether the log, now at its end, has no times.
    fn is_timeless(&self) -> bool {
        false
    }
}

/// A [`Reader`] of a [`Log`], in the order of the file.
pub(super) struct LogReader<L> {
    lines: Lines,
    log: L,
    dictionary: Dictionary,
    notes: Notes,
    requests: u64,
    ended: bool,
}

impl<L: Log> LogReader<L> {
    /// Reads `content`. Volumes and streams are those in `dictionary` or those that `log` adds.
    pub(super) fn new(
        path: &Path,
        content: Box<dyn BufRead + Send>,
        log: L,
        dictionary: Dictionary,
    ) -> LogReader<L> {
        LogReader {
            lines: Lines::new(path, content),
            log,
            dictionary,
            notes: Notes { format: L::NAME, ..Notes::default() },
            requests: 0,
            ended: false,
        }
    }

    fn finish(&mut self) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        self.notes.warnings.extend(self.log.end());
        self.notes.warnings.extend(self.lines.cut_note());
        self.notes.is_timeless = self.log.is_timeless();
        if self.requests == 0 {
            self.notes.warnings.push("the log holds no requests".into());
        }
    }

    #[cold]
    fn malformed(&self, wrong: RowError) -> TraceError {
        let cut = if self.lines.cut() { CUT_HINT } else { "" };
        let hint = format!(
            "{cut}lines of format {} are {}; if this is another format, name it with {}",
            L::NAME,
            L::LINES,
            named("from")
        );
        wrong.at(self.lines.path(), Place::Line(self.lines.number()), &hint)
    }
}

impl<L: Log> Reader for LogReader<L> {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        while batch.len() < BATCH {
            let Some(line) = self.lines.next()? else {
                self.finish();
                break;
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            match self.log.line(line, &mut self.dictionary) {
                Ok(Line::Request(record)) if self.lines.cut() && !self.log.is_whole(&record) => {
                    let line = self.lines.number();
                    self.notes.warnings.extend(self.lines.left_out_note(line));
                }
                Ok(Line::Request(record)) => {
                    self.requests += 1;
                    batch.push(record);
                }
                Ok(Line::Skipped) => self.notes.rows_skipped += 1,
                Ok(Line::Other) => {}
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

/// Returns the first lines of `head` that are not blank.
pub(super) fn first_lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    head.split(|&b| b == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()).take(4)
}

/// Splits a line into words.
pub(super) fn words(line: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}
