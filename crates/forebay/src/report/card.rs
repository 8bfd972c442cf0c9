//! The report of `compare`: the verdict, each figure of both traces, and their distributions as
//! pictures. A figure is green or red by the bound that the verdict holds it against ([`BoundCheck`]), and
//! neither where the verdict does not ask it.

use forebay_show::quantities::or_none;

use crate::compare::{BoundCheck, Card, CardTrace, DeviationKind, Quantity};
use crate::words::{shown, words};
use forebay_show::html::axis::{Axis, plain};
use forebay_show::html::document::{document, header, section};
use forebay_show::html::paragraphs::{called, said};
use forebay_show::html::table::{Mark, TableRow, headings, table};
use forebay_show::html::text::{
    NONE, bytes, count, escape, millis, name, percent, seconds, significant, typeset,
};

mod pictures;

use pictures::{both, cumulative, pictures};

pub(super) fn page(card: &Card) -> String {
    let mut body = head(card);
    body += &section("For what", &aspects(card));
    let notes: Vec<&String> = card.left_out.iter().chain(&card.cautions).collect();
    if !notes.is_empty() {
        let all: String = notes.iter().map(|note| format!("<p>{}</p>\n", said(note))).collect();
        body += &section("Keep in mind", &format!("<div class=\"cautions\">{all}</div>"));
    }
    body += &pictures(card);
    body += &responses(card);
    body += &section("Distances", &distances(card));
    body += &section("Features", &features(card));
    document(&called("Comparison", &[&card.a.trace, &card.b.trace]), &body)
}

fn head(card: &Card) -> String {
    let (class, verdict) = match card.verdict.faithful {
        true => ("good", "A faithful twin"),
        false if card.verdict.aspects.iter().any(|aspect| aspect.holds) => {
            ("calm", "A twin in part")
        }
        false => ("calm", "No twin"),
    };
    let about = |of: &CardTrace| {
        format!(
            "{}: {} reads and writes in {}",
            of.trace,
            count(of.requests),
            seconds(of.duration_s)
        )
    };
    header(
        (class, verdict),
        &card.verdict.text,
        &[("A, the measure", about(&card.a)), ("B, compared with it", about(&card.b))],
    )
}

fn aspects(card: &Card) -> String {
    let rows: Vec<_> = card
        .verdict
        .aspects
        .iter()
        .map(|aspect| {
            let holds = coloured(if aspect.holds { "yes" } else { "no" }, Some(aspect.holds));
            let bound = escape(&aspect.bound);
            (Mark::Plain, vec![escape(aspect.aspect), holds, escape(&aspect.worst), bound])
        })
        .collect();
    table(&headings(&["B stands in for A in", "does it", "worst", "allowed"]), &rows)
}

/// Green where something `holds`, red where not.
fn coloured(text: &str, holds: Option<bool>) -> String {
    match holds {
        Some(true) => format!("<span class=\"gain\">{text}</span>"),
        Some(false) => format!("<span class=\"loss\">{text}</span>"),
        None => text.to_string(),
    }
}

/// A row of figures, written as `shown` says.
fn row(
    title: String,
    (quantity, kind): (&Quantity, DeviationKind),
    held: Option<BoundCheck>,
    shown: &dyn Fn(f64) -> String,
) -> TableRow {
    let deviation = typeset(&or_none(quantity.deviation, |deviation| kind.shown(deviation)));
    let deviation = coloured(&deviation, held.as_ref().map(BoundCheck::holds));
    let bound = held.map_or(NONE.to_string(), |held| escape(&held.bound()));
    let interval = format!("{} – {}", shown(quantity.a_low), shown(quantity.a_high));
    (Mark::Plain, vec![title, shown(quantity.a), shown(quantity.b), deviation, bound, interval])
}

fn figures(card: &Card, rows: &[TableRow]) -> String {
    let own = format!("A’s own {}\u{a0}%", plain(card.level * 100.0));
    table(&headings(&["", "A", "B", "deviation", "allowed", &own]), rows)
}

fn features(card: &Card) -> String {
    let rows = card.features.iter().map(|feature| {
        let figures = (&feature.quantity, feature.deviation_kind);
        row(name(&words(&feature.name)), figures, Some(feature.bound_check()), &|value| {
            typeset(&shown(&feature.name, value))
        })
    });
    let scales = card.dispersion.iter().map(|scale| {
        let title = format!("dispersion in {}", millis(scale.bin_ms as f64));
        let figures = (&scale.quantity, DeviationKind::Relative);
        row(title, figures, Some(scale.bound_check()), &significant)
    });
    format!(
        "{}<p class=\"small\">Green deviations are within what the verdict allows, red ones are not; it \
         does not ask for the others. In the last column lies what {} resamples of A’s time give A \
         itself.</p>",
        figures(card, &rows.chain(scales).collect::<Vec<_>>()),
        card.resamples,
    )
}

fn responses(card: &Card) -> String {
    card.responses
        .iter()
        .enumerate()
        .map(|(index, response)| {
            let named = ["mean", "50 %", "90 %", "99 %", "99.9 %"];
            let rows: Vec<_> = named
                .into_iter()
                .zip(response.quantities())
                .map(|(title, (_, quantity, held))| {
                    row(title.to_string(), (quantity, DeviationKind::Relative), held, &millis)
                })
                .collect();
            let busy = format!(
                "<p class=\"small\">Open replay under {}. The device is busy for {} of A and {} of B.{}</p>",
                escape(response.policy),
                percent(response.a_busy_share),
                percent(response.b_busy_share),
                backlog(response.a_overloaded, response.b_overloaded),
            );
            let picture = card.pictures.responses.get(index).map_or(String::new(), |[a, b]| {
                let (id, title) = (format!("response-{index}"), "Times from arrival to completion");
                cumulative((&id, title), [a, b], (Axis::decades, "response"))
            });
            let (title, figures) = (name(&response.device), figures(card, &rows));
            section(
                &format!("Responses on {title}"),
                &format!("{busy}{}<div class=\"pair\">{picture}{figures}</div>", both()),
            )
        })
        .collect()
}

/// For which traces a device is overloaded: one that is idle half of the time may fall behind in the other half.
fn backlog(a: bool, b: bool) -> String {
    let whose = match (a, b) {
        (true, true) => "both",
        (true, false) => "A",
        (false, true) => "B",
        (false, false) => return String::new(),
    };
    format!(
        " At times it falls behind the requests of {whose}: those figures are mostly waits in a backlog."
    )
}

fn distances(card: &Card) -> String {
    let number = |value: Option<f64>| value.map_or(NONE.to_string(), significant);
    let row = |title: String, found: Option<f64>, itself: Option<f64>, held: Option<BoundCheck>| {
        let found = coloured(&number(found), held.as_ref().map(BoundCheck::holds));
        let bound = held.map_or(NONE.to_string(), |held| held.bound());
        (Mark::Plain, vec![title, found, bound, number(itself)])
    };
    let mut rows = Vec::new();
    for distance in &card.distances {
        let of = words(distance.of);
        let (ks, itself) = (Some(distance.ks), Some(distance.ks_itself));
        rows.push(row(
            format!("Kolmogorov-Smirnov, {of}"),
            ks,
            itself,
            Some(distance.bound_check()),
        ));
        let moved = (distance.wasserstein_over_mean, distance.wasserstein_over_mean_itself);
        rows.push(row(format!("Wasserstein over mean, {of}"), moved.0, moved.1, None));
    }
    let blocks = bytes(card.mrc_block_bytes as f64);
    let title = format!("Miss ratio of LRU caches, mean error, blocks of {blocks}");
    let (found, itself) = (Some(card.mrc_mean_error), Some(card.mrc_mean_error_itself));
    rows.push(row(title, found, itself, Some(card.miss_ratio_check())));
    let (heat, ranges) = (&card.heat, bytes(card.heat.range_bytes as f64));
    let title = format!("Total variation, {} ranges of {ranges}", heat.a.len());
    let (found, itself) = (Some(heat.total_variation), Some(heat.total_variation_itself));
    rows.push(row(title, found, itself, Some(heat.bound_check())));
    table(&headings(&["", "B from A", "allowed", "A from itself"]), &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Options, compare};
    use crate::input::Input;
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
        compare(&input, &input, &options, &mut crate::progress::unheard).unwrap()
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
        assert_eq!(lines.filter(|class| *class == "series s1").count(), 8);
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

    #[test]
    fn a_figure_has_the_colour_of_the_verdict_on_it() {
        let mut card = card();
        let deviate = |card: &mut Card, by: f64| {
            let quantity = &mut card.features[0].quantity;
            // The interval holds the second figure either way.
            (quantity.deviation, quantity.a_low, quantity.a_high) = (Some(by), 0.0, 1e9);
        };
        deviate(&mut card, 0.049);
        assert!(features(&card).contains("<span class=\"gain\">+4.90\u{a0}%</span>"));
        deviate(&mut card, -0.051);
        assert!(features(&card).contains("<span class=\"loss\">−5.10\u{a0}%</span>"));
        card.features[0].quantity.deviation = None;
        assert!(features(&card).contains(&format!("<span class=\"loss\">{NONE}</span>")));
        card.responses[0].p999_ms.deviation = Some(3.0);
        let page = responses(&card);
        assert!(page.contains("<td>+300\u{a0}%</td>") && !page.contains("loss"), "{page}");
        card.heat.total_variation = 0.2;
        assert!(distances(&card).contains("<span class=\"loss\">0.200</span>"));
    }

    #[test]
    fn no_key_of_json_is_on_the_page() {
        let mut card = card();
        card.features[0].name = "mean_size_bytes".to_string();
        (card.features[0].quantity.a, card.features[0].quantity.b) = (65_536.0, 4096.0);
        let page = page(&card);
        assert!(page.contains(">mean size</th><td>64\u{a0}KiB</td><td>4\u{a0}KiB</td>"));
        let body = page.split("</style>").nth(1).unwrap();
        for key in ["_bytes", "_ms", "_share", "state_weight", "stream_weight"] {
            assert!(!body.contains(key), "{key}");
        }
    }
}
