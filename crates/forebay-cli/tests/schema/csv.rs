//! Checks that CSV output contains the same values as JSON output.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The key of the list that is the main table, by the name of the answer. Otherwise the main table
/// is `rows`, or the answer is one row.
const TABLES: &[(&str, &str)] = &[
    ("describe", "by_thread"),
    ("simulate", "runs"),
    ("advise", "ranking"),
    ("cache", "points"),
    ("compare", "features"),
    ("plan power", "traces"),
    ("top", "backs"),
];

/// Lists whose entries become numbered columns.
const NUMBERED: [&str; 5] = ["answered", "disks", "operations", "tiers", "write_ms"];

/// Figures that differ from run to run.
const OF_A_RUN: [&str; 2] = ["simulated_requests_per_s", "openings"];

/// Parses `text` as CSV (RFC 4180) and returns its rows.
fn parse(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let (mut is_quoted, mut letters) = (false, text.chars().peekable());
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                cell.push('"');
                letters.next();
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !is_quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            other => cell.push(other),
        }
    }
    assert!(!is_quoted && row.is_empty() && cell.is_empty(), "it ends with a row's end: {text}");
    rows
}

/// Collects the plain values within `value` by their path.
fn leaves(at: &str, value: &Value, found: &mut BTreeMap<String, String>) {
    let plain = |value: &Value| match value {
        Value::Null => Some(String::new()),
        Value::String(text) => Some(text.clone()),
        Value::Array(_) | Value::Object(_) => None,
        other => Some(other.to_string()),
    };
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let dot = if at.is_empty() { "" } else { "." };
                leaves(&format!("{at}{dot}{name}"), value, found);
            }
        }
        Value::Array(items) => {
            let words: Option<Vec<String>> = items.iter().map(plain).collect();
            let is_numbered = NUMBERED.iter().any(|name| at.rsplit('.').next() == Some(name));
            match words {
                Some(words) => _ = found.insert(at.to_string(), words.join(" ")),
                None if is_numbered => {
                    let mut inner = |(n, item)| leaves(&format!("{at}.{}", n + 1), item, found);
                    items.iter().enumerate().for_each(&mut inner);
                }
                None => {}
            }
        }
        other => found.extend(plain(other).map(|text| (at.to_string(), text))),
    }
}

/// Returns the columns that are expected in each row for a verb's answer.
fn expected(verb: &str, answer: &Value) -> Vec<BTreeMap<String, String>> {
    let row = |value: &Value| {
        let mut found = BTreeMap::new();
        leaves("", value, &mut found);
        found
    };
    let list = TABLES.iter().find(|(named, _)| *named == verb).map_or("rows", |(_, list)| list);
    match &answer[list]["rows"] {
        _ if answer[list].is_null() => return vec![row(answer)],
        Value::Array(rows) => return rows.iter().map(row).collect(),
        _ => {}
    }
    let entries = answer[list].as_array().unwrap();
    let named = |value: &Value| {
        let mut found = BTreeMap::new();
        leaves("exports", value, &mut found);
        found
    };
    let each = entries.iter().flat_map(|entry| match (&entry["rows"], &entry["exports"]) {
        (Value::Array(rows), _) => rows.iter().map(|inner| [row(entry), row(inner)]).collect(),
        (_, Value::Array(rows)) => rows.iter().map(|inner| [row(entry), named(inner)]).collect(),
        _ => vec![[row(entry), BTreeMap::new()]],
    });
    each.map(|[outer, inner]| outer.into_iter().chain(inner).collect()).collect()
}

/// Asserts that `text` is the main table of `answer`. For figures that differ from run to run, only
/// the columns are compared.
pub(crate) fn hold(verb: &str, answer: &Value, text: &str, is_measured: bool) {
    let (rows, expected) = (parse(text), expected(verb, answer));
    let (titles, rows) = rows.split_first().unwrap();
    let known: BTreeSet<&String> = expected.iter().flat_map(|row| row.keys()).collect();
    assert_eq!(titles.iter().collect::<BTreeSet<_>>(), known, "{verb}");
    assert_eq!((titles.len(), rows.len()), (known.len(), expected.len()), "{verb}");
    for (row, expected) in rows.iter().zip(&expected) {
        assert_eq!(row.len(), titles.len(), "{verb}");
        let is_same = |title: &str| !is_measured && !OF_A_RUN.contains(&title);
        for (title, cell) in titles.iter().zip(row).filter(|(title, _)| is_same(title)) {
            let of_json = expected.get(title).map_or("", String::as_str);
            assert_eq!(cell, of_json, "{verb}, {title}");
        }
    }
}
