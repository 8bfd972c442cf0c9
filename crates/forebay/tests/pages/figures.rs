//! The figures of a page beside those of the answer that it is of.

use roxmltree::{Document, Node, ParsingOptions};

/// A table as text.
pub(crate) struct Table {
    pub(crate) heads: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

fn parse(page: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..Default::default() };
    Document::parse_with_options(page, options).unwrap()
}

fn text_of(node: Node<'_, '_>) -> String {
    node.descendants().filter(|one| one.is_text()).filter_map(|one| one.text()).collect()
}

/// The first table with a column called `head`.
pub(crate) fn table(page: &str, head: &str) -> Table {
    let document = parse(page);
    let of = |table: Node<'_, '_>| {
        let rows = || table.descendants().filter(|node| node.has_tag_name("tr"));
        let cells = |row: Node<'_, '_>| -> Vec<String> {
            row.children().filter(Node::is_element).map(text_of).collect()
        };
        let mut all: Vec<Vec<String>> = rows().map(cells).collect();
        Table { heads: all.remove(0), rows: all }
    };
    let mut tables = document.descendants().filter(|node| node.has_tag_name("table")).map(of);
    let found = tables.find(|table| table.heads.iter().any(|title| title == head));
    found.unwrap_or_else(|| panic!("no column {head}"))
}

/// What the first words of a cell come to, in the base of their unit.
pub(crate) fn number(cell: &str) -> f64 {
    let plain = cell.replace('\u{202f}', "").replace('−', "-");
    let mut words = plain.split(|c: char| c.is_whitespace() || c == '\u{a0}');
    let number: f64 = words.next().unwrap().parse().unwrap_or_else(|_| panic!("{cell:?}"));
    number
        * match words.next().unwrap_or_default() {
            "MJ" => 1e6,
            "kJ" => 1e3,
            "%" => 0.01,
            "ms" => 1e-3,
            "µs" => 1e-6,
            _ => 1.0,
        }
}

/// Asserts that `cell` shows `value` to three digits.
#[track_caller]
pub(crate) fn shows(cell: &str, value: f64) {
    let found = number(cell);
    assert!((found - value).abs() <= value.abs() * 6e-3 + 1e-9, "{cell:?} is not {value}");
}
