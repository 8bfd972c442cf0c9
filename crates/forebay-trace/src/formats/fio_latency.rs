//! fio's latency logs (`write_lat_log` with `log_offset=1`): `time, value, direction, block size,
//! offset, priority`, and with `log_issue_time=1` the time of issue behind.
//!
//! Units: time in milliseconds from the start of the job, at which the request had completed;
//! value is the latency in nanoseconds; block size and offset in bytes; the issue time in
//! nanoseconds. Direction 0 is a read, 1 a write, 2 a trim; others are skipped and counted.
//! Arrival is the issue time where the log has it, else completion less latency: then it is off by
//! up to a millisecond, which a warning says. Epoch: the first request.
//!
//! Logs without offsets, and those averaged over time (`log_avg_msec`), hold no requests and are
//! refused with what to record instead. fio's bandwidth and IOPS logs look the same; nothing in
//! them tells what they are. A log is one file of one job and names neither: one volume, nobody.
//! The priority is not kept.

use forebay_core::{Nanos, Op};

use super::clock::arrival;
use super::log::{Line, Log, LogReader, first_lines};
use super::numbering::anonymous;
use crate::error::TraceError;
use crate::fields::digits;
use crate::formats::Input;
use crate::order::Ordered;
use crate::rows::{self, Wrong};
use crate::trace::{Dictionary, Reader};

/// Nanoseconds in a millisecond.
const MS_NS: u64 = 1_000_000;

/// The fields of a line.
struct Entry<'a> {
    time_ms: u64,
    value_ns: u64,
    direction: u64,
    len: u64,
    /// Offset, priority, issue time: what there is of them.
    rest: Vec<&'a [u8]>,
}

impl<'a> Entry<'a> {
    fn parse(line: &'a [u8]) -> Result<Entry<'a>, Wrong> {
        let mut fields = line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        let mut number = |column| {
            let field = fields.next().unwrap_or_default();
            digits(field).ok_or_else(|| Wrong::new(column, field, "a whole number without a sign"))
        };
        let (time_ms, value_ns) = (number("time")?, number("value")?);
        let (direction, len) = (number("direction")?, number("block size")?);
        let rest: Vec<&[u8]> = fields.take(4).collect();
        match rest.get(3) {
            None => Ok(Entry { time_ms, value_ns, direction, len, rest }),
            Some(more) => Err(Wrong::new("issue time", more, "the end of the line behind it")),
        }
    }

    /// The offset. Of five fields, the last is the priority in logs of fio 3, and was the offset
    /// in those of fio 2, which had no priority: a priority is 0, 1 or hexadecimal.
    fn offset(&self) -> Result<u64, Wrong> {
        const EXPECTED: &str = "an offset: record the log with log_offset=1";
        match self.rest.as_slice() {
            [] => Err(Wrong::new("offset", b"", EXPECTED)),
            [b"0" | b"1"] => Err(Wrong::new("offset", b"", EXPECTED)),
            [priority] if priority.starts_with(b"0x") => Err(Wrong::new("offset", b"", EXPECTED)),
            [offset, ..] => {
                digits(offset).ok_or_else(|| Wrong::new("offset", offset, "a number of bytes"))
            }
        }
    }

    fn issue_ns(&self) -> Result<Option<u64>, Wrong> {
        let field = self.rest.get(2);
        field
            .map(|f| digits(f).ok_or_else(|| Wrong::new("issue time", f, "nanoseconds")))
            .transpose()
    }
}

#[derive(Default)]
struct FioLatency {
    /// Whether an arrival had to be told from a completion.
    by_completion: bool,
    /// Whether a line of five fields has shown an offset: then a zero there is one, too.
    bare_offsets: bool,
}

impl Log for FioLatency {
    const NAME: &'static str = "fio-latency";
    const LINES: &'static str = "time-ms, latency-ns, direction, bytes, offset, priority";

    fn line(&mut self, line: &[u8], _: &mut Dictionary) -> Result<Line, Wrong> {
        let entry = Entry::parse(line)?;
        let op = match entry.direction {
            0 => Op::Read,
            1 => Op::Write,
            2 => Op::Trim,
            _ => return Ok(Line::Skipped),
        };
        if entry.len == 0 {
            let expected = "the bytes of one request: record the log without log_avg_msec";
            return Err(Wrong::new("block size", b"0", expected));
        }
        let offset = match (entry.rest.as_slice(), self.bare_offsets) {
            ([b"0"], true) => 0,
            _ => entry.offset()?,
        };
        self.bare_offsets |= entry.rest.len() == 1;
        let at = match entry.issue_ns()? {
            Some(ns) => arrival(ns, 0),
            None => {
                self.by_completion = true;
                entry.time_ms.checked_mul(MS_NS).and_then(|end| arrival(end, entry.value_ns))
            }
        };
        let at = at.ok_or_else(|| {
            let got = entry.time_ms.to_string();
            Wrong::new("time", got.as_bytes(), "a time that fits its latency and the issue time")
        })?;
        let mut record = rows::record(at.0, op, offset, entry.len)?;
        record.latency = Some(Nanos(entry.value_ns));
        Ok(Line::Request(record))
    }

    fn end(&mut self) -> Vec<String> {
        let sentence = "the log has times in whole milliseconds, at completion: arrivals are up to \
            1 ms off; log_issue_time=1 records them, where fio knows it";
        self.by_completion.then(|| sentence.to_string()).into_iter().collect()
    }
}

pub(crate) fn sniff(head: &[u8]) -> bool {
    first_lines(head).any(|line| {
        // fio puts a blank behind each comma, which other tables of numbers do not.
        line.split(|&byte| byte == b',').skip(1).all(|field| field.starts_with(b" "))
            && Entry::parse(line).is_ok_and(|entry| entry.direction <= 2)
    })
}

pub(crate) fn open(input: Input) -> Result<Box<dyn Reader>, TraceError> {
    let (log, dictionary) = (FioLatency::default(), anonymous(Some("disk")));
    let splits = input.split_runs;
    Ok(Box::new(Ordered::new(LogReader::new(&input.path, input.content, log, dictionary)).splitting_runs(splits)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tests::{message, read};
    use crate::trace::Record;

    fn summary(records: &[Record]) -> Vec<(u64, Op, u64, u64)> {
        records.iter().map(|r| (r.at.0, r.op, r.offset, r.latency.unwrap().0)).collect()
    }

    #[test]
    fn arrival_is_completion_less_latency() {
        let text = b"0, 203008, 0, 4096, 249856, 0\n5, 3603, 1, 8192, 1970176, 0x2004\r\n\
            6, 7000000, 2, 512, 0, 1\n6, 1, 3, 4096, 0, 0\n";
        let (records, _, notes) = read(open, text);
        // The trim began before the first request that is logged.
        let expected = [
            (0, Op::Trim, 0, 7_000_000),
            (796_992, Op::Read, 249_856, 203_008),
            (5_996_397, Op::Write, 1_970_176, 3_603),
        ];
        assert_eq!(summary(&records), expected);
        assert_eq!((records[2].len, notes.rows_skipped), (8192, 1));
        assert!(notes.warnings[0].contains("log_issue_time"));
    }

    #[test]
    fn issue_times_are_arrivals() {
        let text = b"0, 10, 0, 512, 0, 0, 1500\n0, 10, 0, 512, 512, 0, 1200\n";
        let (records, _, notes) = read(open, text);
        assert_eq!(summary(&records), [(0, Op::Read, 512, 10), (300, Op::Read, 0, 10)]);
        assert!(notes.warnings.is_empty());
    }

    #[test]
    fn logs_without_requests_say_how_to_record_them() {
        for (text, part) in [
            ("1, 9, 0, 4096\n", "log_offset=1"),
            ("1, 9, 0, 4096, 0\n", "log_offset=1"),
            ("1, 9, 0, 4096, 0x2004\n", "log_offset=1"),
            ("1, 9, 0, 0, 0, 0\n", "log_avg_msec"),
            ("1, 9, 0, 512, x, 0\n", "number of bytes"),
            ("1, 9, 0, 512, 0, 0, x\n", "nanoseconds"),
            ("1, 9, 0, 512, 0, 0, 1, 1\n", "end of the line"),
            ("99999999999999999, 9, 0, 512, 0, 0\n", "column time"),
        ] {
            let message = message(open, text.as_bytes());
            assert!(message.contains(", line 1:") && message.contains(part), "{message}");
        }
        let (records, ..) = read(open, b"1, 9, 0, 512, 4096\n2, 9, 0, 512, 0\n");
        assert_eq!((records[0].offset, records[1].offset), (4096, 0));
        assert!(sniff(b"1, 9, 0, 4096, 0\n") && !sniff(b"1,9,0,4096,0,0\n"));
    }
}
