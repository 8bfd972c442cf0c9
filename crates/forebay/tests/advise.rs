//! `advise` on small traces whose best scheduler is known: three where it differs, and two where
//! nothing helps, which must be said.

#![allow(clippy::unwrap_used)]

use forebay::advise::{Advice, Verdict, advise};
use forebay::devices;
use forebay::input::Input;
use forebay::simulate::Setup;
use forebay_core::{Flags, Nanos, Op};
use forebay_trace::Record;

const KIB: u64 = 1024;
const GIB: u64 = 1 << 30;

fn read(at_us: u64, stream: u32, offset: u64, len: u64) -> Record {
    Record {
        at: Nanos::from_micros(at_us),
        offset,
        latency: None,
        len: len as u32,
        stream,
        volume: 0,
        op: Op::Read,
        flags: Flags::NONE,
    }
}

fn advice(mut records: Vec<Record>) -> Advice {
    records.sort_by_key(|record| record.at);
    let streams = records.iter().map(|record| record.stream).max().unwrap() + 1;
    let labels = (0..streams).map(|stream| format!("reader-{stream}")).collect();
    let input = Input::from_records(records, labels);
    let device = devices::open("st1000nm0011").unwrap();
    advise(&input, &device, "for the test".to_string(), Setup::default(), |_| ()).unwrap()
}

fn best(advice: &Advice) -> &str {
    &advice.ranking[0].policy
}

/// A place that looks random and is not.
fn scattered(index: u64) -> u64 {
    index.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (800 * GIB) / 4096 * 4096
}

/// Bursts of single reads all over the disk, each by a process of its own: only an order by
/// address helps, and it must look across processes.
#[test]
fn scattered_bursts_want_an_elevator() {
    let burst = |n: u64| {
        (0..100).map(move |i| read(n * 2_000_000 + i, i as u32, scattered(n * 100 + i), 4 * KIB))
    };
    let advice = advice((0..20).flat_map(burst).collect());
    assert_eq!(advice.verdict, Verdict::Recommended, "{}", advice.headline);
    assert_eq!((best(&advice), advice.recommended.as_str()), ("forebay", "forebay"));
    assert!(advice.ranking[0].gain_share > 0.2, "{}", advice.headline);
}

/// Two sequential readers, `gap_us` apart each and half of that from each other.
fn two_readers(gap_us: u64) -> Vec<Record> {
    let reader = |stream: u64| {
        (0..1500u64).map(move |n| {
            // A little jitter, so that arrivals do not fall on timers.
            let at_us = n * gap_us + stream * gap_us / 2 + n * 7919 % 500;
            read(at_us, stream as u32, stream * 400 * GIB + n * 64 * KIB, 64 * KIB)
        })
    };
    (0..2).flat_map(reader).collect()
}

/// Two readers that think longer than CFQ idles and less than BID waits.
#[test]
fn slow_sequential_readers_want_staging() {
    let advice = advice(two_readers(9_200));
    assert_eq!(advice.verdict, Verdict::Recommended, "{}", advice.headline);
    assert_eq!((best(&advice), advice.recommended.as_str()), ("bid", "bid"));
}

/// Two readers that think less than CFQ and BFQ idle: they let each read on for a whole turn.
#[test]
fn quick_sequential_readers_want_slices() {
    let advice = advice(two_readers(4_000));
    assert_eq!(advice.verdict, Verdict::Recommended, "{}", advice.headline);
    assert!(["cfq", "bfq"].contains(&best(&advice)), "{}", advice.headline);
    assert_eq!(advice.recommended, best(&advice));
    assert!(advice.findings.iter().any(|finding| finding.contains("reader-0 and reader-1")));
}

#[test]
fn rare_reads_want_nothing() {
    let advice = advice((0..300).map(|n| read(n * 500_000, 0, scattered(n), 4 * KIB)).collect());
    assert_eq!(advice.verdict, Verdict::LoadTooLow, "{}", advice.headline);
    assert_eq!(advice.recommended, "noop");
    assert!(advice.headline.contains("does not matter"), "{}", advice.headline);
}

#[test]
fn one_long_sequential_read_wants_nothing() {
    let advice = advice((0..5000).map(|n| read(n * 1_000, 0, n * 512 * KIB, 512 * KIB)).collect());
    assert_eq!(advice.verdict, Verdict::NothingToGain, "{}", advice.headline);
    assert!(advice.headline.contains("Nothing to gain"), "{}", advice.headline);
}

/// A run is left at once, requests unfinished, when whoever is told of its progress says so; how
/// requests arrive must not matter.
#[test]
fn a_simulation_can_be_stopped() {
    use forebay::Error;
    use forebay::simulate::{Replay, run_with};
    use std::ops::ControlFlow::Break;
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/terasort.parquet");
    let input = Input::read(&path, None, Default::default(), |_| ()).unwrap();
    let device = devices::open("st1000nm0011").unwrap();
    for replay in [Replay::Open, Replay::Closed] {
        let setup = Setup { replay, ..Setup::default() };
        let mut told = 0;
        let run = run_with(&input, &device, "bid", setup, |_| {
            told += 1;
            Break(())
        });
        assert!(matches!(run, Err(Error::Stopped)) && told == 1, "{replay:?}");
    }
    let stopped = advise(&input, &device, String::new(), Setup::default(), |_| Break(()));
    assert!(matches!(stopped, Err(Error::Stopped)));
}
