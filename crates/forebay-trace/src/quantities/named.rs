//! Figures by the names that JSON has them under: their last word is the unit.

use super::{bytes, joules, millis, percent, seconds, significant};

/// What a figure is, in words without its unit, and how much it is: ("longest queue wait", "12.3 ms") of
/// `longest_queue_wait_ms`. What ends in no unit is a count.
pub fn named(key: &str, value: f64) -> (String, String) {
    (words(key), shown(key, value))
}

/// A figure's name in words, without its unit: "mean size" of `mean_size_bytes`.
pub fn words(key: &str) -> String {
    let unit = unit(key);
    let words = key.split('_').filter(|word| !(is_unit(word) && Some(*word) == unit));
    let word = |word| match word {
        "ios" => "I/Os",
        "iops" => "IOPS",
        "p999" => "p99.9",
        "ssd" => "SSD",
        other => other,
    };
    words.map(word).collect::<Vec<_>>().join(" ")
}

/// The word that is the unit, if any is: the last, or that before a limit (`latency_ms_max`).
fn unit(key: &str) -> Option<&str> {
    key.rsplit('_').find(|word| !["max", "min", "least"].contains(word))
}

/// Units that a figure shows itself. A share stays in its name, which would say nothing without.
fn is_unit(word: &str) -> bool {
    ["ns", "us", "ms", "s", "bytes", "kib", "mib", "percent", "iops", "j", "w"].contains(&word)
}

fn shown(key: &str, value: f64) -> String {
    match unit(key).unwrap_or_default() {
        "ns" => seconds(value / 1e9),
        "us" => seconds(value / 1e6),
        "ms" => millis(value),
        "s" => seconds(value),
        "bytes" => bytes(value),
        "kib" => bytes(value * 1024.0),
        "mib" => bytes(value * 1024.0 * 1024.0),
        "percent" => percent(value / 100.0),
        "share" => percent(value),
        "iops" => format!("{} IOPS", significant(value)),
        "j" => joules(value),
        "w" => format!("{} W", significant(value)),
        "held" if value == 1.0 => "yes".to_owned(),
        "held" => "no".to_owned(),
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        _ => significant(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_is_the_unit() {
        let told = |key, value| {
            let (words, shown) = named(key, value);
            format!("{words} {shown}")
        };
        assert_eq!(told("longest_queue_wait_ms", 12_345.0), "longest queue wait 12.3 s");
        assert_eq!(told("flash_used_bytes_max", 7168.0), "flash used max 7 KiB");
        assert_eq!(told("offloaded_bytes", 4096.0), "offloaded 4 KiB");
        assert_eq!(told("ios_beyond_bound", 31.0), "I/Os beyond bound 31");
        assert_eq!(told("hit_share", 0.3456), "hit share 34.6 %");
        assert_eq!(told("pace_percent", 62.5), "pace 62.5 %");
        assert_eq!(told("measured_iops", 287.4), "measured 287 IOPS");
        assert_eq!(
            (told("bound_held", 1.0), told("bound_held", 0.0)),
            ("bound held yes".into(), "bound held no".into())
        );
        assert_eq!(told("rearranging_s", 90.0), "rearranging 90.0 s");
        assert_eq!(told("commits", 1e9), "commits 1000000000");
        assert_eq!(words("read_p999_ms"), "read p99.9");
    }
}
