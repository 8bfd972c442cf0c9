//! Builds a disk from fitted figures and from assumptions that are common to all disks.

use forebay_core::device::drive::{
    Admits, BufferSpec, Bus, Controller, DriveSpec, Overhead, Overheads, QueueSpec, ReadAhead,
    WriteCacheSpec,
};
use forebay_core::device::hdd::{self, HddSpec, LEN_MAX, Layout, Power, SeekSpec, Zone};
use forebay_core::{Nanos, SpecError};

use super::DiskFigures;

/// The assumed controller time of a command.
pub(super) const OVERHEAD_MS: f64 = 0.1;
/// The distance at which the assumed seek curve changes from a square root to a line, as a share of
/// all cylinders.
pub(super) const KNEE_SHARE: f64 = 0.33;
/// The number of zones between the outer and the inner edge.
pub(super) const ZONES: u32 = 24;
/// The assumed time of a head or cylinder switch.
pub(super) const SWITCH_MS: f64 = 1.0;
/// The bus time per sector of a SATA drive at 3 Gb/s.
pub(super) const US_PER_SECTOR: f64 = 1.7;
/// The longest run of sectors in the buffer and the cache.
pub(super) const RUN_SECTORS: u64 = 1024;
impl DiskFigures {
    /// Builds the disk with these figures.
    ///
    /// # Errors
    /// Fails if no zones have these figures, as with too large a capacity for the data surfaces.
    pub(super) fn spec(&self, capacity_bytes: u64) -> Result<DriveSpec, SpecError> {
        let ms = |ms: f64| Nanos::from_millis_f64(ms.clamp(0.0, 1e6));
        let revolution = Nanos::from_secs_f64(60.0 / self.rpm.clamp(60.0, 1e6));
        let switch = ms(SWITCH_MS);
        let each = Overhead { after_read: ms(OVERHEAD_MS), after_write: ms(OVERHEAD_MS) };
        let ns_per_sector = US_PER_SECTOR * 1e3;
        Ok(DriveSpec {
            disk: HddSpec {
                heads: self.heads,
                zones: self.zones(capacity_bytes, revolution)?,
                revolution,
                start_phase: Nanos::ZERO,
                seek: SeekSpec::Datasheet {
                    track_to_track: ms(self.track_to_track_ms),
                    average: ms(self.average_ms),
                    full_stroke: ms(self.full_stroke_ms),
                    knee_share: KNEE_SHARE,
                },
                write_settle: ms(self.write_settle_ms),
                head_switch: switch,
                cylinder_switch: switch,
                track_skew: None,
                cylinder_skew: None,
                overhead: ms(OVERHEAD_MS),
                len_max: LEN_MAX,
                power: Power { idle_w: 0.0, seek_w: 0.0, transfer_w: 0.0, standby: None },
            },
            format: None,
            controller: Controller {
                overheads: Overheads {
                    read_hit: each,
                    read_miss: each,
                    write_hit: each,
                    write_miss: each,
                    ..Overheads::default()
                },
                bus: Bus { read_ns_per_sector: ns_per_sector, write_ns_per_sector: ns_per_sector },
                buffer: Some(BufferSpec {
                    segments: 16,
                    segment_sectors: RUN_SECTORS,
                    read_ahead: ReadAhead::Limit,
                    read_ahead_sectors: RUN_SECTORS,
                    hits_on_written: false,
                    almost_hits: true,
                    read_ahead_replaces: false,
                    read_ahead_on_hit: true,
                    read_before: false,
                    stop_in_sector: false,
                    watermark_share: 0.0,
                }),
                write_cache: (self.places > 0).then(|| WriteCacheSpec {
                    extents: self.places,
                    extent_sectors: RUN_SECTORS,
                    sectors: self.cache_sectors(),
                    admits: if self.admits_newest { Admits::Newest } else { Admits::Oldest },
                }),
                queue: QueueSpec {
                    depth: self.queue_depth,
                    starvation: ms(self.starvation_ms),
                    catch_margin: ms(self.catch_margin_ms),
                    ahead: self.ahead,
                },
                ..Controller::default()
            },
        })
    }

    /// Returns the size of the write cache: 8 MiB, or 8 KiB per place.
    pub(super) fn cache_sectors(&self) -> u64 {
        (16 * u64::from(self.places)).max(16_384)
    }

    fn zones(&self, capacity_bytes: u64, revolution: Nanos) -> Result<Vec<Zone>, SpecError> {
        let [outer, inner] = self.sustained_mb_per_s.map(|rate| rate * 1e6);
        let switch = Nanos::from_millis_f64(SWITCH_MS);
        let layout = Layout {
            capacity_bytes,
            heads: self.heads,
            revolution,
            head_switch: switch,
            cylinder_switch: switch,
            outer_bytes_per_s: outer,
            inner_bytes_per_s: inner,
            zones: ZONES,
        };
        hdd::zones(&layout)
    }
}
