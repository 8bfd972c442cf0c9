//! How many requests per second the simulator handles on one core, compared to our targets and to
//! DiskSim.
//!
//! Each row is the median of several runs of at least a million requests, monomorphised and without
//! an observer. Time is processor time if the system reports it, so that other work on the machine
//! matters less. `cargo bench --bench simulator -- NAME` runs only the rows of one policy or
//! device.

// A benchmark reads the clock; the library it measures does not.
#![allow(clippy::disallowed_types)]
#![allow(clippy::unwrap_used)]

mod load;

use std::sync::OnceLock;
use std::time::Instant;

use forebay_core::catalog::{
    DeviceSet, FlashLane, PLACEMENTS, POLICIES, PolicyVisitor, with_placed, with_policy,
};
use forebay_core::device::fixed::Fixed;
use forebay_core::device::list::DeviceModel;
use forebay_core::device::throttled::{
    Bucket, Cost, Count, Direction, Measure, Meter, Releases, Throttle, Throttled,
};
use forebay_core::replay::{Intensity, Open};
use forebay_core::{
    Completion, Device, Flags, Nanos, Observer, Op, Policy, Request, Workload, simulate,
};

/// The requests per second that DiskSim 4 handles on a machine of this kind.
const DISKSIM_PER_S: f64 = 25_000.0;
const REQUESTS: u64 = 2_000_000;
const RUNS: usize = 5;

/// Returns the processor time of this thread in seconds, or wall-clock time if the system does not
/// report it.
fn seconds() -> f64 {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let ns = told.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    let wall = || BEGUN.get_or_init(Instant::now).elapsed().as_secs_f64();
    ns.map_or_else(wall, |ns| ns as f64 / 1e9)
}

static BEGUN: OnceLock<Instant> = OnceLock::new();

/// Runs a policy once and returns the time in seconds.
struct Timed<D, W>(D, W);

impl<D: Device, W: Workload> PolicyVisitor for Timed<D, W> {
    type Out = f64;
    fn visit<P: Policy + Send + 'static>(mut self, mut policy: P) -> f64 {
        let begun = seconds();
        simulate::run(&mut policy, std::slice::from_mut(&mut self.0), &mut self.1, &mut ());
        seconds() - begun
    }
}

/// Returns random reads at nine tenths of the server's capacity.
fn arrivals() -> Open<impl Iterator<Item = Request>> {
    let (mut state, mut at) = (1, 0);
    let requests = (0..REQUESTS).map(move |id| {
        let dice = load::random(&mut state);
        at += dice % 2222;
        Request {
            at: Nanos(at),
            offset: (dice >> 32) << 12,
            id,
            len: 4096,
            stream: 0,
            lane: 0,
            op: Op::Read,
            flags: Flags::NONE,
        }
    });
    Open::new(requests, Intensity::RECORDED)
}

fn row(device: &str, policy: &str, target_per_s: f64, mut run: impl FnMut() -> f64) {
    let asked = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    if asked.is_some_and(|name| name != policy && name != device) {
        return;
    }
    let mut seconds: Vec<f64> = (0..RUNS).map(|_| run()).collect();
    seconds.sort_by(f64::total_cmp);
    let per_s = REQUESTS as f64 / seconds[RUNS / 2];
    let best_per_s = REQUESTS as f64 / seconds[0];
    println!(
        "{device:<7} {policy:<12} {:>8.2} {:>8.2} {:>8.1} {:>7.2} {:>9.0}",
        per_s / 1e6,
        best_per_s / 1e6,
        target_per_s / 1e6,
        per_s / target_per_s,
        per_s / DISKSIM_PER_S
    );
}

fn main() {
    println!("{REQUESTS} requests, median and best of {RUNS} runs, millions of requests a second");
    println!("device  policy         median     best   target   ratio  x DiskSim");
    let server = || Fixed::new(1e6).unwrap();
    row("fixed", "noop", 15e6, || {
        with_policy("noop", u32::MAX, Timed(server(), arrivals())).unwrap()
    });
    row("volume", "noop", 15e6, || {
        with_policy("noop", u32::MAX, Timed(volume(), arrivals())).unwrap()
    });
    row("volume", "releases", 20e6, releases);
    for listed in POLICIES {
        let policy = listed.name;
        let target = match policy {
            "noop" => 3e6,
            "forebay" => 4e6,
            _ => 1.5e6,
        };
        row("hdd", policy, target, || {
            let timed = Timed(load::disk(), load::Streams::new(REQUESTS));
            with_policy(policy, u32::MAX, timed).unwrap()
        });
    }
    // The target is half of the plain disk's.
    row("drive", "noop", 1.5e6, || {
        let timed = Timed(load::drive(), load::Streams::new(REQUESTS));
        with_policy("noop", u32::MAX, timed).unwrap()
    });
    row("ssd", "none", 2e6, || {
        with_policy("none", u32::MAX, Timed(load::ssd(), load::Small::new(REQUESTS))).unwrap()
    });
    let flash = Some(FlashLane { len_max: 1 << 20, capacity_bytes: 64_000_000_000 });
    let lanes = DeviceSet {
        disks: 1,
        disk_len_max: u32::MAX,
        disk_bytes: 1 << 40,
        flash,
        restarts: false,
        costs: [None; 2],
    };
    for listed in PLACEMENTS {
        row("both", listed.name, 1e6, || {
            let devices = [DeviceModel::Hdd(load::disk()), DeviceModel::Ssd(load::ssd())];
            with_placed(listed.name, &lanes, TimedBoth(devices)).unwrap()
        });
    }
    let six = DeviceSet { disks: 6, flash: None, ..lanes };
    for (name, spec) in [
        ("raid6", "array:update=in-place:filled-mib=20480:disk=noop+merge=no"),
        ("raid10x3", "array:level=raid10x3:update=in-place:filled-mib=20480:disk=noop+merge=no"),
        ("fresh", "array:filled-mib=20480:disk=noop+merge=no"),
        ("adapting", "array:adapt=best:update=in-place:filled-mib=20480:disk=noop+merge=no"),
    ] {
        row("six", name, 2.5e6, || with_placed(spec, &six, TimedSix).unwrap());
    }
}

/// Returns a volume with a limit on operations and one on bytes.
fn volume() -> Throttled {
    let bucket = |measure, rate_per_s: f64| Bucket {
        measure,
        direction: Direction::Both,
        rate_per_s,
        depth: rate_per_s / 10.0,
        start_share: 1.0,
    };
    let buckets = vec![bucket(Measure::Ops, 1e6), bucket(Measure::Bytes, 4e9)];
    let count = Count::Units { unit_bytes: 1 << 18 };
    Throttled::new(Throttle { count, ..Throttle::of(buckets) }).unwrap()
}

/// Measures the computation of releases alone, for requests in memory with known costs.
fn releases() -> f64 {
    let throttle = volume().throttle().clone();
    let mut meter = Meter::new(&throttle);
    let mut state = 1;
    let mut at_ns = 0;
    let arrivals: Vec<(f64, Cost)> = (0..REQUESTS)
        .map(|id| {
            let dice = load::random(&mut state);
            at_ns += dice % 2222;
            let (at, offset, len, op) = (Nanos(at_ns), (dice >> 32) << 12, 4096, Op::Read);
            let io = Request { at, offset, id, len, stream: 0, lane: 0, op, flags: Flags::NONE };
            (at_ns as f64, meter.cost(&io))
        })
        .collect();
    let mut releases = Releases::new(&throttle);
    let begun = seconds();
    let last = arrivals.iter().fold(0.0, |_, (at, cost)| releases.pass(0, *at, *cost));
    let took = seconds() - begun;
    assert!(last > 0.0);
    took
}

/// Runs an array of six disks with reads and writes of whole chunks, counting its I/Os.
struct TimedSix;

impl PolicyVisitor for TimedSix {
    type Out = f64;
    fn visit<P: Policy + Send + 'static>(self, mut policy: P) -> f64 {
        let mut disks: Vec<Fixed> = (0..6).map(|_| Fixed::new(1e6).unwrap()).collect();
        let (mut state, mut at) = (1, 0);
        let requests = (0..REQUESTS / 10).map(move |id| {
            let dice = load::random(&mut state);
            at += dice % 20_000;
            let chunks = 1 + (dice >> 20) % 4;
            let unit = (dice >> 30) % 80_000;
            let op = if dice >> 24 & 3 == 0 { Op::Read } else { Op::Write };
            let (offset, len) = (unit << 18, (chunks << 16) as u32);
            let (at, stream, lane, flags) = (Nanos(at), 0, 0, Flags::NONE);
            Request { at, offset, id, len, stream, lane, op, flags }
        });
        let mut load = Open::new(requests, Intensity::RECORDED);
        let mut ios = Ios(0);
        let begun = seconds();
        simulate::run(&mut policy, &mut disks, &mut load, &mut ios);
        // The time is scaled to the number of requests in other rows.
        (seconds() - begun) * REQUESTS as f64 / ios.0 as f64
    }
}

/// Counts I/Os.
struct Ios(u64);

impl Observer for Ios {
    fn io(&mut self, _done: &Completion) {
        self.0 += 1;
    }
}

/// Like [`Timed`], but with a disk and an SSD.
struct TimedBoth([DeviceModel; 2]);

impl PolicyVisitor for TimedBoth {
    type Out = f64;
    fn visit<P: Policy + Send + 'static>(mut self, mut policy: P) -> f64 {
        let mut load = load::Streams::new(REQUESTS);
        let begun = seconds();
        simulate::run(&mut policy, &mut self.0, &mut load, &mut ());
        seconds() - begun
    }
}
