//! The parameters of a disk's controller: overheads, bus, buffer, write cache, queue.
//!
//! The terms are DiskSim's (Bucy, Schindler, Schlosser, Ganger: "The DiskSim Simulation Environment
//! Version 4.0 Reference Manual", CMU-PDL-08-101, section 3.2), with its names in brackets.

use crate::contract::spec::SpecError;
use crate::contract::time::Nanos;

/// Controller time of a command, by its kind and the kind of the previous one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overhead {
    /// After a command that read, or the first one.
    pub after_read: Nanos,
    /// After a command that wrote.
    pub after_write: Nanos,
}

/// The connection more that some SCSI drives make for a write that follows another write without
/// going on where it ended ("Extra write disconnect").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtraDisconnect {
    /// The controller time, instead of the usual one.
    pub command: Nanos,
    /// The additional wait of the arm.
    pub seek_delay: Nanos,
    /// The time off the bus until it is requested again.
    pub away: Nanos,
    /// The time to release the bus after the data.
    pub disconnect: Nanos,
}

/// Controller times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overheads {
    /// Reads of which the buffer holds at least the first sector.
    pub read_hit: Overhead,
    /// Other reads.
    pub read_miss: Overhead,
    /// Writes into the write cache.
    pub write_hit: Overhead,
    /// Writes to the media.
    pub write_miss: Overhead,
    /// The time from the last sector on the bus to the end of a read.
    pub read_completion: Nanos,
    /// The time to complete a write.
    pub write_completion: Nanos,
    /// The time before data is transferred over the bus.
    pub data_preparation: Nanos,
    /// The time to reacquire the bus: after a write has reached the media, or while a read passes,
    /// so that only longer times cause a wait.
    pub reselect: Nanos,
    /// The same the second time, after an extra connection.
    pub reselect_again: Nanos,
    /// The time to release the bus after the data of a write.
    pub write_disconnect: Nanos,
    /// The extra connection of some drives.
    pub extra_disconnect: Option<ExtraDisconnect>,
    /// The least time between a write's overhead and the arm's arrival, unless it goes on where
    /// the last one ended ("Minimum seek delay").
    pub write_seek_least: Nanos,
}

/// The bus between host and drive, busy for as long as data goes over it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bus {
    /// ns for each sector read; 0: no time.
    pub read_ns_per_sector: f64,
    /// The bus time per written sector.
    pub write_ns_per_sector: f64,
}

/// How far the drive reads on after a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadAhead {
    /// Not at all.
    None,
    /// Up to the end of the track.
    Track,
    /// Up to the end of the cylinder.
    Cylinder,
    /// Up to this number of sectors.
    #[default]
    Limit,
    /// Up to the end of the track after the one where the segment begins ("DEC prefetch scheme").
    NextTrack,
}

/// The track buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BufferSpec {
    /// Segments, each of which holds one run of sectors.
    pub segments: u32,
    /// The capacity of a segment.
    pub segment_sectors: u64,
    /// How far the drive reads ahead.
    pub read_ahead: ReadAhead,
    /// The maximum number of sectors to read ahead with [`ReadAhead::Limit`].
    pub read_ahead_sectors: u64,
    /// Data that was written can be read from the buffer.
    pub hits_on_written: bool,
    /// A sector that is being read ahead counts as a hit.
    pub almost_hits: bool,
    /// Read-ahead overwrites data that was already transferred, which then causes misses.
    pub read_ahead_replaces: bool,
    /// A hit in a segment that no longer reads on makes it do so again.
    pub read_ahead_on_hit: bool,
    /// Whether the head reads as soon as it arrives at a track, and keeps the sectors before the
    /// request.
    pub read_before: bool,
    /// Read-ahead is given up at once, even within a sector; else at the end of one.
    pub stop_in_sector: bool,
    /// The share of a read that the media must have delivered before the bus is requested.
    pub watermark_share: f64,
}

/// Which of the writes that wait for a place in the cache gets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admits {
    /// The oldest write.
    #[default]
    Oldest,
    /// The one that came last, unless one has waited as long as [`QueueSpec::starvation`].
    Newest,
}

/// The write cache, volatile and written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteCacheSpec {
    /// Runs of sectors it can hold.
    pub extents: u32,
    /// The capacity of each extent.
    pub extent_sectors: u64,
    /// The total capacity of all extents.
    pub sectors: u64,
    /// Which write gets the next place.
    pub admits: Admits,
}

/// The command queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSpec {
    /// The number of commands that the drive accepts at a time.
    pub depth: u32,
    /// A command that has waited so long in the drive goes next, however far away, but at most one in
    /// eight does.
    pub starvation: Nanos,
    /// When it ranks commands, the drive expects to catch a sector on another cylinder only if the
    /// head would arrive earlier by this margin. It does not change the time of the access itself.
    pub catch_margin: Nanos,
    /// The number of committed commands when the next one is chosen, not counting the one at the
    /// media. -1 means that the drive chooses only when the host has responded to the completion,
    /// among all commands that have arrived by then.
    pub ahead: i32,
}

impl Default for QueueSpec {
    fn default() -> QueueSpec {
        QueueSpec { depth: 1, starvation: Nanos::from_secs(1), catch_margin: Nanos::ZERO, ahead: 0 }
    }
}

/// A controller.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Controller {
    /// Controller times.
    pub overheads: Overheads,
    /// The bus.
    pub bus: Bus,
    /// The track buffer, if there is one.
    pub buffer: Option<BufferSpec>,
    /// The write cache, if there is one and it is on.
    pub write_cache: Option<WriteCacheSpec>,
    /// The command queue.
    pub queue: QueueSpec,
    /// A read may begin with any of its sectors that comes round first ("Immediate buffer read").
    pub zero_latency_reads: bool,
    /// Whether writes may start with any sector.
    pub zero_latency_writes: bool,
    /// How much shorter the seek of a write is than that of a read, apart from the time that
    /// [`HddSpec::write_settle`] adds; such drives have been measured.
    ///
    /// [`HddSpec::write_settle`]: crate::device::hdd::HddSpec::write_settle
    pub write_seek_less: Nanos,
    /// The share of a write's data that must have arrived before its first sector is written ("Low
    /// (write) water mark"), at least one sector.
    pub write_watermark_share: f64,
}

impl Controller {
    pub(super) fn write_watermark(&self, count: u64) -> u64 {
        ((self.write_watermark_share * count as f64).ceil() as u64).max(1)
    }

    pub(super) fn check(&self) -> Result<(), SpecError> {
        let refuse = |what: &str, got: String, expected: &str| {
            Err(SpecError(format!("{what}: got {got}, expected {expected}")))
        };
        let Bus { read_ns_per_sector, write_ns_per_sector } = self.bus;
        for ns in [read_ns_per_sector, write_ns_per_sector] {
            if !(0.0..=1e9).contains(&ns) {
                return refuse("bus", format!("{ns} ns a sector"), "0 to 1e9 ns");
            }
        }
        if !(0.0..=1.0).contains(&self.write_watermark_share) {
            let got = format!("watermark {}", self.write_watermark_share);
            return refuse("write", got, "a share from 0 to 1");
        }
        if let Some(buffer) = self.buffer {
            if !(1..=65_536).contains(&buffer.segments) {
                return refuse("buffer segments", buffer.segments.to_string(), "1 to 65536");
            }
            if !(1..=1 << 32).contains(&buffer.segment_sectors) {
                let got = format!("segments of {} sectors", buffer.segment_sectors);
                return refuse("buffer", got, "1 to 2^32 sectors");
            }
            if buffer.read_ahead_sectors > 1 << 32 {
                let got = format!("read-ahead of {} sectors", buffer.read_ahead_sectors);
                return refuse("buffer", got, "0 to 2^32 sectors");
            }
            if !(0.0..=1.0).contains(&buffer.watermark_share) {
                let got = format!("watermark {}", buffer.watermark_share);
                return refuse("buffer", got, "a share from 0 to 1");
            }
        }
        if let Some(cache) = self.write_cache {
            if !(1..=65_536).contains(&cache.extents) {
                return refuse("write cache", format!("{} runs", cache.extents), "1 to 65536");
            }
            if !(1..=1 << 32).contains(&cache.extent_sectors) {
                let got = format!("runs of {} sectors", cache.extent_sectors);
                return refuse("write cache", got, "1 to 2^32 sectors");
            }
            if !(1..=1 << 40).contains(&cache.sectors) {
                let got = format!("{} sectors in all", cache.sectors);
                return refuse("write cache", got, "1 to 2^40 sectors");
            }
        }
        if !(1..=4_096).contains(&self.queue.depth) {
            return refuse("queue depth", self.queue.depth.to_string(), "1 to 4096 commands");
        }
        if !(-1..=4_096).contains(&self.queue.ahead) {
            let got = format!("{} commands ahead", self.queue.ahead);
            return refuse("queue", got, "-1 to 4096");
        }
        Ok(())
    }
}
