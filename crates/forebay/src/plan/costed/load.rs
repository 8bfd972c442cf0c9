//! The arrival times and lengths of a trace's requests.
//!
//! Memory: 16 bytes per request, and the same again if volumes are separated.

use std::path::{Path, PathBuf};

use forebay_core::Nanos;
use forebay_trace::{Notes, Reader};

use super::in_time::Arrival;
use crate::clock::Times;
use crate::error::Error;
use crate::input::read_through;
use crate::plan::arrival_times::{Clock, Span, cautions, own_clock, timed, told_apart};
use crate::progress::Progress;

/// The arrivals and lengths of a trace.
pub struct Load {
    /// The file or stream that they were read from.
    pub path: PathBuf,
    /// Notes from reading the trace.
    pub notes: Notes,
    pub(super) requests: Vec<Arrival>,
    /// The requests of each volume that has any, by volume name; empty unless requested.
    volumes: Vec<(String, Vec<Arrival>)>,
}

impl Load {
    /// Reads all requests from `reader`; messages call it `name`. With `by_volume`, volumes are
    /// also recorded separately.
    ///
    /// # Errors
    /// If the trace cannot be read, has no requests or no times, or has a clock too coarse for the
    /// promises.
    pub fn read(
        name: &Path,
        reader: &mut dyn Reader,
        by_volume: bool,
        clock: Clock,
        progress: Progress<'_>,
    ) -> Result<Load, Error> {
        let (mut requests, mut volumes) = (Vec::new(), Vec::<Vec<Arrival>>::new());
        read_through(name, reader, progress, |batch, _| {
            requests.extend(batch.iter().map(|record| (record.at, record.len)));
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
            requests,
            volumes: volumes.map(named).collect(),
        })
    }

    /// Returns each volume as a trace of its own, by the same clock. Empty unless volumes were
    /// separated.
    pub fn split(self) -> Vec<Load> {
        let Load { path, notes, volumes, .. } = self;
        let of = |(volume, requests): (String, Vec<Arrival>)| Load {
            path: PathBuf::from(format!("{} volume {volume}", path.display())),
            notes: notes.clone(),
            requests,
            volumes: Vec::new(),
        };
        volumes.into_iter().map(of).collect()
    }

    /// Converts the times to the source's own clock, which other traces may share.
    ///
    /// # Errors
    /// If the source does not record its clock.
    pub fn by_own_clock(mut self) -> Result<Load, Error> {
        let began = own_clock(&self.path, &self.notes)?;
        self.requests.iter_mut().for_each(|(at, _)| *at += began);
        Ok(self)
    }

    /// Returns when the trace began and ended.
    pub fn span(&self) -> Span<'_> {
        let at = |request: Option<&Arrival>| request.map_or(Nanos::ZERO, |(at, _)| *at);
        Span { path: &self.path, first: at(self.requests.first()), last: at(self.requests.last()) }
    }

    /// Returns cautions about a trace that is too short or too coarse to say much; one sentence
    /// each.
    pub fn cautions(&self) -> Vec<String> {
        let clock = Times::among(self.requests.iter().map(|(at, _)| *at));
        cautions(self.count(), self.span().duration(), clock)
    }

    /// Returns the mean length in bytes.
    pub fn mean_bytes(&self) -> f64 {
        let sum: u128 = self.requests.iter().map(|(_, len)| u128::from(*len)).sum();
        sum as f64 / self.requests.len().max(1) as f64
    }

    /// Returns the number of requests.
    pub fn count(&self) -> u64 {
        self.requests.len() as u64
    }

    /// Makes a load from requests in order of time, given as arrival and length in bytes.
    pub fn of(name: &str, requests: Vec<(Nanos, u32)>) -> Load {
        Load { path: PathBuf::from(name), notes: Notes::default(), requests, volumes: Vec::new() }
    }
}
