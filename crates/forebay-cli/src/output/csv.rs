//! An answer as CSV: its table, one row a line, columns called as in JSON.
//!
//! The table is the answer's list under the first of [`TABLES`]; an answer without one is a table of one row. Fields of structures within a
//! row are columns called `outer.inner`; a list of plain values is one value, parted by blanks; other lists are left out, and JSON has them.
//! Absent values are empty. Quoting as in RFC
//! 4180.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// What lists of rows are called.
const TABLES: [&str; 5] = ["rows", "ranking", "points", "features", "runs"];

/// JSON that keeps the order of its fields.
enum Node {
    /// A value as it is written.
    Leaf(String),
    List(Vec<Node>),
    Fields(Vec<(String, Node)>),
}

/// `json`, an object, as CSV with a header, without the last line end.
pub(super) fn of(json: &str) -> serde_json::Result<String> {
    let Node::Fields(answer) = serde_json::from_str(json)? else { return Ok(String::new()) };
    let table = TABLES.iter().find_map(|name| {
        let (_, found) = answer.iter().find(|(key, _)| key == name)?;
        match found {
            Node::List(rows) => Some(rows.iter().map(flat).collect::<Vec<_>>()),
            _ => None,
        }
    });
    let rows = table.unwrap_or_else(|| {
        let mut row = Vec::new();
        answer.iter().for_each(|(key, value)| flatten(key, value, &mut row));
        vec![row]
    });
    let mut columns: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flatten() {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    let line = |row: &Vec<(String, String)>| {
        let cell = |column: &&str| {
            let found = row.iter().find(|(name, _)| name == column);
            found.map_or(String::new(), |(_, value)| quoted(value))
        };
        columns.iter().map(cell).collect::<Vec<_>>().join(",")
    };
    let header = columns.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(",");
    Ok(std::iter::once(header).chain(rows.iter().map(line)).collect::<Vec<_>>().join("\n"))
}

/// The columns of a row.
fn flat(row: &Node) -> Vec<(String, String)> {
    let mut cells = Vec::new();
    flatten("", row, &mut cells);
    cells
}

fn flatten(name: &str, value: &Node, cells: &mut Vec<(String, String)>) {
    match value {
        Node::Leaf(text) => cells.push((name.to_string(), text.clone())),
        Node::List(list) => {
            let leaf = |node: &Node| match node {
                Node::Leaf(text) => Some(text.clone()),
                _ => None,
            };
            let words: Option<Vec<String>> = list.iter().map(leaf).collect();
            cells.extend(words.map(|words| (name.to_string(), words.join(" "))));
        }
        Node::Fields(fields) => {
            for (inner, value) in fields {
                let name = if name.is_empty() { inner.clone() } else { format!("{name}.{inner}") };
                flatten(&name, value, cells);
            }
        }
    }
}

fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Node, D::Error> {
        from.deserialize_any(Reading)
    }
}

struct Reading;

impl<'de> Visitor<'de> for Reading {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Leaf(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Leaf(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Leaf(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Leaf(serde_json::Number::from_f64(value).map_or(String::new(), |n| n.to_string())))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Leaf(value.to_string()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Leaf(String::new()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = list.next_element()? {
            nodes.push(node);
        }
        Ok(Node::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Node::Fields(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn the_first_table_is_taken_with_its_columns_in_order() {
        let json = r#"{"schema_version": 2, "runs": [{"x": 1}], "rows": [
            {"b": 1.5, "a": "x,\"y\"", "in": {"k": true, "l": [1, 2], "m": [[]]}, "none": null},
            {"b": -2, "c": "two\nlines"}]}"#;
        let expected =
            "b,a,in.k,in.l,none,c\n1.5,\"x,\"\"y\"\"\",true,1 2,,\n-2,,,,,\"two\nlines\"";
        assert_eq!(of(json).unwrap(), expected);
    }

    #[test]
    fn an_answer_without_a_table_is_one_row() {
        let json = r#"{"schema_version": 2, "trace": "t", "size": {"mean": 4096.0}, "all": [1]}"#;
        assert_eq!(of(json).unwrap(), "schema_version,trace,size.mean,all\n2,t,4096.0,1");
        assert_eq!(of(r#"{"rows": []}"#).unwrap(), "");
    }
}
