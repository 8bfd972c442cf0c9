//! Breaks sentences into lines. Lines never break between a figure and its unit.

/// Units that must stay on the same line as the figure before them.
const UNITS: [&str; 24] = [
    "%", "points", "times", "s", "ms", "µs", "min", "h", "W", "J", "kJ", "MJ", "IOPS", "B", "KiB",
    "MiB", "GiB", "TiB", "PiB", "B/s", "kB/s", "MB/s", "GB/s", "GB",
];
/// A non-breaking space.
pub(crate) const NO_BREAK: char = '\u{a0}';

/// Replaces the space between a figure and its unit by a non-breaking space, throughout `text`.
pub fn joined(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    for word in text.split_inclusive([' ', '\n']) {
        let unit = word.trim_end_matches(|c: char| " \n.,:;)".contains(c));
        let figure = joined.strip_suffix(' ').map(str::len);
        let is_figure = |end: &usize| joined[..*end].ends_with(|c: char| c.is_ascii_digit());
        if let Some(end) = figure.filter(is_figure).filter(|_| UNITS.contains(&unit)) {
            joined.truncate(end);
            joined.push(NO_BREAK);
        }
        joined.push_str(word);
    }
    joined
}

/// Wraps `text` into lines of at most `columns` characters, and indents all but the first. A word
/// that is too long gets its own line.
pub fn wrapped(text: &str, columns: usize) -> String {
    let (mut lines, mut column) = (String::new(), 0);
    for word in joined(text).split_ascii_whitespace() {
        let width = word.chars().count();
        match column {
            0 => column = width,
            _ if column + 1 + width > columns => {
                lines.push_str("\n  ");
                column = 2 + width;
            }
            _ => {
                lines.push(' ');
                column += 1 + width;
            }
        }
        lines.push_str(word);
    }
    lines.replace(NO_BREAK, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_and_its_unit_stay_together() {
        assert_eq!(
            joined("a is 98.4 %, b 3 s\nin 2 ms."),
            "a is 98.4\u{a0}%, b 3\u{a0}s\nin 2\u{a0}ms."
        );
        assert_eq!(joined("it is s  % 5 of"), "it is s  % 5 of");
    }

    #[test]
    fn lines_break_at_the_requested_width() {
        assert_eq!(wrapped("one two three  four", 9), "one two\n  three\n  four");
        assert_eq!(wrapped("a is 98.4 %, b 3 s", 9), "a is\n  98.4 %,\n  b 3 s");
        assert_eq!(
            (wrapped("", 9), wrapped("a\nbcdefghijkl", 3)),
            (String::new(), "a\n  bcdefghijkl".into())
        );
    }
}
