//! Renders a page as an HTML document.

use super::axis::{Axis, plain};
use super::bars;
use super::charts::{legend, series_class};
use super::document::{self, folded, header, section, tiles};
use super::figure;
use super::paragraphs::inline;
use super::plot::{Caption, Plot, in_both};
use super::table::{Mark, table};
use super::text::{escape, typeset};
use crate::{
    Block, CellText, Chart, ChartAxis, ChartScale, Figure, Page, Place, RowMark, Section, Series,
    Table, Tone,
};

/// The maximum number of rows shown of a table.
const ROWS_MAX: usize = 500;
/// The maximum number of points of a line at which each point is drawn as a dot.
const DOTS_MAX: usize = 12;
/// The maximum number of points of a line that have tooltips.
const SPOTS_MAX: usize = 40;

/// Renders `page` as a complete document.
pub fn document(page: &Page) -> String {
    let class = match page.verdict.tone {
        Tone::Good => "good",
        Tone::Calm => "calm",
        Tone::Warning => "part",
    };
    let about: Vec<(&str, String)> =
        page.about.iter().map(|(term, text)| (term.as_str(), text.clone())).collect();
    let mut body = header((class, &escape(&page.verdict.words)), &page.headline, &about);
    if !page.key_figures.is_empty() {
        let tile = |key: &crate::page::KeyFigure| {
            let before = key.before.map(|before| format!("<span>{} →</span> ", shown(before)));
            let name = escape(&key.name);
            (name, format!("{}{}", before.unwrap_or_default(), shown(key.figure)))
        };
        let all: Vec<(String, String)> = page.key_figures.iter().map(tile).collect();
        let all: Vec<(&str, String)> =
            all.iter().map(|(name, figure)| (name.as_str(), figure.clone())).collect();
        body += &tiles("", &all);
    }
    body += &page.sections.iter().map(drawn).collect::<String>();
    document::document(&page.title, &body)
}

fn shown(figure: Figure) -> String {
    typeset(&figure.text())
}

fn drawn(of: &Section) -> String {
    let mut content = String::new();
    let mut blocks = of.blocks.iter().peekable();
    while let Some(next) = blocks.next() {
        let Block::Chart(chart) = next else {
            content += &block(next);
            continue;
        };
        // Consecutive charts share a legend, and half-width charts are placed in pairs.
        let mut row = vec![chart];
        while let Some(Block::Chart(more)) = blocks.peek()
            && chart.is_half
            && more.is_half
        {
            row.push(more);
            blocks.next();
        }
        content += &charts(&row);
    }
    match of.place {
        Place::Folded => folded(&escape(&of.title), &content),
        Place::FirstScreen | Place::Detail => section(&escape(&of.title), &content),
    }
}

fn block(of: &Block) -> String {
    let paragraphs = |class: &str, all: &[String]| {
        let all: String = all.iter().map(|text| format!("<p>{}</p>", inline(text))).collect();
        format!("<div class=\"{class}\">{all}</div>")
    };
    match of {
        Block::Text(text) => paragraphs("findings", std::slice::from_ref(text)),
        Block::List(items) => {
            let items: String =
                items.iter().map(|item| format!("<li>{}</li>", inline(item))).collect();
            format!("<ul class=\"findings\">{items}</ul>")
        }
        Block::Terms(terms) => {
            let one = |(term, text): &(String, String)| {
                format!("<dt>{}</dt><dd>{}</dd>", escape(term), inline(text))
            };
            let all: String = terms.iter().map(one).collect();
            format!("<dl class=\"terms\">{all}</dl>")
        }
        Block::Notes(notes) => paragraphs("cautions", notes),
        Block::Commands(commands) => {
            format!("<pre><code>{}</code></pre>", escape_lines(&commands.join("\n")))
        }
        Block::Table(of) => tabled(of),
        Block::Chart(chart) => charts(&[chart]),
        Block::Legend(colors) => {
            let all: Vec<(&str, &str)> =
                colors.iter().map(|(class, name)| (class.as_str(), name.as_str())).collect();
            bars::legend(&all)
        }
        Block::Beside(blocks) => {
            format!("<div class=\"pair\">{}</div>", blocks.iter().map(block).collect::<String>())
        }
        Block::Picture { svg, caption } => figure(svg, caption),
    }
}

/// Escapes commands, but keeps their line breaks.
fn escape_lines(text: &str) -> String {
    text.lines().map(escape).collect::<Vec<_>>().join("\n")
}

fn tabled(of: &Table) -> String {
    let text = of.text();
    let heads: Vec<String> = text.heads.iter().map(|head| escape(head)).collect();
    let rows: Vec<_> = of
        .rows
        .iter()
        .zip(&text.rows)
        .take(ROWS_MAX)
        .map(|(row, cells)| {
            let mut cells: Vec<String> = cells.iter().map(cell).collect();
            cells.resize(text.heads.len(), String::new());
            (mark(&row.mark), cells)
        })
        .collect();
    let more = match of.rows.len().saturating_sub(ROWS_MAX) {
        0 => String::new(),
        more => format!("<p class=\"small\">And {more} more.</p>"),
    };
    table(&heads, &rows) + &more
}

fn mark(of: &RowMark) -> Mark {
    match of {
        RowMark::Plain => Mark::Plain,
        RowMark::Best(why) => Mark::Best(escape(why)),
        RowMark::Badge(why) => Mark::Badge(escape(why)),
    }
}

/// Formats a table's cell: the figure in its typeset form, with its interval below.
fn cell(of: &CellText) -> String {
    let text = if of.is_figure { typeset(&of.text) } else { inline(&of.text) };
    let text = match of.is_good {
        Some(true) => format!("<span class=\"gain\">{text}</span>"),
        Some(false) => format!("<span class=\"loss\">{text}</span>"),
        None => text,
    };
    match &of.interval {
        Some((low, high)) => {
            let (low, high) = (typeset(low), typeset(high));
            format!("{text}<br/><span class=\"small\">{low} to {high}</span>")
        }
        None => text,
    }
}

fn charts(all: &[&Chart]) -> String {
    let Some(first) = all.first() else { return String::new() };
    let names = first.series.iter().map(|series| series.name.as_str());
    let stands_out: Vec<bool> = first.series.iter().map(|series| !series.is_faint).collect();
    let legend = if first.series.len() > 1 { legend(names, &stands_out) } else { String::new() };
    let drawn = all.iter().map(|chart| {
        let caption = Caption {
            id: &chart.id,
            title: &chart.title,
            description: &format!("{} {}", chart.description, ends(chart)),
        };
        let picture = match chart.is_half {
            true => Some(lines(chart, &caption, (560.0, 340.0))),
            false => in_both(&caption, |of, shape| Some(lines(chart, of, shape.size()))),
        };
        picture.map_or(String::new(), |picture| figure(&picture, &escape(&chart.title)))
    });
    let drawn: String = drawn.collect();
    match first.is_half {
        true => format!("{legend}<div class=\"pair\">{drawn}</div>"),
        false => format!("{legend}{drawn}"),
    }
}

/// Describes where each line begins and ends, for screen readers.
fn ends(chart: &Chart) -> String {
    let of = |series: &Series| {
        let (first, last) = series.points.first().zip(series.points.last())?;
        let at = |point: &(f64, f64)| {
            format!("{} at {}", value(&chart.y, point.1), value(&chart.x, point.0))
        };
        Some(format!("{}: {}, {}.", series.name, at(first), at(last)))
    };
    chart.series.iter().filter_map(of).collect::<Vec<_>>().join(" ")
}

fn value(axis: &ChartAxis, value: f64) -> String {
    Figure::new(value, axis.unit).text()
}

fn axis(of: &ChartAxis, values: impl Iterator<Item = f64>, (from, to): (f64, f64)) -> Axis {
    // A logarithmic axis cannot show zero.
    let is_linear = matches!(of.scale, ChartScale::Linear | ChartScale::Between(..));
    let (least, most) = values
        .map(|value| value * of.labels_per)
        .filter(|value| value.is_finite() && (is_linear || *value > 0.0))
        .fold((f64::MAX, 0.0f64), |(least, most), value| (least.min(value), most.max(value)));
    match of.scale {
        ChartScale::Linear => Axis::linear(most * 1.05, from, to),
        ChartScale::Between(low, high) => {
            Axis::between(low * of.labels_per, high * of.labels_per, from, to)
        }
        ChartScale::Decades => Axis::decades(least, most, from, to),
        ChartScale::PlainDecades => Axis::decades(least, most, from, to).labelled(plain),
        ChartScale::Doublings => Axis::doublings(least, most, from, to),
    }
}

fn lines(chart: &Chart, caption: &Caption<'_>, size: (f64, f64)) -> String {
    let points = || chart.series.iter().flat_map(|series| &series.points);
    let x = axis(&chart.x, points().map(|point| point.0), Plot::across(size.0));
    let y = axis(&chart.y, points().map(|point| point.1), Plot::upwards(size.1));
    let mut plot = Plot::new(caption, size, (x, &chart.x.name), (y, &chart.y.name));
    for (index, series) in chart.series.iter().enumerate() {
        let placed: Vec<(f64, f64)> = series
            .points
            .iter()
            .map(|(along, up)| (along * chart.x.labels_per, up * chart.y.labels_per))
            .filter(|(along, up)| along.is_finite() && up.is_finite())
            .collect();
        let faint = if series.is_faint { " faint" } else { "" };
        let class = format!("series {}{faint}", series_class(index));
        plot.line(&placed, &class);
        if placed.len() <= DOTS_MAX {
            plot.dots(&placed, &format!("{class} spots"));
        }
        plot.spots(&placed, SPOTS_MAX, |(along, up)| {
            let x = typeset(&value(&chart.x, along / chart.x.labels_per));
            let y = typeset(&value(&chart.y, up / chart.y.labels_per));
            format!("{} at {x}: {y}", series.name)
        });
    }
    plot.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cell, Column, KeyFigure, Row, Unit, Verdict};

    fn chart(id: &str, is_half: bool) -> Block {
        let axis =
            |name: &str, unit, scale, labels_per| ChartAxis::new(name, unit, labels_per, scale);
        Block::Chart(Chart {
            id: id.into(),
            title: "Capacity".into(),
            description: "What it takes.".into(),
            x: axis("share, %", Unit::Promise, ChartScale::Between(0.9, 1.0), 100.0),
            y: axis("IOPS", Unit::Iops, ChartScale::Linear, 1.0),
            series: vec![Series {
                name: "<a>".into(),
                points: vec![(0.9, 10.0), (f64::NAN, 1.0), (1.0, 1500.0)],
                is_faint: false,
            }],
            is_half,
        })
    }

    #[test]
    fn any_input_gives_a_complete_document() {
        let hostile = "<script>\"&'\u{1b}".to_string();
        let mut table = Table::new([Column::words(&*hostile), Column::of("p99", Unit::Seconds)]);
        table.rows.push(Row {
            mark: RowMark::Best(hostile.clone()),
            cells: vec![
                hostile.clone().into(),
                Cell::Interval { value: 0.01, low: f64::NAN, high: 0.02 },
            ],
        });
        let mut page = Page {
            title: hostile.clone(),
            verdict: Verdict::new(Tone::Warning, hostile.clone()),
            headline: hostile.clone(),
            about: vec![("Trace".into(), hostile.clone())],
            ..Page::default()
        };
        page.key_figures.push(KeyFigure {
            name: hostile.clone(),
            before: Some(Figure::new(f64::NAN, Unit::Seconds)),
            figure: Figure::new(994.5, Unit::Money(*b"EUR")),
        });
        page.add("Drives", Place::FirstScreen, vec![Block::Table(table), chart("one", false)]);
        page.add("More", Place::Detail, vec![chart("two", true), chart("three", true)]);
        page.add("Commands", Place::Folded, vec![Block::Commands(vec![hostile.clone()])]);
        let beside = ["a", "b"].map(|text| Block::Text(text.into()));
        page.add("Beside", Place::Detail, vec![Block::Beside(beside.into())]);
        page.add_notes("Notes", Place::Detail, vec![hostile]);
        let html = document(&page);
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        roxmltree::Document::parse_with_options(&html, options).unwrap();
        let body = html.split("</style>").nth(1).unwrap();
        assert!(!body.contains("NaN") && !body.contains("<script"), "{body}");
        assert!(
            body.contains("994.50\u{a0}EUR") && body.contains("<div class=\"pair\">"),
            "{body}"
        );
        // A tooltip formats a figure as a table does.
        assert!(body.contains("<title>&lt;a&gt; at 90\u{a0}%: 10\u{a0}IOPS</title>"), "{body}");
    }
}
