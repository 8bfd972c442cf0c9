//! `forebay fit`.

use std::path::PathBuf;

use clap::Args;
use forebay::model::fit::{Detail, FitOptions, Fitted, fit};
use forebay::model::judge::{Judged, VerdictOfTwins, judge};
use forebay::progress::Told;
use forebay_model::BUDGET_BYTES;
use forebay_show::plural::counted;
use forebay_show::quantities::bytes;
use forebay_trace::write::{Draft, Kept};
use serde::Serialize;

use crate::options::{Source, TracePath, say_notes};
use crate::output::{self, Format, in_place_of, say, wrapped};
use crate::progress::Progress;
use crate::stdin;

/// Fit a small model of a trace, to be shared in its place
#[derive(Args)]
pub(crate) struct Fit {
    /// The trace; - is standard input
    #[arg(value_parser = stdin::trace_path())]
    trace: TracePath,
    /// The model to write
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,
    #[command(flatten)]
    source: Source,
    /// Levels of the hierarchy of ranges, 4^level of them on each volume [default: 3, fewer where there
    /// are many volumes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=4))]
    level: Option<u8>,
    /// Let any range lead to any other, not only to its siblings
    #[arg(long)]
    flat: bool,
    /// Keep the names of volumes and streams
    #[arg(long)]
    names: bool,
    /// How large the model may be [default: 64, less for a short trace]
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u32).range(1..=16384))]
    budget_kib: Option<u32>,
    /// Do not compare twins with the trace (of a long one the first 100,000 requests are compared)
    #[arg(long)]
    no_verdict: bool,
    /// How to print what was fitted
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

#[derive(Serialize)]
struct Summary {
    model: String,
    model_bytes: usize,
    requests: u64,
    level: u8,
    ranges: usize,
    classes: usize,
    transitions: usize,
    reveals: Vec<String>,
    /// What a twin of it is good for; none where that was not asked.
    verdict: Option<VerdictOfTwins>,
    /// Requests of the trace and of the twin that it is told from.
    judged_requests: Option<u64>,
    /// The verdict in a sentence.
    #[serde(skip)]
    stands_in: Option<String>,
}

impl Fit {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        // A place that cannot be written to is told before the trace is read.
        let kept = Kept::trace(&self.trace);
        let draft = Draft::new(&self.output, &kept).map_err(forebay::Error::output)?;
        let progress = Progress::reading("fitting", &self.trace);
        let opening = || self.source.open(&self.trace, progress.consumed());
        let options = FitOptions {
            detail: Detail { level: self.level, flat: self.flat, ..Detail::default() },
            names: self.names,
            budget_bytes: self.budget_kib.map(|kib| kib as usize * 1024),
        };
        let Fitted { model, file, notes } = fit(&self.trace, opening, &options, &mut |records| {
            progress.say(format!("fitting: {records} requests"))
        })?;
        drop(progress);
        say_notes(&self.trace, &notes);
        if self.budget_kib.is_none() && file.len() > BUDGET_BYTES {
            say!(
                "{}: got {} KiB, expected {} at most: this many volumes, each with how far it is used, take more",
                self.output.display(),
                file.len() >> 10,
                BUDGET_BYTES >> 10
            );
        }
        let replaces = in_place_of(&self.output);
        draft.fill(&file).map_err(forebay::Error::output)?;
        if !replaces.is_empty() {
            say!("{}: the model is written{replaces}", self.output.display());
        }
        let judged = if self.no_verdict {
            None
        } else {
            let progress = Progress::new("comparing with a twin");
            let (source, trace) = (self.source.clone(), self.trace.to_path_buf());
            let opening = move || source.open(&trace, Default::default());
            let mut tell = |told: &Told| progress.tell(told);
            Some(judge(&self.trace, Box::new(opening), &model, &mut tell)?)
        };
        let summary = Summary {
            model: self.output.display().to_string(),
            model_bytes: file.len(),
            requests: model.requests,
            level: model.volumes.level,
            ranges: model.volumes.ranges(),
            classes: model.classes(),
            transitions: model.transitions(),
            reveals: model.reveals(),
            stands_in: judged.as_ref().map(Judged::stands_in),
            judged_requests: judged.as_ref().map(|judged| judged.requests),
            verdict: judged.as_ref().and_then(Judged::verdict),
        };
        match self.format {
            Format::Json | Format::Csv => output::print_data(self.format, &summary)?,
            Format::Table => output::print(&summary.text())?,
        }
        Ok(())
    }
}

impl Summary {
    fn text(&self) -> String {
        let reveals: Vec<String> =
            self.reveals.iter().map(|what| wrapped(&format!("- {what}")) + "\n").collect();
        let verdict = match &self.stands_in {
            Some(told) => wrapped(&format!("A twin of it {told}")) + "\n",
            None => String::new(),
        };
        let is = format!(
            "{}: {} of {}: {}, {} of level {}, {}",
            self.model,
            bytes(self.model_bytes as f64),
            counted(self.requests, "request"),
            counted(self.classes as u64, "class"),
            counted(self.ranges as u64, "range"),
            self.level,
            counted(self.transitions as u64, "transition"),
        );
        format!("{}\nIt reveals:\n{}{verdict}", wrapped(&is), reveals.concat())
    }
}
