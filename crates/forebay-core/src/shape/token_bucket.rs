//! Token bucket: at most `rate` requests per second, and `burst` at once after a pause.
//!
//! Hypervisors and container runtimes throttle with token buckets. The shaper ignores bounds and
//! leaves the server idle while requests wait, so it only protects other users of the server.
//!
//! Invariant: in any time span `t`, at most `rate * t + burst` requests pass, counted exactly in
//! units of `1 / rate` nanoseconds.

use super::{Backlog, Capacity, Moment, Recombine};
use crate::contract::{Lane, Nanos, Request};
use crate::rtt::SERVICE;

/// A shaper with one bucket for all requests, which is initially full.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    rate_iops: u128,
    full: u128,
    level: u128,
    /// The time of the last refill, on the paced clock.
    filled_at: Nanos,
    wakeup: Option<Nanos>,
}

impl TokenBucket {
    /// Creates a bucket of `burst` tokens that gets `rate_iops` tokens per second. Both must be at
    /// least 1.
    pub fn new(rate_iops: u64, burst: u32) -> TokenBucket {
        let full = u128::from(burst) * u128::from(SERVICE);
        let rate_iops = u128::from(rate_iops.max(1));
        TokenBucket { rate_iops, full, level: full, filled_at: Nanos::ZERO, wakeup: None }
    }
}

impl Recombine for TokenBucket {
    #[inline]
    fn arrive(&mut self, _: Moment, _: &Request, _: usize, _: &Backlog) -> usize {
        0
    }

    #[inline]
    fn next(&mut self, at: Moment, _lane: Lane, backlog: &Backlog) -> Option<usize> {
        let poured = u128::from((at.paced - self.filled_at).0) * self.rate_iops;
        self.level = (self.level + poured).min(self.full);
        self.filled_at = at.paced;
        self.wakeup = None;
        if !backlog.is_ready(0) {
            return None;
        }
        let Some(left) = self.level.checked_sub(u128::from(SERVICE)) else {
            let missing = u128::from(SERVICE) - self.level;
            let wait = at.pace.time_of(missing.div_ceil(self.rate_iops));
            self.wakeup = Some(Nanos(at.now.0.saturating_add(wait.0)));
            return None;
        };
        self.level = left;
        Some(0)
    }

    #[inline]
    fn wakeup(&self) -> Option<Nanos> {
        self.wakeup
    }

    fn capacity(&self) -> Capacity {
        let scaled_iops = u64::try_from(self.rate_iops).unwrap_or(u64::MAX);
        Capacity { scaled_iops, fixed_iops: 0 }
    }
}
