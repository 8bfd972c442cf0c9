//! The arrival times and lengths of a trace's requests.
//!
//! Each request takes 16 bytes of memory, or 32 if volumes are recorded separately.

use std::path::{Path, PathBuf};

use forebay_core::Nanos;
use forebay_trace::{Notes, Reader};

use super::in_time::Arrival;
use crate::clock::Times;
use crate::error::Error;
use crate::input::read_through;
use crate::plan::arrival_times::{Clock, Span, cautions, own_clock, timed, told_apart};
use crate::progress::Progress;

/// The arrival times and lengths of a trace's requests.
pub struct Load {
    /// The file or stream from which the trace was read.
    pub path: PathBuf,
    /// What was skipped, changed or assumed while the trace was read.
    pub notes: Notes,
    /// The number of reads and writes in the trace; an upper bound for a part of a trace.
    pub data_requests: u64,
    pub(super) requests: Vec<Arrival>,
    /// The requests of each volume, by volume name, for volumes that have any; empty unless
    /// requested.
    volumes: Vec<(String, Vec<Arrival>)>,
}

impl Load {
    /// Reads all requests from `reader`. Error messages call the trace `name`. With `by_volume`,
    /// the requests of each volume are also recorded separately.
    ///
    /// # Errors
    /// Fails if the trace cannot be read, has no requests or no times, or has a clock too coarse
    /// for the promises.
    pub fn read(
        name: &Path,
        reader: &mut dyn Reader,
        by_volume: bool,
        clock: Clock,
        progress: Progress<'_>,
    ) -> Result<Load, Error> {
        let (mut requests, mut volumes) = (Vec::new(), Vec::<Vec<Arrival>>::new());
        let mut data_requests = 0;
        read_through(name, reader, progress, |batch, _| {
            requests.extend(batch.iter().map(|record| (record.at, record.len)));
            data_requests += batch.iter().filter(|record| record.op.moves_data()).count() as u64;
            for record in batch.iter().filter(|_| by_volume) {
                let volume = record.volume as usize;
                if volume >= volumes.len() {
                    volumes.resize_with(volume + 1, Vec::new);
                }
                volumes[volume].push((record.at, record.len));
            }
        })?;
        timed(name, reader.notes())?;
        told_apart(name, Times::among(requests.iter().map(|(at, _)| *at)), clock)?;
        let names = &reader.dictionary().volumes;
        let named = |(index, requests)| (names.get(index).cloned().unwrap_or_default(), requests);
        let volumes = volumes.into_iter().enumerate().filter(|(_, one)| !one.is_empty());
        Ok(Load {
            path: name.to_path_buf(),
            notes: reader.notes().clone(),
            data_requests,
            requests,
            volumes: volumes.map(named).collect(),
        })
    }

    /// Returns each volume as a separate trace, on the same clock; empty unless volumes were
    /// recorded separately.
    pub fn split(self) -> Vec<Load> {
        let Load { path, notes, data_requests, volumes, .. } = self;
        let of = |(volume, requests): (String, Vec<Arrival>)| Load {
            path: PathBuf::from(format!("{} volume {volume}", path.display())),
            notes: notes.clone(),
            data_requests: data_requests.min(requests.len() as u64),
            requests,
            volumes: Vec::new(),
        };
        volumes.into_iter().map(of).collect()
    }

    /// Converts arrival times to the clock of the trace's source, which other traces may share.
    ///
    /// # Errors
    /// Fails if the trace does not record its source's clock.
    pub fn by_own_clock(mut self) -> Result<Load, Error> {
        let began = own_clock(&self.path, &self.notes)?;
        self.requests.iter_mut().for_each(|(at, _)| *at += began);
        Ok(self)
    }

    /// Returns when the trace begins and ends.
    pub fn span(&self) -> Span<'_> {
        let at = |request: Option<&Arrival>| request.map_or(Nanos::ZERO, |(at, _)| *at);
        Span { path: &self.path, first: at(self.requests.first()), last: at(self.requests.last()) }
    }

    /// Returns cautions if the trace is too short, or its clock too coarse, for reliable statements
    /// about the load; one sentence each.
    pub fn cautions(&self) -> Vec<String> {
        let clock = Times::among(self.requests.iter().map(|(at, _)| *at));
        cautions(self.count(), self.span().duration(), clock)
    }

    /// Returns the mean length of the requests in bytes.
    pub fn mean_bytes(&self) -> f64 {
        let sum: u128 = self.requests.iter().map(|(_, len)| u128::from(*len)).sum();
        sum as f64 / self.requests.len().max(1) as f64
    }

    /// Returns the number of requests.
    pub fn count(&self) -> u64 {
        self.requests.len() as u64
    }

    /// Creates a load from requests in order of time, given as (arrival, length in bytes).
    pub fn of(name: &str, requests: Vec<(Nanos, u32)>) -> Load {
        Load {
            path: PathBuf::from(name),
            notes: Notes::default(),
            data_requests: 1000,
            requests,
            volumes: Vec::new(),
        }
    }
}
