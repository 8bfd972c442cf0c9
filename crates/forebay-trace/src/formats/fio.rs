//! fio's I/O logs (`write_iolog`, `read_iolog`), versions 2 and 3.
//!
//! The first line is `fio version N iolog`. The other lines are `[time] file action` (add, open,
//! close) or `[time] file action offset length` (read, write, trim, sync, datasync, wait). Names
//! contain no spaces.
//!
//! Units: offset and length in bytes. In version 3, every line has a time from the start of the
//! run; fio's manual states no unit, but fio itself (3.33) writes microseconds. Version 2 has no
//! times, but its `wait` lines contain waits in microseconds, so a request arrives after the sum of
//! all previous waits. fio ignores waits below 100 us during replay; here, they count. Epoch: the
//! first request.
//!
//! Each file is a volume. `sync` and its variants are flushes, whose offset has no meaning. Neither
//! the submitters of requests nor latencies are recorded.

use forebay_core::Op;

use super::{Line, Log, Numbering, anonymous, first_lines, ordered, words};
use crate::fields::digits;
use crate::formats::Input;
use crate::rows::{self, LongRequests, RowError};
use crate::{Dictionary, Reader, Record, TraceError};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Two,
    Three,
}

impl Version {
    fn of(line: &[u8]) -> Option<Version> {
        match line.trim_ascii() {
            b"fio version 2 iolog" => Some(Version::Two),
            b"fio version 3 iolog" => Some(Version::Three),
            _ => None,
        }
    }
}

/// The state of reading a log.
#[derive(Default)]
struct Fio {
    version: Option<Version>,
    who: Numbering,
    now_us: u64,
    waits: u64,
    /// The number of requests in version 2, which have no times of their own.
    untimed: u64,
    /// The distinct lengths of all requests except the last one, sorted.
    lens: Vec<u32>,
    last_len: Option<u32>,
}

/// The maximum number of distinct lengths that are stored.
const LENS_MAX: usize = 4096;

impl Fio {
    fn header(&mut self, line: &[u8]) -> Result<Line, RowError> {
        let version = Version::of(line).ok_or_else(|| {
            let expected = "fio version 2 iolog or fio version 3 iolog";
            RowError::new("first line", line.trim_ascii(), expected)
        })?;
        self.version = Some(version);
        self.now_us = 0;
        Ok(Line::Header)
    }

    fn wait(&mut self, offset: &[u8]) -> Result<Line, RowError> {
        if self.version == Some(Version::Three) {
            return Err(RowError::new(
                "action",
                b"wait",
                "no wait lines in version 3, because all \
                other lines have times",
            ));
        }
        let us = number("offset", offset)?;
        let sum = self.now_us.checked_add(us);
        self.now_us = sum.ok_or_else(|| RowError::new("offset", offset, "waits below 2^64 us"))?;
        self.waits += 1;
        Ok(Line::Other)
    }

    fn request(
        &mut self,
        op: Op,
        file: &[u8],
        (offset, length): (&[u8], &[u8]),
        dictionary: &mut Dictionary,
    ) -> Result<Line, RowError> {
        let ns = self.now_us.checked_mul(1000).filter(|&ns| ns < 1 << 63);
        let ns = ns.ok_or_else(|| {
            RowError::new("time", self.now_us.to_string().as_bytes(), "microseconds below 2^63 ns")
        })?;
        let (offset, length) = (number("offset", offset)?, number("length", length)?);
        if length == 0 && op != Op::Flush {
            return Ok(Line::Skipped);
        }
        let is_long = LongRequests::may_split(op, length);
        let record = match op {
            Op::Flush => rows::record(ns, op, 0, 0)?,
            _ if is_long => rows::long_request(ns, op, offset, length)?,
            _ => rows::record(ns, op, offset, length)?,
        };
        self.untimed += u64::from(self.version == Some(Version::Two));
        let volume = self.who.volume(file, dictionary)?;
        if let Some(len) = self.last_len.filter(|_| self.lens.len() < LENS_MAX)
            && let Err(place) = self.lens.binary_search(&len)
        {
            self.lens.insert(place, len);
        }
        self.last_len = (op != Op::Flush && !is_long).then_some(record.len);
        let record = Record { volume, ..record };
        Ok(if is_long { Line::Long(record, length) } else { Line::Request(record) })
    }
}

fn number(column: &'static str, word: &[u8]) -> Result<u64, RowError> {
    digits(word).ok_or_else(|| RowError::new(column, word, "a whole number without a sign"))
}

impl Log for Fio {
    const NAME: &'static str = "fio";
    const LINES: &'static str =
        "\"[time-us] file add|open|close\" and \"[time-us] file action offset length\"";

    fn line(&mut self, line: &[u8], dictionary: &mut Dictionary) -> Result<Line, RowError> {
        let Some(version) = self.version.filter(|_| Version::of(line).is_none()) else {
            return self.header(line);
        };
        let mut words = words(line);
        let mut word = || words.next().unwrap_or_default();
        if version == Version::Three {
            self.now_us = number("time", word())?;
        }
        let (file, action, range) = (word(), word(), (word(), word()));
        let more = word();
        if !more.is_empty() {
            return Err(RowError::new("length", more, "the end of the line after it"));
        }
        let op = match action {
            b"add" | b"open" | b"close" => return Ok(Line::Other),
            b"wait" => return self.wait(range.0),
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Trim,
            b"sync" | b"datasync" | b"sync_file_range" | b"syncfs" => Op::Flush,
            other => {
                let expected = "add, open, close, read, write, trim, sync, datasync or wait";
                return Err(RowError::new("action", other, expected));
            }
        };
        self.request(op, file, range, dictionary)
    }

    /// Returns whether the last line is complete. Its length must be a multiple of the common
    /// factor of all others, up to a sector, and must not be the beginning of another length.
    fn is_whole(&self, last: &Record) -> bool {
        let bits = self.lens.iter().fold(512, |bits, len| bits | len);
        let is_known = self.lens.binary_search(&last.len).is_ok();
        let begins = |&len: &u32| {
            std::iter::successors(Some(len / 10), |len| Some(len / 10))
                .take_while(|&len| len > 0)
                .any(|len| len == last.len)
        };
        let is_aligned = last.len.is_multiple_of(1 << bits.trailing_zeros());
        self.lens.is_empty()
            || last.op == Op::Flush
            || is_known
            || is_aligned && !self.lens.iter().any(begins)
    }

    fn end(&mut self) -> Vec<String> {
        let mut sentences = Vec::new();
        if self.is_timeless() {
            sentences.push(
                "the log has version 2 and no wait lines, so it has no times: all requests arrive \
                 at once, in order; use closed replay, or log with fio 3.31 or later"
                    .into(),
            );
        }
        sentences
    }

    fn is_timeless(&self) -> bool {
        self.untimed > 0 && self.waits == 0
    }
}

pub(crate) fn sniff(head: &[u8]) -> bool {
    // Accept unsupported versions too, because their error message is more helpful.
    first_lines(head).any(|line| line.starts_with(b"fio version ") && line.ends_with(b" iolog"))
}

/// Returns the first line that a log lacks, if the text looks like the rest of one.
pub(crate) fn missing_first_line(head: &[u8]) -> Option<&'static str> {
    let line: Vec<&[u8]> = words(first_lines(head).next()?).collect();
    let opens = |action: &[u8]| matches!(action, b"add" | b"open");
    let moves = |action: &[u8]| matches!(action, b"read" | b"write" | b"trim");
    match line[..] {
        [time, _, action] if digits(time).is_some() && opens(action) => Some("fio version 3 iolog"),
        [time, _, action, offset, len]
            if [time, offset, len].into_iter().all(|word| digits(word).is_some())
                && moves(action) =>
        {
            Some("fio version 3 iolog")
        }
        [_, action] if opens(action) => Some("fio version 2 iolog"),
        _ => None,
    }
}

pub(crate) fn open(input: Input) -> Result<Box<dyn Reader>, TraceError> {
    Ok(ordered(input, Fio::default(), anonymous(None)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tests::{message, read};

    fn seen(text: &str) -> Vec<(u64, Op, u64, u32, u32)> {
        let (records, ..) = read(open, text.as_bytes());
        records.iter().map(|r| (r.at.0, r.op, r.offset, r.len, r.volume)).collect()
    }

    #[test]
    fn version_3_has_times_in_microseconds() {
        let text = "fio version 3 iolog\n5 /a add\n6 /a open\n7 /a read 4096 512\n\
            9 /b write 0 1024\r\n11 /a sync 4096 0\n12 /a trim 0 4294967295\n13 /a close\n";
        let expected = [
            (0, Op::Read, 4096, 512, 0),
            (2_000, Op::Write, 0, 1024, 1),
            (4_000, Op::Flush, 0, 0, 0),
            (5_000, Op::Trim, 0, u32::MAX, 0),
        ];
        assert_eq!(seen(text), expected);
        let (_, dictionary, notes) = read(open, text.as_bytes());
        assert_eq!(dictionary.volumes, ["/a", "/b"]);
        assert_eq!((notes.rows_skipped, notes.warnings.len()), (0, 0));
    }

    #[test]
    fn version_2_waits() {
        let text = "fio version 2 iolog\n/a add\n/a open\n/a wait 30 0\n/a read 0 512\n\
            /a write 512 512\n/a wait 150 0\n/a wait 50 0\n/a datasync 0 0\n/a read 0 0\n";
        let (records, _, notes) = read(open, text.as_bytes());
        let at: Vec<u64> = records.iter().map(|r| r.at.0).collect();
        assert_eq!((at, notes.rows_skipped), (vec![0, 0, 200_000], 1));
        assert!(notes.warnings.is_empty());
        let (records, _, notes) = read(open, b"fio version 2 iolog\n/a read 0 9\n/a read 9 9\n");
        assert_eq!(records.len(), 2);
        assert!(notes.warnings[0].contains("no times"), "{:?}", notes.warnings);
    }

    #[test]
    fn a_repeated_first_line_begins_another_run() {
        for one in [
            "fio version 3 iolog\n5 /a open\n6 /a read 0 512\n9 /a read 512 512\n",
            "fio version 2 iolog\n/a open\n/a read 0 512\n/a wait 3 0\n/a read 512 512\n",
        ] {
            let (records, _, notes) = read(open, one.repeat(2).as_bytes());
            assert_eq!((records.len(), notes.rows_bad), (4, 0), "{notes:?}");
            let is_told = |told: &String| told.contains("1 header line is in the middle");
            assert!(notes.warnings.iter().any(is_told), "{notes:?}");
            let mut input = crate::formats::tests::input(one.repeat(2).as_bytes());
            input.split_runs = true;
            let (records, ..) = open(input).and_then(crate::formats::tests::drain).unwrap();
            let order: Vec<u64> = records.iter().map(|r| r.offset).collect();
            assert_eq!(order, [0, 512, 0, 512], "{one}");
            assert_eq!(records[3].at.0 - records[2].at.0, 3_000, "{one}");
        }
    }

    #[test]
    fn nonsense_names_line_and_column() {
        for (bad, part) in [
            ("x /a read 0 512", "column time"),
            ("1 /a reed 0 512", "add, open"),
            ("1 /a wait 3 0", "no wait"),
            ("1 /a read 0", "column length"),
            ("1 /a read -1 5", "column offset"),
            ("1 /a read 0 4294967297", "1 GiB"),
            ("1 /a read 9223372036854775807 1", "2^63"),
            ("1 /a trim 9223372036854775807 1", "2^63"),
            ("1 /a b read 0 1", "action"),
            ("1 /a read 0 1 1", "end of the line"),
            ("18446744073709551 /a read 0 1", "2^63 ns"),
        ] {
            let text = message(open, format!("fio version 3 iolog\n{bad}\n").as_bytes());
            assert!(text.contains(", line 2:") && text.contains(part), "{bad}: {text}");
        }
        assert!(message(open, b"fio version 9 iolog\n").contains("fio version 2 iolog or"));
        let (records, _, notes) = read(open, b"fio version 3 iolog\n1 /a trim 0 4294967296\n");
        assert_eq!((records.len(), notes.rows_added), (2, 1));
        assert!(sniff(b"fio version 9 iolog\r\n") && !sniff(b"0, 1, 0, 4096, 0, 0\n"));
    }
}
