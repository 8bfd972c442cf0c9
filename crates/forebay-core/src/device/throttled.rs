//! A throttled device: token buckets in front of a device of constant latency.
//!
//! Volumes of cloud providers, limits of their instances, QEMU's throttling and cgroup's `io.max`
//! are all lists of token buckets. Requests wait inside the device, in order, until no bucket is
//! overdrawn; after their release, any number of them is served at once, each in the base latency.
//! [`Throttle`] holds the figures, [`Releases`] computes the times.
//!
//! Flushes and trims wait for the requests before them, but cost nothing and wait for no tokens.
//! The device uses no energy.

mod releases;
mod slices;
#[cfg(test)]
mod tests;
mod throttle;
mod waiting;

use std::collections::VecDeque;

use crate::contract::device::{Completion, Device, Mechanics};
use crate::contract::request::{Op, Request};
use crate::contract::spec::SpecError;
use crate::contract::time::Nanos;

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
    /// Requests whose release is not known yet. Empty for a throttle that is ordered.
    waiting: Waiting<StartedIo>,
    /// Reads, and all other requests, with their completions, which are in order.
    released: [VecDeque<(Nanos, StartedIo)>; 2],
    is_ordered: bool,
    /// The next completion and its side.
    due: Option<(Nanos, usize)>,
    started: u64,
    outstanding: usize,
    busy: Nanos,
    busy_since: Nanos,
}

impl Throttled {
    /// Returns an idle device with the limits and latencies of `throttle`.
    ///
    /// # Errors
    /// Names the first figure that is out of range.
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

    /// Returns the limits and latencies.
    pub fn throttle(&self) -> &Throttle {
        &self.throttle
    }

    /// Returns the bucket for which a request that arrives now waits longest; None if it passes at
    /// once. If reads and writes wait apart for one bucket, only the requests that passed count.
    pub fn decides(&mut self, now: Nanos, op: Op) -> Option<usize> {
        self.advance(now.0 as f64);
        self.due = self.earliest();
        self.releases.decides(side(op), now.0 as f64)
    }

    /// Moves requests that are released until `until_ns` out of the queues.
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

    /// Returns the next completion of a side, and its order among completions at the same time.
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

    /// Returns the next completion and its side; the one that was started first at the same time.
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
            // The release is after `now` if rounding or saturation moved the completion forward.
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

    /// Returns zero: any number of requests is served at once, so no sum of their times bounds a
    /// run.
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
