//! The wall clock of emulated devices with clients on sockets: waiting for the clock also waits for
//! the sockets.

use std::io;
use std::os::fd::OwnedFd;

use forebay_core::{Device, Nanos, Piece};

use crate::clock::{Clock, SPIN, WallClock};
use crate::polled::Polled;
use crate::ring::Ring;
use crate::ublk::Channel;
use crate::{Emulated, Plug, Pool, SocketEvent, SocketLanes, Waker};

/// How to wait for sockets.
enum Sockets {
    Ring(Box<Ring>),
    Polled(Polled),
}

impl Sockets {
    /// Returns the ring. Devices are supported only with a ring.
    fn ring(&mut self) -> io::Result<&mut Ring> {
        match self {
            Sockets::Ring(ring) => Ok(ring),
            Sockets::Polled(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// A clock with sockets.
pub struct SocketClock {
    sockets: Sockets,
    wall: WallClock,
    /// The error of the ring or the poll during a wait.
    failed: Option<io::Error>,
}

impl SocketClock {
    /// Starts the clock, with a ring for at most `sockets_max` sockets at a time, up to 1024.
    ///
    /// # Errors
    /// The kernel has no io_uring, or does not permit its use.
    pub fn in_ring(sockets_max: u32) -> io::Result<SocketClock> {
        let sockets = Sockets::Ring(Box::new(Ring::new(1, sockets_max.min(1024))?));
        Ok(SocketClock { sockets, wall: WallClock::start(), failed: None })
    }

    /// Creates a clock whose sockets are polled.
    ///
    /// # Errors
    /// The system lacks the resources for a waker.
    pub fn polled(sockets_max: u32) -> io::Result<SocketClock> {
        let sockets = Sockets::Polled(Polled::new(sockets_max)?);
        Ok(SocketClock { sockets, wall: WallClock::start(), failed: None })
    }
}

impl Clock for SocketClock {
    fn now(&mut self) -> Nanos {
        self.wall.now()
    }

    fn wait(&mut self, until: Nanos) {
        let left = until - self.wall.now() - SPIN;
        let waited = match &mut self.sockets {
            Sockets::Ring(ring) => {
                ring.watch();
                ring.enter((left > Nanos::ZERO).then_some(left))
            }
            Sockets::Polled(polled) if left > Nanos::ZERO => polled.wait(left),
            Sockets::Polled(_) => Ok(()),
        };
        if let Err(error) = waited {
            self.failed = Some(error);
        }
    }

    fn waker(&mut self) -> io::Result<Waker> {
        match &mut self.sockets {
            Sockets::Ring(ring) => ring.waker(),
            Sockets::Polled(polled) => Ok(polled.waker()),
        }
    }
}

impl<D: Device> SocketLanes for Emulated<D, SocketClock> {
    /// # Panics
    /// Panics if the devices have no content.
    fn pool(&mut self) -> &mut Pool {
        self.with_content().1
    }

    fn plug(&mut self, socket: OwnedFd) -> Result<Plug, OwnedFd> {
        match &mut self.with_content().0.sockets {
            Sockets::Ring(ring) => ring.plug(socket),
            Sockets::Polled(polled) => polled.plug(socket),
        }
    }

    fn receive(&mut self, plug: Plug, into: &[Piece], whole: bool) {
        let (clock, pool) = self.with_content();
        match &mut clock.sockets {
            Sockets::Ring(ring) => ring.receive(plug, into, whole, pool),
            Sockets::Polled(polled) => polled.receive(plug, into, whole),
        }
    }

    fn send(&mut self, plug: Plug, from: &[Piece]) {
        let (clock, pool) = self.with_content();
        match &mut clock.sockets {
            Sockets::Ring(ring) => ring.send(plug, from, pool),
            Sockets::Polled(polled) => polled.send(plug, from),
        }
    }

    fn unplug(&mut self, plug: Plug) {
        match &mut self.with_content().0.sockets {
            Sockets::Ring(ring) => ring.unplug(plug),
            Sockets::Polled(polled) => polled.unplug(plug),
        }
    }

    fn attach(&mut self, device: Channel) -> Result<Plug, Channel> {
        match &mut self.with_content().0.sockets {
            Sockets::Ring(ring) => ring.attach(device),
            Sockets::Polled(_) => Err(device),
        }
    }

    fn load(&mut self, plug: Plug, tag: u16, into: Piece) -> io::Result<()> {
        let (clock, pool) = self.with_content();
        clock.sockets.ring()?.load(plug, tag, into, pool)
    }

    fn store(&mut self, plug: Plug, tag: u16, from: Piece) -> io::Result<()> {
        let (clock, pool) = self.with_content();
        clock.sockets.ring()?.store(plug, tag, from, pool)
    }

    fn answer(&mut self, plug: Plug, tag: u16, result: i32) {
        if let Ok(ring) = self.with_content().0.sockets.ring() {
            ring.answer(plug, tag, result);
        }
    }

    fn moved(&mut self, moved: &mut Vec<SocketEvent>) -> io::Result<()> {
        let (clock, pool) = self.with_content();
        if let Some(error) = clock.failed.take() {
            return Err(error);
        }
        match &mut clock.sockets {
            Sockets::Ring(ring) => {
                // This ring contains only entries of sockets.
                ring.reap(pool, |_, _| {})?;
                ring.moved(moved);
                Ok(())
            }
            Sockets::Polled(polled) => polled.moved(moved, pool),
        }
    }
}

impl Drop for SocketClock {
    fn drop(&mut self) {
        // Memory that a ring's sockets still use is lent, and leaks with the pool.
        if let Sockets::Ring(ring) = &mut self.sockets {
            ring.unplug_all();
        }
    }
}
