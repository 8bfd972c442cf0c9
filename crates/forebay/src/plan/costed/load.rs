//! When a trace's requests arrive, and how long they are.
//!
//! Memory: 16 bytes a request, as much again where volumes are told apart.

use std::path::{Path, PathBuf};

use forebay_core::Nanos;
use forebay_trace::{Notes, Reader};

use super::in_time::Arrival;
use crate::clock::Times;
use crate::error::Error;
use crate::input::read_through;
use crate::plan::arrival_times::{Clock, Span, cautions, own_clock, timed, told_apart};
use crate::progress::Progress;

/// A trace's arrivals and lengths.
pub struct Load {
    /// Where it was read from.
    pub path: PathBuf,
    /// How reading went.
    pub notes: Notes,
    pub(super) requests: Vec<Arrival>,
    /// Of each volume that has any, by name; empty unless asked for.
    volumes: Vec<(String, Vec<Arrival>)>,
}

impl Load {
    /// Reads all that `reader` gives; messages call it `name`. With `by_volume`, volumes are told apart as well.
    ///
    /// # Errors
    /// A trace that cannot be read, or that has no request or no times, or whose clock is too coarse for what is
    /// promised.
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

    /// Its volumes, each as a trace of its own by the same clock. Empty unless volumes were told apart.
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

    /// The same by the source's own clock, which other traces may share.
    ///
    /// # Errors
    /// A source that does not tell its clock.
    pub fn by_own_clock(mut self) -> Result<Load, Error> {
        let began = own_clock(&self.path, &self.notes)?;
        self.requests.iter_mut().for_each(|(at, _)| *at += began);
        Ok(self)
    }

    /// When it began and ended.
    pub fn span(&self) -> Span<'_> {
        let at = |request: Option<&Arrival>| request.map_or(Nanos::ZERO, |(at, _)| *at);
        Span { path: &self.path, first: at(self.requests.first()), last: at(self.requests.last()) }
    }

    /// What to keep in mind of a trace with little to tell; one sentence each.
    pub fn cautions(&self) -> Vec<String> {
        let clock = Times::among(self.requests.iter().map(|(at, _)| *at));
        cautions(self.count(), self.span().duration(), clock)
    }

    /// The mean length in bytes.
    pub fn mean_bytes(&self) -> f64 {
        let sum: u128 = self.requests.iter().map(|(_, len)| u128::from(*len)).sum();
        sum as f64 / self.requests.len().max(1) as f64
    }

    /// Requests.
    pub fn count(&self) -> u64 {
        self.requests.len() as u64
    }

    /// Of requests that are known, in the order of their times: when each comes and its bytes.
    pub fn of(name: &str, requests: Vec<(Nanos, u32)>) -> Load {
        Load { path: PathBuf::from(name), notes: Notes::default(), requests, volumes: Vec::new() }
    }
}
