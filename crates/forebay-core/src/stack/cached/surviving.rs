//! A write-back cache that survives restarts: a log on the flash records the places of dirty blocks
//! (`stack/placement_log`).
//!
//! The log names a place as long as its data is not on the disk. A write is answered when it is on
//! the flash, as in any device with a write cache. A flush, or a write with FUA, is answered when
//! the log names its place too. A block that has been written to the disk keeps its place until a
//! durable record no longer names it (`Leaving::copied`), and is read from there; if it is written
//! again meanwhile, it stays. Clean blocks are not in the log and are read from the disk after a
//! restart.
//!
//! Requests that arrive before the table has been read wait for it. If the table cannot be read,
//! they are refused, and the next request triggers another attempt.

use std::collections::BTreeMap;

use super::{Cached, Held, KEY_BITS, LOG, Pending};
use crate::cache::Cache;
use crate::contract::{Bytes, Lane, Outcome, Request};
use crate::stack::placed::{Owner, Placement, Plan, Planned};
use crate::stack::placement_log::{Binding, Ended, Event, Name, Pairing, PlacementLog, Wish};

/// The purpose of the places, as stored in the label of the log.
const PURPOSE: u64 = u64::from_le_bytes(*b"cache\0\0\0");

/// The log, and the state for freeing places that it names.
#[derive(Clone, Debug)]
pub(super) struct Survival {
    pub(super) log: PlacementLog,
    /// The number of places that become free when no record names them.
    retired: u32,
}

/// The properties that bind a persistent cache to its flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// Distinguishes the flash from others of the same size; set by the user.
    pub id: u64,
    /// The pairing of the flash with its disk.
    pub pairing: Pairing,
    /// The capacity of each disk in bytes; 0 if unknown.
    pub disk_bytes: u64,
    /// Whether to initialize the log on a blank flash instead of refusing it.
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

    /// Makes a request wait if the table has not been read yet. Returns whether it must wait.
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

    /// Flushes a disk, the flash, and the log for a client.
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

    /// Handles the completion of a client's write with FUA: waits for a record in the log, unless
    /// the place is already recorded.
    pub(super) fn make_durable(&mut self, io: &Planned, disk: Lane, plan: &mut Plan<'_>) {
        let (Owner::Client(client), Some(survival)) = (io.owner, &self.survival) else { return };
        let is_durable = if io.lane == self.flash {
            let key = |at: u32| self.pending[at as usize].key;
            self.blocks_of(io).all(|at| survival.log.is_settled(at, Name::of(key(at))))
        } else {
            // The log names only cached blocks, and this write went to the disk, so all other
            // changes must be recorded.
            survival.log.is_quiet()
        };
        if !is_durable {
            self.flush(client, disk, plan);
        }
    }

    /// Records that a flash block contains data that is not on the disk.
    pub(super) fn note_dirty(&mut self, key: u64, at: u32) {
        if let Some(survival) = &mut self.survival
            && !survival.log.is_settled(at, Name::of(key))
        {
            survival.log.note(at);
        }
    }

    /// Returns whether a released flash block must wait until no record names it.
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

    /// Returns whether a leaving block, which is now on the disk, must keep its place because the
    /// log names it.
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

    /// Frees places that are only named in the log, because a place is needed.
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

    /// Returns the entry that the log should have for a flash block.
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

    /// Handles the completion of an I/O of the log.
    pub(super) fn log_done(&mut self, io: &Planned, outcome: Outcome, plan: &mut Plan<'_>) {
        let Some(survival) = &mut self.survival else { return };
        match survival.log.done(io, outcome, plan) {
            Event::None => {}
            Event::Opened(outcome) => self.log_opened(outcome, plan),
            Event::Ended(ended) => self.round_ended(ended, plan),
        }
    }

    /// Executes the requests that waited for the table, or refuses them if it cannot be read.
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

    /// Restores the dirty blocks named by the log.
    fn take_over(&mut self, named: &BTreeMap<u32, u64>, plan: &mut Plan<'_>) {
        let used = named.last_key_value().map_or(0, |(at, _)| at + 1);
        self.pending = vec![Pending::default(); used as usize];
        self.free = (0..used).rev().filter(|at| !named.contains_key(at)).collect();
        for (&at, &key) in named {
            self.pending[at as usize].key = key;
            self.hold(key, Held { at, dirty: true, ready: true, is_copy: false }, plan);
        }
    }

    /// Handles the end of a round of the log.
    fn round_ended(&mut self, ended: Ended, plan: &mut Plan<'_>) {
        for change in &ended.recorded {
            if change.name == Name::NONE {
                self.unnamed(change.place);
            }
            // The entry may have changed again during the round.
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

    /// Frees a place that no record names any longer, unless it is in use again.
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

    /// Writes blocks back again, because their disk may have lost writes since its last flush.
    fn doubt(&mut self, lane: Lane) {
        for leaving in self.leaving.iter_mut().filter(|leaving| leaving.copied) {
            if (leaving.key >> KEY_BITS) as Lane == lane {
                (leaving.begun, leaving.copied) = (false, false);
            }
        }
    }
}
