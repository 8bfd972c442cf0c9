//! Tests the live driver's loop on emulated lanes, with clocks that the tests control.

use std::io;

use forebay_core::catalog::{POLICIES, build};
use forebay_core::device::fixed::Fixed;
use forebay_core::device::hdd::{Hdd, HddSpec, Power, SeekSpec, Zone};
use forebay_core::device::list::DeviceModel;
use forebay_core::tape::Recorder;
use forebay_core::{
    Device, Lane, Nanos, Null, Op, Piece, Request, Slots, Workload, simulate, tape,
};
use forebay_live::{Emulated, Ended, Failure, LEN_MAX, Lanes, VirtualClock, Waker, run};

use crate::rig::{Counted, Sloppy, mixed, open, request};

fn disk() -> DeviceModel {
    let spec = HddSpec {
        heads: 2,
        zones: vec![Zone { first_cylinder: 0, last_cylinder: 999, sectors_per_track: 500 }],
        revolution: Nanos::from_micros(8333),
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
    };
    DeviceModel::Hdd(Hdd::new(spec).unwrap())
}

fn server(iops: f64) -> DeviceModel {
    DeviceModel::Fixed(Fixed::new(iops).unwrap())
}

/// With a clock that is always on time, the live driver makes exactly the calls that the simulator
/// makes.
#[test]
fn an_exact_clock_gives_the_simulators_run() {
    let specs = POLICIES.iter().map(|listed| listed.name);
    for spec in specs.chain(["fcfs", "miser:cmin=700:delta-ms=20", "noop:reads-max=2"]) {
        for (device, gap_us) in [(disk(), 12_000), (server(1500.0), 1200)] {
            let requests = mixed(400, gap_us, device.capacity().min(400 << 20));
            let recorder = || Recorder::new(build(spec, LEN_MAX).unwrap());
            let (mut simulated, mut devices) = (recorder(), [device.clone()]);
            let makespan =
                simulate::run(&mut simulated, &mut devices, &mut open(&requests), &mut ());
            let (mut live, mut seen) = (recorder(), Counted::default());
            let mut lanes = Emulated::new(vec![device], VirtualClock::default());
            let end = run(&mut live, &mut lanes, &mut open(&requests), &mut seen).unwrap();
            assert_eq!(end, makespan, "{spec}");
            assert!(live.calls == simulated.calls, "{spec}: the calls differ");
            assert!(seen.lateness.iter().all(|late| *late == Nanos::ZERO), "{spec}");
            assert_eq!(tape::replay(&mut build(spec, LEN_MAX).unwrap(), &live.calls), Ok(()));
        }
    }
}

/// With a clock that is late, the run is still that of the simulator, even if commands are
/// sequential and a late one would lose a revolution. Only the waiting times are longer, by the
/// lateness.
#[test]
fn a_late_clock_hardly_changes_responses() {
    let sequential = |id| request(id, 0, Op::Read, id * 65_536, 65_536);
    let cases = [
        (disk(), mixed(600, 25_000, disk().capacity())),
        (disk(), (0..200).map(sequential).collect()),
        (server(1500.0), mixed(2000, 1500, 1 << 30)),
    ];
    for (device, requests) in cases {
        let policy = || Recorder::new(build("cfq", LEN_MAX).unwrap());
        let (mut in_virtual, mut in_wall) = (policy(), policy());
        let mut simulated = Counted::default();
        let mut devices = [device.clone()];
        simulate::run(&mut in_virtual, &mut devices, &mut open(&requests), &mut simulated);
        let mut live = Counted::default();
        let mut lanes = Emulated::new(vec![device], Sloppy::default());
        run(&mut in_wall, &mut lanes, &mut open(&requests), &mut live).unwrap();
        assert!(in_virtual.calls == in_wall.calls, "the calls differ");
        let quantile = |seen: &mut Counted, share: f64| {
            seen.latencies.sort_unstable();
            seen.latencies[((seen.latencies.len() - 1) as f64 * share) as usize] as f64
        };
        for share in [0.1, 0.5, 0.9, 0.99, 1.0] {
            let (said, seen) = (quantile(&mut simulated, share), quantile(&mut live, share));
            let allowed = (0.02 * said).max(100e3);
            assert!((said - seen).abs() <= allowed, "{share}: {said} simulated, {seen} live");
        }
        // By the wall clock, requests wait at least as long as in the model, and some wait longer.
        let waited = |seen: &Counted| seen.latencies.iter().sum::<u64>();
        assert!(waited(&live) > waited(&simulated));
        let late = live.lateness.iter().max().unwrap();
        assert!((Nanos(1)..Nanos::from_micros(200)).contains(late), "{late}");
    }
}

/// Lanes in memory: every I/O ends in the next pass, and every third one fails.
#[derive(Default)]
struct Failing {
    null: Null,
    now: Nanos,
    under_way: Vec<Request>,
    served: u64,
    full: Option<(Nanos, Nanos)>,
}

impl Lanes for Failing {
    fn count(&self) -> usize {
        2
    }
    fn reap(&mut self, _next: Nanos, ended: &mut Vec<Ended>) -> io::Result<Nanos> {
        for io in self.under_way.drain(..) {
            self.served += 1;
            let failure = self.served.is_multiple_of(3).then_some(Failure::Os(28));
            ended.push(Ended::new(io, self.now, self.now, failure));
        }
        Ok(self.now)
    }
    fn wall(&mut self) -> Nanos {
        self.now
    }
    fn room(&self, _lane: Lane) -> bool {
        self.under_way.len() < 4
    }
    fn slots(&mut self) -> &mut dyn Slots {
        &mut self.null
    }
    fn start(&mut self, _now: Nanos, io: Request, _pieces: &[Piece]) {
        self.under_way.push(io);
        if self.under_way.len() == 4 {
            // Accepting the last I/O takes a while.
            let from = self.now;
            self.now = from + Nanos::from_micros(7);
            self.full = Some((from, self.now));
        }
    }
    fn held_up(&mut self) -> Option<(Nanos, Nanos)> {
        self.full.take()
    }
    fn in_flight(&self) -> usize {
        self.under_way.len()
    }
    fn proceed(&mut self, until: Nanos) -> io::Result<()> {
        if self.under_way.is_empty() {
            self.now = self.now.max(until);
        }
        Ok(())
    }
    fn waker(&mut self) -> io::Result<Waker> {
        Err(io::Error::other("nobody waits"))
    }
}

#[test]
fn failures_are_told_and_the_run_continues() {
    let requests = mixed(300, 50, 1 << 30);
    let mut seen = Counted::default();
    let policy = &mut build("noop:merge=no", LEN_MAX).unwrap();
    run(policy, &mut Failing::default(), &mut open(&requests), &mut seen).unwrap();
    assert_eq!((seen.arrived, seen.finished), (300, 300));
    assert_eq!(seen.ios + seen.failures[&Failure::Os(28)], 300);
    assert_eq!(seen.failures[&Failure::Os(28)], 100);
}

#[test]
fn the_cause_of_a_delay_is_reported_before_late_requests() {
    // All requests arrive at once, and four are served at a time.
    let requests: Vec<Request> =
        (0..8).map(|id| request(id, 0, Op::Read, id << 20, 4096)).collect();
    let mut seen = Counted::default();
    let policy = &mut build("noop:merge=no", LEN_MAX).unwrap();
    run(policy, &mut Failing::default(), &mut open(&requests), &mut seen).unwrap();
    let us = Nanos::from_micros;
    assert_eq!(seen.held_up, [(us(0), us(7), 0), (us(7), us(14), 8)]);
    assert!(seen.lateness.iter().all(|late| *late == us(7)));
}

#[test]
fn after_a_stop_nothing_starts_and_pending_ios_complete() {
    // Each request takes a second, so the first one is in flight when the run is stopped.
    let requests: Vec<Request> =
        (0..5).map(|id| request(id, 100 * id, Op::Read, id << 20, 4096)).collect();
    let mut seen = Counted { stop_at: Some(Nanos::from_micros(300)), ..Counted::default() };
    let mut lanes = Emulated::new(vec![server(1.0)], VirtualClock::default());
    let policy = &mut build("noop", LEN_MAX).unwrap();
    let end = run(policy, &mut lanes, &mut open(&requests), &mut seen).unwrap();
    assert_eq!((seen.arrived, seen.started.len(), seen.finished), (3, 1, 1));
    assert_eq!(end, Nanos::from_secs(1));
    assert_eq!(lanes.in_flight(), 0);
}

/// A workload whose source fails after some requests.
struct Broken(Vec<Request>);

impl Workload for Broken {
    fn peek(&self) -> Option<Nanos> {
        self.0.last().map(|request| request.at)
    }
    fn take(&mut self) -> Request {
        self.0.pop().unwrap()
    }
    fn is_stopped(&self) -> bool {
        self.0.len() < 3
    }
}

#[test]
fn a_workload_that_stops_ends_the_run() {
    let requests = (0..5).rev().map(|id| request(id, 1000 * id, Op::Read, id << 20, 4096));
    let mut seen = Counted::default();
    let mut lanes = Emulated::new(vec![server(1.0)], VirtualClock::default());
    let policy = &mut build("noop", LEN_MAX).unwrap();
    run(policy, &mut lanes, &mut Broken(requests.collect()), &mut seen).unwrap();
    assert_eq!((seen.arrived, seen.started.len(), seen.finished), (3, 1, 1));
}

#[test]
fn a_run_without_requests_ends() {
    let mut lanes = Emulated::new(vec![server(1.0)], VirtualClock::default());
    let policy = &mut build("noop", LEN_MAX).unwrap();
    let end = run(policy, &mut lanes, &mut open(&[]), &mut ()).unwrap();
    assert_eq!(end, Nanos::ZERO);
}
