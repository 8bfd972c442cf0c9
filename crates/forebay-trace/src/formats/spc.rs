//! SPC trace format: `ASU,LBA,Size,Opcode,Timestamp`, no header; further fields are allowed.
//!
//! Units: LBA in blocks of 512 bytes from the start of its ASU (application storage unit, here a
//! volume), Size in bytes, Timestamp in decimal seconds from the start of the trace, made relative
//! to the first request. Opcode is R or W in either case. Neither latencies nor who submitted a
//! request are recorded. Rows of zero length are skipped and counted.

use std::collections::BTreeMap;

use forebay_core::Op;

use crate::error::TraceError;
use crate::fields::Fields;
use crate::formats::Input;
use crate::order::Ordered;
use crate::rows::{self, Row, Rows, Wrong};
use crate::trace::{Dictionary, Reader, Record};

/// Bytes in a block.
const BLOCK_BYTES: u64 = 512;

pub(crate) fn sniff(head: &[u8]) -> bool {
    rows::sniff::<Spc>(head)
}

pub(crate) fn open(input: Input) -> Result<Box<dyn Reader>, TraceError> {
    Ok(Box::new(Ordered::new(Rows::<Spc>::new(&input.path, input.content))))
}

/// Remembers the ASUs seen.
#[derive(Default)]
struct Spc {
    volumes: BTreeMap<u64, u32>,
}

impl Row for Spc {
    const NAME: &'static str = "spc";
    const COLUMNS: &'static str = "ASU,LBA,Size,Opcode,Timestamp";

    #[inline]
    fn row(&mut self, line: &[u8], dictionary: &mut Dictionary) -> Result<Record, Wrong> {
        let mut fields = Fields::new(line);
        let asu = fields.number("ASU")?;
        let lba = fields.number("LBA")?;
        let len = fields.number("Size")?;
        let op = match fields.bytes("Opcode")? {
            b"R" | b"r" => Op::Read,
            b"W" | b"w" => Op::Write,
            other => return Err(Wrong::new("Opcode", other, "R or W")),
        };
        let at = fields.seconds_as_ns("Timestamp")?;
        let offset = lba.checked_mul(BLOCK_BYTES).ok_or_else(|| {
            Wrong::new("LBA", lba.to_string().as_bytes(), "a request that ends below 2^63 bytes")
        })?;
        let mut record = rows::record(at, op, offset, len)?;
        record.volume = *self.volumes.entry(asu).or_insert_with(|| {
            dictionary.volumes.push(asu.to_string());
            (dictionary.volumes.len() - 1) as u32
        });
        Ok(record)
    }

    fn is_header(line: &[u8]) -> bool {
        let first = line.split(|&b| b == b',').next().unwrap_or_default();
        first.trim_ascii().eq_ignore_ascii_case(b"asu")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tests::{message, read};

    #[test]
    fn rows_keep_every_field() {
        let text = "ASU,LBA,Size,Opcode,Timestamp\n7,20941264,8192,W,0.551706\r\n\
                    0,20939840,8192,r,0.554041,extra,1\n0,1,0,R,0.6\n";
        let (records, dictionary, notes) = read(open, text.as_bytes());
        assert_eq!(dictionary.volumes, ["7", "0"]);
        assert_eq!((dictionary.streams.len(), notes.rows_skipped), (1, 1));
        let fields = |r: &Record| (r.at.0, r.offset, r.latency, r.len, r.volume, r.op);
        assert_eq!(fields(&records[0]), (0, 20_941_264 * 512, None, 8192, 0, Op::Write));
        assert_eq!(fields(&records[1]), (2_335_000, 20_939_840 * 512, None, 8192, 1, Op::Read));
    }

    #[test]
    fn messages_name_line_and_column() {
        for (bad, expected) in [
            ("0,1,512,T,0.1", "got \"T\" in column Opcode, expected R or W"),
            ("0,1,512,R,-0.1", "got \"-0.1\" in column Timestamp, expected seconds"),
            ("0,36028797018963968,512,R,1", "in column LBA"),
            ("0,1,4294967808,R,1", "got \"4294967808\" in column Size"),
            ("0,1,512,R", "got the end of the line in column Timestamp"),
            ("ASU,1,512,R,1", "got \"ASU\" in column ASU"),
        ] {
            let text = message(open, format!("0,1,512,R,0.1\n{bad}").as_bytes());
            assert!(text.contains("line 2: ") && text.contains(expected), "{text}");
        }
    }
}
