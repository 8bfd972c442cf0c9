//! CSV with a header line, either in the canonical form or with other names of columns and units
//! ([`header`]).
//!
//! The canonical form contains every field of a record and of its stream, with one row per request.
//! Columns: `at_ns` (from the first request), `op` (read, write, flush, trim), `offset` and `len`
//! in bytes, `stream` (a number that identifies the stream), `volume` (its name), `latency_ns`
//! (empty if unknown), `flags` (letters of `PFASM`), and the stream's `thread` and `process` ids
//! (empty if unknown) and `name`. Quoting follows RFC 4180. Streams are renumbered in the order of
//! their first rows. Rows of zero length that are not flushes are skipped and counted.

pub(crate) mod header;

use std::collections::BTreeMap;
use std::io::{self, BufRead, Cursor, Read};
use std::path::{Path, PathBuf};

use ::csv::ByteRecord;
use forebay_ask::named;
use forebay_core::{Nanos, Op};

use crate::bad_rows::BadRows;
use crate::columns::reader::{self, ColumnReader};
use crate::columns::{Columns, meaning};
use crate::fields::{digits, integer};
use crate::formats::Input;
use crate::lines::{BYTE_ORDER_MARK, CUT_HINT, LINE_BYTES_MAX, cut_sentence};
use crate::naming::NameBudget;
use crate::op_flags::{FLAGS_EXPECTED, OP_EXPECTED, flags_of, op_of};
use crate::order::Ordered;
use crate::rows::{self, LongRequests, RowError, names_again_sentence, shorten, wrapped_sentence};
use crate::suggest::ROWS;
use crate::trace::{BATCH, Dictionary, HeaderAgain, Notes, Reader, Record, SourceFacts, Stream};
use crate::{Place, TraceError};
use header::Header;

/// The columns of the canonical form.
pub const HEADER: [&str; 11] = [
    "at_ns",
    "op",
    "offset",
    "len",
    "stream",
    "volume",
    "latency_ns",
    "flags",
    "thread",
    "process",
    "name",
];

pub(crate) fn sniff(head: &[u8]) -> bool {
    is_canonical(head) || matches!(header::of(head), Some(Ok(_)))
}

fn is_canonical(head: &[u8]) -> bool {
    let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    head.starts_with(HEADER.join(",").as_bytes())
}

/// Returns the columns that the header of a text declares, if it is complete and not canonical.
pub(crate) fn declared(head: &[u8]) -> Option<Columns> {
    let header = header::of(head).filter(|_| !is_canonical(head))?;
    header.ok().map(|header| header.columns)
}

pub(crate) fn open(mut input: Input) -> Result<Box<dyn Reader>, TraceError> {
    let begin = begin(&mut input)?;
    let said = header::of(&begin).filter(|_| !is_canonical(&begin));
    let content = Box::new(Cursor::new(begin).chain(input.content));
    let input = Input { content, ..input };
    match said {
        None => open_canonical(input),
        Some(Err(unsure)) => Err(unsure.at(&input.path)),
        Some(Ok(header)) => {
            let Header { columns, note } = header;
            let hint = format!("the header is read as {}", named(&format!("columns={columns}")));
            let named = reader::Header::Named;
            let reader =
                ColumnReader::new(&input.path, input.content, &columns, named, "csv", hint);
            let (splits, reader) = (input.split_runs, reader.bad_rows(input.bad_rows_max));
            Ok(Box::new(Ordered::new(reader.warn(note)).splitting_runs(splits)))
        }
    }
}

/// Reads the header and the first rows of a text, from which columns may be suggested.
fn begin(input: &mut Input) -> Result<Vec<u8>, TraceError> {
    let (mut begin, mut lines) = (Vec::new(), 0);
    while lines <= ROWS && begin.len() < LINE_BYTES_MAX {
        let (from, most) = (begin.len(), (LINE_BYTES_MAX - begin.len()) as u64);
        let read = (&mut input.content).take(most).read_until(b'\n', &mut begin);
        let read = read.map_err(|source| TraceError::Io { path: input.path.clone(), source })?;
        if read == 0 {
            break;
        }
        let line = begin.get(from..).unwrap_or_default();
        lines +=
            usize::from(header::is_content(line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line)));
    }
    Ok(begin)
}

fn open_canonical(input: Input) -> Result<Box<dyn Reader>, TraceError> {
    let (content, left) = (input.content, ROW_BYTES_MAX);
    let content = Rationed { content, left, is_short: false, last: b'\n' };
    let mut source = ::csv::ReaderBuilder::new().flexible(true).from_reader(content);
    if let Err(error) = source.byte_headers() {
        return Err(broken(&input.path, &source, error));
    }
    let header = source.byte_headers().cloned().unwrap_or_default();
    if header.iter().ne(HEADER.map(str::as_bytes)) {
        let got = header.iter().collect::<Vec<_>>().join(&b","[..]);
        return Err(RowError::new(
            HEADER[0],
            &got,
            "the header at_ns,op,offset,len,stream,volume,..., or a header with columns for time, \
             operation, offset and length",
        )
        .at(&input.path, Place::Line(1), ""));
    }
    let rows = Csv {
        path: input.path,
        source,
        streams: BTreeMap::new(),
        volumes: BTreeMap::new(),
        room: NameBudget::default(),
        dictionary: Dictionary::default(),
        notes: Notes { format: "csv", columns: meaning::of_format("csv"), ..Notes::default() },
        ended: false,
        headers_again: Vec::new(),
        records: 0,
        latencies_below: 0,
        read: 0,
        bad: BadRows::new(input.bad_rows_max),
        open: None,
        long_requests: LongRequests::default(),
    };
    Ok(Box::new(Ordered::new(rows).splitting_runs(input.split_runs)))
}

type Source = ::csv::Reader<Rationed>;

/// The maximum length of a row, including line feeds within quotes, plus what is read ahead.
const ROW_BYTES_MAX: usize = LINE_BYTES_MAX;

/// Content with a limit on the number of bytes that may be read. Callers raise the limit as rows
/// are consumed, because the CSV crate accepts rows of any length.
struct Rationed {
    content: Box<dyn BufRead + Send>,
    left: usize,
    /// Whether the limit was reached.
    is_short: bool,
    /// The last byte read.
    last: u8,
}

impl Read for Rationed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(self.left);
        if most == 0 {
            self.is_short = true;
            return Err(io::Error::other("a row that is too long"));
        }
        let read = self.content.read(&mut buffer[..most])?;
        self.left -= read;
        if let Some(&last) = read.checked_sub(1).and_then(|last| buffer.get(last)) {
            self.last = last;
        }
        Ok(read)
    }
}

/// The reason why a row cannot be read.
enum WrongRow {
    /// The number of fields is wrong.
    Fields(usize),
    /// A field is invalid.
    Field(RowError),
}

impl From<RowError> for WrongRow {
    fn from(wrong: RowError) -> WrongRow {
        WrongRow::Field(wrong)
    }
}

impl WrongRow {
    fn at(self, path: &Path, place: Place) -> TraceError {
        match self {
            WrongRow::Field(wrong) => wrong.at(path, place, ""),
            WrongRow::Fields(fields) => TraceError::Malformed {
                path: path.to_path_buf(),
                place,
                got: format!("{fields} fields"),
                expected: format!("the {} fields {}", HEADER.len(), HEADER.join(",")),
                hint: String::new(),
            },
        }
    }
}

struct Csv {
    path: PathBuf,
    source: Source,
    streams: BTreeMap<u64, u32>,
    volumes: BTreeMap<Vec<u8>, u32>,
    room: NameBudget,
    dictionary: Dictionary,
    notes: Notes,
    ended: bool,
    headers_again: Vec<HeaderAgain>,
    /// The number of records returned so far.
    records: u64,
    /// The number of negative latencies.
    latencies_below: u64,
    /// The number of readable rows.
    read: u64,
    bad: BadRows,
    /// The error about the last row, if it cannot be read.
    open: Option<TraceError>,
    long_requests: LongRequests,
}

impl Csv {
    /// Adds the notes that are known at the end.
    fn finish(&mut self) -> Result<(), TraceError> {
        if std::mem::replace(&mut self.ended, true) {
            return Ok(());
        }
        let was_left_out = self.open.is_some();
        self.settle(true)?;
        let told = self.bad.finish(self.read)?;
        self.notes.warnings.extend(told);
        self.notes.warnings.extend(self.long_requests.sentences());
        self.notes.warnings.extend(names_again_sentence(self.headers_again.len()));
        self.notes.warnings.extend(wrapped_sentence(self.latencies_below));
        if self.source.get_ref().last != b'\n' && !was_left_out {
            let sentence = cut_sentence(self.source.position().line());
            self.notes.warnings.push(sentence);
        }
        Ok(())
    }

    /// Returns the request in a row, and its length if that is too long for a record.
    fn record(&mut self, row: &ByteRecord) -> Result<(Record, Option<u64>), WrongRow> {
        if row.len() != HEADER.len() {
            return Err(WrongRow::Fields(row.len()));
        }
        let field = |n: usize| row.get(n).unwrap_or_default();
        let number = |n: usize| {
            digits(field(n))
                .or_else(|| integer(field(n)))
                .ok_or_else(|| RowError::new(HEADER[n], field(n), "a whole number without a sign"))
        };
        let optional = |n: usize| {
            if field(n).is_empty() { Ok(None) } else { number(n).map(Some) }
        };
        let op = op_of(field(1)).ok_or_else(|| RowError::new("op", field(1), OP_EXPECTED))?;
        let (at, offset, len) = (number(0)?, number(2)?, number(3)?);
        let long = Some(len).filter(|len| LongRequests::may_split(op, *len));
        let mut record = match long {
            Some(len) => rows::long_request(at, op, offset, len)?,
            None => rows::record(at, op, offset, len)?,
        };
        let is_below = field(6).strip_prefix(b"-").is_some_and(|rest| digits(rest).is_some());
        record.latency = if is_below { None } else { optional(6)?.map(Nanos) };
        self.latencies_below += u64::from(is_below);
        record.flags =
            flags_of(field(7)).ok_or_else(|| RowError::new("flags", field(7), FLAGS_EXPECTED))?;
        let id = |n: usize| match optional(n)?.map(u32::try_from).transpose() {
            Ok(id) => Ok(id),
            Err(_) => Err(RowError::new(HEADER[n], field(n), "an id below 2^32")),
        };
        let stream = number(4)?;
        record.stream = match self.streams.get(&stream) {
            Some(&known) => known,
            None => {
                self.room.take("name", field(10))?;
                let name = String::from_utf8_lossy(field(10)).into_owned();
                self.dictionary.streams.push(Stream { thread: id(8)?, process: id(9)?, name });
                let index = (self.dictionary.streams.len() - 1) as u32;
                self.streams.insert(stream, index);
                index
            }
        };
        record.volume = match self.volumes.get(field(5)) {
            Some(&known) => known,
            None => {
                self.room.take("volume", field(5))?;
                self.dictionary.volumes.push(String::from_utf8_lossy(field(5)).into_owned());
                let index = (self.dictionary.volumes.len() - 1) as u32;
                self.volumes.insert(field(5).to_vec(), index);
                index
            }
        };
        Ok((record, long))
    }

    /// Counts the last unreadable row, unless the file was truncated within it.
    fn settle(&mut self, is_end: bool) -> Result<(), TraceError> {
        let Some(error) = self.open.take() else { return Ok(()) };
        self.notes.rows_bad += 1;
        let is_cut = is_end && self.source.get_ref().last != b'\n' && self.read > 0;
        if is_cut && !self.bad.is_strict() {
            let sentence = "the last row has no newline and cannot be read: the file is truncated, \
                            and the row is left out";
            self.notes.warnings.push(sentence.into());
            return Ok(());
        }
        let hint = if is_cut { CUT_HINT.trim_end_matches("; ") } else { "" };
        self.bad.add(self.read, || if is_cut { error.with_hint(hint) } else { error })
    }
}

/// Converts an error of the CSV crate.
fn broken(path: &Path, source: &Source, error: ::csv::Error) -> TraceError {
    let path = path.to_path_buf();
    if source.get_ref().is_short {
        return TraceError::Malformed {
            path,
            place: Place::Line(source.position().line()),
            got: format!("a row of more than {ROW_BYTES_MAX} bytes"),
            expected: format!("the {} fields {}", HEADER.len(), HEADER.join(",")),
            hint: "look for an unclosed quote".into(),
        };
    }
    let line = error.position().map(|p| p.line());
    match error.into_kind() {
        ::csv::ErrorKind::Io(source) => TraceError::Io { path, source },
        other => TraceError::Malformed {
            path,
            place: line.map_or(Place::File, Place::Line),
            got: shorten(format!("{other:?}").as_bytes()),
            expected: format!("the {} fields {}", HEADER.len(), HEADER.join(",")),
            hint: String::new(),
        },
    }
}

/// Returns whether a row begins like the header. If files were joined, there may be a byte-order
/// mark before it.
fn is_header(row: &ByteRecord) -> bool {
    let first = row.get(0).unwrap_or_default();
    first.strip_prefix(BYTE_ORDER_MARK).unwrap_or(first) == HEADER[0].as_bytes()
}

impl Reader for Csv {
    fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
        batch.clear();
        let mut row = ByteRecord::new();
        while batch.len() < BATCH {
            self.source.get_mut().left = ROW_BYTES_MAX;
            match self.source.read_byte_record(&mut row) {
                Ok(true) => {}
                Ok(false) => {
                    self.finish()?;
                    break;
                }
                Err(error) => return Err(broken(&self.path, &self.source, error)),
            }
            self.settle(false)?;
            if is_header(&row) && row.iter().skip(1).eq(HEADER.iter().skip(1).map(|s| s.as_bytes()))
            {
                self.headers_again.push(HeaderAgain {
                    records: self.records + batch.len() as u64,
                    volumes: self.dictionary.volumes.len() as u32,
                });
                continue;
            }
            match self.record(&row) {
                Err(wrong) if is_header(&row) => {
                    let place = row.position().map_or(Place::File, |p| Place::Line(p.line()));
                    return Err(wrong.at(&self.path, place));
                }
                Ok((record, _)) if record.len == 0 && record.op != Op::Flush => {
                    self.notes.rows_skipped += 1;
                }
                Ok((record, None)) => batch.push(record),
                Ok((record, Some(len))) => {
                    self.long_requests.split(record, len, batch);
                    self.notes.rows_added = self.long_requests.added();
                }
                Err(wrong) => {
                    let place = row.position().map_or(Place::File, |p| Place::Line(p.line()));
                    self.open = Some(wrong.at(&self.path, place));
                    continue;
                }
            }
            self.read += 1;
        }
        self.records += batch.len() as u64;
        Ok(())
    }

    fn facts(&self) -> SourceFacts {
        SourceFacts { headers_again: self.headers_again.clone(), ..SourceFacts::default() }
    }

    fn found(&self) -> (&Dictionary, &Notes) {
        (&self.dictionary, &self.notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::tests::{message, read};

    #[test]
    fn quoted_names_and_streams_of_any_number() {
        let text = format!(
            "{}\r\n5,write,4096,512,9,\"a,b\",,SM,7,,\"x \"\"y\"\"\nz\"\n\
             6,flush,0,0,9,\"a,b\",10,PF,7,,\n7,read,0,0,1,c,,,,,\n",
            HEADER.join(",")
        );
        assert!(sniff(text.as_bytes()));
        let (records, dictionary, notes) = read(open, text.as_bytes());
        assert_eq!((records.len(), notes.rows_skipped), (2, 1));
        assert_eq!(dictionary.streams[0].name, "x \"y\"\nz");
        assert_eq!((dictionary.streams[0].thread, dictionary.streams[0].process), (Some(7), None));
        assert_eq!(dictionary.volumes, ["a,b", "c"]);
        assert_eq!((records[1].at, records[1].latency), (Nanos(1), Some(Nanos(10))));
    }

    #[test]
    fn long_names_are_refused_and_rows_may_have_many_lines() {
        let name = "n".repeat(5000);
        let text = format!("{}\n5,write,4096,512,9,v,,SM,7,,{name}\n", HEADER.join(","));
        let told = message(open, text.as_bytes());
        assert!(told.contains("line 2: got a name of 5000 bytes, \"nnn"), "{told}");
        assert!(told.contains("in column name, expected at most 4096 bytes"), "{told}");
        // Together, these rows are longer than a single row may be.
        let rows = "5,write,4096,512,9,\"v\n\n\nw\",,SM,7,,x\n".repeat(9000);
        let (records, dictionary, _) =
            read(open, format!("{}\n{rows}", HEADER.join(",")).as_bytes());
        assert_eq!((dictionary.volumes.len(), records.len()), (1, 9000));
    }

    #[test]
    fn messages_name_line_and_column() {
        let good = format!("{}\n5,write,4096,512,9,v,,SM,7,,x\n", HEADER.join(","));
        for (bad, expected) in [
            ("5,write,4096,512,9,v,,SM,7,,x,y", "line 3: got 12 fields"),
            ("5,write,-1,512,9,v,,SM,7,,x", "line 3: got \"-1\" in column offset"),
            ("5,write,1,512,9,v,,Q,7,,x", "line 3: got \"Q\" in column flags"),
            ("5,write,1,512,8,v,,S,4294967296,,x", "column thread"),
        ] {
            let text = message(open, format!("{good}{bad}\n").as_bytes());
            assert!(text.contains(expected), "{text}");
        }
    }
}
