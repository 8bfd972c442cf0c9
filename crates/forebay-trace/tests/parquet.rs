//! Parquet as other makers write it: every codec, and integers that pandas made floats of.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::types::{Int8Type, UInt32Type};
use arrow_array::{
    ArrayRef, DictionaryArray, Float32Array, Float64Array, Int8Array, Int64Array, LargeStringArray,
    RecordBatch, StringArray, StringViewArray, UInt16Array, UInt64Array,
};
use forebay_core::Nanos;
use forebay_trace::Record;
use forebay_trace::open::open;
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

/// The columns that a table needs, of three requests; `more` replaces or adds some.
fn table(more: &[(&str, ArrayRef)]) -> RecordBatch {
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("at_ns", Arc::new(Int64Array::from(vec![0, 1_000, 2_000]))),
        ("op", Arc::new(StringArray::from(vec!["read", "write", "read"]))),
        ("offset", Arc::new(UInt64Array::from(vec![0, 1 << 40, 8192]))),
        ("len", Arc::new(UInt64Array::from(vec![4096, 512, 65_536]))),
    ];
    for (name, column) in more {
        columns.retain(|(known, _)| known != name);
        columns.push((name, column.clone()));
    }
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
        .unwrap()
}

fn write(path: &Path, table: &RecordBatch, compression: Compression) {
    let properties = WriterProperties::builder().set_compression(compression).build();
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, table.schema(), Some(properties)).unwrap();
    writer.write(table).unwrap();
    writer.close().unwrap();
}

/// The records of `table` as a file, or why it is refused.
fn read(table: &RecordBatch, compression: Compression) -> Result<Vec<Record>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    write(&path, table, compression);
    let mut reader = open(&path, None).map_err(|error| error.to_string())?;
    let mut batch = Vec::new();
    reader.read(&mut batch).map_err(|error| error.to_string())?;
    Ok(batch)
}

const PLAIN: Compression = Compression::UNCOMPRESSED;

/// When the trace of a table with this metadata and these times began by its source's clock.
fn began(metadata: &[(&str, &str)], times: &[i64]) -> Result<Option<Nanos>, String> {
    let at: ArrayRef = Arc::new(Int64Array::from(times.to_vec()));
    let table = table(&[("at_ns", at)]);
    let said =
        metadata.iter().map(|(key, value)| KeyValue::new(key.to_string(), value.to_string()));
    let properties = WriterProperties::builder().set_key_value_metadata(Some(said.collect()));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let file = File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, table.schema(), Some(properties.build())).unwrap();
    writer.write(&table).unwrap();
    writer.close().unwrap();
    let mut reader = open(&path, None).map_err(|error| error.to_string())?;
    reader.read(&mut Vec::new()).map_err(|error| error.to_string())?;
    Ok(reader.notes().began)
}

#[test]
fn a_table_keeps_its_sources_clock() {
    // What others made has its own times; what we wrote counts from the first request.
    assert_eq!(began(&[], &[500, 600, 700]), Ok(Some(Nanos(500))));
    let ours = ("forebay.version", "1");
    assert_eq!(began(&[ours], &[0, 100, 200]), Ok(None));
    assert_eq!(began(&[ours, ("forebay.began_ns", "42")], &[0, 1, 2]), Ok(Some(Nanos(42))));
    // A file time of 1601 in ns; and what tells nothing.
    let file_time = ("forebay.began_ns", "12816638529551466300");
    assert_eq!(began(&[ours, file_time], &[0, 1, 2]), Ok(Some(Nanos(12_816_638_529_551_466_300))));
    for wrong in ["", "-1", "1.5", "soon", "18446744073709551616"] {
        assert_eq!(began(&[ours, ("forebay.began_ns", wrong)], &[0, 1, 2]), Ok(None));
    }
}

#[test]
fn every_codec_is_read() {
    let expected = read(&table(&[]), PLAIN).unwrap();
    assert_eq!(expected.iter().map(|r| r.len).collect::<Vec<_>>(), [4096, 512, 65_536]);
    for codec in [
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::BROTLI(BrotliLevel::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::default()),
    ] {
        assert_eq!(read(&table(&[]), codec), Ok(expected.clone()), "{codec}");
    }
}

#[test]
fn every_type_of_strings_and_integers_is_read() {
    let expected = read(&table(&[]), PLAIN).unwrap();
    let ops = ["read", "write", "read"];
    // With a text that no row uses, which means nothing.
    let values = Arc::new(LargeStringArray::from(vec!["write", "no operation", "read"]));
    let unused = DictionaryArray::<Int8Type>::new(Int8Array::from(vec![2, 0, 2]), values);
    let columns: [ArrayRef; 5] = [
        Arc::new(LargeStringArray::from(ops.to_vec())),
        Arc::new(StringViewArray::from(ops.to_vec())),
        Arc::new(ops.into_iter().collect::<DictionaryArray<Int8Type>>()),
        Arc::new(ops.into_iter().collect::<DictionaryArray<UInt32Type>>()),
        Arc::new(unused),
    ];
    for column in columns {
        let kind = column.data_type().to_string();
        assert_eq!(read(&table(&[("op", column)]), PLAIN), Ok(expected.clone()), "{kind}");
    }
    let narrow: ArrayRef = Arc::new(UInt16Array::from(vec![4096, 512, 65_535]));
    assert_eq!(read(&table(&[("len", narrow)]), PLAIN).unwrap()[2].len, 65_535);
}

#[test]
fn what_no_row_may_hold_is_refused_with_its_row() {
    let refused = |name, column: ArrayRef, expected: &str| {
        let said = read(&table(&[(name, column)]), PLAIN).unwrap_err();
        assert!(said.contains(expected), "no {expected:?} in {said}");
    };
    let beyond: ArrayRef = Arc::new(UInt64Array::from(vec![0, 1 << 63, 0]));
    refused("offset", beyond, "row 2: got \"9223372036854775808\" in column offset");
    let ops: ArrayRef = Arc::new(StringArray::from(vec!["read", "write", "rite"]));
    refused("op", ops, "row 3: got \"rite\" in column op");
    let none: ArrayRef = Arc::new(StringArray::from(vec![Some("read"), None, Some("read")]));
    refused("op", none, "row 2: got null in column op");
    refused("op", Arc::new(Int64Array::from(vec![0, 1, 2])), "type Int64 in column op");
}

#[test]
fn whole_floats_are_integers_and_nan_is_null() {
    let latency: ArrayRef = Arc::new(Float64Array::from(vec![Some(1e6), None, Some(f64::NAN)]));
    let lens: ArrayRef = Arc::new(Float32Array::from(vec![4096.0, 512.0, 16_777_216.0]));
    let table = table(&[("latency_ns", latency), ("len", lens)]);
    let records = read(&table, PLAIN).unwrap();
    let found: Vec<_> = records.iter().map(|r| (r.latency, r.len)).collect();
    assert_eq!(found, [(Some(Nanos(1_000_000)), 4096), (None, 512), (None, 16_777_216)]);
}

#[test]
fn floats_that_are_no_integers_are_refused_with_their_row() {
    let refused = |name: &str, column: ArrayRef, parts: &[&str]| {
        let said = read(&table(&[(name, column)]), PLAIN).unwrap_err();
        for part in parts.iter().chain(&["t.parquet, row ", name]) {
            assert!(said.contains(part), "no {part:?} in {said}");
        }
    };
    let doubles = |values: [f64; 3]| -> ArrayRef { Arc::new(Float64Array::from(values.to_vec())) };
    let half = "got \"0.5\" in column latency_ns, expected a whole number";
    refused("latency_ns", doubles([1.0, f64::NAN, 0.5]), &["row 3", half]);
    refused("latency_ns", doubles([1.0, f64::INFINITY, 2.0]), &["row 2", "inf"]);
    refused("latency_ns", doubles([-1.0, 1.0, 2.0]), &["row 1", "not negative"]);
    let rounded = 2f64.powi(53) + 2.0;
    refused("offset", doubles([0.0, rounded, 0.0]), &["row 2", "9007199254740994", "2^53"]);
    refused("len", doubles([512.0, f64::NAN, 512.0]), &["row 2", "got null", "a value"]);
    let singles: ArrayRef = Arc::new(Float32Array::from(vec![0.0, 33_554_432.0, 0.0]));
    refused("offset", singles, &["row 2", "33554432", "2^24"]);
}
