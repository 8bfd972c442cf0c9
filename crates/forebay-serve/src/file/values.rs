//! Values of the configuration file: quantities with their units, permissions, and how often
//! volumes are checked.

use forebay_core::Nanos;
use forebay_core::contract::suggestion;

use crate::Scrub;
use crate::protocol::PAYLOAD_MAX;

/// Splits a quantity into number and unit.
fn parts(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let unit = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let number: f64 = text[..unit].parse().ok()?;
    Some((number, text[unit..].trim()))
}

/// Parses a size, such as `10GiB` or `500MB`.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let expected = || {
        let near = with_known_unit(text);
        format!("got '{text}'{near}, expected a size with its unit, as in \"10GiB\" or \"512B\"")
    };
    let (number, unit) = parts(text).ok_or_else(expected)?;
    let factor: u64 = match unit {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        "kB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return Err(expected()),
    };
    let bytes = number * factor as f64;
    match bytes.fract() == 0.0 && bytes < 9e18 {
        true => Ok(bytes as u64),
        false => Err(expected()),
    }
}

/// Suggests the same size with its unit in the right case.
fn with_known_unit(text: &str) -> String {
    const UNITS: [&str; 9] = ["B", "KiB", "MiB", "GiB", "TiB", "kB", "MB", "GB", "TB"];
    let Some((_, unit)) = parts(text) else { return String::new() };
    let known = UNITS.iter().find(|known| known.eq_ignore_ascii_case(unit) && **known != unit);
    let number = text.trim().strip_suffix(unit).unwrap_or_default();
    known.map_or(String::new(), |known| format!(" (did you mean {number}{known}?)"))
}

/// Parses the memory for requests, which must suffice for the two longest requests.
pub(super) fn memory(text: &str) -> Result<u64, String> {
    let least = 2 * u64::from(PAYLOAD_MAX);
    match bytes(text)? {
        bytes if bytes < least => {
            Err(format!("got '{text}', expected at least {}MiB, two requests", least >> 20))
        }
        bytes => Ok(bytes),
    }
}

/// Parses permissions, such as `0660`.
pub(super) fn mode(text: &str) -> Result<u32, String> {
    let digits = text.strip_prefix("0o").unwrap_or(text);
    match u32::from_str_radix(digits, 8) {
        Ok(mode) if mode & 0o222 == 0 => {
            Err(format!("got '{text}', which lets nobody connect, expected e.g. \"0660\""))
        }
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err(format!("got '{text}', expected permissions in octal, as in \"0660\"")),
    }
}

/// Returns the number of a group given by its number or name.
pub(super) fn group(text: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let number = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(text)).then(|| fields.nth(1)?.parse().ok())?
    });
    let unknown = || {
        let names: Vec<&str> = groups.lines().filter_map(|line| line.split(':').next()).collect();
        let near = suggestion(text, &names);
        format!("got '{text}'{near}, expected a group of /etc/group, or its number")
    };
    number.ok_or_else(unknown)
}

/// Parses a duration, such as `10ms` or `1.5s`.
pub(super) fn span(text: &str) -> Result<Nanos, String> {
    let expected = || {
        format!(
            "got '{text}', expected a time with its unit (us, ms or s), as in \"10ms\" or \"1s\""
        )
    };
    let (number, unit) = parts(text).ok_or_else(expected)?;
    let ms = match unit {
        "us" => number / 1e3,
        "ms" => number,
        "s" => number * 1e3,
        _ => return Err(expected()),
    };
    let span = Nanos::from_millis_f64(ms);
    match span > Nanos::ZERO && ms <= 86_400_000.0 {
        true => Ok(span),
        false => {
            Err(format!("got '{text}', expected more than 0 and at most 24 hours, in us, ms or s"))
        }
    }
}

/// The default rate of regular checks in bytes per second.
const SCRUB_RATE_BYTES: u64 = 50_000_000;

/// Parses the interval of regular checks and their rate.
pub(super) fn scrub(every: Option<&str>, rate: Option<&str>) -> Result<Option<Scrub>, String> {
    let Some(every) = every else {
        return match rate {
            None => Ok(None),
            Some(_) => Err("scrub_rate: has no effect without scrub = \"weekly\"".into()),
        };
    };
    let hours = match (every, parts(every)) {
        ("daily", _) => 24.0,
        ("weekly", _) => 7.0 * 24.0,
        ("monthly", _) => 30.0 * 24.0,
        (_, Some((hours, "h"))) => hours,
        (_, Some((days, "d"))) => 24.0 * days,
        _ => 0.0,
    };
    if !(1.0..=24.0 * 3660.0).contains(&hours) {
        let near = suggestion(every, &["daily", "weekly", "monthly"]);
        return Err(format!(
            "scrub: got '{every}'{near}, expected \"daily\", \"weekly\", \"monthly\", or from 1 hour on, as in \
             \"12h\" or \"10d\""
        ));
    }
    let bytes_per_s = match rate {
        None => SCRUB_RATE_BYTES,
        Some(rate) => bytes(rate).map_err(|what| format!("scrub_rate: {what}"))?,
    };
    match bytes_per_s {
        0 => Err("scrub_rate: got 0, expected a size per second, as in \"50MB\"".into()),
        _ => Ok(Some(Scrub { every: Nanos::from_millis_f64(hours * 3.6e6), bytes_per_s })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_checked_regularly() {
        let of = |every: Option<&str>, rate| scrub(every, rate);
        let hours = |hours: u64| Nanos::from_millis(hours * 3_600_000);
        let every = |text| of(Some(text), None).unwrap().unwrap().every;
        assert_eq!(["daily", "weekly", "12h", "10d"].map(every), [24, 168, 12, 240].map(hours));
        let rate = of(Some("weekly"), Some("1MiB")).unwrap().unwrap().bytes_per_s;
        assert_eq!((rate, of(None, None).unwrap()), (1 << 20, None));
        for (every, rate, what) in [
            (Some("often"), None, "got 'often', expected \"daily\""),
            (Some("10m"), None, "got '10m'"),
            (Some("0h"), None, "from 1 hour on"),
            (Some("weekly"), Some("50"), "scrub_rate: got '50'"),
            (Some("weekly"), Some("0MB"), "scrub_rate: got 0"),
            (None, Some("50MB"), "has no effect without scrub"),
        ] {
            let said = of(every, rate).unwrap_err();
            assert!(said.contains(what), "{said}");
        }
    }
}
