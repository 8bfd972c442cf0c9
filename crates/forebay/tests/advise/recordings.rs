//! Tests what `advise` says about recordings that are short, or of a much faster device.

use forebay::advise::{AdviceOptions, DependsOn, Verdict, default_device};
use forebay::input::Input;
use forebay::progress::unheard;
use forebay::simulate::Setup;
use forebay_core::{Device, Nanos};
use forebay_trace::Record;

use super::{KIB, advice, of_none, read, scattered, with_options};

/// Returns `count` bursts of a dozen scattered reads.
fn bursts(count: u64) -> Vec<Record> {
    let burst = |n: u64| {
        let at_us = n * 200_000 + n * 7919 % 20_000;
        (0..12).map(move |i| read(at_us + i * 31, i as u32, scattered(n * 12 + i), 4 * KIB))
    };
    (0..count).flat_map(burst).collect()
}

/// The same bursts for four seconds and for forty: only the longer recording changes the scheduler.
#[test]
fn a_short_recording_changes_no_scheduler() {
    let (short, long) = (advice(bursts(24)), advice(bursts(200)));
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
    let said = headline.strip_prefix("The recorded reads were ").unwrap_or_default();
    assert!(said.contains(" times as fast as on st1000nm0011"), "{headline}");
    assert!(
        said.contains(". Keep none") && headline.split_whitespace().count() <= 25,
        "{headline}"
    );
    // The recommended setting leaves space for its gain, and a possible remedy for the range of its
    // gains.
    let fast: Vec<Record> =
        bursts(200).into_iter().map(|record| Record { latency, ..record }).collect();
    let open = AdviceOptions { both_replays: false, ..of_none() };
    let [open, both] = [open, of_none()].map(|options| {
        let advice = with_options(fast.clone(), "st1000nm0011:plain", options);
        let headline = &advice.headline;
        assert!(headline.starts_with("The recorded reads were "), "{headline}");
        assert!(headline.split_whitespace().count() <= 25, "{headline}");
        advice
    });
    assert_eq!((open.verdict, both.verdict), (Verdict::Recommended, Verdict::Depends));
    assert!(open.headline.contains(". Set mq-deadline: read p99 falls from "), "{}", open.headline);
    let uncertain = both.uncertain.unwrap();
    assert_eq!(uncertain.policy, "mq-deadline");
    assert_eq!(uncertain.depends_on, Some(DependsOn::Replay));
    let says = ". Keep none: with mq-deadline, read p99 may fall ";
    assert!(both.headline.contains(says), "{}", both.headline);
    let [ref gains] = uncertain.gains[..] else { panic!("{:?}", uncertain.gains) };
    assert!(gains.figure == "read p99" && gains.least_share < -0.03 && gains.most_share > 0.03);
}

/// Regression test: a recording that was slower than the model was not mentioned.
#[test]
fn a_much_slower_recording_is_reported() {
    let latency = Some(Nanos::from_millis(400));
    let one = |n: u64| Record {
        latency,
        ..super::write(n * 50_000 + n * 7919 % 500, 0, scattered(n), 4 * KIB)
    };
    let advice = advice((0..1_000).map(one).collect());
    let headline = &advice.headline;
    assert!(
        headline.starts_with("The recorded writes were ") && headline.contains(" times slower"),
        "{headline}"
    );
    assert!(
        advice.trust.said.contains("slower: the median of its writes was 400 ms"),
        "{:?}",
        advice.trust
    );
}

/// A burst that is over in a second and a half says nothing about a load.
#[test]
fn a_single_burst_is_too_short() {
    let one = |n: u64| read(n, n as u32 % 8, scattered(n), 4 * KIB);
    let advice = advice((0..150).map(one).collect());
    assert_eq!(advice.verdict, Verdict::TooShort, "{}", advice.headline);
    assert!(advice.headline.contains("record at least 5 s"), "{}", advice.headline);
}

/// Returns 3,000 reads, of which about `fast` of 1,000 took 0.3 ms and the others 9 ms. Streams of 32
/// sequential reads, which are fast as well, alternate with scattered reads.
fn cached(fast: u64) -> Vec<Record> {
    let one = |n: u64| {
        let is_sequential = (n / 32).is_multiple_of(2);
        let is_fast = is_sequential || scattered(n) / 4096 % 1000 < fast;
        let offset = if is_sequential { n * 4 * KIB } else { scattered(n) };
        let latency = Some(Nanos::from_micros(if is_fast { 300 } else { 9_000 }));
        Record { latency, ..read(n * 50_000, 0, offset, 4 * KIB) }
    };
    (0..3_000).map(one).collect()
}

/// A recording of which 98 to 99.5 % of the reads were fast was called a disk's or flash, depending
/// on which half of it was read.
#[test]
fn halves_of_a_recording_get_the_same_kind_of_device() {
    for fast in [0, 440, 710, 930, 980, 985, 992] {
        let all = cached(fast);
        let (first, second) = all.split_at(all.len() / 2);
        let of = |records: &[Record]| {
            let input = Input::from_records(records.to_vec(), vec!["reader".into()]);
            default_device(&input, None, Setup::default(), &mut unheard).unwrap()
        };
        let kinds = [&all[..], first, second].map(|records| of(records).0.model.cylinders() == 0);
        assert_eq!(kinds, [fast > 950; 3], "{fast}");
    }
}

/// A recording of which 2 % took 5 s, which no healthy disk does.
#[test]
fn a_recorded_tail_without_an_explanation_comes_first() {
    let latency = |n: u64| Some(Nanos::from_millis(if n.is_multiple_of(50) { 5_000 } else { 9 }));
    let one = |n: u64| Record {
        latency: latency(n),
        ..read(n * 50_000 + n * 7919 % 500, 0, scattered(n), 4 * KIB)
    };
    let records: Vec<Record> = (0..2_000).map(one).collect();
    for device_named in [false, true] {
        let options =
            AdviceOptions { device_named, both_replays: false, ..AdviceOptions::default() };
        let headline = with_options(records.clone(), "st1000nm0011", options).headline;
        let said = "The recorded read p99 was 5.00 s: this model (";
        assert!(headline.starts_with(said), "{headline}");
        assert!(headline.contains("; check the drive for errors. Keep mq-deadline"), "{headline}");
    }
}

/// Bursts of small writes keep the disk busy for a tenth of the time. Writing them in another order
/// would save a fraction of a millisecond.
#[test]
fn an_idle_disk_needs_no_scheduler() {
    let burst = |n: u64| {
        (0..60u64)
            .map(move |i| super::write(n * 2_000_000 + i * 50, 0, scattered(n * 60 + i), 4 * KIB))
    };
    let reads = (0..200u64).map(|n| read(n * 1_000_000, 1, scattered(90_000 + n), 4 * KIB));
    let records: Vec<Record> = (0..100).flat_map(burst).chain(reads).collect();
    let advice = with_options(records, "sata250", AdviceOptions::default());
    assert_eq!(advice.verdict, Verdict::LoadTooLow, "{}", advice.headline);
    assert!(advice.today.is_none(), "{}", advice.headline);
}
