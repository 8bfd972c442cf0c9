//! A throttled device: token buckets in front of a device of constant latency.
//!
//! Cloud volumes, the limits of cloud instances, QEMU's throttling and cgroup's `io.max` all amount
//! to lists of token buckets. Requests wait inside the device, in order, until no bucket is
//! overdrawn. Once released, any number of them is served in parallel, each in the base latency.
//! [`Throttle`] holds the parameters, [`Releases`] computes the release times.
//!
//! Flushes and trims wait for the requests before them, but cost no tokens. The device uses no
//! energy.

mod releases;
mod slices;
#[cfg(test)]
mod tests;
mod throttle;
mod waiting;

use std::collections::VecDeque;

use crate::contract::{Completion, Device, Mechanics, Nanos, Op, Request, SpecError};

pub use releases::{Cost, Meter, Releases, side, to_nanos};
pub use throttle::{Bucket, Count, Direction, Measure, Queues, Throttle};
use waiting::Waiting;

/// A request inside the device.
#[derive(Clone, Copy, Debug)]
struct StartedIo {
    io: Request,
    started: Nanos,
    order: u64,
}

/// A device behind token buckets.
#[derive(Clone, Debug)]
pub struct Throttled {
    throttle: Throttle,
    meter: Meter,
    releases: Releases,
    /// Requests whose release time is not known yet. Empty if the throttle is ordered.
    waiting: Waiting<StartedIo>,
    /// The released requests with their completion times, in order of completion: reads, then all
    /// others.
    released: [VecDeque<(Nanos, StartedIo)>; 2],
    is_ordered: bool,
    /// The time of the next completion, and its index into `released`.
    due: Option<(Nanos, usize)>,
    started: u64,
    outstanding: usize,
    busy: Nanos,
    busy_since: Nanos,
}

impl Throttled {
    /// Creates an idle device with the limits and latencies of `throttle`.
    ///
    /// # Errors
    /// Names the first parameter that is out of range.
    pub fn new(throttle: Throttle) -> Result<Throttled, SpecError> {
        throttle.check()?;
        Ok(Throttled {
            meter: Meter::new(&throttle),
            releases: Releases::new(&throttle),
            waiting: Waiting::new(),
            released: [VecDeque::new(), VecDeque::new()],
            is_ordered: throttle.is_ordered(),
            due: None,
            started: 0,
            outstanding: 0,
            busy: Nanos::ZERO,
            busy_since: Nanos::ZERO,
            throttle,
        })
    }

    /// Returns the limits and latencies of the device.
    pub fn throttle(&self) -> &Throttle {
        &self.throttle
    }

    /// Returns the bucket that delays a request arriving at `now` the most, or None if the request
    /// passes at once. If reads and writes wait separately for a shared bucket, only requests
    /// already released count.
    pub fn decides(&mut self, now: Nanos, op: Op) -> Option<usize> {
        self.advance(now.0 as f64);
        self.due = self.earliest();
        self.releases.decides(side(op), now.0 as f64)
    }

    /// Releases the waiting requests whose release time is at most `until_ns`.
    fn advance(&mut self, until_ns: f64) {
        while let Some((side, release_ns, started)) = self.waiting.pop(&mut self.releases, until_ns)
        {
            self.release(side, release_ns, started);
        }
    }

    #[inline]
    fn release(&mut self, side: usize, release_ns: f64, started: StartedIo) -> Nanos {
        let done = to_nanos(release_ns) + self.throttle.latency(started.io.op);
        self.released[side].push_back((done, started));
        done
    }

    /// Returns the time of the next completion of a side, and the request's rank among completions
    /// at the same time.
    #[inline]
    fn next_of(&self, side: usize) -> Option<(Nanos, u64)> {
        if let Some((done, started)) = self.released[side].front() {
            return Some((*done, started.order));
        }
        let armed_ns = self.waiting.armed_ns(side);
        let latency =
            if side == 0 { self.throttle.read_latency } else { self.throttle.write_latency };
        armed_ns.is_finite().then(|| (to_nanos(armed_ns) + latency, u64::MAX))
    }

    /// Returns the time and side of the next completion. If two complete at the same time, the one
    /// started first comes first.
    #[inline]
    fn earliest(&self) -> Option<(Nanos, usize)> {
        match (self.next_of(0), self.next_of(1)) {
            (Some(read), Some(other)) if other < read => Some((other.0, 1)),
            (Some((read, _)), _) => Some((read, 0)),
            (None, other) => other.map(|(done, _)| (done, 1)),
        }
    }
}

impl Device for Throttled {
    #[inline]
    fn room(&self) -> bool {
        true
    }

    #[inline]
    fn start(&mut self, now: Nanos, io: Request) {
        let started = StartedIo { io, started: now, order: self.started };
        self.started += 1;
        if self.outstanding == 0 {
            self.busy_since = now;
        }
        self.outstanding += 1;
        let (side, at_ns, cost) = (side(io.op), now.0 as f64, self.meter.cost(&io));
        if self.is_ordered {
            let release_ns = self.releases.pass(side, at_ns, cost);
            let done = self.release(side, release_ns, started);
            if self.due.is_none_or(|(due, _)| done < due) {
                self.due = Some((done, side));
            }
        } else {
            self.advance(at_ns);
            self.waiting.push(&self.releases, side, at_ns, (cost, started));
            self.due = self.earliest();
        }
    }

    #[inline]
    fn next(&self) -> Option<Nanos> {
        self.due.map(|(done, _)| done)
    }

    #[inline]
    fn finish(&mut self, now: Nanos) -> Completion {
        let side = self.due.map_or(0, |(_, side)| side);
        if self.released[side].is_empty() {
            // The release time may be later than `now` if rounding or saturation made the
            // completion earlier.
            self.advance(self.waiting.armed_ns(side).max(now.0 as f64));
        }
        let (_, StartedIo { io, started, .. }) =
            self.released[side].pop_front().expect("a completion is due");
        self.due = self.earliest();
        self.outstanding -= 1;
        if self.outstanding == 0 {
            self.busy += now - self.busy_since;
        }
        Completion { io, started, at: now, mechanics: Mechanics::default(), outcome: Ok(()) }
    }

    fn joules(&self, _now: Nanos) -> f64 {
        0.0
    }

    fn busy(&self, now: Nanos) -> Nanos {
        match self.outstanding {
            0 => self.busy,
            _ => self.busy + (now - self.busy_since),
        }
    }

    /// Returns zero: requests are served in parallel, so the sum of their service times is no lower
    /// bound on the duration of a run.
    fn floor(&self, _io: &Request) -> Nanos {
        Nanos::ZERO
    }

    fn capacity(&self) -> u64 {
        self.throttle.capacity_bytes
    }

    fn len_max(&self) -> u32 {
        u32::MAX
    }
}
