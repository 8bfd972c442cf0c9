//! What a server says of itself: figures by back, export and disk, as JSON for `forebay top` and as a page for
//! Prometheus.

use forebay_core::Lane;
use forebay_core::contract::policy::{Gauge, GaugeOf};
use forebay_metrics::Page;
use hdrhistogram::Histogram;
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
    /// How fast a policy's promises go that follow what the disk does; none where they do not.
    #[serde(default)]
    pub pace: Option<PaceFigures>,
    /// Whether blocks are at their new places, of a disk that is rearranged.
    #[serde(default)]
    pub rearranged: Option<bool>,
    /// How late emulated disks are; none where nothing is emulated.
    #[serde(default)]
    pub late: Option<LateFigures>,
    /// How a volume is; none where it is none.
    pub volume: Option<VolumeFigures>,
}

/// Of promises that follow what the disk does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PaceFigures {
    /// So much of each promise, reservation or rate is held now.
    pub percent: f64,
    /// Requests a second that the disk was measured to do; none before it was busy for long enough.
    pub measured_iops: Option<f64>,
}

/// By how much emulated I/Os ended after the time of their model, for the host was busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LateFigures {
    /// Half of them were no later.
    pub p50_ms: f64,
    /// 99 % of them were no later.
    pub p99_ms: f64,
    /// None was later.
    pub longest_ms: f64,
}

/// How a volume is now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VolumeFigures {
    /// Written units by their level.
    pub units: Vec<(String, u64)>,
    /// Units that it promises.
    pub all_units: u64,
    /// Its drives.
    pub drives: u64,
    /// Those of them that are there and used.
    pub drives_present: u64,
    /// Units that a rebuild, or a look for what needs one, has still before it; 0 where none is under way.
    pub care_units_left: u64,
    /// Units of which some bytes cannot be read any more.
    #[serde(default)]
    pub lost_units: u64,
    /// 1 while its drives have no room for what is written, so that writes wait or fail; else 0.
    #[serde(default)]
    pub lacks_room: u64,
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
    /// Of reads and writes of the last five to ten seconds; none where none ended in them.
    pub recent_p50_ms: Option<f64>,
    /// The same.
    pub recent_p99_ms: Option<f64>,
    /// The same.
    pub recent_longest_ms: Option<f64>,
    /// Of all reads and writes: seconds in sum.
    pub latency_s: f64,
    /// Reads and writes by the longest they took: milliseconds, and how many took no longer.
    pub latency_buckets: Vec<(f64, u64)>,
    /// What it is promised: requests a second, 0 for nothing.
    pub keep_iops: u64,
    /// And within how long; none where nothing is promised.
    pub within_ms: Option<f64>,
    /// Reads and writes that are kept, and those of them that took no longer.
    pub kept: u64,
    /// The same.
    pub kept_in_time: u64,
}

/// Figures of a disk.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DiskFigures {
    /// Its file or device.
    pub file: String,
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
    /// Seconds with one under way.
    #[serde(default)]
    pub busy_s: f64,
    /// Of a volume's drive: whether it is there and used, bytes that hold nothing, and I/Os that failed since it was
    /// opened.
    pub drive: Option<DriveFigures>,
}

/// Figures of a volume's drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DriveFigures {
    /// Whether it is there and used.
    pub is_present: bool,
    /// Bytes of it that hold nothing.
    pub free_bytes: u64,
    /// I/Os of it that the volume saw failing.
    pub faults: u64,
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
            disks: disks(tally),
            pace: PaceFigures::of(&tally.gauges),
            rearranged: all(&tally.gauges, "rearranged", GaugeOf::All).map(|holds| holds > 0),
            late: tally.late_us.as_ref().map(LateFigures::of),
            volume: VolumeFigures::of(&tally.gauges),
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
    fn of(gauges: &[Gauge]) -> Option<VolumeFigures> {
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
        })
    }
}

/// A gauge of this name, in whole numbers.
fn all(gauges: &[Gauge], name: &str, of: GaugeOf) -> Option<u64> {
    let gauge = gauges.iter().find(|gauge| gauge.name == name && gauge.of == of)?;
    Some(gauge.value as u64)
}

/// Disks, with what a volume knows of its drives.
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
    /// The same for Prometheus.
    pub fn page(&self) -> String {
        let mut page = Page::default();
        page.head("serve_uptime_seconds", "gauge", "Since the server started.");
        page.sample("serve_uptime_seconds", "", self.uptime_s);
        self.exports(&mut page);
        self.disks(&mut page);
        self.paces(&mut page);
        self.volumes(&mut page);
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
            ("promised_within_seconds", "gauge", "Within how long.", |one| {
                one.within_ms.unwrap_or(0.0) / 1e3
            }),
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
        let figures: [(&str, &str, &str, Of); 7] = [
            ("reads_total", "counter", "Reads that it did.", |one| one.reads as f64),
            ("writes_total", "counter", "Writes that it did.", |one| one.writes as f64),
            ("others_total", "counter", "Flushes and trims that it did.", |one| one.others as f64),
            ("moved_bytes_total", "counter", "Bytes that it moved.", |one| one.moved_bytes as f64),
            ("failed_total", "counter", "I/Os that failed.", |one| one.failed as f64),
            ("under_way", "gauge", "I/Os under way.", |one| one.under_way as f64),
            ("busy_seconds_total", "counter", "Seconds with an I/O under way.", |one| one.busy_s),
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
        page.head("serve_pace_ratio", "gauge", "The part of each promise that is held now.");
        for (back, pace) in all() {
            page.sample("serve_pace_ratio", &format!("{{back=\"{back}\"}}"), pace.percent / 100.0);
        }
        page.head("serve_measured_iops", "gauge", "Requests a second that the disk does.");
        for (back, pace) in all() {
            let labels = format!("{{back=\"{back}\"}}");
            pace.measured_iops
                .iter()
                .for_each(|iops| page.sample("serve_measured_iops", &labels, *iops));
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
        let figures: [(&str, &str, Of); 6] = [
            ("serve_volume_all_units", "Units that it promises.", |one| one.all_units),
            ("serve_volume_drives", "Its drives.", |one| one.drives),
            ("serve_volume_drives_present", "Drives that are there.", |one| one.drives_present),
            ("serve_volume_care_units_left", "Units before a rebuild.", |one| one.care_units_left),
            ("serve_volume_lost_units", "Units with lost bytes.", |one| one.lost_units),
            ("serve_volume_lacks_room", "Whether drives lack room.", |one| one.lacks_room),
        ];
        for (name, help, of) in figures {
            page.head(name, "gauge", help);
            for (back, volume) in volumes() {
                page.sample(name, &format!("{{back=\"{back}\"}}"), of(&volume) as f64);
            }
        }
        type OfDrive = fn(&DriveFigures) -> u64;
        let figures: [(&str, &str, &str, OfDrive); 3] = [
            ("serve_drive_present", "gauge", "Whether it is there and used.", |one| {
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

/// What tells a disk from others.
fn labels(back: &BackFigures, disk: &DiskFigures) -> String {
    format!("back=\"{}\",disk=\"{}\"", Page::label(&back.name), Page::label(&disk.file))
}
