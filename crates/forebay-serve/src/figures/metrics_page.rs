//! The figures as text for Prometheus.

use forebay_metrics::Page;

use super::{
    BackFigures, DiskFigures, DriveFigures, ExportFigures, Figures, LateFigures, VolumeFigures,
    WindowFigures,
};

impl Figures {
    /// Formats the figures for Prometheus.
    pub fn page(&self) -> String {
        let mut page = Page::default();
        page.head("serve_uptime_seconds", "gauge", "Since the server started.");
        page.sample("serve_uptime_seconds", "", self.uptime_s);
        page.head("serve_answers", "gauge", "1 if the disk or volume answered in time, 0 if not.");
        let answers = self.backs.iter().map(|back| (&back.name, 1.0));
        for (back, value) in answers.chain(self.unanswered.iter().map(|back| (back, 0.0))) {
            page.sample("serve_answers", &format!("{{back=\"{}\"}}", Page::label(back)), value);
        }
        self.exports(&mut page);
        self.disks(&mut page);
        self.paces(&mut page);
        self.policies(&mut page);
        self.flashes(&mut page);
        self.volumes(&mut page);
        page.text()
    }

    fn exports(&self, page: &mut Page) {
        type Of = fn(&ExportFigures) -> f64;
        let figures: [(&str, &str, &str, Of); 19] = [
            ("clients", "gauge", "Clients that are connected.", |one| one.clients as f64),
            ("requests_under_way", "gauge", "Outstanding requests.", |one| one.under_way as f64),
            ("reads_total", "counter", "Successful reads.", |one| one.reads as f64),
            ("writes_total", "counter", "Successful writes.", |one| one.writes as f64),
            ("others_total", "counter", "Successful flushes, trims and other requests.", |one| {
                one.others as f64
            }),
            ("read_bytes_total", "counter", "Bytes read by successful reads.", |one| {
                one.read_bytes as f64
            }),
            ("written_bytes_total", "counter", "Bytes written by successful writes.", |one| {
                one.written_bytes as f64
            }),
            ("failed_total", "counter", "Requests that failed.", |one| one.failed as f64),
            ("promised_iops", "gauge", "The promised rate in requests a second.", |one| {
                one.keep_iops as f64
            }),
            ("promised_within_seconds", "gauge", "The bound of the promise.", |one| {
                one.within_ms.unwrap_or(0.0) / 1e3
            }),
            ("kept_total", "counter", "Reads and writes covered by the promise.", |one| {
                one.kept as f64
            }),
            (
                "kept_in_time_total",
                "counter",
                "Reads and writes covered by the promise that were \
                in time.",
                |one| one.kept_in_time as f64,
            ),
            (
                "oldest_request_seconds",
                "gauge",
                "Time since the oldest outstanding request arrived.",
                |one| one.oldest_request_s,
            ),
            (
                "overdue_requests",
                "gauge",
                "Outstanding reads and writes that are covered by the promise \
                and already late.",
                |one| one.overdue as f64,
            ),
            (
                "owed_total",
                "counter",
                "Requests due at the promised rate during the time in which requests waited.",
                |one| one.owed,
            ),
            (
                "received_total",
                "counter",
                "Requests served while requests waited, counted as small ones.",
                |one| one.received,
            ),
            (
                "promise_broken",
                "gauge",
                "1 if the promise was broken in the last minute, 0 if not.",
                |one| f64::from(u8::from(one.broken.is_some())),
            ),
            ("disk_seconds_total", "counter", "Disk time used by the export's requests.", |one| {
                one.disk_s
            }),
            (
                "clients_refused_total",
                "counter",
                "Clients refused because too many were connected.",
                |one| one.refused as f64,
            ),
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
            "Time from the arrival of a request to its answer.",
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

    /// Returns the exports with their identifying labels.
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
        let figures: [(&str, &str, &str, Of); 12] = [
            ("reads_total", "counter", "Completed reads.", |one| one.reads as f64),
            ("writes_total", "counter", "Completed writes.", |one| one.writes as f64),
            ("others_total", "counter", "Flushes and trims of the disk.", |one| one.others as f64),
            ("moved_bytes_total", "counter", "Bytes read and written.", |one| {
                one.moved_bytes as f64
            }),
            ("failed_total", "counter", "I/Os that failed.", |one| one.failed as f64),
            (
                "reads_failed_in_a_row",
                "gauge",
                "Failed reads since the last successful one.",
                |one| one.reads_failed_in_a_row as f64,
            ),
            (
                "writes_failed_in_a_row",
                "gauge",
                "Failed writes since the last successful one.",
                |one| one.writes_failed_in_a_row as f64,
            ),
            (
                "flushes_failed_in_a_row",
                "gauge",
                "Failed flushes since the last successful one.",
                |one| one.flushes_failed_in_a_row as f64,
            ),
            ("oldest_io_seconds", "gauge", "Since the oldest outstanding I/O started.", |one| {
                one.oldest_io_s
            }),
            (
                "silent_seconds",
                "gauge",
                "Time without a completion while an I/O is outstanding.",
                |one| one.silent_s,
            ),
            ("under_way", "gauge", "Outstanding I/Os.", |one| one.under_way as f64),
            ("busy_seconds_total", "counter", "Seconds with an outstanding I/O.", |one| one.busy_s),
        ];
        for (name, kind, help, of) in figures {
            let name = format!("serve_disk_{name}");
            page.head(&name, kind, help);
            for back in &self.backs {
                for one in &back.disks {
                    page.sample(&name, &format!("{{{}}}", labels(back, one)), of(one));
                }
            }
        }
    }

    fn paces(&self, page: &mut Page) {
        let all =
            || self.backs.iter().filter_map(|back| Some((Page::label(&back.name), back.pace?)));
        if all().next().is_none() {
            return;
        }
        page.head("serve_pace_ratio", "gauge", "The share of each promise that is currently kept.");
        for (back, pace) in all() {
            page.sample("serve_pace_ratio", &format!("{{back=\"{back}\"}}"), pace.percent / 100.0);
        }
        page.head(
            "serve_measured_iops",
            "gauge",
            "The measured rate of the disk in requests a \
            second.",
        );
        for (back, pace) in all() {
            let labels = format!("{{back=\"{back}\"}}");
            pace.measured_iops
                .iter()
                .for_each(|iops| page.sample("serve_measured_iops", &labels, *iops));
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
                page.sample(name, &format!("{{back=\"{back}\",figure=\"{figure}\"}}"), value);
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
        let dirty = || self.backs.iter().filter_map(|back| Some((back, back.dirty_blocks?)));
        if dirty().next().is_none() {
            return;
        }
        page.head("serve_dirty_blocks", "gauge", "Blocks that exist only on the flash.");
        for (back, blocks) in dirty() {
            let labels = format!("{{back=\"{}\"}}", Page::label(&back.name));
            page.sample("serve_dirty_blocks", &labels, blocks as f64);
        }
    }

    fn volumes(&self, page: &mut Page) {
        let volumes = || {
            let of = |back: &'_ BackFigures| Some((Page::label(&back.name), back.volume.clone()?));
            self.backs.iter().filter_map(of)
        };
        if volumes().next().is_none() {
            return;
        }
        page.head("serve_volume_units", "gauge", "Units written, by level.");
        for (back, volume) in volumes() {
            for (level, units) in &volume.units {
                let labels = format!("{{back=\"{back}\",level=\"{level}\"}}");
                page.sample("serve_volume_units", &labels, *units as f64);
            }
        }
        type Of = fn(&VolumeFigures) -> u64;
        let (gauge, counter) = ("gauge", "counter");
        let figures: [(&str, &str, &str, Of); 14] = [
            ("all_units", gauge, "Units that the volume promises to store.", |one| one.all_units),
            ("drives", gauge, "Its drives.", |one| one.drives),
            ("drives_present", gauge, "Present drives.", |one| one.drives_present),
            ("care_units_left", gauge, "Units before a rebuild.", |one| one.care_units_left),
            ("lost_units", gauge, "Units with lost bytes.", |one| one.lost_units),
            ("lacks_room", gauge, "1 if drives have run out of space.", |one| one.lacks_room),
            ("lacking_chunks", gauge, "Chunks that are not on any drive.", |one| {
                one.lacking_chunks
            }),
            ("drives_failed_total", counter, "Drives that failed.", |one| one.drives_failed),
            ("rotten_blocks_total", counter, "Damaged blocks found.", |one| one.rotten_blocks),
            ("repaired_chunks_total", counter, "Chunks restored.", |one| one.repaired_chunks),
            ("moved_chunks_total", counter, "Chunks moved.", |one| one.moved_chunks),
            ("checks_total", counter, "Completed checks.", |one| one.checks),
            ("checking", gauge, "Whether a check is in progress.", |one| one.checking),
            ("records_left", gauge, "Records to be rewritten.", |one| one.records_left),
        ];
        for (name, kind, help, of) in figures {
            let name = format!("serve_volume_{name}");
            page.head(&name, kind, help);
            for (back, volume) in volumes() {
                page.sample(&name, &format!("{{back=\"{back}\"}}"), of(&volume) as f64);
            }
        }
        let name = "serve_volume_work_ratio";
        page.head(name, gauge, "The completed share of a rebuild, a check or a move.");
        for (back, percent) in volumes().filter_map(|(back, one)| Some((back, one.work_percent?))) {
            page.sample(name, &format!("{{back=\"{back}\"}}"), percent / 100.0);
        }
        type OfDrive = fn(&DriveFigures) -> u64;
        let figures: [(&str, &str, &str, OfDrive); 3] = [
            ("serve_drive_present", "gauge", "Whether the drive is present and in use.", |one| {
                one.is_present.into()
            }),
            ("serve_drive_free_bytes", "gauge", "Unused bytes.", |one| one.free_bytes),
            ("serve_drive_faults_total", "counter", "I/Os that failed.", |one| one.faults),
        ];
        for (name, kind, help, of) in figures {
            page.head(name, kind, help);
            for back in &self.backs {
                for disk in &back.disks {
                    let labels = format!("{{{}}}", labels(back, disk));
                    disk.drive.iter().for_each(|one| page.sample(name, &labels, of(one) as f64));
                }
            }
        }
    }
}

/// Formats the labels that identify a disk.
fn labels(back: &BackFigures, disk: &DiskFigures) -> String {
    format!("back=\"{}\",disk=\"{}\"", Page::label(&back.name), Page::label(&disk.file))
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
