//! What a server says of itself: figures by back, export and disk, as JSON for `forebay top` and as a page for
//! Prometheus.

use forebay_metrics::Page;
use serde::{Deserialize, Serialize};

use crate::tally::{ExportTally, Tally};

/// Of the form of [`Figures`] as JSON.
pub const SCHEMA_VERSION: u32 = 1;

/// All figures of a server at one time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figures {
    /// Of this form.
    pub schema_version: u32,
    /// Seconds since the server started.
    pub uptime_s: f64,
    /// What lies behind exports.
    pub backs: Vec<BackFigures>,
}

/// Figures of a back, since the start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BackFigures {
    /// Its name.
    pub name: String,
    /// The policy now.
    pub policy: String,
    /// How often the policy was switched, and how long nothing was taken the last time.
    pub switches: u64,
    /// Milliseconds of the last switch.
    pub last_pause_ms: f64,
    /// By export.
    pub exports: Vec<ExportFigures>,
    /// By disk; a placement's flash is the last.
    pub disks: Vec<DiskFigures>,
    /// What the policy counts for itself.
    pub counted: Vec<(String, f64)>,
}

/// Figures of an export.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ExportFigures {
    /// Its name.
    pub name: String,
    /// Clients that are connected.
    pub clients: u64,
    /// Requests under way.
    pub under_way: u64,
    /// Reads that went well.
    pub reads: u64,
    /// Writes that went well.
    pub writes: u64,
    /// Flushes, trims and others that went well.
    pub others: u64,
    /// Bytes of those reads.
    pub read_bytes: u64,
    /// Bytes of those writes.
    pub written_bytes: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Of reads and writes of the last five to ten seconds.
    pub recent_p50_ms: f64,
    /// The same.
    pub recent_p99_ms: f64,
    /// The same.
    pub recent_longest_ms: f64,
    /// Of all reads and writes: seconds in sum.
    pub latency_s: f64,
    /// Reads and writes by the longest they took: milliseconds, and how many took no longer.
    pub latency_buckets: Vec<(f64, u64)>,
    /// What it is promised: requests a second, 0 for nothing.
    pub keep_iops: u64,
    /// And within how long.
    pub within_ms: f64,
    /// Reads and writes that are kept, and those of them that took no longer.
    pub kept: u64,
    /// The same.
    pub kept_in_time: u64,
}

/// Figures of a disk.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct DiskFigures {
    /// Reads that it did.
    pub reads: u64,
    /// Writes that it did.
    pub writes: u64,
    /// Flushes and trims that it did.
    pub others: u64,
    /// Bytes that it moved.
    pub moved_bytes: u64,
    /// I/Os that failed.
    pub failed: u64,
    /// I/Os under way.
    pub under_way: u64,
}

/// Upper bounds of a histogram's buckets, in milliseconds.
const BOUNDS_MS: [f64; 14] =
    [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 10_000.0];

impl BackFigures {
    /// From what was counted.
    pub(crate) fn of(name: &str, tally: &Tally) -> BackFigures {
        BackFigures {
            name: name.to_string(),
            policy: tally.policy.clone(),
            switches: tally.switches,
            last_pause_ms: tally.last_pause.as_millis_f64(),
            exports: tally.exports.iter().map(ExportFigures::of).collect(),
            disks: tally.lanes.clone(),
            counted: tally.counted.iter().map(|(name, value)| (name.to_string(), *value)).collect(),
        }
    }
}

impl ExportFigures {
    fn of(tally: &ExportTally) -> ExportFigures {
        let recent = tally.recent();
        let ms = |us: u64| us as f64 / 1e3;
        let until = |bound: f64| (bound, tally.latency_us.count_between(0, (bound * 1e3) as u64));
        ExportFigures {
            recent_p50_ms: ms(recent.value_at_quantile(0.5)),
            recent_p99_ms: ms(recent.value_at_quantile(0.99)),
            recent_longest_ms: ms(recent.max()),
            latency_buckets: BOUNDS_MS.map(until).to_vec(),
            ..tally.figures.clone()
        }
    }
}

impl Figures {
    /// The same for Prometheus.
    pub fn page(&self) -> String {
        let mut page = Page::default();
        page.head("serve_uptime_seconds", "gauge", "Since the server started.");
        page.sample("serve_uptime_seconds", "", self.uptime_s);
        self.exports(&mut page);
        self.disks(&mut page);
        page.text()
    }

    fn exports(&self, page: &mut Page) {
        type Of = fn(&ExportFigures) -> f64;
        let figures: [(&str, &str, &str, Of); 12] = [
            ("clients", "gauge", "Clients that are connected.", |one| one.clients as f64),
            ("requests_under_way", "gauge", "Requests that are not answered.", |one| {
                one.under_way as f64
            }),
            ("reads_total", "counter", "Reads that went well.", |one| one.reads as f64),
            ("writes_total", "counter", "Writes that went well.", |one| one.writes as f64),
            ("others_total", "counter", "Flushes, trims and others that went well.", |one| {
                one.others as f64
            }),
            ("read_bytes_total", "counter", "Bytes of those reads.", |one| one.read_bytes as f64),
            ("written_bytes_total", "counter", "Bytes of those writes.", |one| {
                one.written_bytes as f64
            }),
            ("failed_total", "counter", "Requests that failed.", |one| one.failed as f64),
            ("promised_iops", "gauge", "Requests a second that it is promised.", |one| {
                one.keep_iops as f64
            }),
            ("promised_within_seconds", "gauge", "Within how long.", |one| one.within_ms / 1e3),
            ("kept_total", "counter", "Reads and writes that the promise covers.", |one| {
                one.kept as f64
            }),
            ("kept_in_time_total", "counter", "Those of them that were in time.", |one| {
                one.kept_in_time as f64
            }),
        ];
        for (name, kind, help, of) in figures {
            let name = format!("serve_{name}");
            page.head(&name, kind, help);
            for (labels, one) in self.labelled() {
                page.sample(&name, &format!("{{{labels}}}"), of(one));
            }
        }
        page.head(
            "serve_latency_seconds",
            "histogram",
            "From a request's being there to its answer.",
        );
        for (labels, one) in self.labelled() {
            let count = one.reads + one.writes;
            let bucket = |page: &mut Page, bound: &str, count: u64| {
                let labels = format!("{{{labels},le=\"{bound}\"}}");
                page.sample("serve_latency_seconds_bucket", &labels, count as f64);
            };
            for (bound, count) in &one.latency_buckets {
                bucket(page, &(bound / 1e3).to_string(), *count);
            }
            bucket(page, "+Inf", count);
            page.sample("serve_latency_seconds_sum", &format!("{{{labels}}}"), one.latency_s);
            page.sample("serve_latency_seconds_count", &format!("{{{labels}}}"), count as f64);
        }
    }

    /// Exports with what tells them apart.
    fn labelled(&self) -> impl Iterator<Item = (String, &ExportFigures)> {
        self.backs.iter().flat_map(|back| {
            let of = |one: &ExportFigures| {
                let (back, export) = (Page::label(&back.name), Page::label(&one.name));
                format!("back=\"{back}\",export=\"{export}\"")
            };
            back.exports.iter().map(move |one| (of(one), one))
        })
    }

    fn disks(&self, page: &mut Page) {
        type Of = fn(&DiskFigures) -> f64;
        let figures: [(&str, &str, &str, Of); 6] = [
            ("reads_total", "counter", "Reads that it did.", |one| one.reads as f64),
            ("writes_total", "counter", "Writes that it did.", |one| one.writes as f64),
            ("others_total", "counter", "Flushes and trims that it did.", |one| one.others as f64),
            ("moved_bytes_total", "counter", "Bytes that it moved.", |one| one.moved_bytes as f64),
            ("failed_total", "counter", "I/Os that failed.", |one| one.failed as f64),
            ("under_way", "gauge", "I/Os under way.", |one| one.under_way as f64),
        ];
        for (name, kind, help, of) in figures {
            let name = format!("serve_disk_{name}");
            page.head(&name, kind, help);
            for back in &self.backs {
                for (disk, one) in back.disks.iter().enumerate() {
                    let labels =
                        format!("{{back=\"{}\",disk=\"{disk}\"}}", Page::label(&back.name));
                    page.sample(&name, &labels, of(one));
                }
            }
        }
    }
}
