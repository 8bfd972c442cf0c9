//! When requests arrive, of a whole trace and of its volumes.

use std::path::{Path, PathBuf};

use forebay_core::Nanos;
use forebay_core::rtt::Gaps;
use forebay_trace::{Notes, Reader};

use crate::error::Error;
use crate::input::read_through;
use crate::progress::GoOn;

/// A trace's times of arrival.
pub struct ArrivalTimes {
    /// Where they were read from.
    pub path: PathBuf,
    /// Of all requests.
    pub whole: Gaps,
    /// Of each volume that has any, by name; empty unless asked for.
    pub volumes: Vec<(String, Gaps)>,
    /// How reading went.
    pub notes: Notes,
}

impl ArrivalTimes {
    /// Reads all that `reader` gives; messages call it `name`. With `by_volume`, volumes are told
    /// apart as well.
    ///
    /// # Errors
    /// A trace that cannot be read, or that has no request or no times.
    pub fn read<P: GoOn>(
        name: &Path,
        reader: &mut dyn Reader,
        by_volume: bool,
        progress: impl FnMut(u64) -> P,
    ) -> Result<ArrivalTimes, Error> {
        let (mut whole, mut volumes) = (Gaps::default(), Vec::<Gaps>::new());
        read_through(name, reader, progress, |batch, _| {
            for record in batch {
                whole.push(record.at);
                if by_volume {
                    let volume = record.volume as usize;
                    if volume >= volumes.len() {
                        volumes.resize_with(volume + 1, Gaps::default);
                    }
                    volumes[volume].push(record.at);
                }
            }
        })?;
        timed(name, reader.notes())?;
        let names = &reader.dictionary().volumes;
        let named = |(index, gaps)| (names.get(index).cloned().unwrap_or_default(), gaps);
        let volumes =
            volumes.into_iter().enumerate().filter(|(_, g)| !g.is_empty()).map(named).collect();
        Ok(ArrivalTimes { path: name.to_path_buf(), whole, volumes, notes: reader.notes().clone() })
    }

    /// Requests.
    pub fn requests(&self) -> u64 {
        self.whole.len() as u64
    }

    /// From the first arrival to the last.
    pub fn duration(&self) -> Nanos {
        self.whole.last() - self.whole.first()
    }

    /// What to keep in mind of a trace with little to tell; one sentence each.
    pub fn cautions(&self) -> Vec<String> {
        cautions(self.requests(), self.duration())
    }
}

/// Refuses a trace, called `name`, that has no times.
pub(super) fn timed(name: &Path, notes: &Notes) -> Result<(), Error> {
    if !notes.is_timeless {
        return Ok(());
    }
    Err(Error::Unfit(format!(
        "{}: got a trace with no times, expected one that says when its requests arrive; a promise \
         of time has no price without",
        name.display()
    )))
}

/// What to keep in mind of so many requests in such a time; one sentence each.
pub(super) fn cautions(requests: u64, duration: Nanos) -> Vec<String> {
    match (requests, duration) {
        (1, _) => vec!["it has one request, which says nothing of a load".into()],
        (requests, Nanos::ZERO) => vec![format!("all {requests} requests arrive at one instant")],
        _ => Vec::new(),
    }
}
