//! Canonical Parquet, the form every trace can be kept in without loss.
//!
//! Columns: `at_ns` int64 (from the first request), `op` dictionary string (read, write, flush,
//! trim), `offset` uint64 bytes, `len` uint32 bytes, `stream` uint32, `volume` uint32, `latency_ns`
//! int64 (null where unknown), `flags` dictionary string (letters of `PFASM`: preflush, FUA,
//! read-ahead, synchronous, metadata). File metadata: `forebay.version` = 1, `forebay.source` (the
//! format it came from), `forebay.unit`, and the dictionaries as JSON: `forebay.streams`, a list of
//! `{thread, process, name}`, and `forebay.volumes`, a list of names.
//!
//! Tables of other makers need only `at_ns`, `op`, `offset` and `len`; without dictionaries,
//! streams and volumes are named by their numbers.

use std::collections::BTreeMap;

use forebay_core::{Flags, Nanos};
use serde::{Deserialize, Serialize};

use super::{Schema, Table, damaged, shown};
use crate::error::TraceError;
use crate::formats::parquet::columns::{Columns, Numbers};
use crate::naming::Room;
use crate::op_flags::{FLAGS_EXPECTED, OP_EXPECTED, flags_of, op_of};
use crate::rows::{self, Wrong};
use crate::trace::{Dictionary, Record, Stream};

/// Metadata key of the version of this form.
pub(crate) const KEY_VERSION: &str = "forebay.version";
/// Metadata key of the format the trace came from.
pub(crate) const KEY_SOURCE: &str = "forebay.source";
/// Metadata key of the units.
pub(crate) const KEY_UNIT: &str = "forebay.unit";
/// Metadata key of the streams.
pub(crate) const KEY_STREAMS: &str = "forebay.streams";
/// Metadata key of the volumes.
pub(crate) const KEY_VOLUMES: &str = "forebay.volumes";

/// The version written and read.
pub(crate) const VERSION: &str = "1";
/// The units written and read.
pub(crate) const UNIT: &str = "at_ns, latency_ns: ns; offset, len: bytes";

/// A [`Stream`] as it stands in the metadata.
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

/// How numbers of streams or volumes become indices.
enum Numbering {
    /// The file has a dictionary of this length.
    Given(u64),
    /// In the order of their first row.
    Found(BTreeMap<u64, u32>),
}

impl Numbering {
    fn of(given: Option<usize>) -> Numbering {
        given.map_or(Numbering::Found(BTreeMap::new()), |length| Numbering::Given(length as u64))
    }

    fn index(
        &mut self,
        number: u64,
        column: &'static str,
        room: &mut Room,
        new: impl FnOnce(String),
    ) -> Result<u32, Wrong> {
        match self {
            Numbering::Given(length) if number < *length => Ok(number as u32),
            Numbering::Given(_) => {
                let got = number.to_string();
                Err(Wrong::new(column, got.as_bytes(), "an index into the file's dictionary"))
            }
            Numbering::Found(known) => {
                if let Some(&index) = known.get(&number) {
                    return Ok(index);
                }
                let (name, next) = (number.to_string(), known.len() as u32);
                room.take(column, name.as_bytes())?;
                known.insert(number, next);
                new(name);
                Ok(next)
            }
        }
    }
}

/// The canonical form.
pub(super) struct Canonical {
    streams: Numbering,
    volumes: Numbering,
    room: Room,
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
        let mut room = Room::default();
        let wrong = |wrong: Wrong| damaged(&table.path, wrong.got, &wrong.expected);
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
        };
        dictionary.streams = streams.unwrap_or_default().iter().map(Stream::from).collect();
        dictionary.volumes = volumes.unwrap_or_default();
        Ok(schema)
    }

    fn records(
        &mut self,
        columns: &Columns,
        dictionary: &mut Dictionary,
        batch: &mut Vec<Record>,
    ) -> Result<(), TraceError> {
        let at = columns.numbers("at_ns", false)?;
        let ops = columns.meanings("op", OP_EXPECTED, |text| op_of(text.as_bytes()))?;
        let offset = columns.numbers("offset", false)?;
        let len = columns.numbers("len", false)?;
        let optional = |name| columns.has(name).then(|| columns.numbers(name, false)).transpose();
        let (stream, volume) = (optional("stream")?, optional("volume")?);
        let latency =
            columns.has("latency_ns").then(|| columns.numbers("latency_ns", true)).transpose()?;
        let flags = match columns.has("flags") {
            true => columns.meanings("flags", FLAGS_EXPECTED, |t| flags_of(t.as_bytes()))?,
            false => vec![Flags::NONE; columns.rows()],
        };
        let value = |numbers: &Option<Numbers>, row, name| match numbers {
            Some(numbers) => columns.unsigned(numbers, row, name),
            None => Ok(0),
        };
        for (row, (op, flags)) in ops.into_iter().zip(flags).enumerate() {
            let mut record = rows::record(
                columns.unsigned(&at, row, "at_ns")?,
                op,
                columns.unsigned(&offset, row, "offset")?,
                columns.unsigned(&len, row, "len")?,
            )
            .map_err(|wrong| columns.wrong(row, wrong))?;
            record.flags = flags;
            if let Some(latency) = &latency {
                record.latency = columns.optional(latency, row, "latency_ns")?.map(Nanos);
            }
            record.stream = (self.streams)
                .index(value(&stream, row, "stream")?, "stream", &mut self.room, |name| {
                    dictionary.streams.push(Stream { name, ..Stream::default() })
                })
                .map_err(|wrong| columns.wrong(row, wrong))?;
            record.volume = (self.volumes)
                .index(value(&volume, row, "volume")?, "volume", &mut self.room, |name| {
                    dictionary.volumes.push(name)
                })
                .map_err(|wrong| columns.wrong(row, wrong))?;
            batch.push(record);
        }
        Ok(())
    }
}
