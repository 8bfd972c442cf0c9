//! The most requests of unequal cost that a server answers in time, and the least speed for a number of them.
//!
//! With unequal costs admitting whatever still fits, as RTT does, is not best: a long request may keep out several
//! short ones. Deadlines are in the order of arrivals here, and for that case there is an exact rule (H. Kise,
//! T. Ibaraki, H. Mine, *A solvable case of the one-machine scheduling problem with ready and due times*, Operations
//! Research 26(1), 1978): take requests as they come; when one would be late, put aside the one whose absence lets the
//! last one end soonest, be it an earlier one. It knows what comes when it puts aside, so it is a bound for every
//! scheduler on line. Where this departs from the source: only the running busy period is kept, since nothing before it
//! can end sooner.
//!
//! **Monotone.** What some order does in time a faster server does too, so the most never falls with the speed.
//!
//! **Several servers.** One of the sum of their speeds does in time whatever they do: it can work for each at that
//! one's speed, and need not divide its time, since deadlines are in the order of arrivals.
//!
//! Invariant: exact, in whole numbers.

use forebay_core::Nanos;

use super::cost::{Cost, PARTS_OF_NS};
use crate::plan::search::least;

/// The highest speed that is tried, in thousandths.
pub(super) const SPEED_MAX: u64 = 1_000_000_000;

/// When a request arrives, and its length in bytes.
pub(super) type Arrival = (Nanos, u32);

/// The least speed in thousandths, from `from` on, that is `enough`, as every higher one is; none above [`SPEED_MAX`].
pub(super) fn least_speed(from: u64, enough: impl FnMut(u64) -> bool) -> Option<u64> {
    // Doubled first: passes at low speeds, where much is put aside, cost most.
    let from = from.max(1);
    least(from, SPEED_MAX, from, enough)
}

/// A request that is to be answered in time.
#[derive(Clone, Copy, Debug)]
struct Taken {
    index: usize,
    at: u128,
    service: u128,
    begins: u128,
}

impl Taken {
    fn waits(&self) -> u128 {
        self.begins - self.at
    }
}

/// The most of `requests` that a server of so many thousandths of speed answers within the bound.
pub(super) fn in_time(requests: &[Arrival], cost: Cost, within: Nanos, speed: u64) -> u64 {
    let mut aside = 0;
    put_aside_of(requests, cost, within, speed, |_| aside += 1);
    requests.len() as u64 - aside
}

/// Those of `requests` that it answers: of the largest sets the one that the rule ends with.
pub(super) fn answered(
    requests: &[Arrival],
    cost: Cost,
    within: Nanos,
    speed: u64,
) -> impl Iterator<Item = Arrival> {
    let mut kept = vec![true; requests.len()];
    put_aside_of(requests, cost, within, speed, |index| kept[index] = false);
    requests.iter().zip(kept).filter(|(_, kept)| *kept).map(|(request, _)| *request)
}

/// Tells `took` how long each of `requests` takes from its arrival, first come first served and nothing put aside, in
/// units of which [`scale`] has so many a nanosecond.
pub(super) fn first_come(requests: &[Arrival], cost: Cost, speed: u64, mut took: impl FnMut(u128)) {
    let (scale, mut free) = (scale(speed), 0);
    for (at, len) in requests {
        let at = u128::from(at.0) * scale;
        free = at.max(free) + cost.parts(*len) * 1000;
        took(free - at);
    }
}

/// Units of time a nanosecond, in which services at so many thousandths of speed are whole.
pub(super) fn scale(speed: u64) -> u128 {
    PARTS_OF_NS * u128::from(speed)
}

/// Tells `aside` the place of each request that is put aside.
fn put_aside_of(
    requests: &[Arrival],
    cost: Cost,
    within: Nanos,
    speed: u64,
    mut aside: impl FnMut(usize),
) {
    let scale = scale(speed);
    let within = u128::from(within.0) * scale;
    // Of the running busy period, in the order in which they are served.
    let mut taken: Vec<Taken> = Vec::new();
    let mut free = 0;
    for (index, (at, len)) in requests.iter().enumerate() {
        let (at, service) = (u128::from(at.0) * scale, cost.parts(*len) * 1000);
        if at >= free {
            taken.clear();
            free = at;
        }
        let new = Taken { index, at, service, begins: free };
        let ends = free + service;
        if ends <= at + within {
            taken.push(new);
            free = ends;
        } else if let Some(worst) = worth_more_aside(&taken, new) {
            aside(taken[worst].index);
            taken.push(new);
            free = put_aside(&mut taken, worst);
        } else {
            aside(index);
        }
    }
}

/// Which of `taken` to put aside for `new` to end sooner than all do without `new`; none if it is `new` itself.
fn worth_more_aside(taken: &[Taken], new: Taken) -> Option<usize> {
    let (mut most, mut best) = (new.service, None);
    // No later one may begin before it arrives.
    let mut limit = new.waits();
    for (index, one) in taken.iter().enumerate().rev() {
        if limit <= most {
            break;
        }
        let sooner = one.service.min(limit);
        if sooner > most {
            (most, best) = (sooner, Some(index));
        }
        limit = limit.min(one.waits());
    }
    best
}

/// Takes one out and lets those after it begin sooner; when all are done.
fn put_aside(taken: &mut Vec<Taken>, aside: usize) -> u128 {
    let mut sooner = taken[aside].service;
    let mut begins = 0;
    for (index, one) in taken.iter_mut().enumerate().skip(aside + 1) {
        sooner = sooner.min(one.waits());
        one.begins -= sooner;
        if one.waits() == 0 {
            begins = index;
        }
    }
    let free = taken.last().map_or(0, |last| last.begins + last.service);
    // What comes before one that does not wait can no longer let anything end sooner.
    if begins > aside {
        taken.drain(..begins);
    } else {
        taken.remove(aside);
    }
    free
}
