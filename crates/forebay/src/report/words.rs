//! What the keys of JSON are called on pages, and their values: the one place that knows.
//!
//! A key ends with its unit (docs/schema.md), `read_p99_ms`; where it lies within others they stand before it,
//! `recommended.size_mib`; behind a colon stands which of several it is, `size_share:4096_bytes`.

use super::text::{bytes, count, joules, percent, seconds, significant};
use crate::plan::amount;

/// What a value is counted in.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Counted {
    /// Nothing: a number.
    Plain,
    /// So many seconds each.
    Time(f64),
    /// So many bytes each.
    Size(f64),
    /// A part of 1.
    Share,
    /// With this behind it.
    Unit(&'static str),
    Energy,
}

/// What the last word of a key says of its value.
const UNITS: &[(&str, Counted)] = &[
    ("s", Counted::Time(1.0)),
    ("ms", Counted::Time(1e-3)),
    ("us", Counted::Time(1e-6)),
    ("ns", Counted::Time(1e-9)),
    ("bytes", Counted::Size(1.0)),
    ("kib", Counted::Size(1024.0)),
    ("mib", Counted::Size(1_048_576.0)),
    ("gib", Counted::Size(1_073_741_824.0)),
    ("iops", Counted::Unit("IOPS")),
    ("w", Counted::Unit("W")),
    ("j", Counted::Energy),
];

/// Last words of a key that stay, of what is a part of 1.
const SHARES: &[&str] = &["share", "fraction", "ratio", "weight"];

/// Keys whose own words do not say enough.
const CALLED: &[(&str, &str)] = &[
    ("accesses", "blocks used"),
    ("bound_ms", "bound"),
    ("busy_s", "busy time"),
    ("capacity_iops", "least capacity"),
    ("distinct_blocks", "different blocks"),
    ("elapsed_s", "time to answer"),
    ("fraction", "promised share"),
    ("makespan_s", "first arrival to last completion"),
    ("mean_iops", "mean rate"),
    ("mrc_mean_error", "mean difference of miss ratios"),
    ("recommended.lru_miss_ratio", "missed by the recommended cache"),
    ("recommended.size_mib", "recommended cache"),
    ("state_weight", "requests in part of the disk"),
];

/// A key without which of several it is, and that.
fn parts(key: &str) -> (&str, &str) {
    key.split_once(':').unwrap_or((key, ""))
}

/// What a key's words are without its unit, and what its value is counted in.
fn split(what: &str) -> (&str, Counted) {
    let last = what.rsplit(['_', '.']).next().unwrap_or(what);
    if SHARES.contains(&last) {
        return (what, Counted::Share);
    }
    let unit = UNITS.iter().find(|(unit, _)| *unit == last && last.len() < what.len());
    match unit {
        Some((unit, counted)) => (&what[..what.len() - unit.len() - 1], *counted),
        None => (what, Counted::Plain),
    }
}

/// A key in words, without its unit: "read p99" for `read_p99_ms`. What is behind a colon may be a stream's name and
/// stays what it is.
pub fn words(key: &str) -> String {
    let (what, which) = parts(key);
    let called = CALLED.iter().find(|(key, _)| *key == what).map(|(_, words)| words.to_string());
    let words = called.unwrap_or_else(|| split(what).0.replace(['_', '.'], " "));
    let size = which.strip_suffix("_bytes").and_then(|size| size.parse().ok());
    match size {
        _ if which.is_empty() => words,
        Some(size) => format!("{words}, {}", bytes(size)),
        None => format!("{words}, {which}"),
    }
}

/// A value in the unit that its key has and its magnitude asks for.
pub fn shown(key: &str, value: f64) -> String {
    match split(parts(key).0).1 {
        Counted::Plain if value.fract() == 0.0 && (0.0..1e15).contains(&value) => {
            count(value as u64)
        }
        Counted::Plain => significant(value),
        Counted::Time(each_s) => seconds(value * each_s),
        Counted::Size(each) => bytes(value * each),
        // A promise is said with all its digits.
        Counted::Share if key.ends_with("fraction") => amount::percent(value),
        Counted::Share => percent(value),
        Counted::Unit(unit) => format!("{}\u{a0}{unit}", significant(value)),
        Counted::Energy => joules(value),
    }
}

/// For an axis that reaches to `most`: what its values are counted in, and by what they are multiplied for that. The
/// unit is empty where they are plain numbers.
pub fn scale(key: &str, most: f64) -> (f64, &'static str) {
    let largest = |value: f64, units: &[(f64, &'static str)]| {
        let fits = units.iter().find(|(worth, _)| value >= *worth);
        *fits.or(units.last()).unwrap_or(&(1.0, ""))
    };
    let (each, (worth, unit)) = match split(parts(key).0).1 {
        Counted::Plain => (1.0, (1.0, "")),
        Counted::Time(each) => {
            (each, largest(most * each, &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")]))
        }
        Counted::Size(each) => {
            let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "B")];
            (each, largest(most * each, &units.map(|(power, unit)| (2f64.powi(power), unit))))
        }
        Counted::Share => (100.0, (1.0, "%")),
        Counted::Unit(unit) => (1.0, (1.0, unit)),
        Counted::Energy => (1.0, largest(most, &[(1e6, "MJ"), (1e3, "kJ"), (1.0, "J")])),
    };
    (each / worth, unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_as_words() {
        for (key, told) in [
            ("mean_size_bytes", "mean size"),
            ("size_share:4096_bytes", "size share, 4.00\u{a0}KiB"),
            ("sequential_share_by_stream", "sequential share by stream"),
            ("mean_inter_arrival_ms", "mean inter arrival"),
            ("stream_weight:a_b<c", "stream weight, a_b<c"),
            ("state_weight:1/16", "requests in part of the disk, 1/16"),
            ("bound_ms", "bound"),
            ("recommended.size_mib", "recommended cache"),
            ("read_size.p50_kib", "read size p50"),
            ("requests", "requests"),
            ("s", "s"),
        ] {
            assert_eq!(words(key), told);
        }
    }

    #[test]
    fn values_have_the_unit_of_their_key_by_magnitude() {
        for (key, value, told) in [
            ("mean_size_bytes", 65_536.0, "64.0\u{a0}KiB"),
            ("recommended.size_mib", 6035.0, "5.89\u{a0}GiB"),
            ("read_p99_ms", 122_000.0, "122\u{a0}s"),
            ("busy_s", 0.5, "500\u{a0}ms"),
            ("size_share:4096_bytes", 0.25, "25.0\u{a0}%"),
            ("state_weight:1/16", 0.25, "25.0\u{a0}%"),
            ("fraction", 0.999, "99.9 %"),
            ("capacity_iops", 4740.0, "4\u{202f}740\u{a0}IOPS"),
            ("energy_j", 4110.0, "4.11\u{a0}kJ"),
            ("requests", 75_711.0, "75\u{202f}711"),
            ("variation", 21.04, "21.0"),
        ] {
            assert_eq!(shown(key, value).replace("99.9\u{a0}%", "99.9 %"), told, "{key}");
        }
    }

    #[test]
    fn an_axis_is_counted_in_what_its_greatest_value_is() {
        for (key, most, unit, told) in [
            ("busy_s", 410.0, "s", 410.0),
            ("read_p99_ms", 122_000.0, "s", 122.0),
            ("read_p99_ms", 12.0, "ms", 12.0),
            ("size_mib", 2048.0, "GiB", 2.0),
            ("block_bytes", 512.0, "B", 512.0),
            ("fraction", 0.99, "%", 99.0),
            ("capacity_iops", 7.0, "IOPS", 7.0),
            ("energy_j", 2500.0, "kJ", 2.5),
            ("intensity", 4.0, "", 4.0),
        ] {
            let (times, of) = scale(key, most);
            assert!(of == unit && (times * most - told).abs() < 1e-9, "{key}: {times} {of}");
        }
    }
}
