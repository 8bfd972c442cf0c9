//! WF2Q+: among the classes that are eligible in virtual time, serves the one that finishes first.
//!
//! Source: Bennett and Zhang, "Hierarchical packet fair queueing algorithms" (SIGCOMM 1996). The
//! virtual time advances by the service given, and at least to the earliest start among the waiting
//! classes. A request counts as served when it is dispatched, because a disk's service time is
//! unknown.
//!
//! With two classes of equal weight, a request of a class that does not exceed its rate completes
//! late by at most two services, which is its bound in RTT; so with delta-C = Cmin no bound is
//! missed.

use super::tags::{Flows, UNIT};
use super::{Backlog, Capacity, Moment, Recombine};
use crate::contract::request::{Lane, Request};
use crate::rtt::Classes;

/// A shaper with fair queueing by WF2Q+.
#[derive(Clone, Debug)]
pub struct Wf2q {
    tiers: Classes,
    flows: Flows,
    /// The sum of all weights, which are rates.
    sum_iops: u64,
}

impl Wf2q {
    /// Creates a shaper in which `tiers` and the rest share the server by `weights`, which must
    /// have one more entry than there are tiers.
    pub fn new(tiers: Classes, weights: &[u64]) -> Wf2q {
        Wf2q { tiers, flows: Flows::new(weights), sum_iops: weights.iter().sum() }
    }
}

impl Recombine for Wf2q {
    #[inline]
    fn arrive(&mut self, at: Moment, _: &Request, least: usize, backlog: &Backlog) -> usize {
        let class = at.admit(&mut self.tiers, least, backlog).unwrap_or(self.tiers.count());
        self.flows.arrive(class, backlog.waiting(class) > 0, backlog.is_idle());
        class
    }

    #[inline]
    fn next(&mut self, _: Moment, _lane: Lane, backlog: &Backlog) -> Option<usize> {
        let ready = |class: &usize| backlog.is_ready(*class);
        let flows = &self.flows.flows;
        let starts = (0..flows.len()).filter(ready).map(|class| flows[class].start);
        let now = self.flows.now.max(starts.min()?);
        let due = (0..flows.len()).filter(|class| flows[*class].start <= now).filter(ready);
        let class = due.min_by_key(|class| (flows[*class].finish(), *class))?;
        self.flows.now = now + UNIT;
        self.flows.serve(class);
        Some(class)
    }

    /// Returns the sum of all rates. A tier has the same share of the server at any pace.
    fn capacity(&self) -> Capacity {
        Capacity { scaled_iops: self.sum_iops, fixed_iops: 0 }
    }
}
