//! Rules that every declared verb must obey: its page is sound in every form, and every figure on
//! the page is in its data.

// Other crates with verbs include this file in their tests.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;

use forebay::progress::ProgressReport;
use forebay::verb::{Answered, Session, Verb, answer};
use forebay_ask::{Ask, Given, Spelling, read, spelled};
use forebay_show::figure::{Figure, Unit};
use forebay_show::html::document::{LARGE_WORDS_MAX, large_and_small};
use forebay_show::page::{Block, Page};
use forebay_show::table::{Cell, Column, Table};
use forebay_show::terminal::{self, Extent};
use forebay_show::{html, markdown};
use forebay_trace::unpack::Consumed;
use serde_json::Value;

use super::walk;

/// A session that only collects warnings.
#[derive(Default)]
pub(crate) struct Quiet(pub(crate) Vec<String>);

impl Session for Quiet {
    fn begin(&mut self, _: &str, _: Option<&Path>) -> Consumed {
        Consumed::default()
    }
    fn progress(&mut self, _: &ProgressReport) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    fn read(&mut self, _: &Path, _: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    fn warn(&mut self, subject: &Path, sentence: &str) {
        self.0.push(format!("{}: {sentence}", subject.display()));
    }
}

/// Runs the verb `V` with these options, and checks the rules for all verbs.
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

/// Returns the error message with which the verb `V` rejects these options.
#[allow(dead_code)] // not every crate that includes this file tests rejected options
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
    let large = large_and_small(&page.headline).0.split_whitespace().count();
    assert!(large <= LARGE_WORDS_MAX, "{verb}: no short clause first: {}", page.headline);
    assert!(page.key_figures.len() <= 3, "{verb}: {:?}", page.key_figures);
    let screen = terminal::text(page, 80, Extent::FirstScreen);
    assert!(screen.lines().count() <= 24, "{verb}: more than a screen:\n{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{verb}:\n{screen}");
    let everything = terminal::text(page, 80, Extent::Everything);
    for text in [&screen, &everything, &markdown::text(page)] {
        assert!(!text.contains("NaN") && !text.contains('\u{1}'), "{verb}:\n{text}");
    }
    let numbers = numbers(&answered.data, Dimension::None, 1.0);
    let in_tables = tables(page).into_iter().flat_map(table_figures);
    for Figure { value, unit } in in_tables.chain(key_figures(page)) {
        let is_same = |number: &Number| {
            number.may_be(unit) && (number.value - value).abs() <= value.abs() * 1e-9
        };
        let is_there = value == 0.0 || !value.is_finite() || numbers.iter().any(is_same);
        assert!(is_there, "{verb}: {value} ({unit:?}) is not in the data");
    }
    let texts: BTreeSet<String> = numbers.iter().flat_map(Number::texts).collect();
    for figure in figures_in(&page.headline) {
        let other = texts.iter().find(|text| is_same_figure(text, &figure));
        let other = other.filter(|_| !texts.contains(&figure));
        assert_eq!(other, None, "{verb}: {figure} has another form in: {}", page.headline);
    }
}

/// Returns whether two figures have the same value and unit, such as "61 %" and "61.0 %".
fn is_same_figure(one: &str, other: &str) -> bool {
    let parts = |text: &str| {
        let (number, unit) = text.split_once(' ')?;
        Some((number.parse::<f64>().ok()?, unit.to_string()))
    };
    parts(one).is_some() && parts(one) == parts(other)
}

/// The units that figures in sentences have.
const UNITS: [&str; 23] = [
    "%", "h", "s", "ms", "µs", "EiB", "PiB", "TiB", "GiB", "MiB", "KiB", "B", "GB/s", "MB/s",
    "kB/s", "B/s", "IOPS", "W", "MJ", "kJ", "J", "EUR", "USD",
];

/// Returns the figures with units in a sentence, such as "61.0 %".
fn figures_in(sentence: &str) -> Vec<String> {
    let words: Vec<&str> = sentence.split_whitespace().collect();
    let figure = |pair: &[&str]| {
        let (number, unit) = (pair[0].trim_start_matches(['(', '+', '-']), pair[1]);
        let unit = unit.trim_end_matches([',', '.', ';', ':', ')']);
        let is_figure = number.parse::<f64>().is_ok() && UNITS.contains(&unit);
        is_figure.then(|| format!("{number} {unit}"))
    };
    words.windows(2).filter_map(figure).collect()
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

/// Returns the figures of a table with their units.
fn table_figures(table: &Table) -> Vec<Figure> {
    let of = |(cell, column): (&Cell, &Column)| match cell {
        Cell::Missing | Cell::Words(_) | Cell::Judged { .. } => Vec::new(),
        Cell::Value(value) => vec![Figure::new(*value, column.unit)],
        Cell::Interval { value, low, high } => {
            [value, low, high].map(|each| Figure::new(*each, column.unit)).to_vec()
        }
        Cell::Figure(figure) => vec![*figure],
        Cell::Scaled { figure, .. } => vec![*figure],
    };
    table.rows.iter().flat_map(|row| row.cells.iter().zip(&table.columns)).flat_map(of).collect()
}

/// Yields the key figures of a page.
fn key_figures(page: &Page) -> impl Iterator<Item = Figure> {
    page.key_figures.iter().flat_map(|key| [Some(key.figure), key.before]).flatten()
}

/// What a number in JSON measures, as the last word of its key tells.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Dimension {
    Time,
    Bytes,
    ByteRate,
    None,
}

/// A number in JSON, converted to the base unit.
#[derive(Debug)]
struct Number {
    value: f64,
    dimension: Dimension,
}

impl Number {
    /// Formats the number in every unit in which a page may show it.
    fn texts(&self) -> Vec<String> {
        let units = [
            Unit::Seconds,
            Unit::Bound,
            Unit::Bytes,
            Unit::ByteRate,
            Unit::Share,
            Unit::Achieved,
            Unit::Promise,
            Unit::Iops,
            Unit::Watts,
            Unit::Joules,
            Unit::Money(*b"EUR"),
            Unit::Money(*b"USD"),
        ];
        let text = |unit: Unit| match Figure::new(self.value.abs(), unit) {
            // The throughput for which a volume is set up.
            Figure { value, unit: Unit::ByteRate } if value % 1e6 == 0.0 => {
                format!("{} MB/s", value / 1e6)
            }
            figure => figure.text(),
        };
        units.into_iter().filter(|unit| self.may_be(*unit)).map(text).collect()
    }

    /// Returns whether a page may show the number as a figure in `unit`.
    fn may_be(&self, unit: Unit) -> bool {
        let expected = match unit {
            Unit::Seconds | Unit::Bound => Dimension::Time,
            Unit::Bytes => Dimension::Bytes,
            Unit::ByteRate => Dimension::ByteRate,
            _ => Dimension::None,
        };
        self.dimension == expected
    }
}

/// Returns every number in `data`, in base units. If a key has no unit, the unit of the enclosing
/// key applies.
fn numbers(data: &Value, dimension: Dimension, scale: f64) -> Vec<Number> {
    match data {
        Value::Number(number) => {
            vec![Number { value: number.as_f64().unwrap() * scale, dimension }]
        }
        Value::Array(all) => all.iter().flat_map(|one| numbers(one, dimension, scale)).collect(),
        Value::Object(fields) => {
            // A field of a row may name the quantity, and thus its unit.
            let name = fields.get("name").and_then(Value::as_str);
            let (dimension, scale) = name.and_then(unit_of_key).unwrap_or((dimension, scale));
            let of = |(key, value): (&String, &Value)| {
                let (dimension, scale) = unit_of_key(key).unwrap_or((dimension, scale));
                numbers(value, dimension, scale)
            };
            fields.iter().flat_map(of).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the dimension and the scale that the end of a key stands for.
fn unit_of_key(key: &str) -> Option<(Dimension, f64)> {
    let is_of_none =
        |word: &str| ["deviation", "share", "ratio"].iter().any(|of| word.starts_with(of));
    let has_none = key.split('_').any(is_of_none);
    if has_none && !key.ends_with("_percent") {
        return Some((Dimension::None, 1.0));
    }
    let units = [
        ("_mb_per_s", Dimension::ByteRate, 1e6),
        ("_bytes_per_s", Dimension::ByteRate, 1.0),
        ("_per_s", Dimension::None, 1.0),
        ("_us", Dimension::Time, 1e-6),
        ("_ms", Dimension::Time, 1e-3),
        ("_s", Dimension::Time, 1.0),
        ("_kib", Dimension::Bytes, 1024.0),
        ("_mib", Dimension::Bytes, 1_048_576.0),
        ("_bytes", Dimension::Bytes, 1.0),
        ("_percent", Dimension::None, 0.01),
    ];
    let unit = units.iter().find(|(end, ..)| key.ends_with(end) || key == &end[1..])?;
    Some((unit.1, unit.2))
}
