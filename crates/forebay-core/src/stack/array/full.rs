//! Drives that have no room: files on a file system that others have filled, or that have outgrown a quota.
//!
//! That is no fault of the drive, and passes when somebody makes room. Until then writes wait and are tried
//! again, reads go on, and records are tried again too. A client that has waited long enough is told that
//! there is no room. Once nothing had room for so long, others are told after the first try.

use super::Array;
use super::job::Doing;
use super::locks::{Part, Task};
use crate::contract::outcome::Fault;
use crate::contract::time::Nanos;
use crate::stack::placed::Plan;

/// How long until a write that found no room is tried again: often enough that clients go on soon, seldom
/// enough that a full volume stays idle.
const PAUSE: Nanos = Nanos::from_millis(250);
/// How long a client waits for room at most. Clients of NBD give up after 30 s or more.
const WAIT_MAX: Nanos = Nanos::from_millis(10_000);
/// How long until care is tried again that found no room.
pub(super) const CARE_PAUSE: Nanos = Nanos::from_millis(30_000);

/// What waits for room on drives.
#[derive(Clone, Debug, Default)]
pub(super) struct Full {
    /// Since when writes were refused, with none taken since: of data, and of records.
    since: Option<Nanos>,
    records_since: Option<Nanos>,
    /// When all that waits is tried again.
    due: Option<Nanos>,
    /// Parts of writes, by unit.
    parts: Vec<(u64, Part)>,
    /// The round's records.
    records: bool,
}

impl Full {
    pub(super) fn due(&self) -> Option<Nanos> {
        self.due
    }

    /// Whether writes are refused.
    pub(super) fn is_full(&self) -> bool {
        self.since.or(self.records_since).is_some()
    }

    /// Data were taken.
    pub(super) fn took_data(&mut self) {
        self.since = None;
    }

    /// Records were taken.
    pub(super) fn took_records(&mut self) {
        self.records_since = None;
    }
}

/// Whether nobody waits any more who was refused now, and others since that time.
fn is_waited_out(since: &mut Option<Nanos>, now: Nanos) -> bool {
    now >= *since.get_or_insert(now) + WAIT_MAX
}

impl Array {
    /// A drive had no room for what a job writes: its clients wait for room, unless they did.
    pub(super) fn await_room_for(&mut self, key: u32, plan: &mut Plan<'_>) {
        let waited_out = is_waited_out(&mut self.full.since, plan.now);
        self.full.due.get_or_insert(plan.now + PAUSE);
        let job = &mut self.jobs[key as usize];
        let (number, doing) = (job.number, job.doing);
        let may_wait = |part: &Part| !waited_out && plan.now < part.at + WAIT_MAX;
        let (waiting, told): (Vec<Part>, Vec<Part>) =
            std::mem::take(&mut job.parts).into_iter().partition(may_wait);
        job.parts = told;
        self.counts.full_waits += waiting.len() as u64;
        self.full.parts.extend(waiting.into_iter().map(|part| (number, part)));
        self.finish(key, Err(Fault::Full), plan);
        if doing != Doing::Write {
            self.care.postpone(plan.now);
        }
    }

    /// No drive has room for the records of a round: they are written later. Who has waited is told.
    pub(super) fn await_room_for_records(&mut self, plan: &mut Plan<'_>) {
        self.full.due.get_or_insert(plan.now + PAUSE);
        self.full.records = true;
        if is_waited_out(&mut self.full.records_since, plan.now) {
            self.refuse_waiters(plan);
        }
    }

    /// Tries again what waits for room.
    pub(super) fn retry_full(&mut self, plan: &mut Plan<'_>) {
        self.full.due = None;
        for (number, part) in std::mem::take(&mut self.full.parts) {
            self.locks.ask(number, Task::Write(part));
            self.ready.push(number);
        }
        if std::mem::take(&mut self.full.records) {
            self.send_records(plan);
        }
    }
}
