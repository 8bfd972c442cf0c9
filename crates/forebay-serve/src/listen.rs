//! Accepts clients: one thread accepts connections, and each handshake has its own thread. The
//! number of handshakes and their duration are limited.
//!
//! If the maximum number of handshakes is in progress, a new client replaces the oldest one. A
//! normal handshake takes a millisecond, so only slow clients, which would otherwise lock out all
//! others, are dropped.

// Allowed because this module works with threads and sockets.
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

use crate::Export;
use crate::address::{Address, Listener, Stopper, Stream};
use crate::error::{Error, system};
use crate::front::Newcomer;
use crate::handshake::{Agreed, negotiate};

/// The maximum number of simultaneous handshakes.
const HANDSHAKES_MAX: usize = 64;
/// The maximum duration of a handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(60);

/// An export that clients may choose, and the channel to its driver.
#[derive(Clone)]
pub(crate) struct Door {
    /// The name of the disk or volume.
    pub(crate) back: String,
    pub(crate) export: Export,
    /// The export's index among those of its driver.
    pub(crate) at: usize,
    pub(crate) newcomers: Sender<Newcomer>,
    pub(crate) waker: Waker,
}

/// The exports that clients may currently choose.
#[derive(Default)]
pub(crate) struct Doors(Mutex<Vec<Door>>);

impl Doors {
    /// Adds exports after the existing ones.
    pub(crate) fn open(&self, doors: impl IntoIterator<Item = Door>) {
        self.all().extend(doors);
    }

    /// Replaces the exports of a disk or volume; returns the names of the previous ones.
    pub(crate) fn replace(&self, back: &str, doors: Vec<Door>) -> Vec<String> {
        let mut all = self.all();
        let begin = all.iter().position(|door| door.back == back);
        let before = all.extract_if(.., |door| door.back == back).map(|door| door.export.name);
        let before = before.collect();
        let begin = begin.unwrap_or(all.len()).min(all.len());
        all.splice(begin..begin, doors);
        before
    }

    /// Returns the exports of a disk or volume.
    pub(crate) fn of(&self, back: &str) -> Vec<Export> {
        let all = self.all();
        all.iter().filter(|door| door.back == back).map(|door| door.export.clone()).collect()
    }

    pub(crate) fn exports(&self) -> Vec<Export> {
        self.all().iter().map(|door| door.export.clone()).collect()
    }

    fn all(&self) -> MutexGuard<'_, Vec<Door>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state shared by all handshakes.
struct Reception {
    doors: Arc<Doors>,
    over: AtomicBool,
    shaking: Mutex<Shaking>,
}

/// The handshakes in progress, oldest first.
#[derive(Default)]
struct Shaking {
    begun: u64,
    sockets: Vec<(u64, OwnedFd)>,
}

/// A thread that accepts clients.
pub(crate) struct Listening {
    address: Address,
    reception: Arc<Reception>,
    stopper: Stopper,
    thread: JoinHandle<()>,
}

impl Listening {
    /// Starts listening.
    pub(crate) fn start(
        listener: Listener,
        address: Address,
        doors: Arc<Doors>,
    ) -> Result<Listening, Error> {
        let (over, shaking) = (AtomicBool::new(false), Mutex::default());
        let reception = Arc::new(Reception { doors, over, shaking });
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

    /// Stops accepting clients.
    pub(crate) fn stop(self) {
        self.reception.over.store(true, Ordering::SeqCst);
        // The accepting thread wakes up and ends.
        self.stopper.stop();
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
                // The process may be out of descriptors, for example; wait until others are closed.
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            // If descriptors or threads are exhausted, dropping `busy` closes the connection. If
            // the client has already disconnected, no message is needed.
            let Ok(busy) = Busy::begin(self, &stream) else { continue };
            let thread = thread::Builder::new().name("handshake".into());
            let _ = thread.spawn(move || drop(busy.receive(stream)));
        }
    }

    fn shaking(&self) -> MutexGuard<'_, Shaking> {
        // The lock protects only complete updates, so a panic cannot leave it inconsistent.
        self.shaking.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handshake in progress.
struct Busy {
    reception: Arc<Reception>,
    name: u64,
}

impl Busy {
    /// Registers a handshake. If there are too many, drops the oldest one.
    fn begin(reception: &Arc<Reception>, stream: &Stream) -> io::Result<Busy> {
        let socket = stream.other()?;
        let mut shaking = reception.shaking();
        if shaking.sockets.len() >= HANDSHAKES_MAX {
            let (_, oldest) = shaking.sockets.remove(0);
            // The thread of that handshake sees the connection closed.
            let _ = shutdown(&oldest, Shutdown::Both);
        }
        shaking.begun += 1;
        let name = shaking.begun;
        shaking.sockets.push((name, socket));
        drop(shaking);
        Ok(Busy { reception: Arc::clone(reception), name })
    }

    /// Performs the handshake and passes the client to its driver.
    fn receive(&self, stream: Stream) -> io::Result<()> {
        let reception = &self.reception;
        let mut timed = Timed { stream, until: Instant::now() + HANDSHAKE_MAX };
        // Later changes of the exports do not affect this handshake.
        let doors = reception.doors.all().clone();
        let exports: Vec<Export> = doors.iter().map(|door| door.export.clone()).collect();
        let Some(agreed) = negotiate(&mut timed, &exports)? else { return Ok(()) };
        if !self.end() {
            // This handshake was dropped in favor of another one.
            return Ok(());
        }
        let door = &doors[agreed.export];
        let agreed = Agreed { export: door.at, ..agreed };
        let socket = timed.stream.into_socket()?;
        // If the driver has ended, the connection is closed.
        let told = Some(door.export.clone());
        let _ = door.newcomers.send(Newcomer { socket, agreed, told });
        door.waker.wake();
        Ok(())
    }

    /// Removes the handshake from the list; returns whether it was still on the list.
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

/// A stream with a deadline that applies even if the peer keeps sending slowly.
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
