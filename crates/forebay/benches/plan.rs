//! Measures how long the 4 x 6 table of capacities takes for five million requests on one core,
//! compared with a plain binary search that counts one capacity per pass. Both must give the same
//! table. Then measures how many requests per second pass through the two token buckets of a
//! volume. Times are CPU time where Linux reports it, so other processes on the machine do not
//! distort them.

#![allow(clippy::unwrap_used)]

use std::time::Instant;

use forebay::plan::search::least_capacities;
use forebay::plan::volume::drain::{Costed, Drain, Limits, late};
use forebay_ask::Share;
use forebay_core::device::throttled::{Bucket, Cost, Direction, Measure};
use forebay_core::rtt::{Gaps, Rtt};
use forebay_core::{Nanos, Op};

const REQUESTS: usize = 5_000_000;
const RUNS: usize = 3;
const TARGET_S: f64 = 1.5;
const BUCKETS_TARGET_PER_S: f64 = 20e6;

fn main() {
    let gaps = arrivals();
    let within = [5, 10, 20, 50].map(Nanos::from_millis);
    let fractions = ["0.9", "0.95", "0.99", "0.995", "0.999", "1"];
    let needs = fractions.map(|text| text.parse::<Share>().unwrap().of(REQUESTS as u64));
    let mut seconds = Vec::new();
    let mut table = Vec::new();
    for _ in 0..RUNS {
        let watch = Watch::start();
        table = within.iter().map(|bound| least_capacities(&gaps, *bound, &needs)).collect();
        seconds.push(watch.seconds());
    }
    seconds.sort_by(f64::total_cmp);
    let ours_s = seconds[RUNS / 2];
    let watch = Watch::start();
    let times: Vec<Nanos> = gaps.times().collect();
    let plain: Vec<Vec<Option<u64>>> = within
        .iter()
        .map(|bound| needs.iter().map(|need| Some(plain(&times, *bound, *need))).collect())
        .collect();
    let plain_s = watch.seconds();
    assert_eq!(table, plain, "the two searches differ");
    println!("4 x 6 capacities of {REQUESTS} requests, one core");
    println!(
        "  several capacities a pass  {ours_s:8.3} s  ({:.2} of the target)",
        ours_s / TARGET_S
    );
    println!("  one capacity a pass        {plain_s:8.3} s  ({:.1} times)", plain_s / ours_s);
    through_buckets(&gaps);
}

/// Prints how many requests per second pass through two token buckets, one for operations and one
/// for bytes.
fn through_buckets(gaps: &Gaps) {
    let mut requests = Costed::default();
    for (nth, at) in gaps.times().enumerate() {
        let bytes = 4096.0 * (1 + nth % 16) as f64;
        requests.push(at, Op::Read, Cost { ops: 1.0, bytes });
    }
    let bucket = |measure, rate_per_s: f64| {
        let (direction, depth) = (Direction::Both, rate_per_s / 10.0);
        Drain::of(&Bucket { measure, direction, rate_per_s, depth, start_share: 1.0 })
    };
    let drains = [bucket(Measure::Ops, 1100.0), bucket(Measure::Bytes, 38e6)];
    let limits = Limits::new(Nanos::from_millis(10), Nanos::ZERO, Nanos::ZERO);
    let mut seconds = Vec::new();
    let mut count = 0;
    for _ in 0..RUNS {
        let watch = Watch::start();
        count = late(&requests, &drains, limits, u64::MAX);
        seconds.push(watch.seconds());
    }
    seconds.sort_by(f64::total_cmp);
    let per_s = requests.len() as f64 / seconds[RUNS / 2];
    println!(
        "{:.0} million requests a second through two buckets ({:.1} times the target), {count} late",
        per_s / 1e6,
        per_s / BUCKETS_TARGET_PER_S
    );
}

/// A stopwatch for this thread's CPU time, or for wall time where the CPU time is unavailable.
struct Watch(Instant, Option<u64>);

impl Watch {
    fn start() -> Watch {
        Watch(Instant::now(), on_cpu_ns())
    }

    fn seconds(&self) -> f64 {
        match (self.1, on_cpu_ns()) {
            (Some(begun), Some(ended)) => (ended - begun) as f64 / 1e9,
            _ => self.0.elapsed().as_secs_f64(),
        }
    }
}

fn on_cpu_ns() -> Option<u64> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    told.split(' ').next()?.parse().ok()
}

/// The reference: doubles the capacity until it suffices, then finds the least one by bisection.
fn plain(times: &[Nanos], within: Nanos, need: u64) -> u64 {
    let enough = |rate| {
        let mut rtt = Rtt::new(rate, within).unwrap();
        times.iter().filter(|at| rtt.admit(**at)).count() as u64 >= need
    };
    let (mut low, mut high) = (0, 1);
    while !enough(high) {
        (low, high) = (high, 2 * high);
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if enough(middle) { high = middle } else { low = middle }
    }
    high
}

/// Generates arrivals in phases of random length and rate; one request in a thousand starts a
/// burst.
fn arrivals() -> Gaps {
    let (mut gaps, mut state, mut now) = (Gaps::default(), 1u64, 0u64);
    let mut dice = move |sides: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % sides
    };
    while gaps.len() < REQUESTS {
        let mean_gap_ns = [250_000, 700_000, 1_200_000, 1_200_000, 2_500_000][dice(5) as usize];
        for _ in 0..200 + dice(20_000) {
            // The sum of two uniform gaps resembles random arrivals more closely than a single gap
            // does.
            now += (dice(mean_gap_ns) + dice(mean_gap_ns)) * u64::from(dice(20) > 0);
            let burst = if dice(1000) == 0 { 2 + dice(40) } else { 1 };
            for _ in 0..burst.min((REQUESTS - gaps.len()) as u64) {
                gaps.push(Nanos(now));
            }
        }
    }
    gaps
}
