//! How many requests per second are fitted and generated on one core, for twenty copies of the
//! bundled trace and for the traces given as arguments.

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
    // cargo passes options of its own.
    let traces: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/terasort.parquet");
    println!("requests fitted and drawn, one core; of the targets");
    measure(&bundled, REPEATS);
    traces.iter().for_each(|trace| measure(Path::new(trace), 1));
}

fn measure(path: &Path, repeats: usize) {
    let mut reader = forebay_trace::open::open(path, None).unwrap();
    let (mut records, mut batch) = (Vec::new(), Vec::new());
    loop {
        reader.read(&mut batch).unwrap();
        if batch.is_empty() {
            break;
        }
        records.extend_from_slice(&batch);
    }
    let end = records[records.len() - 1].at.0 + 1;
    let records: Vec<Record> = (0..repeats as u64)
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
    println!(
        "  {}: {} requests\n    fitted {:6.2} M/s ({:.2}), drawn {:6.2} M/s ({:.2})",
        path.file_name().unwrap().display(),
        records.len(),
        fitted / 1e6,
        fitted / FIT_TARGET_PER_S,
        drawn / 1e6,
        drawn / GENERATE_TARGET_PER_S
    );
}

/// Returns the processor time used so far in ns, if the system reports it. It excludes other work
/// on the machine.
fn cpu_ns() -> Option<u64> {
    let told = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    told.split(' ').next()?.parse().ok()
}

/// Returns the median of several runs in requests per second.
fn median(mut run: impl FnMut() -> usize) -> f64 {
    let mut rates: Vec<f64> = (0..RUNS)
        .map(|_| {
            let (begun, cpu) = (Instant::now(), cpu_ns());
            let requests = run() as f64;
            match (cpu, cpu_ns()) {
                (Some(before), Some(after)) => requests * 1e9 / (after - before) as f64,
                _ => requests / begun.elapsed().as_secs_f64(),
            }
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates[RUNS / 2]
}
