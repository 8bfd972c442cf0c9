//! Reads text logs: lines of several kinds, some of which are requests.
//!
//! Each format parses its lines ([`Log`]). This module handles blank lines, positions in messages,
//! and counting.

use crate::bad_rows::BadRows;
use crate::columns::meaning;
use crate::formats::Input;
use crate::interrupted::PythonMessages;
use crate::lines::{CUT_HINT, Lines, UNREADABLE};
use crate::order::Ordered;
use crate::rows::{LongRequests, RowError, names_again_sentence, refuse_backwards};
use crate::trace::{BATCH, Dictionary, HeaderAgain, Notes, Reader, Record, SourceFacts};
use crate::{Place, TraceError};
use forebay_ask::named;

/// The number of lines by which formats are recognized.
pub(super) const FIRST_LINES: usize = 20;

/// What a line contains.
pub(super) enum Line {
    /// A request.
    Request(Record),
    /// A request of this many bytes, which is too long for the record.
    Long(Record, u64),
    /// A request that cannot be represented and is skipped.
    Skipped,
    /// A header line, which may be repeated.
    Header,
    /// Any other line that is part of the format.
    Other,
}

/// A text format in which a line contains at most one request.
pub(super) trait Log: Send {
    /// The name of the format.
    const NAME: &'static str;
    /// The layout of lines, for messages.
    const LINES: &'static str;

    /// Parses a line, which is not blank.
    fn line(&mut self, line: &[u8], dictionary: &mut Dictionary) -> Result<Line, RowError>;

    /// Returns whether a last line without a line end may be complete.
    fn takes_cut(&self, _line: &[u8]) -> bool {
        true
    }

    /// Returns whether the request in a last line without a line end is complete.
    fn is_whole(&self, _last: &Record) -> bool {
        true
    }

    /// Returns whether lines end with the latency, which cannot be known if the last line has no
    /// line end.
    fn ends_with_latency(&self) -> bool {
        false
    }

    /// Returns the number of latencies so far that are negative.
    fn negative_latencies(&self) -> u64 {
        0
    }

    /// Returns requests that are still open after the last line.
    fn rest(&mut self) -> Vec<Line> {
        Vec::new()
    }

    /// Returns notes for the user at the end of the log.
    fn end(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Returns whether the log has no times. Called at its end.
    fn is_timeless(&self) -> bool {
        false
    }
}

/// A [`Reader`] of a [`Log`], which returns requests in the order of the file.
pub(super) struct LogReader<L> {
    lines: Lines,
    log: L,
    dictionary: Dictionary,
    notes: Notes,
    requests: u64,
    /// The number of readable lines, without headers.
    read: u64,
    /// The number of records so far, and the headers.
    records: u64,
    headers: Vec<HeaderAgain>,
    bad: BadRows,
    long_requests: LongRequests,
    python: PythonMessages,
    ended: bool,
}

impl<L: Log> LogReader<L> {
    /// Creates a reader of `input`. Volumes and streams are those in `dictionary`, and those that
    /// `log` adds.
    pub(super) fn new(input: Input, log: L, dictionary: Dictionary) -> LogReader<L> {
        LogReader {
            lines: Lines::new(&input.path, input.content),
            log,
            dictionary,
            notes: Notes {
                format: L::NAME,
                columns: meaning::of_format(L::NAME),
                ..Notes::default()
            },
            requests: 0,
            read: 0,
            records: 0,
            headers: Vec::new(),
            bad: BadRows::new(input.bad_rows_max),
            long_requests: LongRequests::default(),
            python: PythonMessages::default(),
            ended: false,
        }
    }

    /// Processes a readable line.
    fn take(&mut self, line: Line, batch: &mut Vec<Record>) {
        match line {
            Line::Request(record) if self.lines.cut() && !self.log.is_whole(&record) => {
                let (line, why) =
                    (self.lines.number(), "its last number differs greatly from those before");
                self.notes.warnings.extend(self.lines.left_out_note(line, why));
            }
            Line::Request(mut record) => {
                if self.lines.cut() && self.log.ends_with_latency() && record.latency.is_some() {
                    record.latency = None;
                    self.notes.warnings.extend(self.lines.cut_latency_note());
                }
                self.requests += 1;
                batch.push(record);
            }
            Line::Long(record, len) => {
                self.requests += 1;
                self.long_requests.split(record, len, batch);
                self.notes.rows_added = self.long_requests.added();
            }
            Line::Skipped => self.notes.rows_skipped += 1,
            Line::Header => self.headers.push(HeaderAgain {
                records: self.records + batch.len() as u64,
                volumes: self.dictionary.volumes.len() as u32,
            }),
            Line::Other => {}
        }
    }

    /// Ends the log, unless it has ended already. Adds the requests that are still open.
    fn finish(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        if std::mem::replace(&mut self.ended, true) {
            return Ok(());
        }
        for line in self.log.rest() {
            self.take(line, batch);
        }
        let read = if self.requests + self.notes.rows_skipped > 0 { self.read } else { 0 };
        let told = self.bad.finish(read)?;
        self.notes.warnings.extend(told);
        self.notes.warnings.extend(self.long_requests.sentences());
        self.notes.warnings.extend(self.python.sentence());
        self.notes.warnings.extend(self.log.end());
        self.notes.warnings.extend(names_again_sentence(self.headers.len().saturating_sub(1)));
        self.notes.warnings.extend(self.lines.cut_note());
        self.notes.is_timeless = self.log.is_timeless();
        if self.requests == 0 {
            self.notes.warnings.push("the log holds no requests".into());
        }
        Ok(())
    }

    /// Skips the last line, which cannot be read.
    #[cold]
    fn leave_out(&mut self, wrong: RowError) -> Result<(), TraceError> {
        let number = self.lines.number();
        self.notes.rows_bad += 1;
        if self.lines.cut() && !self.bad.is_strict() && self.requests > 0 {
            self.notes.warnings.extend(self.lines.left_out_note(number, UNREADABLE));
            return Ok(());
        }
        let cut = if self.lines.cut() { CUT_HINT } else { "" };
        let lines = &self.lines;
        self.bad.add(self.read, || {
            let hint = format!(
                "{cut}lines of format {} are {}; if this is a different format, specify it with {}",
                L::NAME,
                L::LINES,
                named("from")
            );
            wrong.at(lines.path(), Place::Line(number), &hint)
        })
    }
}

/// Opens a reader of a log that returns requests in order of time.
pub(super) fn ordered<L: Log + 'static>(
    input: Input,
    log: L,
    dictionary: Dictionary,
) -> Box<dyn Reader> {
    let splits = input.split_runs;
    Box::new(Ordered::new(LogReader::new(input, log, dictionary)).splitting_runs(splits))
}

impl<L: Log> Reader for LogReader<L> {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        while batch.len() < BATCH {
            let number = self.lines.number() + 1;
            let Some((line, is_cut)) = self.lines.next_or_cut()? else {
                self.finish(batch)?;
                break;
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            if is_cut && !self.log.takes_cut(line) {
                let line = self.lines.number();
                self.notes.warnings.extend(self.lines.truncated_note(line));
                continue;
            }
            let parsed = match self.log.line(line, &mut self.dictionary) {
                Err(_) if self.python.has(line, number) => continue,
                parsed => parsed,
            };
            self.read += u64::from(!matches!(parsed, Ok(Line::Header) | Err(_)));
            match parsed {
                Ok(line) => self.take(line, batch),
                Err(wrong) => self.leave_out(wrong)?,
            }
        }
        self.records += batch.len() as u64;
        let (negative, lines) = (self.log.negative_latencies(), &self.lines);
        let hint = "is the machine's clock set correctly? record the trace again";
        refuse_backwards(negative, self.requests, lines.path(), lines.number(), hint)
    }

    fn facts(&self) -> SourceFacts {
        let headers_again = self.headers.get(1..).unwrap_or_default().to_vec();
        SourceFacts { headers_again, ..SourceFacts::default() }
    }

    fn found(&self) -> (&Dictionary, &Notes) {
        (&self.dictionary, &self.notes)
    }
}

/// Returns the first nonblank lines of `head`, by which formats are recognized. Some of these lines
/// may be messages of the recording tools.
pub(crate) fn first_lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    lines.filter(|line| !line.is_empty()).take(FIRST_LINES)
}

/// Splits a line into words.
pub(super) fn words(line: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}
