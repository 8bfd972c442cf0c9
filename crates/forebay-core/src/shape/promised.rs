//! Promises by stream: each stream has its own RTT, so that its bursts do not affect the others.
//!
//! Source: RTT is Lu's (section 3.3.1, [`crate::rtt`]), applied to each client separately as its
//! section 4.5 consolidates them. A request that its stream's own rate answers within the bound is
//! *kept*. All others are served when no kept request waits, shared by weight (start tags, as in
//! [`super::DmClock`]). Kept requests of all streams are served by earliest deadline, which is
//! their arrival plus their bound.
//!
//! **No kept request is late** on a server whose rate is the sum of all rates plus one request per
//! shortest bound. If each stream were served at its own rate alone, all would be in time. Some
//! preemptive order on one server of the total rate therefore keeps all bounds, and so does
//! preemptive earliest deadline first. Without preemption, one additional request may be in the
//! way, which the surplus serves within the shortest bound.
//!
//! Departures: shares of the unpromised requests do not consider reservations; streams are found by
//! a linear scan of those that wait.

use super::{Backlog, Capacity, Moment, Recombine};
use crate::contract::request::{Lane, Request};
use crate::contract::time::Nanos;
use crate::rtt::{Rtt, SERVICE};

/// The promise to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Its rate and bound; `None` if nothing is promised.
    pub kept: Option<(Rtt, Nanos)>,
    /// Its share of the remaining capacity; above 0.
    pub weight: u64,
}

/// A stream.
#[derive(Clone, Debug)]
struct Stream {
    promise: Promise,
    /// Whether it has read or written.
    came: bool,
    /// The part of its share that one request without a promise uses.
    span: u128,
    /// The virtual start of the next request without a promise.
    share: u128,
}

/// The part of its share that a request of a stream with weight 1 uses.
const SPAN: u128 = 1 << 60;

/// Recombination by promises.
#[derive(Clone, Debug)]
pub struct Promised {
    promises: Vec<Promise>,
    streams: Vec<Stream>,
    /// Streams with waiting requests that are kept, and streams with other waiting requests.
    kept: Vec<usize>,
    rest: Vec<usize>,
    virtual_time: u128,
}

/// Returns the class of a stream's kept requests; that of the rest is one more.
#[inline]
fn class_of(stream: usize) -> usize {
    2 * stream
}

impl Promised {
    /// Stream `i` is promised `promises[i]`, and each past the end, by itself, what the last one is. There is at
    /// least one.
    pub fn new(promises: Vec<Promise>) -> Promised {
        let (streams, kept, rest) = (Vec::new(), Vec::new(), Vec::new());
        Promised { promises, streams, kept, rest, virtual_time: 0 }
    }

    fn know(&mut self, stream: usize) {
        while self.streams.len() <= stream {
            let promise = self.promises.get(self.streams.len()).or(self.promises.last());
            let promise = promise.copied().unwrap_or(Promise { kept: None, weight: 1 });
            let span = SPAN / u128::from(promise.weight.max(1));
            self.streams.push(Stream { promise, came: false, span, share: 0 });
        }
    }
}

impl Recombine for Promised {
    #[inline]
    fn arrive(&mut self, at: Moment, request: &Request, _: usize, backlog: &Backlog) -> usize {
        let stream = request.stream as usize;
        self.know(stream);
        let known = &mut self.streams[stream];
        known.came |= request.op.moves_data();
        let is_kept = known
            .promise
            .kept
            .as_mut()
            .is_some_and(|(rtt, _)| at.admits(rtt, backlog.waiting(class_of(stream))));
        let class = class_of(stream) + usize::from(!is_kept);
        if backlog.waiting(class) == 0 {
            match is_kept {
                true => self.kept.push(stream),
                false => {
                    known.share = known.share.max(self.virtual_time);
                    self.rest.push(stream);
                }
            }
        }
        class
    }

    fn next(&mut self, _: Moment, _lane: Lane, backlog: &Backlog) -> Option<usize> {
        let deadline = |stream: &usize| {
            let within =
                self.streams[*stream].promise.kept.map_or(Nanos::ZERO, |(_, within)| within);
            let arrival = backlog.first_arrival(class_of(*stream)).unwrap_or(Nanos::MAX);
            (arrival.0.saturating_add(within.0), *stream)
        };
        let ready = self.kept.iter().filter(|stream| backlog.is_ready(class_of(**stream)));
        if let Some(stream) = ready.copied().min_by_key(deadline) {
            if backlog.waiting(class_of(stream)) == 1 {
                self.kept.retain(|other| *other != stream);
            }
            return Some(class_of(stream));
        }
        let ready = self.rest.iter().filter(|stream| backlog.is_ready(class_of(**stream) + 1));
        let stream = ready.copied().min_by_key(|stream| (self.streams[*stream].share, *stream))?;
        let known = &mut self.streams[stream];
        self.virtual_time = self.virtual_time.max(known.share);
        known.share += known.span;
        if backlog.waiting(class_of(stream) + 1) == 1 {
            self.rest.retain(|other| *other != stream);
        }
        Some(class_of(stream) + 1)
    }

    #[inline]
    fn reported(&self, class: usize) -> usize {
        class % 2
    }

    /// Returns the promises of those that read or wrote, and one request in the shortest bound.
    fn capacity(&self) -> Capacity {
        let came = || self.streams.iter().filter(|stream| stream.came);
        let kept = || came().filter_map(|stream| stream.promise.kept);
        let shortest = kept().map(|(_, within)| within.0).min();
        Capacity {
            scaled_iops: kept().map(|(rtt, _)| rtt.rate_iops()).fold(0, u64::saturating_add),
            fixed_iops: shortest.map_or(0, |within| SERVICE.div_ceil(within)),
        }
    }
}
