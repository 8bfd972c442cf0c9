//! Parses time spans in the notation of pandas, Python, DuckDB and Polars: `0 days 00:00:00.001`,
//! `1 day, 2:03:04.5`, `00:00:00.001`, `PT0.001S`.

use crate::fields::{decimal, digits};

const SECOND_NS: u64 = 1_000_000_000;

/// A span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    /// The length in nanoseconds.
    Ns(u64),
    Negative,
}

/// Parses a time span. Returns `None` for anything else, including plain numbers.
pub(crate) fn of(field: &[u8]) -> Option<Span> {
    let text = std::str::from_utf8(field).ok()?.trim();
    let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let ns = match text.strip_prefix('P') {
        Some(rest) => iso_ns(rest)?,
        None => clock_ns(text)?,
    };
    Some(if is_negative && ns > 0 { Span::Negative } else { Span::Ns(ns) })
}

/// Returns whether a field must be a time span, because it cannot be a time of day.
pub(crate) fn is_certain(field: &[u8]) -> bool {
    let has_days = memchr::memmem::find(field, b"day").is_some();
    (has_days || field.starts_with(b"P") || field.starts_with(b"-P")) && of(field).is_some()
}

/// Parses days and a time: `0 days 00:00:00.001`, `1 day, 2:03:04`, `1 days`, `00:00:00.001`. In a
/// negative span, the time may have a plus sign.
fn clock_ns(text: &str) -> Option<u64> {
    let (days, time) = match text.split_once(" day") {
        Some((days, time)) => {
            let time = time.strip_prefix('s').unwrap_or(time).trim_start_matches([',', ' ']);
            (digits(days.as_bytes())?, time.strip_prefix('+').unwrap_or(time))
        }
        None => (0, text),
    };
    let days_ns = days.checked_mul(86_400 * SECOND_NS)?;
    if time.is_empty() {
        return Some(days_ns).filter(|_| text.contains("day"));
    }
    let mut parts = time.split(':');
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next()?);
    let below = |part: &str, most| digits(part.as_bytes()).filter(|n| *n < most);
    let (hours, minutes) = (digits(hours.as_bytes())?, below(minutes, 60)?);
    let (seconds, ns) =
        decimal(seconds.as_bytes()).filter(|(s, _)| *s < 60 && parts.next().is_none())?;
    let whole = hours.checked_mul(3600)?.checked_add(minutes * 60 + seconds)?;
    days_ns.checked_add(whole.checked_mul(SECOND_NS)?)?.checked_add(ns)
}

/// Parses an ISO 8601 duration without its leading `P`: `1DT2H3M0.001S`.
fn iso_ns(text: &str) -> Option<u64> {
    let (day, time) = text.split_once('T').unwrap_or((text, ""));
    let (mut ns, mut rest, mut any) = (0u64, time, false);
    let mut add = |count: &str, unit_s: u64| {
        let (whole, part) = decimal(count.as_bytes())?;
        let part_ns = if unit_s == 1 { part } else { Some(0).filter(|_| part == 0)? };
        let whole_ns = whole.checked_mul(unit_s)?.checked_mul(SECOND_NS)?;
        ns = ns.checked_add(whole_ns)?.checked_add(part_ns)?;
        any = true;
        Some(())
    };
    if !day.is_empty() {
        add(day.strip_suffix('D')?, 86_400)?;
    }
    for (letter, unit_s) in [('H', 3600), ('M', 60), ('S', 1)] {
        if let Some((count, after)) = rest.split_once(letter) {
            add(count, unit_s)?;
            rest = after;
        }
    }
    (rest.is_empty() && any).then_some(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_others_write_them() {
        for (text, ns) in [
            ("0 days 00:00:00.001", 1_000_000),
            ("0 days 00:00:00.000000345", 345),
            ("1 days 02:03:04.500000", 93_784_500_000_000),
            ("2 days", 172_800_000_000_000),
            ("1 day, 2:03:04", 93_784_000_000_000),
            ("0:00:00.001000", 1_000_000),
            ("00:00:00", 0),
            ("PT0.001S", 1_000_000),
            ("P1DT2H3M4.5S", 93_784_500_000_000),
            ("PT0S", 0),
        ] {
            assert_eq!(of(text.as_bytes()), Some(Span::Ns(ns)), "{text}");
        }
        for text in ["-1 days +23:59:59.999", "-PT0.001S", "-0:00:01"] {
            assert_eq!(of(text.as_bytes()), Some(Span::Negative), "{text}");
        }
        for text in [
            "",
            "1",
            "1.5",
            "P",
            "PT",
            "PT1",
            "1 days 3",
            "00:60:00",
            "1:2",
            "1:2:3:4",
            "days",
            "2026-01-31 12:00:00",
        ] {
            assert_eq!(of(text.as_bytes()), None, "{text}");
        }
        assert!(
            is_certain(b"0 days 00:00:00.001") && is_certain(b"PT1S") && !is_certain(b"10:00:00")
        );
    }
}
