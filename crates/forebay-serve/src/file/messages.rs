//! Messages about unknown keys, and about values of the wrong type, in the configuration file.

use std::ops::Range;

use forebay_core::contract::suggestion;

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
/// message names the key and a valid value.
pub(super) fn plain(text: &str, span: Range<usize>, message: &str) -> String {
    let other = || with_suggestion(&message.replace('\n', " "));
    let Some((key, value)) = assigned(text, &span) else {
        return single_table(text, &span, message).unwrap_or_else(other);
    };
    let example = EXAMPLES.iter().find(|(known, _)| *known == key).map(|(_, example)| *example);
    let bare = Some(value).filter(|value| !value.contains(['"', '\'', '[', ' ']));
    let quoted = example.or(bare).unwrap_or("...");
    let in_quotes = format!("expected a text in quotes, as in {key} = \"{quoted}\"");
    if message.contains("string values must be quoted") {
        return format!("{key}: {in_quotes}");
    }
    if message.starts_with("unknown variant") {
        return format!("{key}: {}", other());
    }
    let invalid = ["invalid type: ", "invalid value: "];
    let invalid = invalid.iter().find_map(|what| message.strip_prefix(what));
    let expected = invalid.and_then(|it| it.split_once(", expected "));
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

/// The maximum number of names to list after the one that was probably meant.
const LISTED_MAX: usize = 12;

/// Adds the name that was probably meant to a message such as "unknown field `a`, expected one of
/// `b`, `c`".
fn with_suggestion(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let Some(((what, names), head)) = quoted.split_first().zip(message.split_once(", expected "))
    else {
        return message.into();
    };
    match message.starts_with("unknown ") {
        true => match suggestion(what, names) {
            near if !near.is_empty() && names.len() > LISTED_MAX => format!("{}{near}", head.0),
            near => format!("{}{near}, expected {}", head.0, head.1),
        },
        false => message.into(),
    }
}

/// Returns a message about `[disk]` instead of `[[disk]]`.
fn single_table(text: &str, span: &Range<usize>, message: &str) -> Option<String> {
    if !message.starts_with("invalid type: map, expected a sequence") {
        return None;
    }
    let begin = text.get(..span.start)?.rfind('\n').map_or(0, |at| at + 1);
    let line = text.get(begin..)?.lines().next()?;
    let name = line.trim().strip_prefix('[')?.split(']').next()?.trim();
    Some(format!("[{name}]: expected [[{name}]], because there may be several"))
}

/// Returns the key of the line in which `span` begins, and its value.
fn assigned<'a>(text: &'a str, span: &Range<usize>) -> Option<(&'a str, &'a str)> {
    let begin = text.get(..span.start)?.rfind('\n').map_or(0, |at| at + 1);
    let (key, value) = text.get(begin..)?.lines().next()?.split_once('=')?;
    let key = key.trim();
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    // If the span is that of the value, use it, because it excludes comments.
    let exact = text.get(span.clone()).filter(|exact| value.contains(exact) && !exact.is_empty());
    is_key.then_some((key, exact.unwrap_or(value.trim())))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::file::parse;

    const DISK: &str = "socket = \"s\"\n[[disk]]\nname = \"data\"\nfile = \"a.img\"\n";

    fn said(text: &str) -> String {
        parse(Path::new("c.toml"), text).unwrap_err().to_string()
    }

    #[test]
    fn names_that_were_probably_meant_are_suggested() {
        for (line, near) in [
            ("depht = 4", "depth"),
            ("polcy = \"noop\"", "policy"),
            ("driver = \"iouring\"", "io_uring"),
            ("streams = \"conections\"", "connections"),
            ("capacity = \"mesured\"", "measured"),
            ("policy = \"mq-deadlin\"", "mq-deadline"),
            ("[[disks]]", "disk"),
            ("[[volume]]\nname = \"v\"\ndrives = [\"d\"]\nscrub = \"weely\"", "weekly"),
            ("[[export]]\nname = \"x\"\non = \"dta\"", "data"),
            ("[[export]]\nname = \"x\"\non = \"data\"\nkeep_iop = 3", "keep_iops"),
            ("[[export]]\nname = \"x\"\non = \"data\"\nwithn = \"3ms\"", "within"),
            ("[[export]]\nname = \"x\"\non = \"data\"\nsize = \"1.5Gib\"", "1.5GiB"),
        ] {
            let said = said(&format!("{DISK}{line}\n"));
            assert!(said.contains(&format!("(did you mean {near}?)")), "{line}: {said}");
            assert!(said.len() < 300, "{line}: {said}");
        }
        for line in ["sokcet = \"s\"", "socket_group = \"rot\""] {
            assert!(said(&format!("{line}\n{DISK}")).contains("(did you mean "), "{line}");
        }
        assert!(!said(&format!("{DISK}unrelated = 3")).contains("did you mean"));
        assert!(
            said(&format!("{DISK}streams = \"all\""))
                .contains("streams: unknown variant `all`, expected")
        );
    }

    #[test]
    fn wrong_values_name_their_key_and_a_right_value() {
        let promise = |iops: &str, within: &str| {
            let on = "[[export]]\nname = \"x\"\non = \"data\"\n";
            format!("{DISK}capacity_iops = 900\n{on}keep_iops = {iops}\nwithin = \"{within}\"\n")
        };
        for (text, expected) in [
            (DISK.replace("[[disk]]", "[disk]"), "line 2: [disk]: expected [[disk]], because"),
            (format!("{DISK}[export]\nname = \"x\"\n"), "[export]: expected [[export]], because"),
            (format!("{DISK}depth = -4\n"), "depth: got -4, expected a number, such as depth = 8"),
            (format!("{DISK}depth = 99999999999\n"), "depth: got 99999999999, expected a number"),
            (format!("{DISK}capacity_iops = -1\n"), "capacity_iops: got -1, expected a number"),
            (promise("30", "1h"), "within: got '1h', expected a time with its unit (us, ms or s)"),
            (
                promise("30", "1min"),
                "within: got '1min', expected a time with its unit (us, ms or s)",
            ),
            (
                promise("9223372036854775806", "1s"),
                "keep_iops: got 9223372036854775806, expected 1 to 1000000000",
            ),
            (promise("-3", "1s"), "keep_iops: got -3, expected a number"),
            (DISK.replace("\"data\"", "\"\""), "name: got an empty name"),
            (
                format!("socket_mode = \"0\"\n{DISK}"),
                "socket_mode: got '0', which lets nobody connect",
            ),
        ] {
            let said = said(&text);
            assert!(said.contains(expected) && !said.contains("promised:"), "{said}");
        }
    }
}
