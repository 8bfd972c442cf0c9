//! VMware vSCSI traces as published by CloudPhysics: little-endian binary records without a header.
//!
//! - Version 1, 32 bytes: serial u32, length u32, scatter-gather elements u32, SCSI operation u16,
//!   version u16 (0x100), block u64, time u64.
//! - Version 2, 40 bytes: operation u16, version u16 (0x200), serial u32, length u32,
//!   scatter-gather elements u32, block u64, time u64, response u64. We have no published trace of
//!   this version. Its layout is that of the public readers for these traces. The response is
//!   assumed to be in microseconds like the time, with a warning.
//!
//! Units: length in bytes, blocks of 512 bytes, time in microseconds. Epoch: arbitrary; times are
//! converted to be relative to the first request. The version is detected from the content. A file
//! is one virtual disk; the submitters of requests are not recorded. Reads, writes and cache
//! flushes are kept; other operations are skipped and counted.

use std::io::{BufRead, Cursor, Read};
use std::path::Path;

use forebay_core::{Nanos, Op};

use super::{Frames, anonymous};
use crate::bad_rows::{BadRows, BadRowsMax};
use crate::columns::meaning;
use crate::formats::Input;
use crate::order::Ordered;
use crate::trace::{BATCH, Dictionary, Notes, Reader, Record};
use crate::{TraceError, rows};

/// The size of a block.
const BLOCK_BYTES: u64 = 512;

/// The number of records at the start of a file that are examined to recognize the format, and the
/// share of them that may be damaged: one in this many, or a single one if there are at least
/// [`FEW`].
const SNIFFED: usize = 16;
const DAMAGED_SHARE: usize = 8;
const FEW: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The contents of a record.
struct Command {
    operation: u16,
    len_bytes: u32,
    block: u64,
    time_us: u64,
    response_us: Option<u64>,
}

impl Version {
    const fn record_bytes(self) -> usize {
        match self {
            Version::One => 32,
            Version::Two => 40,
        }
    }

    /// Detects the version of a record by the two half-words that may contain it.
    fn of(record: &[u8]) -> Option<Version> {
        let operation_fits = |at: usize| record.get(at + 1) == Some(&0);
        match () {
            () if record.get(14..16)? == [0, 1] && operation_fits(12) => Some(Version::One),
            () if record.get(2..4)? == [0, 2] && operation_fits(0) => Some(Version::Two),
            () => None,
        }
    }

    fn command(self, record: &[u8]) -> Command {
        let number = |at: usize, bytes: usize| {
            let bytes = record.get(at..at + bytes).unwrap_or_default();
            bytes.iter().rev().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte))
        };
        let (operation, len) = match self {
            Version::One => (12, 4),
            Version::Two => (0, 8),
        };
        Command {
            operation: number(operation, 2) as u16,
            len_bytes: number(len, 4) as u32,
            block: number(16, 8),
            time_us: number(24, 8),
            response_us: (self == Version::Two).then(|| number(32, 8)),
        }
    }
}

impl Command {
    /// Returns the operation of the SCSI command, if traces include such requests.
    fn op(&self) -> Option<Op> {
        match self.operation {
            0x08 | 0x28 | 0x88 | 0xa8 => Some(Op::Read),
            // The last three commands also verify what they wrote.
            0x0a | 0x2a | 0x8a | 0xaa | 0x2e | 0x8e | 0xae => Some(Op::Write),
            0x35 | 0x91 => Some(Op::Flush),
            _ => None,
        }
    }
}

impl Version {
    /// Detects the version of most of the first records. A few may be damaged.
    fn of_most(head: &[u8]) -> Option<Version> {
        [Version::One, Version::Two].into_iter().find(|version| {
            let records = || head.chunks_exact(version.record_bytes()).take(SNIFFED);
            let intact = records().filter(|record| Version::of(record) == Some(*version)).count();
            let (all, damaged) = (records().len(), records().len() - intact);
            intact > 0 && damaged <= (all / DAMAGED_SHARE).max(usize::from(all >= FEW))
        })
    }
}

pub(crate) fn sniff(head: &[u8]) -> bool {
    Version::of_most(head).is_some()
}

pub(crate) fn open(input: Input) -> Result<Box<dyn Reader>, TraceError> {
    let splits = input.split_runs;
    let vscsi = Vscsi::new(&input.path, input.content, input.bad_rows_max)?;
    Ok(Box::new(Ordered::new(vscsi).splitting_runs(splits)))
}

/// Reads the records in the order of the file.
struct Vscsi {
    frames: Frames,
    version: Version,
    dictionary: Dictionary,
    notes: Notes,
    /// The number of readable records.
    read: u64,
    bad: BadRows,
    ended: bool,
}

impl Vscsi {
    fn new(
        path: &Path,
        mut content: Box<dyn BufRead + Send>,
        bad_rows_max: BadRowsMax,
    ) -> Result<Vscsi, TraceError> {
        let mut head = Vec::new();
        let sniffed = SNIFFED * Version::Two.record_bytes();
        let read = content.by_ref().take(sniffed as u64).read_to_end(&mut head);
        read.map_err(|source| TraceError::Io { path: path.to_path_buf(), source })?;
        let version = Version::of_most(&head).or_else(|| Version::of(&head));
        let frames = Frames::new(path, Box::new(Cursor::new(head).chain(content)));
        let Some(version) = version else {
            return Err(unknown_version(&frames));
        };
        let columns = meaning::of_format("vscsi");
        let mut notes = Notes { format: "vscsi", columns, ..Notes::default() };
        if version == Version::Two {
            notes.warnings.push(
                "the response times of vSCSI version 2 are assumed to be microseconds after the \
                 request's time; the description of the format does not specify this"
                    .into(),
            );
        }
        let (dictionary, bad) = (anonymous(Some("disk")), BadRows::new(bad_rows_max));
        Ok(Vscsi { frames, version, dictionary, notes, read: 0, bad, ended: false })
    }

    /// Returns the request in a record, or `None` if it is skipped.
    fn request(&self, record: &[u8]) -> Result<Option<Record>, TraceError> {
        if Version::of(record) != Some(self.version) {
            return Err(unknown_version(&self.frames));
        }
        let command = self.version.command(record);
        let ns = |us: u64, what: &str| {
            us.checked_mul(1000).ok_or_else(|| {
                let got = format!("a {what} of {us} us");
                self.frames.malformed(got, "microseconds below 2^64 ns", "")
            })
        };
        let Some(op) = command.op() else { return Ok(None) };
        let (offset, len) = match op {
            Op::Flush => (0, 0),
            _ => (command.block.saturating_mul(BLOCK_BYTES), u64::from(command.len_bytes)),
        };
        if len == 0 && op != Op::Flush {
            return Ok(None);
        }
        let mut request = rows::record(ns(command.time_us, "time")?, op, offset, len)
            .map_err(|wrong| self.frames.row_error(wrong))?;
        request.latency = command.response_us.map(|us| ns(us, "response")).transpose()?.map(Nanos);
        Ok(Some(request))
    }
}

fn unknown_version(frames: &Frames) -> TraceError {
    frames.malformed(
        "a record of an unknown version".into(),
        "a vSCSI record: version 0x100 at byte 14 of 32, or 0x200 at byte 2 of 40",
        "is it an intact, uncompressed vSCSI trace in binary form?",
    )
}

impl Reader for Vscsi {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        let mut buffer = [0; Version::Two.record_bytes()];
        let record = buffer.split_at_mut(self.version.record_bytes()).0;
        while !self.ended && batch.len() < BATCH {
            if !self.frames.fill(record)? {
                self.ended = true;
                self.notes.warnings.extend(self.frames.cut_sentence());
                self.notes.warnings.extend(self.bad.finish(self.read)?);
                break;
            }
            let record = self.request(record);
            self.bad.take(record, &mut self.read, &mut self.notes, batch)?;
        }
        Ok(())
    }

    fn found(&self) -> (&Dictionary, &Notes) {
        (&self.dictionary, &self.notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tests::{leniently, message, read};

    fn one(operation: u16, len: u32, block: u64, time: u64) -> Vec<u8> {
        let mut record = Vec::new();
        record.extend(7u32.to_le_bytes());
        record.extend(len.to_le_bytes());
        record.extend(1u32.to_le_bytes());
        record.extend(operation.to_le_bytes());
        record.extend(0x100u16.to_le_bytes());
        record.extend(block.to_le_bytes());
        record.extend(time.to_le_bytes());
        record
    }

    fn two(operation: u16, len: u32, block: u64, time: u64, response: u64) -> Vec<u8> {
        let mut record = Vec::new();
        record.extend(operation.to_le_bytes());
        record.extend(0x200u16.to_le_bytes());
        for word in [9u32, len, 1] {
            record.extend(word.to_le_bytes());
        }
        for word in [block, time, response] {
            record.extend(word.to_le_bytes());
        }
        record
    }

    #[test]
    fn both_versions_are_told_by_content() {
        let text = [one(0x2a, 4096, 3, 1_000_005), one(0x28, 512, 1 << 40, 1_000_002)].concat();
        let (records, dictionary, notes) = read(open, &text);
        let seen: Vec<_> = records.iter().map(|r| (r.at.0, r.op, r.offset, r.len)).collect();
        let expected = [(0, Op::Read, 512 << 40, 512), (3_000, Op::Write, 1536, 4096)];
        assert_eq!(seen, expected);
        assert_eq!((dictionary.volumes, notes.warnings.len()), (vec!["disk".to_string()], 0));
        let text = [two(0x88, 8192, 5, 40, 7), two(0x35, 0, 0, 41, 9)].concat();
        assert!(sniff(&text));
        let (records, _, notes) = read(open, &text);
        assert_eq!((records[0].offset, records[0].len), (2560, 8192));
        assert_eq!(records[0].latency, Some(Nanos(7_000)));
        assert_eq!((records[1].op, records[1].at.0), (Op::Flush, 1_000));
        assert!(notes.warnings[0].contains("version 2"));
    }

    #[test]
    fn other_records_are_counted_and_a_truncated_end_is_reported() {
        let mut text = [one(0x12, 36, 0, 1), one(0x28, 0, 4, 2), one(0x28, 8, 4, 3)].concat();
        text.truncate(text.len() - 3);
        let (records, _, notes) = read(open, &[text, Vec::new()].concat());
        assert_eq!((records.len(), notes.rows_skipped), (0, 2));
        assert!(notes.warnings[0].contains("byte 64"), "{:?}", notes.warnings);
    }

    #[test]
    fn a_few_odd_records_are_counted() {
        let good = |n: u64| one(0x28, 512, n, n * 1000);
        for bad in [
            vec![0xff; 32],
            vec![0; 32],
            one(0x28, u32::MAX, 4, 3),
            one(0x28, 512, u64::MAX, 3),
            one(0x28, 512, 4, u64::MAX),
        ] {
            for (count, places) in [(200, vec![0, 1, 15, 100, 200]), (5, vec![0, 3, 5])] {
                for place in places {
                    let mut records: Vec<Vec<u8>> = (0..count).map(good).collect();
                    records.insert(place, bad.clone());
                    let text = records.concat();
                    assert!(sniff(&text), "{place}: {bad:?}");
                    let (records, _, notes) = read(leniently(open), &text);
                    assert_eq!((records.len() as u64, notes.rows_bad), (count, 1), "{place}");
                    let told = format!("is left out: byte {}", place * 32);
                    assert!(notes.warnings[0].contains(&told), "{notes:?}");
                }
            }
            let many: Vec<Vec<u8>> =
                (0..1000).map(|n| if n % 10 == 9 { bad.clone() } else { good(n) }).collect();
            let text = message(leniently(open), &many.concat());
            assert!(
                text.contains("cannot be read; at most 1 % (and always one row) is skipped"),
                "{text}"
            );
        }
    }

    #[test]
    fn nonsense_names_its_byte() {
        let good = one(0x28, 512, 4, 3);
        let text = message(open, &[good.clone(), vec![0xff; 32]].concat());
        assert!(text.contains("byte 32") && text.contains("unknown version"), "{text}");
        let text = message(open, &[good.clone(), one(0x28, u32::MAX, 4, 3)].concat());
        assert!(text.contains("byte 32") && text.contains("1 GiB"), "{text}");
        assert!(message(open, &one(0x28, 512, u64::MAX, 3)).contains("2^63"));
        assert!(message(open, &one(0x28, 512, 4, u64::MAX)).contains("time"));
        assert!(sniff(&good) && !sniff(&good[..31]));
        assert!(!sniff(b"0,1234,512,R,0.5\n0,1234,512,R,0.5\n"));
    }
}
