//! Formats figures for sentences. A figure with a unit looks the same in sentences and in tables.

pub(crate) use forebay_words::plural::counted;
use forebay_words::quantities;
pub use forebay_words::quantities::{
    achieved, bound, bytes, millis, money, percent, promised, seconds, watts,
};

/// Formats a ratio or another number without a unit: with three digits, but without trailing zeros,
/// as in "2 times".
pub fn significant(value: f64) -> String {
    let shown = quantities::significant(value);
    match shown.contains('.') && !shown.contains('e') {
        true => shown.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => shown,
    }
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

/// Formats the relative change from `before` to `now` with its sign, as in "-12.3 %".
pub fn change(now: f64, before: f64) -> String {
    match now / before - 1.0 {
        _ if before <= 0.0 => "no baseline".to_string(),
        share if share < 0.0 => percent(share),
        share => format!("+{}", percent(share)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_numbers_lose_their_zeros() {
        assert_eq!([1.0, 0.0001, 0.001, 20.5].map(significant), ["1", "1.00e-4", "0.001", "20.5"]);
        let changes = [(88.0, 100.0), (103.4, 100.0), (100.0, 100.0), (1.0, 0.0)];
        let expected = ["-12.0 %", "+3.40 %", "+0 %", "no baseline"];
        assert_eq!(changes.map(|(now, before)| change(now, before)), expected);
    }
}
