//! The mark of a disk, kept up with the log on its flash while both are served.
//!
//! The mark names a record that the flash has at least. So a copy of the flash that is older than the mark is noticed
//! even after a kill. The mark is written seldom, and by a thread of its own: no client waits for it.

// Threads are its task.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use forebay_core::Nanos;
use forebay_core::contract::policy::Gauge;

use crate::error::{Error, system};
use crate::flash::Pair;

/// How often the mark is written, at most.
const EVERY: Nanos = Nanos::from_millis(5000);

/// Writes a disk's mark while it is served.
#[derive(Debug)]
pub(crate) struct Marking {
    records: Sender<u64>,
    /// The last record that was sent, and when the next may be.
    sent: u64,
    due: Nanos,
    thread: JoinHandle<Result<(), Error>>,
}

impl Marking {
    /// Of a pair that is served.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub(crate) fn begin(pair: Pair) -> Result<Marking, Error> {
        let (records, wanted) = channel();
        let thread = thread::Builder::new().name("mark".into());
        let thread = thread.spawn(move || write(&pair, &wanted));
        let thread = thread.map_err(system("starting a thread"))?;
        Ok(Marking { records, sent: 0, due: Nanos::ZERO, thread })
    }

    /// The policy says how its log is.
    pub(crate) fn look(&mut self, wall: Nanos, gauges: &[Gauge]) {
        let newest = gauges.iter().find(|gauge| gauge.name == "log_newest");
        let newest = newest.map_or(0, |gauge| gauge.value as u64);
        if wall >= self.due && newest > self.sent {
            (self.sent, self.due) = (newest, wall + EVERY);
            // Where it ended, it says why at the end.
            let _ = self.records.send(newest);
        }
    }

    /// Ends it: nothing is written any more.
    ///
    /// # Errors
    /// Where the mark could not be written.
    pub(crate) fn end(self) -> Result<(), Error> {
        drop(self.records);
        self.thread.join().unwrap_or(Ok(()))
    }
}

fn write(pair: &Pair, wanted: &Receiver<u64>) -> Result<(), Error> {
    while let Ok(newest) = wanted.recv() {
        // A slow disk may be behind.
        let newest = wanted.try_iter().last().unwrap_or(newest);
        pair.keep_up(newest)?;
    }
    Ok(())
}
