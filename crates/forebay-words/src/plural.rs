//! Formats counts and lists in sentences.

/// Formats a count with its noun, as in "1 request" or "2 requests".
pub fn counted(count: u64, what: &str) -> String {
    if count == 1 {
        return format!("1 {what}");
    }
    match what.strip_suffix('y') {
        Some(stem) => format!("{count} {stem}ies"),
        None if what.ends_with("ch") || what.ends_with("sh") || what.ends_with("ss") => {
            format!("{count} {what}es")
        }
        None => format!("{count} {what}s"),
    }
}

/// Returns the form of a verb that suits the count: `one` or `many`.
pub fn verb<'a>(count: u64, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}

/// Joins names with commas and "and", as in "one, two and three".
pub fn listed(names: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names[..] {
        [ref most @ .., before, last] => {
            let first: String = most.iter().map(|name| format!("{name}, ")).collect();
            format!("{first}{before} and {last}")
        }
        ref few => few.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_takes_the_singular() {
        assert_eq!(counted(1, "request"), "1 request");
        assert_eq!([0, 2].map(|n| counted(n, "request")), ["0 requests", "2 requests"]);
        assert_eq!([1, 3].map(|n| counted(n, "switch")), ["1 switch", "3 switches"]);
        assert_eq!([1, 3].map(|n| counted(n, "flush")), ["1 flush", "3 flushes"]);
        assert_eq!(counted(2, "query"), "2 queries");
        let told = |names: &[&str]| listed(names);
        assert_eq!([told(&[]), told(&["a"])], ["", "a"]);
        assert_eq!([told(&["a", "b"]), told(&["a", "b", "c"])], ["a and b", "a, b and c"]);
        assert_eq!((verb(1, "is", "are"), verb(0, "is", "are")), ("is", "are"));
    }
}
