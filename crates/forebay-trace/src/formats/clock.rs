//! Parses times as they appear in logs: decimal numbers, times of day, and completions from which
//! arrivals are computed.

use forebay_core::Nanos;

use crate::fields::digits;
use crate::rows::RowError;

/// Added to arrivals that are computed from completions, so that arrivals before the log's zero are
/// not negative. Records of such logs are sorted afterwards, and sorting subtracts this offset.
pub(crate) const BIAS_NS: u64 = 1 << 62;

/// Parses a decimal number without sign or exponent and multiplies it by ten to the power `places`.
/// Further digits are dropped. Milliseconds become nanoseconds with 6 places, seconds with 9.
pub(super) fn scaled(field: &[u8], places: u32) -> Option<u64> {
    // Some systems write decimal commas.
    let dot = memchr::memchr2(b'.', b',', field).unwrap_or(field.len());
    let (whole, fraction) = field.split_at(dot);
    let fraction = fraction.get(1..).unwrap_or_default();
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let unit = 10u64.checked_pow(places)?;
    let whole = if whole.is_empty() { 0 } else { digits(whole)? };
    let mut value = whole.checked_mul(unit)?;
    let mut place = unit;
    for byte in fraction {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        place /= 10;
        value = value.checked_add(u64::from(digit) * place)?;
    }
    Some(value)
}

/// Parses a time of day, such as `14:15:23` or `2:15:23 PM`, with or without decimals. Returns
/// nanoseconds.
pub(crate) fn time_of_day(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?.replace(',', ".").to_ascii_uppercase();
    let half = ["AM", "PM"].into_iter().position(|half| text.ends_with(half));
    let mut parts = text.trim_end_matches(|c: char| !c.is_ascii_digit()).splitn(3, ':');
    let mut part = |most: u64| digits(parts.next()?.as_bytes()).filter(|&value| value <= most);
    let hours = match (part(23)?, half) {
        (hours, None) => hours,
        (hours @ 1..=12, Some(half)) => hours % 12 + 12 * half as u64,
        _ => return None,
    };
    let minutes = hours * 60 + part(59)?;
    let seconds = scaled(parts.next()?.as_bytes(), 9).filter(|&ns| ns < 61_000_000_000)?;
    Some(minutes * 60_000_000_000 + seconds)
}

/// Returns the arrival time of a request that completed at `end_ns` after `latency_ns`. Returns
/// `None` if a trace cannot be that long.
pub(super) fn arrival(end_ns: u64, latency_ns: u64) -> Option<Nanos> {
    BIAS_NS.checked_add(end_ns)?.checked_sub(latency_ns).map(Nanos)
}

/// The number of nanoseconds per day.
const DAY_NS: u64 = 86_400_000_000_000;
const HOUR_NS: u64 = 3_600_000_000_000;

/// A clock that shows only the time of day. If a time is earlier than the newest by more than half
/// a day, it belongs to the next day.
#[derive(Default)]
pub(crate) struct DayClock {
    /// The newest time of day in nanoseconds, and the number of its day; the first has the number
    /// 1.
    newest: Option<(u64, u64)>,
}

impl DayClock {
    /// Converts a time of day, `HH:MM:SS` with or without decimals, like [`DayClock::follow`].
    pub(super) fn ns(&mut self, word: &[u8]) -> Result<u64, RowError> {
        let ns = time_of_day(word)
            .ok_or_else(|| RowError::new("time", word, "a time of day such as 23:59:59.123"))?;
        Ok(self.follow(ns))
    }

    /// Converts a time of day in nanoseconds to nanoseconds since the beginning of the day before
    /// the first. Therefore, the arrival of the first request is not negative, even if that request
    /// completed just after midnight.
    pub(crate) fn follow(&mut self, ns: u64) -> u64 {
        let (newest, days) = self.newest.get_or_insert((ns, 1));
        if *newest > ns + DAY_NS / 2 {
            (*newest, *days) = (ns, *days + 1);
        }
        // This time is just before midnight, but its row comes after a row of the next day.
        if *newest < HOUR_NS && ns > DAY_NS - HOUR_NS {
            return (*days - 1) * DAY_NS + ns;
        }
        *newest = (*newest).max(ns);
        *days * DAY_NS + ns
    }

    /// Returns the note that gaps of whole days are invisible, if any times were read.
    pub(crate) fn sentence(&self) -> Option<String> {
        self.newest.map(|_| {
            "times are times of day, continued over midnight: gaps of a day or more cannot be detected"
                .to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        let ns = |text: &str, places| scaled(text.as_bytes(), places);
        assert_eq!(ns("0.74", 6), Some(740_000));
        assert_eq!(ns("5982800.302061", 9), Some(5_982_800_302_061_000));
        assert_eq!(ns("663.00000", 3), Some(663_000));
        assert_eq!(ns("1.23456789", 3), Some(1_234));
        assert_eq!((ns("3", 3), ns(".5", 1), ns("7.", 0)), (Some(3_000), Some(5), Some(7)));
        for bad in ["", ".", "-1", "1e3", "nan", "1.2.3", "1.-2", "18446744073709551616"] {
            assert_eq!(ns(bad, 3), None, "{bad}");
        }
        assert_eq!(ns("18446744074", 9), None);
    }

    #[test]
    fn times_of_day_have_two_forms() {
        let s = |text: &str| time_of_day(text.as_bytes()).map(|ns| ns as f64 / 1e9);
        assert_eq!(s("14:15:23.5"), Some(51_323.5));
        assert_eq!((s("2:15:23,5 PM"), s("02:15:23.5 pm")), (s("14:15:23.5"), s("14:15:23.5")));
        assert_eq!((s("12:00:00 AM"), s("12:00:00 PM")), (Some(0.0), Some(43_200.0)));
        for bad in ["", "24:00:00", "1:60:00", "13:00:00 PM", "0:00:00 AM", "1:00", "1:00:61"] {
            assert_eq!(s(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_of_day_continue_over_midnight() {
        let mut day = DayClock::default();
        let mut s = |text: &str| day.ns(text.as_bytes()).unwrap() as f64 / 1e9 - 86_400.0;
        assert_eq!((s("23:59:58.5"), s("23:59:59")), (86_398.5, 86_399.0));
        assert_eq!((s("00:00:01"), s("23:59:59.5")), (86_401.0, 86_399.5));
        assert_eq!((s("12:00:00"), s("23:00:00")), (129_600.0, 169_200.0));
        assert_eq!(s("00:00:00"), 172_800.0);
        let mut early = DayClock::default();
        let first = early.ns(b"00:00:00.001").unwrap();
        assert_eq!(first - early.ns(b"23:59:59.999").unwrap(), 2_000_000);
    }

    #[test]
    fn arrivals_may_lie_before_zero() {
        let (early, later) = (arrival(5, 7).unwrap(), arrival(6, 0).unwrap());
        assert_eq!((later - early).0, 8);
        assert_eq!(arrival(u64::MAX, 0), None);
        assert_eq!(arrival(0, u64::MAX), None);
    }
}
