//! Interprets a header line as a declaration of columns: `time_us,op,offset,size` means
//! `at:us,op,offset,len,skip=1`.
//!
//! The names are those in [`Titles`]. The header must name the time and its unit, the operation,
//! the offset and the length. Instead of the time, there may be a completion and a latency; and if
//! the time in the first row is a date or a time of day, it needs no unit. Nothing is guessed: if
//! the names leave anything open (the unit of `timestamp` or `block`), the header is rejected, and
//! a declaration is suggested ([`crate::suggest`]). Otherwise, the text is read exactly according
//! to the declaration, which is shown in a note.
//!
//! Fields are separated by commas, tabs, semicolons or spaces, as in [`Columns`]. Blank lines and
//! comments (`#`) before the header are ignored.

use std::path::Path;

use crate::columns::cursor::Separator;
use crate::columns::date;
use crate::columns::span;
use crate::columns::unit::{CLOCK, DATE, TIME_UNITS, TIMEDELTA};
use crate::fields::decimal_or_power;
use crate::formats::FORMATS;
use crate::formats::clock::time_of_day;
use crate::formats::titles::{
    AT, AT_WITH_UNIT, END, LATENCY, LEN_UNSURE, NAME, OFFSET_UNSURE, OP, PROCESS, THREAD, Titles,
    VOLUME,
};
use crate::lines::BYTE_ORDER_MARK;
use crate::rows::shorten;
use crate::suggest::{Declaration, LENGTH_UNITS, ROWS, Table, dated_unit, fields};
use crate::{Columns, Place, TraceError};
use forebay_ask::named;

/// The maximum number of columns in a header. With more columns, a declaration is clearer.
const COLUMNS_MAX: usize = 128;
/// The maximum number of lines before the header.
const TITLES_MAX: usize = 20;
/// Names of columns that may contain SCSI operation codes.
const COMMAND: [&str; 5] = ["cmd", "command", "command_type", "opcode", "op_code"];
/// The supported date formats, for messages.
const DATES_READ: &str =
    "2026-01-31 12:00:00.000345 (an existing day, year first; day and time in one column)";
/// The separators, and how a declaration specifies them. Commas are the default.
const SEPARATORS: [(Separator, Option<&str>); 5] = [
    (Separator::Byte(b','), None),
    (Separator::Byte(b'\t'), Some("sep=tab")),
    (Separator::Byte(b';'), Some("sep=semicolon")),
    (Separator::Byte(b'|'), Some("sep=bar")),
    (Separator::Blanks, Some("sep=blank")),
];

/// A header that was interpreted.
#[derive(Debug)]
pub(crate) struct Header {
    pub(super) columns: Columns,
    /// The note that states how the header was interpreted.
    pub(super) note: String,
}

/// The beginning of what is expected if a name is repeated.
const ONE_COLUMN: &str = "one column called";

/// A header whose column names are not sufficient to interpret it.
#[derive(Debug)]
pub(crate) struct Unsure {
    line: u64,
    got: String,
    expected: String,
    hint: String,
    /// Whether a repeated name is the only problem.
    is_twice: bool,
}

impl Unsure {
    /// Adds that the rows could also be those of a preset with a different header.
    pub(crate) fn or_preset(mut self, name: &str) -> Unsure {
        // A header whose only problem is a repeated name is known.
        if self.is_twice {
            return self;
        }
        let from = named(&format!("from={name}"));
        self.hint += &format!("; if the format is {name}, specify it with {from}");
        self
    }

    pub(crate) fn at(self, path: &Path) -> TraceError {
        let Unsure { line, got, expected, hint, .. } = self;
        let (path, place) = (path.to_path_buf(), Place::Line(line));
        TraceError::Malformed { path, place, got, expected, hint }
    }
}

/// Returns whether a line is neither blank, nor a comment, nor Excel's `sep=;`.
pub(super) fn is_content(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    let is_excel = line.strip_prefix(b"sep=").is_some_and(|sign| sign.len() <= 1);
    !line.is_empty() && line.first() != Some(&b'#') && !is_excel
}

/// Interprets the first line of a text as a header. Returns `None` if it does not name the columns
/// of requests. Lines without columns may precede a header that leaves nothing open.
pub(crate) fn of(head: &[u8]) -> Option<Result<Header, Unsure>> {
    let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    let lines = (1..).zip(head.split(|&byte| byte == b'\n')).filter(|(_, line)| is_content(line));
    let lines: Vec<(u64, &[u8])> = lines.take(ROWS + TITLES_MAX).collect();
    let is_title = |line: &[u8]| !line.iter().any(|byte| b",\t;|".contains(byte));
    let titles = lines.iter().take(TITLES_MAX).take_while(|(_, line)| is_title(line)).count();
    // The names may also be separated by spaces, as in the output of bpftrace.
    let later =
        || (1..=titles).find_map(|from| of_lines(lines.get(from..)?).filter(|said| said.is_ok()));
    of_lines(&lines).or_else(later)
}

/// Interprets the first of these lines as a header. Each line is given with its number.
fn of_lines(lines: &[(u64, &[u8])]) -> Option<Result<Header, Unsure>> {
    let ((number, line), rows) = lines.split_first()?;
    let rows: Vec<&[u8]> = rows.iter().map(|(_, row)| *row).collect();
    let mut told = None;
    for (separator, word) in SEPARATORS {
        let Some(names) = names(line, separator) else { continue };
        let titles = Titles::new(names.iter().map(String::as_str));
        let said = Names { titles, names, rows: &rows, separator };
        match said.declare(*number, word) {
            Some(Ok(header)) => return Some(Ok(header)),
            unsure => told = told.or(unsure),
        }
    }
    told
}

/// Returns the fields of a line, or `None` if there are too few or too many, or if quotes do not
/// match.
fn names(line: &[u8], separator: Separator) -> Option<Vec<String>> {
    fields(line, separator).filter(|fields| (2..=COLUMNS_MAX).contains(&fields.len()))
}

/// The names of the columns in a header.
struct Names<'a> {
    titles: Titles,
    names: Vec<String>,
    /// The rows after the header.
    rows: &'a [&'a [u8]],
    separator: Separator,
}

/// A column of times, and the name of its unit, if known.
type TimeColumn = (usize, Option<&'static str>);

impl Names<'_> {
    /// Returns the name of a column as shown in messages.
    fn name(&self, column: usize) -> String {
        match self.names.get(column).map(|name| name.trim()).filter(|name| !name.is_empty()) {
            Some(name) => shorten(name.as_bytes()),
            None => format!("column {}, which has no name", column + 1),
        }
    }

    /// Returns the first rows.
    fn table(&self) -> Table {
        let rows = self.rows.iter().take(ROWS).filter_map(|row| fields(row, self.separator));
        Table::new(rows.filter(|row| row.len() >= self.names.len()).collect())
    }

    /// Returns the content of a field in the first row.
    fn first(&self, column: usize) -> Option<String> {
        let mut rows = self.rows.iter().filter_map(|row| fields(row, self.separator));
        rows.find_map(|row| row.get(column).map(|field| field.trim().to_owned()))
    }

    /// Returns a declaration in which no column has a role yet.
    fn declaration(&self) -> Declaration {
        Declaration::new((0..self.names.len()).map(|column| self.name(column)).collect())
    }

    /// Builds the declaration. Returns `None` if no column contains offsets, or if there are only
    /// offsets.
    fn declare(&self, line: u64, separator: Option<&str>) -> Option<Result<Header, Unsure>> {
        let titles = &self.titles;
        let any = |names: &[&str]| titles.any(names, |_| true);
        let at = self.moment(&AT).or_else(|| {
            let (column, unit) = titles.time(&AT_WITH_UNIT, |unit| unit.is_some())?;
            Some((column, Some(unit_name(unit?))))
        });
        let at = at.or_else(|| Some((titles.time(&AT, |_| true)?.0, None)));
        let [offset, len] = titles.extents();
        let offset = offset.or_else(|| Some((any(&OFFSET_UNSURE)?, None)))?;
        let len = len.or_else(|| Some((any(&LEN_UNSURE)?, None)));
        let op = any(&OP);
        let command = any(&COMMAND).and_then(|column| Some((column, self.table().scsi(column)?)));
        if at.is_none() && len.is_none() && op.is_none() {
            return None;
        }
        let mut said = self.declaration();
        self.times(at, &mut said);
        self.bytes("offset", offset, &mut said);
        match len {
            Some(len) => self.bytes("len", len, &mut said),
            None => said.unclear.push("a name for the length (len, size, sectors, ...)".into()),
        }
        match op {
            Some(column) if self.is_open_pair(column) => {
                let name = self.name(column);
                said.put(column, "op:WORDS");
                said.unclear.push(format!("words for reads and writes in {name}, such as R and W"));
                said.advise(format!(
                    "its words for reads and writes, such as 0/1, for the WORDS of {name}"
                ));
            }
            Some(column) => said.put(column, self.op(column)),
            None => {
                said.unclear.push("a name for the operation (op, rw, is_write, ...)".into());
                if let Some((column, word)) = command {
                    said.put(column, word);
                }
            }
        }
        if let Some(column) = any(&VOLUME) {
            said.put(column, "volume");
        }
        self.submitter(&mut said);
        if let Some(column) = any(&["flags"]) {
            said.put(column, "flags");
        }
        self.once(&mut said);
        if said.unclear.is_empty() {
            return Some(Ok(self.header(&said, &said.text(line, separator))?));
        }
        self.times_without_unit(&mut said);
        said.fill(&self.table());
        Some(Err(self.unsure(&said, line, separator)))
    }

    /// Declares arrivals, completions and latencies. Two of the three suffice.
    fn times(&self, at: Option<TimeColumn>, said: &mut Declaration) {
        let latency = self.titles.time(&LATENCY, |unit| unit.is_some());
        let latency = latency.and_then(|(column, unit)| Some((column, unit_name(unit?))));
        let latency = latency.or_else(|| {
            let (column, _) = self.titles.time(&LATENCY, |_| true)?;
            let is_span =
                self.first(column).is_some_and(|field| span::of(field.as_bytes()).is_some());
            is_span.then_some((column, TIMEDELTA.name))
        });
        let end = self.moment(&END);
        if let Some((column, unit)) = latency {
            said.put(column, format!("latency:{unit}"));
        }
        if let Some((column, Some(unit))) = end.filter(|_| at.is_none() || latency.is_none()) {
            said.put(column, format!("end:{unit}"));
        }
        match at {
            Some(at) => self.arrival(at, said),
            None if said.has("end") && said.has("latency") => {}
            None => said.unclear.push("a name for the time (time_us, timestamp_ms, ...)".into()),
        }
    }

    /// Declares completions and latencies whose names do not give their units.
    fn times_without_unit(&self, said: &mut Declaration) {
        for (word, names) in [("latency", &LATENCY[..]), ("end", &END)] {
            let is_enough = said.has("at") && (said.has("latency") || said.has("end"));
            let column = self.titles.time(names, |_| true).map(|(column, _)| column);
            if let Some(column) = column.filter(|_| !is_enough && !said.has(word)) {
                said.put(column, format!("{word}:UNIT"));
                said.advise(format!("ns, us, ms or s for the UNIT of {word}"));
            }
        }
    }

    /// Returns the first column of times with one of `names`, and its unit. The unit comes from the
    /// name, or from the first row if that contains a date.
    fn moment(&self, names: &[&str]) -> Option<TimeColumn> {
        if let Some((column, Some(ns))) = self.titles.time(names, |unit| unit.is_some()) {
            return Some((column, Some(unit_name(ns))));
        }
        let (column, _) = self.titles.time(names, |_| true)?;
        let field = self.first(column)?;
        let field = field.as_bytes();
        let unit = match span::is_certain(field) {
            true => Some(TIMEDELTA),
            false if time_of_day(field).is_some() && !self.has_day() => Some(CLOCK),
            false => date::ns(field).map(|_| DATE),
        };
        unit.map(|unit| (column, Some(unit.name)))
    }

    /// Returns whether any column contains days, which a time of day in another column lacks.
    fn has_day(&self) -> bool {
        let is_day = |field: String| {
            let parts: Vec<&str> = field.split(['-', '/', '.']).collect();
            let is_number = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
            let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
            parts.iter().all(is_number)
                && matches!(lengths[..], [4, 1 | 2, 1 | 2] | [1 | 2, 1 | 2, 2 | 4])
        };
        (0..self.names.len()).filter_map(|column| self.first(column)).any(is_day)
    }

    fn arrival(&self, (column, unit): TimeColumn, said: &mut Declaration) {
        if let Some(unit) = unit {
            return said.put(column, format!("at:{unit}"));
        }
        let number = |field: String| Some(decimal_or_power(field.as_bytes())?.0);
        let dated = self.first(column).and_then(number).and_then(dated_unit);
        said.put(column, format!("at:{}", dated.unwrap_or("UNIT")));
        let name = self.name(column);
        let (wanted, instead) = match (self.calendar(column), dated) {
            (Some(wanted), _) => (wanted, "date for the UNIT of at after converting them"),
            (None, Some(_)) => {
                (unit_wanted(&name), "a different unit for at if that is not a date")
            }
            (None, None) => (unit_wanted(&name), "ns, us, ms, s or date for the UNIT of at"),
        };
        said.unclear.push(wanted);
        said.advise(instead);
    }

    /// Returns a note if the first row contains a date or time of day in an unsupported format.
    fn calendar(&self, column: usize) -> Option<String> {
        let field = self.first(column)?;
        let digits = field.bytes().filter(u8::is_ascii_digit).count();
        let is_one = digits >= 4 && !field.starts_with("0x") && field.parse::<f64>().is_err();
        is_one.then(|| {
            let (name, field) = (self.name(column), shorten(field.as_bytes()));
            format!("dates in {name} as {DATES_READ}, not as {field}")
        })
    }

    fn bytes(&self, word: &str, (column, unit): (usize, Option<u64>), said: &mut Declaration) {
        let unit = match unit {
            Some(1) => "",
            Some(512) => ":sectors",
            Some(_) => ":kib",
            None => {
                said.unclear
                    .push(format!("a name that contains the unit of {}", self.name(column)));
                said.advise(LENGTH_UNITS);
                ":UNIT"
            }
        };
        said.put(column, format!("{word}{unit}"));
    }

    /// Returns whether the values of a column are two words, and neither the words nor the name of
    /// the column show which of them means write.
    fn is_open_pair(&self, column: usize) -> bool {
        !self.titles.is(column, &["is_write", "write", "is_read", "rw"])
            && self.table().is_open_pair(column)
    }

    /// Returns the declaration of a column of operations, which contains words, or truth values for
    /// write or read.
    fn op(&self, column: usize) -> &'static str {
        let is_pair = || self.table().is_open_pair(column);
        // In Linux, everything called rw is 1 for writes.
        if self.titles.is(column, &["is_write", "write"])
            || self.titles.is(column, &["rw"]) && is_pair()
        {
            "op:0+false+f+no+n/1+true+t+yes+y"
        } else if self.titles.is(column, &["is_read"]) {
            "op:1+true+t+yes+y/0+false+f+no+n"
        } else {
            "op"
        }
    }

    /// Declares the columns that identify the submitter. `process` may be a name or an id, because
    /// the same column name is used for both.
    fn submitter(&self, said: &mut Declaration) {
        let any = |names: &[&str]| self.titles.any(names, |_| true);
        if let Some(column) = any(&["stream"]) {
            return said.put(column, "stream");
        }
        let name = any(&NAME);
        if let Some(column) = self.titles.any(&PROCESS, |column| Some(column) != name) {
            said.put(column, "process");
        }
        for (column, word) in [(any(&THREAD), "thread"), (name, "name")] {
            if let Some(column) = column {
                said.put(column, word);
            }
        }
    }

    /// Rejects duplicate names. The suggested declaration includes all of them, so that it is
    /// rejected too.
    fn once(&self, said: &mut Declaration) {
        let twice = said.read().find(|column| self.titles.is_twice(*column));
        let Some(column) = twice else { return };
        let word = said.word(column).to_owned();
        for other in (0..self.names.len()).filter(|other| self.titles.is_same(column, *other)) {
            said.put(other, word.as_str());
        }
        said.unclear.push(format!("{ONE_COLUMN} {}", self.name(column)));
        said.advise("_ for the one to ignore");
    }

    fn header(&self, said: &Declaration, text: &str) -> Option<Header> {
        let mut columns: Columns = text.parse().ok()?;
        columns.titles = self.names.clone();
        columns.reasons = (0..self.names.len()).map(|column| self.reason(said, column)).collect();
        let unread = said.unread().map_or(String::new(), |names| format!("; not read: {names}"));
        let rw =
            said.column("op").filter(|op| self.titles.is(*op, &["rw"]) && said.word(*op) != "op");
        let rw = rw.map_or("", |_| "; 1 and true in rw mean write, as in Linux");
        let note =
            format!("the header names the columns, read as {}{unread}{rw}", spelled_out(text));
        Some(Header { columns, note })
    }

    /// Explains why a column is read as declared.
    fn reason(&self, said: &Declaration, column: usize) -> String {
        let (word, role) = (said.word(column), self.titles.role(column));
        match word.split_once(':').map_or((word, ""), |(word, unit)| (word, unit)) {
            ("_", _) => match role.map(|role| (role, said.column(role))) {
                Some((role, Some(other))) => format!("{} is read as {role}", self.name(other)),
                Some(("latency" | "end", None)) => "its name gives no unit".into(),
                Some(("at", None)) => {
                    "the arrival is computed from the completion and the latency".into()
                }
                Some((role, None)) => format!("its name means {role}, which is not used"),
                None => "the name is unknown".into(),
            },
            (_, "date") => "its name, and a date in the first row".into(),
            (_, "clock") => "its name, and a time of day in the first row".into(),
            (_, "timedelta") => "its name, and a span of time in the first row".into(),
            ("at" | "end" | "latency", unit) => format!("its name, which gives the unit {unit}"),
            ("offset" | "len", "") => "its name; the unit is assumed to be bytes".into(),
            ("offset" | "len", "sectors") => "its name, which means sectors of 512 bytes".into(),
            _ => "its name".into(),
        }
    }

    fn unsure(&self, said: &Declaration, line: u64, separator: Option<&str>) -> Unsure {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let got = format!("a header of {}", shorten(names.join(",").as_bytes()));
        let hint = match self.preset(line, separator) {
            Some((name, columns)) => {
                format!("the names are those of {name}; if so, write {columns}")
            }
            None => {
                let text = spelled_out(&said.text(line, separator));
                format!("or write {text}{}", said.advice())
            }
        };
        let is_twice = said.unclear.iter().all(|one| one.starts_with(ONE_COLUMN));
        Unsure { line, got, expected: said.unclear.join(", and "), hint, is_twice }
    }

    /// Returns the name of a preset whose column names all occur in the header, and a declaration
    /// of these columns in the order of the header.
    fn preset(&self, line: u64, separator: Option<&str>) -> Option<(&'static str, String)> {
        let presets = FORMATS.iter().filter_map(|format| Some((format.name, format.preset()?)));
        presets.filter(|(_, preset)| preset.has_own_titles()).find_map(|(name, preset)| {
            let mut said = self.declaration();
            for (title, word) in preset.titles().zip(preset.words()) {
                said.put(self.titles.named(title)?, word);
            }
            Some((name, spelled_out(&said.text(line, separator)) + &said.advice()))
        })
    }
}

fn unit_wanted(name: &str) -> String {
    format!("the unit of {name} at its end: _ns, _us, _ms or _s")
}

/// Returns the command-line option that declares these columns.
fn spelled_out(columns: &str) -> String {
    named(&format!("columns={columns}"))
}

/// Returns the name of the time unit with `ns` nanoseconds in declarations.
fn unit_name(ns: u64) -> &'static str {
    TIME_UNITS.iter().find(|unit| unit.ns == ns).map_or("ns", |unit| unit.name)
}
