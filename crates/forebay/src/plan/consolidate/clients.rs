//! Who shares a server: traces, or the volumes of each, and when each begins.

use std::path::Path;

use forebay_ask::named;
use forebay_trace::{Notes, Reader};

use super::Begin;
use crate::error::Error;
use crate::plan::arrival_times::{ArrivalTimes, Clock, Span};
use crate::plan::costed::Load;
use crate::progress::Progress;

/// A client's requests, with their lengths or without.
pub trait OneClient: Sized {
    /// Reads all that `reader` gives; messages call it `name`. With `by_volume`, volumes are told apart as well.
    ///
    /// # Errors
    /// A trace that cannot be read, that has no request or no times, or whose clock is too coarse for what is promised.
    fn read(
        name: &Path,
        reader: &mut dyn Reader,
        by_volume: bool,
        clock: Clock,
        progress: Progress<'_>,
    ) -> Result<Self, Error>;
    /// How reading went.
    fn notes(&self) -> &Notes;
    /// What to keep in mind of a trace that says little; one sentence each.
    fn cautions(&self) -> Vec<String>;
    /// Its volumes, each as a client.
    fn split(self) -> Vec<Self>;
    /// The same by its source's own clock.
    ///
    /// # Errors
    /// A source that does not tell its clock.
    fn by_own_clock(self) -> Result<Self, Error>;
    /// When it begins and ends.
    fn span(&self) -> Span<'_>;
}

impl OneClient for ArrivalTimes {
    fn read(
        name: &Path,
        reader: &mut dyn Reader,
        by_volume: bool,
        clock: Clock,
        progress: Progress<'_>,
    ) -> Result<ArrivalTimes, Error> {
        ArrivalTimes::read(name, reader, by_volume, clock, progress)
    }
    fn notes(&self) -> &Notes {
        &self.notes
    }
    fn cautions(&self) -> Vec<String> {
        self.cautions()
    }
    fn split(self) -> Vec<ArrivalTimes> {
        self.split()
    }
    fn by_own_clock(self) -> Result<ArrivalTimes, Error> {
        self.by_own_clock()
    }
    fn span(&self) -> Span<'_> {
        self.span()
    }
}

impl OneClient for Load {
    fn read(
        name: &Path,
        reader: &mut dyn Reader,
        by_volume: bool,
        clock: Clock,
        progress: Progress<'_>,
    ) -> Result<Load, Error> {
        Load::read(name, reader, by_volume, clock, progress)
    }
    fn notes(&self) -> &Notes {
        &self.notes
    }
    fn cautions(&self) -> Vec<String> {
        self.cautions()
    }
    fn split(self) -> Vec<Load> {
        self.split()
    }
    fn by_own_clock(self) -> Result<Load, Error> {
        self.by_own_clock()
    }
    fn span(&self) -> Span<'_> {
        self.span()
    }
}

/// The clients that `traces` are, or their volumes if those were told apart, and when they begin: the volumes of a trace by
/// its clock, traces together or, with `keep_times`, each by its source's own clock.
///
/// # Errors
/// A trace that does not tell its clock, fewer than two volumes, and a common clock of the volumes of several traces.
pub fn clients<C: OneClient>(
    traces: Vec<C>,
    by_volume: bool,
    keep_times: bool,
) -> Result<(Vec<C>, Begin), Error> {
    let keeps_clocks = keep_times && traces.len() > 1;
    match (by_volume, keeps_clocks) {
        (false, false) => {
            Ok((traces, if keep_times { Begin::AsRecorded } else { Begin::Together }))
        }
        (false, true) => {
            let timed = traces.into_iter().map(C::by_own_clock);
            Ok((timed.collect::<Result<Vec<C>, Error>>()?, Begin::OwnClocks))
        }
        (true, true) => Err(Error::Unfit(format!(
            "{} with {}: got several traces, expected one, whose volumes have a clock in common; leave one of \
             them out, or give one trace",
            named("by=volume"),
            named("keep_times=true")
        ))),
        (true, false) => {
            let clients: Vec<C> = traces.into_iter().flat_map(C::split).collect();
            match clients.len() < 2 {
                false => Ok((clients, Begin::AsRecorded)),
                true => Err(Error::Unfit(format!(
                    "{}: got one volume, expected two or more that share a server; leave it out to put the \
                     trace together with itself",
                    named("by=volume")
                ))),
            }
        }
    }
}
