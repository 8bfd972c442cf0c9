//! CSV of an object cache as libCacheSim reads it, with a header that names the columns.
//!
//! libCacheSim needs options that assign the columns. Here, the header must name them with one of
//! the common names ([`NAMES`]): the object and, if present, its size in bytes, the time in seconds
//! with or without decimals, and the operation. Other columns are ignored. Fields are separated by
//! commas, tabs, `|` or semicolons, and may be in double quotes; there is no escaping.
//!
//! Object ids are integers, or any other text, which is represented by a 64-bit hash. Without
//! sizes, every object counts as one sector; without times, requests are 1 ms apart. Operations:
//! `get` and `read` are reads; `set`, `add`, `replace`, `cas`, `append`, `prepend`, `put`, `incr`,
//! `decr`, `update` and `write` are writes; others, such as `delete`, are skipped and counted.
//! Without operations, every request counts as a read.

use std::hash::{DefaultHasher, Hash, Hasher};

use forebay_core::Op;

use super::{Objects, Source, Use};
use crate::bad_rows::{BadRows, BadRowsMax};
use crate::fields::{decimal, digits};
use crate::formats::Input;
use crate::formats::log::first_lines;
use crate::lines::Lines;
use crate::order::Ordered;
use crate::rows::{RowError, shorten};
use crate::trace::{BATCH, Notes, Reader};
use crate::{Place, TraceError};

/// The roles of columns, and their names in headers.
const NAMES: [(Role, &[&str]); 4] = [
    (
        Role::Id,
        &[
            "obj_id",
            "object_id",
            "objid",
            "obj",
            "object",
            "key",
            "cachekey",
            "hashed_path_query",
            "hashed_host_path_query",
        ],
    ),
    (Role::Size, &["obj_size", "object_size", "objsize", "size", "objectsize", "response_size"]),
    (
        Role::Time,
        &["time", "timestamp", "clock_time", "real_time", "ts", "op_time", "relative_unix"],
    ),
    (Role::Op, &["op", "operation", "req_op", "optype"]),
];
const READS: [&str; 6] = ["get", "gets", "read", "r", "head", "scan"];
const WRITES: [&str; 12] = [
    "set", "add", "replace", "cas", "append", "prepend", "put", "incr", "decr", "update", "write",
    "w",
];
/// The maximum number of names of ignored columns in a note.
const UNREAD_SHOWN: usize = 5;
/// The time between requests of a trace without times, in nanoseconds.
const APART_NS: u64 = 1_000_000;
/// The number of nanoseconds per second.
const SECOND_NS: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Id,
    Size,
    Time,
    Op,
}

/// The column of each role.
#[derive(Debug, PartialEq, Eq)]
struct Header {
    separator: u8,
    id: usize,
    size: Option<usize>,
    time: Option<usize>,
    op: Option<usize>,
    /// The column with the size of the key, which is added to that of the value.
    key_size: Option<usize>,
    /// The names of columns that are ignored.
    unread: Vec<String>,
}

impl Header {
    /// Interprets the first line as a header. Returns `None` if it names no object, or nothing
    /// else.
    fn of(line: &[u8]) -> Option<Header> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let separator = *b"\t,|;".iter().find(|byte| line.contains(byte))?;
        let titles: Vec<String> = fields(line, separator)
            .map(|title| String::from_utf8_lossy(title).to_ascii_lowercase())
            .collect();
        let column = |role: Role| {
            let (_, names) = NAMES.iter().find(|(named, _)| *named == role)?;
            titles.iter().position(|title| names.contains(&title.as_str()))
        };
        let (size, time) = (column(Role::Size), column(Role::Time));
        size.or(time)?;
        let (id, op) = (column(Role::Id)?, column(Role::Op));
        let read = [Some(id), size, time, op];
        let others = titles.iter().enumerate().filter(|(column, _)| !read.contains(&Some(*column)));
        let unread = others.map(|(_, title)| shorten(title.as_bytes())).collect();
        Some(Header { separator, id, size, time, op, key_size: None, unread })
    }
}

/// Returns the fields of a line, without spaces and quotes around them.
fn fields(line: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    line.split(move |&byte| byte == separator).map(|field| {
        let field = field.trim_ascii();
        let inner = field.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
        inner.unwrap_or(field)
    })
}

pub(crate) fn sniff(head: &[u8]) -> bool {
    head.split(|&byte| byte == b'\n').next().and_then(Header::of).is_some()
}

/// The columns of Twitter's cache traces, which have no header: time in seconds, key, its size, the
/// size of the value, client, operation and time to live.
const fn twitter() -> Header {
    let (id, size, time, op) = (1, Some(3), Some(0), Some(5));
    Header { separator: b',', id, size, time, op, key_size: Some(2), unread: Vec::new() }
}

pub(crate) fn sniff_twitter(head: &[u8]) -> bool {
    first_lines(head).any(|line| {
        let line: Vec<&[u8]> = fields(line, b',').collect();
        let is_number =
            |column: usize| line.get(column).is_some_and(|field| digits(field).is_some());
        let is_op = |word: &&[u8]| op(word).is_some() || *word == b"delete";
        line.len() == 7 && [0, 2, 3, 6].into_iter().all(is_number) && line.get(5).is_some_and(is_op)
    })
}

pub(crate) fn open_twitter(input: Input) -> Result<Box<dyn Reader>, TraceError> {
    Ok(read(
        input.split_runs,
        Lines::new(&input.path, input.content),
        (twitter(), b""),
        input.bad_rows_max,
    ))
}

/// Reads the rows after a header.
fn read(
    splits: bool,
    lines: Lines,
    (header, names): (Header, &[u8]),
    bad_rows_max: BadRowsMax,
) -> Box<dyn Reader> {
    let names = names.to_vec();
    let bad = BadRows::new(bad_rows_max);
    let table = Table { lines, header, names, begins: false, rows: 0, bad };
    Box::new(Ordered::new(Objects::new(table)).splitting_runs(splits))
}

pub(crate) fn open(input: Input) -> Result<Box<dyn Reader>, TraceError> {
    let mut lines = Lines::new(&input.path, input.content);
    let first = lines.next()?.unwrap_or_default().to_vec();
    let Some(header) = Header::of(&first) else {
        let got = shorten(&first);
        let expected = "a header with obj_id and obj_size or time, such as time,obj_id,obj_size";
        let hint = "put such a line before the first request".into();
        let place = Place::Line(1);
        let path = input.path;
        return Err(TraceError::Malformed { path, place, got, expected: expected.into(), hint });
    };
    Ok(read(input.split_runs, lines, (header, first.trim_ascii()), input.bad_rows_max))
}

/// Reads the rows in the order of the file.
struct Table {
    lines: Lines,
    header: Header,
    /// The header line, which may be repeated. Empty if there is none.
    names: Vec<u8>,
    /// Whether the last line repeated the header.
    begins: bool,
    rows: u64,
    bad: BadRows,
}

impl Header {
    /// Parses a row; `rows` others precede it. Returns None if the operation is unknown.
    fn used(&self, line: &[u8], rows: u64) -> Result<Option<Use>, RowError> {
        let field = |column: usize| {
            let missing = || RowError::new("object", line, "a row with all columns of the header");
            fields(line, self.separator).nth(column).ok_or_else(missing)
        };
        let op = match self.op {
            None => Op::Read,
            Some(column) => match op(field(column)?) {
                Some(op) => op,
                None => return Ok(None),
            },
        };
        let id = field(self.id)?;
        if id.is_empty() {
            return Err(RowError::new("object", id, "a number or a name"));
        }
        let size = match self.size {
            None => 1,
            Some(column) => {
                let size = field(column)?;
                let key = self.key_size.map_or(Ok(&b"0"[..]), field)?;
                let bytes =
                    digits(size).zip(digits(key)).and_then(|(one, two)| one.checked_add(two));
                let bytes = bytes.and_then(|bytes| u32::try_from(bytes).ok());
                bytes.ok_or_else(|| RowError::new("size", size, "bytes below 2^32"))?
            }
        };
        let at_ns = match self.time {
            None => rows.saturating_mul(APART_NS),
            Some(column) => time_ns(field(column)?)?,
        };
        let id = digits(id).unwrap_or_else(|| hashed(id));
        Ok(Some(Use { at_ns, op, id, size, begins: false }))
    }

    /// Returns notes for the user about missing columns.
    fn sentences(&self) -> Vec<String> {
        let Header { size, time, op, unread, .. } = self;
        let said = [
            (op.is_none(), "the trace has no operations: every request is assumed to be a read"),
            (size.is_none(), "the trace has no sizes: every object is assumed to have 512 bytes"),
            (time.is_none(), "the trace has no times: requests are assumed to be 1 ms apart"),
        ];
        let mut said: Vec<String> =
            said.into_iter().filter(|(is_so, _)| *is_so).map(|(_, text)| text.into()).collect();
        if !unread.is_empty() {
            let shown = unread.get(..UNREAD_SHOWN).unwrap_or(unread).join(", ");
            said.push(format!("ignored columns: {shown}"));
        }
        said
    }
}

fn op(word: &[u8]) -> Option<Op> {
    let is = |words: &[&str]| words.iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()));
    match (is(&READS), is(&WRITES)) {
        (true, _) => Some(Op::Read),
        (_, true) => Some(Op::Write),
        _ => None,
    }
}

fn time_ns(field: &[u8]) -> Result<u64, RowError> {
    let ns = decimal(field).and_then(|(s, ns)| s.checked_mul(SECOND_NS)?.checked_add(ns));
    ns.ok_or_else(|| RowError::new("time", field, "seconds, with or without decimals"))
}

/// Returns the hash of an object id.
fn hashed(name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

impl Source for Table {
    const NAME: &'static str = "object-csv";

    fn read(&mut self, uses: &mut Vec<Use>, notes: &mut Notes) -> Result<(), TraceError> {
        if self.rows == 0 {
            notes.warnings.extend(self.header.sentences());
            notes.is_timeless = self.header.time.is_none();
        }
        while uses.len() < BATCH {
            let Some(line) = self.lines.next()? else {
                let read = self.rows - self.bad.count();
                notes.warnings.extend(self.bad.finish(read)?);
                notes.warnings.extend(self.lines.cut_note());
                break;
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            if line.trim_ascii() == self.names {
                self.begins = true;
                continue;
            }
            match self.header.used(line, self.rows) {
                Ok(Some(used)) => {
                    uses.push(Use { begins: std::mem::take(&mut self.begins), ..used });
                }
                Ok(None) => notes.rows_skipped += 1,
                Err(wrong) => {
                    let number = self.lines.number();
                    let path = self.lines.path();
                    let read = self.rows - self.bad.count();
                    self.bad.add(read, || wrong.at(path, Place::Line(number), ""))?;
                    notes.rows_bad += 1;
                }
            }
            self.rows += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::FORMATS;
    use crate::formats::tests::{message, read};

    #[test]
    fn columns_are_found_by_their_names() {
        for text in [
            "time,obj_id,obj_size\n5,7,100\n5.5,9,600\n6,7,100\n",
            "next,Object,\"Time\",Size\r\n-1,7,5,100\r\n1,9,5.5,600\r\n2,\"7\",6,100\r\n",
            "key\tsize\ttimestamp\n7\t100\t5\n9\t600\t5.5\n7\t100\t6\n",
            "obj_id | clock_time | object_size\n7|5|100\n\n9|5.5|600\n7|6|100",
            "ts;object_id;size\n5;7;100\n5.5;9;600\n6;7;100\n",
            "\"real_time\";\"objid\";\"objsize\"\n5;7;100\n5.5;9;600\n6;7;100\n",
        ] {
            assert!(sniff(text.as_bytes()), "{text}");
            let first = FORMATS.iter().find(|format| format.sniff(text.as_bytes()));
            assert_eq!(first.map(|format| format.name), Some("object-csv"), "{text}");
            let (records, _, notes) = read(open, text.as_bytes());
            let seen: Vec<_> = records.iter().map(|r| (r.at.0, r.offset, r.len)).collect();
            let half = SECOND_NS / 2;
            assert_eq!(seen, [(0, 0, 100), (half, 512, 600), (2 * half, 0, 100)], "{text}");
            assert!(notes.warnings[1].contains("no operations") && !notes.is_timeless);
        }
    }

    #[test]
    fn names_operations_and_what_is_missing() {
        let text = "obj_id,size,op\nabc,10,GET\nabd,10,set\nabc,10,delete\nabc,0,get\nabc,9,Read\n";
        let (records, _, notes) = read(open, text.as_bytes());
        let seen: Vec<_> = records.iter().map(|r| (r.at.0, r.offset, r.op)).collect();
        let expected = [(0, 0, Op::Read), (1_000_000, 512, Op::Write), (4_000_000, 0, Op::Read)];
        assert_eq!((&seen[..], notes.rows_skipped), (&expected[..], 2));
        assert!(notes.is_timeless && notes.warnings.iter().any(|told| told.contains("no times")));
        let (records, _, notes) = read(open, b"time,key\n1,a\n2,b\n3,a\n");
        let seen: Vec<_> = records.iter().map(|r| (r.offset, r.len)).collect();
        assert_eq!(seen, [(0, 1), (512, 1), (0, 1)]);
        assert!(notes.warnings.iter().any(|told| told.contains("no sizes")));
    }

    #[test]
    fn tables_of_wikimedia_are_read() {
        let text = b"relative_unix\thashed_host_path_query\tresponse_size\ttime_firstbyte\n\
            0\t-833946053\t512\t0.1\n1\t833946053\t512\t0.1\n2\t-833946053\t512\t0.1\n";
        assert!(sniff(text));
        let (records, ..) = read(open, text);
        assert_eq!(records.iter().map(|r| r.offset).collect::<Vec<_>>(), [0, 512, 0]);
    }

    #[test]
    fn a_repeated_header_begins_another_run() {
        let one = "\u{feff}time,obj_id,obj_size\n0,1,512\n1,2,512\n".to_owned();
        let (records, _, notes) = read(open, (one.clone() + &one).as_bytes());
        assert_eq!((records.len(), notes.rows_bad), (4, 0), "{notes:?}");
        assert!(notes.warnings.iter().any(|told| told.contains("1 header line is in the middle")));
        let mut input = crate::formats::tests::input((one.clone() + &one).as_bytes());
        input.split_runs = true;
        let (records, ..) = open(input).and_then(crate::formats::tests::drain).unwrap();
        assert!(records[2].at > records[1].at && records[3].offset == 512, "{records:?}");
    }

    #[test]
    fn every_word_for_an_operation_is_one_in_any_case() {
        for (words, expected) in [(&READS[..], Op::Read), (&WRITES[..], Op::Write)] {
            for word in words {
                assert_eq!(op(word.as_bytes()), Some(expected), "{word}");
                assert_eq!(op(word.to_uppercase().as_bytes()), Some(expected), "{word}");
            }
        }
        let all = "get gets read r head scan set add replace cas append prepend put incr decr update write w";
        let known = all.split(' ').filter(|word| op(word.as_bytes()).is_some());
        assert_eq!(known.count(), READS.len() + WRITES.len());
        assert_eq!([&b"delete"[..], b"", b"getx"].map(op), [None; 3]);
    }

    #[test]
    fn other_tables_are_not_taken() {
        for text in [
            "at_ns,op,offset,len,stream,volume,latency_ns,flags,thread,process,name\n",
            "version,time,op,size,lbn\n",
            "key\n5\n",
            "key,value\n5,6\n",
            "time,size\n5,6\n",
            "0,1,512,R,0.1\n",
            "",
        ] {
            assert!(!sniff(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn messages_name_line_and_column() {
        for (row, expected) in [
            ("5,7,-1", "line 3: got \"-1\" in column size, expected bytes below 2^32"),
            ("5,7,4294967296", "in column size"),
            ("5,,1", "line 3: got nothing in column object"),
            ("now,7,1", "line 3: got \"now\" in column time, expected seconds"),
            ("99999999999999999999,7,1", "in column time"),
            ("5,7", "line 3: got \"5,7\" in column object, expected a row with all columns"),
        ] {
            let text = message(open, format!("time,obj_id,size\n1,1,1\n{row}\n").as_bytes());
            assert!(text.contains(expected), "{text}");
        }
        let text = message(open, b"1,2,3\n1,2,3\n");
        assert!(text.contains("line 1: got \"1,2,3\", expected a header"), "{text}");
    }
}
