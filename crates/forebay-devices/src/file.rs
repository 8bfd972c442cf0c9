//! The format of device files, and the disks they describe.
//!
//! The names of keys include units. Unknown keys are errors, so that a misspelled key is never
//! silently ignored.

use std::ops::Range;

use forebay_core::device::drive::{Controller, Drive, DriveSpec};
use forebay_core::device::hdd;
use forebay_core::device::hdd::{
    Hdd, HddSpec, KNEE_SHARE, LEN_MAX, Layout, Power, SeekSpec, Standby, Zone,
};
use forebay_core::{DeviceModel, Nanos, Spec, SpecError};
use serde::Deserialize;
use toml::Spanned;

use super::change::DriveError;
use super::drive::{
    BufferTable, BusTable, FormatTable, OverheadsTable, QueueTable, Tables, WriteCacheTable,
};
use super::evidence::EvidenceTable;
use super::price::PriceTable;
use super::summary;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeviceFile {
    #[allow(dead_code)] // read so that files for other kinds of devices are rejected here
    kind: DeviceKind,
    pub(super) name: String,
    pub(super) description: String,
    #[allow(dead_code)] // the module `reported` reads it
    reported_as: Option<Vec<String>>,
    /// Whether tracks overlap, so that rewriting data in place damages the data that follows.
    #[serde(default)]
    pub(super) shingled: bool,
    pub(super) geometry: Spanned<GeometryTable>,
    zones: Option<Spanned<ZonesTable>>,
    pub(super) zone: Option<Vec<Spanned<ZoneTable>>>,
    pub(super) seek: Spanned<SeekTable>,
    pub(super) switch: Spanned<SwitchTable>,
    command: Spanned<CommandTable>,
    power: Spanned<PowerTable>,
    format: Option<Spanned<FormatTable>>,
    overheads: Option<Spanned<OverheadsTable>>,
    bus: Option<Spanned<BusTable>>,
    buffer: Option<Spanned<BufferTable>>,
    write_cache: Option<Spanned<WriteCacheTable>>,
    queue: Option<Spanned<QueueTable>>,
    pub(super) price: Option<Spanned<PriceTable>>,
    pub(super) evidence: Option<Spanned<EvidenceTable>>,
}

/// The kind of device that a file describes.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(super) enum DeviceKind {
    /// A mechanical disk.
    Hdd,
    /// A solid-state drive.
    Ssd,
    /// A cloud volume limited by token buckets.
    Volume,
}

/// Returns the kind of device that a file describes. Files that do not clearly state another kind
/// describe disks.
pub(super) fn kind(text: &str) -> DeviceKind {
    #[derive(Deserialize)]
    struct Only {
        kind: DeviceKind,
    }
    toml::from_str(text).map_or(DeviceKind::Hdd, |only: Only| only.kind)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GeometryTable {
    pub(super) capacity_bytes: Option<u64>,
    heads: u32,
    rpm: f64,
    #[serde(default)]
    start_phase_ms: f64,
    /// How much faster than the nominal speed the disk rotates, in percent.
    #[serde(default)]
    rpm_error_percent: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ZonesTable {
    outer_sustained_mb_per_s: f64,
    inner_sustained_mb_per_s: f64,
    count: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ZoneTable {
    first_cylinder: u32,
    last_cylinder: u32,
    pub(super) sectors_per_track: u32,
    pub(super) first_angle_sectors: Option<f64>,
    pub(super) reserved_sectors: Option<u64>,
    pub(super) track_skew_sectors: Option<f64>,
    pub(super) cylinder_skew_sectors: Option<f64>,
    pub(super) spares: Option<u64>,
    pub(super) slipped: Option<Vec<u64>>,
    pub(super) remapped: Option<Vec<(u64, u64)>>,
}

impl ZoneTable {
    fn says_format(&self) -> bool {
        let skews = self.track_skew_sectors.is_some() || self.cylinder_skew_sectors.is_some();
        let start = self.first_angle_sectors.is_some() || self.reserved_sectors.is_some();
        let defects = self.spares.is_some() || self.slipped.is_some() || self.remapped.is_some();
        skews || start || defects
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SeekTable {
    track_to_track_ms: Option<f64>,
    average_ms: Option<f64>,
    full_stroke_ms: Option<f64>,
    knee_share: Option<f64>,
    short_ms: Option<f64>,
    short_us_per_root: Option<f64>,
    long_ms: Option<f64>,
    long_us_per_cylinder: Option<f64>,
    knee_cylinders: Option<u32>,
    first_ms: Option<Vec<f64>>,
    distances_cylinders: Option<Vec<u32>>,
    times_ms: Option<Vec<f64>>,
    write_settle_ms: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SwitchTable {
    head_ms: f64,
    cylinder_ms: f64,
    track_skew_ms: Option<f64>,
    cylinder_skew_ms: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandTable {
    overhead_ms: f64,
    len_max_bytes: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PowerTable {
    idle_w: f64,
    seek_w: f64,
    transfer_w: f64,
    standby_w: Option<f64>,
    spin_up_j: Option<f64>,
    spin_up_s: Option<f64>,
}

/// The largest magnitude of a negative settling time, in ms. A negative value makes seeks of writes
/// shorter than those of reads, as measured on real drives.
pub(super) const SETTLE_NEGATIVE_MS_MAX: f64 = 10.0;

/// An error in a file: the affected bytes (if known), and a message that says what is wrong and how
/// to fix it.
pub(super) type TomlError = (Option<Range<usize>>, String);

pub(super) fn toml_error(span: Range<usize>, what: impl ToString) -> TomlError {
    (Some(span), what.to_string())
}

impl DeviceFile {
    pub(super) fn parse(text: &str) -> Result<DeviceFile, TomlError> {
        toml::from_str(text).map_err(|error| (error.span(), error.message().to_string()))
    }

    /// Builds the disk with the modifications in `changes`, and describes it in a sentence.
    pub(super) fn model(
        &self,
        changes: Option<&Spec>,
    ) -> Result<(DeviceModel, String), DriveError> {
        let (disk, drive) = self.changed(changes)?;
        let built = self.build(disk, drive);
        built.map_err(|fault| match changes {
            None => DriveError::File(fault),
            Some(spec) => DriveError::Name(SpecError(format!("'{}': {}", spec.text(), fault.1))),
        })
    }

    fn build(
        &self,
        spec: HddSpec,
        drive: Option<DriveSpec>,
    ) -> Result<(DeviceModel, String), TomlError> {
        let rpm = self.geometry.get_ref().rpm;
        match drive {
            Some(drive) => {
                let disk = Drive::new(&drive).map_err(|error| self.locate(error))?;
                let plain = summary::disk(&spec, &disk, |distance| disk.seek_time(distance), rpm);
                let summary = format!("{plain}, {}", summary::controller(&drive.controller));
                Ok((DeviceModel::Drive(Box::new(disk)), summary))
            }
            None => {
                let disk = Hdd::new(spec.clone()).map_err(|error| self.locate(error))?;
                let summary = summary::disk(&spec, &disk, |distance| disk.seek_time(distance), rpm);
                Ok((DeviceModel::Hdd(disk), summary))
            }
        }
    }

    /// Returns the arm and platters and, if the file describes a format or a controller, the whole
    /// drive.
    pub(super) fn specs(&self) -> Result<(HddSpec, Option<DriveSpec>), TomlError> {
        let disk = self.spec()?;
        self.check_plausible(&disk)?;
        let tables = self.tables();
        let zones = self.zone.as_ref();
        let mut formatted = zones.into_iter().flatten().filter(|zone| zone.get_ref().says_format());
        if tables.format.is_none()
            && let Some(zone) = formatted.next()
        {
            let what = "got skews or spares of a zone without a table [format], expected the \
                table, which may be empty";
            return Err(toml_error(zone.span(), what));
        }
        let write_seek_less = self.write_seek_less(tables.any())?;
        if !tables.any() {
            return Ok((disk, None));
        }
        let controller = tables.controller(disk.overhead)?;
        let drive = DriveSpec {
            format: tables.format(zones.map(Vec::as_slice))?,
            controller: Controller { write_seek_less, ..controller },
            disk: disk.clone(),
        };
        Ok((disk, Some(drive)))
    }

    /// Returns how much shorter the seeks of writes are than those of reads (a negative settling
    /// time). Only disks with a controller support this.
    fn write_seek_less(&self, has_controller: bool) -> Result<Nanos, TomlError> {
        let ms = self.seek.get_ref().write_settle_ms;
        if ms >= 0.0 || (has_controller && ms >= -SETTLE_NEGATIVE_MS_MAX) {
            return Ok(Nanos::from_millis_f64((-ms).max(0.0)));
        }
        let least = if has_controller { -SETTLE_NEGATIVE_MS_MAX } else { 0.0 };
        let what = format!("write_settle_ms: got {ms}, expected {least} to 1000 ms");
        Err(toml_error(self.seek.span(), what))
    }

    pub(super) fn tables(&self) -> Tables<'_> {
        Tables {
            format: self.format.as_ref(),
            overheads: self.overheads.as_ref(),
            bus: self.bus.as_ref(),
            buffer: self.buffer.as_ref(),
            write_cache: self.write_cache.as_ref(),
            queue: self.queue.as_ref(),
        }
    }

    fn spec(&self) -> Result<HddSpec, TomlError> {
        let (geometry, switch) = (self.geometry.get_ref(), self.switch.get_ref());
        let command = self.command.get_ref();
        let rpm = geometry.rpm;
        if !(60.0..=1_000_000.0).contains(&rpm) {
            let what = format!("rpm: got {rpm}, expected 60 to 1000000 turns a minute");
            return Err(toml_error(self.geometry.span(), what));
        }
        let error = geometry.rpm_error_percent;
        if !(-50.0..=50.0).contains(&error) {
            let what = format!("rpm_error_percent: got {error}, expected -50 to 50");
            return Err(toml_error(self.geometry.span(), what));
        }
        let revolution = Nanos::from_secs_f64(60.0 / (rpm * (1.0 + error / 100.0)));
        let of_switch =
            |key, ms| millis(key, ms).map_err(|what| toml_error(self.switch.span(), what));
        let skew = |key, ms: Option<f64>| ms.map(|ms| of_switch(key, ms)).transpose();
        let head_switch = of_switch("head_ms", switch.head_ms)?;
        let cylinder_switch = of_switch("cylinder_ms", switch.cylinder_ms)?;
        let of_seek = |what| toml_error(self.seek.span(), what);
        Ok(HddSpec {
            heads: geometry.heads,
            zones: self.zones(revolution, head_switch, cylinder_switch)?,
            revolution,
            start_phase: millis("start_phase_ms", geometry.start_phase_ms)
                .map_err(|what| toml_error(self.geometry.span(), what))?,
            seek: self.seek.get_ref().spec().map_err(of_seek)?,
            write_settle: millis("write_settle_ms", self.seek.get_ref().write_settle_ms.max(0.0))
                .map_err(of_seek)?,
            head_switch,
            cylinder_switch,
            track_skew: skew("track_skew_ms", switch.track_skew_ms)?,
            cylinder_skew: skew("cylinder_skew_ms", switch.cylinder_skew_ms)?,
            overhead: millis("overhead_ms", command.overhead_ms)
                .map_err(|what| toml_error(self.command.span(), what))?,
            len_max: command.len_max_bytes.unwrap_or(LEN_MAX),
            power: self
                .power
                .get_ref()
                .power()
                .map_err(|what| toml_error(self.power.span(), what))?,
        })
    }

    /// Returns the zones listed in the file, or creates zones from the rates at the outer and inner
    /// edge.
    fn zones(
        &self,
        revolution: Nanos,
        head_switch: Nanos,
        cylinder_switch: Nanos,
    ) -> Result<Vec<Zone>, TomlError> {
        let geometry = self.geometry.get_ref();
        match (&self.zones, &self.zone) {
            (Some(rates), None) => {
                let Some(capacity_bytes) = geometry.capacity_bytes else {
                    let what = "missing `capacity_bytes`, which is required if [zones] gives rates";
                    return Err(toml_error(self.geometry.span(), what));
                };
                let table = rates.get_ref();
                hdd::zones(&Layout {
                    capacity_bytes,
                    heads: geometry.heads,
                    revolution,
                    head_switch,
                    cylinder_switch,
                    outer_bytes_per_s: table.outer_sustained_mb_per_s * 1e6,
                    inner_bytes_per_s: table.inner_sustained_mb_per_s * 1e6,
                    zones: table.count,
                })
                .map_err(|error| {
                    let of_geometry = ["heads", "capacity"];
                    let is_of_geometry = of_geometry.iter().any(|word| error.0.starts_with(word));
                    let span = if is_of_geometry { self.geometry.span() } else { rates.span() };
                    toml_error(span, error)
                })
            }
            (None, Some(list)) => {
                let zone = |table: &Spanned<ZoneTable>| Zone {
                    first_cylinder: table.get_ref().first_cylinder,
                    last_cylinder: table.get_ref().last_cylinder,
                    sectors_per_track: table.get_ref().sectors_per_track,
                };
                if geometry.capacity_bytes.is_some() {
                    let what = "got `capacity_bytes`, expected none if [[zone]] lists the zones";
                    return Err(toml_error(self.geometry.span(), what));
                }
                Ok(list.iter().map(zone).collect())
            }
            (rates, _) => {
                let got = if rates.is_some() { "both" } else { "neither" };
                let what = format!("got {got}, expected either [zones] with rates or [[zone]]s");
                Err(toml_error(self.geometry.span(), what))
            }
        }
    }

    /// Finds the table that a disk's error refers to, from the first words of the error message.
    fn locate(&self, error: SpecError) -> TomlError {
        let says = |word: &str| error.0.contains(word);
        // The message begins with `zone 1: got ...`; zones are numbered from 0.
        let number = error.0.strip_prefix("zone ").and_then(|rest| rest.split(':').next());
        let index = number.and_then(|number| number.parse().ok()).unwrap_or(0);
        let zone = self.zone.as_ref().and_then(|zones: &Vec<_>| zones.get::<usize>(index));
        let tables = self.tables();
        let span = if let Some(span) = tables.locate(&error) {
            span
        } else if says("zone") {
            zone.map_or(self.geometry.span(), Spanned::span)
        } else if says("seek curve") || says("seek:") || says("seek times") || says("settle") {
            self.seek.span()
        } else if says("power") {
            self.power.span()
        } else if says("switch") || says("skew") {
            self.switch.span()
        } else if says("overhead") || says("command") {
            self.command.span()
        } else {
            self.geometry.span()
        };
        toml_error(span, error)
    }
}

impl SeekTable {
    fn spec(&self) -> Result<SeekSpec, String> {
        match (&self.distances_cylinders, &self.times_ms) {
            (None, None) => {}
            (Some(distances), Some(times)) if distances.len() == times.len() => {
                if self.formula().is_ok() || self.first_ms.is_some() {
                    return Err(
                        "got a table of times and other keys, expected only one of the two".into(),
                    );
                }
                let times = times.iter().map(|&ms| millis("times_ms", ms));
                let points = distances
                    .iter()
                    .zip(times)
                    .map(|(&cylinders, time)| Ok::<_, String>((cylinders, time?)));
                return Ok(SeekSpec::Table(points.collect::<Result<_, _>>()?));
            }
            (distances, times) => {
                let count = |list: Option<usize>| list.unwrap_or(0);
                return Err(format!(
                    "got {} distances_cylinders and {} times_ms, expected equal numbers",
                    count(distances.as_ref().map(Vec::len)),
                    count(times.as_ref().map(Vec::len))
                ));
            }
        }
        let rest = self.formula()?;
        let Some(first) = &self.first_ms else { return Ok(rest) };
        let first = first.iter().map(|&ms| millis("first_ms", ms)).collect::<Result<_, _>>()?;
        Ok(SeekSpec::Prefixed { first, rest: Box::new(rest) })
    }

    fn formula(&self) -> Result<SeekSpec, String> {
        let sheet = (self.track_to_track_ms, self.average_ms, self.full_stroke_ms);
        let short = (self.short_ms, self.short_us_per_root);
        let long = (self.long_ms, self.long_us_per_cylinder);
        match (sheet, self.knee_share, short, long, self.knee_cylinders) {
            (
                (Some(track_to_track), Some(average), Some(full_stroke)),
                knee_share,
                (None, None),
                (None, None),
                None,
            ) => Ok(SeekSpec::Datasheet {
                track_to_track: millis("track_to_track_ms", track_to_track)?,
                average: millis("average_ms", average)?,
                full_stroke: millis("full_stroke_ms", full_stroke)?,
                knee_share: knee_share.unwrap_or(KNEE_SHARE),
            }),
            (
                (None, None, None),
                None,
                (Some(short), Some(root)),
                (Some(long), Some(each)),
                Some(knee),
            ) => Ok(SeekSpec::Coefficients {
                short_ns: short * 1e6,
                root_ns: root * 1e3,
                long_ns: long * 1e6,
                cylinder_ns: each * 1e3,
                knee,
            }),
            _ => Err(
                "got a different set of keys, expected either track_to_track_ms, average_ms and \
                      full_stroke_ms (knee_share is optional), or short_ms, short_us_per_root, \
                      long_ms, long_us_per_cylinder and knee_cylinders (first_ms is optional), or \
                      distances_cylinders and times_ms"
                    .to_string(),
            ),
        }
    }
}

impl PowerTable {
    fn power(&self) -> Result<Power, String> {
        let standby = match (self.standby_w, self.spin_up_j, self.spin_up_s) {
            (None, None, None) => None,
            (Some(standby_w), Some(spin_up_j), Some(spin_up_s)) => {
                if !(0.0..=600.0).contains(&spin_up_s) {
                    return Err(format!("spin_up_s: got {spin_up_s}, expected 0 to 600 s"));
                }
                let spin_up = Nanos::from_secs_f64(spin_up_s);
                Some(Standby { standby_w, spin_up_j, spin_up })
            }
            _ => {
                return Err("got some of standby_w, spin_up_j and spin_up_s, expected all three, \
                    or none for a disk that never spins down"
                    .to_string());
            }
        };
        let PowerTable { idle_w, seek_w, transfer_w, .. } = *self;
        Ok(Power { idle_w, seek_w, transfer_w, standby })
    }
}

pub(super) fn millis(key: &str, ms: f64) -> Result<Nanos, String> {
    millis_to(key, ms, 1_000.0)
}

pub(super) fn millis_to(key: &str, ms: f64, most_ms: f64) -> Result<Nanos, String> {
    if (0.0..=most_ms).contains(&ms) {
        Ok(Nanos::from_millis_f64(ms))
    } else {
        Err(format!("{key}: got {ms}, expected 0 to {most_ms} ms"))
    }
}
