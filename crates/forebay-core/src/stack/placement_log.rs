//! The table of a placement that survives restarts: which place on the flash contains data that is
//! not on the disk. It is a log in the first bytes of the flash, described in
//! docs/placement-log.md.
//!
//! A *place* is a piece of the flash that is allocated as a whole. Its *name* in the table is the
//! disk block whose newest content it contains (and the part of the block), or none. The owner of
//! the log is the placement that allocates the places. Data is written first, then the record that
//! names it, and only then is the client answered:
//! * a *round* takes the places whose names have changed, flushes the flash and the disks
//!   concerned, and writes records of the changes with FUA, one after another. Then the requests
//!   that waited for the round are answered;
//! * a change is recorded only if it was valid when the round's flushes began. The content that a
//!   name refers to is therefore durable before the name, and so is the data on the disk before a
//!   name is removed;
//! * within a round, names are removed before others are added, so no block ever has two places;
//! * a place that is named by a record, even by an outstanding one, is not used for anything else
//!   ([`PlacementLog::is_named`]), until a record is durable that no longer names it;
//! * a record that the flash refuses is written again unchanged, because it may have been written
//!   after all. If that fails too, nothing becomes durable any longer;
//! * records are written one at a time, each durable before the next begins. After a power cut, all
//!   valid records are therefore intact, except the last outstanding one;
//! * each record also contains the next page of the table, so the ring of records is the complete
//!   table, and the time to open it does not depend on how long the log was used;
//! * a record that a power cut left incomplete is distinguished from one that was damaged, which is
//!   an error.
//!
//! After a power cut, exactly the places with durable names are restored. A write that was not
//! flushed may or may not be restored, sector by sector, as with any write cache. Data that a flush
//! or an FUA write covered is restored.
//!
//! The ring of records is similar to that of the array (`stack/array/record`), but is on a single
//! device.

mod format;
mod opening;

use crate::contract::{
    BACKGROUND, Buf, Bytes, Fault, Flags, Gauge, GaugeOf, Lane, Op, Outcome, Request, worst,
};
use crate::stack::cached::Bound;
use crate::stack::placed::{Owner, Plan, Planned};

pub(crate) use format::{Binding, Change, Name};
use format::{CHANGES_MAX, RECORD};
pub use format::{FlashLabel, LABEL_BYTES, LabelFound, VERSION, found_label, put_generation};
use opening::Opening;

/// How often a record is written if the flash refuses it.
const TRIES_MAX: u32 = 4;

/// The steps of the log, stored in the tokens of its I/Os above the lowest eight bits.
const STEP_BIT: u32 = 8;
const FLUSH: u64 = 0;
const WRITE: u64 = 1;
const OPEN: u64 = 2;

/// The name that a place should get, according to the log's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// This name. The place will contain the block once all devices are flushed.
    Name(Name),
    /// Unknown for now; the log will ask again in the next round.
    Later,
}

/// The driver's information about a flash and the disk that it belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pairing {
    /// A random number that was drawn when the flash was initialized, and is stored on both
    /// devices.
    pub pair: u128,
    /// The number of a record that the flash must contain; it may also contain newer ones.
    pub newest: u64,
    /// Whether to accept a flash whose newest record is damaged, using the previous record.
    pub is_forced: bool,
}

/// The result of an I/O of the log.
#[derive(Debug)]
pub(crate) enum Event {
    /// Nothing that the owner needs to handle.
    None,
    /// The table has been read, or could not be read.
    Opened(Outcome),
    /// A round has ended.
    Ended(Ended),
}

/// The result of a round.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The requests that waited for the round.
    pub(crate) waiters: Vec<u32>,
    /// The outcome for these requests.
    pub(crate) outcome: Outcome,
    /// The changes that are now durable.
    pub(crate) recorded: Vec<Change>,
    /// The lanes whose flush failed, so writes since the previous flush may be lost.
    pub(crate) suspects: Vec<Lane>,
}

#[derive(Clone, Debug)]
enum Phase {
    Closed,
    Opening(Box<Opening>),
    Open,
    /// The flash accepts no more records.
    Failed(Fault),
}

/// A round in progress.
#[derive(Clone, Debug)]
struct Round {
    waiters: Vec<(u32, Lane)>,
    outcome: Outcome,
    suspects: Vec<(Lane, Fault)>,
    /// The number of outstanding flushes.
    left: u32,
    changes: Vec<Change>,
    /// The number of durable changes, and that number including the changes in the current record.
    recorded: usize,
    begun: usize,
    /// The current record.
    buf: Buf,
    tries: u32,
}

/// The place is queued because its name has or may have changed.
const QUEUED: u8 = 1;
/// The current round changes the name of the place.
const UNDER_WAY: u8 = 2;

/// A placement log, on a flash and in memory.
#[derive(Clone, Debug)]
pub(crate) struct PlacementLog {
    binding: Binding,
    /// Whether to initialize a blank flash.
    formats: bool,
    /// The minimum number of the newest record. A flash with only older records is refused.
    least: u64,
    /// Whether to accept a flash whose newest record is damaged.
    is_forced: bool,
    /// The lane of the flash.
    flash: Lane,
    /// The lowest bits of the tokens of the log's I/Os.
    token: u64,
    phase: Phase,
    /// The number of the last durable record.
    sequence: u64,
    /// The durable table: the name of each place.
    table: Vec<Name>,
    /// The number of names in the table.
    named: u64,
    states: Vec<u8>,
    queue: Vec<u32>,
    waiters: Vec<(u32, Lane)>,
    /// Requests that arrived before the table was read.
    early: Vec<(u32, Request, Bytes)>,
    /// Disks whose flush failed while no request was waiting for it.
    untold: Vec<(Lane, Fault)>,
    round: Option<Round>,
    records: u64,
}

impl PlacementLog {
    /// Creates a log for the flash on lane `flash`. All its I/Os have `token` in the lowest eight
    /// bits. `bound` determines whether a blank flash is initialized.
    pub(crate) fn new(binding: Binding, bound: Bound, flash: Lane, token: u64) -> PlacementLog {
        let places = binding.places as usize;
        PlacementLog {
            binding,
            formats: bound.formats,
            least: bound.pairing.newest,
            is_forced: bound.pairing.is_forced,
            flash,
            token,
            phase: Phase::Closed,
            sequence: 0,
            table: vec![Name::NONE; places],
            named: 0,
            states: vec![0; places],
            queue: Vec::new(),
            early: Vec::new(),
            waiters: Vec::new(),
            untold: Vec::new(),
            round: None,
            records: 0,
        }
    }

    /// Opens an empty log without reading or writing the flash.
    #[cfg(test)]
    pub(crate) fn open_empty(&mut self) {
        self.phase = Phase::Open;
    }

    /// Returns the offset of the first place on the flash.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.binding.log_bytes()
    }

    /// Returns the number of records written since the log was opened.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// Returns the number of the newest durable record, and how many places it names: 0 if all data
    /// is on the disk.
    pub(crate) fn gauges(&self) -> [Gauge; 2] {
        let gauge = |name, value: u64| Gauge { name, of: GaugeOf::All, value: value as f64 };
        let is_changing = u64::from(!self.is_quiet());
        [gauge("log_newest", self.sequence), gauge("log_named", self.named.max(is_changing))]
    }

    /// Returns whether the table has been read.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Failed(_))
    }

    /// Makes a request wait until the table has been read, and starts reading it; returns whether
    /// the request must wait.
    pub(crate) fn defers(
        &mut self,
        client: u32,
        request: &Request,
        bytes: Bytes,
        plan: &mut Plan<'_>,
    ) -> bool {
        if self.is_open() {
            return false;
        }
        plan.hold(client);
        self.early.push((client, *request, bytes));
        self.open(plan);
        true
    }

    /// Returns the requests that waited for the table, which has now been read or cannot be read.
    pub(crate) fn deferred(&mut self) -> Vec<(u32, Request, Bytes)> {
        std::mem::take(&mut self.early)
    }

    /// Returns the places with their names in the durable table.
    pub(crate) fn table(&self) -> impl Iterator<Item = (u32, Name)> {
        (0..).zip(self.table.iter().copied())
    }

    /// Returns whether the log names a place, so that it must not be used for anything else.
    pub(crate) fn is_named(&self, place: u32) -> bool {
        let place = place as usize;
        self.table[place] != Name::NONE || self.states[place] & UNDER_WAY != 0
    }

    /// Records that the name of a place has changed, or may have.
    pub(crate) fn note(&mut self, place: u32) {
        let state = &mut self.states[place as usize];
        if *state & QUEUED == 0 {
            *state |= QUEUED;
            self.queue.push(place);
        }
    }

    /// Returns whether a place durably has this name and no change of it is pending.
    pub(crate) fn is_settled(&self, place: u32, name: Name) -> bool {
        self.table[place as usize] == name && self.states[place as usize] == 0
    }

    /// Returns whether no changes are pending.
    pub(crate) fn is_quiet(&self) -> bool {
        self.queue.is_empty() && self.round.is_none() && matches!(self.phase, Phase::Open)
    }

    /// Makes a client wait for the next round, which also flushes a disk.
    pub(crate) fn wait(&mut self, client: u32, disk: Lane, plan: &mut Plan<'_>) {
        plan.hold(client);
        self.waiters.push((client, disk));
    }

    /// Returns whether requests wait for a round.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// Begins a round with the names that `wish` returns, unless a round is in progress or there is
    /// nothing to record.
    pub(crate) fn begin(&mut self, plan: &mut Plan<'_>, wish: impl Fn(u32) -> Wish) {
        if let Phase::Failed(fault) = self.phase {
            return self.release_waiters(Err(fault), plan);
        }
        if self.round.is_some() || !matches!(self.phase, Phase::Open) {
            return;
        }
        let changes = self.collect(wish);
        if changes.is_empty() && self.waiters.is_empty() {
            return;
        }
        let mut lanes: Vec<Lane> = self.waiters.iter().map(|&(_, disk)| disk).collect();
        // If a name is removed, its data is on the disk, which must therefore be flushed.
        let before = changes.iter().map(|change| self.table[change.place as usize]);
        lanes.extend(before.filter(|name| *name != Name::NONE).map(Name::disk));
        lanes.push(self.flash);
        lanes.sort_unstable();
        lanes.dedup();
        self.round = Some(Round {
            waiters: std::mem::take(&mut self.waiters),
            outcome: Ok(()),
            suspects: Vec::new(),
            left: lanes.len() as u32,
            changes,
            recorded: 0,
            begun: 0,
            buf: 0,
            tries: 0,
        });
        for lane in lanes {
            let io = self.io(Op::Flush, FLUSH, 0, 0, Bytes::NONE);
            plan.io(Planned { lane, ..io });
        }
    }

    /// Collects the changes of the round. Names to be removed come first.
    fn collect(&mut self, wish: impl Fn(u32) -> Wish) -> Vec<Change> {
        let mut changes = Vec::new();
        let (table, states) = (&self.table, &mut self.states);
        self.queue.retain(|&place| {
            let at = place as usize;
            let Wish::Name(name) = wish(place) else { return true };
            states[at] &= !QUEUED;
            if name != table[at] {
                states[at] |= UNDER_WAY;
                changes.push(Change { place, name });
            }
            false
        });
        changes.sort_unstable_by_key(|change| (change.name != Name::NONE, change.place));
        changes
    }

    /// Handles the completion of an I/O of the log.
    pub(crate) fn done(&mut self, io: &Planned, outcome: Outcome, plan: &mut Plan<'_>) -> Event {
        match io.token >> STEP_BIT & 3 {
            OPEN => self.opened(io, outcome, plan),
            FLUSH => self.flushed(io.lane, outcome, plan),
            _ => self.written(outcome, plan),
        }
    }

    fn flushed(&mut self, lane: Lane, outcome: Outcome, plan: &mut Plan<'_>) -> Event {
        let Some(round) = &mut self.round else { return Event::None };
        round.left -= 1;
        round.outcome = worst(round.outcome, outcome);
        if let Err(fault) = outcome {
            round.suspects.push((lane, fault));
        }
        match round.left {
            0 => self.go_on(plan),
            _ => Event::None,
        }
    }

    /// Writes the next record of the round, or ends it.
    fn go_on(&mut self, plan: &mut Plan<'_>) -> Event {
        let Some(round) = &mut self.round else { return Event::None };
        if round.outcome.is_err() || round.recorded == round.changes.len() {
            return self.end();
        }
        round.begun = round.changes.len().min(round.recorded + CHANGES_MAX);
        let changes = &round.changes[round.recorded..round.begun];
        for change in changes {
            let name = &mut self.table[change.place as usize];
            self.named -= u64::from(*name != Name::NONE);
            self.named += u64::from(change.name != Name::NONE);
            *name = change.name;
        }
        round.buf = plan.slots.take(RECORD);
        let to = Bytes::of(round.buf);
        let sequence = self.sequence + 1;
        format::put_record(&self.binding, sequence, changes, &self.table, to, plan.slots);
        self.send(plan);
        Event::None
    }

    fn send(&self, plan: &mut Plan<'_>) {
        if let Some(round) = &self.round {
            let at = self.binding.record_at(self.sequence + 1);
            let io = self.io(Op::Write, WRITE, at, RECORD, Bytes::of(round.buf));
            plan.io(Planned { flags: Flags::FUA, ..io });
        }
    }

    /// Handles the completion of the write of a record.
    fn written(&mut self, outcome: Outcome, plan: &mut Plan<'_>) -> Event {
        let Some(round) = &mut self.round else { return Event::None };
        if let Err(fault) = outcome {
            round.tries += 1;
            if round.tries < TRIES_MAX && fault == Fault::Media {
                self.send(plan);
                return Event::None;
            }
            plan.slots.free(round.buf);
            round.outcome = outcome;
            self.phase = Phase::Failed(fault);
            return self.end();
        }
        plan.slots.free(round.buf);
        (round.recorded, round.tries) = (round.begun, 0);
        self.sequence += 1;
        self.records += 1;
        self.go_on(plan)
    }

    /// Ends the round. It is unknown whether a record that failed is valid, so its places keep
    /// their state.
    fn end(&mut self) -> Event {
        let Some(round) = self.round.take() else { return Event::None };
        let Round { waiters, mut outcome, suspects, mut changes, recorded, begun, .. } = round;
        for (at, change) in changes.iter().enumerate() {
            if (recorded..begun).contains(&at) {
                continue;
            }
            self.states[change.place as usize] &= !UNDER_WAY;
            if at >= begun {
                self.note(change.place);
            }
        }
        changes.truncate(recorded);
        // An earlier failed flush, for which no request waited, may have lost data that these
        // requests wait for.
        let flash = self.flash;
        let concerns = |lane: Lane| waiters.iter().any(|&(_, disk)| disk == lane || lane == flash);
        self.untold.extend(&suspects);
        self.untold.retain(|&(lane, fault)| {
            if concerns(lane) {
                outcome = worst(outcome, Err(fault));
            }
            !concerns(lane)
        });
        let suspects = suspects.into_iter().map(|(lane, _)| lane).collect();
        let waiters = waiters.into_iter().map(|(client, _)| client).collect();
        Event::Ended(Ended { waiters, outcome, recorded: changes, suspects })
    }

    fn release_waiters(&mut self, outcome: Outcome, plan: &mut Plan<'_>) {
        for (client, _) in self.waiters.drain(..) {
            plan.release(client, outcome);
        }
    }

    fn io(&self, op: Op, step: u64, offset: u64, len: u32, bytes: Bytes) -> Planned {
        Planned {
            owner: Owner::Background,
            lane: self.flash,
            op,
            offset,
            len,
            bytes,
            stream: BACKGROUND,
            flags: Flags::NONE,
            token: self.token | step << STEP_BIT,
        }
    }
}
