//! RTT decomposition: determines which requests a server of constant rate can answer in time.
//!
//! Source: L. Lu, *Workload Shaping for QoS and Power Efficiency of Storage Systems*, section
//! 3.3.1. A server takes `1 / rate` seconds for every request and serves admitted requests first
//! come, first served. A request is admitted exactly if it then finishes no later than the bound
//! after its arrival.
//!
//! Departure: the source's listing admits a request while the queue is shorter than the integer
//! part of rate times bound, which ignores the progress of the request in service. The rule here is
//! the one in the source's proof, and never admits fewer requests.
//!
//! **Optimal.** No scheduler, online or offline, answers more requests in time at this rate.
//! Suppose that another scheduler has admitted `d` fewer requests so far. Then the server of RTT
//! becomes free at most `d` service times after the other's. This holds after every request: if the
//! other scheduler admits a request that RTT cannot admit, its server must be free earlier, so `d`
//! was at least 1.
//!
//! **Monotone.** A faster server, or the same server with a longer bound, can answer at least the
//! same requests in time. Because RTT admits the maximum, its count never decreases as the rate or
//! the bound grows. The search for the minimum rate relies on this.
//!
//! Invariant: the computation is exact. Time is counted in units of `1 / rate` nanoseconds, and a
//! service takes 10^9 of these units.

mod rates;
#[cfg(test)]
mod tests;
mod window;

pub use rates::{Gaps, LANES_MAX, Segment, admitted, admitted_by_part};
pub use window::least_rate_for_all;

use crate::contract::{Nanos, SpecError};

/// The time of one service, in units of `1 / rate` nanoseconds.
pub(crate) const SERVICE: u64 = 1_000_000_000;

/// The highest rate: one service per nanosecond.
pub const RATE_MAX_IOPS: u64 = 1_000_000_000;

/// The online admission rule, whose state is a few numbers instead of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rtt {
    rate_iops: u64,
    within: Nanos,
    /// When all admitted requests will be complete, in units of `1 / rate` nanoseconds.
    free: u128,
}

impl Rtt {
    /// Returns a server of `rate_iops` requests per second with the bound `within`.
    ///
    /// # Errors
    /// If the rate is 0 or above [`RATE_MAX_IOPS`], or the bound is 0.
    pub fn new(rate_iops: u64, within: Nanos) -> Result<Rtt, SpecError> {
        if !(1..=RATE_MAX_IOPS).contains(&rate_iops) {
            return Err(SpecError(format!(
                "rate: got {rate_iops} IOPS, expected 1 to {RATE_MAX_IOPS} IOPS"
            )));
        }
        if within == Nanos::ZERO {
            return Err(SpecError("bound: got 0 ms, expected more than 0 ms".into()));
        }
        Ok(Rtt { rate_iops, within, free: 0 })
    }

    /// Returns whether the request that arrives at `at` is admitted, and if so adds it to the
    /// queue. Times must not decrease.
    #[inline]
    pub fn admit(&mut self, at: Nanos) -> bool {
        self.admit_within(at, self.within, 1)
    }

    /// Like [`Rtt::admit`], but with another bound, and for a request that takes as long as `units`
    /// ordinary requests.
    #[inline]
    pub(crate) fn admit_within(&mut self, at: Nanos, within: Nanos, units: u64) -> bool {
        let rate = u128::from(self.rate_iops);
        let arrival = u128::from(at.0) * rate;
        let done = self.free.max(arrival) + u128::from(SERVICE) * u128::from(units);
        let admits = done <= arrival + u128::from(within.0) * rate;
        if admits {
            self.free = done;
        }
        admits
    }

    /// Returns the rate in requests per second.
    pub(crate) fn rate_iops(&self) -> u64 {
        self.rate_iops
    }

    /// Returns the bound.
    pub(crate) fn within(&self) -> Nanos {
        self.within
    }

    /// Returns whether the server has completed all admitted requests at `at`.
    #[inline]
    pub(crate) fn is_idle(&self, at: Nanos) -> bool {
        self.free <= u128::from(at.0) * u128::from(self.rate_iops)
    }

    /// Returns when the server will have completed all admitted requests, rounded up to a
    /// nanosecond.
    #[cfg(test)]
    pub(crate) fn free_at(&self) -> Nanos {
        let ns = self.free.div_ceil(u128::from(self.rate_iops));
        Nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// RTT by recursion: requests that one tier cannot complete in time are offered to the next.
///
/// Every tier has its own server. The promise that a share of all requests completes within a
/// tier's bound counts the requests admitted by that tier and all earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes(Vec<Rtt>);

impl Classes {
    /// Returns classes with these tiers, in the order in which requests are offered to them.
    pub fn new(tiers: Vec<Rtt>) -> Classes {
        Classes(tiers)
    }

    /// Returns the index of the first tier that admits the request that arrives at `at`; `None` if
    /// no tier admits it.
    #[inline]
    pub fn admit(&mut self, at: Nanos) -> Option<usize> {
        self.admit_each(0, |_, rtt| rtt.admit(at))
    }

    /// Returns the first tier, at or after `first`, for which `admits` returns true.
    #[inline]
    pub(crate) fn admit_each(
        &mut self,
        first: usize,
        mut admits: impl FnMut(usize, &mut Rtt) -> bool,
    ) -> Option<usize> {
        let mut asked = self.0.iter_mut().enumerate().skip(first);
        asked.find_map(|(tier, rtt)| admits(tier, rtt).then_some(tier))
    }

    /// Returns the number of tiers.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}
