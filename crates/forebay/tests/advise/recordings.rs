//! Tests what `advise` says about recordings that are short, or of a much faster device.

use forebay::advise::Verdict;
use forebay_core::Nanos;
use forebay_trace::Record;

use super::{KIB, advice, read, scattered};

/// The same bursts for four seconds and for forty: only the longer recording changes the scheduler.
#[test]
fn a_short_recording_changes_no_scheduler() {
    let burst = |n: u64| {
        let at_us = n * 200_000 + n * 7919 % 20_000;
        (0..12).map(move |i| read(at_us + i * 31, i as u32, scattered(n * 12 + i), 4 * KIB))
    };
    let bursts = |count: u64| advice((0..count).flat_map(burst).collect());
    let (short, long) = (bursts(24), bursts(200));
    assert_eq!(long.verdict, Verdict::Recommended, "{}", long.headline);
    assert_eq!(short.verdict, Verdict::TooShort, "{}", short.headline);
    assert!(short.headline.contains("record at least 5 s"), "{}", short.headline);
    assert!(short.today.is_none() && short.recommended.is_none());
}

/// Reads that took 0.3 ms when they were recorded, far apart on a disk that was only assumed.
#[test]
fn a_much_faster_recording_comes_first() {
    let latency = Some(Nanos::from_micros(300));
    let one =
        |n: u64| Record { latency, ..read(n * 50_000 + n * 7919 % 500, 0, scattered(n), 4 * KIB) };
    let headline = advice((0..1_000).map(one).collect()).headline;
    let said = headline.strip_prefix("The recorded storage was ").unwrap_or_default();
    assert!(said.contains(" times as fast as st1000nm0011"), "{headline}");
    assert!(said.contains(": keep none") && said.split_whitespace().count() < 25, "{headline}");
}
