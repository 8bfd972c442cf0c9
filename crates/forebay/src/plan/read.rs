//! Reads traces for the `plan` verbs.

use super::arrival_times::{Arrivals, Clock, Requests};
use crate::Error;
use crate::verb::{Session, SourceAsk, TraceInput, TracePart, warn_all, warn_notes};
use forebay_trace::by_export::ByExport;
use forebay_trace::by_stream::ByStream;

/// Reads the requests of `trace`, and separately those of each of its parts if `by` names a kind of
/// part. Notes and cautions are passed to `session`.
pub(super) fn read<A: Arrivals>(
    source: &SourceAsk,
    trace: &TraceInput,
    by: Option<TracePart>,
    clock: Clock,
    session: &mut dyn Session,
) -> Result<Requests<A>, Error> {
    let read = read_uncautioned(source, trace, by, clock, session)?;
    warn_all(session, trace.name(), &read.cautions());
    Ok(read)
}

/// Reads like [`read`], but leaves the cautions to the caller, for parts that are judged by
/// themselves.
pub(super) fn read_uncautioned<A: Arrivals>(
    source: &SourceAsk,
    trace: &TraceInput,
    by: Option<TracePart>,
    clock: Clock,
    session: &mut dyn Session,
) -> Result<Requests<A>, Error> {
    let name = trace.name();
    let consumed = session.begin("reading", Some(name));
    let mut reader = source.open(trace, consumed)?;
    match by {
        Some(TracePart::Stream) => reader = Box::new(ByStream::new(reader)),
        Some(TracePart::Export) => {
            reader = Box::new(ByStream::new(Box::new(ByExport::new(reader))));
        }
        Some(TracePart::Volume) | None => {}
    }
    let read = &mut |records| session.read(name, records);
    let read = Requests::read(name, &mut *reader, by.is_some(), clock, read)?;
    warn_notes(session, name, &read.notes);
    Ok(read)
}
