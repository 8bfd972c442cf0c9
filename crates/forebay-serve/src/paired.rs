//! Keeps the marks that link a disk with its flash up to date while a driver serves both.

use forebay_core::Nanos;
use forebay_core::contract::Gauge;

use crate::Error;
use crate::flash::Pair;
use crate::marking::Marking;

/// The marks that link a disk with its flash, if there are any.
#[derive(Debug)]
pub(crate) struct Paired {
    pair: Option<Pair>,
    /// Updates the disk's mark from the log.
    marking: Option<Marking>,
    /// The error, if recording that both devices are served failed.
    failed: Option<Error>,
}

impl Paired {
    pub(crate) fn new(pair: Option<Pair>) -> Paired {
        Paired { pair, marking: None, failed: None }
    }

    /// Records that both devices are served from now on; returns whether that succeeded.
    pub(crate) fn begin(&mut self) -> bool {
        let begun = self.pair.as_mut().map_or(Ok(()), Pair::begin);
        let log = self.pair.as_ref().filter(|pair| pair.has_log()).cloned();
        let marking = begun.and_then(|()| log.map(Marking::begin).transpose());
        match marking {
            Ok(marking) => self.marking = marking,
            Err(error) => self.failed = Some(error),
        }
        self.failed.is_none()
    }

    /// Reads the state of the log from the policy's gauges.
    pub(crate) fn look(&mut self, wall: Nanos, gauges: &[Gauge]) {
        if let Some(marking) = &mut self.marking {
            marking.look(wall, gauges);
        }
    }

    /// Records the final state of the log.
    pub(crate) fn end(&mut self, gauges: &[Gauge]) -> Result<(), Error> {
        let marked = self.marking.take().map_or(Ok(()), Marking::end);
        match (self.failed.take(), &self.pair) {
            (Some(error), _) => Err(error),
            (None, Some(pair)) => marked.and(pair.end(gauges)),
            (None, None) => Ok(()),
        }
    }
}
