//! The verb `plan sla`: finds the capacity that a promise of several tiers needs, and checks a
//! given capacity.
//!
//! Source: the paper's section 3.2.2. A tier promises that at least a given share of all requests
//! is answered within a given time; `{(0.9, 20 ms), (0.99, 50 ms), (1, 500 ms)}` has three tiers.
//! RTT divides the work recursively: requests that one tier's server cannot answer in time go to
//! the server of the next tier.
//!
//! There are three ways to keep the promise; the answer is the one that needs the lowest capacity.
//! (1) Separate servers, one per tier, each with the lowest capacity that keeps its tier given the
//! servers before it. A sufficiently large server may also keep the tier after its own; the
//! cheapest of all such combinations is chosen. (2) One server that serves all requests first come,
//! first served (FCFS). (3) One server on which Miser schedules the classes of separate servers.
//! Below `floor_iops`, the highest capacity that any tier needs alone, no scheduler keeps the
//! promise. Some other scheduler may need a capacity between the floor and the answer.

mod file;
mod one_server;
mod page;
mod verb;

use forebay_core::rtt::{Gaps, Rtt};
use serde::Serialize;

use self::file::Tier;
pub use self::file::{Sla, TIERS_MAX};
pub use self::verb::{PromiseInput, SlaAsk};
use super::arrival_times::{ArrivalTimes, size_caution};
use super::capacity::beyond;
use super::search::least_capacities;
use crate::Error;

/// A tier of a promise, and how it is kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TierResult {
    /// The time within which the tier's requests are promised an answer.
    pub within_ms: f64,
    /// The share of all requests that is promised an answer within `within_ms`.
    pub fraction: f64,
    /// The capacity of the tier's server; `None` if the server of the previous tier also serves
    /// this tier, or if one server serves all tiers.
    pub share_iops: Option<u64>,
    /// The share of all requests that is answered within `within_ms`.
    pub achieved_fraction: f64,
    /// Whether `achieved_fraction` is at least the promised share.
    pub kept: bool,
}

/// A way to keep a promise of several tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// A server for each tier; some tiers may share one.
    SeparateServers,
    /// One server for all tiers, which serves requests first come, first served.
    Fcfs,
    /// One server for all tiers, on which Miser gives the slack of urgent classes to later ones.
    Miser,
}

/// How well a promise is kept at a given capacity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Division {
    /// How the capacity is used to keep the promise.
    pub way: Way,
    /// The total capacity of all servers.
    pub capacity_iops: u64,
    /// Whether the promise of every tier is kept.
    pub kept: bool,
    /// The policy that keeps the promise in this way, for `forebay serve`; `None` if no special
    /// policy is needed.
    pub policy: Option<String>,
    /// The tiers, in order of increasing time.
    pub tiers: Vec<TierResult>,
}

/// The answer of `plan sla`: the capacity that a promise needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Price {
    /// Cautions about the answer, one sentence each.
    pub cautions: Vec<String>,
    /// The capacity below which no scheduler keeps the promise.
    pub floor_iops: u64,
    /// The method that needs the lowest capacity, with that capacity.
    pub least: Division,
    /// The total capacity that separate servers need.
    pub separate_iops: u64,
    /// The capacity that one FCFS server needs; `None` if no supported capacity is enough.
    pub fcfs_iops: Option<u64>,
    /// The capacity that one server with Miser needs, if that is less than the other methods need.
    pub miser_iops: Option<u64>,
    /// How well the promise is kept at the user's capacity: with the simplest method that keeps it
    /// or, if there is none, on one server, first come, first served.
    pub checked: Option<Division>,
    /// All ways that were checked at that capacity, from the simplest on, up to the first that
    /// keeps the promise.
    pub checked_ways: Vec<Division>,
}

/// Finds the capacity that `sla` needs for `arrivals`. Also checks the promise at `capacity_iops`,
/// if given.
///
/// # Errors
/// Fails if no supported capacity keeps a tier.
pub fn price(
    arrivals: &ArrivalTimes,
    sla: &Sla,
    capacity_iops: Option<u64>,
) -> Result<Price, Error> {
    let whole = &arrivals.whole;
    let requests = whole.len() as u64;
    let (mut floor_iops, mut total) = (0, Vec::new());
    for tier in &sla.tiers {
        let least = least_capacities(whole, tier.within, &[tier.fraction.of(requests)])[0];
        let least =
            least.ok_or_else(|| beyond(arrivals.path.display(), tier.within, tier.fraction))?;
        floor_iops = floor_iops.max(least);
        total.push(tier.fraction.of(requests));
    }
    let mut servers = cheapest(whole, &sla.tiers, &total, 0).ok_or_else(|| {
        beyond(arrivals.path.display(), sla.tiers[0].within, sla.tiers[0].fraction)
    })?;
    // A tier for which no requests are left needs no server.
    servers.retain(|server| server.capacity_iops > 0);
    let separate = divide(whole, &sla.tiers, &servers);
    let separate_iops = separate.capacity_iops;
    let fcfs_iops = one_server::fcfs(whole, &sla.tiers, floor_iops);
    let best_iops = fcfs_iops.map_or(separate_iops, |fcfs| fcfs.min(separate_iops));
    let miser_iops = one_server::miser(whole, &sla.tiers, &servers, (floor_iops, best_iops));
    let least = match (miser_iops, fcfs_iops) {
        (Some(capacity), _) => on_one(whole, &sla.tiers, &servers, (Way::Miser, capacity)),
        (None, Some(fcfs)) if fcfs <= separate_iops => {
            on_one(whole, &sla.tiers, &servers, (Way::Fcfs, fcfs))
        }
        _ => separate.clone(),
    };
    let checked_ways = capacity_iops
        .map_or_else(Vec::new, |capacity| checked(whole, &sla.tiers, &servers, capacity));
    let checked = checked_ways.iter().find(|way| way.kept).or(checked_ways.first()).cloned();
    let cautions =
        arrivals.cautions().into_iter().chain(size_caution([arrivals], &["cost_us"])).collect();
    Ok(Price {
        cautions,
        floor_iops,
        least,
        separate_iops,
        fcfs_iops,
        miser_iops,
        checked,
        checked_ways,
    })
}

/// Evaluates the promise at `capacity_iops` in each way, from the simplest on, up to the first that
/// keeps it.
fn checked(whole: &Gaps, tiers: &[Tier], servers: &[Server], capacity_iops: u64) -> Vec<Division> {
    let mut ways = vec![Way::Fcfs];
    if servers.len() > 1 && whole.len() <= one_server::MISER_REQUESTS_MAX {
        ways.push(Way::Miser);
    }
    ways.push(Way::SeparateServers);
    let mut checked: Vec<Division> = Vec::new();
    for way in ways {
        if checked.last().is_some_and(|last| last.kept) {
            break;
        }
        checked.push(match way {
            Way::SeparateServers => {
                let divided = divide(whole, tiers, &handed_out(servers, capacity_iops));
                Division { capacity_iops, ..divided }
            }
            shared => on_one(whole, tiers, servers, (shared, capacity_iops)),
        });
    }
    checked
}

/// Evaluates each tier if one server serves all of them.
fn on_one(
    whole: &Gaps,
    tiers: &[Tier],
    servers: &[Server],
    (way, capacity_iops): (Way, u64),
) -> Division {
    let counts = match way {
        Way::Miser => one_server::miser_in_time(whole, tiers, servers, capacity_iops),
        Way::Fcfs | Way::SeparateServers => None,
    };
    let counts = counts.unwrap_or_else(|| one_server::fcfs_in_time(whole, tiers, capacity_iops));
    let requests = counts.requests;
    let kept = tiers.iter().zip(&counts.in_time).map(|(tier, in_time)| TierResult {
        within_ms: tier.within.as_millis_f64(),
        fraction: tier.fraction.as_f64(),
        share_iops: None,
        achieved_fraction: *in_time as f64 / requests.max(1) as f64,
        kept: *in_time >= tier.fraction.of(requests),
    });
    let kept_all = one_server::keeps(tiers, &counts);
    let policy = (way == Way::Miser).then(|| one_server::miser_spec(tiers, servers));
    Division { way, capacity_iops, kept: kept_all, policy, tiers: kept.collect() }
}

/// One of the separate servers: the tier that it is for, and its capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Server {
    tier: usize,
    capacity_iops: u64,
}

/// Finds the servers with the least total capacity that keep `tiers`, given the requests in `left`.
/// `needs` is, for each tier, how many requests must be answered by that tier and those before it;
/// `before` of them already are.
fn cheapest(left: &Gaps, tiers: &[Tier], needs: &[u64], before: u64) -> Option<Vec<Server>> {
    let Some(first) = tiers.first() else { return Some(Vec::new()) };
    let own: Vec<u64> = needs.iter().map(|need| need.saturating_sub(before)).collect();
    let capacities = least_capacities(left, first.within, &own);
    let mut best: Option<Vec<Server>> = None;
    for (joined, capacity) in capacities.into_iter().enumerate() {
        let Some(capacity_iops) = capacity else { continue };
        let (refused, admitted) = pass(left, first, capacity_iops);
        let (tiers, needs) = (&tiers[joined + 1..], &needs[joined + 1..]);
        let Some(mut rest) = cheapest(&refused, tiers, needs, before + admitted) else { continue };
        rest.iter_mut().for_each(|server| server.tier += joined + 1);
        rest.insert(0, Server { tier: 0, capacity_iops });
        if best.as_ref().is_none_or(|best| sum(&rest) < sum(best)) {
            best = Some(rest);
        }
    }
    best
}

fn sum(servers: &[Server]) -> u64 {
    servers.iter().map(|server| server.capacity_iops).sum()
}

/// Returns the requests that a tier's server refuses, and the number of requests that it admits.
fn pass(gaps: &Gaps, tier: &Tier, capacity_iops: u64) -> (Gaps, u64) {
    let Ok(mut rtt) = Rtt::new(capacity_iops, tier.within) else { return (gaps.clone(), 0) };
    let mut refused = Gaps::default();
    for at in gaps.times() {
        if !rtt.admit(at) {
            refused.push(at);
        }
    }
    let admitted = (gaps.len() - refused.len()) as u64;
    (refused, admitted)
}

/// Distributes `capacity` over the servers in order: each gets what it needs, and the last gets
/// what is left.
fn handed_out(servers: &[Server], capacity: u64) -> Vec<Server> {
    let mut left = capacity;
    let last = servers.len() - 1;
    let hand = |(index, server): (usize, &Server)| {
        let share = if index == last { left } else { left.min(server.capacity_iops) };
        left -= share;
        Server { capacity_iops: share, ..*server }
    };
    servers.iter().enumerate().map(hand).collect()
}

/// Evaluates each tier if `servers` serve them.
fn divide(whole: &Gaps, tiers: &[Tier], servers: &[Server]) -> Division {
    let requests = whole.len() as u64;
    let (mut left, mut done, mut kept) = (whole.clone(), 0, Vec::new());
    for (index, tier) in tiers.iter().enumerate() {
        let server = servers.iter().find(|server| server.tier == index);
        if let Some(server) = server {
            let (refused, admitted) = pass(&left, tier, server.capacity_iops);
            (left, done) = (refused, done + admitted);
        }
        kept.push(TierResult {
            within_ms: tier.within.as_millis_f64(),
            fraction: tier.fraction.as_f64(),
            share_iops: server.map(|server| server.capacity_iops),
            achieved_fraction: done as f64 / requests.max(1) as f64,
            kept: done >= tier.fraction.of(requests),
        });
    }
    let all = kept.iter().all(|tier| tier.kept);
    let (way, capacity_iops) = (Way::SeparateServers, sum(servers));
    Division { way, capacity_iops, kept: all, policy: None, tiers: kept }
}

#[cfg(test)]
mod tests {
    use super::one_server::keeps;
    use super::*;
    use forebay_core::Nanos;
    use std::path::Path;

    fn arrivals(times: impl Iterator<Item = u64>) -> ArrivalTimes {
        ArrivalTimes::of(times.map(Nanos).collect())
    }

    fn sla(tiers: &[(f64, f64)]) -> Sla {
        let table = |(fraction, within_ms): &(f64, f64)| {
            format!("[[tier]]\nfraction = {fraction:?}\nwithin_ms = {within_ms:?}\n")
        };
        Sla::read(Path::new("f"), &tiers.iter().map(table).collect::<String>()).unwrap()
    }

    const MS: u64 = 1_000_000;

    /// Returns one request per millisecond, with a burst of a hundred every second.
    fn bursty() -> ArrivalTimes {
        arrivals((0..3000).flat_map(|ms: u64| {
            let burst = if ms % 1000 == 500 { 100 } else { 1 };
            std::iter::repeat_n(ms * MS, burst)
        }))
    }

    #[test]
    fn a_second_tier_is_cheaper_than_one_for_all() {
        let trace = bursty();
        let one = price(&trace, &sla(&[(1.0, 10.0)]), None).unwrap();
        assert_eq!(one.least.capacity_iops, one.floor_iops);
        let two = price(&trace, &sla(&[(0.9, 10.0), (1.0, 500.0)]), None).unwrap();
        assert!(two.separate_iops < one.floor_iops / 3, "{two:?}");
        assert!(two.least.capacity_iops >= two.floor_iops && two.least.kept);
    }

    #[test]
    fn a_capacity_below_the_least_breaks_a_tier_and_the_least_none() {
        let (trace, sla) = (bursty(), sla(&[(0.9, 10.0), (0.99, 50.0), (1.0, 500.0)]));
        let least = price(&trace, &sla, None).unwrap().least.capacity_iops;
        let checked = |capacity| price(&trace, &sla, Some(capacity)).unwrap();
        let kept = |capacity| checked(capacity).checked.unwrap();
        // The simplest way that keeps the promise is named, and no other is checked then.
        let roomy = checked(100_000);
        assert_eq!(roomy.checked.unwrap().way, Way::Fcfs);
        assert_eq!(roomy.checked_ways.len(), 1);
        assert_eq!(checked(1).checked_ways.len(), 3);
        assert!(kept(least).kept && kept(2 * least).kept);
        for less in [least - 1, least / 2, 1] {
            let checked = kept(less);
            assert!(!checked.kept && checked.capacity_iops == less, "{checked:?}");
            assert_eq!(checked.way, Way::Fcfs);
        }
    }

    #[test]
    fn each_tier_has_what_those_before_it_left() {
        // Of ten requests at once, two are promised an answer within 10 ms, three more within 20
        // ms, and the other five within 100 ms.
        let trace = arrivals([0; 10].into_iter());
        let three = price(&trace, &sla(&[(0.2, 10.0), (0.5, 20.0), (1.0, 100.0)]), None).unwrap();
        assert_eq!((three.separate_iops, three.floor_iops), (400, 250));
        // One server with the capacity of the most expensive tier also keeps the others: at 250
        // IOPS, the second, fifth and tenth requests are done after 8, 20 and 40 ms.
        assert_eq!((three.least.way, three.least.capacity_iops), (Way::Fcfs, 250));
        let achieved: Vec<_> =
            three.least.tiers.iter().map(|tier| tier.achieved_fraction).collect();
        assert_eq!(achieved, [0.2, 0.5, 1.0]);
    }

    #[test]
    fn fcfs_has_the_least_capacity_that_keeps_every_tier() {
        // The load is one request per millisecond, with a burst every second.
        let trace = bursty();
        for tiers in [&[(0.9, 10.0), (0.99, 50.0), (1.0, 500.0)][..], &[(0.5, 3.0), (1.0, 90.0)]] {
            let found = price(&trace, &sla(tiers), None).unwrap();
            let least = found.fcfs_iops.unwrap();
            let tiers = &sla(tiers).tiers;
            let kept = |iops| keeps(tiers, &one_server::fcfs_in_time(&trace.whole, tiers, iops));
            assert!(kept(least) && !kept(least - 1), "{found:?}");
            assert!(found.least.capacity_iops <= least.min(found.separate_iops));
            assert!(found.least.kept && found.least.capacity_iops >= found.floor_iops);
        }
    }

    #[test]
    fn bursts_are_put_aside_if_cheaper_than_fcfs() {
        // The burst keeps FCFS busy for so long that many later requests are late.
        let steady = (0..10_000).map(|k| k * 10 * MS);
        let mut times: Vec<u64> = steady.chain(std::iter::repeat_n(50_000 * MS, 1000)).collect();
        times.sort_unstable();
        let trace = arrivals(times.into_iter());
        let found = price(&trace, &sla(&[(0.9, 10.0), (1.0, 30_000.0)]), None).unwrap();
        assert!(found.least.capacity_iops < found.fcfs_iops.unwrap(), "{found:?}");
        assert!(matches!(found.least.way, Way::Miser | Way::SeparateServers), "{found:?}");
    }

    #[test]
    fn a_tier_without_extra_cost_is_merged() {
        // A server of 1000 IOPS answers all requests of a steady load within 1 ms, and hence within
        // 2 ms.
        let trace = arrivals((0..1000).map(|ms| ms * MS));
        let two = price(&trace, &sla(&[(0.9, 1.0), (1.0, 2.0)]), None).unwrap();
        assert_eq!((two.separate_iops, two.fcfs_iops, two.miser_iops), (1000, Some(1000), None));
        assert_eq!(two.least.way, Way::Fcfs);
    }
}
