//! Fair queueing: classes share the server by weight, in the order of a virtual time.
//!
//! **SFQ** serves the class whose next request starts first in virtual time. Source: Goyal, Vin and
//! Cheng, "Start-time fair queueing" (SIGCOMM 1996). The virtual time is the start of the most
//! recently served request.
//!
//! **WF2Q+** serves, among the classes that are eligible in virtual time, the one that finishes
//! first. Source: Bennett and Zhang, "Hierarchical packet fair queueing algorithms" (SIGCOMM 1996).
//! The virtual time advances by the service given, and at least to the earliest start among the
//! waiting classes. A request counts as served when it is dispatched, because a disk's service time
//! is unknown.
//!
//! With two classes of equal weight, a request of a class that does not exceed its rate completes
//! late by at most two services (in SFQ, as many as there are classes), which is its bound in RTT;
//! so with delta-C = Cmin no bound is missed.

use std::marker::PhantomData;

use super::tags::{Flows, UNIT};
use super::{Backlog, Capacity, Moment, Recombine};
use crate::contract::{Lane, Request};
use crate::rtt::Classes;

/// The order in which classes are served.
pub trait Order {
    /// Returns the class to serve next, and advances the virtual time.
    fn next(flows: &mut Flows, backlog: &Backlog) -> Option<usize>;
}

/// A shaper with fair queueing in the order `O`.
#[derive(Clone, Debug)]
pub struct FairQueue<O> {
    tiers: Classes,
    flows: Flows,
    /// The sum of all weights, which are given as rates.
    sum_iops: u64,
    order: PhantomData<O>,
}

/// A shaper with fair queueing by start times.
pub type Sfq = FairQueue<ByStart>;
/// A shaper with fair queueing by WF2Q+.
pub type Wf2q = FairQueue<ByFinish>;

/// SFQ's order.
#[derive(Clone, Debug)]
pub struct ByStart;

impl Order for ByStart {
    #[inline]
    fn next(flows: &mut Flows, backlog: &Backlog) -> Option<usize> {
        let all = &flows.flows;
        let ready = (0..all.len()).filter(|class| backlog.is_ready(*class));
        let class = ready.min_by_key(|class| (all[*class].start, *class))?;
        flows.now = flows.now.max(all[class].start);
        Some(class)
    }
}

/// WF2Q+'s order.
#[derive(Clone, Debug)]
pub struct ByFinish;

impl Order for ByFinish {
    #[inline]
    fn next(flows: &mut Flows, backlog: &Backlog) -> Option<usize> {
        let ready = |class: &usize| backlog.is_ready(*class);
        let all = &flows.flows;
        let starts = (0..all.len()).filter(ready).map(|class| all[class].start);
        let now = flows.now.max(starts.min()?);
        let due = (0..all.len()).filter(|class| all[*class].start <= now).filter(ready);
        let class = due.min_by_key(|class| (all[*class].finish(), *class))?;
        flows.now = now + UNIT;
        Some(class)
    }
}

impl<O> FairQueue<O> {
    /// Creates a shaper in which `tiers` and the rest share the server by `weights`, which must
    /// have one more entry than there are tiers.
    pub fn new(tiers: Classes, weights: &[u64]) -> FairQueue<O> {
        let (flows, sum_iops) = (Flows::new(weights), weights.iter().sum());
        FairQueue { tiers, flows, sum_iops, order: PhantomData }
    }
}

impl<O: Order> Recombine for FairQueue<O> {
    #[inline]
    fn arrive(&mut self, at: Moment, _: &Request, least: usize, backlog: &Backlog) -> usize {
        let class = at.admit(&mut self.tiers, least, backlog).unwrap_or(self.tiers.count());
        self.flows.arrive(class, backlog.waiting(class) > 0, backlog.is_idle());
        class
    }

    #[inline]
    fn next(&mut self, _: Moment, _lane: Lane, backlog: &Backlog) -> Option<usize> {
        let class = O::next(&mut self.flows, backlog)?;
        self.flows.serve(class);
        Some(class)
    }

    /// Returns the sum of all rates. The tiers' shares of the server do not depend on the pace.
    fn capacity(&self) -> Capacity {
        Capacity { scaled_iops: self.sum_iops, fixed_iops: 0 }
    }
}
