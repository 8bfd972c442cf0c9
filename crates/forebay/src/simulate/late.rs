//! Counts late requests, so that a run can end early once their number determines its outcome.
//!
//! A run reports to its [`LateCount`] from one thread; the caller's progress callback asks it
//! whether to stop. The counts are atomic only because a test bed is shared between threads.

use std::sync::atomic::{AtomicU64, Ordering};

use forebay_core::replay::Lag;
use forebay_core::{Done, Nanos, Op};

use crate::Input;

/// The requests that count as late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Late {
    /// Reads, or writes, that are answered later than the limit.
    Answers,
    /// Requests of any kind that get a place in the request queue later than the limit.
    Places,
}

/// How many requests were later than a limit.
#[derive(Debug)]
pub struct LateCount {
    late: Late,
    limit: Nanos,
    /// The number of late reads, or of all late requests.
    reads: AtomicU64,
    writes: AtomicU64,
    reads_max: u64,
    writes_max: u64,
}

impl LateCount {
    /// Creates a count for a run of `input` whose 99th percentiles are to be at most `limit`.
    pub(crate) fn answers(input: &Input, limit: Nanos) -> LateCount {
        let description = &input.description;
        LateCount {
            late: Late::Answers,
            // A percentile of a histogram may be as much as a bucket below the latency itself.
            limit: Nanos(limit.0 + limit.0 / 20),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            reads_max: description.reads.div_ceil(100),
            writes_max: description.writes.div_ceil(100),
        }
    }

    /// Creates a count for a run of `input` in open replay that ends if the devices are overloaded.
    pub(crate) fn overload(input: &Input) -> LateCount {
        LateCount {
            late: Late::Places,
            limit: Lag::LATE,
            reads_max: input.description.records.div_ceil(100),
            ..LateCount::answers(input, Nanos::ZERO)
        }
    }

    #[inline]
    pub(super) fn finished(&self, now: Nanos, done: &Done) {
        let latency = done.latency(now);
        let count = match (self.late, done.request.op) {
            (Late::Places, _) if latency + done.held - done.wait > self.limit => &self.reads,
            (Late::Answers, Op::Read) if latency > self.limit => &self.reads,
            (Late::Answers, Op::Write) if latency > self.limit => &self.writes,
            _ => return,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether more than 1 % of the requests are late: of all reads, of all writes, or of
    /// all requests.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.reads.load(Ordering::Relaxed) > self.reads_max
            || self.writes.load(Ordering::Relaxed) > self.writes_max
    }
}
