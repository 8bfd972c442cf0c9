//! A server's metrics, formatted for Prometheus (text exposition format, version 0.0.4).
//!
//! Names and labels are fixed; the text never contains client input.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forebay_metrics::{Metric, Page, Pages};

use crate::{DiskHealth, Figures, Status};

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

/// The metrics of the state of a store.
const GAUGES: &[Metric<Status>] = &[
    Metric::gauge(
        "records",
        "Number of records; replaced ones count until they are merged.",
        |it| it.records as f64,
    ),
    Metric::gauge("segment_bytes", "Bytes of segments.", |it| it.segment_totals.0 as f64),
    Metric::gauge("segment_bytes_max", "Maximum number of bytes in segments.", |it| {
        it.figures.segment_bytes_max as f64
    }),
    Metric::gauge("runs", "Runs of segments.", |it| it.segment_totals.1 as f64),
    Metric::gauge("runs_max", "Maximum number of runs.", |it| it.figures.runs_max as f64),
    Metric::gauge(
        "merge_debt",
        "Number of runs relative to the maximum; from 0.5 on puts are slowed, at 1 they wait.",
        |it| it.figures.merge_debt,
    ),
    Metric::gauge(
        "saturated",
        "1 if sorting cannot keep up, regardless of the length of logs.",
        |it| f64::from(u8::from(it.figures.is_saturated)),
    ),
    Metric::gauge("losses", "Key ranges known to be unreadable.", |it| it.losses.len() as f64),
];

/// The metrics of the work of a store since it was opened.
const COUNTERS: &[Metric<Figures>] = &[
    Metric::counter("put_bytes_total", "Bytes that clients put, keys included.", |it| {
        it.put_bytes as f64
    }),
    Metric::counter("logged_bytes_total", "Bytes of batches in logs.", |it| it.logged_bytes as f64),
    Metric::counter("batches_total", "Batches in logs.", |it| it.batches as f64),
    Metric::counter("logs_total", "Finished logs.", |it| it.logs as f64),
    Metric::counter("logging_seconds_total", "Time spent writing logs.", |it| {
        it.logging.as_secs_f64()
    }),
    Metric::counter("transformations_total", "Logs sorted into segments.", |it| {
        it.transformations as f64
    }),
    Metric::counter("transformed_bytes_total", "Bytes of segments made from logs.", |it| {
        it.transformed_bytes as f64
    }),
    Metric::counter(
        "transforming_seconds_total",
        "Time from the end of a log to its segment.",
        |it| it.transforming.as_secs_f64(),
    ),
    Metric::counter("merges_total", "Finished merges.", |it| it.merges as f64),
    Metric::counter("merged_bytes_total", "Bytes written by merges.", |it| it.merged_bytes as f64),
    Metric::counter(
        "stalls_total",
        "Number of times that puts waited because no log had space.",
        |it| it.stalls as f64,
    ),
    Metric::counter("overlaps_total", "Number of times that duty passed to a busy disk.", |it| {
        it.overlaps as f64
    }),
    Metric::counter("held_back_seconds_total", "Time that puts waited for merges.", |it| {
        it.merge_delay.as_secs_f64()
    }),
];

/// Formats all metrics.
fn text(serving: &Serving) -> String {
    let status = serving.store.status();
    let counts = &serving.counts;
    let mut page = Page::default();
    page.head("connections", "gauge", "Connected clients.");
    page.sample("connections", "", serving.connections.load(Ordering::Relaxed) as f64);
    let commands = COMMANDS
        .iter()
        .zip(&counts.commands)
        .map(|(name, count)| (format!("command=\"{name}\""), count.load(Ordering::Relaxed) as f64));
    page.metric(("commands_total", "counter", "Commands of clients."), commands);
    let help = "Time from the start of a write to its answer.";
    histogram(&mut page, "put_seconds", help, &counts.puts);
    let help = "Time from the start of a read to its answer.";
    histogram(&mut page, "get_seconds", help, &counts.gets);
    let stages = (1..).zip(status.stage_names()).flat_map(|(disk, stage)| {
        ["idle", "log", "read-log", "write-tree"].map(|of| {
            let labels = format!("disk=\"{disk}\",stage=\"{of}\"");
            (labels, f64::from(u8::from(of == stage)))
        })
    });
    page.metric(("disk_stage", "gauge", "1 for the current stage of a disk."), stages);
    health(&mut page, &status.health);
    page.metrics("", GAUGES, &[(String::new(), &status)]);
    page.metrics("", COUNTERS, &[(String::new(), &status.figures)]);
    page.text()
}

/// Adds the health and the error counts of disks.
fn health(page: &mut Page, disks: &[DiskHealth]) {
    let of_disk = |(disk, health): (usize, &DiskHealth)| {
        (format!("disk=\"{disk}\""), f64::from(u8::from(health.name() == "ok")))
    };
    page.metric(
        ("disk_ok", "gauge", "1 if a disk is present and its last write succeeded."),
        (1..).zip(disks).map(of_disk),
    );
    let errors = (1..).zip(disks).flat_map(|(disk, health): (usize, &DiskHealth)| {
        let other_writes = health.write_errors.saturating_sub(health.no_space_errors);
        let counts = [
            ("read", health.read_errors),
            ("write", other_writes),
            ("no-space", health.no_space_errors),
        ];
        counts.map(|(of, count)| (format!("disk=\"{disk}\",error=\"{of}\""), count as f64))
    });
    page.metric(
        ("disk_errors_total", "counter", "Failed reads and writes of a disk, by reason."),
        errors,
    );
}

/// Adds a histogram.
fn histogram(page: &mut Page, name: &str, help: &str, histogram: &Histogram) {
    page.head(name, "histogram", help);
    let mut count = 0;
    let bounds = BOUNDS_US.iter().map(|bound| (*bound as f64 / 1e6).to_string());
    for (bound, bucket) in bounds.chain(["+Inf".into()]).zip(&histogram.buckets) {
        count += bucket.load(Ordering::Relaxed);
        page.sample(&format!("{name}_bucket"), &format!("le=\"{bound}\""), count as f64);
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
