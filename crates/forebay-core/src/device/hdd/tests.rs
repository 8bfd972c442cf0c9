//! Compares service times on a tiny disk with values computed by hand, and averages on a disk of
//! real size.
//!
//! The tiny disk has 100 cylinders with one track of 100 sectors, 10 ms per revolution (100 us per
//! sector), 1 ms for a cylinder switch, 200 us overhead, and seeks of 500 us + 100 us per square
//! root below 25 cylinders and 900 us + 4 us per cylinder above.

use super::*;
use crate::contract::Flags;

fn tiny() -> HddSpec {
    HddSpec {
        heads: 1,
        zones: vec![Zone { first_cylinder: 0, last_cylinder: 99, sectors_per_track: 100 }],
        revolution: Nanos::from_millis(10),
        start_phase: Nanos::ZERO,
        seek: SeekSpec::Coefficients {
            short_ns: 500e3,
            root_ns: 100e3,
            long_ns: 900e3,
            cylinder_ns: 4e3,
            knee: 25,
        },
        write_settle: Nanos::from_micros(300),
        head_switch: Nanos::from_micros(700),
        cylinder_switch: Nanos::from_millis(1),
        track_skew: None,
        cylinder_skew: None,
        overhead: Nanos::from_micros(200),
        len_max: LEN_MAX,
        power: Power { idle_w: 1.0, seek_w: 10.0, transfer_w: 100.0, standby: None },
    }
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

fn serve(disk: &mut Hdd, start_us: u64, io: Request) -> Completion {
    disk.start(Nanos::from_micros(start_us), io);
    let at = disk.next().unwrap();
    disk.finish(at)
}

/// Returns when the command completed, and its seek, rotation and transfer, all in microseconds.
fn times(done: Completion) -> [u64; 4] {
    let Mechanics { seek, rotation, transfer, .. } = done.mechanics;
    [done.at, seek, rotation, transfer].map(|time| time.0 / 1_000)
}

#[test]
fn a_first_read_waits_for_its_sector() {
    let mut disk = Hdd::new(tiny()).unwrap();
    assert_eq!(times(serve(&mut disk, 0, io(Op::Read, 5, 10))), [1_500, 0, 300, 1_000]);
    // Sector 2 arrives exactly at the end of the overhead.
    let mut disk = Hdd::new(tiny()).unwrap();
    assert_eq!(times(serve(&mut disk, 0, io(Op::Read, 2, 10))), [1_200, 0, 0, 1_000]);
    let phased = HddSpec { start_phase: Nanos::from_micros(400), ..tiny() };
    let mut disk = Hdd::new(phased).unwrap();
    // The platters are at 0.6 ms at the end of the overhead, so sector 5 has just passed.
    assert_eq!(times(serve(&mut disk, 0, io(Op::Read, 5, 10))), [11_100, 0, 9_900, 1_000]);
}

#[test]
fn seeks_are_short_or_long() {
    let mut disk = Hdd::new(tiny()).unwrap();
    let done = serve(&mut disk, 0, io(Op::Read, 900, 1));
    assert_eq!(times(done), [9_100, 800, 8_000, 100]);
    let Mechanics { cylinder_from, cylinder_first, cylinder_last, .. } = done.mechanics;
    assert_eq!((cylinder_from, cylinder_first, cylinder_last), (0, 9, 9));
    let mut disk = Hdd::new(tiny()).unwrap();
    assert_eq!(times(serve(&mut disk, 0, io(Op::Read, 5_000, 1))), [10_100, 1_100, 8_700, 100]);
    let mut disk = Hdd::new(tiny()).unwrap();
    assert_eq!(times(serve(&mut disk, 0, io(Op::Write, 900, 1))), [9_100, 1_100, 7_700, 100]);
}

#[test]
fn a_transfer_runs_over_the_end_of_a_cylinder() {
    let mut disk = Hdd::new(tiny()).unwrap();
    let done = serve(&mut disk, 0, io(Op::Read, 95, 10));
    assert_eq!(times(done), [11_500, 0, 9_300, 2_000]);
    assert_eq!((done.mechanics.cylinder_first, done.mechanics.cylinder_last), (0, 1));
    // A skew shorter than the switch costs a revolution.
    let skewed = HddSpec { cylinder_skew: Some(Nanos::from_micros(500)), ..tiny() };
    let mut disk = Hdd::new(skewed).unwrap();
    assert_eq!(times(serve(&mut disk, 0, io(Op::Read, 95, 10))), [21_000, 0, 9_300, 11_500]);
}

#[test]
fn heads_switch_within_a_cylinder() {
    let mut disk = Hdd::new(HddSpec { heads: 2, ..tiny() }).unwrap();
    assert_eq!(times(serve(&mut disk, 0, io(Op::Read, 99, 2))), [10_800, 0, 9_700, 900]);
    // Back to the first head: after the switch, sector 20 arrives at 2 ms.
    assert_eq!(times(serve(&mut disk, 11_000, io(Op::Read, 20, 1))), [12_100, 700, 100, 100]);
}

#[test]
fn a_read_continues_across_a_gap() {
    let after = |us, sector, op| {
        let mut disk = Hdd::new(tiny()).unwrap();
        serve(&mut disk, 0, io(op, 0, 10));
        times(serve(&mut disk, us, io(op, sector, 10)))
    };
    // At 11 ms the head is at the end of sector 9. It reads sector 11 after passing sector 10.
    assert_eq!(after(11_000, 11, Op::Read), [12_100, 0, 100, 1_000]);
    // Half a millisecond later, sector 10 has passed.
    assert_eq!(after(11_500, 11, Op::Read), [12_500, 0, 0, 1_000]);
    // A read that is farther away than a revolution, or later than one, is not a continuation.
    // Neither is a write.
    assert_eq!(after(11_000, 122, Op::Read), [14_200, 600, 1_400, 1_000]);
    assert_eq!(after(21_100, 11, Op::Read), [32_100, 0, 9_800, 1_000]);
    assert_eq!(after(11_000, 11, Op::Write), [22_100, 0, 9_900, 1_000]);
}

#[test]
fn an_immediate_continuation_loses_nothing() {
    for op in [Op::Read, Op::Write] {
        let mut disk = Hdd::new(tiny()).unwrap();
        assert_eq!(times(serve(&mut disk, 0, io(op, 0, 10))), [11_000, 0, 9_800, 1_000]);
        assert_eq!(times(serve(&mut disk, 11_000, io(op, 10, 10))), [12_000, 0, 0, 1_000]);
        assert_eq!(times(serve(&mut disk, 12_000, io(op, 20, 80))), [20_000, 0, 0, 8_000]);
        assert_eq!(times(serve(&mut disk, 20_000, io(op, 100, 1))), [21_100, 0, 0, 1_100]);
    }
    // A write after a read is not a continuation and waits almost a revolution.
    let mut disk = Hdd::new(tiny()).unwrap();
    serve(&mut disk, 0, io(Op::Read, 0, 10));
    assert_eq!(times(serve(&mut disk, 11_000, io(Op::Write, 10, 10))), [22_000, 0, 9_800, 1_000]);
}

#[test]
fn reads_go_on_after_a_pause_as_from_read_ahead() {
    let resumed = |op, start_us| {
        let mut disk = Hdd::new(tiny()).unwrap();
        serve(&mut disk, 0, io(op, 0, 10));
        times(serve(&mut disk, start_us, io(op, 10, 10)))
    };
    assert_eq!(resumed(Op::Read, 11_500), [12_500, 0, 0, 1_000]);
    assert_eq!(resumed(Op::Read, 16_000), [17_000, 0, 0, 1_000]);
    assert_eq!(resumed(Op::Read, 21_000), [22_000, 0, 0, 1_000]);
    assert_eq!(resumed(Op::Read, 21_100), [32_000, 0, 9_700, 1_000]);
    assert_eq!(resumed(Op::Write, 16_000), [22_000, 0, 4_800, 1_000]);
}

#[test]
fn a_pause_hides_the_overhead_and_the_switch_but_no_transfer() {
    let resumed = |start_us, count| {
        let mut disk = Hdd::new(tiny()).unwrap();
        assert_eq!(serve(&mut disk, 0, io(Op::Read, 90, 10)).at, Nanos::from_millis(10));
        times(serve(&mut disk, start_us, io(Op::Read, 100, count)))
    };
    assert_eq!(resumed(10_000, 10), [12_000, 0, 0, 2_000]);
    assert_eq!(resumed(10_400, 10), [12_000, 0, 0, 1_600]);
    assert_eq!(resumed(15_000, 10), [16_000, 0, 0, 1_000]);
    assert_eq!(resumed(15_000, 1), [15_200, 0, 0, 200]);
    // Without a pause, reading continues at the rate of the media.
    let mut disk = Hdd::new(tiny()).unwrap();
    serve(&mut disk, 0, io(Op::Read, 0, 10));
    assert_eq!(serve(&mut disk, 15_000, io(Op::Read, 10, 10)).at, Nanos::from_millis(16));
    assert_eq!(serve(&mut disk, 16_000, io(Op::Read, 20, 1)).at, Nanos::from_micros(16_100));
}

#[test]
fn commands_without_data_cost_their_overhead() {
    let mut disk = Hdd::new(tiny()).unwrap();
    serve(&mut disk, 0, io(Op::Read, 900, 1));
    assert_eq!(times(serve(&mut disk, 9_200, io(Op::Flush, 0, 0))), [9_400, 0, 0, 0]);
    let done = serve(&mut disk, 9_500, io(Op::Trim, 5_000, 9));
    assert_eq!((times(done), done.mechanics.cylinder_last), ([9_700, 0, 0, 0], 9));
    assert_eq!(times(serve(&mut disk, 9_800, io(Op::Park, 0, 0))), [9_800, 0, 0, 0]);
    assert_eq!(disk.floor(&io(Op::Flush, 0, 0)), Nanos::ZERO);
}

#[test]
fn addresses_beyond_the_capacity_are_wrapped_and_truncated() {
    let mut disk = Hdd::new(tiny()).unwrap();
    assert_eq!(disk.capacity(), 10_000 * 512);
    assert_eq!(times(serve(&mut disk, 0, io(Op::Read, 10_005, 10))), [1_500, 0, 300, 1_000]);
    let done = serve(&mut disk, 2_000, io(Op::Read, 9_999, 500));
    assert_eq!((done.mechanics.cylinder_last, done.mechanics.transfer.0), (99, 100_000));
    // A sector is transferred completely even if only some of its bytes are needed.
    assert_eq!(disk.floor(&Request { len: 2, ..io(Op::Read, 7, 0) }), Nanos(100_000));
    let crossing = Request { offset: 8 * 512 - 1, len: 2, ..io(Op::Read, 0, 0) };
    assert_eq!(disk.floor(&crossing), Nanos(200_000));
}

#[test]
fn energy_is_counted_by_state() {
    let mut disk = Hdd::new(tiny()).unwrap();
    // 0.2 ms overhead, 0.8 ms seek, 8.0 ms rotation, 0.1 ms transfer
    disk.start(Nanos::ZERO, io(Op::Read, 900, 1));
    let joules = |disk: &Hdd, us| (disk.joules(Nanos::from_micros(us)) * 1e6).round() as u64;
    assert_eq!(joules(&disk, 200), 200);
    assert_eq!(joules(&disk, 600), 200 + 4_000);
    assert_eq!(joules(&disk, 9_000), 8_200 + 8_000);
    assert_eq!(joules(&disk, 9_050), 8_200 + 8_000 + 5_000);
    assert_eq!(disk.busy(Nanos::from_micros(9_050)), Nanos::from_micros(9_050));
    disk.finish(Nanos::from_micros(9_100));
    assert_eq!(joules(&disk, 10_000), 9_100 + 8_000 + 10_000);
    assert_eq!(disk.busy(Nanos::from_micros(10_000)), Nanos::from_micros(9_100));
}

#[test]
fn a_parked_disk_rests_and_the_next_command_spins_it_up() {
    let standby = Standby { standby_w: 0.5, spin_up_j: 3.0, spin_up: Nanos::from_millis(20) };
    let power = Power { standby: Some(standby), ..tiny().power };
    let mut disk = Hdd::new(HddSpec { power, ..tiny() }).unwrap();
    let joules = |disk: &Hdd, us| (disk.joules(Nanos::from_micros(us)) * 1e6).round() as u64;
    assert_eq!(times(serve(&mut disk, 1_000, io(Op::Park, 0, 0))), [1_000, 0, 0, 0]);
    assert_eq!(joules(&disk, 11_000), 1_000 + 5_000);
    // The disk is ready at 31 ms. After 0.2 ms overhead, sector 5, at 0.5 ms of a revolution, is
    // 9.3 ms away.
    disk.start(Nanos::from_micros(11_000), io(Op::Read, 5, 10));
    assert_eq!(joules(&disk, 21_000), 6_000 + 1_500_000);
    let done = disk.finish(disk.next().unwrap());
    assert_eq!(times(done), [41_500, 0, 9_300, 1_000]);
    assert_eq!(disk.busy(done.at), Nanos::from_micros(30_500));
    assert_eq!(joules(&disk, 41_500), 6_000 + 3_000_000 + 9_500 + 100_000);
    // Once the disk is ready, there is no further cost. Parking loses the read-ahead.
    assert_eq!(times(serve(&mut disk, 41_500, io(Op::Read, 15, 1))), [41_600, 0, 0, 100]);
    serve(&mut disk, 41_600, io(Op::Park, 0, 0));
    let after = times(serve(&mut disk, 41_600, io(Op::Read, 16, 1)));
    assert_eq!(after, [61_700 + 10_000, 0, 9_800, 100]);
}

#[test]
fn faulty_figures_are_named() {
    let said = |spec: HddSpec| Hdd::new(spec).unwrap_err().0;
    let long = Nanos::from_secs(2);
    assert!(said(HddSpec { revolution: Nanos::ZERO, ..tiny() }).contains("revolution: got 0"));
    assert!(said(HddSpec { overhead: long, ..tiny() }).contains("overhead: got 2000000000"));
    assert!(said(HddSpec { track_skew: Some(long), ..tiny() }).contains("track skew"));
    assert!(said(HddSpec { len_max: 511, ..tiny() }).contains("512 or more"));
    assert!(said(HddSpec { heads: 0, ..tiny() }).contains("heads: got 0"));
    let power = Power { seek_w: f64::NAN, ..tiny().power };
    assert!(said(HddSpec { power, ..tiny() }).contains("seek power: got NaN"));
}

/// Returns a disk with a single zone of real size, so that uniformly distributed bytes are also
/// uniformly distributed over cylinders.
fn large() -> HddSpec {
    HddSpec {
        heads: 4,
        zones: vec![Zone { first_cylinder: 0, last_cylinder: 99_999, sectors_per_track: 2_000 }],
        revolution: Nanos(8_333_333),
        seek: SeekSpec::Datasheet {
            track_to_track: Nanos::from_micros(800),
            average: Nanos::from_micros(8_500),
            full_stroke: Nanos::from_micros(18_000),
            knee_share: KNEE_SHARE,
        },
        ..tiny()
    }
}

#[test]
fn random_reads_take_the_average_seek_and_half_a_turn() {
    let mut disk = Hdd::new(large()).unwrap();
    let (mut state, mut now) = (1_u64, 0);
    let (mut seek, mut rotation, count) = (0.0, 0.0, 100_000);
    for _ in 0..count {
        // A linear congruential generator with 64 bits, of which the high ones are used.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let sector = (state >> 16) % (disk.capacity() / 512 - 8);
        disk.start(Nanos(now), io(Op::Read, sector, 8));
        let done = disk.finish(disk.next().unwrap());
        seek += done.mechanics.seek.0 as f64;
        rotation += done.mechanics.rotation.0 as f64;
        now = done.at.0 + (state >> 40) % 1_000_000;
    }
    let (seek, rotation) = (seek / f64::from(count) / 8.5e6, rotation / f64::from(count));
    assert!((seek - 1.0).abs() < 0.01, "{seek}");
    assert!((rotation / 4_166_666.0 - 1.0).abs() < 0.02, "{rotation}");
}

#[test]
fn a_sequential_read_loses_only_its_switches() {
    let outer = Zone { first_cylinder: 0, last_cylinder: 499, sectors_per_track: 2_000 };
    let inner = Zone { first_cylinder: 500, last_cylinder: 1_499, sectors_per_track: 1_000 };
    let fresh = Hdd::new(HddSpec { zones: vec![outer, inner], ..large() }).unwrap();
    let gibibyte = |first: u64| {
        let mut disk = fresh.clone();
        let count = (1 << 30) / 65_536;
        let mut now = serve(&mut disk, 0, io(Op::Read, first, 128)).at;
        let (start, mut floor) = (now, 0);
        for command in 1..count {
            disk.start(now, io(Op::Read, first + command * 128, 128));
            floor += disk.floor(&io(Op::Read, first + command * 128, 128)).0;
            now = disk.next().unwrap();
            disk.finish(now);
        }
        let tracks = |sector: u64| sector / if first == 0 { 2_000 } else { 1_000 };
        let (from, to) = (tracks(first + 127), tracks(first + count * 128 - 1));
        let switches = (to - from) * 700_000 + (to / 4 - from / 4) * 300_000;
        let spent = (now - start).0;
        // The floor of each command is rounded down.
        assert!(spent.abs_diff(floor + switches) < count, "{spent} {floor} {switches}");
        floor as f64
    };
    let ratio = gibibyte(500 * 4 * 2_000) / gibibyte(0);
    assert!((ratio - 2.0).abs() < 1e-4, "{ratio}");
}
