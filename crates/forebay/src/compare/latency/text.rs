//! Puts the result about latencies into a sentence.

use super::answer::{LatencyAnswer, LatencyChange, LatencyFigure};
use super::judge::plural;
use crate::advise::judge::REQUESTS_THAT_MATTER;
use crate::quantities::{millis, seconds};

/// The maximum number of words in the sentence.
const WORDS_MAX: usize = 25;

/// Returns the sentence about two traces called `a` and `b`. If it exceeds 25 words, parts are left
/// out, beginning with sizes.
pub(in super::super) fn sentence(answer: &LatencyAnswer, a: &str, b: &str) -> String {
    let since = answer.since_s.map(|since_s| format!(" since about {}", seconds(since_s)));
    let since = since.unwrap_or_default();
    let whom = match (&answer.changed_for, answer.mix_of) {
        (Some(whom), _) => format!(", mainly {whom}"),
        (None, Some(kind)) => format!(", because the mix of {} changed", plural(kind)),
        (None, None) => String::new(),
    };
    let figures = figures(answer);
    let said = |since: &str, whom: &str| match answer.change {
        LatencyChange::Slower => format!("{b} is slower than {a}{since}: {figures}{whom}."),
        LatencyChange::Faster => format!("{b} is faster than {a}{since}: {figures}{whom}."),
        LatencyChange::Mixed => {
            format!("{b} is slower than {a} in part and faster in part: {figures}.")
        }
        LatencyChange::Unsure => {
            format!("{b} may be as fast as {a}; the difference may be chance: {figures}.")
        }
        LatencyChange::Same => format!("{b} is as fast as {a}: {figures}."),
        LatencyChange::TooFew => {
            format!(
                "{b} and {a} have too few recorded latencies to say which is faster: {figures}."
            )
        }
    };
    let fits = |text: &String| text.split_whitespace().count() <= WORDS_MAX;
    let without_size = match whom.rfind(" of up to ").or(whom.rfind(" of over ")) {
        Some(end) => whom[..end].to_string(),
        None => whom.clone(),
    };
    let all = [said(&since, &whom), said(&since, &without_size), said("", &without_size)];
    all.into_iter().find(fits).unwrap_or_else(|| said("", ""))
}

/// Formats the median and the tail. Formats the mean instead if only the mean changed, or if there
/// are too few requests for a tail.
fn figures(answer: &LatencyAnswer) -> String {
    let all = answer.all();
    let told = |name: &str, figure: &LatencyFigure| {
        format!("{name} {} (was {})", millis(figure.b), millis(figure.a))
    };
    let has_tail = all.a_requests.min(all.b_requests) >= REQUESTS_THAT_MATTER;
    match answer.change {
        LatencyChange::TooFew => told("mean", &all.mean_ms),
        _ if has_tail => format!("{}, {}", told("p50", &all.p50_ms), told("p99", &all.p99_ms)),
        _ => format!("{}, {}", told("p50", &all.p50_ms), told("mean", &all.mean_ms)),
    }
}
