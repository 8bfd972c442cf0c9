//! The figures as text for Prometheus.

use forebay_metrics::{Metric, Page};

use super::{
    BackFigures, DiskFigures, DriveFigures, ExportFigures, Figures, LateFigures, VolumeFigures,
    WindowFigures,
};

const EXPORT_METRICS: &[Metric<ExportFigures>] = &[
    Metric::gauge("clients", "Clients that are connected.", |it| it.clients as f64),
    Metric::gauge("requests_under_way", "Outstanding requests.", |it| it.under_way as f64),
    Metric::counter("reads_total", "Successful reads.", |it| it.reads as f64),
    Metric::counter("writes_total", "Successful writes.", |it| it.writes as f64),
    Metric::counter("others_total", "Successful flushes, trims and other requests.", |it| {
        it.others as f64
    }),
    Metric::counter("read_bytes_total", "Bytes read by successful reads.", |it| {
        it.read_bytes as f64
    }),
    Metric::counter("written_bytes_total", "Bytes written by successful writes.", |it| {
        it.written_bytes as f64
    }),
    Metric::counter("failed_total", "Requests that failed.", |it| it.failed as f64),
    Metric::gauge("promised_iops", "The promised rate in requests a second.", |it| {
        it.keep_iops as f64
    }),
    Metric::gauge("promised_within_seconds", "The bound of the promise.", |it| {
        it.within_ms.unwrap_or(0.0) / 1e3
    }),
    Metric::counter("kept_total", "Reads and writes covered by the promise.", |it| it.kept as f64),
    Metric::counter(
        "kept_in_time_total",
        "Reads and writes covered by the promise that were in time.",
        |it| it.kept_in_time as f64,
    ),
    Metric::gauge(
        "oldest_request_seconds",
        "Time since the oldest outstanding request arrived.",
        |it| it.oldest_request_s,
    ),
    Metric::gauge(
        "overdue_requests",
        "Outstanding reads and writes that are covered by the promise and already late.",
        |it| it.overdue as f64,
    ),
    Metric::counter(
        "owed_total",
        "Requests due at the promised rate during the time in which requests waited.",
        |it| it.owed,
    ),
    Metric::counter(
        "received_total",
        "Requests served while requests waited, counted as small ones.",
        |it| it.received,
    ),
    Metric::gauge(
        "promise_broken",
        "1 if the promise was broken in the last minute, 0 if not.",
        |it| f64::from(u8::from(it.broken.is_some())),
    ),
    Metric::counter("disk_seconds_total", "Disk time used by the export's requests.", |it| {
        it.disk_s
    }),
    Metric::counter(
        "clients_refused_total",
        "Clients refused because too many were connected.",
        |it| it.refused as f64,
    ),
];

const DISK_METRICS: &[Metric<DiskFigures>] = &[
    Metric::counter("reads_total", "Completed reads.", |it| it.reads as f64),
    Metric::counter("writes_total", "Completed writes.", |it| it.writes as f64),
    Metric::counter("others_total", "Flushes and trims of the disk.", |it| it.others as f64),
    Metric::counter("moved_bytes_total", "Bytes read and written.", |it| it.moved_bytes as f64),
    Metric::counter("failed_total", "I/Os that failed.", |it| it.failed as f64),
    Metric::gauge("reads_failed_in_a_row", "Failed reads since the last successful one.", |it| {
        it.reads_failed_in_a_row as f64
    }),
    Metric::gauge("writes_failed_in_a_row", "Failed writes since the last successful one.", |it| {
        it.writes_failed_in_a_row as f64
    }),
    Metric::gauge(
        "flushes_failed_in_a_row",
        "Failed flushes since the last successful one.",
        |it| it.flushes_failed_in_a_row as f64,
    ),
    Metric::gauge("oldest_io_seconds", "Time since the oldest outstanding I/O started.", |it| {
        it.oldest_io_s
    }),
    Metric::gauge(
        "silent_seconds",
        "Time without a completion while an I/O is outstanding.",
        |it| it.silent_s,
    ),
    Metric::gauge("under_way", "Outstanding I/Os.", |it| it.under_way as f64),
    Metric::counter("busy_seconds_total", "Seconds with an outstanding I/O.", |it| it.busy_s),
];

const VOLUME_METRICS: &[Metric<VolumeFigures>] = &[
    Metric::gauge("all_units", "Units that the volume promises to store.", |it| {
        it.all_units as f64
    }),
    Metric::gauge("drives", "Drives of the volume.", |it| it.drives as f64),
    Metric::gauge("drives_present", "Present drives.", |it| it.drives_present as f64),
    Metric::gauge("care_units_left", "Units left to rebuild.", |it| it.care_units_left as f64),
    Metric::gauge("lost_units", "Units with lost bytes.", |it| it.lost_units as f64),
    Metric::gauge("lacks_room", "1 if drives have run out of space.", |it| it.lacks_room as f64),
    Metric::gauge("lacking_chunks", "Chunks that are not on any drive.", |it| {
        it.lacking_chunks as f64
    }),
    Metric::counter("drives_failed_total", "Drives that failed.", |it| it.drives_failed as f64),
    Metric::counter("rotten_blocks_total", "Damaged blocks found.", |it| it.rotten_blocks as f64),
    Metric::counter("repaired_chunks_total", "Chunks restored.", |it| it.repaired_chunks as f64),
    Metric::counter("moved_chunks_total", "Chunks moved.", |it| it.moved_chunks as f64),
    Metric::counter("checks_total", "Completed checks.", |it| it.checks as f64),
    Metric::gauge("checking", "Whether a check is in progress.", |it| it.checking as f64),
    Metric::gauge("records_left", "Records of the volume that are left to rewrite.", |it| {
        it.records_left as f64
    }),
];

const DRIVE_METRICS: &[Metric<DriveFigures>] = &[
    Metric::gauge("present", "Whether the drive is present and in use.", |it| {
        f64::from(u8::from(it.is_present))
    }),
    Metric::gauge("free_bytes", "Unused bytes of the drive.", |it| it.free_bytes as f64),
    Metric::counter("faults_total", "I/Os that failed.", |it| it.faults as f64),
];

impl Figures {
    /// Formats the figures for Prometheus.
    pub fn page(&self) -> String {
        let mut page = Page::default();
        page.head("serve_uptime_seconds", "gauge", "Time since the server started.");
        page.sample("serve_uptime_seconds", "", self.uptime_s);
        let answers = self.backs.iter().map(|back| (&back.name, 1.0));
        let all = answers.chain(self.unanswered.iter().map(|back| (back, 0.0)));
        page.metric(
            ("serve_answers", "gauge", "1 if the disk or volume answered in time, 0 if not."),
            all.map(|(back, value)| (format!("back=\"{}\"", Page::label(back)), value)),
        );
        self.exports(&mut page);
        page.metrics("serve_disk_", DISK_METRICS, &self.disks());
        self.paces(&mut page);
        self.policies(&mut page);
        self.flashes(&mut page);
        self.volumes(&mut page);
        page.text()
    }

    fn exports(&self, page: &mut Page) {
        let exports = self.labelled();
        page.metrics("serve_", EXPORT_METRICS, &exports);
        page.head(
            "serve_latency_seconds",
            "histogram",
            "Time from the arrival of a request to its answer.",
        );
        for (labels, one) in &exports {
            let count = one.reads + one.writes;
            let bucket = |page: &mut Page, bound: &str, count: u64| {
                let labels = format!("{labels},le=\"{bound}\"");
                page.sample("serve_latency_seconds_bucket", &labels, count as f64);
            };
            for (bound, count) in &one.latency_buckets {
                bucket(page, &(bound / 1e3).to_string(), *count);
            }
            bucket(page, "+Inf", count);
            page.sample("serve_latency_seconds_sum", labels, one.latency_s);
            page.sample("serve_latency_seconds_count", labels, count as f64);
        }
    }

    /// Returns the exports with their labels.
    fn labelled(&self) -> Vec<(String, &ExportFigures)> {
        let of = |back: &str, one: &str| {
            format!("back=\"{}\",export=\"{}\"", Page::label(back), Page::label(one))
        };
        let all =
            self.backs.iter().flat_map(|back| back.exports.iter().map(move |one| (back, one)));
        all.map(|(back, one)| (of(&back.name, &one.name), one)).collect()
    }

    /// Returns the disks with their labels.
    fn disks(&self) -> Vec<(String, &DiskFigures)> {
        let of = |back: &str, disk: &str| {
            format!("back=\"{}\",disk=\"{}\"", Page::label(back), Page::label(disk))
        };
        let all =
            self.backs.iter().flat_map(|back| back.disks.iter().map(move |disk| (back, disk)));
        all.map(|(back, disk)| (of(&back.name, &disk.file), disk)).collect()
    }

    /// Returns what `of` finds in a disk or volume, with the labels of that disk or volume.
    fn backs<'a, T>(
        &'a self,
        of: impl Fn(&'a BackFigures) -> Option<T>,
    ) -> impl Iterator<Item = (String, T)> {
        let label = |back: &BackFigures| format!("back=\"{}\"", Page::label(&back.name));
        self.backs.iter().filter_map(move |back| Some((label(back), of(back)?)))
    }

    fn paces(&self, page: &mut Page) {
        let kept = "The share of each promise that is currently kept.";
        let measured = "The measured rate of the disk in requests a second.";
        if self.backs.iter().any(|back| back.pace.is_some()) {
            page.metric(
                ("serve_pace_ratio", "gauge", kept),
                self.backs(|back| Some(back.pace?.percent / 100.0)),
            );
            page.metric(
                ("serve_measured_iops", "gauge", measured),
                self.backs(|back| back.pace?.measured_iops),
            );
        }
    }

    /// Adds a policy's own counters, its window and the delays of emulated disks.
    fn policies(&self, page: &mut Page) {
        let name = "serve_policy";
        page.head(
            name,
            "gauge",
            "The policy's own counters, by name, as described in its documentation.",
        );
        for back in &self.backs {
            let mut sample = |figure: &str, value: f64| {
                let (back, figure) = (Page::label(&back.name), Page::label(figure));
                page.sample(name, &format!("back=\"{back}\",figure=\"{figure}\""), value);
            };
            sample("switches", back.switches as f64);
            sample("last_pause_ms", back.last_pause_ms);
            back.counted.iter().for_each(|(figure, value)| sample(figure, *value));
            if let Some(WindowFigures { window_ms, device_tail_ms }) = back.window {
                sample("window_ms", window_ms);
                sample("device_tail_ms", device_tail_ms);
            }
            if let Some(LateFigures { p50_ms, p99_ms, longest_ms }) = back.late {
                sample("late_p50_ms", p50_ms);
                sample("late_p99_ms", p99_ms);
                sample("late_longest_ms", longest_ms);
            }
            if let Some(is_rearranged) = back.rearranged {
                sample("rearranged", f64::from(u8::from(is_rearranged)));
            }
        }
    }

    /// Adds the amount of data that only a flash has.
    fn flashes(&self, page: &mut Page) {
        page.metric_if_any(
            ("serve_dirty_blocks", "gauge", "Blocks that exist only on the flash."),
            self.backs(|back| Some(back.dirty_blocks? as f64)),
        );
    }

    fn volumes(&self, page: &mut Page) {
        let volumes: Vec<(String, &VolumeFigures)> =
            self.backs(|back| back.volume.as_ref()).collect();
        if volumes.is_empty() {
            return;
        }
        let units = volumes.iter().flat_map(|(labels, volume)| {
            volume
                .units
                .iter()
                .map(move |(level, units)| (format!("{labels},level=\"{level}\""), *units as f64))
        });
        page.metric(("serve_volume_units", "gauge", "Units written, by level."), units);
        page.metrics("serve_volume_", VOLUME_METRICS, &volumes);
        page.metric(
            (
                "serve_volume_work_ratio",
                "gauge",
                "The completed share of a rebuild, a check or a move.",
            ),
            self.backs(|back| Some(back.volume.as_ref()?.work_percent? / 100.0)),
        );
        let disks = self.disks().into_iter();
        let drives = disks.filter_map(|(labels, disk)| Some((labels, disk.drive.as_ref()?)));
        page.metrics("serve_drive_", DRIVE_METRICS, &drives.collect::<Vec<_>>());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::*;

    /// Replaces every number in `value` with a unique one, from 1001 on.
    fn distinct(value: &mut Value, next: &mut u64) {
        match value {
            Value::Number(_) => {
                *next += 1;
                *value = (1000 + *next).into();
            }
            Value::Array(all) => all.iter_mut().for_each(|one| distinct(one, next)),
            Value::Object(all) => all.values_mut().for_each(|one| distinct(one, next)),
            _ => {}
        }
    }

    /// Collects the names and numbers in `value`.
    fn numbers(name: &str, value: &Value, found: &mut Vec<(String, f64)>) {
        match value {
            Value::Number(number) => found.push((name.into(), number.as_f64().unwrap())),
            Value::Array(all) => all.iter().for_each(|one| numbers(name, one, found)),
            Value::Object(all) => all.iter().for_each(|(name, one)| numbers(name, one, found)),
            _ => {}
        }
    }

    #[test]
    fn the_metrics_have_all_figures() {
        let drive = Some(DriveFigures { is_present: true, ..DriveFigures::default() });
        let export = ExportFigures { within_ms: Some(0.0), ..ExportFigures::default() };
        let units = vec![("raid6".to_string(), 0)];
        let back = BackFigures {
            name: "data".into(),
            policy: "noop".into(),
            switches: 0,
            last_pause_ms: 0.0,
            exports: vec![export],
            disks: vec![DiskFigures { drive, ..DiskFigures::default() }],
            counted: vec![("hits".into(), 0.0)],
            pace: Some(PaceFigures { percent: 0.0, measured_iops: Some(0.0) }),
            window: Some(WindowFigures::default()),
            rearranged: Some(true),
            late: Some(LateFigures::default()),
            dirty_blocks: Some(0),
            waits_for: None,
            start_id: String::new(),
            volume: Some(VolumeFigures {
                units,
                work_percent: Some(0.0),
                ..VolumeFigures::default()
            }),
        };
        let (backs, unanswered) = (vec![back], vec!["hangs".into()]);
        let figures = Figures { schema_version: 1, uptime_s: 0.0, backs, unanswered };
        let mut value = serde_json::to_value(&figures).unwrap();
        distinct(&mut value, &mut 0);
        let mut expected = Vec::new();
        numbers("", &value, &mut expected);
        let page = serde_json::from_value::<Figures>(value).unwrap().page();
        let samples = page.lines().filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        let samples: Vec<f64> = samples.collect();
        // Prometheus computes recent latencies from the histogram, so the page leaves them out.
        let is_left_out = |name: &str| name.starts_with("recent") || name == "schema_version";
        for (name, number) in expected.iter().filter(|(name, _)| !is_left_out(name)) {
            // The page has seconds instead of milliseconds, and ratios instead of percentages.
            let is_there = |unit: f64| samples.iter().any(|one| (one * unit - number).abs() < 1e-6);
            assert!([1.0, 1000.0, 100.0].into_iter().any(is_there), "{name} is missing");
        }
        assert!(page.contains("serve_policy{back=\"data\",figure=\"rearranged\"} 1"), "{page}");
        for answers in ["data\"} 1", "hangs\"} 0"] {
            assert!(page.contains(&format!("serve_answers{{back=\"{answers}")), "{page}");
        }
    }
}
