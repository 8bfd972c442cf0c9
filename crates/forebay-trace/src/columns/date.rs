//! Parses dates with a time of day, as written by pandas, Polars and DuckDB: `2026-01-31
//! 12:00:00.000345`, with a space or a `T` in between, and optionally followed by `Z`, `UTC`,
//! `+01`, `+0100` or `+01:00`. The default is UTC. A leap second equals the second that follows it.

use chrono::{DateTime, NaiveDateTime};

/// The position of the character between the date and the time of day.
const BETWEEN: usize = "2026-01-31".len();
/// The maximum length of a date, which has nine decimals and a time zone.
const BYTES_MAX: usize = 40;

/// Returns the nanoseconds from the beginning of 1970 to a date, or `None` if the field is not a
/// date between 1970 and 2262.
pub fn ns(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok().filter(|text| text.len() <= BYTES_MAX)?;
    let between = *field.get(BETWEEN)?;
    let (day, time) = (text.get(..BETWEEN)?, text.get(BETWEEN + 1..)?);
    // Require digits where the date parser would also accept spaces and signs.
    if !matches!(between, b' ' | b'T')
        || !field.first()?.is_ascii_digit()
        || !time.as_bytes().first()?.is_ascii_digit()
    {
        return None;
    }
    let universal =
        time.strip_suffix('Z').or(time.strip_suffix(" UTC")).or(time.strip_suffix("UTC"));
    let is_zoned = universal.is_none() && time.contains(['+', '-']);
    let text = format!("{day}T{}", universal.unwrap_or(time).replacen(',', ".", 1));
    let ns = match is_zoned {
        true => {
            DateTime::parse_from_str(&text, "%Y-%m-%dT%H:%M:%S%.f%#z").ok()?.timestamp_nanos_opt()
        }
        false => NaiveDateTime::parse_from_str(&text, "%Y-%m-%dT%H:%M:%S%.f")
            .ok()?
            .and_utc()
            .timestamp_nanos_opt(),
    };
    u64::try_from(ns?).ok()
}

/// Formats the day that contains the time `s`, in seconds since the beginning of 1970.
pub(crate) fn day_of(s: f64) -> String {
    DateTime::from_timestamp(s as i64, 0)
        .map_or_else(|| "no date".to_owned(), |date| date.format("%B %-d, %Y").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-01-31 12:00:00 UTC in nanoseconds since 1970.
    const NOON_NS: u64 = 1_769_860_800_000_000_000;

    #[test]
    fn dates_are_read_as_others_write_them() {
        for (text, expected) in [
            ("2026-01-31 12:00:00", NOON_NS),
            ("2026-01-31T12:00:00", NOON_NS),
            ("2026-01-31 12:00:00.000345", NOON_NS + 345_000),
            ("2026-01-31T12:00:00.123456789Z", NOON_NS + 123_456_789),
            ("2026-01-31 12:00:00 UTC", NOON_NS),
            ("2026-01-31 13:00:00+01", NOON_NS),
            ("2026-01-31 13:30:00.5+01:30", NOON_NS + 500_000_000),
            ("2026-01-31 07:00:00-0500", NOON_NS),
            ("1970-01-01 00:00:00.000000001", 1),
            ("1970-01-01 23:59:60", 86_400_000_000_000),
        ] {
            assert_eq!(ns(text.as_bytes()), Some(expected), "{text}");
        }
    }

    #[test]
    fn invalid_dates_are_rejected() {
        for text in [
            "",
            "2026-01-31",
            "2026-01-31 ",
            "2026-02-30 12:00:00",
            "2026-01-31 24:00:00",
            "2026-01-31  12:00:00",
            "+026-01-31 12:00:00",
            "2026-01-31 12:00:00 CET",
            "2026-01-31 12:00:00+",
            "2026-01-31x12:00:00",
            "1969-12-31 23:59:59",
            "2300-01-01 00:00:00",
            "31.01.2026 12:00:00",
            "1769860800",
            "2026-01-31 12:00:00.000000000000000000000000000000000",
            "2026-01-3é 12:00:00",
        ] {
            assert_eq!(ns(text.as_bytes()), None, "{text}");
        }
    }
}
