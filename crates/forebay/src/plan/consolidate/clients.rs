//! The clients of a shared server, which are traces or the volumes of traces, and the alignment of
//! their start times.

use forebay_ask::named;

use super::Begin;
use crate::Error;
use crate::plan::arrival_times::{Arrivals, Requests};

/// Returns the clients and how their start times are aligned. The clients are `traces`, or their
/// volumes if these were recorded separately. The volumes of a trace share the trace's clock.
/// Traces begin together or, with `keep_times`, as recorded on their sources' own clocks.
///
/// # Errors
/// Fails if a trace does not record its source's clock, if there are fewer than two volumes, or if
/// a common clock is requested for the volumes of several traces.
pub fn clients<A: Arrivals>(
    traces: Vec<Requests<A>>,
    by_volume: bool,
    keep_times: bool,
) -> Result<(Vec<Requests<A>>, Begin), Error> {
    let keeps_clocks = keep_times && traces.len() > 1;
    match (by_volume, keeps_clocks) {
        (false, false) => {
            Ok((traces, if keep_times { Begin::AsRecorded } else { Begin::Together }))
        }
        (false, true) => {
            let timed = traces.into_iter().map(Requests::by_own_clock);
            Ok((timed.collect::<Result<Vec<_>, Error>>()?, Begin::OwnClocks))
        }
        (true, true) => Err(Error::Unfit(format!(
            "{} with {}: got several traces, expected one, whose volumes have a clock in common; leave one of \
             them out, or give one trace",
            named("by=volume"),
            named("keep_times=true")
        ))),
        (true, false) => {
            let clients: Vec<_> = traces.into_iter().flat_map(Requests::split).collect();
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
