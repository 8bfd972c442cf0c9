//! Formats the result of a probe: as a device file, and in sentences.

use std::path::Path;

use forebay_words::quantities::{bytes, rate, seconds, significant};

use super::fit::{FittedLimits, Line};

/// A rate with more drift than this counts as unsettled.
const DRIFT_SHARE: f64 = 0.1;

/// Returns the device file of a volume with these limits.
pub(super) fn toml(
    name: &str,
    target: &Path,
    capacity_bytes: u64,
    limits: &FittedLimits,
) -> String {
    let us = (limits.base_s * 1e7).round() / 10.0;
    let mut text = format!(
        "kind = \"volume\"\nname = {}\ndescription = {}\ncapacity_bytes = {capacity_bytes}\n",
        toml_string(name),
        toml_string(&format!("a volume measured by `forebay device probe {}`", target.display())),
    );
    if limits.ops.is_none() && limits.bytes.is_none() {
        text += "bucket = [] # no limit was reached\n";
    }
    if let Some(unit_bytes) = limits.unit_bytes {
        let merges = limits.merges == Some(true);
        text += &format!("\n[count]\nunit_bytes = {unit_bytes} # measured\nmerges = {merges} # ");
        text += if limits.merges.is_some() { "measured\n" } else { "assumed: not visible\n" };
    } else if limits.merges == Some(true) {
        text += "\n[count]\nunit_bytes = 262144 # assumed: the unit is not visible\nmerges = true # measured\n";
    }
    text += &bucket("ops", limits.ops);
    text += &bucket("bytes", limits.bytes);
    text += &format!(
        "\n[latency]\nread_us = {us} # measured: the median of single reads\nwrite_us = {us} # \
         assumed: as reads; nothing was written\n\n[evidence]\nbasis = \"measured\"\n"
    );
    text
}

fn bucket(of: &str, line: Option<Line>) -> String {
    let Some(line) = line else { return String::new() };
    format!(
        "\n[[bucket]]\nof = \"{of}\"\nrate = {:.1} # measured\ndepth = {:.1} # measured\n",
        line.rate_per_s, line.depth
    )
}

fn toml_string(text: &str) -> String {
    let escaped: String = text
        .chars()
        .map(|letter| match letter {
            '"' | '\\' => format!("\\{letter}"),
            letter if letter.is_control() => format!("\\u{:04X}", u32::from(letter)),
            letter => letter.to_string(),
        })
        .collect();
    format!("\"{escaped}\"")
}

/// Summarizes the limits that were found.
pub(super) fn in_short(limits: &FittedLimits) -> String {
    let ops = limits.ops.map(|line| format!("{} IOPS", significant(line.rate_per_s)));
    let of_bytes = limits.bytes.map(|line| rate(line.rate_per_s));
    match (ops, of_bytes) {
        (Some(ops), Some(of_bytes)) => format!("{ops} and {of_bytes}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => "no limit was reached".to_string(),
    }
}

/// Describes each result in a sentence.
pub(super) fn told(limits: &FittedLimits) -> Vec<String> {
    let at_once_s = |line: Line| seconds(line.depth / line.rate_per_s);
    let mut said = vec![format!("a single read takes {} (median)", seconds(limits.base_s))];
    said.push(match limits.ops {
        Some(line) => format!(
            "{} IOPS after a burst of {} (worth {} at this rate)",
            significant(line.rate_per_s),
            significant(line.depth),
            at_once_s(line)
        ),
        None => "no limit on operations was reached".to_string(),
    });
    said.push(match limits.bytes {
        Some(line) => format!(
            "{} after a burst of {} (worth {} at this rate)",
            rate(line.rate_per_s),
            bytes(line.depth),
            at_once_s(line)
        ),
        None => "no limit of bytes was reached".to_string(),
    });
    said.push(match limits.unit_bytes {
        Some(unit_bytes) => format!("an operation per {}", bytes(f64::from(unit_bytes))),
        None => "the counting unit is not visible, because the limit of bytes is reached first"
            .to_string(),
    });
    said.push(match limits.merges {
        Some(true) => "sequential reads are merged".to_string(),
        Some(false) => "sequential reads are not merged".to_string(),
        None => "it is not visible whether sequential reads are merged".to_string(),
    });
    said
}

/// Returns caveats about the results, one sentence each.
pub(super) fn notes(limits: &FittedLimits) -> Vec<String> {
    let lines = [("operations", limits.ops), ("bytes", limits.bytes)];
    let drifting = lines.into_iter().filter_map(|(of, line)| {
        line.filter(|line| line.drift_share > DRIFT_SHARE).map(|_| {
            format!(
                "the rate of {of} had not settled: a credit may still have been in use, or other \
                 users accessed the volume; probe again"
            )
        })
    });
    let writes = "writes were not measured: their latency is assumed to be that of reads";
    drifting.chain(std::iter::once(writes.to_string())).collect()
}
