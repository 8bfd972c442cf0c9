//! Compares the description of random traces with slow but obvious reference implementations.

use std::collections::{BTreeMap, BTreeSet};

use forebay_core::{Flags, Nanos, Op};
use forebay_trace::describe::{Describer, Description, Options};
use forebay_trace::streams::StreamBy;
use forebay_trace::{Dictionary, Notes, Record, Stream};
use proptest::prelude::*;

/// Generates a record. There are few addresses and streams, so that requests often interact;
/// occasionally, an address is distant.
fn record() -> impl Strategy<Value = Record> {
    let offset = prop_oneof![
        8 => (0u64..40).prop_map(|k| k * 512),
        2 => (0u64..40).prop_map(|k| (2 << 20) - 10 * 512 + k * 512),
        1 => (0u64..4).prop_map(|k| (1 << 63) + k * 512),
    ];
    let op = prop_oneof![5 => Just(Op::Read), 5 => Just(Op::Write), 1 => Just(Op::Trim)];
    let gap_ns = prop_oneof![4 => 0u64..300_000, 1 => 0u64..40_000_000];
    let latency_ns = prop::option::of(0u64..2_000_000);
    (gap_ns, offset, 1u32..9, op, 0u32..5, 0u32..3, latency_ns).prop_map(
        |(gap, offset, sectors, op, stream, volume, latency)| Record {
            at: Nanos(gap),
            offset,
            latency: latency.map(Nanos),
            len: sectors * 512,
            stream,
            volume,
            op,
            flags: Flags::NONE,
        },
    )
}

fn trace() -> impl Strategy<Value = Vec<Record>> {
    prop::collection::vec(record(), 0..200).prop_map(|mut records| {
        let mut now = Nanos::ZERO;
        for r in &mut records {
            now += r.at;
            r.at = now;
        }
        records
    })
}

/// Streams 0 and 1 are the same thread under two names; streams 2 and 3 are two write-back workers.
fn dictionary() -> Dictionary {
    let stream =
        |thread, name: &str| Stream { thread: Some(thread), process: None, name: name.into() };
    let streams = [(1, "a"), (1, "b"), (2, "kworker/0"), (3, "kworker/1"), (4, "c")];
    Dictionary {
        streams: streams.map(|(thread, name)| stream(thread, name)).to_vec(),
        volumes: ["v", "w", "x"].map(str::to_owned).to_vec(),
    }
}

const GROUP: [u32; 5] = [0, 0, 1, 1, 2];
const THREAD: [u32; 5] = [1, 1, 2, 3, 4];

fn describe(records: &[Record], piece: usize) -> Description {
    let mut describer =
        Describer::new(Options { stream_by: StreamBy::Thread, ..Options::default() });
    let dictionary = dictionary();
    records.chunks(piece).for_each(|batch| describer.add(batch, &dictionary));
    describer.finish(&dictionary, &Notes::default())
}

fn end(r: &Record) -> u64 {
    r.offset + u64::from(r.len)
}

/// Returns the number of distinct keys, and how many requests start where the previous request with
/// the same key ended.
fn sequential<K: Ord>(data: &[Record], key: impl Fn(&Record) -> K) -> (usize, usize) {
    let mut last: BTreeMap<K, u64> = BTreeMap::new();
    let continued = data.iter().filter(|r| last.insert(key(r), end(r)) == Some(r.offset)).count();
    (last.len(), continued)
}

/// Returns the number of requests and bytes in each run.
fn runs<K: Ord>(data: &[Record], key: impl Fn(&Record) -> K) -> Vec<(u64, u64)> {
    let mut queues: BTreeMap<K, Vec<&Record>> = BTreeMap::new();
    data.iter().for_each(|r| queues.entry(key(r)).or_default().push(r));
    let mut lengths = Vec::new();
    for queue in queues.values() {
        for run in queue.chunk_by(|a, b| end(a) == b.offset) {
            lengths.push((run.len() as u64, run.iter().map(|r| u64::from(r.len)).sum()));
        }
    }
    lengths
}

fn check_runs(got: &forebay_trace::describe::description::Runs, mut want: Vec<(u64, u64)>) {
    want.sort_unstable();
    assert_eq!(got.count, want.len() as u64);
    assert_eq!(got.max_requests, want.iter().map(|run| run.0).max());
    assert_eq!(got.max_kib, want.iter().map(|run| run.1).max().map(|b| b as f64 / 1024.0));
    let bytes: u64 = want.iter().map(|run| run.1).sum();
    assert_eq!(got.mean_kib, ratio(bytes as usize, want.len()).map(|mean| mean / 1024.0));
    let middle = want.len().div_ceil(2).saturating_sub(1);
    assert_eq!(got.p50_requests, want.get(middle).map(|run| run.0));
}

fn ratio(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Checks the means and the dispersion of counts by computing every bin.
fn check_arrivals(d: &Description, records: &[Record], data: &[Record]) {
    let (Some(first), Some(last)) = (records.first(), records.last()) else { return };
    for scale in d.arrivals.iter().filter(|scale| scale.bin_ms <= 1000) {
        let length = scale.bin_ms * 1_000_000;
        let whole = ((last.at.0 - first.at.0) / length) as usize;
        let mut bins = vec![0usize; whole + 1];
        data.iter().for_each(|r| bins[((r.at.0 - first.at.0) / length) as usize] += 1);
        let peak = bins.iter().max().filter(|&&peak| peak > 0);
        let peak_iops = peak.map(|&peak| peak as f64 * 1000.0 / scale.bin_ms as f64);
        assert!(close(scale.peak_iops, peak_iops));
        bins.pop();
        let mean = ratio(bins.iter().sum(), whole);
        assert_eq!((scale.bins, scale.mean_requests), (whole as u64, mean));
        let variance = |mean: f64| {
            bins.iter().map(|&n| (n as f64 - mean).powi(2)).sum::<f64>() / whole as f64 / mean
        };
        let dispersion = mean.filter(|&mean| whole > 1 && mean > 0.0).map(variance);
        assert!(close(scale.dispersion, dispersion), "{scale:?}: {dispersion:?}");
    }
}

/// Returns the highest number of outstanding requests just after an arrival.
fn most_outstanding(data: &[Record]) -> Option<u64> {
    let measured: Vec<(u64, u64)> =
        data.iter().filter_map(|r| r.latency.map(|l| (r.at.0, (r.at + l).0))).collect();
    let at_arrival = |k: usize| {
        let now = measured[k].0;
        let earlier = measured[..k].iter().filter(|(_, done)| *done > now).count() as u64;
        earlier + 1
    };
    (0..measured.len()).map(at_arrival).max()
}

fn close(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * (1.0 + b.abs()),
        (a, b) => a.is_none() && b.is_none(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn descriptions_agree_with_references(records in trace(), piece in 1usize..50) {
        let d = describe(&records, piece);
        let data: Vec<Record> = records.iter().copied().filter(|r| r.op != Op::Trim).collect();
        prop_assert_eq!(d.requests, data.len() as u64);

        let sectors: BTreeSet<(u32, u64)> = data
            .iter()
            .flat_map(|r| (r.offset / 512..end(r) / 512).map(|sector| (r.volume, sector)))
            .collect();
        prop_assert_eq!(d.footprint_bytes, 512 * sectors.len() as u64);
        let by_volume: u64 = d.by_volume.iter().map(|v| v.footprint_bytes).sum();
        prop_assert_eq!(by_volume, d.footprint_bytes);

        let (firsts, continued) = sequential(&data, |r| r.volume);
        prop_assert_eq!(d.sequential_share, ratio(continued, data.len() - firsts));
        prop_assert_eq!(d.seeks.count as usize, data.len() - firsts - continued);
        let stream = |r: &Record| (GROUP[r.stream as usize], r.op, r.volume);
        let (_, continued) = sequential(&data, stream);
        prop_assert_eq!(d.sequential_share_by_stream, ratio(continued, data.len()));
        let (_, continued) = sequential(&data, |r| (THREAD[r.stream as usize], r.op, r.volume));
        prop_assert_eq!(d.sequential_share_by_thread, ratio(continued, data.len()));

        check_runs(&d.runs, runs(&data, |r| r.volume));
        check_runs(&d.stream_runs, runs(&data, stream));
        check_arrivals(&d, &records, &data);
        prop_assert_eq!(d.concurrency.max_outstanding, most_outstanding(&data));
    }

    #[test]
    fn nothing_panics(
        fields in prop::collection::vec(any::<(u64, u64, Option<u64>, u32, u8, u8, u8)>(), 0..50)
    ) {
        let ops = [Op::Read, Op::Write, Op::Flush, Op::Trim, Op::Park];
        // Offsets and lengths may be extreme, but requests of 4 GiB are rare.
        let records: Vec<Record> = fields
            .iter()
            .map(|&(at, offset, latency, len, who, op, flags)| Record {
                at: Nanos(at),
                offset,
                latency: latency.map(Nanos),
                len: len >> (who % 32),
                stream: u32::from(who),
                volume: u32::from(flags),
                op: ops[op as usize % ops.len()],
                flags: Flags(u16::from(flags)),
            })
            .collect();
        let d = describe(&records, 7);
        prop_assert_eq!(d.records, records.len() as u64);
    }
}
