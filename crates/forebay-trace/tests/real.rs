//! Reads real traces and compares them with figures published about them. Tests are skipped if a
//! trace is not available.

use std::path::PathBuf;

use forebay_core::Op;
use forebay_testing::recorded;
use forebay_trace::formats::disksim_valid::{self, Buffer};
use forebay_trace::open::open;
use forebay_trace::{Dictionary, Notes, Record};

type Whole = (Vec<Record>, Dictionary, Notes);

fn read(name: &str) -> Option<Whole> {
    read_as(name, None)
}

fn read_as(name: &str, from: Option<&str>) -> Option<Whole> {
    let mut reader = open(&recorded(name)?, from).unwrap();
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
    // The numbers are: requests, reads in percent, duration in seconds, volumes.
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
    // One of the eight rows has a length of zero.
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
            // In one of the traces, times are rounded to microseconds.
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
        ("disksim-ascii/desktop.trace.zst", Some("mqsim"), "the unit is not ns"),
        ("disksim-ascii/ssd-iozone-aligned2-100K.trace.zst", Some("ssdsim-us"), "at:ms,"),
        ("heimdall/msr.cut.per_10k.rw_40_60.1370.trace.zst", None, "offset,len,op:disksim"),
        ("disksim-ascii/desktop.trace.zst", Some("heimdall"), "offset:sectors,len:sectors"),
    ] {
        let Some(path) = recorded(name) else { return };
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
    let from = format!("columns:{},units=sure", columns("ns"));
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

/// Returns the mean, median, 95th percentile and maximum of the latencies in milliseconds.
fn latencies_ms(records: &[Record]) -> [f64; 4] {
    let mut all: Vec<u64> = records.iter().map(|r| r.latency.unwrap().0).collect();
    all.sort();
    let at = |share: f64| all[((all.len() - 1) as f64 * share).round() as usize] as f64 / 1e6;
    [all.iter().sum::<u64>() as f64 / 1e6 / all.len() as f64, at(0.5), at(0.95), at(1.0)]
}

fn reads(records: &[Record]) -> usize {
    records.iter().filter(|r| r.op == Op::Read).count()
}

#[test]
fn vscsi() {
    let Some((records, dictionary, notes)) = read("cloudphysics/cloudPhysicsIO.vscsi.zst") else {
        return;
    };
    assert_eq!((notes.format, records.len()), ("vscsi", 113_872));
    assert!((read_percent(&records) - 41.3).abs() < 0.06);
    assert_eq!((reads(&records), duration_s(&records).round()), (46_974, 7_200.0));
    assert_eq!((notes.rows_skipped, notes.rows_late, notes.warnings.len()), (0, 0, 0));
    assert_eq!(dictionary.volumes, ["disk"]);
}

#[test]
fn hp_srt() {
    let Some((records, dictionary, notes)) = read("hp-srt/hplajw.1week.srt.zst") else { return };
    assert_eq!((notes.format, records.len()), ("hp-srt", 44_519));
    assert_eq!((reads(&records), records.len() - reads(&records)), (13_040, 31_479));
    let expected = [116.7, 32.1, 518.6, 6_781.0];
    for (got, expected) in latencies_ms(&records).into_iter().zip(expected) {
        assert!((got - expected).abs() < expected * 0.003, "{got} {expected}");
    }
    assert!((duration_s(&records) / 86_400.0 - 6.98).abs() < 0.005);
    assert_eq!((notes.rows_skipped, notes.rows_late, notes.warnings.len()), (0, 0, 0));
    // There are two disks. Streams are named after file systems and swap areas.
    assert_eq!(dictionary.volumes, ["hplajw.1", "hplajw.0"]);
    let names: Vec<&str> = dictionary.streams.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["<swap>", "<swap2>", "/"]);
    // Each disk has 8 x 1,449 tracks of 113 sectors, each of 256 bytes.
    let end = records.iter().map(|r| r.offset + u64::from(r.len)).max().unwrap();
    assert!(end <= 8 * 1_449 * 113 * 256, "{end}");
}

#[test]
fn disksim_validation() {
    for (name, requests, percent, seconds, mean_ms) in [
        ("atlas10k", 10_000, 65.7, 500.8, 3.893),
        ("cheetah9LP", 10_000, 65.9, 497.6, 4.273),
        ("barracuda", 10_000, 65.1, 500.6, 6.627),
        ("hp_c2247a", 9_999, 51.2, 294.8, 15.298),
    ] {
        let path = format!("disksim-valid/{name}/{name}.trace.zst");
        let Some((records, dictionary, notes)) = read(&path) else { return };
        assert_eq!((notes.format, records.len()), ("disksim-valid", requests), "{name}");
        assert!((read_percent(&records) - percent).abs() < 0.06, "{name}");
        assert!((duration_s(&records) - seconds).abs() < 0.06, "{name}");
        assert!((latencies_ms(&records)[0] - mean_ms).abs() < 0.0005, "{name}");
        assert_eq!((dictionary.volumes.len(), notes.rows_skipped), (1, 0));
        // Only one request is outstanding: each arrives after the previous one has completed.
        assert!(records.windows(2).all(|w| w[0].at.0 + w[0].latency.unwrap().0 <= w[1].at.0));
        let rows = disksim_valid::rows(&recorded(&path).unwrap()).unwrap();
        let rows: Vec<_> = rows.map(|row| row.unwrap()).collect();
        assert_eq!(rows.len(), requests);
        let count = |buffer| rows.iter().filter(|row| row.buffer == buffer).count();
        let counts = [Buffer::Hit, Buffer::Miss, Buffer::Double, Buffer::Triple].map(count);
        let expected =
            if name == "hp_c2247a" { [1559, 3556, 3224, 1660] } else { [requests, 0, 0, 0] };
        assert_eq!(counts, expected);
    }
}

#[test]
fn fio_log() {
    let Some((records, dictionary, notes)) = read("fio-iolog/t0038.iolog") else { return };
    let trims = records.iter().filter(|r| r.op == Op::Trim && r.len == 1 << 31).count();
    assert_eq!((notes.format, records.len(), trims), ("fio", 20, 10));
    assert_eq!((dictionary.volumes, notes.rows_skipped), (vec!["/dev/null".to_string()], 0));
    // The trace covers 10736 to 10809 us.
    assert_eq!(records.last().unwrap().at.0, 73_000);
}

#[test]
fn snoop() {
    for (name, requests, seconds, volumes, ids) in [
        ("biosnoop.txt", 15, 2.04, 3, 4),
        ("biosnoop-Q.txt", 6, 5.33, 1, 3),
        ("iosnoop-ts.txt", 10, 0.008, 1, 5),
    ] {
        let Some((records, dictionary, notes)) = read(&format!("biosnoop/{name}")) else { return };
        assert_eq!((notes.format, records.len(), reads(&records)), ("snoop", requests, 0));
        assert!((duration_s(&records) - seconds).abs() < 0.005, "{name}");
        assert_eq!((dictionary.volumes.len(), dictionary.streams.len()), (volumes, ids), "{name}");
        assert!(dictionary.streams.iter().all(|s| !s.name.is_empty()));
        assert!(records.iter().all(|r| r.latency.is_some()));
        assert_eq!((notes.rows_skipped, notes.warnings.len()), (0, 0));
    }
    let Some((records, ..)) = read("biosnoop/biosnoop-Q.txt") else { return };
    // The latency is 0.01 ms in the queue plus 0.55 ms on the device.
    assert_eq!(records[0].latency.unwrap().0, 560_000);
}

#[test]
fn blkparse_text() {
    let name = "blkparse/nvme0n1-dmcrypt-jbd2.txt";
    let Some((records, dictionary, notes)) = read(name) else { return };
    let flushes = records.iter().filter(|r| r.op == Op::Flush).count();
    assert_eq!((notes.format, records.len(), flushes, reads(&records)), ("blkparse", 248, 23, 0));
    assert!((duration_s(&records) - 25.0).abs() < 0.06);
    assert_eq!((dictionary.volumes, notes.rows_skipped), (vec!["259,0".to_string()], 0));
    assert!(dictionary.streams.iter().all(|s| s.thread.is_some() && !s.name.is_empty()));
    let Some((records, dictionary, notes)) = read("blkparse/ext4-sdc1-issue-only.txt") else {
        return;
    };
    // Four of the 677 events are commands that were passed to the device and transfer no data.
    assert_eq!((records.len(), notes.rows_skipped), (673, 4));
    assert!((read_percent(&records) - 23.9).abs() < 0.06);
    assert!((duration_s(&records) - 0.450).abs() < 0.0006);
    assert_eq!(dictionary.volumes, ["8,33"]);
}

#[test]
fn ftlsim_events() {
    let name = "wiscsee/sqlitewal-update-ext4.events.txt.zst";
    let Some((records, dictionary, notes)) = read(name) else { return };
    assert_eq!((notes.format, records.len()), ("ftlsim", 5_008));
    let count = |op| records.iter().filter(|r| r.op == op).count();
    assert_eq!([Op::Read, Op::Write, Op::Trim].map(count), [4, 5_003, 1]);
    let done: Vec<Record> = records.iter().filter(|r| r.latency.is_some()).copied().collect();
    assert_eq!(done.len(), 4_992);
    assert!((latencies_ms(&done)[0] - 0.409).abs() < 0.0006, "{}", latencies_ms(&done)[0]);
    assert!((duration_s(&records) - 1.41).abs() < 0.006);
    let mut ids: Vec<_> = dictionary.streams.iter().map(|s| s.thread).collect();
    ids.sort();
    ids.dedup();
    // Two of the eight ids in the file only complete requests.
    assert_eq!(ids.len(), 6);
}
