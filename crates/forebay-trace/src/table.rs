//! Traces as Arrow tables in memory, with the columns of [canonical
//! Parquet](crate::formats::parquet::canonical).
//!
//! [`Batches`] gives a trace batch by batch, so that whoever takes them needs no room for all;
//! [`read`] takes a table of any maker back as a trace.

use std::path::Path;
use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Int8Array, Int64Array, RecordBatch, RecordBatchReader, StringArray,
    UInt32Array, UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Metadata, Schema, SchemaRef};
use forebay_core::{Flags, Op};

use crate::error::TraceError;
use crate::formats::parquet::canonical::{self, StreamText};
use crate::formats::parquet::open_table;
use crate::op_flags::flag_letters;
use crate::trace::{Dictionary, Notes, Reader, Record};

/// The columns of a table in memory. Its `len` is wider than that of a file: who adds up lengths in
/// their own type must not get a sum that overflowed.
pub fn schema() -> Schema {
    with_len(DataType::UInt64)
}

/// The columns of a file.
pub fn file_schema() -> Schema {
    with_len(DataType::UInt32)
}

fn with_len(len: DataType) -> Schema {
    let text = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
    Schema::new(vec![
        Field::new("at_ns", DataType::Int64, false),
        Field::new("op", text.clone(), false),
        Field::new("offset", DataType::UInt64, false),
        Field::new("len", len, false),
        Field::new("stream", DataType::UInt32, false),
        Field::new("volume", DataType::UInt32, false),
        Field::new("latency_ns", DataType::Int64, true),
        Field::new("flags", text, false),
    ])
}

/// What the columns do not say: the version of the form, units, the dictionaries as JSON, and when it began.
pub fn metadata(dictionary: &Dictionary, notes: &Notes) -> Vec<(&'static str, String)> {
    let streams: Vec<StreamText> = dictionary.streams.iter().map(StreamText::from).collect();
    // Lists of numbers and strings always have a JSON form.
    let json = |text: Result<String, serde_json::Error>| text.unwrap_or_default();
    let mut said = vec![
        (canonical::KEY_VERSION, canonical::VERSION.into()),
        (canonical::KEY_SOURCE, notes.format.into()),
        (canonical::KEY_UNIT, canonical::UNIT.into()),
        (canonical::KEY_STREAMS, json(serde_json::to_string(&streams))),
        (canonical::KEY_VOLUMES, json(serde_json::to_string(&dictionary.volumes))),
    ];
    said.extend(notes.began.map(|began| (canonical::KEY_BEGAN, began.0.to_string())));
    said
}

/// Records as rows of `schema`, which has the columns of [`schema`] or [`file_schema`].
pub fn rows(schema: &SchemaRef, records: &[Record]) -> Result<RecordBatch, ArrowError> {
    let wide = schema.field_with_name("len")?.data_type() == &DataType::UInt64;
    RecordBatch::try_new(schema.clone(), columns(records, wide)?)
}

/// Small numbers as strings of a fixed list.
fn texts(keys: impl Iterator<Item = i8>, values: Vec<String>) -> Result<ArrayRef, ArrowError> {
    let keys = Int8Array::from_iter_values(keys);
    let values = Arc::new(StringArray::from(values));
    Ok(Arc::new(DictionaryArray::<Int8Type>::try_new(keys, values)?))
}

fn columns(batch: &[Record], wide: bool) -> Result<Vec<ArrayRef>, ArrowError> {
    let u32s = |field: fn(&Record) -> u32| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(batch.iter().map(field)))
    };
    let len = match wide {
        true => Arc::new(UInt64Array::from_iter_values(batch.iter().map(|r| r.len.into()))),
        false => u32s(|r| r.len),
    };
    // Times beyond 292 years are cut.
    let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    let ops = [Op::Read, Op::Write, Op::Flush, Op::Trim, Op::Park];
    let flags = (0..32).map(|bits| flag_letters(Flags(bits))).collect();
    Ok(vec![
        Arc::new(Int64Array::from_iter_values(batch.iter().map(|r| signed(r.at.0)))),
        texts(batch.iter().map(|r| r.op as i8), ops.map(|op| op.name().into()).to_vec())?,
        Arc::new(UInt64Array::from_iter_values(batch.iter().map(|r| r.offset))),
        len,
        u32s(|r| r.stream),
        u32s(|r| r.volume),
        Arc::new(Int64Array::from_iter(batch.iter().map(|r| r.latency.map(|l| signed(l.0))))),
        texts(batch.iter().map(|r| (r.flags.0 & 31) as i8), flags)?,
    ])
}

/// Rows of a batch that [`Batches`] gives: enough that what a batch costs its taker is little.
const ROWS: usize = 1 << 16;

/// A trace as a stream of tables.
pub struct Batches {
    reader: Box<dyn Reader>,
    schema: SchemaRef,
    records: Vec<Record>,
    batch: Vec<Record>,
}

impl Batches {
    /// What is left of `reader`. The schema's metadata is [`metadata`] of the `dictionary`, if
    /// one is known before the end.
    pub fn new(reader: Box<dyn Reader>, dictionary: Option<&Dictionary>) -> Batches {
        let said = dictionary.map(|known| metadata(known, reader.notes()));
        let said = said.into_iter().flatten().collect::<Metadata>();
        let schema = Arc::new(schema().with_metadata(said));
        Batches { reader, schema, records: Vec::new(), batch: Vec::new() }
    }

    /// What the records come from.
    pub fn reader(&self) -> &dyn Reader {
        &*self.reader
    }

    fn next_rows(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        self.records.clear();
        while self.records.len() < ROWS {
            let read = self.reader.read(&mut self.batch);
            read.map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
            if self.batch.is_empty() {
                break;
            }
            self.records.extend_from_slice(&self.batch);
        }
        let some = !self.records.is_empty();
        some.then(|| rows(&self.schema, &self.records)).transpose()
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

/// Reads a table, canonical or of captures, as [`crate::open::open`] reads such a file; messages
/// call it `name`. Streams and volumes have their names from `names`, else from the metadata of the
/// schema, else they are called by their numbers.
pub fn read(
    name: &Path,
    batches: Box<dyn RecordBatchReader + Send>,
    names: Option<&Dictionary>,
) -> Result<Box<dyn Reader>, TraceError> {
    let mut said = batches.schema().metadata().clone();
    said.extend(names.into_iter().flat_map(|names| metadata(names, &Notes::default())));
    open_table(name.to_path_buf(), said.into_iter().collect(), batches)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Notes, Stream};
    use forebay_core::Nanos;

    struct Given(Vec<Vec<Record>>, Dictionary, Notes);

    impl Reader for Given {
        fn read(&mut self, batch: &mut Vec<Record>) -> Result<(), TraceError> {
            *batch = self.0.pop().unwrap_or_default();
            Ok(())
        }
        fn dictionary(&self) -> &Dictionary {
            &self.1
        }
        fn notes(&self) -> &Notes {
            &self.2
        }
    }

    fn record(n: u64) -> Record {
        Record {
            at: Nanos(n),
            offset: n * 4096,
            latency: n.is_multiple_of(3).then_some(Nanos(n)),
            len: 4096,
            stream: 1,
            volume: 0,
            op: if n.is_multiple_of(2) { Op::Read } else { Op::Write },
            flags: Flags((n % 32) as u8),
        }
    }

    fn dictionary() -> Dictionary {
        let named = |name: &str| Stream { thread: Some(7), process: None, name: name.into() };
        Dictionary { streams: vec![named("a"), named("b")], volumes: vec!["sda".into()] }
    }

    fn given(records: &[Record]) -> Box<dyn Reader> {
        let mut batches: Vec<Vec<Record>> = records.chunks(1000).map(<[Record]>::to_vec).collect();
        batches.reverse();
        Box::new(Given(batches, dictionary(), Notes { format: "test", ..Notes::default() }))
    }

    fn drain(mut reader: Box<dyn Reader>) -> (Vec<Record>, Dictionary) {
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        loop {
            reader.read(&mut batch).unwrap();
            if batch.is_empty() {
                return (all, reader.dictionary().clone());
            }
            all.extend_from_slice(&batch);
        }
    }

    #[test]
    fn what_goes_out_comes_back() {
        let records: Vec<Record> = (0..150_500).map(record).collect();
        let batches = Batches::new(given(&records), Some(&dictionary()));
        let (back, names) = drain(read(Path::new("t"), Box::new(batches), None).unwrap());
        assert!(back == records && names == dictionary());
    }

    /// In memory lengths add up, in a file they keep their type.
    #[test]
    fn lengths_are_wide_in_memory_only() {
        let records = [Record { len: 1 << 30, ..record(0) }; 5];
        for (schema, wide) in [(schema(), true), (file_schema(), false)] {
            let rows = rows(&Arc::new(schema), &records).unwrap();
            let len = rows.column_by_name("len").unwrap();
            assert_eq!(len.as_any().downcast_ref::<UInt64Array>().is_some(), wide);
            assert_eq!(len.as_any().downcast_ref::<UInt32Array>().is_some(), !wide);
        }
        let batch = Batches::new(given(&records), None).next().unwrap().unwrap();
        let len = batch.column_by_name("len").unwrap();
        let sum: u64 = len.as_any().downcast_ref::<UInt64Array>().unwrap().values().iter().sum();
        assert_eq!(sum, 5 << 30);
    }

    #[test]
    fn batches_are_large_and_none_is_empty() {
        let records: Vec<Record> = (0..150_500).map(record).collect();
        let batches = Batches::new(given(&records), None);
        let rows: Vec<usize> = batches.map(|batch| batch.unwrap().num_rows()).collect();
        assert_eq!(rows, [66_000, 66_000, 18_500]);
    }

    #[test]
    fn names_are_given_or_numbers() {
        let read_with = |names: Option<&Dictionary>| {
            let batches = Batches::new(given(&[record(0)]), None);
            drain(read(Path::new("t"), Box::new(batches), names).unwrap()).1
        };
        assert_eq!(read_with(Some(&dictionary())), dictionary());
        assert_eq!(read_with(None).streams[0].name, "1");
    }

    #[test]
    fn a_table_without_the_columns_is_refused_by_name() {
        let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, false)]));
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let rows = RecordBatch::try_new(schema.clone(), vec![column]).unwrap();
        let batches = arrow_array::RecordBatchIterator::new([Ok(rows)], schema);
        let mut reader = read(Path::new("my table"), Box::new(batches), None).unwrap();
        let text = reader.read(&mut Vec::new()).unwrap_err().to_string();
        assert!(text.starts_with("my table: ") && text.contains("column at_ns"), "{text}");
    }
}
