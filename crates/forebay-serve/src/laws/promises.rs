//! Tests that promises are kept whatever a neighbor does, with the server's default settings, in
//! virtual time. The devices are an emulated disk, a flash drive, a cloud volume, a volume of
//! disks, and a disk with a flash cache.
//!
//! Promised rates are those that `forebay plan capacity` computes for 99 % of a tenant's requests.
//! A promise counts as kept if at least 98.5 % are in time.

mod nearby;
mod overstated;
mod real_time;
mod shared;
mod static_partition;

use std::collections::VecDeque;

use forebay_core::catalog::{DeviceSet, FlashLane, build_placed, volume_bytes};
use forebay_core::contract::{AnyPolicy, Gauge, GaugeOf};
use forebay_core::rtt::Rtt;
use forebay_core::{
    Completion, Device, DeviceModel, Done, Flags, Nanos, Observer, Op, Policy, Request, Slots,
    Workload, simulate,
};
use forebay_live::LEN_MAX;

use super::longer;
use crate::broken::is_short;
use crate::{Back, Named, On, Promise};

/// A tenant that keeps `depth` requests of `len` bytes outstanding.
#[derive(Clone, Copy, Debug, Default)]
struct Greedy {
    len: u32,
    depth: u32,
    writes_percent: u64,
    is_sequential: bool,
    /// The tenant's own promise in requests per second, if any.
    keep_iops: Option<u64>,
}

const fn greedy(len: u32, depth: u32, writes_percent: u64, is_sequential: bool) -> Greedy {
    Greedy { len, depth, writes_percent, is_sequential, keep_iops: None }
}

const NEIGHBOURS: [Greedy; 12] = [
    greedy(4 << 10, 64, 0, false),
    greedy(4 << 10, 1, 100, false),
    greedy(4 << 10, 64, 100, false),
    greedy(64 << 10, 32, 50, false),
    greedy(256 << 10, 16, 0, true),
    greedy(256 << 10, 16, 100, true),
    greedy(1 << 20, 8, 0, true),
    greedy(1 << 20, 8, 50, false),
    greedy(4 << 20, 4, 0, false),
    greedy(4 << 20, 2, 100, false),
    greedy(32 << 20, 1, 0, true),
    greedy(32 << 20, 4, 100, true),
];

/// A tenant that reads or writes 4 KiB at exponentially distributed intervals, with a promise for
/// 99 % of its requests.
#[derive(Clone, Copy, Debug)]
struct Steady {
    op: Op,
    rate_iops: u64,
    within: Nanos,
    requests: u64,
}

/// Marsaglia's xorshift64, for reproducible requests.
fn next_random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

impl Steady {
    fn arrivals(&self, stream: usize) -> VecDeque<Nanos> {
        let (mut state, mut now) = (0x9E37_79B9_7F4A_7C15 ^ (stream as u64) << 20, 0.0);
        let mut next = || {
            let uniform = (next_random(&mut state) >> 11) as f64 / (1_u64 << 53) as f64;
            now += -(1.0 - uniform).ln() / self.rate_iops as f64;
            Nanos((now * 1e9) as u64)
        };
        (0..self.requests).map(|_| next()).collect()
    }

    /// Returns the constant rate at which a server must work to answer 99 % of the requests within
    /// the bound.
    fn planned_iops(&self, stream: usize) -> u64 {
        let times = self.arrivals(stream);
        let keeps = |rate: u64| {
            let Ok(mut rtt) = Rtt::new(rate, self.within) else { return false };
            times.iter().filter(|at| rtt.admit(**at)).count() as u64 * 100 >= self.requests * 99
        };
        (1..).find(|rate| keeps(*rate)).unwrap()
    }
}

/// The devices of a test, with the policy that a server uses for them.
struct Bed {
    devices: Vec<DeviceModel>,
    bytes: u64,
    build: Box<dyn Fn(&str) -> AnyPolicy>,
}

fn model(name: &str) -> DeviceModel {
    forebay_devices::open(name).unwrap().model
}

/// Creates a bed of one device, and of a flash drive if the policy needs one.
fn on_device(name: &str, flash: Option<&str>) -> Bed {
    let disk = model(name);
    let flash = flash.map(model);
    let bytes = Device::capacity(&disk);
    let set = DeviceSet {
        disks: 1,
        disk_len_max: LEN_MAX.min(Device::len_max(&disk)),
        disk_bytes: bytes,
        flash: flash.as_ref().map(|flash| FlashLane {
            len_max: LEN_MAX.min(Device::len_max(flash)),
            capacity_bytes: Device::capacity(flash),
        }),
        restarts: false,
        costs: [None; 2],
    };
    let devices = [Some(disk), flash].into_iter().flatten().collect();
    Bed { devices, bytes, build: Box::new(move |spec| build_placed(spec, &set).unwrap()) }
}

/// Creates a bed of an array of six drives. The drives are full of data, because reads of a new
/// array cost nothing.
fn on_array(name: &str, level: &str) -> (Bed, String) {
    let drive = model(name);
    let disk_len_max = LEN_MAX.min(Device::len_max(&drive));
    let disk_bytes = 64 << 30;
    let set = DeviceSet {
        disks: 6,
        disk_len_max,
        disk_bytes,
        flash: None,
        restarts: false,
        costs: [None; 2],
    };
    let bare = format!("array:level={level}");
    let bytes = volume_bytes(&bare, &set).unwrap().unwrap().min(64 << 30);
    let policy = format!("{bare}:filled-mib={}", bytes >> 20);
    let build = Box::new(move |spec: &str| build_placed(spec, &set).unwrap());
    (Bed { devices: vec![drive; 6], bytes, build }, policy)
}

/// The tenants as a workload, each in its own part of the bed by default. A run ends with the last
/// request of the steady tenants, or after a fixed number of requests of the greedy one.
struct Tenants {
    /// The size of the part of a tenant, and the distance between the beginnings of two parts.
    part: u64,
    apart: u64,
    steady: Vec<(Steady, VecDeque<Nanos>)>,
    greedy: Greedy,
    due: Vec<Nanos>,
    next_place: u64,
    random: u64,
    taken: u64,
    most: u64,
}

impl Tenants {
    fn new(bed: &Bed, steady: &[Steady], greedy: Greedy, most: u64) -> Tenants {
        let arrivals = |(stream, one): (usize, &Steady)| (*one, one.arrivals(stream));
        let part = bed.bytes / (steady.len() as u64 + 1) / (1 << 20) * (1 << 20);
        Tenants {
            part,
            apart: part,
            steady: steady.iter().enumerate().map(arrivals).collect(),
            greedy,
            due: vec![Nanos::ZERO; greedy.depth as usize],
            next_place: 0,
            random: 7,
            taken: 0,
            most,
        }
    }

    /// Returns the time of the next arrival of a steady tenant, and the index of the tenant.
    fn next_steady(&self) -> Option<(Nanos, usize)> {
        let fronts = self.steady.iter().enumerate();
        fronts.filter_map(|(stream, one)| Some((*one.1.front()?, stream))).min()
    }
}

impl Workload for Tenants {
    fn peek(&self) -> Option<Nanos> {
        let steady = self.next_steady().map(|(at, _)| at);
        if self.taken >= self.most || !self.steady.is_empty() && steady.is_none() {
            return None;
        }
        steady.into_iter().chain(self.due.last().copied()).min()
    }

    fn take(&mut self) -> Request {
        let (at, id, lane, flags) = (self.peek().unwrap(), self.taken, 0, Flags::NONE);
        self.taken += 1;
        let random = next_random(&mut self.random) >> 8;
        if let Some((_, stream)) = self.next_steady().filter(|(due, _)| *due == at) {
            let (steady, arrivals) = &mut self.steady[stream];
            arrivals.pop_front();
            let offset = stream as u64 * self.apart + random % (self.part / 4096) * 4096;
            let (op, stream) = (steady.op, stream as u32);
            return Request { at, offset, id, len: 4096, stream, lane, op, flags };
        }
        self.due.pop();
        let Greedy { len, writes_percent, is_sequential, .. } = self.greedy;
        let place = if is_sequential { self.next_place } else { random };
        self.next_place += 1;
        let is_write = next_random(&mut self.random) % 100 < writes_percent;
        let op = if is_write { Op::Write } else { Op::Read };
        let offset = place % (self.part / u64::from(len)) * u64::from(len);
        let stream = self.steady.len() as u32;
        let offset = u64::from(stream) * self.apart + offset;
        Request { at, offset, id, len, stream, lane, op, flags }
    }

    fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        if done.request.stream == self.steady.len() as u32 {
            self.due.push(now);
        }
    }
}

/// The service that the tenants received.
struct Counts {
    within: Vec<Nanos>,
    in_time: Vec<u64>,
    greedy: u64,
    greedy_bytes: u64,
}

impl Observer for Counts {
    fn finished(&mut self, now: Nanos, done: &Done) {
        match self.within.get(done.request.stream as usize) {
            Some(within) => {
                let is_in_time = done.latency(now) <= *within;
                self.in_time[done.request.stream as usize] += u64::from(is_in_time);
            }
            None => {
                self.greedy += 1;
                self.greedy_bytes += u64::from(done.request.len);
            }
        }
    }
}

/// Returns whether a policy with promises reports that an export received less than its promise
/// while its requests waited.
fn is_owed(policy: &AnyPolicy, export: usize, promise: Promise) -> bool {
    let gauges = policy.gauges();
    let of = |name: &str| {
        let is_it =
            |gauge: &&Gauge| gauge.name == name && gauge.of == GaugeOf::Tenant(export as u32);
        gauges.iter().find(is_it).map_or(0.0, |gauge| gauge.value)
    };
    let (owed, received) = (of("owed_units"), of("received_units"));
    println!("export {export}: {received:.0} of {owed:.0} received while requests waited");
    is_short(owed, received, promise.iops as f64 * promise.within.as_secs_f64() + 1.0)
}

impl Bed {
    fn run(&self, spec: &str, steady: &[Steady], greedy: Greedy, most: u64) -> (Counts, Nanos) {
        self.serve(spec, Tenants::new(self, steady, greedy, most))
    }

    fn serve(&self, spec: &str, mut tenants: Tenants) -> (Counts, Nanos) {
        let mut policy = (self.build)(spec);
        let steady = || tenants.steady.iter().map(|(steady, _)| steady);
        let within = steady().map(|one| one.within).collect();
        let in_time = vec![0; steady().count()];
        let mut counts = Counts { within, in_time, greedy: 0, greedy_bytes: 0 };
        let end = simulate::run(&mut policy, &mut self.devices.clone(), &mut tenants, &mut counts);
        for (stream, (steady, _)) in tenants.steady.iter().enumerate() {
            let promise = Promise { iops: steady.planned_iops(stream), within: steady.within };
            assert!(!is_owed(&policy, stream, promise), "tenant {stream}: too few requests served");
        }
        (counts, end)
    }

    /// Returns the rate of small random reads or of small random writes, whichever is lower, at a
    /// queue depth of one per device.
    fn capacity_iops(&self, policy: &str) -> u64 {
        self.rate_at(policy, self.devices.len() as u32)
    }

    /// Returns that rate with `depth` requests outstanding.
    fn rate_at(&self, policy: &str, depth: u32) -> u64 {
        let rate = |writes_percent| {
            let (counts, end) =
                self.run(policy, &[], greedy(4096, depth, writes_percent, false), 5_000);
            (counts.greedy as f64 / end.as_secs_f64()) as u64
        };
        rate(0).min(rate(100))
    }

    /// Runs the tenants with promises to all of them and the default settings; returns the tenants
    /// whose promises were broken.
    fn broken(
        &self,
        policy: &str,
        capacity_iops: u64,
        steady: &[Steady],
        greedy: Greedy,
    ) -> Vec<usize> {
        let (broken, mb_per_s) = self.broken_beside(policy, capacity_iops, steady, greedy);
        // The neighbor must be served too, or keeping promises would be trivial.
        assert!(mb_per_s >= 0.1, "{greedy:?}: {mb_per_s} MB/s");
        broken
    }

    /// Like [`Bed::broken`], but also returns the neighbor's throughput in MB/s.
    fn broken_beside(
        &self,
        policy: &str,
        capacity_iops: u64,
        steady: &[Steady],
        greedy: Greedy,
    ) -> (Vec<usize>, f64) {
        let mut back = Back::of("disk", On::Volume(Vec::new()));
        (back.policy, back.capacity_iops) = (policy.into(), Some(capacity_iops));
        let promised = |(stream, one): (usize, &Steady)| {
            let promise = Some(Promise { iops: one.planned_iops(stream), within: one.within });
            Named { promise, ..Named::all("steady") }
        };
        let own = greedy.keep_iops.map(|iops| Promise { iops, within: steady[0].within });
        back.exports = steady.iter().enumerate().map(promised).collect();
        back.exports.push(Named { promise: own, ..Named::all("greedy") });
        let (counts, end) = self.run(&back.shaped().unwrap(), steady, greedy, u64::MAX);
        let mb_per_s = counts.greedy_bytes as f64 / 1e6 / end.as_secs_f64();
        let shares = counts.in_time.iter().zip(steady);
        let shares: Vec<_> =
            shares.map(|(count, one)| *count as f64 * 100.0 / one.requests as f64).collect();
        println!("{greedy:?}: {shares:.2?} % in time, {mb_per_s:.1} MB/s for the neighbour");
        ((0..steady.len()).filter(|stream| shares[*stream] < 98.5).collect(), mb_per_s)
    }

    /// Expects that the promise to `steady` is kept with every `nth` neighbor, or in long runs with
    /// every neighbor.
    fn keeps_beside(&self, nth: usize, policy: &str, steady: Steady) {
        let capacity_iops = self.capacity_iops(policy);
        println!("{capacity_iops} IOPS, of which {} are promised", steady.planned_iops(0));
        let broken =
            |greedy: &Greedy| !self.broken(policy, capacity_iops, &[steady], *greedy).is_empty();
        let step = if longer(1) > 1 { 1 } else { nth };
        let broken: Vec<Greedy> = NEIGHBOURS.into_iter().step_by(step).filter(broken).collect();
        assert!(broken.is_empty(), "broken beside {broken:?}");
    }

    /// Returns tenants whose rate is the highest at which the server accepts promises that cover
    /// all of their requests.
    fn most_accepted(&self, capacity_iops: u64, tenants: u64, like: Steady) -> Vec<Steady> {
        let limit = (capacity_iops - 1_000_000_000 / like.within.0) / tenants;
        let of_rate = |rate_iops| Steady { rate_iops, ..like };
        let fits =
            |rate: &u64| (0..tenants).all(|one| of_rate(*rate).planned_iops(one as usize) <= limit);
        let rate = (1..=limit).rev().find(fits).unwrap();
        println!("{tenants} tenants of {limit} IOPS each, out of {capacity_iops}");
        (0..tenants)
            .map(|one| Steady {
                op: if one % 2 == 0 { Op::Read } else { Op::Write },
                ..of_rate(rate)
            })
            .collect()
    }

    /// Expects that the server keeps all promises up to the total rate that it accepts.
    fn keeps_all_it_accepts(&self, policy: &str, tenants: u64, like: Steady) {
        let capacity_iops = self.capacity_iops(policy);
        let steady = self.most_accepted(capacity_iops, tenants, like);
        for neighbour in [NEIGHBOURS[0], NEIGHBOURS[5], NEIGHBOURS[7]] {
            let (broken, mb_per_s) = self.broken_beside(policy, capacity_iops, &steady, neighbour);
            assert!(broken.is_empty(), "{broken:?} beside {neighbour:?}");
            // The only capacity left to the neighbor is the reserve of one request per latency
            // bound: 10 requests of 4 KiB per second on the disk.
            assert!(mb_per_s >= 0.04, "{neighbour:?}: {mb_per_s} MB/s");
        }
    }
}

const ON_DISK: Steady =
    Steady { op: Op::Read, rate_iops: 20, within: Nanos::from_millis(100), requests: 1200 };
const ON_FLASH: Steady =
    Steady { op: Op::Read, rate_iops: 500, within: Nanos::from_millis(5), requests: 10_000 };
const ON_CLOUD: Steady =
    Steady { op: Op::Read, rate_iops: 300, within: Nanos::from_millis(20), requests: 6000 };

#[test]
fn a_promise_on_a_disk_holds_beside_any_neighbor() {
    on_device("st1000nm0011", None).keeps_beside(1, "noop", ON_DISK);
}

#[test]
fn a_promise_on_flash_holds_beside_any_neighbor() {
    on_device("samsung-830", None).keeps_beside(1, "noop", ON_FLASH);
}

#[test]
fn a_promise_on_a_cloud_volume_holds_beside_any_neighbor() {
    on_device("ebs-gp3:gib=500", None).keeps_beside(1, "noop", ON_CLOUD);
}

#[test]
fn a_promise_on_a_volume_of_disks_holds_beside_any_neighbor() {
    for level in ["raid6", "raid10"] {
        let (bed, policy) = on_array("st1000nm0011", level);
        bed.keeps_beside(3, &policy, ON_DISK);
    }
}

#[test]
fn a_promise_over_a_flash_cache_holds_beside_any_neighbor() {
    let bed = on_device("st1000nm0011", Some("samsung-830"));
    bed.keeps_beside(2, "cache:write=around:size-mib=1024", ON_DISK);
}

#[test]
fn a_neighbor_within_its_own_promise_of_long_requests_does_not_break_another() {
    let bed = on_device("st1000nm0011", None);
    let capacity_iops = 2 * 38 + 10;
    for len in [1 << 20, 4 << 20, 32 << 20] {
        for writes_percent in [0, 100] {
            let neighbour = Greedy { keep_iops: Some(38), ..greedy(len, 2, writes_percent, false) };
            assert!(bed.broken("noop", capacity_iops, &[ON_DISK], neighbour).is_empty());
        }
    }
}

#[test]
fn all_accepted_promises_are_kept() {
    on_device("st1000nm0011", None).keeps_all_it_accepts("noop", 2, ON_DISK);
    // Ordinary runs test only the disk; `make laws` tests all devices.
    if longer(1) == 1 {
        return;
    }
    let (bed, policy) = on_array("st1000nm0011", "raid10");
    bed.keeps_all_it_accepts(&policy, 3, ON_DISK);
    on_device("samsung-830", None).keeps_all_it_accepts("noop", 3, ON_FLASH);
    on_device("ebs-gp3:gib=500", None).keeps_all_it_accepts("noop", 3, ON_CLOUD);
}

/// Fifty clients that each have 64 MiB outstanding, and one client that occasionally writes 4 KiB.
struct Crowd {
    due: Vec<(Nanos, u32)>,
    small: VecDeque<Nanos>,
    taken: u64,
    longest: Nanos,
    bytes: u64,
}

const CROWD: u32 = 50;

impl Workload for Crowd {
    fn peek(&self) -> Option<Nanos> {
        let small = *self.small.front()?;
        Some(self.due.last().map_or(small, |(due, _)| small.min(*due)))
    }

    fn take(&mut self) -> Request {
        let (at, id, lane, flags) = (self.peek().unwrap(), self.taken, 0, Flags::NONE);
        self.taken += 1;
        let offset = next_random(&mut (id + 1)) % (self.bytes / (1 << 20)) * (1 << 20);
        if self.small.front() == Some(&at) {
            self.small.pop_front();
            return Request {
                at,
                offset,
                id,
                len: 4096,
                stream: CROWD,
                lane,
                op: Op::Write,
                flags,
            };
        }
        let (_, stream) = self.due.pop().unwrap();
        Request { at, offset, id, len: 1 << 20, stream, lane, op: Op::Write, flags }
    }

    fn finished(&mut self, now: Nanos, done: &Done, _slots: &mut dyn Slots) {
        match done.request.stream {
            CROWD => self.longest = self.longest.max(done.latency(now)),
            stream => self.due.push((now, stream)),
        }
    }
}

impl Crowd {
    /// Returns the maximum latency of the small writes on `device` under the policy `spec`.
    fn longest_write(device: &str, spec: &str) -> Nanos {
        let bed = on_device(device, None);
        let mut crowd = Crowd {
            due: (0..CROWD).flat_map(|stream| [(Nanos::ZERO, stream); 64]).collect(),
            small: (1..40).map(|nth| Nanos::from_millis(500 * nth)).collect(),
            taken: 0,
            longest: Nanos::ZERO,
            bytes: bed.bytes,
        };
        let mut policy = (bed.build)(spec);
        simulate::run(&mut policy, &mut bed.devices.clone(), &mut crowd, &mut ());
        crowd.longest
    }
}

#[test]
fn a_crowd_does_not_hold_up_a_neighbor_at_the_defaults() {
    for device in ["st1000nm0011", "samsung-830"] {
        // The last policy is a shaper without promises, so the server adds nothing above it.
        for policy in ["noop", "mq-deadline", "bfq", "promised:cmin=0:over=bfq"] {
            let mut back = Back::of("disk", On::Volume(Vec::new()));
            back.policy = policy.into();
            let served = Crowd::longest_write(device, &back.shaped().unwrap());
            let alone = Crowd::longest_write(device, policy);
            println!("{device}, {policy}: {served}, and {alone} without fair shares");
            assert!(served < Nanos::from_secs(1), "{device}, {policy}: {served}");
        }
    }
}

#[test]
fn an_export_with_a_weight_is_not_held_up_by_the_crowd_of_another() {
    for device in ["st1000nm0011", "samsung-830"] {
        let mut back = Back::of("disk", On::Volume(Vec::new()));
        // The crowd's clients are the streams up to the last export.
        back.exports = (0..=CROWD).map(|_| Named { weight: 2, ..Named::all("") }).collect();
        let longest = Crowd::longest_write(device, &back.shaped().unwrap());
        assert!(longest < Nanos::from_secs(1), "{device}: {longest}");
    }
}

#[test]
fn without_promises_a_reader_does_not_starve_beside_a_local_one() {
    let bed = on_device("st1000nm0011", None);
    let mut back = Back::of("disk", On::Volume(Vec::new()));
    let steady = [Steady { within: Nanos::from_millis(300), ..ON_DISK }];
    for neighbour in [NEIGHBOURS[0], NEIGHBOURS[4], greedy(4096, 64, 0, true)] {
        for policy in ["noop", "forebay"] {
            back.policy = policy.into();
            let (counts, _) = bed.run(&back.shaped().unwrap(), &steady, neighbour, u64::MAX);
            let share = counts.in_time[0] as f64 / steady[0].requests as f64;
            println!("{policy}, {neighbour:?}: {share:.4} within 300 ms");
            assert!(share >= 0.8, "{policy}, {neighbour:?}: {share}");
        }
    }
}
