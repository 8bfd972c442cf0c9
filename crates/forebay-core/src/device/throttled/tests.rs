use proptest::prelude::*;

use super::*;
use crate::contract::{Flags, Op};

const KIB: u32 = 1 << 10;
const MIB: u32 = 1 << 20;

fn bucket(measure: Measure, rate_per_s: f64, depth: f64) -> Bucket {
    Bucket { measure, direction: Direction::Both, rate_per_s, depth, start_share: 1.0 }
}

fn ops(rate_per_s: f64, depth: f64) -> Bucket {
    bucket(Measure::Ops, rate_per_s, depth)
}

fn bytes(mib_per_s: f64, depth: f64) -> Bucket {
    bucket(Measure::Bytes, mib_per_s * f64::from(MIB), depth)
}

fn io(id: u64, at_ns: u64, op: Op, offset: u64, len: u32) -> Request {
    Request { at: Nanos(at_ns), offset, id, len, stream: 0, lane: 0, op, flags: Flags::NONE }
}

/// Returns random reads from pairs of arrival time in ms and length.
fn reads(rows: &[(u64, u32)]) -> Vec<Request> {
    let read = |(id, &(ms, len)): (usize, &(u64, u32))| {
        io(id as u64, ms * 1_000_000, Op::Read, (1 + id as u64) << 30, len)
    };
    rows.iter().enumerate().map(read).collect()
}

/// Returns the time each request takes, in the order of `requests`.
fn times(throttle: &Throttle, requests: &[Request]) -> Vec<Nanos> {
    let mut device = Throttled::new(throttle.clone()).unwrap();
    let mut done = Vec::new();
    let mut finish = |device: &mut Throttled, until: Nanos| {
        while let Some(at) = device.next().filter(|at| *at <= until) {
            done.push(device.finish(at));
        }
    };
    for request in requests {
        finish(&mut device, request.at);
        device.start(request.at, *request);
    }
    finish(&mut device, Nanos::MAX);
    assert!(done.windows(2).all(|pair| pair[0].at <= pair[1].at), "time runs backwards");
    done.sort_by_key(|done| done.io.id);
    assert_eq!(done.len(), requests.len());
    done.iter().map(|done| done.at - done.started).collect()
}

fn times_us(throttle: &Throttle, requests: &[Request]) -> Vec<u64> {
    times(throttle, requests).iter().map(|time| (time.0 + 500) / 1000).collect()
}

#[test]
fn requests_leave_at_the_rate_once_the_depth_is_used() {
    let all = reads(&[(0, 4 * KIB); 10]);
    let in_turn: Vec<u64> = (0..10).map(|number| number * 1000).collect();
    assert_eq!(times_us(&Throttle::of(vec![ops(1000.0, 0.0)]), &all), in_turn);
    // When each of the first six arrives, at most five tokens are used: one request may overdraw
    // the bucket.
    let six_at_once: Vec<u64> = (0..10_u64).map(|number| number.saturating_sub(5) * 1000).collect();
    assert_eq!(times_us(&Throttle::of(vec![ops(1000.0, 5.0)]), &all), six_at_once);
    assert_eq!(*times_us(&Throttle::of(vec![ops(3000.0, 0.0)]), &all).last().unwrap(), 3000);
    assert_eq!(times_us(&Throttle::of(vec![ops(2667.0, 0.0)]), &all)[8], 3000);
}

#[test]
fn two_buckets_delay_more_than_the_worse_of_them() {
    let mut rows = vec![(0, MIB)];
    rows.extend((1..=10).map(|ms| (ms, 4 * KIB)));
    let all = reads(&rows);
    let count = Count::Units { unit_bytes: MIB };
    let both = |buckets| Throttle { count, ..Throttle::of(buckets) };
    let by = |first: u64, step: u64| -> Vec<u64> {
        std::iter::once(0).chain((0..10).map(|number| first + number * step)).collect()
    };
    assert_eq!(times_us(&both(vec![ops(100.0, 0.0)]), &all), by(9_000, 9_000));
    let by_bytes = times_us(&both(vec![bytes(10.0, 0.0)]), &all);
    assert_eq!((by_bytes[1], by_bytes[2]), (99_000, 98_391));
    let delays = times_us(&both(vec![ops(100.0, 0.0), bytes(10.0, 0.0)]), &all);
    assert_eq!(delays, by(99_000, 9_000));
}

#[test]
fn a_long_request_counts_as_several_operations() {
    let all = reads(&[(0, MIB), (0, 4096), (0, 4096), (0, 4096), (0, 4096), (20, 4096)]);
    let throttle = Throttle {
        count: Count::Units { unit_bytes: 256 * KIB },
        ..Throttle::of(vec![ops(400.0, 0.0), bytes(100.0, 0.0)])
    };
    assert_eq!(times_us(&throttle, &all), [0, 10_000, 12_500, 15_000, 17_500, 0]);
}

/// Returns for how many seconds a load of `demand` per second passes without delay.
fn burst_s(buckets: Vec<Bucket>, demand: Cost) -> f64 {
    let mut releases = Releases::new(&Throttle::of(buckets));
    let cost = Cost { ops: demand.ops / 100.0, bytes: demand.bytes / 100.0 };
    let at_ns = (0..1_000_000_u64).map(|number| number as f64 * 1e7);
    at_ns
        .map(|at| (at, releases.pass(0, at, cost)))
        .find(|(at, release)| *release > at + 1.0)
        .unwrap()
        .0
        / 1e9
}

#[test]
fn bursts_last_as_long_as_documented() {
    let near = |got: f64, expected: f64| assert!((got - expected).abs() < 0.05, "{got} {expected}");
    let demand = |ops| Cost { ops, bytes: 0.0 };
    for (baseline, seconds) in
        [(100.0, 1862.07), (300.0, 2000.0), (1002.0, 2702.7), (2250.0, 7200.0)]
    {
        near(burst_s(vec![ops(3000.0, 300.0), ops(baseline, 5.4e6)], demand(3000.0)), seconds);
    }
    let st1 =
        vec![bytes(250.0, 25.0 * f64::from(MIB)), bytes(40.0, 1024.0 * 1024.0 * f64::from(MIB))];
    near(burst_s(st1, Cost { ops: 0.0, bytes: 250.0 * f64::from(MIB) }), 4993.22);
    near(burst_s(vec![ops(3500.0, 350.0), ops(500.0, 5.4e6)], demand(3500.0)), 1800.0);
    for (rate, seconds) in [(100.0, 63.16), (500.0, 80.0)] {
        near(burst_s(vec![ops(rate, 120_000.0), ops(2000.0, 200.0)], demand(2000.0)), seconds);
    }
}

#[test]
fn depth_decides_how_late_a_short_burst_is() {
    let cost = Cost { ops: 1.0, bytes: 0.0 };
    let last_ms = |depth_s: f64| {
        let mut releases = Releases::new(&Throttle::of(vec![ops(950.0, 950.0 * depth_s)]));
        let pass = |number: u64| {
            let at = number as f64 * 1e6;
            releases.pass(0, at, cost) - at
        };
        (0..5000).map(pass).last().unwrap() / 1e6
    };
    let late_ms = 4999.0 / 0.950 - 4999.0;
    assert!((last_ms(0.0) - late_ms).abs() < 1e-3 && (late_ms - 263.1).abs() < 0.1);
    assert!((last_ms(0.1) - (late_ms - 100.0)).abs() < 1e-3);
    assert_eq!(last_ms(1.0), 0.0);
}

#[test]
fn sequential_requests_share_units_and_others_do_not() {
    let throttle = Throttle {
        count: Count::Units { unit_bytes: 256 * KIB },
        merges: true,
        ..Throttle::of(vec![])
    };
    let costs = |throttle: &Throttle, gap: u64| -> Vec<f64> {
        let mut meter = Meter::new(throttle);
        let read = |number: u64| io(number, 0, Op::Read, number * (32 * 1024 + gap), 32 * KIB);
        (0..9).map(|number| meter.cost(&read(number)).ops).collect()
    };
    assert_eq!(costs(&throttle, 0), [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    assert_eq!(costs(&throttle, 4096), [1.0; 9]);
    assert_eq!(costs(&Throttle { merges: false, ..throttle.clone() }, 0), [1.0; 9]);
    let mut meter = Meter::new(&throttle);
    assert_eq!(meter.cost(&io(0, 0, Op::Read, 0, 200 * KIB)).ops, 1.0);
    assert_eq!(meter.cost(&io(1, 0, Op::Write, 200 * 1024, 200 * KIB)).ops, 1.0, "a write");
    assert_eq!(meter.cost(&io(2, 0, Op::Read, 200 * 1024, 600 * KIB)).ops, 3.0);
    assert_eq!(meter.cost(&io(3, 0, Op::Flush, 0, 0)), Cost::default());
}

#[test]
fn hard_disk_volumes_charge_whole_units_and_qemu_charges_fractions() {
    let cost = |throttle: Throttle, len| Meter::new(&throttle).cost(&io(0, 0, Op::Read, 0, len));
    let st1 = Throttle {
        count: Count::Units { unit_bytes: MIB },
        whole_units: true,
        ..Throttle::of(vec![])
    };
    assert_eq!(cost(st1.clone(), 4096), Cost { ops: 1.0, bytes: f64::from(MIB) });
    assert_eq!(cost(st1, MIB + 1), Cost { ops: 2.0, bytes: 2.0 * f64::from(MIB) });
    let qemu = Throttle { count: Count::Fractions { unit_bytes: 4096 }, ..Throttle::of(vec![]) };
    assert_eq!(cost(qemu.clone(), 6144), Cost { ops: 1.5, bytes: 6144.0 });
    assert_eq!(cost(qemu, 512).ops, 1.0);
}

#[test]
fn the_start_decides_what_may_pass_at_first() {
    let tokens = |start_share| {
        let buckets = vec![Bucket { start_share, ..ops(10.0, 100.0) }];
        let releases = Releases::new(&Throttle::of(buckets));
        (releases.tokens(0, 0.0).round(), releases.tokens(0, 5e9).round())
    };
    assert_eq!(tokens(1.0), (100.0, 100.0));
    assert_eq!(tokens(0.5), (50.0, 100.0));
    assert_eq!(tokens(0.0), (0.0, 50.0));
    assert_eq!(tokens(-0.3), (-30.0, 20.0));
}

#[test]
fn the_bucket_that_delays_most_decides() {
    let mut releases = Releases::new(&Throttle::of(vec![ops(1000.0, 0.0), bytes(1.0, 0.0)]));
    assert_eq!(releases.decides(0, 0.0), None);
    releases.charge(0, 0.0, Cost { ops: 1.0, bytes: 4096.0 });
    assert_eq!(releases.decides(0, 0.0), Some(1), "3.9 ms for bytes, 1 ms for the operation");
    releases.charge(0, 0.0, Cost { ops: 9.0, bytes: 0.0 });
    assert_eq!((releases.decides(0, 0.0), releases.decides(0, 11e6)), (Some(0), None));
}

#[test]
fn queues_alternate_at_a_bucket_that_they_share() {
    let throttle = Throttle {
        queues: Queues::PerDirection,
        read_latency: Nanos::from_millis(1),
        write_latency: Nanos::from_millis(2),
        ..Throttle::of(vec![ops(100.0, 0.0)])
    };
    assert!(!throttle.is_ordered());
    let request = |id: u64| {
        let op = if id < 4 { Op::Read } else { Op::Write };
        io(id, 0, op, id << 30, 4096)
    };
    let all: Vec<Request> = (0..8).map(request).collect();
    let (reads, writes) = ([1_000, 11_000, 21_000, 41_000], [12_000, 32_000, 52_000, 72_000]);
    assert_eq!(times_us(&throttle, &all), [reads, writes].concat());
}

#[test]
fn separate_limits_do_not_delay_the_other_direction() {
    let writes = Bucket { direction: Direction::Write, ..ops(100.0, 0.0) };
    let apart = Throttle { queues: Queues::PerDirection, ..Throttle::of(vec![writes]) };
    let request = |id: u64| io(id, 0, if id < 3 { Op::Write } else { Op::Read }, 0, 4096);
    let all: Vec<Request> = (0..4).map(request).collect();
    assert_eq!(times_us(&apart, &all), [0, 10_000, 20_000, 0]);
    let one_queue = Throttle { queues: Queues::Shared, ..apart };
    assert_eq!(times_us(&one_queue, &all), [0, 10_000, 20_000, 20_000]);
}

#[test]
fn latencies_run_in_parallel_and_flushes_cost_nothing() {
    let throttle = Throttle {
        read_latency: Nanos::from_micros(500),
        write_latency: Nanos::from_micros(100),
        ..Throttle::of(vec![ops(1000.0, 9.0)])
    };
    let ops = [Op::Read, Op::Write, Op::Flush, Op::Read];
    let all: Vec<Request> = (0..).zip(ops).map(|(id, op)| io(id, 0, op, 0, 4096)).collect();
    assert_eq!(times_us(&throttle, &all), [500, 100, 100, 500]);
    let mut device = Throttled::new(throttle).unwrap();
    device.start(Nanos(7), all[0]);
    assert_eq!(device.busy(Nanos(17)), Nanos(10));
    device.finish(device.next().unwrap());
    assert_eq!((device.busy(Nanos::MAX), device.next()), (Nanos::from_micros(500), None));
}

#[test]
fn figures_out_of_range_are_refused_by_name() {
    let said = |throttle: Throttle| Throttled::new(throttle).unwrap_err().0;
    let of = |bucket| Throttle::of(vec![bucket]);
    assert!(said(of(ops(0.0, 0.0))).contains("rate of bucket 1: got 0, expected 0.001 to 1e15"));
    assert!(said(of(ops(f64::NAN, 0.0))).contains("rate of bucket 1: got NaN"));
    assert!(said(of(ops(1.0, -1.0))).contains("depth of bucket 1: got -1"));
    assert!(said(of(Bucket { start_share: 1.5, ..ops(1.0, 0.0) })).contains("start of bucket 1"));
    assert!(said(Throttle::of(vec![ops(1.0, 0.0); 65])).contains("got 65, expected at most 64"));
    let count = Count::Units { unit_bytes: 0 };
    assert!(said(Throttle { count, ..Throttle::of(vec![]) }).contains("got 0 bytes"));
    assert!(said(Throttle { merges: true, ..Throttle::of(vec![]) }).contains("counting unit"));
    assert!(said(Throttle { capacity_bytes: 0, ..Throttle::of(vec![]) }).contains("capacity"));
}

/// Returns release times computed as in QEMU: the bucket's level leaks at the rate, and requests
/// wait while it is above the depth.
fn leaking(buckets: &[Bucket], all: &[(f64, Cost)]) -> Vec<f64> {
    let mut levels: Vec<f64> =
        buckets.iter().map(|bucket| bucket.depth * (1.0 - bucket.start_share)).collect();
    let (mut now_s, mut releases) = (0.0, Vec::new());
    for (at_ns, cost) in all {
        let mut leak_until = |levels: &mut [f64], until_s: f64| {
            let passed_s = f64::max(until_s - now_s, 0.0);
            for (level, bucket) in levels.iter_mut().zip(buckets) {
                *level = f64::max(*level - passed_s * bucket.rate_per_s, 0.0);
            }
            now_s = f64::max(now_s, until_s);
            now_s
        };
        let start_s = leak_until(&mut levels, at_ns / 1e9);
        let waits = levels
            .iter()
            .zip(buckets)
            .map(|(level, bucket)| f64::max((level - bucket.depth) / bucket.rate_per_s, 0.0));
        let wait_s = waits.fold(0.0, f64::max);
        releases.push(leak_until(&mut levels, start_s + wait_s) * 1e9);
        for (level, bucket) in levels.iter_mut().zip(buckets) {
            *level += if bucket.measure == Measure::Ops { cost.ops } else { cost.bytes };
        }
    }
    releases
}

fn passed(buckets: &[Bucket], all: &[(f64, Cost)]) -> Vec<f64> {
    let mut releases = Releases::new(&Throttle::of(buckets.to_vec()));
    all.iter().map(|(at_ns, cost)| releases.pass(0, *at_ns, *cost)).collect()
}

fn any_bucket() -> impl Strategy<Value = Bucket> {
    (any::<bool>(), 1.0..1e4_f64, 0.0..100.0_f64, 0.0..=1.0_f64).prop_map(
        |(is_ops, rate, depth, start_share)| {
            let (measure, unit) =
                if is_ops { (Measure::Ops, 1.0) } else { (Measure::Bytes, 16384.0) };
            Bucket { start_share, ..bucket(measure, rate * unit, depth * unit) }
        },
    )
}

fn arrivals() -> impl Strategy<Value = Vec<(f64, Cost)>> {
    let gap = prop_oneof![Just(0_u64), 0..2_000_000_u64, 0..500_000_000_u64];
    prop::collection::vec((gap, 1..2_000_000_u32), 1..60).prop_map(|rows| {
        let mut at_ns = 0;
        let arrival = |(gap, len): (u64, u32)| {
            at_ns += gap;
            let ops = f64::from(len.div_ceil(256 * KIB));
            (at_ns as f64, Cost { ops, bytes: f64::from(len) })
        };
        rows.into_iter().map(arrival).collect()
    })
}

proptest! {
    #[test]
    fn releases_are_those_of_leaking_buckets(
        buckets in prop::collection::vec(any_bucket(), 0..4),
        all in arrivals(),
    ) {
        for (got, expected) in passed(&buckets, &all).into_iter().zip(leaking(&buckets, &all)) {
            prop_assert!((got - expected).abs() < 1e-6 * expected + 1.0, "{got} {expected}");
        }
    }

    /// No request is delayed longer if a rate or a depth grows.
    #[test]
    fn delays_are_monotone_in_every_rate_and_depth(
        buckets in prop::collection::vec(any_bucket(), 1..4),
        all in arrivals(),
        which in 0..3_usize,
        (faster, deeper) in (1.0..3.0_f64, 0.0..100.0_f64),
    ) {
        let mut better = buckets.clone();
        let bucket = &mut better[which % buckets.len()];
        // The tokens missing at the start stay the same.
        let missing = bucket.depth * (1.0 - bucket.start_share);
        bucket.rate_per_s *= faster;
        bucket.depth += deeper;
        bucket.start_share = 1.0 - missing / bucket.depth.max(1e-9);
        for (before, after) in passed(&buckets, &all).into_iter().zip(passed(&better, &all)) {
            prop_assert!(after <= before + 1e-9 * before + 1.0, "{after} after {before}");
        }
    }

    /// The device releases the requests of one queue as the plain recurrence does, even though it
    /// computes the releases as late as it can.
    #[test]
    fn the_device_serves_at_the_releases(all in arrivals(), buckets in prop::collection::vec(any_bucket(), 1..3)) {
        let requests: Vec<Request> = (0..).zip(&all)
            .map(|(id, (at_ns, cost))| io(id, *at_ns as u64, Op::Read, (1 + id) << 30, cost.bytes as u32))
            .collect();
        let throttle = Throttle {
            count: Count::Units { unit_bytes: 256 * KIB },
            ..Throttle::of(buckets.clone())
        };
        let expected: Vec<Nanos> = passed(&buckets, &all).into_iter().zip(&requests)
            .map(|(release, request)| to_nanos(release) - request.at).collect();
        prop_assert_eq!(times(&throttle, &requests), &expected[..]);
        // With requests in only one direction, separate queues must make no difference.
        let apart = Throttle { queues: Queues::PerDirection, ..throttle };
        prop_assert_eq!(times(&apart, &requests), expected);
    }
}

/// Returns a throttle that limits reads in slices of 100 ms.
fn sliced(buckets: Vec<Bucket>) -> Throttle {
    let buckets =
        buckets.into_iter().map(|one| Bucket { direction: Direction::Read, ..one }).collect();
    let slice = Some(Nanos::from_millis(100));
    Throttle { queues: Queues::PerDirection, slice, ..Throttle::of(buckets) }
}

#[test]
fn slices_release_their_requests_when_they_begin() {
    // Twenty requests per second are two per slice.
    let all = reads(&[(5, 4 * KIB); 7]);
    let by_two = [0, 0, 100_000, 100_000, 200_000, 200_000, 300_000];
    assert_eq!(times_us(&sliced(vec![ops(20.0, 0.0)]), &all), by_two);
    // A slice holds 64 KiB. The third request waits for the next slice, and then for its own bytes
    // to accumulate.
    let by_bytes = times_us(&sliced(vec![bytes(0.625, 0.0)]), &reads(&[(5, 32 * KIB); 5]));
    assert_eq!(by_bytes, [0, 0, 150_000, 150_000, 250_000]);
}

#[test]
fn a_window_in_use_keeps_one_slice_of_unused_tokens_and_an_old_one_nothing() {
    // Each slice has 10 tokens, of which one request every 50 ms uses two. The unused tokens
    // accumulate, but at most those of one slice.
    let mut rows: Vec<(u64, u32)> = (0..20).map(|number| (number * 50, 4 * KIB)).collect();
    rows.extend([(960, 4 * KIB); 40]);
    let times = times_us(&sliced(vec![ops(100.0, 0.0)]), &reads(&rows));
    let at_once = times[20..].iter().filter(|us| **us == 0).count();
    assert_eq!(at_once, 19, "two slices, of which one request was charged since the last drop");
    // After a pause, only the tokens of one slice are available.
    let mut rows = vec![(0, 4 * KIB)];
    rows.extend([(2_000, 4 * KIB); 25]);
    let times = times_us(&sliced(vec![ops(100.0, 0.0)]), &reads(&rows));
    let at_once = times[1..].iter().filter(|us| **us == 0).count();
    assert_eq!((at_once, *times.last().unwrap()), (10, 200_000));
}

#[test]
fn slices_limit_each_direction_apart() {
    let throttle = sliced(vec![ops(10.0, 0.0)]);
    let both = Bucket { direction: Direction::Both, ..throttle.buckets[0] };
    for wrong in [
        Throttle { queues: Queues::Shared, ..throttle.clone() },
        Throttle { buckets: vec![both], ..throttle.clone() },
        Throttle { slice: Some(Nanos(1)), ..throttle.clone() },
    ] {
        assert!(Throttled::new(wrong).unwrap_err().0.contains("slice"));
    }
    let mut device = Throttled::new(throttle).unwrap();
    for id in 0..3 {
        device.start(Nanos(0), io(id, 0, Op::Read, id << 30, 4 * KIB));
    }
    device.start(Nanos(0), io(3, 0, Op::Write, 1 << 40, 4 * KIB));
    assert_eq!(device.next(), Some(Nanos(0)));
    assert_eq!(device.decides(Nanos(1), Op::Write), None);
    assert_eq!(device.decides(Nanos(1), Op::Read), Some(0));
}

#[test]
fn each_slice_releases_exactly_its_tokens() {
    for each in 1..=700 {
        let all = reads(&vec![(0, 4 * KIB); 3 * each as usize]);
        let slices = (0..3 * each).map(|number| number / each * 100_000);
        let times = times_us(&sliced(vec![ops(10.0 * each as f64, 0.0)]), &all);
        assert_eq!(times, slices.collect::<Vec<u64>>(), "{each} per slice");
    }
}
