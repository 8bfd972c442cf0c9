//! The times at which token buckets release requests.
//!
//! A bucket's state is a single time *V*: when it will be full again if no more requests arrive. A
//! request is released at *r*, the maximum of its arrival, the previous release from its queue, and
//! *V* - depth / rate of every bucket that limits it. Then each *V* becomes max(*V*, *r*) + cost /
//! rate. So one request can overdraw a bucket, and no request waits for its own cost. This is the
//! behavior of QEMU's `util/throttle.c`. A request takes time proportional to the number of
//! buckets.
//!
//! Times are nanoseconds in `f64` and are not rounded in between. Each addition errs by at most
//! half a unit in the last place (0.008 ns after a day), and the errors vanish when the bucket is
//! full again. [`to_nanos`] rounds the result to whole nanoseconds.

use super::slices::Slices;
use super::throttle::{Count, Direction, Measure, Queues, Throttle};
use crate::contract::{Nanos, Op, Request};

/// The tokens that a request costs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// The tokens taken from each bucket of operations.
    pub ops: f64,
    /// The tokens taken from each bucket of bytes.
    pub bytes: f64,
}

/// Computes the costs of requests in the order of their arrival. Costs do not depend on rates and
/// depths, so they can be computed once and used for many settings of a volume.
#[derive(Clone, Debug)]
pub struct Meter {
    count: Count,
    whole_units: bool,
    merges: bool,
    /// For each direction, the end of the last request, and the number of bytes in the sequential
    /// run that it ends.
    runs: [(u64, u64); 2],
}

impl Meter {
    /// Creates a meter for `throttle`.
    pub fn new(throttle: &Throttle) -> Meter {
        let Throttle { count, whole_units, merges, .. } = *throttle;
        // No request can start at the last byte of the address space, so the first request
        // continues no run.
        Meter { count, whole_units, merges, runs: [(u64::MAX, 0); 2] }
    }

    /// Returns the cost of `io`, which is zero unless it moves data: flushes and trims are not
    /// throttled.
    #[inline]
    pub fn cost(&mut self, io: &Request) -> Cost {
        if !io.op.moves_data() {
            return Cost::default();
        }
        let len = u64::from(io.len);
        let ops = match self.count {
            Count::Requests => 1.0,
            Count::Fractions { unit_bytes } => (len as f64 / f64::from(unit_bytes)).max(1.0),
            Count::Units { unit_bytes } => self.units(io, u64::from(unit_bytes)),
        };
        let bytes = match self.count {
            Count::Units { unit_bytes } if self.whole_units => ops * f64::from(unit_bytes),
            _ => len as f64,
        };
        Cost { ops, bytes }
    }

    #[inline]
    fn units(&mut self, io: &Request, unit_bytes: u64) -> f64 {
        let len = u64::from(io.len);
        if !self.merges {
            return len.div_ceil(unit_bytes).max(1) as f64;
        }
        let (end, run) = &mut self.runs[usize::from(io.op == Op::Write)];
        let before = if *end == io.offset { *run } else { 0 };
        let paid = before.div_ceil(unit_bytes);
        (*end, *run) = (io.end(), before.saturating_add(len));
        let least = u64::from(before == 0);
        (run.div_ceil(unit_bytes) - paid).max(least) as f64
    }
}

/// The state of a bucket.
#[derive(Clone, Copy, Debug)]
struct Level {
    empty_at_ns: f64,
    slack_ns: f64,
    ns_per_op: f64,
    ns_per_byte: f64,
    limits: [bool; 2],
}

impl Level {
    #[inline]
    fn ns(&self, cost: Cost) -> f64 {
        cost.ops * self.ns_per_op + cost.bytes * self.ns_per_byte
    }
}

/// The state of a throttle's buckets and queues.
#[derive(Clone, Debug)]
pub struct Releases {
    levels: Vec<Level>,
    /// The time of the last release from each queue.
    last_ns: [f64; 2],
    per_direction: bool,
    /// The windows of a throttle with slices, which replace `levels`.
    slices: Option<Slices>,
}

/// Returns the side of a request: 0 for reads, 1 for all others.
#[inline]
pub fn side(op: Op) -> usize {
    usize::from(op != Op::Read)
}

/// Returns the side that a bucket of `direction` limits, or None if it limits both.
pub(super) fn side_of(direction: Direction) -> Option<usize> {
    match direction {
        Direction::Both => None,
        Direction::Read => Some(0),
        Direction::Write => Some(1),
    }
}

impl Releases {
    /// Creates the buckets of `throttle` at time 0, each filled to its start share.
    pub fn new(throttle: &Throttle) -> Releases {
        let level = |bucket: &super::Bucket| {
            let ns_per_token = 1e9 / bucket.rate_per_s;
            let (ns_per_op, ns_per_byte) = match bucket.measure {
                Measure::Ops => (ns_per_token, 0.0),
                Measure::Bytes => (0.0, ns_per_token),
            };
            let slack_ns = bucket.depth * ns_per_token;
            Level {
                empty_at_ns: slack_ns * (1.0 - bucket.start_share),
                slack_ns,
                ns_per_op,
                ns_per_byte,
                limits: [bucket.direction != Direction::Write, bucket.direction != Direction::Read],
            }
        };
        Releases {
            levels: throttle.buckets.iter().map(level).collect(),
            last_ns: [0.0; 2],
            per_direction: throttle.queues == Queues::PerDirection,
            slices: throttle.slice.map(|slice| Slices::new(throttle, slice.0 as f64)),
        }
    }

    /// Returns the release time of the next request of `side`, which arrives at `at_ns`, given the
    /// requests charged so far.
    #[inline]
    pub fn earliest(&self, side: usize, at_ns: f64, cost: Cost) -> f64 {
        let mut release = at_ns.max(self.last_ns[self.queue(side)]);
        if cost == Cost::default() {
            return release;
        }
        for level in self.levels.iter().filter(|level| level.limits[side]) {
            release = release.max(level.empty_at_ns - level.slack_ns);
        }
        release
    }

    /// Charges a request of `side` that is released at `release_ns`.
    #[inline]
    pub fn charge(&mut self, side: usize, release_ns: f64, cost: Cost) {
        for level in self.levels.iter_mut().filter(|level| level.limits[side]) {
            level.empty_at_ns = level.empty_at_ns.max(release_ns) + level.ns(cost);
        }
        let queue = self.queue(side);
        self.last_ns[queue] = self.last_ns[queue].max(release_ns);
    }

    /// Releases and charges a request that arrives at `at_ns`, and returns its release time.
    /// Requests must be passed in the order of their arrival, and the throttle must be ordered
    /// ([`Throttle::is_ordered`]).
    #[inline]
    pub fn pass(&mut self, side: usize, at_ns: f64, cost: Cost) -> f64 {
        if let Some(slices) = &mut self.slices {
            return slices.pass(side, at_ns, cost);
        }
        let release_ns = self.earliest(side, at_ns, cost);
        self.charge(side, release_ns, cost);
        release_ns
    }

    /// Returns the bucket that delays a request of `side` arriving at `at_ns` the most, or None if
    /// no bucket delays it.
    pub fn decides(&self, side: usize, at_ns: f64) -> Option<usize> {
        if let Some(slices) = &self.slices {
            return slices.decides(side, at_ns);
        }
        let until_ns = |level: &Level| level.empty_at_ns - level.slack_ns;
        let waits = self.levels.iter().enumerate().filter(|(_, level)| level.limits[side]);
        let waits = waits.filter(|(_, level)| until_ns(level) > at_ns);
        waits.max_by(|a, b| until_ns(a.1).total_cmp(&until_ns(b.1))).map(|(index, _)| index)
    }

    /// Returns the number of tokens in bucket `index` at `at_ns`, negative if the bucket is
    /// overdrawn.
    ///
    /// # Panics
    /// Panics if the throttle has no such bucket.
    pub fn tokens(&self, index: usize, at_ns: f64) -> f64 {
        let level = &self.levels[index];
        let debt_ns = (level.empty_at_ns - at_ns).max(0.0);
        (level.slack_ns - debt_ns) / (level.ns_per_op + level.ns_per_byte)
    }

    #[inline]
    fn queue(&self, side: usize) -> usize {
        if self.per_direction { side } else { 0 }
    }
}

/// Rounds a time to the nearest nanosecond.
#[inline]
pub fn to_nanos(ns: f64) -> Nanos {
    Nanos(ns.round() as u64)
}
