//! CSV of Process Monitor (Sysinternals): a header, then a line for each operation of a process on
//! a file.
//!
//! Only successful `ReadFile`, `WriteFile` and `FlushBuffersFile` operations are read. Each file is
//! a volume. The column Detail contains the offset and the length, `Offset: 4,096, Length: 512`,
//! with digits grouped as in any locale. If there is a column Duration, it contains the latency in
//! seconds. Times are times of day. If a time goes back by more than half a day, it belongs to the
//! next day.

use forebay_core::{Nanos, Op};

use super::clock::{scaled, time_of_day};
use super::log::{Line, Log, first_lines, ordered};
use super::numbering::Numbering;
use crate::columns::cursor::{Cursor, Separator};
use crate::fields::digits;
use crate::formats::Input;
use crate::lines::BYTE_ORDER_MARK;
use crate::rows::{self, RowError};
use crate::{Dictionary, Reader, Stream, TraceError};

const DAY_NS: u64 = 86_400_000_000_000;
/// The columns that are required.
const NEEDED: [&str; 4] = ["time of day", "operation", "path", "detail"];
/// The column that contains both date and time.
const DATED: &str = "date & time";

#[derive(Default)]
struct Procmon {
    titles: Vec<String>,
    who: Numbering,
    /// The last time of day, and the number of days since the first.
    last_ns: u64,
    days: u64,
    /// The date in the last row, if rows contain dates.
    date: Vec<u8>,
}

/// Returns the fields of a line.
fn fields(line: &[u8]) -> Vec<&[u8]> {
    let mut cursor = Cursor::new(line, Separator::Byte(b','));
    let mut fields = Vec::new();
    while let Ok(field) = cursor.field() {
        fields.push(field);
        if cursor.next().is_err() {
            break;
        }
    }
    fields
}

/// Returns the names of the columns, if the line is the header.
fn titles(line: &[u8]) -> Option<Vec<String>> {
    let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
    let lower = |field: &&[u8]| String::from_utf8_lossy(field).to_ascii_lowercase();
    let mut titles: Vec<String> = fields(line).iter().map(lower).collect();
    // A column with dates and times may replace the column of times.
    if !titles.iter().any(|title| title == NEEDED[0]) {
        titles
            .iter_mut()
            .filter(|title| *title == DATED)
            .for_each(|title| *title = NEEDED[0].into());
    }
    NEEDED.iter().all(|wanted| titles.iter().any(|title| title == wanted)).then_some(titles)
}

/// Returns the number that follows `word` in the details, without the characters that group its
/// digits.
fn detail(details: &[u8], word: &str) -> Option<u64> {
    let at = memchr::memmem::find(details, word.as_bytes())? + word.len();
    let rest = details.get(at..)?;
    let end = rest.windows(2).position(|two| two == b", ").unwrap_or(rest.len());
    let field: Vec<u8> = rest.get(..end)?.iter().copied().filter(u8::is_ascii_digit).collect();
    digits(&field).filter(|_| !rest.starts_with(b"-"))
}

/// Parses a duration in seconds with a decimal point or comma. Returns None for an operation that
/// has not completed.
fn latency(duration: &[u8]) -> Result<Option<Nanos>, RowError> {
    if duration.is_empty() {
        return Ok(None);
    }
    let seconds: Vec<u8> = duration.iter().map(|&b| if b == b',' { b'.' } else { b }).collect();
    let ns = scaled(&seconds, 9);
    let wrong = || RowError::new("Duration", duration, "seconds such as 0.0001234");
    ns.map(|ns| Some(Nanos(ns))).ok_or_else(wrong)
}

/// Returns whether the details contain an offset that is a position in the file.
fn has_offset(details: &[u8]) -> bool {
    memchr::memmem::find(details, b"Offset: ").is_some()
        && memchr::memmem::find(details, b"Offset: -").is_none()
}

impl Log for Procmon {
    const NAME: &'static str = "procmon";
    const LINES: &'static str =
        "\"Time of Day\",\"Process Name\",\"PID\",\"Operation\",\"Path\",\"Result\",\"Detail\"";

    fn line(&mut self, line: &[u8], dictionary: &mut Dictionary) -> Result<Line, RowError> {
        if let Some(titles) = titles(line) {
            self.titles = titles;
            return Ok(Line::Header);
        }
        let fields = fields(line);
        let field = |title: &str| {
            let column = self.titles.iter().position(|one| one == title);
            column.and_then(|column| fields.get(column).copied()).unwrap_or_default()
        };
        let op = match field("operation") {
            b"ReadFile" => Op::Read,
            b"WriteFile" => Op::Write,
            b"FlushBuffersFile" => Op::Flush,
            b"" => {
                return Err(RowError::new(
                    "Operation",
                    line,
                    "a field for each column of the header",
                ));
            }
            _ => return Ok(Line::Other),
        };
        if !matches!(field("result"), b"SUCCESS" | b"") {
            return Ok(Line::Skipped);
        }
        let (time, details) = (field("time of day"), field("detail"));
        // A date may precede the time. Its order of day and month is unknown.
        let has_date = memchr::memchr2(b'/', b'-', time).is_some()
            || time.iter().filter(|b| **b == b'.').count() > 1;
        let from = time.iter().position(u8::is_ascii_whitespace).filter(|_| has_date);
        let (date, time) = time.split_at(from.unwrap_or(0));
        let ns = time_of_day(time.trim_ascii())
            .ok_or_else(|| RowError::new("Time of Day", time, "a time such as 14:15:23.1234567"))?;
        let (offset, len) = match op {
            Op::Flush => (0, 0),
            // Skip appends and operations on pipes, which have no offset.
            _ if !has_offset(details) => return Ok(Line::Skipped),
            _ => match (detail(details, "Offset: "), detail(details, "Length: ")) {
                (Some(offset), Some(len)) => (offset, len),
                _ => return Err(RowError::new("Detail", details, "Offset: and Length:")),
            },
        };
        let is_other_day = match date {
            b"" => ns + DAY_NS / 2 < self.last_ns,
            date => !self.date.is_empty() && self.date != date,
        };
        self.days += u64::from(is_other_day);
        self.date = date.to_vec();
        self.last_ns = ns;
        if len == 0 && op != Op::Flush {
            return Ok(Line::Skipped);
        }
        let mut record = rows::record(self.days * DAY_NS + ns, op, offset, len)?;
        record.latency = latency(field("duration"))?;
        let id = |title| digits(field(title)).and_then(|id| u32::try_from(id).ok());
        let name = String::from_utf8_lossy(field("process name")).into_owned();
        let stream = Stream { thread: id("tid"), process: id("pid"), name };
        record.volume = self.who.volume(field("path"), dictionary)?;
        record.stream = self.who.stream(stream, dictionary)?;
        Ok(Line::Request(record))
    }
}

pub(crate) fn sniff(head: &[u8]) -> bool {
    first_lines(head).any(|line| titles(line).is_some())
}

pub(crate) fn open(input: Input) -> Result<Box<dyn Reader>, TraceError> {
    Ok(ordered(input, Procmon::default(), Dictionary::default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tests::{message, read};

    #[test]
    fn operations_on_files_are_read() {
        let text = "\u{feff}\"Time of Day\",\"Process Name\",\"PID\",\"Operation\",\"Path\",\"Result\",\"Detail\",\"Duration\"\n\
            \"11:59:59.5000000 PM\",\"a.exe\",\"12\",\"RegOpenKey\",\"HKLM\\x\",\"SUCCESS\",\"Desired Access: Read\",\"0\"\n\
            \"11:59:59.9000000 PM\",\"a.exe\",\"12\",\"ReadFile\",\"C:\\a, b\",\"SUCCESS\",\"Offset: 1,048,576, Length: 4,096, Priority: Normal\",\"0.0001500\"\n\
            \"12:00:00.1000000 AM\",\"b.exe\",\"13\",\"WriteFile\",\"C:\\c\",\"SUCCESS\",\"Offset: 512, Length: 1.024\",\"0.0020000\"\n\
            \"12:00:00.2000000 AM\",\"b.exe\",\"13\",\"FlushBuffersFile\",\"C:\\c\",\"SUCCESS\",\"\",\"0.01\"\n\
            \"12:00:00.3000000 AM\",\"b.exe\",\"13\",\"ReadFile\",\"C:\\c\",\"END OF FILE\",\"Offset: 9, Length: 1\",\"\"\n";
        assert!(sniff(text.as_bytes()));
        let (records, dictionary, notes) = read(open, text.as_bytes());
        let row = |n: usize| (records[n].at.0, records[n].op, records[n].offset, records[n].len);
        assert_eq!(row(0), (0, Op::Read, 1 << 20, 4096));
        assert_eq!(row(1), (200_000_000, Op::Write, 512, 1024));
        assert_eq!(row(2), (300_000_000, Op::Flush, 0, 0));
        assert_eq!((records.len(), notes.rows_skipped), (3, 1));
        assert_eq!(records[0].latency, Some(Nanos(150_000)));
        assert_eq!(dictionary.volumes, ["C:\\a, b", "C:\\c"]);
        assert_eq!(
            (dictionary.streams[1].process, &*dictionary.streams[1].name),
            (Some(13), "b.exe")
        );
        let appended = text.replace("Offset: 512", "Offset: -1");
        let piped = text.replace("Offset: 512, ", "");
        for text in [appended, piped] {
            let (records, _, notes) = read(open, text.as_bytes());
            assert_eq!((records.len(), notes.rows_skipped), (2, 2));
        }
        let commas = text.replace("\"0.0001500\"", "\"0,0001500\"");
        assert_eq!(read(open, commas.as_bytes()).0[0].latency, Some(Nanos(150_000)));
        let unknown = text.replace("\"0.0001500\"", "\"\"");
        assert_eq!(read(open, unknown.as_bytes()).0[0].latency, None);
        let bad = text.replace("\"0.0020000\"", "\"2 ms\"");
        assert!(message(open, bad.as_bytes()).contains("line 4: got \"2 ms\" in column Duration"));
        let bad = text.replace("Length: 1.024", "Size: 7");
        assert!(message(open, bad.as_bytes()).contains("line 4: got \"Offset: 512"), "{bad}");
    }
}
