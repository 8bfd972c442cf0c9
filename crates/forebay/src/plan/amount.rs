//! Shares and times as decimals, exactly as they are written.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use forebay_core::Nanos;

/// Digits behind the point that are read.
const DIGITS_MAX: usize = 18;

/// A decimal that is not negative: `digits / 10^places`.
pub(super) fn decimal(text: &str) -> Option<(u64, u32)> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|b| b.is_ascii_digit());
    let part = part.trim_end_matches('0');
    if !is_number(whole) || !is_number(part) || text.trim_matches('.').is_empty() {
        return None;
    }
    if part.len() > DIGITS_MAX {
        return None;
    }
    let digits = format!("{whole}{part}").parse().ok()?;
    Some((digits, part.len() as u32))
}

/// A share of all requests, above 0 and at most 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction {
    digits: u64,
    places: u32,
}

impl Fraction {
    /// All requests.
    pub const ALL: Fraction = Fraction { digits: 1, places: 0 };

    /// The fewest of `requests` that are at least this share.
    pub fn of(self, requests: u64) -> u64 {
        let whole = u128::from(self.digits) * u128::from(requests);
        whole.div_ceil(10u128.pow(self.places)) as u64
    }

    /// As a number, for tables.
    pub fn as_f64(self) -> f64 {
        self.to_string().parse().unwrap_or(f64::NAN)
    }
}

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

impl Ord for Fraction {
    fn cmp(&self, other: &Fraction) -> Ordering {
        let scaled = |fraction: &Fraction, by: &Fraction| {
            u128::from(fraction.digits) * 10u128.pow(by.places)
        };
        scaled(self, other).cmp(&scaled(other, self))
    }
}

impl PartialOrd for Fraction {
    fn partial_cmp(&self, other: &Fraction) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl FromStr for Fraction {
    type Err = String;
    fn from_str(text: &str) -> Result<Fraction, String> {
        let wrong = || {
            format!("got '{text}', expected a fraction above 0 and at most 1, e.g. 0.99 for 99 %")
        };
        let (digits, places) = decimal(text).ok_or_else(wrong)?;
        if digits == 0 || u128::from(digits) > 10u128.pow(places) {
            return Err(wrong());
        }
        Ok(Fraction { digits, places })
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.places == 0 {
            return write!(f, "{}", self.digits);
        }
        write!(f, "0.{:0width$}", self.digits, width = self.places as usize)
    }
}

/// Units of time and their nanoseconds; longer names first where one ends another.
const UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("min", 60_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
    ("s", 1_000_000_000),
];

/// A span above zero, e.g. `5ms`, `0.5ms`, `1s`.
///
/// # Errors
/// What was got and what was expected.
pub fn span(text: &str) -> Result<Nanos, String> {
    let nanos = span_or_zero(text)?;
    if nanos == Nanos::ZERO {
        return Err(format!("got '{text}', expected a time above 0, e.g. 5ms"));
    }
    Ok(nanos)
}

/// A span that may be zero.
///
/// # Errors
/// As [`span`].
pub fn span_or_zero(text: &str) -> Result<Nanos, String> {
    let wrong = |expected: &str| format!("got '{text}', expected {expected}");
    let found = UNITS.iter().find_map(|(unit, worth)| Some((text.strip_suffix(unit)?, *worth)));
    let example = "a time with its unit (ns, us, ms, s, m or min, h, d) above 0, e.g. 5ms";
    let (number, worth) = found.ok_or_else(|| wrong(example))?;
    let (digits, places) = decimal(number.trim_end()).ok_or_else(|| wrong(example))?;
    let (units, power) = (u128::from(digits) * u128::from(worth), 10u128.pow(places));
    if units % power != 0 {
        return Err(wrong("whole nanoseconds"));
    }
    u64::try_from(units / power).map(Nanos).map_err(|_| wrong("less than 500 years"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_exact() {
        let of = |text: &str, requests| text.parse::<Fraction>().unwrap().of(requests);
        assert_eq!(of("0.9995", 10_000), 9995);
        assert_eq!(of("0.9995", 10_001), 9996);
        assert_eq!(of("0.1", 10), 1);
        assert_eq!(of("1.000", 7), 7);
        assert_eq!(of("0.000000000000000001", u64::MAX), 19);
        assert_eq!(of(".5", 3), 2);
        assert_eq!(of("0.999999999999999999", u64::MAX), u64::MAX - 18);
    }

    #[test]
    fn fractions_are_shown_as_written() {
        for text in ["0.9", "0.995", "1", "0.05"] {
            assert_eq!(text.parse::<Fraction>().unwrap().to_string(), text);
        }
        assert_eq!("0.950".parse::<Fraction>().unwrap().as_f64(), 0.95);
    }

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

    #[test]
    fn what_is_no_fraction_is_refused() {
        for text in
            ["0", "0.0", "1.01", "2", "-0.5", "", ".", "nan", "1e-3", "0.5.5", "99%", "+0.5", "½"]
        {
            assert!(text.parse::<Fraction>().unwrap_err().contains("above 0"), "{text}");
        }
        assert!("0.1234567890123456789".parse::<Fraction>().is_err());
    }

    #[test]
    fn fractions_have_an_order() {
        let parse = |text: &str| text.parse::<Fraction>().unwrap();
        assert_eq!(parse("0.9"), parse("0.90"));
        assert!(parse("0.99") < parse("0.995") && parse("0.05") < parse("0.5"));
        assert!(parse("1.0") > parse("0.999999999999999999"));
    }

    #[test]
    fn spans_are_exact() {
        assert_eq!(span("5ms"), Ok(Nanos(5_000_000)));
        assert_eq!(span("0.5 ms"), Ok(Nanos(500_000)));
        assert_eq!(span("100s"), Ok(Nanos(100_000_000_000)));
        assert_eq!(span("1min"), Ok(Nanos(60_000_000_000)));
        assert_eq!(span("5m"), Ok(Nanos(300_000_000_000)));
        assert_eq!(span("1h"), Ok(Nanos(3_600_000_000_000)));
        assert_eq!(span("2d"), Ok(Nanos(172_800_000_000_000)));
        assert_eq!(span("0.000001ms"), Ok(Nanos(1)));
        assert_eq!(span_or_zero("0s"), Ok(Nanos::ZERO));
        let wrong = [
            "0ms",
            "0d",
            "-1s",
            "nans",
            "infh",
            "-5ms",
            "5",
            "ms",
            "",
            "5 parsecs",
            "0.0000001ms",
            "600000000h",
            "1e3ms",
        ];
        for text in wrong {
            assert!(span(text).unwrap_err().contains("expected"), "{text}");
        }
    }
}
