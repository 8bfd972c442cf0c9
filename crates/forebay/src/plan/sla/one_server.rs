//! Evaluates a promise of several tiers on one server that all requests share.
//!
//! **FCFS.** Requests are served first come, first served, and none is deferred. A faster server
//! answers no request later, so the number answered in time never falls as the capacity increases,
//! and bisection finds the lowest capacity exactly. Time is counted as in RTT
//! ([`forebay_core::rtt`]).
//!
//! **Miser.** The classes of separate servers, with their rates, are scheduled on one server that
//! is smaller than their sum. Less urgent classes wait whenever the slack of more urgent ones
//! requires it. Whether that keeps the promise is simulated. More capacity is not always better, so
//! the result is the lowest capacity that bisection finds; one IOPS less was simulated and breaks a
//! tier.

use forebay_core::catalog::build;
use forebay_core::contract::AnyPolicy;
use forebay_core::device::fixed::Fixed;
use forebay_core::replay::{Intensity, Open};
use forebay_core::rtt::{Gaps, RATE_MAX_IOPS};
use forebay_core::{Done, Flags, Nanos, Observer, Op, Request, simulate};

use super::Server;
use super::file::Tier;
use crate::plan::search::least;

/// The maximum number of requests for which Miser is simulated; longer traces would take minutes.
pub(super) const MISER_REQUESTS_MAX: usize = 2_000_000;

/// Returns the lowest capacity, but not below `floor_iops`, at which FCFS keeps all of `tiers`.
pub(super) fn fcfs(gaps: &Gaps, tiers: &[Tier], floor_iops: u64) -> Option<u64> {
    // The result is usually near the floor, so the search starts with small steps.
    least(floor_iops, RATE_MAX_IOPS, floor_iops / 16, |capacity| {
        keeps(tiers, &fcfs_in_time(gaps, tiers, capacity))
    })
}

/// Finds a capacity from `floor_iops` up to but excluding `most_iops` at which Miser, with the
/// classes of `servers`, keeps all of `tiers`; `None` if it finds none.
pub(super) fn miser(
    gaps: &Gaps,
    tiers: &[Tier],
    servers: &[Server],
    (floor_iops, most_iops): (u64, u64),
) -> Option<u64> {
    if servers.len() < 2 || most_iops <= floor_iops || gaps.len() > MISER_REQUESTS_MAX {
        return None;
    }
    least(floor_iops, most_iops - 1, floor_iops / 16, |capacity| {
        miser_in_time(gaps, tiers, servers, capacity).is_some_and(|counts| keeps(tiers, &counts))
    })
}

/// Counts the requests that FCFS answers within each tier's time.
pub(super) fn fcfs_in_time(gaps: &Gaps, tiers: &[Tier], capacity_iops: u64) -> Counts {
    let rate = u128::from(capacity_iops.max(1));
    let bounds: Vec<u128> = tiers.iter().map(|tier| u128::from(tier.within.0) * rate).collect();
    let mut counts = Counts { requests: gaps.len() as u64, in_time: vec![0; tiers.len()] };
    let mut free = 0u128;
    for at in gaps.times() {
        let arrival = u128::from(at.0) * rate;
        free = free.max(arrival) + SERVICE;
        for (bound, count) in bounds.iter().zip(&mut counts.in_time) {
            *count += u64::from(free - arrival <= *bound);
        }
    }
    counts
}

/// Counts the requests that Miser answers within each tier's time, with the classes of `servers` on
/// one server; `None` if Miser does not accept these classes.
pub(super) fn miser_in_time(
    gaps: &Gaps,
    tiers: &[Tier],
    servers: &[Server],
    capacity_iops: u64,
) -> Option<Counts> {
    let spec = format!("{}:dependencies=no", miser_spec(tiers, servers));
    let device = Fixed::new(capacity_iops as f64).ok()?;
    Some(counted(gaps, tiers, device, build(&spec, u32::MAX).ok()?))
}

/// Returns the spec of Miser with the classes of `servers`.
pub(super) fn miser_spec(tiers: &[Tier], servers: &[Server]) -> String {
    let listed =
        |show: &dyn Fn(&Server) -> String| servers.iter().map(show).collect::<Vec<_>>().join("/");
    let rates = listed(&|server| server.capacity_iops.to_string());
    let bounds = listed(&|server| tiers[server.tier].within.as_millis_f64().to_string());
    format!("miser:cmin={rates}:delta-ms={bounds}")
}

/// The duration of a service, in units of `1 / rate` nanoseconds.
const SERVICE: u128 = 1_000_000_000;

/// The number of requests, and how many of them are answered within each tier's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) requests: u64,
    pub(super) in_time: Vec<u64>,
}

pub(super) fn keeps(tiers: &[Tier], counts: &Counts) -> bool {
    let needs = tiers.iter().map(|tier| tier.fraction.of(counts.requests));
    counts.in_time.iter().zip(needs).all(|(count, need)| *count >= need)
}

/// Simulates `policy` on `device` with these arrivals, and counts the requests answered in time.
fn counted(gaps: &Gaps, tiers: &[Tier], device: Fixed, mut policy: AnyPolicy) -> Counts {
    let request = |(index, at): (usize, Nanos)| Request {
        at,
        offset: index as u64 * 4096,
        id: index as u64,
        len: 4096,
        stream: 0,
        lane: 0,
        op: Op::Read,
        flags: Flags::NONE,
    };
    let requests = gaps.times().enumerate().map(request);
    let mut workload = Open::new(requests, Intensity::RECORDED);
    let counts = Counts { requests: gaps.len() as u64, in_time: vec![0; tiers.len()] };
    let mut watch = Watch { tiers, counts };
    simulate::run(&mut policy, &mut [device], &mut workload, &mut watch);
    watch.counts
}

struct Watch<'a> {
    tiers: &'a [Tier],
    counts: Counts,
}

impl Observer for Watch<'_> {
    fn finished(&mut self, now: Nanos, done: &Done) {
        let took = done.latency(now);
        for (tier, count) in self.tiers.iter().zip(&mut self.counts.in_time) {
            *count += u64::from(took <= tier.within);
        }
    }
}
