//! Emulated devices: models of the core whose I/Os end in wall time.
//!
//! The run's own time goes from event to event, arrivals and completions alike, each at exactly its
//! time, and the wall clock decides when: no event before the clock has passed it. So policy and model
//! go through the simulator's very run however late the host is. (A disk that is told a few
//! microseconds late that its next command goes on where the last one ended would lose a revolution.)
//! How late it is shows where somebody waits for an answer: observers measure by the wall clock.

use std::io;

use forebay_core::{Device, Lane, Nanos, Request};

use crate::clock::Clock;
use crate::lanes::{Ended, Lanes};

/// Device models as lanes, driven by a clock.
pub struct Emulated<D, C> {
    devices: Vec<D>,
    clock: C,
    now: Nanos,
    under_way: usize,
}

impl<D: Device, C: Clock> Emulated<D, C> {
    /// Lane `i` is `devices[i]`.
    pub fn new(devices: Vec<D>, clock: C) -> Emulated<D, C> {
        Emulated { devices, clock, now: Nanos::ZERO, under_way: 0 }
    }

    /// The models.
    pub fn devices(&self) -> &[D] {
        &self.devices
    }

    fn next(&self) -> Option<Nanos> {
        self.devices.iter().filter_map(Device::next).min()
    }
}

impl<D: Device, C: Clock> Lanes for Emulated<D, C> {
    fn count(&self) -> usize {
        self.devices.len()
    }

    fn reap(&mut self, next: Nanos, ended: &mut Vec<Ended>) -> io::Result<Nanos> {
        let wall = self.clock.now();
        self.now = self.next().unwrap_or(Nanos::MAX).min(next).min(wall).max(self.now);
        for device in &mut self.devices {
            while device.next() == Some(self.now) {
                let completion = device.finish(self.now);
                ended.push(Ended { completion, failure: None });
                self.under_way -= 1;
            }
        }
        Ok(self.now)
    }

    fn wall(&mut self) -> Nanos {
        self.clock.now()
    }

    fn room(&self, lane: Lane) -> bool {
        self.devices[usize::from(lane)].room()
    }

    fn start(&mut self, now: Nanos, io: Request) {
        self.devices[usize::from(io.lane)].start(now, io);
        self.under_way += 1;
    }

    fn under_way(&self) -> usize {
        self.under_way
    }

    fn proceed(&mut self, until: Nanos) -> io::Result<()> {
        self.clock.wait(self.next().unwrap_or(Nanos::MAX).min(until));
        Ok(())
    }
}
