//! Tests of shapers that measure their server's capacity.

use forebay_core::contract::device::{Completion, Device, Mechanics};
use forebay_core::device::fixed::Fixed;
use forebay_core::{Nanos, Request};
use proptest::prelude::*;

use super::harness::{Outcome, arrivals, read, reads, run, run_on};
use super::{RATES, flood, served};

/// A server whose rate changes at given times.
struct Changing {
    servers: Vec<(Nanos, Fixed)>,
    at: usize,
}

impl Changing {
    fn new(rates: &[(u64, u64)]) -> Changing {
        let server = |(secs, iops): &(u64, u64)| {
            (Nanos::from_secs(*secs), Fixed::new(*iops as f64).unwrap())
        };
        Changing { servers: rates.iter().map(server).collect(), at: 0 }
    }

    fn serving(&self) -> &Fixed {
        &self.servers[self.at].1
    }
}

impl Device for Changing {
    fn room(&self) -> bool {
        self.serving().room()
    }
    fn start(&mut self, now: Nanos, io: Request) {
        let begun = self.servers.iter().rposition(|(from, _)| *from <= now);
        self.at = begun.unwrap();
        self.servers[self.at].1.start(now, io);
    }
    fn next(&self) -> Option<Nanos> {
        self.serving().next()
    }
    fn finish(&mut self, now: Nanos) -> Completion {
        self.servers[self.at].1.finish(now)
    }
    fn joules(&self, _: Nanos) -> f64 {
        0.0
    }
    fn busy(&self, now: Nanos) -> Nanos {
        self.serving().busy(now)
    }
    fn floor(&self, io: &Request) -> Nanos {
        self.serving().floor(io)
    }
    fn capacity(&self) -> u64 {
        u64::MAX
    }
    fn len_max(&self) -> u32 {
        u32::MAX
    }
}

/// Returns the policies that promise something to a class.
fn promising(rate: u64, within_ms: f64) -> [String; 5] {
    let asked = format!("cmin={rate}:delta-ms={within_ms}");
    [
        format!("wf2q:{asked}:delta-c={rate}"),
        format!("sfq:{asked}:delta-c={rate}"),
        format!("miser:{asked}"),
        format!("miser:{asked}:admission=rate"),
        format!("promised:{asked}"),
    ]
}

/// Returns the number of promised requests that arrived in the interval, and the share of them that
/// completed in time.
fn kept(outcomes: &[Outcome], from_s: u64, to_s: u64, within: Nanos) -> (usize, f64) {
    let came = |one: &&Outcome| {
        one.class == 0
            && (Nanos::from_secs(from_s)..Nanos::from_secs(to_s)).contains(&one.request.at)
    };
    let all: Vec<_> = outcomes.iter().filter(came).collect();
    let in_time = all.iter().filter(|one| one.took() <= within).count();
    (all.len(), in_time as f64 / all.len().max(1) as f64)
}

/// Returns requests at a constant rate of `iops` for `secs` seconds, in groups of four.
fn steady(iops: u64, secs: u64) -> Vec<Request> {
    let at = |id: u64| Nanos(id / 4 * 4 * 1_000_000_000 / iops);
    (0..iops * secs).map(|id| read(id, at(id), 0)).collect()
}

proptest! {
    /// On a server of the expected rate, measuring changes nothing: each request has the same class
    /// and completes at the same time, for any arrivals.
    #[test]
    fn a_server_with_its_stated_capacity_changes_nothing(
        times in arrivals(300), rate in prop::sample::select(RATES), places in 2u64..12,
    ) {
        let within = (places * 1000) as f64 / rate as f64;
        for spec in promising(rate, within) {
            let fixed = run(&spec, &[2 * rate], &reads(&times));
            let measured = run(&format!("{spec}:capacity=measured"), &[2 * rate], &reads(&times));
            prop_assert_eq!(fixed.outcomes, measured.outcomes, "{}", spec);
            prop_assert_eq!(measured.pace, Some(100.0), "{}", spec);
        }
    }
}

/// On a server slower by any factor, the promises still made are kept, and they use at least 80 %
/// of what the server could promise.
#[test]
fn a_slow_server_keeps_reduced_promises() {
    let (rate, within) = (400, Nanos::from_millis(50));
    for part in [30, 41, 55, 74] {
        let server = rate * part / 100;
        for spec in promising(rate, within.as_millis_f64()) {
            let requests = steady(300, 30);
            let fixed = run(&spec, &[server], &requests);
            let measured = run(&format!("{spec}:capacity=measured"), &[server], &requests);
            let (_, before) = kept(&fixed.outcomes, 8, 30, within);
            let (count, after) = kept(&measured.outcomes, 8, 30, within);
            // With admission by queue length, Miser adapts to a slow server even without measuring.
            let by_length = spec == "miser:cmin=400:delta-ms=50";
            assert!(before < 0.5 || by_length, "{spec} {part}: {before}");
            assert!(after > 0.97, "{spec} {part}: {after} {:?}", measured.pace);
            let fair = spec.starts_with("wf2q") || spec.starts_with("sfq");
            let could = if fair { server / 2 } else { server - 20 };
            let least = could.min(300) * 22 * 8 / 10;
            assert!(count as u64 >= least, "{spec} {part}: {count}, expected {least}");
        }
    }
}

#[test]
fn promises_are_restored_when_the_server_recovers() {
    let within = Nanos::from_millis(50);
    for spec in promising(200, 50.0) {
        let spec = format!("{spec}:capacity=measured");
        let mut server = [Changing::new(&[(0, 500), (20, 100), (40, 500)])];
        let ran = run_on(&spec, &mut server, &steady(190, 80));
        for (from, to) in [(0, 20), (28, 40), (65, 80)] {
            let (count, share) = kept(&ran.outcomes, from, to, within);
            assert!(count > 100 && share > 0.97, "{spec}: {count} {share} from {from}");
        }
        assert!(ran.pace.unwrap() > 95.0, "{spec}: {:?}", ran.pace);
    }
}

/// A device that serves up to 32 I/Os at the same time, in 2 ms each; every hundredth takes `long`.
struct Parallel {
    inside: Vec<(Nanos, Nanos, Request)>,
    started: u64,
    long: Nanos,
}

impl Device for Parallel {
    fn room(&self) -> bool {
        self.inside.len() < 32
    }
    fn start(&mut self, now: Nanos, io: Request) {
        self.started += 1;
        let took = if self.started.is_multiple_of(100) { self.long } else { Nanos::from_millis(2) };
        self.inside.push((now + took, now, io));
    }
    fn next(&self) -> Option<Nanos> {
        self.inside.iter().map(|(end, _, _)| *end).min()
    }
    fn finish(&mut self, now: Nanos) -> Completion {
        let at = self.inside.iter().position(|(end, _, _)| *end <= now).unwrap();
        let (at, started, io) = self.inside.remove(at);
        Completion { io, started, at, mechanics: Mechanics::default(), outcome: Ok(()) }
    }
    fn joules(&self, _: Nanos) -> f64 {
        0.0
    }
    fn busy(&self, _: Nanos) -> Nanos {
        Nanos::ZERO
    }
    fn floor(&self, _: &Request) -> Nanos {
        Nanos::ZERO
    }
    fn capacity(&self) -> u64 {
        u64::MAX
    }
    fn len_max(&self) -> u32 {
        u32::MAX
    }
}

/// A device of 10,000 IOPS and more, some of whose I/Os take longer than the window: the window is then
/// short, and the rate of the few requests in it is not what the device can do.
#[test]
fn a_tail_does_not_make_a_device_slow() {
    let (within, secs) = (Nanos::from_millis(20), 20);
    for long_ms in [2, 10, 15, 18] {
        let spec = "promised:cmin=5000:delta-ms=20:delta-c=5000:depth=64:capacity=measured:dependencies=no";
        let mut device =
            [Parallel { inside: Vec::new(), started: 0, long: Nanos::from_millis(long_ms) }];
        let ran = run_on(spec, &mut device, &steady(7000, secs));
        let (count, share) = kept(&ran.outcomes, 2, secs, within);
        println!("{long_ms} ms: {:?} %, {count} kept, {share} in time", ran.pace);
        assert!(count as u64 >= 5000 * (secs - 2) * 9 / 10, "{long_ms}: {count}");
        assert!(share > 0.97, "{long_ms}: {share}");
    }
}

#[test]
fn promises_may_exceed_the_capacity_on_request() {
    let spec = "promised:cmin=100:delta-ms=50:capacity=measured:pace-max-percent=300";
    let (requests, within) = (steady(250, 30), Nanos::from_millis(50));
    let (count, share) = kept(&run(spec, &[400], &requests).outcomes, 10, 30, within);
    assert!(count > 240 * 20 && share > 0.99, "{count} {share}");
    let (count, _) =
        kept(&run("promised:cmin=100:delta-ms=50", &[400], &requests).outcomes, 10, 30, within);
    assert!(count < 110 * 20, "{count}");
}

#[test]
fn tokens_arrive_at_the_measured_rate() {
    let spec = "token-bucket:rate=400:delta-ms=20:capacity=measured";
    let ran = run(spec, &[100], &flood(1, 1000));
    assert!((24.0..28.0).contains(&ran.pace.unwrap()), "{:?}", ran.pace);
    // The server needs 10 s for these requests.
    assert_eq!(served(&ran, 1, Nanos::from_secs(20)), [1000]);
}

#[test]
fn reservations_and_limits_shrink_alike() {
    let spec = "dmclock:reservation=300/100/0:limit=600/600/0:delta-ms=20:capacity=measured";
    let ran = run(spec, &[200], &flood(3, 4000));
    let at = |secs| served(&ran, 3, Nanos::from_secs(secs));
    let counts: Vec<usize> = at(10).iter().zip(at(5)).map(|(all, before)| all - before).collect();
    // The server has half the rate of all reservations, so each stream gets half of its
    // reservation.
    for (count, expected) in counts.iter().zip([750_usize, 250, 0]) {
        assert!(count.abs_diff(expected) <= 60, "{counts:?}");
    }
}

#[test]
fn invalid_rates_are_reported() {
    let said = |spec: &str| forebay_core::catalog::build(spec, 4096).map(|_| ()).unwrap_err().0;
    let least = "miser:cmin=300:capacity=measured:pace-min-percent=50:pace-max-percent=40";
    let told = said(least);
    assert!(
        told.contains("pace-max-percent: got '40', expected pace-min-percent (50) to"),
        "{told}"
    );
    assert!(
        said("miser:cmin=300:capacity=guessed").contains("fixed or measured"),
        "{}",
        said("miser:cmin=300:capacity=guessed")
    );
    assert!(said("split:cmin=300:capacity=measured").contains("capacity"));
    assert!(said("fcfs:capacity=measured").contains("capacity"));
}
