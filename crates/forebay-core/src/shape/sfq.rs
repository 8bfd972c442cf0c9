//! SFQ: serves the class whose next request starts first in virtual time.
//!
//! Source: Goyal, Vin and Cheng, "Start-time fair queueing" (SIGCOMM 1996). The virtual time is the
//! start of the most recently served request.
//!
//! A request of a class that does not exceed its rate completes late by at most as many services as
//! there are classes. With two classes of equal weight, that is its bound in RTT, so with delta-C =
//! Cmin no bound is missed.

use super::tags::Flows;
use super::{Backlog, Capacity, Moment, Recombine};
use crate::contract::request::{Lane, Request};
use crate::rtt::Classes;

/// A shaper with fair queueing by start times.
#[derive(Clone, Debug)]
pub struct Sfq {
    tiers: Classes,
    flows: Flows,
    /// The sum of all weights, which are rates.
    sum_iops: u64,
}

impl Sfq {
    /// Creates a shaper in which `tiers` and the rest share the server by `weights`, which must
    /// have one more entry than there are tiers.
    pub fn new(tiers: Classes, weights: &[u64]) -> Sfq {
        Sfq { tiers, flows: Flows::new(weights), sum_iops: weights.iter().sum() }
    }
}

impl Recombine for Sfq {
    #[inline]
    fn arrive(&mut self, at: Moment, _: &Request, least: usize, backlog: &Backlog) -> usize {
        let class = at.admit(&mut self.tiers, least, backlog).unwrap_or(self.tiers.count());
        self.flows.arrive(class, backlog.waiting(class) > 0, backlog.is_idle());
        class
    }

    #[inline]
    fn next(&mut self, _: Moment, _lane: Lane, backlog: &Backlog) -> Option<usize> {
        let flows = &self.flows.flows;
        let ready = (0..flows.len()).filter(|class| backlog.is_ready(*class));
        let class = ready.min_by_key(|class| (flows[*class].start, *class))?;
        self.flows.now = self.flows.now.max(flows[class].start);
        self.flows.serve(class);
        Some(class)
    }

    /// Returns the sum of all rates. A tier has the same share of the server at any pace.
    fn capacity(&self) -> Capacity {
        Capacity { scaled_iops: self.sum_iops, fixed_iops: 0 }
    }
}
