//! Formats figures for all tables, sentences and pages: with three digits, and in a unit that suits
//! the magnitude.
//!
//! Sizes use binary units (1 KiB = 1024 B). Rates use decimal units (1 MB/s = 1 000 000 B/s), like
//! the data sheets of drives and links. NaN is shown as [`NONE`].

/// The text that is shown for a missing figure.
pub const NONE: &str = "-";

/// Formats a value with three digits; if it has more than three before the decimal point, with all
/// of these.
pub fn significant(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    match value.abs() {
        0.0..1e-9 => "0".to_owned(),
        0.0..0.0009995 => format!("{value:.2e}"),
        0.0..0.009995 => format!("{value:.5}"),
        0.0..0.09995 => format!("{value:.4}"),
        0.0..0.9995 => format!("{value:.3}"),
        0.0..9.995 => format!("{value:.2}"),
        0.0..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Formats a figure with `shown`, or returns [`NONE`] if the figure is missing.
pub fn or_none(value: Option<f64>, shown: impl Fn(f64) -> String) -> String {
    value.map_or(NONE.to_owned(), shown)
}

/// Formats `value` in the largest of `units` in which it is at least 1, or else in the smallest.
/// `units` are given with their sizes, in decreasing order.
fn in_unit(value: f64, units: &[(f64, &str)], shown: impl Fn(f64) -> String) -> String {
    let fits = |unit: &&(f64, &str)| value.abs() >= unit.0 * 0.9995;
    match units.iter().find(fits).or(units.last()) {
        Some((worth, unit)) if value.is_finite() => format!("{} {unit}", shown(value / worth)),
        _ => NONE.to_owned(),
    }
}

/// Formats an amount of money to the cent, whatever its size, so that sentences and tables agree.
/// `currency` is the currency's three-letter code.
pub fn money(amount: f64, currency: &str) -> String {
    match amount.is_finite() {
        true => format!("{amount:.2} {currency}"),
        false => NONE.to_owned(),
    }
}

/// Formats a time given in seconds.
pub fn seconds(s: f64) -> String {
    match s.abs() {
        0.0 => "0 s".to_owned(),
        9_999.5.. => in_unit(s, &[(3600.0, "h")], significant),
        _ => in_unit(s, &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")], significant),
    }
}

/// Formats a time given in milliseconds.
pub fn millis(ms: f64) -> String {
    seconds(ms / 1e3)
}

/// Formats a time, given in milliseconds, that the user chose: with all its digits, and in the unit
/// that needs the fewest.
pub fn bound(ms: f64) -> String {
    match ms {
        _ if ms >= 3.6e6 && ms % 3.6e6 == 0.0 => format!("{} h", ms / 3.6e6),
        1000.0.. => format!("{} s", ms / 1e3),
        1.0.. => format!("{ms} ms"),
        0.0 => "0 s".to_owned(),
        _ => format!("{} µs", ms * 1e3),
    }
}

/// Formats a size given in bytes: without decimals if that is exact, as in 4 KiB, and otherwise
/// with three digits.
pub fn bytes(bytes: f64) -> String {
    const KIB: f64 = 1024.0;
    let units = [
        (KIB.powi(6), "EiB"),
        (KIB.powi(5), "PiB"),
        (KIB.powi(4), "TiB"),
        (KIB.powi(3), "GiB"),
        (KIB.powi(2), "MiB"),
        (KIB, "KiB"),
        (1.0, "B"),
    ];
    in_unit(bytes, &units, |value| match value.fract() == 0.0 {
        true => format!("{value:.0}"),
        false => significant(value),
    })
}

/// Formats a rate given in bytes per second.
pub fn rate(bytes_per_s: f64) -> String {
    in_unit(bytes_per_s, &[(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")], significant)
}

/// Formats a power given in watts.
pub fn watts(w: f64) -> String {
    in_unit(w, &[(1.0, "W")], significant)
}

/// Formats an energy given in joules.
pub fn joules(j: f64) -> String {
    in_unit(j, &[(1e6, "MJ"), (1e3, "kJ"), (1.0, "J")], significant)
}

/// Formats a share as a percentage.
pub fn percent(share: f64) -> String {
    let percentage = share * 100.0;
    match percentage.abs() {
        p if !p.is_finite() => NONE.to_owned(),
        0.0..0.005 => "0 %".to_owned(),
        0.0..9.995 => format!("{percentage:.2} %"),
        0.0..99.95 => format!("{percentage:.1} %"),
        _ => format!("{percentage:.0} %"),
    }
}

/// Formats a promised share as a percentage with all its digits, up to ten, as in 99.95 %.
pub fn promised(share: f64) -> String {
    let digits = format!("{:.10}", share * 100.0);
    format!("{} %", digits.trim_end_matches('0').trim_end_matches('.'))
}

/// Formats an achieved share as a percentage, rounded down so that a broken promise never appears
/// to be kept.
pub fn achieved(share: f64) -> String {
    // A tiny amount is added, because 0.9 / 3 * 3 is less than 0.9 in floating point.
    format!("{:.2} %", (share * 1e4 + 1e-9).floor() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_achieved_share_never_seems_larger_than_it_is() {
        for (share, shown) in [
            (0.9, "90.00 %"),
            (0.899_999, "89.99 %"),
            (0.999_99, "99.99 %"),
            (1.0, "100.00 %"),
            (0.9 / 3.0 * 3.0, "90.00 %"),
            (0.954_89, "95.48 %"),
            (0.0, "0.00 %"),
        ] {
            assert_eq!(achieved(share), shown, "{share}");
        }
        assert_eq!([0.9995, 1.0, 0.9].map(promised), ["99.95 %", "100 %", "90 %"]);
    }

    #[test]
    fn three_digits_whatever_the_size() {
        let shown = [1234.4, 999.6, 123.4, 12.34, 1.234, 0.1234, 0.01234, 0.001234, 0.0, -1.5];
        let expected =
            ["1234", "1000", "123", "12.3", "1.23", "0.123", "0.0123", "0.00123", "0", "-1.50"];
        assert_eq!(shown.map(significant), expected);
        // If rounding up adds a digit before the decimal point, one after it is dropped.
        assert_eq!([9.996, 99.96, 0.99951].map(significant), ["10.0", "100", "1.00"]);
        let small = [0.009996, 0.0009996, 0.0009994, -0.00004];
        assert_eq!(small.map(significant), ["0.0100", "0.00100", "9.99e-4", "-4.00e-5"]);
    }

    #[test]
    fn units_follow_the_size() {
        let times = [0.0, 2e-7, 2e-5, 0.0123, 0.9996, 59.94, 733.4, 9_999.0, 9_999.6, 86_400.0];
        let expected = [
            "0 s",
            "0.200 µs",
            "20.0 µs",
            "12.3 ms",
            "1.00 s",
            "59.9 s",
            "733 s",
            "9999 s",
            "2.78 h",
            "24.0 h",
        ];
        assert_eq!(times.map(seconds), expected);
        assert_eq!(
            [0.236, 73.3, 785.0, 1234.0].map(millis),
            ["236 µs", "73.3 ms", "785 ms", "1.23 s"]
        );
        let sizes =
            [0.0, 512.0, 4096.0, 1536.0, 1023.0, 1_048_576.0, 13.3e9, 2e12, u64::MAX as f64];
        let expected = [
            "0 B", "512 B", "4 KiB", "1.50 KiB", "1023 B", "1 MiB", "12.4 GiB", "1.82 TiB",
            "16 EiB",
        ];
        assert_eq!(sizes.map(bytes), expected);
        assert_eq!([10.0, 1500.0, 0.25, 0.0].map(bound), ["10 ms", "1.5 s", "250 µs", "0 s"]);
        assert_eq!(
            [59.3e6, 999.0, 7.45e9, 1.5e3].map(rate),
            ["59.3 MB/s", "999 B/s", "7.45 GB/s", "1.50 kB/s"]
        );
        assert_eq!([13.0, 7.6, 0.5, 1234.5].map(watts), ["13.0 W", "7.60 W", "0.500 W", "1234 W"]);
        assert_eq!([12_345.0, 3.2, 4.2e6].map(joules), ["12.3 kJ", "3.20 J", "4.20 MJ"]);
    }

    #[test]
    fn money_is_told_to_the_cent() {
        let shown = [0.0, 0.126, 994.5, 999.996, 1e12].map(|amount| money(amount, "EUR"));
        let expected =
            ["0.00 EUR", "0.13 EUR", "994.50 EUR", "1000.00 EUR", "1000000000000.00 EUR"];
        assert_eq!(shown, expected);
        assert_eq!(money(f64::NAN, "EUR"), NONE);
    }

    #[test]
    fn shares_are_percentages() {
        let shown = [0.0, 0.00001, 0.0004, 0.0123, 0.2345, 0.9994, 0.9996, 1.0, 17.83].map(percent);
        let expected =
            ["0 %", "0 %", "0.04 %", "1.23 %", "23.4 %", "99.9 %", "100 %", "100 %", "1783 %"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn values_that_are_no_numbers_are_rejected() {
        for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for shown in [significant, seconds, bytes, rate, watts, joules, percent] {
                assert_eq!(shown(wrong), NONE);
            }
        }
        assert_eq!(
            (or_none(None, seconds), or_none(Some(2.0), seconds)),
            ("-".into(), "2.00 s".into())
        );
    }
}
