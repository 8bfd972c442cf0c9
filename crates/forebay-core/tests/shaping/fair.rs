//! Fair queueing as its sources define it: every request is tagged when it arrives.

use std::collections::VecDeque;

use forebay_core::Nanos;
use forebay_core::rtt::{Classes, Rtt};
use proptest::prelude::*;

use crate::shaping::harness::{arrivals, reads, run};

/// The virtual time of one service by the whole server. The policies use the same resolution.
const UNIT: u128 = 1 << 40;

/// Classes that share a server.
struct Fair {
    is_wf2q: bool,
    spans: Vec<u128>,
    /// The waiting requests of each class as (request, start tag).
    queues: Vec<VecDeque<(usize, u128)>>,
    /// The finish tag of each class's last request.
    finish: Vec<u128>,
    virtual_time: u128,
}

impl Fair {
    fn new(is_wf2q: bool, weights: &[u64]) -> Fair {
        let sum: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
        Fair {
            is_wf2q,
            spans: weights.iter().map(|weight| sum * UNIT / u128::from(*weight)).collect(),
            queues: vec![VecDeque::new(); weights.len()],
            finish: vec![0; weights.len()],
            virtual_time: 0,
        }
    }

    fn arrival(&mut self, id: usize, class: usize, is_idle: bool) {
        if is_idle {
            let latest = self.finish.iter().max().copied().unwrap_or(0);
            self.virtual_time = self.virtual_time.max(latest);
        }
        let start = self.virtual_time.max(self.finish[class]);
        self.finish[class] = start + self.spans[class];
        self.queues[class].push_back((id, start));
    }

    fn departure(&mut self) -> Option<(usize, u16)> {
        let heads = || {
            let firsts = self.queues.iter().enumerate();
            firsts.filter_map(|(class, queue)| Some((class, queue.front()?.1)))
        };
        let least = heads().map(|(_, start)| start).min()?;
        let now = self.virtual_time.max(least);
        let class = match self.is_wf2q {
            false => heads().min_by_key(|(class, start)| (*start, *class))?.0,
            true => {
                let due = heads().filter(|(_, start)| *start <= now);
                due.min_by_key(|(class, start)| (start + self.spans[*class], *class))?.0
            }
        };
        let (id, start) = self.queues[class].pop_front()?;
        self.virtual_time = if self.is_wf2q { now + UNIT } else { start };
        Some((id, class as u16))
    }

    /// Returns (request, class, start of service) in the order of service.
    fn serve(mut self, times: &[u64], classes: &[usize], service: u64) -> Vec<(usize, u16, u64)> {
        let (mut served, mut next, mut free) = (Vec::new(), 0, 0);
        while served.len() < times.len() {
            let waits = self.queues.iter().any(|queue| !queue.is_empty());
            let now = if waits { free } else { free.max(times[next]) };
            while times.get(next).is_some_and(|at| *at <= now) {
                // A request that arrives exactly when the last service ends finds the server idle.
                let is_idle = times[next] >= free && self.queues.iter().all(VecDeque::is_empty);
                self.arrival(next, classes[next], is_idle);
                next += 1;
            }
            if let Some((id, class)) = self.departure() {
                served.push((id, class, now));
                free = now + service;
            }
        }
        served
    }
}

proptest! {
    #[test]
    fn fair_queueing_follows_its_tags(
        times in arrivals(250), weights in prop::collection::vec(1u64..9, 3), is_wf2q in any::<bool>(),
        server in prop::sample::select(&[100u64, 250, 500, 1000][..]), tiers in 1usize..3,
    ) {
        let rates: Vec<u64> = weights[..tiers].iter().map(|weight| weight * 100).collect();
        let bounds = &[20u64, 50][..tiers];
        let rest = weights[2] * 100;
        let rtt = |(rate, ms): (&u64, &u64)| Rtt::new(*rate, Nanos::from_millis(*ms)).unwrap();
        let mut admits = Classes::new(rates.iter().zip(bounds).map(rtt).collect());
        let class = |at: &u64| admits.admit(Nanos(*at)).unwrap_or(tiers);
        let classes: Vec<usize> = times.iter().map(class).collect();
        let all: Vec<u64> = rates.iter().copied().chain([rest]).collect();
        let expected = Fair::new(is_wf2q, &all).serve(&times, &classes, 1_000_000_000 / server);
        let list = |numbers: &[u64]| {
            numbers.iter().map(u64::to_string).collect::<Vec<_>>().join("/")
        };
        let name = if is_wf2q { "wf2q" } else { "sfq" };
        let spec =
            format!("{name}:cmin={}:delta-ms={}:delta-c={rest}", list(&rates), list(bounds));
        let served: Vec<(usize, u16, u64)> = run(&spec, &[server], &reads(&times))
            .outcomes
            .iter()
            .map(|one| (one.request.id as usize, one.class, one.started.0))
            .collect();
        prop_assert_eq!(served, expected, "{}", spec);
    }
}
