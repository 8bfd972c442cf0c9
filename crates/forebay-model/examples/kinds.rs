//! Scratch.
#![allow(clippy::unwrap_used)]
use forebay_model::fit::{FitOptions, Fitter, Survey};
use forebay_trace::{Reader, Record};
fn main() {
    let mut all = Vec::new();
    for path in std::env::args().skip(1) {
        let mut reader = forebay_trace::open::open(std::path::Path::new(&path), None).unwrap();
        let (mut records, mut batch): (Vec<Record>, Vec<Record>) = (Vec::new(), Vec::new());
        loop {
            reader.read(&mut batch).unwrap();
            if batch.is_empty() {
                break;
            }
            records.extend_from_slice(&batch);
        }
        let mut survey = Survey::default();
        records.iter().for_each(|r| survey.add(r));
        let mut fitter = Fitter::new(survey, &FitOptions::default());
        records.iter().for_each(|r| fitter.add(r));
        all.push(fitter.scratch);
    }
    for (k, name) in ["ContNew", "ContUsed", "ResNew", "ResUsed", "Again", "Over", "Near", "Far"]
        .iter()
        .enumerate()
    {
        for w in 0..2 {
            println!(
                "{name:9}{} {}",
                ["r", "w"][w],
                all.iter()
                    .map(|s| {
                        let e = s[k * 2 + w];
                        format!(
                            "n {:6} new {:7} of {:8} unaligned {:6} ends {:6}",
                            e.0, e.1, e.2, e.3, e.4
                        )
                    })
                    .collect::<Vec<_>>()
                    .join(" | ")
            );
        }
    }
}
