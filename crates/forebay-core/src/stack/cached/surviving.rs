//! A cache that writes back and is found after a restart: what is dirty is in a log on the flash
//! (`stack/placement_log`).
//!
//! A place is named in the log while the disk does not have what it holds. A write is answered when it
//! is on the flash, as in any device with a write cache; a flush, and a write with FUA, when the log names
//! its place too. A block that goes to the disk keeps its place until a record is durable that does not
//! name it any more (`Leaving::copied`), and is read from there; if it is written again meanwhile it
//! stays. Clean blocks are not in the log: after a restart they are read from the disk.
//!
//! Requests that come before the table is there wait for it; if it cannot be had they are refused, and the
//! next one has it tried again.

use std::collections::BTreeMap;

use super::{Cached, Held, KEY_BITS, LOG, Pending};
use crate::cache::Cache;
use crate::contract::bytes::Bytes;
use crate::contract::outcome::Outcome;
use crate::contract::request::{Lane, Request};
use crate::stack::placed::{Owner, Placement, Plan, Planned};
use crate::stack::placement_log::{Binding, Ended, Event, Name, Pairing, PlacementLog, Wish};

/// What the places of a cache are for, in a log's label.
const PURPOSE: u64 = u64::from_le_bytes(*b"cache\0\0\0");

/// The log, and the requests that wait for it.
#[derive(Clone, Debug)]
pub(super) struct Survival {
    pub(super) log: PlacementLog,
    /// Places that are free once no record names them.
    retired: u32,
}

/// Which flash a cache that survives restarts is bound to, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// Distinguishes the flash from others of the same size; set in the configuration.
    pub id: u64,
    /// What ties it to its disk.
    pub pairing: Pairing,
    /// Bytes of each disk; 0 if not known.
    pub disk_bytes: u64,
    /// Whether a blank flash is taken: its log is begun then.
    pub formats: bool,
}

impl<C: Cache> Cached<C> {
    /// Adds a log on the flash, so that dirty blocks survive a restart. Only for a write-back cache
    /// before its first request.
    pub fn surviving(mut self, bound: Bound) -> Cached<C> {
        let binding = Binding {
            purpose: PURPOSE,
            id: bound.id,
            pair: bound.pairing.pair,
            disks: self.flash,
            disk_bytes: bound.disk_bytes,
            place_bytes: self.block_bytes,
            places: self.blocks,
            part_bits: 0,
        };
        let log = PlacementLog::new(binding, bound, self.flash, LOG);
        self.places_at = log.log_bytes();
        self.survival = Some(Box::new(Survival { log, retired: 0 }));
        self
    }

    /// Returns the maximum number of frames that fit into `size_bytes` of flash together with their
    /// log.
    pub fn frames_beside_log(size_bytes: u64, block_bytes: u32) -> u32 {
        let places = Self::frames(size_bytes, block_bytes).saturating_add(super::SPARE_MAX);
        let log_bytes = Binding::log_bytes_of(places);
        Self::frames(size_bytes.saturating_sub(log_bytes), block_bytes)
    }

    /// Lets a request wait while the table is not there; answers whether it has to.
    pub(super) fn waits_for_log(
        &mut self,
        client: u32,
        request: &Request,
        bytes: Bytes,
        plan: &mut Plan<'_>,
    ) -> bool {
        let survival = self.survival.as_mut();
        survival.is_some_and(|it| it.log.defers(client, request, bytes, plan))
    }

    /// A client's flush: of its disk, of the flash, and of what names what is there.
    pub(super) fn flush(&mut self, client: u32, disk: Lane, plan: &mut Plan<'_>) {
        if let Some(survival) = &mut self.survival {
            survival.log.wait(client, disk, plan);
        }
        self.commit(plan);
    }

    /// Returns the disk whose data a client's I/O writes.
    pub(super) fn disk_of(&self, io: &Planned) -> Lane {
        if io.lane != self.flash || !io.op.moves_data() {
            return io.lane;
        }
        let at = self.blocks_of(io).start as usize;
        (self.pending[at].key >> KEY_BITS) as Lane
    }

    /// A client's write with FUA has been written: it waits for a record, unless there is one.
    pub(super) fn make_durable(&mut self, io: &Planned, disk: Lane, plan: &mut Plan<'_>) {
        let (Owner::Client(client), Some(survival)) = (io.owner, &self.survival) else { return };
        let is_durable = if io.lane == self.flash {
            let key = |at: u32| self.pending[at as usize].key;
            self.blocks_of(io).all(|at| survival.log.is_settled(at, Name::of(key(at))))
        } else {
            // Only cached blocks are named, and they have not been written to the disk.
            survival.log.is_quiet()
        };
        if !is_durable {
            self.flush(client, disk, plan);
        }
    }

    /// Records that a frame holds data that the disk does not have.
    pub(super) fn note_dirty(&mut self, key: u64, at: u32) {
        if let Some(survival) = &mut self.survival
            && !survival.log.is_settled(at, Name::of(key))
        {
            survival.log.note(at);
        }
    }

    /// Returns whether a released frame must wait until no record names it.
    pub(super) fn is_retired(&mut self, at: u32) -> bool {
        let Some(survival) = &mut self.survival else { return false };
        if !survival.log.is_named(at) {
            return false;
        }
        survival.retired += 1;
        survival.log.note(at);
        self.pending[at as usize].retired = true;
        true
    }

    /// Returns whether a leaving block, which the disk has now, keeps its place for the log's sake.
    pub(super) fn is_copied(&mut self, left: usize, plan: &mut Plan<'_>) -> bool {
        let Some(survival) = &mut self.survival else { return false };
        let leaving = &mut self.leaving[left];
        if !survival.log.is_named(leaving.held.at) {
            return false;
        }
        leaving.copied = true;
        survival.log.note(leaving.held.at);
        let copied = self.leaving.iter().filter(|leaving| leaving.copied).count();
        let spare = self.blocks - self.cache.capacity();
        if copied as u32 + survival.retired > spare / 4 {
            self.commit(plan);
        }
        true
    }

    /// A place is wanted: has those freed that only the log still names.
    pub(super) fn free_retired(&mut self, plan: &mut Plan<'_>) {
        let Some(survival) = &self.survival else { return };
        if survival.retired > 0 || self.leaving.iter().any(|leaving| leaving.copied) {
            self.commit(plan);
        }
    }

    /// Begins a round of the log, unless a round is in progress or there is nothing to record.
    fn commit(&mut self, plan: &mut Plan<'_>) {
        if let Some(mut survival) = self.survival.take() {
            survival.log.begin(plan, |at| self.wish(at));
            self.survival = Some(survival);
        }
    }

    /// Returns the entry that the log should have for a frame.
    fn wish(&self, at: u32) -> Wish {
        let key = self.pending[at as usize].key;
        let frame = self.cache.peek(key).filter(|frame| self.held[*frame as usize].at == at);
        let leaving = || self.leaving.iter().find(|leaving| leaving.held.at == at);
        let (held, copied) = match (frame, self.pending[at as usize].retired) {
            (_, true) => return Wish::Name(Name::NONE),
            (Some(frame), _) => (Some(self.held[frame as usize]), false),
            (None, _) => leaving().map_or((None, false), |it| (Some(it.held), it.copied)),
        };
        match held {
            Some(held) if held.dirty && !copied && !held.ready => Wish::Later,
            Some(held) if held.dirty && !copied => Wish::Name(Name::of(key)),
            _ => Wish::Name(Name::NONE),
        }
    }

    /// An I/O of the log has ended.
    pub(super) fn log_done(&mut self, io: &Planned, outcome: Outcome, plan: &mut Plan<'_>) {
        let Some(survival) = &mut self.survival else { return };
        match survival.log.done(io, outcome, plan) {
            Event::None => {}
            Event::Opened(outcome) => self.log_opened(outcome, plan),
            Event::Ended(ended) => self.round_ended(ended, plan),
        }
    }

    /// Called when the table has been read or cannot be read: executes the waiting requests, or
    /// refuses them.
    fn log_opened(&mut self, outcome: Outcome, plan: &mut Plan<'_>) {
        let Some(survival) = &mut self.survival else { return };
        let early = survival.log.deferred();
        let named = survival.log.table().filter_map(|(at, name)| Some((at, name.key()?)));
        let named: BTreeMap<u32, u64> = named.collect();
        if outcome.is_ok() {
            self.take_over(&named, plan);
        }
        for (client, request, bytes) in early {
            if outcome.is_ok() {
                self.place(client, &request, bytes, plan);
            }
            plan.release(client, outcome);
        }
    }

    /// Restores the dirty blocks.
    fn take_over(&mut self, named: &BTreeMap<u32, u64>, plan: &mut Plan<'_>) {
        let used = named.last_key_value().map_or(0, |(at, _)| at + 1);
        self.pending = vec![Pending::default(); used as usize];
        self.free = (0..used).rev().filter(|at| !named.contains_key(at)).collect();
        for (&at, &key) in named {
            self.pending[at as usize].key = key;
            self.hold(key, Held { at, dirty: true, ready: true, is_copy: false }, plan);
        }
    }

    /// A round is over.
    fn round_ended(&mut self, ended: Ended, plan: &mut Plan<'_>) {
        for change in &ended.recorded {
            if change.name == Name::NONE {
                self.unnamed(change.place);
            }
            // It may have changed again.
            let wish = self.wish(change.place);
            if let Some(survival) = &mut self.survival
                && wish != Wish::Name(change.name)
            {
                survival.log.note(change.place);
            }
        }
        for lane in ended.suspects {
            self.doubt(lane);
        }
        for client in ended.waiters {
            plan.release(client, ended.outcome);
        }
        if self.survival.as_ref().is_some_and(|survival| survival.log.is_awaited()) {
            self.commit(plan);
        }
    }

    /// No record names a place any more: it is free, unless it is held again.
    fn unnamed(&mut self, at: u32) {
        let pending = &mut self.pending[at as usize];
        let left = self.leaving.iter().position(|it| it.held.at == at && it.copied);
        if std::mem::replace(&mut pending.retired, false) {
            if let Some(survival) = &mut self.survival {
                survival.retired -= 1;
            }
        } else if let Some(left) = left {
            self.leaving.swap_remove(left);
        } else {
            return;
        }
        self.release(at);
    }

    /// A disk may have lost writes since its last flush, so they are written back again.
    fn doubt(&mut self, lane: Lane) {
        for leaving in self.leaving.iter_mut().filter(|leaving| leaving.copied) {
            if (leaving.key >> KEY_BITS) as Lane == lane {
                (leaving.begun, leaving.copied) = (false, false);
            }
        }
    }
}
