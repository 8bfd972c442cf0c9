//! Compares Miser with a literal implementation of the paper's Algorithm 2, on a server of constant
//! rate.

use std::collections::VecDeque;

use forebay_core::Nanos;
use forebay_core::rtt::Rtt;
use proptest::prelude::*;

use crate::shaping::harness::{arrivals, reads, run};

/// The choices that the paper's listing leaves open.
struct Form {
    by_rate: bool,
    /// Whether the condition is `minSlack > 1`, as in the listing. The paper's text says at least
    /// 1.
    above_one: bool,
}

/// Algorithms 1 and 2 with plain lists of requests, each with its own slack.
struct Listing {
    form: Form,
    rtt: Rtt,
    max_q1: i64,
    len_q1: i64,
    min_slack: Option<i64>,
    q1: VecDeque<(usize, i64)>,
    q2: VecDeque<usize>,
}

impl Listing {
    fn arrival(&mut self, id: usize, at: u64) {
        let decompose = match self.form.by_rate {
            true => self.rtt.admit(Nanos(at)),
            false => self.len_q1 < self.max_q1,
        };
        if !decompose {
            return self.q2.push_back(id);
        }
        self.len_q1 += 1;
        let slack = self.max_q1 - self.len_q1;
        self.q1.push_back((id, slack));
        self.min_slack = Some(self.min_slack.map_or(slack, |min| min.min(slack)));
    }

    /// Returns the request to issue and its queue.
    fn departure(&mut self) -> Option<(usize, u16)> {
        let allowed = self.min_slack.is_none_or(|min| match self.form.above_one {
            true => min > 1,
            false => min >= 1,
        });
        let from_q2 = allowed && !self.q2.is_empty();
        if from_q2 {
            self.q1.iter_mut().for_each(|(_, slack)| *slack -= 1);
            self.min_slack = self.min_slack.map(|min| min - 1);
            return self.q2.pop_front().map(|id| (id, 1));
        }
        let (id, slack) = self.q1.pop_front()?;
        if Some(slack) == self.min_slack {
            self.min_slack = self.q1.iter().map(|(_, slack)| *slack).min();
        }
        Some((id, 0))
    }
}

/// Returns the request, class and start of every service, in order.
fn by_listing(mut listing: Listing, times: &[u64], service: u64) -> Vec<(usize, u16, u64)> {
    let mut served = Vec::new();
    let (mut next, mut now) = (0, 0);
    let mut serving: Option<(u64, u16)> = None;
    while served.len() < times.len() || serving.is_some() {
        let arrives = times.get(next).copied();
        let done = serving.map(|(at, _)| at);
        now = match (arrives, done) {
            (Some(arrives), Some(done)) => arrives.min(done),
            (arrives, done) => arrives.or(done).unwrap_or(now),
        };
        if let Some((at, class)) = serving
            && at == now
        {
            listing.len_q1 -= i64::from(class == 0);
            serving = None;
        }
        while times.get(next) == Some(&now) {
            listing.arrival(next, now);
            next += 1;
        }
        if serving.is_none()
            && let Some((id, class)) = listing.departure()
        {
            serving = Some((now + service, class));
            served.push((id, class, now));
        }
    }
    served
}

proptest! {
    #[test]
    fn miser_agrees_with_the_papers_listing(
        times in arrivals(250), rate in prop::sample::select(&[50u64, 100, 200, 500][..]),
        server in prop::sample::select(&[100u64, 250, 500][..]),
        by_rate in any::<bool>(), above_one in any::<bool>(), within_ms in 20u64..120,
    ) {
        let listing = Listing {
            form: Form { by_rate, above_one },
            rtt: Rtt::new(rate, Nanos::from_millis(within_ms)).unwrap(),
            max_q1: (rate * within_ms / 1000) as i64,
            len_q1: 0,
            min_slack: None,
            q1: VecDeque::new(),
            q2: VecDeque::new(),
        };
        let expected = by_listing(listing, &times, 1_000_000_000 / server);
        let admission = if by_rate { "rate" } else { "length" };
        let slack_min = if above_one { 2 } else { 1 };
        let spec = format!(
            "miser:cmin={rate}:delta-ms={within_ms}:admission={admission}:slack-min={slack_min}"
        );
        let ran = run(&spec, &[server], &reads(&times));
        let served: Vec<(usize, u16, u64)> = ran
            .outcomes
            .iter()
            .map(|one| (one.request.id as usize, one.class, one.started.0))
            .collect();
        prop_assert_eq!(served, expected);
    }
}

/// A request waiting in a tier, and its slack, which each service of a later class reduces by one.
struct Waits {
    id: usize,
    slack: i64,
}

/// Two tiers and the rest, with an individual slack for each request.
struct Recursion {
    places: [i64; 2],
    held: [i64; 2],
    queues: [VecDeque<Waits>; 3],
    slack_min: i64,
}

impl Recursion {
    fn arrival(&mut self, id: usize) {
        let class = (0..2).find(|tier| self.held[*tier] < self.places[*tier]).unwrap_or(2);
        if class < 2 {
            self.held[class] += 1;
        }
        let slack = if class < 2 { self.places[class] - self.held[class] } else { i64::MAX };
        self.queues[class].push_back(Waits { id, slack });
    }

    /// Serves the first class with an urgent request, or else the last class that has requests.
    fn departure(&mut self) -> Option<(usize, u16)> {
        let waiting: Vec<usize> = (0..3).filter(|class| !self.queues[*class].is_empty()).collect();
        let urgent =
            |class: &&usize| self.queues[**class].iter().any(|waits| waits.slack < self.slack_min);
        let class = *waiting.iter().find(urgent).or(waiting.last())?;
        for tier in 0..class {
            self.queues[tier].iter_mut().for_each(|waits| waits.slack -= 1);
        }
        Some((self.queues[class].pop_front()?.id, class as u16))
    }
}

proptest! {
    #[test]
    fn tiers_are_miser_by_recursion(
        times in arrivals(250), rates in (1u64..4, 1u64..4), slack_min in 1u32..3,
        server in prop::sample::select(&[100u64, 250, 500][..]),
    ) {
        let (a, b) = (rates.0 * 100, rates.1 * 100);
        let mut tiers = Recursion {
            places: [(a / 50) as i64, (b / 20) as i64],
            held: [0; 2],
            queues: Default::default(),
            slack_min: slack_min.into(),
        };
        let service = 1_000_000_000 / server;
        let (mut expected, mut next, mut now) = (Vec::new(), 0, 0);
        let mut serving: Option<(u64, u16)> = None;
        while expected.len() < times.len() || serving.is_some() {
            let done = serving.map(|(at, _)| at);
            now = times.get(next).copied().into_iter().chain(done).min().unwrap_or(now);
            if let Some((at, class)) = serving && at == now {
                if class < 2 {
                    tiers.held[usize::from(class)] -= 1;
                }
                serving = None;
            }
            while times.get(next) == Some(&now) {
                tiers.arrival(next);
                next += 1;
            }
            if serving.is_none() && let Some((id, class)) = tiers.departure() {
                serving = Some((now + service, class));
                expected.push((id, class, now));
            }
        }
        let spec = format!("miser:cmin={a}/{b}:delta-ms=20/50:slack-min={slack_min}");
        let ran = run(&spec, &[server], &reads(&times));
        let served: Vec<(usize, u16, u64)> = ran
            .outcomes
            .iter()
            .map(|one| (one.request.id as usize, one.class, one.started.0))
            .collect();
        prop_assert_eq!(served, expected, "{}", spec);
    }
}
