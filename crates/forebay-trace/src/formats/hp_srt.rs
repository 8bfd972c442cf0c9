//! SRT traces of HP Labs, version 1.3: a text header that ends with a form feed (0x0C), then
//! big-endian records of 14 words of 32 bits.
//!
//! The words are: size of the record in bytes, kind (0x40001 is a request), seconds, microseconds,
//! start, completion, bytes, block, device, driver type, cylinder, flags, info, queue length at
//! arrival.
//!
//! Units: seconds and microseconds are the arrival, relative to the header's `tracedate` (which is
//! not used, because the epoch is the first request). Start and completion are in microseconds from
//! the arrival, so the completion is the latency. The block is in units of the disk's `sectorsize`
//! in the header (256 if missing), counted from the start of the disk rather than of the section,
//! as the cylinders show. Bit 0 of the flags is set for reads; the others are buffer flags of
//! HP-UX, which are dropped.
//!
//! The device is major << 24 | disk << 8 | section. Each disk is a volume, `host.disk`, because the
//! sections of a disk share its addresses. The submitters of requests are not recorded. As the
//! closest substitute, streams are named after the use of the section in the header (`/`,
//! `<swap>`).

mod header;

use forebay_words::plural::{counted, verb};
use std::io::BufRead;
use std::path::Path;

use forebay_core::{Nanos, Op};

use super::frames::Frames;
use super::numbering::Numbering;
use crate::TraceError;
use crate::bad_rows::{BadRows, BadRowsMax};
use crate::columns::meaning;
use crate::formats::Input;
use crate::order::Ordered;
use crate::rows::{self, shorten};
use crate::trace::{BATCH, Dictionary, Notes, Reader, Record, Stream};
use header::Header;

/// The beginning of every SRT file.
const SIGNATURE: &[u8] = b"$$TR_IOREC-";

/// The maximum plausible length of the header in bytes.
const HEADER_BYTES_MAX: u64 = 1 << 20;

/// The kind of records that are requests, and their size in bytes.
const REQUEST: i32 = 0x40001;
const REQUEST_BYTES: usize = 56;

/// The maximum plausible length of a record in bytes.
const RECORD_BYTES_MAX: usize = 1 << 12;

pub(crate) fn sniff(head: &[u8]) -> bool {
    head.starts_with(SIGNATURE)
}

pub(crate) fn open(input: Input) -> Result<Box<dyn Reader>, TraceError> {
    let splits = input.split_runs;
    let srt = HpSrt::new(&input.path, input.content, input.bad_rows_max)?;
    Ok(Box::new(Ordered::new(srt).splitting_runs(splits)))
}

/// Converts the records of a file to requests, in the order of the file.
struct HpSrt {
    frames: Frames,
    header: Header,
    who: Numbering,
    dictionary: Dictionary,
    notes: Notes,
    /// The number of records of other kinds, and of requests without a completion.
    others: u64,
    unfinished: u64,
    /// The number of readable records.
    read: u64,
    bad: BadRows,
    ended: bool,
}

impl HpSrt {
    fn new(
        path: &Path,
        content: Box<dyn BufRead + Send>,
        bad_rows_max: BadRowsMax,
    ) -> Result<HpSrt, TraceError> {
        let mut frames = Frames::new(path, content);
        let text = frames.until(0x0c, HEADER_BYTES_MAX)?;
        let version = text.strip_prefix(SIGNATURE).unwrap_or_default();
        if !version.starts_with(b"1.3") {
            let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
            let expected = "$$TR_IOREC-1.3, the only supported version of SRT";
            return Err(frames.malformed(shorten(line), expected, ""));
        }
        Ok(HpSrt {
            frames,
            header: Header::parse(&text),
            who: Numbering::default(),
            dictionary: Dictionary::default(),
            notes: Notes {
                format: "hp-srt",
                columns: meaning::of_format("hp-srt"),
                ..Notes::default()
            },
            others: 0,
            unfinished: 0,
            read: 0,
            bad: BadRows::new(bad_rows_max),
            ended: false,
        })
    }

    /// Returns the words of the next request, or `None` at the end.
    fn words(&mut self) -> Result<Option<[i32; 14]>, TraceError> {
        let mut record = [0; RECORD_BYTES_MAX];
        loop {
            let (begin, rest) = record.split_at_mut(8);
            if !self.frames.fill(begin)? {
                return Ok(None);
            }
            if let Err(error) = self.body_bytes(begin)
                && !self.leave_out(error, begin)?
            {
                return Ok(None);
            }
            let body = self.body_bytes(begin).ok().and_then(|bytes| rest.get_mut(..bytes));
            let Some(body) = body else { continue };
            if !self.frames.fill(body)? {
                self.frames.mark_cut();
                return Ok(None);
            }
            if word(&record, 1) == REQUEST {
                return Ok(Some(std::array::from_fn(|index| word(&record, index))));
            }
            self.others += 1;
        }
    }

    /// Returns the number of bytes that follow the first two words of a record.
    fn body_bytes(&self, begin: &[u8]) -> Result<usize, TraceError> {
        let (size, kind) = (word(begin, 0), word(begin, 1));
        let bytes = usize::try_from(size).ok().and_then(|size| size.checked_sub(8));
        match bytes.filter(|bytes| *bytes <= RECORD_BYTES_MAX - 8) {
            None => {
                let hint = "is the file damaged, or copied as text?";
                let got = format!("a record of {size} bytes");
                Err(self.frames.malformed(got, "8 to 4096, mostly 56", hint))
            }
            Some(bytes) if kind == REQUEST && bytes + 8 != REQUEST_BYTES => {
                let got = format!("a request of {size} bytes");
                Err(self.frames.malformed(got, "56: 14 words", ""))
            }
            Some(bytes) => Ok(bytes),
        }
    }

    /// Skips a record with a wrong beginning, up to the next request, whose beginning replaces
    /// `begin`. Returns whether there is one.
    fn leave_out(&mut self, error: TraceError, begin: &mut [u8]) -> Result<bool, TraceError> {
        self.notes.rows_bad += 1;
        self.bad.add(self.read, || error)?;
        loop {
            begin.copy_within(4.., 0);
            if !self.frames.fill(&mut begin[4..])? {
                return Ok(false);
            }
            if (word(begin, 0), word(begin, 1)) == (REQUEST_BYTES as i32, REQUEST) {
                return Ok(true);
            }
        }
    }

    /// Converts a record to a request. Returns `None` if its length is zero.
    fn request(&mut self, words: [i32; 14]) -> Result<Option<Record>, TraceError> {
        let [_, _, seconds, microseconds, _, completion, bytes, block, device, _, _, flags, ..] =
            words;
        let unsigned = |value: i32, what: &str| {
            u64::try_from(value).map_err(|_| {
                self.frames.malformed(format!("{value} as the {what}"), "a number from 0", "")
            })
        };
        let (seconds, microseconds) =
            (unsigned(seconds, "seconds")?, unsigned(microseconds, "microseconds")?);
        if microseconds >= 1_000_000 {
            let got = format!("{microseconds} as the microseconds");
            return Err(self.frames.malformed(got, "less than 1000000", ""));
        }
        let (bytes, block) = (unsigned(bytes, "bytes")?, unsigned(block, "block")?);
        if bytes == 0 {
            return Ok(None);
        }
        let (disk, section) = (device as u32 >> 8 & 0xffff, device as u32 & 0xff);
        let op = if flags & 1 == 1 { Op::Read } else { Op::Write };
        let at_ns = seconds * 1_000_000_000 + microseconds * 1000;
        let offset = block * self.header.sector_bytes(disk);
        let mut record =
            rows::record(at_ns, op, offset, bytes).map_err(|wrong| self.frames.row_error(wrong))?;
        // A request that never completed has a time of zero or less.
        match u64::try_from(completion) {
            Ok(us) if us > 0 => record.latency = Some(Nanos::from_micros(us)),
            _ => self.unfinished += 1,
        }
        let volume = format!("{}.{disk}", self.header.host());
        let volume = self.who.volume(volume.as_bytes(), &mut self.dictionary);
        let stream = Stream { name: self.header.section(disk, section), ..Stream::default() };
        let stream = self.who.stream(stream, &mut self.dictionary);
        record.volume = volume.map_err(|wrong| self.frames.row_error(wrong))?;
        record.stream = stream.map_err(|wrong| self.frames.row_error(wrong))?;
        Ok(Some(record))
    }

    fn finish(&mut self) -> Result<(), TraceError> {
        self.ended = true;
        self.notes.warnings.extend(self.frames.cut_sentence());
        self.notes.warnings.extend(self.bad.finish(self.read)?);
        if self.others > 0 {
            let (records, are) = (counted(self.others, "record"), verb(self.others, "is", "are"));
            let sentence = format!("{records} {are} not requests");
            self.notes.warnings.push(sentence);
        }
        if self.unfinished > 0 {
            let requests = counted(self.unfinished, "request");
            let have = verb(self.unfinished, "has", "have");
            let sentence = format!("{requests} {have} no completion: the latency is unknown");
            self.notes.warnings.push(sentence);
        }
        Ok(())
    }
}

/// Returns a word of a record as a number; words are big-endian.
fn word(record: &[u8], index: usize) -> i32 {
    let bytes = record.get(index * 4..).and_then(|rest| rest.first_chunk::<4>());
    bytes.map_or(0, |bytes| i32::from_be_bytes(*bytes))
}

impl Reader for HpSrt {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        while !self.ended && batch.len() < BATCH {
            let Some(words) = self.words()? else {
                self.finish()?;
                break;
            };
            let record = self.request(words);
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

    const HEADER: &str = "$$TR_IOREC-1.3 (x)\nversion = 1.3;\nsystem = \"a.b.c\";\n\
        tracedate = \"Thu Jan 99 00:00:00 0000\";\ndisks = { 3 -> { sectorsize = 1024, \
        sections = { 8 -> { \"/home\", size = (0 5) } } } };\n\x0c";

    fn record(words: &[i32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    /// Creates a record from arrival, completion, bytes, block, device and flags.
    fn request([seconds, us, done, bytes, block, device, flags]: [i32; 7]) -> Vec<u8> {
        record(&[56, REQUEST, seconds, us, 5, done, bytes, block, device, 4, 0, flags, 0, 1])
    }

    fn file(records: &[Vec<u8>]) -> Vec<u8> {
        [HEADER.as_bytes().to_vec(), records.concat()].concat()
    }

    const DISK_3: i32 = 0x0800_0308;

    #[test]
    fn requests_have_disk_section_and_latency() {
        let bytes = file(&[
            request([7, 999_999, 1500, 2048, 3, DISK_3, 0]),
            record(&[16, 0x40002, 1, 2]),
            request([7, 5, 2, 512, 9, 0x0700_0108, 27]),
            request([8, 0, -1, 512, 0, DISK_3, 1]),
            request([8, 0, 9, 0, 0, DISK_3, 1]),
        ]);
        let (records, dictionary, notes) = read(open, &bytes);
        let seen: Vec<_> = records.iter().map(|r| (r.at.0, r.op, r.offset, r.len)).collect();
        let expected = [
            (0, Op::Read, 9 * 256, 512),
            (999_994_000, Op::Write, 3 * 1024, 2048),
            (999_995_000, Op::Read, 0, 512),
        ];
        assert_eq!(seen, expected);
        let latencies: Vec<_> = records.iter().map(|r| r.latency).collect();
        assert_eq!(latencies, [Some(Nanos(2_000)), Some(Nanos(1_500_000)), None]);
        assert_eq!(dictionary.volumes, ["a.3", "a.1"]);
        let names: Vec<&str> = dictionary.streams.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["/home", "section 8"]);
        // The second log begins most of a second before the first. This cannot happen in two logs
        // of the same host.
        assert_eq!((notes.rows_skipped, notes.warnings.len()), (1, 3));
    }

    #[test]
    fn a_cut_end_is_reported() {
        let mut bytes = file(&[request([1, 0, 9, 512, 0, DISK_3, 1])]);
        bytes.extend(request([2, 0, 9, 512, 0, DISK_3, 1]).split_at(30).0);
        let (records, _, notes) = read(open, &bytes);
        assert_eq!((records.len(), notes.warnings.len()), (1, 1));
        assert!(notes.warnings[0].contains("is truncated"));
    }

    #[test]
    fn a_few_odd_records_are_counted() {
        let good = |n: i32| request([n, 0, 9, 512, n, DISK_3, 1]);
        for bad in [
            record(&[0, 1]),
            record(&[-5, REQUEST, 1, 2]),
            record(&[5000, REQUEST, 1]),
            record(&[12, REQUEST, 3]),
            request([-1, 0, 9, 512, 0, DISK_3, 1]),
            request([1, 1_000_000, 9, 512, 0, DISK_3, 1]),
            request([1, 0, 9, i32::MAX, 0, DISK_3, 1]),
            vec![0xff; 56],
        ] {
            for place in [0, 1, 50, 200] {
                let mut records: Vec<Vec<u8>> = (1..=200).map(good).collect();
                records.insert(place, bad.clone());
                let (records, _, notes) = read(leniently(open), &file(&records));
                assert_eq!((records.len(), notes.rows_bad), (200, 1), "{place}: {bad:?}");
                let told = "1 row cannot be read and is left out: byte ";
                assert!(notes.warnings[0].starts_with(told), "{notes:?}");
            }
            let many: Vec<Vec<u8>> = (1..=100).flat_map(|n| [good(n), bad.clone()]).collect();
            let text = message(leniently(open), &file(&many));
            assert!(
                text.contains("cannot be read; at most 1 % (and always one row) is skipped"),
                "{text}"
            );
        }
    }

    #[test]
    fn nonsense_names_its_byte() {
        let start = HEADER.len();
        let told = |bytes: &[u8]| message(open, bytes);
        for (bad, part) in [
            (record(&[0, 1]), "0 bytes"),
            (record(&[-5, REQUEST]), "-5 bytes"),
            (record(&[5000, REQUEST]), "5000 bytes"),
            (record(&[12, REQUEST, 3]), "56: 14 words"),
            (request([-1, 0, 9, 512, 0, DISK_3, 1]), "seconds"),
            (request([1, 1_000_000, 9, 512, 0, DISK_3, 1]), "microseconds"),
            (request([1, 0, 9, -512, 0, DISK_3, 1]), "bytes"),
            (request([1, 0, 9, i32::MAX, 0, DISK_3, 1]), "1 GiB"),
            (request([1, 0, 9, 512, -2, DISK_3, 1]), "block"),
        ] {
            let text = told(&file(&[bad]));
            let at = text.contains(&format!("byte {start}"))
                || text.contains(&format!("byte {}", start + 8));
            assert!(at && text.contains(part), "{text}");
        }
        assert!(told(b"$$TR_IOREC-1.3 no form feed").contains("0x0c"));
        assert!(told(b"$$TR_IOREC-1.4\n\x0c").contains("1.3, the only supported version"));
        assert!(sniff(HEADER.as_bytes()));
    }
}
