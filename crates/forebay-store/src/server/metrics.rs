//! A server's metrics, formatted for Prometheus (text exposition format, version 0.0.4).
//!
//! Names and labels are fixed; the text never contains client input.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forebay_metrics::{Page, Pages};

use crate::engine::DiskHealth;

use super::Serving;

/// The commands that are counted by name; the last entry counts all others.
pub(super) const COMMANDS: [&str; 24] = [
    "get", "set", "del", "unlink", "exists", "mget", "mset", "scan", "dbsize", "info", "ping",
    "echo", "select", "auth", "hello", "command", "client", "config", "quit", "multi", "exec",
    "discard", "reset", "other",
];

/// The upper bounds of the histograms' buckets in microseconds.
const BOUNDS_US: [u64; 16] = [
    100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000,
];

/// The counters of the server itself.
#[derive(Default)]
pub(super) struct Counts {
    commands: [AtomicU64; COMMANDS.len()],
    /// Times from the start of a write until it is durable.
    pub(super) puts: Histogram,
    /// Times from the start of a read until its value is available.
    pub(super) gets: Histogram,
}

impl Counts {
    /// Counts a command of any name.
    pub(super) fn command(&self, name: &str) {
        let at = COMMANDS.iter().position(|known| known.eq_ignore_ascii_case(name));
        self.commands[at.unwrap_or(COMMANDS.len() - 1)].fetch_add(1, Ordering::Relaxed);
    }
}

/// A histogram of durations.
#[derive(Default)]
pub(super) struct Histogram {
    /// The buckets, including one beyond the last bound.
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_ns: AtomicU64,
}

impl Histogram {
    pub(super) fn observe(&self, took: Duration) {
        let at = BOUNDS_US.partition_point(|bound| Duration::from_micros(*bound) < took);
        self.buckets[at].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }
}

/// Answers HTTP requests about a store.
pub(super) struct StorePages(pub(super) Arc<Serving>);

impl Pages for StorePages {
    fn metrics(&self) -> String {
        text(&self.0)
    }

    fn health(&self) -> Result<String, String> {
        // If the store's thread had ended, the process would have ended too, so the answer is
        // always ok.
        Ok("ok\n".into())
    }
}

/// Formats all metrics.
fn text(serving: &Serving) -> String {
    let status = serving.store.status();
    let figures = status.figures;
    let mut page = Page::default();
    page.head("connections", "gauge", "Connected clients.");
    page.sample("connections", "", serving.connections.load(Ordering::Relaxed) as f64);
    page.head("commands_total", "counter", "Commands of clients.");
    for (name, count) in COMMANDS.iter().zip(&serving.counts.commands) {
        let label = format!("{{command=\"{name}\"}}");
        page.sample("commands_total", &label, count.load(Ordering::Relaxed) as f64);
    }
    histogram(
        &mut page,
        "put_seconds",
        "Time from the start of a write to its answer.",
        &serving.counts.puts,
    );
    histogram(
        &mut page,
        "get_seconds",
        "Time from the start of a read to its answer.",
        &serving.counts.gets,
    );
    page.head("disk_stage", "gauge", "1 for the current stage of a disk.");
    for (disk, stage) in (1..).zip(status.stage_names()) {
        for of in ["idle", "log", "read-log", "write-tree"] {
            let label = format!("{{disk=\"{disk}\",stage=\"{of}\"}}");
            page.sample("disk_stage", &label, f64::from(u8::from(of == stage)));
        }
    }
    health(&mut page, &status.health);
    for (name, value, help) in [
        (
            "records",
            status.records as f64,
            "Number of records; replaced ones count until they are merged.",
        ),
        ("segment_bytes", status.segment_totals.0 as f64, "Bytes of segments."),
        (
            "segment_bytes_max",
            figures.segment_bytes_max as f64,
            "Maximum number of bytes in segments.",
        ),
        ("runs", status.segment_totals.1 as f64, "Runs of segments."),
        ("runs_max", figures.runs_max as f64, "Maximum number of runs."),
        (
            "merge_debt",
            figures.merge_debt,
            "Number of runs relative to the maximum; from 0.5 on puts are slowed, at 1 they wait.",
        ),
        (
            "saturated",
            f64::from(u8::from(figures.is_saturated)),
            "1 if sorting cannot keep up, regardless of the length of logs.",
        ),
        ("losses", status.losses.len() as f64, "Key ranges known to be unreadable."),
    ] {
        page.head(name, "gauge", help);
        page.sample(name, "", value);
    }
    for (name, value, help) in [
        ("put_bytes", figures.put_bytes as f64, "Bytes that clients put, keys included."),
        ("logged_bytes", figures.logged_bytes as f64, "Bytes of batches in logs."),
        ("batches", figures.batches as f64, "Batches in logs."),
        ("logs", figures.logs as f64, "Finished logs."),
        ("logging_seconds", figures.logging.as_secs_f64(), "Time spent writing logs."),
        ("transformations", figures.transformations as f64, "Logs sorted into segments."),
        (
            "transformed_bytes",
            figures.transformed_bytes as f64,
            "Bytes of segments made from logs.",
        ),
        (
            "transforming_seconds",
            figures.transforming.as_secs_f64(),
            "Time from the end of a log to its segment.",
        ),
        ("merges", figures.merges as f64, "Finished merges."),
        ("merged_bytes", figures.merged_bytes as f64, "Bytes written by merges."),
        (
            "stalls",
            figures.stalls as f64,
            "Number of times that puts waited because no log had \
            space.",
        ),
        ("overlaps", figures.overlaps as f64, "Number of times that duty passed to a busy disk."),
        (
            "held_back_seconds",
            figures.merge_delay.as_secs_f64(),
            "Time that puts waited for merges.",
        ),
    ] {
        let name = &format!("{name}_total");
        page.head(name, "counter", help);
        page.sample(name, "", value);
    }
    page.text()
}

/// Adds the health and the error counts of disks.
fn health(page: &mut Page, disks: &[DiskHealth]) {
    page.head("disk_ok", "gauge", "1 if a disk is present and its last write succeeded.");
    for (disk, health) in (1..).zip(disks) {
        let is_ok = health.name() == "ok";
        page.sample("disk_ok", &format!("{{disk=\"{disk}\"}}"), f64::from(u8::from(is_ok)));
    }
    page.head("disk_errors_total", "counter", "Failed reads and writes of a disk, by reason.");
    for (disk, health) in (1..).zip(disks) {
        let other_writes = health.write_errors.saturating_sub(health.no_space_errors);
        for (of, count) in [
            ("read", health.read_errors),
            ("write", other_writes),
            ("no-space", health.no_space_errors),
        ] {
            let label = format!("{{disk=\"{disk}\",error=\"{of}\"}}");
            page.sample("disk_errors_total", &label, count as f64);
        }
    }
}

/// Adds a histogram.
fn histogram(page: &mut Page, name: &str, help: &str, histogram: &Histogram) {
    page.head(name, "histogram", help);
    let mut count = 0;
    let bounds = BOUNDS_US.iter().map(|bound| (*bound as f64 / 1e6).to_string());
    for (bound, bucket) in bounds.chain(["+Inf".into()]).zip(&histogram.buckets) {
        count += bucket.load(Ordering::Relaxed);
        page.sample(&format!("{name}_bucket"), &format!("{{le=\"{bound}\"}}"), count as f64);
    }
    let sum = Duration::from_nanos(histogram.sum_ns.load(Ordering::Relaxed));
    page.sample(&format!("{name}_sum"), "", sum.as_secs_f64());
    page.sample(&format!("{name}_count"), "", count as f64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_disks_are_counted_by_kind() {
        let failing = DiskHealth {
            read_errors: 3,
            write_errors: 7,
            no_space_errors: 2,
            failing: Some(forebay_core::Fault::Media),
            is_missing: false,
        };
        let mut page = Page::default();
        health(&mut page, &[DiskHealth::default(), failing]);
        let text = page.text();
        let has = |line: &str| assert!(text.lines().any(|other| other == line), "{text}");
        has("# TYPE forebay_disk_ok gauge");
        has("forebay_disk_ok{disk=\"1\"} 1");
        has("forebay_disk_ok{disk=\"2\"} 0");
        has("# TYPE forebay_disk_errors_total counter");
        has("forebay_disk_errors_total{disk=\"1\",error=\"read\"} 0");
        has("forebay_disk_errors_total{disk=\"2\",error=\"read\"} 3");
        has("forebay_disk_errors_total{disk=\"2\",error=\"write\"} 5");
        has("forebay_disk_errors_total{disk=\"2\",error=\"no-space\"} 2");
    }

    #[test]
    fn a_histogram_counts_what_is_not_above_a_bound() {
        let histogram = Histogram::default();
        for us in [100, 101, 1_000_000, 20_000_000] {
            histogram.observe(Duration::from_micros(us));
        }
        let mut page = Page::default();
        super::histogram(&mut page, "put_seconds", "Help.", &histogram);
        let text = page.text();
        let has = |line: &str| assert!(text.lines().any(|other| other == line), "{text}");
        has("# TYPE forebay_put_seconds histogram");
        has("forebay_put_seconds_bucket{le=\"0.0001\"} 1");
        has("forebay_put_seconds_bucket{le=\"0.00025\"} 2");
        has("forebay_put_seconds_bucket{le=\"1\"} 3");
        has("forebay_put_seconds_bucket{le=\"10\"} 3");
        has("forebay_put_seconds_bucket{le=\"+Inf\"} 4");
        has("forebay_put_seconds_sum 21.000201");
        has("forebay_put_seconds_count 4");
    }
}
