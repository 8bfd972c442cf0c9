//! What holds for the answer of every declared verb, whichever crate it is of.

use forebay::verb::Answered;
use forebay_show::page::{Block, Page};
use forebay_show::table::{Cell, Table};
use forebay_show::terminal::{self, Extent};
use forebay_show::{html, markdown};
use serde_json::Value;

use super::walk;

/// Every form of the page is sound, and every figure on it stands in the data.
pub(crate) fn is_sound<B>(verb: &str, answered: &Answered<B>) {
    let page = &answered.page;
    walk(verb, &html::document(page));
    let words = page.headline.split_whitespace().count();
    assert!((1..=25).contains(&words), "{verb}: {words} words: {}", page.headline);
    assert!(page.key_figures.len() <= 3, "{verb}: {:?}", page.key_figures);
    let screen = terminal::text(page, 80, Extent::FirstScreen);
    assert!(screen.lines().count() <= 24, "{verb}: more than a screen:\n{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{verb}:\n{screen}");
    let everything = terminal::text(page, 80, Extent::Everything);
    for text in [&screen, &everything, &markdown::text(page)] {
        assert!(!text.contains("NaN") && !text.contains('\u{1}'), "{verb}:\n{text}");
    }
    let numbers = numbers(&answered.data);
    for figure in tables(page).into_iter().flat_map(figures) {
        let is_there = numbers.iter().any(|number| (number - figure).abs() <= figure.abs() * 1e-9);
        assert!(is_there || !figure.is_finite(), "{verb}: {figure} is not in the data");
    }
}

/// The tables of a page, in order.
pub(crate) fn tables(page: &Page) -> Vec<&Table> {
    let blocks = page.sections.iter().flat_map(|section| &section.blocks);
    blocks
        .filter_map(|block| match block {
            Block::Table(table) => Some(table),
            _ => None,
        })
        .collect()
}

/// The figures of a table.
fn figures(table: &Table) -> Vec<f64> {
    let of = |cell: &Cell| match cell {
        Cell::Missing | Cell::Words(_) | Cell::Judged { .. } => Vec::new(),
        Cell::Value(value) => vec![*value],
        Cell::Interval { value, low, high } => vec![*value, *low, *high],
        Cell::Figure(figure) => vec![figure.value],
    };
    table.rows.iter().flat_map(|row| &row.cells).flat_map(of).collect()
}

/// Every number in `data`. Pages count times in seconds, so what may be milliseconds or microseconds counts as those too.
fn numbers(data: &Value) -> Vec<f64> {
    match data {
        Value::Number(number) => {
            let value = number.as_f64().unwrap();
            vec![value, value / 1e3, value / 1e6]
        }
        Value::Array(all) => all.iter().flat_map(numbers).collect(),
        Value::Object(fields) => {
            fields.iter().flat_map(|(key, value)| of_key(key, value)).collect()
        }
        _ => Vec::new(),
    }
}

/// The numbers under a key. Pages count sizes in bytes.
fn of_key(key: &str, value: &Value) -> Vec<f64> {
    let each = match key.rsplit('_').next() {
        Some("kib") => 1024.0,
        Some("mib") => 1_048_576.0,
        _ => 1.0,
    };
    numbers(value).into_iter().flat_map(|number| [number, number * each]).collect()
}
