//! Computes the highest number of requests of unequal cost that a server can answer in time, and
//! the lowest speed at which it answers a given number.
//!
//! If costs are unequal, it is not optimal to admit whatever still fits, as RTT does: a long
//! request may displace several short ones. Deadlines are in the order of arrivals here, and for
//! that case there is an exact rule (H. Kise, T. Ibaraki, H. Mine, *A solvable case of the
//! one-machine scheduling problem with ready and due times*, Operations Research 26(1), 1978): take
//! requests in order of arrival. Whenever one would be late, put aside the request, possibly an
//! earlier one, whose removal lets the last one end soonest. The rule is offline, because a request
//! may be put aside when a later one arrives. The result is therefore a bound for every online
//! scheduler. Departure from the source: only the current busy period is kept, because removing a
//! request before it cannot make anything end sooner.
//!
//! **Monotone.** A faster server can answer in time whatever a slower one can, so the number never
//! falls as the speed increases.
//!
//! **Several servers.** One server with the sum of the speeds of several can answer in time
//! whatever the several servers answer together. It can work for each of them at that server's
//! speed; and because deadlines are in the order of arrivals, it does not have to divide its time.
//!
//! Invariant: all arithmetic is in exact integers.

use forebay_core::Nanos;

use super::cost::{Cost, PARTS_OF_NS};
use crate::plan::search::least;

/// The highest speed that is tried, in thousandths.
pub(super) const SPEED_MAX: u64 = 1_000_000_000;

/// A request's arrival time and its length in bytes.
pub(super) type Arrival = (Nanos, u32);

/// Finds the lowest speed, in thousandths and at least `from`, for which `enough` returns true;
/// `None` if there is none up to [`SPEED_MAX`]. Every higher speed must be enough as well.
pub(super) fn least_speed(from: u64, enough: impl FnMut(u64) -> bool) -> Option<u64> {
    // Doubling comes first because low speeds, at which many requests are put aside, take longest
    // to test.
    let from = from.max(1);
    least(from, SPEED_MAX, from, enough)
}

/// A request that is served in time, unless it is discarded later.
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

/// Returns the highest number of `requests` that a server of `speed`, in thousandths, can answer
/// within the time bound.
pub(super) fn in_time(requests: &[Arrival], cost: Cost, within: Nanos, speed: u64) -> u64 {
    let mut aside = 0;
    put_aside_of(requests, cost, within, speed, |_| aside += 1);
    requests.len() as u64 - aside
}

/// Returns the requests that a server of `speed` answers in time: the largest such set, or the one
/// that the rule finds if several are equally large.
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

/// Serves all of `requests` first come, first served. Calls `took` with the response time of each,
/// in units of `1 / scale(speed)` ns (see [`scale`]).
pub(super) fn first_come(requests: &[Arrival], cost: Cost, speed: u64, mut took: impl FnMut(u128)) {
    let (scale, mut free) = (scale(speed), 0);
    for (at, len) in requests {
        let at = u128::from(at.0) * scale;
        free = at.max(free) + cost.parts(*len) * 1000;
        took(free - at);
    }
}

/// Returns the number of units per nanosecond in which service times at `speed`, in thousandths,
/// are whole numbers.
pub(super) fn scale(speed: u64) -> u128 {
    PARTS_OF_NS * u128::from(speed)
}

/// Applies the rule, and calls `aside` with the index of each request that is put aside.
fn put_aside_of(
    requests: &[Arrival],
    cost: Cost,
    within: Nanos,
    speed: u64,
    mut aside: impl FnMut(usize),
) {
    let scale = scale(speed);
    let within = u128::from(within.0) * scale;
    // The requests of the current busy period, in the order in which they are served.
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

/// Returns the index in `taken` of the request to discard so that the other requests and `new` end
/// sooner than without `new`; `None` if `new` itself should be discarded.
fn worth_more_aside(taken: &[Taken], new: Taken) -> Option<usize> {
    let (mut most, mut best) = (new.service, None);
    // Later requests cannot begin before they arrive, so they can only end sooner by a limited
    // time.
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

/// Removes a request, moves up those after it, and returns when the last one ends.
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
    // A request that does not wait separates busy periods: removing one before it cannot make
    // anything end sooner.
    if begins > aside {
        taken.drain(..begins);
    } else {
        taken.remove(aside);
    }
    free
}
