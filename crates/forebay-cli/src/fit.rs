//! `forebay fit`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use forebay::model::file::{Arrivals, Model};
use forebay::model::fit::{COMMON_SIZES, FitOptions, Fitted, PERIODS_MAX, Tried, fit};
use forebay_core::Nanos;
use forebay_trace::write::{Draft, Kept};
use serde::Serialize;

use crate::options::{Source, TracePath, say_notes, span};
use crate::output::{self, Format};
use crate::progress::Progress;

/// Fit a small model of a trace, to be shared in its place
#[derive(Args)]
pub(crate) struct Fit {
    /// The trace
    trace: TracePath,
    /// The model to write, a JSON file
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,
    #[command(flatten)]
    source: Source,
    /// Levels of the hierarchy of ranges, 4^level of them [default: as many as throughput needs to
    /// settle]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8))]
    level: Option<u8>,
    /// Let any range lead to any other, not only to its siblings
    #[arg(long)]
    flat: bool,
    /// One model of all streams together, or one for each of the busiest
    #[arg(long, value_name = "WHAT", value_enum, default_value = "pooled")]
    by: By,
    /// Keep intensity by periods of wall time and draw gaps from the families of transitions, not from
    /// the division of time; without TIME, which is best said as --period=TIME, they last 30 minutes
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "30m", value_parser = period)]
    period: Option<Nanos>,
    /// Keep the names of volumes and streams
    #[arg(long)]
    names: bool,
    /// How to print what was fitted
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

/// The word after `--period` is its time, even where the trace was meant.
fn period(text: &str) -> Result<Nanos, String> {
    let hint = "for periods of 30 minutes write --period=30m, or --period as the last word";
    span(text).map_err(|said| format!("{said}; {hint}"))
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    Pooled,
    Stream,
}

#[derive(Serialize)]
struct Summary {
    model: String,
    model_bytes: usize,
    requests: u64,
    level: u8,
    transitions: usize,
    /// Closed-loop IOPS of the trace, where levels were tried.
    trace_iops: f64,
    /// Level and closed-loop IOPS of each that was tried.
    tried: Vec<(u8, f64)>,
    families: BTreeMap<String, usize>,
    /// How long periods came to be, where intensity is kept by them.
    period_s: Option<f64>,
    /// How long they were asked to be.
    period_asked_s: Option<f64>,
    reveals: Vec<String>,
}

impl Fit {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        // A place that cannot be written to is told before the trace is read.
        let kept = Kept::trace(&self.trace);
        let draft = Draft::new(&self.output, &kept).map_err(forebay::Error::output)?;
        let progress = Progress::reading("fitting", &self.trace);
        let opening = || self.source.open(&self.trace, progress.consumed());
        let options = FitOptions {
            level: self.level,
            flat: self.flat,
            by_stream: self.by == By::Stream,
            names: self.names,
            common_sizes: COMMON_SIZES,
            period: self.period,
        };
        let Fitted { model, notes, tried } = fit(&self.trace, opening, &options, |records| {
            progress.say(format!("fitting: {records} requests"));
        })?;
        drop(progress);
        say_notes(&self.trace, &notes);
        let json = model.json();
        draft.fill(json.as_bytes()).map_err(forebay::Error::output)?;
        let summary = self.summary(&model, json.len(), tried);
        match self.format {
            Format::Json => output::print_json(&summary)?,
            Format::Table => output::print(&summary.text())?,
        }
        Ok(())
    }

    fn summary(&self, model: &Model, model_bytes: usize, tried: Tried) -> Summary {
        let transitions = || model.parts.iter().flat_map(|part| &part.transitions);
        let mut families = BTreeMap::new();
        for transition in transitions() {
            let family = format!("{:?}", transition.inter_arrival.family).to_lowercase();
            *families.entry(family).or_default() += 1;
        }
        let period_s = model.parts.iter().find_map(|part| match &part.arrivals {
            Arrivals::Periods(periods) => Some(periods.period_s),
            Arrivals::Scales(_) => None,
        });
        Summary {
            period_s,
            period_asked_s: self.period.map(|period| period.0 as f64 / 1e9),
            model: self.output.display().to_string(),
            model_bytes,
            requests: model.requests,
            level: model.level,
            transitions: transitions().count(),
            trace_iops: tried.trace_iops,
            tried: tried.levels,
            families,
            reveals: model.reveals(),
        }
    }
}

impl Summary {
    fn text(&self) -> String {
        let tried: Vec<String> = self
            .tried
            .iter()
            .map(|(level, iops)| format!("level {level}: {iops:.1} IOPS"))
            .collect();
        let tried = match &tried[..] {
            [] => String::new(),
            list => {
                format!("; closed loop: the trace {:.1} IOPS, {}", self.trace_iops, list.join(", "))
            }
        };
        let periods = match (self.period_s, self.period_asked_s) {
            (Some(came), Some(asked)) if came >= 2.0 * asked => {
                format!("; periods of {came} s, doubled from {asked} s to be at most {PERIODS_MAX}")
            }
            (Some(came), _) => format!("; periods of {came} s"),
            (None, _) => String::new(),
        };
        let families: Vec<String> =
            self.families.iter().map(|(family, count)| format!("{count} {family}")).collect();
        let reveals: Vec<String> = self.reveals.iter().map(|what| format!("  {what}\n")).collect();
        format!(
            "{}: {} bytes, {} requests, level {}{tried}\n{} transitions; inter-arrival times: {}{periods}\n\
             it reveals\n{}",
            self.model,
            self.model_bytes,
            self.requests,
            self.level,
            self.transitions,
            families.join(", "),
            reveals.concat()
        )
    }
}
