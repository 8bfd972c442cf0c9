//! Throttles as data: token buckets, the unit that counts operations, and base latencies.

use std::ops::RangeInclusive;

use crate::contract::request::Op;
use crate::contract::spec::SpecError;
use crate::contract::time::Nanos;

/// What a bucket counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Operations, as [`Count`] counts them.
    Ops,
    /// Bytes.
    Bytes,
}

/// The requests that a bucket limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Reads and writes together.
    Both,
    /// Only reads.
    Read,
    /// Only writes.
    Write,
}

/// A token bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// What the bucket counts.
    pub measure: Measure,
    /// The requests that it limits.
    pub direction: Direction,
    /// Operations or bytes that may pass per second, from 0.001 to 1e15.
    pub rate_per_s: f64,
    /// Operations or bytes that may pass at once, from 0 to 1e18.
    pub depth: f64,
    /// The share of the depth that is available at the start, at most 1. A negative share is a
    /// debt.
    pub start_share: f64,
}

/// How many operations a request counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Every request is one operation.
    Requests,
    /// A request is one operation per unit or part of a unit.
    Units {
        /// The size of a unit, at least 1.
        unit_bytes: u32,
    },
    /// A request longer than a unit is its length divided by the unit, any other request is one
    /// operation (QEMU's `iops-size`).
    Fractions {
        /// The size of a unit, at least 1.
        unit_bytes: u32,
    },
}

/// The queues in which requests wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queues {
    /// Reads and writes wait in one queue, first come, first served.
    Shared,
    /// Reads wait only for reads and writes only for writes, as in QEMU and `blk-throttle`. If a
    /// bucket limits both, its tokens alternate between the two queues.
    PerDirection,
}

/// The limits and latencies of a throttled device.
#[derive(Clone, Debug, PartialEq)]
pub struct Throttle {
    /// The buckets. A request passes when no bucket that limits it is overdrawn.
    pub buckets: Vec<Bucket>,
    /// How many operations a request counts as.
    pub count: Count,
    /// Whether buckets of bytes charge whole units, as hard-disk volumes do. Requires a unit.
    pub whole_units: bool,
    /// Whether a request that continues the previous request of its direction shares that
    /// request's last unit. Requires a unit.
    pub merges: bool,
    /// The queues in which requests wait.
    pub queues: Queues,
    /// The slice of time in which Linux's `blk-throttle` hands out tokens; None if buckets fill
    /// evenly. With slices depths have no effect, each bucket limits one direction, and reads and
    /// writes wait apart.
    pub slice: Option<Nanos>,
    /// The time from a read's release to its completion.
    pub read_latency: Nanos,
    /// The time from the release of any other request to its completion.
    pub write_latency: Nanos,
    /// The size of the device.
    pub capacity_bytes: u64,
}

/// The smallest device.
const CAPACITY_MIN_BYTES: u64 = 4096;

/// The lengths of a slice.
const SLICE_RANGE: RangeInclusive<Nanos> = Nanos::from_millis(1)..=Nanos::from_secs(10);

/// The most buckets of a throttle.
const BUCKETS_MAX: usize = 64;

impl Throttle {
    /// Returns a throttle of `buckets` with one queue, no counting unit, no latency and unlimited
    /// capacity.
    pub fn of(buckets: Vec<Bucket>) -> Throttle {
        Throttle {
            buckets,
            count: Count::Requests,
            whole_units: false,
            merges: false,
            queues: Queues::Shared,
            slice: None,
            read_latency: Nanos::ZERO,
            write_latency: Nanos::ZERO,
            capacity_bytes: u64::MAX,
        }
    }

    /// Returns the latency of a request after its release.
    pub fn latency(&self, op: Op) -> Nanos {
        if op == Op::Read { self.read_latency } else { self.write_latency }
    }

    /// Returns whether the releases of requests depend only on requests that arrived before them.
    /// This is not the case if reads and writes wait apart for the tokens of the same bucket.
    pub fn is_ordered(&self) -> bool {
        self.queues == Queues::Shared
            || self.buckets.iter().all(|bucket| bucket.direction != Direction::Both)
    }

    /// Checks every figure.
    ///
    /// # Errors
    /// Names the first figure that is out of range.
    pub fn check(&self) -> Result<(), SpecError> {
        let error = |what: String| Err(SpecError(what));
        if self.buckets.len() > BUCKETS_MAX {
            let got = self.buckets.len();
            return error(format!("buckets: got {got}, expected at most {BUCKETS_MAX}"));
        }
        for (number, bucket) in (1..).zip(&self.buckets) {
            let figures = [
                ("rate", bucket.rate_per_s, 0.001..=1e15, "0.001 to 1e15"),
                ("depth", bucket.depth, 0.0..=1e18, "0 to 1e18"),
                ("start", bucket.start_share, -1e6..=1.0, "-1e6 to 1"),
            ];
            for (figure, got, range, expected) in figures {
                if !range.contains(&got) {
                    return error(format!(
                        "{figure} of bucket {number}: got {got}, expected {expected}"
                    ));
                }
            }
        }
        let has_unit = match self.count {
            Count::Units { unit_bytes: 0 } | Count::Fractions { unit_bytes: 0 } => {
                return error("counting unit: got 0 bytes, expected at least 1".to_string());
            }
            Count::Units { .. } => true,
            Count::Requests | Count::Fractions { .. } => false,
        };
        if !has_unit && (self.whole_units || self.merges) {
            return error("whole units and merging need a counting unit".to_string());
        }
        self.check_slice()?;
        if self.capacity_bytes < CAPACITY_MIN_BYTES {
            let got = self.capacity_bytes;
            return error(format!(
                "capacity: got {got} bytes, expected at least {CAPACITY_MIN_BYTES}"
            ));
        }
        Ok(())
    }

    fn check_slice(&self) -> Result<(), SpecError> {
        let Some(slice) = self.slice else { return Ok(()) };
        if !SLICE_RANGE.contains(&slice) {
            let got = slice.as_millis_f64();
            return Err(SpecError(format!("slice: got {got} ms, expected 1 ms to 10 s")));
        }
        let is_apart = self.queues == Queues::PerDirection && self.is_ordered();
        let expected =
            "slices require that reads and writes wait apart and each bucket limits one direction";
        if is_apart { Ok(()) } else { Err(SpecError(expected.to_string())) }
    }
}
