//! Miser: serves unpromised requests whenever no promised request is so close to its bound that it
//! could not wait for one more service.
//!
//! Source: Lu, Algorithm 2. A request that joins Q1 gets the number of free places in Q1 as its
//! slack; each request served from Q2 meanwhile reduces it by one. Q2 is served while the least
//! slack in Q1 is at least 1, as in the text, or above 1, as in the listing.
//!
//! **With delta-C = Cmin, no request of Q1 is ever late**, for either admission rule. Let M be the
//! number of places, at most C times the bound. A request that, on joining, brought the queue to L
//! waits for at most the rest of a service, L services of Q1 and, if any request was served from Q2
//! since then, M - L of Q2: M + 1 services at 2C. If none was, consider the last request served
//! from Q2: Q1 then held less than M, RTT has admitted at most what C serves since then and within
//! the bound, and 2C did nothing but serve it.
//!
//! More tiers: the classes after a tier are its Q2, recursively. Slacks are stored as their sum
//! with the number served from below, which never changes; the minimum is found with a monotonic
//! queue.

use std::collections::VecDeque;

use super::{Backlog, Capacity, Moment, Recombine};
use crate::contract::request::{Lane, Request};
use crate::rtt::Classes;

/// A tier's queue as Miser sees it.
#[derive(Clone, Debug)]
struct Tier {
    /// Requests it may hold: rate times bound.
    places: i64,
    /// Requests that wait or are at the device.
    held: i64,
    /// Requests served from later classes.
    passed: i64,
    /// Requests put into and taken from the queue.
    arrived: u64,
    taken: u64,
    /// (number, slack + passed) of those with less than any after them.
    least: VecDeque<(u64, i64)>,
}

impl Tier {
    /// `places` is the number of places that the pace leaves.
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

/// Returns the number of places that the pace leaves.
#[inline]
fn paced(at: Moment, places: i64) -> i64 {
    at.pace.of(places.unsigned_abs()) as i64
}

/// How a tier admits requests.
#[derive(Clone, Debug)]
pub enum Admission {
    /// Requests that a server with only the tier's rate finishes in time, which is the maximum.
    /// Some may be late, because other requests were served in the meantime.
    Rate(Classes),
    /// Those that find a place among the tier's requests that are not complete, as in the source's
    /// listing. None is late where the server does one request more than there are places within
    /// the bound, which delta-C = 1/bound ensures: each waits for at most the rest of a
    /// service and as many more as there are places. Fewer may be taken.
    Length,
}

/// Recombination by slack.
#[derive(Clone, Debug)]
pub struct Miser {
    admission: Admission,
    queues: Vec<Tier>,
    /// The least slack at which later classes are served.
    slack_min: i64,
    capacity: Capacity,
}

impl Miser {
    /// `places` holds rate times bound of each tier, rounded down. Later classes are served
    /// while the least slack is `slack_min` or more: 1 in the text, 2 in the listing.
    /// `capacity` is what they and the rest need of the server.
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
