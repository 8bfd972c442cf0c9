//! The parameters of a disk's controller: overheads, bus, buffer, write cache, queue.
//!
//! The terms are DiskSim's (Bucy, Schindler, Schlosser, Ganger: "The DiskSim Simulation Environment
//! Version 4.0 Reference Manual", CMU-PDL-08-101, section 3.2), with its names in brackets.

use crate::contract::{Nanos, SpecError};

/// The controller's time for a command, by its kind and the kind of the previous command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overhead {
    /// After a read, or for the first command.
    pub after_read: Nanos,
    /// After a write.
    pub after_write: Nanos,
}

/// The additional connection that some SCSI drives make for a write that follows another write but
/// does not continue where it ended ("Extra write disconnect").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtraDisconnect {
    /// The controller overhead of such a write, in place of the usual overhead.
    pub command: Nanos,
    /// The additional wait of the arm.
    pub seek_delay: Nanos,
    /// How long the drive is off the bus before it requests the bus again.
    pub away: Nanos,
    /// The time to release the bus after the data transfer.
    pub disconnect: Nanos,
}

/// The controller's times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overheads {
    /// The overhead of reads whose first sector, at least, is in the buffer.
    pub read_hit: Overhead,
    /// The overhead of all other reads.
    pub read_miss: Overhead,
    /// The overhead of writes into the write cache.
    pub write_hit: Overhead,
    /// The overhead of writes to the media.
    pub write_miss: Overhead,
    /// The time from the last sector on the bus to the end of a read.
    pub read_completion: Nanos,
    /// The time to complete a write.
    pub write_completion: Nanos,
    /// The time before data is transferred over the bus.
    pub data_preparation: Nanos,
    /// The time to reacquire the bus. For a write, it follows the transfer to the media. For a
    /// read, it passes while the data passes the head, so only the excess causes a wait.
    pub reselect: Nanos,
    /// The time to reacquire the bus a second time, after an additional connection.
    pub reselect_again: Nanos,
    /// The time to release the bus after the data of a write.
    pub write_disconnect: Nanos,
    /// The extra disconnect of some drives.
    pub extra_disconnect: Option<ExtraDisconnect>,
    /// The minimum time between a write's overhead and the arm's arrival, unless the write
    /// continues where the last one ended ("Minimum seek delay").
    pub write_seek_least: Nanos,
}

/// The bus between host and drive, which is busy while it transfers data.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bus {
    /// The bus time per sector read, in ns; 0 means no time.
    pub read_ns_per_sector: f64,
    /// The bus time per sector written, in ns.
    pub write_ns_per_sector: f64,
}

/// How far the drive reads ahead after a read.
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
    /// The number of segments, each of which contains one run of sectors.
    pub segments: u32,
    /// The capacity of a segment in sectors.
    pub segment_sectors: u64,
    /// How far the drive reads ahead.
    pub read_ahead: ReadAhead,
    /// The maximum number of sectors to read ahead with [`ReadAhead::Limit`].
    pub read_ahead_sectors: u64,
    /// Whether written data can be read from the buffer.
    pub hits_on_written: bool,
    /// Whether a sector that is currently being read ahead counts as a hit.
    pub almost_hits: bool,
    /// Whether read-ahead overwrites data that was already transferred, which then causes misses.
    pub read_ahead_replaces: bool,
    /// Whether a hit in a segment that has stopped reading ahead makes it continue.
    pub read_ahead_on_hit: bool,
    /// Whether the head reads as soon as it arrives at a track, and keeps the sectors before the
    /// request.
    pub read_before: bool,
    /// Whether read-ahead can stop within a sector; otherwise it stops at the end of one.
    pub stop_in_sector: bool,
    /// The share of a read that the media must have delivered before the bus is requested.
    pub watermark_share: f64,
}

/// Which of the writes that wait for space in the cache gets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admits {
    /// The oldest write.
    #[default]
    Oldest,
    /// The newest write, unless a write has waited as long as [`QueueSpec::starvation`].
    Newest,
}

/// The write cache, which is volatile and written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteCacheSpec {
    /// The maximum number of extents, which are runs of sectors.
    pub extents: u32,
    /// The capacity of each extent in sectors.
    pub extent_sectors: u64,
    /// The total capacity of all extents in sectors.
    pub sectors: u64,
    /// Which waiting write gets free space.
    pub admits: Admits,
}

/// The command queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSpec {
    /// The number of commands that the drive accepts at a time.
    pub depth: u32,
    /// A command that has waited this long in the drive goes next, regardless of its distance, but
    /// at most one in eight commands.
    pub starvation: Nanos,
    /// When it ranks commands, the drive expects to catch a sector on another cylinder only if the
    /// head would arrive at least this much earlier. The margin does not change the time of the
    /// access itself.
    pub catch_margin: Nanos,
    /// The number of committed commands, not counting the one at the media, when the next one is
    /// chosen. -1 means that the drive chooses only when the host has responded to the completion,
    /// among all commands that have arrived by then.
    pub ahead: i32,
}

impl Default for QueueSpec {
    fn default() -> QueueSpec {
        QueueSpec { depth: 1, starvation: Nanos::from_secs(1), catch_margin: Nanos::ZERO, ahead: 0 }
    }
}

/// The parameters of a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Controller {
    /// The controller's times.
    pub overheads: Overheads,
    /// The bus.
    pub bus: Bus,
    /// The track buffer, if there is one.
    pub buffer: Option<BufferSpec>,
    /// The write cache, if there is one and it is enabled.
    pub write_cache: Option<WriteCacheSpec>,
    /// The command queue.
    pub queue: QueueSpec,
    /// Whether a read may begin with whichever of its sectors arrives under the head first
    /// ("Immediate buffer read").
    pub zero_latency_reads: bool,
    /// Whether a write may begin with any of its sectors.
    pub zero_latency_writes: bool,
    /// How much shorter the seek of a write is than that of a read, apart from the time that
    /// [`HddSpec::write_settle`] adds. Such drives have been measured.
    ///
    /// [`HddSpec::write_settle`]: crate::device::hdd::HddSpec::write_settle
    pub write_seek_less: Nanos,
    /// The share of a write's data that must have arrived before its first sector is written, at
    /// least one sector ("Low (write) water mark").
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
