//! The tables of recorded latencies. All figures in a table have one unit, which the head of the
//! first column states.

use forebay_show::{Cell, Column, Figure, Row, Table, Tone, Unit, Verdict};

use crate::compare::{GroupKind, LatencyAnswer, LatencyChange, LatencyFigure, LatencyGroup};

/// The maximum number of rows on the first screen.
const FOREMOST_MAX: usize = 10;

/// Returns the badge for a change of latencies; `None` if they did not change.
pub(super) fn tone(change: LatencyChange) -> Option<Verdict> {
    match change {
        LatencyChange::Slower => Some(Verdict::new(Tone::Warning, "Slower")),
        LatencyChange::Faster => Some(Verdict::new(Tone::Good, "Faster")),
        LatencyChange::Mixed => Some(Verdict::new(Tone::Warning, "Slower in part")),
        LatencyChange::Unsure | LatencyChange::Same | LatencyChange::TooFew => None,
    }
}

/// Builds the table for the first screen: all requests while they were changed and in all, reads
/// and writes, and the other groups that changed.
pub(super) fn foremost(answer: &LatencyAnswer) -> Table {
    let is_shown = |group: &&LatencyGroup| {
        let is_changed = tone(group.change).is_some();
        matches!(group.kind, GroupKind::All | GroupKind::Operation) || is_changed
    };
    let mut shown: Vec<&LatencyGroup> = answer.groups.iter().filter(is_shown).collect();
    shown.sort_by_key(|group| group.kind == GroupKind::Size);
    table(answer.in_span.iter().chain(shown).take(FOREMOST_MAX))
}

/// Builds the table of all groups.
pub(super) fn every(answer: &LatencyAnswer) -> Table {
    table(answer.in_span.iter().chain(&answer.groups))
}

fn table<'a>(groups: impl Iterator<Item = &'a LatencyGroup> + Clone) -> Table {
    let figures = |group: &LatencyGroup| [group.mean_ms, group.p50_ms, group.p99_ms];
    let seconds = |ms: f64| ms / 1e3;
    let both = |figure: LatencyFigure| [seconds(figure.a), seconds(figure.b)];
    let all: Vec<f64> = groups.clone().flat_map(figures).flat_map(both).collect();
    let (worth, unit) = Unit::Seconds.of_column(&all);
    let head = format!("latency, {unit}");
    let heads = [head.as_str(), "mean A", "mean B", "p50 A", "p50 B", "p99 A", "p99 B", "B is"];
    let mut table = Table::new(heads.map(Column::words));
    for group in groups {
        let cell = |value: f64| Cell::Scaled { figure: Figure::new(value, Unit::Seconds), worth };
        let cells = figures(group).into_iter().flat_map(both).map(cell);
        let change = match group.change {
            LatencyChange::Slower => Cell::judged("slower", false),
            LatencyChange::Faster => Cell::judged("faster", true),
            LatencyChange::Mixed => "mixed".into(),
            LatencyChange::Unsure => "unsure".into(),
            LatencyChange::Same => "alike".into(),
            LatencyChange::TooFew => "too few".into(),
        };
        table
            .rows
            .push(Row::new([group.group.clone().into()].into_iter().chain(cells).chain([change])));
    }
    table
}
