//! Fits a trace, prints the model's size and the fitting speed, and writes a twin for each seed:
//! `twin TRACE OUT SEEDS [without,...]`.
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods)]

use std::path::Path;
use std::time::Instant;

use forebay_model::fit::{FitOptions, Fitter, Survey};
use forebay_model::generate::{GenerateOptions, Generator, Mechanism, Mechanisms};
use forebay_trace::Reader;
use forebay_trace::write::{self, ProtectedFiles};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let path = Path::new(&args[1]);
    let mut reader = forebay_trace::open::open(path, None).unwrap();
    let (mut records, mut batch) = (Vec::new(), Vec::new());
    let mut grouping =
        forebay_trace::streams::Grouping::new(forebay_trace::streams::StreamBy::Thread);
    loop {
        reader.read(&mut batch).unwrap();
        if batch.is_empty() {
            break;
        }
        for record in &mut batch {
            record.stream = grouping.group(reader.dictionary(), record.stream);
        }
        records.extend_from_slice(&batch);
    }
    let begun = Instant::now();
    let mut survey = Survey::default();
    records.iter().for_each(|record| survey.add(record));
    let options = FitOptions::default();
    let mut fitter = Fitter::new(survey, &options);
    records.iter().for_each(|record| fitter.add(record));
    let model = fitter.finish();
    let fitted = begun.elapsed();
    let first = model.to_file().len();
    // The same budget as `forebay fit`.
    let budget = forebay_model::BUDGET_BYTES.min((2 << 10) + records.len() * 5 / 4);
    let (model, file) = model.within(budget);
    let mut mechanisms = Mechanisms::default();
    for name in args.get(4).into_iter().flat_map(|list| list.split(',')) {
        for mechanism in Mechanism::ALL {
            if mechanism.name() == name {
                mechanisms = mechanisms.without(mechanism);
            }
        }
    }
    let mut rates = Vec::new();
    for seed in 1..=args[3].parse::<u64>().unwrap() {
        let options = GenerateOptions { seed, mechanisms, ..GenerateOptions::default() };
        let begun = Instant::now();
        let count = Generator::new(&model, options).count();
        rates.push(count as f64 / begun.elapsed().as_secs_f64() / 1e6);
        let output = Path::new(&args[2]).with_extension(format!("{seed}.parquet"));
        let mut generator = Generator::new(&model, options);
        let mut writer = write::create(&output, None, &ProtectedFiles::default()).unwrap();
        loop {
            generator.read(&mut batch).unwrap();
            if batch.is_empty() {
                break;
            }
            writer.write(&batch, generator.dictionary()).unwrap();
        }
        writer.finish(generator.dictionary(), generator.notes()).unwrap();
    }
    println!(
        "{}: {} requests, {} classes, {:.1} KiB ({:.1} before), fit {:.2} M/s, generate {:.2?} M/s",
        path.file_name().unwrap().to_string_lossy(),
        records.len(),
        model.classes(),
        file.len() as f64 / 1024.0,
        first as f64 / 1024.0,
        records.len() as f64 / fitted.as_secs_f64() / 1e6,
        rates
    );
}
