//! Laws that every device model keeps, whatever I/Os it is given.
//!
//! Time never runs backwards, energy and busy time never fall, no work takes less than its transfer
//! floor, each I/O finishes exactly once and the same calls give the same answers, also for I/Os far beyond the device.

#![allow(clippy::unwrap_used)] // a test

use forebay_core::device::drive::{
    BufferSpec, Bus, Controller, Defects, Drive, DriveSpec, Format, HeadOrder, Overhead, Overheads,
    QueueSpec, ReadAhead, SpareRange, Sparing, WriteCacheSpec, ZoneFormat,
};
use forebay_core::device::hdd::{
    Hdd, HddSpec, KNEE_SHARE, LEN_MAX, Power, SeekSpec, Standby, Zone,
};
use forebay_core::device::list::{DeviceModel, build};
use forebay_core::device::ssd::{self, Collection, Precondition, Ssd, SsdSpec};
use forebay_core::{Completion, Device, Flags, Nanos, Op, Request, Spec};
use proptest::prelude::*;

fn disk(heads: u32, zones: Vec<Zone>, seek: SeekSpec, skew: Option<Nanos>) -> DeviceModel {
    DeviceModel::Hdd(Hdd::new(hdd(heads, zones, seek, skew)).unwrap())
}

fn hdd(heads: u32, zones: Vec<Zone>, seek: SeekSpec, skew: Option<Nanos>) -> HddSpec {
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

/// A controller with everything on.
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
        write_cache: Some(WriteCacheSpec { extents: 2, extent_sectors: 512 }),
        queue: QueueSpec { depth, starvation: Nanos::from_millis(50) },
        zero_latency_reads: true,
        zero_latency_writes: true,
        write_watermark_share: 0.5,
    }
}

fn drive(spec: &DriveSpec) -> DeviceModel {
    DeviceModel::Drive(Box::new(Drive::new(spec).unwrap()))
}

/// Drives with controllers, from one that has next to nothing to one that has it all.
fn drives(depth: u32) -> Vec<(&'static str, DeviceModel)> {
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
    ]
}

/// A small drive of two channels that soon collects garbage.
fn flash(collection: Collection, overwrites_share: f64) -> DeviceModel {
    let spec = SsdSpec {
        capacity_bytes: 6 << 20,
        page_bytes: 4_096,
        program_pages: 2,
        pages_per_block: 16,
        channels: 2,
        dies_per_channel: 2,
        over_provisioning_share: 0.5,
        read: Nanos(50_000),
        program: Nanos(600_000),
        erase: Nanos(3_000_000),
        channel_bytes_per_s: 300_000_000,
        link_bytes_per_s: 550_000_000,
        duplex: false,
        command: Nanos(10_000),
        overhead: Nanos(20_000),
        write_buffer_bytes: 64 << 10,
        power_loss_protection: false,
        queue_depth: 4,
        collection,
        precondition: Precondition { filled_share: 0.9, overwrites_share, seed: 1 },
        len_max: 1 << 30,
        power: ssd::Power { idle_w: 0.3, read_w: 2.0, write_w: 3.0 },
    };
    DeviceModel::Ssd(Ssd::new(spec).unwrap())
}

/// Every kind of device, mechanical ones from the smallest to a zoned one.
fn models() -> Vec<(&'static str, DeviceModel)> {
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
        ("fixed:500", build(&Spec::parse("fixed:500").unwrap()).unwrap()),
        ("one sector", disk(1, vec![zone(0, 0, 1)], flat.clone(), None)),
        ("the paper's", disk(1, vec![zone(0, 99, 100)], flat, None)),
        ("zoned", disk(3, zoned.clone(), solved.clone(), None)),
        ("skewed too little", disk(3, zoned, solved, Some(Nanos(999_999)))),
        ("flash", flash(Collection::Greedy, 0.0)),
        ("used flash", flash(Collection::CostBenefit, 1.0)),
    ]
}

/// One call: the pause before it in ns, what to do, where (a place, or right after the last).
type Step = (u64, u8, Option<u64>, u32);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pause = prop_oneof![Just(0), 0..20_000_000_u64];
    let offset = prop_oneof![0..5_000_000_000_u64, any::<u64>()];
    let len = prop_oneof![1..1_000_000_u32, (1..64_u32).prop_map(|pages| pages * 4_096), Just(0)];
    let step = (pause, 0..12_u8, prop::option::of(offset), len);
    prop::collection::vec(step, 1..80)
}

fn request(id: u64, (_, op, offset, len): Step, after: u64) -> Request {
    let op = match op {
        0..=5 => Op::Read,
        6 | 7 => Op::Write,
        8 => Op::Flush,
        9 => Op::Trim,
        _ => Op::Park,
    };
    let offset = offset.unwrap_or(after);
    Request { at: Nanos::ZERO, offset, id, len, stream: 0, lane: 0, op, flags: Flags::NONE }
}

/// Plays `steps` one after another and checks the laws on the way.
fn play(name: &str, mut device: DeviceModel, steps: &[Step]) -> Vec<Completion> {
    let mut done: Vec<Completion> = Vec::new();
    let (mut now, mut joules, mut busy, mut after) = (Nanos::ZERO, 0.0, Nanos::ZERO, 0);
    let mut cylinder = 0;
    let mut look = |device: &DeviceModel, now: Nanos| {
        let (joules_now, busy_now) = (device.joules(now), device.busy(now));
        assert!(joules_now >= joules, "{name}: energy falls from {joules} to {joules_now}");
        assert!(busy_now >= busy && busy_now <= now, "{name}: busy {busy}, then {busy_now}");
        (joules, busy) = (joules_now, busy_now);
    };
    for (id, &step) in steps.iter().enumerate() {
        now += Nanos(step.0);
        look(&device, now);
        let io = request(id as u64, step, after);
        assert!(device.room(), "{name}: no room while idle");
        device.start(now, io);
        let at = device.next().expect("something was started");
        assert!(at >= now, "{name}: done at {at}, started at {now}");
        for part in [4, 2] {
            look(&device, now + Nanos((at - now).0 / part));
        }
        look(&device, at);
        let completion = device.finish(at);
        look(&device, at);
        assert_eq!((completion.io, completion.started, completion.at), (io, now, at), "{name}");
        assert_eq!(device.next(), None, "{name}: an I/O finishes twice");
        let parts = completion.mechanics;
        assert!(parts.seek + parts.rotation + parts.transfer <= at - now, "{name}: {parts:?}");
        assert!(parts.cylinder_last < device.cylinders().max(1), "{name}: {parts:?}");
        // A drive's own read-ahead and write cache move it in between.
        let moves_alone = name.starts_with("by ");
        assert!(moves_alone || parts.cylinder_from == cylinder, "{name}: {parts:?} of {io:?}");
        cylinder = parts.cylinder_last;
        assert!(device.floor(&io) <= at - now, "{name}: {io:?} beats its floor");
        now = at;
        after = io.end() % device.capacity();
        done.push(completion);
    }
    done
}

proptest! {
    /// A write with FUA tells when it is programmed, which is when a flush may end at the earliest.
    #[test]
    fn a_flush_of_flash_waits_for_every_write_before_it(
        writes in prop::collection::vec((0u64..1_500, 1u32..40, 0u64..300_000), 1..4),
        preflush: bool,
    ) {
        let ends = |flags| {
            let mut device = flash(Collection::Greedy, 1.0);
            let mut now = Nanos::ZERO;
            for (id, &(page, pages, pause)) in (0..).zip(&writes) {
                now += Nanos(pause);
                let write = request(id, (0, 6, Some(page * 4096), pages * 4096), 0);
                device.start(now, Request { flags, ..write });
            }
            let last = match preflush {
                false => request(9, (0, 8, None, 0), 0),
                true => Request { flags: Flags::PREFLUSH, ..request(9, (0, 6, Some(0), 4096), 0) },
            };
            device.start(now, last);
            let done = std::iter::from_fn(|| device.next().map(|at| device.finish(at)));
            let (last, writes): (Vec<_>, Vec<_>) = done.partition(|done| done.io.id == 9);
            (last[0].at, writes.iter().map(|done| done.at).max().unwrap())
        };
        let ((flushed, accepted), (_, programmed)) = (ends(Flags::NONE), ends(Flags::FUA));
        prop_assert!(flushed >= programmed && accepted < programmed);
        // A flush has nothing else to wait for.
        prop_assert!(preflush || flushed == programmed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_model_keeps_the_laws(steps in steps()) {
        for (name, model) in models().into_iter().chain(drives(1)) {
            let first = play(name, model.clone(), &steps);
            prop_assert_eq!(first.len(), steps.len());
            prop_assert_eq!(first, play(name, model, &steps), "{} is not repeatable", name);
        }
    }

    #[test]
    fn every_queue_keeps_the_laws(steps in steps()) {
        for (name, model) in drives(5) {
            let first = play_queued(name, model.clone(), &steps, 5);
            prop_assert_eq!(first.len(), steps.len());
            prop_assert_eq!(first, play_queued(name, model, &steps, 5), "{} not repeatable", name);
        }
    }
}

/// Plays `steps` as fast as the queue takes them, and checks the laws on the way.
fn play_queued(
    name: &str,
    mut device: DeviceModel,
    steps: &[Step],
    depth: usize,
) -> Vec<Completion> {
    let mut done: Vec<Completion> = Vec::new();
    let (mut now, mut joules, mut busy, mut after) = (Nanos::ZERO, 0.0, Nanos::ZERO, 0);
    let (mut outstanding, mut next, mut floor) = (0, 0, Nanos::ZERO);
    while next < steps.len() || outstanding > 0 {
        assert_eq!(device.room(), outstanding < depth, "{name}: depth is not respected");
        assert_eq!(device.next().is_some(), outstanding > 0, "{name}: something is forgotten");
        let arrival = steps.get(next).map(|step| now + Nanos(step.0 / 8));
        let completion = device.next();
        let take =
            device.room() && arrival.is_some() && completion.is_none_or(|at| arrival <= Some(at));
        now = if take { arrival.unwrap() } else { completion.unwrap() };
        let (joules_now, busy_now) = (device.joules(now), device.busy(now));
        assert!(joules_now >= joules - 1e-9, "{name}: energy falls to {joules_now}");
        assert!(busy_now >= busy && busy_now <= now, "{name}: busy {busy}, then {busy_now}");
        (joules, busy) = (joules_now, busy_now);
        if take {
            let io = request(next as u64, steps[next], after);
            after = io.end() % device.capacity();
            device.start(now, io);
            (outstanding, next) = (outstanding + 1, next + 1);
            assert!(device.next() >= Some(now), "{name}: done before it starts");
        } else {
            let completion = device.finish(now);
            let parts = completion.mechanics;
            let time = completion.at - completion.started;
            assert!(parts.cylinder_last < device.cylinders(), "{name}: {parts:?}");
            assert!(done.iter().all(|other| other.io.id != completion.io.id), "{name}: done twice");
            assert!(parts.transfer <= time, "{name}: {parts:?} in {time}");
            floor += device.floor(&completion.io);
            assert!(device.busy(now) >= floor, "{name}: {:?} beats its floor", completion.io);
            outstanding -= 1;
            done.push(completion);
        }
    }
    done
}
