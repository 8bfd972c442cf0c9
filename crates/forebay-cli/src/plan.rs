//! `forebay plan`: what a promise costs. One file a question.

use std::path::Path;

use clap::{Args, Subcommand};
use forebay::plan::amount::{self, Fraction};
use forebay::plan::arrival_times::ArrivalTimes;
use forebay_core::Nanos;

use crate::options::{Source, say_notes};
use crate::plan_capacity::Capacity;
use crate::plan_consolidate::Consolidate;
use crate::plan_power::Power;
use crate::plan_sla::Sla;
use crate::progress::Progress;

/// Find what a promise such as "99 % within 10 ms" costs
#[derive(Args)]
pub(crate) struct Plan {
    #[command(subcommand)]
    question: Question,
}

#[derive(Subcommand)]
enum Question {
    Capacity(Box<Capacity>),
    Consolidate(Consolidate),
    Sla(Sla),
    Power(Power),
}

impl Plan {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.question {
            Question::Capacity(question) => question.run(),
            Question::Consolidate(question) => question.run(),
            Question::Sla(question) => question.run(),
            Question::Power(question) => question.run(),
        }
    }
}

/// A time above zero as an argument names it.
pub(crate) fn span(text: &str) -> Result<Nanos, String> {
    amount::span(text)
}

/// A time that may be zero.
pub(crate) fn span_or_zero(text: &str) -> Result<Nanos, String> {
    amount::span_or_zero(text)
}

/// A share above 0 and below 1.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<Fraction>().map(Fraction::as_f64);
    share
        .ok()
        .filter(|share| *share < 1.0)
        .ok_or_else(|| format!("got '{text}', expected a share above 0 and below 1, e.g. 0.95"))
}

/// A fraction as an argument names it.
pub(crate) fn fraction(text: &str) -> Result<Fraction, String> {
    text.parse()
}

/// Reads when the requests of `path` arrive, with progress; what is to be known of them is said on
/// standard error.
pub(crate) fn arrivals(
    source: &Source,
    path: &Path,
    by_volume: bool,
) -> anyhow::Result<ArrivalTimes> {
    let progress = Progress::reading("reading", path);
    let mut reader = source.open(path, progress.consumed())?;
    let arrivals = ArrivalTimes::read(path, &mut *reader, by_volume, |records| {
        progress.say(format!("reading {}: {records} requests", path.display()));
    })?;
    drop(progress);
    say_notes(path, &arrivals.notes);
    for caution in arrivals.cautions() {
        eprintln!("forebay: {}: {caution}", path.display());
    }
    Ok(arrivals)
}
