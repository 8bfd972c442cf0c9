//! Writes [canonical Parquet](crate::formats::parquet::canonical), zstd-compressed.

use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Int8Array, Int64Array, RecordBatch, StringArray, UInt32Array,
    UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use forebay_core::{Flags, Op};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use super::{Draft, Writer};
use crate::error::TraceError;
use crate::formats::parquet::canonical::{self, StreamText};
use crate::letters::flag_letters;
use crate::trace::{Dictionary, Notes, Record};

/// Rows of a group: what is held in memory until it is written.
const GROUP_ROWS: usize = 1 << 18;

/// Strong, and still faster than most sources are read.
const ZSTD_LEVEL: i32 = 12;

pub(super) fn create(draft: Draft) -> Result<Box<dyn Writer>, TraceError> {
    let schema = schema();
    let path = draft.path.clone();
    let fail = |error| failed(&path, error);
    let level = ZstdLevel::try_new(ZSTD_LEVEL).map_err(fail)?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .build();
    let table = ArrowWriter::try_new(draft, schema.clone(), Some(properties)).map_err(fail)?;
    Ok(Box::new(Parquet { path, schema, table }))
}

/// The columns.
fn schema() -> SchemaRef {
    let text = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    Arc::new(Schema::new(vec![
        Field::new("at_ns", DataType::Int64, false),
        Field::new("op", text.clone(), false),
        Field::new("offset", DataType::UInt64, false),
        Field::new("len", DataType::UInt32, false),
        Field::new("stream", DataType::UInt32, false),
        Field::new("volume", DataType::UInt32, false),
        Field::new("latency_ns", DataType::Int64, true),
        Field::new("flags", text, false),
    ]))
}

struct Parquet {
    path: std::path::PathBuf,
    schema: SchemaRef,
    table: ArrowWriter<Draft>,
}

fn failed(path: &std::path::Path, error: ParquetError) -> TraceError {
    let source = match error {
        ParquetError::External(cause) => match cause.downcast::<std::io::Error>() {
            Ok(io) => *io,
            Err(other) => std::io::Error::other(other),
        },
        other => std::io::Error::other(other),
    };
    TraceError::Io { path: path.to_path_buf(), source }
}

/// Small numbers as strings of a fixed list.
fn texts(keys: impl Iterator<Item = i8>, values: Vec<String>) -> Result<ArrayRef, ParquetError> {
    let keys = Int8Array::from_iter_values(keys);
    let values = Arc::new(StringArray::from(values));
    Ok(Arc::new(DictionaryArray::<Int8Type>::try_new(keys, values)?))
}

fn columns(batch: &[Record]) -> Result<Vec<ArrayRef>, ParquetError> {
    let u32s = |field: fn(&Record) -> u32| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(batch.iter().map(field)))
    };
    // Times beyond 292 years are cut.
    let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    let ops = [Op::Read, Op::Write, Op::Flush, Op::Trim, Op::Park];
    let flags = (0..32).map(|bits| flag_letters(Flags(bits))).collect();
    Ok(vec![
        Arc::new(Int64Array::from_iter_values(batch.iter().map(|r| signed(r.at.0)))),
        texts(batch.iter().map(|r| r.op as i8), ops.map(|op| op.name().into()).to_vec())?,
        Arc::new(UInt64Array::from_iter_values(batch.iter().map(|r| r.offset))),
        u32s(|r| r.len),
        u32s(|r| r.stream),
        u32s(|r| r.volume),
        Arc::new(Int64Array::from_iter(batch.iter().map(|r| r.latency.map(|l| signed(l.0))))),
        texts(batch.iter().map(|r| (r.flags.0 & 31) as i8), flags)?,
    ])
}

impl Writer for Parquet {
    fn write(&mut self, batch: &[Record], _: &Dictionary) -> Result<(), TraceError> {
        let put = || -> Result<RecordBatch, ParquetError> {
            Ok(RecordBatch::try_new(self.schema.clone(), columns(batch)?)?)
        };
        put().and_then(|rows| self.table.write(&rows)).map_err(|error| failed(&self.path, error))
    }

    fn finish(
        mut self: Box<Self>,
        dictionary: &Dictionary,
        notes: &Notes,
    ) -> Result<Vec<String>, TraceError> {
        let fail = |error: serde_json::Error| TraceError::Io {
            path: self.path.clone(),
            source: error.into(),
        };
        let streams: Vec<StreamText> = dictionary.streams.iter().map(StreamText::from).collect();
        let streams = serde_json::to_string(&streams).map_err(fail)?;
        let volumes = serde_json::to_string(&dictionary.volumes).map_err(fail)?;
        for (key, value) in [
            (canonical::KEY_VERSION, canonical::VERSION.into()),
            (canonical::KEY_SOURCE, notes.format.into()),
            (canonical::KEY_UNIT, canonical::UNIT.into()),
            (canonical::KEY_STREAMS, streams),
            (canonical::KEY_VOLUMES, volumes),
        ] {
            self.table.append_key_value_metadata(KeyValue::new(key.to_string(), Some(value)));
        }
        self.table.into_inner().map_err(|error| failed(&self.path, error))?.publish()?;
        Ok(Vec::new())
    }
}
