//! Who shares a server: traces, or the volumes of each, and when each begins.

use super::Begin;
use crate::error::Error;
use crate::plan::arrival_times::{ArrivalTimes, Span};
use crate::plan::costed::Load;

/// A client's requests, with their lengths or without.
pub trait OneClient: Sized {
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
        (false, false) => Ok((traces, if keep_times { Begin::AsRecorded } else { Begin::Together })),
        (false, true) => {
            let timed = traces.into_iter().map(C::by_own_clock);
            Ok((timed.collect::<Result<Vec<C>, Error>>()?, Begin::OwnClocks))
        }
        (true, true) => Err(Error::Unfit(
            "--by volume --keep-times (by_volume, keep_times): got several traces, expected one, whose volumes \
             have a clock in common; leave one of the options out, or give one trace"
                .into(),
        )),
        (true, false) => {
            let clients: Vec<C> = traces.into_iter().flat_map(C::split).collect();
            match clients.len() < 2 {
                false => Ok((clients, Begin::AsRecorded)),
                true => Err(Error::Unfit(
                    "--by volume (by_volume): got one volume, expected two or more that share a server; leave it \
                     out to give the trace with itself"
                        .into(),
                )),
            }
        }
    }
}
