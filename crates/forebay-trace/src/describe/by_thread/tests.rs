//! Tests with small traces whose figures are known.

use forebay_core::Nanos;

use super::rows::Figures;
use super::rules::{Fluctuation, Functionality, Intensity};
use super::*;
use crate::describe::tests::{read, write};
use crate::describe::{Describer, Description, Options};
use crate::{Notes, Stream};

const SECOND: u64 = 1_000_000_000;

fn dictionary(names: &[&str], volumes: usize) -> Dictionary {
    let stream = |(thread, name): (u32, &&str)| Stream {
        thread: Some(thread),
        process: None,
        name: (*name).to_owned(),
    };
    Dictionary {
        streams: (0..).zip(names).map(stream).collect(),
        volumes: (0..volumes).map(|volume| format!("v{volume}")).collect(),
    }
}

fn describe(batch: &[Record], dictionary: &Dictionary, options: ThreadOptions) -> Description {
    let options = Options { threads: Some(options), ..Options::default() };
    let mut describer = Describer::new(options);
    describer.add(batch, dictionary);
    describer.finish(dictionary, &Notes { format: "test", ..Notes::default() })
}

fn threads(batch: &[Record], dictionary: &Dictionary) -> ByThread {
    let period = Some(Nanos(SECOND));
    let options = ThreadOptions { period, ..ThreadOptions::default() };
    describe(batch, dictionary, options).by_thread.expect("asked for")
}

fn by(stream: u32, r: Record) -> Record {
    Record { stream, ..r }
}

/// Returns the requests of a database that reads at random, a log that appends, and a thread that
/// wakes up only once.
fn mixed() -> Vec<Record> {
    let mut batch = Vec::new();
    for tick in 0..80u64 {
        let at = tick * SECOND / 8;
        let place = (tick * 7919 % 64) << 20;
        batch.push(Record { latency: Some(Nanos(2_000_000)), ..by(0, read(at, place, 8192)) });
        batch.push(by(1, write(at, (128 << 20) + tick * 4096, 4096)));
        if (40..48).contains(&tick) {
            batch.push(by(2, write(at, (200 << 20) + tick * 65_536 * 3, 65_536)));
        }
    }
    batch.push(by(0, read(10 * SECOND, (256 << 20) - 8192, 8192)));
    batch
}

#[test]
fn features_of_each_thread_are_those_it_was_made_with() {
    let found = threads(&mixed(), &dictionary(&["db", "wal", "batch"], 1));
    assert_eq!((found.threads, found.periods, found.period_s), (3, 10, 1.0));
    let labels: Vec<_> = found.rows.iter().map(|row| (&row.label[..], &row.of_type[..])).collect();
    assert_eq!(labels, [("db/0", "Data #0"), ("wal/1", "Log #0"), ("batch/2", "Data #1")]);
    let db = &found.rows[0].figures;
    assert_eq!((db.requests, db.reads, db.writes), (81, 81, 0));
    assert_eq!((db.weight_share, db.mean_iops), (Some(81.0 / 169.0), Some(8.1)));
    assert_eq!((db.mean_kib, db.mean_bytes_per_s), (Some(8.0), Some(8.1 * 8192.0)));
    assert_eq!((db.inter_arrival_mean_ms, db.active_s), (Some(125.0), 10.0));
    assert_eq!((db.inter_arrival_variation, db.fluctuation), (Some(0.0), Some(0.0)));
    assert_eq!((db.read_write_ratio, db.sequential_share), (None, Some(0.0)));
    assert_eq!((db.latency_mean_ms, db.latency_measured_share), (Some(2.0), Some(80.0 / 81.0)));
    // The threads use 68 MiB in total, so a quarter has 17. The last MiB of the database is in the
    // last quarter.
    let mut quarters = [0.0, 0.0, 0.0, 1.0];
    (0..80).for_each(|tick| quarters[tick * 7919 % 64 / 17] += 1.0);
    assert_eq!(db.quarter_shares, Some(quarters.map(|count| count / 81.0)));
    assert_eq!(db.activity_requests, [vec![8; 10], vec![1]].concat());
    let wal = &found.rows[1].figures;
    assert_eq!((wal.sequential_share, wal.read_write_ratio), (Some(79.0 / 80.0), Some(0.0)));
    assert_eq!((wal.quarter_shares, wal.latency_mean_ms), (Some([0.0, 0.0, 0.0, 1.0]), None));
    let batch = &found.rows[2].figures;
    assert_eq!(batch.activity_requests, [0, 0, 0, 0, 0, 8, 0, 0, 0, 0]);
    // All eight requests are in one of ten periods: the mean is 0.8, the variance 5.76, and beyond
    // chance 4.96.
    assert!((batch.fluctuation.unwrap() - 4.96f64.sqrt() / 0.8).abs() < 1e-12);
    assert_eq!((batch.sequential_share, batch.active_s), (Some(0.0), 0.875));
}

#[test]
fn types_are_the_sums_of_their_threads_and_all_is_the_sum_of_types() {
    let found = threads(&mixed(), &dictionary(&["db", "wal", "batch"], 1));
    let kinds: Vec<_> = found
        .types
        .iter()
        .map(|of| (&of.label[..], of.kind.functionality, of.kind.fluctuation, of.kind.intensity))
        .collect();
    use {Fluctuation::*, Functionality::*};
    let expected = [
        ("Data #0", Data, Steady, Intensity::High),
        ("Log #0", Log, Steady, Intensity::High),
        ("Data #1", Data, Fluctuating, Intensity::Medium),
    ];
    assert_eq!(kinds, expected);
    let sum = |of: fn(&Figures) -> u64| found.types.iter().map(|t| of(&t.figures)).sum::<u64>();
    assert_eq!(sum(|f| f.requests), found.all.requests);
    assert_eq!(sum(|f| f.writes), found.all.writes);
    let shares = found.types.iter().filter_map(|t| t.figures.weight_share).sum::<f64>();
    assert!((shares - 1.0).abs() < 1e-12);
    assert_eq!(found.all.weight_share, Some(1.0));
    let first = found.all.quarter_shares.unwrap()[0] * 169.0;
    assert!((first - found.rows[0].figures.quarter_shares.unwrap()[0] * 81.0).abs() < 1e-9);
    // The figures of a type with a single thread are those of the thread.
    assert_eq!(found.types[1].figures, found.rows[1].figures);
}

#[test]
fn a_type_of_several_threads_has_their_figures_together() {
    // Two threads with equal requests, the second of which starts half a second later.
    let thread = |stream: u32, late: u64| {
        (0..10).map(move |k| by(stream, read(k * SECOND + late, k << 30, 4096)))
    };
    let mut batch: Vec<Record> = thread(0, 0).chain(thread(1, SECOND / 2)).collect();
    batch.sort_by_key(|r| r.at);
    let found = threads(&batch, &dictionary(&["a", "b"], 1));
    assert_eq!((found.types.len(), found.types[0].threads), (1, 2));
    let both = &found.types[0].figures;
    assert_eq!((both.requests, both.inter_arrival_mean_ms), (20, Some(500.0)));
    assert_eq!((both.inter_arrival_variation, both.active_s), (None, 9.5));
    assert_eq!(found.all.inter_arrival_variation, Some(0.0));
    assert_eq!(both.activity_requests, [2; 10]);
    assert_eq!(both.quarter_shares, found.all.quarter_shares);
}

#[test]
fn rows_are_those_with_most_requests_and_the_rest_is_counted() {
    let batch: Vec<Record> = (0..5u32)
        .flat_map(|stream| (0..=stream).map(move |k| by(stream, read(0, u64::from(k), 512))))
        .collect();
    let dictionary = dictionary(&["a", "b", "c", "d", "e"], 1);
    let options = ThreadOptions { rows_max: 2, ..ThreadOptions::default() };
    let found = describe(&batch, &dictionary, options).by_thread.unwrap();
    let labels: Vec<_> = found.rows.iter().map(|row| &row.label[..]).collect();
    assert_eq!((labels, found.threads_hidden, found.threads), (vec!["e/4", "d/3"], 3, 5));
    // All requests arrive at the same time, so there is no rate, no gap and no fluctuation.
    let all = &found.all;
    assert_eq!(
        (all.mean_iops, all.fluctuation, all.inter_arrival_mean_ms),
        (None, None, Some(0.0))
    );
    assert_eq!((found.periods, &all.activity_requests[..]), (0, &[15][..]));
}

#[test]
fn threads_and_places_beyond_what_is_followed_are_added_up() {
    let count = THREADS_MAX as u32 + 3;
    let names = vec!["x"; count as usize];
    let dictionary = dictionary(&names, 5);
    // Each thread uses five volumes, which makes more pairs than are tracked.
    let batch: Vec<Record> = (0..5 * count)
        .map(|k| Record { volume: k % 5, ..by(k / 5, read(u64::from(k), u64::from(k) << 20, 512)) })
        .collect();
    let d = describe(&batch, &dictionary, ThreadOptions::default());
    let found = d.by_thread.unwrap();
    assert_eq!((found.threads, found.threads_beyond), (u64::from(count), 3));
    assert_eq!((found.rows.len(), found.threads_hidden), (ROWS, (THREADS_MAX - ROWS) as u64));
    assert_eq!(found.beyond.as_ref().map(|of| of.requests), Some(15));
    let types: u64 = found.types.iter().map(|of| of.figures.requests).sum();
    assert_eq!((types + 15, found.all.requests), (u64::from(5 * count), u64::from(5 * count)));
    assert_eq!(found.beyond.unwrap().sequential_share, None);
    let options = ThreadOptions { rows_max: THREADS_MAX, ..ThreadOptions::default() };
    let all = describe(&batch, &dictionary, options);
    let last = &all.by_thread.as_ref().unwrap().rows[THREADS_MAX - 1].figures;
    assert_eq!((last.requests, last.quarter_shares), (5, None));
}

#[test]
fn write_back_is_one_thread_and_streams_may_be_processes() {
    let dictionary = dictionary(&["kworker/0:1", "kworker/1:2", "a"], 1);
    let batch = [by(0, write(0, 0, 512)), by(1, write(0, 512, 512)), by(2, read(0, 0, 512))];
    let found = threads(&batch, &dictionary);
    assert_eq!((found.threads, &found.rows[0].label[..]), (2, "write-back"));
    assert_eq!(found.rows[0].figures.sequential_share, Some(0.5));
}

#[test]
fn pieces_and_batches_make_no_difference() {
    let dictionary = dictionary(&["db", "wal", "batch"], 1);
    let options = Options { threads: Some(ThreadOptions::default()), ..Options::default() };
    let whole = describe(&mixed(), &dictionary, ThreadOptions::default());
    let mut describer = Describer::new(options);
    mixed().chunks(7).for_each(|chunk| describer.add(chunk, &dictionary));
    let pieces = describer.finish(&dictionary, &Notes { format: "test", ..Notes::default() });
    assert_eq!(whole, pieces);
    // The trace takes ten seconds, so the period is 1800 s divided by 2^11.
    let of = whole.by_thread.unwrap();
    assert_eq!((of.period_s, of.periods), (1800.0 / 2048.0, 11));
}

#[test]
fn types_say_what_they_are() {
    let d = describe(&mixed(), &dictionary(&["db", "wal", "batch"], 1), ThreadOptions::default());
    let found = d.by_thread.as_ref().unwrap();
    assert_eq!(
        (&*found.types[0].label, &*found.types[0].kind.words()),
        ("Data #0", "high, steady")
    );
    let json = serde_json::to_value(&d).unwrap();
    let first = &json["by_thread"]["types"][0];
    assert_eq!((&first["functionality"], &first["threads"]), (&"data".into(), &1.into()));
    assert_eq!(
        (&first["intensity_class"], &first["fluctuation_class"]),
        (&"high".into(), &"steady".into())
    );
    assert_eq!(json["by_thread"]["rows"][0]["type"], "Data #0");
    let without =
        Describer::new(Options::default()).finish(&Dictionary::default(), &Notes::default());
    assert!(serde_json::to_value(&without).unwrap().get("by_thread").is_none());
}
