//! Tests what `advise` says about streams that disturb each other.

use forebay::advise::{Advice, Prefer, RemedyKind, Verdict};
use forebay::devices;
use forebay::input::Input;
use forebay::simulate::{Setup, run};
use forebay_trace::Record;

use super::{GIB, KIB, preferring, read, remedy, scattered};

/// Returns scattered reads of a database every 30 ms for a minute, and those of a backup that reads
/// `len` bytes every `gap_us`.
fn database_and_backup(gap_us: u64, len: u64) -> Vec<Record> {
    let database = (0..2000).map(|n| read(n * 30_000 + n * 7919 % 9000, 0, scattered(n), 8 * KIB));
    let backup = |n: u64| read(n * gap_us, 1, 600 * GIB + n * len, len);
    database.chain((0..60_000_000 / gap_us).map(backup)).collect()
}

/// Returns the 99th percentile in ms of the first stream if it is alone on the disk.
fn alone_ms(records: &[Record]) -> f64 {
    let mut records: Vec<Record> = records.iter().filter(|one| one.stream == 0).copied().collect();
    records.sort_by_key(|record| record.at);
    let input = Input::from_records(records, vec!["reader-0".to_string()]);
    let device = devices::open("st1000nm0011").unwrap();
    let run = run(&input, &device, "mq-deadline", Setup::default()).unwrap();
    run.result.figures.streams[0].p99_ms.unwrap()
}

fn on_disk(records: Vec<Record>) -> Advice {
    super::with_options(records, "st1000nm0011", Default::default())
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

#[test]
fn who_disturbs_whom_comes_first_if_nothing_else_helps() {
    let records = database_and_backup(40_000, 512 * KIB);
    let expected_ms = alone_ms(&records);
    let advice = on_disk(records);
    assert_ne!(advice.verdict, Verdict::Recommended, "{}", advice.headline);
    let database = &advice.disturbances[0];
    assert!(database.matters && database.is_reads, "{database:?}");
    assert_eq!((&database.stream[..], &database.beside[..]), ("reader-0", "reader-1"));
    assert_eq!(database.requests, 2000);
    assert!((database.p99_without_ms / expected_ms - 1.0).abs() < 0.01, "{database:?}");
    assert!(database.p99_without_ms < 0.8 * database.p99_ms.unwrap(), "{database:?}");
    let headline = &advice.headline;
    assert!(headline.starts_with("reader-0 reads: p99 "), "{headline}");
    assert!(headline.contains(" together with reader-1, "), "{headline}");
    assert!(headline.ends_with(" without it; separate them."), "{headline}");
    assert!(words(headline) <= 25, "{headline}");
    let why = advice.why.unwrap();
    assert!(why.contains(" goes to switching between reader-0 and reader-1"), "{why}");
}

/// On an idle disk, a difference that nobody notices is not reported.
#[test]
fn streams_that_hardly_meet_do_not_disturb_each_other() {
    let few = |gap_us| {
        let backup = (0..200).map(move |n| read(n * gap_us, 1, 600 * GIB + n * 64 * KIB, 64 * KIB));
        let database = (0..400).map(|n| read(n * 150_000, 0, scattered(n), 8 * KIB));
        database.chain(backup).collect()
    };
    let advice = on_disk(few(300_000));
    assert!(advice.disturbances.iter().all(|one| !one.matters), "{:?}", advice.disturbances);
    assert!(advice.headline.starts_with("Keep mq-deadline"), "{}", advice.headline);
    assert!(!advice.why.unwrap().contains(" without "));
}

#[test]
fn a_stream_that_overloads_the_disk_is_named() {
    let records = database_and_backup(2_000, 512 * KIB);
    let advice = on_disk(records);
    assert!(advice.headline.starts_with("This disk cannot keep up"), "{}", advice.headline);
    let why = advice.why.unwrap();
    assert!(
        why.contains("without reader-1 nothing falls behind, and p99 of reader-0 reads"),
        "{why}"
    );
    assert!(advice.disturbances.iter().all(|one| one.p99_ms.is_none()));
}

/// If a scheduler helps, that comes first, and the streams are in the reason.
#[test]
fn a_remedy_comes_before_the_streams() {
    let bursts = |n: u64| {
        (0..40).map(move |i| read(n * 1_000_000 + i * 10, 0, scattered(n * 40 + i), 4 * KIB))
    };
    let scan = (0..1500).map(|n| read(n * 20_000, 1, 700 * GIB + n * 64 * KIB, 64 * KIB));
    let records = (0..30).flat_map(bursts).chain(scan).collect();
    let advice = preferring(records, "st1000nm0011:plain", Prefer::Balance);
    assert_eq!(advice.verdict, Verdict::Recommended, "{}", advice.headline);
    assert!(advice.headline.starts_with("Set "), "{}", advice.headline);
    assert!(advice.disturbances[0].matters, "{:?}", advice.disturbances);
    assert!(remedy(&advice, RemedyKind::Scheduling).recommended);
    assert!(advice.why.unwrap().contains(" without it"));
}
