//! Interprets a header line as a declaration of columns: `time_us,op,offset,size` is
//! `at:us,op,offset,len,skip=1`.
//!
//! Names are those of [`Titles`]. The header must name the time with its unit, the operation, the
//! offset and the length; a time that is a date in the first row needs no unit. Nothing is guessed:
//! if names leave anything open (the unit of `timestamp`, of `block`), the header is rejected, with
//! a suggestion for the declaration. The text is read exactly according to that declaration, and a
//! note shows it.
//!
//! Fields are separated by comma, tab, semicolon or blanks, as in [`Columns`]. Blank lines and
//! comments (`#`) before the header are ignored.

use std::path::Path;

use crate::columns::Columns;
use crate::columns::cursor::{Cursor, Separator};
use crate::columns::date;
use crate::columns::unit::{DATE, TIME_UNITS, TimeUnit};
use crate::error::{Place, TraceError};
use crate::fields::decimal_or_power;
use crate::formats::titles::{
    AT, AT_WITH_UNIT, END, LATENCY, LEN_UNSURE, NAME, OFFSET_UNSURE, OP, PROCESS, THREAD, Titles,
    VOLUME,
};
use crate::lines::BYTE_ORDER_MARK;
use crate::rows::shorten;
use forebay_ask::named;

/// The most columns of a header; for more, a declaration is clearer.
const COLUMNS_MAX: usize = 128;
/// The supported date formats.
const DATES_READ: &str =
    "2026-01-31 12:00:00.000345 (an existing day, year first; day and time in one column)";
/// The most names of unread columns in a note.
const UNREAD_SHOWN: usize = 5;
/// Column separators and how a declaration specifies them. Commas need no setting.
const SEPARATORS: [(Separator, Option<&str>); 5] = [
    (Separator::Byte(b','), None),
    (Separator::Byte(b'\t'), Some("sep=tab")),
    (Separator::Byte(b';'), Some("sep=semicolon")),
    (Separator::Byte(b'|'), Some("sep=bar")),
    (Separator::Blanks, Some("sep=blank")),
];

/// An interpreted header.
#[derive(Debug)]
pub(crate) struct Header {
    pub(super) columns: Columns,
    /// The note that shows the interpretation.
    pub(super) note: String,
}

/// A header whose names leave something open.
#[derive(Debug)]
pub(crate) struct Unsure {
    line: u64,
    got: String,
    expected: String,
    hint: String,
}

impl Unsure {
    /// Adds that the rows could be those of a preset with another header.
    pub(crate) fn or_preset(mut self, name: &str) -> Unsure {
        let from = named(&format!("from={name}"));
        self.hint += &format!("; if it is {name}, name that with {from}");
        self
    }

    pub(crate) fn at(self, path: &Path) -> TraceError {
        let Unsure { line, got, expected, hint } = self;
        let (path, place) = (path.to_path_buf(), Place::Line(line));
        TraceError::Malformed { path, place, got, expected, hint }
    }
}

/// Returns whether a line is neither blank nor a comment nor Excel's `sep=;`.
pub(super) fn says(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    let is_excel = line.strip_prefix(b"sep=").is_some_and(|sign| sign.len() <= 1);
    !line.is_empty() && line.first() != Some(&b'#') && !is_excel
}

/// Interprets the first line of a text; `None` if it does not name the columns of requests.
pub(crate) fn of(head: &[u8]) -> Option<Result<Header, Unsure>> {
    let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    let mut lines = head.split(|&byte| byte == b'\n').zip(1..);
    let (line, number) = lines.find(|(line, _)| says(line))?;
    let first = lines.map(|(line, _)| line).find(|line| says(line));
    let mut told = None;
    for (separator, word) in SEPARATORS {
        let Some(names) = fields(line, separator) else { continue };
        let first = first.and_then(|row| fields(row, separator)).unwrap_or_default();
        let said = Names { titles: Titles::new(names.iter().map(String::as_str)), names, first };
        match said.declare(number, word) {
            Some(Ok(header)) => return Some(Ok(header)),
            unsure => told = told.or(unsure),
        }
    }
    told
}

/// Returns the fields of a line; `None` if there are too few or too many, or if quotes are
/// broken.
fn fields(line: &[u8], separator: Separator) -> Option<Vec<String>> {
    let line = [line.trim_ascii_end(), b"\n"].concat();
    let mut cursor = Cursor::new(&line, separator);
    let mut fields = Vec::new();
    cursor.first();
    loop {
        let field = cursor.field().ok()?;
        // Windows' ANSI is close to Latin-1, whose bytes are code points.
        let latin = || field.iter().map(|&byte| char::from(byte)).collect();
        fields.push(std::str::from_utf8(field).map_or_else(|_| latin(), str::to_owned));
        if cursor.next().is_err() {
            break;
        }
    }
    (2..=COLUMNS_MAX).contains(&fields.len()).then_some(fields)
}

/// The names of columns.
struct Names {
    titles: Titles,
    names: Vec<String>,
    /// The fields of the first row; empty if there is none.
    first: Vec<String>,
}

/// A declaration under construction, and what it lacks.
struct Declaration {
    /// The declared role of each column.
    words: Vec<Option<String>>,
    settings: Vec<String>,
    /// What the names should have specified.
    wanted: Vec<String>,
    /// What to write in the declaration.
    instead: Vec<&'static str>,
}

impl Declaration {
    fn put(&mut self, column: usize, word: impl Into<String>) {
        if let Some(place) = self.words.get_mut(column) {
            *place = Some(word.into());
        }
    }

    fn set(&mut self, setting: &str, wanted: &str, instead: &'static str) {
        self.settings.push(setting.to_owned());
        self.wanted.push(wanted.to_owned());
        self.instead.push(instead);
    }

    fn text(&self, line: u64, separator: Option<&str>) -> String {
        let read = self.words.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        let words = self.words.iter().take(read).map(|word| word.as_deref().unwrap_or("_"));
        let settings = self.settings.iter().map(String::as_str).chain(separator);
        let skip = format!("skip={line}");
        words.chain(settings).chain([skip.as_str()]).collect::<Vec<_>>().join(",")
    }
}

impl Names {
    fn name(&self, column: usize) -> String {
        shorten(self.names.get(column).map_or(&b""[..], |name| name.as_bytes()))
    }

    /// Builds the declaration; `None` if no column is an offset, or if there is nothing else.
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
        if at.is_none() && len.is_none() && op.is_none() {
            return None;
        }
        let (settings, wanted, instead) = (Vec::new(), Vec::new(), Vec::new());
        let words = vec![None; self.names.len()];
        let mut said = Declaration { words, settings, wanted, instead };
        self.time(at, &mut said);
        self.bytes("offset", offset, &mut said);
        match len {
            Some(len) => self.bytes("len", len, &mut said),
            None => said.set(
                "len=4096",
                "a name for the length (len, size, sectors, ...)",
                "the bytes of each request for 4096",
            ),
        }
        match op {
            Some(column) => said.put(column, self.op(column)),
            None => said.set(
                "op=read",
                "a name for the operation (op, rw, is_write, ...)",
                "op=write if all write",
            ),
        }
        if let Some((column, Some(ns))) = titles.time(&LATENCY, |unit| unit.is_some()) {
            said.put(column, format!("latency:{}", unit_name(ns)));
        } else if let Some((column, Some(unit))) = at.and_then(|_| self.moment(&END)) {
            said.put(column, format!("end:{unit}"));
        }
        if let Some(column) = any(&VOLUME) {
            said.put(column, "volume");
        }
        self.submitter(&mut said);
        if let Some(column) = any(&["flags"]) {
            said.put(column, "flags");
        }
        self.once(&mut said);
        let text = said.text(line, separator);
        Some(if said.wanted.is_empty() {
            Ok(self.header(&said, &text)?)
        } else {
            Err(self.unsure(said, line, &text))
        })
    }

    /// Returns the column of times with one of `names`, and the name of its unit. The unit comes
    /// from the name, or from the first row if that is a date.
    fn moment(&self, names: &[&str]) -> Option<(usize, Option<&'static str>)> {
        if let Some((column, Some(ns))) = self.titles.time(names, |unit| unit.is_some()) {
            return Some((column, Some(unit_name(ns))));
        }
        let (column, _) = self.titles.time(names, |_| true)?;
        let field = self.first.get(column)?;
        date::ns(field.as_bytes()).map(|_| (column, Some(DATE.name)))
    }

    fn time(&self, at: Option<(usize, Option<&str>)>, said: &mut Declaration) {
        match at {
            None => said.set(
                "every=1ms",
                "a name for the time (time_us, timestamp_ms, ...)",
                "the time between requests for 1ms",
            ),
            Some((column, Some(unit))) => said.put(column, format!("at:{unit}")),
            Some((column, None)) => {
                let dated = self.first.get(column).and_then(|field| dated_unit(field));
                said.put(column, format!("at:{}", dated.unwrap_or("UNIT")));
                match self.calendar(column) {
                    Some(wanted) => {
                        said.wanted.push(wanted);
                        said.instead.push("date for the UNIT of at after converting them");
                    }
                    None => {
                        said.wanted.push(format!(
                            "the unit of {} at its end: _ns, _us, _ms or _s",
                            self.name(column)
                        ));
                        said.instead.push(match dated {
                            Some(_) => "another unit of at if that is not a date",
                            None => "ns, us, ms, s or date for the UNIT of at",
                        });
                    }
                }
            }
        }
    }

    /// Returns a note about a date or a time of day in the first row in an unsupported format; none
    /// for a number.
    fn calendar(&self, column: usize) -> Option<String> {
        let field = self.first.get(column)?.trim();
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
                said.wanted.push(format!("a name that gives the unit of {}", self.name(column)));
                let instead = "bytes, sectors (512 bytes), pages (4096) or blocks:BYTES for that \
                    of offsets and lengths";
                if !said.instead.contains(&instead) {
                    said.instead.push(instead);
                }
                ":UNIT"
            }
        };
        said.put(column, format!("{word}{unit}"));
    }

    /// Returns the declaration of a column of operations: words, or truth values for write or read.
    fn op(&self, column: usize) -> &'static str {
        if self.titles.is(column, &["is_write", "write"]) {
            "op:0+false/1+true"
        } else if self.titles.is(column, &["is_read"]) {
            "op:1+true/0+false"
        } else {
            "op"
        }
    }

    /// Declares the columns that identify the submitter. `process` may be a name or a number, since
    /// a text name can be either.
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

    /// Rejects duplicate names.
    fn once(&self, said: &mut Declaration) {
        let read = said.words.iter().enumerate().filter(|(_, word)| word.is_some());
        if let Some((column, _)) = read.clone().find(|(column, _)| self.titles.is_twice(*column)) {
            said.wanted.push(format!("one column called {}", self.name(column)));
            said.instead.push("_ for the one to ignore");
        }
    }

    fn header(&self, said: &Declaration, text: &str) -> Option<Header> {
        let mut columns: Columns = text.parse().ok()?;
        columns.titles = self.names.clone();
        let unread = said.words.iter().enumerate().filter(|(_, word)| word.is_none());
        let named =
            |column: usize| self.names.get(column).is_some_and(|name| !name.trim().is_empty());
        let unread = unread.map(|(column, _)| match named(column) {
            true => self.name(column),
            false => format!("column {}, which has no name", column + 1),
        });
        let unread: Vec<String> = unread.collect();
        let more = unread.len().saturating_sub(UNREAD_SHOWN);
        let mut note = format!("the header names the columns, read as {}", spelled_out(text));
        if !unread.is_empty() {
            let shown = unread.get(..UNREAD_SHOWN).unwrap_or(&unread).join(", ");
            note += &format!("; not read: {shown}");
        }
        if more > 0 {
            note += &format!(" and {more} more");
        }
        Some(Header { columns, note })
    }

    fn unsure(&self, said: Declaration, line: u64, text: &str) -> Unsure {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let got = format!("a header of {}", shorten(names.join(",").as_bytes()));
        let hint = format!("or write {}, with {}", spelled_out(text), said.instead.join(" and "));
        Unsure { line, got, expected: said.wanted.join(", and "), hint }
    }
}

/// Returns the unit in which a number is a date from 2001 to 2039.
fn dated_unit(field: &str) -> Option<&'static str> {
    let (count, _) = decimal_or_power(field.trim().as_bytes())?;
    // 1601 to 1970, from which Windows counts.
    let epoch_ns =
        |unit: &TimeUnit| if unit.name == "filetime" { 11_644_473_600_000_000_000 } else { 0 };
    let is_date = |unit: &&TimeUnit| {
        let ns = u128::from(count) * u128::from(unit.ns);
        let s = ns.saturating_sub(epoch_ns(unit)) / 1_000_000_000;
        unit.name != "ticks" && (1_000_000_000..2_200_000_000).contains(&s)
    };
    TIME_UNITS.iter().find(is_date).map(|unit| unit.name)
}

/// Returns the option that declares these columns.
fn spelled_out(columns: &str) -> String {
    named(&format!("columns={columns}"))
}

/// Returns the name of a time unit of `ns` nanoseconds in declarations.
fn unit_name(ns: u64) -> &'static str {
    TIME_UNITS.iter().find(|unit| unit.ns == ns).map_or("ns", |unit| unit.name)
}
