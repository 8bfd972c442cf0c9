//! DiskSim's validation format: `R/W buffer-action block size response gap`, separated by spaces.
//!
//! Units: block and size in sectors of 512 bytes, response and gap in microseconds with decimals.
//! Only one request is outstanding at a time: a request arrives `gap` after the previous one
//! completed, and the first at time zero. The response is the latency. The buffer action is what
//! the drive's buffer was observed to do. A [`Record`](crate::Record) cannot contain it, so
//! [`rows()`] returns the rows themselves. There is one volume; the submitters of requests are not
//! recorded.

use std::io::BufRead;
use std::path::Path;

use forebay_core::{Nanos, Op};

use super::log::{Line, Log, LogReader, first_lines, words};
use super::numbering::anonymous;
use crate::fields::digits;
use crate::formats::Input;
use crate::lines::Lines;
use crate::rows::{self, RowError};
use crate::unpack::unpack;
use crate::{Dictionary, Place, Reader, TraceError};

/// The size of a sector.
const SECTOR_BYTES: u64 = 512;

/// The longest plausible response or gap, in microseconds: eleven days.
const TIME_US_MAX: f64 = 1e12;

/// The observed action of the drive's buffer, as spelled in the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Buffer {
    /// `Hit`.
    Hit,
    /// `Miss`.
    Miss,
    /// `Doub`.
    Double,
    /// `Trip`.
    Triple,
}

/// A row of the format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValidationRow {
    /// The operation: read or write.
    pub op: Op,
    /// The action of the drive's buffer.
    pub buffer: Buffer,
    /// The number of the first sector of 512 bytes.
    pub first_sector: u64,
    /// The number of sectors of 512 bytes, at least one.
    pub sectors: u32,
    /// The time from issue to completion, in microseconds.
    pub response_us: f64,
    /// The time from this request's completion to the issue of the next, in microseconds.
    pub gap_us: f64,
}

/// The rows of a trace, in order.
pub struct Rows {
    lines: Lines,
}

/// Reads the rows of the trace at `path`, which may be compressed.
///
/// # Errors
/// Fails if the file cannot be opened.
pub fn rows(path: &Path) -> Result<Rows, TraceError> {
    Ok(Rows::new(path, unpack(path)?.content))
}

impl Rows {
    /// Reads the rows of `content`, whose name in messages is `path`.
    pub fn new(path: &Path, content: Box<dyn BufRead + Send>) -> Rows {
        Rows { lines: Lines::new(path, content) }
    }

    fn row(&mut self) -> Result<Option<ValidationRow>, TraceError> {
        while let Some(line) = self.lines.next()? {
            if line.trim_ascii().is_empty() {
                continue;
            }
            return parse(line).map(Some).map_err(|wrong| {
                let hint = format!("the lines of the format are {}", DisksimValid::LINES);
                wrong.at(self.lines.path(), Place::Line(self.lines.number()), &hint)
            });
        }
        Ok(None)
    }
}

impl Iterator for Rows {
    type Item = Result<ValidationRow, TraceError>;

    fn next(&mut self) -> Option<Result<ValidationRow, TraceError>> {
        self.row().transpose()
    }
}

fn parse(line: &[u8]) -> Result<ValidationRow, RowError> {
    let mut words = words(line);
    let mut word = |column| words.next().ok_or_else(|| RowError::new(column, b"", "one more word"));
    let op = match word("R/W")? {
        b"R" => Op::Read,
        b"W" => Op::Write,
        other => return Err(RowError::new("R/W", other, "R or W")),
    };
    let buffer = match word("buffer action")? {
        b"Hit" => Buffer::Hit,
        b"Miss" => Buffer::Miss,
        b"Doub" => Buffer::Double,
        b"Trip" => Buffer::Triple,
        other => return Err(RowError::new("buffer action", other, "Hit, Miss, Doub or Trip")),
    };
    let first_sector = word("block")?;
    let first_sector = digits(first_sector)
        .ok_or_else(|| RowError::new("block", first_sector, "a number of sectors"))?;
    let sectors = word("size")?;
    let sectors = digits(sectors)
        .filter(|&sectors| sectors > 0)
        .ok_or_else(|| RowError::new("size", sectors, "one sector or more"))?;
    let bytes = |sectors: u64| sectors.saturating_mul(SECTOR_BYTES);
    rows::record(0, op, bytes(first_sector), bytes(sectors))?;
    let response_us = time_us("response", word("response")?)?;
    let gap_us = time_us("gap", word("gap")?)?;
    if let Some(more) = words.next() {
        return Err(RowError::new("gap", more, "the end of the line after it"));
    }
    Ok(ValidationRow { op, buffer, first_sector, sectors: sectors as u32, response_us, gap_us })
}

fn time_us(column: &'static str, word: &[u8]) -> Result<f64, RowError> {
    let number = std::str::from_utf8(word).ok().and_then(|word| word.parse::<f64>().ok());
    number
        .filter(|us| (0.0..=TIME_US_MAX).contains(us))
        .ok_or_else(|| RowError::new(column, word, "microseconds such as 663.00000, below 10^12"))
}

/// Converts rows to requests.
#[derive(Default)]
struct DisksimValid {
    /// When the next request arrives, in nanoseconds.
    next_ns: u64,
}

impl Log for DisksimValid {
    const NAME: &'static str = "disksim-valid";
    const LINES: &'static str = "R/W buffer-action block size response-us gap-us";

    fn line(&mut self, line: &[u8], _: &mut Dictionary) -> Result<Line, RowError> {
        let row = parse(line)?;
        let ns = |us: f64| (us * 1000.0).round() as u64;
        let bytes = |sectors: u64| sectors.saturating_mul(SECTOR_BYTES);
        let (offset, len) = (bytes(row.first_sector), bytes(row.sectors.into()));
        let mut record = rows::record(self.next_ns, row.op, offset, len)?;
        record.latency = Some(Nanos(ns(row.response_us)));
        self.next_ns = self.next_ns.saturating_add(ns(row.response_us) + ns(row.gap_us));
        Ok(Line::Request(record))
    }
}

pub(crate) fn sniff(head: &[u8]) -> bool {
    first_lines(head).any(|line| parse(line).is_ok())
}

pub(crate) fn open(input: Input) -> Result<Box<dyn Reader>, TraceError> {
    let (log, dictionary) = (DisksimValid::default(), anonymous(Some("disk")));
    // The arrivals are in order, because none can precede the previous completion.
    Ok(Box::new(LogReader::new(input, log, dictionary)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tests::{message, read};
    use std::io::Cursor;

    const TEXT: &[u8] = b"R Miss  564347     2     14095.370     13876.270\r\n\n\
        W Doub 7 16 0.5 1e3\nR Trip 0 1 3 0\n";

    #[test]
    fn a_request_arrives_a_gap_after_the_last_has_completed() {
        let (records, dictionary, notes) = read(open, TEXT);
        let seen: Vec<_> = records.iter().map(|r| (r.at.0, r.latency.unwrap().0)).collect();
        assert_eq!(seen, [(0, 14_095_370), (27_971_640, 500), (28_972_140, 3_000)]);
        assert_eq!((records[0].offset, records[0].len), (564_347 * 512, 1024));
        assert_eq!((dictionary.volumes, notes.rows_skipped), (vec!["disk".to_string()], 0));
    }

    #[test]
    fn rows_keep_the_buffer_action() {
        let rows = Rows::new(Path::new("t"), Box::new(Cursor::new(TEXT)));
        let rows: Vec<ValidationRow> = rows.map(|row| row.unwrap()).collect();
        let buffers: Vec<Buffer> = rows.iter().map(|row| row.buffer).collect();
        assert_eq!(buffers, [Buffer::Miss, Buffer::Double, Buffer::Triple]);
        let expected = ValidationRow {
            op: Op::Write,
            buffer: Buffer::Double,
            first_sector: 7,
            sectors: 16,
            response_us: 0.5,
            gap_us: 1000.0,
        };
        assert_eq!(rows[1], expected);
    }

    #[test]
    fn nonsense_names_line_and_column() {
        for (bad, part) in [
            ("r Hit 1 1 1 1", "R or W"),
            ("R hit 1 1 1 1", "Hit, Miss"),
            ("R Hit x 1 1 1", "in column block"),
            ("R Hit 1 0 1 1", "one sector"),
            ("R Hit 1 99999999 1 1", "1 GiB"),
            ("R Hit 18446744073709551615 1 1 1", "2^63"),
            ("R Hit 1 1 -1 1", "in column response"),
            ("R Hit 1 1 1 nan", "in column gap"),
            ("R Hit 1 1 1 1e99", "in column gap"),
            ("R Hit 1 1 1", "one more word"),
            ("R Hit 1 1 1 1 1", "end of the line"),
        ] {
            let text = message(open, format!("R Hit 1 1 1 1\n{bad}\n").as_bytes());
            assert!(text.contains(", line 2:") && text.contains(part), "{bad}: {text}");
            let rows = Rows::new(Path::new("t"), Box::new(Cursor::new(bad.as_bytes())));
            assert!(rows.collect::<Result<Vec<ValidationRow>, _>>().is_err(), "{bad}");
        }
        assert!(sniff(TEXT) && !sniff(b"8,16 0 1 0.5 7 Q R 1 + 1 [x]\n"));
    }
}
