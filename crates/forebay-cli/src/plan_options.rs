//! What the questions of `forebay plan` share: arguments, and reading when requests arrive.

use std::path::Path;

use forebay::plan::amount::{self, Fraction};
use forebay::plan::arrival_times::ArrivalTimes;
use forebay_core::Nanos;

use crate::options::{Source, say_notes};
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

/// A fraction in percent, as many digits as it has, up to six: 99.95 %.
pub(crate) fn percent(fraction: f64) -> String {
    let digits = format!("{:.6}", fraction * 100.0);
    format!("{} %", digits.trim_end_matches('0').trim_end_matches('.'))
}

/// A share that was found, in percent: 95.48 %.
pub(crate) fn share_found(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
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

/// That each request counts as one, where their lengths differ; `instead` says what counts otherwise.
pub(crate) fn size_blind<'a>(
    clients: impl IntoIterator<Item = &'a ArrivalTimes>,
    instead: &str,
) -> Option<String> {
    let each = clients.into_iter().map(|client| client.lengths);
    let (shortest, longest) =
        each.reduce(|all, of| (all.0.min(of.0), all.1.max(of.1))).unwrap_or_default();
    (shortest < longest).then(|| {
        wrapped(&format!(
            "Requests are of {} to {} and each counts as one, however long: {instead}.",
            length(shortest),
            length(longest)
        ))
    })
}

/// A request's length.
fn length(bytes: u32) -> String {
    match bytes {
        bytes if bytes < 1024 => format!("{bytes} B"),
        bytes if bytes < 1 << 20 => {
            format!("{:.1} KiB", f64::from(bytes) / 1024.0).replace(".0 ", " ")
        }
        bytes => format!("{:.2} MiB", f64::from(bytes) / f64::from(1 << 20)).replace(".00", ""),
    }
}
