//! Shares as plans write them.

pub use forebay_ask::{Share as Fraction, duration as span_or_zero, positive_duration as span};

/// A share in percent, as many digits as it has, up to ten: 99.95 %.
pub fn percent(share: f64) -> String {
    let digits = format!("{:.10}", share * 100.0);
    format!("{} %", digits.trim_end_matches('0').trim_end_matches('.'))
}

/// A share that was found, in percent: 95.48 %. It is never said to be more than it is, so what is below a promise is seen to be.
pub fn share_found(share: f64) -> String {
    // A billionth more, as 0.9 / 3 * 3 is less than 0.9.
    format!("{:.2} %", (share * 1e4 + 1e-9).floor() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_never_said_to_be_more() {
        for (share, told) in [
            (0.9, "90.00 %"),
            (0.899_999, "89.99 %"),
            (0.999_99, "99.99 %"),
            (1.0, "100.00 %"),
            (0.9 / 3.0 * 3.0, "90.00 %"),
            (0.954_89, "95.48 %"),
            (0.0, "0.00 %"),
        ] {
            assert_eq!(share_found(share), told, "{share}");
        }
    }
}
