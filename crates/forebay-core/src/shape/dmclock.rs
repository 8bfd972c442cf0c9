//! dmClock: each stream has a reservation, a weight and a limit.
//!
//! Source: Gulati, Merchant and Varman, "mClock: handling throughput variability for hypervisor IO
//! scheduling" (OSDI 2010). Streams with a due reservation go first, starting with the one that has
//! been due longest. Otherwise the stream is served whose weighted share is due, among those within
//! their limits. Service by weight does not count toward the reservation. With one server, as here,
//! dmClock's counts of other servers' work are all zero, so it is equal to mClock.
//!
//! Departures: a tag is assigned to a stream's first request when it is considered, not to all
//! requests on arrival. Tags are times on the clock driven by the pace ([`super::Pace`]). Shares
//! follow start tags in virtual time, so a stream that was idle begins at the level of the others,
//! while the source shifts the others. Streams are found by a linear scan of those that wait.

use super::{Backlog, Capacity, Moment, Recombine};
use crate::contract::{Lane, Nanos, Request};

/// The number of fractional bits of tags, whose unit is a nanosecond.
const FRACTION: u32 = 20;
const SECOND: u128 = 1_000_000_000 << FRACTION;

/// The promise to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The rate in requests per second that the stream gets regardless of the others; 0 for no
    /// reservation.
    pub reservation_iops: u64,
    /// The weight of the stream's share of the remaining capacity; above 0.
    pub weight: u64,
    /// The maximum rate in requests per second beyond the reservation; 0 for no limit.
    pub limit_iops: u64,
}

/// The tags of a stream's next request, before its arrival time is taken into account.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// Whether the stream has issued reads or writes.
    came: bool,
    reservation_span: u128,
    limit_span: u128,
    weight_span: u128,
    reservation: u128,
    limit: u128,
    /// The virtual start of the stream's next request.
    share: u128,
}

impl Stream {
    fn new(client: &Share) -> Stream {
        let span = |iops: u64| SECOND.checked_div(u128::from(iops)).unwrap_or(0);
        Stream {
            came: false,
            reservation_span: span(client.reservation_iops),
            limit_span: span(client.limit_iops),
            weight_span: span(client.weight.max(1)),
            reservation: 0,
            limit: 0,
            share: 0,
        }
    }

    /// Returns when the reservation is due for a request that arrived at `arrival`.
    #[inline]
    fn reserved_at(&self, arrival: u128) -> Option<u128> {
        (self.reservation_span > 0).then(|| self.reservation.max(arrival))
    }

    /// Returns when a request that arrived at `arrival` is within the limit.
    #[inline]
    fn allowed_at(&self, arrival: u128) -> u128 {
        if self.limit_span == 0 { 0 } else { self.limit.max(arrival) }
    }
}

/// A shaper that schedules by reservation, weight and limit.
#[derive(Clone, Debug)]
pub struct DmClock {
    clients: Vec<Share>,
    streams: Vec<Stream>,
    /// The streams with waiting requests.
    active: Vec<usize>,
    virtual_time: u128,
    wakeup: Option<Nanos>,
}

#[inline]
fn tag(at: Nanos) -> u128 {
    u128::from(at.0) << FRACTION
}

impl DmClock {
    /// Creates a shaper that promises `clients[i]` to stream `i`, and the last entry to all later
    /// streams. `clients` must not be empty.
    pub fn new(clients: Vec<Share>) -> DmClock {
        DmClock { clients, streams: Vec::new(), active: Vec::new(), virtual_time: 0, wakeup: None }
    }

    fn know(&mut self, stream: usize) {
        while self.streams.len() <= stream {
            let client = self.clients.get(self.streams.len()).or(self.clients.last());
            let idle = Share { reservation_iops: 0, weight: 1, limit_iops: 0 };
            self.streams.push(Stream::new(client.unwrap_or(&idle)));
        }
    }

    /// Updates the tags of `stream`, whose first request, which arrived at `arrival`, is served.
    fn serve(&mut self, stream: usize, arrival: u128, by_reservation: bool, waiting: usize) {
        let known = &mut self.streams[stream];
        if let Some(due) = known.reserved_at(arrival) {
            known.reservation = if by_reservation { due + known.reservation_span } else { due };
        }
        known.limit = known.allowed_at(arrival) + known.limit_span;
        self.virtual_time = self.virtual_time.max(known.share);
        known.share += known.weight_span;
        if waiting == 1 {
            self.active.retain(|other| *other != stream);
        }
    }
}

impl Recombine for DmClock {
    #[inline]
    fn arrive(&mut self, _: Moment, request: &Request, _: usize, backlog: &Backlog) -> usize {
        let stream = request.stream as usize;
        self.know(stream);
        self.streams[stream].came |= request.op.moves_data();
        if backlog.waiting(stream) == 0 {
            let known = &mut self.streams[stream];
            known.share = known.share.max(self.virtual_time);
            self.active.push(stream);
        }
        stream
    }

    fn next(&mut self, at: Moment, _lane: Lane, backlog: &Backlog) -> Option<usize> {
        let now = at.paced;
        let (mut reserved, mut shared, mut later) = (None, None, u128::MAX);
        for &stream in self.active.iter().filter(|stream| backlog.is_ready(**stream)) {
            let known = &self.streams[stream];
            let arrival = tag(backlog.first_paced(stream).unwrap_or(now));
            if let Some(due) = known.reserved_at(arrival) {
                if due <= tag(now) {
                    reserved = Some((due, stream)).min(reserved.or(Some((due, stream))));
                }
                later = later.min(due);
            }
            let allowed = known.allowed_at(arrival);
            if allowed <= tag(now) {
                let share = (known.share, stream);
                shared = Some(share).min(shared.or(Some(share)));
            }
            later = later.min(allowed);
        }
        self.wakeup = None;
        let Some((_, stream)) = reserved.or(shared) else {
            let wait = later.div_ceil(1 << FRACTION).saturating_sub(u128::from(now.0));
            self.wakeup = at.now.0.checked_add(at.pace.time_of(wait).0).map(Nanos);
            return None;
        };
        let arrival = tag(backlog.first_paced(stream).unwrap_or(now));
        self.serve(stream, arrival, reserved.is_some(), backlog.waiting(stream));
        Some(stream)
    }

    #[inline]
    fn wakeup(&self) -> Option<Nanos> {
        self.wakeup
    }

    /// Returns the sum of the reservations of all streams that have issued requests.
    fn capacity(&self) -> Capacity {
        let of = |at: usize| self.clients.get(at).or(self.clients.last());
        let came = (0..self.streams.len()).filter(|at| self.streams[*at].came);
        let known = came.filter_map(of);
        let iops = known.map(|client| client.reservation_iops);
        Capacity { scaled_iops: iops.fold(0, u64::saturating_add), fixed_iops: 0 }
    }
}
