//! Measures `compare`, in units of one `describe` pass over the same records in the same run: first
//! measuring both traces and drawing the resamples, then also simulating the responses on one
//! device. Times are CPU time where Linux reports it, so other processes on the machine do not
//! distort them.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::time::Instant;

use forebay::compare::{Card, Options, compare};
use forebay::input::Input;
use forebay::progress::unheard;
use forebay_core::Nanos;
use forebay_trace::describe::Describer;
use forebay_trace::{Dictionary, Notes, Record, Stream};

const RUNS: usize = 3;
const REPEATS: u64 = 2;

fn main() {
    let records = repeated(&sample());
    let streams = records.iter().map(|record| record.stream).max().unwrap() + 1;
    let labels: Vec<String> = (0..streams).map(|stream| stream.to_string()).collect();
    let dictionary = Dictionary {
        streams: (0..streams)
            .map(|stream| Stream { thread: Some(stream), process: None, name: String::new() })
            .collect(),
        volumes: vec![String::new()],
    };
    let described_s = median(|| {
        let mut describer = Describer::new(Default::default());
        for batch in records.chunks(forebay_trace::trace::BATCH) {
            describer.add(batch, &dictionary);
        }
        describer.finish(&dictionary, &Notes::default());
    });
    let input = Input::from_records(records.clone(), labels);
    let card = |devices: &[String]| -> Card {
        let mut options = Options::new(devices, None, 1.0, 1).unwrap();
        options.devices.truncate(devices.len());
        compare(&input, &input, &options, &mut unheard).unwrap()
    };
    let measured_s = median(|| assert!(card(&[]).verdict.faithful));
    let simulated_s = median(|| assert!(card(&["990-pro".to_string()]).verdict.faithful));
    println!("a card of two traces of {} requests, one core", records.len());
    let told = |what: &str, seconds: f64| {
        let passes = seconds / described_s;
        println!("  {what:27} {seconds:7.3} s  ({passes:5.1} passes of describe over one)");
    };
    told("describe, one trace", described_s);
    told("compare, no device", measured_s);
    told("compare, on one device", simulated_s);
}

fn sample() -> Vec<Record> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/terasort.parquet");
    let mut reader = forebay_trace::open::open(&path, None).unwrap();
    let (mut records, mut batch) = (Vec::new(), Vec::new());
    loop {
        reader.read(&mut batch).unwrap();
        if batch.is_empty() {
            return records;
        }
        records.extend_from_slice(&batch);
    }
}

/// Returns `records` repeated end to end, each copy starting after the previous one ends.
fn repeated(records: &[Record]) -> Vec<Record> {
    let end = records[records.len() - 1].at.0 + 1;
    let later = |n: u64, record: &Record| Record { at: Nanos(record.at.0 + n * end), ..*record };
    (0..REPEATS).flat_map(|n| records.iter().map(move |record| later(n, record))).collect()
}

/// Returns the median CPU time of `run` in seconds, or wall time where the CPU time is unavailable.
fn median(mut run: impl FnMut()) -> f64 {
    let mut seconds: Vec<f64> = (0..RUNS)
        .map(|_| {
            let (clock, cpu_ns) = (Instant::now(), on_cpu_ns());
            run();
            match (cpu_ns, on_cpu_ns()) {
                (Some(begun), Some(ended)) => (ended - begun) as f64 / 1e9,
                _ => clock.elapsed().as_secs_f64(),
            }
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds[RUNS / 2]
}

fn on_cpu_ns() -> Option<u64> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    told.split(' ').next()?.parse().ok()
}
