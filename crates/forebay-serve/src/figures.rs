//! A server's figures by back, export and disk, as JSON for `forebay top` and, in
//! [`metrics_page`], as text for Prometheus.

use forebay_core::Lane;
use forebay_core::contract::{Gauge, GaugeOf, VolumeState};
use forebay_words::plural::{counted, verb};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::tally::{ExportTally, Tally};

mod metrics_page;

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
    /// The names of the backs whose figures are missing, because they did not answer in time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unanswered: Vec<String>,
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
    /// The number of blocks that exist only on the flash of a write-back cache or of tiers; None
    /// for other policies.
    #[serde(default)]
    pub dirty_blocks: Option<u64>,
    /// Why the policy cannot be opened, while the server tries again; None while it is open.
    #[serde(default)]
    pub waits_for: Option<String>,
    /// Identifies the period for which the figures are counted. It changes when the server, or the
    /// back, is started again.
    #[serde(default)]
    pub start_id: String,
}

/// The limit on the device time of requests without a promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowFigures {
    /// The device time that such requests may currently occupy, in milliseconds.
    pub window_ms: f64,
    /// How much longer promised requests stay in the disks than expected, in milliseconds.
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
    /// 1 while the drives have no space for new data, so that writes wait or fail; 0 otherwise.
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
    /// The 99th percentile of these latencies.
    pub recent_p99_ms: Option<f64>,
    /// The maximum of these latencies.
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
    /// The number of reads and writes that were covered by the promise and in time.
    pub kept: u64,
    /// The number of covered reads and writes that were answered in time.
    pub kept_in_time: u64,
    /// The number of covered reads and writes that failed.
    #[serde(skip)]
    pub kept_failed: u64,
    /// Seconds since the oldest outstanding request arrived; 0 if none is outstanding.
    #[serde(default)]
    pub oldest_request_s: f64,
    /// The number of outstanding reads and writes that the promise covers and that are older than
    /// its bound.
    #[serde(default)]
    pub overdue: u64,
    /// The number of requests that the promise entitled the export to while requests waited: the
    /// promised rate times the waiting time. Counted since the policy was last changed.
    #[serde(default)]
    pub owed: f64,
    /// The number of requests served while requests waited, in units of small requests.
    #[serde(default)]
    pub received: f64,
    /// What broke the promise in the last minute; None if it was kept.
    #[serde(default)]
    pub broken: Option<String>,
    /// Seconds of the disks' time that the export's requests took.
    #[serde(default)]
    pub disk_s: f64,
    /// Clients that were refused because too many were connected.
    #[serde(default)]
    pub refused: u64,
}

/// How long a disk may complete no I/O, although one is outstanding, before it counts as failing.
pub(crate) const SILENT_S: f64 = 30.0;

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
    /// The number of failed writes since one last succeeded.
    #[serde(default)]
    pub writes_failed_in_a_row: u64,
    /// The number of failed flushes since one last succeeded.
    #[serde(default)]
    pub flushes_failed_in_a_row: u64,
    /// Seconds since the oldest outstanding I/O started; 0 if none is outstanding.
    #[serde(default)]
    pub oldest_io_s: f64,
    /// Seconds for which an I/O has been outstanding and none was completed.
    #[serde(default)]
    pub silent_s: f64,
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
    /// Returns the conditions that need an operator's attention, as lines of text.
    pub(crate) fn remarks(&self) -> String {
        let broken = self.exports.iter().filter_map(|one| Some((&one.name, one.broken.as_ref()?)));
        let line = |(name, why): (&String, &String)| {
            format!("'{}': the promise to '{name}' is broken: {why}\n", self.name)
        };
        broken.map(line).chain([self.remarks_on_volume()]).collect()
    }

    fn remarks_on_volume(&self) -> String {
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
            (volume.lacks_room > 0).then(|| format!("'{}': no space for new data\n", self.name));
        lines.chain(full).collect()
    }

    /// Returns what is not being served, one line each: the policy cannot be opened, or a disk does
    /// not answer, or fails all reads, writes or flushes. Failing drives of a volume are left out,
    /// because the volume continues without them and [`BackFigures::remarks`] lists them; but
    /// requests wait for a drive that does not answer.
    pub(crate) fn failing(&self) -> String {
        let name = &self.name;
        let waits = self.waits_for.iter();
        let waits = waits.map(|why| format!("'{name}': its policy cannot be opened: {why}\n"));
        let silent = self.disks.iter().filter(|disk| disk.silent_s >= SILENT_S);
        let silent = silent.map(|disk| {
            let (file, silent_s) = (&disk.file, disk.silent_s.floor());
            format!("'{name}': {file} has not answered for {silent_s} s\n")
        });
        waits.chain(silent).chain([self.failing_disks()]).collect()
    }

    fn failing_disks(&self) -> String {
        let disks = self.disks.iter().filter(|disk| disk.drive.is_none());
        let failing = disks.flat_map(|disk| {
            let (reads, writes) = (disk.reads_failed_in_a_row, disk.writes_failed_in_a_row);
            [(reads, "read"), (writes, "write"), (disk.flushes_failed_in_a_row, "flush")]
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
    pub(crate) fn of(name: &str, start_id: &str, tally: &Tally) -> BackFigures {
        BackFigures {
            dirty_blocks: all(&tally.gauges, "log_named", GaugeOf::All),
            waits_for: tally.waits_for.map(|fault| fault.reason().to_string()),
            start_id: start_id.to_string(),
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
        let until = |bound: f64| (bound, tally.latency_us.count_until(bound));
        ExportFigures {
            recent_p50_ms: recent.quantile_ms(0.5),
            recent_p99_ms: recent.quantile_ms(0.99),
            recent_longest_ms: recent.longest_ms(),
            latency_buckets: BOUNDS_MS.map(until).to_vec(),
            ..tally.figures.clone()
        }
    }
}
