//! A server's figures by back, export and disk, as JSON for `forebay top` and as text for
//! Prometheus.

use forebay_core::Lane;
use forebay_core::contract::policy::{Gauge, GaugeOf};
use forebay_core::contract::volume::VolumeState;
use forebay_metrics::Page;
use forebay_show::plural::{counted, verb};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::tally::{ExportTally, Tally};

/// The version of the JSON form of [`Figures`].
pub const SCHEMA_VERSION: u32 = 1;

/// All figures of a server at one time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figures {
    /// The version of the JSON form.
    pub schema_version: u32,
    /// Seconds since the server started.
    pub uptime_s: f64,
    /// The figures of each back.
    pub backs: Vec<BackFigures>,
}

/// Figures of a back, counted since the server started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BackFigures {
    /// The name of the back.
    pub name: String,
    /// The current policy.
    pub policy: String,
    /// How often the policy was switched.
    pub switches: u64,
    /// The duration in milliseconds of the last switch, during which no requests were accepted.
    pub last_pause_ms: f64,
    /// The figures of each export.
    pub exports: Vec<ExportFigures>,
    /// The figures of each disk; the flash of a placement policy comes last.
    pub disks: Vec<DiskFigures>,
    /// The counters of the policy itself.
    pub counted: Vec<(String, f64)>,
    /// The pace of a policy that scales its promises to the disk's measured capacity; None for
    /// other policies.
    #[serde(default)]
    pub pace: Option<PaceFigures>,
    /// How much work a policy with promises or shares admits to the disks; None for other policies.
    #[serde(default)]
    pub window: Option<WindowFigures>,
    /// Whether the blocks of a rearranged disk are at their new positions; None for other disks.
    #[serde(default)]
    pub rearranged: Option<bool>,
    /// The delays of emulated disks; None if nothing is emulated.
    #[serde(default)]
    pub late: Option<LateFigures>,
    /// The state of a volume; None if the back is not a volume.
    pub volume: Option<VolumeFigures>,
}

/// The limit on the device time of requests without a promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowFigures {
    /// The device time that such requests may currently occupy, in milliseconds.
    pub window_ms: f64,
    /// How much longer than expected promised requests stay in the disks, in milliseconds.
    pub device_tail_ms: f64,
}

/// Figures about promises that are scaled to the disk's measured capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PaceFigures {
    /// The percentage of each promise, reservation or rate that is currently kept.
    pub percent: f64,
    /// The measured capacity in requests per second; None until the disk has been busy for long
    /// enough.
    pub measured_iops: Option<f64>,
}

/// How much later than their model's time emulated I/Os ended because the host was busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LateFigures {
    /// The median delay in milliseconds.
    pub p50_ms: f64,
    /// The 99th percentile of the delays in milliseconds.
    pub p99_ms: f64,
    /// The maximum delay in milliseconds.
    pub longest_ms: f64,
}

/// The current state of a volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VolumeFigures {
    /// The number of written units at each level.
    pub units: Vec<(String, u64)>,
    /// The number of units that the volume provides.
    pub all_units: u64,
    /// The number of drives.
    pub drives: u64,
    /// The number of drives that are present and in use.
    pub drives_present: u64,
    /// The number of units that a rebuild, or a scan for units that need one, has yet to process; 0
    /// if neither is in progress.
    pub care_units_left: u64,
    /// Units in which some bytes can no longer be read.
    #[serde(default)]
    pub lost_units: u64,
    /// 1 while the drives have no room for new data, so that writes wait or fail; 0 otherwise.
    #[serde(default)]
    pub lacks_room: u64,
    /// The number of chunks, copies and parities that are on no drive; 0 if everything has full
    /// redundancy.
    #[serde(default)]
    pub lacking_chunks: u64,
    /// Drives that failed since the volume was opened.
    #[serde(default)]
    pub drives_failed: u64,
    /// Blocks that were found damaged since the volume was opened.
    #[serde(default)]
    pub rotten_blocks: u64,
    /// Chunks that were restored since the volume was opened.
    #[serde(default)]
    pub repaired_chunks: u64,
    /// Chunks that were moved between drives since the volume was opened.
    #[serde(default)]
    pub moved_chunks: u64,
    /// Checks that were completed since the volume was opened.
    #[serde(default)]
    pub checks: u64,
    /// 1 while a check is in progress; 0 otherwise.
    #[serde(default)]
    pub checking: u64,
    /// Records that have yet to be rewritten after a drive failed or was replaced.
    #[serde(default)]
    pub records_left: u64,
    /// The percentage of the background work in progress that is done; None if there is none.
    #[serde(default)]
    pub work_percent: Option<f64>,
}

/// Figures of an export.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ExportFigures {
    /// The name of the export.
    pub name: String,
    /// The number of connected clients.
    pub clients: u64,
    /// Requests in flight.
    pub under_way: u64,
    /// Successful reads.
    pub reads: u64,
    /// Successful writes.
    pub writes: u64,
    /// Successful flushes, trims and other requests.
    pub others: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Failed requests.
    pub failed: u64,
    /// The median latency of reads and writes in the last five to ten seconds; None if there were
    /// none.
    pub recent_p50_ms: Option<f64>,
    /// The 99th percentile of the same latencies.
    pub recent_p99_ms: Option<f64>,
    /// The maximum of the same latencies.
    pub recent_longest_ms: Option<f64>,
    /// The total latency of all reads and writes in seconds.
    pub latency_s: f64,
    /// A cumulative histogram of latencies: a bound in milliseconds, and the number of reads and
    /// writes that took no longer.
    pub latency_buckets: Vec<(f64, u64)>,
    /// The promised rate in requests per second; 0 if nothing is promised.
    pub keep_iops: u64,
    /// The promised latency bound; None if nothing is promised.
    pub within_ms: Option<f64>,
    /// The number of reads and writes covered by the promise.
    pub kept: u64,
    /// The number of covered reads and writes that were answered in time.
    pub kept_in_time: u64,
}

/// The number of consecutive failures after which a disk counts as failing. A client that retries
/// one damaged sector causes fewer.
const FAILED_IN_A_ROW: u64 = 8;

/// Figures of a disk.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DiskFigures {
    /// The file or device of the disk.
    pub file: String,
    /// Completed reads.
    pub reads: u64,
    /// Completed writes.
    pub writes: u64,
    /// Completed flushes and trims.
    pub others: u64,
    /// The number of bytes read and written.
    pub moved_bytes: u64,
    /// Failed I/Os.
    pub failed: u64,
    /// The number of failed reads since a read last succeeded.
    #[serde(default)]
    pub reads_failed_in_a_row: u64,
    /// The number of failed writes and flushes since one last succeeded.
    #[serde(default)]
    pub writes_failed_in_a_row: u64,
    /// I/Os in flight.
    pub under_way: u64,
    /// Seconds with at least one I/O in flight.
    #[serde(default)]
    pub busy_s: f64,
    /// The figures of a volume's drive; None if the disk is not part of a volume.
    pub drive: Option<DriveFigures>,
}

/// Figures of a volume's drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DriveFigures {
    /// Whether the drive is present and in use.
    pub is_present: bool,
    /// The number of unused bytes.
    pub free_bytes: u64,
    /// I/Os that failed since the volume was opened.
    pub faults: u64,
}

/// The upper bounds of the histogram's buckets in milliseconds.
const BOUNDS_MS: [f64; 14] =
    [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 10_000.0];

impl BackFigures {
    /// Returns what an operator should look at, as lines of text.
    pub(crate) fn remarks(&self) -> String {
        let Some(volume) = &self.volume else { return String::new() };
        let missing = volume.drives.saturating_sub(volume.drives_present);
        let remarks = [
            (missing, "drive", "missing"),
            (volume.care_units_left, "unit", "left to rebuild"),
            (volume.lost_units, "unit", "damaged beyond repair"),
        ];
        let line = |(count, what, state): &(u64, &str, &str)| {
            format!(
                "'{}': {} {} {state}\n",
                self.name,
                counted(*count, what),
                verb(*count, "is", "are")
            )
        };
        let lines = remarks.iter().filter(|(count, ..)| *count > 0).map(line);
        let full =
            (volume.lacks_room > 0).then(|| format!("'{}': no room for new data\n", self.name));
        lines.chain(full).collect()
    }

    /// Returns the disks that fail all reads or all writes, one line each. Drives of a volume are
    /// left out, because the volume continues without them and [`BackFigures::remarks`] lists them.
    pub(crate) fn failing(&self) -> String {
        let disks = self.disks.iter().filter(|disk| disk.drive.is_none());
        let failing = disks.flat_map(|disk| {
            [(disk.reads_failed_in_a_row, "read"), (disk.writes_failed_in_a_row, "write")]
                .into_iter()
                .filter(|(failed, _)| *failed >= FAILED_IN_A_ROW)
                .map(|(failed, what)| {
                    format!(
                        "'{}': the last {} of {} failed\n",
                        self.name,
                        counted(failed, what),
                        disk.file
                    )
                })
        });
        failing.collect()
    }

    /// Computes the figures from the counts.
    pub(crate) fn of(name: &str, tally: &Tally) -> BackFigures {
        BackFigures {
            name: name.to_string(),
            policy: tally.policy.clone(),
            switches: tally.switches,
            last_pause_ms: tally.last_pause.as_millis_f64(),
            exports: tally.exports.iter().map(ExportFigures::of).collect(),
            disks: disks(tally),
            pace: PaceFigures::of(&tally.gauges),
            window: WindowFigures::of(&tally.gauges),
            rearranged: all(&tally.gauges, "rearranged", GaugeOf::All).map(|holds| holds > 0),
            late: tally.late_us.as_ref().map(LateFigures::of),
            volume: VolumeFigures::of(&tally.gauges, tally.volume.as_ref()),
            counted: tally.counted.iter().map(|(name, value)| (name.to_string(), *value)).collect(),
        }
    }
}

impl PaceFigures {
    fn of(gauges: &[Gauge]) -> Option<PaceFigures> {
        let of = |name| gauges.iter().find(|gauge| gauge.name == name).map(|gauge| gauge.value);
        Some(PaceFigures { percent: of("pace_percent")?, measured_iops: of("measured_iops") })
    }
}

impl WindowFigures {
    fn of(gauges: &[Gauge]) -> Option<WindowFigures> {
        let of = |name| gauges.iter().find(|gauge| gauge.name == name).map(|gauge| gauge.value);
        Some(WindowFigures { window_ms: of("window_ms")?, device_tail_ms: of("device_tail_ms")? })
    }
}

impl LateFigures {
    fn of(late_us: &Histogram<u64>) -> LateFigures {
        let ms = |us: u64| us as f64 / 1e3;
        LateFigures {
            p50_ms: ms(late_us.value_at_quantile(0.5)),
            p99_ms: ms(late_us.value_at_quantile(0.99)),
            longest_ms: ms(late_us.max()),
        }
    }
}

impl VolumeFigures {
    fn of(gauges: &[Gauge], state: Option<&VolumeState>) -> Option<VolumeFigures> {
        let state = state?;
        let all = |name| all(gauges, name, GaugeOf::All);
        let level = |gauge: &Gauge| match gauge.of {
            GaugeOf::Part(level) if gauge.name == "units" => {
                Some((level.into(), gauge.value as u64))
            }
            _ => None,
        };
        Some(VolumeFigures {
            units: gauges.iter().filter_map(level).collect(),
            all_units: all("all_units")?,
            drives: all("drives_members")?,
            drives_present: all("drives_present")?,
            care_units_left: all("care_units_left")?,
            lost_units: all("lost_units")?,
            lacks_room: all("lacks_room")?,
            lacking_chunks: state.lacking_chunks,
            drives_failed: state.drives_failed,
            rotten_blocks: state.rotten_blocks,
            repaired_chunks: state.repaired_chunks,
            moved_chunks: state.moved_chunks,
            checks: state.checks,
            checking: state.is_checking.into(),
            records_left: state.records_left,
            work_percent: state.work.map(|work| work.percent()),
        })
    }
}

/// Returns the gauge with this name as a whole number.
fn all(gauges: &[Gauge], name: &str, of: GaugeOf) -> Option<u64> {
    let gauge = gauges.iter().find(|gauge| gauge.name == name && gauge.of == of)?;
    Some(gauge.value as u64)
}

/// Returns the figures of disks, including a volume's figures about its drives.
fn disks(tally: &Tally) -> Vec<DiskFigures> {
    let drive = |lane: usize| {
        let of = |name| all(&tally.gauges, name, GaugeOf::Lane(lane as Lane));
        let (free_bytes, faults) = (of("free_bytes")?, of("faults")?);
        Some(DriveFigures { is_present: of("present")? == 1, free_bytes, faults })
    };
    let disks = tally.lanes.iter().cloned().enumerate();
    disks.map(|(lane, disk)| DiskFigures { drive: drive(lane), ..disk }).collect()
}

impl ExportFigures {
    fn of(tally: &ExportTally) -> ExportFigures {
        let recent = tally.recent();
        let ms = |us: u64| (!recent.is_empty()).then_some(us as f64 / 1e3);
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
    /// Formats the figures for Prometheus.
    pub fn page(&self) -> String {
        let mut page = Page::default();
        page.head("serve_uptime_seconds", "gauge", "Since the server started.");
        page.sample("serve_uptime_seconds", "", self.uptime_s);
        self.exports(&mut page);
        self.disks(&mut page);
        self.paces(&mut page);
        self.policies(&mut page);
        self.volumes(&mut page);
        page.text()
    }

    fn exports(&self, page: &mut Page) {
        type Of = fn(&ExportFigures) -> f64;
        let figures: [(&str, &str, &str, Of); 12] = [
            ("clients", "gauge", "Clients that are connected.", |one| one.clients as f64),
            ("requests_under_way", "gauge", "Outstanding requests.", |one| one.under_way as f64),
            ("reads_total", "counter", "Reads that went well.", |one| one.reads as f64),
            ("writes_total", "counter", "Writes that went well.", |one| one.writes as f64),
            ("others_total", "counter", "Successful flushes, trims and other requests.", |one| {
                one.others as f64
            }),
            ("read_bytes_total", "counter", "Bytes of those reads.", |one| one.read_bytes as f64),
            ("written_bytes_total", "counter", "Bytes of those writes.", |one| {
                one.written_bytes as f64
            }),
            ("failed_total", "counter", "Requests that failed.", |one| one.failed as f64),
            ("promised_iops", "gauge", "The promised rate in requests a second.", |one| {
                one.keep_iops as f64
            }),
            ("promised_within_seconds", "gauge", "Within how long.", |one| {
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
        let figures: [(&str, &str, &str, Of); 9] = [
            ("reads_total", "counter", "Reads that it did.", |one| one.reads as f64),
            ("writes_total", "counter", "Writes that it did.", |one| one.writes as f64),
            ("others_total", "counter", "Flushes and trims of the disk.", |one| one.others as f64),
            ("moved_bytes_total", "counter", "Bytes that it moved.", |one| one.moved_bytes as f64),
            ("failed_total", "counter", "I/Os that failed.", |one| one.failed as f64),
            ("reads_failed_in_a_row", "gauge", "Reads that failed since one succeeded.", |one| {
                one.reads_failed_in_a_row as f64
            }),
            (
                "writes_failed_in_a_row",
                "gauge",
                "Writes and flushes that failed since one succeeded.",
                |one| one.writes_failed_in_a_row as f64,
            ),
            ("under_way", "gauge", "I/Os under way.", |one| one.under_way as f64),
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
        page.head("serve_pace_ratio", "gauge", "The part of each promise that is kept now.");
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
        page.head(name, "gauge", "What the policy counts, by name, as in its documentation.");
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
            ("all_units", gauge, "Units that it promises.", |one| one.all_units),
            ("drives", gauge, "Its drives.", |one| one.drives),
            ("drives_present", gauge, "Drives that are there.", |one| one.drives_present),
            ("care_units_left", gauge, "Units before a rebuild.", |one| one.care_units_left),
            ("lost_units", gauge, "Units with lost bytes.", |one| one.lost_units),
            ("lacks_room", gauge, "Whether drives lack room.", |one| one.lacks_room),
            ("lacking_chunks", gauge, "Chunks that no drive has.", |one| one.lacking_chunks),
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
        page.head(name, gauge, "The part of a rebuild, a check or a move that is done.");
        for (back, percent) in volumes().filter_map(|(back, one)| Some((back, one.work_percent?))) {
            page.sample(name, &format!("{{back=\"{back}\"}}"), percent / 100.0);
        }
        type OfDrive = fn(&DriveFigures) -> u64;
        let figures: [(&str, &str, &str, OfDrive); 3] = [
            ("serve_drive_present", "gauge", "Whether the drive is present and in use.", |one| {
                one.is_present.into()
            }),
            ("serve_drive_free_bytes", "gauge", "Bytes that hold nothing.", |one| one.free_bytes),
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

    use super::*;

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
            volume: Some(VolumeFigures {
                units,
                work_percent: Some(0.0),
                ..VolumeFigures::default()
            }),
        };
        let figures = Figures { schema_version: 1, uptime_s: 0.0, backs: vec![back] };
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
    }
}
