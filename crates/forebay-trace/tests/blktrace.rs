//! Compares the reading of blktrace binaries and blkparse text with known figures and with
//! blktrace's own programs, on real traces.
//!
//! The real traces are not part of the repository. Without them, these tests print a note and pass.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_core::{Flags, Nanos, Op};
use forebay_trace::formats::blktrace::Blktrace;
use forebay_trace::open::open;
use forebay_trace::{Dictionary, Notes, Reader, Record, Stream};

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
fn real(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let path = root.join(name);
    let folder = path.parent().is_some_and(Path::is_dir);
    if !folder {
        println!("skipped: no {}", path.display());
    }
    folder.then_some(path)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn a_whole_set_has_a_latency_for_each_request() {
    let Some(path) = real("hadoop/sample") else { return };
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
    let (Some(binary), Some(text)) = (real("hadoop/sample"), real("hadoop/sample.blkparse.txt"))
    else {
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
    let Some(path) = real("hadoop/sample") else { return };
    if !["blkparse", "btt"].iter().all(|program| Command::new(program).arg("-V").output().is_ok()) {
        println!("skipped: blktrace's programs are not installed");
        return;
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
    let Some(path) = real("hadoop/sample") else { return };
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
        println!("skipped: blktrace's programs are not installed");
        return;
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
    let Some(path) = real("blktrace-bin/hadoop-eternity10.sdb.tar.xz") else { return };
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
    let Some(path) = real("blktrace-bin/hadoop-eternity2.sdb.tar.xz") else { return };
    let trace = Trace::binary(&path);
    assert_eq!(trace.records.len(), 111_656);
    assert!((trace.count(Op::Read) as f64 / 111_656.0 - 0.983).abs() < 5e-4);
    assert!((trace.duration_s() - 176.5).abs() < 0.1);
    assert_eq!(trace.dictionary.streams.len(), 501);
    assert!(trace.notes.warnings[0].contains("CPU 10-12:"), "{:?}", trace.notes);
}

#[test]
fn a_file_alone_is_a_set() {
    let Some(path) = real("blktrace-bin/nvme-sample.blktrace.0") else { return };
    let trace = Trace::binary(&path);
    assert_eq!((trace.records.len(), trace.count(Op::Read)), (963, 963));
    assert!((trace.duration_s() - 0.346).abs() < 1e-3);
    let latencies = trace.latencies_ms();
    assert_eq!(latencies.len(), 963);
    assert!((0.056..0.08).contains(&mean(&latencies)), "{}", mean(&latencies));
}

#[test]
fn remaps_and_empty_flushes_in_text() {
    let Some(path) = real("blkparse/nvme0n1-dmcrypt-jbd2.txt") else { return };
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
    let Some(path) = real("blkparse/ext4-sdc1-issue-only.txt") else { return };
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

/// Returns a record in little-endian order.
fn record(sequence: u32, time: u64, action: u32, sector: u64, bytes: u32, pdu: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [0x6561_7407, sequence] {
        out.extend_from_slice(&u32::to_le_bytes(word));
    }
    out.extend_from_slice(&time.to_le_bytes());
    out.extend_from_slice(&sector.to_le_bytes());
    for word in [bytes, action, 77, 8 << 20 | 16, 0, (pdu.len() as u32) << 16] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(pdu);
    out
}

/// Returns the same records as written by a machine with the other byte order.
fn big_endian(records: &[u8]) -> Vec<u8> {
    let mut out = records.to_vec();
    let mut at = 0;
    while at < out.len() {
        let payload = usize::from(u16::from_le_bytes([out[at + 46], out[at + 47]]));
        let fields = [4, 4, 8, 8, 4, 4, 4, 4, 4, 2, 2];
        let mut field = at;
        for size in fields {
            out[field..field + size].reverse();
            field += size;
        }
        at += 48 + payload;
    }
    out
}

fn read(files: &[(&str, Vec<u8>)]) -> Result<(Vec<Record>, Notes, Dictionary), String> {
    let open = |(name, bytes): &(&str, Vec<u8>)| {
        let input: Box<dyn std::io::Read + Send> = Box::new(std::io::Cursor::new(bytes.clone()));
        (PathBuf::from(name), input)
    };
    let files = files.iter().map(open).collect();
    let mut reader = Blktrace::from_readers(files).map_err(|error| error.to_string())?;
    let (mut records, mut batch) = (Vec::new(), Vec::new());
    loop {
        reader.read(&mut batch).map_err(|error| error.to_string())?;
        if batch.is_empty() {
            return Ok((records, reader.notes().clone(), reader.dictionary().clone()));
        }
        records.extend_from_slice(&batch);
    }
}

/// Returns records of a thread's name, a read with a control group in its payload, a write with
/// FUA, a discard over 1 GiB, and their completions.
fn small() -> Vec<u8> {
    [
        record(1, 10, 0x0811_0101, 800, 8192, &[1; 8]),
        record(2, 11, 0x901a_0001, 64, 4096, &[]),
        record(3, 12, 0x2012_0001, 4096, 3 << 30, &[]),
        record(0, 13, 0x0400_0000, 9, 9, b"java\0garbage...."),
        record(0, 13, 0x0400_0002, 9, 9, b"a message"),
        record(4, 20, 0x0881_0108, 808, 4096, &[1; 8]),
        record(5, 21, 0x0881_0008, 800, 4096, &[]),
        record(6, 30, 0x808a_0008, 64, 4096, &[]),
        record(7, 40, 0x2082_0008, 4096, 3 << 30, &[]),
    ]
    .concat()
}

#[test]
fn both_byte_orders_give_the_same() {
    let little = read(&[("s.blktrace.0", small())]).unwrap();
    let (records, notes, dictionary) = &little;
    let seen: Vec<_> =
        records.iter().map(|r| (r.op, r.at.0, r.offset, r.len, r.latency.map(|l| l.0))).collect();
    assert_eq!(
        seen,
        [
            (Op::Read, 0, 800 * 512, 8192, Some(11)),
            (Op::Write, 1, 64 * 512, 4096, Some(19)),
            (Op::Trim, 2, 4096 * 512, 3 << 30, Some(28)),
        ]
    );
    assert_eq!(records[0].flags, Flags::READAHEAD);
    assert_eq!(records[1].flags, Flags::SYNC.with(Flags::FUA).with(Flags::META));
    let stream = Stream { thread: Some(77), process: None, name: "java".to_owned() };
    assert_eq!(dictionary.streams, [stream]);
    assert!(notes.warnings.is_empty(), "{notes:?}");
    let big = read(&[("s.blktrace.0", big_endian(&small()))]).unwrap();
    assert_eq!(little, big);
}

/// Returns the record with its device replaced.
fn at(device: u32, mut record: Vec<u8>) -> Vec<u8> {
    record[36..40].copy_from_slice(&device.to_le_bytes());
    record
}

#[test]
fn a_request_of_a_volume_above_another_counts_once() {
    const VOLUME: u32 = 253 << 20;
    // The payload of a remap contains the device above, the device below, and the sector above.
    let payload = [&VOLUME.to_be_bytes()[..], &[0; 4], &800u64.to_be_bytes()].concat();
    for grouped in [false, true] {
        // The id of a control group may precede the payload.
        let group = [7; 8];
        let before: &[u8] = if grouped { &group } else { &[] };
        let remap = 0x0012_000f | u32::from(grouped) << 8;
        let records = [
            at(VOLUME, record(1, 10, 0x0012_0001, 800, 4096, &[])),
            record(2, 11, remap, 2848, 4096, &[before, &payload].concat()),
            record(3, 12, 0x0012_0001, 2848, 4096, &[]),
            record(4, 30, 0x0082_0008, 2848, 4096, &[]),
            at(VOLUME, record(5, 31, 0x0082_0008, 800, 4096, &[])),
        ]
        .concat();
        for bytes in [records.clone(), big_endian(&records)] {
            let (records, notes, dictionary) = read(&[("s.blktrace.0", bytes)]).unwrap();
            let [request] = records[..] else { panic!("{records:?}") };
            assert_eq!((request.offset, request.latency), (2848 * 512, Some(Nanos(18))));
            assert_eq!(dictionary.volumes, ["8,16"]);
            assert!(notes.warnings[0].starts_with("volume 253,0 is a layer above volume 8,16"));
        }
    }
}

#[test]
fn damage_is_named_with_its_place() {
    let fails = |bytes: Vec<u8>, parts: &[&str]| {
        let error = read(&[("s.blktrace.0", bytes)]).err().unwrap();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    };
    fails(vec![], &["s.blktrace.0", "nothing"]);
    fails(b"0,1,2,R,0.5\n".to_vec(), &["byte 0", "bytes 302c312c"]);
    fails(small().split_off(1), &["byte 0", "bytes 746165"]);
    let first = record(1, 10, 0x0811_0001, 800, 8192, &[]);
    let foreign = [&first[..], &[0xee; 48]].concat();
    fails(foreign, &["byte 48", "got bytes eeeeeeee", "expected a blktrace record"]);
    let newer = [&[8], &first[1..]].concat();
    fails(newer, &["byte 0", "bytes 08746165", "version 7"]);
    let absurd = record(1, 10, 0x0811_0001, 800, (1 << 30) + 512, &[]);
    fails([&first[..], &absurd[..]].concat(), &["byte 48", "1073742336 bytes", "1 GiB"]);
    fails(record(1, 10, 0x0811_0001, 1 << 55, 512, &[]), &["sector 36028797018963968"]);
    fails([first.clone(), big_endian(&first)].concat(), &["byte 48"]);
}

#[test]
fn what_can_be_kept_is_kept_and_counted() {
    let first = record(1, 10, 0x0811_0001, 800, 8192, &[]);
    let warned = |bytes: Vec<u8>, part: &str| {
        let (records, notes, _) = read(&[("s.blktrace.0", bytes)]).unwrap();
        assert_eq!(records.len(), 1);
        assert!(notes.warnings.iter().any(|warning| warning.contains(part)), "{notes:?}");
        notes
    };
    warned([&first[..], &first[..20]].concat(), "byte 48: the last record is truncated");
    let named = record(2, 11, 0x0400_0000, 0, 0, b"java\0\0\0\0");
    warned([&first[..], &named[..52]].concat(), "byte 48: the last record is truncated");
    warned([&first[..], &[0; 100]].concat(), "100 zero bytes from byte 48");
    let zero = record(2, 11, 0x0811_0001, 800, 0, &[]);
    assert_eq!(warned([first.clone(), zero].concat(), "1 of 1").rows_skipped, 1);

    let files = [("s.blktrace.0", vec![]), ("s.blktrace.3", first)];
    let (records, notes, _) = read(&files).unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!(notes.warnings[0], "s.blktrace.0: empty");
    assert!(notes.warnings[1].contains("CPU 1-2:"), "{notes:?}");
}

#[test]
fn times_that_run_backwards_are_sorted_or_raised() {
    let at = |time| record(1, time, 0x0811_0001, 8 * time, 4096, &[]);
    let (records, notes, _) = read(&[("s", [at(30), at(10), at(20)].concat())]).unwrap();
    let times: Vec<_> = records.iter().map(|record| (record.at.0, record.offset)).collect();
    assert_eq!(times, [(0, 10 * 4096), (10, 20 * 4096), (20, 30 * 4096)]);
    assert_eq!(notes.rows_late, 0);
    let many: Vec<u8> = (1000..3000).chain([5]).flat_map(at).collect();
    let (records, notes, _) = read(&[("s", many)]).unwrap();
    assert_eq!((records.len(), notes.rows_late), (2001, 1));
    assert!(records.is_sorted_by_key(|record| record.at));
}

/// Opens one file of a set as users do, with this share of damaged records.
fn opened(bytes: &[u8], share: &str) -> Result<(Vec<Record>, Notes), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.blktrace.0");
    fs::write(&path, bytes).unwrap();
    let told = |error: forebay_trace::TraceError| error.to_string();
    let mut reader = open(&path, Some(&format!("bad-rows:{share}:"))).map_err(told)?;
    let (mut records, mut batch) = (Vec::new(), Vec::new());
    loop {
        reader.read(&mut batch).map_err(told)?;
        if batch.is_empty() {
            return Ok((records, reader.notes().clone()));
        }
        records.extend_from_slice(&batch);
    }
}

/// Returns 2000 reads and their completions; a name with a payload follows every tenth.
fn long() -> Vec<Vec<u8>> {
    let request = |n: u64| {
        let name = record(0, n * 100, 0x0400_0000, 0, 0, b"java\0\0\0\0");
        let mut both = vec![
            record(1, n * 100, 0x0811_0001, n * 8, 4096, &[]),
            record(2, n * 100 + 50, 0x0881_0008, n * 8, 4096, &[]),
        ];
        both.extend(n.is_multiple_of(10).then_some(name));
        both
    };
    (0..2000).flat_map(request).collect()
}

#[test]
fn damage_in_the_middle_is_skipped_up_to_the_next_record() {
    let records = long();
    let whole = records.concat();
    let (all, _) = opened(&whole, "0").unwrap();
    assert_eq!(all.len(), 2000);
    let at: usize = records[..2001].iter().map(Vec::len).sum();
    for (from, bytes, least) in [
        (at, vec![0xee; 48], 1999),
        (at, vec![0; 480], 1990),
        // A magic number, and the first byte of another record.
        (at + 1, vec![0xee; 1], 1999),
        (at + 3, 0x6561_7407u32.to_le_bytes().to_vec(), 1999),
        // The length of a payload, and the length of a request.
        (at + 46, vec![0xff; 2], 1999),
        (at + 24, vec![0xff; 4], 1999),
        (at + 17, vec![0xee; 100], 1997),
    ] {
        let mut damaged = whole.clone();
        damaged[from..from + bytes.len()].copy_from_slice(&bytes);
        let (some, notes) =
            opened(&damaged, "1%").unwrap_or_else(|e| panic!("{from} {bytes:?}: {e}"));
        assert!(
            (least..=2000).contains(&some.len()),
            "{from} {bytes:?}: {} of 2000, {notes:?}",
            some.len()
        );
        assert!(notes.rows_bad > 0 && notes.rows_bad < 12, "{notes:?}");
        let note = notes
            .warnings
            .iter()
            .find(|note| note.contains("damaged and left out (1 part at byte"));
        assert!(note.is_some_and(|note| note.contains("s.blktrace.0: ")), "{notes:?}");
        assert!(opened(&damaged, "0").is_err());
    }
    // Bytes that were lost or added.
    for (lost, added) in [(1, 0), (48, 0), (61, 0), (0, 1), (0, 4096)] {
        let damaged =
            [&whole[..at + 20], &vec![0xee; added][..], &whole[at + 20 + lost..]].concat();
        let (some, _) = opened(&damaged, "5%").unwrap();
        assert!((1996..=2000).contains(&some.len()), "{lost} {added}: {}", some.len());
    }
    let mut hollow = whole.clone();
    hollow[20_000..40_000].fill(0);
    let error = opened(&hollow, "1%").unwrap_err();
    assert!(
        error.contains("byte ") && error.contains("so far cannot be read, and 1 % may be"),
        "{error}"
    );
    assert!(opened(&hollow, "20%").unwrap().0.len() > 1500);
}

/// The first record determines the byte order, and by it the format is recognized.
#[test]
fn a_damaged_beginning_is_skipped() {
    let records = long();
    for whole in [records.concat(), big_endian(&records.concat())] {
        for damaged in [1, 3, 40, 48, 100, 1000] {
            let mut bytes = whole.clone();
            bytes[..damaged].fill(0xee);
            let (some, notes) = opened(&bytes, "5%").unwrap();
            assert!((1985..=2000).contains(&some.len()), "{damaged}: {}", some.len());
            let is_told = |note: &String| note.contains("damaged and left out (1 part at byte 0)");
            assert!(notes.rows_bad > 0 && notes.warnings.iter().any(is_told), "{notes:?}");
            assert!(opened(&bytes, "0").is_err());
        }
        let (some, _) = opened(&whole[7..], "1%").unwrap();
        assert_eq!(some.len(), 1999);
    }
}

#[test]
fn a_copied_file_counts_once() {
    let (records, other) = (long(), record(1, 5, 0x0811_0001, 1 << 20, 4096, &[]));
    let file = |cpu: u32, bytes: &[u8]| (format!("s.blktrace.{cpu}"), bytes.to_vec());
    let told = |files: &[(String, Vec<u8>)]| {
        let files: Vec<_> = files.iter().map(|(name, bytes)| (&**name, bytes.clone())).collect();
        let (records, notes, _) = read(&files).unwrap();
        (
            records,
            notes.warnings.into_iter().filter(|note| note.contains("as if the file")).collect(),
        )
    };
    let whole = records.concat();
    let (once, notes): (_, Vec<String>) = told(&[file(0, &whole), file(1, &other)]);
    assert_eq!((once.len(), notes.len()), (2001, 0));
    let (twice, notes) = told(&[file(0, &whole), file(1, &other), file(2, &whole)]);
    assert!(once == twice);
    let expected = "s.blktrace.2: 4000 events are also in s.blktrace.0, ";
    assert!(notes.len() == 1 && notes[0].starts_with(expected), "{notes:?}");
    // A copy of a part.
    let half = records[..2100].concat();
    let (twice, notes) = told(&[file(0, &half), file(1, &other), file(2, &whole)]);
    assert!(once == twice && notes.len() == 1, "{notes:?}");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(forebay_testing::longer(40) as u32))]

    /// Bytes that change at one spot cost a few requests.
    #[test]
    fn one_damaged_spot_costs_a_few_requests(from in 0.0..1.0f64, bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 1..200)) {
        let whole = long().concat();
        let from = 4800 + ((whole.len() - 5800) as f64 * from) as usize;
        let mut damaged = whole.clone();
        damaged[from..from + bytes.len()].copy_from_slice(&bytes);
        let (some, _) = opened(&damaged, "5%").unwrap();
        proptest::prop_assert!((1985..=2006).contains(&some.len()), "{}", some.len());
    }
}

/// After truncation at any byte, or with bits flipped, reading gives an error or records, but never
/// a panic.
#[test]
fn no_bytes_make_it_panic() {
    let whole = small();
    for end in 0..whole.len() {
        let _ = read(&[("s", whole[..end].to_vec())]);
    }
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut damaged = whole.clone();
            damaged[at] = value;
            let _ = read(&[("s", damaged)]);
        }
    }
}

/// Requests overlap at random, many of them never complete, and one comes an impossible time later.
#[test]
fn memory_and_time_stay_bounded_when_nothing_completes() {
    let mut bytes = Vec::new();
    for i in 0..300_000u64 {
        let sector = i.wrapping_mul(0x9e37_79b9) % (1 << 24);
        bytes.extend(record(1, i * 1000, 0x0811_0001, sector, 1 << 20, &[]));
        if i % 4 == 0 {
            bytes.extend(record(1, i * 1000, 0x0881_0008, sector, 4096, &[]));
        }
    }
    let (records, notes, _) = read(&[("s", bytes)]).unwrap();
    assert_eq!(records.len(), 300_000);
    assert!(notes.warnings[0].contains("have no completion"), "{notes:?}");
}
