//! A reference model of the plain disk, which lists the position of every sector and computes every
//! transfer from that list.

use forebay_core::device::hdd::{Hdd, HddSpec, LEN_MAX, Power, SeekSpec, Zone};
use forebay_core::{Completion, Device, Nanos, Op, Request};
use proptest::prelude::*;

use super::request;

/// The duration of a revolution in ns. Every track length below divides it, so no time is rounded.
const TURN: u64 = 1_200_000;

#[derive(Clone, Copy)]
struct Sector {
    cylinder: u32,
    head: u32,
    /// The time at which a head that reads the whole disk without pause starts reading this sector,
    /// and the time that takes.
    begins: u64,
    takes: u64,
}

/// Returns the sectors in order of address: all heads of a cylinder, then the next cylinder.
fn sectors(spec: &HddSpec) -> Vec<Sector> {
    let skews = [(spec.head_switch, spec.track_skew), (spec.cylinder_switch, spec.cylinder_skew)];
    // The next track begins one skew later, plus as many whole revolutions as the switch takes.
    let [head_step, cylinder_step] = skews.map(|(switch, skew)| {
        let skew = skew.unwrap_or(switch).0;
        (0..).map(|turns| skew + turns * TURN).find(|&step| step >= switch.0).unwrap()
    });
    let (mut begins, mut sectors) = (0, Vec::new());
    for zone in &spec.zones {
        for cylinder in zone.first_cylinder..=zone.last_cylinder {
            for head in 0..spec.heads {
                let takes = TURN / u64::from(zone.sectors_per_track);
                for _ in 0..zone.sectors_per_track {
                    sectors.push(Sector { cylinder, head, begins, takes });
                    begins += takes;
                }
                begins += if head + 1 == spec.heads { cylinder_step } else { head_step };
            }
        }
    }
    sectors
}

/// The last command that transferred data.
#[derive(Clone, Copy)]
struct Last {
    op: Op,
    sector: usize,
    done: u64,
}

struct PlainDisk {
    spec: HddSpec,
    sectors: Vec<Sector>,
    arm: (u32, u32),
    last: Option<Last>,
}

/// The durations of seek, rotation and transfer, and the time of completion.
type Times = [u64; 4];

impl PlainDisk {
    fn serve(&mut self, now: u64, io: &Request, seek_time: impl Fn(u32) -> Nanos) -> Times {
        let begin = (io.offset / 512) as usize % self.sectors.len();
        let bytes = io.offset % 512 + u64::from(io.len);
        let end = (begin + bytes.div_ceil(512) as usize).min(self.sectors.len());
        if begin == end {
            return [0, 0, 0, now + self.spec.overhead.0];
        }
        let (first, last) = (self.sectors[begin], self.sectors[end - 1]);
        let goes_on = self.last.filter(|before| self.may_go_on(before, now, io.op, begin));
        let times = match goes_on.map(|before| (before, self.go_on(now, before, begin, end))) {
            Some((before, times)) if before.sector + 1 == begin => times,
            goes_on => {
                let settle = if io.op == Op::Write { self.spec.write_settle.0 } else { 0 };
                let seek = match first.cylinder.abs_diff(self.arm.0) {
                    0 if first.head == self.arm.1 => 0,
                    0 => self.spec.head_switch.0 + settle,
                    distance => seek_time(distance).0 + settle,
                };
                let arrived = now + self.spec.overhead.0 + seek;
                let angle = |time: u64| time % TURN;
                let over = |rotation: &u64| {
                    angle(arrived + self.spec.start_phase.0 + rotation) == angle(first.begins)
                };
                let step = 1_000;
                let rotation = (0..TURN).step_by(step).find(over).expect("it comes round");
                let transfer = last.begins + last.takes - first.begins;
                let gone = [seek, rotation, transfer, arrived + rotation + transfer];
                // If the gap is short, it may be faster to keep reading through it.
                match goes_on {
                    Some((_, [.., done])) if done < gone[3] => {
                        let transfer = transfer.min(done - now);
                        [0, done - now - transfer, transfer, done]
                    }
                    _ => gone,
                }
            }
        };
        self.arm = (last.cylinder, last.head);
        self.last = Some(Last { op: io.op, sector: end - 1, done: times[3] });
        times
    }

    fn may_go_on(&self, before: &Last, now: u64, op: Op, begin: usize) -> bool {
        let (left, next) = (self.sectors[before.sector], before.sector + 1);
        if op != before.op || begin < next {
            return false;
        }
        match op {
            Op::Read => {
                let gap = self.sectors[begin].begins - (left.begins + left.takes);
                now - before.done <= TURN && (begin == next || gap <= TURN)
            }
            _ => now == before.done && begin == next,
        }
    }

    /// Returns the times of a transfer that continues the previous one. The head has stayed on the
    /// track, so it has already read whatever passed under it during a pause. Data arrive no faster
    /// than the media deliver them, and not before the overhead is over.
    fn go_on(&self, now: u64, before: Last, begin: usize, end: usize) -> Times {
        let (first, last) = (self.sectors[begin], self.sectors[end - 1]);
        let left = self.sectors[before.sector];
        let passed = last.begins + last.takes - (left.begins + left.takes);
        let media = last.begins + last.takes - first.begins;
        let paused = now > before.done;
        let least = if paused { self.spec.overhead.0.max(media) } else { passed };
        let done = (now + least).max(before.done + passed);
        [0, 0, passed.min(done - now), done]
    }
}

/// Generates disks whose times are all whole microseconds.
pub(super) fn spec() -> impl Strategy<Value = HddSpec> {
    let us = |most: u64| (0..most).prop_map(Nanos::from_micros);
    let track = prop::sample::select(vec![10u32, 12, 20, 30, 40]);
    let zones = prop::collection::vec((1u32..6, track), 1..4);
    let switches = (us(500), us(2500), prop::option::of(us(1500)), prop::option::of(us(1500)));
    (1u32..4, zones, switches, us(700), us(400), us(1200)).prop_map(
        |(
            heads,
            zones,
            (head_switch, cylinder_switch, track_skew, cylinder_skew),
            settle,
            overhead,
            phase,
        )| {
            let mut first_cylinder = 0;
            let zones = zones.into_iter().map(|(width, sectors_per_track)| {
                let last_cylinder = first_cylinder + width - 1;
                let zone = Zone { first_cylinder, last_cylinder, sectors_per_track };
                first_cylinder += width;
                zone
            });
            HddSpec {
                heads,
                zones: zones.collect(),
                revolution: Nanos(TURN),
                start_phase: phase,
                seek: SeekSpec::Coefficients {
                    short_ns: 300e3,
                    root_ns: 0.0,
                    long_ns: 300e3,
                    cylinder_ns: 7e3,
                    knee: 3,
                },
                write_settle: settle,
                head_switch,
                cylinder_switch,
                track_skew,
                cylinder_skew,
                overhead,
                len_max: LEN_MAX,
                power: Power { idle_w: 1.0, seek_w: 1.0, transfer_w: 1.0, standby: None },
            }
        },
    )
}

/// Returns the times of a completion, and the cylinders where the arm was before, where the
/// transfer began and where it ended.
fn told(done: &Completion) -> (Times, [u32; 3]) {
    let it = done.mechanics;
    let times = [it.seek.0, it.rotation.0, it.transfer.0, done.at.0];
    (times, [it.cylinder_from, it.cylinder_first, it.cylinder_last])
}

proptest! {
    #[test]
    fn the_disk_model_agrees_with_walking_its_sectors(
        spec in spec(),
        // The pause in us, whether to write, the offset (`None`: directly after the previous I/O),
        // and the length.
        steps in prop::collection::vec(
            (prop_oneof![Just(0u64), 0u64..3_000], any::<bool>(), prop::option::of(0u64..400_000), 1u32..30_000),
            1..60,
        ),
    ) {
        let mut disk = Hdd::new(spec.clone()).unwrap();
        let plain = sectors(&spec);
        prop_assert_eq!(disk.capacity(), plain.len() as u64 * 512);
        let mut plain = PlainDisk { spec, sectors: plain, arm: (0, 0), last: None };
        let (mut now, mut after) = (Nanos::ZERO, 0);
        for (pause_us, write, place, len) in steps {
            now += Nanos::from_micros(pause_us);
            let op = if write { Op::Write } else { Op::Read };
            let io = request(0, now, place.unwrap_or(after), len, op);
            after = io.offset.next_multiple_of(512) + u64::from(len).next_multiple_of(512);
            let from = plain.arm.0;
            let expected = plain.serve(now.0, &io, |distance| disk.seek_time(distance));
            let begin = (io.offset / 512) as usize % plain.sectors.len();
            let cylinders = [from, plain.sectors[begin].cylinder, plain.arm.0];
            disk.start(now, io);
            let done = disk.finish(disk.next().unwrap());
            prop_assert_eq!(told(&done), (expected, cylinders), "{:?}", io);
            now = done.at;
        }
    }
}
