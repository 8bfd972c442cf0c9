//! Canonical Parquet, the format in which every trace can be stored without loss.
//!
//! Columns: `at_ns` int64 (from the first request), `op` dictionary string (read, write, flush,
//! trim), `offset` uint64 bytes, `len` uint32 bytes, `stream` uint32, `volume` uint32, `latency_ns`
//! int64 (null if unknown), `flags` dictionary string (letters of `PFASM`: preflush, FUA,
//! read-ahead, synchronous, metadata). File metadata: `forebay.version` = 1, `forebay.source` (the
//! original format), `forebay.unit`, the dictionaries as JSON: `forebay.streams`, a list of
//! `{thread, process, name}`, and `forebay.volumes`, a list of names; and, if known,
//! `forebay.began_ns`: the time of the first request by the source's own clock.
//!
//! Tables from other tools only need `at_ns`, `op`, `offset` and `len`, or columns with other names
//! and the same meaning ([`found`]). Without dictionaries, streams and volumes are named by their
//! numbers, or by columns of names. An index column added by pandas is ignored.

use std::collections::BTreeMap;

use forebay_core::{Flags, Nanos};
use serde::{Deserialize, Serialize};

use super::{Schema, Table, damaged, found, shown};
use crate::formats::numbering::Numbering as Named;
use crate::formats::parquet::columns::Columns;
use crate::formats::titles;
use crate::naming::NameBudget;
use crate::op_flags::{FLAGS_EXPECTED, flags_of};
use crate::rows::{self, RowError};
use crate::table::Field;
use crate::{Dictionary, Record, Stream, TraceError};

/// The metadata key of the format version.
pub(crate) const KEY_VERSION: &str = "forebay.version";
/// The metadata key of the original format.
pub(crate) const KEY_SOURCE: &str = "forebay.source";
/// The metadata key of the units.
pub(crate) const KEY_UNIT: &str = "forebay.unit";
/// The metadata key of the streams.
pub(crate) const KEY_STREAMS: &str = "forebay.streams";
/// The metadata key of the volumes.
pub(crate) const KEY_VOLUMES: &str = "forebay.volumes";

/// The metadata key of the first request's time on the source's clock.
pub(crate) const KEY_BEGAN: &str = "forebay.began_ns";

/// The version of the format that is written and read.
pub(crate) const VERSION: &str = "1";
/// The units that are written and read, as stored in the metadata.
pub(crate) const UNIT: &str = "at_ns, latency_ns: ns; offset, len: bytes";

/// A [`Stream`] as stored in the metadata.
#[derive(Serialize, Deserialize)]
pub(crate) struct StreamText {
    #[serde(default)]
    thread: Option<u32>,
    #[serde(default)]
    process: Option<u32>,
    #[serde(default)]
    name: String,
}

impl From<&Stream> for StreamText {
    fn from(stream: &Stream) -> StreamText {
        let Stream { thread, process, name } = stream.clone();
        StreamText { thread, process, name }
    }
}

impl From<&StreamText> for Stream {
    fn from(text: &StreamText) -> Stream {
        Stream { thread: text.thread, process: text.process, name: text.name.clone() }
    }
}

/// How the numbers of streams or volumes in the rows are converted to indices.
enum Numbering {
    /// The values are indices into a dictionary of this length.
    Given(u64),
    /// Indices are assigned in the order in which the numbers first appear.
    Found(BTreeMap<u64, u32>),
}

impl Numbering {
    fn of(given: Option<usize>) -> Numbering {
        given.map_or(Numbering::Found(BTreeMap::new()), |length| Numbering::Given(length as u64))
    }

    fn index(
        &mut self,
        number: u64,
        column: &str,
        room: &mut NameBudget,
        new: &mut impl FnMut(String),
    ) -> Result<u32, RowError> {
        match self {
            Numbering::Given(length) if number < *length => Ok(number as u32),
            Numbering::Given(_) => {
                let got = number.to_string();
                Err(RowError::new(
                    column.to_string(),
                    got.as_bytes(),
                    "an index into the file's dictionary",
                ))
            }
            Numbering::Found(known) => {
                if let Some(&index) = known.get(&number) {
                    return Ok(index);
                }
                let (name, next) = (number.to_string(), known.len() as u32);
                room.take(column.to_string(), name.as_bytes())?;
                known.insert(number, next);
                new(name);
                Ok(next)
            }
        }
    }
}

/// The canonical form of a table.
pub(super) struct Canonical {
    streams: Numbering,
    volumes: Numbering,
    room: NameBudget,
    /// Names of volumes and submitters, from columns that contain them.
    named: Named,
    /// Whether any rows were read.
    begun: bool,
    warning: Option<String>,
    /// The number of negative latencies.
    below: u64,
}

impl Canonical {
    /// Returns the stream of each row, which is determined by its number or, failing that, by the
    /// columns that identify the submitter.
    fn streams(
        &mut self,
        columns: &Columns,
        dictionary: &mut Dictionary,
    ) -> Result<Vec<u32>, TraceError> {
        let fields = columns.fields();
        let number = |names: &[&str]| found::any(fields, names, found::is_number);
        let (thread, process) = (number(&titles::THREAD), number(&titles::PROCESS));
        let name = found::any(fields, &titles::NAME, found::is_text);
        if columns.has("stream") || (thread.or(process).or(name)).is_none() {
            return numbered(columns, "stream", &mut self.streams, &mut self.room, |name| {
                dictionary.streams.push(Stream { name, ..Stream::default() });
            });
        }
        let ids = |column: Option<&str>| -> Result<Vec<Option<u32>>, TraceError> {
            let Some(column) = column else { return Ok(vec![None; columns.rows()]) };
            let numbers = columns.numbers(column, true)?;
            let id = |row| {
                let id = columns.optional(&numbers, row, column)?;
                id.map(u32::try_from).transpose().map_err(|_| {
                    let got = id.unwrap_or_default().to_string();
                    let wrong =
                        RowError::new(column.to_string(), got.as_bytes(), "an id below 2^32");
                    columns.row_error(row, wrong)
                })
            };
            (0..columns.rows()).map(id).collect()
        };
        let names = match name {
            Some(column) => columns
                .meanings(column, "a name", Some(String::new()), |text| Some(text.to_string()))?,
            None => vec![String::new(); columns.rows()],
        };
        let who = ids(thread)?.into_iter().zip(ids(process)?).zip(names).enumerate();
        let stream = |(row, ((thread, process), name))| {
            let stream = Stream { thread, process, name };
            self.named.stream(stream, dictionary).map_err(|wrong| columns.row_error(row, wrong))
        };
        who.map(stream).collect()
    }

    /// Returns the volume of each row, which is determined by its number or its name.
    fn volumes(
        &mut self,
        columns: &Columns,
        dictionary: &mut Dictionary,
    ) -> Result<Vec<u32>, TraceError> {
        let Some(column) = found::any(columns.fields(), &titles::VOLUME, found::is_text) else {
            let column = found::any(columns.fields(), &titles::VOLUME, found::is_number);
            let column = column.unwrap_or("volume");
            return numbered(columns, column, &mut self.volumes, &mut self.room, |name| {
                dictionary.volumes.push(name);
            });
        };
        let names = columns.meanings(column, "a name", None, |text| Some(text.to_string()))?;
        let volume = |(row, name): (usize, String)| {
            let volume = self.named.volume(name.as_bytes(), dictionary);
            volume.map_err(|wrong| columns.row_error(row, wrong))
        };
        names.into_iter().enumerate().map(volume).collect()
    }
}

/// Returns the index for each row's number in `column`. If the column does not exist, the number is
/// 0.
fn numbered(
    columns: &Columns,
    column: &str,
    numbering: &mut Numbering,
    room: &mut NameBudget,
    mut new: impl FnMut(String),
) -> Result<Vec<u32>, TraceError> {
    let numbers = columns.has(column).then(|| columns.numbers(column, false)).transpose()?;
    let index = |row| {
        let number = match &numbers {
            Some(numbers) => columns.unsigned(numbers, row, column)?,
            None => 0,
        };
        let index = numbering.index(number, column, room, &mut new);
        index.map_err(|wrong| columns.row_error(row, wrong))
    };
    (0..columns.rows()).map(index).collect()
}

/// Returns the zero of a table's times on the source's clock. In tables that Forebay wrote, times
/// count from the first request; others contain the source's own times. An invalid value is
/// ignored, because the requests are usable without it.
pub(super) fn zero(table: &Table) -> Option<Nanos> {
    match table.metadata(KEY_BEGAN) {
        Some(text) => text.parse().ok().map(Nanos),
        None => table.metadata(KEY_VERSION).is_none().then_some(Nanos::ZERO),
    }
}

impl Schema for Canonical {
    const NAME: &'static str = "parquet";

    fn new(table: &Table, dictionary: &mut Dictionary) -> Result<Canonical, TraceError> {
        for (key, known) in [(KEY_VERSION, VERSION), (KEY_UNIT, UNIT)] {
            if let Some(value) = table.metadata(key).filter(|value| *value != known) {
                let got = format!("{} in metadata {key}", shown(value));
                return Err(damaged(&table.path, got, &shown(known)));
            }
        }
        let bad = |key: &str, error: serde_json::Error| {
            let got = format!("metadata {key} that cannot be read ({error})");
            damaged(&table.path, got, "a dictionary as JSON")
        };
        let streams: Option<Vec<StreamText>> = (table.metadata(KEY_STREAMS))
            .map(|text| serde_json::from_str(text).map_err(|e| bad(KEY_STREAMS, e)))
            .transpose()?;
        let volumes: Option<Vec<String>> = (table.metadata(KEY_VOLUMES))
            .map(|text| serde_json::from_str(text).map_err(|e| bad(KEY_VOLUMES, e)))
            .transpose()?;
        let mut room = NameBudget::default();
        let wrong = |wrong: RowError| damaged(&table.path, wrong.got, &wrong.expected);
        for stream in streams.iter().flatten() {
            room.take(KEY_STREAMS, stream.name.as_bytes()).map_err(wrong)?;
        }
        for volume in volumes.iter().flatten() {
            room.take(KEY_VOLUMES, volume.as_bytes()).map_err(wrong)?;
        }
        let schema = Canonical {
            room,
            streams: Numbering::of(streams.as_ref().map(Vec::len)),
            volumes: Numbering::of(volumes.as_ref().map(Vec::len)),
            named: Named::default(),
            begun: table.metadata(KEY_VERSION).is_some(),
            warning: None,
            below: 0,
        };
        dictionary.streams = streams.unwrap_or_default().iter().map(Stream::from).collect();
        dictionary.volumes = volumes.unwrap_or_default();
        Ok(schema)
    }

    fn wanted(fields: &[Field]) -> Vec<&str> {
        let number = |names: &[&str]| found::any(fields, names, found::is_number);
        let text = |names: &[&str]| found::any(fields, names, found::is_text);
        let found = [
            found::time(fields, &titles::AT).map(|at| at.name),
            found::any(fields, &titles::OP, |_| true),
            found::bytes(fields, &titles::OFFSET).map(|offset| offset.name),
            found::bytes(fields, &titles::LEN).map(|len| len.name),
            found::latency(fields).map(|latency| latency.name),
            number(&titles::THREAD),
            number(&titles::PROCESS),
            text(&titles::NAME),
            text(&titles::VOLUME),
            number(&titles::VOLUME),
        ];
        found.into_iter().flatten().chain(["stream", "volume", "flags"]).collect()
    }

    fn records(
        &mut self,
        columns: &Columns,
        dictionary: &mut Dictionary,
        batch: &mut Vec<Record>,
    ) -> Result<(), TraceError> {
        let fields = columns.fields();
        let missing = |name: &str, others: &str| columns.missing(name, others);
        let at = found::time(fields, &titles::AT).ok_or_else(|| {
            missing("at_ns", "a different name for times: timestamp, time_us, ...")
        })?;
        let op = found::any(fields, &titles::OP, |_| true).ok_or_else(|| {
            missing("op", "a different name for operations: operation, is_write, ...")
        })?;
        let offset = found::bytes(fields, &titles::OFFSET)
            .ok_or_else(|| missing("offset", "another of places: lba, sector, ..."))?;
        let len = found::bytes(fields, &titles::LEN)
            .ok_or_else(|| missing("len", "another of lengths: size, sectors, ..."))?;
        let latency = found::latency(fields).map(|found| columns.times(found, true)).transpose()?;
        let flags = match columns.has("flags") {
            true => columns.meanings("flags", FLAGS_EXPECTED, None, |t| flags_of(t.as_bytes()))?,
            false => vec![Flags::NONE; columns.rows()],
        };
        let streams = self.streams(columns, dictionary)?;
        let volumes = self.volumes(columns, dictionary)?;
        let (ops, times) = (columns.ops(op)?, columns.times(at, false)?);
        if let Some(first) = times.get(0)
            && !std::mem::replace(&mut self.begun, true)
        {
            self.warning = found::other_date(at, first);
        }
        let (offsets, lens) = (columns.bytes(offset)?, columns.bytes(len)?);
        for (row, (op, flags)) in ops.into_iter().zip(flags).enumerate() {
            let mut record = rows::record(
                columns.unsigned(&times, row, at.name)?,
                op,
                columns.unsigned(&offsets, row, offset.name)?,
                columns.unsigned(&lens, row, len.name)?,
            )
            .map_err(|mut wrong| {
                let own = if wrong.column == "len" { len.name } else { offset.name };
                wrong.column = own.to_string().into();
                columns.row_error(row, wrong)
            })?;
            record.flags = flags;
            let latency = latency.as_ref().and_then(|latency| latency.get(row));
            record.latency = latency.and_then(|ns| u64::try_from(ns).ok()).map(Nanos);
            self.below += u64::from(latency.is_some() && record.latency.is_none());
            (record.stream, record.volume) = (streams[row], volumes[row]);
            batch.push(record);
        }
        Ok(())
    }

    fn warning(&mut self) -> Option<String> {
        self.warning.take()
    }

    fn end(&mut self) -> Option<String> {
        rows::wrapped_sentence(std::mem::take(&mut self.below))
    }
}
