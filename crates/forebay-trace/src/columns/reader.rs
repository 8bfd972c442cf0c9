//! Reads text with declared columns, in the order of the file.

use std::io::BufRead;
use std::path::Path;

use forebay_core::Nanos;

use crate::bad_rows::{BadRows, BadRowsMax};
use crate::columns::beyond::ExtraFields;
use crate::columns::cursor::{Cursor, Separator};
use crate::columns::cut;
use crate::columns::meaning;
use crate::columns::name_words;
use crate::columns::notation::Mark;
use crate::columns::plain::Plain;
use crate::columns::plan::{FieldError, PartialRows, Plan};
use crate::columns::spec::{Columns, Role};
use crate::columns::split::{Bounds, NO_BOUNDS};
use crate::interrupted::PythonMessages;
use crate::lines::{BYTE_ORDER_MARK, CUT_HINT, Lines, UNREADABLE};
use crate::rows::{
    LongRequests, names_again_sentence, refuse_backwards, shorten, wrapped_sentence,
};
use crate::trace::{BATCH, Dictionary, HeaderAgain, Notes, Reader, Record, SourceFacts};
use crate::{Place, TraceError};
use forebay_words::plural::{counted, verb};

/// The lines that may precede the first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// A line that begins with the name of the preset's first column.
    Preset,
    /// The line of names from which the declaration was derived.
    Named,
    /// Any line that has no number in a column of numbers.
    Guessed,
}

/// The number of lines that are examined to find the separator. The first line may be incomplete,
/// because of a line break within quotes.
const SEPARATED_LINES: usize = 20;
/// The maximum number of comments whose places are stored.
const COMMENTS_MAX: usize = 1000;
/// The maximum number of lines in a row with line breaks within quotes.
const JOINED_LINES: u64 = 16;

/// A [`Reader`] for text with declared columns. Blank lines are ignored; rows without a request are
/// counted.
pub(crate) struct ColumnReader {
    lines: Lines,
    plan: Plan,
    columns: Columns,
    /// The fast parser for plain rows, once the separator is known.
    plain: Option<Plain>,
    bounds: Bounds,
    separator: Option<Separator>,
    skip_lines: u64,
    header: Header,
    every_ns: u64,
    kept: u64,
    begun: bool,
    ended: bool,
    /// The header line, if there is one. Repetitions of this line are skipped.
    names: Vec<u8>,
    headers_again: Vec<HeaderAgain>,
    /// The number of comments among `headers_again`.
    comments: usize,
    beyond: ExtraFields,
    hint: String,
    bad: BadRows,
    long_requests: LongRequests,
    python: PythonMessages,
    /// The number of requests read so far.
    read: u64,
    dictionary: Dictionary,
    notes: Notes,
}

impl ColumnReader {
    /// Creates a reader of `content`. Notes name the format `format`; `hint` says what to do about
    /// an invalid row.
    pub(crate) fn new(
        path: &Path,
        content: Box<dyn BufRead + Send>,
        columns: &Columns,
        header: Header,
        format: &'static str,
        hint: String,
    ) -> ColumnReader {
        let plan = Plan::new(columns);
        ColumnReader {
            lines: Lines::new(path, content),
            dictionary: plan.dictionary(),
            plan,
            columns: columns.clone(),
            plain: None,
            bounds: NO_BOUNDS,
            separator: columns.separator,
            skip_lines: columns.skip_lines,
            header,
            every_ns: columns.every_ns.unwrap_or(0),
            kept: 0,
            begun: false,
            ended: false,
            names: Vec::new(),
            headers_again: Vec::new(),
            comments: 0,
            beyond: ExtraFields::default(),
            hint,
            bad: BadRows::new(BadRowsMax::NONE),
            long_requests: LongRequests::default(),
            python: PythonMessages::default(),
            read: 0,
            notes: Notes {
                format,
                columns: meaning::of(columns, header, format),
                ..Notes::default()
            },
        }
    }

    /// Skips everything before the first request, and detects the separator.
    fn begin(&mut self) -> Result<Separator, TraceError> {
        for _ in 0..self.skip_lines {
            let line = self.lines.next()?.unwrap_or_default();
            self.names = line.trim_ascii().to_vec();
        }
        loop {
            let (text, whole) = self.lines.block()?;
            let end = text.iter().take(whole).position(|&byte| byte == b'\n').unwrap_or(whole);
            let line = text.get(..end).unwrap_or_default();
            if whole > 0 && line.trim_ascii().is_empty() {
                self.lines.pass(end + 1, 1);
                continue;
            }
            let rows = text.get(..whole).unwrap_or_default();
            let separator =
                *self.separator.get_or_insert_with(|| separator_of(rows, self.columns.roles.len()));
            let mut cursor = Cursor::new(text, separator);
            let mut unused = self.plan.dictionary();
            let named = self.plan.is_titled(&cursor);
            let guessed = self.header == Header::Guessed && self.plan.has_no_number(&cursor);
            if whole > 0 && (named || guessed) && self.plan.row(&mut cursor, &mut unused).is_err() {
                self.names = line.trim_ascii().to_vec();
                if !named {
                    let line = shorten(line.trim_ascii());
                    self.notes
                        .warnings
                        .push(format!("{line} is assumed to be the names of columns"));
                }
                self.lines.pass(end + 1, 1);
            }
            self.plan.odd = PartialRows::default();
            return Ok(separator);
        }
    }

    /// Adds a note if the first rows have more columns than the preset defines.
    fn note_columns_behind(&mut self, separator: Separator) -> Result<(), TraceError> {
        let known = self.columns.roles.len().max(self.columns.titles.len());
        if self.header != Header::Preset {
            return Ok(());
        }
        let (text, whole) = self.lines.block()?;
        let rows = text.get(..whole).unwrap_or_default().split_inclusive(|&byte| byte == b'\n');
        let mut plan = Plan::new(&self.columns);
        let mut unused = plan.dictionary();
        // A name that consists of several words adds fields only to its own row.
        let mut reads =
            |row: &[u8]| plan.row(&mut Cursor::new(row, separator), &mut unused).is_ok();
        let rows = rows.take(SEPARATED_LINES).filter(|row| reads(row));
        let fields = rows.map(|row| Cursor::new(row, separator).fields()).min();
        let more = fields.unwrap_or(0).saturating_sub(known) as u64;
        if more > 0 {
            self.notes.warnings.push(format!(
                "the rows have {} after those of format {}, which {} ignored",
                counted(more, "column"),
                self.notes.format,
                verb(more, "is", "are")
            ));
        }
        Ok(())
    }

    /// Removes the last row if it has no line end and its last number was truncated. If that number
    /// is the latency, the latency becomes unknown instead.
    fn judge_cut(&mut self, batch: &mut Vec<Record>) {
        let Some((last, before)) = batch.split_last_mut() else { return };
        // A latency of this size would stand out if it were wrong.
        if matches!(self.columns.roles.last(), Some(Role::Latency(_))) && last.latency.is_some() {
            last.latency = None;
            self.notes.warnings.extend(self.lines.cut_latency_note());
            return;
        }
        let fits = self.columns.roles.last().is_none_or(|role| cut::fits(role, last, before));
        if fits {
            self.notes.warnings.extend(self.lines.cut_note());
            return;
        }
        batch.pop();
        let last = self.columns.roles.len().saturating_sub(1);
        let title = self.columns.titles.get(last).map_or("", String::as_str);
        self.notes.warnings.push(format!(
            "the last line, {}, has no newline, and its {title} does not fit the earlier rows: \
             the file is truncated, and the line is left out",
            self.lines.number()
        ));
    }

    /// Returns an error if most requests complete before they arrive.
    fn refuse_backwards(&self) -> Result<(), TraceError> {
        let (wrapped, rows) = (self.plan.odd.wrapped, self.lines.number());
        let hint =
            format!("is a different column the latency or the completion time? {}", self.hint);
        refuse_backwards(wrapped, rows, self.lines.path(), rows, &hint)
    }

    /// Adds the notes that are known only at the end.
    fn finish(&mut self) -> Result<(), TraceError> {
        if std::mem::replace(&mut self.ended, true) {
            return Ok(());
        }
        self.notes.warnings.extend(self.beyond.sentence());
        let PartialRows { wrapped } = self.plan.odd;
        self.notes.warnings.extend(names_again_sentence(self.headers_again.len() - self.comments));
        self.notes.warnings.extend(wrapped_sentence(wrapped));
        self.notes.warnings.extend(self.long_requests.sentences());
        self.notes.warnings.extend(self.python.sentence());
        self.notes.warnings.extend(self.plan.day.sentence());
        let told = self.bad.finish(self.read + self.notes.rows_skipped)?;
        self.notes.warnings.extend(told);
        Ok(())
    }

    /// Reads the next row if one of its quoted fields contains line breaks, which become spaces.
    /// Returns whether that succeeded.
    #[cold]
    fn join(&mut self, batch: &mut Vec<Record>) -> Result<bool, TraceError> {
        let separator = self.separator.unwrap_or(Separator::Blanks);
        self.lines.look_ahead()?;
        let (text, whole) = self.lines.block()?;
        let (mut row, mut bytes) = (Vec::new(), 0);
        for lines in 1..=JOINED_LINES {
            if bytes >= whole {
                break;
            }
            let line = line_at(text, bytes);
            bytes += line.len() + 1;
            row.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
            let joined = [&row[..], b"\n"].concat();
            row.push(b' ');
            let read = self.plan.row(&mut Cursor::new(&joined, separator), &mut self.dictionary);
            let Ok(record) = read else { continue };
            self.add(record, batch);
            self.lines.pass(bytes, lines);
            return Ok(true);
        }
        Ok(false)
    }

    /// Reads the next row if it has too many words because its name consists of several. Returns
    /// whether that succeeded.
    #[cold]
    fn join_name(&mut self, batch: &mut Vec<Record>) -> Result<bool, TraceError> {
        let separator = self.separator.unwrap_or(Separator::Blanks);
        let (text, _) = self.lines.block()?;
        let line = line_at(text, 0);
        let bytes = line.len() + 1;
        for row in name_words::quoted(line, &self.columns, separator) {
            let read = self.plan.row(&mut Cursor::new(&row, separator), &mut self.dictionary);
            let Ok(record) = read else { continue };
            self.add(record, batch);
            self.lines.pass(bytes, 1);
            return Ok(true);
        }
        Ok(false)
    }

    /// Adds the content of a row that was read individually.
    fn add(&mut self, record: Option<Record>, batch: &mut Vec<Record>) {
        match (record, self.plan.long_len.take()) {
            (Some(record), None) => batch.push(record),
            (Some(record), Some(len)) => self.long_requests.split(record, len, batch),
            (None, _) => self.notes.rows_skipped += 1,
        }
        self.read += u64::from(record.is_some());
    }

    /// Skips the next row, which cannot be read. If it is another header, this is an error, because
    /// its columns may differ.
    #[cold]
    fn leave_out(&mut self, bad: FieldError) -> Result<(), TraceError> {
        let separator = self.separator.unwrap_or(Separator::Blanks);
        let (number, path) = (self.lines.number() + 1, self.lines.path().to_path_buf());
        let (text, whole) = self.lines.block()?;
        let line = line_at(text, 0);
        let next = line.len() + 1;
        // The byte-order mark may be in the middle of a file that was joined from several.
        let text = [line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line), b"\n"].concat();
        let line = text.trim_ascii();
        self.lines.pass(next, 1);
        if line.starts_with(b"#") {
            self.note_comment();
            return Ok(());
        }
        if line.starts_with(b"@") {
            // These lines are maps, which bpftrace prints at the end.
            self.notes.rows_skipped += 1;
            return Ok(());
        }
        if self.python.has(text.trim_ascii_end(), number) {
            return Ok(());
        }
        if self.names == line {
            let volumes = self.dictionary.volumes.len() as u32;
            self.headers_again.push(HeaderAgain { records: self.read, volumes });
            return Ok(());
        }
        self.notes.rows_bad += 1;
        let is_cut = self.lines.cut() && next >= whole;
        if is_cut && !self.bad.is_strict() && self.read > 0 {
            self.notes.warnings.extend(self.lines.left_out_note(number, UNREADABLE));
            return Ok(());
        }
        let (plan, hint) = (&self.plan, &self.hint);
        let cursor = Cursor::new(&text, separator);
        let again = plan.is_header(&cursor);
        let error = || {
            let wrong = plan.explain(bad, &cursor);
            let again = if again { named_again(number - 1) } else { String::new() };
            let cut = if is_cut { CUT_HINT } else { "" };
            wrong.at(&path, Place::Line(number), &format!("{again}{cut}{hint}"))
        };
        let read = self.read + self.notes.rows_skipped;
        if again && self.read > 0 { Err(error()) } else { self.bad.add(read, error) }
    }

    /// Stores where a comment is, because a new run may begin there.
    fn note_comment(&mut self) {
        let comment = HeaderAgain { records: self.read, volumes: 0 };
        let is_new = self.headers_again.last().is_none_or(|last| last.records < self.read);
        if is_new && self.read > 0 && self.comments < COMMENTS_MAX {
            self.comments += 1;
            self.headers_again.push(comment);
        }
    }

    /// Sets the maximum share of unreadable rows.
    pub(crate) fn bad_rows(mut self, share_max: BadRowsMax) -> ColumnReader {
        self.bad = BadRows::new(share_max);
        self
    }

    /// Declares that the format has no times, so that the times of requests are invented.
    pub(crate) fn timeless(mut self) -> ColumnReader {
        self.notes.is_timeless = true;
        self
    }

    /// Sets the assumed block size of a format whose unit is blocks of unknown size.
    pub(crate) fn in_blocks(mut self, bytes: u32) -> ColumnReader {
        self.notes.own_block_bytes = Some(bytes);
        self
    }

    /// Adds a note about information that the format lacks, and about its replacement.
    pub(crate) fn warn(mut self, warning: impl Into<String>) -> ColumnReader {
        self.notes.warnings.push(warning.into());
        self
    }
}

/// Returns the line that begins at `from`.
fn line_at(text: &[u8], from: usize) -> &[u8] {
    let rest = text.get(from..).unwrap_or_default();
    let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
    rest.get(..end).unwrap_or_default()
}

/// Returns a hint about a line of column names that follows `lines` lines.
fn named_again(lines: u64) -> String {
    format!(
        "the names of the columns are repeated here, as if a second file began: split it with \
         head -n {lines} and tail -n +{}; ",
        lines + 1
    )
}

/// Returns the first separator that divides one of the first lines into the declared columns.
/// Commas are tried last, because they may also be decimal marks.
fn separator_of(rows: &[u8], columns: usize) -> Separator {
    let divided = |least: usize| {
        let divides = |line: &[u8]| {
            let line = [line, b"\n"].concat();
            let bytes = [b'\t', b';', b'|', b','].map(Separator::Byte);
            bytes.into_iter().find(|one| Cursor::new(&line, *one).fields() >= least)
        };
        rows.split(|&byte| byte == b'\n').take(SEPARATED_LINES).find_map(divides)
    };
    let blanks =
        |line: &[u8]| Cursor::new(&[line, b"\n"].concat(), Separator::Blanks).fields() >= columns;
    let is_blank = || rows.split(|&byte| byte == b'\n').next().is_some_and(blanks);
    match divided(columns.max(2)) {
        Some(separator) => separator,
        None if is_blank() => Separator::Blanks,
        None => divided(2).unwrap_or(Separator::Blanks),
    }
}

impl Reader for ColumnReader {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        let separator = match self.separator {
            Some(separator) if self.begun => separator,
            _ => self.begin()?,
        };
        if !self.begun {
            self.begun = true;
            self.lines.look_ahead()?;
            let (text, whole) = self.lines.block()?;
            let rows = text.get(..whole).unwrap_or_default();
            let derived = || Mark::of_rows(rows, separator, &self.columns.roles);
            if self.columns.mark.is_none() {
                self.columns.mark = derived();
                let comma = self.columns.mark == Some(Mark::Comma);
                let sentence = "numbers are read with decimal commas (decimal=comma)";
                self.notes.warnings.extend(comma.then(|| sentence.into()));
                meaning::add_mark(&mut self.notes.columns, self.columns.mark);
            }
            self.plan.mark = self.columns.mark;
            self.plain = Plain::new(&self.columns, separator);
            self.note_columns_behind(separator)?;
            self.beyond.name(&self.names, self.columns.roles.len(), separator);
        }
        batch.reserve(BATCH);
        while batch.len() < BATCH {
            let passed_lines = self.lines.number();
            let (text, whole) = self.lines.block()?;
            if whole == 0 {
                self.finish()?;
                break;
            }
            let mut cursor = Cursor::new(text, separator);
            let (mut lines, before, mut failed) = (0, batch.len(), None);
            while cursor.position() < whole && batch.len() < BATCH {
                let plain = self.plain.as_ref().and_then(|plain| {
                    plain.row(text, cursor.position(), &mut self.bounds, self.plan.names())
                });
                if let Some((record, next)) = plain {
                    batch.push(record);
                    cursor.go(next);
                    lines += 1;
                    continue;
                }
                if cursor.skip_blank_line() {
                    lines += 1;
                    continue;
                }
                let begun = cursor;
                match self.plan.row(&mut cursor, &mut self.dictionary) {
                    Ok(Some(record)) => match self.plan.long_len.take() {
                        None => batch.push(record),
                        Some(len) => self.long_requests.split(record, len, batch),
                    },
                    Ok(None) => self.notes.rows_skipped += 1,
                    Err(bad) => {
                        failed = Some(bad.of_row(begun.position()));
                        cursor.go(begun.position());
                        break;
                    }
                }
                lines += 1;
            }
            let passed = cursor.position();
            let rows = text.get(..passed).unwrap_or_default();
            self.beyond.look(rows, (passed_lines, lines), separator);
            self.lines.pass(passed, lines);
            self.refuse_backwards()?;
            self.read += (batch.len() - before) as u64;
            self.notes.rows_added = self.long_requests.added();
            if self.lines.cut() && batch.len() > before {
                self.judge_cut(batch);
            }
            if let Some(bad) = failed
                && !(bad.is_open_quote() && self.join(batch)?)
                && !self.join_name(batch)?
            {
                self.leave_out(bad)?;
            }
        }
        if self.every_ns > 0 {
            for record in batch.iter_mut() {
                record.at = Nanos(self.kept.saturating_mul(self.every_ns));
                self.kept += 1;
            }
        }
        Ok(())
    }

    fn found(&self) -> (&Dictionary, &Notes) {
        (&self.dictionary, &self.notes)
    }

    fn facts(&self) -> SourceFacts {
        SourceFacts { headers_again: self.headers_again.clone(), ..SourceFacts::default() }
    }
}
