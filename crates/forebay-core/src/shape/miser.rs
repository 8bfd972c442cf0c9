//! Miser: serves an unpromised request whenever every promised request can wait for one more
//! service and still meet its bound.
//!
//! Source: Lu, Algorithm 2. The slack of a request that joins Q1 is the number of free places in
//! Q1; each request served from Q2 meanwhile reduces it by one. Q2 is served while the minimum
//! slack in Q1 is at least 1, as in the text, or above 1, as in the listing.
//!
//! **With delta-C = Cmin, no request of Q1 is ever late**, for either admission rule. Let C be
//! Cmin, so the server's rate is 2C, and let M be the number of places, at most C times the bound.
//! Consider a request that makes the queue L long when it joins. If any request was served from Q2
//! since then, it waits for at most the rest of a service, L services of Q1 and M - L of Q2: M + 1
//! services at 2C. If none was, consider the last request served from Q2: Q1 then held less than M
//! requests, RTT has admitted at most what C serves since then and within the bound, and 2C served
//! nothing else.
//!
//! With more tiers, the classes after a tier are its Q2, recursively. A slack is stored as its sum
//! with the number of requests served from later classes, which never changes. The minimum is found
//! with a monotonic queue.

use std::collections::VecDeque;

use super::{Backlog, Capacity, Moment, Recombine};
use crate::contract::{Lane, Request};
use crate::rtt::Classes;

/// The state of a tier's queue.
#[derive(Clone, Debug)]
struct Tier {
    /// The number of requests that the tier may hold: rate times bound.
    places: i64,
    /// The number of requests that wait or are at the device.
    held: i64,
    /// The number of requests served from later classes.
    passed: i64,
    /// The number of requests added to and removed from the queue so far.
    arrived: u64,
    taken: u64,
    /// The waiting requests with less slack than all later ones, as (number, slack + `passed`).
    least: VecDeque<(u64, i64)>,
}

impl Tier {
    /// Adds a request; `places` is the number of places at the current pace.
    fn arrive(&mut self, places: i64) {
        self.held += 1;
        let slack = places - self.held + self.passed;
        while self.least.back().is_some_and(|(_, other)| *other >= slack) {
            self.least.pop_back();
        }
        self.least.push_back((self.arrived, slack));
        self.arrived += 1;
    }

    fn take(&mut self) {
        if self.least.front().is_some_and(|(number, _)| *number == self.taken) {
            self.least.pop_front();
        }
        self.taken += 1;
    }

    /// Returns the smallest slack of the waiting requests.
    fn slack(&self) -> Option<i64> {
        self.least.front().map(|(_, slack)| slack - self.passed)
    }
}

/// Returns the number of places at the current pace.
#[inline]
fn paced(at: Moment, places: i64) -> i64 {
    at.pace.of(places.unsigned_abs()) as i64
}

/// How a tier admits requests.
#[derive(Clone, Debug)]
pub enum Admission {
    /// Admits the requests that a server with only the tier's rate finishes in time, which is the
    /// maximum. Some may be late, because other requests are served in the meantime.
    Rate(Classes),
    /// Admits a request if the tier has fewer unfinished requests than places, as in the source's
    /// listing. Fewer requests may be admitted, but none is late if the server completes one more
    /// request within the bound than there are places, which delta-C = 1/bound ensures: each
    /// request waits for at most the rest of a service plus one service per place.
    Length,
}

/// A shaper that chooses the class by slack.
#[derive(Clone, Debug)]
pub struct Miser {
    admission: Admission,
    queues: Vec<Tier>,
    /// The minimum slack at which later classes are served.
    slack_min: i64,
    capacity: Capacity,
}

impl Miser {
    /// Creates a shaper. `places` contains rate times bound of each tier, rounded down. Later
    /// classes are served while the minimum slack is at least `slack_min`: 1 in the text, 2 in the
    /// listing. `capacity` is the server capacity required for all tiers and the rest.
    pub fn new(admission: Admission, places: &[u64], slack_min: u32, capacity: Capacity) -> Miser {
        let tier = |places: &u64| Tier {
            places: i64::try_from(*places).unwrap_or(i64::MAX >> 1),
            held: 0,
            passed: 0,
            arrived: 0,
            taken: 0,
            least: VecDeque::new(),
        };
        let queues = places.iter().map(tier).collect();
        Miser { admission, queues, slack_min: i64::from(slack_min), capacity }
    }
}

impl Recombine for Miser {
    #[inline]
    fn arrive(&mut self, at: Moment, _: &Request, least: usize, backlog: &Backlog) -> usize {
        let class = match &mut self.admission {
            Admission::Rate(tiers) => at.admit(tiers, least, backlog),
            Admission::Length => {
                let has_place = |tier: &usize| {
                    let Tier { held, places, .. } = self.queues[*tier];
                    held < paced(at, places)
                };
                (least..self.queues.len()).find(has_place)
            }
        };
        let class = class.unwrap_or(self.queues.len());
        if let Some(tier) = self.queues.get_mut(class) {
            tier.arrive(paced(at, tier.places));
        }
        class
    }

    #[inline]
    fn next(&mut self, _: Moment, _lane: Lane, backlog: &Backlog) -> Option<usize> {
        let mut chosen = None;
        for class in (0..=self.queues.len()).filter(|class| backlog.is_ready(*class)) {
            chosen = Some(class);
            let slack = self.queues.get(class).and_then(Tier::slack);
            if slack.is_some_and(|slack| slack < self.slack_min) {
                break;
            }
        }
        let class = chosen?;
        self.queues[..class].iter_mut().for_each(|tier| tier.passed += 1);
        if let Some(tier) = self.queues.get_mut(class) {
            tier.take();
        }
        Some(class)
    }

    #[inline]
    fn completed(&mut self, class: usize) {
        if let Some(tier) = self.queues.get_mut(class) {
            tier.held -= 1;
        }
    }

    fn capacity(&self) -> Capacity {
        self.capacity
    }
}
