//! Compares the reading of blktrace binaries and blkparse text with known figures and with
//! blktrace's own programs, on real traces.
//!
//! The real traces are not part of the repository. Without them, these tests are skipped.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_core::{Flags, Nanos, Op};
use forebay_testing::{recorded, skipped};
use forebay_trace::formats::blktrace::Blktrace;
use forebay_trace::open::open;
use forebay_trace::{Dictionary, Notes, Reader, Record, Stream};

use made::record;

mod made;

struct Trace {
    records: Vec<Record>,
    dictionary: Dictionary,
    notes: Notes,
}

impl Trace {
    fn of(reader: impl Reader + 'static) -> Trace {
        Trace::of_any(Box::new(reader))
    }

    fn of_any(mut reader: Box<dyn Reader>) -> Trace {
        let (mut records, mut batch) = (Vec::new(), Vec::new());
        loop {
            reader.read(&mut batch).unwrap();
            if batch.is_empty() {
                break;
            }
            records.extend_from_slice(&batch);
        }
        assert!(records.is_sorted_by_key(|record| record.at));
        assert_eq!(records.first().map(|record| record.at), Some(Nanos::ZERO));
        Trace { records, dictionary: reader.dictionary().clone(), notes: reader.notes().clone() }
    }

    fn binary(path: &Path) -> Trace {
        Trace::of(Blktrace::open(path).unwrap())
    }

    fn text(path: &Path) -> Trace {
        Trace::of_any(open(path, Some("blkparse")).unwrap())
    }

    fn count(&self, op: Op) -> usize {
        self.records.iter().filter(|record| record.op == op).count()
    }

    fn bytes(&self, op: Op) -> u64 {
        let records = self.records.iter().filter(|record| record.op == op);
        records.map(|record| u64::from(record.len)).sum()
    }

    fn duration_s(&self) -> f64 {
        self.records.last().map_or(0.0, |record| record.at.as_secs_f64())
    }

    fn latencies_ms(&self) -> Vec<f64> {
        let known = self.records.iter().filter_map(|record| record.latency);
        let mut latencies: Vec<_> = known.map(Nanos::as_millis_f64).collect();
        latencies.sort_by(f64::total_cmp);
        latencies
    }

    fn stream(&self, record: &Record) -> &Stream {
        &self.dictionary.streams[record.stream as usize]
    }
}

/// Returns the path of a real trace, if it is available.
/// Returns the name of a real trace, from which the names of its files are derived.
fn sample() -> Option<PathBuf> {
    Some(recorded("hadoop")?.join("sample"))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn a_whole_set_has_a_latency_for_each_request() {
    let Some(path) = sample() else { return };
    let trace = Trace::binary(&path);
    assert_eq!(trace.count(Op::Read), 2087);
    assert_eq!(trace.count(Op::Write), 1393);
    assert_eq!(trace.count(Op::Flush), 1);
    assert_eq!(trace.latencies_ms().len(), 3481);
    assert_eq!(trace.records.iter().map(|record| record.len).max(), Some(8192 * 1024));
    assert_eq!(trace.dictionary.volumes, ["7,6"]);
    assert!(trace.dictionary.streams.iter().all(|stream| !stream.name.is_empty()));
    let began = trace.notes.began;
    let columns = trace.notes.columns.clone();
    assert_eq!(trace.notes, Notes { format: "blktrace", began, columns, ..Notes::default() });
    // The sums over all rows of the same trace as converted by another program.
    let sum = |op| {
        let records = trace.records.iter().filter(move |record| record.op == op);
        records.filter_map(|record| record.latency).map(|latency| latency.0).sum::<u64>()
    };
    assert_eq!(sum(Op::Read), SAMPLE_READ_NS);
    assert_eq!(sum(Op::Write), SAMPLE_WRITE_NS);
    assert_eq!(sum(Op::Flush), SAMPLE_FLUSH_NS);
}

const SAMPLE_READ_NS: u64 = 1_442_482_808;
const SAMPLE_WRITE_NS: u64 = 112_484_736_062;
const SAMPLE_FLUSH_NS: u64 = 131_473;

#[test]
fn text_and_binary_of_one_trace_are_the_same() {
    let (Some(binary), Some(text)) = (sample(), recorded("hadoop/sample.blkparse.txt")) else {
        return;
    };
    let (binary, text) = (Trace::binary(&binary), Trace::text(&text));
    // The text ends before the last two requests complete.
    assert_eq!(text.records.len(), 356);
    for (i, (a, b)) in binary.records.iter().zip(&text.records).enumerate() {
        let b = if i < 354 { *b } else { Record { latency: a.latency, ..*b } };
        assert_eq!((*a, binary.stream(a)), (b, text.stream(&b)), "request {i}");
    }
}

#[test]
fn counts_and_latencies_are_those_of_blkparse_and_btt() {
    let Some(path) = sample() else { return };
    if !["blkparse", "btt"].iter().all(|program| Command::new(program).arg("-V").output().is_ok()) {
        return skipped("there is no blkparse or btt");
    }
    let trace = Trace::binary(&path);
    let folder = tempfile::tempdir().unwrap();
    let input = ["-i", path.to_str().unwrap(), "-d", "all.bin", "-o", "all.blkparse.txt"];
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{program}: {output:?}");
    };
    run("blkparse", &input);
    run("btt", &["-i", "all.bin", "-q", "q2c", "-o", "btt"]);

    let text = folder.path().join("all.blkparse.txt");
    let summary = fs::read_to_string(&text).unwrap();
    let kib = |op| trace.bytes(op) / 1024;
    let total = summary.rsplit("Total (").next().unwrap().lines().nth(1).unwrap();
    let numbers: Vec<u64> = total
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect();
    let writes = trace.count(Op::Write) + trace.count(Op::Flush);
    let (reads, writes) = (trace.count(Op::Read) as u64, writes as u64);
    assert_eq!(numbers, [reads, kib(Op::Read), writes, kib(Op::Write)], "{total}");
    assert_eq!(Trace::text(&text).records, trace.records);

    compare_with_btt(&trace, &folder.path().join("q2c_7,6_q2c.dat"));
}

/// Checks that each latency found by btt is that of a request here, to the microsecond. btt ignores
/// requests that were split, and ends a write with preflush or FUA when its data is written, before
/// its last flush.
fn compare_with_btt(trace: &Trace, path: &Path) {
    let lines = fs::read_to_string(path).unwrap();
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    for line in lines.lines() {
        let mut numbers = line.split_whitespace().map(|number| number.parse::<f64>().unwrap());
        let (at_s, latency_s) = (numbers.next().unwrap(), numbers.next().unwrap());
        let near = |record: &&Record| {
            let latency = record.latency.unwrap().as_secs_f64();
            let barrier = record.flags.has(Flags::PREFLUSH) || record.flags.has(Flags::FUA);
            (record.at.as_secs_f64() - at_s).abs() < 1.5e-6
                && ((latency - latency_s).abs() < 1.5e-6 || barrier && latency > latency_s)
        };
        let record = trace.records.iter().find(near);
        let record = record.unwrap_or_else(|| panic!("btt's {line}"));
        if !record.flags.has(Flags::PREFLUSH) && !record.flags.has(Flags::FUA) {
            theirs.push(latency_s);
            ours.push(record.latency.unwrap().as_secs_f64());
        }
    }
    assert!(theirs.len() > 2900, "{} latencies", theirs.len());
    assert!((mean(&theirs) - mean(&ours)).abs() < 1e-6, "{} {}", mean(&theirs), mean(&ours));
}

/// A trace that was written reads back equal to the original, and blktrace's own programs report
/// the same numbers of requests and bytes and the same latencies.
#[test]
fn a_written_blktrace_is_that_of_blkparse_and_btt() {
    let Some(path) = sample() else { return };
    let folder = tempfile::tempdir().unwrap();
    let written = folder.path().join("written.blktrace.0");
    let trace = Trace::binary(&path);
    let mut writer = forebay_trace::write::create(
        &written,
        None,
        &forebay_trace::write::ProtectedFiles::default(),
    )
    .unwrap();
    writer.write(&trace.records, &trace.dictionary).unwrap();
    writer.finish(&trace.dictionary, &trace.notes).unwrap();
    let again = Trace::binary(&written);
    assert_eq!((&again.records, &again.dictionary), (&trace.records, &trace.dictionary));

    if !["blkparse", "btt"].iter().all(|program| Command::new(program).arg("-V").output().is_ok()) {
        return skipped("there is no blkparse or btt");
    }
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{program}: {output:?}");
        assert!(output.stderr.is_empty(), "{program}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let queued = |text: &str| {
        let mut lines = text.lines().filter(|line| line.contains("Queued"));
        let last = lines.next_back().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("Skips: 0 forward"), "sequence numbers have gaps");
        last
    };
    let theirs = run("blkparse", &["-i", path.to_str().unwrap()]);
    let ours = run("blkparse", &["-i", "written", "-d", "all.bin"]);
    assert_eq!(queued(&ours), queued(&theirs));
    run("btt", &["-i", "all.bin", "-q", "q2c", "-o", "btt"]);
    compare_with_btt(&trace, &folder.path().join("q2c_7,6_q2c.dat"));
}

#[test]
fn a_set_without_some_cpus_is_read() {
    let Some(path) = recorded("blktrace-bin/hadoop-eternity10.sdb.tar.xz") else { return };
    let trace = Trace::binary(&path);
    assert_eq!(trace.records.len(), 137_309);
    assert!((trace.count(Op::Read) as f64 / 137_309.0 - 0.986).abs() < 5e-4);
    assert!((trace.duration_s() - 169.3).abs() < 0.05);
    assert_eq!(trace.dictionary.streams.len(), 493);
    assert!(trace.notes.warnings[0].contains("CPU 33:"), "{:?}", trace.notes);
    assert!(trace.notes.warnings[1].contains("41.0 %"), "{:?}", trace.notes);
    // According to the README of the traces, the time from issue to completion is 3.08 ms on
    // average, and at most 11.1 ms for 99 % of requests.
    let latencies = trace.latencies_ms();
    assert!((mean(&latencies) - 3.15).abs() < 0.01, "{}", mean(&latencies));
    assert!((latencies[latencies.len() * 99 / 100] - 11.2).abs() < 0.1);
    assert!(latencies.last().is_some_and(|&longest| longest < 100.0));
}

#[test]
fn scheduler_messages_are_passed_over() {
    let Some(path) = recorded("blktrace-bin/hadoop-eternity2.sdb.tar.xz") else { return };
    let trace = Trace::binary(&path);
    assert_eq!(trace.records.len(), 111_656);
    assert!((trace.count(Op::Read) as f64 / 111_656.0 - 0.983).abs() < 5e-4);
    assert!((trace.duration_s() - 176.5).abs() < 0.1);
    assert_eq!(trace.dictionary.streams.len(), 501);
    assert!(trace.notes.warnings[0].contains("CPU 10-12:"), "{:?}", trace.notes);
}

#[test]
fn a_file_alone_is_a_set() {
    let Some(path) = recorded("blktrace-bin/nvme-sample.blktrace.0") else { return };
    let trace = Trace::binary(&path);
    assert_eq!((trace.records.len(), trace.count(Op::Read)), (963, 963));
    assert!((trace.duration_s() - 0.346).abs() < 1e-3);
    let latencies = trace.latencies_ms();
    assert_eq!(latencies.len(), 963);
    assert!((0.056..0.08).contains(&mean(&latencies)), "{}", mean(&latencies));
}

#[test]
fn remaps_and_empty_flushes_in_text() {
    let Some(path) = recorded("blkparse/nvme0n1-dmcrypt-jbd2.txt") else { return };
    let trace = Trace::text(&path);
    assert_eq!(trace.records.len(), 248);
    assert_eq!(trace.count(Op::Read), 0);
    assert_eq!(trace.count(Op::Flush), 23);
    assert_eq!(trace.latencies_ms().len(), 248);
    assert!((trace.duration_s() - 25.0).abs() < 0.05);
    let (began, columns) = (trace.notes.began, trace.notes.columns.clone());
    assert_eq!(trace.notes, Notes { format: "blkparse", began, columns, ..Notes::default() });
}

#[test]
fn a_trace_of_issues_alone_says_so() {
    let Some(path) = recorded("blkparse/ext4-sdc1-issue-only.txt") else { return };
    let trace = Trace::text(&path);
    // The trace contains 677 issues, 4 of which are commands that were passed through to the
    // device.
    assert_eq!(trace.records.len(), 673);
    assert_eq!(trace.notes.rows_skipped, 4);
    assert_eq!(trace.count(Op::Read), 161);
    assert_eq!(trace.bytes(Op::Write), 131_072 * 1024);
    assert!(trace.notes.warnings[0].contains("issue events (D)"));
}

#[test]
fn a_set_is_found_by_each_of_its_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let set = path("set");
    fs::create_dir(&set).unwrap();
    let first = record(1, 10, 0x0811_0001, 800, 4096, &[]);
    let second = record(1, 25, 0x0881_0008, 800, 4096, &[]);
    fs::write(set.join("sda.blktrace.0"), &first).unwrap();
    let packed = zstd::encode_all(&second[..], 1).unwrap();
    fs::write(set.join("sda.blktrace.1.zst"), packed).unwrap();
    let mut tar = tar::Builder::new(Vec::new());
    tar.append_dir_all("host", &set).unwrap();
    let tar = tar.into_inner().unwrap();
    fs::write(path("set.tar"), &tar).unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&tar).unwrap();
    fs::write(path("set.tar.gz"), gz.finish().unwrap()).unwrap();

    let names = ["set", "set/sda", "set/sda.blktrace.0", "set/sda.blktrace.1.zst", "set.tar"];
    for name in names.into_iter().chain(["set.tar.gz"]) {
        let trace = Trace::binary(&path(name));
        assert_eq!(trace.records[0].latency, Some(Nanos(15)), "{name}");
    }
    fs::write(set.join("sdb.blktrace.0"), &first).unwrap();
    let error = Blktrace::open(&set).err().unwrap().to_string();
    assert!(error.contains("2 sets") && error.contains("name one of them"), "{error}");
    for missing in ["set/sdc", "nowhere/sda", "set/sda.blktrace.7"] {
        assert!(Blktrace::open(&path(missing)).is_err(), "{missing}");
    }
}
