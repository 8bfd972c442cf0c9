//! Parses times in the formats of collectors.

use forebay_trace::columns::date_ns;

/// Parses a time and returns it in seconds. Accepts a date as in traces, seconds or milliseconds
/// since 1970, or seconds since any other time.
pub(super) fn seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    if let Some(ns) = date_ns(text.as_bytes()) {
        return Some(ns as f64 / 1e9);
    }
    if let Some((day, time)) = text.split_once(' ').filter(|(day, _)| day.contains('/')) {
        return Some(day_s(day)? + time_of_day_s(time)?);
    }
    let number: f64 = text.parse().ok().filter(|number: &f64| (0.0..1e15).contains(number))?;
    // Numbers this large are milliseconds: as seconds they would be in the year 5138 or later, as
    // milliseconds in 1973 or later.
    Some(if number >= 1e11 { number / 1e3 } else { number })
}

/// Returns the seconds from 1970 to the start of a day, given as `2026-11-29`, or as month, day and
/// year: `11/29/26` or `11/29/2026`.
pub(super) fn day_s(text: &str) -> Option<f64> {
    let iso = match text.split('/').collect::<Vec<_>>().as_slice() {
        [month, day, year] => {
            let year: u32 = year.parse().ok()?;
            let year = if year < 100 { 2000 + year } else { year };
            let [month, day]: [u32; 2] = [month.parse().ok()?, day.parse().ok()?];
            format!("{year:04}-{month:02}-{day:02}")
        }
        _ => text.into(),
    };
    date_ns(format!("{iso}T00:00:00").as_bytes()).map(|ns| ns as f64 / 1e9)
}

/// Returns the seconds from midnight to a time, given as `19:38:21` or `07:38:21 PM`.
pub(super) fn time_of_day_s(text: &str) -> Option<f64> {
    let (time, half) = text.split_once(' ').map_or((text, None), |(time, half)| (time, Some(half)));
    let parts: Vec<u32> = time.split(':').map(str::parse).collect::<Result<_, _>>().ok()?;
    let &[hour, minute, second] = parts.as_slice() else { return None };
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let hour = match half {
        None => hour,
        Some("AM") => hour % 12,
        Some("PM") => hour % 12 + 12,
        Some(_) => return None,
    };
    Some(f64::from(hour * 3600 + minute * 60 + second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectors_write_times_in_several_ways() {
        let noon = seconds("2026-01-31T12:00:00+0000");
        assert_eq!(noon, Some(1_769_860_800.0));
        for same in [
            "2026-01-31 12:00:00 UTC",
            "01/31/26 12:00:00",
            "01/31/2026 12:00:00 PM",
            "1769860800",
            "1769860800.0",
            "1769860800000",
        ] {
            assert_eq!(seconds(same), noon, "{same}");
        }
        assert_eq!(time_of_day_s("12:00:05 AM"), Some(5.0));
        for wrong in ["", "noon", "-1", "inf", "31/01/26 12:00:00", "01/31/26 24:00:00", "1/2"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
