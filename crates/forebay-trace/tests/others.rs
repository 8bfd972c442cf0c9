//! Tests Parquet files written by pandas, fastparquet, Polars and DuckDB with common column names.
//! `others/make.py` creates them.

use std::path::Path;

use forebay_core::{Nanos, Op};
use forebay_trace::open::open;
use forebay_trace::{Dictionary, Record};

/// Reads a file. Returns its requests and the names of streams and volumes.
fn read(name: &str) -> (Vec<Record>, Dictionary) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/others").join(name);
    let mut reader = open(&path, None).unwrap_or_else(|error| panic!("{error}"));
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        reader.read(&mut batch).unwrap_or_else(|error| panic!("{error}"));
        if batch.is_empty() {
            assert_eq!(reader.notes().rows_skipped + reader.notes().rows_late, 0, "{name}");
            return (all, reader.dictionary().clone());
        }
        all.extend_from_slice(&batch);
    }
}

/// Returns the expected request `n` in all files: the time with a resolution of `ns`, the
/// operation, the offset and the length.
fn expected(n: u64, ns: u64) -> (u64, Op, u64, u32) {
    let op = if n.is_multiple_of(3) { Op::Write } else { Op::Read };
    let at = n * 1_500_000 / ns * ns;
    (at, op, (n * 7919) % 100_000 * 4096, 4096 * (1 + (n % 4) as u32))
}

#[test]
fn times_operations_places_and_lengths() {
    for (name, ns) in [
        ("pandas.parquet", 1),
        ("pandas-index.parquet", 1_000_000),
        ("fastparquet.parquet", 1),
        ("polars.parquet", 1),
        ("polars-categorical.parquet", 1),
        ("duckdb.parquet", 1),
        ("duckdb-zoned.parquet", 1),
    ] {
        let (records, _) = read(name);
        assert_eq!(records.len(), 300, "{name}");
        for (n, found) in records.iter().enumerate() {
            let found = (found.at.0, found.op, found.offset, found.len);
            assert_eq!(found, expected(n as u64, ns), "{name}, request {n}");
        }
    }
}

#[test]
fn latencies_in_their_units_and_missing_ones() {
    for name in ["pandas.parquet", "fastparquet.parquet", "polars.parquet", "duckdb.parquet"] {
        for (n, found) in read(name).0.iter().enumerate() {
            let latency = (n % 10 != 0).then_some(Nanos(250_000 * (n as u64 % 8)));
            assert_eq!(found.latency, latency, "{name}, request {n}");
        }
    }
}

#[test]
fn volumes_and_submitters_by_name_and_number() {
    for name in ["pandas.parquet", "fastparquet.parquet", "polars.parquet"] {
        let (records, dictionary) = read(name);
        assert_eq!(dictionary.volumes, ["sdb", "sda"], "{name}");
        assert!(records.iter().enumerate().all(|(n, found)| found.volume == n as u32 % 2));
    }
    let (records, dictionary) = read("pandas.parquet");
    let seventh = &dictionary.streams[records[7].stream as usize];
    assert_eq!((seventh.process, seventh.thread), (None, None), "request 7 has no pid");
    assert_eq!(dictionary.streams[records[8].stream as usize].process, Some(103));
    let (records, dictionary) = read("polars.parquet");
    let who = |n: usize| dictionary.streams[records[n].stream as usize].clone();
    assert_eq!((who(8).name.as_str(), who(8).thread), ("worker 3", Some(103)));
    assert_eq!((who(7).name.as_str(), who(7).thread), ("", Some(102)));
    assert_eq!(dictionary.streams.len(), 6);
    assert_eq!(read("duckdb.parquet").1.volumes, ["0", "1"]);
    assert_eq!(read("duckdb-zoned.parquet").1.volumes, ["0"]);
}
