//! The tables of a device file that describe a disk's format and controller.
//!
//! A disk has a controller if its file contains any of these tables. Parts that the tables omit are
//! off or take no time. The controller time in `[command]` applies to every command that
//! `[overheads]` does not list.

use forebay_core::device::drive::{
    Admits, BufferSpec, Bus, Controller, Defects, ExtraDisconnect, Format, HeadOrder, Overhead,
    Overheads, QueueSpec, ReadAhead, SpareRange, Sparing, WriteCacheSpec, ZoneFormat,
};
use forebay_core::{Nanos, SpecError};
use serde::Deserialize;
use toml::Spanned;

use super::file::{TomlError, ZoneTable, millis, millis_to, toml_error};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FormatTable {
    head_order: Option<HeadOrderName>,
    spare_range: Option<SpareRangeName>,
    spare_range_cylinders: Option<u32>,
    #[serde(default)]
    spare_whole_tracks: bool,
    #[serde(default)]
    spares_at_front: bool,
    #[serde(default)]
    slip_to_zone_end: bool,
    #[serde(default)]
    slips_turn_tracks: bool,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum HeadOrderName {
    Forward,
    Serpentine,
    SerpentineByZone,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SpareRangeName {
    Zone,
    Cylinders,
    Track,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OverheadsTable {
    read_hit_after_read_ms: Option<f64>,
    read_hit_after_write_ms: Option<f64>,
    read_miss_after_read_ms: Option<f64>,
    read_miss_after_write_ms: Option<f64>,
    write_hit_after_read_ms: Option<f64>,
    write_hit_after_write_ms: Option<f64>,
    write_miss_after_read_ms: Option<f64>,
    write_miss_after_write_ms: Option<f64>,
    read_completion_ms: Option<f64>,
    write_completion_ms: Option<f64>,
    data_preparation_ms: Option<f64>,
    reselect_ms: Option<f64>,
    reselect_again_ms: Option<f64>,
    write_disconnect_ms: Option<f64>,
    write_seek_least_ms: Option<f64>,
    extra_disconnect: Option<ExtraDisconnectTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExtraDisconnectTable {
    command_ms: f64,
    seek_delay_ms: f64,
    away_ms: f64,
    disconnect_ms: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BusTable {
    read_us_per_sector: f64,
    write_us_per_sector: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BufferTable {
    segments: u32,
    segment_sectors: u64,
    read_ahead: ReadAheadName,
    read_ahead_sectors: Option<u64>,
    #[serde(default)]
    hits_on_written: bool,
    #[serde(default)]
    almost_hits: bool,
    #[serde(default)]
    read_ahead_replaces: bool,
    #[serde(default)]
    read_ahead_on_hit: bool,
    #[serde(default)]
    read_before: bool,
    #[serde(default)]
    stop_in_sector: bool,
    #[serde(default)]
    zero_latency_reads: bool,
    #[serde(default)]
    zero_latency_writes: bool,
    #[serde(default)]
    read_watermark_share: f64,
    #[serde(default)]
    write_watermark_share: f64,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ReadAheadName {
    None,
    Track,
    Cylinder,
    Limit,
    NextTrack,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteCacheTable {
    enabled: bool,
    extents: u32,
    extent_sectors: u64,
    /// The total number of sectors. Defaults to as many as fit.
    sectors: Option<u64>,
    #[serde(default)]
    admits: AdmitsName,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum AdmitsName {
    #[default]
    Oldest,
    Newest,
}

impl WriteCacheTable {
    fn whole(&self) -> u64 {
        u64::from(self.extents).saturating_mul(self.extent_sectors)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueTable {
    depth: u32,
    starvation_ms: Option<f64>,
    catch_margin_ms: Option<f64>,
    /// The range in which the true catch margin lies, if `catch_margin_ms` is only a guess.
    catch_margin_range_ms: Option<[f64; 2]>,
    ahead: Option<i32>,
}

/// The maximum starvation limit in a file. Measured disks have 0.5 to 2 s.
const STARVATION_MS_MAX: f64 = 10_000.0;

impl QueueTable {
    /// Returns the range of the drive's catch margin, if the file contains one.
    pub(super) fn catch_margin_range(&self) -> Result<Option<[Nanos; 2]>, String> {
        let Some([least, greatest]) = self.catch_margin_range_ms else { return Ok(None) };
        let key = "catch_margin_range_ms";
        let range = [millis(key, least)?, millis(key, greatest)?];
        let margin = self.catch_margin_ms.unwrap_or(0.0);
        if (least..=greatest).contains(&margin) {
            return Ok(Some(range));
        }
        Err(format!(
            "{key}: got [{least}, {greatest}], expected a range from the lowest to the highest \
             margin that includes catch_margin_ms ({margin})"
        ))
    }

    fn queue(&self) -> Result<QueueSpec, String> {
        let default = QueueSpec::default();
        let starvation = |ms| millis_to("starvation_ms", ms, STARVATION_MS_MAX);
        let margin = |ms| millis("catch_margin_ms", ms);
        Ok(QueueSpec {
            depth: self.depth,
            starvation: self.starvation_ms.map_or(Ok(default.starvation), starvation)?,
            catch_margin: self.catch_margin_ms.map_or(Ok(default.catch_margin), margin)?,
            ahead: self.ahead.unwrap_or(default.ahead),
        })
    }
}

/// The tables that give a disk a controller.
pub(super) struct Tables<'a> {
    pub(super) format: Option<&'a Spanned<FormatTable>>,
    pub(super) overheads: Option<&'a Spanned<OverheadsTable>>,
    pub(super) bus: Option<&'a Spanned<BusTable>>,
    pub(super) buffer: Option<&'a Spanned<BufferTable>>,
    pub(super) write_cache: Option<&'a Spanned<WriteCacheTable>>,
    pub(super) queue: Option<&'a Spanned<QueueTable>>,
}

impl Tables<'_> {
    /// Returns whether the file contains any of these tables.
    pub(super) fn any(&self) -> bool {
        let controller = self.overheads.is_some() || self.bus.is_some() || self.queue.is_some();
        controller || self.format.is_some() || self.buffer.is_some() || self.write_cache.is_some()
    }

    /// Builds the controller. `command` is the controller time in `[command]`.
    pub(super) fn controller(&self, command: Nanos) -> Result<Controller, TomlError> {
        let plain = Overhead { after_read: command, after_write: command };
        let mut overheads = Overheads {
            read_hit: plain,
            read_miss: plain,
            write_hit: plain,
            write_miss: plain,
            ..Overheads::default()
        };
        if let Some(table) = self.overheads {
            overheads = table
                .get_ref()
                .overheads(overheads)
                .map_err(|what| toml_error(table.span(), what))?;
        }
        if let Some(table) = self.bus {
            table.get_ref().check().map_err(|what| toml_error(table.span(), what))?;
        }
        let bus = self.bus.map(Spanned::get_ref).map_or(Bus::default(), |bus| Bus {
            read_ns_per_sector: bus.read_us_per_sector * 1e3,
            write_ns_per_sector: bus.write_us_per_sector * 1e3,
        });
        let queue = self.queue.map_or(Ok(QueueSpec::default()), |table| {
            let queue = table.get_ref().queue();
            queue.map_err(|what| toml_error(table.span(), what))
        })?;
        self.catch_margin_range()?;
        let flags = self.buffer.map(Spanned::get_ref);
        let buffer = self
            .buffer
            .map(|table| table.get_ref().buffer().map_err(|error| toml_error(table.span(), error)));
        let cache = self.write_cache.map(Spanned::get_ref).filter(|cache| cache.enabled);
        Ok(Controller {
            overheads,
            bus,
            buffer: buffer.transpose()?,
            write_cache: cache.map(|cache| WriteCacheSpec {
                extents: cache.extents,
                extent_sectors: cache.extent_sectors,
                sectors: cache.sectors.unwrap_or_else(|| cache.whole()),
                admits: match cache.admits {
                    AdmitsName::Oldest => Admits::Oldest,
                    AdmitsName::Newest => Admits::Newest,
                },
            }),
            queue,
            zero_latency_reads: flags.is_some_and(|buffer| buffer.zero_latency_reads),
            zero_latency_writes: flags.is_some_and(|buffer| buffer.zero_latency_writes),
            write_watermark_share: flags.map_or(0.0, |buffer| buffer.write_watermark_share),
            write_seek_less: Nanos::ZERO,
        })
    }

    /// Returns how many commands the drive can queue, if specified.
    pub(super) fn queue_depth(&self) -> Option<u32> {
        self.queue.map(|table| table.get_ref().depth)
    }

    /// Returns whether the file specifies a catch margin: how long before its sector the head must
    /// arrive.
    pub(super) fn has_catch_margin(&self) -> bool {
        self.queue.is_some_and(|table| table.get_ref().catch_margin_ms.is_some())
    }

    /// Returns the range of the drive's catch margin, if specified.
    pub(super) fn catch_margin_range(&self) -> Result<Option<[Nanos; 2]>, TomlError> {
        let Some(table) = self.queue else { return Ok(None) };
        table.get_ref().catch_margin_range().map_err(|what| toml_error(table.span(), what))
    }

    /// Returns the format of `zones`, if specified.
    pub(super) fn format(
        &self,
        zones: Option<&[Spanned<ZoneTable>]>,
    ) -> Result<Option<Format>, TomlError> {
        let Some(table) = self.format else { return Ok(None) };
        let Some(zones) = zones else {
            let what =
                "got [format] without zones, expected a [[zone]] with the format of each zone";
            return Err(toml_error(table.span(), what));
        };
        let format = table.get_ref();
        let range = match (format.spare_range, format.spare_range_cylinders) {
            (None | Some(SpareRangeName::Zone), None) => SpareRange::Zone,
            (Some(SpareRangeName::Track), None) => SpareRange::Track,
            (Some(SpareRangeName::Cylinders), Some(count)) if count > 0 => {
                SpareRange::Cylinders(count)
            }
            _ => {
                let what = "spare_range: expected \"zone\", \"track\", or \"cylinders\" together \
                            with spare_range_cylinders of 1 or more";
                return Err(toml_error(table.span(), what));
            }
        };
        Ok(Some(Format {
            head_order: match format.head_order {
                None | Some(HeadOrderName::Forward) => HeadOrder::Forward,
                Some(HeadOrderName::Serpentine) => HeadOrder::Serpentine,
                Some(HeadOrderName::SerpentineByZone) => HeadOrder::SerpentineByZone,
            },
            sparing: Sparing {
                range,
                whole_tracks: format.spare_whole_tracks,
                at_front: format.spares_at_front,
                to_zone_end: format.slip_to_zone_end,
                turns: format.slips_turn_tracks,
            },
            zones: zones.iter().map(Spanned::get_ref).map(zone_format).collect(),
        }))
    }

    /// Finds the table that an error refers to, from the first words of the error message.
    pub(super) fn locate(&self, error: &SpecError) -> Option<std::ops::Range<usize>> {
        let says = |word: &str| error.0.starts_with(word);
        if says("bus") {
            self.bus.map(Spanned::span)
        } else if says("buffer") || says("write:") {
            self.buffer.map(Spanned::span)
        } else if says("write cache") {
            self.write_cache.map(Spanned::span)
        } else if says("queue") {
            self.queue.map(Spanned::span)
        } else {
            None
        }
    }
}

fn zone_format(zone: &ZoneTable) -> ZoneFormat {
    ZoneFormat {
        first_angle_sectors: zone.first_angle_sectors.unwrap_or(0.0),
        reserved_sectors: zone.reserved_sectors.unwrap_or(0),
        track_skew_sectors: zone.track_skew_sectors.unwrap_or(0.0),
        cylinder_skew_sectors: zone.cylinder_skew_sectors.unwrap_or(0.0),
        defects: Defects {
            spares: zone.spares.unwrap_or(0),
            slips: zone.slipped.clone().unwrap_or_default(),
            remaps: zone.remapped.clone().unwrap_or_default(),
        },
    }
}

impl OverheadsTable {
    fn overheads(&self, default: Overheads) -> Result<Overheads, String> {
        let time = |key: &str, ms: Option<f64>, default: Nanos| {
            ms.map_or(Ok(default), |ms| millis(key, ms))
        };
        let zero = Nanos::ZERO;
        let kind = |key: &str, read, write, default: Overhead| {
            Ok::<_, String>(Overhead {
                after_read: time(&format!("{key}_after_read_ms"), read, default.after_read)?,
                after_write: time(&format!("{key}_after_write_ms"), write, default.after_write)?,
            })
        };
        let (read_hit, after) = (self.read_hit_after_read_ms, self.read_hit_after_write_ms);
        let read_hit = kind("read_hit", read_hit, after, default.read_hit)?;
        let (read_miss, after) = (self.read_miss_after_read_ms, self.read_miss_after_write_ms);
        let read_miss = kind("read_miss", read_miss, after, default.read_miss)?;
        let (write_hit, after) = (self.write_hit_after_read_ms, self.write_hit_after_write_ms);
        let write_hit = kind("write_hit", write_hit, after, default.write_hit)?;
        let (write_miss, after) = (self.write_miss_after_read_ms, self.write_miss_after_write_ms);
        let write_miss = kind("write_miss", write_miss, after, default.write_miss)?;
        let extra = |table: &ExtraDisconnectTable| {
            Ok::<_, String>(ExtraDisconnect {
                command: millis("command_ms", table.command_ms)?,
                seek_delay: millis("seek_delay_ms", table.seek_delay_ms)?,
                away: millis("away_ms", table.away_ms)?,
                disconnect: millis("disconnect_ms", table.disconnect_ms)?,
            })
        };
        Ok(Overheads {
            read_hit,
            read_miss,
            write_hit,
            write_miss,
            read_completion: time("read_completion_ms", self.read_completion_ms, zero)?,
            write_completion: time("write_completion_ms", self.write_completion_ms, zero)?,
            data_preparation: time("data_preparation_ms", self.data_preparation_ms, zero)?,
            reselect: time("reselect_ms", self.reselect_ms, zero)?,
            reselect_again: time("reselect_again_ms", self.reselect_again_ms, zero)?,
            write_disconnect: time("write_disconnect_ms", self.write_disconnect_ms, zero)?,
            write_seek_least: time("write_seek_least_ms", self.write_seek_least_ms, zero)?,
            extra_disconnect: self.extra_disconnect.as_ref().map(extra).transpose()?,
        })
    }
}

impl BusTable {
    fn check(&self) -> Result<(), String> {
        let times = [
            ("read_us_per_sector", self.read_us_per_sector),
            ("write_us_per_sector", self.write_us_per_sector),
        ];
        match times.into_iter().find(|(_, us)| !(0.0..=1e6).contains(us)) {
            Some((key, us)) => Err(format!("{key}: got {us}, expected 0 to 1000000 us")),
            None => Ok(()),
        }
    }
}

impl BufferTable {
    fn buffer(&self) -> Result<BufferSpec, String> {
        let limit = self.read_ahead == ReadAheadName::Limit;
        if limit != self.read_ahead_sectors.is_some() {
            return Err("read_ahead_sectors: expected only with read_ahead = \"limit\"".to_string());
        }
        Ok(BufferSpec {
            segments: self.segments,
            segment_sectors: self.segment_sectors,
            read_ahead: match self.read_ahead {
                ReadAheadName::None => ReadAhead::None,
                ReadAheadName::Track => ReadAhead::Track,
                ReadAheadName::Cylinder => ReadAhead::Cylinder,
                ReadAheadName::Limit => ReadAhead::Limit,
                ReadAheadName::NextTrack => ReadAhead::NextTrack,
            },
            read_ahead_sectors: self.read_ahead_sectors.unwrap_or(0),
            hits_on_written: self.hits_on_written,
            almost_hits: self.almost_hits,
            read_ahead_replaces: self.read_ahead_replaces,
            read_ahead_on_hit: self.read_ahead_on_hit,
            read_before: self.read_before,
            stop_in_sector: self.stop_in_sector,
            watermark_share: self.read_watermark_share,
        })
    }
}
