//! The report of `compare`: the verdict, each figure of both traces, and their distributions as
//! pictures.

use super::page::{document, section};
use super::tables::table;
use super::text::{NONE, bytes, count, escape, name, seconds, significant};
use crate::model::compare::{Card, CardTrace, DeviationKind, Quantity};

mod pictures;

use pictures::{cumulative, pictures};

pub(super) fn page(card: &Card) -> String {
    let mut body = head(card);
    body += &section("For what", &aspects(card));
    let notes: Vec<&String> = card.left_out.iter().chain(&card.cautions).collect();
    if !notes.is_empty() {
        let all: String = notes.iter().map(|note| format!("<p>{}</p>\n", escape(note))).collect();
        body += &section("Keep in mind", &format!("<div class=\"cautions\">{all}</div>"));
    }
    body += &pictures(card);
    body += &responses(card);
    body += &section("Distances", &distances(card));
    body += &section("Features", &features(card));
    document(&format!("{} and {}", card.a.trace, card.b.trace), &body)
}

fn head(card: &Card) -> String {
    let (class, verdict) = match card.verdict.faithful {
        true => ("good", "A faithful twin"),
        false if card.verdict.aspects.iter().any(|aspect| aspect.holds) => {
            ("calm", "A twin in part")
        }
        false => ("calm", "No twin"),
    };
    let about = |title: &str, of: &CardTrace| {
        format!(
            "<div><dt>{title}</dt><dd>{}: {} requests in {}</dd></div>",
            escape(&of.trace),
            count(of.requests),
            seconds(of.duration_s)
        )
    };
    format!(
        "<header><p class=\"verdict {class}\">{verdict}</p><h1>{}</h1><dl class=\"about\">{}{}</dl>\
         </header>\n",
        escape(&card.verdict.text),
        about("A, the measure", &card.a),
        about("B, held against it", &card.b),
    )
}

fn headings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| escape(name)).collect()
}

fn aspects(card: &Card) -> String {
    let rows: Vec<_> = card
        .verdict
        .aspects
        .iter()
        .map(|aspect| {
            let holds = match aspect.holds {
                true => "<span class=\"gain\">yes</span>".to_string(),
                false => "<span class=\"loss\">no</span>".to_string(),
            };
            let allowed = significant(aspect.allowed);
            let cells = vec![escape(aspect.aspect), holds, escape(&aspect.worst), allowed];
            (false, cells)
        })
        .collect();
    table(&headings(&["B stands in for A in", "", "worst", "allowed"]), &rows)
}

/// A row of figures, the second marked where the first trace itself might have had it.
fn row(title: String, quantity: &Quantity, kind: DeviationKind) -> (bool, Vec<String>) {
    let deviation = match (quantity.deviation, kind) {
        (None, _) => NONE.to_string(),
        (Some(share), DeviationKind::Relative) => format!("{}\u{a0}%", significant(share * 100.0)),
        (Some(share), DeviationKind::Points) => {
            format!("{}\u{a0}points", significant(share * 100.0))
        }
    };
    let class = if quantity.is_within_interval() { "gain" } else { "loss" };
    let interval = format!("{} – {}", significant(quantity.a_low), significant(quantity.a_high));
    let (a, b) = (significant(quantity.a), significant(quantity.b));
    let deviation = format!("<span class=\"{class}\">{deviation}</span>");
    (false, vec![title, a, b, deviation, interval])
}

const FIGURES: [&str; 5] = ["", "A", "B", "deviation", "A's own sampling interval"];

fn features(card: &Card) -> String {
    let rows = card
        .features
        .iter()
        .map(|feature| row(name(&feature.name), &feature.quantity, feature.deviation_kind));
    format!(
        "{}<p class=\"small\">Deviations in green lie within the interval that {} resamples of A's time \
         give A itself at {}\u{a0}%.</p>",
        table(&headings(&FIGURES), &rows.collect::<Vec<_>>()),
        card.resamples,
        significant(card.level * 100.0)
    )
}

fn responses(card: &Card) -> String {
    card.responses
        .iter()
        .enumerate()
        .map(|(index, response)| {
            let rows: Vec<_> = response
                .quantities()
                .iter()
                .map(|(title, quantity)| row(name(title), quantity, DeviationKind::Relative))
                .collect();
            let overloaded = |overloaded| if overloaded { ", overloaded" } else { "" };
            let busy = format!(
                "<p class=\"small\">Open replay under {}. Busy: A {}\u{a0}%{}, B {}\u{a0}%{}.</p>",
                escape(response.policy),
                significant(response.a_busy_share * 100.0),
                overloaded(response.a_overloaded),
                significant(response.b_busy_share * 100.0),
                overloaded(response.b_overloaded),
            );
            let both = card.pictures.responses.get(index);
            let picture = both.map_or(String::new(), |[a, b]| {
                let title = format!("Responses on {}", response.device);
                cumulative(&format!("response-{index}"), &title, [a, b], "response", None)
            });
            let figures = table(&headings(&FIGURES), &rows);
            let title = format!("Responses on {}", name(&response.device));
            section(&title, &format!("{busy}<div class=\"pair\">{picture}{figures}</div>"))
        })
        .collect()
}

fn distances(card: &Card) -> String {
    let number = |value: Option<f64>| value.map_or(NONE.to_string(), significant);
    let mut rows = Vec::new();
    for distance in &card.distances {
        let of = distance.of.replace('_', " ");
        let ks = (Some(distance.ks), Some(distance.ks_itself));
        let moved = (distance.wasserstein_over_mean, distance.wasserstein_over_mean_itself);
        for (title, (found, itself)) in
            [("Kolmogorov-Smirnov", ks), ("Wasserstein over mean", moved)]
        {
            rows.push((false, vec![format!("{title}, {of}"), number(found), number(itself)]));
        }
    }
    let blocks = bytes(card.mrc_block_bytes as f64);
    let [mrc, heat] = [
        (card.mrc_mean_error, card.mrc_mean_error_itself),
        (card.heat.total_variation, card.heat.total_variation_itself),
    ];
    let title = format!("Miss ratio of LRU caches, mean error, blocks of {blocks}");
    rows.push((false, vec![title, significant(mrc.0), significant(mrc.1)]));
    let ranges = bytes(card.heat.range_bytes as f64);
    let title = format!("Total variation, {} ranges of {ranges}", card.heat.a.len());
    rows.push((false, vec![title, significant(heat.0), significant(heat.1)]));
    table(&headings(&["", "B from A", "A from itself"]), &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Input;
    use crate::model::compare::{Options, compare};
    use forebay_core::{Flags, Nanos, Op};
    use forebay_trace::Record;

    fn card() -> Card {
        let record = |number: u64| Record {
            at: Nanos(number * 1_000_000),
            offset: (number % 50) << 20,
            latency: None,
            len: 4096,
            stream: 0,
            volume: 0,
            op: Op::Read,
            flags: Flags::NONE,
        };
        let input = Input::from_records((0..2000).map(record).collect(), vec!["<b>".into()]);
        let options = Options::new(&["990-pro".to_string()], None, 1.0, 1).unwrap();
        compare(&input, &input, &options, |_| ()).unwrap()
    }

    #[test]
    fn the_page_is_whole_and_refers_to_nothing_outside() {
        let mut card = card();
        card.a.trace = "<script>alert(1)</script>".to_string();
        card.features[0].quantity.deviation = None;
        card.features[1].quantity.a = f64::NAN;
        card.heat.a[3] = f64::INFINITY;
        let page = page(&card);
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let document = roxmltree::Document::parse_with_options(&page, options).unwrap();
        let lines = document.descendants().filter_map(|node| node.attribute("class"));
        assert_eq!(lines.filter(|class| *class == "series s1").count(), 7);
        let figures = page.split("</style>").nth(1).unwrap();
        for wrong in ["<script", "http", "src=", "url(", "NaN", "inf"] {
            assert!(!figures.contains(wrong), "{wrong}");
        }
        assert!(page.contains("A faithful twin") && page.len() < 200_000, "{}", page.len());
    }

    #[test]
    fn what_does_not_exist_is_left_out() {
        let mut card = card();
        assert!(page(&card).contains("id=\"gaps-t\""));
        card.pictures.gaps = Default::default();
        card.dispersion.clear();
        card.responses.clear();
        let page = page(&card);
        assert!(!page.contains("id=\"gaps-t\"") && !page.contains("id=\"dispersion-t\""));
    }
}
