//! Figures with units. This module formats the figures of all renderers.

use forebay_words::quantities::{self, NONE};

/// The quantity that a figure measures, and its unit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Unit {
    /// A count, written with all digits.
    #[default]
    Count,
    /// A number without a unit, written with three digits.
    Number,
    /// A time in seconds, written in the unit that suits its magnitude.
    Seconds,
    /// A time in seconds that the user chose, written with all its digits.
    Bound,
    /// A size in bytes, written in binary units.
    Bytes,
    /// A data rate in bytes per second, written in decimal units.
    ByteRate,
    /// A share of a whole, written as a percentage.
    Share,
    /// A share that was achieved, written as a percentage and rounded down, so that it never
    /// appears to keep a promise that it breaks.
    Achieved,
    /// A promised share, written as a percentage with all its digits.
    Promise,
    /// Requests per second, rounded to a whole number from 10 on, and to three digits below.
    Iops,
    /// A power in watts.
    Watts,
    /// An energy in joules.
    Joules,
    /// An amount of money, written to the cent. Holds the currency's three-letter code.
    Money([u8; 3]),
}

/// A figure: a value with its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The value in the base unit: seconds, bytes, or a share of 1.
    pub value: f64,
    /// The unit of `value`.
    pub unit: Unit,
}

impl Figure {
    /// Creates a figure of `value` in `unit`.
    pub fn new(value: f64, unit: Unit) -> Figure {
        Figure { value, unit }
    }

    /// Formats the figure with its unit, for sentences and for tables that mix units.
    pub fn text(self) -> String {
        let Figure { value, unit } = self;
        if !value.is_finite() {
            return NONE.to_string();
        }
        match unit {
            Unit::Count => format!("{value:.0}"),
            Unit::Number => quantities::significant(value),
            Unit::Seconds => quantities::seconds(value),
            Unit::Bound => quantities::bound(value * 1e3),
            Unit::Bytes => quantities::bytes(value),
            Unit::ByteRate => quantities::rate(value),
            Unit::Share => quantities::percent(value),
            Unit::Achieved => quantities::achieved(value),
            Unit::Promise => quantities::promised(value),
            Unit::Iops => format!("{} IOPS", iops(value)),
            Unit::Watts => quantities::watts(value),
            Unit::Joules => quantities::joules(value),
            Unit::Money(currency) => quantities::money(value, &String::from_utf8_lossy(&currency)),
        }
    }
}

impl Unit {
    /// Returns the divisor for a column of `values`, and the unit for the column's head. The unit
    /// is chosen to suit the median value.
    pub fn of_column(self, values: &[f64]) -> (f64, &'static str) {
        let units: &[(f64, &'static str)] = match self {
            Unit::Seconds => &[(3600.0, "h"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs")],
            Unit::Bytes => &[
                (1_099_511_627_776.0, "TiB"),
                (1_073_741_824.0, "GiB"),
                (1_048_576.0, "MiB"),
                (1024.0, "KiB"),
                (1.0, "B"),
            ],
            Unit::ByteRate => &[(1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")],
            Unit::Joules => &[(1e6, "MJ"), (1e3, "kJ"), (1.0, "J")],
            Unit::Watts => &[(1.0, "W")],
            Unit::Iops => &[(1.0, "IOPS")],
            _ => &[(1.0, "")],
        };
        let mut sorted: Vec<f64> =
            values.iter().map(|value| value.abs()).filter(|v| v.is_finite() && *v > 0.0).collect();
        sorted.sort_by(f64::total_cmp);
        // Hours are used only from 10,000 seconds on, because sentences also use seconds up to
        // there.
        let is_large = |worth: f64, value: f64| match worth == 3600.0 {
            true => value >= 9_999.5,
            false => value >= worth * 0.9995,
        };
        let middle = sorted.get(sorted.len() / 2).copied().unwrap_or(1.0);
        let fits = units.iter().find(|(worth, _)| is_large(*worth, middle));
        *fits.or(units.last()).unwrap_or(&(1.0, ""))
    }

    /// Returns the divisor and the unit for a row of `values` whose name ends with the unit.
    /// Percentages, too, are then printed without their sign.
    pub fn of_row(self, values: &[f64]) -> (f64, &'static str) {
        match self {
            Unit::Share => (0.01, "%"),
            unit => unit.of_column(values),
        }
    }

    /// Formats a value of a column: divided by `worth`, and without its unit.
    pub fn in_column(self, value: f64, worth: f64) -> String {
        if !value.is_finite() {
            return NONE.to_string();
        }
        match self {
            Unit::Seconds | Unit::Bytes | Unit::ByteRate | Unit::Joules | Unit::Watts => {
                quantities::significant(value / worth)
            }
            Unit::Iops => iops(value),
            unit => Figure::new(value, unit).text(),
        }
    }
}

/// Formats a rate of requests, without its unit.
fn iops(per_s: f64) -> String {
    let is_whole = per_s.fract() == 0.0;
    if is_whole || per_s.abs() >= 10.0 {
        format!("{per_s:.0}")
    } else {
        quantities::significant(per_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_name_the_unit() {
        let shown = [
            Figure::new(0.0123, Unit::Seconds),
            Figure::new(0.01, Unit::Bound),
            Figure::new(0.9995, Unit::Promise),
            Figure::new(0.12345, Unit::Share),
            Figure::new(1521.0, Unit::Iops),
            Figure::new(7.8612, Unit::Iops),
            Figure::new(8.0, Unit::Iops),
            Figure::new(994.5, Unit::Money(*b"EUR")),
            Figure::new(f64::NAN, Unit::Bytes),
        ];
        let expected = [
            "12.3 ms",
            "10 ms",
            "99.95 %",
            "12.3 %",
            "1521 IOPS",
            "7.86 IOPS",
            "8 IOPS",
            "994.50 EUR",
            "-",
        ];
        assert_eq!(shown.map(Figure::text), expected);
    }

    #[test]
    fn a_column_has_one_unit() {
        let times = [0.0004, 0.012, 0.9, 12.0];
        let (worth, unit) = Unit::Seconds.of_column(&times);
        assert_eq!(unit, "ms");
        let shown: Vec<String> =
            times.iter().map(|time| Unit::Seconds.in_column(*time, worth)).collect();
        assert_eq!(shown, ["0.400", "12.0", "900", "12000"]);
        assert_eq!(Unit::Seconds.of_column(&[]), (1.0, "s"));
        assert_eq!(Unit::Seconds.of_column(&[9000.0]).1, "s");
        assert_eq!(Unit::Seconds.of_column(&[20_000.0]).1, "h");
        assert_eq!(Unit::Share.in_column(0.5, 1.0), "50.0 %");
    }
}
