//! Computes a lower bound for the number of late requests in a setting, given counters.
//!
//! However requests arrive within an interval, those in time must pass each bucket between the
//! beginning of the interval and its end plus the promised time. In that time, the bucket lets
//! through what it holds at the beginning, what it is refilled with, and one request that overdraws
//! it. All other requests are late. Late requests are assumed to take no tokens, so that they delay
//! nothing. Each bucket is considered separately, although several together may delay more.
//!
//! Counters do not record lengths, so all requests of an interval are assumed to be equally long. A
//! request counts as at least one operation and, on volumes that merge sequential requests, as at
//! least its bytes divided by the unit.

use forebay_core::device::throttled::{Bucket, Count, Direction, Measure, Throttle};

use super::{Counters, Sample};
use crate::plan::volume::find::holds_credit;

/// Returns the number of requests that are certainly late; infinite if the intervals, repeated over
/// and over, use up credit faster than it is refilled.
pub(in crate::plan::volume) fn late(
    counters: &Counters,
    throttle: &Throttle,
    within_s: f64,
    is_steady: bool,
) -> f64 {
    let latency = throttle.read_latency.min(throttle.write_latency).as_secs_f64();
    let left_s = within_s - latency;
    if left_s < 0.0 {
        return f64::INFINITY;
    }
    let each = throttle.buckets.iter().map(|bucket| {
        let load = Load { counters, throttle, bucket };
        let is_credit = is_steady && holds_credit(bucket);
        if is_credit && load.uses_up() {
            return f64::INFINITY;
        }
        let full = bucket.depth * bucket.start_share;
        let (late, left) = load.pass(full, left_s);
        match is_credit {
            true => load.pass(left, left_s).0,
            false => late,
        }
    });
    each.fold(0.0, f64::max)
}

/// Rounds a number of late requests up, but tolerates the rounding of collectors' output.
pub(in crate::plan::volume) fn whole(late: f64) -> u64 {
    (late - 0.1).ceil().max(0.0) as u64
}

/// Returns whether the intervals, repeated over and over, use up credit faster than it is refilled.
pub(in crate::plan::volume) fn uses_up_credit(counters: &Counters, throttle: &Throttle) -> bool {
    let credits = throttle.buckets.iter().filter(|bucket| holds_credit(bucket));
    credits.into_iter().any(|bucket| Load { counters, throttle, bucket }.uses_up())
}

/// The load of the intervals on one bucket.
struct Load<'a> {
    counters: &'a Counters,
    throttle: &'a Throttle,
    bucket: &'a Bucket,
}

impl Load<'_> {
    /// Returns how many requests of an interval the bucket limits, and their minimum cost.
    fn of(&self, sample: &Sample) -> (f64, f64) {
        let Sample { ops: [reads, writes, _], bytes: [read, written], .. } = *sample;
        let (ops, bytes) = match self.bucket.direction {
            Direction::Both => (sample.all_ops(), read + written),
            Direction::Read => (reads, read),
            Direction::Write => (writes, written),
        };
        let unit = match self.throttle.count {
            Count::Units { unit_bytes } => f64::from(unit_bytes),
            Count::Requests | Count::Fractions { .. } => f64::INFINITY,
        };
        let (merges, whole) = (self.throttle.merges, self.throttle.whole_units);
        let cost = match self.bucket.measure {
            Measure::Ops if merges => bytes / unit,
            Measure::Ops => ops.max(bytes / unit),
            Measure::Bytes if whole && !merges => bytes.max(ops * unit),
            Measure::Bytes => bytes,
        };
        (ops, cost)
    }

    fn uses_up(&self) -> bool {
        let cost: f64 = self.counters.samples.iter().map(|sample| self.of(sample).1).sum();
        cost > self.bucket.rate_per_s * self.span_s()
    }

    /// Returns the time after which the intervals start again if they are repeated: one interval
    /// after their end, just as a trace starts again a mean gap after its end.
    fn span_s(&self) -> f64 {
        let samples = &self.counters.samples;
        let ends = samples.first().zip(samples.last());
        ends.map_or(0.0, |(first, last)| last.from_s + 2.0 * last.len_s - first.from_s)
    }

    /// Passes all intervals through the bucket, which holds `tokens` at first. Returns the number
    /// of late requests and the tokens that are left.
    fn pass(&self, mut tokens: f64, left_s: f64) -> (f64, f64) {
        let Bucket { rate_per_s, depth, .. } = *self.bucket;
        let (mut late, mut until_s) = (0.0, f64::NAN);
        for sample in &self.counters.samples {
            let idle_s = (sample.from_s - until_s).max(0.0);
            tokens = (tokens + rate_per_s * idle_s).min(depth);
            let (ops, cost) = self.of(sample);
            let each = if ops > 0.0 { cost / ops } else { 0.0 };
            let most = tokens + rate_per_s * (sample.len_s + left_s) + each;
            let in_time = cost.min(most.max(0.0));
            if each > 0.0 {
                late += (cost - in_time) / each;
            }
            tokens = (tokens + rate_per_s * sample.len_s - in_time).min(depth);
            until_s = sample.from_s + sample.len_s;
        }
        (late, tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::volume::drain::{self, Costed, Drain, Limits};
    use forebay_core::device::throttled::Cost;
    use forebay_core::{Nanos, Op};
    use proptest::prelude::*;

    fn bucket(measure: Measure, rate_per_s: f64, depth: f64) -> Bucket {
        Bucket { measure, direction: Direction::Both, rate_per_s, depth, start_share: 1.0 }
    }

    /// Returns counters of 4 KiB reads that arrive at these microseconds, in intervals of a second.
    fn counted(at_us: &[u64]) -> Counters {
        let mut samples: Vec<Sample> = (0..=at_us.last().map_or(0, |last| last / 1_000_000))
            .map(|s| Sample { from_s: s as f64, len_s: 1.0, ops: [0.0; 3], bytes: [0.0; 2] })
            .collect();
        for at in at_us {
            let sample = &mut samples[(at / 1_000_000) as usize];
            sample.ops[0] += 1.0;
            sample.bytes[0] += 4096.0;
        }
        Counters { samples, ops_most: at_us.len() as f64, read: Default::default() }
    }

    #[test]
    fn no_arrangement_of_a_second_needs_less() {
        // Of 2,000 requests in a second, 1,000 + 10 pass until 10 ms after the second, and one
        // overdraws the bucket.
        let counters = counted(&(0..2000).map(|n| n * 500).collect::<Vec<_>>());
        let throttle = |rate, depth| Throttle::of(vec![bucket(Measure::Ops, rate, depth)]);
        let late = |rate, depth| late(&counters, &throttle(rate, depth), 0.01, false);
        assert!((late(1000.0, 0.0) - 989.0).abs() < 1e-6);
        assert!((late(1000.0, 500.0) - 489.0).abs() < 1e-6);
        assert_eq!(late(1980.0, 0.0), 0.0);
        // Here the bucket counts bytes, at the rate of 1,000 reads of 4 KiB per second.
        let throttle = Throttle::of(vec![bucket(Measure::Bytes, 4_096_000.0, 0.0)]);
        assert!((super::late(&counters, &throttle, 0.01, false) - 989.0).abs() < 1e-6);
        // The promised time includes a request's latency after its release, which here is longer
        // than that time.
        let slow = Throttle { read_latency: Nanos::from_millis(11), ..throttle.clone() };
        let slow = Throttle { write_latency: Nanos::from_millis(11), ..slow };
        assert_eq!(super::late(&counters, &slow, 0.01, false), f64::INFINITY);
        // The load takes one second and is repeated after another, so its 2,000 requests need a
        // rate of 1,000 per second.
        let credit = Throttle::of(vec![bucket(Measure::Ops, 1000.0, 15_000.0)]);
        assert!(!uses_up_credit(&counters, &credit));
        let credit = Throttle::of(vec![bucket(Measure::Ops, 999.0, 15_000.0)]);
        assert_eq!(super::late(&counters, &credit, 0.01, false), 0.0);
        assert_eq!(super::late(&counters, &credit, 0.01, true), f64::INFINITY);
        assert!(uses_up_credit(&counters, &credit));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// The lower bound never exceeds the actual number of late requests.
        #[test]
        fn the_bound_is_not_above_the_late_requests(
            mut at_us in prop::collection::vec(
                prop_oneof![0u64..5_000_000, 1_000_000u64..1_050_000, 2_990_000u64..3_000_000],
                1..400,
            ),
            iops in 1u32..400, kib_per_s in 1u32..2000, depth in 0u32..50,
            within_ms in 0u64..300,
        ) {
            at_us.sort_unstable();
            let counters = counted(&at_us);
            let mut requests = Costed::default();
            for at in &at_us {
                let cost = Cost { ops: 1.0, bytes: 4096.0 };
                requests.push(Nanos::from_micros(*at), Op::Read, cost);
            }
            let ops = bucket(Measure::Ops, f64::from(iops), f64::from(depth));
            let depth_bytes = f64::from(depth) * 4096.0;
            let bytes = bucket(Measure::Bytes, f64::from(kib_per_s) * 1024.0, depth_bytes);
            let within = Nanos::from_millis(within_ms);
            let limits = Limits::new(within, Nanos::ZERO, Nanos::ZERO);
            let actual = drain::late(&requests, &[Drain::of(&ops), Drain::of(&bytes)], limits, u64::MAX);
            let throttle = Throttle::of(vec![ops, bytes]);
            let bound = late(&counters, &throttle, within.as_secs_f64(), false);
            prop_assert!(bound <= actual as f64 + 1e-6, "{bound} {actual}");
        }
    }
}
