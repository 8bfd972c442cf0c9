//! How many requests a second are fitted and drawn on one core.

#![allow(clippy::unwrap_used)]

use std::time::Instant;

use forebay_model::fit::{FitOptions, Fitter, Survey};
use forebay_model::generate::{GenerateOptions, Generator};
use forebay_trace::Record;
use std::path::Path;

const RUNS: usize = 5;
const REPEATS: usize = 20;
const FIT_TARGET_PER_S: f64 = 1.5e6;
const GENERATE_TARGET_PER_S: f64 = 1.5e6;

fn main() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/terasort.parquet");
    let mut reader = forebay_trace::open::open(&path, None).unwrap();
    let (mut records, mut batch) = (Vec::new(), Vec::new());
    loop {
        reader.read(&mut batch).unwrap();
        if batch.is_empty() {
            break;
        }
        records.extend_from_slice(&batch);
    }
    let end = records[records.len() - 1].at.0 + 1;
    let records: Vec<Record> = (0..REPEATS as u64)
        .flat_map(|n| {
            records.iter().map(move |record| {
                let at = forebay_core::Nanos(record.at.0 + n * end);
                Record { at, ..*record }
            })
        })
        .collect();
    let mut model = None;
    let fitted = median(|| {
        let mut survey = Survey::default();
        records.iter().for_each(|record| survey.add(record));
        let mut fitter = Fitter::new(survey, &FitOptions::default());
        records.iter().for_each(|record| fitter.add(record));
        model = Some(fitter.finish());
        records.len()
    });
    let model = model.unwrap();
    let drawn = median(|| Generator::new(&model, GenerateOptions::default()).count());
    println!("a model of {} requests, one core", records.len());
    println!(
        "  fitted  {:6.2} M/s  ({:.2} of the target)",
        fitted / 1e6,
        fitted / FIT_TARGET_PER_S
    );
    println!(
        "  drawn   {:6.2} M/s  ({:.2} of the target)",
        drawn / 1e6,
        drawn / GENERATE_TARGET_PER_S
    );
}

/// Requests a second.
fn median(mut run: impl FnMut() -> usize) -> f64 {
    let mut rates: Vec<f64> = (0..RUNS)
        .map(|_| {
            let begun = Instant::now();
            run() as f64 / begun.elapsed().as_secs_f64()
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates[RUNS / 2]
}
