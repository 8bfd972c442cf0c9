//! Compares service times on a tiny drive with values computed by hand.
//!
//! The drive has 100 cylinders with one track of 100 sectors, 10 ms per revolution (100 us per
//! sector), 1 ms for a cylinder switch, which the skew hides, seeks of 1 ms, overheads of 200 us,
//! and 10 us per sector on the bus.

use super::*;
use crate::device::hdd::{LEN_MAX, Power, SeekSpec, Standby, Zone};

mod queue;

const OVERHEAD: Overhead = Overhead { after_read: Nanos(200_000), after_write: Nanos(200_000) };

fn buffer() -> BufferSpec {
    BufferSpec {
        segments: 2,
        segment_sectors: 50,
        read_ahead: ReadAhead::Limit,
        read_ahead_sectors: 20,
        hits_on_written: true,
        almost_hits: false,
        read_ahead_replaces: false,
        read_ahead_on_hit: false,
        read_before: false,
        stop_in_sector: false,
        watermark_share: 0.0,
    }
}

pub(super) fn spec() -> DriveSpec {
    let ms = Nanos::from_millis(1);
    DriveSpec {
        disk: HddSpec {
            heads: 1,
            zones: vec![Zone { first_cylinder: 0, last_cylinder: 99, sectors_per_track: 100 }],
            revolution: Nanos::from_millis(10),
            start_phase: Nanos::ZERO,
            seek: SeekSpec::Table(vec![(1, ms), (99, ms)]),
            write_settle: Nanos::ZERO,
            head_switch: Nanos::ZERO,
            cylinder_switch: ms,
            track_skew: None,
            cylinder_skew: None,
            overhead: Nanos::ZERO,
            len_max: LEN_MAX,
            power: Power { idle_w: 1.0, seek_w: 10.0, transfer_w: 100.0, standby: None },
        },
        format: None,
        controller: Controller {
            overheads: Overheads {
                read_hit: OVERHEAD,
                read_miss: OVERHEAD,
                write_hit: OVERHEAD,
                write_miss: OVERHEAD,
                ..Overheads::default()
            },
            bus: Bus { read_ns_per_sector: 1e4, write_ns_per_sector: 1e4 },
            buffer: Some(buffer()),
            ..Controller::default()
        },
    }
}

fn with(change: impl FnOnce(&mut Controller)) -> Drive {
    let mut spec = spec();
    change(&mut spec.controller);
    Drive::new(&spec).unwrap()
}

/// Returns a write cache of `extents` runs with enough memory for all of them.
fn places(extents: u32, extent_sectors: u64) -> WriteCacheSpec {
    let sectors = u64::from(extents) * extent_sectors;
    WriteCacheSpec { extents, extent_sectors, sectors, admits: Admits::Oldest }
}

fn queue(depth: u32, starvation_us: u64) -> QueueSpec {
    QueueSpec { depth, starvation: Nanos::from_micros(starvation_us), ..QueueSpec::default() }
}

fn cached(controller: &mut Controller) {
    controller.write_cache = Some(places(2, 50));
}

fn io(op: Op, sector: u64, count: u32) -> Request {
    Request {
        at: Nanos::ZERO,
        offset: sector * 512,
        id: sector,
        len: count * 512,
        stream: 0,
        lane: 0,
        op,
        flags: Flags::NONE,
    }
}

/// Starts `io` at `us` and returns when it completes, in us.
fn serve(drive: &mut Drive, us: u64, io: Request) -> u64 {
    drive.start(Nanos(us * 1_000), io);
    let at = drive.next().unwrap();
    assert_eq!(drive.finish(at).io, io);
    at.0 / 1_000
}

#[test]
fn a_miss_reads_and_then_transfers_what_the_bus_has_not_kept_up_with() {
    let mut drive = with(|_| ());
    // The overhead takes 200 us. Sector 10 arrives at 1000 us, the 4 sectors have passed at 1400
    // us, and the last one takes 10 us on the bus.
    assert_eq!(serve(&mut drive, 0, io(Op::Read, 10, 4)), 1_410);
    // A slow bus starts when the first sector has passed, at 1100 us, and takes 4 times 250 us.
    let mut slow = with(|controller| controller.bus.read_ns_per_sector = 250e3);
    assert_eq!(serve(&mut slow, 0, io(Op::Read, 10, 4)), 2_100);
}

#[test]
fn read_ahead_answers_full_and_partial_hits() {
    let mut drive = with(|_| ());
    serve(&mut drive, 0, io(Op::Read, 10, 4));
    // Read-ahead has reached sector 33 by 3400 us, so everything is in the buffer.
    assert_eq!(serve(&mut drive, 4_000, io(Op::Read, 14, 8)), 4_000 + 200 + 80);
    // Read-ahead continued after that hit to sector 42 at 4200 us.
    let mut drive = with(|_| ());
    serve(&mut drive, 0, io(Op::Read, 10, 4));
    // At 1410 us sector 18 is not in the buffer yet, so this is a miss, but the head need not wait
    // a revolution for it.
    assert_eq!(serve(&mut drive, 1_410, io(Op::Read, 18, 4)), 2_210);
    let mut drive = with(|_| ());
    serve(&mut drive, 0, io(Op::Read, 10, 4));
    // Sector 19 is in the buffer at 2000 us; the last one, 27, arrives at 2800 us and is
    // transferred over the bus.
    assert_eq!(serve(&mut drive, 2_000, io(Op::Read, 19, 9)), 2_810);
    // Read-ahead ended before sector 60, so the head must wait for it until 6000 us.
    let mut drive = with(|_| ());
    serve(&mut drive, 0, io(Op::Read, 10, 4));
    assert_eq!(serve(&mut drive, 5_000, io(Op::Read, 60, 1)), 6_110);
}

#[test]
fn sectors_that_pass_before_the_first_one_are_read_too() {
    let first_again = |sector| {
        let mut drive = with(|controller| {
            controller.buffer = Some(BufferSpec { read_before: true, ..buffer() });
        });
        // The head reads from 200 us on, when sector 2 begins.
        assert_eq!(serve(&mut drive, 0, io(Op::Read, 10, 4)), 1_410);
        serve(&mut drive, 5_000, io(Op::Read, sector, 1))
    };
    assert_eq!([2, 9].map(first_again), [5_210; 2]);
    assert_eq!(first_again(1), 10_210, "it had passed");
}

/// Returns a format with tracks of 100 sectors and a skew of 10 sectors, in which the second track
/// is bad.
fn slipped() -> Format {
    let defects = Defects { slips: vec![1], ..Defects::default() };
    let zone = ZoneFormat { cylinder_skew_sectors: 10.0, defects, ..ZoneFormat::default() };
    let sparing = Sparing { whole_tracks: true, ..Sparing::default() };
    Format { sparing, zones: vec![zone], ..Format::default() }
}

#[test]
fn a_bad_track_costs_its_skew_and_no_turn() {
    let mut drive = Drive::new(&DriveSpec { format: Some(slipped()), ..spec() }).unwrap();
    // Sectors 95 to 99 pass until 10 ms. The next ones are two tracks further on and pass from 12
    // ms on.
    assert_eq!(serve(&mut drive, 0, io(Op::Read, 95, 10)), 12_510);
}

#[test]
fn the_watermark_is_reached_before_a_switch() {
    let mut spec = DriveSpec { format: Some(slipped()), ..spec() };
    spec.controller.bus.read_ns_per_sector = 100e3;
    spec.controller.buffer = Some(BufferSpec { watermark_share: 0.5, ..buffer() });
    let mut drive = Drive::new(&spec).unwrap();
    // Five of ten sectors have arrived at 10 ms, and the bus is as fast as the media.
    assert_eq!(serve(&mut drive, 0, io(Op::Read, 95, 10)), 12_600);
    // A slow bus takes 10 times 500 us from then on.
    spec.controller.bus.read_ns_per_sector = 500e3;
    let mut drive = Drive::new(&spec).unwrap();
    assert_eq!(serve(&mut drive, 0, io(Op::Read, 95, 10)), 15_000);
}

#[test]
fn read_ahead_may_reuse_the_space_of_transferred_data() {
    for (read_ahead_replaces, done) in [(false, 5_240), (true, 11_410)] {
        let again = BufferSpec { read_ahead_replaces, ..buffer() };
        let mut drive = with(|controller| controller.buffer = Some(again));
        serve(&mut drive, 0, io(Op::Read, 10, 4));
        // Sector 10 is either still in the buffer, or arrives under the head again at 11 ms.
        assert_eq!(serve(&mut drive, 5_000, io(Op::Read, 10, 4)), done);
    }
    // Read-ahead that was not requested stays in the buffer.
    let again = BufferSpec { read_ahead_replaces: true, ..buffer() };
    let mut drive = with(|controller| controller.buffer = Some(again));
    serve(&mut drive, 0, io(Op::Read, 10, 4));
    assert_eq!(serve(&mut drive, 5_000, io(Op::Read, 14, 4)), 5_240);
    assert_eq!(serve(&mut drive, 6_000, io(Op::Read, 18, 4)), 6_240);
}

#[test]
fn read_ahead_stops_after_a_sector_or_within_it() {
    for (stop_in_sector, done) in [(false, 13_310), (true, 3_310)] {
        let mut spec = spec();
        spec.controller.buffer = Some(BufferSpec { stop_in_sector, ..buffer() });
        spec.disk.seek = SeekSpec::Table(vec![(1, Nanos(980_000)), (99, Nanos(980_000))]);
        let mut drive = Drive::new(&spec).unwrap();
        serve(&mut drive, 0, io(Op::Read, 10, 4));
        // The arm is needed at 2210 us, within a sector. It arrives at 3190 us if it need not wait
        // for the end of the sector, and otherwise at 3280 us. Sector 122 begins at 3200 us.
        assert_eq!(serve(&mut drive, 2_010, io(Op::Read, 122, 1)), done, "{stop_in_sector}");
    }
}

#[test]
fn a_read_longer_than_read_ahead_goes_on_without_a_turn() {
    let mut drive = with(|_| ());
    serve(&mut drive, 0, io(Op::Read, 10, 4));
    // The arm is needed at 1610 us, within sector 16, which is read to its end and kept. Sector 17
    // follows, and the last one, 43, has passed at 4400 us.
    assert_eq!(serve(&mut drive, 1_410, io(Op::Read, 14, 30)), 4_410);
}

#[test]
fn the_bus_is_regained_while_the_media_read() {
    let with = |share: f64| {
        with(|controller| {
            controller.overheads.reselect = Nanos(150_000);
            controller.buffer = Some(BufferSpec { watermark_share: share, ..buffer() });
        })
    };
    // Sector 10 begins to pass at 1000 us. The bus is available at 1150 us, long before the last
    // sector.
    assert_eq!(serve(&mut with(0.5), 0, io(Op::Read, 10, 1)), 1_160);
    assert_eq!(serve(&mut with(0.5), 0, io(Op::Read, 10, 4)), 1_410);
}

#[test]
fn a_write_may_seek_shorter_than_a_read() {
    let with =
        |less_us: u64| with(|controller| controller.write_seek_less = Nanos::from_micros(less_us));
    // With a seek of 1 ms, cylinder 1 is reached at 1200 us, as its sector 2 begins (it is skewed
    // by 1 ms). With a seek that is 300 us shorter, it is reached at 900 us, in sector 99 of the
    // previous revolution.
    assert_eq!(serve(&mut with(0), 0, io(Op::Write, 100, 1)), 11_100);
    assert_eq!(serve(&mut with(300), 0, io(Op::Write, 100, 1)), 1_100);
    assert_eq!(serve(&mut with(300), 0, io(Op::Read, 100, 1)), 11_110);
    // A seek cannot become shorter than 0.
    assert_eq!(serve(&mut with(9_000), 0, io(Op::Write, 100, 1)), 1_100);
}

#[test]
fn a_write_begins_when_its_data_cannot_come_too_late() {
    let with = |bus_ns: f64, least_us: u64| {
        with(|controller| {
            controller.bus.write_ns_per_sector = bus_ns;
            controller.overheads.write_seek_least = Nanos::from_micros(least_us);
        })
    };
    // From 200 us on, one sector of data arrives per 100 us. All 10 sectors are in time for a write
    // from 300 us on.
    assert_eq!(serve(&mut with(1e5, 0), 0, io(Op::Write, 3, 10)), 1_300);
    // With 120 us per sector, the last one arrives at 1400 us, 100 us after it should begin.
    assert_eq!(serve(&mut with(1.2e5, 0), 0, io(Op::Write, 4, 10)), 11_400);
    assert_eq!(serve(&mut with(1.2e5, 0), 0, io(Op::Write, 5, 10)), 1_500);
    // With a minimum seek delay, 8 sectors must have arrived by then, at 200 + 88 + 15 us.
    assert_eq!(serve(&mut with(1.1e4, 15), 0, io(Op::Write, 3, 10)), 11_300);
    assert_eq!(serve(&mut with(1.1e4, 12), 0, io(Op::Write, 3, 10)), 1_300);
    // If the write has fewer sectors, all must have arrived, at 200 + 77 + 15 us.
    assert_eq!(serve(&mut with(1.1e4, 15), 0, io(Op::Write, 3, 7)), 1_000);
}

#[test]
fn a_write_empties_what_it_overlaps_and_its_data_can_be_read() {
    let mut drive = with(|_| ());
    serve(&mut drive, 0, io(Op::Read, 10, 4));
    // The write waits until 11.6 ms, when sector 16 arrives under the head again.
    assert_eq!(serve(&mut drive, 3_000, io(Op::Write, 16, 2)), 11_800);
    assert_eq!(serve(&mut drive, 12_000, io(Op::Read, 16, 2)), 12_220);
    // The overlapping segment was emptied, so sector 10 is read from the media at 21 ms.
    assert_eq!(serve(&mut drive, 13_000, io(Op::Read, 10, 1)), 21_110);
}

#[test]
fn segments_are_given_away_by_age_and_keep_what_came_last() {
    let mut drive = with(|_| ());
    for (us, sector) in [(0, 10), (20_000, 110), (40_000, 210)] {
        serve(&mut drive, us, io(Op::Read, sector, 1));
    }
    // The second segment is still there, but not the first.
    assert_eq!(serve(&mut drive, 60_000, io(Op::Read, 110, 1)), 60_210);
    assert!(serve(&mut drive, 61_000, io(Op::Read, 10, 1)) > 61_210);
    let mut short = with(|controller| {
        controller.buffer = Some(BufferSpec { segment_sectors: 20, ..buffer() });
    });
    serve(&mut short, 0, io(Op::Read, 10, 4));
    // After twenty more sectors, read-ahead has overwritten the request itself.
    assert!(serve(&mut short, 9_000, io(Op::Read, 10, 1)) > 9_210);
    assert_eq!(serve(&mut short, 20_000, io(Op::Read, 12, 1)), 20_210);
}

#[test]
fn a_cached_write_is_done_at_once_and_written_when_idle() {
    let mut drive = with(cached);
    assert_eq!(serve(&mut drive, 0, io(Op::Write, 50, 4)), 240);
    // The arm writes sectors 50 to 53 from 5000 to 5400 us. A read at 5 ms waits until then, and
    // then for sector 60.
    assert_eq!(serve(&mut drive, 5_000, io(Op::Read, 60, 1)), 6_110);
    // A read of the written data is a hit.
    assert_eq!(serve(&mut drive, 8_000, io(Op::Read, 50, 4)), 8_240);
}

/// Work that no command waits for is counted too, and nothing is counted twice.
#[test]
fn write_back_is_reported() {
    let mut drive = with(cached);
    serve(&mut drive, 0, io(Op::Write, 250, 4));
    let back = drive.write_back();
    assert_eq!((back.movements, back.cylinders, back.cylinders_squared), (1, 2, 4.0));
    assert_eq!((back.seek, back.transfer), (Nanos::from_millis(1), Nanos::from_micros(400)));
    // The arm may move after 200 us and arrives 1 ms later. Sector 50 of a track arrives after 5
    // ms, plus here two skews of 1 ms.
    assert_eq!(back.rotation, Nanos::from_micros(7_000 - 1_200));
    // The move to cylinder 5 belongs to the read.
    serve(&mut drive, 100_000, io(Op::Read, 550, 1));
    assert_eq!(drive.write_back(), back);
    // Sectors 280 to 319 are on two cylinders.
    serve(&mut drive, 200_000, io(Op::Write, 280, 40));
    serve(&mut drive, 300_000, io(Op::Flush, 0, 0));
    let again = drive.write_back();
    // One move back across 3 cylinders, and one cylinder on the way.
    assert_eq!((again.movements, again.cylinders, again.cylinders_squared), (3, 6, 14.0));
    assert!(again.seek > back.seek && again.transfer > back.transfer);
    assert_eq!(again.time(), again.seek + again.rotation + again.transfer);
    let mut off = drive.without_write_cache().unwrap();
    serve(&mut off, 400_000, io(Op::Write, 50, 4));
    assert_eq!(off.write_back(), again, "a write that waits for the media is its command's own");
    assert!(off.without_write_cache().is_none());
}

/// The drive is busy while a command is outstanding or the arm works; each moment counts once.
#[test]
fn emptying_the_cache_keeps_the_drive_busy() {
    let us = Nanos::from_micros;
    let mut drive = with(cached);
    assert_eq!(serve(&mut drive, 0, io(Op::Write, 50, 4)), 240);
    // The arm may move at 200 us and has written the data at 5400 us.
    assert_eq!(drive.busy(us(3_000)), us(3_000));
    assert_eq!(drive.busy(us(9_000)), us(5_400));
    // A command that arrives during the write adds only the time after it.
    assert_eq!(serve(&mut drive, 5_000, io(Op::Read, 60, 1)), 6_110);
    assert_eq!(drive.busy(us(9_000)), us(6_110));
    // This write completes long before the arm has written its data.
    assert_eq!(serve(&mut drive, 20_000, io(Op::Write, 70, 2)), 20_220);
    drive.start(us(40_000), io(Op::Read, 70, 2));
    // The arm worked from 20000 us until the data was written; the read began at 40000 us.
    let written = drive.busy(us(39_000)).0 / 1_000 - 6_110 + 20_000;
    assert!((20_220..39_000).contains(&written), "{written}");
    assert_eq!(drive.busy(us(40_100)), us(6_110 + written - 20_000 + 100));
}

#[test]
fn a_shallower_queue_takes_fewer_commands() {
    let drive = with(|controller| controller.queue.depth = 4);
    let mut shallow = drive.at_queue_depth(2).unwrap();
    shallow.start(Nanos::ZERO, io(Op::Read, 10, 1));
    assert!(shallow.room());
    shallow.start(Nanos::ZERO, io(Op::Read, 20, 1));
    assert!(!shallow.room());
    for depth in [0, 4, 9] {
        assert!(drive.at_queue_depth(depth).is_none(), "{depth}");
    }
}

#[test]
fn flush_and_fua_wait_for_the_media() {
    let mut drive = with(cached);
    assert_eq!(serve(&mut drive, 0, io(Op::Write, 50, 4)), 240);
    assert_eq!(serve(&mut drive, 240, io(Op::Flush, 0, 0)), 5_400);
    assert_eq!(serve(&mut drive, 6_000, io(Op::Flush, 0, 0)), 6_200);
    let fua = Request { flags: Flags::FUA, ..io(Op::Write, 80, 2) };
    assert_eq!(serve(&mut drive, 7_000, fua), 8_200);
    // The preflush writes sector 10 to the media before the second write enters the cache.
    assert_eq!(serve(&mut drive, 8_200, io(Op::Write, 10, 1)), 8_410);
    let preflush = Request { flags: Flags::PREFLUSH, ..io(Op::Write, 20, 1) };
    assert_eq!(serve(&mut drive, 8_500, preflush), 11_110);
}

#[test]
fn a_full_cache_makes_room_first() {
    let mut drive = with(|controller| {
        controller.write_cache = Some(places(1, 8));
    });
    assert_eq!(serve(&mut drive, 0, io(Op::Write, 50, 4)), 240);
    // The arm writes the first run until 5400 us. Only then is there space for the second.
    assert_eq!(serve(&mut drive, 240, io(Op::Write, 90, 1)), 5_410);
    // A write that can never fit bypasses the cache: sector 200 passes at 12 ms.
    assert_eq!(serve(&mut drive, 10_050, io(Op::Write, 200, 9)), 12_900);
}

#[test]
fn the_command_that_the_head_reaches_first_goes_first() {
    let patient = |starvation_us: u64| {
        with(|controller| {
            controller.buffer = None;
            controller.queue = queue(3, starvation_us);
        })
    };
    let order = |mut drive: Drive| {
        for sector in [10, 8, 40] {
            assert!(drive.room());
            drive.start(Nanos::ZERO, io(Op::Read, sector, 1));
        }
        assert!(!drive.room());
        let mut order = Vec::new();
        while let Some(at) = drive.next() {
            order.push((drive.finish(at).io.id, at.0 / 1_000));
        }
        order
    };
    // Sector 10 was the only command when it arrived. Next is 40, which is ahead of the head, and
    // then 8, one revolution later.
    assert_eq!(order(patient(1_000_000)), [(10, 1_110), (40, 4_110), (8, 10_910)]);
    // Sector 8 arrived before 40 and has waited too long.
    assert_eq!(order(patient(1_000)), [(10, 1_110), (8, 10_910), (40, 14_110)]);
}

/// However long all commands have waited, seven of eight are served in the order in which the head
/// reaches them. Then it is the turn of the oldest.
#[test]
fn one_turn_in_eight_is_forced() {
    let mut drive = with(|controller| {
        controller.buffer = None;
        // With this limit, every command has waited too long as soon as it arrives.
        controller.queue = queue(16, 0);
    });
    for (ns, sector) in (0..).zip([95, 94, 5, 15, 25, 35, 45, 55, 65, 75, 85]) {
        drive.start(Nanos(ns), io(Op::Read, sector, 1));
    }
    let mut order = Vec::new();
    while let Some(at) = drive.next() {
        order.push(drive.finish(at).io.id);
    }
    // Sector 95 was the only command, and was forced. 94 has just passed, and has waited longest.
    assert_eq!(order, [95, 5, 15, 25, 35, 45, 55, 65, 94, 75, 85]);
}

/// Runs of a cache that is being drained are not written by age alone either.
#[test]
fn cached_runs_share_the_forced_turns() {
    let mut drive = with(|controller| {
        controller.write_cache = Some(places(8, 8));
        controller.queue = queue(16, 0);
        controller.buffer = None;
    });
    drive.start(Nanos::ZERO, io(Op::Read, 90, 1));
    for sector in [80, 70, 60, 50, 40, 30, 20, 10] {
        drive.start(Nanos(300_000), io(Op::Write, sector, 1));
    }
    drive.start(Nanos(9_000_000), io(Op::Flush, 0, 0));
    let mut last = 0;
    while let Some(at) = drive.next() {
        last = drive.finish(at).at.0 / 1_000;
    }
    // All were written in one revolution. In order of arrival, each run would take almost one.
    assert!(last < 30_000, "{last} us");
}

#[test]
fn the_drive_reports_its_maximum_io_length_and_capacity() {
    let mut spec = spec();
    spec.disk.len_max = 300 << 10;
    let drive = Drive::new(&spec).unwrap();
    assert_eq!((drive.len_max(), drive.capacity()), (300 << 10, 100 * 100 * 512));
}

#[test]
fn energy_is_counted_by_what_moves() {
    let mut drive = with(|controller| controller.buffer = None);
    serve(&mut drive, 0, io(Op::Read, 110, 4));
    // 1 ms of seeking, 400 us of transfer, and idle for the rest of 5 ms.
    let joules = drive.joules(Nanos::from_millis(5));
    assert!((joules - (0.0036 * 1.0 + 0.001 * 10.0 + 0.0004 * 100.0)).abs() < 1e-12, "{joules}");
}

#[test]
fn a_parked_drive_writes_its_cache_and_sleeps_until_the_next_command() {
    let mut spec = spec();
    cached(&mut spec.controller);
    let (standby_w, spin_up_j, spin_up) = (0.1, 5.0, Nanos::from_millis(30));
    spec.disk.power.standby = Some(Standby { standby_w, spin_up_j, spin_up });
    let mut drive = Drive::new(&spec).unwrap();
    assert_eq!(serve(&mut drive, 0, io(Op::Write, 50, 4)), 240);
    assert_eq!(serve(&mut drive, 240, io(Op::Park, 0, 0)), 240);
    // Sectors 50 to 53 are written until 5.4 ms; then the drive rests until 20 ms.
    let energy = |drive: &Drive, ms| drive.joules(Nanos::from_millis(ms));
    // The 10 us in which the first sector's data arrives count as seeking.
    let written = 0.00499 * 1.0 + 0.00001 * 10.0 + 0.0004 * 100.0;
    let close = |got: f64, expected: f64| assert!((got - expected).abs() < 1e-9, "{got}");
    close(energy(&drive, 20), written + 0.0146 * 0.1);
    // The platters have spun up at 50 ms, when sector 0 begins; sector 10 follows 1 ms later.
    assert_eq!(serve(&mut drive, 20_000, io(Op::Read, 10, 1)), 51_110);
    close(energy(&drive, 50), written + 0.0146 * 0.1 + 5.0);
    // A command that arrives before the drive is at rest does not wait for a spin-up.
    assert_eq!(serve(&mut drive, 60_000, io(Op::Write, 50, 4)), 60_240);
    assert_eq!(serve(&mut drive, 60_240, io(Op::Park, 0, 0)), 60_240);
    assert_eq!(serve(&mut drive, 61_000, io(Op::Read, 60, 1)), 66_110);
}

#[test]
fn a_cache_that_is_drained_writes_what_the_head_reaches_first() {
    let drive = |extents| {
        let mut drive = with(|controller| {
            controller.write_cache = Some(places(extents, 8));
            controller.queue = queue(4, 1_000_000);
            controller.buffer = None;
        });
        // The arm is busy with a read until 9.1 ms. Meanwhile two writes arrive, of sectors 30 and
        // 80.
        drive.start(Nanos::ZERO, io(Op::Read, 90, 1));
        for sector in [30, 80] {
            drive.start(Nanos(300_000), io(Op::Write, sector, 1));
        }
        drive.start(Nanos(600_000), io(Op::Read, 60, 1));
        let mut order = Vec::new();
        while let Some(at) = drive.next() {
            order.push((drive.finish(at).io.id, at.0 / 1_000));
        }
        (order, drive)
    };
    // Two of four places are in use, so the read gets the arm, which passes sector 30 without
    // writing it.
    let expected = [(90, 9_110), (30, 9_120), (80, 9_130), (60, 16_110)];
    assert_eq!(drive(4).0, expected);
    // Two of two places are in use, so 30 is written on the way to 60, but 80 is not.
    let (order, mut drained) = drive(2);
    assert_eq!(order, expected);
    assert_eq!(serve(&mut drained, 16_200, io(Op::Flush, 0, 0)), 18_100, "80 is left");
    // In the drive with four places, both runs are left, and sector 30 passes a revolution later.
    let mut other = drive(4).1;
    assert_eq!(serve(&mut other, 16_200, io(Op::Flush, 0, 0)), 23_100);
}

#[test]
fn figures_that_make_no_sense_are_refused() {
    let said = |change: fn(&mut DriveSpec)| {
        let mut spec = spec();
        change(&mut spec);
        Drive::new(&spec).unwrap_err().0
    };
    assert!(said(|s| s.controller.queue.depth = 0).contains("queue depth"));
    assert!(said(|s| s.controller.bus.read_ns_per_sector = -1.0).contains("bus"));
    assert!(said(|s| s.disk.power.seek_w = 0.5).contains("the idle power"));
    assert!(said(|s| s.format = Some(Format::default())).contains("formats of 0"));
    assert!(
        said(|s| s.controller.buffer = Some(BufferSpec { segments: 0, ..buffer() }))
            .contains("buffer segments")
    );
}
