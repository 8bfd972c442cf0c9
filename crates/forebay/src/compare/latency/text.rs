//! Puts the result about latencies into a sentence.

use super::answer::{GroupKind, LatencyAnswer, LatencyChange, LatencyFigure, LatencyGroup};
use super::judge::{opposed, plural};
use crate::advise::judge::REQUESTS_THAT_MATTER;
use crate::quantities::{millis, percent};

/// The maximum number of words in the sentence.
const WORDS_MAX: usize = 25;

/// Returns the sentence about two traces called `a` and `b`. If it exceeds 25 words, parts are left
/// out, beginning with sizes.
pub(in super::super) fn sentence(answer: &LatencyAnswer, a: &str, b: &str) -> String {
    let when = answer.when();
    let whom = match (&answer.changed_for, answer.mix_of) {
        (Some(whom), _) => format!(", mainly {whom}"),
        (None, Some(GroupKind::Operation)) => mix(answer),
        (None, Some(kind)) => format!(", because the mix of {} changed", plural(kind)),
        (None, None) => unjudged(answer).unwrap_or_default(),
    };
    let [whole, _] = figures(answer, answer.all());
    let [figures, most_changed] = figures(answer, answer.in_span.as_ref().unwrap_or(answer.all()));
    let said = |when: &str, figures: &str, whom: &str| match answer.change {
        LatencyChange::Slower => format!("{b} is slower than {a}{when}: {figures}{whom}."),
        LatencyChange::Faster => format!("{b} is faster than {a}{when}: {figures}{whom}."),
        LatencyChange::Mixed => {
            opposite(answer, a, b).or_else(|| tail(answer, a, b)).unwrap_or_else(|| {
                format!("{b} is partly slower and partly faster than {a}: {figures}.")
            })
        }
        LatencyChange::Unsure => {
            format!("No significant difference in latency between {a} and {b}: {figures}.")
        }
        LatencyChange::Same => format!("{b} is as fast as {a}: {figures}{whom}."),
        LatencyChange::TooFew => {
            format!(
                "{b} and {a} have too few recorded latencies to determine which is faster: {figures}."
            )
        }
    };
    let fits = |text: &String| text.split_whitespace().count() <= WORDS_MAX;
    let without_size = match whom.rfind(" of up to ").or(whom.rfind(" of over ")) {
        // Without a size, "requests" does not identify a part of the load.
        Some(end) if whom[..end] == *", mainly requests" => String::new(),
        Some(end) => whom[..end].to_string(),
        None => whom.clone(),
    };
    let all = [
        said(&when, &figures, &whom),
        said(&when, &figures, &without_size),
        said(&when, &most_changed, &without_size),
        said("", &whole, &without_size),
    ];
    all.into_iter().find(fits).unwrap_or_else(|| said("", &whole, ""))
}

/// Names reads or writes that are too few to judge although their mean differs.
fn unjudged(answer: &LatencyAnswer) -> Option<String> {
    let group = answer.unjudged().filter(|_| answer.change == LatencyChange::Same)?;
    let (name, requests) = (&group.group, group.a_requests.min(group.b_requests));
    let [a, b] = [group.mean_ms.a, group.mean_ms.b].map(millis);
    Some(format!("; {name} ({requests}, too few to judge): mean {b} (was {a})"))
}

/// Says which groups are slower and which faster, if groups of one kind changed in opposite
/// directions.
fn opposite(answer: &LatencyAnswer, a: &str, b: &str) -> Option<String> {
    let [slower, faster] = opposed(answer.groups.iter())?;
    let whose = |group: &LatencyGroup| match group.kind {
        GroupKind::Name => format!("requests of {}", group.group),
        _ => group.group.clone(),
    };
    let [up, down] = [slower, faster].map(|group| group.mean_ms);
    Some(format!(
        "{b}: {} are slower than in {a} (mean {}, was {}), {} faster ({}, was {}).",
        whose(slower),
        millis(up.b),
        millis(up.a),
        whose(faster),
        millis(down.b),
        millis(down.a)
    ))
}

/// Describes how the mix of reads and writes changed.
fn mix(answer: &LatencyAnswer) -> String {
    let all = answer.all();
    let reads = answer.groups.iter().find(|group| group.kind == GroupKind::Operation);
    let shares = reads.map_or(String::new(), |reads| {
        let [a, b] = [(reads.a_requests, all.a_requests), (reads.b_requests, all.b_requests)]
            .map(|(some, of)| percent(some as f64 / of as f64));
        format!(": {b} {} (was {a})", reads.group)
    });
    format!(", because the mix changed{shares}")
}

/// States whether the tail got longer and the median shorter, or vice versa, if they changed in
/// opposite directions; and for which operation, if only one changed so.
fn tail(answer: &LatencyAnswer, a: &str, b: &str) -> Option<String> {
    let opposed = |group: &LatencyGroup| match (group.p99_ms.change(), group.p50_ms.change()) {
        (LatencyChange::Slower, LatencyChange::Faster) => Some(["longer", "shorter"]),
        (LatencyChange::Faster, LatencyChange::Slower) => Some(["shorter", "longer"]),
        _ => None,
    };
    opposed(answer.all())?;
    let operations = answer.groups.iter().filter(|group| group.kind == GroupKind::Operation);
    let mixed: Vec<_> = operations
        .filter(|group| group.change == LatencyChange::Mixed && opposed(group).is_some())
        .collect();
    let (group, whose) = match mixed[..] {
        [only] => (only, only.group.as_str()),
        _ => (answer.all(), "requests"),
    };
    let [tail, median] = opposed(group)?;
    let told = |of: &LatencyFigure| format!("{}, was {}", millis(of.b), millis(of.a));
    Some(format!(
        "{b}: the tail of {whose} is {tail} than in {a} (p99 {}), the median {median} ({}).",
        told(&group.p99_ms),
        told(&group.p50_ms)
    ))
}

/// Formats the median and the tail of a group, and names the one that changed more. If there are
/// too few requests for a tail, formats the mean instead.
fn figures(answer: &LatencyAnswer, all: &LatencyGroup) -> [String; 2] {
    let told = |name: &str, figure: &LatencyFigure| {
        format!("{name} {} (was {})", millis(figure.b), millis(figure.a))
    };
    let has_tail = all.a_requests.min(all.b_requests) >= REQUESTS_THAT_MATTER;
    let other = if has_tail { ("p99", &all.p99_ms) } else { ("mean", &all.mean_ms) };
    let [first, second] = [("p50", &all.p50_ms), other];
    let change = |figure: &LatencyFigure| figure.deviation.unwrap_or(f64::INFINITY).abs();
    let more = if change(first.1) >= change(second.1) { first } else { second };
    let text = |(name, figure): (&str, &LatencyFigure)| told(name, figure);
    match answer.change {
        LatencyChange::TooFew => [told("mean", &all.mean_ms), told("mean", &all.mean_ms)],
        _ => [format!("{}, {}", text(first), text(second)), text(more)],
    }
}
