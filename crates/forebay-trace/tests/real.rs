//! Real traces, read and held against the figures published with them. Skipped where the traces
//! are not at hand.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use forebay_core::Op;
use forebay_trace::open::open;
use forebay_trace::{Dictionary, Notes, Record};

fn shared(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces").join(name);
    if !path.exists() {
        println!("skipped: no {}", path.display());
        return None;
    }
    Some(path)
}

fn read(name: &str) -> Option<(Vec<Record>, Dictionary, Notes)> {
    let mut reader = open(&shared(name)?, None).unwrap();
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        reader.read(&mut batch).unwrap();
        if batch.is_empty() {
            assert!(all.is_sorted_by_key(|r: &Record| r.at));
            return Some((all, reader.dictionary().clone(), reader.notes().clone()));
        }
        all.extend_from_slice(&batch);
    }
}

fn read_percent(records: &[Record]) -> f64 {
    let reads = records.iter().filter(|r| r.op == Op::Read).count();
    (reads as f64 * 1e4 / records.len() as f64).round() / 100.0
}

fn duration_s(records: &[Record]) -> f64 {
    records.last().unwrap().at.as_secs_f64()
}

#[test]
fn msr_cambridge() {
    for (name, requests, percent, volume) in [
        ("msr/rsrch_1.csv.zst", 13_780, 0.3, "rsrch.1"),
        ("msr/wdev_1.csv", 1_055, 0.0, "wdev.1"),
        ("msr/hm_0.sample1000.csv", 1_000, 50.8, "hm.0"),
    ] {
        let Some((records, dictionary, notes)) = read(name) else { return };
        assert_eq!((notes.format, records.len()), ("msr", requests));
        assert!((read_percent(&records) - percent).abs() < 0.06, "{name}");
        assert_eq!((notes.rows_skipped, notes.rows_late), (0, 0));
        assert_eq!(dictionary.volumes, [volume]);
        assert!(records.iter().all(|r| r.latency.is_some()));
    }
}

#[test]
fn spc() {
    for (name, requests, percent, seconds, volumes) in [
        ("spc/Financial1.prefix.rewritten.spc.zst", 10_000, 40.8, 259.6, 22),
        ("spc/WebSearch1.prefix.rewritten.spc.zst", 24_783, 99.98, 60.06, 6),
    ] {
        let Some((records, dictionary, notes)) = read(name) else { return };
        assert_eq!((notes.format, records.len()), ("spc", requests));
        assert!((read_percent(&records) - percent).abs() < 0.06, "{name}");
        assert!((duration_s(&records) - seconds).abs() < 0.06, "{name}");
        assert_eq!((dictionary.volumes.len(), notes.rows_skipped), (volumes, 0));
    }
}

#[test]
fn hadoop_captures() {
    for (name, requests, read_gb, written_gb, threads, seconds) in [
        ("terasort", 75_710, 8.37, 14.92, 124, 393),
        ("wordcount", 27_687, 3.26, 0.02, 66, 399),
        ("grep", 27_869, 3.26, 0.02, 67, 359),
        ("randomtextwriter", 5_996, 0.0, 9.91, 28, 165),
        ("sample", 3_480, 0.25, 0.87, 29, 93),
    ] {
        let Some((records, dictionary, notes)) = read(&format!("hadoop/{name}.parquet")) else {
            return;
        };
        let bytes = |op| {
            let of_op = records.iter().filter(|r| r.op == op);
            of_op.map(|r| u64::from(r.len)).sum::<u64>() as f64 / 1e9
        };
        let data: Vec<&Record> = records.iter().filter(|r| r.op.moves_data()).collect();
        assert_eq!((notes.format, data.len()), ("hadoop-parquet", requests), "{name}");
        assert!((bytes(Op::Read) - read_gb).abs() < 0.006, "{name}: {}", bytes(Op::Read));
        assert!((bytes(Op::Write) - written_gb).abs() < 0.006, "{name}: {}", bytes(Op::Write));
        let mut ids: Vec<_> =
            data.iter().map(|r| dictionary.streams[r.stream as usize].thread).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), threads, "{name}");
        assert!((duration_s(&records) - f64::from(seconds)).abs() < 1.0, "{name}");
        assert_eq!(notes.rows_skipped, 0);
    }
}

#[test]
fn the_bundled_sample_is_the_terasort_capture() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces/terasort.parquet");
    assert!(path.metadata().unwrap().len() <= 2 << 20);
    let mut reader = open(&path, None).unwrap();
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while {
        reader.read(&mut batch).unwrap();
        all.extend_from_slice(&batch);
        !batch.is_empty()
    } {}
    assert_eq!(reader.notes().format, "parquet");
    assert_eq!(all.iter().filter(|r| r.op.moves_data()).count(), 75_710);
    if let Some((records, dictionary, _)) = read("hadoop/terasort.parquet") {
        assert!(records == all);
        assert_eq!(&dictionary, reader.dictionary());
    }
}
