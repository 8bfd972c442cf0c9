//! Care in the background, at a bounded rate: what is lost is made anew when a drive can take it, and
//! all of a volume is read where that is asked for.

use super::Array;
use super::locks::Task;
use super::unit::Place;
use crate::contract::time::Nanos;
use crate::stack::placed::Plan;

/// Units that are looked at in one go.
const LOOK: u64 = 4096;

/// How far it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Care {
    due: Option<Nanos>,
    next: u64,
    /// Reads all there is, once.
    scrubs: bool,
    /// Bytes of clients' data a second; 0 is as fast as it goes.
    rate: u64,
    /// A unit is being looked after.
    pub(super) busy: bool,
    /// Where room was last made, and how often that was tried since there was any.
    pub(super) reclaimed: u64,
    pub(super) reclaims: u64,
    /// Who opens it is answered when all care is taken.
    pub(super) waits: bool,
    pub(super) waiters: Vec<u32>,
}

impl Care {
    pub(super) fn due(&self) -> Option<Nanos> {
        self.due.filter(|_| !self.busy)
    }

    /// From the first unit on.
    pub(super) fn begin(&mut self, now: Nanos) {
        (self.due, self.next) = (Some(now), 0);
    }
}

impl Array {
    /// The same, which takes care of at most so many bytes of data a second; 0 is no limit.
    pub fn caring_at(mut self, bytes_a_second: u64) -> Array {
        self.care.rate = bytes_a_second;
        self
    }

    /// The same, which reads all there is once and mends what is wrong.
    pub fn scrubbing(mut self) -> Array {
        self.care.scrubs = true;
        self
    }

    /// The same, whose opening is answered only when all care is taken and is durable.
    pub fn mending(mut self) -> Array {
        self.care.waits = true;
        self
    }

    /// Looks after the next unit that needs it.
    pub(super) fn take_care(&mut self, plan: &mut Plan<'_>) {
        let units = self.table.units();
        let end = (self.care.next + LOOK).min(units);
        let needy = (self.care.next..end).find(|at| self.needs_care(*at));
        let Some(at) = needy else {
            self.care.next = end;
            let is_over = end == units;
            self.care.scrubs &= !is_over;
            self.care.due = (!is_over).then_some(plan.now + Nanos(1));
            if is_over {
                for client in std::mem::take(&mut self.care.waiters) {
                    self.log.wait(client);
                }
                self.commit(plan);
            }
            return;
        };
        (self.care.next, self.care.busy) = (at + 1, true);
        let task = Task::Repair { reads_all: self.care.scrubs };
        self.locks.ask(at, task);
        self.ready.push(at);
        let pause = match self.care.rate {
            0 => 1,
            rate => (self.geometry.unit_bytes() as f64 / rate as f64 * 1e9) as u64,
        };
        self.care.due = Some(plan.now + Nanos(pause.max(1)));
    }

    fn needs_care(&self, at: u64) -> bool {
        let unit = self.unit(at);
        let Some(level) = unit.level else { return false };
        self.care.scrubs
            || (0..level.roles(self.chunks())).any(|role| {
                let place = unit.places[role];
                let is_lost = place != Place::ZERO && self.drives.lane(place).is_none();
                is_lost && self.drives.choose(&self.geometry, at, &unit, level, role).is_some()
            })
    }
}
