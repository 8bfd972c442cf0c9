//! MSR Cambridge: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, no header.
//!
//! Units: Timestamp and ResponseTime in ticks of 100 ns; Timestamp counts from 1601-01-01 UTC
//! (Windows FILETIME) and is made relative to the first request; Offset and Size in bytes. Type is
//! `Read` or `Write`. ResponseTime is the latency. A volume is `Hostname.DiskNumber`; who submitted
//! a request is not recorded. Rows of zero length are skipped and counted.

use std::collections::BTreeMap;

use forebay_core::{Nanos, Op};

use crate::error::TraceError;
use crate::fields::Fields;
use crate::formats::Input;
use crate::order::Ordered;
use crate::rows::{self, Row, Rows, Wrong};
use crate::trace::{Dictionary, Reader, Record};

/// Nanoseconds in one tick.
const TICK_NS: u64 = 100;

pub(crate) fn sniff(head: &[u8]) -> bool {
    rows::sniff::<Msr>(head)
}

pub(crate) fn open(input: Input) -> Result<Box<dyn Reader>, TraceError> {
    Ok(Box::new(Ordered::new(Rows::<Msr>::new(&input.path, input.content))))
}

/// Remembers the volumes seen.
#[derive(Default)]
struct Msr {
    volumes: BTreeMap<(Vec<u8>, u64), u32>,
    /// The volume of the last row, which is nearly always that of the next.
    last: Option<(Vec<u8>, u64, u32)>,
}

impl Msr {
    #[inline]
    fn volume(&mut self, host: &[u8], disk: u64, dictionary: &mut Dictionary) -> u32 {
        match &self.last {
            Some((h, d, volume)) if *d == disk && h == host => *volume,
            _ => self.other_volume(host, disk, dictionary),
        }
    }

    #[cold]
    fn other_volume(&mut self, host: &[u8], disk: u64, dictionary: &mut Dictionary) -> u32 {
        let volume = *self.volumes.entry((host.to_vec(), disk)).or_insert_with(|| {
            dictionary.volumes.push(format!("{}.{disk}", String::from_utf8_lossy(host)));
            (dictionary.volumes.len() - 1) as u32
        });
        self.last = Some((host.to_vec(), disk, volume));
        volume
    }
}

#[inline]
fn ticks_as_ns(ticks: u64, column: &'static str) -> Result<u64, Wrong> {
    ticks.checked_mul(TICK_NS).ok_or_else(|| {
        Wrong::new(column, ticks.to_string().as_bytes(), "100 ns ticks below 2^64 ns")
    })
}

impl Row for Msr {
    const NAME: &'static str = "msr";
    const COLUMNS: &'static str = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";

    #[inline]
    fn row(&mut self, line: &[u8], dictionary: &mut Dictionary) -> Result<Record, Wrong> {
        let mut fields = Fields::new(line);
        let at = ticks_as_ns(fields.number("Timestamp")?, "Timestamp")?;
        let host = fields.bytes("Hostname")?;
        let disk = fields.number("DiskNumber")?;
        let kind = fields.bytes("Type")?;
        let op = match kind {
            b"Read" => Op::Read,
            b"Write" => Op::Write,
            _ if kind.eq_ignore_ascii_case(b"read") => Op::Read,
            _ if kind.eq_ignore_ascii_case(b"write") => Op::Write,
            _ => return Err(Wrong::new("Type", kind, "Read or Write")),
        };
        let offset = fields.number("Offset")?;
        let len = fields.number("Size")?;
        let latency = ticks_as_ns(fields.number("ResponseTime")?, "ResponseTime")?;
        let mut record = rows::record(at, op, offset, len)?;
        record.latency = Some(Nanos(latency));
        record.volume = self.volume(host, disk, dictionary);
        Ok(record)
    }

    fn is_header(line: &[u8]) -> bool {
        let first = line.split(|&b| b == b',').next().unwrap_or_default();
        first.trim_ascii().eq_ignore_ascii_case(b"timestamp")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tests::{message, read};

    #[test]
    fn rows_keep_every_field() {
        let text = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\r\n\
                    128166385295514663,hm,0,Write,9056014336,2048,2833\r\n\n\
                    128166385295514662,hm,1,read,512,0,1\n\
                    128166385295514672,hm,1,read,512,1024,7";
        let (records, dictionary, notes) = read(open, text.as_bytes());
        assert_eq!(dictionary.volumes, ["hm.0", "hm.1"]);
        assert_eq!((notes.format, notes.rows_skipped), ("msr", 1));
        let fields = |r: &Record| (r.at.0, r.offset, r.latency, r.len, r.volume, r.op);
        let latency = |ns| Some(Nanos(ns));
        assert_eq!(fields(&records[0]), (0, 9_056_014_336, latency(283_300), 2048, 0, Op::Write));
        assert_eq!(fields(&records[1]), (900, 512, latency(700), 1024, 1, Op::Read));
    }

    #[test]
    fn messages_name_line_and_column() {
        let good = "128166385295514663,hm,0,Write,9056014336,2048,2833\n";
        for (bad, expected) in [
            ("1,hm,0,Trim,0,512,1", "got \"Trim\" in column Type, expected Read or Write"),
            ("1,hm,0,Read,-512,512,1", "got \"-512\" in column Offset"),
            ("1,hm,0,Read,0,1073741825,1", "column Size, expected at most 1 GiB"),
            ("1,hm,0,Read,9223372036854775807,512,1", "column Offset, expected a request that"),
            ("1,hm,0,Read,0,512", "got the end of the line in column ResponseTime"),
            ("200000000000000000,hm,0,Read,0,512,1", "column Timestamp, expected 100 ns ticks"),
        ] {
            let text = message(open, format!("{good}\n{bad}\n").as_bytes());
            assert!(text.contains("line 3: ") && text.contains(expected), "{text}");
        }
    }
}
