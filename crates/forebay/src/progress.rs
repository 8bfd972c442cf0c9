//! How verbs report their progress, and how callers stop them.

use std::ops::ControlFlow;

use forebay_core::{Bytes, Done, Nanos, Request, Slots, Workload};

/// A callback that is called from time to time with the number of records or requests so far. It
/// returns whether to continue; after `Break`, the verb soon fails with [`crate::Error::Stopped`].
pub type Progress<'a> = &'a mut dyn FnMut(u64) -> ControlFlow<()>;

/// A callback like [`Progress`], for verbs with several steps.
pub type Telling<'a> = &'a mut dyn FnMut(&ProgressReport) -> ControlFlow<()>;

/// A [`Progress`] that does nothing and continues.
pub fn untold(_: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// A [`Telling`] that does nothing and continues.
pub fn unheard(_: &ProgressReport) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The progress of a verb with several steps, some of which may run in parallel.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgressReport {
    /// The current steps, separated by commas.
    pub doing: String,
    /// The share of the work that is complete, from 0 to 1. It never decreases.
    pub done_share: f64,
}

/// The number of records or requests between reports.
const EVERY: u64 = 1 << 16;

/// Counts records or requests, and reports the count from time to time.
pub struct Meter<'a> {
    count: u64,
    told: u64,
    tell: Progress<'a>,
}

impl<'a> Meter<'a> {
    /// Creates a meter that reports to `tell`.
    pub fn new(tell: Progress<'a>) -> Meter<'a> {
        Meter { count: 0, told: 0, tell }
    }

    /// Adds `more` to the count, and returns whether to stop.
    #[inline]
    pub(crate) fn stops_after(&mut self, more: usize) -> bool {
        self.count += more as u64;
        self.count - self.told >= EVERY && self.tell()
    }

    #[cold]
    fn tell(&mut self) -> bool {
        self.told = self.count;
        (self.tell)(self.count).is_break()
    }

    /// Returns the total count.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

/// A workload that reports the progress of its run, and ends the run on request.
pub(crate) struct Metered<'a, W> {
    pub(crate) workload: W,
    meter: Meter<'a>,
    stopped: bool,
}

impl<'a, W> Metered<'a, W> {
    pub(crate) fn new(workload: W, meter: Meter<'a>) -> Metered<'a, W> {
        Metered { workload, meter, stopped: false }
    }
}

impl<W: Workload> Workload for Metered<'_, W> {
    #[inline]
    fn peek(&self) -> Option<Nanos> {
        self.workload.peek()
    }

    #[inline]
    fn take(&mut self) -> Request {
        self.stopped |= self.meter.stops_after(1);
        self.workload.take()
    }

    #[inline]
    fn bytes(&mut self, request: &Request, slots: &mut dyn Slots) -> Bytes {
        self.workload.bytes(request, slots)
    }

    #[inline]
    fn finished(&mut self, now: Nanos, done: &Done, slots: &mut dyn Slots) {
        self.stopped |= self.meter.stops_after(1);
        self.workload.finished(now, done, slots);
    }

    #[inline]
    fn is_over(&self) -> bool {
        self.workload.is_over()
    }

    #[inline]
    fn is_stopped(&self) -> bool {
        self.stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_now_and_then_and_stops_when_asked() {
        let mut told = Vec::new();
        let mut tell = |count| {
            told.push(count);
            if told.len() == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let mut meter = Meter::new(&mut tell);
        let step = EVERY as usize / 4 + 1;
        let stopped = (1..100).find(|_| meter.stops_after(step));
        assert_eq!(stopped, Some(8));
        assert_eq!(told, [EVERY + 4, 2 * EVERY + 8]);
    }

    #[test]
    fn nothing_to_say_continues() {
        assert!(!Meter::new(&mut crate::progress::untold).stops_after(10 * EVERY as usize));
    }
}
