//! Formats text and numbers for HTML pages.
//!
//! All text from outside passes through [`escape`] or [`name`]. Figures have three significant
//! digits and a unit; NaN is shown as a dash.

use forebay_words::quantities;

/// The text that is shown for a missing figure.
pub const NONE: &str = "–";

/// The maximum number of characters shown of a name.
const NAME_CHARACTERS_MAX: usize = 64;

/// Makes any text safe inside elements and attributes. Also replaces control characters, and
/// characters that change the writing direction, because they would garble the page.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(' '),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => safe.push('\u{fffd}'),
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            control if control.is_control() => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}

/// Escapes a name from outside, and shortens it to fit a table.
pub fn name(text: &str) -> String {
    match text.char_indices().nth(NAME_CHARACTERS_MAX) {
        Some((end, _)) => escape(&text[..end]) + "…",
        None if text.is_empty() => "(no name)".to_string(),
        None => escape(text),
    }
}

/// Formats a value with three significant digits. Values from 1000 on are rounded to whole numbers,
/// whose digits are in groups of three.
pub fn significant(value: f64) -> String {
    match value.abs() {
        999.5.. if value.is_finite() => grouped(value),
        _ => typeset(&quantities::significant(value)),
    }
}

/// Applies typographic conventions to a formatted figure: a dash if the figure is missing, a real
/// minus sign, a non-breaking space before the unit, and spaces between thousands.
pub fn typeset(shown: &str) -> String {
    if shown == quantities::NONE {
        return NONE.to_string();
    }
    let (figure, unit) = shown.split_once(' ').map_or((shown, None), |(f, unit)| (f, Some(unit)));
    let figure = match figure.parse::<f64>() {
        Ok(value) if value.abs() >= 999.5 => match figure.split_once('.') {
            Some((whole, part)) => format!("{}.{part}", grouped(whole.parse().unwrap_or(value))),
            None => grouped(value),
        },
        _ => figure.replace('-', "−"),
    };
    unit.map_or(figure.clone(), |unit| format!("{figure}\u{a0}{unit}"))
}

fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value < 0.0 { "−" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with all its digits.
pub fn count(count: u64) -> String {
    grouped(count as f64)
}

/// Formats a time in seconds.
pub fn seconds(s: f64) -> String {
    typeset(&quantities::seconds(s))
}

/// Formats a size in binary units.
pub fn bytes(bytes: f64) -> String {
    typeset(&quantities::bytes(bytes))
}

/// Formats a share as a percentage.
pub fn percent(share: f64) -> String {
    typeset(&quantities::percent(share))
}

/// Returns `part / whole`, or 0 if `whole` is 0.
pub fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 && part.is_finite() { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_quotes_and_control_characters_are_harmless() {
        assert_eq!(escape("<a b='\"&'>"), "&lt;a b=&#39;&quot;&amp;&#39;&gt;");
        assert_eq!(escape("a\0b\u{202e}c\u{1b}"), "a\u{fffd}b\u{fffd}c\u{fffd}");
        assert_eq!(name(&"é".repeat(70)), "é".repeat(64) + "…");
        assert_eq!(name(""), "(no name)");
    }

    #[test]
    fn three_significant_digits() {
        let shown = [1234.4, 999.6, 123.4, 12.34, 1.234, 0.1234, 0.01234, 0.0].map(significant);
        let expected =
            ["1\u{202f}234", "1\u{202f}000", "123", "12.3", "1.23", "0.123", "0.0123", "0"];
        assert_eq!(shown, expected);
        assert_eq!(significant(-1.5), "−1.50");
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
    }

    #[test]
    fn units_follow_the_size() {
        assert_eq!(seconds(733.4), "733\u{a0}s");
        assert_eq!(seconds(0.0123), "12.3\u{a0}ms");
        assert_eq!(seconds(2e-5), "20.0\u{a0}µs");
        assert_eq!(seconds(86_400.0), "24.0\u{a0}h");
        assert_eq!(bytes(1536.0), "1.50\u{a0}KiB");
        assert_eq!(percent(0.2345), "23.4\u{a0}%");
        assert_eq!(percent(-0.011), "−1.10\u{a0}%");
    }

    #[test]
    fn values_that_are_no_numbers_become_a_dash() {
        for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for shown in [significant(wrong), seconds(wrong), bytes(wrong), percent(wrong)] {
                assert_eq!(shown, NONE);
            }
        }
        assert_eq!(ratio(1.0, 0.0), 0.0);
        assert_eq!(ratio(f64::NAN, 1.0), 0.0);
    }
}
