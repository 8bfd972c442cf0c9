//! Counts requests that are answered late, so that a run whose 99th percentile can no longer be
//! within a limit ends early.
//!
//! A run reports to its [`LateCount`] from one thread; the caller's progress callback asks it whether
//! to stop. The counts are atomic only because a test bed is shared between threads.

use std::sync::atomic::{AtomicU64, Ordering};

use forebay_core::{Done, Nanos, Op};

use crate::input::Input;

/// How many requests were answered later than a limit.
#[derive(Debug)]
pub struct LateCount {
    limit: Nanos,
    reads: AtomicU64,
    writes: AtomicU64,
    reads_max: u64,
    writes_max: u64,
}

impl LateCount {
    /// Creates a count for a run of `input` whose 99th percentiles are to be at most `limit`.
    pub(crate) fn new(input: &Input, limit: Nanos) -> LateCount {
        let description = &input.description;
        LateCount {
            // A percentile of a histogram may be as much as a bucket below the latency itself.
            limit: Nanos(limit.0 + limit.0 / 20),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            reads_max: description.reads.div_ceil(100),
            writes_max: description.writes.div_ceil(100),
        }
    }

    #[inline]
    pub(super) fn finished(&self, now: Nanos, done: &Done) {
        if done.latency(now) <= self.limit {
            return;
        }
        let count = match done.request.op {
            Op::Read => &self.reads,
            Op::Write => &self.writes,
            _ => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether more than 1 % of all reads, or of all writes, of the trace were late.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.reads.load(Ordering::Relaxed) > self.reads_max
            || self.writes.load(Ordering::Relaxed) > self.writes_max
    }
}
