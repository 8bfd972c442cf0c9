//! The report page of `compare`. Figures that the verdict uses are marked as good or bad by their
//! bounds ([`BoundCheck`]); all others are neutral.

mod charts;
mod latencies;

use forebay_show::html::paragraphs::page_title;
use forebay_show::{Block, Cell, Column, Figure, Page, Place, Row, Table, Tone, Unit, Verdict};
use forebay_words::plural::counted;
use forebay_words::quantities::{bound, or_none};

use super::{
    BoundCheck, Card, CardTrace, DeviationKind, LatencyAnswer, LatencyChange, Quantity, Response,
};
use crate::quantities::{bytes, percent, promised, seconds, significant};
use crate::{names, words};

const NOT_TESTED: &str = " Not tested: too few requests to detect a difference by a factor of two, \
     or positions in different volumes.";

pub(super) fn page(card: &Card) -> Page {
    // If latencies changed, the page leads with that: most people compare a trace before and after
    // a change.
    let changed = card.latencies.as_ref().filter(|of| latencies::tone(of.change).is_some());
    let has_answer = |of: &&LatencyAnswer| of.change != LatencyChange::TooFew;
    let latency = card.latencies.as_ref().filter(has_answer).map(|of| &of.text);
    // Traces with different loads are hardly recordings from before and after a change, so an
    // uncertain difference in speed is not reported first.
    let headline = latency.filter(|_| changed.is_some() || !differs(card));
    let twin = card.verdict.text.clone();
    let mut page = Page {
        title: page_title("Comparison", &[&card.a.trace, &card.b.trace]),
        verdict: changed.and_then(|of| latencies::tone(of.change)).unwrap_or_else(|| badge(card)),
        headline: headline.unwrap_or(&twin).clone(),
        about: vec![
            ("A, the reference".into(), about(&card.a)),
            ("B, compared with it".into(), about(&card.b)),
        ],
        ..Page::default()
    };
    let allowed = format!(
        "Allowed: the difference that chance can cause between two recordings of {}, or a fixed limit for each aspect, whichever is larger.",
        names::numbered(&[&card.a.trace, &card.b.trace])[0]
    );
    let untested = card.verdict.aspects.iter().any(|one| !one.tested);
    let allowed = allowed + if untested { NOT_TESTED } else { "" };
    let place = if changed.is_some() { Place::Detail } else { Place::FirstScreen };
    if let Some(changed) = changed {
        let blocks = vec![Block::Table(latencies::foremost(changed)), Block::Text(twin)];
        page.add("Recorded latencies", Place::FirstScreen, blocks);
    } else if headline.is_some() {
        page.add("Twin", Place::FirstScreen, vec![Block::Text(twin)]);
    } else if let Some(text) = latency {
        page.add("Recorded latencies", Place::FirstScreen, vec![Block::Text(text.clone())]);
    }
    let aspects = vec![Block::Table(aspects(card)), Block::Text(allowed)];
    page.add("What B may stand in for", place, aspects);
    let notes = card.left_out.iter().chain(&card.cautions).cloned().collect();
    page.add_notes("Keep in mind", Place::Detail, notes);
    let every = card.latencies.as_ref().map(|of| Block::Table(latencies::every(of)));
    page.add("Recorded latencies by group", Place::Detail, every.into_iter().collect());
    page.add("Side by side", Place::Detail, charts::side_by_side(card));
    for (index, response) in card.responses.iter().enumerate() {
        let title = format!("Responses on {}", response.device);
        page.add(&title, Place::Detail, responses(card, index, response));
    }
    page.add("Distances", Place::Detail, vec![Block::Table(distances(card))]);
    let said = format!(
        "Deviations are marked good or bad if the verdict limits them. The last column is the \
         range of the figure in a second recording like A, from {} resamples of A's time.",
        card.resamples
    );
    let [relative, shares] = features(card);
    let blocks = [Block::Table(relative), Block::Table(shares), Block::Text(said)];
    page.add("Features", Place::Detail, blocks.into());
    page
}

/// The share of the aspects that were tested at or above which two loads differ.
const DIFFERENT_SHARE: f64 = 1.0 / 3.0;

/// Returns whether the loads differ: they are not the same requests over time, and the verdict is
/// negative in a third of the aspects.
fn differs(card: &Card) -> bool {
    let is_paired = card.latencies.as_ref().is_some_and(|of| of.is_paired);
    let tested = card.verdict.aspects.iter().filter(|one| one.tested);
    let (all, bad) = tested.fold((0, 0), |(all, bad), one| (all + 1, bad + u32::from(!one.holds)));
    !is_paired && f64::from(bad) >= f64::from(all) * DIFFERENT_SHARE && bad > 0
}

/// States in how many aspects trace B may stand in for trace A.
fn badge(card: &Card) -> Verdict {
    if super::verdict::too_few(card).is_some() {
        return Verdict::new(Tone::Warning, "Too few requests");
    }
    let tested = || card.verdict.aspects.iter().filter(|one| one.tested);
    let holds = |holds| tested().filter(|one| one.holds == holds).count();
    let (tone, words) = match (holds(true), holds(false)) {
        (_, 0) => (Tone::Good, "A faithful twin"),
        (0, _) => (Tone::Calm, "No twin"),
        _ => (Tone::Calm, "A twin in part"),
    };
    Verdict::new(tone, words)
}

fn about(of: &CardTrace) -> String {
    let requests = counted(of.requests, "request");
    format!("{}: {requests} in {}", of.trace, seconds(of.duration_s))
}

fn aspects(card: &Card) -> Table {
    let figure = |figure: &str, is_points| match is_points {
        true => format!("{figure} (points)"),
        false => figure.to_string(),
    };
    Table::listing(
        &card.verdict.aspects,
        &[
            (Column::words("for"), &|of| {
                of.aspect.trim_start_matches("the distribution of ").into()
            }),
            (Column::words("holds"), &|of| match of.tested {
                true => Cell::judged(if of.holds { "yes" } else { "no" }, of.holds),
                false => "not tested".into(),
            }),
            (Column::words("worst figure"), &|of| figure(&of.figure, of.is_points).into()),
            (Column::of("off by", Unit::Share), &|of| of.found.into()),
            (Column::of("allowed", Unit::Share), &|of| of.tested.then_some(of.allowed).into()),
        ],
    )
}

/// Creates an empty table for figures of both traces, with deviations of the given kind.
fn figures(card: &Card, kind: DeviationKind) -> Table {
    let (own, unit) = (format!("A's own {}", promised(card.level)), kind.unit());
    let columns = ["".into(), "A".into(), "B".into(), format!("deviation, {unit}")];
    let columns = columns.into_iter().chain([format!("allowed, {unit}"), own]);
    Table::new(columns.map(Column::words))
}

/// Builds a row of the table made by [`figures`]. All its figures have one unit, which is the last
/// word of the name.
fn row(
    (name, key): (&str, &str),
    (quantity, kind): (&Quantity, DeviationKind),
    held: Option<BoundCheck>,
) -> Row {
    let deviation = or_none(quantity.deviation, |deviation| kind.number(deviation));
    let (deviation, bound) = match held {
        Some(held) => {
            let bound = significant(held.figures()[1] * 100.0);
            (Cell::judged(deviation, held.holds()), bound.into())
        }
        None => (deviation.into(), Cell::Missing),
    };
    let Quantity { a, b, a_low, a_high, .. } = *quantity;
    let base = |value: f64| words::figure(key, value).unwrap_or(Figure::new(value, Unit::Number));
    let unit = base(a).unit;
    let [a, b, low, high] = [a, b, a_low, a_high].map(|value| base(value).value);
    let mut row = Row::in_one_unit(name, unit, &[Some(a), Some(b)]);
    let worth = unit.of_row(&[a, b]).0;
    let own = [low, high].map(|value| significant(value / worth)).join(" to ");
    row.cells.extend([deviation, bound, own.into()]);
    row
}

/// Builds two tables of features: those with relative deviations, and those with deviations in
/// percentage points.
fn features(card: &Card) -> [Table; 2] {
    let kinds = [DeviationKind::Relative, DeviationKind::Points];
    let mut tables = kinds.map(|kind| figures(card, kind));
    for (table, kind) in tables.iter_mut().zip(kinds) {
        for feature in card.features.iter().filter(|feature| feature.deviation_kind == kind) {
            let name = words::words(&feature.name);
            let of = (&feature.quantity, kind);
            table.rows.push(row((&name, &feature.name), of, Some(feature.bound_check())));
        }
    }
    for scale in &card.dispersion {
        let name = format!("index of dispersion at {}", bound(scale.bin_ms as f64));
        let of = (&scale.quantity, DeviationKind::Relative);
        tables[0].rows.push(row((&name, "index"), of, Some(scale.bound_check())));
    }
    tables
}

fn responses(card: &Card, index: usize, response: &Response) -> Vec<Block> {
    let mut table = figures(card, DeviationKind::Relative);
    for (key, quantity, held) in response.quantities() {
        let name = words::words(key);
        table.rows.push(row((&name, key), (quantity, DeviationKind::Relative), held));
    }
    let busy = format!(
        "Open replay under {}. The device is busy for {} of A and {} of B.{}",
        response.policy,
        percent(response.a_busy_share),
        percent(response.b_busy_share),
        backlog(response.a_overloaded, response.b_overloaded)
    );
    let chart = card.pictures.responses.get(index).and_then(|lines| {
        charts::cumulative(&format!("response-{index}"), "Time from arrival to completion", lines)
    });
    let text = [Block::Text(busy), Block::Table(table)];
    text.into_iter().chain(chart.map(Block::Chart)).collect()
}

/// States which traces overload the device. Even a device that is idle half of the time may be
/// overloaded during the other half.
fn backlog(a: bool, b: bool) -> String {
    let whose = match (a, b) {
        (true, true) => "both traces",
        (true, false) => "A",
        (false, true) => "B",
        (false, false) => return String::new(),
    };
    format!(
        " At times it falls behind the requests of {whose}, so those figures are mostly waits in a backlog."
    )
}

fn distances(card: &Card) -> Table {
    let heads = ["distance", "B from A", "allowed"].map(Column::words);
    let itself = Column::of("by chance", Unit::Number);
    let mut table = Table::new(heads.into_iter().chain([itself]));
    let mut add =
        |name: String, found: Option<f64>, itself: Option<f64>, held: Option<BoundCheck>| {
            let (found, bound) = match held {
                Some(held) => {
                    let said = or_none(found, significant);
                    (Cell::judged(said, held.holds()), held.bound().into())
                }
                None => {
                    let figure = found.map(|value| Figure::new(value, Unit::Number).into());
                    (figure.unwrap_or_default(), Cell::Missing)
                }
            };
            table.rows.push(Row::new([name.into(), found, bound, Cell::value(itself)]));
        };
    for distance in &card.distances {
        let of = words::words(distance.of);
        let (ks, itself) = (Some(distance.ks), Some(distance.ks_itself));
        add(format!("Kolmogorov-Smirnov, {of}"), ks, itself, Some(distance.bound_check()));
        let moved = (distance.wasserstein_over_mean, distance.wasserstein_over_mean_itself);
        add(format!("Wasserstein over mean, {of}"), moved.0, moved.1, None);
    }
    let blocks = bytes(card.mrc_block_bytes as f64);
    let name = format!("LRU miss ratio, mean error, blocks of {blocks}");
    let (found, itself) = (Some(card.mrc_mean_error), Some(card.mrc_mean_error_itself));
    add(name, found, itself, Some(card.miss_ratio_check()));
    let (heat, ranges) = (&card.heat, bytes(card.heat.range_bytes as f64));
    let name = format!("total variation, {} ranges of {ranges}", heat.a.len());
    let (found, itself) = (Some(heat.total_variation), Some(heat.total_variation_itself));
    add(name, found, itself, Some(heat.bound_check()));
    table
}
