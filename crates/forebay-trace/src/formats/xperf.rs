//! Text output of `xperf -a dumper` (Windows Performance Toolkit), with one event per line. Only
//! disk events are read.
//!
//! The lines between `BeginHeader` and `EndHeader` name the columns of each event. `DiskRead`,
//! `DiskWrite` and `DiskFlush` are logged when they complete. `TimeStamp` and `ElapsedTime` are in
//! microseconds, `ByteOffset` and `IOSize` in bytes, usually hexadecimal.

use std::collections::HashMap;

use forebay_core::{Nanos, Op};

use super::clock::arrival;
use super::log::{Line, Log, first_lines, ordered};
use super::numbering::Numbering;
use crate::columns::notation::hexadecimal;
use crate::fields::digits;
use crate::formats::Input;
use crate::rows::{self, RowError};
use crate::{Dictionary, Reader, Stream, TraceError};

/// The first line of the header.
const BEGIN: &[u8] = b"BeginHeader";
const EVENTS: [(&str, Op); 3] =
    [("DiskRead", Op::Read), ("DiskWrite", Op::Write), ("DiskFlush", Op::Flush)];

#[derive(Default)]
struct Xperf {
    /// The names of the columns of each event.
    titles: HashMap<&'static str, Vec<String>>,
    who: Numbering,
}

/// Returns the disk event in a line and its operation, if it contains one.
fn event(line: &[u8]) -> Option<(&'static str, Op)> {
    let first = line.split(|&byte| byte == b',').next()?.trim_ascii();
    EVENTS.into_iter().find(|(name, _)| name.as_bytes() == first)
}

/// Splits the process in a line: `name.exe (1234)`.
fn process(field: &[u8]) -> Stream {
    let text = String::from_utf8_lossy(field);
    let (name, id) = text.rsplit_once('(').unwrap_or((&text, ""));
    let process = id.trim_end_matches(')').trim().parse().ok();
    Stream { thread: None, process, name: name.trim().to_owned() }
}

impl Log for Xperf {
    const NAME: &'static str = "xperf";
    const LINES: &'static str =
        "DiskRead, TimeStamp, Process Name ( PID), ThreadID, IrpPtr, ByteOffset, IOSize, ...";

    fn line(&mut self, line: &[u8], dictionary: &mut Dictionary) -> Result<Line, RowError> {
        if line.trim_ascii() == BEGIN {
            return Ok(Line::Header);
        }
        let Some((name, op)) = event(line) else { return Ok(Line::Other) };
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).collect();
        if fields.get(1) == Some(&&b"TimeStamp"[..]) {
            let titles = fields.iter().map(|field| String::from_utf8_lossy(field).into_owned());
            self.titles.insert(name, titles.collect());
            return Ok(Line::Other);
        }
        let titles = self.titles.get(name).map(Vec::as_slice).unwrap_or_default();
        let field = |title: &str| {
            let column = titles.iter().position(|one| one == title);
            column.and_then(|column| fields.get(column).copied()).unwrap_or_default()
        };
        let number = |title: &'static str| {
            let number = digits(field(title)).or_else(|| hexadecimal(field(title)));
            number.ok_or_else(|| {
                RowError::new(title, field(title), "a number, and a header that names the columns")
            })
        };
        let (end_us, took_us) = (number("TimeStamp")?, number("ElapsedTime")?);
        let (offset, len) = match op {
            Op::Flush => (0, 0),
            _ => (number("ByteOffset")?, number("IOSize")?),
        };
        let ns = |us: u64| us.checked_mul(1000);
        let at = ns(end_us).zip(ns(took_us)).and_then(|(end, took)| arrival(end, took));
        let at = at.ok_or_else(|| {
            RowError::new("TimeStamp", field("TimeStamp"), "microseconds below 2^63 ns")
        })?;
        if len == 0 && op != Op::Flush {
            return Ok(Line::Skipped);
        }
        let mut record = rows::record(at.0, op, offset, len)?;
        record.latency = ns(took_us).map(Nanos);
        let thread = u32::try_from(number("ThreadID")?).ok();
        let stream = Stream { thread, ..process(field("Process Name ( PID)")) };
        record.volume = self.who.volume(field("DiskNum"), dictionary)?;
        record.stream = self.who.stream(stream, dictionary)?;
        Ok(Line::Request(record))
    }
}

pub(crate) fn sniff(head: &[u8]) -> bool {
    first_lines(head).any(|line| line == BEGIN)
}

pub(crate) fn open(input: Input) -> Result<Box<dyn Reader>, TraceError> {
    Ok(ordered(input, Xperf::default(), Dictionary::default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tests::{message, read};

    #[test]
    fn disk_events_among_others_are_read() {
        let text = "BeginHeader\n\
            DiskFlush, TimeStamp, Process Name ( PID), ThreadID, IrpPtr, ElapsedTime, DiskNum\n\
            DiskRead, TimeStamp, Process Name ( PID), ThreadID, IrpPtr, ByteOffset, IOSize, ElapsedTime, DiskNum\n\
            EndHeader\n\
            CSwitch, 900, Idle (0), 0\n\
            DiskRead, 1500, java.exe ( 42), 7, 0xfa, 0x0000100000, 0x00001000, 400, 0\n\
            DiskFlush, 2500, System ( 4), 8, 0xfb, 300, 0\n";
        assert!(sniff(text.as_bytes()));
        let (records, dictionary, _) = read(open, text.as_bytes());
        let row = |n: usize| (records[n].at.0, records[n].op, records[n].offset, records[n].len);
        assert_eq!(row(0), (0, Op::Read, 1 << 20, 4096));
        assert_eq!(row(1), (1_100_000, Op::Flush, 0, 0));
        assert_eq!(records[0].latency, Some(Nanos(400_000)));
        let who = (
            &*dictionary.streams[0].name,
            dictionary.streams[0].process,
            dictionary.streams[0].thread,
        );
        assert_eq!((who, &*dictionary.volumes[0]), (("java.exe", Some(42), Some(7)), "0"));
        let unnamed = text.replace("DiskRead, TimeStamp", "DiskRead, When");
        assert!(message(open, unnamed.as_bytes()).contains("a header that names the columns"));
    }
}
