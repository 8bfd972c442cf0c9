//! Small devices of every kind.

#![allow(dead_code, clippy::unwrap_used)] // each test uses a part

use forebay_core::device::drive::{
    Admits, BufferSpec, Bus, Controller, Defects, Drive, DriveSpec, Format, HeadOrder, Overhead,
    Overheads, QueueSpec, ReadAhead, SpareRange, Sparing, WriteCacheSpec, ZoneFormat,
};
use forebay_core::device::hdd::{
    Hdd, HddSpec, KNEE_SHARE, LEN_MAX, Power, SeekSpec, Standby, Zone,
};
use forebay_core::device::list::{DeviceModel, build};
use forebay_core::device::ssd;
use forebay_core::device::ssd::{
    Ceiling, Collection, Entrance, Mode, Modes, Precondition, Ssd, SsdSpec,
};
use forebay_core::device::throttled::{
    Bucket, Count, Direction, Measure, Queues, Throttle, Throttled,
};
use forebay_core::{Nanos, Spec};

fn disk(heads: u32, zones: Vec<Zone>, seek: SeekSpec, skew: Option<Nanos>) -> DeviceModel {
    DeviceModel::Hdd(Hdd::new(hdd(heads, zones, seek, skew)).unwrap())
}

pub(crate) fn hdd(heads: u32, zones: Vec<Zone>, seek: SeekSpec, skew: Option<Nanos>) -> HddSpec {
    HddSpec {
        heads,
        zones,
        revolution: Nanos(8_333_333),
        start_phase: Nanos(1_234_567),
        seek,
        write_settle: Nanos(400_000),
        head_switch: Nanos(1_000_000),
        cylinder_switch: Nanos(1_200_000),
        track_skew: skew,
        cylinder_skew: None,
        overhead: Nanos(150_000),
        len_max: LEN_MAX,
        power: Power {
            idle_w: 5.0,
            seek_w: 9.0,
            transfer_w: 7.0,
            standby: heads.is_multiple_of(3).then_some(Standby {
                standby_w: 1.0,
                spin_up_j: 0.1,
                spin_up: Nanos(7_654_321),
            }),
        },
    }
}

/// Returns a controller with every feature enabled.
fn controller(depth: u32, read_ahead: ReadAhead) -> Controller {
    let overhead = Overhead { after_read: Nanos(100_000), after_write: Nanos(150_000) };
    Controller {
        overheads: Overheads {
            read_hit: overhead,
            read_miss: overhead,
            write_hit: overhead,
            write_miss: overhead,
            reselect: Nanos(20_000),
            ..Overheads::default()
        },
        bus: Bus { read_ns_per_sector: 5_000.0, write_ns_per_sector: 6_000.0 },
        buffer: Some(BufferSpec {
            segments: 3,
            segment_sectors: 512,
            read_ahead,
            read_ahead_sectors: 256,
            hits_on_written: true,
            almost_hits: true,
            read_ahead_on_hit: true,
            read_before: true,
            stop_in_sector: true,
            read_ahead_replaces: true,
            watermark_share: 0.5,
        }),
        write_cache: Some(WriteCacheSpec {
            extents: 2,
            extent_sectors: 512,
            sectors: 1024,
            admits: Admits::Oldest,
        }),
        queue: QueueSpec { depth, starvation: Nanos::from_millis(50), ..QueueSpec::default() },
        zero_latency_reads: true,
        zero_latency_writes: true,
        write_watermark_share: 0.5,
        write_seek_less: Nanos::ZERO,
    }
}

fn drive(spec: &DriveSpec) -> DeviceModel {
    DeviceModel::Drive(Box::new(Drive::new(spec).unwrap()))
}

/// Returns `spec` with a catch margin, a lookahead of `ahead` commands, and a write cache that
/// admits the newest.
fn choosing(spec: &DriveSpec, ahead: i32) -> DeviceModel {
    let mut spec = spec.clone();
    let controller = &mut spec.controller;
    (controller.queue.ahead, controller.queue.catch_margin) = (ahead, Nanos(3_000_000));
    controller.write_cache =
        controller.write_cache.map(|cache| WriteCacheSpec { admits: Admits::Newest, ..cache });
    drive(&spec)
}

/// Returns drives with controllers, from nearly no features to all of them.
pub(crate) fn drives(depth: u32) -> Vec<(&'static str, DeviceModel)> {
    let zone = |first_cylinder, last_cylinder, sectors_per_track| Zone {
        first_cylinder,
        last_cylinder,
        sectors_per_track,
    };
    let seek = SeekSpec::Table(vec![(1, Nanos(600_000)), (2_999, Nanos(9_000_000))]);
    let zones = vec![zone(0, 999, 499), zone(1_001, 2_999, 301)];
    let format = ZoneFormat {
        first_angle_sectors: 7.5,
        reserved_sectors: 11,
        track_skew_sectors: 60.0,
        cylinder_skew_sectors: 90.0,
        defects: Defects { spares: 20, slips: vec![3, 498, 9_000], remaps: vec![(70, 1_400)] },
    };
    let range = SpareRange::Cylinders(1);
    let formatted = |head_order, sparing| Format {
        head_order,
        sparing,
        zones: vec![format.clone(), format.clone()],
    };
    let plain = DriveSpec {
        disk: hdd(3, vec![zone(0, 2_999, 499)], seek.clone(), None),
        format: None,
        controller: Controller {
            queue: QueueSpec { depth, ..QueueSpec::default() },
            ..Controller::default()
        },
    };
    let by_zone = DriveSpec {
        disk: hdd(3, zones.clone(), seek.clone(), None),
        format: Some(formatted(HeadOrder::SerpentineByZone, Sparing::default())),
        controller: controller(depth, ReadAhead::NextTrack),
    };
    let sparing = Sparing { range, turns: true, at_front: true, ..Sparing::default() };
    let by_cylinder = DriveSpec {
        disk: hdd(3, zones, seek, None),
        format: Some(formatted(HeadOrder::Serpentine, sparing)),
        controller: controller(depth, ReadAhead::Cylinder),
    };
    vec![
        ("bare", drive(&plain)),
        ("by zone", drive(&by_zone)),
        ("by cylinder", drive(&by_cylinder)),
        ("by zone, ahead", choosing(&by_zone, 2)),
        ("by cylinder, waiting", choosing(&by_cylinder, -1)),
        ("bare, waiting", choosing(&plain, -1)),
    ]
}

/// Returns a small SSD with two channels that soon starts garbage collection.
pub(crate) fn flash(collection: Collection, overwrites_share: f64) -> DeviceModel {
    let spec = SsdSpec {
        capacity_bytes: 6 << 20,
        page_bytes: 4_096,
        program_pages: 2,
        pages_per_block: 16,
        channels: 2,
        dies_per_channel: 2,
        over_provisioning_share: 0.5,
        read: Nanos(50_000).into(),
        program: Nanos(600_000),
        erase: Nanos(3_000_000),
        channel_bytes_per_s: 300_000_000,
        link_bytes_per_s: 550_000_000,
        duplex: false,
        command: Nanos(10_000),
        write_command: Nanos(10_000),
        ceiling: Ceiling::Arrival,
        write_ceiling: Ceiling::Arrival,
        entrance: None,
        overhead: Nanos(20_000),
        write_buffer_bytes: 64 << 10,
        read_cache_bytes: 0,
        power_loss_protection: false,
        queue_depth: 4,
        collection,
        precondition: Precondition { filled_share: 0.9, overwrites_share, seed: 1 },
        len_max: 1 << 30,
        power: ssd::Power { idle_w: 0.3, read_w: 2.0, write_w: 3.0 },
    };
    DeviceModel::Ssd(Ssd::new(spec).unwrap())
}

/// Returns an SSD like one fitted to measurements: two read times, rate limits before and after the
/// flash, and limited admission to the write buffer.
fn fitted_flash() -> DeviceModel {
    let DeviceModel::Ssd(ssd) = flash(Collection::Greedy, 0.3) else { unreachable!() };
    let mode = |us, share| Mode { time: Nanos::from_micros(us), share };
    let spec = SsdSpec {
        read: Modes { modes: vec![mode(40, 0.6), mode(90, 0.4)], busy_share: 0.3 },
        ceiling: Ceiling::Completion,
        write_ceiling: Ceiling::Arrival,
        write_command: Nanos::from_micros(15),
        entrance: Some(Entrance {
            times: Modes { modes: vec![mode(10, 0.9), mode(50, 0.1)], busy_share: 0.5 },
            lanes: 2,
        }),
        ..ssd.spec().clone()
    };
    DeviceModel::Ssd(Ssd::new(spec).unwrap())
}

/// Returns a volume with buckets that limit both directions, and others that limit writes.
fn throttled(queues: Queues) -> DeviceModel {
    let bucket = |measure, direction, rate_per_s: f64| Bucket {
        measure,
        direction,
        rate_per_s,
        depth: rate_per_s / 100.0,
        start_share: 0.5,
    };
    let buckets = vec![
        bucket(Measure::Ops, Direction::Both, 500.0),
        bucket(Measure::Bytes, Direction::Write, 1e8),
    ];
    let throttle = Throttle {
        count: Count::Units { unit_bytes: 262_144 },
        merges: true,
        queues,
        read_latency: Nanos(700_000),
        write_latency: Nanos(900_000),
        capacity_bytes: 1 << 40,
        ..Throttle::of(buckets)
    };
    DeviceModel::Throttled(Box::new(Throttled::new(throttle).unwrap()))
}

/// Returns every kind of device, including disks from the smallest to a zoned one.
pub(crate) fn models() -> Vec<(&'static str, DeviceModel)> {
    let zone = |first_cylinder, last_cylinder, sectors_per_track| Zone {
        first_cylinder,
        last_cylinder,
        sectors_per_track,
    };
    let flat = SeekSpec::Coefficients {
        short_ns: 5e5,
        root_ns: 0.0,
        long_ns: 5e5,
        cylinder_ns: 0.0,
        knee: 1,
    };
    let solved = SeekSpec::Datasheet {
        track_to_track: Nanos(800_000),
        average: Nanos(8_500_000),
        full_stroke: Nanos(18_000_000),
        knee_share: KNEE_SHARE,
    };
    let zoned = vec![zone(0, 999, 1_999), zone(1_000, 2_499, 1_501), zone(2_500, 2_999, 997)];
    vec![
        ("throttled", throttled(Queues::Shared)),
        ("throttled by direction", throttled(Queues::PerDirection)),
        ("fixed:500", build(&Spec::parse("fixed:500").unwrap()).unwrap()),
        ("one sector", disk(1, vec![zone(0, 0, 1)], flat.clone(), None)),
        ("the paper's", disk(1, vec![zone(0, 99, 100)], flat, None)),
        ("zoned", disk(3, zoned.clone(), solved.clone(), None)),
        ("skewed too little", disk(3, zoned, solved, Some(Nanos(999_999)))),
        ("flash", flash(Collection::Greedy, 0.0)),
        ("used flash", flash(Collection::CostBenefit, 1.0)),
        ("fitted flash", fitted_flash()),
    ]
}
