//! Publishes figures: to `forebay top` over a second socket, and to Prometheus over HTTP.

// This module works with threads and sockets.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use forebay_live::Waker;
use rustix::net::{Shutdown, shutdown};

use crate::address::{Address, Listener};
use crate::error::{Error, system, unfit};
use crate::figures::{BackFigures, Figures, SCHEMA_VERSION};
use crate::front::Order;

/// The timeout for sending to a client, and for a driver's answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Queries drivers for their figures.
#[derive(Clone)]
pub(crate) struct Reporter {
    pub(crate) started: Instant,
    /// The backs by name.
    pub(crate) backs: Vec<(String, Sender<Order>, Waker)>,
}

impl Reporter {
    /// Returns the figures of all backs that are still served.
    pub(crate) fn figures(&self) -> Figures {
        let of = |(name, orders, waker): &(String, Sender<Order>, Waker)| {
            let (told, telling) = channel();
            orders.send(Order::Tell(told)).ok()?;
            waker.wake();
            let tally = telling.recv_timeout(PATIENCE).ok()?;
            Some(BackFigures::of(name, &tally))
        };
        let uptime_s = self.started.elapsed().as_secs_f64();
        let backs = self.backs.iter().filter_map(of).collect();
        Figures { schema_version: SCHEMA_VERSION, uptime_s, backs }
    }
}

/// Returns the path of the figures socket for the server at `socket`.
pub(crate) fn beside(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".figures");
    PathBuf::from(name)
}

/// Requests the figures of the server at `socket`, from another process.
///
/// # Errors
/// No server answers there.
pub fn ask(socket: &Path) -> Result<Figures, Error> {
    let path = beside(socket);
    let what = |error: &dyn std::fmt::Display| {
        unfit(format!(
            "{}: no server publishes figures at this path: {error}; expected PATH of forebay \
             serve --socket PATH",
            path.display()
        ))
    };
    let stream = UnixStream::connect(&path).map_err(|error| what(&error))?;
    stream.set_read_timeout(Some(2 * PATIENCE)).map_err(|error| what(&error))?;
    serde_json::from_reader(stream).map_err(|error| what(&error))
}

/// A thread that publishes figures over a socket.
pub(crate) struct Telling {
    over: Arc<AtomicBool>,
    stopper: OwnedFd,
    thread: JoinHandle<()>,
}

impl Telling {
    /// Starts publishing next to `socket`, on which this server listens. A stale figures socket is
    /// replaced, because its server no longer owns `socket`.
    pub(crate) fn start(socket: &Path, reporter: Reporter) -> Result<Telling, Error> {
        let path = beside(socket);
        if std::fs::symlink_metadata(&path).is_ok_and(|found| found.file_type().is_socket()) {
            // If the file cannot be removed, listening fails with an error.
            let _ = std::fs::remove_file(&path);
        }
        let (listener, _) = Address::Unix(path).listen()?;
        let stopper = listener.stopper().map_err(system("telling figures"))?;
        let over = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&over);
        let thread = thread::Builder::new().name("figures".into());
        let thread = thread.spawn(move || tell(&listener, &theirs, &reporter));
        let thread = thread.map_err(system("starting a thread"))?;
        Ok(Telling { over, stopper, thread })
    }

    /// Stops publishing.
    pub(crate) fn stop(self) {
        self.over.store(true, Ordering::SeqCst);
        // The thread wakes up even if the socket's file is gone, and ends by itself.
        let _ = shutdown(&self.stopper, Shutdown::Both);
        let _ = self.thread.join();
    }
}

fn tell(listener: &Listener, over: &AtomicBool, reporter: &Reporter) {
    loop {
        let accepted = listener.accept();
        if over.load(Ordering::SeqCst) {
            return;
        }
        let Ok(mut stream) = accepted else {
            // The process may be out of descriptors, for example; wait until others are closed.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        if stream.set_timeout(PATIENCE).is_ok()
            && let Ok(text) = serde_json::to_vec(&reporter.figures())
        {
            // A client that disconnects is not worth a message.
            let _ = stream.write_all(&text);
        }
    }
}
