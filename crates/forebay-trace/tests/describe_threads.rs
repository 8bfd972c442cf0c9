//! Compares the description of threads in real captures with a computation that stores every
//! request, and with known facts. Skipped without the captures.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use forebay_core::Op;
use forebay_testing::recorded;
use forebay_trace::describe::by_thread::rows::{ByThread, Figures};
use forebay_trace::describe::by_thread::rules::{Functionality, Rules};
use forebay_trace::describe::{Describer, Options, ThreadOptions, by_thread};
use forebay_trace::open::open;
use forebay_trace::streams::{Grouping, StreamBy};
use forebay_trace::{Dictionary, Record};

/// The description of a trace's threads, and all its requests.
struct Read {
    found: ByThread,
    records: Vec<Record>,
    dictionary: Dictionary,
    /// The volumes and MiB that any thread reads or writes.
    used: BTreeSet<(u32, u64)>,
}

fn read(path: &Path) -> Read {
    let mut reader = open(path, None).unwrap();
    let threads = ThreadOptions { rows_max: by_thread::THREADS_MAX, ..ThreadOptions::default() };
    let mut describer = Describer::new(Options { threads: Some(threads), ..Options::default() });
    let (mut batch, mut records) = (Vec::new(), Vec::new());
    loop {
        reader.read(&mut batch).unwrap();
        if batch.is_empty() {
            break;
        }
        describer.add(&batch, reader.dictionary());
        records.extend_from_slice(&batch);
    }
    let dictionary = reader.dictionary().clone();
    let found = describer.finish(&dictionary, reader.notes()).by_thread.unwrap();
    let mut used = BTreeSet::new();
    for r in records.iter().filter(|r| is_data(r)) {
        let mib = r.offset >> 20..=(r.offset + u64::from(r.len) - 1) >> 20;
        used.extend(mib.map(|mib| (r.volume, mib)));
    }
    Read { found, records, dictionary, used }
}

fn is_data(r: &Record) -> bool {
    r.op.moves_data() && r.len > 0
}

fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn close(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs().max(1.0),
        _ => a.is_none() && b.is_none(),
    }
}

/// Checks every figure in `of` against one computed from the requests of the thread.
fn check(of: &Figures, requests: &[Record], read: &Read) {
    let reads = requests.iter().filter(|r| r.op == Op::Read).count();
    let bytes: u64 = requests.iter().map(|r| u64::from(r.len)).sum();
    assert_eq!((of.requests, of.reads), (requests.len() as u64, reads as u64));
    assert!(close(of.weight_share, share(requests.len(), read.found.all.requests as usize)));
    assert!(close(of.mean_kib, Some(bytes as f64 / 1024.0 / requests.len() as f64)));
    let gaps: Vec<f64> =
        requests.windows(2).map(|pair| (pair[1].at.0 - pair[0].at.0) as f64 / 1e6).collect();
    let mean = |values: &[f64]| {
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    assert!(close(of.inter_arrival_mean_ms, mean(&gaps)));
    let took: Vec<f64> =
        requests.iter().filter_map(|r| r.latency).map(|ns| ns.0 as f64 / 1e6).collect();
    assert!(close(of.latency_mean_ms, mean(&took)));
    let mut ends = BTreeMap::new();
    let continues = |r: &&Record| {
        let end = r.offset + u64::from(r.len);
        ends.insert((r.volume, r.op == Op::Read), end) == Some(r.offset)
    };
    let sequential = requests.iter().filter(continues).count();
    assert!(close(of.sequential_share, share(sequential, requests.len())));
    check_periods(of, requests, read);
    check_quarters(of, requests, read);
}

fn check_periods(of: &Figures, requests: &[Record], read: &Read) {
    let origin = read.records[0].at;
    let length_s = read.found.period_s;
    let mut counts = vec![0u64; read.found.periods as usize + 1];
    requests.iter().for_each(|r| counts[((r.at - origin).as_secs_f64() / length_s) as usize] += 1);
    let activity = |period: usize| of.activity_requests.get(period).copied().unwrap_or(0);
    let ours: Vec<u64> = (0..counts.len()).map(activity).collect();
    assert_eq!(ours, counts);
    counts.pop();
    let periods = counts.len() as f64;
    let mean = counts.iter().sum::<u64>() as f64 / periods;
    let variance = counts.iter().map(|c| (*c as f64 - mean).powi(2)).sum::<f64>() / periods;
    let expected = (mean > 0.0).then(|| (variance - mean).max(0.0).sqrt() / mean);
    assert!(
        match (of.fluctuation, expected) {
            (Some(a), Some(b)) => (a - b).abs() < 1e-6,
            (a, b) => a == b,
        },
        "{:?} {expected:?}",
        of.fluctuation
    );
}

/// Checks the share of each quarter, to within the requests that begin near its ends. Quarters
/// divide the MiB that are used by any thread.
fn check_quarters(of: &Figures, requests: &[Record], read: &Read) {
    let used: Vec<(u32, u64)> = read.used.iter().copied().collect();
    let rank = |volume: u32, offset: u64| {
        let number = used.partition_point(|mib| *mib < (volume, offset >> 20));
        number as f64 + (offset % (1 << 20)) as f64 / f64::from(1 << 20)
    };
    let quarter = used.len() as f64 / 4.0;
    let reach = requests.iter().map(|r| r.offset).max().unwrap_or(0) / 32 + 512;
    for (index, ours) in of.quarter_shares.unwrap().into_iter().enumerate() {
        let (low, high) = (index as f64 * quarter, (index + 1) as f64 * quarter);
        let at = |r: &&Record| (low..high).contains(&rank(r.volume, r.offset));
        let near = |r: &&Record| {
            let from = rank(r.volume, r.offset.saturating_sub(reach));
            let to = rank(r.volume, r.offset.saturating_add(reach));
            [low, high].iter().any(|end| (from..=to).contains(end))
        };
        let exact = share(requests.iter().filter(at).count(), requests.len()).unwrap();
        let slack = share(requests.iter().filter(near).count(), requests.len()).unwrap();
        assert!((ours - exact).abs() <= slack + 1e-6, "{ours} for {exact} within {slack}");
    }
}

fn check_all(path: &Path) -> Read {
    let read = read(path);
    let mut grouping = Grouping::new(StreamBy::Thread);
    let mut threads: BTreeMap<String, Vec<Record>> = BTreeMap::new();
    let mut all = Vec::new();
    for r in read.records.iter().filter(|r| is_data(r)) {
        let group = grouping.group(&read.dictionary, r.stream);
        let label = grouping.label(&read.dictionary, group);
        threads.entry(label).or_default().push(*r);
        all.push(*r);
    }
    let found = &read.found;
    assert_eq!(found.threads, threads.len() as u64);
    for row in &found.rows {
        check(&row.figures, &threads[&row.label], &read);
        assert!(found.types.iter().any(|of| of.label == row.of_type));
    }
    for of in &found.types {
        let members = found.rows.iter().filter(|row| row.of_type == of.label);
        assert_eq!(of.threads, members.clone().count() as u64);
        assert_eq!(of.figures.requests, members.map(|row| row.figures.requests).sum::<u64>());
    }
    assert_eq!(found.all.requests, all.len() as u64);
    check_quarters(&found.all, &all, &read);
    check_periods(&found.all, &all, &read);
    read
}

#[test]
fn threads_of_hadoop_captures_are_as_reckoned() {
    let Some(folder) = recorded(".") else { return };
    for capture in ["terasort", "wordcount", "grep", "randomtextwriter", "sample"] {
        let read = check_all(&folder.join(format!("hadoop/{capture}.parquet")));
        // The journal of ext4 is a log, and no thread that reads is one.
        for row in &read.found.rows {
            let of = read.found.types.iter().find(|of| of.label == row.of_type).unwrap();
            let is_log = of.kind.functionality == Functionality::Log;
            assert!(is_log || !row.label.starts_with("jbd2"), "{capture}: {}", row.label);
            let writes = row.figures.writes as f64 / row.figures.requests as f64;
            assert!(!is_log || writes >= Rules::default().log_write_share, "{}", row.label);
        }
        assert!(read.found.rows.iter().any(|row| row.label.starts_with("jbd2")), "{capture}");
    }
}

#[test]
fn threads_of_a_cluster_node_are_as_reckoned() {
    let Some(folder) = recorded(".") else { return };
    let read = check_all(&folder.join("blktrace-bin/hadoop-eternity10.sdb.tar.xz"));
    let found = &read.found;
    assert!((400..500).contains(&found.threads), "{}", found.threads);
    assert!((8..16).contains(&found.periods) && found.threads_beyond == 0);
}
