//! The parameters of throttles: token buckets, the unit in which operations are counted, and base
//! latencies.

use std::ops::RangeInclusive;

use crate::contract::{Nanos, Op, SpecError};

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
    /// The requests that the bucket limits.
    pub direction: Direction,
    /// Operations or bytes that may pass per second, from 0.001 to 1e15.
    pub rate_per_s: f64,
    /// The capacity of the bucket in operations or bytes, from 0 to 1e18.
    pub depth: f64,
    /// The share of the depth that is available at the start, at most 1. A negative share is a
    /// debt.
    pub start_share: f64,
}

/// The number of operations that a request counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Each request counts as one operation.
    Requests,
    /// Each request counts as one operation per unit, with the last unit rounded up.
    Units {
        /// The size of a unit in bytes, at least 1.
        unit_bytes: u32,
    },
    /// A request longer than a unit counts as its length divided by the unit, any other request as
    /// one operation (QEMU's `iops-size`).
    Fractions {
        /// The size of a unit in bytes, at least 1.
        unit_bytes: u32,
    },
}

/// The queues in which requests wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queues {
    /// Reads and writes wait in one queue, first come, first served.
    Shared,
    /// Reads wait only for reads and writes only for writes, as in QEMU and `blk-throttle`. If a
    /// bucket limits both, the two queues take turns at it.
    PerDirection,
}

/// The limits and latencies of a throttled device.
#[derive(Clone, Debug, PartialEq)]
pub struct Throttle {
    /// The buckets. A request passes when no bucket that limits it is overdrawn.
    pub buckets: Vec<Bucket>,
    /// The number of operations that a request counts as.
    pub count: Count,
    /// Whether buckets of bytes charge whole units, as volumes on hard disks do. `count` must have
    /// a unit.
    pub whole_units: bool,
    /// Whether a request that continues the previous request of its direction shares that request's
    /// last unit. `count` must have a unit.
    pub merges: bool,
    /// The queues in which requests wait.
    pub queues: Queues,
    /// The length of the slices in which Linux's `blk-throttle` hands out tokens; None if buckets
    /// fill continuously. With slices, depths have no effect, each bucket must limit one direction,
    /// and reads and writes must wait in separate queues.
    pub slice: Option<Nanos>,
    /// The time from a read's release to its completion.
    pub read_latency: Nanos,
    /// The time from the release of any other request to its completion.
    pub write_latency: Nanos,
    /// The capacity of the device in bytes.
    pub capacity_bytes: u64,
}

/// The minimum capacity of a device, in bytes.
const CAPACITY_MIN_BYTES: u64 = 4096;

/// The range of lengths of a slice.
const SLICE_RANGE: RangeInclusive<Nanos> = Nanos::from_millis(1)..=Nanos::from_secs(10);

/// The maximum number of buckets in a throttle.
const BUCKETS_MAX: usize = 64;

impl Throttle {
    /// Creates a throttle of `buckets` with one queue, one operation per request, no latency and
    /// unlimited capacity.
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

    /// Returns the time from a request's release to its completion.
    pub fn latency(&self, op: Op) -> Nanos {
        if op == Op::Read { self.read_latency } else { self.write_latency }
    }

    /// Returns whether the release of each request depends only on requests that arrived before it.
    /// This is not so if reads and writes wait in separate queues for the same bucket.
    pub fn is_ordered(&self) -> bool {
        self.queues == Queues::Shared
            || self.buckets.iter().all(|bucket| bucket.direction != Direction::Both)
    }

    /// Checks every parameter.
    ///
    /// # Errors
    /// Names the first parameter that is out of range.
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
        let expected = "slices require separate queues for reads and writes, and buckets that limit one direction";
        if is_apart { Ok(()) } else { Err(SpecError(expected.to_string())) }
    }
}
