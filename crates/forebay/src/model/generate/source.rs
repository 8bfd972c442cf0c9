//! A part of the model as one of several sources of requests.

use forebay_core::Nanos;
use forebay_trace::Record;

use super::super::file::Model;
use super::part::PartGenerator;

/// Draws the requests of a part, each cycle of them within a cycle of the whole model.
pub(super) struct Source {
    part: PartGenerator,
    upcoming: Option<Record>,
    /// Requests of a cycle, and when its first comes.
    requests: u64,
    begin_ns: u64,
    /// How long a cycle of the whole model is; none of a part that is all of it.
    cycle_ns: Option<u64>,
    drawn: u64,
    /// How much later than the part has it.
    wait_ns: u64,
}

impl Source {
    /// Of part `index`; `goes_on` beyond its own requests, in cycles of the whole model.
    pub(super) fn new(
        model: &Model,
        index: usize,
        seed: u64,
        (goes_on, cycle_ns): (bool, Option<u64>),
    ) -> Source {
        let part = &model.parts[index];
        let left = if goes_on { u64::MAX } else { part.requests };
        // In whole ticks, as all times are.
        let tick_ns = part.arrivals.tick_ns();
        let mut source = Source {
            part: PartGenerator::new(model, part, seed ^ (index as u64) << 48, left),
            upcoming: None,
            requests: part.requests,
            begin_ns: part.begin_ns() / tick_ns * tick_ns,
            cycle_ns: cycle_ns.map(|ns| ns.checked_next_multiple_of(tick_ns).unwrap_or(ns)),
            drawn: 0,
            wait_ns: 0,
        };
        source.upcoming = source.draw();
        source
    }

    /// When the next request comes.
    #[inline]
    pub(super) fn at(&self) -> Nanos {
        self.upcoming.map_or(Nanos::MAX, |record| record.at)
    }

    /// The next request.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Record> {
        let record = self.upcoming.take()?;
        self.upcoming = self.draw();
        Some(record)
    }

    #[inline]
    fn draw(&mut self) -> Option<Record> {
        let mut record = self.part.next()?;
        let Some(cycle_ns) = self.cycle_ns else { return Some(record) };
        if self.drawn > 0 && self.drawn.is_multiple_of(self.requests) {
            let cycles = self.drawn / self.requests;
            let begins = cycles.saturating_mul(cycle_ns).saturating_add(self.begin_ns);
            self.wait_ns = begins.saturating_sub(record.at.0);
        }
        self.drawn += 1;
        record.at = Nanos(record.at.0.saturating_add(self.wait_ns));
        Some(record)
    }
}
