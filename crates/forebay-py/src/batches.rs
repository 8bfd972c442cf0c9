//! Converts a trace to Arrow tables in batches, with the columns of canonical Parquet, so that
//! readers never need the whole trace in memory.

use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Int8Array, Int64Array, RecordBatch, RecordBatchReader, StringArray,
    UInt32Array, UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Metadata, Schema, SchemaRef};
use forebay_core::{Flags, Op};
use forebay_trace::table::{flag_letters, metadata};
use forebay_trace::{Dictionary, Reader, Record};

use crate::error::ReadError;

/// Returns the schema. `len` is wider than in files, because some libraries sum lengths in the type
/// of the column, which would overflow.
fn schema() -> Schema {
    let text = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    Schema::new(vec![
        Field::new("at_ns", DataType::Int64, false),
        Field::new("op", text.clone(), false),
        Field::new("offset", DataType::UInt64, false),
        Field::new("len", DataType::UInt64, false),
        Field::new("stream", DataType::UInt32, false),
        Field::new("volume", DataType::UInt32, false),
        Field::new("latency_ns", DataType::Int64, true),
        Field::new("flags", text, false),
    ])
}

/// Builds a dictionary column: indices into a fixed list of strings.
fn texts(keys: impl Iterator<Item = i8>, values: Vec<String>) -> Result<ArrayRef, ArrowError> {
    let keys = Int8Array::from_iter_values(keys);
    let values = Arc::new(StringArray::from(values));
    Ok(Arc::new(DictionaryArray::<Int8Type>::try_new(keys, values)?))
}

fn columns(batch: &[Record]) -> Result<Vec<ArrayRef>, ArrowError> {
    let u32s = |field: fn(&Record) -> u32| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(batch.iter().map(field)))
    };
    let u64s = |field: fn(&Record) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(batch.iter().map(field)))
    };
    // Times beyond 292 years do not fit and are clamped.
    let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    let ops = [Op::Read, Op::Write, Op::Flush, Op::Trim, Op::Park];
    let flags = (0..32).map(|bits| flag_letters(Flags(bits))).collect();
    Ok(vec![
        Arc::new(Int64Array::from_iter_values(batch.iter().map(|r| signed(r.at.0)))),
        texts(batch.iter().map(|r| r.op as i8), ops.map(|op| op.name().into()).to_vec())?,
        u64s(|r| r.offset),
        u64s(|r| r.len.into()),
        u32s(|r| r.stream),
        u32s(|r| r.volume),
        Arc::new(Int64Array::from_iter(batch.iter().map(|r| r.latency.map(|l| signed(l.0))))),
        texts(batch.iter().map(|r| (r.flags.0 & 31) as i8), flags)?,
    ])
}

/// The number of rows per batch, which makes the overhead per batch negligible.
const ROWS: usize = 1 << 16;

/// A trace as a stream of Arrow batches.
pub(crate) struct Batches {
    reader: Box<dyn Reader>,
    schema: SchemaRef,
    records: Vec<Record>,
    batch: Vec<Record>,
}

impl Batches {
    /// Creates batches from the remaining records of `reader`. The schema has the metadata of
    /// canonical Parquet, including the `dictionary` if it is known before the end.
    pub(crate) fn new(reader: Box<dyn Reader>, dictionary: Option<&Dictionary>) -> Batches {
        let said = dictionary.map(|known| metadata(known, reader.notes()));
        let said = said.into_iter().flatten().collect::<Metadata>();
        let schema = Arc::new(schema().with_metadata(said));
        Batches { reader, schema, records: Vec::new(), batch: Vec::new() }
    }

    /// Returns the underlying reader.
    pub(crate) fn reader(&self) -> &dyn Reader {
        &*self.reader
    }

    fn next_rows(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        self.records.clear();
        while self.records.len() < ROWS {
            let read = self.reader.read(&mut self.batch);
            read.map_err(|error| ArrowError::ExternalError(Box::new(ReadError(error))))?;
            if self.batch.is_empty() {
                break;
            }
            self.records.extend_from_slice(&self.batch);
        }
        let rows = || RecordBatch::try_new(self.schema.clone(), columns(&self.records)?);
        (!self.records.is_empty()).then(rows).transpose()
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_rows().transpose()
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
