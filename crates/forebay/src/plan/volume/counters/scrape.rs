//! Parses node_exporter's metrics with timestamps in milliseconds, as Prometheus's `/federate` and
//! `promtool tsdb dump` print them:
//!
//! ```text
//! node_disk_reads_completed_total{device="vda"} 1799525 1796024306000
//! {__name__="node_disk_reads_completed_total", device="vda"} 1799525 1796024306000
//! ```

use std::collections::BTreeMap;

use super::csv::number;
use super::{BadRows, Meaning, Parsed, Reading};

/// The metrics used: reads, writes, bytes read, and bytes written.
const METRICS: [&str; 4] = [
    "node_disk_reads_completed_total",
    "node_disk_writes_completed_total",
    "node_disk_read_bytes_total",
    "node_disk_written_bytes_total",
];

/// Returns whether a line of the text has one of these metrics.
pub(super) fn is_one(text: &str) -> bool {
    text.lines().any(|line| line.contains('{') && metric(line).is_some())
}

fn metric(line: &str) -> Option<usize> {
    METRICS.iter().position(|metric| {
        line.starts_with(&format!("{metric}{{")) || line.contains(&format!("__name__=\"{metric}\""))
    })
}

pub(super) fn parsed(text: &str) -> Parsed {
    let mut bad = BadRows::default();
    let mut all: BTreeMap<DiskAtMs, Metrics> = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        let Some(metric) = metric(line) else { continue };
        match value(line) {
            Some((at_ms, value)) => {
                let (_, values) = all.entry(at_ms).or_insert((at + 1, [None; 4]));
                values[metric] = Some(value);
            }
            None => bad.add(at + 1, "expected device=\"NAME\", a value and a time in ms"),
        }
    }
    let mut readings = Vec::with_capacity(all.len());
    for ((disk, ms), (line, values)) in all {
        let [Some(reads), Some(writes), Some(read), Some(written)] = values else {
            bad.add(line, "expected all four metrics at each time");
            continue;
        };
        readings.push(Reading {
            line,
            at_s: ms as f64 / 1e3,
            disk,
            ops: [reads, writes, 0.0],
            bytes: [read, written],
            has_discards: false,
        });
    }
    Parsed { format: "node_exporter", meaning: Meaning::Totals, readings, bad }
}

/// The name of a disk, and a time in milliseconds.
type DiskAtMs = (String, u64);

/// The line number of the first metric, and the values of all [`METRICS`].
type Metrics = (usize, [Option<f64>; 4]);

/// Parses a line, and returns the disk and the time of a metric, with its value.
fn value(line: &str) -> Option<(DiskAtMs, f64)> {
    let (labels, figures) = line.rsplit_once('}')?;
    let (_, device) = labels.split_once("device=\"")?;
    let (disk, _) = device.split_once('"')?;
    let mut figures = figures.split_whitespace();
    let (value, ms) = (number(figures.next()?)?, number(figures.next()?)?);
    Some(((disk.into(), ms as u64), value))
}
