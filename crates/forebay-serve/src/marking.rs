//! Updates a disk's mark from the log on its flash while both are served.
//!
//! The mark contains the number of a log record that the flash must contain, so that an older copy
//! of the flash is detected even after a crash. A separate thread writes the mark, infrequently, so
//! that no client waits for it.

// Allowed because this module works with threads.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use forebay_core::Nanos;
use forebay_core::contract::Gauge;

use crate::error::{Error, system};
use crate::flash::Pair;

/// The minimum interval between writes of the mark.
const EVERY: Nanos = Nanos::from_millis(5000);

/// Writes a disk's mark while the disk is served.
#[derive(Debug)]
pub(crate) struct Marking {
    records: Sender<u64>,
    /// The number of the record last sent to the writing thread.
    sent: u64,
    due: Nanos,
    thread: JoinHandle<Result<(), Error>>,
}

impl Marking {
    /// Starts to update the mark of a pair that is being served.
    ///
    /// # Errors
    /// The system cannot create a thread.
    pub(crate) fn begin(pair: Pair) -> Result<Marking, Error> {
        let (records, wanted) = channel();
        let thread = thread::Builder::new().name("mark".into());
        let thread = thread.spawn(move || write(&pair, &wanted));
        let thread = thread.map_err(system("starting a thread"))?;
        Ok(Marking { records, sent: 0, due: Nanos::ZERO, thread })
    }

    /// Reads the state of the log from the policy's gauges.
    pub(crate) fn look(&mut self, wall: Nanos, gauges: &[Gauge]) {
        let newest = gauges.iter().find(|gauge| gauge.name == "log_newest");
        let newest = newest.map_or(0, |gauge| gauge.value as u64);
        if wall >= self.due && newest > self.sent {
            (self.sent, self.due) = (newest, wall + EVERY);
            // If the thread has ended, [`Marking::end`] reports the reason.
            let _ = self.records.send(newest);
        }
    }

    /// Stops updating the mark.
    ///
    /// # Errors
    /// The mark could not be written.
    pub(crate) fn end(self) -> Result<(), Error> {
        drop(self.records);
        self.thread.join().unwrap_or(Ok(()))
    }
}

fn write(pair: &Pair, wanted: &Receiver<u64>) -> Result<(), Error> {
    while let Ok(newest) = wanted.recv() {
        // Skips to the newest number, because a slow disk may fall behind.
        let newest = wanted.try_iter().last().unwrap_or(newest);
        pair.keep_up(newest)?;
    }
    Ok(())
}
