//! Computes when token buckets release the requests of a trace.
//!
//! This is the leaky-bucket view of token buckets: a bucket drains at a constant rate, and holds at
//! most its depth. A request passes once no bucket is overdrawn, and is then charged to all of
//! them, so each bucket may be overdrawn by one request. Requests pass in order. Let V be the time
//! at which a bucket would be empty again. A request is released at the latest of its arrival, the
//! previous release, and V - depth / rate for every bucket. Then V becomes the later of V and the
//! release, plus cost / rate.
//!
//! Releases are monotone: none is ever later if a rate or a depth is higher. All searches rely on
//! that. (Unroll the recurrence: if a bucket limits a request, its release is that of an earlier
//! request plus the cost since then, less the depth, divided by the rate.)
//!
//! Times are in nanoseconds in floating point, which is exact to 0.1 ns for eleven days. Delays are
//! rounded to whole nanoseconds before they are compared.

use forebay_core::device::throttled::{Bucket, Cost, Direction, Measure, Throttle, side};
use forebay_core::{Nanos, Op};

/// A token bucket in which every amount is expressed as the time that it takes to drain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drain {
    /// Whether the bucket counts operations or bytes.
    pub measure: Measure,
    /// The time per operation or byte, first for reads and then for other requests; 0 if the bucket
    /// does not limit them.
    unit_ns: [f64; 2],
    /// How far V may be ahead of the present when a read, or any other request, passes; infinite if
    /// the bucket does not limit these.
    ahead_ns: [f64; 2],
    /// The time in which the whole depth drains.
    depth_ns: f64,
    /// How much of the depth is already spent at the start, as a time.
    spent_ns: f64,
}

impl Drain {
    /// A bucket that limits nothing.
    pub const UNLIMITED: Drain = Drain {
        measure: Measure::Ops,
        unit_ns: [0.0; 2],
        ahead_ns: [f64::INFINITY; 2],
        depth_ns: 0.0,
        spent_ns: 0.0,
    };

    /// Converts a bucket of a volume on which all requests share one queue.
    pub fn of(bucket: &Bucket) -> Drain {
        let unit_ns = 1e9 / bucket.rate_per_s;
        let depth_ns = bucket.depth * unit_ns;
        let is_limited =
            [bucket.direction != Direction::Write, bucket.direction != Direction::Read];
        Drain {
            measure: bucket.measure,
            unit_ns: is_limited.map(|is_limited| if is_limited { unit_ns } else { 0.0 }),
            ahead_ns: is_limited
                .map(|is_limited| if is_limited { depth_ns } else { f64::INFINITY }),
            depth_ns,
            spent_ns: depth_ns * (1.0 - bucket.start_share),
        }
    }
}

/// The requests of a trace in order of arrival, with the operations and the bytes that each costs.
#[derive(Clone, Debug, Default)]
pub struct Costed {
    at_ns: Vec<f64>,
    ops: Vec<u32>,
    bytes: Vec<u32>,
    /// For each request, 0 for reads and 1 for all others.
    side: Vec<u8>,
}

impl Costed {
    /// Adds a request. Times must not decrease. Costs must be whole numbers, as they are on
    /// providers' volumes.
    pub fn push(&mut self, at: Nanos, op: Op, cost: Cost) {
        self.at_ns.push(at.0 as f64);
        self.ops.push(cost.ops as u32);
        self.bytes.push(cost.bytes as u32);
        self.side.push(side(op) as u8);
    }

    /// Returns the number of requests.
    pub fn len(&self) -> usize {
        self.at_ns.len()
    }

    /// Returns whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.at_ns.is_empty()
    }

    /// Yields the arrival times.
    pub fn times(&self) -> impl Iterator<Item = Nanos> {
        self.at_ns.iter().map(|at_ns| Nanos(*at_ns as u64))
    }

    /// Calls `each` with the arrival, the side (0 for reads, 1 for others) and the costs of every
    /// request.
    pub fn for_each(&self, mut each: impl FnMut(f64, usize, Cost)) {
        for (nth, &at_ns) in self.at_ns.iter().enumerate() {
            let cost = Cost { ops: self.ops[nth].into(), bytes: self.bytes[nth].into() };
            each(at_ns, self.side[nth].into(), cost);
        }
    }

    /// Returns the same requests, with a cost of one operation each.
    pub fn each_as_one(&self) -> Costed {
        Costed { ops: vec![1; self.len()], ..self.clone() }
    }

    /// Returns the time from the first arrival to the last in nanoseconds.
    pub fn span_ns(&self) -> f64 {
        match (self.at_ns.first(), self.at_ns.last()) {
            (Some(first), Some(last)) => last - first,
            _ => 0.0,
        }
    }

    /// Returns the time that a bucket needs to drain the cost of all requests.
    pub fn total_ns(&self, drain: &Drain) -> f64 {
        let each = self.costs(drain.measure).iter().zip(&self.side);
        each.map(|(cost, side)| f64::from(*cost) * drain.unit_ns[usize::from(*side)]).sum()
    }

    fn costs(&self, measure: Measure) -> &[u32] {
        match measure {
            Measure::Ops => &self.ops,
            Measure::Bytes => &self.bytes,
        }
    }

    /// Calls `each` with the index, the arrival and the release of every request, until it returns
    /// false.
    #[inline(always)]
    fn run<const N: usize>(
        &self,
        drains: &[Drain; N],
        state: &mut Levels<N>,
        mut each: impl FnMut(usize, f64, f64, &Levels<N>) -> bool,
    ) {
        let len = self.len();
        let (ops, side) = (&self.ops[..len], &self.side[..len]);
        let mut costs: [&[u32]; N] = [&[]; N];
        for (costs, drain) in costs.iter_mut().zip(drains) {
            *costs = &self.costs(drain.measure)[..len];
        }
        for nth in 0..len {
            let (at_ns, side) = (self.at_ns[nth], usize::from(side[nth] & 1));
            // Flushes and trims cost nothing, so they wait only for earlier requests.
            let release_ns = match ops[nth] {
                0 => later(at_ns, state.released_ns),
                _ => state.release(drains, at_ns, side),
            };
            let goes_on = each(nth, at_ns, release_ns, state);
            state.released_ns = release_ns;
            for bucket in 0..N {
                let cost_ns = f64::from(costs[bucket][nth]) * drains[bucket].unit_ns[side];
                state.empty_ns[bucket] = later(state.empty_ns[bucket], release_ns) + cost_ns;
            }
            if !goes_on {
                return;
            }
        }
    }
}

/// The state of the buckets after a request.
#[derive(Clone, Copy, Debug)]
pub struct Levels<const N: usize> {
    /// For each bucket, when it would be empty again.
    empty_ns: [f64; N],
    /// When the previous request was released.
    released_ns: f64,
}

impl<const N: usize> Levels<N> {
    fn new(drains: &[Drain; N]) -> Levels<N> {
        let mut empty_ns = [0.0; N];
        for (empty_ns, drain) in empty_ns.iter_mut().zip(drains) {
            *empty_ns = drain.spent_ns;
        }
        Levels { empty_ns, released_ns: 0.0 }
    }

    #[inline(always)]
    fn release(&self, drains: &[Drain; N], at_ns: f64, side: usize) -> f64 {
        let mut release_ns = later(at_ns, self.released_ns);
        for (empty_ns, drain) in self.empty_ns.iter().zip(drains) {
            release_ns = later(release_ns, empty_ns - drain.ahead_ns[side]);
        }
        release_ns
    }

    /// Returns whether all buckets are empty at `at_ns`, so that earlier requests no longer have an
    /// effect.
    #[inline(always)]
    fn is_idle(&self, at_ns: f64) -> bool {
        self.released_ns <= at_ns && self.empty_ns.iter().all(|empty_ns| *empty_ns <= at_ns)
    }
}

#[inline(always)]
fn later(a_ns: f64, b_ns: f64) -> f64 {
    if a_ns > b_ns { a_ns } else { b_ns }
}

/// The longest delays of reads, and of all other requests, that still keep the promise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits([f64; 2]);

impl Limits {
    /// Returns the delays that the promise `within` permits, if requests have the given latencies
    /// after their release.
    pub fn new(within: Nanos, read_latency: Nanos, other_latency: Nanos) -> Limits {
        let left = |latency: Nanos| within.0 as f64 - latency.0 as f64 + 0.5;
        Limits([left(read_latency), left(other_latency)])
    }

    #[inline(always)]
    fn is_late(&self, delay_ns: f64, side: u8) -> bool {
        delay_ns >= self.0[usize::from(side)]
    }
}

/// Counts the late requests. Stops counting above `late_max`.
pub fn late<const N: usize>(
    requests: &Costed,
    drains: &[Drain; N],
    limits: Limits,
    late_max: u64,
) -> u64 {
    let mut levels = Levels::new(drains);
    let mut late = 0;
    requests.run(drains, &mut levels, |nth, at_ns, release_ns, _| {
        late += u64::from(limits.is_late(release_ns - at_ns, requests.side[nth]));
        late <= late_max
    });
    late
}

/// Counts the late requests in each part of the trace; `ends` are the indices at which the parts
/// end.
pub fn late_by_part<const N: usize>(
    requests: &Costed,
    drains: &[Drain; N],
    limits: Limits,
    ends: &[usize],
) -> Vec<u64> {
    let mut levels = Levels::new(drains);
    let (mut late, mut part) = (vec![0; ends.len()], 0);
    requests.run(drains, &mut levels, |nth, at_ns, release_ns, _| {
        while ends.get(part).is_some_and(|end| *end <= nth) {
            part += 1;
        }
        if let Some(late) = late.get_mut(part) {
            *late += u64::from(limits.is_late(release_ns - at_ns, requests.side[nth]));
        }
        true
    });
    late
}

/// Returns how much of each bucket is spent when the trace starts again after it has passed once,
/// as the time to refill it.
pub fn spent_ns<const N: usize>(requests: &Costed, drains: &[Drain; N]) -> Vec<f64> {
    let mut levels = Levels::new(drains);
    requests.run(drains, &mut levels, |_, _, _, _| true);
    let begins_ns = period_ns(requests);
    levels.empty_ns.iter().map(|empty_ns| (empty_ns - begins_ns).max(0.0)).collect()
}

/// Returns the time after which the trace starts again if it is repeated: a mean gap after its end.
pub fn period_ns(requests: &Costed) -> f64 {
    let gaps = requests.len().saturating_sub(1).max(1) as f64;
    requests.span_ns() * (1.0 + 1.0 / gaps)
}

/// Returns the requests that may be late in settings at least as high as `drains`, without those
/// that cannot.
///
/// Whenever all buckets are empty in this setting, they are also empty in any higher one, so the
/// stretches between such moments are independent of each other. A stretch in which no request is
/// late has no late request in any higher setting, and is left out. Arrivals do not change, so the
/// buckets are still empty when a remaining stretch begins.
pub fn that_may_be_late<const N: usize>(
    requests: &Costed,
    drains: &[Drain; N],
    limits: Limits,
) -> Costed {
    let mut kept = Costed::default();
    let (mut from, mut is_late) = (0, false);
    let mut levels = Levels::new(drains);
    requests.run(drains, &mut levels, |nth, at_ns, release_ns, levels| {
        if levels.is_idle(at_ns) {
            if is_late {
                kept.extend_from(requests, from..nth);
            }
            (from, is_late) = (nth, false);
        }
        is_late |= limits.is_late(release_ns - at_ns, requests.side[nth]);
        true
    });
    if is_late {
        kept.extend_from(requests, from..requests.len());
    }
    kept
}

impl Costed {
    fn extend_from(&mut self, other: &Costed, range: std::ops::Range<usize>) {
        self.at_ns.extend_from_slice(&other.at_ns[range.clone()]);
        self.ops.extend_from_slice(&other.ops[range.clone()]);
        self.bytes.extend_from_slice(&other.bytes[range.clone()]);
        self.side.extend_from_slice(&other.side[range]);
    }
}

/// The delays of all requests in one setting of a volume.
#[derive(Clone, Debug)]
pub struct Delays {
    /// The delay of each request in nanoseconds.
    pub each_ns: Vec<u64>,
    /// The number of late requests.
    pub late: u64,
    /// For each bucket, the sum of the delays that it caused.
    pub waited_ns: Vec<f64>,
    /// For each bucket, the smallest share of its depth that was left at any time.
    pub least_left_share: Vec<f64>,
}

/// Computes the delay of every request.
pub fn delays<const N: usize>(requests: &Costed, drains: &[Drain; N], limits: Limits) -> Delays {
    let mut found = Delays {
        each_ns: Vec::with_capacity(requests.len()),
        late: 0,
        waited_ns: vec![0.0; N],
        least_left_share: vec![1.0; N],
    };
    // The bucket that determined the most recent release that was delayed.
    let mut cause = 0;
    let mut levels = Levels::new(drains);
    requests.run(drains, &mut levels, |nth, at_ns, release_ns, levels| {
        let delay_ns = release_ns - at_ns;
        found.each_ns.push(delay_ns.round() as u64);
        found.late += u64::from(limits.is_late(delay_ns, requests.side[nth]));
        for (bucket, drain) in drains.iter().enumerate() {
            let empty_ns = levels.empty_ns[bucket];
            let ahead_ns = drain.ahead_ns[usize::from(requests.side[nth])];
            if empty_ns - ahead_ns >= release_ns && release_ns > levels.released_ns {
                cause = bucket;
            }
            let over_ns = empty_ns - release_ns;
            let left = 1.0 - (over_ns / drain.depth_ns.max(1.0)).clamp(0.0, 1.0);
            found.least_left_share[bucket] = found.least_left_share[bucket].min(left);
        }
        if delay_ns > 0.0 {
            found.waited_ns[cause] += delay_ns;
        }
        true
    });
    found
}

/// Latencies of requests, each consisting of its delay and the base latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// The 99.9th percentile of the latencies.
    pub p999_ns: u64,
    /// The longest latency of any request.
    pub longest_ns: u64,
}

impl Costed {
    /// Computes the latencies of requests with these delays.
    pub fn latencies(&self, delays_ns: &[u64], throttle: &Throttle) -> Latencies {
        let base = [throttle.read_latency.0, throttle.write_latency.0];
        let each = delays_ns.iter().zip(&self.side);
        let mut all: Vec<u64> =
            each.map(|(delay_ns, side)| delay_ns + base[usize::from(*side)]).collect();
        if all.is_empty() {
            return Latencies { p999_ns: 0, longest_ns: 0 };
        }
        let longest_ns = all.iter().copied().max().unwrap_or_default();
        let nth = (all.len() * 999).div_ceil(1000) - 1;
        Latencies { p999_ns: *all.select_nth_unstable(nth).1, longest_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u32 = 1 << 20;

    fn costed(requests: &[(u64, u32, u32)]) -> Costed {
        let mut all = Costed::default();
        for &(at_us, ops, bytes) in requests {
            let cost = Cost { ops: f64::from(ops), bytes: f64::from(bytes) };
            all.push(Nanos::from_micros(at_us), Op::Read, cost);
        }
        all
    }

    fn bucket(measure: Measure, rate_per_s: f64, depth: f64) -> Drain {
        let direction = Direction::Both;
        Drain::of(&Bucket { measure, direction, rate_per_s, depth, start_share: 1.0 })
    }

    fn delays_us(requests: &Costed, drains: &[Drain; 2]) -> Vec<f64> {
        let limits = Limits::new(Nanos::ZERO, Nanos::ZERO, Nanos::ZERO);
        let found = delays(requests, drains, limits);
        found.each_ns.iter().map(|ns| *ns as f64 / 1e3).collect()
    }

    fn pair(iops: f64, mibps: f64, depth_ns: f64) -> [Drain; 2] {
        let flat =
            |measure, rate_per_s: f64| bucket(measure, rate_per_s, depth_ns / 1e9 * rate_per_s);
        [flat(Measure::Ops, iops), flat(Measure::Bytes, mibps * f64::from(MIB))]
    }

    /// Example A of the reference: ten reads arrive at once.
    #[test]
    fn requests_at_once_pass_one_by_one() {
        let requests = costed(&[(0, 1, 4096); 10]);
        let passed = |iops, depth_ns| delays_us(&requests, &pair(iops, 1e6, depth_ns));
        assert_eq!(passed(1000.0, 0.0), (0..10).map(|n| f64::from(n) * 1e3).collect::<Vec<_>>());
        let ahead = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1e3, 2e3, 3e3, 4e3];
        assert_eq!(passed(1000.0, 5e6), ahead);
        let limits = Limits::new(Nanos::from_millis(3), Nanos::ZERO, Nanos::ZERO);
        let late = |iops| late(&requests, &pair(iops, 1e6, 0.0), limits, 10);
        // For all ten to be released within 3 ms, the rate must be 9 / 3 ms; for nine, 8 / 3 ms.
        assert_eq!([3000.0, 2999.0, 2667.0, 2666.0].map(late), [0, 1, 1, 2]);
    }

    /// Example B of the reference: both buckets together delay requests by more than either alone.
    #[test]
    fn a_request_may_wait_for_both_buckets() {
        let mut all = vec![(0, 1, MIB)];
        all.extend((1..=10).map(|ms| (ms * 1000, 1, 4096)));
        let requests = costed(&all);
        let worst = |iops, mibps| delays_us(&requests, &pair(iops, mibps, 0.0)).pop();
        assert_eq!(worst(100.0, 1e6), Some(90e3));
        assert_eq!(delays_us(&requests, &pair(1e6, 10.0, 0.0))[1], 99e3);
        let both = delays_us(&requests, &pair(100.0, 10.0, 0.0));
        let expected: Vec<f64> = (0..=10).map(|n| f64::from(n) * 9e3 + 90e3).collect();
        assert_eq!(both[1..], expected[1..]);
    }

    /// Example C of the reference: a request costs several units.
    #[test]
    fn a_request_of_several_units_delays_the_next() {
        let requests = costed(&[
            (0, 4, MIB),
            (0, 1, 4096),
            (0, 1, 4096),
            (0, 1, 4096),
            (0, 1, 4096),
            (20_000, 1, 4096),
        ]);
        let found = delays_us(&requests, &pair(400.0, 100.0, 0.0));
        assert_eq!(found, [0.0, 10e3, 12.5e3, 15e3, 17.5e3, 0.0]);
    }

    #[test]
    fn credits_may_be_spent_at_the_start() {
        let requests = costed(&[(0, 1, 512); 30]);
        let credits = bucket(Measure::Ops, 100.0, 20.0);
        let limits = Limits::new(Nanos::ZERO, Nanos::ZERO, Nanos::ZERO);
        let late = |drain| late(&requests, &[drain], limits, 99);
        assert_eq!(late(credits), 9);
        let empty = Drain { spent_ns: credits.depth_ns, ..credits };
        assert_eq!(late(empty), 29);
        // All requests arrive at the same time, so nothing is refilled before the trace repeats.
        assert_eq!(spent_ns(&requests, &[credits]), [30.0 * 1e7]);
        let found = delays(&requests, &[credits], limits);
        assert_eq!((found.late, found.least_left_share[0]), (9, 0.0));
    }

    #[test]
    fn a_bucket_may_limit_one_direction() {
        let mut requests = Costed::default();
        for op in [Op::Write, Op::Write, Op::Read, Op::Write, Op::Read] {
            requests.push(Nanos::ZERO, op, Cost { ops: 1.0, bytes: 512.0 });
        }
        let of = |direction, rate_per_s| {
            Drain::of(&Bucket {
                measure: Measure::Ops,
                direction,
                rate_per_s,
                depth: 0.0,
                start_share: 1.0,
            })
        };
        let limits = Limits::new(Nanos::ZERO, Nanos::ZERO, Nanos::ZERO);
        let found = |drains: &[Drain; 2]| delays(&requests, drains, limits).each_ns;
        let apart = [of(Direction::Write, 100.0), of(Direction::Read, 50.0)];
        // There is one queue, so a read waits for earlier writes, but is not charged to their
        // bucket.
        let in_ms: Vec<u64> = found(&apart).iter().map(|ns| ns / 1_000_000).collect();
        assert_eq!(in_ms, [0, 10, 10, 20, 30]);
    }

    /// Draws up to 150 requests with gaps in microseconds, units and KiB.
    fn drawn() -> impl Strategy<Value = Costed> {
        let gap = prop_oneof![3 => Just(0u64), 3 => 0u64..3000, 1 => 0u64..200_000];
        let request = (gap, 1u32..5, 1u32..1024, any::<bool>());
        prop::collection::vec(request, 1..150).prop_map(|all| {
            let (mut requests, mut now) = (Costed::default(), 0);
            for (gap, units, kib, writes) in all {
                now += gap;
                let op = if writes { Op::Write } else { Op::Read };
                let cost = Cost { ops: f64::from(units), bytes: f64::from(kib * 1024) };
                requests.push(Nanos::from_micros(now), op, cost);
            }
            requests
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// No request is released later if a rate or a depth is higher.
        #[test]
        fn every_delay_falls_with_every_rate_and_depth(
            requests in drawn(),
            iops in 1u32..3000, mibps in 1u32..200, depth_ms in 0u32..50,
            more in (0u32..500, 0u32..50, 0u32..50),
            direction in prop_oneof![Just(Direction::Both), Just(Direction::Read), Just(Direction::Write)],
        ) {
            let drains = |iops, mibps, ms| {
                let [ops, bytes] = pair(f64::from(iops), f64::from(mibps), f64::from(ms) * 1e6);
                let (rate_per_s, depth) = (f64::from(iops) * 0.7, f64::from(ms) / 10.0);
                let one = Bucket { measure: Measure::Ops, direction, rate_per_s, depth, start_share: 1.0 };
                [ops, bytes, Drain::of(&one)]
            };
            let limits = Limits::new(Nanos::ZERO, Nanos::ZERO, Nanos::ZERO);
            let of = |drains| delays(&requests, &drains, limits).each_ns;
            let low = of(drains(iops, mibps, depth_ms));
            let high = of(drains(iops + more.0, mibps + more.1, depth_ms + more.2));
            prop_assert!(low.iter().zip(&high).all(|(low, high)| high <= low), "{low:?} {high:?}");
        }

        /// The requests that are left out are not late in any higher setting.
        #[test]
        fn leaving_idle_stretches_out_changes_no_count(
            requests in drawn(),
            iops in 1u32..3000, mibps in 1u32..200, depth_ms in prop_oneof![Just(0u32), 0u32..50],
            more in (0u32..500, 0u32..50),
            within_ms in 0u64..40,
        ) {
            let drains = |iops, mibps| pair(f64::from(iops), f64::from(mibps), f64::from(depth_ms) * 1e6);
            let within = Nanos::from_millis(within_ms);
            let limits = Limits::new(within, Nanos::from_micros(300), Nanos::from_millis(within_ms / 2));
            let kept = that_may_be_late(&requests, &drains(iops, mibps), limits);
            let high = drains(iops + more.0, mibps + more.1);
            let count = |of| late(of, &high, limits, u64::MAX);
            prop_assert_eq!(count(&kept), count(&requests));
            let found = delays(&requests, &high, limits);
            prop_assert_eq!(found.late, count(&requests));
            let ends = [requests.len() / 3, requests.len() / 3, requests.len()];
            let parts = late_by_part(&requests, &high, limits, &ends);
            prop_assert_eq!((parts[1], parts.iter().sum::<u64>()), (0, found.late));
            let waited: f64 = found.waited_ns.iter().sum();
            let all: u64 = found.each_ns.iter().sum();
            prop_assert!((waited - all as f64).abs() < 1e3 + 1e-6 * waited);
        }
    }
}
