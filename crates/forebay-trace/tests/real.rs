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

type Whole = (Vec<Record>, Dictionary, Notes);

fn read(name: &str) -> Option<Whole> {
    read_as(name, None)
}

fn read_as(name: &str, from: Option<&str>) -> Option<Whole> {
    let mut reader = open(&shared(name)?, from).unwrap();
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
fn presets() {
    // Requests, reads in percent, seconds, volumes.
    for (name, format, requests, percent, seconds, volumes) in [
        ("systor17/systor17-traces-sample.csv.gz", "systor17", 999, 82.7, 2.45, 1),
        ("tencent-cbs/cloud_storage.first40000.csv.zst", "tencent-cbs", 40_000, 49.7, 1.0, 1815),
        ("cloudphysics/cloudPhysicsIO.csv.zst", "cloudphysics", 113_872, 41.3, 7200.0, 1),
        ("spc/Financial1.prefix.ssdsim.ascii.zst", "mqsim", 10_000, 40.8, 259.6, 22),
        ("spc/WebSearch1.prefix.mqsim.trace.zst", "mqsim", 24_783, 99.98, 60.06, 6),
        ("mqsim/tpcc-small.trace.zst", "mqsim", 6_999, 62.6, 0.136, 16),
        ("disksim-ascii/desktop.trace.zst", "disksim-ascii", 32_527, 38.3, 8877.0, 1),
        ("disksim-ascii/disksim-valid-ascii.trace.zst", "disksim-ascii", 100_000, 79.6, 1533.0, 14),
        (
            "disksim-ascii/ssd-iozone-aligned2-100K.trace.zst",
            "disksim-ascii",
            100_000,
            0.0,
            936.0,
            1,
        ),
        ("arc-lis/OLTP.lis.zst", "arc", 914_145, 100.0, 914.144, 1),
        ("arc-lis/P3.lis.zst", "arc", 238_578, 100.0, 238.577, 1),
    ] {
        let Some((records, dictionary, notes)) = read(name) else { return };
        assert_eq!((notes.format, records.len()), (format, requests), "{name}");
        assert!((read_percent(&records) - percent).abs() < 0.06, "{name}");
        let off = (duration_s(&records) - seconds).abs();
        assert!(off < 0.006_f64.max(seconds * 1e-3), "{name}: {off} s");
        assert_eq!((notes.rows_skipped, notes.rows_late), (0, 0), "{name}");
        assert_eq!(dictionary.volumes.len(), volumes, "{name}");
    }
    let Some((records, ..)) = read("arc-lis/P3.lis.zst") else { return };
    let blocks: u64 = records.iter().map(|r| u64::from(r.len) / 512).sum();
    assert_eq!(blocks, 3_912_296);
}

#[test]
fn thesios() {
    let Some((records, dictionary, notes)) = read("thesios/thesios_sample.csv") else { return };
    // Of eight rows one has no bytes.
    assert_eq!((notes.format, records.len(), notes.rows_skipped), ("thesios", 7, 1));
    assert_eq!(records.iter().filter(|r| r.op == Op::Read).count(), 3);
    assert!((duration_s(&records) - 0.063).abs() < 0.001);
    assert!(dictionary.streams.iter().any(|stream| stream.name == "bigtable"));
    let read = records.iter().find(|r| r.op == Op::Read).unwrap();
    assert_eq!((read.offset, read.len), (7_354_368, 1_052_672));
    assert_eq!(read.latency.unwrap().0, 4_239_065);
}

#[test]
fn the_same_requests_in_two_formats() {
    for (one, other) in [
        ("spc/Financial1.prefix.rewritten.spc.zst", "spc/Financial1.prefix.ssdsim.ascii.zst"),
        ("spc/WebSearch1.prefix.rewritten.spc.zst", "spc/WebSearch1.prefix.mqsim.trace.zst"),
    ] {
        let (Some(one), Some(other)) = (read(one), read(other)) else { return };
        assert_eq!(one.0.len(), other.0.len());
        for (a, b) in one.0.iter().zip(&other.0) {
            // One is rounded to microseconds.
            assert!(
                a.at.0.abs_diff(b.at.0) < 1000
                    && (a.offset, a.len, a.op) == (b.offset, b.len, b.op)
            );
            let name = |whole: &Whole, r: &Record| whole.1.volumes[r.volume as usize].clone();
            assert_eq!(name(&one, a), name(&other, b));
        }
    }
}

#[test]
fn wrong_units_are_refused_with_the_likely_one() {
    let columns = |unit: &str| format!("at:{unit},volume,offset:sectors,len:sectors,op:disksim");
    for (name, from, likely) in [
        ("mqsim/DTRS1K.trace.zst", None, "at:us,volume,offset:sectors"),
        ("mqsim/DTRS1K.trace.zst", Some("disksim-ascii"), "at:us,"),
        ("spc/WebSearch1.prefix.mqsim.trace.zst", Some("disksim-ascii"), "at:ns,"),
        ("spc/WebSearch1.prefix.mqsim.trace.zst", Some("ssdsim-us"), "at:ns,"),
        ("spc/Financial1.prefix.ssdsim.ascii.zst", Some("disksim-ascii"), "likely in"),
        ("mqsim/tpcc-small.trace.zst", Some("disksim-ascii"), "likely in ns"),
        ("disksim-ascii/desktop.trace.zst", Some("mqsim"), "the unit is another"),
        ("disksim-ascii/ssd-iozone-aligned2-100K.trace.zst", Some("ssdsim-us"), "at:ms,"),
        ("heimdall/msr.cut.per_10k.rw_40_60.1370.trace.zst", None, "offset,len,op:disksim"),
        ("disksim-ascii/desktop.trace.zst", Some("heimdall"), "offset:sectors,len:sectors"),
    ] {
        let Some(path) = shared(name) else { return };
        let mut reader = open(&path, from).unwrap();
        let mut batch = Vec::new();
        let message = loop {
            match reader.read(&mut batch) {
                Err(error) => break error.to_string(),
                Ok(()) => assert!(!batch.is_empty(), "{name} as {from:?} is believed"),
            }
        };
        assert!(message.contains(likely), "{name} as {from:?}: {message}");
    }
    let from = format!("columns:{}", columns("ns"));
    let Some((_, _, notes)) = read_as("mqsim/DTRS1K.trace.zst", Some(&from)) else { return };
    assert!(notes.warnings.iter().any(|warning| warning.contains("likely in us")));
    for from in ["ssdsim-us".to_owned(), format!("columns:{}", columns("us"))] {
        let Some((records, _, notes)) = read_as("mqsim/DTRS1K.trace.zst", Some(&from)) else {
            return;
        };
        assert_eq!((records.len(), notes.warnings.len()), (127_043, 0));
        assert!((duration_s(&records) - 300.0).abs() < 0.01);
        assert!((read_percent(&records) - 89.0).abs() < 0.06);
    }
    let name = "heimdall/msr.cut.per_10k.rw_40_60.1370.trace.zst";
    let Some((records, _, notes)) = read_as(name, Some("heimdall")) else { return };
    assert_eq!((records.len(), notes.warnings.len()), (10_000, 0));
    assert!((read_percent(&records) - 40.5).abs() < 0.06);
    assert!((duration_s(&records) - 85.9).abs() < 0.06);
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
