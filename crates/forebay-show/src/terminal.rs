//! Renders a page for a terminal: the headline, the key figures, and then either the first screen
//! or all sections.

use crate::grid::{self, Grid};
use crate::{Block, Chart, ChartScale, Page, Place, RowMark, Section, Table, prose};
use forebay_words::quantities::NONE;

/// The maximum width of prose in characters, even on wider terminals.
const PROSE_COLUMNS_MAX: usize = 120;

/// How much of a page a terminal shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Only the first screen.
    FirstScreen,
    /// All sections of the page.
    Everything,
}

/// Renders `page` in lines of at most `columns` characters.
pub fn text(page: &Page, columns: usize, extent: Extent) -> String {
    parts(page, columns, extent).join("\n\n")
}

/// Returns the parts of which [`text`] consists: the headline first, then the sections.
pub fn parts(page: &Page, columns: usize, extent: Extent) -> Vec<String> {
    let wrapped = |text: &str| paragraph(text, columns);
    let mut parts = vec![wrapped(&page.headline)];
    parts.extend(key_figures(page, columns));
    if extent == Extent::Everything && !page.about.is_empty() {
        let about = page.about.iter().map(|(term, text)| wrapped(&format!("{term}: {text}")));
        parts.push(about.collect::<Vec<_>>().join("\n"));
    }
    let is_shown =
        |section: &&Section| extent == Extent::Everything || section.place == Place::FirstScreen;
    for section in page.sections.iter().filter(is_shown) {
        let blocks: Vec<String> =
            section.blocks.iter().map(|of| block(of, columns)).filter(|s| !s.is_empty()).collect();
        if blocks.is_empty() {
            continue;
        }
        let is_titled = extent == Extent::Everything && !section.title.is_empty();
        let title = if is_titled { format!("{}\n", section.title) } else { String::new() };
        parts.push(format!("{title}{}", blocks.join("\n\n")));
    }
    parts
}

/// Wraps a paragraph without indenting its lines.
fn paragraph(text: &str, columns: usize) -> String {
    prose::wrapped(text, columns.min(PROSE_COLUMNS_MAX)).replace("\n  ", "\n")
}

/// Formats as many key figures as fit on one line.
fn key_figures(page: &Page, columns: usize) -> Option<String> {
    let one = |key: &crate::page::KeyFigure| {
        let before = key.before.map(|before| format!("{} → ", before.text()));
        format!("{} {}{}", key.name, before.unwrap_or_default(), key.figure.text())
    };
    let all: Vec<String> = page.key_figures.iter().map(one).collect();
    let mut lines = (1..=all.len()).rev().map(|count| all[..count].join(" · "));
    lines.find(|line| line.chars().count() <= columns)
}

fn block(of: &Block, columns: usize) -> String {
    let wrapped = |text: &str| prose::wrapped(text, columns.min(PROSE_COLUMNS_MAX));
    let lines = |all: Vec<String>| all.join("\n");
    match of {
        Block::Text(text) => paragraph(text, columns),
        Block::Notes(notes) => {
            lines(notes.iter().map(|note| wrapped(&format!("! {note}"))).collect())
        }
        Block::List(items) => {
            lines(items.iter().map(|item| wrapped(&format!("- {item}"))).collect())
        }
        Block::Terms(all) => terms(all, columns),
        Block::Commands(commands) => {
            lines(commands.iter().map(|command| format!("    {command}")).collect())
        }
        Block::Table(table) => grid(table, columns).to_string(),
        Block::Chart(chart) => sparklines(chart, columns),
        Block::Beside(blocks) => {
            let all = blocks.iter().map(|of| block(of, columns)).filter(|text| !text.is_empty());
            all.collect::<Vec<_>>().join("\n\n")
        }
        Block::Legend(_) | Block::Picture { .. } => String::new(),
    }
}

/// Formats terms in one column, with their explanations beside them.
fn terms(all: &[(String, String)], columns: usize) -> String {
    const GAP: usize = 2;
    let width = all.iter().map(|(term, _)| term.chars().count()).max().unwrap_or(0) + GAP;
    let columns = columns.min(PROSE_COLUMNS_MAX).saturating_sub(width).max(width);
    let indent = format!("\n{:width$}", "");
    let one = |(term, text): &(String, String)| {
        let text = paragraph(text, columns).replace('\n', &indent);
        format!("{term:width$}{text}")
    };
    all.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// Converts a table to a terminal grid.
pub fn grid(table: &Table, columns: usize) -> Grid {
    let text = table.text();
    let has_intervals = text.rows.iter().flatten().any(|cell| cell.interval.is_some());
    let mut grid = Grid::new(columns.min(usize::from(u16::MAX)) as u16, &text.heads);
    for (row, cells) in table.rows.iter().zip(&text.rows) {
        let placed = |(nth, cell): (usize, &crate::table::CellText)| {
            let mark = match &row.mark {
                RowMark::Plain => "",
                RowMark::Best(word) | RowMark::Badge(word) => word.as_str(),
            };
            let name = match (nth, mark) {
                (0, word) if !word.is_empty() => format!("{} ({word})", cell.text),
                _ => cell.text.clone(),
            };
            match text.are_figures[nth] {
                true => grid::right(name),
                false => grid::Cell::new(name),
            }
        };
        grid.add_row(cells.iter().enumerate().map(placed));
        if has_intervals && cells.iter().any(|cell| cell.interval.is_some()) {
            let ends = |(nth, cell): (usize, &crate::table::CellText)| match &cell.interval {
                Some((low, high)) => grid::right(format!("{low} - {high}")),
                None if nth == 0 => grid::Cell::new("  interval"),
                None if text.are_figures[nth] => grid::right(NONE),
                None => grid::Cell::new(""),
            };
            grid.add_row(cells.iter().enumerate().map(ends));
        }
    }
    grid
}

/// Draws values from 0 to 1 as a line of bars of different heights.
pub fn sparkline(values: impl IntoIterator<Item = f64>) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let bar = |value: f64| BARS[((value.clamp(0.0, 1.0) * 8.0) as usize).min(7)];
    values.into_iter().map(bar).collect()
}

/// The maximum number of bars in a sparkline.
const SPARKS_MAX: usize = 48;

/// Draws each series of a chart as a sparkline between its first and its last value.
fn sparklines(chart: &Chart, columns: usize) -> String {
    // Distributions are left out, because readers want their latencies, which a sparkline does not
    // show.
    if chart.x.scale == ChartScale::Decades {
        return String::new();
    }
    let most = chart.series.iter().flat_map(|series| &series.points).map(|point| point.1);
    let most = most.filter(|up| up.is_finite()).fold(0.0, f64::max);
    let longest = chart.series.iter().map(|series| series.name.chars().count()).max();
    let width = longest.unwrap_or(0).min(columns / 3);
    // Two values take up space in addition to the name and the bars.
    let bars_max = columns.saturating_sub(width + 20).clamp(8, SPARKS_MAX);
    let mut lines = vec![prose::wrapped(&format!("{}:", chart.title), columns)];
    for series in chart.series.iter().filter(|_| most > 0.0) {
        let (Some(first), Some(last)) = (series.points.first(), series.points.last()) else {
            continue;
        };
        let step = series.points.len().div_ceil(bars_max).max(1);
        let bars = sparkline(series.points.iter().step_by(step).map(|point| point.1 / most));
        let ends = [first.1, last.1].map(|value| chart.y.unit.in_column(value, 1.0));
        let name = match series.name.chars().count() > width {
            true => series.name.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
            false => series.name.clone(),
        };
        lines.push(format!("{name:>width$}  {:>6} {bars} {}", ends[0], ends[1]));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cell, Column, Figure, KeyFigure, Row, Unit};

    fn page() -> Page {
        let mut table = Table::new([Column::words(""), Column::of("p99", Unit::Seconds)]);
        table.rows.push(Row {
            mark: RowMark::Best("best".into()),
            cells: vec!["a".into(), Cell::Interval { value: 0.01, low: 0.008, high: 0.02 }],
        });
        let about = vec![("Trace".into(), "web.csv".into())];
        let mut page = Page { headline: "Buy 3 drives.".into(), about, ..Page::default() };
        page.key_figures.push(KeyFigure {
            name: "p99".into(),
            before: Some(Figure::new(0.02, Unit::Seconds)),
            figure: Figure::new(0.01, Unit::Seconds),
        });
        page.add("Drives", Place::FirstScreen, vec![Block::Table(table)]);
        page.add_notes("Keep in mind", Place::Detail, vec!["The trace is short.".into()]);
        page
    }

    #[test]
    fn the_first_screen_leaves_details_out() {
        let first = text(&page(), 80, Extent::FirstScreen);
        assert!(first.starts_with("Buy 3 drives.\n\np99 20.0 ms → 10.0 ms\n\n"), "{first}");
        assert!(first.contains("p99, ms") && first.contains("a (best)"), "{first}");
        assert!(first.contains("8.00 - 20.0") && !first.contains("short"), "{first}");
        let all = text(&page(), 80, Extent::Everything);
        assert!(all.contains("Keep in mind\n! The trace is short."), "{all}");
        assert!(all.contains("\n\nTrace: web.csv\n\n") && !first.contains("web.csv"), "{all}");
        assert!(page().has_details());
    }

    #[test]
    fn values_have_bars() {
        assert_eq!(sparkline([0.0, 0.5, 1.0, 2.0, -1.0]), "▁▅██▁");
    }
}
