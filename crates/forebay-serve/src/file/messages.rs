//! Messages about values of the wrong type in the configuration file.

use std::ops::Range;

/// Texts that are examples of right values.
const EXAMPLES: [(&str, &str); 9] = [
    ("size", "10GiB"),
    ("offset", "10GiB"),
    ("memory", "1GiB"),
    ("within", "10ms"),
    ("socket_mode", "0660"),
    ("socket_group", "disk"),
    ("scrub", "weekly"),
    ("scrub_rate", "50MB"),
    ("tcp", "127.0.0.1:10809"),
];

/// Returns a message of the TOML parser about `span` of `text`. If a value has the wrong type, the
/// message names the key and a right value.
pub(super) fn plain(text: &str, span: Range<usize>, message: &str) -> String {
    let other = || message.replace('\n', " ");
    let Some((key, value)) = assigned(text, &span) else { return other() };
    let example = EXAMPLES.iter().find(|(known, _)| *known == key).map(|(_, example)| *example);
    let bare = Some(value).filter(|value| !value.contains(['"', '\'', '[', ' ']));
    let quoted = example.or(bare).unwrap_or("...");
    let in_quotes = format!("expected a text in quotes, as in {key} = \"{quoted}\"");
    if message.contains("string values must be quoted") {
        return format!("{key}: {in_quotes}");
    }
    let expected =
        message.strip_prefix("invalid type: ").and_then(|it| it.split_once(", expected "));
    let Some((_, expected)) = expected else { return other() };
    let expected = match expected {
        "u32" | "u64" => format!("expected a number, such as {key} = 8"),
        "a boolean" => "expected true or false, without quotes".into(),
        "a string" | "path string" => in_quotes,
        "a sequence" => format!("expected a list, as in {key} = [\"...\"]"),
        _ => return other(),
    };
    format!("{key}: got {value}, {expected}")
}

/// Returns the key of the line in which `span` begins, and its value.
fn assigned<'a>(text: &'a str, span: &Range<usize>) -> Option<(&'a str, &'a str)> {
    let begin = text.get(..span.start)?.rfind('\n').map_or(0, |at| at + 1);
    let (key, value) = text.get(begin..)?.lines().next()?.split_once('=')?;
    let key = key.trim();
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    // Without comments, if the span is that of the value.
    let exact = text.get(span.clone()).filter(|exact| value.contains(exact) && !exact.is_empty());
    is_key.then_some((key, exact.unwrap_or(value.trim())))
}
