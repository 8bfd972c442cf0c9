//! Rules for every declared verb: its page is sound in every form, and every figure on the page is
//! in its data.

// Crates with verbs of their own include this file in their tests.

use std::ops::ControlFlow;
use std::path::Path;

use forebay::progress::Told;
use forebay::verb::{Answered, Session, Verb, answer};
use forebay_ask::{Ask, Given, Spelling, read, spelled};
use forebay_show::page::{Block, Page};
use forebay_show::table::{Cell, Table};
use forebay_show::terminal::{self, Extent};
use forebay_show::{html, markdown};
use forebay_trace::unpack::Consumed;
use serde_json::Value;

use super::walk;

/// Collects the warnings.
#[derive(Default)]
pub(crate) struct Quiet(Vec<String>);

impl Session for Quiet {
    fn begin(&mut self, _: &str, _: Option<&Path>) -> Consumed {
        Consumed::default()
    }
    fn progress(&mut self, _: &Told) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    fn read(&mut self, _: &Path, _: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    fn warn(&mut self, subject: &Path, sentence: &str) {
        self.0.push(format!("{}: {sentence}", subject.display()));
    }
}

/// Runs verb `V` with these options, and checks the rules that hold for all verbs.
pub(crate) fn answered<V: Verb>(given: &[(&str, &str)]) -> Answered<V::Beyond> {
    let mut all = Given::default();
    for (name, text) in given {
        all.text(name, *text);
    }
    let ask = read::<V>(&all).unwrap();
    let answered = answer(ask, &mut Quiet::default(), Spelling::Command).unwrap();
    is_sound(<V as Ask>::VERB, &answered);
    answered
}

/// Returns the message that verb `V` refuses these inputs with.
#[allow(dead_code)] // not every crate that includes this file refuses inputs here
pub(crate) fn refused<V: Verb>(given: &[(&str, &str)]) -> String {
    let mut all = Given::default();
    for (name, text) in given {
        all.text(name, *text);
    }
    let ask = read::<V>(&all).unwrap();
    let refused = answer(ask, &mut Quiet::default(), Spelling::Command).map(drop).unwrap_err();
    spelled(&refused.to_string(), Spelling::Command)
}

/// Checks that every form of the page is sound, and that every figure on it is in the data.
fn is_sound<B>(verb: &str, answered: &Answered<B>) {
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

/// Returns the tables of a page, in order.
pub(crate) fn tables(page: &Page) -> Vec<&Table> {
    let blocks = page.sections.iter().flat_map(|section| &section.blocks);
    blocks
        .filter_map(|block| match block {
            Block::Table(table) => Some(table),
            _ => None,
        })
        .collect()
}

/// Returns the figures of a table.
fn figures(table: &Table) -> Vec<f64> {
    let of = |cell: &Cell| match cell {
        Cell::Missing | Cell::Words(_) | Cell::Judged { .. } => Vec::new(),
        Cell::Value(value) => vec![*value],
        Cell::Interval { value, low, high } => vec![*value, *low, *high],
        Cell::Figure(figure) => vec![figure.value],
    };
    table.rows.iter().flat_map(|row| &row.cells).flat_map(of).collect()
}

/// Returns every number in `data`. Pages show times in seconds, so numbers that may be milliseconds
/// or microseconds are also returned in seconds.
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

/// Returns the numbers under a key. Pages show sizes in bytes, rates in bytes per second, and
/// percentages as shares.
fn of_key(key: &str, value: &Value) -> Vec<f64> {
    let each = match key.rsplit('_').next() {
        Some("kib") => 1024.0,
        Some("mib") => 1_048_576.0,
        Some("percent") => 0.01,
        _ if key.ends_with("_mb_per_s") => 1e6,
        _ => 1.0,
    };
    numbers(value).into_iter().flat_map(|number| [number, number * each]).collect()
}
