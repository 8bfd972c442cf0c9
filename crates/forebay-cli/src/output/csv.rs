//! Formats an answer as CSV: the rows of its main table, with the same column names as in JSON.
//!
//! The main table is the list under the first of the answer's keys that is in [`TABLES`], or a
//! structure under such a key that itself contains rows. An answer without such a key becomes a
//! single row. An entry that contains rows of its own ([`WITHIN`]) becomes one CSV row per inner
//! row, each beginning with the entry's own fields.
//!
//! Within a row, fields of nested structures become columns named `outer.inner`. A list of plain
//! values becomes one value, separated by spaces. The entries of a list in [`NUMBERED`] become the
//! columns `name.1`, `name.2` and so on. Other lists are available only in JSON and omitted here.
//! Missing values are empty. Quoting follows RFC 4180.

use serde_json::{Map, Value};

/// The keys of lists that are main tables.
const TABLES: [&str; 8] =
    [ROWS, "ranking", "points", "features", "runs", "traces", "backs", "by_thread"];
const ROWS: &str = "rows";
/// The keys of lists of rows within an entry of the main table.
const WITHIN: [&str; 2] = [ROWS, "exports"];

/// The keys of short lists within a row whose entries become numbered columns.
const NUMBERED: [&str; 5] = ["answered", "disks", "operations", "tiers", "write_ms"];

/// The names and values of the columns in a row.
type Cells = Vec<(String, String)>;

/// Formats `answer` as CSV with a header line, without the final newline.
pub(super) fn of(answer: &Value) -> String {
    let Value::Object(fields) = answer else { return String::new() };
    let table = TABLES.iter().find_map(|name| match fields.get(*name)? {
        Value::Array(entries) => Some(entries.iter().flat_map(rows_of).collect::<Vec<_>>()),
        Value::Object(fields) => Some(own(fields)?.1.iter().map(flat).collect()),
        _ => None,
    });
    let rows = table.unwrap_or_else(|| {
        let mut row = Vec::new();
        fields.iter().for_each(|(key, value)| flatten(key, value, &mut row));
        vec![row]
    });
    let mut columns: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flatten() {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    let line = |row: &Cells| {
        let cell = |column: &&str| {
            let found = row.iter().find(|(name, _)| name == column);
            found.map_or(String::new(), |(_, value)| quoted(value))
        };
        columns.iter().map(cell).collect::<Vec<_>>().join(",")
    };
    let header = columns.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(",");
    std::iter::once(header).chain(rows.iter().map(line)).collect::<Vec<_>>().join("\n")
}

/// Returns the list of rows within an entry and its key, if there is one.
fn own(fields: &Map<String, Value>) -> Option<(&str, &[Value])> {
    fields.iter().find_map(|(name, value)| match value {
        Value::Array(rows) if WITHIN.contains(&name.as_str()) => {
            Some((name.as_str(), rows.as_slice()))
        }
        _ => None,
    })
}

/// Returns the CSV rows of an entry. The columns of exports are named `exports.name`.
fn rows_of(entry: &Value) -> Vec<Cells> {
    let itself = flat(entry);
    let Value::Object(fields) = entry else { return vec![itself] };
    let Some((name, rows)) = own(fields) else { return vec![itself] };
    let row = |row: &Value| {
        let mut cells = itself.clone();
        flatten(if name == ROWS { "" } else { name }, row, &mut cells);
        cells
    };
    rows.iter().map(row).collect()
}

/// Flattens the nested fields of a row into columns.
fn flat(row: &Value) -> Cells {
    let mut cells = Vec::new();
    flatten("", row, &mut cells);
    cells
}

/// Formats a plain value. Returns `None` for lists and structures.
fn leaf(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        Value::Bool(is) => Some(is.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

fn flatten(name: &str, value: &Value, cells: &mut Cells) {
    match value {
        Value::Array(list) => {
            let words: Option<Vec<String>> = list.iter().map(leaf).collect();
            let last = name.rsplit('.').next().unwrap_or(name);
            match words {
                Some(words) => cells.push((name.to_string(), words.join(" "))),
                None if NUMBERED.contains(&last) => {
                    for (at, value) in list.iter().enumerate() {
                        flatten(&format!("{name}.{}", at + 1), value, cells);
                    }
                }
                None => {}
            }
        }
        Value::Object(fields) => {
            for (inner, value) in fields {
                let name = if name.is_empty() { inner.clone() } else { format!("{name}.{inner}") };
                flatten(&name, value, cells);
            }
        }
        plain => cells.push((name.to_string(), leaf(plain).unwrap_or_default())),
    }
}

fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    fn of(json: &str) -> Result<String, serde_json::Error> {
        serde_json::from_str(json).map(|value| super::of(&value))
    }

    #[test]
    fn the_first_table_is_written_with_its_columns_in_order() {
        let json = r#"{"schema_version": 2, "runs": [{"x": 1}], "rows": [
            {"b": 1.5, "a": "x,\"y\"", "in": {"k": true, "l": [1, 2], "m": [[]]}, "none": null},
            {"b": -2, "c": "two\nlines"}]}"#;
        let expected =
            "b,a,in.k,in.l,none,c\n1.5,\"x,\"\"y\"\"\",true,1 2,,\n-2,,,,,\"two\nlines\"";
        assert_eq!(of(json).unwrap(), expected);
    }

    #[test]
    fn nested_rows_of_a_table_become_rows() {
        let json = r#"{"schema_version": 2, "epoch_s": 3, "traces": [
            {"trace": "a", "rows": [{"plan": "x", "w": 1}, {"plan": "y", "w": 2}], "epochs": 7},
            {"trace": "b", "rows": [], "epochs": 8},
            {"trace": "c", "rows": [{"plan": "z"}], "epochs": 9}]}"#;
        assert_eq!(of(json).unwrap(), "trace,epochs,plan,w\na,7,x,1\na,7,y,2\nc,9,z,");
        let json = r#"{"backs": [{"name": "a", "exports": [{"name": "x"}, {"name": "y"}], "disks": [{}]}]}"#;
        assert_eq!(of(json).unwrap(), "name,exports.name\na,x\na,y");
        let json = r#"{"requests": 5, "by_thread": {"threads": 2, "rows": [{"label": "x"}, {"label": "y"}]}}"#;
        assert_eq!(of(json).unwrap(), "label\nx\ny");
    }

    #[test]
    fn entries_of_a_short_list_become_numbered_columns() {
        let json = r#"{"rows": [
            {"w": 1, "write_ms": [[1, 2], [3]], "in": {"tiers": [{"kept": true}, {"kept": false}]}},
            {"w": 2, "write_ms": [], "in": {"tiers": [{"kept": null}]}}]}"#;
        let expected = "w,write_ms.1,write_ms.2,in.tiers.1.kept,in.tiers.2.kept,write_ms\n1,1 2,3,true,false,\n2,,,,,";
        assert_eq!(of(json).unwrap(), expected);
    }

    #[test]
    fn delimiters_and_line_breaks_are_quoted() {
        let json = r#"{"rows": [{"a,b": "x\ry", "c\"d": " z "}]}"#;
        assert_eq!(of(json).unwrap(), "\"a,b\",\"c\"\"d\"\n\"x\ry\", z ");
    }

    /// A fast but inexact parser would change the last digit of these numbers.
    #[test]
    fn figures_keep_their_last_digit() {
        for figure in ["31.245270191439438", "121.48791951161945", "0.30000000000000004"] {
            assert_eq!(of(&format!(r#"{{"a": {figure}}}"#)).unwrap(), format!("a\n{figure}"));
        }
    }

    #[test]
    fn the_first_list_of_objects_is_the_table() {
        for (at, name) in super::TABLES.iter().enumerate() {
            let rest = super::TABLES[at..].iter().rev();
            let lists = rest.map(|name| format!(r#""{name}": [{{"is": "{name}"}}]"#));
            let json = format!("{{{}}}", lists.collect::<Vec<_>>().join(", "));
            assert_eq!(of(&json).unwrap(), format!("is\n{name}"));
        }
        // A structure without rows is not a table, even if its key is in the list.
        assert_eq!(of(r#"{"runs": {"count": 1}, "all": 2}"#).unwrap(), "runs.count,all\n1,2");
    }

    #[test]
    fn an_answer_without_a_table_is_one_row() {
        let json = r#"{"schema_version": 2, "trace": "t", "size": {"mean": 4096.0}, "all": [1]}"#;
        assert_eq!(of(json).unwrap(), "schema_version,trace,size.mean,all\n2,t,4096.0,1");
        assert_eq!(of(r#"{"rows": []}"#).unwrap(), "");
    }
}
