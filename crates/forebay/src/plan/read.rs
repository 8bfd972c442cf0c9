//! Reading traces for plans.

use super::arrival_times::Clock;
use super::consolidate::clients::OneClient;
use crate::error::Error;
use crate::verb::{Session, SourceAsk, TraceInput, warn_all, warn_notes};

/// Reads the requests of `trace`. With `by_volume`, volumes are also recorded separately. `session`
/// receives the notes.
pub(super) fn read<C: OneClient>(
    source: &SourceAsk,
    trace: &TraceInput,
    by_volume: bool,
    clock: Clock,
    session: &mut dyn Session,
) -> Result<C, Error> {
    let name = trace.name();
    let consumed = session.begin("reading", Some(name));
    let mut reader = source.open(trace, consumed)?;
    let read = &mut |records| session.read(name, records);
    let read = C::read(name, &mut *reader, by_volume, clock, read)?;
    warn_notes(session, name, read.notes());
    warn_all(session, name, &read.cautions());
    Ok(read)
}
