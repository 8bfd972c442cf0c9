//! Defines how JSON keys and their values are shown on terminals and pages; no other place does.
//!
//! A key ends with its unit (docs/schema.md), as in `read_p99_ms`, or with a limit after the unit,
//! as in `flash_used_bytes_max`. The names of enclosing objects come first, as in
//! `recommended.size_mib`. A colon precedes the name of one of several items, as in
//! `size_share:4096_bytes`.

use crate::quantities::promised;
use forebay_show::{Cell, Figure, Unit};
use forebay_words::quantities::{bound, bytes, joules, percent, seconds, significant};

/// What a value counts, which determines how it is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Counted {
    /// A number without a unit.
    Plain,
    /// A time, in units of this many seconds.
    Time(f64),
    /// A size, in units of this many bytes.
    Size(f64),
    /// A fraction of 1.
    Share,
    /// A percentage.
    Percent,
    /// A truth value, given as 1 or 0.
    Held,
    /// A number with this unit.
    Unit(&'static str),
    Energy,
}

/// The last words of keys, with the units that they stand for.
const UNITS: &[(&str, Counted)] = &[
    ("s", Counted::Time(1.0)),
    ("ms", Counted::Time(1e-3)),
    ("us", Counted::Time(1e-6)),
    ("ns", Counted::Time(1e-9)),
    ("bytes", Counted::Size(1.0)),
    ("kib", Counted::Size(1024.0)),
    ("mib", Counted::Size(1_048_576.0)),
    ("gib", Counted::Size(1_073_741_824.0)),
    ("percent", Counted::Percent),
    ("iops", Counted::Unit("IOPS")),
    ("w", Counted::Unit("W")),
    ("j", Counted::Energy),
];

/// The last words of keys for fractions of 1 that stay part of the name.
const SHARES: &[&str] = &["share", "fraction", "ratio", "weight"];

/// The names of keys whose own words are unclear.
const CALLED: &[(&str, &str)] = &[
    ("accesses", "blocks used"),
    ("bound_ms", "bound"),
    ("busy_s", "busy time"),
    ("capacity_iops", "least capacity"),
    ("distinct_blocks", "different blocks"),
    ("elapsed_s", "time to answer"),
    ("fraction", "promised share"),
    ("makespan_s", "first arrival to last completion"),
    ("mean_inter_arrival_ms", "mean gap between arrivals"),
    ("mean_iops", "mean rate"),
    ("mrc_mean_error", "mean difference of miss ratios"),
    ("recommended.lru_miss_ratio", "missed by the recommended cache"),
    ("recommended.size_mib", "recommended cache"),
    ("size_share", "requests of"),
    ("state_weight", "requests in"),
    ("stream_weight", "requests of"),
];

/// Splits a key into the name and the item after the colon.
fn parts(key: &str) -> (&str, &str) {
    key.split_once(':').unwrap_or((key, ""))
}

/// Words after the unit of a key that tell which limit the key states.
const LIMITS: &[&str] = &["least", "max"];

/// Returns the word of a key that is its unit, if it has one, and the meaning of that word.
fn unit(what: &str) -> (Option<&str>, Counted) {
    let last = what.rsplit(['_', '.']).find(|word| !LIMITS.contains(word)).unwrap_or(what);
    match UNITS.iter().find(|(unit, _)| *unit == last && last.len() < what.len()) {
        Some((unit, counted)) => (Some(unit), *counted),
        None if SHARES.contains(&last) || what.contains("_share_") => (None, Counted::Share),
        None if last == "held" => (None, Counted::Held),
        None => (None, Counted::Plain),
    }
}

/// Converts a key to words, without its unit: `read_p99_ms` becomes "read p99". The part after a
/// colon may be a stream's name and is left unchanged.
pub fn words(key: &str) -> String {
    let (what, which) = parts(key);
    let called = CALLED.iter().find(|(key, _)| *key == what).map(|(_, words)| words.to_string());
    let words = called.unwrap_or_else(|| {
        let unit = unit(what).0;
        let words = what.split(['_', '.']).filter(|word| Some(*word) != unit).map(word);
        words.collect::<Vec<_>>().join(" ")
    });
    let size = which.strip_suffix("_bytes").and_then(|size| size.parse().ok());
    match size {
        _ if which.is_empty() => words,
        Some(size) if what == "size_share" => format!("{words} {}", bytes(size)),
        _ if what == "state_weight" => format!("{words} {}", part_of_disk(which)),
        _ => format!("{words} {which}"),
    }
}

/// Returns the words for a part of the disk: "16/16" becomes "last sixteenth".
fn part_of_disk(part: &str) -> String {
    let Some((part, parts)) = part.split_once('/') else { return part.into() };
    let name = match parts {
        "4" => "quarter".into(),
        "16" => "sixteenth".into(),
        parts => format!("{parts}th"),
    };
    match part {
        "1" => format!("first {name}"),
        last if last == parts => format!("last {name}"),
        part => format!("{name} {part}"),
    }
}

/// Returns how a part of a key is written in words.
fn word(part: &str) -> &str {
    match part {
        "ios" => "I/Os",
        "iops" => "IOPS",
        "p999" => "p99.9",
        "ssd" => "SSD",
        other => other,
    }
}

/// Formats a value with the unit of its key, scaled to its magnitude.
pub fn shown(key: &str, value: f64) -> String {
    match unit(parts(key).0).1 {
        Counted::Plain if value.fract() == 0.0 && (0.0..1e15).contains(&value) => {
            format!("{value:.0}")
        }
        Counted::Plain => significant(value),
        // The user chose this bound or promise, so it is shown with all digits.
        Counted::Time(each_s) if parts(key).0 == "bound_ms" => bound(value * each_s * 1e3),
        Counted::Time(each_s) => seconds(value * each_s),
        Counted::Size(each) => bytes(value * each),
        Counted::Share if key.ends_with("fraction") => promised(value),
        Counted::Share => percent(value),
        Counted::Percent => percent(value / 100.0),
        Counted::Held => if value == 1.0 { "yes" } else { "no" }.to_string(),
        Counted::Unit(unit) => format!("{} {unit}", significant(value)),
        Counted::Energy => joules(value),
    }
}

/// Formats a value as a cell, for tables whose rows have different units.
pub fn cell(key: &str, value: f64) -> Cell {
    figure(key, value).map_or_else(|| Cell::Words(shown(key, value)), Cell::Figure)
}

/// Returns a value with the unit of its key; `None` if figures do not have that unit.
pub fn figure(key: &str, value: f64) -> Option<Figure> {
    let (value, counted) = match unit(parts(key).0).1 {
        Counted::Plain if value.fract() == 0.0 && (0.0..1e15).contains(&value) => {
            (value, Unit::Count)
        }
        Counted::Plain => (value, Unit::Number),
        Counted::Time(each_s) if parts(key).0 == "bound_ms" => (value * each_s, Unit::Bound),
        Counted::Time(each_s) => (value * each_s, Unit::Seconds),
        Counted::Size(each) => (value * each, Unit::Bytes),
        Counted::Share if key.ends_with("fraction") => (value, Unit::Promise),
        Counted::Share => (value, Unit::Share),
        Counted::Percent => (value / 100.0, Unit::Share),
        Counted::Unit("IOPS") => (value, Unit::Iops),
        Counted::Energy => (value, Unit::Joules),
        Counted::Held | Counted::Unit(_) => return None,
    };
    Some(Figure::new(value, counted))
}

/// Returns the factor and the unit for an axis that ends at `most`. The unit is empty for plain
/// numbers.
pub fn scale(key: &str, most: f64) -> (f64, &'static str) {
    let largest = |value: f64, units: &[(f64, &'static str)]| {
        let fits = units.iter().find(|(worth, _)| value >= *worth);
        *fits.or(units.last()).unwrap_or(&(1.0, ""))
    };
    let (each, (worth, unit)) = match unit(parts(key).0).1 {
        Counted::Plain | Counted::Held => (1.0, (1.0, "")),
        Counted::Percent => (1.0, (1.0, "%")),
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
            ("size_share:4096_bytes", "requests of 4 KiB"),
            ("sequential_share_by_stream", "sequential share by stream"),
            ("mean_inter_arrival_ms", "mean gap between arrivals"),
            ("stream_weight:a_b<c", "requests of a_b<c"),
            ("state_weight:1/16", "requests in first sixteenth"),
            ("state_weight:2/4", "requests in quarter 2"),
            ("state_weight:16/16", "requests in last sixteenth"),
            ("bound_ms", "bound"),
            ("recommended.size_mib", "recommended cache"),
            ("read_size.p50_kib", "read size p50"),
            ("requests", "requests"),
            ("stream_weight:a:b_bytes", "requests of a:b_bytes"),
            ("longest_queue_wait_ms", "longest queue wait"),
            ("flash_used_bytes_max", "flash used max"),
            ("ios_beyond_bound", "I/Os beyond bound"),
            ("read_p999_ms", "read p99.9"),
            ("s", "s"),
        ] {
            assert_eq!(words(key), told);
        }
    }

    #[test]
    fn values_have_the_unit_of_their_key_by_magnitude() {
        for (key, value, told) in [
            ("mean_size_bytes", 65_536.0, "64 KiB"),
            ("recommended.size_mib", 6035.0, "5.89 GiB"),
            ("read_p99_ms", 122_000.0, "122 s"),
            ("busy_s", 0.5, "500 ms"),
            ("size_share:4096_bytes", 0.25, "25.0 %"),
            ("state_weight:1/16", 0.25, "25.0 %"),
            ("fraction", 0.999, "99.9 %"),
            ("sequential_share_by_stream", 0.65, "65.0 %"),
            ("capacity_iops", 4740.0, "4740 IOPS"),
            ("energy_j", 4110.0, "4.11 kJ"),
            ("requests", 75_711.0, "75711"),
            ("variation", 21.04, "21.0"),
            ("flash_used_bytes_max", 7168.0, "7 KiB"),
            ("pace_percent", 62.5, "62.5 %"),
            ("bound_ms", 10_000.0, "10 s"),
            ("bound_held", 1.0, "yes"),
            ("bound_held", 0.0, "no"),
            ("commits", 1e9, "1000000000"),
        ] {
            assert_eq!(shown(key, value), told, "{key}");
            let text = match cell(key, value) {
                Cell::Figure(figure) => figure.text(),
                Cell::Words(words) => words,
                other => format!("{other:?}"),
            };
            assert_eq!(text, told, "{key}");
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
