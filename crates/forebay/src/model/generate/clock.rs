//! When the next request comes: by division of time, or by period and the family of its transition.

use super::super::cascade::Cascade;
use super::super::file::{Arrivals, Model, Part, Scales};
use super::super::state::{Range, gap_class};
use super::draw::Dice;
use super::periods::PeriodClock;

/// Tells gaps.
pub(super) struct Clock {
    tick: u64,
    kind: Kind,
}

enum Kind {
    Scales(ScaleClock),
    Periods(PeriodClock),
}

impl Clock {
    /// Of a part with these leaves.
    pub(super) fn new(model: &Model, part: &Part, leaves: &[Range]) -> Clock {
        match &part.arrivals {
            Arrivals::Scales(scales) => Clock {
                tick: scales.tick_ns,
                kind: Kind::Scales(ScaleClock::new(scales, part.requests)),
            },
            Arrivals::Periods(periods) => Clock {
                tick: periods.tick_ns,
                kind: Kind::Periods(PeriodClock::new(periods, (model, part), leaves)),
            },
        }
    }

    /// Classes of the gap that comes next and of the one after it, where transitions do not decide.
    #[inline]
    pub(super) fn look_ahead(&mut self, dice: &mut Dice) -> Option<(usize, usize)> {
        let Kind::Scales(clock) = &mut self.kind else { return None };
        let [next, after] = clock.look_ahead(dice);
        Some((gap_class(next), gap_class(after)))
    }

    /// The next gap, which leads from leaf to leaf.
    #[inline]
    pub(super) fn gap(&mut self, leaves: (usize, usize), dice: &mut Dice) -> u64 {
        match &mut self.kind {
            Kind::Scales(clock) => clock.next,
            Kind::Periods(clock) => clock.gap(leaves, dice),
        }
    }

    /// A time in whole ticks.
    #[inline]
    pub(super) fn whole(&self, at: u64) -> u64 {
        at / self.tick * self.tick
    }
}

/// Goes through the epochs.
struct ScaleClock {
    epoch_requests: u64,
    epochs: Vec<u64>,
    epoch: usize,
    requests: u64,
    cascade: Cascade,
    next: u64,
    /// The gap after it; none before the first.
    after: Option<u64>,
}

impl ScaleClock {
    fn new(scales: &Scales, requests: u64) -> ScaleClock {
        ScaleClock {
            epoch_requests: scales.epoch_requests,
            epochs: scales.epochs_us.iter().map(|us| (us * 1e3).round() as u64).collect(),
            epoch: 0,
            requests,
            cascade: Cascade::new(&scales.splits, &scales.divisions),
            next: 0,
            after: None,
        }
    }

    #[inline]
    fn look_ahead(&mut self, dice: &mut Dice) -> [u64; 2] {
        self.next = match self.after {
            Some(gap) => gap,
            None => self.draw(dice),
        };
        let after = self.draw(dice);
        self.after = Some(after);
        [self.next, after]
    }

    #[inline]
    fn draw(&mut self, dice: &mut Dice) -> u64 {
        if let Some(gap) = self.cascade.next(|| dice.unit()) {
            return gap;
        }
        if self.epoch == 0 {
            self.cascade.restart();
        }
        let before = self.epoch as u64 * self.epoch_requests;
        let requests = self.epoch_requests.min(self.requests - before);
        self.cascade.begin(requests, self.epochs[self.epoch]);
        self.epoch = (self.epoch + 1) % self.epochs.len();
        self.cascade.next(|| dice.unit()).unwrap_or(0)
    }
}
