//! Tests the format and controller tables of device files: errors, and that a written file reads
//! back unchanged.

use forebay_core::{Device, Flags, Nanos, Op, Request};

use super::*;

/// A device file that contains every table.
const DRIVE: &str = r#"kind = "hdd"
name = "test"
description = "a drive"

[geometry]
heads = 2
rpm = 6000
rpm_error_percent = 0.5

[seek]
distances_cylinders = [1, 10, 99]
times_ms = [1.0, 2.0, 5.0]
write_settle_ms = 0.3

[switch]
head_ms = 0.5
cylinder_ms = 1

[command]
overhead_ms = 0.2

[overheads]
read_hit_after_read_ms = 0.05
write_completion_ms = 0.01
extra_disconnect = { command_ms = 0.6, seek_delay_ms = 0.2, away_ms = 0.4, disconnect_ms = 0.1 }

[bus]
read_us_per_sector = 100
write_us_per_sector = 110.5

[buffer]
segments = 3
segment_sectors = 64
read_ahead = "limit"
read_ahead_sectors = 32
hits_on_written = true

[write_cache]
enabled = true
extents = 2
extent_sectors = 64

[queue]
depth = 8
starvation_ms = 100

[power]
idle_w = 5
seek_w = 9
transfer_w = 7

[format]
head_order = "serpentine"
spare_range = "cylinders"
spare_range_cylinders = 2

[[zone]]
first_cylinder = 0
last_cylinder = 59
sectors_per_track = 100
track_skew_sectors = 10
spares = 5
slipped = [7, 20]
remapped = [[9, 399]]

[[zone]]
first_cylinder = 61
last_cylinder = 99
sectors_per_track = 80
"#;

fn drive(text: &str) -> DriveSpec {
    match read_spec(Path::new("my.toml"), text).unwrap().1 {
        DiskSpec::Drive(drive) => *drive,
        DiskSpec::Hdd(_) => panic!("a plain disk"),
    }
}

#[test]
fn every_table_is_read() {
    let device = read(Path::new("my.toml"), DRIVE).unwrap();
    let DeviceModel::Drive(model) = &device.model else { panic!("no controller") };
    assert_eq!(model.seek_time(1).as_millis_f64(), 1.0);
    assert_eq!(model.revolution(), forebay_core::Nanos::from_secs_f64(0.01 / 1.005));
    let controller = drive(DRIVE).controller;
    let ns = |overhead: forebay_core::device::drive::Overhead| {
        (overhead.after_read.0, overhead.after_write.0)
    };
    assert_eq!(ns(controller.overheads.read_hit), (50_000, 200_000));
    assert_eq!(ns(controller.overheads.write_miss), (200_000, 200_000));
    assert_eq!(controller.bus.write_ns_per_sector, 110_500.0);
    assert_eq!((controller.queue.depth, controller.write_cache.unwrap().extents), (8, 2));
    let off = drive(&DRIVE.replace("enabled = true", "enabled = false")).controller;
    assert_eq!(off.write_cache, None);
}

#[test]
fn a_drive_survives_being_written() {
    let spec = drive(DRIVE);
    assert_eq!(drive(&write::text("a \"name\"", "here", &spec)), spec);
    let equation = "first_ms = [1, 1.5]\nshort_ms = 1\nshort_us_per_root = 400\nlong_ms = 3\n\
                    long_us_per_cylinder = 20\nknee_cylinders = 30\n";
    let table = "distances_cylinders = [1, 10, 99]\ntimes_ms = [1.0, 2.0, 5.0]\n";
    assert!(DRIVE.contains(table));
    let spec = drive(&DRIVE.replace(table, equation));
    assert_eq!(drive(&write::text("test", "here", &spec)), spec);
}

#[test]
fn faults_are_told_with_their_line() {
    let faults = [
        ("2.0, 5.0", "6.0, 5.0", "times_ms", "decreases from 10 to 99 cylinders"),
        ("[1, 10, 99]", "[1, 10]", "distances_cylinders", "expected equal numbers"),
        ("read_us_per_sector = 100", "read_us_per_sector = -1", "read_us_per", "0 to 1000000 us"),
        ("write_us_per_sector = 110.5", "write_us_per_sector = nan", "write_us_per", "1000000 us"),
        ("segments = 3", "segments = 0", "segments", "1 to 65536"),
        ("segment_sectors = 64", "segment_sectors = 0", "segment_sectors", "1 to 2^32"),
        ("\nread_ahead_sectors = 32", "", "read_ahead =", "read_ahead_sectors"),
        ("extents = 2", "extents = 0", "extents", "write cache"),
        ("depth = 8", "depth = 0", "depth", "queue depth"),
        ("starvation_ms = 100", "starvation_ms = -1", "starvation_ms", "0 to 10000 ms"),
        ("{ command_ms = 0.6", "{ command_ms = -1", "extra_disconnect", "command_ms: got -1"),
        ("spare_range_cylinders = 2", "", "spare_range", "spare_range"),
        ("[7, 20]", "[20, 7]", "slipped", "an unsorted list"),
        ("spares = 5", "spares = 400", "spares", "fewer than the 400"),
        ("track_skew_sectors = 10", "track_skew_sectors = 101", "track_skew", "the track's 100"),
        ("first_cylinder = 61", "first_cylinder = 59", "first_cylinder = 59", "overlaps"),
        ("sectors_per_track = 80", "sectors_per_track = 0", "sectors_per_track = 0", "zone 1"),
        ("rpm_error_percent = 0.5", "rpm_error_percent = 99", "rpm_error_percent", "-50 to 50"),
        ("seek_w = 9", "seek_w = 3", "seek_w", "the idle power"),
        (
            "cylinder_ms = 1",
            "cylinder_ms = 1\ncylinder_skew_ms = 99",
            "cylinder_skew_ms",
            "one revolution",
        ),
        ("[[9, 399]]", "[[9]]", "remapped", "pair"),
    ];
    for (from, to, key, expected) in faults {
        assert!(DRIVE.contains(from), "{from}");
        let text = DRIVE.replacen(from, to, 1);
        let said = read(Path::new("my.toml"), &text).unwrap_err().to_string();
        let line = text.lines().position(|line| line.starts_with(key)).unwrap() + 1;
        let line = format!("my.toml, line {line}:");
        assert!(said.contains(&line) && said.contains(expected), "{from}: {said}");
    }
    let wide = DRIVE.replace("cylinders = 2", "cylinders = 2000").replace("s = 5\n", "s = 12000\n");
    let said = read(Path::new("my.toml"), &wide).unwrap_err().to_string();
    assert!(said.contains("fewer than the 12000 sectors of the zone"), "{said}");
    let format = "[format]\nhead_order = \"serpentine\"\nspare_range = \"cylinders\"\n\
                  spare_range_cylinders = 2\n";
    for (text, expected) in [
        (DRIVE.replace(format, ""), "without a table [format]"),
        (DRIVE.replace("depth = 8", "depth_commands = 8"), "depth_commands"),
        (DRIVE.replace("read_us_per_sector", "read_per_sector"), "read_per_sector"),
    ] {
        let said = read(Path::new("my.toml"), &text).unwrap_err().to_string();
        assert!(said.contains(expected) && said.contains("line "), "{said}");
    }
}

#[test]
fn any_disk_takes_a_queue_depth() {
    let depth = |name: &str| {
        let mut model = open(name).unwrap().model;
        let mut taken = 0;
        while model.room() {
            let (at, op, flags) = (Nanos::ZERO, Op::Read, Flags::NONE);
            let offset = taken << 30;
            model.start(
                at,
                Request { at, offset, id: taken, len: 4096, stream: 0, lane: 0, op, flags },
            );
            taken += 1;
        }
        taken
    };
    assert_eq!((depth("sata250:queue-depth=32"), depth("mg08: queue-depth=1")), (32, 1));
    assert_eq!(open("sata250:queue-depth=32").unwrap().name, "sata250:queue-depth=32");
    let message = |name: &str| open(name).unwrap_err().to_string();
    assert!(message("sata250:queue-depth=0").contains("queue-depth"));
    assert!(message("sata250:queue-depth=many").contains("got 'many'"));
    assert!(message("sata250:depth=2").contains("queue-depth"));
    assert!(message("sata250:queue-depth=4000000000").contains("'sata250:queue-depth=4000000000'"));
}

/// Serves `ios` one after another with a pause of `pause_us` between them. Returns when the last
/// one completes.
fn served(name: &str, ios: impl Iterator<Item = Request>, pause_us: u64) -> Nanos {
    let mut model = open(name).unwrap().model;
    let mut now = Nanos::ZERO;
    for io in ios {
        model.start(now, io);
        now = model.next().unwrap();
        model.finish(now);
        now += Nanos::from_micros(pause_us);
    }
    now
}

fn io(op: Op, id: u64, offset: u64, len: u32) -> Request {
    let (at, flags) = (Nanos::ZERO, Flags::NONE);
    Request { at, offset, id, len, stream: 0, lane: 0, op, flags }
}

#[test]
fn a_disk_ships_with_its_controller_and_has_a_plain_form() {
    let model = |name: &str| open(name).unwrap().model;
    assert!(matches!(model("st1000nm0011"), DeviceModel::Drive(_)));
    assert!(matches!(model("ST1000NM0011:Plain"), DeviceModel::Hdd(_)));
    assert!(matches!(open_spec("sata250:plain").unwrap().1, DiskSpec::Hdd(_)));
    let DiskSpec::Drive(drive) = open_spec("sata250").unwrap().1 else { panic!("plain") };
    let cache = drive.controller.write_cache.unwrap();
    assert_eq!((drive.controller.queue.depth, cache.extents, cache.sectors), (32, 64, 8192));
    let DiskSpec::Drive(off) = open_spec("sata250:write-cache=off:queue-depth=4").unwrap().1 else {
        panic!("plain")
    };
    assert_eq!((off.controller.queue.depth, off.controller.write_cache), (4, None));
    let plain = open("sata250:queue-depth=4").unwrap().plain().unwrap();
    assert!(plain.name == "sata250:plain" && matches!(plain.model, DeviceModel::Hdd(_)));
    assert!(
        ["sata250:plain", "fixed:5", "990-pro"].iter().all(|n| open(n).unwrap().plain().is_none())
    );
    // 16 distant writes complete at once with a write cache, but take a seek each without it.
    let writes = || (0..16).map(|id| io(Op::Write, id, id * 1_000_000_000, 4096));
    let [shipped, through] = ["sata250", "sata250:write-cache=off"]
        .map(|name| served(name, writes(), 0).as_millis_f64());
    assert!(shipped < 10.0 && through > 100.0, "{shipped} ms, {through} ms");
    let message = |name: &str| open(name).unwrap_err().to_string();
    let behind = "expected plain, queue-depth=COMMANDS or write-cache=off";
    assert!(message("sata250:bare").contains(behind));
    assert!(message("sata250:plain:queue-depth=2").contains("neither queue nor write cache"));
    assert!(message("sata250:plain:write-cache=off").contains("neither queue nor write cache"));
    assert!(message("sata250:write-cache=on").contains("as-shipped or off"));
    assert!(message("samsung-830:plain").contains("plain"));
    assert!(message("floppy:plain").contains("no device 'floppy:plain'"));
}

#[test]
fn reading_goes_on_through_short_gaps() {
    let reads =
        |gap: u64| (0..100).map(move |id| io(Op::Read, id, id * ((512 << 10) + gap), 512 << 10));
    for name in ["st1000nm0011:plain", "st1000nm0011"] {
        let straight = served(name, reads(0), 0).as_secs_f64();
        for gap in [4 << 10, 16 << 10] {
            let over = served(name, reads(gap), 0).as_secs_f64();
            // The gaps are at most 3 % of the data. An extra revolution per gap would add 0.8 s.
            assert!(over < straight * 1.06 + 0.02, "{name}, {gap}: {straight} s, {over} s");
        }
    }
}

#[test]
fn ambiguous_values_have_a_note() {
    let notes = |text: &str| read(Path::new("my.toml"), text).unwrap().notes;
    assert_eq!(notes(DRIVE), ["no zone covers the cylinders 60 to 60"]);
    let short = DRIVE.replace("[1, 10, 99]", "[1, 10, 40]").replace("= 61", "= 60");
    let said = notes(&short);
    assert!(said.len() == 1 && said[0].contains("ends at 40 of 99 cylinders"), "{said:?}");
    for device in list().unwrap() {
        assert!(device.notes.is_empty(), "{}: {:?}", device.name, device.notes);
    }
}

/// Returns the rate of random 4 KiB requests when the queue of `drive` is always full.
fn random_iops(mut drive: Drive, op: Op, requests: u64) -> f64 {
    let (blocks, mut seed) = (drive.capacity() / 4096, 7u64);
    let (mut now, mut started, mut done) = (Nanos::ZERO, 0, 0);
    while done < requests {
        while drive.room() && started < requests {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let offset = (seed >> 20) % blocks * 4096;
            let (id, len, flags) = (started, 4096, Flags::NONE);
            drive.start(now, Request { at: now, offset, id, len, stream: 0, lane: 0, op, flags });
            started += 1;
        }
        now = drive.next().unwrap();
        drive.finish(now);
        done += 1;
    }
    requests as f64 / now.as_secs_f64()
}

/// A deeper queue never makes a drive slower, because the starvation limit applies only to some of
/// the queued commands.
#[test]
fn more_places_never_make_a_busy_drive_slower() {
    for (name, _) in BUNDLED {
        let Some(spec) = open(name).unwrap().drive else { continue };
        let by_places = |places: u32| {
            let mut spec = spec.clone();
            let cache = spec.controller.write_cache.as_mut()?;
            let sectors = cache.sectors / u64::from(cache.extents).max(1) * u64::from(places);
            (cache.extents, cache.sectors) = (places, sectors.max(cache.extent_sectors));
            // There are enough requests for the starvation limit to apply many times.
            Some(random_iops(Drive::new(&spec).unwrap(), Op::Write, 2000))
        };
        let by_depth = |depth: u32| {
            let mut spec = spec.clone();
            spec.controller.queue.depth = depth;
            Some(random_iops(Drive::new(&spec).unwrap(), Op::Read, 2000))
        };
        for (what, sizes, rates) in [
            (
                "places for writes",
                [16, 32, 48, 64, 96, 128],
                [16, 32, 48, 64, 96, 128].map(by_places),
            ),
            ("commands at a time", [2, 4, 16, 32, 64, 128], [2, 4, 16, 32, 64, 128].map(by_depth)),
        ] {
            let mut best = 0.0f64;
            for (size, rate) in sizes.into_iter().zip(rates) {
                let Some(rate) = rate else { continue };
                assert!(rate > 0.95 * best, "{name}, {size} {what}: {rates:.1?} a second");
                best = best.max(rate);
            }
        }
    }
}

#[test]
fn a_small_write_cache_costs_a_sequential_writer_no_turns() {
    // Keeps 32 commands of 512 KiB outstanding on a cache that holds eight.
    let mut drive = open("sata250").unwrap().model;
    let (mut now, mut started, mut finished) = (Nanos::ZERO, 0, 0);
    while finished < 400 {
        while drive.room() {
            drive.start(now, io(Op::Write, started, started * (512 << 10), 512 << 10));
            started += 1;
        }
        now = drive.next().unwrap();
        drive.finish(now);
        finished += 1;
    }
    let mb_per_s = 400.0 * f64::from(512 << 10) / 1e6 / now.as_secs_f64();
    assert!(mb_per_s > 64.0, "{mb_per_s:.1} MB/s of 67.8");
}
