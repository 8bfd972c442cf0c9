//! Formats figures for sentences: as in tables, but without trailing zeros.

pub(crate) use forebay_words::plural::counted;
use forebay_words::quantities;
pub use forebay_words::quantities::{achieved, bound, money, promised, watts};

/// Formats a number with three significant digits.
pub fn significant(value: f64) -> String {
    plain(&quantities::significant(value))
}

/// Formats a time given in seconds.
pub fn seconds(s: f64) -> String {
    plain(&quantities::seconds(s))
}

/// Formats how long a trace lasts, as `active_s` without gaps and their length if gaps are nearly
/// all of it.
pub fn lasting(duration_s: f64, active_s: Option<f64>) -> String {
    match active_s {
        Some(active_s) => {
            let gaps = seconds(duration_s - active_s);
            format!("{}, leaving out a gap of {gaps}", seconds(active_s))
        }
        None => seconds(duration_s),
    }
}

/// Formats a time given in milliseconds.
pub fn millis(ms: f64) -> String {
    plain(&quantities::millis(ms))
}

/// Formats a size given in bytes.
pub fn bytes(bytes: f64) -> String {
    plain(&quantities::bytes(bytes))
}

/// Formats a share as a percentage.
pub fn percent(share: f64) -> String {
    plain(&quantities::percent(share))
}

/// Formats the relative change from `before` to `now` with its sign, as in "-12.3 %".
pub fn change(now: f64, before: f64) -> String {
    match now / before - 1.0 {
        _ if before <= 0.0 => "no baseline".to_string(),
        share if share < 0.0 => percent(share),
        share => format!("+{}", percent(share)),
    }
}

/// Removes trailing zeros: "50.0 %" becomes "50 %", and "8.20 %" becomes "8.2 %".
fn plain(shown: &str) -> String {
    let (figure, unit) = match shown.find(' ') {
        Some(blank) => shown.split_at(blank),
        None => (shown, ""),
    };
    let figure = match figure.contains('.') && !figure.contains('e') {
        true => figure.trim_end_matches('0').trim_end_matches('.'),
        false => figure,
    };
    format!("{figure}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_figure_ends_in_zeros() {
        assert_eq!(
            [0.5, 0.082, 0.1234, 1.0, 0.0].map(percent),
            ["50 %", "8.2 %", "12.3 %", "100 %", "0 %"]
        );
        assert_eq!([50.0, 1000.0, 0.094].map(millis), ["50 ms", "1 s", "94 µs"]);
        assert_eq!(
            (seconds(410.0), significant(0.0001), significant(0.001), significant(20.0)),
            ("410 s".into(), "1.00e-4".into(), "0.001".into(), "20".into())
        );
        let changes = [(88.0, 100.0), (103.4, 100.0), (100.0, 100.0), (1.0, 0.0)];
        let expected = ["-12 %", "+3.4 %", "+0 %", "no baseline"];
        assert_eq!(changes.map(|(now, before)| change(now, before)), expected);
    }
}
