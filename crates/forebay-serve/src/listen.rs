//! Taking clients in: a thread that accepts, and one for each handshake, with a limit on both and on time.
//!
//! Where as many shake hands as may, the one that has been at it longest is let go for the next: a handshake takes
//! a millisecond, and those that take their time would lock all others out.

// Threads and sockets are its task.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use forebay_live::Waker;
use rustix::net::{Shutdown, shutdown};

use crate::address::{Address, Listener, Stream};
use crate::error::{Error, system};
use crate::export::Export;
use crate::front::Newcomer;
use crate::handshake::{Agreed, negotiate};

/// Clients that shake hands at a time.
const HANDSHAKES_MAX: usize = 64;
/// How long a handshake may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(20);

/// Where clients of an export go.
#[derive(Clone)]
pub(crate) struct Door {
    /// The export's place among those behind this door.
    pub(crate) at: usize,
    pub(crate) newcomers: Sender<Newcomer>,
    pub(crate) waker: Waker,
}

/// What all handshakes share.
struct Reception {
    exports: Vec<Export>,
    doors: Vec<Door>,
    over: AtomicBool,
    shaking: Mutex<Shaking>,
}

/// Handshakes under way, the oldest first.
#[derive(Default)]
struct Shaking {
    begun: u64,
    sockets: Vec<(u64, OwnedFd)>,
}

/// A thread that takes clients in.
pub(crate) struct Listening {
    address: Address,
    reception: Arc<Reception>,
    stopper: OwnedFd,
    thread: JoinHandle<()>,
}

impl Listening {
    /// Begins; `doors` are those of `exports`, in their order.
    pub(crate) fn start(
        listener: Listener,
        address: Address,
        exports: Vec<Export>,
        doors: Vec<Door>,
    ) -> Result<Listening, Error> {
        let (over, shaking) = (AtomicBool::new(false), Mutex::default());
        let reception = Arc::new(Reception { exports, doors, over, shaking });
        let stopper = listener.stopper().map_err(system("listening"))?;
        let theirs = Arc::clone(&reception);
        let thread = thread::Builder::new().name("listen".into());
        let thread =
            thread.spawn(move || theirs.accept(&listener)).map_err(system("starting a thread"))?;
        Ok(Listening { address, reception, stopper, thread })
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Takes no more clients.
    pub(crate) fn stop(self) {
        self.reception.over.store(true, Ordering::SeqCst);
        // Who waits for a client is told that none will come; it ends by itself.
        let _ = shutdown(&self.stopper, Shutdown::Both);
        let _ = self.thread.join();
    }
}

impl Reception {
    fn accept(self: &Arc<Reception>, listener: &Listener) {
        loop {
            let accepted = listener.accept();
            if self.over.load(Ordering::SeqCst) {
                return;
            }
            let Ok(stream) = accepted else {
                // Out of descriptors, for example: others have to go first.
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            // Out of descriptors or threads the client sees its connection end; so does one that breaks off,
            // which is no news.
            let Ok(busy) = Busy::begin(self, &stream) else { continue };
            let thread = thread::Builder::new().name("handshake".into());
            let _ = thread.spawn(move || drop(busy.receive(stream)));
        }
    }

    fn shaking(&self) -> MutexGuard<'_, Shaking> {
        // No panic leaves it half changed.
        self.shaking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handshake while it lasts.
struct Busy {
    reception: Arc<Reception>,
    name: u64,
}

impl Busy {
    /// Another one, for which the oldest goes where there are too many.
    fn begin(reception: &Arc<Reception>, stream: &Stream) -> io::Result<Busy> {
        let socket = stream.other()?;
        let mut shaking = reception.shaking();
        if shaking.sockets.len() >= HANDSHAKES_MAX {
            let (_, oldest) = shaking.sockets.remove(0);
            // Its thread sees its client gone.
            let _ = shutdown(&oldest, Shutdown::Both);
        }
        shaking.begun += 1;
        let name = shaking.begun;
        shaking.sockets.push((name, socket));
        drop(shaking);
        Ok(Busy { reception: Arc::clone(reception), name })
    }

    /// Shakes hands, and shows the client in.
    fn receive(&self, stream: Stream) -> io::Result<()> {
        let reception = &self.reception;
        let mut timed = Timed { stream, until: Instant::now() + HANDSHAKE_MAX };
        let Some(agreed) = negotiate(&mut timed, &reception.exports)? else { return Ok(()) };
        if !self.end() {
            // It was let go for another.
            return Ok(());
        }
        let door = &reception.doors[agreed.export];
        let agreed = Agreed { export: door.at, ..agreed };
        let socket = timed.stream.into_socket()?;
        // Where the driver is gone, so is the server.
        let _ = door.newcomers.send(Newcomer { socket, agreed });
        door.waker.wake();
        Ok(())
    }

    /// It does not last any more; answers whether it did.
    fn end(&self) -> bool {
        let sockets = &mut self.reception.shaking().sockets;
        let at = sockets.iter().position(|(name, _)| *name == self.name);
        at.map(|at| sockets.remove(at)).is_some()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.end();
    }
}

/// A stream that ends at a certain time, however slowly the other side goes on.
struct Timed {
    stream: Stream,
    until: Instant,
}

impl Timed {
    fn hurry(&self) -> io::Result<()> {
        let left = self.until.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => self.stream.set_timeout(left),
        }
    }
}

impl Read for Timed {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.hurry()?;
        self.stream.read(bytes)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hurry()?;
        self.stream.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
