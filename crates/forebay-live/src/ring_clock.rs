//! The wall clock of emulated devices whose clients come over sockets: who waits for it waits for them too.

use std::io;
use std::os::fd::OwnedFd;

use forebay_core::{Device, Nanos, Piece};

use crate::clock::{Clock, SPIN, WallClock};
use crate::emulated::Emulated;
use crate::pool::Pool;
use crate::ring::Ring;
use crate::sockets::{Moved, Plug, Wired};
use crate::waker::Waker;

/// A clock with a ring.
pub struct RingClock {
    ring: Ring,
    wall: WallClock,
    /// What the ring failed with while somebody waited.
    failed: Option<io::Error>,
}

impl RingClock {
    /// Starts now, with room for so many sockets at a time, at most 1024.
    ///
    /// # Errors
    /// Where the kernel has no io_uring or does not let us use it.
    pub fn start(sockets_max: u32) -> io::Result<RingClock> {
        let ring = Ring::new(1, sockets_max.min(1024))?;
        Ok(RingClock { ring, wall: WallClock::start(), failed: None })
    }
}

impl Clock for RingClock {
    fn now(&mut self) -> Nanos {
        self.wall.now()
    }

    fn wait(&mut self, until: Nanos) {
        self.ring.watch();
        let left = until - self.wall.now() - SPIN;
        let wait = (left > Nanos::ZERO).then_some(left);
        if let Err(error) = self.ring.enter(wait) {
            self.failed = Some(error);
        }
    }

    fn waker(&mut self) -> io::Result<Waker> {
        self.ring.waker()
    }
}

impl<D: Device> Wired for Emulated<D, RingClock> {
    /// # Panics
    /// Without content.
    fn pool(&mut self) -> &mut Pool {
        self.with_content().1
    }

    fn plug(&mut self, socket: OwnedFd) -> Result<Plug, OwnedFd> {
        self.with_content().0.ring.plug(socket)
    }

    fn receive(&mut self, plug: Plug, into: &[Piece], whole: bool) {
        let (clock, pool) = self.with_content();
        clock.ring.receive(plug, into, whole, pool);
    }

    fn send(&mut self, plug: Plug, from: &[Piece]) {
        let (clock, pool) = self.with_content();
        clock.ring.send(plug, from, pool);
    }

    fn unplug(&mut self, plug: Plug) {
        self.with_content().0.ring.unplug(plug);
    }

    fn moved(&mut self, moved: &mut Vec<Moved>) -> io::Result<()> {
        let (clock, pool) = self.with_content();
        if let Some(error) = clock.failed.take() {
            return Err(error);
        }
        // It has no entries but those of sockets.
        clock.ring.reap(pool, |_, _| {})?;
        clock.ring.moved(moved);
        Ok(())
    }
}

impl Drop for RingClock {
    fn drop(&mut self) {
        // Memory that sockets still use is lent, and leaks with the pool.
        self.ring.unplug_all();
    }
}
