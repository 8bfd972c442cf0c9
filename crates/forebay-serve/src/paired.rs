//! What binds a disk to its flash while a driver serves both.

use forebay_core::Nanos;
use forebay_core::contract::policy::Gauge;

use crate::error::Error;
use crate::flash::Pair;
use crate::marking::Marking;

/// What binds a disk to its flash, if anything does, while both are served.
#[derive(Debug)]
pub(crate) struct Paired {
    pair: Option<Pair>,
    /// What keeps the disk's mark up with the log.
    marking: Option<Marking>,
    /// Why it could not be written that both are served.
    failed: Option<Error>,
}

impl Paired {
    pub(crate) fn new(pair: Option<Pair>) -> Paired {
        Paired { pair, marking: None, failed: None }
    }

    /// Writes that they are served from now on; answers whether it could.
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

    /// The policy says how its log is.
    pub(crate) fn look(&mut self, wall: Nanos, gauges: &[Gauge]) {
        if let Some(marking) = &mut self.marking {
            marking.look(wall, gauges);
        }
    }

    /// Writes how their log is.
    pub(crate) fn end(&mut self, gauges: &[Gauge]) -> Result<(), Error> {
        let marked = self.marking.take().map_or(Ok(()), Marking::end);
        match (self.failed.take(), &self.pair) {
            (Some(error), _) => Err(error),
            (None, Some(pair)) => marked.and(pair.end(gauges)),
            (None, None) => Ok(()),
        }
    }
}
