//! fio's latency logs (`write_lat_log` with `log_offset=1`): `time, value, direction, block size,
//! offset, priority`, and also the issue time with `log_issue_time=1`.
//!
//! Units: the time is in milliseconds from the start of the job to the completion of the request,
//! the value is the latency in nanoseconds, the block size and the offset are in bytes, and the
//! issue time is in nanoseconds. Direction 0 is a read, 1 a write, 2 a trim; others are skipped and
//! counted. The arrival is the issue time if the log contains it. Otherwise, it is the completion
//! minus the latency, with an error of up to a millisecond and a warning. Epoch: the first request.
//!
//! Logs without offsets, and those averaged over time (`log_avg_msec`), contain no requests. They
//! are rejected with advice on what to record instead. A log is one file of one job and names
//! neither, so there is one volume and no submitter. The priority is dropped.
//!
//! fio's bandwidth (`NAME_bw.1.log`) and IOPS logs look the same, but their values are KiB/s and
//! requests/s. They are rejected. They are recognized by their name, or else by values that are all
//! 1 (IOPS) or impossible as latencies (nanoseconds in which no device transfers that many bytes,
//! or more than the time that has passed). A submission log (`_slat`) has no latencies; an
//! unrecognized name causes a note.

use std::path::Path;

use forebay_ask::named;
use forebay_core::{Nanos, Op};

use super::{Line, Log, anonymous, arrival, first_lines, ordered};
use crate::fields::digits;
use crate::formats::Input;
use crate::rows::{self, LongRequests, RowError};
use crate::{Dictionary, Place, Reader, TraceError};

/// The number of nanoseconds per millisecond.
const MS_NS: u64 = 1_000_000;

/// The fields of a line.
struct Entry<'a> {
    time_ms: u64,
    value_ns: u64,
    direction: u64,
    len: u64,
    /// The offset, the priority and the issue time, as far as the line contains them.
    rest: Vec<&'a [u8]>,
}

impl<'a> Entry<'a> {
    fn parse(line: &'a [u8]) -> Result<Entry<'a>, RowError> {
        let mut fields = line.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        let mut number = |column| {
            let field = fields.next().unwrap_or_default();
            digits(field)
                .ok_or_else(|| RowError::new(column, field, "a whole number without a sign"))
        };
        let (time_ms, value_ns) = (number("time")?, number("value")?);
        let (direction, len) = (number("direction")?, number("block size")?);
        let rest: Vec<&[u8]> = fields.take(4).collect();
        match rest.get(3) {
            None => Ok(Entry { time_ms, value_ns, direction, len, rest }),
            Some(more) => Err(RowError::new("issue time", more, "the end of the line after it")),
        }
    }

    /// Returns the offset. If there are five fields, the last is the priority in logs of fio 3, but
    /// the offset in those of fio 2, which had no priority. A priority is 0, 1 or hexadecimal.
    fn offset(&self) -> Result<u64, RowError> {
        const EXPECTED: &str = "an offset: record the log with log_offset=1";
        match self.rest.as_slice() {
            [] => Err(RowError::new("offset", b"", EXPECTED)),
            [b"0" | b"1"] => Err(RowError::new("offset", b"", EXPECTED)),
            [priority] if priority.starts_with(b"0x") => {
                Err(RowError::new("offset", b"", EXPECTED))
            }
            [offset, ..] => {
                digits(offset).ok_or_else(|| RowError::new("offset", offset, "a number of bytes"))
            }
        }
    }

    fn issue_ns(&self) -> Result<Option<u64>, RowError> {
        let field = self.rest.get(2);
        field
            .map(|f| digits(f).ok_or_else(|| RowError::new("issue time", f, "nanoseconds")))
            .transpose()
    }
}

/// The kind of values in a log, according to its file name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Values {
    #[default]
    Untold,
    Latency,
    Submission,
    /// Values of another kind, with their name.
    Other(&'static str),
}

impl Values {
    /// Recognizes the names of fio's logs, `NAME_bw.1.log` or `NAME_bw.log`, even if they were
    /// renamed (`bw-test.csv`). The last word counts, because fio appends it to the name of the
    /// job.
    fn of(path: &Path) -> Values {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let kinds = [
            ("lat", Values::Latency),
            ("clat", Values::Latency),
            ("slat", Values::Submission),
            ("bw", Values::Other("bandwidths in KiB/s")),
            ("iops", Values::Other("requests/s")),
            ("hist", Values::Other("counts of a histogram")),
        ];
        let kind_of = |word: &str| kinds.into_iter().find(|(kind, _)| *kind == word);
        let mut words = name.rsplit(|c: char| !c.is_alphanumeric());
        words.find_map(kind_of).map_or(Values::Untold, |(_, kind)| kind)
    }

    /// Returns the reason why the values of the log at `path`, which begins with `head`, are not
    /// latencies.
    fn refusal(self, path: &Path, head: &[u8]) -> Option<TraceError> {
        let evidence = Evidence::of(head);
        let values = match (self, evidence.other()) {
            (Values::Other(values), _) => format!("{values}, according to its name"),
            (Values::Untold, Some(values)) => values.into(),
            _ => return None,
        };
        Some(TraceError::Malformed {
            path: path.to_path_buf(),
            place: Place::File,
            got: format!("a fio log whose values are {values}"),
            expected: "latencies: record them with write_lat_log".into(),
            hint: match evidence.offsets {
                0 => "it has no offsets, so it cannot be read as requests either".into(),
                _ => format!("to read its requests without latencies, use {}", requests()),
            },
        })
    }

    fn sentence(self) -> Option<String> {
        match self {
            Values::Untold => Some(format!(
                "the name of the log does not say that its values are latencies (_lat, _clat), \
                 and fio's logs of bandwidths and requests/s look the same; to read the requests \
                 of such a log, use {}",
                requests()
            )),
            Values::Submission => Some(
                "the name says that the values are times of submission (_slat): latencies are unknown"
                    .into(),
            ),
            _ => None,
        }
    }
}

/// The declaration for the requests in a log whose values are not latencies.
const REQUESTS: &str = "at:ms,_,op:0/1/2,len,offset,sep=comma";

/// Returns the command-line option that declares these columns.
fn requests() -> String {
    named(&format!("columns={REQUESTS}"))
}

/// What the first values of a log suggest.
#[derive(Default)]
struct Evidence {
    entries: u64,
    /// The number of values that are 1.
    ones: u64,
    /// The number of values that, as nanoseconds, would mean a higher bandwidth than any device
    /// has.
    impossible: u64,
    /// The number of entries with an offset.
    offsets: u64,
    /// Whether the last of five fields is an offset in any entry, so that zeros are offsets too.
    has_bare_offsets: bool,
}

/// A bandwidth in bytes per nanosecond that no device reaches: 64 GB/s, four times that of a
/// drive's link.
const BYTES_PER_NS_MAX: u64 = 64;
/// The minimum number of entries from which values are judged if the name is not recognized.
const ENTRIES_LEAST: u64 = 3;

impl Evidence {
    /// Examines the first lines of a log. Trims are ignored, because they transfer no data.
    fn of(head: &[u8]) -> Evidence {
        let mut evidence = Evidence::default();
        let whole = memchr::memrchr(b'\n', head).map_or(head, |end| &head[..end]);
        let entries = whole.split(|&byte| byte == b'\n').filter_map(|line| Entry::parse(line).ok());
        for entry in entries.filter(|entry| entry.direction < 2) {
            let Entry { value_ns: value, len, .. } = entry;
            evidence.entries += 1;
            let has_offset = entry.offset().is_ok();
            evidence.offsets += u64::from(has_offset);
            evidence.has_bare_offsets |= has_offset && entry.rest.len() == 1;
            evidence.ones += u64::from(value == 1);
            evidence.impossible += u64::from(value.saturating_mul(BYTES_PER_NS_MAX) < len);
        }
        evidence
    }

    /// Returns the kind of the values if they are not latencies, provided that there are enough
    /// values to tell.
    fn other(&self) -> Option<&'static str> {
        if self.entries < ENTRIES_LEAST {
            return None;
        }
        match self {
            _ if self.ones == self.entries => Some("all 1, as in fio's logs of requests/s"),
            _ if self.impossible * 2 > self.entries => {
                Some("shorter in nanoseconds than any device needs for this many bytes")
            }
            _ => None,
        }
    }
}

#[derive(Default)]
struct FioLatency {
    values: Values,
    /// Whether any arrival had to be computed from a completion.
    by_completion: bool,
    /// Whether any line of five fields contained an offset, so that zeros are offsets too.
    bare_offsets: bool,
    /// The smallest number of commas in a line.
    commas_least: Option<usize>,
}

/// Returns the number of commas in a line.
fn commas(line: &[u8]) -> usize {
    memchr::memchr_iter(b',', line).count()
}

impl Log for FioLatency {
    const NAME: &'static str = "fio-latency";
    const LINES: &'static str = "time-ms, latency-ns, direction, bytes, offset, priority";

    /// Rejects a truncated line, which has fewer columns than all others.
    fn takes_cut(&self, line: &[u8]) -> bool {
        self.commas_least.is_none_or(|least| commas(line) >= least)
    }

    fn line(&mut self, line: &[u8], _: &mut Dictionary) -> Result<Line, RowError> {
        let entry = Entry::parse(line)?;
        let commas = commas(line);
        self.commas_least = Some(self.commas_least.map_or(commas, |least| least.min(commas)));
        let op = match entry.direction {
            0 => Op::Read,
            1 => Op::Write,
            2 => Op::Trim,
            _ => return Ok(Line::Skipped),
        };
        if entry.len == 0 {
            let expected = "the bytes of one request: record the log without log_avg_msec";
            return Err(RowError::new("block size", b"0", expected));
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
            RowError::new(
                "time",
                got.as_bytes(),
                "a time consistent with its latency and the issue \
                time",
            )
        })?;
        let is_long = LongRequests::may_split(op, entry.len);
        let mut record = match is_long {
            true => rows::long_request(at.0, op, offset, entry.len)?,
            false => rows::record(at.0, op, offset, entry.len)?,
        };
        record.latency = Some(Nanos(entry.value_ns)).filter(|_| self.values != Values::Submission);
        Ok(if is_long { Line::Long(record, entry.len) } else { Line::Request(record) })
    }

    fn end(&mut self) -> Vec<String> {
        let sentence = "the log has times in whole milliseconds, at completion: arrivals are up \
            to 1 ms off; log_issue_time=1 records them, if fio supports it";
        let completion = self.by_completion.then(|| sentence.to_string());
        completion.into_iter().chain(self.values.sentence()).collect()
    }
}

pub(crate) fn sniff(head: &[u8]) -> bool {
    first_lines(head).any(|line| {
        // Unlike other tables of numbers, fio's logs have a space after each comma.
        line.split(|&byte| byte == b',').skip(1).all(|field| field.starts_with(b" "))
            && Entry::parse(line).is_ok_and(|entry| entry.direction <= 2)
    })
}

pub(crate) fn open(mut input: Input) -> Result<Box<dyn Reader>, TraceError> {
    let values = Values::of(&input.path);
    let head = input.content.fill_buf();
    let head = head.map_err(|source| TraceError::Io { path: input.path.clone(), source })?;
    if let Some(refusal) = values.refusal(&input.path, head) {
        return Err(refusal);
    }
    let bare_offsets = Evidence::of(head).has_bare_offsets;
    let log = FioLatency { values, bare_offsets, ..FioLatency::default() };
    Ok(ordered(input, log, anonymous(Some("disk"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Record;
    use crate::formats::tests::{message, read};

    fn summary(records: &[Record]) -> Vec<(u64, Op, u64, u64)> {
        records.iter().map(|r| (r.at.0, r.op, r.offset, r.latency.unwrap().0)).collect()
    }

    #[test]
    fn arrival_is_completion_less_latency() {
        let text = b"0, 203008, 0, 4096, 249856, 0\n5, 3603, 1, 8192, 1970176, 0x2004\r\n\
            6, 7000000, 2, 512, 0, 1\n6, 1, 3, 4096, 0, 0\n";
        let (records, _, notes) = read(open, text);
        // The trim began before the request that is logged first.
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
        assert!(notes.warnings.len() == 1 && notes.warnings[0].contains("the name of the log"));
    }

    #[test]
    fn a_line_that_is_truncated_within_its_offset_is_left_out() {
        let text = b"0, 10, 0, 512, 1024, 0\n1, 10, 0, 512, 1024, 0\n2, 10, 0, 512, 10";
        let (records, _, notes) = read(open, text);
        assert_eq!(records.len(), 2);
        let is_told = |told: &String| told.contains("line, 3, is truncated");
        assert!(notes.warnings.iter().any(is_told), "{notes:?}");
    }

    #[test]
    fn the_file_name_determines_the_kind_of_values() {
        for (name, values) in [
            ("job_bw.1.log", Values::Other("bandwidths in KiB/s")),
            ("d/rand-read_iops.12.log.gz", Values::Other("requests/s")),
            ("a_bw.log", Values::Other("bandwidths in KiB/s")),
            ("x_clat_hist.1.log", Values::Other("counts of a histogram")),
            ("job_clat.1.log", Values::Latency),
            ("job_lat.3.log.zst", Values::Latency),
            ("lat.log", Values::Latency),
            ("job_slat.1.log", Values::Submission),
            ("job_bw.1.csv", Values::Other("bandwidths in KiB/s")),
            ("bw-test.1.log", Values::Other("bandwidths in KiB/s")),
            ("iops-test_clat.1.log", Values::Latency),
            ("flat.log", Values::Untold),
            ("new_bwana.log", Values::Untold),
            ("-", Values::Untold),
        ] {
            assert_eq!(Values::of(Path::new(name)), values, "{name}");
        }
    }

    fn named(name: &str, text: &str) -> Result<(Vec<Record>, Vec<String>), String> {
        let mut input = crate::formats::tests::input(text.as_bytes());
        input.path = name.into();
        let read = open(input).and_then(crate::formats::tests::drain);
        read.map(|(records, _, notes)| (records, notes.warnings)).map_err(|e| e.to_string())
    }

    #[test]
    fn values_that_are_no_latencies_are_refused_or_asked_about() {
        let text =
            "0, 4096, 1, 4096, 0, 0\n1, 8192, 0, 4096, 8192, 0\n2, 4096, 1, 8192, 16384, 0\n";
        let told = named("job_bw.1.log", text).unwrap_err();
        assert!(told.contains("values are bandwidths in KiB/s, according to its name"), "{told}");
        assert!(told.ends_with(&requests()), "{told}");
        let without_offsets = "0, 4096, 1, 4096\n1, 8192, 0, 4096\n2, 4096, 1, 8192\n";
        let told = named("job_bw.1.log", without_offsets).unwrap_err();
        assert!(
            told.ends_with("it has no offsets, so it cannot be read as requests either"),
            "{told}"
        );
        assert!(named("job_iops.1.log", text).is_err() && named("job_lat.1.log", text).is_ok());
        let (_, said) = named("job.log", text).unwrap();
        assert!(said.iter().any(|told| told.contains("does not say that its values")), "{said:?}");
        assert_eq!(named("job_lat.1.log", text).unwrap().1.len(), 1);
        let (records, said) = named("job_slat.1.log", text).unwrap();
        assert!(records.iter().all(|record| record.latency.is_none()) && said.len() == 2);
        let ones = "0, 1, 1, 4096, 0, 0\n1, 1, 0, 4096, 8192, 0\n2, 1, 1, 8192, 16384, 0\n";
        assert!(named("job.log", ones).unwrap_err().contains("all 1"));
        let fast =
            "0, 900, 1, 131072, 0, 0\n1, 900, 0, 131072, 8192, 0\n2, 999999, 1, 8192, 0, 0\n";
        assert!(named("job.log", fast).unwrap_err().contains("shorter in nanoseconds"));
        assert!(named("job_lat.1.log", fast).is_ok());
        let columns: crate::Columns = REQUESTS.parse().unwrap();
        let read = crate::formats::presets::open_columns(
            &columns,
            crate::formats::tests::input(text.as_bytes()),
        );
        let (records, ..) = crate::formats::tests::drain(read.unwrap()).unwrap();
        assert_eq!((records.len(), records[2].len, records[2].op), (3, 8192, Op::Write));
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
