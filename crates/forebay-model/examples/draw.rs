//! Scratch.
#![allow(clippy::unwrap_used)]
use forebay_model::fit::{FitOptions, Fitter, Survey};
use forebay_model::generate::{GenerateOptions, Generator, Mechanism, Mechanisms};
use forebay_trace::streams::{Grouping, StreamBy};
use forebay_trace::write::{self, Kept};
use forebay_trace::{Reader, Record};
use std::path::Path;
fn cpu_ns() -> f64 {
    let told = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    told.split(' ').next().unwrap().parse().unwrap()
}
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let out = Path::new(&args[0]);
    let seeds: u64 = std::env::var("SEEDS").map_or(3, |s| s.parse().unwrap());
    let mut on = Mechanisms::default();
    if let Ok(names) = std::env::var("WITHOUT") {
        for m in Mechanism::ALL {
            if names.split(',').any(|n| n == m.name()) {
                on = on.without(m);
            }
        }
    }
    for arg in &args[1..] {
        let (index, path) = arg.split_once('=').unwrap();
        let mut reader = forebay_trace::open::open(Path::new(path), None).unwrap();
        let (mut records, mut batch): (Vec<Record>, Vec<Record>) = (Vec::new(), Vec::new());
        let mut grouping = Grouping::new(StreamBy::Thread);
        loop {
            reader.read(&mut batch).unwrap();
            if batch.is_empty() {
                break;
            }
            batch.iter_mut().for_each(|r| r.stream = grouping.group(reader.dictionary(), r.stream));
            records.extend_from_slice(&batch);
        }
        let begun = cpu_ns();
        let mut survey = Survey::default();
        records.iter().for_each(|r| survey.add(r));
        let mut fitter = Fitter::new(survey, &FitOptions::default());
        records.iter().for_each(|r| fitter.add(r));
        let model = fitter.finish();
        let fitted = cpu_ns() - begun;
        let budget = (64usize << 10).min((2 << 10) + records.len() * 5 / 4);
        let (model, file) = model.within(budget);
        std::fs::write(out.join(format!("{index}.model")), &file).unwrap();
        let mut rates = Vec::new();
        for _ in 0..std::env::var("TIMES").map_or(1, |s| s.parse().unwrap()) {
            let begun = cpu_ns();
            let n = Generator::new(
                &model,
                GenerateOptions { seed: 1, mechanisms: on, ..Default::default() },
            )
            .count();
            rates.push(n as f64 * 1e3 / (cpu_ns() - begun));
        }
        rates.sort_by(f64::total_cmp);
        println!(
            "{index} {} requests, {} bytes, fit {:.2} M/s, draw {:.3} M/s (median)",
            records.len(),
            file.len(),
            records.len() as f64 * 1e3 / fitted,
            rates[rates.len() / 2]
        );
        for seed in 1..=seeds {
            let mut generator = Generator::new(
                &model,
                GenerateOptions { seed, mechanisms: on, ..Default::default() },
            );
            let path = out.join(format!("{index}.{seed}.parquet"));
            let _ = std::fs::remove_file(&path);
            let mut writer =
                write::create(&path, None, &Kept::file(Path::new("/nonexistent"))).unwrap();
            loop {
                generator.read(&mut batch).unwrap();
                if batch.is_empty() {
                    break;
                }
                writer.write(&batch, generator.dictionary()).unwrap();
            }
            writer.finish(generator.dictionary(), generator.notes()).unwrap();
        }
    }
}
