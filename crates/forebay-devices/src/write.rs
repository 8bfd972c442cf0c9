//! Formats a disk with a controller as a device file that reads back to the same parameters.

use std::fmt::{self, Write};
use std::path::Path;

use forebay_core::Nanos;
use forebay_core::device::drive::{
    Admits, BufferSpec, Controller, DriveSpec, Format, HeadOrder, Overheads, QueueSpec, ReadAhead,
    SpareRange, ZoneFormat,
};
use forebay_core::device::hdd::{HddSpec, SeekSpec, Zone};
use forebay_trace::TraceError;
use forebay_trace::write::{Draft, ProtectedFiles};

/// Formats the device file of `drive`. `source` states where its parameters come from.
pub fn text(name: &str, source: &str, drive: &DriveSpec) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_all(&mut out, name, source, drive);
    out
}

/// Adds notes to a device file, as comments, about parameters that differ from their source.
pub fn with_notes<'a>(text: &str, notes: impl Iterator<Item = &'a str>) -> String {
    let comment = |note: &str| format!("# {}\n", note.replace(char::is_control, " "));
    notes.map(comment).collect::<String>() + text
}

/// Writes a device file atomically. Never overwrites any of the files in `kept`.
pub fn file(path: &Path, text: &str, kept: &ProtectedFiles) -> Result<(), TraceError> {
    Draft::new(path, kept)?.fill(text.as_bytes())
}

fn write_all(out: &mut String, name: &str, source: &str, drive: &DriveSpec) -> fmt::Result {
    let DriveSpec { disk, format, controller } = drive;
    writeln!(out, "kind = \"hdd\"\nname = {}\ndescription = {}", quoted(name), quoted(source))?;
    writeln!(out, "\n[geometry]\nheads = {}\nrpm = {}", disk.heads, rpm(disk.revolution))?;
    if disk.start_phase > Nanos::ZERO {
        writeln!(out, "start_phase_ms = {}", ms(disk.start_phase))?;
    }
    write_seek(out, disk, controller.write_seek_less)?;
    writeln!(out, "\n[switch]\nhead_ms = {}", ms(disk.head_switch))?;
    writeln!(out, "cylinder_ms = {}", ms(disk.cylinder_switch))?;
    for (key, skew) in [("track", disk.track_skew), ("cylinder", disk.cylinder_skew)] {
        if let Some(skew) = skew {
            writeln!(out, "{key}_skew_ms = {}", ms(skew))?;
        }
    }
    writeln!(out, "\n[command]\noverhead_ms = {}", ms(disk.overhead))?;
    writeln!(out, "len_max_bytes = {}", disk.len_max)?;
    write_controller(out, controller)?;
    let power = disk.power;
    writeln!(out, "\n[power]\nidle_w = {}", power.idle_w)?;
    writeln!(out, "seek_w = {}\ntransfer_w = {}", power.seek_w, power.transfer_w)?;
    if let Some(format) = format {
        write_format(out, format)?;
    }
    for (index, zone) in disk.zones.iter().enumerate() {
        write_zone(out, zone, format.as_ref().and_then(|format| format.zones.get(index)))?;
    }
    Ok(())
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            _ if letter.is_control() => out.push(' '),
            _ => out.push(letter),
        }
    }
    out + "\""
}

fn ms(time: Nanos) -> f64 {
    time.as_millis_f64()
}

/// Formats a rotational speed in rpm, with the fewest digits that give the same revolution time.
fn rpm(revolution: Nanos) -> String {
    let exact = 60.0 / revolution.as_secs_f64();
    let short = (0..9).map(|places| format!("{exact:.places$}"));
    let same = |text: &String| {
        text.parse().is_ok_and(|rpm: f64| Nanos::from_secs_f64(60.0 / rpm) == revolution)
    };
    short.into_iter().find(same).unwrap_or_else(|| format!("{exact}"))
}

fn list<T: fmt::Display>(values: impl IntoIterator<Item = T>) -> String {
    let values: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    let lines: Vec<String> = values.chunks(12).map(|line| line.join(", ")).collect();
    format!("[{}]", lines.join(",\n  "))
}

fn write_seek(out: &mut String, disk: &HddSpec, write_less: Nanos) -> fmt::Result {
    writeln!(out, "\n[seek]")?;
    write_curve(out, &disk.seek)?;
    // At most one of these is nonzero.
    writeln!(out, "write_settle_ms = {}", ms(disk.write_settle) - ms(write_less))
}

fn write_curve(out: &mut String, seek: &SeekSpec) -> fmt::Result {
    match seek {
        SeekSpec::Coefficients { short_ns, root_ns, long_ns, cylinder_ns, knee } => {
            writeln!(out, "short_ms = {}\nshort_us_per_root = {}", short_ns / 1e6, root_ns / 1e3)?;
            writeln!(out, "long_ms = {}", long_ns / 1e6)?;
            writeln!(out, "long_us_per_cylinder = {}", cylinder_ns / 1e3)?;
            writeln!(out, "knee_cylinders = {knee}")
        }
        SeekSpec::Datasheet { track_to_track, average, full_stroke, knee_share } => {
            writeln!(out, "track_to_track_ms = {}", ms(*track_to_track))?;
            writeln!(out, "average_ms = {}\nfull_stroke_ms = {}", ms(*average), ms(*full_stroke))?;
            writeln!(out, "knee_share = {knee_share}")
        }
        SeekSpec::Table(points) => {
            let distances = points.iter().map(|point| point.0);
            writeln!(out, "distances_cylinders = {}", list(distances))?;
            writeln!(out, "times_ms = {}", list(points.iter().map(|point| ms(point.1))))
        }
        SeekSpec::Prefixed { first, rest } => {
            writeln!(out, "first_ms = {}", list(first.iter().map(|time| ms(*time))))?;
            write_curve(out, rest)
        }
    }
}

fn write_controller(out: &mut String, controller: &Controller) -> fmt::Result {
    write_overheads(out, &controller.overheads)?;
    writeln!(out, "\n[bus]\nread_us_per_sector = {}", controller.bus.read_ns_per_sector / 1e3)?;
    writeln!(out, "write_us_per_sector = {}", controller.bus.write_ns_per_sector / 1e3)?;
    if let Some(buffer) = &controller.buffer {
        write_buffer(out, buffer)?;
        writeln!(out, "zero_latency_reads = {}", controller.zero_latency_reads)?;
        writeln!(out, "zero_latency_writes = {}", controller.zero_latency_writes)?;
        writeln!(out, "write_watermark_share = {}", controller.write_watermark_share)?;
    }
    if let Some(cache) = controller.write_cache {
        writeln!(out, "\n[write_cache]\nenabled = true\nextents = {}", cache.extents)?;
        writeln!(out, "extent_sectors = {}", cache.extent_sectors)?;
        writeln!(out, "sectors = {}", cache.sectors)?;
        if cache.admits == Admits::Newest {
            writeln!(out, "admits = \"newest\"")?;
        }
    }
    write_queue(out, &controller.queue)
}

fn write_queue(out: &mut String, queue: &QueueSpec) -> fmt::Result {
    writeln!(out, "\n[queue]\ndepth = {}", queue.depth)?;
    writeln!(out, "starvation_ms = {}", ms(queue.starvation))?;
    if queue.catch_margin > Nanos::ZERO {
        writeln!(out, "catch_margin_ms = {}", ms(queue.catch_margin))?;
    }
    if queue.ahead != 0 {
        writeln!(out, "ahead = {}", queue.ahead)?;
    }
    Ok(())
}

fn write_overheads(out: &mut String, overheads: &Overheads) -> fmt::Result {
    writeln!(out, "\n[overheads]")?;
    let kinds = [
        ("read_hit", overheads.read_hit),
        ("read_miss", overheads.read_miss),
        ("write_hit", overheads.write_hit),
        ("write_miss", overheads.write_miss),
    ];
    for (key, overhead) in kinds {
        writeln!(out, "{key}_after_read_ms = {}", ms(overhead.after_read))?;
        writeln!(out, "{key}_after_write_ms = {}", ms(overhead.after_write))?;
    }
    let times = [
        ("read_completion", overheads.read_completion),
        ("write_completion", overheads.write_completion),
        ("data_preparation", overheads.data_preparation),
        ("reselect", overheads.reselect),
        ("reselect_again", overheads.reselect_again),
        ("write_disconnect", overheads.write_disconnect),
        ("write_seek_least", overheads.write_seek_least),
    ];
    for (key, time) in times.into_iter().filter(|(_, time)| *time > Nanos::ZERO) {
        writeln!(out, "{key}_ms = {}", ms(time))?;
    }
    if let Some(extra) = overheads.extra_disconnect {
        writeln!(out, "\n[overheads.extra_disconnect]\ncommand_ms = {}", ms(extra.command))?;
        writeln!(out, "seek_delay_ms = {}\naway_ms = {}", ms(extra.seek_delay), ms(extra.away))?;
        writeln!(out, "disconnect_ms = {}", ms(extra.disconnect))?;
    }
    Ok(())
}

fn write_buffer(out: &mut String, buffer: &BufferSpec) -> fmt::Result {
    writeln!(out, "\n[buffer]\nsegments = {}", buffer.segments)?;
    writeln!(out, "segment_sectors = {}", buffer.segment_sectors)?;
    let read_ahead = match buffer.read_ahead {
        ReadAhead::None => "none",
        ReadAhead::Track => "track",
        ReadAhead::Cylinder => "cylinder",
        ReadAhead::Limit => "limit",
        ReadAhead::NextTrack => "next-track",
    };
    writeln!(out, "read_ahead = \"{read_ahead}\"")?;
    if buffer.read_ahead == ReadAhead::Limit {
        writeln!(out, "read_ahead_sectors = {}", buffer.read_ahead_sectors)?;
    }
    writeln!(out, "hits_on_written = {}", buffer.hits_on_written)?;
    writeln!(out, "almost_hits = {}", buffer.almost_hits)?;
    writeln!(out, "read_ahead_replaces = {}", buffer.read_ahead_replaces)?;
    writeln!(out, "read_ahead_on_hit = {}", buffer.read_ahead_on_hit)?;
    writeln!(out, "read_before = {}", buffer.read_before)?;
    writeln!(out, "stop_in_sector = {}", buffer.stop_in_sector)?;
    writeln!(out, "read_watermark_share = {}", buffer.watermark_share)
}

fn write_format(out: &mut String, format: &Format) -> fmt::Result {
    let order = match format.head_order {
        HeadOrder::Forward => "forward",
        HeadOrder::Serpentine => "serpentine",
        HeadOrder::SerpentineByZone => "serpentine-by-zone",
    };
    writeln!(out, "\n[format]\nhead_order = \"{order}\"")?;
    match format.sparing.range {
        SpareRange::Zone => writeln!(out, "spare_range = \"zone\"")?,
        SpareRange::Track => writeln!(out, "spare_range = \"track\"")?,
        SpareRange::Cylinders(count) => {
            writeln!(out, "spare_range = \"cylinders\"\nspare_range_cylinders = {count}")?;
        }
    }
    let sparing = format.sparing;
    writeln!(out, "spare_whole_tracks = {}", sparing.whole_tracks)?;
    writeln!(out, "spares_at_front = {}", sparing.at_front)?;
    writeln!(out, "slip_to_zone_end = {}", sparing.to_zone_end)?;
    writeln!(out, "slips_turn_tracks = {}", sparing.turns)
}

fn write_zone(out: &mut String, zone: &Zone, format: Option<&ZoneFormat>) -> fmt::Result {
    writeln!(out, "\n[[zone]]\nfirst_cylinder = {}", zone.first_cylinder)?;
    writeln!(out, "last_cylinder = {}", zone.last_cylinder)?;
    writeln!(out, "sectors_per_track = {}", zone.sectors_per_track)?;
    let Some(format) = format else { return Ok(()) };
    writeln!(out, "first_angle_sectors = {}", format.first_angle_sectors)?;
    writeln!(out, "reserved_sectors = {}", format.reserved_sectors)?;
    writeln!(out, "track_skew_sectors = {}", format.track_skew_sectors)?;
    writeln!(out, "cylinder_skew_sectors = {}", format.cylinder_skew_sectors)?;
    writeln!(out, "spares = {}", format.defects.spares)?;
    writeln!(out, "slipped = {}", list(&format.defects.slips))?;
    let remaps = format.defects.remaps.iter().map(|(bad, good)| format!("[{bad}, {good}]"));
    writeln!(out, "remapped = {}", list(remaps))
}
