//! What the questions of `forebay plan` share: arguments, and reading when requests arrive.

use std::path::Path;

use clap::Args;
use forebay::plan::amount::{self, Fraction};
pub(crate) use forebay::plan::amount::{percent, share_found};
use forebay::plan::arrival_times::{ArrivalTimes, Clock, size_caution};
use forebay_core::Nanos;

use crate::options::{Source, say_notes, say_once};
use crate::output::wrapped;
use crate::progress::Progress;

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

/// How far a trace's clock is gone by.
#[derive(Args, Clone, Copy)]
pub(crate) struct Trust {
    /// Believe the trace's times, even where its clock seems too coarse for the question
    #[arg(long)]
    pub(crate) trust_times: bool,
}

impl Trust {
    /// For promises within these times.
    pub(crate) fn within(self, within: impl IntoIterator<Item = Nanos>) -> Clock {
        Clock::of(within, self.trust_times)
    }
}

/// Reads when the requests of `path` arrive, with progress; what is to be known of them is said on
/// standard error.
pub(crate) fn arrivals(
    source: &Source,
    path: &Path,
    by_volume: bool,
    clock: Clock,
) -> anyhow::Result<ArrivalTimes> {
    let arrivals = arrivals_quietly(source, path, by_volume, clock)?;
    say_notes(path, &arrivals.notes);
    say_once(path, &arrivals.cautions());
    Ok(arrivals)
}

/// The same, and nothing is said.
pub(crate) fn arrivals_quietly(
    source: &Source,
    path: &Path,
    by_volume: bool,
    clock: Clock,
) -> anyhow::Result<ArrivalTimes> {
    let progress = Progress::reading("reading", path);
    let mut reader = source.open(path, progress.consumed())?;
    Ok(ArrivalTimes::read(path, &mut *reader, by_volume, clock, &mut |records| {
        progress.say(format!("reading {}: {records} requests", path.display()))
    })?)
}

/// That each request counts as one, where their lengths differ; `instead` says what counts otherwise.
pub(crate) fn size_blind<'a>(
    clients: impl IntoIterator<Item = &'a ArrivalTimes>,
    instead: &str,
) -> Option<String> {
    size_caution(clients)
        .map(|said| wrapped(&format!("{}: {instead}.", said.trim_end_matches('.'))))
}
