//! The clients of a shared server, which are traces or the volumes of traces, and the alignment of
//! their start times.

use std::path::Path;

use forebay_ask::named;
use forebay_trace::{Notes, Reader};

use super::Begin;
use crate::error::Error;
use crate::plan::arrival_times::{ArrivalTimes, Clock, Span};
use crate::plan::costed::Load;
use crate::progress::Progress;

/// A client's requests: their arrival times, with or without their lengths.
pub trait OneClient: Sized {
    /// Reads all requests from `reader`. Error messages call the trace `name`. With `by_volume`,
    /// the requests of each volume are also recorded separately.
    ///
    /// # Errors
    /// Fails if the trace cannot be read, has no requests or no times, or has a clock too coarse
    /// for the promises.
    fn read(
        name: &Path,
        reader: &mut dyn Reader,
        by_volume: bool,
        clock: Clock,
        progress: Progress<'_>,
    ) -> Result<Self, Error>;
    /// Returns the notes from reading the trace.
    fn notes(&self) -> &Notes;
    /// Returns cautions if the trace is too short, or its clock too coarse, for reliable statements
    /// about the load; one sentence each.
    fn cautions(&self) -> Vec<String>;
    /// Returns each volume as a separate client.
    fn split(self) -> Vec<Self>;
    /// Converts arrival times to the clock of the trace's source.
    ///
    /// # Errors
    /// Fails if the trace does not record its source's clock.
    fn by_own_clock(self) -> Result<Self, Error>;
    /// Returns when the client begins and ends.
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

/// Returns the clients and how their start times are aligned. The clients are `traces`, or their
/// volumes if these were recorded separately. The volumes of a trace share the trace's clock.
/// Traces begin together or, with `keep_times`, as recorded on their sources' own clocks.
///
/// # Errors
/// Fails if a trace does not record its source's clock, if there are fewer than two volumes, or if
/// a common clock is requested for the volumes of several traces.
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
