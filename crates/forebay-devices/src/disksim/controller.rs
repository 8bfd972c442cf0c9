//! DiskSim's `disksim_disk` block, which describes a drive's controller, buffer and bus.

use forebay_core::Nanos;
use forebay_core::device::drive::{
    Admits, BufferSpec, Bus, Controller, ExtraDisconnect, Overhead, Overheads, QueueSpec,
    ReadAhead, WriteCacheSpec,
};

use super::libparam::LibparamError;
use super::model::Notes;
use super::params::Params;

/// Parameters that do not affect how long a command takes in our model: statistics to print, and
/// details of DiskSim's own queue and implementation.
pub(super) const WITHOUT_EFFECT: &[&str] = &[
    "Model",
    "Print stats",
    "Scheduler",
    "Avg sectors per cylinder",
    "Calc sector by sector",
    "Combine seq writes",
    "Write hit stop prefetch",
    "Read directly to buffer",
    "Immed transfer partial hit",
    "Hold bus entire read xfer",
    "Hold bus entire write xfer",
    "Read disconnect afterread",
    "Read disconnect afterwrite",
    "Maximum number of write segments",
];

/// Features that Forebay's drives always have. Setting one of them to 0 causes a note.
const ALWAYS: [&str; 4] = [
    "Combine seq writes",
    "Write hit stop prefetch",
    "Read directly to buffer",
    "Immed transfer partial hit",
];

/// The maximum number of buffer segments.
const SEGMENTS: u32 = 65_536;
const SEGMENT: &str = "Segment size (in blks)";

/// Reads the controller. `bus` holds the bus times per sector read and written, in ms.
pub(super) fn read(
    disk: &Params<'_>,
    bus: [f64; 2],
    notes: &mut Notes,
) -> Result<Controller, LibparamError> {
    note_what_is_off(disk, notes)?;
    let bulk = disk.time("Bulk sector transfer time")?;
    let [read, write] = bus.map(|ms| ms.max(bulk) * 1e6);
    let buffer = buffer(disk)?;
    let buffered = buffer.is_some();
    Ok(Controller {
        overheads: overheads(disk)?,
        bus: Bus { read_ns_per_sector: read, write_ns_per_sector: write },
        buffer,
        write_cache: match disk.count("Fast write level")? {
            0 => None,
            _ => {
                let extents = "Maximum number of write segments";
                let extents = disk.count_of(extents, 0..=SEGMENTS, 1)?.max(1);
                let extent_sectors = disk.count_of(SEGMENT, 0..=u32::MAX, 1)?.max(1).into();
                let sectors = u64::from(extents) * extent_sectors;
                Some(WriteCacheSpec { extents, extent_sectors, sectors, admits: Admits::Oldest })
            }
        },
        queue: QueueSpec {
            depth: disk.count_of("Max queue length", 1..=4_096, 1)?,
            ..QueueSpec::default()
        },
        zero_latency_reads: disk.flag("Immediate buffer read")? && buffered,
        zero_latency_writes: disk.flag("Immediate buffer write")? && buffered,
        write_watermark_share: 0.0,
        write_seek_less: Nanos::ZERO,
    })
}

/// Adds a note for each feature that the file disables although our drives always have it.
fn note_what_is_off(disk: &Params<'_>, notes: &mut Notes) -> Result<(), LibparamError> {
    for key in ALWAYS {
        if disk.number(key)? == Some(0.0) {
            let what = format!("{key} = 0 is not modeled: the simulated drive always does this");
            notes.push((disk.line_of(key), what));
        }
    }
    let key = "Set watermark by reqsize";
    let has_marks = disk.or_zero("High (read) water mark")? > 0.0;
    if disk.number(key)? == Some(0.0) && has_marks {
        let what = format!("{key} = 0 is not modeled: watermarks are shares of the request");
        notes.push((disk.line_of(key), what));
    }
    Ok(())
}

fn overheads(disk: &Params<'_>) -> Result<Overheads, LibparamError> {
    let scale = disk.number("Time scale for overheads")?.unwrap_or(1.0);
    let each = disk.time("Per-request overhead time")?;
    if !(0.0..=1_000.0).contains(&scale) {
        let key = "Time scale for overheads";
        return Err((disk.line_of(key), format!("{key}: got {scale}, expected 0 to 1000")));
    }
    let scaled = |key: &str, ms: f64| {
        if ms * scale <= 1_000.0 {
            return Ok(Nanos::from_millis_f64(ms * scale));
        }
        let what = format!("{key}: got {} ms in total, expected at most 1000", ms * scale);
        Err((disk.line_of(key), what))
    };
    let time = |key: &str| scaled(key, disk.time(key)?);
    let sum = |keys: [&str; 2]| Ok::<_, LibparamError>(time(keys[0])? + time(keys[1])?);
    let kind = |name: &str| {
        let of = |after: &str| {
            let key = format!("{name} over. after {after}");
            scaled(&key, disk.time(&key)? + each)
        };
        Ok::<_, LibparamError>(Overhead { after_read: of("read")?, after_write: of("write")? })
    };
    // A drive that never disconnects from the bus does not need to reconnect.
    let stays = disk.flag("Never disconnect")?;
    let away = |key: &str| if stays { Ok(Nanos::ZERO) } else { time(key) };
    Ok(Overheads {
        read_hit: kind("Read hit")?,
        read_miss: kind("Read miss")?,
        write_hit: kind("Write hit")?,
        write_miss: kind("Write miss")?,
        read_completion: time("Read completion overhead")?,
        write_completion: time("Write completion overhead")?,
        data_preparation: time("Data preparation overhead")?,
        reselect: away("First reselect overhead")?,
        reselect_again: away("Other reselect overhead")?,
        write_disconnect: away("Write disconnect overhead")?,
        write_seek_least: time("Minimum seek delay")?,
        extra_disconnect: if disk.flag("Extra write disconnect")? && !stays {
            Some(ExtraDisconnect {
                command: time("Extradisc command overhead")?,
                seek_delay: time("Extradisc seek delta")?,
                away: sum(["Extradisc disconnect overhead", "Extradisc inter-disconnect delay"])?,
                disconnect: time("Extradisc 2nd disconnect overhead")?,
            })
        } else {
            None
        },
    })
}

fn buffer(disk: &Params<'_>) -> Result<Option<BufferSpec>, LibparamError> {
    let segments = disk.count_of("Number of buffer segments", 0..=SEGMENTS, 0)?;
    let segment_sectors = u64::from(disk.count_of(SEGMENT, 0..=u32::MAX, 0)?);
    if !disk.flag("Enable caching in buffer")? || segments == 0 || segment_sectors == 0 {
        return Ok(None);
    }
    // Reads never hit a segment that is reserved for writes.
    let apart = disk.flag("Use separate write segment")?;
    let most = u64::from(disk.count_of("Maximum read-ahead (blks)", 0..=u32::MAX, 0)?);
    let key = "Buffer continuous read";
    let read_ahead = match disk.count(key)? {
        0 => ReadAhead::None,
        1 => ReadAhead::Track,
        2 => ReadAhead::Cylinder,
        3 => ReadAhead::Limit,
        4 => ReadAhead::NextTrack,
        got => return Err((disk.line_of(key), format!("{key}: got {got}, expected 0 to 4"))),
    };
    Ok(Some(BufferSpec {
        segments: segments.saturating_sub(u32::from(apart)).max(1),
        segment_sectors,
        read_ahead,
        read_ahead_sectors: match read_ahead {
            ReadAhead::Limit if most == 0 => segment_sectors,
            ReadAhead::Limit => most,
            _ => 0,
        },
        hits_on_written: disk.flag("Allow read hits on write data")? && !apart,
        almost_hits: disk.flag("Allow almost read hits")?,
        read_ahead_replaces: disk.number("Read-ahead over requested")?.unwrap_or(0.0) > 0.0,
        read_ahead_on_hit: disk.flag("Read-ahead on idle hit")?,
        read_before: disk.flag("Read any free blocks")?,
        stop_in_sector: disk.flag("Stop prefetch in sector")?,
        watermark_share: disk.or_zero("High (read) water mark")?.clamp(0.0, 1.0),
    }))
}
