//! The page of `compare`. A figure is marked good or bad by its bound in the verdict
//! ([`BoundCheck`]), and is neutral if the verdict does not use it.

mod charts;

use forebay_show::figure::{Figure, Unit};
use forebay_show::html::paragraphs::called;
use forebay_show::page::{Block, Page, Place, Tone, Verdict};
use forebay_show::plural::counted;
use forebay_show::quantities::{bound, or_none};
use forebay_show::table::{Cell, Column, Row, Table};

use super::{BoundCheck, Card, CardTrace, DeviationKind, Quantity, Response};
use crate::names;
use crate::quantities::{bytes, percent, seconds, significant};
use crate::words;

pub(super) fn page(card: &Card) -> Page {
    let holds = |holds| card.verdict.aspects.iter().filter(|one| one.holds == holds).count();
    let (tone, verdict) = match (holds(true), holds(false)) {
        (_, 0) => (Tone::Good, "A faithful twin"),
        (0, _) => (Tone::Calm, "No twin"),
        _ => (Tone::Calm, "A twin in part"),
    };
    let mut page = Page {
        title: called("Comparison", &[&card.a.trace, &card.b.trace]),
        verdict: Verdict::new(tone, verdict),
        headline: card.verdict.text.clone(),
        about: vec![
            ("A, the reference".into(), about(&card.a)),
            ("B, compared with it".into(), about(&card.b)),
        ],
        ..Page::default()
    };
    let allowed = format!(
        "Allowed is as much as {} differs from itself, and at least a limit of its own for each aspect.",
        names::numbered(&[&card.a.trace, &card.b.trace])[0]
    );
    let aspects = vec![Block::Table(aspects(card)), Block::Text(allowed)];
    page.add("What B may stand in for", Place::FirstScreen, aspects);
    let notes = card.left_out.iter().chain(&card.cautions).cloned().collect();
    page.add_notes("Keep in mind", Place::Detail, notes);
    page.add("Side by side", Place::Detail, charts::side_by_side(card));
    for (index, response) in card.responses.iter().enumerate() {
        let title = format!("Responses on {}", response.device);
        page.add(&title, Place::Detail, responses(card, index, response));
    }
    page.add("Distances", Place::Detail, vec![Block::Table(distances(card))]);
    let said = format!(
        "Deviations are good or bad where the verdict has a limit for them. The last column is the range of A's own figure \
         in {} resamples of its time.",
        card.resamples
    );
    page.add("Features", Place::Detail, vec![Block::Table(features(card)), Block::Text(said)]);
    page
}

fn about(of: &CardTrace) -> String {
    let requests = counted(of.requests, "request");
    format!("{}: {requests} in {}", of.trace, seconds(of.duration_s))
}

fn aspects(card: &Card) -> Table {
    let heads = ["for", "B stands in", "worst", "allowed"];
    let mut table = Table::new(heads.map(Column::words));
    for aspect in &card.verdict.aspects {
        table.rows.push(Row::new([
            aspect.aspect.into(),
            Cell::judged(if aspect.holds { "yes" } else { "no" }, aspect.holds),
            aspect.worst.clone().into(),
            aspect.bound.clone().into(),
        ]));
    }
    table
}

/// Makes an empty table for figures of both traces.
fn figures(card: &Card) -> Table {
    let own = format!("A's own {}", percent(card.level));
    Table::new(["", "A", "B", "deviation", "allowed", &own].map(Column::words))
}

/// Makes a row of that table.
fn row(
    (name, key): (&str, &str),
    (quantity, kind): (&Quantity, DeviationKind),
    held: Option<BoundCheck>,
) -> Row {
    let deviation = or_none(quantity.deviation, |deviation| kind.shown(deviation));
    let (deviation, bound) = match held {
        Some(held) => (Cell::judged(deviation, held.holds()), held.bound().into()),
        None => (deviation.into(), Cell::Missing),
    };
    let own = [quantity.a_low, quantity.a_high].map(|end| words::shown(key, end)).join(" to ");
    let [a, b] = [quantity.a, quantity.b].map(|value| words::cell(key, value));
    Row::new([name.into(), a, b, deviation, bound, own.into()])
}

fn features(card: &Card) -> Table {
    let mut table = figures(card);
    for feature in &card.features {
        let name = words::words(&feature.name);
        let of = (&feature.quantity, feature.deviation_kind);
        table.rows.push(row((&name, &feature.name), of, Some(feature.bound_check())));
    }
    for scale in &card.dispersion {
        let name = format!("index of dispersion at {}", bound(scale.bin_ms as f64));
        let of = (&scale.quantity, DeviationKind::Relative);
        table.rows.push(row((&name, "index"), of, Some(scale.bound_check())));
    }
    table
}

fn responses(card: &Card, index: usize, response: &Response) -> Vec<Block> {
    let mut table = figures(card);
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

/// Says for which traces a device is overloaded: even a device that is idle half of the time may
/// fall behind in the other half.
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
    let itself = Column::of("A from itself", Unit::Number);
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
