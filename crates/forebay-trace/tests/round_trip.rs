//! Written data can be read back, and a file is either complete or does not exist.

use std::fs;
use std::path::Path;

use forebay_ask::named;
use forebay_core::{Flags, Nanos, Op};
use forebay_trace::open::open;
use forebay_trace::write::{ProtectedFiles, create};
use forebay_trace::{Dictionary, Notes, Record, Stream};
use proptest::prelude::*;

/// Returns records with every operation and set of flags, unknown and known latencies, and extreme
/// values.
fn sample() -> (Vec<Record>, Dictionary) {
    let mut records: Vec<Record> = (0..70_000u64)
        .map(|n| {
            let op = [Op::Read, Op::Write, Op::Trim, Op::Flush][(n % 4) as usize];
            Record {
                at: Nanos(n * 1001),
                offset: n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 2,
                latency: (n % 3 > 0).then_some(Nanos(n * n)),
                len: if op == Op::Flush { 0 } else { 512 + n as u32 },
                stream: (n.min(2)) as u32,
                volume: (n.min(1)) as u32,
                op,
                flags: Flags((n % 32) as u16),
            }
        })
        .collect();
    let last = records.last_mut().unwrap();
    (last.at, last.op, last.len) = (Nanos(i64::MAX as u64), Op::Write, 1 << 30);
    last.offset = (1 << 63) - (1 << 30) - 1;
    let stream = |thread, process, name: &str| Stream { thread, process, name: name.into() };
    let streams = vec![
        stream(Some(u32::MAX), Some(0), "kworker/u8:1, \"flush\"\n"),
        stream(None, None, ""),
        stream(Some(7), None, "Größe"),
    ];
    (records, Dictionary { streams, volumes: vec!["hm.0".into(), "a b".into()] })
}

fn write(path: &Path) -> Vec<String> {
    let (records, dictionary) = sample();
    write_all(path, &records, &dictionary)
}

fn write_all(path: &Path, records: &[Record], dictionary: &Dictionary) -> Vec<String> {
    let mut writer = create(path, None, &ProtectedFiles::default()).unwrap();
    for batch in records.chunks(1000) {
        writer.write(batch, dictionary).unwrap();
    }
    writer.finish(dictionary, &Notes { format: "test", ..Notes::default() }).unwrap()
}

fn read(path: &Path) -> (Vec<Record>, Dictionary, Notes) {
    let mut reader = open(path, None).unwrap();
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        reader.read(&mut batch).unwrap();
        if batch.is_empty() {
            return (all, reader.dictionary().clone(), reader.notes().clone());
        }
        all.extend_from_slice(&batch);
    }
}

#[test]
fn parquet_and_csv_keep_every_field() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["parquet", "csv"] {
        let path = folder.path().join(format!("trace.{name}"));
        assert!(write(&path).is_empty());
        let (records, dictionary, notes) = read(&path);
        let (expected, who) = sample();
        assert!(records == expected, "{name}");
        assert_eq!((dictionary, notes.format), (who, name));
    }
}

#[test]
fn parquet_keeps_when_its_source_began() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    let (records, dictionary) = sample();
    for began in [None, Some(Nanos(0)), Some(Nanos(1_700_000_000_000_000_000))] {
        let mut writer = create(&path, None, &ProtectedFiles::default()).unwrap();
        writer.write(&records, &dictionary).unwrap();
        writer.finish(&dictionary, &Notes { began, ..Notes::default() }).unwrap();
        assert_eq!(read(&path).2.began, began);
    }
}

#[test]
fn fio_gets_microseconds_and_says_what_it_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.iolog");
    let lost = write(&path).join("\n");
    for part in ["streams", "latencies of 46666", "flags of", "1 volume has", "microseconds"] {
        assert!(lost.contains(part), "{lost}");
    }
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let head =
        ["fio version 3 iolog", "0 hm.0 add", "0 hm.0 open", "0 hm.0 read 0 512", "1 a_b add"];
    assert_eq!(&lines[..5], head);
    assert!(lines[6].starts_with("1 a_b write ") && lines[8].ends_with(" 0"), "{}", lines[8]);
    assert!(lines[lines.len() - 2].ends_with(" hm.0 close"));
}

#[test]
fn disksim_keeps_times_addresses_and_directions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.disksim");
    let lost = write(&path).join("\n");
    for part in ["3 streams", "latencies of", "34999 flushes and trims", "2 volumes", "widened"] {
        assert!(lost.contains(part), "{lost}");
    }
    let moved: Vec<Record> = sample().0;
    let moved = moved.iter().filter(|r| [Op::Read, Op::Write].contains(&r.op));
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), moved.clone().count());
    for (line, r) in text.lines().zip(moved) {
        let fields: Vec<&str> = line.split(' ').collect();
        let (ms, fraction) = fields[0].split_once('.').unwrap();
        assert_eq!(
            (ms.parse::<u64>().unwrap() * 1_000_000 + fraction.parse::<u64>().unwrap(), 6),
            (r.at.0, fraction.len())
        );
        let number = |n: usize| fields[n].parse::<u64>().unwrap();
        assert_eq!(number(1), u64::from(r.volume));
        let end = r.offset + u64::from(r.len);
        assert_eq!((number(2), number(2) + number(3)), (r.offset / 512, end.div_ceil(512)));
        assert_eq!(number(4) == 1, r.op == Op::Read);
    }
}

/// Returns requests that blktrace's format can represent: whole sectors, threads with ids, and no
/// two requests for the same sectors at the same time.
fn traceable() -> (Vec<Record>, Dictionary) {
    let records = (0..20_000u64).map(|n| {
        let op = [Op::Read, Op::Write, Op::Trim, Op::Flush][(n % 4) as usize];
        let flush = op == Op::Flush;
        let flags = Flags((n / 4 % 32) as u16);
        Record {
            at: Nanos(n * 1001),
            offset: if flush { 0 } else { 512 * (1 + n * 64) },
            // Flushes complete in order, because nothing else distinguishes them.
            latency: (flush || n % 3 > 0).then_some(Nanos(if flush { 7 } else { n * n % 90_001 })),
            len: if flush { 0 } else { 512 + (n as u32 * 512) % 16_384 },
            stream: (n / 100 % 3) as u32,
            volume: (n % 2) as u32,
            op,
            flags: if flush { flags.with(Flags::PREFLUSH) } else { flags },
        }
    });
    let stream = |thread, name: &str| Stream { thread, process: None, name: name.into() };
    let streams = vec![
        stream(Some(7), "org.apache.hado"),
        stream(Some(7), "DataXceiver"),
        stream(Some(9), ""),
    ];
    (records.collect(), Dictionary { streams, volumes: vec!["8,16".into(), "259,3".into()] })
}

#[test]
fn blktrace_keeps_every_field_it_can_hold() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.blktrace.0");
    let (records, dictionary) = traceable();
    let mut writer = create(&path, None, &ProtectedFiles::default()).unwrap();
    for batch in records.chunks(777) {
        writer.write(batch, &dictionary).unwrap();
    }
    let lost = writer.finish(&dictionary, &Notes::default()).unwrap();
    assert_eq!(
        lost,
        ["issue events (D) are written at the arrival, because the time of issue is \
        not known"]
    );
    let (again, names, notes) = read(&path);
    for (n, (a, b)) in records.iter().zip(&again).enumerate() {
        assert_eq!(a, b, "request {n}");
    }
    assert_eq!((again.len(), names, notes.format), (records.len(), dictionary, "blktrace"));
}

#[test]
fn blktrace_says_what_it_cannot_hold() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.blktrace");
    let lost = write(&path).join("\n");
    for part in [
        "1 streams lose their process id",
        "1 streams without a thread id",
        "1 names of streams",
        "2 volumes",
        "offsets were rounded",
        "flushes have the preflush flag",
    ] {
        assert!(lost.contains(part), "{lost}");
    }
    // Times, lengths and operations are preserved even in this case.
    let (records, _, notes) = read(&path);
    let expected = sample().0;
    assert_eq!((records.len(), notes.rows_skipped), (expected.len(), 0));
    for (a, b) in expected.iter().zip(&records) {
        assert_eq!((a.at, a.op, a.len, a.volume), (b.at, b.op, b.len, b.volume));
    }
}

#[test]
fn a_file_is_whole_or_absent() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.csv");
    let (records, dictionary) = sample();
    let mut writer = create(&path, None, &ProtectedFiles::default()).unwrap();
    writer.write(&records, &dictionary).unwrap();
    assert!(!path.exists());
    drop(writer);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn bad_outputs_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.csv");
    write(&path);
    let message = |path: &Path, to, kept: &ProtectedFiles| {
        let Err(error) = create(path, to, kept) else { panic!("created") };
        error.to_string()
    };
    let none = &ProtectedFiles::default();
    let other_way = folder.path().join(".").join("trace.csv");
    assert!(
        message(&path, Some("parquet"), &ProtectedFiles::trace(&other_way))
            .contains("an input file")
    );
    assert!(message(&folder.path().join("x.txt"), None, none).contains(&named("to")));
    assert!(message(&path, Some("x"), none).contains("parquet, csv, fio, disksim, blktrace"));
    assert!(message(folder.path(), Some("csv"), none).contains("not a file"));
    assert!(message(&folder.path().join("no/x.csv"), None, none).contains("x.csv: "));
}

#[test]
fn damaged_parquet_is_an_error_or_reads_and_never_panics() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.parquet");
    let (records, dictionary) = sample();
    let mut writer = create(&path, None, &ProtectedFiles::default()).unwrap();
    writer.write(&records[..50], &dictionary).unwrap();
    writer.finish(&dictionary, &Notes::default()).unwrap();
    let whole = fs::read(&path).unwrap();
    let attempt = |bytes: &[u8]| -> Result<(), forebay_trace::TraceError> {
        fs::write(&path, bytes).unwrap();
        let mut reader = open(&path, None)?;
        let mut batch = Vec::new();
        while {
            reader.read(&mut batch)?;
            !batch.is_empty()
        } {}
        Ok(())
    };
    for cut in (0..whole.len()).step_by(37) {
        assert!(attempt(&whole[..cut]).is_err(), "cut at {cut}");
    }
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        let _ = attempt(&damaged);
    }
}

/// Returns a record together with the stream and the volume that its numbers refer to, because
/// dictionaries may have a different order.
fn in_full(record: &Record, dictionary: &Dictionary) -> (Record, Stream, String) {
    let stream = dictionary.streams[record.stream as usize].clone();
    let volume = dictionary.volumes[record.volume as usize].clone();
    (Record { stream: 0, volume: 0, ..*record }, stream, volume)
}

/// Returns what a fio log can represent of a request: the microsecond, the operation, the offset,
/// the length and the volume.
fn in_fio(record: &Record, dictionary: &Dictionary) -> (u64, Op, u64, u32, String) {
    let volume = dictionary.volumes[record.volume as usize].clone();
    let offset = if record.op == Op::Flush { 0 } else { record.offset };
    (record.at.0 / 1000, record.op, offset, record.len, volume)
}

/// A small trace in each of these formats, from the fuzzers' seeds.
#[test]
fn every_format_survives_a_round_trip() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/open");
    let folder = tempfile::tempdir().unwrap();
    for format in
        ["vscsi", "hp-srt", "disksim-valid", "fio", "fio-latency", "snoop", "ftlsim", "blkparse"]
    {
        let (records, dictionary, notes) = read(&seeds.join(format));
        assert_eq!(notes.format, format);
        assert!(!records.is_empty(), "{format}");
        for name in ["parquet", "csv"] {
            let path = folder.path().join(format!("trace.{name}"));
            assert!(write_all(&path, &records, &dictionary).is_empty(), "{format} to {name}");
            let (back, who, _) = read(&path);
            assert!(
                back.iter()
                    .map(|r| in_full(r, &who))
                    .eq(records.iter().map(|r| in_full(r, &dictionary))),
                "{format} to {name}"
            );
        }
        let path = folder.path().join("trace.fio");
        let lost = write_all(&path, &records, &dictionary).join("\n");
        let (back, who, _) = read(&path);
        let seen = |records: &[Record], who: &Dictionary| -> Vec<_> {
            records.iter().map(|record| in_fio(record, who)).collect()
        };
        assert_eq!(seen(&back, &who), seen(&records, &dictionary), "{format}");
        let named = dictionary.streams != [Stream::default()];
        let measured = records.iter().any(|r| r.latency.is_some());
        let flagged = records.iter().any(|r| r.flags != Flags::NONE);
        let told = ["submitters", "latencies", "flags"].map(|part| lost.contains(part));
        assert_eq!(told, [named, measured, flagged], "{format}: {lost}");
    }
}

prop_compose! {
    /// Generates records that a fio log can represent: in microseconds, without streams, latencies
    /// and flags.
    fn plain_record()(
        gap_us in 0u64..5_000_000,
        op in prop::sample::select(vec![Op::Read, Op::Write, Op::Trim, Op::Flush]),
        offset in 0u64..(1 << 62),
        len in 1u32..=1 << 30,
        volume in 0u32..3,
    ) -> (u64, Record) {
        let (offset, len) = if op == Op::Flush { (0, 0) } else { (offset, len) };
        let (latency, flags, at) = (None, Flags::NONE, Nanos::ZERO);
        (gap_us, Record { at, offset, latency, len, stream: 0, volume, op, flags })
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn fio_keeps_what_it_can_hold(rows in prop::collection::vec(plain_record(), 1..60)) {
        let mut at_us = 0;
        let records: Vec<Record> = rows
            .iter()
            .enumerate()
            .map(|(n, (gap_us, record))| {
                at_us += if n == 0 { 0 } else { *gap_us };
                Record { at: Nanos(at_us * 1000), ..*record }
            })
            .collect();
        let volumes = ["/dev/sda", "b,1", "c"].map(str::to_owned).to_vec();
        let dictionary = Dictionary { streams: vec![Stream::default()], volumes };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.fio");
        let lost = write_all(&path, &records, &dictionary);
        prop_assert_eq!(lost, ["times are truncated to microseconds"]);
        let (back, who, notes) = read(&path);
        prop_assert_eq!((back.len(), notes.rows_skipped), (records.len(), 0));
        for (back, record) in back.iter().zip(&records) {
            prop_assert_eq!(in_fio(back, &who), in_fio(record, &dictionary));
            prop_assert_eq!((back.at, back.stream), (record.at, 0));
        }
    }
}
