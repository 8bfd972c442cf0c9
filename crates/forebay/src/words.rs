//! What the keys of JSON are called on terminals and pages, and their values: the one place that knows.
//!
//! A key ends with its unit (docs/schema.md), `read_p99_ms`, or with a limit behind it, `flash_used_bytes_max`; where it lies within others they stand before it,
//! `recommended.size_mib`; behind a colon stands which of several it is, `size_share:4096_bytes`.

use crate::quantities::promised;
use forebay_show::figure::{Figure, Unit};
use forebay_show::quantities::{bound, bytes, joules, percent, seconds, significant};
use forebay_show::table::Cell;

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
    /// Hundredths.
    Percent,
    /// 1 or 0.
    Held,
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
    ("percent", Counted::Percent),
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
    ("mean_inter_arrival_ms", "mean gap between arrivals"),
    ("mean_iops", "mean rate"),
    ("mrc_mean_error", "mean difference of miss ratios"),
    ("recommended.lru_miss_ratio", "missed by the recommended cache"),
    ("recommended.size_mib", "recommended cache"),
    ("size_share", "requests of"),
    ("state_weight", "requests in part"),
    ("stream_weight", "requests of"),
];

/// A key without which of several it is, and that.
fn parts(key: &str) -> (&str, &str) {
    key.split_once(':').unwrap_or((key, ""))
}

/// Words behind a unit that limit it.
const LIMITS: &[&str] = &["least", "max"];

/// The word of a key that is its unit, if it has one, and what its value is counted in.
fn unit(what: &str) -> (Option<&str>, Counted) {
    let last = what.rsplit(['_', '.']).find(|word| !LIMITS.contains(word)).unwrap_or(what);
    match UNITS.iter().find(|(unit, _)| *unit == last && last.len() < what.len()) {
        Some((unit, counted)) => (Some(unit), *counted),
        None if SHARES.contains(&last) || what.contains("_share_") => (None, Counted::Share),
        None if last == "held" => (None, Counted::Held),
        None => (None, Counted::Plain),
    }
}

/// A key in words, without its unit: "read p99" for `read_p99_ms`. What is behind a colon may be a stream's name and
/// stays what it is.
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
        _ => format!("{words} {which}"),
    }
}

/// A part of a key as it is written.
fn word(part: &str) -> &str {
    match part {
        "ios" => "I/Os",
        "iops" => "IOPS",
        "p999" => "p99.9",
        "ssd" => "SSD",
        other => other,
    }
}

/// A value in the unit that its key has and its magnitude asks for.
pub fn shown(key: &str, value: f64) -> String {
    match unit(parts(key).0).1 {
        Counted::Plain if value.fract() == 0.0 && (0.0..1e15).contains(&value) => {
            format!("{value:.0}")
        }
        Counted::Plain => significant(value),
        // What was chosen is said with all its digits: a bound, and a promise.
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

/// A value as a cell of a table whose rows differ in what they count.
pub fn cell(key: &str, value: f64) -> Cell {
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
        Counted::Held | Counted::Unit(_) => return Cell::Words(shown(key, value)),
    };
    Figure::new(value, counted).into()
}

/// For an axis that reaches to `most`: what its values are counted in, and by what they are multiplied for that. The
/// unit is empty where they are plain numbers.
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
            ("state_weight:1/16", "requests in part 1/16"),
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
