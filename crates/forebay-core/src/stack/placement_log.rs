//! The table of a placement that has to be found after a restart: which place of the flash holds what the
//! disk does not have. A log in the flash's first bytes, as docs/placement-log.md describes it.
//!
//! A *place* is a piece of the flash that is given out as a whole; its *name* in the table is the block of
//! a disk whose newest content it holds (and which part of that block), or none. Whoever gives out the places is the log's owner. Data go
//! first, then the record that names them, then the answer:
//! * a *round* takes the places whose name has changed, flushes the flash and the disks concerned, and
//!   writes records of them with FUA, one after another; then whoever waited for it is answered;
//! * a change is one that was true when the round's flushes began: so content that a name refers to is
//!   durable before the name is, and so is what the disk has before a name is taken back;
//! * of a round, names are taken back before others are given: no block ever has two places;
//! * a place that a record names, or a record under way, is used for nothing else
//!   ([`PlacementLog::is_named`]): not before a record is durable that no longer does;
//! * a record that is refused is written again as it is, for it might be there; when that does not
//!   help either nothing becomes durable any more;
//! * one record at a time, each durable before the next begins: so on a flash that lost power all
//!   records are whole that count, but the last one under way;
//! * every record carries the next page of the table, so the ring of records is the table and
//!   opening it never depends on how long it was used.
//!
//! After a cut every place that was named durably is found again, and nothing else: a write that nobody
//! flushed may be found or not, sector by sector, as in any write cache; what a flush or FUA write covered
//! is found.
//!
//! * what a power cut may leave of a record is told from a record that was damaged, which is an error.
//!
//! The ring of records follows the array's (`stack/array/record`); here it is on one device.

mod format;
mod opening;

use crate::contract::bytes::{Buf, Bytes};
use crate::contract::outcome::{Fault, Outcome, worst};
use crate::contract::policy::{Gauge, GaugeOf};
use crate::contract::request::{BACKGROUND, Flags, Lane, Op, Request};
use crate::stack::cached::Bound;
use crate::stack::placed::{Owner, Plan, Planned};

pub(crate) use format::{Binding, Change, Name};
use format::{CHANGES_MAX, RECORD};
pub use format::{FlashLabel, LABEL_BYTES, LabelFound, VERSION, found_label, put_generation};
use opening::Opening;

/// How often a record that the flash refuses is written.
const TRIES_MAX: u32 = 4;

/// Steps of the log, in its I/Os' tokens above their lowest eight bits.
const STEP_BIT: u32 = 8;
const FLUSH: u64 = 0;
const WRITE: u64 = 1;
const OPEN: u64 = 2;

/// What a place's name should be, as its owner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// This name, whose block will be in its place once all devices are flushed.
    Name(Name),
    /// Ask again in the next round.
    Later,
}

/// What ties a flash to its disk, as whoever opens both knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pairing {
    /// Drawn when the flash was begun, and on both.
    pub pair: u128,
    /// The flash has at least the record of this number.
    pub newest: u64,
    /// Whether to accept a flash whose newest record is damaged, using the previous record.
    pub is_forced: bool,
}

/// The result of an I/O of the log.
#[derive(Debug)]
pub(crate) enum Event {
    /// Nothing yet.
    None,
    /// The table has been read, or could not be read.
    Opened(Outcome),
    /// A round is over.
    Ended(Ended),
}

/// What came of a round.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The requests that waited for it.
    pub(crate) waiters: Vec<u32>,
    /// The outcome for them.
    pub(crate) outcome: Outcome,
    /// The changes that are durable now.
    pub(crate) recorded: Vec<Change>,
    /// Lanes whose flush failed, so that writes since the previous flush may be lost.
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
    /// The number of changes that are durable, and the number after the current record.
    recorded: usize,
    begun: usize,
    /// That record.
    buf: Buf,
    tries: u32,
}

/// A place's name changes, or may.
const QUEUED: u8 = 1;
/// A round is about to change it.
const UNDER_WAY: u8 = 2;

/// The log.
#[derive(Clone, Debug)]
pub(crate) struct PlacementLog {
    binding: Binding,
    /// Whether to initialize a blank flash.
    formats: bool,
    /// A flash whose newest record is older than this one is refused.
    least: u64,
    /// Whether to accept a flash whose newest record is damaged.
    is_forced: bool,
    /// The lane of the flash.
    flash: Lane,
    /// The lowest bits of its I/Os' tokens.
    token: u64,
    phase: Phase,
    /// The last durable record.
    sequence: u64,
    /// The durable table, by place.
    table: Vec<Name>,
    /// Names in it.
    named: u64,
    states: Vec<u8>,
    queue: Vec<u32>,
    waiters: Vec<(u32, Lane)>,
    /// Requests from before the table was there.
    early: Vec<(u32, Request, Bytes)>,
    /// Disks whose flush failed while nobody waited for it.
    untold: Vec<(Lane, Fault)>,
    round: Option<Round>,
    records: u64,
}

impl PlacementLog {
    /// Of the places of a flash on lane `flash`; all its I/Os have `token` in the lowest eight bits. If
    /// `bound` says so, a blank flash is begun.
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

    /// Returns an empty, open log without reading or writing it.
    #[cfg(test)]
    pub(crate) fn open_empty(&mut self) {
        self.phase = Phase::Open;
    }

    /// Returns where places begin on the flash.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.binding.log_bytes()
    }

    /// Records written since it was opened.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// Returns its newest durable record, and how many places it names: 0 where the disk has
    /// everything.
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

    /// Returns the durable table: names by place.
    pub(crate) fn table(&self) -> impl Iterator<Item = (u32, Name)> {
        (0..).zip(self.table.iter().copied())
    }

    /// Returns whether a place may be used for nothing else.
    pub(crate) fn is_named(&self, place: u32) -> bool {
        let place = place as usize;
        self.table[place] != Name::NONE || self.states[place] & UNDER_WAY != 0
    }

    /// A place's name should be another from now on, or may be.
    pub(crate) fn note(&mut self, place: u32) {
        let state = &mut self.states[place as usize];
        if *state & QUEUED == 0 {
            *state |= QUEUED;
            self.queue.push(place);
        }
    }

    /// Returns whether a place has this name for good, and no change is in sight.
    pub(crate) fn is_settled(&self, place: u32, name: Name) -> bool {
        self.table[place as usize] == name && self.states[place as usize] == 0
    }

    /// Returns whether no name changes.
    pub(crate) fn is_quiet(&self) -> bool {
        self.queue.is_empty() && self.round.is_none() && matches!(self.phase, Phase::Open)
    }

    /// A client waits for the next round, with a disk flushed in it.
    pub(crate) fn wait(&mut self, client: u32, disk: Lane, plan: &mut Plan<'_>) {
        plan.hold(client);
        self.waiters.push((client, disk));
    }

    /// Returns whether a round is wanted.
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
        // The disk has the data of names that are removed.
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

    /// Collects the changes, beginning with names to remove.
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

    /// An I/O of the log has ended.
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

    /// A record is durable, or was refused.
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

    /// The round is over. Of a record that failed it is not known whether it counts: its places stay as they
    /// are.
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
        // A flush that failed before, for nobody, may have lost what these wait for.
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
