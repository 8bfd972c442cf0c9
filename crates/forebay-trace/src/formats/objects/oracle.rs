//! libCacheSim's oracleGeneral, in which most cache traces are shared: packed little-endian binary
//! records without a header.
//!
//! A record is 24 bytes: time u32 in seconds, object id u64, size u32 in bytes, next use i64. The
//! next use is the number of the next request for the object, or -1 or 2^63 - 1 if there is none.
//! It is meant for optimal eviction; here, it only helps to recognize the format. Epoch: arbitrary;
//! times are converted to be relative to the first request. There are no operations, so every
//! request counts as a read. If a file ends within a record, that part is skipped with a note.

use forebay_core::Op;

use super::{Objects, Source, Use};
use crate::TraceError;
use crate::formats::Input;
use crate::formats::frames::Frames;
use crate::order::Ordered;
use crate::trace::{BATCH, Notes, Reader};

/// The size of a record.
const RECORD_BYTES: usize = 24;
/// The number of records at the start of a file by which the format is recognized.
const SNIFFED: usize = 1000;
/// A number that exceeds the number of requests in any trace.
const REQUESTS_MAX: i64 = 1 << 40;
/// The number of nanoseconds per second.
const SECOND_NS: u64 = 1_000_000_000;

/// A record of the file.
struct OracleRow {
    time_s: u32,
    id: u64,
    size: u32,
    next: i64,
}

impl OracleRow {
    fn of(record: &[u8; RECORD_BYTES]) -> OracleRow {
        let number = |from: usize, bytes: usize| {
            let bytes = record.iter().skip(from).take(bytes);
            bytes.rev().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte))
        };
        OracleRow {
            time_s: number(0, 4) as u32,
            id: number(4, 8),
            size: number(12, 4) as u32,
            next: number(16, 8) as i64,
        }
    }

    /// Returns whether the next use is plausible.
    fn is_plausible(&self) -> bool {
        self.next == -1 || self.next == i64::MAX || (1..REQUESTS_MAX).contains(&self.next)
    }
}

pub(crate) fn sniff(head: &[u8]) -> bool {
    let (records, _) = head.as_chunks::<RECORD_BYTES>();
    let mut last_s = 0;
    let mut fits = |record: &[u8; RECORD_BYTES]| {
        let row = OracleRow::of(record);
        let is_later = row.time_s >= last_s;
        last_s = row.time_s;
        // Erased flash, whose bits are all ones, must not be recognized as this format.
        is_later && row.is_plausible() && row.size < u32::MAX
    };
    !records.is_empty() && records.iter().take(SNIFFED).all(&mut fits)
}

pub(crate) fn open(input: Input) -> Result<Box<dyn Reader>, TraceError> {
    let splits = input.split_runs;
    Ok(Box::new(Ordered::new(Objects::new(Oracle::new(input))).splitting_runs(splits)))
}

/// Reads the records in the order of the file.
struct Oracle {
    frames: Frames,
    ended: bool,
    begun: bool,
}

impl Oracle {
    fn new(input: Input) -> Oracle {
        Oracle { frames: Frames::new(&input.path, input.content), ended: false, begun: false }
    }
}

impl Source for Oracle {
    const NAME: &'static str = "oracle-general";

    fn read(&mut self, uses: &mut Vec<Use>, notes: &mut Notes) -> Result<(), TraceError> {
        if !self.begun {
            self.begun = true;
            let reads = "the format has no operations: every request is assumed to be a read";
            notes.warnings.push(reads.into());
        }
        let mut record = [0; RECORD_BYTES];
        while !self.ended && uses.len() < BATCH {
            if !self.frames.fill(&mut record)? {
                self.ended = true;
                notes.warnings.extend(self.frames.cut_sentence());
                break;
            }
            let row = OracleRow::of(&record);
            if !row.is_plausible() {
                let got = format!("{} as the next request for object {}", row.next, row.id);
                let expected = "a number of a request, or -1 or 2^63 - 1 for none";
                let hint = "is it an intact, uncompressed oracleGeneral file of libCacheSim?";
                return Err(self.frames.malformed(got, expected, hint));
            }
            let at_ns = u64::from(row.time_s) * SECOND_NS;
            uses.push(Use { at_ns, op: Op::Read, id: row.id, size: row.size, begins: false });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::FORMATS;
    use crate::formats::tests::{message, read};

    fn row(time: u32, id: u64, size: u32, next: i64) -> Vec<u8> {
        let (time, id, size) = (time.to_le_bytes(), id.to_le_bytes(), size.to_le_bytes());
        [&time[..], &id, &size, &next.to_le_bytes()].concat()
    }

    #[test]
    fn requests_are_reads_of_objects_at_their_places() {
        let big = u64::MAX;
        let text = [row(50, big, 700, 3), row(50, 2, 10, i64::MAX), row(52, big, 700, -1)].concat();
        assert!(sniff(&text));
        let (records, dictionary, notes) = read(open, &text);
        let seen: Vec<_> = records.iter().map(|r| (r.at.0, r.offset, r.len)).collect();
        assert_eq!(seen, [(0, 0, 700), (0, 1024, 10), (2 * SECOND_NS, 0, 700)]);
        assert!(records.iter().all(|record| record.op == Op::Read));
        assert_eq!((dictionary.volumes, notes.format), (vec!["objects".into()], "oracle-general"));
        assert_eq!(notes.own_block_bytes, Some(512));
        assert!(
            notes.warnings[0].contains("not locations") && notes.warnings[1].contains("a read")
        );
    }

    #[test]
    fn other_records_are_counted_and_a_truncated_end_is_reported() {
        let mut text = [row(1, 1, 0, -1), row(1, 2, 5, -1), row(2, 3, 5, -1)].concat();
        text.truncate(text.len() - 1);
        let (records, _, notes) = read(open, &text);
        assert_eq!((records.len(), notes.rows_skipped), (1, 1));
        assert!(notes.warnings.iter().any(|told| told.contains("byte 48")), "{:?}", notes.warnings);
    }

    #[test]
    fn nonsense_names_its_byte_and_is_not_recognized() {
        let good = row(7, 1, 5, 2);
        for next in [0, -2, REQUESTS_MAX, i64::MIN] {
            let bad = row(8, 1, 5, next);
            let text = message(open, &[good.clone(), bad.clone()].concat());
            assert!(text.contains("byte 24: got ") && text.contains(&next.to_string()), "{text}");
            assert!(!sniff(&[good.clone(), bad].concat()));
        }
        assert!(sniff(&good) && !sniff(&good[..23]) && !sniff(&[]));
        assert!(!sniff(&[good, row(6, 1, 5, -1)].concat()), "time runs backwards");
        let text = b"0,1234,512,R,0.5\n0,1234,512,R,0.5\n0,1234,512,R,0.5\n";
        assert!(!sniff(text) && !sniff(&[0; 240]) && !sniff(&[0xff; 240]));
    }

    #[test]
    fn no_other_format_accepts_the_file() {
        let rows: Vec<u8> = (0..5000).flat_map(|n| row(n / 9, n.into(), n + 1, i64::MAX)).collect();
        let first = FORMATS.iter().find(|format| format.sniff(&rows));
        assert_eq!(first.map(|format| format.name), Some("oracle-general"));
    }
}
