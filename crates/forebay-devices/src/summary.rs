//! Short descriptions of devices, for lists.

use forebay_core::device::drive::Controller;
use forebay_core::device::hdd::{self, HddSpec, Zone};
use forebay_core::device::ssd::Ssd;
use forebay_core::{Device, Nanos};
use forebay_words::quantities::{bytes, millis, percent, rate, seconds};

pub(super) fn disk(
    spec: &HddSpec,
    disk: &impl Device,
    seek_time: impl Fn(u32) -> Nanos,
    rpm: f64,
) -> String {
    let of_zone = |zone: &Zone| {
        f64::from(zone.sectors_per_track) * f64::from(hdd::SECTOR) / spec.revolution.as_secs_f64()
    };
    let rates = || spec.zones.iter().map(of_zone);
    let (slowest, fastest) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
    format!(
        "{}, {rpm} rpm, {} heads, {} cylinders in {} zones, {} to {} at the media, seeks from {} to {}",
        bytes(disk.capacity() as f64),
        spec.heads,
        disk.cylinders(),
        spec.zones.len(),
        rate(slowest),
        rate(fastest),
        millis(seek_time(1).as_millis_f64()),
        millis(seek_time(disk.cylinders().saturating_sub(1)).as_millis_f64()),
    )
}

/// Summarizes the queue, buffer and write cache of a controller.
pub(super) fn controller(of: &Controller) -> String {
    let size = |sectors: u64| bytes((sectors * u64::from(hdd::SECTOR)) as f64);
    let buffer = of.buffer.map_or("no buffer".to_string(), |buffer| {
        format!("buffer of {} times {}", buffer.segments, size(buffer.segment_sectors))
    });
    let cache = of.write_cache.map_or("no write cache".to_string(), |cache| {
        format!("write cache of {}", size(cache.sectors))
    });
    format!("queue depth {}, {buffer}, {cache}", of.queue.depth)
}

pub(super) fn ssd(of: &Ssd) -> String {
    let spec = of.spec();
    let filled = spec.precondition;
    format!(
        "{}, {} channels of {} dies, pages of {}, {} over-provisioned, {} {}, read {}, program {}, erase {}, {} \
         filled and {} overwritten",
        bytes(of.capacity() as f64),
        spec.channels,
        spec.dies_per_channel,
        bytes(spec.page_bytes.into()),
        percent(spec.over_provisioning_share),
        rate(spec.link_bytes_per_s as f64),
        if spec.duplex { "each way" } else { "link" },
        seconds(spec.read.mean().as_secs_f64()),
        seconds(spec.program.as_secs_f64()),
        seconds(spec.erase.as_secs_f64()),
        percent(filled.filled_share),
        percent(filled.overwrites_share),
    )
}
