//! The arrivals of several clients, merged by time. The client of each request is kept.
//!
//! Each request takes six bytes of memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use forebay_core::Nanos;
use forebay_core::rtt::{Gaps, RATE_MAX_IOPS, Rtt, least_rate_for_all};

use crate::plan::arrival_times::ArrivalTimes;
use crate::plan::consolidate::Begin;
use crate::plan::search;
use forebay_ask::Share;

/// Returns the arrival times of each of `clients`, with their start times aligned as `begin` says
/// and client `k` delayed by `k` shifts.
pub(crate) fn times<'a>(
    clients: &[&'a ArrivalTimes],
    begin: Begin,
    shift: Nanos,
) -> Vec<impl Iterator<Item = Nanos> + use<'a>> {
    let earliest = clients.iter().map(|client| client.whole.first()).min().unwrap_or_default();
    let each = clients.iter().enumerate().map(|(k, client)| {
        let late = Nanos(shift.0.saturating_mul(k as u64));
        let first = match begin {
            Begin::Together => client.whole.first(),
            Begin::AsRecorded | Begin::OwnClocks => earliest,
        };
        client.whole.times().map(move |at| at - first + late)
    });
    each.collect()
}

/// The arrivals of all clients in order of time.
pub(super) struct Merged {
    pub(super) times: Gaps,
    /// The client of each arrival, by index.
    clients: Vec<u16>,
    /// The number of requests of each client.
    pub(super) requests: Vec<u64>,
}

impl Merged {
    /// Merges the arrivals of up to 65,536 `clients`, with their start times aligned as `begin`
    /// says and client `k` delayed by `k` shifts.
    pub(super) fn new(clients: &[&ArrivalTimes], begin: Begin, shift: Nanos) -> Merged {
        let mut sources = times(clients, begin, shift);
        let mut heads = BinaryHeap::new();
        for (k, source) in sources.iter_mut().enumerate() {
            heads.extend(source.next().map(|at| Reverse((at, k))));
        }
        let (mut times, mut owners) = (Gaps::default(), Vec::new());
        while let Some(Reverse((at, k))) = heads.pop() {
            times.push(at);
            owners.push(k as u16);
            heads.extend(sources[k].next().map(|at| Reverse((at, k))));
        }
        let requests = clients.iter().map(|client| client.requests()).collect();
        Merged { times, clients: owners, requests }
    }

    /// Returns how many requests of each client are answered in time by RTT over all clients.
    pub(super) fn answered(&self, within: Nanos, capacity_iops: u64) -> Vec<u64> {
        let mut answered = vec![0; self.requests.len()];
        let Ok(mut rtt) = Rtt::new(capacity_iops, within) else { return answered };
        for (at, client) in self.times.times().zip(&self.clients) {
            answered[usize::from(*client)] += u64::from(rtt.admit(at));
        }
        answered
    }

    /// Merges the requests that RTT admits for each client by itself, at that client's capacity in
    /// `capacities_iops`. These are all the requests that were promised an answer.
    pub(super) fn shaped(&self, within: Nanos, capacities_iops: &[u64]) -> Gaps {
        let mut shapers: Vec<Option<Rtt>> =
            capacities_iops.iter().map(|iops| Rtt::new(*iops, within).ok()).collect();
        let mut promised = Gaps::default();
        for (at, client) in self.times.times().zip(&self.clients) {
            let shaper = shapers[usize::from(*client)].as_mut();
            if shaper.is_some_and(|shaper| shaper.admit(at)) {
                promised.push(at);
            }
        }
        promised
    }

    /// Returns the client whose share falls short of `fraction` by most at this capacity; `None` if
    /// no client's does.
    pub(super) fn misses(&self, within: Nanos, fraction: Share, capacity: u64) -> Option<usize> {
        let answered = self.answered(within, capacity);
        let short = answered.iter().zip(&self.requests).enumerate();
        let short = short.filter(|(_, (in_time, all))| **in_time < fraction.of(**all));
        let share = |(in_time, all): (&u64, &u64)| *in_time as f64 / *all as f64;
        short.min_by(|a, b| share(a.1).total_cmp(&share(b.1))).map(|(client, _)| client)
    }

    /// Finds, by bisection, the capacity of at least `least` that answers the share `fraction` of
    /// every client's requests; `None` if the highest capacity does not.
    pub(super) fn every_client(&self, within: Nanos, fraction: Share, least: u64) -> Option<u64> {
        let kept = |capacity: u64| self.misses(within, fraction, capacity).is_none();
        // A capacity that answers all requests in time certainly keeps the promise to every client.
        let most = least_rate_for_all(&self.times, within).unwrap_or(RATE_MAX_IOPS);
        search::least(least, most, most.saturating_sub(least), kept)
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn arrivals(times: &[u64]) -> ArrivalTimes {
        ArrivalTimes::of(times.iter().copied().map(Nanos).collect())
    }

    #[test]
    fn clients_are_merged_in_order_from_their_first_request() {
        let (a, b) = (arrivals(&[100, 300]), arrivals(&[7, 8, 300]));
        let merged = Merged::new(&[&a, &b], Begin::Together, Nanos(10));
        let times: Vec<u64> = merged.times.times().map(|at| at.0).collect();
        assert_eq!(times, [0, 10, 11, 200, 303]);
        assert_eq!((merged.clients, merged.requests), (vec![0, 1, 1, 0, 1], vec![2, 3]));
        let recorded = Merged::new(&[&a, &b], Begin::AsRecorded, Nanos(0));
        let times: Vec<u64> = recorded.times.times().map(|at| at.0).collect();
        assert_eq!(times, [0, 1, 93, 293, 293]);
    }

    #[test]
    fn one_iops_less_breaks_a_promise() {
        let a: Vec<u64> = (0..40).map(|k| k * k * 100_000).collect();
        let b: Vec<u64> = (0..60).map(|k| k / 20 * 50_000_000).collect();
        let merged = Merged::new(&[&arrivals(&a), &arrivals(&b)], Begin::Together, Nanos::ZERO);
        let (within, fraction) = (Nanos(10_000_000), "0.8".parse().unwrap());
        let found = merged.every_client(within, fraction, 1).unwrap();
        let kept = |capacity| {
            let answered = merged.answered(within, capacity);
            answered[0] >= 32 && answered[1] >= 48
        };
        assert!(kept(found) && !kept(found - 1), "{found}");
        // If the search starts above the capacity needed, it returns where it started.
        assert_eq!(merged.every_client(within, fraction, found + 7), Some(found + 7));
    }
}
